/* Server-side apply: fields that a manager sets are merged in, fields that it no longer sets and nobody else
 * owns go. */
#include "doc_internal.h"

/* ---- field sets ---- */

static struct doc_node *fields_of(struct doc *d, struct doc_where *w, const struct doc_node *n);

/* Nobody owns what identifies the object or what the server alone writes. */
static bool is_nobodys(const struct doc_where *w, struct span key)
{
	static const char *const in_root[] = {"apiVersion", "kind"};
	static const char *const in_metadata[] = {"name",
						  "namespace",
						  "uid",
						  "resourceVersion",
						  "generation",
						  "creationTimestamp",
						  "deletionTimestamp",
						  "deletionGracePeriodSeconds",
						  "managedFields",
						  "selfLink",
						  "generateName"};
	bool metadata = w->depth == 1 && span_is(w->keys[0], "metadata");
	const char *const *names = metadata ? in_metadata : in_root;
	size_t n = metadata ? ARRAY_SIZE(in_metadata) : w->depth == 0 ? ARRAY_SIZE(in_root) : 0;
	for (size_t i = 0; i < n; i++)
		if (span_is(key, names[i]))
			return true;
	return false;
}

static struct span field_name(struct doc *d, struct span key)
{
	_cleanup_(buf_done) struct buf name = {0};
	buf_puts(&name, "f:");
	buf_span_add(&name, key);
	return doc_keep(d, buf_span(&name));
}

static void own_members(struct doc *d, struct doc_where *w, const struct doc_node *object,
			struct doc_node *set)
{
	doc_each (member, object) {
		if (member->type == JSON_NULL || is_nobodys(w, member->key))
			continue;
		doc_enter(w, member->key);
		struct doc_node *below = fields_of(d, w, member);
		doc_leave(w);
		if (w->depth == 0 && span_is(member->key, "metadata") && !below->count)
			continue; /* it has nothing but what identifies the object */
		doc_add(d, set, field_name(d, member->key), below);
	}
}

static void own_items(struct doc *d, struct doc_where *w, const struct doc_list *list, bool is_set,
		      struct doc_node *set)
{
	for (size_t i = 0; i < list->n; i++) {
		struct doc_node *below = is_set ? doc_new_object(d) : fields_of(d, w, list->items[i].node);
		if (!is_set) { /* "." goes first: the item itself */
			struct doc_node *item = doc_new_object(d);
			doc_add(d, item, span_of("."), doc_new_object(d));
			for (struct doc_node *f = below->child, *next; f; f = next) {
				next = f->next;
				doc_add(d, item, f->key, f);
			}
			below = item;
		}
		doc_add(d, set, list->items[i].name, below);
	}
}

/* A field that is one value has {}. */
static struct doc_node *fields_of(struct doc *d, struct doc_where *w, const struct doc_node *n)
{
	struct doc_node *set = doc_new_object(d);
	if (n->type == JSON_OBJECT && !doc_atomic_here(w)) {
		own_members(d, w, n, set);
	} else if (n->type == JSON_ARRAY) {
		const char *const *keys = doc_keys_here(w);
		struct doc_list list;
		if (doc_list_init(d, &list, n, keys)) {
			own_items(d, w, &list, !*keys[0], set);
			doc_list_done(&list);
		}
	}
	return set;
}

struct doc_node *doc_field_set(struct doc *d, const struct doc_node *config)
{
	return fields_of(d, &(struct doc_where){.depth = 0}, config);
}

/* ---- merging ---- */

static struct doc_node *merge(struct doc *d, struct doc_where *w, struct doc_node *live,
			      const struct doc_node *config);

static struct doc_node *merge_members(struct doc *d, struct doc_where *w, struct doc_node *live,
				      const struct doc_node *config)
{
	if (!live || live->type != JSON_OBJECT)
		live = doc_new_object(d);
	struct doc_members members;
	doc_members_init(&members, live);
	doc_each (member, config) {
		if (member->type == JSON_NULL)
			continue; /* not set, as where a typed object was printed */
		struct doc_node *old = doc_members_get(&members, member->key);
		doc_enter(w, member->key);
		struct doc_node *merged = merge(d, w, old, member);
		doc_leave(w);
		if (old)
			doc_replace(live, old, merged);
		else
			doc_add(d, live, member->key, merged);
	}
	doc_members_done(&members);
	return live;
}

/* Appends the items of live from the place `at` on, up to the first that config has too. */
static void append_others(struct doc_node *out, const struct doc_list *live, size_t at,
			  const struct doc_list *config)
{
	for (; at < live->n && !doc_index_get(&config->index, live->items[at].name); at++)
		doc_append(out, live->items[at].node);
}

/* The order is config's; an item that only live has stays behind the one that it stood behind. So a second
 * apply changes nothing. */
