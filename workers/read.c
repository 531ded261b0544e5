#include "read.h"
#include "answer.h"
#include "children.h"
#include "json_scan.h"
#include "names.h"
#include "program.h"

struct read {
	struct span id; /* raw */
	char *api_version, *kind, *namespace, *name, *selector, *owner;
	bool list, live;
};

static void read_done(struct read *q)
{
	char *owned[] = {q->api_version, q->kind, q->namespace, q->name, q->selector, q->owner};
	for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
		free(owned[i]);
}

bool read_is_one(struct span line)
{
	if (json_type_of(line) != JSON_OBJECT)
		return false;
	struct span kind = json_get(line, "kind");
	return json_string_is(kind, "Get") || json_string_is(kind, "List");
}

static int take_text(struct span value, const char *name, char **ret, struct err *err)
{
	_cleanup_(buf_done) struct buf text = {.limit = 4096};
	if (json_type_of(value) == JSON_NULL)
		return 0;
	if (json_type_of(value) != JSON_STRING || json_unescape(value, &text) < 0 || buf_failed(&text))
		return err_set(err, -EPROTO, "%s: must be a string of at most 4096 bytes", name);
	free(*ret);
	*ret = xstrdup(buf_str(&text));
	return 0;
}

static int parse(struct span line, const char *uid, struct read *q, struct err *err)
{
	struct json_iter it = {0};
	struct span key, value;
	bool uid_seen = false;
	q->list = json_string_is(json_get(line, "kind"), "List");
	const struct {
		const char *name;
		char **text;
	} texts[] = {
	    {"apiVersion", &q->api_version},
	    {"objectKind", &q->kind},
	    {"namespace", &q->namespace},
	    {q->list ? "labelSelector" : "name", q->list ? &q->selector : &q->name},
	    {q->list ? "ownedBy" : "name", q->list ? &q->owner : &q->name},
	};
	while (json_each(line, &it, &key, &value)) {
		int r = 1;
		for (size_t i = 0; i < ARRAY_SIZE(texts) && r > 0; i++)
			if (json_string_is(key, texts[i].name))
				r = take_text(value, texts[i].name, texts[i].text, err);
		if (r <= 0) {
			if (r < 0)
				return r;
		} else if (json_string_is(key, "uid")) {
			uid_seen = json_string_is(value, uid);
		} else if (json_string_is(key, "id")) {
			q->id = value;
		} else if (json_string_is(key, "live") && json_type_of(value) == JSON_BOOL) {
			q->live = span_is(value, "true");
		} else if (!json_string_is(key, "kind")) {
			char quoted[QUOTE_ROOM];
			return err_set(err, -EPROTO, "%s: unknown or wrong field %s",
				       q->list ? "List" : "Get", text_quote(key, quoted));
		}
	}
	const char *what = q->list ? "List" : "Get";
	enum json_type id = q->id.at ? json_type_of(q->id) : JSON_NONE;
	if (!uid_seen)
		return err_set(err, -EPROTO, "%s: uid must be that of the running request, %s", what, uid);
	if ((id != JSON_NUMBER && id != JSON_STRING) || q->id.len > 256)
		return err_set(err, -EPROTO, "%s: id must be a number or a string", what);
	if (!q->api_version || !q->kind || (!q->list && !q->name))
		return err_set(err, -EPROTO, "%s: must have apiVersion, objectKind%s", what,
			       q->list ? "" : " and name");
	return 0;
}

static void begin(const struct read *q, struct buf *out)
{
	buf_printf(out, "{\"kind\":\"%s\",\"id\":", q->list ? "Objects" : "Object");
	buf_span_add(out, q->id);
}

static void print_error(const struct read *q, const char *reason, const char *message, struct buf *out)
{
	begin(q, out);
	buf_printf(out, ",\"%s\":%s,\"error\":{\"reason\":\"%s\",\"message\":", q->list ? "items" : "object",
		   q->list ? "[]" : "null", reason);
	buf_json_string(out, span_of(message));
	buf_puts(out, "}}");
}

/* ---- from the cache ---- */

struct collect {
	const struct read *q;
	struct buf *out;
	size_t count;
	int failed;
	struct err err;
};

/* An object without a namespace is of a kind that has none: the namespace that was asked for means nothing
 * then. */
