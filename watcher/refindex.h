/* Which `for` objects name an object in a field: value at a path -> slots of the objects that have it.
 * Private to the watcher; built anew at its start. Pure. */
#pragma once
#include "object.h"
#include "path.h"

struct refindex;
struct refindex *refindex_new(const char *path, struct err *err); /* NULL: the path is wrong */
void refindex_free(struct refindex *r);
const char *refindex_path(const struct refindex *r);
/* The values are "name" (in the object's namespace) or "namespace/name"; others are ignored. Replaces what
 * the slot had before. */
void refindex_put(struct refindex *r, uint32_t slot, const struct object *o);
void refindex_remove(struct refindex *r, uint32_t slot);
/* Calls on_slot for each object that names this one (namespace empty: cluster-scoped); a collision of 64-bit
 * hashes may add one. */
void refindex_each(const struct refindex *r, struct span namespace, struct span name,
		   void (*on_slot)(void *ctx, uint32_t slot), void *ctx);
