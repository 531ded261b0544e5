#include "sdk.h"
#include <poll.h>
#include <stdio.h>

int sdk_request_init(struct reconcile_request *req, struct span text, struct sdk_link *link, struct err *err)
{
	int r = json_check(text, err);
	if (r < 0)
		return r;
	*req = (struct reconcile_request){.text = text, .link = link};
	if (!json_string_is(json_get(text, "kind"), "ReconcileRequest"))
		return err_set(err, -EINVAL, "not a ReconcileRequest");
	if (!json_string_is(json_get(text, "apiVersion"), SDK_VERSION))
		return err_set(err, -EINVAL,
			       "a request of another version than " SDK_VERSION
			       "; link a newer libreconcile");
	int64_t seconds;
	if (json_int(json_get(text, "timeoutSeconds"), &seconds) == 0 && seconds >= 0 &&
	    seconds < INT64_MAX / NS_PER_S / 2)
		req->deadline_ns = clock_boottime_ns() + seconds * NS_PER_S;
	return 0;
}

struct reconcile_value reconcile_whole(struct reconcile_request *req)
{
	return sdk_value(req, req->text);
}

static const char *text(struct reconcile_request *req, const char *path)
{
	return reconcile_text(reconcile_whole(req), path, "");
}

const char *reconcile_controller(struct reconcile_request *req)
{
	return text(req, "controller");
}
const char *reconcile_namespace(struct reconcile_request *req)
{
	return text(req, "request.namespace");
}
const char *reconcile_name(struct reconcile_request *req)
{
	return text(req, "request.name");
}
const char *reconcile_uid(struct reconcile_request *req)
{
	return text(req, "uid");
}

struct reconcile_value reconcile_object(struct reconcile_request *req)
{
	struct reconcile_value v = reconcile_get(reconcile_whole(req), "object");
	return reconcile_exists(v) ? v : sdk_value(req, (struct span){0});
}

bool reconcile_finalizing(struct reconcile_request *req)
{
	return reconcile_bool(reconcile_whole(req), "finalizing", false);
}
bool reconcile_dry_run(struct reconcile_request *req)
{
	return reconcile_bool(reconcile_whole(req), "dryRun", false);
}
bool reconcile_truncated(struct reconcile_request *req)
{
	return reconcile_bool(reconcile_whole(req), "truncated", false);
}
int64_t reconcile_attempt(struct reconcile_request *req)
{
	return reconcile_int(reconcile_whole(req), "attempt", 0);
}

static struct reconcile_value kind_of(struct reconcile_request *req, const char *group, const char *kind)
{
	struct span all = json_get(req->text, group);
	return sdk_value(req, json_type_of(all) == JSON_OBJECT ? json_get(all, kind) : (struct span){0});
}

static struct reconcile_value one(struct reconcile_request *req, const char *group, const char *kind,
				  const char *name)
{
	struct reconcile_value all = kind_of(req, group, kind);
	const char *namespace = strchr(name, '/') ? "" : reconcile_namespace(req);
	char key[KEY_MAX_LEN + 1];
	int n = snprintf(key, sizeof key, "%s%s%s", namespace, *namespace ? "/" : "", name);
	struct span text_of = {all.at, all.length};
	bool found = n < (int)sizeof key && all.at && json_type_of(text_of) == JSON_OBJECT;
	return sdk_value(req, found ? json_get(text_of, key) : (struct span){0});
}

struct reconcile_value reconcile_child(struct reconcile_request *req, const char *kind, const char *name)
{
	return one(req, "children", kind, name);
}

struct reconcile_value reconcile_related(struct reconcile_request *req, const char *kind, const char *name)
{
	return one(req, "related", kind, name);
}

struct reconcile_value reconcile_children(struct reconcile_request *req, const char *kind)
{
	return kind_of(req, "children", kind);
}
struct reconcile_value reconcile_all_related(struct reconcile_request *req, const char *kind)
{
	return kind_of(req, "related", kind);
}

/* ---- time ---- */

int64_t reconcile_time_left_ms(struct reconcile_request *req)
{
	if (!req->deadline_ns)
		return INT64_MAX;
	int64_t left = req->deadline_ns - clock_boottime_ns();
	return left > 0 ? left / NS_PER_MS : 0;
}

/* A line that may come while a request runs: Cancel or Shutdown. True if it was one of them. */
static bool interruption(struct reconcile_request *req, struct span line)
{
	struct span kind = json_get(line, "kind");
	if (json_string_is(kind, "Shutdown"))
		return req->link->shutdown = true;
	if (!json_string_is(kind, "Cancel"))
		return false;
	if (json_string_is(json_get(line, "uid"),
			   reconcile_uid(req))) /* else it came too late for one before */
		req->cancelled = true;
	return true;
}

