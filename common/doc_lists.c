/* Which lists of the API's types merge by keys, and doc_contains, which must know it. */
#include "doc_internal.h"

struct row {
	const char *path;    /* names of members, with '/' between them */
	const char *keys[3]; /* in alphabetical order, as fieldsV1 has them; "" alone: a set */
};

/* As the types of Kubernetes 1.32 declare them (listType, listMapKey; where only patchMergeKey is declared,
 * that). */
static const struct row anywhere[] = {
    {"metadata/ownerReferences", {"uid"}},
    {"metadata/finalizers", {""}},
    {"status/conditions", {"type"}},
    {"status/addresses", {"type"}},
    {"status/podIPs", {"ip"}},
    {"spec/ports", {"port", "protocol"}}, /* Service */
    {"secrets", {"name"}},		  /* ServiceAccount */
    {"imagePullSecrets", {"name"}},
    {"webhooks", {"name"}},
};
static const struct row in_pod_spec[] = {
    {"containers", {"name"}},
    {"initContainers", {"name"}},
    {"ephemeralContainers", {"name"}},
    {"volumes", {"name"}},
    {"imagePullSecrets", {"name"}},
    {"hostAliases", {"ip"}},
    {"topologySpreadConstraints", {"topologyKey", "whenUnsatisfiable"}},
    {"resourceClaims", {"name"}},
    {"schedulingGates", {"name"}},
};
static const struct row in_container[] = {
    {"env", {"name"}},
    {"ports", {"containerPort", "protocol"}},
    {"volumeMounts", {"mountPath"}},
    {"volumeDevices", {"devicePath"}},
    {"resources/claims", {"name"}},
};
/* Pod; Deployment, StatefulSet, DaemonSet, ReplicaSet, Job; CronJob; PodTemplate. */
static const char *const pod_specs[] = {"spec", "spec/template/spec", "spec/jobTemplate/spec/template/spec",
					"template/spec"};
static const char *const container_lists[] = {"containers", "initContainers", "ephemeralContainers"};

/* How many names of path the prefix takes; 0 if it is none. */
static size_t prefix_depth(const char *prefix, const struct span *path, size_t depth)
{
	size_t n = 0;
	for (const char *at = prefix; n < depth; at++) {
		size_t len = strcspn(at, "/");
		if (!span_eq(path[n], (struct span){at, len}))
			return 0;
		n++;
		at += len;
		if (!*at)
			return n;
	}
	return 0;
}

static const char *const *find_row(const struct row *rows, size_t n, const struct span *path, size_t depth)
{
	for (size_t i = 0; i < n && depth; i++)
		if (prefix_depth(rows[i].path, path, depth) == depth)
			return rows[i].keys;
	return NULL;
}

const char *const *doc_list_keys(const struct span *path, size_t depth)
{
	const char *const *keys = find_row(anywhere, ARRAY_SIZE(anywhere), path, depth);
	for (size_t i = 0; i < ARRAY_SIZE(pod_specs) && !keys; i++) {
		size_t pod = prefix_depth(pod_specs[i], path, depth);
		if (!pod)
			continue;
		keys = find_row(in_pod_spec, ARRAY_SIZE(in_pod_spec), path + pod, depth - pod);
		for (size_t j = 0; j < ARRAY_SIZE(container_lists) && !keys; j++)
			if (prefix_depth(container_lists[j], path + pod, depth - pod))
				keys = find_row(in_container, ARRAY_SIZE(in_container), path + pod + 1,
						depth - pod - 1);
	}
	return keys;
}

bool doc_atomic_here(const struct doc_where *w)
{
	if (w->depth > DOC_PATH_MAX)
		return false;
	if (w->depth == 2 && prefix_depth("spec/selector", w->keys, w->depth))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(pod_specs); i++) {
		size_t pod = prefix_depth(pod_specs[i], w->keys, w->depth);
		if (pod && w->depth == pod + 1 && span_is(w->keys[pod], "nodeSelector"))
			return true;
	}
	return false;
}

const char *const *doc_keys_here(const struct doc_where *w)
{
	return w->depth <= DOC_PATH_MAX ? doc_list_keys(w->keys, w->depth) : NULL;
}

void doc_enter(struct doc_where *w, struct span key)
{
	if (w->depth < DOC_PATH_MAX)
		w->keys[w->depth] = key;
	w->depth++;
}

void doc_leave(struct doc_where *w)
{
	w->depth--;
}

