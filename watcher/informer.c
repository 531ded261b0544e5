/* A change of one object. The order is what makes a kill harmless: the keys of its old and new form go into
 * the outbox, then the object changes in the cache, then the keys are sent. */
#include "log.h"
#include "watcher.h"
#include "wire.h"
#include <stdio.h>

/* Objects of which only metadata is kept are listed again so often, when there is so much room. */
#define HEAL_NS (10 * NS_PER_S)
enum { HEAL_BYTES = 256 << 10 };

/* ---- the object ---- */

static bool read_cached(struct watcher *w, const struct store_view *v, struct object *ret)
{
	struct span json;
	buf_reset(&w->text_before);
	return store_json(w->store, v->slot, &json) == 0 &&
	       object_read(json, &w->text_before, ret, NULL) == 0;
}

int sub_keys_of_cached(struct sub *s, const struct store_view *v, enum question_why why, struct keys *out)
{
	struct object o;
	bool all = why == QUESTION_SWEEP && s->controller->sweep.unfiltered;
	if (s->mapping.type == MAP_SELF && (all || predicate_passes_creates(&s->predicate))) {
		keys_add(out, v->namespace, v->name); /* without unpacking it */
		return 1;
	}
	if (!read_cached(s->informer->watcher, v, &o))
		return 0;
	if (sub_asks(s)) {
		int rc = ask_create(s, &o, why, out);
		return rc < 0 ? rc : 1;
	}
	if (predicate_passes(&s->predicate, NULL, &o))
		sub_keys(s, &o, out);
	return 1;
}

/* Of an object that finds no room as a whole. */
static int store_metadata(struct informer *i, const struct object *o, uint32_t *ret_slot, struct err *err)
{
	struct object_keep keep = {i->kind->api_version, i->kind->kind, true, true, NULL};
	struct buf cut = {0};
	object_normalize(o->json, &keep, &cut);
	int rc = buf_failed(&cut)
		     ? -ENOSPC
		     : store_put_metadata(i->watcher->store, i->table, o, buf_span(&cut), ret_slot, err);
	buf_done(&cut);
	return rc;
}

void informer_saw(struct informer *i, uint64_t version)
{
	struct cache_table *t = store_table_entry(i->watcher->store, i->table);
	if (version <= atomic_load_explicit(&t->seen, memory_order_relaxed))
		return;
	atomic_store_explicit(&t->seen, version, memory_order_relaxed);
	t->listed = false;
}

static int store_changed(struct informer *i, const struct object *o, uint32_t epoch, struct err *err)
{
	struct watcher *w = i->watcher;
	uint32_t slot;
	informer_saw(i, kube_version(o->version));
	int rc = store_put(w->store, i->table, o, o->json, &slot, err);
	if (rc == -ENOSPC && !i->kind->metadata_only)
		rc = store_metadata(i, o, &slot, err);
	if (rc < 0)
		return err_prefix(err, rc, "%s %s %.*s/%.*s", i->kind->api_version, i->kind->kind,
				  SPAN_ARG(o->namespace), SPAN_ARG(o->name));
	if (epoch)
		*store_mark(w->store, slot) = epoch;
	for (size_t n = 0; n < i->n_references; n++)
		refindex_put(i->references[n], slot, o);
	return 0;
}

static int32_t priority_of(uint32_t epoch)
{
	return epoch ? PRIORITY_LOW : 0;
}

static struct cache_event event_of(const struct stream *s, const struct object *o)
{
	const struct informer *i = s->informer;
	return (struct cache_event){i->table, (uint32_t)(s - i->streams), kube_version(o->version)};
}

/* What came from the server, as it is kept, in w->json and *ret. Every object that can be watched has a uid and a
 * resourceVersion: one without came from no API server. */
static int read_new(struct informer *i, struct span json, struct object *ret, struct err *err)
{
	struct watcher *w = i->watcher;
	buf_reset(&w->json);
	buf_reset(&w->text_after);
	struct object_keep keep = {i->kind->api_version, i->kind->kind, i->strip_managed_fields,
				   i->kind->metadata_only, i->projection};
	struct span metadata = object_normalize(json, &keep, &w->json);
	if (buf_failed(&w->json))
		return err_set(err, -ENOMEM, "no memory for an object of %zu bytes", json.len);
	int rc = object_read_at(buf_span(&w->json), metadata, &w->text_after, ret, err);
	if (rc == 0 && (!ret->uid.len || !ret->version.len))
		rc = err_set(err, -EINVAL, "its metadata.uid or resourceVersion is missing");
	return rc;
}

