#include "write.h"
#include "finalizer.h"
#include "log.h"
#include "program.h"
#include "status.h"
#include <stdio.h>

static int64_t generation_of(const struct doc_node *object)
{
	int64_t generation;
	return doc_int(doc_path(object, "metadata", "generation", NULL), &generation) < 0 ? -1 : generation;
}

int writer_init(struct writer *w, struct span object, struct err *err)
{
	struct doc_node *n = NULL;
	w->doc = doc_new();
	w->retry_after_ms = w->generation = -1;
	if (object.len && doc_parse(w->doc, object, &n, err) < 0) {
		writer_done(w);
		return -EINVAL;
	}
	w->object = n;
	w->generation = generation_of(n);
	return 0;
}

void writer_done(struct writer *w)
{
	doc_free(w->doc);
	w->doc = NULL;
	w->object = NULL;
}

struct span writer_uid(struct writer *w)
{
	return doc_string(w->doc, doc_path(w->object, "metadata", "uid", NULL));
}

/* ---- one request, with the host's ear open meanwhile ---- */

struct waiting {
	struct http_result result;
	struct buf *body;
	struct err *err;
	int code;
	bool done;
};

static int on_data(void *ctx, struct span data)
{
	struct waiting *q = ctx;
	buf_span_add(q->body, data);
	return buf_failed(q->body) ? -EMSGSIZE : 0;
}

static void on_end(void *ctx, int code, const struct http_result *r, const struct err *err)
{
	struct waiting *q = ctx;
	q->code = code;
	q->result = *r;
	if (q->err && err)
		*q->err = *err;
	q->done = true;
}

static int do_request(struct writer *w, const struct http_request *h, struct buf *body,
		      struct kube_status *ret, struct err *err)
{
	static const struct http_callbacks callbacks = {.on_data = on_data, .on_end = on_end};
	struct waiting q = {.body = body, .err = err};
	int r = http_start(w->http, h, &callbacks, &q, NULL, err);
	if (r < 0)
		return r;
	while (!q.done)
		w->wait(w->ctx);
	if (q.code == -EMSGSIZE)
		return err_set(err, q.code, "%s %s: the answer is too large", h->method, h->path);
	if (q.code < 0)
		return q.code;
	r = kube_status(h, &q.result, buf_span(body), ret, err);
	char hint[HTTP_HINT_MAX] = "";
	if (r == -EACCES || r == -EPERM)
		http_client_hint(w->http, r == -EACCES, hint);
	if (*hint)
		err_prefix(err, r, "%s", hint);
	return r;
}

int writer_do(struct writer *w, const char *method, const char *path, const char *content_type,
	      struct span body_in, struct buf *out, struct kube_status *ret, struct err *err)
{
	_cleanup_(buf_done) struct buf unused = {0};
	struct buf *body = out ? out : &unused;
	int64_t left_ms = (w->end_ns - clock_boottime_ns()) / NS_PER_MS;
	body->limit = JSON_MAX_ITEM;
	program_notify("WATCHDOG=1");
	if (w->fenced || left_ms <= 0 || !w->may_go_on(w->ctx)) {
		w->fenced = true;
		return err_set(err, -ECANCELED, "%s %s: the time for writes of this attempt is over", method,
			       path);
	}
	struct http_request h = {
	    .method = method,
	    .path = path,
	    .content_type = content_type,
	    .body = body_in,
	    .timeout_ms = MIN(left_ms, (int64_t)WRITE_REQUEST_TIMEOUT_MS),
	};
	*ret = (struct kube_status){.retry_after_ms = -1};
	w->requests++;
	int r = do_request(w, &h, body, ret, err);
	log_debug("request", LOG_S("method", method), LOG_S("path", path), LOG_I("code", ret->code),
		  LOG_I("result", r));
	return r;
}

/* Is this the watch's kind, in whatever version? */
static bool is_kind(const struct config_kind *k, const struct kube_resource *kind)
{
	char group[254], version[64];
	return strcmp(k->kind, kind->kind) == 0 &&
	       kube_split_api_version(k->api_version, group, version) == 0 && strcmp(group, kind->group) == 0;
}

/* An object that the selectors leave out is shown once more if it was in: as deleted. */
static bool is_shown(struct writer *w, size_t watch, struct span namespace, struct span name,
		     struct span object)
{
	_cleanup_(buf_done) struct buf cached = {.limit = JSON_MAX_ITEM};
	return writes_selected(kinds_watch(w->kinds, watch), object) ||
	       kinds_get(w->kinds, watch, namespace, name, &cached, NULL) == 0;
}

