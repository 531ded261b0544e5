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

/* Calls on_value for each value at the path; a member that is absent or null has none. Non-zero from it ends
 * the walk and is returned. */
int path_each(const struct path *p, struct span value, int (*on_value)(void *ctx, struct span value),
	      void *ctx);
