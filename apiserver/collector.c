#include "collector.h"
#include "crd.h"
#include "kinds.h"
#include "remove.h"
#include <stdio.h>
#include <time.h>

/* A sweep holds the lock: behind one is a pause, and of all time sweeps take no more than one part in ten. */
enum { OWNERS_MAX = 16, PAUSE_MS = 50, PAUSE_TIMES = 9, EXPIRE_EVERY = 60 /* seconds */ };

struct owner {
	char uid[64];
	struct span kind, api_version; /* JSON strings, in the dependent's text */
};

struct dependent {
	struct object *o; /* a reference */
	struct owner owners[OWNERS_MAX];
	size_t n; /* owners beyond OWNERS_MAX are taken to be there */
	bool more;
};

struct sweep {
	struct storage *s;
	int64_t now;
	const struct object **by_uid; /* open addressing, a power of two */
	size_t slots;
	struct dependent *dependents;
	size_t n_dependents;
	struct object **deleting; /* references */
	size_t n_deleting, changes;
};

/* ---- what there is ---- */

static void index_uids(struct sweep *w)
{
	size_t n = 0;
	for (size_t i = 0; i < w->s->n_kinds; i++)
		n += w->s->kinds[i]->n_objects;
	for (w->slots = 64; w->slots < 2 * n; w->slots *= 2)
		;
	w->by_uid = xcalloc(w->slots, sizeof(struct object *));
	for (size_t i = 0; i < w->s->n_kinds; i++)
		for (size_t j = 0; j < w->s->kinds[i]->n_objects; j++) {
			const struct object *o = w->s->kinds[i]->objects[j];
			size_t at = hash_bytes(o->uid, strlen(o->uid), HASH_SEED) & (w->slots - 1);
			while (w->by_uid[at])
				at = (at + 1) & (w->slots - 1);
			w->by_uid[at] = o;
		}
}

static const struct object *find_uid(const struct sweep *w, const char *uid)
{
	size_t at = hash_bytes(uid, strlen(uid), HASH_SEED) & (w->slots - 1);
	while (w->by_uid[at] && strcmp(w->by_uid[at]->uid, uid) != 0)
		at = (at + 1) & (w->slots - 1);
	return w->by_uid[at];
}

static void read_owners(struct dependent *d)
{
	struct json_iter it = {0};
	struct span key, ref, uid, list = json_get(d->o->metadata, "ownerReferences");
	while (json_each(list, &it, &key, &ref)) {
		if (d->n == OWNERS_MAX || json_string_raw(json_get(ref, "uid"), &uid) < 0 ||
		    uid.len >= sizeof(d->owners[0].uid)) {
			d->more = true;
			continue;
		}
		struct owner *owner = &d->owners[d->n++];
		snprintf(owner->uid, sizeof(owner->uid), SPAN_FMT, SPAN_ARG(uid));
		owner->kind = json_get(ref, "kind");
		owner->api_version = json_get(ref, "apiVersion");
	}
}

static void gather(struct sweep *w)
{
	size_t owned = 0, deleting = 0;
	for (size_t i = 0; i < w->s->n_kinds; i++)
		for (size_t j = 0; j < w->s->kinds[i]->n_objects; j++) {
			owned += w->s->kinds[i]->objects[j]->owned;
			deleting += w->s->kinds[i]->objects[j]->deleting;
		}
	w->dependents = xcalloc(owned ? owned : 1, sizeof(*w->dependents));
	w->deleting = xcalloc(deleting ? deleting : 1, sizeof(struct object *));
	for (size_t i = 0; i < w->s->n_kinds; i++)
		for (size_t j = 0; j < w->s->kinds[i]->n_objects; j++) {
			struct object *o = w->s->kinds[i]->objects[j];
			if (o->owned) {
				struct dependent *d = &w->dependents[w->n_dependents++];
				d->o = object_ref(o);
				read_owners(d);
			}
			if (o->deleting)
				w->deleting[w->n_deleting++] = object_ref(o);
		}
	if (owned)
		index_uids(w);
}

static void sweep_done(struct sweep *w)
{
	for (size_t i = 0; i < w->n_dependents; i++)
		object_unref(w->dependents[i].o);
	for (size_t i = 0; i < w->n_deleting; i++)
		object_unref(w->deleting[i]);
	free(w->dependents);
	free(w->deleting);
	free(w->by_uid);
}

/* The object as stored now; NULL if it is gone or was created anew. */
static struct object *current(const struct object *o)
{
	struct object *found = storage_find(o->kind, span_of(o->namespace), span_of(o->name));
	return found && !strcmp(found->uid, o->uid) ? found : NULL;
}

static void delete_now(struct sweep *w, struct object *o)
{
	struct object *found = current(o);
	if (!found || found->deleting)
		return;
	bool gone;
	object_unref(remove_object(w->s, found, PROPAGATE_BACKGROUND, w->now, false, &gone));
	w->changes++;
}

/* ---- owners ---- */