/* ---- names of items ---- */

/* A key's value as it stands in a name: one text for one value. False if it cannot be a key. */
static bool add_key_value(const struct doc_node *value, struct buf *out)
{
	if (!value || (value->type != JSON_STRING && value->type != JSON_NUMBER && value->type != JSON_BOOL))
		return false;
	if (value->type != JSON_STRING) {
		buf_span_add(out, value->text);
		return true;
	}
	_cleanup_(buf_done) struct buf plain = {0};
	if (json_unescape(value->text, &plain) < 0)
		return false;
	buf_json_string(out, buf_span(&plain));
	return true;
}

static bool item_name(const struct doc_node *item, const char *const *keys, struct buf *out)
{
	if (!*keys[0]) {
		buf_puts(out, "v:");
		return add_key_value(item, out);
	}
	buf_puts(out, "k:{");
	for (size_t i = 0; keys[i]; i++) {
		const struct doc_node *value = doc_get(item, keys[i]);
		buf_puts(out, i ? ",\"" : "\"");
		buf_puts(out, keys[i]);
		buf_puts(out, "\":");
		if (!value && strcmp(keys[i], "protocol") == 0) /* the one key that has a default */
			buf_puts(out, "\"TCP\"");
		else if (!add_key_value(value, out))
			return false;
	}
	buf_puts(out, "}");
	return true;
}

bool doc_list_init(struct doc *d, struct doc_list *l, const struct doc_node *list, const char *const *keys)
{
	if (!keys || (list && list->type != JSON_ARRAY))
		return false;
	size_t n = list ? list->count : 0;
	*l = (struct doc_list){.items = xcalloc(n, sizeof *l->items)};
	doc_index_init(&l->index, n);
	_cleanup_(buf_done) struct buf name = {0};
	doc_each (item, list) {
		buf_reset(&name);
		struct doc_item *entry = &l->items[l->n++];
		bool named = item_name(item, keys, &name);
		*entry =
		    (struct doc_item){named ? doc_keep(d, buf_span(&name)) : (struct span){NULL, 0}, item};
		if (!named || doc_index_put(&l->index, entry->name, entry)) {
			doc_list_done(l);
			return false;
		}
	}
	return true;
}

void doc_list_done(struct doc_list *l)
{
	free(l->items);
	doc_index_done(&l->index);
	*l = (struct doc_list){0};
}

/* ---- contains ---- */

static bool contains(struct doc *d, struct doc_where *w, const struct doc_node *have,
		     const struct doc_node *want);

static bool contains_members(struct doc *d, struct doc_where *w, const struct doc_node *have,
			     const struct doc_node *want)
{
	struct doc_members members;
	doc_members_init(&members, have);
	bool all = true;
	doc_each (member, want) {
		doc_enter(w, member->key);
		all = contains(d, w, doc_members_get(&members, member->key), member);
		doc_leave(w);
		if (!all)
			break;
	}
	doc_members_done(&members);
	return all;
}

static bool contains_items(struct doc *d, struct doc_where *w, const struct doc_node *have,
			   const struct doc_node *want)
{
	const char *const *keys = doc_keys_here(w);
	struct doc_list has, wants;
	if (!doc_list_init(d, &wants, want, keys))
		return doc_equal(have, want);
	bool all = doc_list_init(d, &has, have, keys);
	if (all) {
		for (size_t i = 0; i < wants.n && all; i++) {
			const struct doc_item *item = doc_index_get(&has.index, wants.items[i].name);
			all = item && contains(d, w, item->node, wants.items[i].node);
		}
		doc_list_done(&has);
	}
	doc_list_done(&wants);
	return all;
}

static bool contains(struct doc *d, struct doc_where *w, const struct doc_node *have,
		     const struct doc_node *want)
{
	if (want->type == JSON_NULL) /* as good as not there: no server keeps it */
		return !have || have->type == JSON_NULL;
	if (!have || have->type != want->type)
		return false;
	if (want->type == JSON_OBJECT && !doc_atomic_here(w))
		return contains_members(d, w, have, want);
	if (want->type == JSON_ARRAY)
		return contains_items(d, w, have, want);
	return doc_equal(have, want);
}

bool doc_contains(const struct doc_node *have, const struct doc_node *want)
{
	struct doc *names = doc_new();
	struct doc_where where = {.depth = 0};
	bool all = contains(names, &where, have, want);
	doc_free(names);
	return all;
}