static int collect_one(void *ctx, struct span namespace, struct span name, struct span object)
{
	struct collect *c = ctx;
	(void)name;
	if (c->q->namespace && namespace.len && !span_is(namespace, c->q->namespace))
		return 0;
	if (c->q->selector && c->q->selector[0]) {
		int match = kube_selector_match(c->q->selector, json_path(object, "metadata", "labels", NULL),
						&c->err);
		if (match <= 0)
			return c->failed = match;
	}
	if (c->count++)
		buf_putc(c->out, ',');
	buf_span_add(c->out, object);
	return buf_failed(c->out) ? (c->failed = -EMSGSIZE) : 0;
}

static int get_cached(struct reads *r, const struct read *q, size_t watch, struct buf *out, struct err *err)
{
	struct span namespace = span_of(q->namespace ? q->namespace : ""), name = span_of(q->name);
	int e = kinds_get(r->kinds, watch, namespace, name, out, err);
	if (e == -ENOENT && namespace.len) /* of a kind without namespaces */
		e = kinds_get(r->kinds, watch, (struct span){"", 0}, name, out, err);
	if (e == -ENOENT)
		buf_puts(out, "null");
	return e == -ENOENT ? 0 : e;
}

static int from_cache(struct reads *r, const struct read *q, size_t watch, struct buf *out, struct err *err)
{
	begin(q, out);
	int e;
	if (q->list) {
		struct collect c = {.q = q, .out = out};
		buf_puts(out, ",\"items\":[");
		e = kinds_walk(r->kinds, watch, span_of(q->owner ? q->owner : ""), collect_one, &c, err);
		if (c.failed < 0)
			return err_set(err, c.failed, "%s", c.err.text);
		buf_putc(out, ']');
	} else {
		buf_puts(out, ",\"object\":");
		e = get_cached(r, q, watch, out, err);
	}
	buf_putc(out, '}');
	return e;
}

/* ---- live ---- */

/* Appends a live object as the cache has them: with the apiVersion and kind that items of a list lack,
 * without managedFields, and with no more than metadata where the controller asked for no more. */
static void add_live(const struct read *q, bool metadata_only, struct span object, struct buf *out)
{
	static const char *const left_out[] = {"apiVersion", "kind", "metadata.managedFields", NULL};
	_cleanup_(buf_done) struct buf rest = {0};
	json_copy_without(object, left_out, &rest);
	buf_printf(out, "{\"apiVersion\":\"%s\",\"kind\":\"%s\",", q->api_version, q->kind);
	if (metadata_only) {
		buf_puts(out, "\"metadata\":");
		buf_span_add(out, json_get(buf_span(&rest), "metadata"));
		buf_putc(out, '}');
	} else {
		buf_add(out, rest.data + 1, rest.len - 1);
	}
}

static int add_items(const struct read *q, bool metadata_only, struct span list, struct buf *out)
{
	struct collect c = {.q = q, .out = out};
	struct json_iter it = {0};
	struct span key, item, items = json_get(list, "items");
	_cleanup_(buf_done) struct buf whole = {.limit = READ_ANSWER_MAX};
	if (json_type_of(items) != JSON_ARRAY)
		return -EPROTO;
	while (json_each(items, &it, &key, &item)) {
		if (json_type_of(item) != JSON_OBJECT ||
		    json_type_of(json_get(item, "metadata")) != JSON_OBJECT ||
		    (q->owner && !child_owned_by(item, span_of(q->owner), false)))
			continue;
		buf_reset(&whole);
		add_live(q, metadata_only, item, &whole);
		/* The server has chosen the namespace already. */
		int r = collect_one(&c, (struct span){"", 0}, (struct span){"", 0}, buf_span(&whole));
		if (r < 0)
			return r;
	}
	return 0;
}

static int live_path(struct reads *r, const struct read *q, size_t watch, struct buf *path, struct err *err)
{
	const struct kube_resource *resource;
	const struct config_kind *k = kinds_watch(r->kinds, watch);
	int e = kinds_resource(r->kinds, watch, &resource, err);
	if (e < 0)
		return e;
	if (resource->namespaced && !q->namespace && (k->namespaces || !q->list))
		return err_set(err, -EINVAL, "%s: name a namespace", q->kind);
	kube_path(path, resource,
		  resource->namespaced && q->namespace ? span_of(q->namespace) : (struct span){NULL, 0},
		  q->list ? (struct span){NULL, 0} : span_of(q->name), NULL);
	if (q->list && q->selector && q->selector[0])
		kube_query(path, "labelSelector", span_of(q->selector));
	return 0;
}

