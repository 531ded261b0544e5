#include "wanted.h"
#include "config_internal.h"
#include "json_scan.h"

/* ---- paths ---- */

/* Takes one step off the path. Exactly one of: a name in key, an index, or any. False: not a path. */
static bool step(const char **path, struct span *ret_key, size_t *ret_index, bool *ret_any)
{
	const char *s = *path;
	*ret_key = (struct span){0};
	*ret_any = false;
	s += *s == '.';
	if (*s != '[') {
		size_t n = strcspn(s, ".[");
		*ret_key = (struct span){s, n};
		*path = s + n;
		return n > 0;
	}
	if (s[1] == '\'') {
		const char *end = strstr(s + 2, "']");
		if (!end)
			return false;
		*ret_key = (struct span){s + 2, (size_t)(end - s - 2)};
		*path = end + 2;
		return true;
	}
	const char *end = strchr(s, ']');
	_cleanup_(free_ptr) char *inside = end ? strndup(s + 1, (size_t)(end - s - 1)) : NULL;
	uint32_t index = 0;
	if (!inside)
		return false;
	*ret_any = strcmp(inside, "*") == 0;
	if (!*ret_any && parse_u32(inside, 0, UINT32_MAX, &index) < 0)
		return false;
	*ret_index = index;
	*path = end + 1;
	return true;
}

int wanted_parse(const char *text, struct wanted *ret, struct err *err)
{
	const char *equal;
	if (strcmp(text, "delete") == 0) {
		*ret = (struct wanted){.type = WANTED_DELETE};
		return 0;
	}
	if (strncmp(text, "condition=", 10) == 0 && text[10]) {
		equal = strchr(text + 10, '=');
		*ret = (struct wanted){WANTED_CONDITION,
				       equal ? strndup(text + 10, (size_t)(equal - text - 10))
					     : xstrdup(text + 10),
				       xstrdup(equal ? equal + 1 : "True")};
		return 0;
	}
	/* The first '=' that is not inside ['...']. */
	bool quoted = false;
	for (equal = text; *equal && (quoted || *equal != '='); equal++)
		quoted ^= *equal == '\'';
	if (equal == text)
		return err_set(
		    err, -EINVAL,
		    "--for %.200s: write condition=TYPE, condition=TYPE=STATUS, PATH=VALUE, PATH, or delete",
		    text);
	_cleanup_(free_ptr) char *path = strndup(text, (size_t)(equal - text));
	struct span key;
	size_t index;
	bool any;
	for (const char *at = path; *at;)
		if (!step(&at, &key, &index, &any))
			return err_set(err, -EINVAL,
				       "--for %.200s: the path is wrong at \"%.100s\": write names with dots "
				       "between, [0] or [*] for list items, ['a.b/c'] for odd keys",
				       text, at);
	*ret = (struct wanted){WANTED_PATH, xstrdup(path), *equal ? xstrdup(equal + 1) : NULL};
	return 0;
}

void wanted_done(struct wanted *w)
{
	free(w->path);
	free(w->value);
	*w = (struct wanted){0};
}

static bool scalar_is(struct span value, const char *want, struct buf *seen)
{
	_cleanup_(buf_done) struct buf text = {0};
	if (json_type_of(value) == JSON_STRING)
		json_unescape(value, &text);
	else
		buf_span_add(&text, value);
	if (seen && !seen->len) {
		enum { SEEN_MAX = 200 };
		buf_add(seen, buf_str(&text), MIN(text.len, (size_t)SEEN_MAX));
		if (text.len > SEEN_MAX)
			buf_puts(seen, "...");
	}
	return !want || strcmp(buf_str(&text), want) == 0;
}

static bool path_holds(struct span value, const char *path, const char *want, struct buf *seen)
{
	struct span key;
	size_t index = 0;
	bool any;
	if (!value.at)
		return false;
	if (!*path)
		return scalar_is(value, want, seen);
	if (!step(&path, &key, &index, &any))
		return false;
	if (key.at) {
		_cleanup_(free_ptr) char *name = span_dup(key);
		return json_type_of(value) == JSON_OBJECT &&
		       path_holds(json_get(value, name), path, want, seen);
	}
	if (json_type_of(value) != JSON_ARRAY)
		return false;
	struct json_iter it = {0};
	struct span none, item;
	for (size_t i = 0; json_each(value, &it, &none, &item); i++)
		if ((any || i == index) && path_holds(item, path, want, seen))
			return true;
	return false;
}

static bool condition_holds(const struct wanted *w, struct span object, struct buf *seen)
{
	struct span list = json_path(object, "status", "conditions", NULL), none, item;
	struct json_iter it = {0};
	if (!list.at || json_type_of(list) != JSON_ARRAY)
		return false;
	while (json_each(list, &it, &none, &item)) {
		if (json_type_of(item) != JSON_OBJECT || !json_string_is(json_get(item, "type"), w->path))
			continue;
		/* A condition about an older spec says nothing about this one. */
		int64_t observed, generation;
		bool old = json_int(json_get(item, "observedGeneration"), &observed) == 0 &&
			   json_int(json_path(object, "metadata", "generation", NULL), &generation) == 0 &&
			   observed < generation;
		struct span status = json_get(item, "status");
		if (status.at && scalar_is(status, w->value, seen) && !old)
			return true;
		if (old)
			buf_puts(seen, " (of an older generation)");
		return false;
	}
	return false;
}

int wanted_holds(const struct wanted *w, struct span object, struct buf *ret_seen)
{
	bool holds = false;
	buf_reset(ret_seen);
	switch (w->type) {
	case WANTED_DELETE:
		holds = !object.at;
		buf_puts(ret_seen, holds ? "" : "it is there");
		break;
	case WANTED_CONDITION:
		holds = object.at && condition_holds(w, object, ret_seen);
		break;
	case WANTED_PATH:
		holds = object.at && path_holds(object, w->path, w->value, ret_seen);
		break;
	}
	if (!ret_seen->len)
		buf_puts(ret_seen, object.at ? "nothing" : "no such object");
	return holds;
}

/* ---- kinds ---- */

int wanted_kind_parse(const char *text, char **ret_api_version, char **ret_kind, struct err *err)
{
	const char *slash = strrchr(text, '/'), *dot = strchr(text, '.');
	char *version = NULL, *kind = NULL;
	if (slash) {
		version = strndup(text, (size_t)(slash - text));
		kind = xstrdup(slash + 1);
	} else if (dot) {
		const char *group = strchr(dot + 1, '.');
		kind = strndup(text, (size_t)(dot - text));
		version = group ? xasprintf("%s/%.*s", group + 1, (int)(group - dot - 1), dot + 1)
				: xstrdup(dot + 1);
	}
	if (!version || !config_check_api_version(span_of(version)) || !config_check_kind(span_of(kind))) {
		free(version);
		free(kind);
		return err_set(err, -EINVAL,
			       "%.200s is no kind: write VERSION/Kind or GROUP/VERSION/Kind, as in "
			       "v1/ConfigMap or apps/v1/Deployment, "
			       "or Kind.VERSION.GROUP",
			       text);
	}
	*ret_api_version = version;
	*ret_kind = kind;
	return 0;
}
