#include "fields.h"
#include <stdio.h>

/* ---- paths: f:NAME, k:{"name":"x"}, v:"x", i:0 ---- */

static bool has_keys(struct doc *d, const struct doc_node *item, const struct doc_node *keys)
{
	doc_each (k, keys) {
		const struct doc_node *have = doc_get_span(item, k->key);
		/* the one key with a default in the API's types */
		bool tcp = !have && span_is(k->key, "protocol") && doc_is(d, k, "TCP");
		if (!tcp && (!have || !doc_equal(have, k)))
			return false;
	}
	return true;
}

/* What the path element names in a value; NULL if it is not there. */
static struct doc_node *element(struct doc *d, const struct doc_node *in, struct span path)
{
	if (!in || path.len < 2 || path.at[1] != ':')
		return NULL;
	struct span rest = {path.at + 2, path.len - 2};
	if (path.at[0] == 'f')
		return in->type == JSON_OBJECT ? doc_get_span(in, rest) : NULL;
	struct doc_node *wanted;
	if (in->type != JSON_ARRAY || doc_parse(d, rest, &wanted, NULL) < 0)
		return NULL;
	doc_each (n, in)
		if (path.at[0] == 'k' ? n->type == JSON_OBJECT && has_keys(d, n, wanted)
				      : path.at[0] == 'v' && doc_equal(n, wanted))
			return n;
	return NULL;
}

static bool is_self(const struct doc_node *n)
{
	return span_is(n->key, ".");
}

/* A set without members below it: the field itself. */
static bool is_leaf(const struct doc_node *set)
{
	doc_each (n, set)
		if (!is_self(n))
			return false;
	return true;
}

static bool same(const struct doc_node *a, const struct doc_node *b)
{
	return a && b ? doc_equal(a, b) : a == b;
}

/* ---- sets ---- */

static void merge_sets(struct doc *d, struct doc_node *into, const struct doc_node *from)
{
	doc_each (n, from) {
		struct doc_node *have = doc_get_span(into, n->key);
		if (have)
			merge_sets(d, have, n);
		else
			doc_set_span(d, into, n->key, doc_copy(d, n));
	}
}

static bool without_self(struct doc_node *set)
{
	doc_each (n, set)
		if (is_self(n))
			return doc_remove(set, n);
	return false;
}

/* Of set (the fields of after) keeps what differs from before. Returns whether anything is left. */
static bool keep_changed(struct doc *d, struct doc_node *set, const struct doc_node *before,
			 const struct doc_node *after)
{
	if (is_leaf(set))
		return !same(before, after);
	if (before && same(before, after))
		return false;
	for (struct doc_node *n = set->child, *next; n; n = next) {
		next = n->next;
		if (!is_self(n) && !keep_changed(d, n, element(d, before, n->key), element(d, after, n->key)))
			doc_remove(set, n);
	}
	if (before)
		without_self(set);
	return set->child != NULL;
}

/* Of a manager's set drops what is no longer there or has another value. Returns whether anything is left. */
static bool drop_changed(struct doc *d, struct doc_node *set, const struct doc_node *before,
			 const struct doc_node *after)
{
	if (!after)
		return false;
	if (is_leaf(set))
		return !before || set->child || same(before, after);
	for (struct doc_node *n = set->child, *next; n; n = next) {
		next = n->next;
		if (!is_self(n) && !drop_changed(d, n, element(d, before, n->key), element(d, after, n->key)))
			doc_remove(set, n);
	}
	return set->child != NULL;
}

/* Of a manager's set drops what is no longer there. */
static bool drop_gone(struct doc *d, struct doc_node *set, const struct doc_node *after)
{
	if (!after)
		return false;
	if (is_leaf(set))
		return true;
	for (struct doc_node *n = set->child, *next; n; n = next) {
		next = n->next;
		if (!is_self(n) && !drop_gone(d, n, element(d, after, n->key)))
			doc_remove(set, n);
	}
	return set->child != NULL;
}

/* ---- entries ---- */

static bool is_entry_of(struct doc *d, const struct doc_node *entry, const struct manager *m)
{
	const char *sub = m->subresource ? m->subresource : "";
	struct span entry_sub = doc_string(d, doc_get(entry, "subresource"));
	return doc_is(d, doc_get(entry, "manager"), m->name) &&
	       doc_is(d, doc_get(entry, "operation"), m->apply ? "Apply" : "Update") &&
	       span_eq(entry_sub.at ? entry_sub : span_of(""), span_of(sub));
}

