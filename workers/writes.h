/* What an attempt wrote, for DONE: the broker holds the key until the watch shows it, and tells the attempt's own events by it. Pure. */
#pragma once
#include "config.h"
#include "wire.h"

enum { WRITES_MAX = 64 }; /* of one DONE, see wire.def */

struct writes {
	struct wire_write *at; /* in the order in which they were made */
	size_t count, room;
};
void writes_add(struct writes *s, struct wire_write w);
void writes_done(struct writes *s); /* empty again */
/* What DONE carries: all, or of more than WRITES_MAX the highest of each stream and then the last ones. What is left out counts as somebody
 * else's. */
size_t writes_pick(const struct writes *s, struct wire_write out[WRITES_MAX]);

/* Did the write take away the last finalizer of an object that was being deleted? Then what comes is its deletion. */
bool writes_is_delete(struct span object);
/* Which stream of a watch shows objects in this namespace: its place among the watch's namespaces, 0 when it has none or the kind is
 * cluster-scoped. -ENOENT: none does. */
int writes_stream(const struct config_kind *k, bool namespaced, struct span namespace);
/* Do the watch's selectors let the object (checked JSON) pass? A field selector is read as paths into the object, as Kubernetes' are. */
bool writes_selected(const struct config_kind *k, struct span object);
