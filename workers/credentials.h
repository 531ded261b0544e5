/* What a reconciler with `credentials: kubeconfig` is shown of the worker's credentials, and told of them.
 *
 * Shown, read-only and at their own paths: the kubeconfig's files and each file that they name, one by one, for
 * nothing else in their folders is the program's; of a file that is a link, as kubelet makes them, its folder, so that
 * what it leads to next is seen, too. Told: KUBECONFIG, or in a cluster KUBERNETES_SERVICE_HOST and _PORT. */
#pragma once
#include "kubeconfig.h"
#include <sys/stat.h>

struct credentials {
	char **paths;	   /* NULL-terminated; NULL: nothing is shown */
	char **env;	   /* "NAME=value" */
	struct stat *seen; /* of each path, by credentials_note */
};

/* k NULL: `credentials: none`. */
void credentials_init(struct credentials *c, const struct kubeconfig *k);
void credentials_done(struct credentials *c);
/* A jail is started now; has one of the files been replaced since by another? The jail goes on showing the old
 * one. */
void credentials_note(struct credentials *c);
bool credentials_replaced(const struct credentials *c);
