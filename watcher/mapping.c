#include "mapping.h"
#include "names.h"

/* ---- keys ---- */

void keys_done(struct keys *k)
{
	buf_done(&k->text);
	free(k->at);
	*k = (struct keys){0};
}

void keys_reset(struct keys *k)
{
	buf_reset(&k->text);
	k->count = 0;
	k->all = false;
}

void keys_get(const struct keys *k, size_t i, struct span *ret_namespace, struct span *ret_name)
{
	const char *at = k->text.data + k->at[i].at;
	*ret_namespace = (struct span){at, k->at[i].namespace_len};
	*ret_name = (struct span){at + k->at[i].namespace_len, k->at[i].name_len};
}

static bool has_key(const struct keys *k, struct span namespace, struct span name)
{
	/* Only so far back: a key that is told twice is merged later. */
	for (size_t i = k->count > 32 ? k->count - 32 : 0; i < k->count; i++) {
		struct span a, b;
		keys_get(k, i, &a, &b);
		if (span_eq(a, namespace) && span_eq(b, name))
			return true;
	}
	return false;
}

void keys_add(struct keys *k, struct span namespace, struct span name)
{
	/* A label or an annotation may say anything: what can be no object's name makes no key. */
	if (name.len > NAME_MAX_LEN || !kube_is_path_segment(name) || namespace.len > NAMESPACE_MAX_LEN ||
	    (namespace.len && !kube_is_path_segment(namespace)) || has_key(k, namespace, name))
		return;
	if (k->count == KEYS_MAX) {
		k->all = true;
		return;
	}
	if (k->count == k->cap) {
		k->cap = k->cap ? k->cap * 2 : 16;
		k->at = xrealloc(k->at, k->cap * sizeof *k->at);
	}
	k->at[k->count++] = (struct key){(uint32_t)k->text.len, (uint16_t) namespace.len, (uint16_t)name.len};
	buf_span_add(&k->text, namespace);
	buf_span_add(&k->text, name);
}

/* ---- mapping ---- */

void mapping_init(struct mapping *m, const struct config_watch *w, const struct config_kind *for_kind)
{
	*m = (struct mapping){.type = w->map,
			      .every_owner = w->match_every_owner || w->map == MAP_OWNER_OTHER,
			      .key = w->map_key};
	if (w->map != MAP_OWNER && w->map != MAP_OWNER_OTHER)
		return;
	m->owner_kind = w->map == MAP_OWNER ? for_kind->kind : w->owner_kind;
	m->owner_group = span_dup(
	    object_group(span_of(w->map == MAP_OWNER ? for_kind->api_version : w->owner_api_version)));
}

void mapping_done(struct mapping *m)
{
	free(m->owner_group);
	*m = (struct mapping){0};
}

static void owner_keys(const struct mapping *m, const struct object *o, const struct mapping_lookup *lookup,
		       struct span namespace, struct keys *out)
{
	struct json_iter it = {0};
	struct object_owner w;
	while (object_owner_next(o, &it, &w)) {
		if ((!w.controller && !m->every_owner) || !span_is(w.kind, m->owner_kind) ||
		    !span_is(object_group(w.api_version), m->owner_group))
			continue;
		if (m->type == MAP_OWNER && lookup->owner_is_another(lookup->ctx, namespace, w.name, w.uid))
			continue;
		keys_add(out, namespace, w.name);
	}
}

static struct span own_or(struct span value, struct buf *scratch)
{
	struct span s = {0};
	if (json_string_raw(value, &s) == 0 || json_type_of(value) != JSON_STRING)
		return s;
	return json_unescape(value, scratch) == 0 ? buf_span(scratch) : s;
}

/* The value of a label or an annotation: "name", or where it may, "namespace/name". */
static void value_key(struct span value, bool may_have_namespace, struct span namespace, bool clustered,
		      struct keys *out)
{
	const char *slash = value.len ? memchr(value.at, '/', value.len) : NULL;
	if (!slash) {
		keys_add(out, namespace, value);
		return;
	}
	struct span first = {value.at, (size_t)(slash - value.at)},
		    rest = {slash + 1, value.len - first.len - 1};
	if (may_have_namespace && !clustered && first.len && rest.len && !memchr(rest.at, '/', rest.len))
		keys_add(out, first, rest);
}

void mapping_keys(const struct mapping *m, const struct object *o, const struct mapping_lookup *lookup,
		  struct keys *out)
{
	if (!object_exists(o))
		return;
	bool clustered = lookup->for_scope == CACHE_SCOPE_CLUSTER;
	struct span namespace = clustered ? (struct span){"", 0} : o->namespace;
	struct buf scratch = {0};
	if (m->type == MAP_SELF) {
		keys_add(out, o->namespace, o->name);
		return;
	}
	if (lookup->for_scope == CACHE_SCOPE_UNKNOWN) {
		out->all = true;
		return;
	}
	/* A cluster-scoped object says nothing about a namespace, unless its value does. */
	bool nowhere = !clustered && !namespace.len;
	switch (m->type) {
	case MAP_SELF:
		break;
	case MAP_OWNER:
	case MAP_OWNER_OTHER:
		if (!nowhere)
			owner_keys(m, o, lookup, namespace, out);
		break;
	case MAP_LABEL:
		if (!nowhere && o->labels.at)
			value_key(own_or(json_get(o->labels, m->key), &scratch), false, namespace, clustered,
				  out);
		break;
	case MAP_ANNOTATION:
		if (o->annotations.at) {
			struct span value = own_or(json_get(o->annotations, m->key), &scratch);
			if (!nowhere || (value.len && memchr(value.at, '/', value.len)))
				value_key(value, true, namespace, clustered, out);
		}
		break;
	case MAP_INDEX:
		lookup->references(lookup->ctx, o->namespace, o->name, out);
		break;
	case MAP_ALL:
		lookup->everything(lookup->ctx, out);
		break;
	case MAP_PROGRAM: /* is asked: ask.c */
		break;
	}
	buf_done(&scratch);
}

bool mapping_primary_changed(const struct object *before, const struct object *after)
{
	if (!object_exists(before) || !object_exists(after))
		return true;
	if (before->generation < 0 && after->generation < 0)
		return true;
	return !span_eq(before->uid, after->uid) || before->generation != after->generation ||
	       !span_eq(before->deletion, after->deletion);
}
