/* From the configuration to what runs: controllers, their watches, and one informer for all equal watches. */
#include "log.h"
#include "watcher.h"
#include <stdio.h>

static struct informer *find_informer(struct watcher *w, const char *name)
{
	for (size_t i = 0; i < w->n_informers; i++)
		if (!strcmp(w->informers[i]->name, name))
			return w->informers[i];
	return NULL;
}

static void informer_free(struct informer *i)
{
	for (size_t n = 0; n < i->n_streams; n++)
		stream_done(&i->streams[n]);
	for (size_t n = 0; n < i->n_references; n++)
		refindex_free(i->references[n]);
	projection_free(i->projection);
	free(i->references);
	free(i->streams);
	free(i->subs);
	free(i->name);
	free(i);
}

static int informer_new(struct watcher *w, const char *name, const struct config_kind *kind,
			struct informer **ret, struct err *err)
{
	uint32_t table;
	int rc = store_table(w->store, name, kind->api_version, kind->kind, &table, err);
	if (rc < 0)
		return rc;
	struct informer *i = xcalloc(1, sizeof *i);
	*i = (struct informer){
	    .watcher = w, .name = xstrdup(name), .kind = kind, .table = table, .strip_managed_fields = true};
	if (kind->fields)
		i->projection = projection_new(kind->fields);
	snprintf(i->topic, sizeof i->topic, "watch %s", name);
	for (char **n = kind->namespaces; n && *n; n++)
		i->n_streams++;
	i->n_streams = MAX(i->n_streams, 1u);
	i->streams = xcalloc(i->n_streams, sizeof *i->streams);
	w->informers = xrealloc(w->informers, (w->n_informers + 1) * sizeof(void *));
	w->informers[w->n_informers++] = i;
	*ret = i;
	return 0;
}

/* Namespaces live in the configuration, which may be another one than before: the same names by the name of
 * the table. */
static void point_streams(struct informer *i, bool is_new)
{
	for (size_t n = 0; n < i->n_streams; n++) {
		struct span namespace =
		    i->kind->namespaces ? span_of(i->kind->namespaces[n]) : (struct span){0};
		if (is_new)
			stream_init(&i->streams[n], i, namespace);
		else
			i->streams[n].namespace = namespace;
	}
}

static int use_informer(struct watcher *w, const struct config_controller *c, const struct config_kind *kind,
			struct informer **ret, struct err *err)
{
	_cleanup_(free_ptr) char *name = config_table_name(kind);
	struct informer *i = find_informer(w, name);
	bool is_new = !i;
	int rc = i ? 0 : informer_new(w, name, kind, &i, err);
	if (rc < 0)
		return rc;
	if (!i->used) {
		i->used = true;
		i->kind = kind;
		i->strip_managed_fields = true;
		point_streams(i, is_new);
	}
	i->strip_managed_fields = i->strip_managed_fields && c->strip_managed_fields;
	*ret = i;
	return 0;
}

static struct refindex *use_references(struct informer *primary, const char *path, struct err *err)
{
	for (size_t n = 0; n < primary->n_references; n++)
		if (!strcmp(refindex_path(primary->references[n]), path))
			return primary->references[n];
	struct refindex *r = refindex_new(path, err);
	if (!r)
		return NULL;
	primary->references = xrealloc(primary->references, (primary->n_references + 1) * sizeof(void *));
	primary->references[primary->n_references++] = r;
	return r;
}

/* ---- controllers ---- */

static void controller_done(struct controller *c)
{
	for (size_t i = 0; i < c->n_subs; i++) {
		predicate_done(&c->subs[i].predicate);
		mapping_done(&c->subs[i].mapping);
	}
	free(c->subs);
	*c = (struct controller){0};
}

