/* Values are spans of the request's text: looked up when asked for, never parsed into a tree. */
#include "sdk.h"
#include <stdio.h>

struct sdk_chunk {
	struct sdk_chunk *next;
	char bytes[];
};

char *sdk_keep(struct reconcile_request *req, const char *bytes, size_t n)
{
	struct sdk_chunk *c = xmalloc(sizeof *c + n + 1);
	c->next = req->chunks;
	req->chunks = c;
	memcpy(c->bytes, bytes, n);
	c->bytes[n] = 0;
	return c->bytes;
}

void sdk_request_done(struct reconcile_request *req)
{
	while (req->chunks) {
		struct sdk_chunk *next = req->chunks->next;
		free(req->chunks);
		req->chunks = next;
	}
}

struct reconcile_value sdk_value(struct reconcile_request *req, struct span text)
{
	return (struct reconcile_value){text.at, text.len, req};
}

static struct span span_in(struct reconcile_value v)
{
	return (struct span){v.at, v.length};
}

/* ---- paths ---- */

static struct span element(struct span array, size_t index)
{
	struct json_iter it = {0};
	struct span key, value;
	if (json_type_of(array) == JSON_ARRAY)
		while (json_each(array, &it, &key, &value))
			if (index-- == 0)
				return value;
	return (struct span){0};
}

static struct span member(struct span object, const char *key, size_t len)
{
	char name[SDK_PATH_KEY_MAX];
	if (len >= sizeof name || json_type_of(object) != JSON_OBJECT)
		return (struct span){0};
	memcpy(name, key, len);
	name[len] = 0;
	return json_get(object, name);
}

/* One step along the path, which is moved on; a path that cannot be read leads nowhere. */
static struct span step(struct span value, const char **path)
{
	const char *p = *path;
	if (*p == '[' && (p[1] == '\'' || p[1] == '"')) {
		const char *end = strchr(p + 2, p[1]);
		if (!end || end[1] != ']')
			return (struct span){0};
		*path = end + 2;
		return member(value, p + 2, (size_t)(end - p - 2));
	}
	if (*p == '[') {
		char *end = NULL;
		unsigned long index = p[1] >= '0' && p[1] <= '9' ? strtoul(p + 1, &end, 10) : 0;
		if (!end || *end != ']')
			return (struct span){0};
		*path = end + 1;
		return element(value, index);
	}
	size_t len = strcspn(p, ".[");
	*path = p + len;
	return member(value, p, len);
}

struct reconcile_value reconcile_get(struct reconcile_value value, const char *path)
{
	struct span at = span_in(value);
	while (*path && at.at) {
		at = step(at, &path);
		if (*path == '.')
			path++;
		else if (*path && *path != '[')
			at = (struct span){0};
	}
	return sdk_value(value.request, at);
}

/* ---- contents ---- */

bool reconcile_exists(struct reconcile_value value)
{
	return value.at && json_type_of(span_in(value)) != JSON_NULL;
}

const char *reconcile_text(struct reconcile_value value, const char *path, const char *otherwise)
{
	struct reconcile_value v = reconcile_get(value, path);
	struct span raw;
	if (!v.at || json_type_of(span_in(v)) != JSON_STRING)
		return otherwise;
	if (json_string_raw(span_in(v), &raw) == 0)
		return sdk_keep(v.request, raw.at, raw.len);
	_cleanup_(buf_done) struct buf text = {0};
	if (json_unescape(span_in(v), &text) < 0 || buf_failed(&text))
		return otherwise;
	return sdk_keep(v.request, buf_str(&text), text.len);
}

int64_t reconcile_int(struct reconcile_value value, const char *path, int64_t otherwise)
{
	int64_t n;
	return json_int(span_in(reconcile_get(value, path)), &n) == 0 ? n : otherwise;
}

double reconcile_number(struct reconcile_value value, const char *path, double otherwise)
{
	char text[64];
	struct reconcile_value v = reconcile_get(value, path);
	if (!v.at || json_type_of(span_in(v)) != JSON_NUMBER || v.length >= sizeof text)
		return otherwise;
	memcpy(text, v.at, v.length);
	text[v.length] = 0;
	return strtod(text, NULL);
}

bool reconcile_bool(struct reconcile_value value, const char *path, bool otherwise)
{
	struct reconcile_value v = reconcile_get(value, path);
	return v.at && json_type_of(span_in(v)) == JSON_BOOL ? *v.at == 't' : otherwise;
}

bool reconcile_each(struct reconcile_value container, struct reconcile_iterator *it, const char **key,
		    struct reconcile_value *value)
{
	struct json_iter at = {it->at, it->started};
	struct span name, found;
	enum json_type type = container.at ? json_type_of(span_in(container)) : JSON_NONE;
	bool more =
	    (type == JSON_OBJECT || type == JSON_ARRAY) && json_each(span_in(container), &at, &name, &found);
	*it = (struct reconcile_iterator){at.at, at.started};
	if (!more)
		return false;
	*value = sdk_value(container.request, found);
	if (key)
		*key = name.at ? reconcile_text(sdk_value(container.request, name), "", "") : NULL;
	return true;
}

size_t reconcile_count(struct reconcile_value value)
{
	struct reconcile_iterator it = {0};
	struct reconcile_value item;
	size_t n = 0;
	while (reconcile_each(value, &it, NULL, &item))
		n++;
	return n;
}

const char *reconcile_json(struct reconcile_value value)
{
	return value.at ? sdk_keep(value.request, value.at, value.length) : "null";
}

const char *reconcile_condition_of(struct reconcile_value object, const char *type)
{
	struct reconcile_iterator it = {0};
	struct reconcile_value c;
	while (reconcile_each(reconcile_get(object, "status.conditions"), &it, NULL, &c))
		if (strcmp(reconcile_text(c, "type", ""), type) == 0)
			return reconcile_text(c, "status", NULL);
	return NULL;
}
