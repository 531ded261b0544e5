/* Which kinds there are: the built-in table (kinds.def) and what custom resource definitions add. The store's
 * lock is held unless a comment says not. */
#pragma once
#include "storage.h"

void kinds_add_builtin(struct storage *s);

struct definition *definition_new(void);
struct definition *definition_ref(struct definition *d); /* any thread */
void definition_unref(struct definition *d);		 /* any thread */

/* The kind that has this group and plural, served or not; NULL. */
struct kind *kinds_find(struct storage *s, struct span group, struct span plural);
/* Gives kind a new definition (takes the reference) and serves it. */
void kinds_define(struct storage *s, struct kind *kind, struct definition *def);
/* Ends serving: watches of it end. */
void kinds_withdraw(struct storage *s, struct kind *kind);

/* A served kind by the path's words; false if there is none. view_done. */
bool view_find(struct storage *s, struct span group, struct span version, struct span plural,
	       struct view *ret);
/* By the words of an object or reference; version absent: the stored one. */
bool view_find_kind(struct storage *s, struct span group, struct span version, struct span kind,
		    struct view *ret);
/* Of the stored version. */
struct view view_of_kind(struct kind *kind);
void view_done(struct view *v); /* any thread */
bool view_has_status(const struct view *v);
bool view_has_generation(const struct view *v);

enum { API_VERSION_MAX = NAME_MAX_LEN + 1 + 64 };
/* "v1", "apps/v1". Any thread. */
const char *view_api_version(const struct view *v, char buf[API_VERSION_MAX]);
/* Splits "apps/v1" or "v1"; false if it is neither. */
bool api_version_split(struct span text, struct span *ret_group, struct span *ret_version);
