#include "object.h"
#include "names.h"

/* The text of a string member: a span into the JSON if it has no escapes, else unescaped into scratch. `at`
 * is reserved by the caller, so that the scratch does not move: each text is bounded by its JSON. */
static int text_of(struct span value, struct buf *scratch, struct span *ret)
{
	int rc = json_string_raw(value, ret);
	if (rc != -EINVAL || json_type_of(value) != JSON_STRING)
		return rc;
	size_t before = scratch->len;
	rc = json_unescape(value, scratch);
	if (rc == 0)
		*ret = (struct span){scratch->data + before, scratch->len - before};
	return rc;
}

static int read_metadata(struct span metadata, struct buf *scratch, struct object *o)
{
	struct {
		const char *key;
		struct span *text;
	} texts[] = {{"namespace", &o->namespace},
		     {"name", &o->name},
		     {"uid", &o->uid},
		     {"resourceVersion", &o->version}};
	struct {
		const char *key;
		struct span *json;
	} values[] = {{"labels", &o->labels},
		      {"annotations", &o->annotations},
		      {"ownerReferences", &o->owners},
		      {"finalizers", &o->finalizers}};
	struct json_iter it = {0};
	struct span key, value;
	while (json_each(metadata, &it, &key, &value)) {
		if (json_type_of(value) == JSON_NULL)
			continue;
		if (json_string_is(key, "deletionTimestamp")) {
			if (json_string_raw(value, &o->deletion) < 0)
				return -EINVAL;
			continue;
		}
		if (json_string_is(key, "generation")) {
			if (json_int(value, &o->generation) < 0)
				return -EINVAL;
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
			if (json_string_is(key, texts[i].key) && text_of(value, scratch, texts[i].text) < 0)
				return -EINVAL;
		for (size_t i = 0; i < ARRAY_SIZE(values); i++)
			if (json_string_is(key, values[i].key))
				*values[i].json = value;
	}
	return 0;
}

int object_read(struct span json, struct buf *scratch, struct object *ret, struct err *err)
{
	static const struct span empty = {"", 0};
	struct object o = {.json = json,
			   .namespace = empty,
			   .name = empty,
			   .uid = empty,
			   .version = empty,
			   .generation = -1};
	struct span metadata = json_get(json, "metadata");
	if (json_type_of(json) != JSON_OBJECT || json_type_of(metadata) != JSON_OBJECT)
		return err_set(err, -EINVAL, "it is no object with metadata");
	/* Room for all texts at once, or earlier spans would move. */
	if (!buf_room(scratch, metadata.len))
		return err_set(err, -ENOMEM, "no memory for an object of %zu bytes", json.len);
	json_string_raw(json_get(json, "apiVersion"), &o.api_version);
	json_string_raw(json_get(json, "kind"), &o.kind);
	if (read_metadata(metadata, scratch, &o) < 0)
		return err_set(err, -EINVAL, "its metadata has a field of the wrong type");
	if (!o.name.len || o.name.len > NAME_MAX_LEN || o.namespace.len > NAMESPACE_MAX_LEN)
		return err_set(err, -EINVAL, "its metadata.name or namespace is missing or too long");
	if (!kube_is_path_segment(o.name) || (o.namespace.len && !kube_is_path_segment(o.namespace)))
		return err_set(err, -EINVAL,
			       "its metadata.name or namespace is none that an object can have");
	*ret = o;
	return 0;
}

bool object_owner_next(const struct object *o, struct json_iter *it, struct object_owner *ret)
{
	struct span key, value;
	if (json_type_of(o->owners) != JSON_ARRAY)
		return false;
	while (json_each(o->owners, it, &key, &value)) {
		struct object_owner w = {0};
		if (json_type_of(value) != JSON_OBJECT ||
		    json_string_raw(json_get(value, "apiVersion"), &w.api_version) < 0 ||
		    json_string_raw(json_get(value, "kind"), &w.kind) < 0 ||
		    json_string_raw(json_get(value, "name"), &w.name) < 0 ||
		    json_string_raw(json_get(value, "uid"), &w.uid) < 0)
			continue;
		w.controller = span_is(json_get(value, "controller"), "true");
		*ret = w;
		return true;
	}
	return false;
}

struct span object_group(struct span api_version)
{
	const char *slash = api_version.len ? memchr(api_version.at, '/', api_version.len) : NULL;
	return slash ? (struct span){api_version.at, (size_t)(slash - api_version.at)} : (struct span){"", 0};
}

static void put_front(struct buf *out, const char *api_version, const char *kind)
{
	buf_puts(out, "{\"apiVersion\":");
	buf_json_string(out, span_of(api_version));
	buf_puts(out, ",\"kind\":");
	buf_json_string(out, span_of(kind));
}

/* The members of an object text behind its brace; "" for an empty object. */
static struct span members(struct span object)
{
	size_t at = 1;
	while (at < object.len && strchr(" \t\r\n", object.at[at]))
		at++;
	return (struct span){object.at + at, object.len - at};
}

static void put_members(struct buf *out, struct span object)
{
	struct span rest = members(object);
	if (rest.len && *rest.at != '}')
		buf_putc(out, ',');
	buf_span_add(out, rest);
}

void object_normalize(struct span json, const char *api_version, const char *kind, bool strip,
		      bool metadata_only, struct buf *out)
{
	static const char *const managed[] = {"metadata.managedFields", NULL}, *const of_metadata[] = {
										   "managedFields", NULL};
	static const char *const type_too[] = {"metadata.managedFields", "apiVersion", "kind", NULL},
				 *const type[] = {"apiVersion", "kind", NULL};
	if (metadata_only) {
		struct span metadata = json_get(json, "metadata");
		put_front(out, api_version, kind);
		buf_puts(out, ",\"metadata\":");
		if (strip)
			json_copy_without(metadata, of_metadata, out);
		else
			buf_span_add(out, metadata);
		buf_putc(out, '}');
		return;
	}
	struct span has_version = json_get(json, "apiVersion"), has_kind = json_get(json, "kind");
	if (has_version.at && has_kind.at) {
		if (strip)
			json_copy_without(json, managed, out);
		else
			buf_span_add(out, json);
		return;
	}
	put_front(out, api_version, kind);
	if (has_version.at || has_kind.at || strip) {
		struct buf rest = {0};
		json_copy_without(json, strip ? type_too : type, &rest);
		put_members(out, buf_span(&rest));
		buf_done(&rest);
		return;
	}
	put_members(out, json);
}