static bool kind_served(const struct sweep *w, const struct owner *owner)
{
	_cleanup_(buf_done) struct buf version = {0}, kind = {0};
	struct span group, v;
	struct view view;
	if (json_unescape(owner->api_version, &version) < 0 || json_unescape(owner->kind, &kind) < 0 ||
	    !api_version_split(buf_span(&version), &group, &v) ||
	    !view_find_kind(w->s, group, (struct span){0}, buf_span(&kind), &view))
		return false;
	view_done(&view);
	return true;
}

static bool owner_there(const struct sweep *w, const struct object *o, const struct owner *owner)
{
	const struct object *found = find_uid(w, owner->uid);
	if (found)
		return !*found->namespace || !*o->namespace || !strcmp(found->namespace, o->namespace);
	return !kind_served(w, owner);
}

static void set_text(struct doc *d, struct doc_node *object, const char *key, const char *text)
{
	doc_set(d, object, key, doc_new_string(d, span_of(text)));
}

/* Tells of an owner that stands in another namespace, as Kubernetes' collector does. */
static void report_foreign_owner(struct sweep *w, const struct object *o, const struct owner *owner)
{
	_cleanup_(doc_free_ptr) struct doc *d = doc_new();
	struct doc_node *root = doc_new_object(d), *meta = doc_ensure_object(d, root, "metadata");
	struct doc_node *about = doc_ensure_object(d, root, "involvedObject");
	struct view view = view_of_kind(o->kind);
	char version[API_VERSION_MAX], time[21], uid[UID_MAX];
	_cleanup_(free_ptr) char *name = xasprintf("%.200s.%.16s", o->name, uid_new(uid) + 19);
	_cleanup_(free_ptr) char *message =
	    xasprintf("ownerRef [uid: %s] does not exist in namespace \"%s\"", owner->uid, o->namespace);
	format_rfc3339(w->now, time);
	set_text(d, meta, "name", name);
	set_text(d, meta, "namespace", o->namespace);
	set_text(d, meta, "uid", uid);
	set_text(d, meta, "creationTimestamp", time);
	set_text(d, about, "apiVersion", view_api_version(&view, version));
	set_text(d, about, "kind", view.def->kind);
	set_text(d, about, "namespace", o->namespace);
	set_text(d, about, "name", o->name);
	set_text(d, about, "uid", o->uid);
	set_text(d, root, "type", "Warning");
	set_text(d, root, "reason", "OwnerRefInvalidNamespace");
	set_text(d, root, "message", message);
	set_text(d, doc_ensure_object(d, root, "source"), "component", "garbage-collector-controller");
	set_text(d, root, "firstTimestamp", time);
	set_text(d, root, "lastTimestamp", time);
	doc_set(d, root, "count", doc_new_int(d, 1));
	view_done(&view);
	struct object *event =
	    object_new(kinds_find(w->s, span_of(""), span_of("events")), d, root, w->s->rv + 1);
	if (event) {
		event->written = w->now;
		storage_put(w->s, event);
	}
}

static void collect_dependent(struct sweep *w, struct dependent *d)
{
	size_t gone = 0;
	bool is_gone[OWNERS_MAX] = {false};
	for (size_t i = 0; i < d->n; i++)
		gone += is_gone[i] = !owner_there(w, d->o, &d->owners[i]);
	if (!gone || !current(d->o) || d->o->deleting)
		return;
	for (size_t i = 0; i < d->n; i++)
		if (is_gone[i] && find_uid(w, d->owners[i].uid))
			report_foreign_owner(w, d->o, &d->owners[i]);
	if (gone == d->n && !d->more) {
		delete_now(w, d->o);
		return;
	}
	for (size_t i = 0; i < d->n; i++) {
		struct object *o = is_gone[i] ? current(d->o) : NULL;
		if (o) {
			remove_owner(w->s, o, d->owners[i].uid);
			w->changes++;
		}
	}
}

static bool depends_on(const struct dependent *d, const char *uid)
{
	for (size_t i = 0; i < d->n; i++)
		if (!strcmp(d->owners[i].uid, uid))
			return true;
	return false;
}

/* ---- what is being deleted ---- */

static bool has_finalizer(const struct object *o, const char *where, const char *name)
{
	struct json_iter it = {0};
	struct span key, value, list = json_path(o->text, where, "finalizers", NULL);
	while (list.at && json_type_of(list) == JSON_ARRAY && json_each(list, &it, &key, &value))
		if (json_string_is(value, name))
			return true;
	return false;
}

static void release(struct sweep *w, const struct object *o, const char *finalizer, bool spec)
{
	struct object *found = current(o);
	if (found) {
		remove_finalizer(w->s, found, finalizer, spec);
		w->changes++;
	}
}

static void delete_foreground(struct sweep *w, struct object *o)
{
	bool left = false;
	for (size_t i = 0; i < w->n_dependents; i++) {
		if (!depends_on(&w->dependents[i], o->uid))
			continue;
		delete_now(w, w->dependents[i].o);
		left |= current(w->dependents[i].o) != NULL;
	}
	if (!left)
		release(w, o, FINALIZER_FOREGROUND, false);
}

