/* What lists and watches bring, item by item, and the end of a list. */
#include "log.h"
#include "stream_internal.h"

#define INITIAL_EVENTS_END "k8s.io/initial-events-end" /* annotation of the bookmark after a streaming list */

static int fail_item(struct exchange *x, int code)
{
	x->failed = true;
	x->event = code == -ENOSPC || code == -EMSGSIZE ? REFLECTOR_CACHE_FULL
		   : code == -EAGAIN			? REFLECTOR_OUTBOX_FULL
							: REFLECTOR_NONSENSE;
	return code;
}

static int on_list_item(void *ctx, struct span item)
{
	struct exchange *x = ctx;
	struct err err;
	int rc = informer_put(x->stream, item, x->stream->epoch, &x->counts, &err);
	if (rc == -ENOSPC || rc == -EMSGSIZE) {
		/* Read on: what is gone by now is known only at the end, and makes room. */
		if (!x->full)
			x->err = err;
		x->full = true;
		return 0;
	}
	if (rc < 0)
		x->err = err;
	return rc < 0 ? fail_item(x, rc) : 0;
}

static int on_list_member(void *ctx, struct span key, struct span value)
{
	struct exchange *x = ctx;
	struct span text;
	if (json_string_is(key, "kind") && json_string_raw(value, &text) == 0)
		x->is_list = text.len > 4 && !memcmp(text.at + text.len - 4, "List", 4);
	if (!json_string_is(key, "metadata"))
		return 0;
	buf_reset(&x->continue_token);
	buf_reset(&x->version);
	json_unescape(json_get(value, "continue"), &x->continue_token);
	json_unescape(json_get(value, "resourceVersion"), &x->version);
	return 0;
}

/* A Status in the place of an event. */
static int on_error_event(struct exchange *x, struct span status)
{
	int64_t code = 0, seconds = 0;
	struct buf message = {.limit = 500};
	json_int(json_get(status, "code"), &code);
	json_unescape(json_get(status, "message"), &message);
	err_set(&x->err, 0, "the watch ended with status %lld: %s", (long long)code, buf_str(&message));
	buf_done(&message);
	x->failed = true;
	x->event = code == 410 ? REFLECTOR_EXPIRED : code == 429 ? REFLECTOR_BUSY : REFLECTOR_NONSENSE;
	if (json_int(json_path(status, "details", "retryAfterSeconds", NULL), &seconds) == 0 && seconds > 0)
		x->retry_after_ms = MIN(seconds, 3600) * 1000;
	return -ECANCELED;
}

/* ---- events ---- */

/* ADDED and MODIFIED, of a list that is streamed as of a watch. */
static int put_event(struct exchange *x, struct span object)
{
	struct counts counts = {0};
	if (x->phase == REFLECTOR_WATCH)
		return informer_put(x->stream, object, 0, &counts, &x->err);
	return on_list_item(x, object);
}

static int take_event(struct exchange *x, struct span type, struct span object)
{
	if (json_string_is(type, "ERROR"))
		return on_error_event(x, object);
	if (json_type_of(object) != JSON_OBJECT)
		return err_set(&x->err, -EINVAL, "the watch brought an event without an object");
	if (json_string_is(type, "ADDED") || json_string_is(type, "MODIFIED"))
		return put_event(x, object);
	if (json_string_is(type, "DELETED"))
		return informer_deleted(x->stream, object, &x->err);
	if (json_string_is(type, "BOOKMARK"))
		return 0;
	return err_set(&x->err, -EINVAL, "the watch brought an event of the unknown type %.*s",
		       (int)MIN(type.len, 40u), type.at ? type.at : "");
}

/* The bookmark that ends a streaming list; one without the mark comes from a server that never heard of it. */
static int streamed_list_complete(struct exchange *x, struct span object)
{
	struct span mark = json_path(object, "metadata", "annotations", INITIAL_EVENTS_END, NULL);
	bool again;
	if (!json_string_is(mark, "true")) {
		x->failed = true;
		x->event = REFLECTOR_UNSUPPORTED;
		return err_set(&x->err, -ECANCELED, "a bookmark came that does not end the streaming list");
	}
	json_unescape(json_path(object, "metadata", "resourceVersion", NULL), &x->version);
	if (!x->version.len)
		return err_set(&x->err, -EINVAL, "the streaming list ended without a resourceVersion");
	int rc = stream_list_complete(x, &again);
	if (rc < 0)
		return rc;
	if (again) { /* nothing asks for it on this connection */
		x->failed = true;
		x->event = REFLECTOR_CACHE_FULL;
		return -ECANCELED;
	}
	x->stream->informer->watcher->streaming = STREAMING_SERVED;
	x->phase = REFLECTOR_WATCH;
	x->started_ns = clock_boottime_ns();
	http_idle_timeout(x->transfer, stream_watch_idle_ms(x));
	reflector_next(&x->stream->reflector, &(struct reflector_input){.event = REFLECTOR_LISTED});
	stream_watch_began(x->stream);
	return 0;
}

