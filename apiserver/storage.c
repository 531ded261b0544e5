#include "storage.h"
#include "kinds.h"
#include <stdio.h>
#include <time.h>

/* ---- objects ---- */

const char *uid_new(char buf[UID_MAX])
{
	char id[33];
	random_id(id);
	id[12] = '4';
	id[16] = "89ab"[id[16] % 4];
	snprintf(buf, UID_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8, id + 12, id + 16, id + 20);
	return buf;
}

struct object *object_ref(struct object *o)
{
	__atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED);
	return o;
}

void object_unref(struct object *o)
{
	if (o && __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(o);
}

void object_unref_ptr(struct object **o)
{
	object_unref(*o);
}

static char *put_string(char **at, struct span s)
{
	char *start = *at;
	if (s.len)
		memcpy(start, s.at, s.len);
	start[s.len] = 0;
	*at = start + s.len + 1;
	return start;
}

static bool has_elements(const struct doc_node *n)
{
	return n && n->child;
}

/* What the store looks at without parsing. The text is ours, so that the spans are found by structure
 * alone. */
static void object_index(struct object *o, const struct doc_node *meta)
{
	o->metadata = json_get(o->text, "metadata");
	o->labels = json_get(o->metadata, "labels");
	o->deleting = doc_get(meta, "deletionTimestamp") != NULL;
	o->finalizers = has_elements(doc_get(meta, "finalizers"));
	o->owned = has_elements(doc_get(meta, "ownerReferences"));
	if (doc_int(doc_get(meta, "generation"), &o->generation) < 0)
		o->generation = 0;
}

struct object *object_new(struct kind *kind, struct doc *d, struct doc_node *root, uint64_t rv)
{
	char text[24];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)rv);
	struct doc_node *meta = doc_ensure_object(d, root, "metadata");
	doc_set(d, meta, "resourceVersion", doc_new_string(d, span_of(text)));
	doc_set(d, root, "kind", NULL);
	doc_set(d, root, "apiVersion", NULL);

	_cleanup_(buf_done) struct buf b = {0};
	doc_print(root, &b);
	struct span namespace = doc_string(d, doc_get(meta, "namespace")),
		    name = doc_string(d, doc_get(meta, "name"));
	struct span uid = doc_string(d, doc_get(meta, "uid"));
	struct object *o = buf_failed(&b) ? NULL : malloc(sizeof(*o) + namespace.len + name.len + b.len + 3);
	if (!o)
		return NULL;
	*o = (struct object){.refs = 1, .kind = kind, .rv = rv};
	char *at = (char *)(o + 1);
	o->namespace = put_string(&at, namespace);
	o->name = put_string(&at, name);
	o->text = (struct span){put_string(&at, buf_span(&b)), b.len};
	snprintf(o->uid, sizeof(o->uid), SPAN_FMT, SPAN_ARG(uid));
	object_index(o, meta);
	return o;
}

/* ---- order ---- */

