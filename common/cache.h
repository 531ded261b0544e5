/* Reading the object cache that the watcher keeps in shared memory: without locks, from any of our processes.
 *
 * Everything read is copied out before it is used; a reader checks bounds, copies, and checks the slot's
 * sequence again, a bounded number of times. -EAGAIN means "not now": the slot was being written each time,
 * or its writer died in the middle. Layout: shm_cache.h. One thread per handle. */
#pragma once
#include "buf.h"
#include "config.h"

struct cache;

/* -ENOENT: no cache yet (the watcher has not started); -EPROTO: another version. */
int cache_open(const char *region_dir, struct cache **ret, struct err *err);
void cache_close(struct cache *c);

/* The table of one watch, found by config_table_name(). -ENOENT: the watcher has none such (yet). Ids are
 * valid as long as the cache's incarnation; -ESTALE from the calls below means: open again. */
int cache_table(struct cache *c, const char *table_name, uint32_t *ret_table);
/* True once the first list is complete (and again after a watcher's restart while the old contents are being
 * compared). */
bool cache_table_synced(struct cache *c, uint32_t table);

/* Appends the object as it came from the server (without what the configuration cuts). -ENOENT, -EAGAIN; -ENODATA: the cache
 * had no room for more than its metadata, and will have it whole when there is. -EPROTO: it is damaged.
 * namespace: empty for cluster scope. */
int cache_get(struct cache *c, uint32_t table, struct span namespace, struct span name, struct buf *out,
	      struct err *err);
/* Calls on_object for each object of the table that has an owner reference with this uid (owner non-empty),
 * or each at all (empty). object is valid during the call; a non-zero return ends the walk with it. An object
 * that changes meanwhile is seen old or new. The same errors as above, but -ENOENT: they end the walk. on_object must not call into this handle. */
int cache_walk(struct cache *c, uint32_t table, struct span owner_uid,
	       int (*on_object)(void *ctx, struct span namespace, struct span name, struct span object),
	       void *ctx, struct err *err);