void stream_watch_began(struct stream *s)
{
	log_info("watch started", LOG_S("table", s->informer->name), LOG_SP("namespace", s->namespace),
		 LOG_S("version", s->version));
	if (!reflector_doubts(&s->reflector))
		stream_report_ok(s);
}

/* An event or a bookmark that was understood. */
static void made_progress(struct exchange *x)
{
	struct stream *s = x->stream;
	struct reflector_input in = {.event = REFLECTOR_PROGRESS};
	bool doubted = reflector_doubts(&s->reflector);
	if (doubted)
		in.lived_ns = clock_boottime_ns() - x->started_ns;
	reflector_next(&s->reflector, &in);
	if (doubted && !reflector_doubts(&s->reflector))
		stream_report_ok(s);
}

/* They come as a heartbeat does. */
static void bookmark_came(struct exchange *x)
{
	int64_t now = clock_boottime_ns(), last = x->bookmark_ns ? x->bookmark_ns : x->started_ns;
	x->stream->bookmark_gap_ns = MAX(x->stream->bookmark_gap_ns, now - last);
	x->bookmark_ns = now;
	http_idle_timeout(x->transfer, stream_watch_idle_ms(x));
}

static int on_watch_item(void *ctx, struct span item)
{
	struct exchange *x = ctx;
	struct stream *s = x->stream;
	struct span type = json_get(item, "type"), object = json_get(item, "object");
	int rc = take_event(x, type, object);
	bool listing = rc == 0 && x->phase == REFLECTOR_STREAM;
	if (listing && json_string_is(type, "BOOKMARK"))
		rc = streamed_list_complete(x, object);
	if (rc < 0)
		return x->failed ? rc : fail_item(x, rc);
	if (listing) /* its items are of any age: only the end says how far it is */
		return 0;
	struct buf version = {0};
	if (json_unescape(json_path(object, "metadata", "resourceVersion", NULL), &version) == 0 &&
	    version.len) {
		free(s->version);
		s->version = buf_steal(&version);
		progress_seen(s);
	}
	buf_done(&version);
	if (json_string_is(type, "BOOKMARK"))
		bookmark_came(x);
	x->events++;
	made_progress(x);
	return 0;
}

const struct json_stream_ops stream_list_ops = {on_list_item, on_list_member},
			     stream_watch_ops = {on_watch_item, NULL};

/* ---- the end of a list ---- */

static void table_complete(struct informer *i)
{
	i->rewrite = false;
	if (informer_synced(i))
		return;
	/* Again: a sweep does not wait for a kind that is not served, so it may have run while the list came in.
	 * Before the table counts as synced: from then on only changes are news. */
	for (size_t n = 0; n < i->n_subs; n++)
		controller_want_sweep(i->subs[n]->controller, WIRE_CAUSE_INITIAL);
	store_table_set_synced(i->watcher->store, i->table, true);
	log_info("table synced", LOG_S("table", i->name),
		 LOG_I("objects", atomic_load(&store_table_entry(i->watcher->store, i->table)->objects)));
}

/* The only stream of the kind knows by it, too, that what was newer is of another history of the server. */
static void listed_as_of_now(struct informer *i, uint64_t version)
{
	struct cache_table *t = store_table_entry(i->watcher->store, i->table);
	if (i->n_streams == 1)
		atomic_store(&t->seen, version);
	t->listed = true;
}

int stream_list_complete(struct exchange *x, bool *ret_again)
{
	struct stream *s = x->stream;
	struct informer *i = s->informer;
	uint64_t version = kube_version(buf_span(&x->version));
	if (version < x->not_older) {
		err_set(&x->err, 0, "the list is as of %s, and not older than %llu was asked for",
			buf_str(&x->version), (unsigned long long)x->not_older);
		return fail_item(x, -EPROTO);
	}
	informer_saw(i, version);
	int rc = informer_sweep(i, stream_namespace(s), s->epoch, &x->counts, &x->err);
	if (rc < 0)
		return fail_item(x, rc);
	*ret_again = x->full && x->counts.deleted; /* each round has fewer to delete */
	if (*ret_again)
		return 0;
	if (x->full)
		return fail_item(x, -ENOSPC);
	free(s->version);
	s->version = buf_steal(&x->version);
	s->listed = true;
	if (!x->not_older)
		listed_as_of_now(i, version);
	progress_seen(s);
	log_info("list complete", LOG_S("table", i->name), LOG_SP("namespace", s->namespace),
		 LOG_I("items", x->counts.items), LOG_I("added", x->counts.added),
		 LOG_I("changed", x->counts.changed), LOG_I("deleted", x->counts.deleted),
		 LOG_I("unchanged", x->counts.unchanged),
		 LOG_S("by", x->not_older ? "seen"
			     : x->pages	  ? "pages"
					  : "stream"),
		 LOG_I("pages", x->pages), LOG_S("version", s->version));
	bool all = true;
	for (size_t n = 0; n < i->n_streams; n++)
		all = all && (i->streams[n].listed || i->streams[n].dormant);
	if (all)
		table_complete(i);
	return 0;
}