static int sub_init(struct sub *s, struct controller *c, const struct config_watch *watch, struct err *err)
{
	*s = (struct sub){.controller = c,
			  .watch = watch,
			  .default_predicate = !watch->predicates_given,
			  .first_asker = c->n_askers};
	mapping_init(&s->mapping, watch, &c->config->watches[0].kind);
	snprintf(s->cause_kind, sizeof s->cause_kind, "%s.%s", watch->kind.kind, watch->kind.api_version);
	int rc = use_informer(c->watcher, c->config, &watch->kind, &s->informer, err);
	if (rc < 0)
		return rc;
	s->primary = c->subs[0].informer;
	if (watch->map == MAP_INDEX) {
		s->references = use_references(s->primary, watch->map_key, err);
		if (!s->references)
			return -EINVAL;
	}
	c->n_askers += watch->map == MAP_PROGRAM;
	if (!s->default_predicate) {
		rc = predicate_init(&s->predicate, &watch->predicates, err);
		c->n_askers += s->predicate.programs;
		return rc;
	}
	bool custom = store_table_entry(c->watcher->store, s->informer->table)->custom;
	predicate_init_default(&s->predicate, watch->map == MAP_SELF && custom);
	return 0;
}

static int controller_init(struct controller *c, struct watcher *w, const struct config_controller *config,
			   struct err *err)
{
	*c = (struct controller){.watcher = w, .config = config};
	c->shared = store_controller(w->store, config->name, &c->index);
	if (!c->shared)
		return err_set(err, -ENOSPC, "more than %d controllers", CACHE_CONTROLLERS);
	c->subs = xcalloc(config->watch_count, sizeof *c->subs);
	int rc = 0;
	for (; rc == 0 && c->n_subs < config->watch_count; c->n_subs++)
		rc = sub_init(&c->subs[c->n_subs], c, &config->watches[c->n_subs], err);
	return rc;
}

/* A changed file is another reconciler, for which every object is news; also when it changed while no watcher
 * ran. */
static void compare_digest(struct controller *c)
{
	uint64_t h = hash_bytes(c->config->digest, strlen(c->config->digest), HASH_SEED);
	uint32_t folded = (uint32_t)(h ^ h >> 32);
	if (c->shared->digest == folded)
		return;
	controller_want_sweep(c, WIRE_CAUSE_SWEEP);
	c->shared->digest = folded;
}

static void link_subs(struct controller *c)
{
	for (size_t n = 0; n < c->n_subs; n++) {
		struct informer *i = c->subs[n].informer;
		i->subs = xrealloc(i->subs, (i->n_subs + 1) * sizeof(void *));
		i->subs[i->n_subs++] = &c->subs[n];
	}
}

/* ---- the change ---- */

static struct controller *find_controller(struct controller *all, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(all[i].config->name, name))
			return &all[i];
	return NULL;
}

static bool keep_table(void *ctx, uint32_t table)
{
	const struct watcher *w = ctx;
	for (size_t i = 0; i < w->n_informers; i++)
		if (w->informers[i]->table == table)
			return true;
	return false;
}

static bool keep_controller(void *ctx, const char *name)
{
	const struct watcher *w = ctx;
	return find_controller(w->controllers, w->n_controllers, name);
}

static bool keep_report(void *ctx, const char *name, const char *topic)
{
	const struct watcher *w = ctx;
	const struct controller *c = find_controller(w->controllers, w->n_controllers, name);
	if (!strcmp(topic, "watcher"))
		return config_find(&w->config, name);
	for (size_t i = 0; c && i < c->n_subs; i++)
		if (!strcmp(c->subs[i].informer->topic, topic))
			return true;
	for (size_t i = 0; c && i < c->n_askers; i++)
		if (!strcmp(asker_topic(c->askers[i]), topic))
			return true;
	return false;
}

static bool is_configured(void *ctx, const char *name)
{
	const struct watcher *w = ctx;
	return config_find(&w->config, name);
}

/* Rows and outboxes of all others are free for another controller. */
static void drop_controllers(struct watcher *w, bool (*keep)(void *ctx, const char *name))
{
	const struct cache_controller *all = store_controllers(w->store);
	for (unsigned i = 0; i < CACHE_CONTROLLERS; i++)
		if (!*all[i].name || !keep(w, all[i].name))
			outbox_drop(w->outbox, (uint8_t)i);
	store_controllers_keep(w->store, keep, w);
}

