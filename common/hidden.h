/* What a jail hides of the host beside what it always hides: our own folders, and the files that give access to the API server.
 * docs/reconciler-protocol.md, "What the program sees". */
#pragma once
#include "config.h"
#include "kubeconfig.h"
#include "program.h"

enum { HIDDEN_MAX = 47 };
struct hidden {
	const char *at[HIDDEN_MAX + 1]; /* NULL-terminated, for jail_options.hidden */
	char *owned[HIDDEN_MAX];
	size_t count;
};
/* shown: what the host shows of its own, NULL-terminated or NULL. What is not there needs no mask; what is shown by name stays
 * shown: who wrote that decided so. -EINVAL: a secret lies where the program may look. */
int hidden_find(struct hidden *ret, const struct config_controller *c, const struct program *p,
		const struct kubeconfig *k, char **shown, struct err *err);
void hidden_done(struct hidden *h);
