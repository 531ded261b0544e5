/* One list-and-watch over HTTP. What happened is told to reflector.c, which says what to do next; here it is
 * done. */
#include "log.h"
#include "stream_internal.h"
#include <stdio.h>

enum {
	LIST_LIMIT = 500,
	RELIST_MAX = 10000, /* objects: a server may hold all of an answer in memory */
	ERROR_BODY_MAX = 64 << 10,
	DISCOVERY_MAX = 8 << 20,
	LIST_IDLE_MS = 60000,
	LIST_MAX_MS = 600000,	   /* of a page */
	BOOKMARKS_MISSED = 3,	   /* then the watch is dead, */
	BOOKMARKS_IDLE_MS = 10000, /* after this at least */
	STREAM_IDLE_MS = 10000,	   /* of a streaming list: what is silent for so long has no end to tell */
	WATCH_GRACE_S = 30
};

void stream_init(struct stream *s, struct informer *i, struct span namespace)
{
	*s = (struct stream){.informer = i, .namespace = namespace, .state = WIRE_STATE_OK};
	reflector_init(&s->reflector);
}

static void exchange_free(struct exchange *x)
{
	if (!x)
		return;
	json_stream_free(x->json);
	buf_done(&x->body);
	buf_done(&x->path);
	buf_done(&x->continue_token);
	buf_done(&x->version);
	buf_done(&x->versions);
	free(x);
}

void stream_stop(struct stream *s)
{
	if (s->exchange && s->exchange->transfer)
		http_cancel(s->exchange->transfer);
	exchange_free(s->exchange);
	s->exchange = NULL;
}

void stream_done(struct stream *s)
{
	stream_stop(s);
	free(s->message);
	free(s->version);
	s->message = s->version = NULL;
}

struct span stream_namespace(const struct stream *s)
{
	return s->informer->resource.namespaced ? s->namespace : (struct span){0};
}

/* Servers without it get pages. */
static bool lacks_streaming(const struct stream *s)
{
	return s->informer->watcher->streaming == STREAMING_LACKS;
}

static struct cache_table *table_of(const struct stream *s)
{
	return store_table_entry(s->informer->watcher->store, s->informer->table);
}

/* A list in one answer can be asked for that is not older than what was seen. The version of a list as of now is of the server's whole
 * store: its cache of a kind that does not change may never get there. What a watch told came from such a cache. */
static bool has_seen(const struct stream *s)
{
	const struct cache_table *t = table_of(s);
	return informer_synced(s->informer) && atomic_load(&t->seen) && !t->listed &&
	       atomic_load(&t->objects) <= RELIST_MAX;
}

void stream_relist(struct stream *s)
{
	stream_stop(s);
	reflector_relist(&s->reflector, lacks_streaming(s), has_seen(s));
	s->due_ns = 0;
}

/* ---- the next step ---- */

static double random_unit(void)
{
	return (double)random_below(UINT64_C(1) << 53) / (double)(UINT64_C(1) << 53);
}

static void step(struct stream *s, const struct reflector_input *in)
{
	struct reflector_output out = reflector_next(&s->reflector, in);
	if (in->event == REFLECTOR_EXPIRED)
		log_info("watch expired (410), relisting", LOG_S("table", s->informer->name),
			 LOG_SP("namespace", s->namespace));
	if (out.relist) {
		free(s->version);
		s->version = NULL;
	}
	s->due_ns = clock_boottime_ns() + out.wait_ns;
	log_debug("stream", LOG_S("table", s->informer->name),
		  LOG_S("event", reflector_event_name(in->event)), LOG_I("next", out.phase),
		  LOG_I("wait_ms", out.wait_ns / NS_PER_MS));
}

