/* What `reconcilectl wait --for` waits for: parsed once, asked of each answer. Pure.
 *
 *   condition=TYPE[=STATUS]   status.conditions has TYPE with this status (default True)
 *   PATH=VALUE                the scalar at the path is VALUE
 *   PATH                      there is something at the path
 *   delete                    the object is gone
 *
 * A path is dotted; [N] is an item of a list, [*] any of them, ['a.b/c'] a key with odd characters. */
#pragma once
#include "buf.h"

enum wanted_type { WANTED_DELETE, WANTED_CONDITION, WANTED_PATH };
struct wanted {
	enum wanted_type type;
	char *path;  /* CONDITION: the type */
	char *value; /* NULL: anything; CONDITION: the status */
};
int wanted_parse(const char *text, struct wanted *ret, struct err *err);
void wanted_done(struct wanted *w);
/* object absent: it does not exist. 1: it holds; 0: not yet. seen: what is there, for a person. */
int wanted_holds(const struct wanted *w, struct span object, struct buf *ret_seen);

/* "apps/v1/Deployment", "v1/ConfigMap", "Deployment.v1.apps", "ConfigMap.v1" to API version and kind, owned
 * by the caller. */
int wanted_kind_parse(const char *text, char **ret_api_version, char **ret_kind, struct err *err);