int informer_put(struct stream *s, struct span json, uint32_t epoch, struct counts *counts, struct err *err)
{
	struct informer *i = s->informer;
	struct watcher *w = i->watcher;
	struct object o, old;
	struct store_view v;
	int rc = read_new(i, json, &o, err);
	if (rc < 0)
		return rc;
	counts->items++;
	bool known = store_find(w->store, i->table, o.namespace, o.name, &v);
	if (known && span_eq(v.uid, o.uid) && span_eq(v.version, o.version)) {
		counts->unchanged++;
		*store_mark(w->store, v.slot) = epoch;
		if (v.cut) { /* no news, but maybe there is room now */
			uint32_t slot;
			rc = store_put(w->store, i->table, &o, o.json, &slot, err);
			return rc == -ENOSPC ? 0 : rc;
		}
		return epoch && i->rewrite ? store_changed(i, &o, epoch, err) : 0;
	}
	known = known && read_cached(w, &v, &old);
	struct change c = {.before = known ? &old : NULL, .after = &o, .priority = priority_of(epoch)};
	if (!epoch)
		c.event = event_of(s, &o);
	/* New objects of a first list enter by the sweep that follows it. */
	bool initial = epoch && !known && !store_table_synced(w->store, i->table);
	rc = initial || (fault("watcher") && epoch) ? 0 : announce(i, &c, err);
	if (rc == 0)
		rc = store_changed(i, &o, epoch, err);
	if (rc == 0)
		(*(known ? &counts->changed : &counts->added))++;
	else if (known)
		*store_mark(w->store, v.slot) = epoch; /* it is there, as it was */
	return rc;
}

static int delete_cached(struct informer *i, const struct store_view *v, const struct object *last,
			 struct cache_event event, int32_t priority, struct err *err)
{
	struct watcher *w = i->watcher;
	struct object old;
	/* The last state may map elsewhere than the cached one. Programs are asked about one: what was seen in the cache, if that is
	 * the whole object. */
	const struct object *cached = read_cached(w, v, &old) ? &old : NULL;
	const struct object *states[] = {v->cut ? last : cached, v->cut ? cached : last};
	struct change c = {.priority = priority, .event = event};
	for (size_t n = 0; n < ARRAY_SIZE(states); n++) {
		c.before = states[n];
		if (!object_exists(c.before))
			continue;
		int rc = announce(i, &c, err);
		if (rc < 0)
			return rc;
		c.asked = true;
	}
	for (size_t n = 0; n < i->n_references; n++)
		refindex_remove(i->references[n], v->slot);
	informer_saw(i, event.resource_version);
	store_delete(w->store, v->slot);
	return 0;
}

int informer_deleted(struct stream *s, struct span json, struct err *err)
{
	struct informer *i = s->informer;
	struct watcher *w = i->watcher;
	struct object o;
	struct store_view v;
	int rc = read_new(i, json, &o, err);
	if (rc < 0 || !store_find(w->store, i->table, o.namespace, o.name, &v))
		return rc;
	return delete_cached(i, &v, &o, event_of(s, &o), 0, err);
}

int informer_sweep(struct informer *i, struct span namespace, uint32_t epoch, struct counts *counts,
		   struct err *err)
{
	struct store *store = i->watcher->store;
	struct store_view v;
	for (uint32_t slot = 0; slot < store_slots(store); slot++) {
		if (!store_at(store, slot, &v) || v.table != i->table || *store_mark(store, slot) == epoch ||
		    (namespace.at && !span_eq(v.namespace, namespace)))
			continue;
		int rc = delete_cached(i, &v, NULL, (struct cache_event){0}, PRIORITY_LOW, err);
		if (rc < 0)
			return rc;
		counts->deleted++;
	}
	return 0;
}

/* ---- state ---- */

bool informer_synced(const struct informer *i)
{
	return store_table_synced(i->watcher->store, i->table);
}

bool informer_blocked(const struct informer *i)
{
	for (size_t n = 0; n < i->n_streams; n++) {
		const struct stream *s = &i->streams[n];
		if (!s->dormant && !s->listed && !s->exchange && s->state != WIRE_STATE_OK)
			return true;
	}
	return false;
}

void informer_heal(struct informer *i, int64_t now_ns)
{
	struct store *store = i->watcher->store;
	uint32_t cut = informer_cut(i);
	if (!cut != !i->told_cut) {
		i->told_cut = cut;
		informer_report(i);
	}
	if (!cut || now_ns < i->heal_at_ns)
		return;
	/* A list brings them whole; each time later, as not all of them may find room. */
	bool room = i->heal_at_ns && store_may_fit(store, HEAL_BYTES);
	i->heal_at_ns = now_ns + HEAL_NS;
	for (size_t n = 0; room && n < i->n_streams; n++)
		if (i->streams[n].reflector.phase == REFLECTOR_WATCH)
			stream_relist(&i->streams[n]);
}

uint32_t informer_cut(const struct informer *i)
{
	return atomic_load_explicit(&store_table_entry(i->watcher->store, i->table)->cut,
				    memory_order_relaxed);
}

void informer_index(struct informer *i)
{
	struct watcher *w = i->watcher;
	struct store_view v;
	struct object o;
	for (uint32_t slot = 0; i->n_references && slot < store_slots(w->store); slot++)
		if (store_at(w->store, slot, &v) && v.table == i->table && read_cached(w, &v, &o))
			for (size_t n = 0; n < i->n_references; n++)
				refindex_put(i->references[n], slot, &o);
}