static struct doc_node *merge_items(struct doc *d, struct doc_where *w, const struct doc_list *live,
				    const struct doc_list *config)
{
	struct doc_node *out = doc_new_array(d);
	append_others(out, live, 0, config);
	for (size_t i = 0; i < config->n; i++) {
		struct doc_item *old = doc_index_get(&live->index, config->items[i].name);
		doc_append(out, merge(d, w, old ? old->node : NULL, config->items[i].node));
		if (old)
			append_others(out, live, (size_t)(old - live->items) + 1, config);
	}
	return out;
}

/* What stands there afterwards: live itself where that may stay. */
static struct doc_node *merge(struct doc *d, struct doc_where *w, struct doc_node *live,
			      const struct doc_node *config)
{
	if (config->type == JSON_OBJECT && !doc_atomic_here(w))
		return merge_members(d, w, live, config);
	struct doc_list old, new;
	const char *const *keys = config->type == JSON_ARRAY ? doc_keys_here(w) : NULL;
	if (doc_list_init(d, &new, config, keys)) {
		bool both = doc_list_init(d, &old, live, keys);
		struct doc_node *merged = both ? merge_items(d, w, &old, &new) : NULL;
		if (both)
			doc_list_done(&old);
		doc_list_done(&new);
		if (both)
			return merged;
	}
	return live && doc_equal(live, config) ? live : doc_copy(d, config);
}

/* ---- removing ---- */

/* Field sets at one place of the object: what the manager sets now, and what others own. NULL: nothing
 * there. */
struct owners {
	const struct doc_node *now;
	const struct doc_node **others;
	size_t n;
};

/* Those that own something at or below this entry; false: nobody. o->others is to be freed. */
static bool owners_below(const struct owners *at, struct span entry, struct owners *o)
{
	*o = (struct owners){doc_get_span(at->now, entry), xcalloc(at->n, sizeof(struct doc_node *)), 0};
	for (size_t i = 0; i < at->n; i++) {
		const struct doc_node *other = doc_get_span(at->others[i], entry);
		if (other)
			o->others[o->n++] = other;
	}
	return o->now || o->n;
}

static bool is_container(const struct doc_node *n)
{
	return n->type == JSON_OBJECT || n->type == JSON_ARRAY;
}

static void remove_dropped(struct doc *d, struct doc_where *w, struct doc_node *live,
			   const struct doc_node *old, const struct owners *at, const char *const *item_keys);

/* One entry of the old field set, and what of the live object it names. item_keys: of the list whose item
 * `container` is. */
static void remove_entry(struct doc *d, struct doc_where *w, struct doc_node *container,
			 struct doc_node *target, const struct doc_node *entry, const struct owners *at)
{
	struct owners below;
	bool kept = owners_below(at, entry->key, &below);
	bool whole = !entry->count || doc_get(entry, ".");
	if (!kept && whole) {
		doc_remove(container, target);
	} else if (entry->count && is_container(target)) {
		bool is_item = entry->key.at[0] == 'k';
		remove_dropped(d, w, target, entry, &below, is_item ? doc_keys_here(w) : NULL);
		if (!kept && !target->count)
			doc_remove(container, target); /* emptied by this */
	}
	free(below.others);
}

static bool is_key(const char *const *keys, struct span name)
{
	for (size_t i = 0; keys && keys[i]; i++)
		if (span_is(name, keys[i]))
			return true;
	return false;
}

/* item_keys: if live is an item of a list with keys, those: they go only with the item. */
static void remove_dropped(struct doc *d, struct doc_where *w, struct doc_node *live,
			   const struct doc_node *old, const struct owners *at, const char *const *item_keys)
{
	struct doc_list list;
	bool listed = live->type == JSON_ARRAY && doc_list_init(d, &list, live, doc_keys_here(w));
	doc_each (entry, old) {
		struct span name = entry->key;
		if (listed) {
			struct doc_item *item = doc_index_get(&list.index, name);
			if (item)
				remove_entry(d, w, live, item->node, entry, at);
		} else if (live->type == JSON_OBJECT && name.len > 2 && memcmp(name.at, "f:", 2) == 0) {
			struct span key = {name.at + 2, name.len - 2};
			struct doc_node *member = doc_get_span(live, key);
			if (!member || is_key(item_keys, key))
				continue;
			doc_enter(w, key);
			remove_entry(d, w, live, member, entry, at);
			doc_leave(w);
		}
	}
	if (listed)
		doc_list_done(&list);
}

struct doc_node *doc_apply(struct doc *d, struct doc_node *live, const struct doc_node *config,
			   const struct doc_node *old_fields, const struct doc_node *const *others,
			   size_t n_others)
{
	struct doc_where where = {.depth = 0};
	live = merge(d, &where, live, config);
	if (old_fields) {
		struct owners at = {doc_field_set(d, config), xcalloc(n_others, sizeof(struct doc_node *)),
				    n_others};
		for (size_t i = 0; i < n_others; i++)
			at.others[i] = others[i];
		remove_dropped(d, &where, live, old_fields, &at, NULL);
		free(at.others);
	}
	return live;
}
