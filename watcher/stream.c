/* One list-and-watch over HTTP. What happened is told to reflector.c, which says what to do next; here it is
 * done. */
#include "log.h"
#include "watcher.h"
#include <stdio.h>

enum {
	LIST_LIMIT = 500,
	ERROR_BODY_MAX = 64 << 10,
	DISCOVERY_MAX = 8 << 20,
	LIST_IDLE_MS = 60000,
	WATCH_GRACE_S = 30
};

/* A discovery, a list of several pages, or a watch. */
struct exchange {
	struct stream *stream;
	enum reflector_phase phase;
	struct http_transfer *transfer;
	struct json_stream *json;
	struct buf body; /* of an answer that is no 200 */
	struct buf path;
	struct http_request request;
	int64_t started_ns; /* of the answer */
	uint64_t events;
	bool failed; /* by an item: event and text say how */
	enum reflector_event event;
	struct err err;
	/* LIST */
	struct buf continue_token;
	struct buf version;
	bool is_list; /* its kind says so */
	bool full;    /* not every object found room */
	struct counts counts;
	unsigned pages;
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

void stream_relist(struct stream *s)
{
	bool served = s->reflector.phase != REFLECTOR_DISCOVER;
	stream_stop(s);
	reflector_init(&s->reflector);
	if (served)
		s->reflector.phase = REFLECTOR_LIST;
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

/* The exchange is over; it is freed here. */
static void end_exchange(struct stream *s, enum reflector_event event, int64_t retry_after_ms,
			 const struct err *err)
{
	struct exchange *x = s->exchange;
	struct reflector_input in = {.event = event,
				     .retry_after_ns = retry_after_ms < 0 ? -1 : retry_after_ms * NS_PER_MS,
				     .lived_ns = x->started_ns ? clock_boottime_ns() - x->started_ns : 0,
				     .events = x->events,
				     .random = random_unit()};
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

/* ---- items ---- */

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
	struct stream *s = x->stream;
	struct err err;
	int rc = informer_put(s, item, s->epoch, &x->counts, &err);
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
	int64_t code = 0;
	struct buf message = {.limit = 500};
	json_int(json_get(status, "code"), &code);
	json_unescape(json_get(status, "message"), &message);
	err_set(&x->err, 0, "the watch ended with status %lld: %s", (long long)code, buf_str(&message));
	buf_done(&message);
	x->failed = true;
	x->event = code == 410 ? REFLECTOR_EXPIRED : code == 429 ? REFLECTOR_BUSY : REFLECTOR_NONSENSE;
	return -ECANCELED;
}

static int take_event(struct exchange *x, struct span item, bool *ret_error)
{
	struct stream *s = x->stream;
	struct span type = json_get(item, "type"), object = json_get(item, "object");
	struct counts counts = {0};
	*ret_error = json_string_is(type, "ERROR");
	if (*ret_error)
		return on_error_event(x, object);
	if (json_type_of(object) != JSON_OBJECT)
		return err_set(&x->err, -EINVAL, "the watch brought an event without an object");
	if (json_string_is(type, "ADDED") || json_string_is(type, "MODIFIED"))
		return informer_put(s, object, 0, &counts, &x->err);
	if (json_string_is(type, "DELETED"))
		return informer_deleted(s, object, &x->err);
	if (json_string_is(type, "BOOKMARK"))
		return 0;
	return err_set(&x->err, -EINVAL, "the watch brought an event of the unknown type %.*s",
		       (int)MIN(type.len, 40u), type.at ? type.at : "");
}

static int on_watch_item(void *ctx, struct span item)
{
	struct exchange *x = ctx;
	struct stream *s = x->stream;
	bool error;
	int rc = take_event(x, item, &error);
	if (rc < 0)
		return error ? rc : fail_item(x, rc);
	struct buf version = {0};
	if (json_unescape(json_path(item, "object", "metadata", "resourceVersion", NULL), &version) == 0 &&
	    version.len) {
		free(s->version);
		s->version = buf_steal(&version);
		progress_seen(s);
	}
	buf_done(&version);
	x->events++;
	reflector_next(&s->reflector, &(struct reflector_input){.event = REFLECTOR_PROGRESS});
	return 0;
}

/* ---- HTTP ---- */

static int on_start(void *ctx, const struct http_result *r)
{
	static const struct json_stream_ops list = {on_list_item, on_list_member},
					    watch = {on_watch_item, NULL};
	struct exchange *x = ctx;
	struct stream *s = x->stream;
	x->started_ns = clock_boottime_ns();
	if (r->status != 200 || x->phase == REFLECTOR_DISCOVER)
		return 0;
	bool watching = x->phase == REFLECTOR_WATCH;
	x->json =
	    json_stream_new(watching ? JSON_STREAM_WATCH : JSON_STREAM_LIST, watching ? &watch : &list, x);
	if (watching) {
		log_info("watch started", LOG_S("table", s->informer->name),
			 LOG_SP("namespace", s->namespace), LOG_S("version", s->version));
		stream_report_ok(s);
	}
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
	struct err err = {0};
	int rc = json_stream_feed(x->json, data, &err);
	if (rc < 0 && !x->failed) {
		x->failed = true;
		x->event = REFLECTOR_NONSENSE;
		x->err = err;
	}
	return rc;
}

static void start_request(struct stream *s);
static void start_list(struct stream *s);
static void discovered(struct stream *s);

static void list_complete(struct stream *s)
{
	struct exchange *x = s->exchange;
	struct informer *i = s->informer;
	int rc = informer_sweep(i, stream_namespace(s), s->epoch, &x->counts, &x->err);
	if (rc < 0) {
		fail_item(x, rc);
		end_exchange(s, x->event, -1, &x->err);
		return;
	}
	if (x->full && x->counts.deleted) {
		start_list(s); /* there is room now; each round has fewer to delete */
		return;
	}
	if (x->full) {
		end_exchange(s, REFLECTOR_CACHE_FULL, -1, &x->err);
		return;
	}
	free(s->version);
	s->version = buf_steal(&x->version);
	s->listed = true;
	progress_seen(s);
	log_info("list complete", LOG_S("table", i->name), LOG_SP("namespace", s->namespace),
		 LOG_I("items", x->counts.items), LOG_I("added", x->counts.added),
		 LOG_I("changed", x->counts.changed), LOG_I("deleted", x->counts.deleted),
		 LOG_I("unchanged", x->counts.unchanged), LOG_I("pages", x->pages),
		 LOG_S("version", s->version));
	bool all = true;
	for (size_t n = 0; n < i->n_streams; n++)
		all = all && (i->streams[n].listed || i->streams[n].dormant);
	if (all) {
		i->rewrite = false;
		if (!informer_synced(i)) {
			/* Again: a sweep does not wait for a kind that is not served, so it may have run
			 * while the list came in. Before the table counts as synced: from then on only
			 * changes are news. */
			for (size_t n = 0; n < i->n_subs; n++)
				controller_want_sweep(i->subs[n]->controller, WIRE_CAUSE_INITIAL);
			store_table_set_synced(i->watcher->store, i->table, true);
			log_info(
			    "table synced", LOG_S("table", i->name),
			    LOG_I("objects",
				  atomic_load(&store_table_entry(i->watcher->store, i->table)->objects)));
		}
	}
	end_exchange(s, REFLECTOR_LISTED, -1, &x->err);
}

static void page_complete(struct stream *s)
{
	struct exchange *x = s->exchange;
	x->pages++;
	if (!x->is_list || !x->version.len) {
		err_set(&x->err, 0, "GET %.*s: 200, but it is no list with a resourceVersion",
			(int)strcspn(x->request.path, "?"), x->request.path);
		end_exchange(s, REFLECTOR_NONSENSE, -1, &x->err);
	} else if (x->continue_token.len) {
		start_request(s);
	} else {
		list_complete(s);
	}
}

static void on_end(void *ctx, int code, const struct http_result *r, const struct err *err)
{
	struct exchange *x = ctx;
	struct stream *s = x->stream;
	struct err text = err ? *err : (struct err){0};
	x->transfer = NULL;
	bool watching = x->phase == REFLECTOR_WATCH;
	if (x->failed) {
		end_exchange(s, x->event, -1, &x->err);
	} else if (r->status && r->status != 200) {
		struct kube_status status;
		int rc = kube_status(&x->request, r, buf_span(&x->body), &status, &text);
		if (rc == 0)
			rc = err_set(&text, -EPROTO, "GET %.*s: unexpected status %d",
				     (int)strcspn(x->request.path, "?"), x->request.path, r->status);
		enum reflector_event event = event_of_code(rc, true);
		if (event == REFLECTOR_REFUSED && status.retry_after_ms >= 0)
			event = REFLECTOR_BUSY;
		end_exchange(s, event, status.retry_after_ms, &text);
	} else if (!r->status) {
		end_exchange(s, event_of_code(code ? code : -EPROTO, false), r->retry_after_ms, &text);
	} else if (watching) {
		/* A partial line at the end is dropped: the resourceVersion has not passed it. */
		end_exchange(s, code == -ETIMEDOUT ? REFLECTOR_IDLE : REFLECTOR_ENDED, -1, &text);
	} else if (code) {
		end_exchange(s, REFLECTOR_UNREACHABLE, -1, &text);
	} else if (x->phase == REFLECTOR_DISCOVER) {
		discovered(s);
	} else if (json_stream_end(x->json, &text) < 0) {
		end_exchange(s, REFLECTOR_NONSENSE, -1, &text);
	} else {
		page_complete(s);
	}
}

/* ---- requests ---- */

static const char *accept_of(const struct informer *i, bool watching)
{
	if (!i->kind->metadata_only || !i->served)
		return "application/json";
	return watching ? "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
			: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
}

static void make_path(struct stream *s)
{
	struct exchange *x = s->exchange;
	struct informer *i = s->informer;
	bool watching = x->phase == REFLECTOR_WATCH;
	char number[24];
	buf_reset(&x->path);
	x->request.idle_timeout_ms = LIST_IDLE_MS;
	if (x->phase == REFLECTOR_DISCOVER) {
		if (kube_discovery_path(i->kind->api_version, &x->path, NULL) < 0)
			buf_puts(
			    &x->path,
			    "/api"); /* the configuration refuses such a thing; the kind is not found there */
		return;
	}
	kube_path(&x->path, &i->resource, stream_namespace(s), (struct span){0}, NULL);
	if (i->kind->label_selector)
		kube_query(&x->path, "labelSelector", span_of(i->kind->label_selector));
	if (i->kind->field_selector)
		kube_query(&x->path, "fieldSelector", span_of(i->kind->field_selector));
	if (!watching) {
		snprintf(number, sizeof number, "%d", LIST_LIMIT);
		kube_query(&x->path, "limit", span_of(number));
		if (x->continue_token.len)
			kube_query(&x->path, "continue", buf_span(&x->continue_token));
		return;
	}
	int seconds = reflector_watch_seconds(random_unit());
	snprintf(number, sizeof number, "%d", seconds);
	kube_query(&x->path, "watch", span_of("true"));
	kube_query(&x->path, "allowWatchBookmarks", span_of("true"));
	kube_query(&x->path, "resourceVersion", span_of(s->version));
	kube_query(&x->path, "timeoutSeconds", span_of(number));
	/* The server ends it by then: silence beyond is a dead connection that nobody told us of. */
	int64_t idle_ns = i->watcher->idle_timeout_ns;
	x->request.idle_timeout_ms = idle_ns ? idle_ns / NS_PER_MS : (seconds + WATCH_GRACE_S) * 1000;
}

/* The exchange's next request: the list's next page, or its only one. */
static void start_request(struct stream *s)
{
	static const struct http_callbacks callbacks = {on_start, on_data, on_end};
	struct exchange *x = s->exchange;
	bool watching = x->phase == REFLECTOR_WATCH;
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
		end_exchange(s, REFLECTOR_UNREACHABLE, -1, &err);
}

static void served(struct stream *s)
{
	struct informer *i = s->informer;
	struct cache_table *t = store_table_entry(i->watcher->store, i->table);
	i->served = true;
	t->scope = i->resource.namespaced ? CACHE_SCOPE_NAMESPACED : CACHE_SCOPE_CLUSTER;
	t->custom = i->resource.custom;
	for (size_t n = 0; n < i->n_streams; n++)
		i->streams[n].dormant = n > 0 && !i->resource.namespaced;
	for (size_t n = 0; n < i->n_subs; n++) {
		struct sub *u = i->subs[n];
		bool primary = u->mapping.type == MAP_SELF;
		if (u->default_predicate) {
			predicate_done(&u->predicate);
			predicate_init_default(&u->predicate, primary && i->resource.custom);
		}
		if (primary && i->resource.custom && !i->resource.has_status)
			log_warning("the kind has no status subresource: writing its status counts as a "
				    "change of the object",
				    LOG_S("controller", u->controller->config->name),
				    LOG_S("table", i->name));
	}
	if (i->kind->namespaces && !i->resource.namespaced)
		log_warning("the kind is cluster-scoped: its namespaces are ignored",
			    LOG_S("table", i->name));
}

/* The answer of discovery is whole in body. */
static void discovered(struct stream *s)
{
	struct informer *i = s->informer;
	struct exchange *x = s->exchange;
	int rc = kube_discovery_find(i->kind->api_version, i->kind->kind, buf_span(&x->body), &i->resource,
				     &x->err);
	if (rc == 0)
		served(s);
	end_exchange(s,
		     rc == 0	     ? REFLECTOR_SERVED
		     : rc == -ENOENT ? REFLECTOR_NOT_SERVED
				     : REFLECTOR_NONSENSE,
		     -1, &x->err);
}

static void start_discovery(struct stream *s)
{
	struct exchange *x = s->exchange;
	if (s->informer->served) /* another namespace's stream asked already */
		end_exchange(s, REFLECTOR_SERVED, -1, &x->err);
	else
		start_request(s);
}

static void start_list(struct stream *s)
{
	struct informer *i = s->informer;
	if (!++i->watcher->last_epoch)
		i->watcher->last_epoch = 1;
	s->epoch = i->watcher->last_epoch;
	struct exchange *x = s->exchange;
	x->counts = (struct counts){0};
	x->pages = 0;
	x->full = false;
	buf_reset(&x->continue_token);
	/* Written down before the first object is: a watcher that dies on the way leaves the wish behind. */
	for (size_t n = 0; n < i->n_subs && !informer_synced(i); n++)
		controller_want_sweep(i->subs[n]->controller, WIRE_CAUSE_INITIAL);
	start_request(s);
}

void stream_act(struct stream *s, int64_t now_ns)
{
	if (s->dormant || s->exchange || now_ns < s->due_ns)
		return;
	s->due_ns = INT64_MAX;
	s->exchange = xcalloc(1, sizeof *s->exchange);
	s->exchange->stream = s;
	s->exchange->phase = s->reflector.phase;
	switch (s->reflector.phase) {
	case REFLECTOR_DISCOVER:
		start_discovery(s);
		break;
	case REFLECTOR_LIST:
		start_list(s);
		break;
	case REFLECTOR_WATCH:
		start_request(s);
		break;
	}
}
