#include "watch.h"
#include <stdio.h>
#include <time.h>

/* Per step: so that one slow client holds references to few objects, and the lock is let go often. */
enum { BATCH = 64, BATCH_BYTES = 1 << 20 };

struct watch {
	struct storage *store;
	struct view view;
	enum form form;
	char *namespace, *name; /* NULL: all */
	struct selector *labels, *fields;
	bool bookmarks, table_head, expired;
	bool initial_end;   /* the end of the initial events is still to be told */
	struct failure why; /* with expired */
	struct snapshot initial;
	size_t initial_sent;
	uint64_t next;				  /* number of the next event to look at */
	uint64_t rv;				  /* everything up to it has been told */
	int64_t end, bookmark_at, bookmark_every; /* CLOCK_MONOTONIC, ns */
};

int64_t watch_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	snapshot_done(&w->initial);
	selector_free(w->labels);
	selector_free(w->fields);
	view_done(&w->view);
	free(w->namespace);
	free(w->name);
	free(w);
}

static bool matches(const struct object *o, void *ctx)
{
	const struct watch *w = ctx;
	if (w->namespace && strcmp(w->namespace, o->namespace) != 0)
		return false;
	if (w->name && strcmp(w->name, o->name) != 0)
		return false;
	return selector_match_labels(w->labels, o) && selector_match_fields(w->fields, o);
}

/* From the state as it is now, told or not. */
static int start_now(struct watch *w, bool told)
{
	struct storage *s = w->store;
	struct kind *kind = w->view.kind->storage;
	struct span none = {0};
	w->rv = s->rv;
	w->next = kind->ring_first + kind->ring_len;
	return told ? storage_snapshot(s, kind, s->rv, none, none, none, false, SIZE_MAX, matches, w,
				       &w->initial)
		    : 0;
}

/* The place to go on from, or the state as it is now when no version was named or initial events are wanted. The
 * lock is held. */
static int start(struct watch *w, const char *version, const char *send_initial_events, struct failure *f)
{
	struct storage *s = w->store;
	struct kind *kind = w->view.kind->storage;
	bool told = send_initial_events && !strcmp(send_initial_events, "true");
	if (!version || !*version || !strcmp(version, "0"))
		return start_now(w, told || !send_initial_events);
	char *end;
	errno = 0;
	w->rv = strtoull(version, &end, 10);
	if (*version < '0' || *version > '9' || *end || errno)
		return fail_bad_request(f, "Invalid value: \"%.64s\": resourceVersion must be a number",
					version);
	if (told)
		return w->rv > s->rv ? fail_too_large(f, w->rv, s->rv) : start_now(w, true);
	if (storage_event_after(s, kind, w->rv, &w->next) < 0) {
		w->expired = true;
		fail_expired(&w->why, "too old resource version: %llu (%llu)", (unsigned long long)w->rv,
			     (unsigned long long)s->rv);
	}
	return 0;
}

