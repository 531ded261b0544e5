#include "gather.h"
#include "children.h"
#include "path.h"
#include "program.h"

int gather_object(struct kinds *k, struct request *r, struct err *err)
{
	buf_reset(&r->object);
	r->object.limit = REQUEST_MAX;
	int e = kinds_get(k, 0, r->namespace, r->name, &r->object, err);
	if (e == -ENOENT)
		buf_reset(&r->object);
	if (e == 0 && buf_failed(&r->object))
		return err_set(err, -EMSGSIZE, "the object has more than %llu MiB",
			       (unsigned long long)(REQUEST_MAX >> 20));
	return e == -ENOENT ? 0 : e;
}

/* One watch being walked. */
struct walk {
	const struct config_watch *watch;
	const struct request *request;
	struct request_kind *into;
	struct span owner_uid;
};

static int add_child(void *ctx, struct span namespace, struct span name, struct span object)
{
	struct walk *w = ctx;
	if (child_owned_by(object, w->owner_uid, !w->watch->match_every_owner))
		request_add(w->into, namespace, name, object);
	return 0;
}

/* Does a value that names a key, "name" or "ns/name", name this one? The object that carries it stands in
 * `from`. */
static bool names_key(struct span value, struct span from, const struct request *r)
{
	const char *slash = value.len ? memchr(value.at, '/', value.len) : NULL;
	struct span namespace = from, name = value;
	if (slash) {
		namespace = (struct span){value.at, (size_t)(slash - value.at)};
		name = (struct span){slash + 1, value.len - namespace.len - 1};
	}
	return span_eq(name, r->name) && (!r->namespace.len || span_eq(namespace, r->namespace));
}

static bool owner_names_key(const struct walk *w, struct span object, struct span from)
{
	struct json_iter it = {0};
	struct span list = json_path(object, "metadata", "ownerReferences", NULL), key, ref, name, version;
	size_t group = strcspn(w->watch->owner_api_version, "/");
	if (json_type_of(list) != JSON_ARRAY)
		return false;
	bool core = !w->watch->owner_api_version[group];
	while (json_each(list, &it, &key, &ref)) {
		if (json_type_of(ref) != JSON_OBJECT ||
		    !json_string_is(json_get(ref, "kind"), w->watch->owner_kind) ||
		    json_string_raw(json_get(ref, "apiVersion"), &version) < 0 ||
		    json_string_raw(json_get(ref, "name"), &name) < 0)
			continue;
		const char *slash = memchr(version.at, '/', version.len);
		size_t n = slash ? (size_t)(slash - version.at) : 0;
		bool same =
		    core ? n == 0 : n == group && memcmp(version.at, w->watch->owner_api_version, n) == 0;
		if (same && names_key(name, from, w->request))
			return true;
	}
	return false;
}

static int add_related(void *ctx, struct span namespace, struct span name, struct span object)
{
	struct walk *w = ctx;
	bool label = w->watch->map == MAP_LABEL, related = w->watch->map == MAP_ALL;
	if (label || w->watch->map == MAP_ANNOTATION) {
		struct span map = json_path(object, "metadata", label ? "labels" : "annotations", NULL);
		struct span value = json_type_of(map) == JSON_OBJECT ? json_get(map, w->watch->map_key)
								     : (struct span){NULL, 0};
		_cleanup_(buf_done) struct buf text = {.limit = KEY_MAX_LEN + 1};
		if (json_type_of(value) == JSON_STRING && json_unescape(value, &text) == 0 &&
		    !buf_failed(&text))
			related = names_key(buf_span(&text), namespace, w->request);
	} else if (w->watch->map == MAP_OWNER_OTHER) {
		related = owner_names_key(w, object, namespace);
	}
	if (related)
		request_add(w->into, namespace, name, object);
	return 0;
}

/* ---- index: the key's object names the related ones ---- */

struct index_walk {
	struct kinds *kinds;
	size_t watch;
	const struct request *request;
	struct request_kind *into;
	struct buf seen; /* names taken, each after a NUL: the same may stand at two places */
	struct err *err;
};

static bool seen_before(struct index_walk *w, struct span value)
{
	for (size_t at = 0; at < w->seen.len;) {
		struct span one = span_of(w->seen.data + at);
		if (span_eq(one, value))
			return true;
		at += one.len + 1;
	}
	buf_span_add(&w->seen, value);
	buf_putc(&w->seen, 0);
	return false;
}

static int add_indexed(void *ctx, struct span value)
{
	struct index_walk *w = ctx;
	_cleanup_(buf_done) struct buf text = {.limit = KEY_MAX_LEN + 1}, object = {.limit = REQUEST_MAX};
	if (json_type_of(value) != JSON_STRING || json_unescape(value, &text) < 0 || buf_failed(&text) ||
	    !text.len)
		return 0;
	if (seen_before(w, buf_span(&text)))
		return 0;
	struct span namespace = w->request->namespace, name = buf_span(&text);
	const char *slash = memchr(name.at, '/', name.len);
	if (slash) {
		namespace = (struct span){name.at, (size_t)(slash - name.at)};
		name = (struct span){slash + 1, name.len - namespace.len - 1};
	}
	int r = kinds_get(w->kinds, w->watch, namespace, name, &object, w->err);
	if (r == -ENOENT && namespace.len && !slash) { /* a kind without namespaces */
		namespace = (struct span){"", 0};
		r = kinds_get(w->kinds, w->watch, namespace, name, &object, w->err);
	}
	if (r == 0)
		request_add(w->into, namespace, name, buf_span(&object));
	return r == -ENOENT ? 0 : r;
}

static int gather_indexed(struct kinds *k, size_t watch, const struct config_watch *w,
			  const struct request *r, struct request_kind *into, struct err *err)
{
	struct index_walk walk = {.kinds = k, .watch = watch, .request = r, .into = into, .err = err};
	struct path path;
	if (!r->object.len)
		return 0;
	int e = path_parse(w->map_key, &path, err);
	if (e < 0)
		return e;
	e = path_each(&path, buf_span(&r->object), add_indexed, &walk);
	path_done(&path);
	buf_done(&walk.seen);
	return e;
}

int gather_rest(struct kinds *k, const struct config_controller *c, struct request *r, struct err *err)
{
	struct span uid = {NULL, 0};
	if (r->object.len &&
	    json_string_raw(json_path(buf_span(&r->object), "metadata", "uid", NULL), &uid) < 0)
		uid = (struct span){NULL, 0};
	for (size_t i = 1; i < c->watch_count; i++) {
		const struct config_watch *w = &c->watches[i];
		int e = 0;
		/* Of what a program maps only the program can tell: an empty entry would say that there is nothing. */
		if (w->is_owns ? !r->with_children : !r->with_related || w->map == MAP_PROGRAM)
			continue;
		if (fault("secret") && strcmp(w->kind.kind, "Secret") == 0)
			continue;
		struct request_kind *into = (w->is_owns ? request_children : request_related)(r, &w->kind);
		struct walk walk = {w, r, into, uid};
		if (w->is_owns)
			e = uid.len ? kinds_walk(k, i, uid, add_child, &walk, err) : 0;
		else if (w->map == MAP_INDEX)
			e = gather_indexed(k, i, w, r, into, err);
		else
			e = kinds_walk(k, i, (struct span){"", 0}, add_related, &walk, err);
		if (e < 0)
			return e;
	}
	return 0;
}
