/* Paths into objects, as the controller file writes them: spec.tls[*].secretName,
 * metadata.annotations['a.b/c']. Pure. */
#pragma once
#include "json_scan.h"

enum { PATH_STEPS_MAX = 64 };

struct path {
	struct path_step {
		char *key; /* NULL: every element of a list */
	} * steps;
	size_t count;
};

/* -EINVAL: err says what is wrong at which character. */
int path_parse(const char *text, struct path *ret, struct err *err);
void path_done(struct path *p);
/* As path_parse reads it, and the same text for the same path however it was written. */
void path_print(const struct path *p, struct buf *out);
/* Every value at b lies at a or below. */
bool path_covers(const struct path *a, const struct path *b);

/* Calls on_value for each value at the path; a member that is absent or null has none. Non-zero from it ends
 * the walk and is returned. */
int path_each(const struct path *p, struct span value, int (*on_value)(void *ctx, struct span value),
	      void *ctx);
