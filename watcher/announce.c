/* The keys that a change of one object concerns: into the outbox. */
#include "log.h"
#include "watcher.h"
#include "wire.h"

#define STORM_WARN_NS (60 * NS_PER_S) /* between two warnings of a controller */

/* ---- what mapping asks ---- */

static bool owner_is_another(void *ctx, struct span namespace, struct span name, struct span uid)
{
	const struct sub *s = ctx;
	struct store_view v;
	return store_find(s->informer->watcher->store, s->primary->table, namespace, name, &v) &&
	       !span_eq(v.uid, uid);
}

struct references {
	struct store *store;
	struct keys *out;
};

static void add_slot(void *ctx, uint32_t slot)
{
	const struct references *r = ctx;
	struct store_view v;
	if (store_at(r->store, slot, &v))
		keys_add(r->out, v.namespace, v.name);
}

static void references(void *ctx, struct span namespace, struct span name, struct keys *out)
{
	const struct sub *s = ctx;
	struct references r = {s->informer->watcher->store, out};
	if (s->references)
		refindex_each(s->references, namespace, name, add_slot, &r);
}

static uint32_t objects_of(const struct informer *i)
{
	return atomic_load(&store_table_entry(i->watcher->store, i->table)->objects);
}

static void everything(void *ctx, struct keys *out)
{
	const struct sub *s = ctx;
	struct store *store = s->informer->watcher->store;
	struct store_view v;
	if (objects_of(s->primary) > KEYS_MAX) {
		out->all = true;
		return;
	}
	for (uint32_t i = 0; i < store_slots(store); i++)
		if (store_at(store, i, &v) && v.table == s->primary->table)
			keys_add(out, v.namespace, v.name);
}

static struct mapping_lookup lookup_of(struct sub *s)
{
	return (struct mapping_lookup){
	    .ctx = s,
	    .owner_is_another = owner_is_another,
	    .references = references,
	    .everything = everything,
	    .for_scope = store_table_entry(s->informer->watcher->store, s->primary->table)->scope};
}

bool sub_scope_is_known(const struct sub *s)
{
	return store_table_entry(s->informer->watcher->store, s->primary->table)->scope !=
	       CACHE_SCOPE_UNKNOWN;
}

void sub_keys(struct sub *s, const struct object *o, struct keys *out)
{
	struct mapping_lookup lookup = lookup_of(s);
	mapping_keys(&s->mapping, o, &lookup, out);
}

/* ---- into the outbox ---- */

/* Built-in predicates. */
static bool passes(const struct sub *s, const struct change *c)
{
	/* Another uid under the same name is a delete and a create, whatever came as one event. */
	if (c->before && c->after && !span_eq(c->before->uid, c->after->uid))
		return predicate_passes(&s->predicate, c->before, NULL) ||
		       predicate_passes(&s->predicate, NULL, c->after);
	return predicate_passes(&s->predicate, c->before, c->after);
}

/* One event, very many keys: they enter at low priority, so many a second, and somebody should know why. */
bool sub_is_storm(struct sub *s, const struct object *o, const struct keys *keys)
{
	struct controller *c = s->controller;
	int64_t now = clock_boottime_ns();
	if (keys->count <= c->config->storm_keys && !keys->all)
		return false;
	if (!c->storm_warned_ns || now - c->storm_warned_ns >= STORM_WARN_NS) {
		c->storm_warned_ns = now;
		log_warning(keys->all ? "an event concerns very many keys: all of the controller are "
					"enqueued, at low priority, so many a second"
				      : "an event concerns very many keys: they are enqueued at low "
					"priority, so many a second",
			    LOG_S("controller", c->config->name), LOG_S("kind", s->cause_kind),
			    LOG_SP("namespace", o->namespace), LOG_SP("name", o->name),
			    LOG_I("keys", MAX(keys->count, (size_t)objects_of(s->primary))),
			    LOG_I("limit", c->config->storm_keys), LOG_I("qps", c->config->storm_qps));
	}
	return true;
}