void writer_wrote(struct writer *w, const struct kube_resource *kind, struct span object, bool own)
{
	const struct config_controller *c = w->controller;
	struct span text = {0}, namespace = {"", 0}, name = {"", 0};
	bool checked = false;
	for (size_t i = 0; i < c->watch_count; i++) {
		const struct config_kind *k = kinds_watch(w->kinds, i);
		if (!is_kind(k, kind))
			continue;
		if (!checked && (json_check(object, NULL) < 0 || writes_is_delete(object)))
			return;
		checked = true;
		struct span metadata = json_get(object, "metadata");
		json_string_raw(json_get(metadata, "resourceVersion"), &text);
		json_string_raw(json_get(metadata, "namespace"), &namespace);
		json_string_raw(json_get(metadata, "name"), &name);
		struct wire_write write = {.resource_version = kube_version(text), .own = own};
		int stream = writes_stream(k, kind->namespaced, namespace);
		if (!write.resource_version || stream < 0 || !is_shown(w, i, namespace, name, object) ||
		    kinds_table_id(w->kinds, i, &write.table) < 0)
			continue;
		write.stream = (uint32_t)stream;
		writes_add(w->writes, write);
	}
}

void writer_failed(struct writer *w, const char *what, int code, const struct kube_status *s,
		   const struct err *err)
{
	if (code == -ECANCELED)
		return;
	if (!w->failures++)
		snprintf(w->failed, sizeof(w->failed), "%.300s: %.460s", what, err->text);
	w->retry_after_ms = MAX(w->retry_after_ms, s->retry_after_ms);
	log_warning("write failed", LOG_S("controller", w->controller->name),
		    LOG_SP("namespace", w->namespace), LOG_SP("name", w->name), LOG_S("what", what),
		    LOG_S("cause", err->text));
}

/* 409 says that the resourceVersion is of the past, 404 that the object is gone; another uid is a 422 on
 * metadata.uid, or a 409 when it stands beside a resourceVersion. AlreadyExists is no such thing. */
bool writer_is_conflict(int code, const struct kube_status *s)
{
	if (code == -EBUSY || code == -ENOENT)
		return true;
	return s->code == 422 && strstr(s->message, "metadata.uid") != NULL;
}

static int object_path(struct writer *w, const char *subresource, struct buf *path, struct err *err)
{
	const struct kube_resource *resource;
	int r = kinds_resource(w->kinds, 0, &resource, err);
	if (r == 0)
		kube_path(path, resource, resource->namespaced ? w->namespace : (struct span){NULL, 0},
			  w->name, subresource);
	return r;
}

static struct span version_of(struct writer *w, const struct doc_node *object)
{
	return doc_string(w->doc, doc_path(object, "metadata", "resourceVersion", NULL));
}

/* The patch carried the version of `before`, so nothing can have come between; and where the version stayed, nothing was written. */
static void patched(struct writer *w, const struct doc_node *before, struct span answer)
{
	const struct kube_resource *resource;
	struct span was = version_of(w, before);
	if (kinds_resource(w->kinds, 0, &resource, NULL) == 0 && !span_eq(was, version_of(w, w->object)))
		writer_wrote(w, resource, answer, was.len > 0);
}

static int read_live(struct writer *w, struct err *err)
{
	_cleanup_(buf_done) struct buf path = {0}, body = {0};
	struct kube_status s;
	struct doc_node *n;
	int r = object_path(w, NULL, &path, err);
	if (r == 0)
		r = writer_do(w, "GET", buf_str(&path), NULL, (struct span){NULL, 0}, &body, &s, err);
	if (r < 0)
		return r;
	if (doc_parse(w->doc, buf_span(&body), &n, err) < 0)
		return err_prefix(err, -EPROTO, "GET %s", buf_str(&path));
	w->object = n;
	return 0;
}

int writer_read_live(struct writer *w, struct err *err)
{
	const struct doc_node *before = w->object;
	struct span uid = writer_uid(w);
	int r = read_live(w, err);
	w->gone |= r == -ENOENT;
	if (r < 0 || span_eq(writer_uid(w), uid))
		return r;
	w->gone = true;
	w->object = before;
	return err_set(err, -ENOENT, "%.*s: another object has this name now", SPAN_ARG(w->name));
}

