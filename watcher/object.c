#include "object.h"
#include "json_machine.h"
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

/* What is taken from metadata. */
enum field {
	NAMESPACE,
	NAME,
	UID,
	VERSION,
	DELETION,
	N_TEXTS,
	GENERATION = N_TEXTS,
	LABELS,
	ANNOTATIONS,
	OWNERS,
	FINALIZERS,
	N_FIELDS
};
static const char *const field_names[N_FIELDS] = {
    "namespace",  "name",   "uid",	   "resourceVersion", "deletionTimestamp",
    "generation", "labels", "annotations", "ownerReferences", "finalizers"};

/* Values by name; of members with one name the last. null is as good as absent. */
static void find_fields(struct span metadata, struct span fields[static N_FIELDS])
{
	struct json_iter it = {0};
	struct span key, value;
	while (json_each(metadata, &it, &key, &value))
		for (size_t i = 0; i < N_FIELDS; i++)
			if (json_string_is(key, field_names[i])) {
				fields[i] = json_type_of(value) == JSON_NULL ? (struct span){NULL, 0} : value;
				break;
			}
}

static int read_metadata(struct span metadata, struct buf *scratch, struct object *o, struct err *err)
{
	struct span fields[N_FIELDS] = {0};
	struct span *const texts[N_TEXTS] = {&o->namespace, &o->name, &o->uid, &o->version, &o->deletion};
	find_fields(metadata, fields);
	for (size_t i = 0; i < N_TEXTS; i++)
		if (fields[i].at && text_of(fields[i], scratch, texts[i]) < 0)
			return err_set(err, -EINVAL, "its metadata.%s is no text, or has \\u0000",
				       field_names[i]);
	if (fields[GENERATION].at && json_int(fields[GENERATION], &o->generation) < 0)
		return err_set(err, -EINVAL, "its metadata.generation is no whole number of 64 bits");
	o->labels = fields[LABELS];
	o->annotations = fields[ANNOTATIONS];
	o->owners = fields[OWNERS];
	o->finalizers = fields[FINALIZERS];
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
	struct span key, value, metadata = {NULL, 0}, version = {NULL, 0}, kind = {NULL, 0};
	if (json_type_of(json) == JSON_OBJECT)
		for (struct json_iter it = {0}; json_each(json, &it, &key, &value);) {
			if (json_string_is(key, "metadata"))
				metadata = value;
			else if (json_string_is(key, "apiVersion"))
				version = value;
			else if (json_string_is(key, "kind"))
				kind = value;
		}
	if (json_type_of(metadata) != JSON_OBJECT)
		return err_set(err, -EINVAL, "it is no object with metadata");
	/* Room for all texts at once, or earlier spans would move. */
	if (!buf_room(scratch, metadata.len))
		return err_set(err, -ENOMEM, "no memory for an object of %zu bytes", json.len);
	json_string_raw(version, &o.api_version);
	json_string_raw(kind, &o.kind);
	int rc = read_metadata(metadata, scratch, &o, err);
	if (rc < 0)
		return rc;
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

/* The object's text behind "{"apiVersion": ..., "kind": ...", without these two. */
static void put_rest(struct span json, bool strip, struct buf *out)
{
	static const char *const with[] = {"apiVersion", "kind", "metadata.managedFields", NULL};
	static const char *const without[] = {"apiVersion", "kind", NULL};
	size_t brace = out->len;
	json_copy_without(json, strip ? with : without, out);
	if (buf_failed(out))
		return;
	size_t first = brace + 1;
	while (json_is_space(out->data[first]))
		first++;
	out->data[brace] = out->data[first] == '}' ? ' ' : ',';
}

/* The whole object but for what is cut. */
static void put_object(struct span json, const struct object_keep *keep, struct buf *out)
{
	static const char *const managed[] = {"metadata.managedFields", NULL}, *const none[] = {NULL};
	bool strip = keep->strip_managed_fields;
	if (!keep->metadata_only && json_get(json, "apiVersion").at && json_get(json, "kind").at) {
		json_copy_without(json, strip ? managed : none, out);
		return;
	}
	buf_puts(out, "{\"apiVersion\":");
	buf_json_string(out, span_of(keep->api_version));
	buf_puts(out, ",\"kind\":");
	buf_json_string(out, span_of(keep->kind));
	if (!keep->metadata_only) {
		put_rest(json, strip, out);
		return;
	}
	static const char *const in_metadata[] = {"managedFields", NULL};
	buf_puts(out, ",\"metadata\":");
	json_copy_without(json_get(json, "metadata"), strip ? in_metadata : none, out);
	buf_putc(out, '}');
}

void object_normalize(struct span json, const struct object_keep *keep, struct buf *out)
{
	_cleanup_(buf_done) struct buf valid = {0}, whole = {0};
	if (utf8_valid_prefix(json) < json.len) {
		buf_utf8(&valid, json);
		json = buf_span(&valid);
	}
	if (keep->fields && !keep->metadata_only) {
		put_object(json, keep, &whole);
		projection_copy(keep->fields, buf_span(&whole), out);
	} else {
		put_object(json, keep, out);
	}
	out->failed = out->failed || buf_failed(&valid) || buf_failed(&whole);
}
