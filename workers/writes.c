#include "writes.h"
#include "json_scan.h"
#include "kube.h"

void writes_add(struct writes *s, struct wire_write w)
{
	if (s->count == s->room) {
		s->room = s->room ? s->room * 2 : 16;
		s->at = xrealloc(s->at, s->room * sizeof(*s->at));
	}
	s->at[s->count++] = w;
}

void writes_done(struct writes *s)
{
	free(s->at);
	*s = (struct writes){0};
}

static bool same_stream(const struct wire_write *a, const struct wire_write *b)
{
	return a->table == b->table && a->stream == b->stream;
}

static bool is_highest(const struct writes *s, size_t i)
{
	for (size_t n = 0; n < s->count; n++)
		if (same_stream(&s->at[n], &s->at[i]) &&
		    (s->at[n].resource_version > s->at[i].resource_version ||
		     (s->at[n].resource_version == s->at[i].resource_version && n > i)))
			return false;
	return true;
}

size_t writes_pick(const struct writes *s, struct wire_write out[WRITES_MAX])
{
	bool all = s->count <= WRITES_MAX;
	size_t n = 0;
	for (size_t i = 0; i < s->count && n < WRITES_MAX; i++)
		if (all || is_highest(s, i))
			out[n++] = s->at[i];
	for (size_t i = s->count; !all && i-- > 0 && n < WRITES_MAX;)
		if (!is_highest(s, i))
			out[n++] = s->at[i];
	return n;
}

bool writes_is_delete(struct span object)
{
	struct span metadata = json_get(object, "metadata"), key, first;
	struct json_iter it = {0};
	struct span deleted = json_get(metadata, "deletionTimestamp"),
		    finalizers = json_get(metadata, "finalizers");
	return deleted.at && json_type_of(deleted) == JSON_STRING &&
	       !(finalizers.at && json_each(finalizers, &it, &key, &first));
}

int writes_stream(const struct config_kind *k, bool namespaced, struct span namespace)
{
	if (!namespaced || !k->namespaces)
		return 0;
	for (int i = 0; k->namespaces[i]; i++)
		if (span_is(namespace, k->namespaces[i]))
			return i;
	return -ENOENT;
}

/* ---- selectors ---- */

/* The value at a dotted path: of a string its inside, of anything else its text, of nothing the empty text. */
static struct span value_at(struct span object, struct span path)
{
	struct span at = object, text;
	while (path.len && at.at) {
		char key[256];
		const char *dot = memchr(path.at, '.', path.len);
		size_t n = dot ? (size_t)(dot - path.at) : path.len;
		if (n >= sizeof(key))
			return (struct span){"", 0};
		memcpy(key, path.at, n);
		key[n] = 0;
		at = json_get(at, key);
		n += dot != NULL;
		path = (struct span){path.at + n, path.len - n};
	}
	if (!at.at || json_type_of(at) == JSON_NULL)
		return (struct span){"", 0};
	return json_string_raw(at, &text) == 0 ? text : at;
}

/* "path=value", "path==value" or "path!=value", as the configuration has checked. */
static bool requirement_holds(struct span one, struct span object)
{
	const char *equal = memchr(one.at, '=', one.len), *end = one.at + one.len;
	if (!equal || equal == one.at)
		return true;
	bool not = equal[-1] == '!';
	struct span path = {one.at, (size_t)(equal - one.at) - not };
	const char *value = equal + 1 < end && equal[1] == '=' && !not ? equal + 2 : equal + 1;
	return span_eq(value_at(object, path), (struct span){value, (size_t)(end - value)}) != not ;
}

static bool fields_hold(const char *selector, struct span object)
{
	for (const char *at = selector; *at;) {
		size_t n = strcspn(at, ",");
		if (!requirement_holds((struct span){at, n}, object))
			return false;
		at += n + (at[n] == ',');
	}
	return true;
}

bool writes_selected(const struct config_kind *k, struct span object)
{
	struct span labels = json_path(object, "metadata", "labels", NULL);
	if (k->label_selector &&
	    kube_selector_match(k->label_selector, labels.at ? labels : span_of("{}"), NULL) != 1)
		return false;
	return !k->field_selector || fields_hold(k->field_selector, object);
}
