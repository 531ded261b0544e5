#include "kinds.h"

struct kind {
	struct kube_resource resource;
	bool resolved;
	char *table_name;
	uint32_t table;
	bool has_table;
};

struct kinds {
	const struct config_controller *controller;
	struct http_client *http;
	const char *region_dir;
	struct cache *cache;
	struct kind *of; /* one per watch */
};

struct kinds *kinds_new(const struct config_controller *c, struct http_client *http, const char *region_dir)
{
	struct kinds *k = xcalloc(1, sizeof(*k));
	*k = (struct kinds){c, http, region_dir, NULL, xcalloc(c->watch_count, sizeof(*k->of))};
	for (size_t i = 0; i < c->watch_count; i++)
		k->of[i].table_name = config_table_name(&c->watches[i].kind);
	return k;
}

void kinds_free(struct kinds *k)
{
	if (!k)
		return;
	kinds_close_cache(k);
	for (size_t i = 0; i < k->controller->watch_count; i++)
		free(k->of[i].table_name);
	free(k->of);
	free(k);
}

static bool covers(const struct config_kind *k, struct span namespace)
{
	if (!namespace.len || !k->namespaces)
		return true;
	for (char **n = k->namespaces; *n; n++)
		if (span_is(namespace, *n))
			return true;
	return false;
}

int kinds_find(const struct kinds *k, struct span api_version, struct span kind, struct span namespace,
	       size_t *ret_watch)
{
	const struct config_controller *c = k->controller;
	int r = -ENOENT;
	for (size_t i = 0; i < c->watch_count; i++) {
		const struct config_kind *w = &c->watches[i].kind;
		if (!span_is(api_version, w->api_version) || !span_is(kind, w->kind))
			continue;
		if (!covers(w, namespace)) {
			r = r == 0 ? 0 : -EPERM;
			continue;
		}
		if (r != 0 || !w->metadata_only)
			*ret_watch = i;
		r = 0;
		if (!w->metadata_only)
			break;
	}
	return r;
}

const struct config_kind *kinds_watch(const struct kinds *k, size_t watch)
{
	return &k->controller->watches[watch].kind;
}

void kinds_forget(struct kinds *k, size_t watch)
{
	k->of[watch].resolved = false;
}

int kinds_resource(struct kinds *k, size_t watch, const struct kube_resource **ret, struct err *err)
{
	struct kind *e = &k->of[watch];
	const struct config_kind *kind = &k->controller->watches[watch].kind;
	if (!e->resolved) {
		int r = kube_discover(k->http, kind->api_version, kind->kind, &e->resource, err);
		if (r < 0)
			return r;
		e->resolved = true;
	}
	*ret = &e->resource;
	return 0;
}

void kinds_close_cache(struct kinds *k)
{
	cache_close(k->cache);
	k->cache = NULL;
	for (size_t i = 0; i < k->controller->watch_count; i++)
		k->of[i].has_table = false;
}

int kinds_table(struct kinds *k, size_t watch, struct cache **ret_cache, uint32_t *ret_table, struct err *err)
{
	struct kind *e = &k->of[watch];
	struct err why = {0};
	if (!k->cache && cache_open(k->region_dir, &k->cache, &why) < 0)
		return err_set(err, -EAGAIN, "the object cache in %s cannot be read yet: %s", k->region_dir,
			       why.text);
	if (!e->has_table) {
		int r = cache_table(k->cache, e->table_name, &e->table);
		if (r == -ESTALE)
			kinds_close_cache(k);
		if (r < 0)
			return err_set(err, -EAGAIN, "the watcher does not watch %s yet", e->table_name);
		e->has_table = true;
	}
	if (!cache_table_synced(k->cache, e->table)) {
		/* Looked up anew the next time: a replaced cache has other tables. */
		kinds_close_cache(k);
		return err_set(err, -EAGAIN, "the first list of %s is not complete", e->table_name);
	}
	*ret_cache = k->cache;
	*ret_table = e->table;
	return 0;
}

int kinds_table_id(struct kinds *k, size_t watch, uint32_t *ret_table)
{
	struct cache *cache;
	if (kinds_table(k, watch, &cache, ret_table, NULL) == 0)
		return 0;
	if (!k->cache && cache_open(k->region_dir, &k->cache, NULL) < 0)
		return -EAGAIN;
	return cache_table(k->cache, k->of[watch].table_name, ret_table) < 0 ? -EAGAIN : 0;
}

int kinds_ready(struct kinds *k, struct err *err)
{
	const struct config_controller *c = k->controller;
	struct cache *cache;
	uint32_t table;
	for (size_t i = 0; i < c->watch_count; i++) {
		bool needed =
		    i == 0 || (c->watches[i].is_owns ? c->input_children || c->prune
						     : c->input_related && c->watches[i].map != MAP_PROGRAM);
		int r = needed ? kinds_table(k, i, &cache, &table, err) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* A cache that its writer made anew since it was opened is opened again once. */
static bool stale(struct kinds *k, int r, int attempt)
{
	if (r != -ESTALE && r != -EPROTO)
		return false;
	kinds_close_cache(k);
	return attempt == 0;
}

int kinds_get(struct kinds *k, size_t watch, struct span namespace, struct span name, struct buf *out,
	      struct err *err)
{
	for (int attempt = 0;; attempt++) {
		struct cache *cache = NULL;
		uint32_t table = 0;
		int r = kinds_table(k, watch, &cache, &table, err);
		if (r < 0)
			return r;
		r = cache_get(cache, table, namespace, name, out, err);
		if (!stale(k, r, attempt))
			return r == -ESTALE ? -EAGAIN : r;
	}
}

int kinds_walk(struct kinds *k, size_t watch, struct span owner_uid,
	       int (*on_object)(void *ctx, struct span namespace, struct span name, struct span object),
	       void *ctx, struct err *err)
{
	struct cache *cache = NULL;
	uint32_t table = 0;
	int r = kinds_table(k, watch, &cache, &table, err);
	if (r < 0)
		return r;
	r = cache_walk(cache, table, owner_uid, on_object, ctx, err);
	if (r != -ESTALE && r != -EPROTO)
		return r;
	/* A walk that has begun cannot be begun again under its caller. */
	kinds_close_cache(k);
	return err_set(err, -EAGAIN, "the object cache was replaced while it was read");
}