static int compare(struct span a, struct span b)
{
	size_t n = MIN(a.len, b.len);
	int c = n ? memcmp(a.at, b.at, n) : 0;
	return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int compare_key(const struct object *o, struct span namespace, struct span name)
{
	int c = compare(span_of(o->namespace), namespace);
	return c ? c : compare(span_of(o->name), name);
}

size_t storage_position(const struct kind *kind, struct span namespace, struct span name, bool *ret_found)
{
	size_t low = 0, high = kind->n_objects;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int c = compare_key(kind->objects[middle], namespace, name);
		if (c == 0) {
			*ret_found = true;
			return middle;
		}
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_found = false;
	return low;
}

struct object *storage_find(struct kind *kind, struct span namespace, struct span name)
{
	bool found;
	size_t at = storage_position(kind, namespace, name, &found);
	return found ? kind->objects[at] : NULL;
}

/* ---- history ---- */

static uint64_t event_bytes(const struct event *e)
{
	return e->now->text.len + (e->before ? e->before->text.len : 0);
}

static void ring_drop_oldest(struct kind *kind)
{
	struct event *e = &kind->ring[kind->ring_first % kind->ring_cap];
	kind->ring_bytes -= event_bytes(e);
	kind->lost_rv = e->rv;
	object_unref(e->now);
	object_unref(e->before);
	kind->ring_first++;
	kind->ring_len--;
}

/* Doubles up to the limit: most kinds see few events. */
static void ring_grow(struct kind *kind, size_t limit)
{
	size_t cap = kind->ring_cap ? MIN(kind->ring_cap * 2, limit) : MIN((size_t)64, limit);
	struct event *ring = xcalloc(cap, sizeof(*ring));
	for (uint64_t i = kind->ring_first; kind->ring_cap && i < kind->ring_first + kind->ring_len; i++)
		ring[i % cap] = kind->ring[i % kind->ring_cap];
	free(kind->ring);
	kind->ring = ring;
	kind->ring_cap = cap;
}

/* Takes both references. */
static void record(struct storage *s, enum event_type type, struct object *now, struct object *before)
{
	struct kind *kind = now->kind;
	struct event e = {now->rv, type, now, before};
	if (!kind->ring_cap || (kind->ring_len == kind->ring_cap && kind->ring_cap < s->history))
		ring_grow(kind, s->history);
	while (kind->ring_len &&
	       (kind->ring_len == kind->ring_cap || kind->ring_bytes + event_bytes(&e) > HISTORY_BYTES_MAX))
		ring_drop_oldest(kind);
	kind->ring[(kind->ring_first + kind->ring_len) % kind->ring_cap] = e;
	kind->ring_len++;
	kind->ring_bytes += event_bytes(&e);
	s->rv = now->rv;
	pthread_cond_broadcast(&kind->changed);
}

int storage_event_after(struct storage *s, const struct kind *kind, uint64_t rv, uint64_t *ret_number)
{
	if (rv < s->first_rv || rv > s->rv || rv < kind->lost_rv)
		return -ESTALE;
	uint64_t low = kind->ring_first, high = kind->ring_first + kind->ring_len;
	if (!kind->ring_cap)
		high = low;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (kind->ring[middle % kind->ring_cap].rv <= rv)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_number = low;
	return 0;
}

const struct event *storage_event(const struct kind *kind, uint64_t number, bool *ret_lost)
{
	*ret_lost = number < kind->ring_first;
	if (*ret_lost || number >= kind->ring_first + kind->ring_len)
		return NULL;
	return &kind->ring[number % kind->ring_cap];
}

/* ---- changes ---- */

void storage_touch(struct storage *s)
{
	s->dirty = true;
	pthread_cond_signal(&s->work);
}

static void insert_at(struct kind *kind, size_t at, struct object *o)
{
	if (kind->n_objects == kind->cap_objects) {
		kind->cap_objects = kind->cap_objects ? kind->cap_objects * 2 : 16;
		kind->objects = xrealloc(kind->objects, kind->cap_objects * sizeof(struct object *));
	}
	memmove(&kind->objects[at + 1], &kind->objects[at], (kind->n_objects - at) * sizeof(struct object *));
	kind->objects[at] = o;
	kind->n_objects++;
}

int storage_put(struct storage *s, struct object *o)
{
	struct kind *kind = o->kind;
	bool found;
	size_t at = storage_position(kind, span_of(o->namespace), span_of(o->name), &found);
	struct object *before = found ? kind->objects[at] : NULL;
	uint64_t bytes = s->bytes + o->text.len - (before ? before->text.len : 0);
	if (bytes > s->bytes_max && (!before || o->text.len > before->text.len)) {
		object_unref(o);
		return -ENOSPC;
	}
	s->bytes = bytes;
	if (before)
		kind->objects[at] = object_ref(o);
	else
		insert_at(kind, at, object_ref(o));
	/* Owners that are the same were looked at before, or when they went. */
	if (o->deleting || (o->owned && (!before || !span_eq(json_get(o->metadata, "ownerReferences"),
							     json_get(before->metadata, "ownerReferences")))))
		storage_touch(s);
	record(s, before ? EVENT_MODIFIED : EVENT_ADDED, o, before);
	return 0;
}

void storage_remove(struct storage *s, struct object *o)
{
	struct kind *kind = o->kind;
	bool found;
	size_t at = storage_position(kind, span_of(o->namespace), span_of(o->name), &found);
	if (!found)
		abort(); /* callers look first, under the same lock */
	struct object *before = kind->objects[at];
	memmove(&kind->objects[at], &kind->objects[at + 1],
		(kind->n_objects - at - 1) * sizeof(struct object *));
	kind->n_objects--;
	s->bytes -= before->text.len;
	storage_touch(s);
	record(s, EVENT_DELETED, o, before);
}

/* ---- snapshots ---- */

/* What one event after the wanted version replaced: the state of its key before it (NULL: it was not
 * there). */
struct undo {
	uint64_t rv;
	struct object *then;
	struct object *key; /* any object with the key's names */
};

static int undo_compare(const void *a, const void *b)
{
	const struct undo *x = a, *y = b;
	int c = compare_key(x->key, span_of(y->key->namespace), span_of(y->key->name));
	return c ? c : (x->rv > y->rv) - (x->rv < y->rv);
}

/* The states at rv of the keys that were touched since, by key: of each key's events the oldest one knows. */
static int undo_collect(struct storage *s, struct kind *kind, uint64_t rv, struct undo **ret, size_t *ret_n)
{
	uint64_t from;
	int r = storage_event_after(s, kind, rv, &from);
	if (r < 0)
		return r;
	size_t n = (size_t)(kind->ring_first + kind->ring_len - from), kept = 0;
	if (!n)
		return 0;
	struct undo *list = xcalloc(n, sizeof(*list));
	for (size_t i = 0; i < n; i++) {
		const struct event *e = &kind->ring[(from + i) % kind->ring_cap];
		list[i] = (struct undo){e->rv, e->before, e->now};
	}
	qsort(list, n, sizeof(*list), undo_compare);
	for (size_t i = 0; i < n; i++)
		if (!kept || compare_key(list[kept - 1].key, span_of(list[i].key->namespace),
					 span_of(list[i].key->name)))
			list[kept++] = list[i];
	*ret = list;
	*ret_n = kept;
	return 0;
}

struct walk {
	struct span namespace, after_namespace, after_name;
	bool after;
	size_t max;
	match_fn *match;
	void *ctx;
	struct snapshot *snap;
	size_t cap;
};

static void walk_visit(struct walk *w, struct object *o)
{
	if (w->namespace.at && !span_is(w->namespace, o->namespace))
		return;
	if (w->after && compare_key(o, w->after_namespace, w->after_name) <= 0)
		return;
	if (w->match && !w->match(o, w->ctx))
		return;
	if (w->snap->n == w->max) {
		w->snap->more++;
		return;
	}
	if (w->snap->n == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 64;
		w->snap->objects = xrealloc(w->snap->objects, w->cap * sizeof(struct object *));
	}
	w->snap->objects[w->snap->n++] = object_ref(o);
}

int storage_snapshot(struct storage *s, struct kind *kind, uint64_t rv, struct span namespace,
		     struct span after_namespace, struct span after_name, bool after, size_t max,
		     match_fn *match, void *ctx, struct snapshot *ret)
{
	struct undo *undone = NULL;
	size_t n_undone = 0, u = 0;
	if (rv != s->rv) {
		int r = undo_collect(s, kind, rv, &undone, &n_undone);
		if (r < 0)
			return r;
	}
	*ret = (struct snapshot){0};
	struct walk w = {namespace, after_namespace, after_name, after, max, match, ctx, ret, 0};
	for (size_t i = 0; i < kind->n_objects || u < n_undone;) {
		int c = i == kind->n_objects ? 1
			: u == n_undone	     ? -1
					: compare_key(kind->objects[i], span_of(undone[u].key->namespace),
						      span_of(undone[u].key->name));
		if (c < 0) {
			walk_visit(&w, kind->objects[i++]);
			continue;
		}
		if (undone[u].then)
			walk_visit(&w, undone[u].then);
		u++;
		i += c == 0;
	}
	free(undone);
	return 0;
}

void snapshot_done(struct snapshot *snap)
{
	for (size_t i = 0; i < snap->n; i++)
		object_unref(snap->objects[i]);
	free(snap->objects);
	*snap = (struct snapshot){0};
}

/* ---- the store ---- */

void storage_lock(struct storage *s)
{
	pthread_mutex_lock(&s->lock);
}
void storage_unlock(struct storage *s)
{
	pthread_mutex_unlock(&s->lock);
}

static void condition_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

struct kind *storage_add_kind(struct storage *s)
{
	if (s->n_kinds == KINDS_MAX)
		return NULL;
	struct kind *k = xcalloc(1, sizeof(*k));
	condition_init(&k->changed);
	k->storage = k;
	k->lost_rv = s->rv;
	s->kinds[s->n_kinds++] = k;
	return k;
}

struct storage *storage_new(size_t history, uint64_t bytes_max, uint64_t first_rv)
{
	struct storage *s = xcalloc(1, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->work);
	s->history = MAX(history, (size_t)1);
	s->bytes_max = bytes_max;
	s->rv = s->first_rv = first_rv;
	kinds_add_builtin(s);
	return s;
}

static void kind_free(struct kind *k)
{
	while (k->ring_len)
		ring_drop_oldest(k);
	for (size_t i = 0; i < k->n_objects; i++)
		object_unref(k->objects[i]);
	definition_unref(k->def);
	pthread_cond_destroy(&k->changed);
	free(k->objects);
	free(k->ring);
	free(k);
}

void storage_free(struct storage *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_kinds; i++)
		kind_free(s->kinds[i]);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void storage_stop(struct storage *s)
{
	storage_lock(s);
	s->stopping = true;
	pthread_cond_broadcast(&s->work);
	for (size_t i = 0; i < s->n_kinds; i++)
		pthread_cond_broadcast(&s->kinds[i]->changed);
	storage_unlock(s);
}