int writer_patch_object(struct writer *w, const char *subresource,
			bool (*make)(struct writer *w, void *ctx, struct buf *out), void *ctx,
			struct err *err)
{
	_cleanup_(buf_done) struct buf path = {0};
	struct kube_status s = {.retry_after_ms = -1};
	int r = object_path(w, subresource, &path, err);
	for (int i = 0; r == 0 && i < WRITE_TRIES; i++) {
		_cleanup_(buf_done) struct buf patch = {0}, answer = {0};
		struct doc_node *n;
		if (!make(w, ctx, &patch))
			return 0;
		r = writer_do(w, "PATCH", buf_str(&path), "application/merge-patch+json", buf_span(&patch),
			      &answer, &s, err);
		w->retry_after_ms = MAX(w->retry_after_ms, s.retry_after_ms);
		if (r == 0 && doc_parse(w->doc, buf_span(&answer), &n, err) == 0) {
			const struct doc_node *before = w->object;
			w->object = n;
			patched(w, before, buf_span(&answer));
			return 1;
		}
		if (!writer_is_conflict(r, &s))
			return r < 0 ? r : -EPROTO;
		bool absent = r == -ENOENT;
		r = writer_read_live(w, err);
		if (r == 0 &&
		    absent) { /* the object is there, its path is not: the kind is served otherwise now */
			kinds_forget(w->kinds, 0);
			return err_set(
			    err, -EIO,
			    "PATCH %s: 404 although the object is there; its kind is looked up again",
			    buf_str(&path));
		}
	}
	return r < 0 ? r
		     : err_set(err, -EBUSY, "PATCH %s: changed by others %d times in a row", buf_str(&path),
			       WRITE_TRIES);
}

/* ---- the steps ---- */

static bool make_finalizer(struct writer *w, void *ctx, struct buf *out)
{
	bool present = *(bool *)ctx;
	/* Nobody may add a finalizer to an object that is being deleted. */
	if (present && doc_path(w->object, "metadata", "deletionTimestamp", NULL))
		return false;
	return finalizer_patch(w->doc, w->object, w->controller->finalizer, present, out);
}

/* What became of the attempt when the object is not what it was, or the lease not ours. True: it is
 * decided. */
static bool lost_object(struct writer *w, struct result *r)
{
	if (w->fenced)
		result_set(r, WIRE_OUTCOME_CANCELLED, "LeaseEnded",
			   "the lease, or the lead of this host, ended before everything was written");
	else if (w->gone)
		result_set(r, WIRE_OUTCOME_CONFLICT, "ObjectReplaced",
			   "the object was deleted or replaced since it was read");
	return w->fenced || w->gone;
}

static void set_failed(struct writer *w, struct result *r, const char *text)
{
	int64_t after = MAX(w->retry_after_ms, r->outcome == WIRE_OUTCOME_OK ? -1 : r->requeue_after_ms);
	result_set(r, WIRE_OUTCOME_TRANSIENT, "WriteFailed", "%s", text);
	r->requeue_after_ms = after;
}

int write_finalizer_first(struct writer *w, struct result *r)
{
	struct err why = {0};
	bool present = true;
	if (!w->object || !w->controller->finalizer)
		return 0;
	int code = writer_patch_object(w, NULL, make_finalizer, &present, &why);
	if (code > 0) {
		w->generation = generation_of(w->object);
		log_debug("finalizer added", LOG_SP("namespace", w->namespace), LOG_SP("name", w->name));
	}
	if (code >= 0)
		return code;
	if (!lost_object(w, r)) {
		struct kube_status s = {.retry_after_ms = w->retry_after_ms};
		writer_failed(w, "finalizer", code, &s, &why);
		set_failed(w, r, w->failed);
	}
	return code;
}

/* What a cache that keeps metadata alone would hold. */
static void keep_metadata(struct writer *w)
{
	static const char *const kept[] = {"apiVersion", "kind", "metadata"};
	struct doc_node *n = doc_new_object(w->doc);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		const struct doc_node *v = doc_get(w->object, kept[i]);
		if (v)
			doc_set(w->doc, n, kept[i], doc_copy(w->doc, v));
	}
	w->object = n;
}