void stream_end_exchange(struct stream *s, enum reflector_event event, int64_t retry_after_ms,
			 const struct err *err)
{
	struct exchange *x = s->exchange;
	struct reflector_input in = {.event = event,
				     .retry_after_ns = retry_after_ms < 0 ? -1 : retry_after_ms * NS_PER_MS,
				     .lived_ns = x->started_ns ? clock_boottime_ns() - x->started_ns : 0,
				     .events = x->events,
				     .random = random_unit(),
				     .paged = lacks_streaming(s),
				     .seen = has_seen(s)};
	s->exchange = NULL;
	if (event == REFLECTOR_NOT_SERVED)
		s->informer->served = false;
	stream_report(s, event, err);
	step(s, &in);
	exchange_free(x);
}

static enum reflector_event event_of_code(int code, bool answered)
{
	switch (code) {
	case -ENOENT:
		return REFLECTOR_NOT_SERVED;
	case -EPERM:
		return REFLECTOR_FORBIDDEN;
	case -ENOKEY: /* the token file or the plugin has no credential for us */
		return REFLECTOR_UNAUTHORIZED;
	case -EACCES: /* 401, or TLS when there was no answer */
		return answered ? REFLECTOR_UNAUTHORIZED : REFLECTOR_UNTRUSTED;
	case -ESTALE:
		return REFLECTOR_EXPIRED;
	case -EAGAIN:
		return REFLECTOR_BUSY;
	default:
		return answered ? REFLECTOR_REFUSED : REFLECTOR_UNREACHABLE;
	}
}

/* ---- HTTP ---- */

static int on_start(void *ctx, const struct http_result *r)
{
	struct exchange *x = ctx;
	x->started_ns = clock_boottime_ns();
	if (r->status == 200 && kube_answers(&x->request, r, &x->err) < 0) {
		x->failed = true;
		x->event = REFLECTOR_NONSENSE;
		return -EPROTO;
	}
	if (r->status != 200 || x->phase == REFLECTOR_DISCOVER)
		return 0;
	bool list = x->phase == REFLECTOR_LIST || x->phase == REFLECTOR_RELIST;
	x->json = json_stream_new(list ? JSON_STREAM_LIST : JSON_STREAM_WATCH,
				  list ? &stream_list_ops : &stream_watch_ops, x);
	if (x->phase == REFLECTOR_WATCH)
		stream_watch_began(x->stream);
	else if (x->phase == REFLECTOR_STREAM)
		http_idle_timeout(x->transfer, MIN(x->idle_ms, (int64_t)STREAM_IDLE_MS));
	return 0;
}

static int on_data(void *ctx, struct span data)
{
	struct exchange *x = ctx;
	if (!x->json) {
		size_t max = x->phase == REFLECTOR_DISCOVER ? DISCOVERY_MAX : ERROR_BODY_MAX;
		buf_add(&x->body, data.at, MIN(data.len, max - MIN(x->body.len, max)));
		return 0;
	}
	/* White space between events tells nothing, however long it comes; within one it does, which the request's own
	 * time bounds. */
	if (json_stream_is_blank(x->json, data))
		http_not_heard(x->transfer);
	struct err err = {0};
	int rc = json_stream_feed(x->json, data, &err);
	if (rc < 0 && !x->failed) {
		x->failed = true;
		x->event = REFLECTOR_NONSENSE;
		x->err = err;
	}
	return rc;
}

static void start_list(struct stream *s);

static void list_complete(struct stream *s)
{
	struct exchange *x = s->exchange;
	bool again;
	if (stream_list_complete(x, &again) < 0)
		stream_end_exchange(s, x->event, -1, &x->err);
	else if (again)
		start_list(s);
	else
		stream_end_exchange(s, REFLECTOR_LISTED, -1, &x->err);
}

/* A streaming list that is not to be had; known is whether that is so on the whole server. */
static void no_streaming(struct stream *s, bool of_server, const struct err *why)
{
	struct watcher *w = s->informer->watcher;
	if (of_server && w->streaming == STREAMING_UNKNOWN) {
		w->streaming = STREAMING_LACKS;
		log_info("the API server has no streaming list; lists come in pages",
			 LOG_S("reason", why->text));
	}
	stream_end_exchange(s, REFLECTOR_UNSUPPORTED, -1, why);
}