static int check_params(struct call *c)
{
	const struct params *p = &c->params;
	const char *match = p->resource_version_match ? p->resource_version_match : "";
	if (p->send_initial_events && strcmp(match, "NotOlderThan") != 0)
		invalid(&c->f, "FieldValueForbidden", "resourceVersionMatch",
			"Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
	if (p->send_initial_events && c->in->no_watch_list)
		invalid(&c->f, "FieldValueForbidden", "sendInitialEvents",
			"Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature "
			"gate is enabled");
	if (*match && !p->send_initial_events)
		invalid(&c->f, "FieldValueForbidden", "resourceVersionMatch",
			"Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
			"provided");
	if (*match && strcmp(match, "NotOlderThan") != 0)
		invalid(&c->f, "FieldValueNotSupported", "resourceVersionMatch",
			"Unsupported value: \"%.64s\": supported values: \"NotOlderThan\"", match);
	if (p->continue_token && *p->continue_token)
		invalid(&c->f, "FieldValueForbidden", "continue",
			"Forbidden: continue is forbidden for watch");
	return invalid_done(&c->f, "meta.k8s.io", "ListOptions", span_of(""));
}

int call_watch(struct call *c)
{
	const struct params *p = &c->params;
	int r = check_params(c);
	if (r < 0)
		return r;
	struct watch *w = xcalloc(1, sizeof(*w));
	int64_t now = watch_clock();
	w->store = c->store;
	w->view = (struct view){c->view.kind, definition_ref(c->view.def), c->view.version};
	w->form = c->form;
	w->namespace = c->namespace ? xstrdup(c->namespace) : NULL;
	w->name = c->name ? xstrdup(c->name) : NULL;
	w->bookmarks = p->bookmarks;
	w->initial_end = p->bookmarks && p->send_initial_events && !strcmp(p->send_initial_events, "true");
	w->table_head = true;
	/* Without a wish: 30 to 60 minutes, so that clients do not all come back at once. */
	int64_t seconds =
	    p->timeout_seconds > 0 ? MIN(p->timeout_seconds, 86400) : 1800 + (int64_t)random_below(1800);
	w->end = now + seconds * NS_PER_S;
	w->bookmark_every = c->in->bookmark_interval_ns;
	w->bookmark_at = now + w->bookmark_every;
	r = selector_parse_labels(span_of(p->label_selector ? p->label_selector : ""), &w->labels, &c->f);
	if (r == 0)
		r = selector_parse_fields(span_of(p->field_selector ? p->field_selector : ""), w->view.def,
					  &w->fields, &c->f);
	if (r == 0) {
		storage_lock(c->store);
		r = start(w, p->resource_version, p->send_initial_events, &c->f);
		storage_unlock(c->store);
	}
	if (r < 0) {
		watch_free(w);
		return r;
	}
	c->out->code = 200;
	c->out->watch = w;
	return 0;
}

/* ---- what goes out ---- */

static void put_event(struct watch *w, struct buf *out, const char *type, const struct object *o,
		      int64_t wall)
{
	buf_printf(out, "{\"type\":\"%s\",\"object\":", type);
	encode_as(out, &w->view, w->form, o, w->table_head, wall);
	buf_puts(out, "}\n");
	w->table_head = false;
}

static void put_bookmark(struct watch *w, struct buf *out)
{
	char version[API_VERSION_MAX];
	bool object = w->form == FORM_OBJECT, table = w->form == FORM_TABLE;
	if (table)
		buf_printf(
		    out,
		    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\","
		    "\"metadata\":{\"resourceVersion\":\"%llu\"},\"columnDefinitions\":null,\"rows\":["
		    "{\"cells\":[],\"object\":",
		    (unsigned long long)w->rv);
	else
		buf_puts(out, "{\"type\":\"BOOKMARK\",\"object\":");
	buf_printf(out,
		   "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":\"%llu\","
		   "\"creationTimestamp\":null%s}}",
		   object ? w->view.def->kind : "PartialObjectMetadata",
		   object ? view_api_version(&w->view, version) : "meta.k8s.io/v1", (unsigned long long)w->rv,
		   w->initial_end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
	buf_puts(out, table ? "}]}}\n" : "}\n");
	w->initial_end = false;
}

static void put_error(struct buf *out, const struct failure *f)
{
	buf_puts(out, "{\"type\":\"ERROR\",\"object\":");
	failure_print(f, out);
	buf_puts(out, "}\n");
}

/* For a client with selectors an object that leaves them is deleted: told with its last state inside, as of
 * the event's version. */
static struct object *as_of(const struct object *before, uint64_t rv)
{
	_cleanup_(doc_free_ptr) struct doc *d = doc_new();
	struct doc_node *root;
	return doc_parse(d, before->text, &root, NULL) == 0 ? object_new(before->kind, d, root, rv) : NULL;
}

static void put_change(struct watch *w, struct buf *out, const struct event *e, int64_t wall)
{
	bool now = e->type != EVENT_DELETED && matches(e->now, w);
	bool before = e->before && matches(e->before, w);
	if (now) {
		put_event(w, out, before ? "MODIFIED" : "ADDED", e->now, wall);
	} else if (before && e->type == EVENT_DELETED) {
		put_event(w, out, "DELETED", e->now, wall);
	} else if (before) {
		_cleanup_(object_unref_ptr) struct object *left = as_of(e->before, e->rv);
		if (left)
			put_event(w, out, "DELETED", left, wall);
	}
}

/* ---- steps ---- */

static enum watch_result step_initial(struct watch *w, struct buf *out, int64_t wall)
{
	for (size_t start = out->len; out->len - start < BATCH_BYTES && w->initial_sent < w->initial.n;)
		put_event(w, out, "ADDED", w->initial.objects[w->initial_sent++], wall);
	if (w->initial_sent == w->initial.n) {
		snapshot_done(&w->initial);
		w->initial_sent = 0;
	}
	return WATCH_DATA;
}

/* References to the next events; *ret_end: the stream must end. */
static size_t collect(struct watch *w, struct event *events, bool *ret_end)
{
	struct storage *s = w->store;
	struct kind *kind = w->view.kind->storage;
	size_t n = 0, bytes = 0;
	bool lost = false;
	storage_lock(s);
	for (const struct event *e;
	     n < BATCH && bytes < BATCH_BYTES && (e = storage_event(kind, w->next, &lost)); w->next++) {
		bytes += e->now->text.len;
		events[n] = *e;
		object_ref(e->now);
		if (e->before)
			object_ref(e->before);
		n++;
	}
	if (lost) {
		w->expired = true;
		fail_expired(&w->why, "too old resource version: %llu (%llu): the client reads too slowly",
			     (unsigned long long)w->rv, (unsigned long long)s->rv);
	}
	*ret_end = s->stopping || !w->view.kind->served;
	if (n == 0 || w->next == kind->ring_first + kind->ring_len)
		w->rv = s->rv;
	else
		w->rv = events[n - 1].rv;
	storage_unlock(s);
	return n;
}

enum watch_result watch_step(struct watch *w, struct buf *out, int64_t now, int64_t wall, int64_t *ret_until)
{
	if (w->initial.n)
		return step_initial(w, out, wall);
	if (w->initial_end) { /* w->rv is the version of what was told */
		put_bookmark(w, out);
		return WATCH_DATA;
	}
	struct event events[BATCH];
	bool end = false;
	size_t n = w->expired ? 0 : collect(w, events, &end), start_len = out->len;
	for (size_t i = 0; i < n; i++) {
		put_change(w, out, &events[i], wall);
		object_unref(events[i].now);
		object_unref(events[i].before);
	}
	if (w->expired) {
		put_error(out, &w->why);
		return WATCH_END;
	}
	end |= now >= w->end;
	if (w->bookmarks && (end || now >= w->bookmark_at)) {
		put_bookmark(w, out);
		w->bookmark_at = now + w->bookmark_every;
	}
	if (end)
		return WATCH_END;
	*ret_until = w->bookmarks ? MIN(w->end, w->bookmark_at) : w->end;
	/* Events that do not match count as progress: there may be more behind them. */
	return out->len > start_len || n ? WATCH_DATA : WATCH_IDLE;
}

void watch_wait(struct watch *w, int64_t until)
{
	struct storage *s = w->store;
	struct kind *kind = w->view.kind->storage;
	struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
	storage_lock(s);
	while (!s->stopping && w->view.kind->served && w->next == kind->ring_first + kind->ring_len)
		if (pthread_cond_timedwait(&kind->changed, &s->lock, &t) == ETIMEDOUT)
			break;
	storage_unlock(s);
}
