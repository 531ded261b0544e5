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

static int read_metadata(struct span metadata, struct buf *scratch, struct object *o, struct err *err)
{
	struct span fields[N_FIELDS];
	struct span *const texts[N_TEXTS] = {&o->namespace, &o->name, &o->uid, &o->version, &o->deletion};
	json_get_all(metadata, field_names, fields, N_FIELDS);
	for (size_t i = 0; i < N_FIELDS; i++)
		if (json_type_of(fields[i]) == JSON_NULL)
			fields[i] = (struct span){NULL, 0};
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

int object_read_at(struct span json, struct span metadata, struct buf *scratch, struct object *ret,
		   struct err *err)
{
	static const struct span empty = {"", 0};
	struct object o = {.json = json,
			   .namespace = empty,
			   .name = empty,
			   .uid = empty,
			   .version = empty,
			   .generation = -1};
	if (json_type_of(metadata) != JSON_OBJECT)
		return err_set(err, -EINVAL, "it is no object with metadata");
	/* Room for all texts at once, or earlier spans would move. */
	if (!buf_room(scratch, metadata.len))
		return err_set(err, -ENOMEM, "no memory for an object of %zu bytes", json.len);
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

int object_read(struct span json, struct buf *scratch, struct object *ret, struct err *err)
{
	return object_read_at(json, json_get(json, "metadata"), scratch, ret, err);
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

/* The members that decide how an object is kept. */
struct parts {
	struct span metadata;
	bool version, kind;
	bool twice; /* more than one metadata */
};

static struct parts parts_of(struct span json)
{
	struct parts p = {0};
	struct span key, value;
	struct json_iter it = {0};
	while (json_type_of(json) == JSON_OBJECT && json_each(json, &it, &key, &value)) {
		if (json_string_is(key, "metadata")) {
			p.twice = p.metadata.at != NULL;
			p.metadata = value;
		} else if (json_string_is(key, "apiVersion")) {
			p.version = true;
		} else if (json_string_is(key, "kind")) {
			p.kind = true;
		}
	}
	return p;
}

/* Returns where in out it begins. */
static size_t put_metadata(struct span metadata, bool strip, struct buf *out)
{
	static const char *const managed[] = {"managedFields", NULL};
	size_t at = out->len;
	if (strip)
		json_copy_without(metadata, managed, out);
	else
		buf_span_add(out, metadata);
	return at;
}

static void put_type(const struct object_keep *keep, struct buf *out)
{
	buf_puts(out, "{\"apiVersion\":");
	buf_json_string(out, span_of(keep->api_version));
	buf_puts(out, ",\"kind\":");
	buf_json_string(out, span_of(keep->kind));
}

/* What is odd: no metadata or two, one of apiVersion and kind without the other. */
static struct span put_odd(struct span json, const struct parts *p, const struct object_keep *keep,
			   struct buf *out)
{
	static const char *const paths[] = {"metadata.managedFields", "apiVersion", "kind", NULL};
	static const char *const managed[] = {"metadata.managedFields", NULL}, *const none[] = {NULL};
	size_t start = out->len;
	if (p->version && p->kind) {
		json_copy_without(json, keep->strip_managed_fields ? managed : none, out);
	} else {
		put_type(keep, out);
		size_t brace = out->len;
		json_copy_without(json, keep->strip_managed_fields ? paths : paths + 1, out);
		for (size_t at = brace + 1; !buf_failed(out); at++) {
			if (json_is_space(out->data[at]))
				continue;
			out->data[brace] = out->data[at] == '}' ? ' ' : ',';
			break;
		}
	}
	return buf_failed(out) ? (struct span){NULL, 0}
			       : json_get((struct span){out->data + start, out->len - start}, "metadata");
}

/* The object but for what is cut; returns its metadata in out. */
static struct span put_object(struct span json, const struct object_keep *keep, struct buf *out)
{
	struct parts p = parts_of(json);
	bool strip = keep->strip_managed_fields, whole = p.version && p.kind;
	if (keep->metadata_only && !p.metadata.at)
		return p.metadata; /* nothing to keep: object_read_at says so */
	if (!keep->metadata_only && (p.twice || !p.metadata.at || p.version != p.kind))
		return put_odd(json, &p, keep, out);
	const char *behind = p.metadata.at + p.metadata.len, *end = json.at + json.len;
	size_t at, after;
	if (keep->metadata_only) {
		put_type(keep, out);
		buf_puts(out, ",\"metadata\":");
		at = put_metadata(p.metadata, strip, out);
		after = out->len;
		buf_putc(out, '}');
	} else {
		const char *begin = json.at;
		if (!whole) {
			put_type(keep, out);
			buf_putc(out, ',');
			begin++; /* instead of its brace */
		}
		buf_add(out, begin, (size_t)(p.metadata.at - begin));
		at = put_metadata(p.metadata, strip, out);
		after = out->len;
		buf_add(out, behind, (size_t)(end - behind));
	}
	return buf_failed(out) ? (struct span){NULL, 0} : (struct span){out->data + at, after - at};
}

struct span object_normalize(struct span json, const struct object_keep *keep, struct buf *out)
{
	_cleanup_(buf_done) struct buf valid = {0}, whole = {0};
	struct span metadata;
	if (utf8_valid_prefix(json) < json.len) {
		buf_utf8(&valid, json);
		json = buf_span(&valid);
	}
	if (keep->fields && !keep->metadata_only) {
		put_object(json, keep, &whole);
		projection_copy(keep->fields, buf_span(&whole), out);
		metadata = json_get(buf_span(out), "metadata");
	} else {
		metadata = put_object(json, keep, out);
	}
	out->failed = out->failed || buf_failed(&valid) || buf_failed(&whole);
	return metadata;
}