/* The server's cache is behind what was seen, or it has none. */
static void no_relist(struct stream *s, const struct err *why)
{
	log_info("no list that is as new as what was seen; the next one is as of now",
		 LOG_S("table", s->informer->name), LOG_S("reason", why->text));
	stream_end_exchange(s, REFLECTOR_UNSUPPORTED, -1, why);
}

/* Servers name what they do not know or allow; some tell only that something is wrong. */
static bool refuses_streaming(const struct kube_status *status, bool *ret_of_server)
{
	*ret_of_server =
	    strstr(status->message, "sendInitialEvents") || strstr(status->message, "resourceVersionMatch");
	switch (status->code) {
	case 400:
	case 405:
	case 406:
	case 415:
	case 422:
	case 501:
		return true;
	default:
		return *ret_of_server && status->code != 429 && status->code < 500;
	}
}

/* An answer that is no 200. */
static void refused(struct stream *s, const struct http_result *r)
{
	struct exchange *x = s->exchange;
	struct kube_status status = {.retry_after_ms = -1};
	struct err text = {0};
	bool of_server;
	int rc = kube_status(&x->request, r, buf_span(&x->body), &status, &text);
	if (rc == 0)
		rc = err_set(&text, -EPROTO, "GET %.*s: unexpected status %d",
			     (int)strcspn(x->request.path, "?"), x->request.path, r->status);
	if (x->phase ==
	    REFLECTOR_DISCOVER) /* an aggregated API without its server: whether it has the kind is not known */
		err_prefix(&text, rc, "group %s cannot be read (%d)", s->informer->kind->api_version,
			   r->status);
	enum reflector_event event = event_of_code(rc, true);
	if (event == REFLECTOR_REFUSED && status.retry_after_ms >= 0)
		event = REFLECTOR_BUSY;
	bool refuses = refuses_streaming(&status, &of_server);
	if (x->phase == REFLECTOR_STREAM && refuses)
		no_streaming(s, of_server, &text);
	else if (x->phase == REFLECTOR_RELIST && (refuses || status.code == 504))
		no_relist(s, &text);
	else
		stream_end_exchange(s, event, status.retry_after_ms, &text);
}

static void page_complete(struct stream *s)
{
	struct exchange *x = s->exchange;
	x->pages++;
	if (!x->is_list || !x->version.len) {
		err_set(&x->err, 0, "GET %.*s: 200, but it is no list with a resourceVersion",
			(int)strcspn(x->request.path, "?"), x->request.path);
		stream_end_exchange(s, REFLECTOR_NONSENSE, -1, &x->err);
	} else if (x->continue_token.len) {
		stream_start_request(s);
	} else {
		list_complete(s);
	}
}

/* The answer of a watch or a streaming list is over. A partial line at the end is dropped: the resourceVersion has
 * not passed it. */
static void stream_ended(struct stream *s, int code, const struct err *err)
{
	struct exchange *x = s->exchange;
	struct err text = *err;
	if (code)
		log_info("watch lost", LOG_S("table", s->informer->name), LOG_SP("namespace", s->namespace),
			 LOG_S("reason", err->text));
	if (code == -EPROTO) {
		stream_end_exchange(s, REFLECTOR_NONSENSE, -1, &text);
	} else if (x->phase == REFLECTOR_WATCH) {
		stream_end_exchange(s, code == -ETIMEDOUT ? REFLECTOR_IDLE : REFLECTOR_ENDED, -1, &text);
	} else if (code == -ETIMEDOUT) {
		/* Silence is what servers have that never heard of it. At the end of the request's time it is a list
		 * that is too long. */
		int64_t lived_ms = (clock_boottime_ns() - x->started_ns) / NS_PER_MS;
		bool silent = lived_ms < x->request.timeout_ms - LIST_IDLE_MS;
		err_set(&text, 0, "the end of the streaming list was not told");
		no_streaming(s, silent, &text);
	} else {
		if (!code)
			err_set(&text, 0, "the streaming list ended before its end was told");
		stream_end_exchange(s, code ? REFLECTOR_UNREACHABLE : REFLECTOR_NONSENSE, -1, &text);
	}
}

