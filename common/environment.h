/* The environment of a reconciler: nothing of ours, PATH, HOME, TMPDIR, LANG, PYTHONUNBUFFERED, RECONCILE_*,
 * with `credentials: kubeconfig` what says where they are, then the controller's own, of which later ones win. Pure. */
#pragma once
#include "config.h"

struct environment {
	char **at; /* NULL-terminated "NAME=value", each name once */
	size_t count;
};

struct environment_key { /* what an exec attempt is told beside its request */
	struct span namespace, name, uid;
	uint32_t attempt;
	int64_t deadline_unix_s;
};

/* key NULL: a coprocess, which outlives its requests. given: what the host adds, NULL-terminated or NULL. */
void environment_build(struct environment *e, const struct config_controller *c,
		       const struct environment_key *key, char *const *given);
/* The value in it, or NULL. */
const char *environment_get(const struct environment *e, const char *name);
void environment_done(struct environment *e);
