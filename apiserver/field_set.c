#include "field_set.h"
#include "doc_internal.h"

enum { KEYS_MAX = 8 };

static bool is_self(const struct doc_node *n)
{
	return span_is(n->key, ".");
}

bool set_is_leaf(const struct doc_node *set)
{
	doc_each (n, set)
		if (!is_self(n))
			return false;
	return true;
}

bool same_value(const struct doc_node *a, const struct doc_node *b)
{
	return a && b ? doc_equal(a, b) : a == b;
}

void set_merge(struct doc *d, struct doc_node *into, const struct doc_node *from)
{
	struct doc_members members;
	doc_members_init(&members, into);
	doc_each (n, from) {
		struct doc_node *have = doc_members_get(&members, n->key);
		if (have)
			set_merge(d, have, n);
		else
			doc_add(d, into, n->key, doc_copy(d, n));
	}
	doc_members_done(&members);
}

/* ---- finding what the steps of one set name in a value ---- */

struct look {
	struct doc_members members;
	struct doc_list list;
	bool is_object, is_list;
};

/* The key names of a list's items, as the first k: step gives them; {""} for v: steps. */
static bool list_keys(struct doc *d, const struct doc_node *set, const char *keys[KEYS_MAX + 1])
{
	const struct doc_node *first = set->child;
	struct doc_node *names;
	size_t n = 0;
	while (first && is_self(first))
		first = first->next;
	if (!first || first->key.len < 2 || (first->key.at[0] != 'k' && first->key.at[0] != 'v'))
		return false;
	if (first->key.at[0] == 'v') {
		keys[n++] = "";
	} else {
		if (doc_parse(d, (struct span){first->key.at + 2, first->key.len - 2}, &names, NULL) < 0)
			return false;
		doc_each (name, names)
			if (n < KEYS_MAX)
				keys[n++] = doc_keep(d, name->key).at;
	}
	keys[n] = NULL;
	return n > 0;
}

static void look_init(struct look *l, struct doc *d, const struct doc_node *in, const struct doc_node *set)
{
	const char *keys[KEYS_MAX + 1];
	*l = (struct look){.is_object = in && in->type == JSON_OBJECT};
	if (l->is_object)
		doc_members_init(&l->members, in);
	else if (in && in->type == JSON_ARRAY && in->count && list_keys(d, set, keys))
		l->is_list = doc_list_init(d, &l->list, in, keys);
}

static void look_done(struct look *l)
{
	if (l->is_object)
		doc_members_done(&l->members);
	if (l->is_list)
		doc_list_done(&l->list);
}

static const struct doc_node *look_up(const struct look *l, struct span step)
{
	if (l->is_object && step.len >= 2 && step.at[0] == 'f')
		return doc_members_get(&l->members, (struct span){step.at + 2, step.len - 2});
	const struct doc_item *item = l->is_list ? doc_index_get(&l->list.index, step) : NULL;
	return item ? item->node : NULL;
}

bool set_filter(struct doc *d, struct doc_node *set, const struct doc_node *a, const struct doc_node *b,
		set_keep_fn *keep, void *ctx)
{
	struct look in_a, in_b;
	struct doc_node *last = NULL;
	size_t left = 0;
	look_init(&in_a, d, a, set);
	look_init(&in_b, d, b, set);
	for (struct doc_node *n = set->child; n; n = n->next) {
		if (is_self(n) || keep(ctx, n, look_up(&in_a, n->key), look_up(&in_b, n->key))) {
			left += !is_self(n);
			last = n;
			continue;
		}
		if (last)
			last->next = n->next;
		else
			set->child = n->next;
		set->count--;
	}
	set->last = last;
	look_done(&in_a);
	look_done(&in_b);
	if (!left) {
		set->child = set->last = NULL;
		set->count = 0;
	}
	return left > 0;
}

/* ---- what changed ---- */

static bool keep_changed(void *ctx, struct doc_node *n, const struct doc_node *before,
			 const struct doc_node *after)
{
	return set_keep_changed(ctx, n, before, after);
}

bool set_keep_changed(struct doc *d, struct doc_node *set, const struct doc_node *before,
		      const struct doc_node *after)
{
	if (same_value(before, after))
		return false;
	if (set_is_leaf(set))
		return true;
	bool left = set_filter(d, set, before, after, keep_changed, d);
	if (left && before && is_self(set->child)) { /* it was there before: only what is in it changed */
		set->child = set->child->next;
		set->count--;
	}
	return left;
}

static bool drop_changed(void *ctx, struct doc_node *n, const struct doc_node *before,
			 const struct doc_node *after)
{
	return set_drop_changed(ctx, n, before, after);
}

bool set_drop_changed(struct doc *d, struct doc_node *set, const struct doc_node *before,
		      const struct doc_node *after)
{
	if (!after)
		return false;
	if (set_is_leaf(set)) /* with ".": the item as such, whatever is in it */
		return set->child || same_value(before, after);
	return set_filter(d, set, before, after, drop_changed, d);
}

static bool drop_gone(void *ctx, struct doc_node *n, const struct doc_node *before,
		      const struct doc_node *after)
{
	(void)before;
	return set_drop_gone(ctx, n, after);
}

bool set_drop_gone(struct doc *d, struct doc_node *set, const struct doc_node *after)
{
	if (!after)
		return false;
	return set_is_leaf(set) || set_filter(d, set, NULL, after, drop_gone, d);
}

/* ---- for people ---- */

void set_path(struct doc *d, struct span step, struct buf *out)
{
	struct doc_node *keys;
	struct span rest = {step.at + 2, step.len - 2};
	if (step.at[0] == 'f') {
		buf_printf(out, "." SPAN_FMT, SPAN_ARG(rest));
	} else if (step.at[0] == 'k' && doc_parse(d, rest, &keys, NULL) == 0) {
		const char *before = "[";
		doc_each (k, keys) {
			buf_printf(out, "%s" SPAN_FMT "=" SPAN_FMT, before, SPAN_ARG(k->key),
				   SPAN_ARG(k->text));
			before = ",";
		}
		buf_putc(out, ']');
	} else {
		buf_printf(out, "[=" SPAN_FMT "]", SPAN_ARG(rest));
	}
}