int write_find_left(struct writer *w, struct result *r)
{
	const struct config_controller *c = w->controller;
	const struct config_kind *kind = &c->watches[0].kind;
	struct err why = {0};
	if (w->object || !c->finalizer || (!kind->label_selector && !kind->field_selector))
		return 0;
	int code = read_live(w, &why);
	if (code == -ENOENT)
		return 0;
	if (code < 0 && !lost_object(w, r)) {
		struct kube_status s = {.retry_after_ms = w->retry_after_ms};
		writer_failed(w, "looking for an object that left the selector", code, &s, &why);
		set_failed(w, r, w->failed);
	}
	if (code < 0)
		return code;
	if (!finalizer_present(w->doc, w->object, c->finalizer)) {
		w->object = NULL;
		return 0;
	}
	if (kind->metadata_only)
		keep_metadata(w);
	w->generation = generation_of(w->object);
	return 1;
}

static bool make_status(struct writer *w, void *ctx, struct buf *out)
{
	return status_patch(w->doc, w->object, ctx, w->generation, clock_realtime_ns() / NS_PER_S, out);
}

static void write_status(struct writer *w, const struct answer *a)
{
	const struct kube_resource *resource;
	struct err why = {0};
	int code = kinds_resource(w->kinds, 0, &resource, &why);
	if (code == 0)
		code = writer_patch_object(w, resource->has_status ? "status" : NULL, make_status,
					   (void *)(uintptr_t)a, &why);
	if (code > 0)
		log_debug("status written", LOG_SP("namespace", w->namespace), LOG_SP("name", w->name));
	if (code < 0 && !w->gone) {
		struct kube_status s = {.retry_after_ms = w->retry_after_ms};
		writer_failed(w, "status", code, &s, &why);
	}
}

static void remove_finalizer(struct writer *w)
{
	struct err why = {0};
	bool present = false;
	int code = writer_patch_object(w, NULL, make_finalizer, &present, &why);
	if (code > 0)
		log_debug("finalizer removed", LOG_SP("namespace", w->namespace), LOG_SP("name", w->name));
	if (code < 0 && w->gone) {
		w->gone = false; /* that is what was wanted */
	} else if (code < 0) {
		struct kube_status s = {.retry_after_ms = w->retry_after_ms};
		writer_failed(w, "finalizer", code, &s, &why);
	}
}

/* Before the first of them was tried. */
static void children_failed(struct writer *w, struct result *r, const struct err *why)
{
	struct kube_status s = {.retry_after_ms = w->retry_after_ms};
	writer_failed(w, "children", -EIO, &s, why);
	set_failed(w, r, w->failed);
}

/* Children after the live look at the owner. False: nothing more is to be written. */
static bool write_children_of(struct writer *w, const struct answer *a, struct result *r)
{
	struct err why = {0};
	struct write_children *plan = NULL;
	int code = write_children_plan(w, a, a->finalized, &plan, &why);
	if (code == -EPROTO)
		result_set(r, WIRE_OUTCOME_PROTOCOL_ERROR, "ProtocolError", "%s", why.text);
	else if (code < 0 && !lost_object(w, r))
		children_failed(w, r, &why);
	if (code == 0 && write_children_needed(plan)) {
		code = writer_read_live(w, &why);
		if (code == 0)
			write_children_apply(w, plan);
		else if (!lost_object(w, r))
			children_failed(w, r, &why);
	}
	write_children_free(plan);
	return code == 0;
}

void write_answer(struct writer *w, const struct answer *a, bool finalizing, struct result *r)
{
	if (a->empty && !a->finalized)
		return;
	if (!w->object) {
		if (a->child_count || a->status || a->condition_count || a->event_count)
			log_debug("the object no longer exists: nothing of the answer is written",
				  LOG_SP("namespace", w->namespace), LOG_SP("name", w->name));
		return;
	}
	if (!a->has_error && a->has_children && !write_children_of(w, a, r))
		return;
	if (!w->gone && !w->fenced)
		write_status(w, a);
	if (!w->gone && !w->fenced)
		write_events(w, a);
	/* A finalizer is released only when all that went before it was written. */
	if (a->finalized && finalizing && w->controller->finalizer && !w->failures && !w->gone &&
	    !w->fenced && !fault("finalizer"))
		remove_finalizer(w);
	if (lost_object(w, r))
		return;
	if (w->failures) {
		_cleanup_(free_ptr) char *said = xstrdup(r->message);
		set_failed(w, r, w->failed);
		result_add(r, "; the reconciler said: ", span_of(said));
	}
}