static void orphan(struct sweep *w, struct object *o)
{
	for (size_t i = 0; i < w->n_dependents; i++) {
		struct object *found =
		    depends_on(&w->dependents[i], o->uid) ? current(w->dependents[i].o) : NULL;
		if (found) {
			remove_owner(w->s, found, o->uid);
			w->changes++;
		}
	}
	release(w, o, FINALIZER_ORPHAN, false);
}

/* Deletes all of kind, in the namespace if one is given; false while something is left. */
static bool empty(struct sweep *w, struct kind *kind, const char *namespace)
{
	struct snapshot snap = {0};
	struct span none = {0};
	storage_snapshot(w->s, kind, w->s->rv, namespace ? span_of(namespace) : none, none, none, false,
			 SIZE_MAX, NULL, NULL, &snap);
	bool left = false;
	for (size_t i = 0; i < snap.n; i++) {
		delete_now(w, snap.objects[i]);
		left |= current(snap.objects[i]) != NULL;
	}
	snapshot_done(&snap);
	return !left;
}

static void end_namespace(struct sweep *w, struct object *o)
{
	bool clean = true;
	for (size_t i = 0; i < w->s->n_kinds; i++) {
		struct kind *kind = w->s->kinds[i];
		if (kind->storage == kind && kind->def->scope == NAMESPACED)
			clean &= empty(w, kind, o->name);
	}
	if (clean)
		release(w, o, "kubernetes", true);
}

static void end_definition(struct sweep *w, struct object *o)
{
	struct kind *kind = crd_kind(w->s, o);
	if (kind && !empty(w, kind, NULL))
		return;
	if (kind)
		kinds_withdraw(w->s, kind);
	release(w, o, CRD_FINALIZER, false);
}

static void advance_deletion(struct sweep *w, struct object *o)
{
	if (!current(o))
		return;
	if (has_finalizer(o, "metadata", FINALIZER_ORPHAN))
		orphan(w, o);
	else if (has_finalizer(o, "metadata", FINALIZER_FOREGROUND))
		delete_foreground(w, o);
	else if (has_finalizer(o, "metadata", CRD_FINALIZER) &&
		 !strcmp(o->kind->def->plural, "customresourcedefinitions"))
		end_definition(w, o);
	else if (has_finalizer(o, "spec", "kubernetes") && !strcmp(o->kind->def->plural, "namespaces"))
		end_namespace(w, o);
}

size_t collector_sweep(struct storage *s, int64_t now)
{
	struct sweep w = {.s = s, .now = now};
	s->dirty = false;
	gather(&w);
	for (size_t i = 0; i < w.n_deleting; i++)
		advance_deletion(&w, w.deleting[i]);
	for (size_t i = 0; i < w.n_dependents; i++)
		collect_dependent(&w, &w.dependents[i]);
	sweep_done(&w);
	return w.changes;
}

size_t collector_expire(struct storage *s, int64_t now)
{
	struct kind *kind = kinds_find(s, span_of(""), span_of("events"));
	size_t n = 0;
	for (size_t i = kind->n_objects; i-- > 0;) {
		struct object *o = kind->objects[i];
		if (o->written + EVENTS_KEPT > now || o->deleting)
			continue;
		bool gone;
		object_unref(remove_object(s, o, PROPAGATE_BACKGROUND, now, false, &gone));
		n++;
	}
	return n;
}

/* ---- the thread ---- */

/* Waits for so long, or until there is work. */
static void wait_for(struct storage *s, int64_t ns, bool work)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	ns += t.tv_nsec;
	t.tv_sec += ns / NS_PER_S;
	t.tv_nsec = ns % NS_PER_S;
	while (!s->stopping && !(work && s->dirty))
		if (pthread_cond_timedwait(&s->work, &s->lock, &t) == ETIMEDOUT)
			break;
}

static void *run(void *arg)
{
	struct storage *s = arg;
	int64_t expired = 0;
	storage_lock(s);
	while (!s->stopping) {
		int64_t now = clock_realtime_ns() / NS_PER_S, begin = clock_boottime_ns();
		if (s->dirty)
			collector_sweep(s, now);
		if (now - expired >= EXPIRE_EVERY || now < expired) {
			collector_expire(s, now);
			expired = now;
		}
		/* A burst of deletions is one sweep, and requests come first. */
		wait_for(s, MAX(PAUSE_MS * (int64_t)NS_PER_MS, PAUSE_TIMES * (clock_boottime_ns() - begin)),
			 false);
		wait_for(s, EXPIRE_EVERY * (int64_t)NS_PER_S, true);
	}
	storage_unlock(s);
	return NULL;
}

int collector_start(struct storage *s, pthread_t *ret)
{
	int r = pthread_create(ret, NULL, run, s);
	return -r;
}