static int live(struct reads *r, const struct read *q, size_t watch, struct buf *out, struct err *err)
{
	_cleanup_(buf_done) struct buf path = {0}, body = {.limit = READ_ANSWER_MAX};
	bool metadata_only = kinds_watch(r->kinds, watch)->metadata_only;
	r->live_done = true;
	int e = live_path(r, q, watch, &path, err);
	if (e < 0)
		return e;
	struct http_request h = {.method = "GET", .path = buf_str(&path), .timeout_ms = READ_LIVE_TIMEOUT_MS};
	e = kube_do(r->http, &h, &body, NULL, err);
	begin(q, out);
	if (fault("secret") && strcmp(q->kind, "Secret") == 0)
		e = -ENOENT;
	if (e == -ENOENT && !q->list) {
		buf_puts(out, ",\"object\":null}");
		return 0;
	}
	if (e < 0)
		return e;
	struct span all = buf_span(&body);
	if (buf_failed(&body) || json_check(all, err) < 0 || json_type_of(all) != JSON_OBJECT)
		return err_set(err, -EMSGSIZE, "%s: the answer is no JSON object or has more than %llu MiB",
			       h.path, (unsigned long long)(READ_ANSWER_MAX >> 20));
	buf_puts(out, q->list ? ",\"items\":[" : ",\"object\":");
	if (q->list)
		e = add_items(q, metadata_only, all, out);
	else
		add_live(q, metadata_only, all, out);
	buf_puts(out, q->list ? "]}" : "}");
	return e;
}

/* What may be read is what the controller file declares, and nothing that a name could turn a path into. */
static int find_watch(struct reads *r, const struct read *q, size_t *ret, struct err *err)
{
	struct span namespace = span_of(q->namespace ? q->namespace : "");
	if (namespace.len && !kube_is_dns_label(namespace))
		return err_set(err, -EINVAL, "namespace: is no name of a namespace");
	if (!q->list && !answer_is_name(span_of(q->name)))
		return err_set(err, -EINVAL, "name: is no name of an object");
	int e = kinds_find(r->kinds, span_of(q->api_version), span_of(q->kind), namespace, ret);
	if (e == -ENOENT)
		return err_set(
		    err, -EPERM,
		    "%s %s is not declared by this controller; add it to spec.owns or spec.watches",
		    q->api_version, q->kind);
	if (e < 0)
		return err_set(err, -EPERM, "%s %s is not declared for namespace %s", q->api_version, q->kind,
			       q->namespace);
	return 0;
}

int read_answer_line(struct reads *r, struct span line, const char *uid, struct buf *out, struct err *err)
{
	_cleanup_(read_done) struct read q = {0};
	int e = parse(line, uid, &q, err);
	if (e < 0)
		return e;
	_cleanup_(buf_done) struct buf answer = {.limit = READ_ANSWER_MAX};
	struct err why = {0};
	size_t watch = 0;
	if (q.namespace && !q.namespace[0]) {
		free(q.namespace);
		q.namespace = NULL;
	}
	e = find_watch(r, &q, &watch, &why);
	if (e == 0)
		e = (q.live ? live : from_cache)(r, &q, watch, &answer, &why);
	if (e == 0 && buf_failed(&answer))
		e = err_set(&why, -EMSGSIZE, "the answer has more than %llu MiB; ask for less",
			    (unsigned long long)(READ_ANSWER_MAX >> 20));
	if (e < 0) {
		buf_reset(&answer);
		print_error(&q,
			    e == -EPERM			    ? "Forbidden"
			    : e == -EAGAIN || e == -ENODATA ? "NotReady"
			    : e == -EINVAL		    ? "Invalid"
							    : "Failed",
			    why.text, &answer);
	}
	for (char *at = answer.data; at && (at = memchr(at, '\n', answer.len - (size_t)(at - answer.data)));
	     at++)
		*at = ' ';
	buf_putc(&answer, '\n');
	buf_span_add(out, buf_span(&answer));
	return 0;
}
