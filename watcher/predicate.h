/* Does this event of an object concern the controller? Pure. Predicates filter keys, never the cache.
 *
 * Semantics are controller-runtime's: the four "...Changed" and Field.changed look at updates only and let
 * creates and deletes pass; LabelSelector and the other Field operators look at the new object of an update
 * and at the one object of a create or delete; `not` turns all three around. A program is asked only when what is built in
 * does not decide. */
#pragma once
#include "config.h"
#include "object.h"
#include "path.h"

enum event_type { EVENT_CREATE, EVENT_UPDATE, EVENT_DELETE };

struct predicate {
	enum config_predicate_type type;
	const struct config_predicate *config; /* NULL for the default ones */
	struct predicate *children;
	size_t count;
	struct path path;
	unsigned program;  /* PROGRAM: its number among the tree's */
	unsigned programs; /* of the top: how many there are */
};

/* Keeps pointers into c, which must outlive it. -EINVAL: a path or selector is wrong. */
int predicate_init(struct predicate *p, const struct config_predicate *c, struct err *err);
/* For a watch that names none. */
void predicate_init_default(struct predicate *p, bool custom_primary);
void predicate_done(struct predicate *p);

/* The programs of a tree, by their numbers. */
const struct config_program *predicate_program(const struct predicate *p, unsigned number);

/* What programs have answered, a bit for each. */
struct predicate_answers {
	uint32_t known, pass;
};
enum verdict { VERDICT_NO, VERDICT_YES, VERDICT_ASK };
/* before: NULL for a create; after: NULL for a delete. answers: NULL for a tree without programs. ASK: that depends on the
 * program *ret_program. */
enum verdict predicate_judge(const struct predicate *p, const struct object *before,
			     const struct object *after, const struct predicate_answers *answers,
			     unsigned *ret_program);
/* Of a tree without programs. */
bool predicate_passes(const struct predicate *p, const struct object *before, const struct object *after);
/* Does the create of any object pass? False where it depends on the object, or is not easily told. */
bool predicate_passes_creates(const struct predicate *p);