static struct doc_node *entry_fields(struct doc *d, struct doc_node *entry)
{
	return doc_ensure_object(d, entry, "fieldsV1");
}

static struct doc_node *new_entry(struct call *c, const struct manager *m, struct doc_node *set)
{
	struct doc *d = c->doc;
	char version[API_VERSION_MAX], time[21];
	struct doc_node *e = doc_new_object(d);
	doc_set(d, e, "manager", doc_new_string(d, doc_keep(d, span_of(m->name))));
	doc_set(d, e, "operation", doc_new_string(d, span_of(m->apply ? "Apply" : "Update")));
	doc_set(d, e, "apiVersion",
		doc_new_string(d, doc_keep(d, span_of(view_api_version(&c->view, version)))));
	doc_set(d, e, "time", doc_new_string(d, doc_keep(d, span_of(format_rfc3339(c->in->now, time)))));
	doc_set(d, e, "fieldsType", doc_new_string(d, span_of("FieldsV1")));
	doc_set(d, e, "fieldsV1", set);
	if (m->subresource)
		doc_set(d, e, "subresource", doc_new_string(d, span_of(m->subresource)));
	return e;
}

int manager_of(struct call *c, bool apply, struct manager *ret)
{
	const char *given = c->params.field_manager;
	*ret = (struct manager){.apply = apply, .subresource = c->subresource};
	if (given && *given) {
		bool printable = true;
		for (const char *p = given; *p && printable; p++)
			printable = (unsigned char)*p >= 0x20 && *p != 0x7f;
		if (strlen(given) > MANAGER_MAX)
			invalid(&c->f, "FieldValueTooLong", "fieldManager",
				"Too long: may not be more than %d bytes", MANAGER_MAX);
		else if (!printable)
			invalid(&c->f, "FieldValueInvalid", "fieldManager",
				"Invalid value: should only contain printable characters");
		snprintf(ret->name, sizeof(ret->name), "%s", given);
		return invalid_done(&c->f, "meta.k8s.io", apply ? "PatchOptions" : "UpdateOptions",
				    span_of(""));
	}
	if (apply) {
		invalid(&c->f, "FieldValueRequired", "fieldManager",
			"Required value: is required for apply patch");
		return invalid_done(&c->f, "meta.k8s.io", "PatchOptions", span_of(""));
	}
	snprintf(ret->name, sizeof(ret->name), "%.*s",
		 (int)MIN(strcspn(c->in->user_agent, "/ "), (size_t)MANAGER_MAX), c->in->user_agent);
	if (!*ret->name)
		snprintf(ret->name, sizeof(ret->name), "unknown");
	return 0;
}

/* ---- update ---- */

struct doc_node *fields_update(struct call *c, const struct manager *m, const struct doc_node *old,
			       const struct doc_node *before, const struct doc_node *after)
{
	struct doc *d = c->doc;
	struct doc_node *list = doc_new_array(d), *changed = doc_field_set(d, after), *mine = NULL;
	bool any = !before || keep_changed(d, changed, before, after);
	doc_each (entry, old) {
		struct doc_node *e = doc_copy(d, entry), *set = entry_fields(d, e);
		bool left;
		if (is_entry_of(d, e, m)) {
			mine = e;
			left = drop_gone(d, set, after) || any;
			if (any) {
				merge_sets(d, set, changed);
				e = mine = new_entry(c, m, set);
			}
		} else {
			left = drop_changed(d, set, before, after);
		}
		if (left && list->count < MANAGERS_MAX)
			doc_append(list, e);
	}
	if (any && !mine && list->count < MANAGERS_MAX)
		doc_append(list, new_entry(c, m, changed));
	return list;
}

/* ---- apply ---- */

struct conflicts {
	struct call *c;
	struct span manager;
	bool update; /* the other one's entry is an Update */
	struct span version;
	size_t n;
};