static void on_end(void *ctx, int code, const struct http_result *r, const struct err *err)
{
	struct exchange *x = ctx;
	struct stream *s = x->stream;
	struct err text = err ? *err : (struct err){0};
	x->transfer = NULL;
	if (x->failed && x->event == REFLECTOR_UNSUPPORTED)
		no_streaming(s, true, &x->err);
	else if (x->failed)
		stream_end_exchange(s, x->event, x->retry_after_ms, &x->err);
	else if (x->phase == REFLECTOR_DISCOVER && (r->status == 404 || (x->in_group && r->status && !code)))
		stream_discovered(s, r->status);
	else if (r->status && r->status != 200)
		refused(s, r);
	else if (!r->status)
		stream_end_exchange(s, event_of_code(code ? code : -EPROTO, false), r->retry_after_ms, &text);
	else if (x->phase == REFLECTOR_WATCH || x->phase == REFLECTOR_STREAM)
		stream_ended(s, code, &text);
	else if (code)
		stream_end_exchange(s, code == -EPROTO ? REFLECTOR_NONSENSE : REFLECTOR_UNREACHABLE, -1,
				    &text);
	else if (x->phase == REFLECTOR_DISCOVER)
		stream_discovered(s, 200);
	else if (json_stream_end(x->json, &text) < 0)
		stream_end_exchange(s, REFLECTOR_NONSENSE, -1, &text);
	else
		page_complete(s);
}

/* ---- requests ---- */

static const char *accept_of(const struct informer *i, bool watching)
{
	if (!i->kind->metadata_only || !i->served)
		return "application/json";
	return watching ? "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
			: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
}

static void list_query(struct exchange *x)
{
	char number[24];
	if (x->phase == REFLECTOR_RELIST && !x->continue_token.len) {
		x->not_older = atomic_load(&table_of(x->stream)->seen);
		snprintf(number, sizeof number, "%llu", (unsigned long long)x->not_older);
		kube_query(&x->path, "resourceVersion", span_of(number));
		return;
	}
	snprintf(number, sizeof number, "%d", LIST_LIMIT);
	kube_query(&x->path, "limit", span_of(number));
	if (x->continue_token.len)
		kube_query(&x->path, "continue", buf_span(&x->continue_token));
}

int64_t stream_watch_idle_ms(const struct exchange *x)
{
	int64_t gap_ms = x->stream->bookmark_gap_ns / NS_PER_MS;
	return gap_ms ? MIN(x->idle_ms, MAX(gap_ms * BOOKMARKS_MISSED, (int64_t)BOOKMARKS_IDLE_MS))
		      : x->idle_ms;
}

static void watch_query(struct stream *s)
{
	struct exchange *x = s->exchange;
	char number[24];
	int seconds = reflector_watch_seconds(random_unit());
	snprintf(number, sizeof number, "%d", seconds);
	kube_query(&x->path, "watch", span_of("true"));
	kube_query(&x->path, "allowWatchBookmarks", span_of("true"));
	kube_query(&x->path, "timeoutSeconds", span_of(number));
	/* The server ends it by then: silence beyond is a dead connection that nobody told us of. */
	int64_t idle_ns = s->informer->watcher->idle_timeout_ns;
	x->request.timeout_ms =
	    (seconds + WATCH_GRACE_S) * 1000; /* one event that never ends is no silence */
	x->idle_ms = idle_ns ? idle_ns / NS_PER_MS : (seconds + WATCH_GRACE_S) * 1000;
	if (x->phase == REFLECTOR_WATCH) {
		kube_query(&x->path, "resourceVersion", span_of(s->version));
		x->request.idle_timeout_ms = stream_watch_idle_ms(x);
		return;
	}
	/* Without a resourceVersion the list is as of now: never older than what is known already. */
	kube_query(&x->path, "sendInitialEvents", span_of("true"));
	kube_query(&x->path, "resourceVersionMatch", span_of("NotOlderThan"));
}