static void unlink_all(struct watcher *w)
{
	for (size_t i = 0; i < w->n_informers; i++) {
		struct informer *f = w->informers[i];
		f->used = false;
		f->n_subs = 0;
		for (size_t n = 0; n < f->n_references; n++)
			refindex_free(f->references[n]);
		f->n_references = 0;
	}
}

static void drop_unused(struct watcher *w)
{
	size_t kept = 0;
	for (size_t i = 0; i < w->n_informers; i++) {
		if (w->informers[i]->used) {
			w->informers[kept++] = w->informers[i];
			continue;
		}
		log_info("watch stopped", LOG_S("table", w->informers[i]->name));
		informer_free(w->informers[i]);
	}
	w->n_informers = kept;
}

/* Batches on their way belong to the controller of that name, whatever became of it. */
static void keep_sweep(struct controller *c, const struct controller *old)
{
	if (!old) {
		c->sweep.lost = atomic_load(&c->shared->sweep) & CACHE_SWEEP_UNMAPPED;
		return;
	}
	c->sweep.in_flight = old->sweep.in_flight;
	c->sweep.telling = old->sweep.telling;
	c->sweep.cause = old->sweep.cause;
	c->sweep.again =
	    (old->sweep.active && old->sweep.as_creates && !old->sweep.paced) || old->sweep.again;
	c->sweep.again_paced = (old->sweep.active && old->sweep.paced) || old->sweep.again_paced;
	c->sweep.lost = old->sweep.lost || (old->sweep.active && old->sweep.unfiltered);
	c->sweep.lost_due_ns = old->sweep.lost_due_ns;
	c->retry_at_ns = old->retry_at_ns;
	c->retry_delay_ns = old->retry_delay_ns;
	c->storm = old->storm;
	c->storm_warned_ns = old->storm_warned_ns;
}

void plan_apply(struct watcher *w, struct config *config)
{
	struct controller *old = w->controllers;
	size_t n_old = w->n_controllers;
	struct config old_config = w->config;
	bool *stripped = xcalloc(w->n_informers + 1, sizeof *stripped);
	size_t n_before = w->n_informers;
	for (size_t i = 0; i < n_before; i++)
		stripped[i] = w->informers[i]->strip_managed_fields;

	w->config = *config;
	unlink_all(w);
	drop_controllers(w, is_configured);
	w->controllers = xcalloc(MAX(config->count, (size_t)1), sizeof *w->controllers);
	w->n_controllers = 0;
	for (size_t i = 0; i < config->count; i++) {
		struct controller *c = &w->controllers[w->n_controllers];
		const char *name = config->controllers[i].name;
		struct err err = {0};
		if (controller_init(c, w, &config->controllers[i], &err) < 0) {
			log_error("a controller cannot be watched", LOG_S("controller", name),
				  LOG_S("reason", err.text));
			broker_report(w->broker, name, "watcher", WIRE_STATE_FAILED, err.text);
			controller_done(c);
			continue;
		}
		broker_report(w->broker, name, "watcher", WIRE_STATE_OK, "");
		struct controller *former = find_controller(old, n_old, name);
		keep_sweep(c, former);
		askers_take_over(c, former);
		compare_digest(c);
		w->n_controllers++;
	}
	for (size_t i = 0; i < n_before; i++)
		if (w->informers[i]->used && w->informers[i]->strip_managed_fields != stripped[i]) {
			w->informers[i]->rewrite = true;
			for (size_t n = 0; n < w->informers[i]->n_streams; n++)
				stream_relist(&w->informers[i]->streams[n]);
		}
	free(stripped);
	for (size_t i = 0; i < w->n_controllers; i++)
		link_subs(&w->controllers[i]);
	drop_unused(w);
	store_tables_keep(w->store, keep_table, w);
	drop_controllers(w, keep_controller);
	broker_reports_keep(w->broker, keep_report, w);
	for (size_t i = 0; i < w->n_informers; i++) {
		informer_index(w->informers[i]);
		informer_report(w->informers[i]);
	}
	for (size_t i = 0; i < n_old; i++) {
		askers_drop(&old[i]);
		controller_done(&old[i]);
	}
	free(old);
	config_done(&old_config);
}