static void conflict_path(struct buf *out, const char *prefix, struct span element_path)
{
	buf_puts(out, prefix);
	struct span rest = {element_path.at + 2, element_path.len - 2};
	if (element_path.at[0] == 'f')
		buf_printf(out, "." SPAN_FMT, SPAN_ARG(rest));
	else if (element_path.at[0] == 'k') /* {"name":"x"} as [name="x"] */
		buf_printf(out, "[" SPAN_FMT "]", (int)(rest.len > 2 ? rest.len - 2 : 0), rest.at + 1);
	else
		buf_printf(out, "[=" SPAN_FMT "]", SPAN_ARG(rest));
}

static void report_conflict(struct conflicts *x, const char *path)
{
	struct failure *f = &x->c->f;
	if (f->n_causes < FAILURE_CAUSES_MAX) {
		struct cause *cause = &f->causes[f->n_causes++];
		cause->reason = "FieldManagerConflict";
		snprintf(cause->message, sizeof(cause->message), "conflict with \"" SPAN_FMT "\"%s" SPAN_FMT,
			 SPAN_ARG(x->manager), x->update ? " using " : "",
			 x->update ? (int)x->version.len : 0, x->version.at ? x->version.at : "");
		snprintf(cause->field, sizeof(cause->field), "%s", path);
	}
	x->n++;
}

/* Fields of set that `theirs` owns with another value than ours: reported, or with force taken from them.
 * Returns whether theirs has anything left. */
static bool contested(struct conflicts *x, const struct doc_node *set, struct doc_node *theirs,
		      const struct doc_node *live, const struct doc_node *config, const char *path,
		      bool force)
{
	struct doc *d = x->c->doc;
	if (is_leaf(set) || is_leaf(theirs)) {
		if (same(live, config) ||
		    (config && config->type == JSON_OBJECT && config->child && is_leaf(theirs)))
			return true;
		if (!force)
			report_conflict(x, path);
		return !force;
	}
	for (struct doc_node *t = theirs->child, *next; t; t = next) {
		next = t->next;
		const struct doc_node *s = is_self(t) ? NULL : doc_get_span(set, t->key);
		if (!s)
			continue;
		_cleanup_(buf_done) struct buf below = {0};
		conflict_path(&below, path, t->key);
		if (!contested(x, s, t, element(d, live, t->key), element(d, config, t->key), buf_str(&below),
			       force))
			doc_remove(theirs, t);
	}
	return theirs->child != NULL;
}

static int conflict_failure(struct call *c, size_t n)
{
	struct failure *f = &c->f;
	int r = fail(f, 409, "Conflict", "Apply failed with %zu conflict%s: ", n, n == 1 ? "" : "s");
	for (size_t i = 0; i < f->n_causes; i++) {
		size_t at = strlen(f->message);
		snprintf(f->message + at, sizeof(f->message) - at, "%s%s: %s", i ? "; " : "",
			 f->causes[i].message, f->causes[i].field);
	}
	return r;
}

int fields_apply(struct call *c, const struct manager *m, struct doc_node *live, struct doc_node *config,
		 struct doc_node **ret_after, struct doc_node **ret_fields)
{
	struct doc *d = c->doc;
	struct doc_node *set = doc_field_set(d, config), *list = doc_new_array(d), *old_set = NULL,
			*old_entry = NULL;
	const struct doc_node *others[MANAGERS_MAX];
	struct conflicts x = {.c = c};
	size_t n = 0;
	doc_each (entry, doc_path(live, "metadata", "managedFields", NULL)) {
		struct doc_node *e = doc_copy(d, entry), *theirs = entry_fields(d, e);
		if (is_entry_of(d, e, m)) {
			old_entry = e;
			old_set = theirs;
			continue;
		}
		x.manager = doc_string(d, doc_get(e, "manager"));
		x.update = doc_is(d, doc_get(e, "operation"), "Update");
		x.version = doc_string(d, doc_get(e, "apiVersion"));
		if (contested(&x, set, theirs, live, config, "", c->params.force) && n < MANAGERS_MAX) {
			others[n++] = theirs;
			doc_append(list, e);
		}
	}
	if (x.n)
		return conflict_failure(c, x.n);
	struct doc_node *base = live ? doc_copy(d, live) : doc_new_object(d);
	*ret_after = doc_apply(d, base, config, old_set, others, n);
	bool unchanged = old_set && doc_equal(old_set, set);
	doc_append(list, unchanged ? old_entry : new_entry(c, m, set));
	*ret_fields = list;
	return 0;
}