static void make_path(struct stream *s)
{
	struct exchange *x = s->exchange;
	struct informer *i = s->informer;
	buf_reset(&x->path);
	x->request.idle_timeout_ms = LIST_IDLE_MS;
	x->request.timeout_ms = LIST_MAX_MS;
	if (x->phase == REFLECTOR_DISCOVER) {
		stream_discovery_path(s, &x->path);
		return;
	}
	kube_path(&x->path, &i->resource, stream_namespace(s), (struct span){0}, NULL);
	if (i->kind->label_selector)
		kube_query(&x->path, "labelSelector", span_of(i->kind->label_selector));
	if (i->kind->field_selector)
		kube_query(&x->path, "fieldSelector", span_of(i->kind->field_selector));
	if (x->phase == REFLECTOR_LIST || x->phase == REFLECTOR_RELIST)
		list_query(x);
	else
		watch_query(s);
}

/* The exchange's next request: the list's next page, or its only one. */
void stream_start_request(struct stream *s)
{
	static const struct http_callbacks callbacks = {on_start, on_data, on_end};
	struct exchange *x = s->exchange;
	bool watching = x->phase == REFLECTOR_WATCH || x->phase == REFLECTOR_STREAM;
	x->request = (struct http_request){
	    .method = "GET", .accept = accept_of(s->informer, watching), .own_connection = watching};
	make_path(s);
	x->request.path = buf_str(&x->path);
	json_stream_free(x->json);
	x->json = NULL;
	x->is_list = false;
	buf_reset(&x->body);
	struct err err = {0};
	int rc = http_start(s->informer->watcher->http, &x->request, &callbacks, x, &x->transfer, &err);
	if (rc < 0)
		stream_end_exchange(s, REFLECTOR_UNREACHABLE, -1, &err);
}

static void start_discovery(struct stream *s)
{
	struct exchange *x = s->exchange;
	if (s->informer->served) /* another namespace's stream asked already */
		stream_end_exchange(s, REFLECTOR_SERVED, -1, &x->err);
	else
		stream_start_request(s);
}

static void start_list(struct stream *s)
{
	struct informer *i = s->informer;
	s->epoch = watcher_next_epoch(i->watcher);
	struct exchange *x = s->exchange;
	x->counts = (struct counts){0};
	x->pages = 0;
	x->full = false;
	buf_reset(&x->continue_token);
	/* Written down before the first object is: a watcher that dies on the way leaves the wish behind. */
	for (size_t n = 0; n < i->n_subs && !informer_synced(i); n++)
		controller_want_sweep(i->subs[n]->controller, WIRE_CAUSE_INITIAL);
	stream_start_request(s);
}

void stream_act(struct stream *s, int64_t now_ns)
{
	if (s->dormant || s->exchange || now_ns < s->due_ns)
		return;
	s->due_ns = INT64_MAX;
	if (s->reflector.phase == REFLECTOR_DISCOVER && stream_waits_for_discovery(s))
		return;
	s->exchange = xcalloc(1, sizeof *s->exchange);
	s->exchange->stream = s;
	s->exchange->phase = s->reflector.phase;
	s->exchange->retry_after_ms = -1;
	if (s->reflector.phase == REFLECTOR_STREAM && lacks_streaming(s)) {
		stream_end_exchange(s, REFLECTOR_UNSUPPORTED, -1,
				    &s->exchange->err); /* another one was told */
		return;
	}
	switch (s->reflector.phase) {
	case REFLECTOR_DISCOVER:
		start_discovery(s);
		break;
	case REFLECTOR_LIST:
	case REFLECTOR_RELIST:
	case REFLECTOR_STREAM:
		start_list(s);
		break;
	case REFLECTOR_WATCH:
		stream_start_request(s);
		break;
	}
}