static int put_key(struct watcher *w, const struct outbox_key *k, bool must, struct question *hold)
{
	if (campaign_follows(w) && !outbox_room(w->outbox, false))
		outbox_shed(w->outbox);
	if (!hold || !outbox_may_hold(w->outbox)) /* then it passes */
		return outbox_put(w->outbox, k, must);
	int rc = outbox_hold(w->outbox, k, must, &hold->held[hold->n_held]);
	hold->n_held += rc == 0;
	return rc;
}

void sub_cause(const struct sub *s, struct span namespace, struct span name, struct outbox_key *ret)
{
	if (s->mapping.type == MAP_SELF)
		return;
	ret->cause_kind = span_of(s->cause_kind);
	ret->cause_namespace = namespace;
	ret->cause_name = name;
}

int sub_put_keys(struct sub *s, const struct change *c, const struct keys *keys, size_t from_after,
		 struct question *hold)
{
	struct watcher *w = s->informer->watcher;
	const struct object *o = c->after ? c->after : c->before;
	bool storm = sub_is_storm(s, o, keys);
	struct outbox_key k = {.controller = s->controller->index,
			       .priority = storm ? MIN(c->priority, PRIORITY_LOW) : c->priority,
			       .paced = storm,
			       .primary_changed = s->mapping.type == MAP_SELF &&
						  mapping_primary_changed(c->before, c->after),
			       .cause = !c->after   ? WIRE_CAUSE_DELETED
					: c->before ? WIRE_CAUSE_UPDATED
						    : WIRE_CAUSE_CREATED,
			       .events = &c->event,
			       .n_events = c->event.resource_version != 0};
	sub_cause(s, o->namespace, o->name, &k);
	if (hold)
		hold->held = xcalloc(keys->count + 1, sizeof *hold->held);
	for (size_t i = 0; i < keys->count; i++) {
		keys_get(keys, i, &k.namespace, &k.name);
		/* A key of the old form alone cannot be had again from the cache: without room for it the
		 * change must wait. */
		bool must = i >= from_after;
		if (put_key(w, &k, must, hold) == 0)
			continue;
		if (must)
			return -EAGAIN;
		if (storm)
			controller_want_paced_sweep(s->controller);
		else
			controller_want_sweep(s->controller, WIRE_CAUSE_SWEEP);
	}
	return 0;
}

int sub_put_change(struct sub *s, const struct change *c, struct question *hold)
{
	struct keys *keys = &s->informer->watcher->keys;
	keys_reset(keys);
	sub_keys(s, c->after, keys);
	size_t from_after = keys->count;
	sub_keys(s, c->before, keys);
	if (keys->all) {
		if (!sub_scope_is_known(s))
			controller_want_sweep(s->controller, WIRE_CAUSE_SWEEP);
		else if (sub_is_storm(s, c->after ? c->after : c->before, keys))
			controller_want_paced_sweep(s->controller);
		return 0;
	}
	return sub_put_keys(s, c, keys, from_after, hold);
}

/* The mapping whose changes a planted fault loses. */
static bool ignored_by_fault(const struct sub *s, const struct change *c)
{
	bool update = c->before && c->after;
	return (fault("spec") && update && s->mapping.type == MAP_SELF) ||
	       (fault("drift") && update && s->mapping.type == MAP_OWNER) ||
	       (fault("index") && s->mapping.type == MAP_INDEX);
}

static int announce_to(struct sub *s, const struct change *c)
{
	/* A takeover reconciles all that there is then: only what is gone must be remembered. */
	if (campaign_follows(s->informer->watcher) && (c->after || s->mapping.type != MAP_SELF))
		return 0;
	if (sub_asks(s))
		return c->asked ? 0 : ask_change(s, c);
	return passes(s, c) ? sub_put_change(s, c, NULL) : 0;
}

int announce(struct informer *i, const struct change *c, struct err *err)
{
	for (size_t n = 0; n < i->n_subs; n++) {
		struct sub *s = i->subs[n];
		if (!ignored_by_fault(s, c) && announce_to(s, c) < 0)
			return err_set(err, -EAGAIN, "the outbox is full: the broker takes no keys; %u wait",
				       outbox_used(i->watcher->outbox));
	}
	return 0;
}