bool reconcile_cancelled(struct reconcile_request *req)
{
	struct span line;
	while (req->link && req->link->coprocess && !req->cancelled && sdk_line(req->link, false, &line) == 1)
		if (json_check(line, NULL) == 0)
			interruption(req, line);
	return req->cancelled;
}

/* ---- reads ---- */

static void add_text(struct buf *b, const char *name, const char *value)
{
	buf_printf(b, ",\"%s\":", name);
	buf_json_string(b, span_of(value));
}

static int read_failed(struct reconcile_request *req, int code, const char *why)
{
	snprintf(req->read_error, sizeof req->read_error, "%s", why);
	return code;
}

/* Sends the question and waits for the answer with its id. */
static int ask(struct reconcile_request *req, struct buf *question, uint64_t id, const char *member,
	       struct reconcile_value *ret)
{
	int r = buf_failed(question) ? -ENOMEM : sdk_send(req->link, buf_span(question));
	struct span line;
	while (r == 0 && !req->cancelled) {
		int64_t got;
		r = sdk_line(req->link, true, &line);
		if (r <= 0)
			break;
		r = 0;
		if (json_check(line, NULL) < 0)
			return read_failed(req, -EIO, "the worker sent a line that is not JSON");
		if (interruption(req, line) || json_int(json_get(line, "id"), &got) < 0 ||
		    (uint64_t)got != id)
			continue;
		struct span answer = {sdk_keep(req, line.at, line.len), line.len};
		struct span error = json_get(answer, "error");
		if (json_type_of(error) == JSON_OBJECT) {
			struct reconcile_value why = sdk_value(req, error);
			return read_failed(req, -EIO,
					   reconcile_text(why, "message", "the worker could not read it"));
		}
		struct span found = json_get(answer, member);
		if (json_type_of(found) != JSON_NULL)
			*ret = sdk_value(req, found);
		return 0;
	}
	if (req->cancelled)
		return read_failed(req, -ECANCELED, "the request was cancelled");
	return read_failed(req, r == -EMSGSIZE ? -EIO : -EPIPE,
			   r == -EMSGSIZE ? "the answer is too large" : "the worker is gone");
}

static int begin(struct reconcile_request *req, struct buf *b, const char *what, const char *api_version,
		 const char *kind, const char *namespace, enum reconcile_read_flags flags)
{
	if (!req->link || !req->link->coprocess)
		return read_failed(req, -ENOTSUP, "reads need a coprocess: this one runs under exec");
	if (req->cancelled)
		return read_failed(req, -ECANCELED, "the request was cancelled");
	if (req->link->ended)
		return read_failed(req, -EPIPE, "the worker is gone");
	buf_printf(b, "{\"kind\":\"%s\",\"id\":%llu", what, (unsigned long long)++req->link->last_id);
	add_text(b, "uid", reconcile_uid(req));
	add_text(b, "apiVersion", api_version);
	add_text(b, "objectKind", kind);
	namespace = namespace ? namespace : reconcile_namespace(req);
	if (*namespace)
		add_text(b, "namespace", namespace);
	buf_printf(b, ",\"live\":%s", flags & RECONCILE_LIVE ? "true" : "false");
	return 0;
}

int reconcile_read(struct reconcile_request *req, const char *api_version, const char *kind,
		   const char *namespace, const char *name, enum reconcile_read_flags flags,
		   struct reconcile_value *ret)
{
	_cleanup_(buf_done) struct buf b = {0};
	*ret = sdk_value(req, (struct span){0});
	int r = begin(req, &b, "Get", api_version, kind, namespace, flags);
	if (r < 0)
		return r;
	add_text(&b, "name", name);
	buf_putc(&b, '}');
	return ask(req, &b, req->link->last_id, "object", ret);
}

int reconcile_list(struct reconcile_request *req, const char *api_version, const char *kind,
		   const char *namespace, const char *label_selector, const char *owned_by,
		   enum reconcile_read_flags flags, struct reconcile_value *ret)
{
	_cleanup_(buf_done) struct buf b = {0};
	*ret = sdk_value(req, (struct span){0});
	int r = begin(req, &b, "List", api_version, kind, namespace, flags);
	if (r < 0)
		return r;
	if (label_selector)
		add_text(&b, "labelSelector", label_selector);
	if (owned_by)
		add_text(&b, "ownedBy", owned_by);
	buf_putc(&b, '}');
	return ask(req, &b, req->link->last_id, "items", ret);
}

const char *reconcile_read_error(struct reconcile_request *req)
{
	return req->read_error;
}
