/* What the host knows of the kinds that its controller names: their resource at the API server (from
 * discovery, remembered), and their table in the object cache. One per loaded controller; one thread. */
#pragma once
#include "cache.h"
#include "config.h"
#include "kube.h"

struct kinds;
struct kinds *kinds_new(const struct config_controller *c, struct http_client *http,
			const char *region_dir); /* borrows all three */
void kinds_free(struct kinds *k);

/* A watch of a declared kind that covers the namespace (empty: any), whole objects before metadata only.
 * -ENOENT: no such kind; -EPERM: not for this namespace. */
int kinds_find(const struct kinds *k, struct span api_version, struct span kind, struct span namespace,
	       size_t *ret_watch);
const struct config_kind *kinds_watch(const struct kinds *k, size_t watch);
/* The server does not know the resource as it was discovered: the next call asks again. */
void kinds_forget(struct kinds *k, size_t watch);
/* Asks discovery once for each. Errors as kube_discover. */
int kinds_resource(struct kinds *k, size_t watch, const struct kube_resource **ret, struct err *err);

/* -EAGAIN: the cache is not there yet, or this table's first list is not complete; err says which. Opens the
 * cache when it is not open. */
int kinds_table(struct kinds *k, size_t watch, struct cache **ret_cache, uint32_t *ret_table,
		struct err *err);
/* The table of this watch, complete or not. -EAGAIN: the watcher has none, or there is no cache. */
int kinds_table_id(struct kinds *k, size_t watch, uint32_t *ret_table);
/* Is every table that a request needs complete? -EAGAIN as above. */
int kinds_ready(struct kinds *k, struct err *err);
/* After -ESTALE or -EPROTO from the cache: the next call opens it anew. */
void kinds_close_cache(struct kinds *k);

/* cache_get with the cache opened anew once if it was replaced. */
int kinds_get(struct kinds *k, size_t watch, struct span namespace, struct span name, struct buf *out,
	      struct err *err);
/* cache_walk; -EAGAIN when the cache was replaced under it. -ENODATA as of kinds_get. */
int kinds_walk(struct kinds *k, size_t watch, struct span owner_uid,
	       int (*on_object)(void *ctx, struct span namespace, struct span name, struct span object),
	       void *ctx, struct err *err);
