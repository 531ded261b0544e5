#include "strategic.h"
#include "doc_internal.h"

/* Comparisons that one list or object may cost: live members times patched ones. */
enum { COST_MAX = 1 << 24 };

struct strategic {
	struct doc *d;
	struct doc_where where;
	struct failure *f;
};

static bool affordable(struct strategic *s, const struct doc_node *live, const struct doc_node *patch)
{
	if (!live || (uint64_t)live->count * patch->count <= COST_MAX)
		return true;
	fail(s->f, 413, "RequestEntityTooLarge",
	     "the strategic merge patch merges too many items: use a merge patch");
	return false;
}

static bool starts(struct span s, const char *prefix, struct span *ret_rest)
{
	size_t n = strlen(prefix);
	if (s.len < n || memcmp(s.at, prefix, n) != 0)
		return false;
	*ret_rest = (struct span){s.at + n, s.len - n};
	return true;
}

static bool is_directive(struct span key)
{
	return key.len && *key.at == '$';
}

/* What $patch says; absent: merge. */
static struct span directive(struct strategic *s, const struct doc_node *patch)
{
	return patch->type == JSON_OBJECT ? doc_string(s->d, doc_get(patch, "$patch")) : (struct span){0};
}

static struct doc_node *merge_value(struct strategic *s, struct doc_node *live, const struct doc_node *patch);

/* A copy without directives and nulls: what a patch means where nothing was. */
static struct doc_node *plain(struct strategic *s, const struct doc_node *patch)
{
	return merge_value(s, NULL, patch);
}

static bool contains_value(const struct doc_node *list, const struct doc_node *value)
{
	doc_each (n, list)
		if (doc_equal(n, value))
			return true;
	return false;
}

static void filter_list(struct doc *d, struct doc_node *list, const struct doc_node *values, bool by_key)
{
	struct doc_node *last = NULL;
	for (struct doc_node *n = list->child; n; n = n->next) {
		bool drop;
		if (by_key) {
			struct doc_node *key = doc_new_string(d, n->key);
			drop = !is_directive(n->key) && !contains_value(values, key);
		} else {
			drop = contains_value(values, n);
		}
		if (!drop) {
			last = n;
			continue;
		}
		if (last)
			last->next = n->next;
		else
			list->child = n->next;
		list->count--;
	}
	list->last = last;
}

/* ---- lists ---- */

static struct doc_node *find_item(const struct doc_node *list, const char *key, const struct doc_node *value)
{
	doc_each (n, list) {
		const struct doc_node *have = doc_get(n, key);
		if (have && doc_equal(have, value))
			return n;
	}
	return NULL;
}

static bool merge_item(struct strategic *s, struct doc_node *list, const struct doc_node *item,
		       const char *key)
{
	const struct doc_node *value = doc_get(item, key);
	if (!value)
		return false;
	struct doc_node *old = find_item(list, key, value);
	if (span_is(directive(s, item), "delete")) {
		if (old)
			doc_remove(list, old);
		return true;
	}
	if (old)
		merge_value(s, old, item); /* objects are changed in place */
	else
		doc_append(list, plain(s, item));
	return true;
}

/* A list that starts with {"$patch":"replace"} takes the place of the old one. */
static bool replaces(struct strategic *s, const struct doc_node *patch)
{
	doc_each (item, patch)
		if (item->type == JSON_OBJECT && span_is(directive(s, item), "replace") && item->count == 1)
			return true;
	return false;
}

static struct doc_node *merge_list(struct strategic *s, struct doc_node *live, const struct doc_node *patch)
{
	const char *const *keys = doc_keys_here(&s->where);
	bool replace = !keys || replaces(s, patch);
	if (!live || live->type != JSON_ARRAY || replace)
		live = doc_new_array(s->d);
	if (!affordable(s, live, patch))
		return live;
	doc_each (item, patch) {
		bool only_directive =
		    item->type == JSON_OBJECT && item->count == 1 && doc_get(item, "$patch");
		if (only_directive)
			continue;
		if (replace) {
			doc_append(live, plain(s, item));
		} else if (!*keys[0]) {
			if (!contains_value(live, item))
				doc_append(live, doc_copy(s->d, item));
		} else if (!merge_item(s, live, item, keys[0])) {
			fail_bad_request(s->f,
					 "the strategic merge patch has a list item without its merge key %s",
					 keys[0]);
		}
	}
	return live;
}

/* ---- objects ---- */

static void delete_values(struct strategic *s, struct doc_node *live, struct span field,
			  const struct doc_node *values)
{
	struct doc_node *list = doc_get_span(live, field);
	if (list && list->type == JSON_ARRAY)
		filter_list(s->d, list, values, false);
}

static struct doc_node *merge_object(struct strategic *s, struct doc_node *live, const struct doc_node *patch)
{
	struct span field;
	if (!live || live->type != JSON_OBJECT || span_is(directive(s, patch), "replace"))
		live = doc_new_object(s->d);
	if (!affordable(s, live, patch))
		return live;
	doc_each (member, patch) {
		if (starts(member->key, "$deleteFromPrimitiveList/", &field))
			delete_values(s, live, field, member);
		if (is_directive(member->key))
			continue;
		struct doc_node *old = doc_get_span(live, member->key);
		bool gone = member->type == JSON_NULL || span_is(directive(s, member), "delete");
		doc_enter(&s->where, member->key);
		struct doc_node *merged = gone ? NULL : merge_value(s, old, member);
		doc_leave(&s->where);
		if (merged != old)
			doc_set_span(s->d, live, member->key, merged);
	}
	const struct doc_node *retain = doc_get(patch, "$retainKeys");
	if (retain)
		filter_list(s->d, live, retain, true);
	return live;
}

static struct doc_node *merge_value(struct strategic *s, struct doc_node *live, const struct doc_node *patch)
{
	if (patch->type == JSON_OBJECT)
		return merge_object(s, live, patch);
	if (patch->type == JSON_ARRAY)
		return merge_list(s, live, patch);
	return doc_copy(s->d, patch);
}

int strategic_patch(struct doc *d, struct doc_node *target, const struct doc_node *patch,
		    struct doc_node **ret, struct failure *f)
{
	struct strategic s = {.d = d, .f = f};
	if (patch->type != JSON_OBJECT)
		return fail_bad_request(f, "a strategic merge patch must be a JSON object");
	*ret = merge_object(&s, target, patch);
	return f->code ? -ECANCELED : 0;
}
