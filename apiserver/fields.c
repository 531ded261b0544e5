#include "fields.h"
#include "doc_internal.h"
#include "field_set.h"
#include <stdio.h>

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
	doc_set(d, e, "manager", doc_new_string(d, span_of(m->name)));
	doc_set(d, e, "operation", doc_new_string(d, span_of(m->apply ? "Apply" : "Update")));
	doc_set(d, e, "apiVersion", doc_new_string(d, span_of(view_api_version(&c->view, version))));
	doc_set(d, e, "time", doc_new_string(d, span_of(format_rfc3339(c->in->now, time))));
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
	bool any = (!before || set_keep_changed(d, changed, before, after)) && changed->child;
	doc_each (entry, old) {
		struct doc_node *e = doc_copy(d, entry), *set = entry_fields(d, e);
		bool left;
		if (is_entry_of(d, e, m)) {
			mine = e;
			left = set_drop_gone(d, set, after) || any;
			if (any) {
				set_merge(d, set, changed);
				e = mine = new_entry(c, m, set);
			}
		} else {
			left = set_drop_changed(d, set, before, after);
		}
		if (left && list->count < MANAGERS_MAX)
			doc_append(list, e);
	}
	if (any && !mine && list->count < MANAGERS_MAX)
		doc_append(list, new_entry(c, m, changed));
	return list;
}

/* ---- apply ---- */

/* One other manager's set against what is applied. */
struct contest {
	struct call *c;
	struct span manager, version;
	bool update; /* the other one's entry is an Update */
	size_t *conflicts;
};

static void report_conflict(struct contest *x, const char *path)
{
	struct failure *f = &x->c->f;
	++*x->conflicts;
	if (f->n_causes == FAILURE_CAUSES_MAX)
		return;
	struct cause *cause = &f->causes[f->n_causes++];
	cause->reason = "FieldManagerConflict";
	snprintf(cause->message, sizeof(cause->message), "conflict with \"" SPAN_FMT "\"%s" SPAN_FMT,
		 SPAN_ARG(x->manager), x->update ? " using " : "", x->update ? (int)x->version.len : 0,
		 x->version.at ? x->version.at : "");
	snprintf(cause->field, sizeof(cause->field), "%s", path);
}

static bool contested(struct contest *x, const struct doc_node *set, struct doc_node *theirs,
		      const struct doc_node *live, const struct doc_node *config, const char *path);

struct below {
	struct contest *x;
	struct doc_members set;
	const char *path;
};

static bool contested_below(void *ctx, struct doc_node *theirs, const struct doc_node *live,
			    const struct doc_node *config)
{
	struct below *b = ctx;
	const struct doc_node *set = doc_members_get(&b->set, theirs->key);
	if (!set)
		return true;
	_cleanup_(buf_done) struct buf path = {0};
	buf_puts(&path, b->path);
	set_path(b->x->c->doc, theirs->key, &path);
	return contested(b->x, set, theirs, live, config, buf_str(&path));
}

/* Fields of set that `theirs` owns with another value than the applied one: reported, or with force taken
 * from them. Returns whether theirs has anything left. */
static bool contested(struct contest *x, const struct doc_node *set, struct doc_node *theirs,
		      const struct doc_node *live, const struct doc_node *config, const char *path)
{
	bool mine = set_is_leaf(set), whole = set_is_leaf(theirs);
	if (mine || whole) {
		/* An empty object or list against what is inside of it is no conflict; one value in its place
		 * is. */
		bool apart =
		    mine != whole && config && (config->type == JSON_OBJECT || config->type == JSON_ARRAY);
		if (apart || !config || same_value(live, config))
			return true;
		if (!x->c->params.force)
			report_conflict(x, path);
		return !x->c->params.force;
	}
	struct below b = {.x = x, .path = path};
	doc_members_init(&b.set, set);
	bool left = set_filter(x->c->doc, theirs, live, config, contested_below, &b);
	doc_members_done(&b.set);
	return left;
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
	size_t n = 0, conflicts = 0;
	struct contest x = {.c = c, .conflicts = &conflicts};
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
		if (contested(&x, set, theirs, live, config, "") && n < MANAGERS_MAX) {
			others[n++] = theirs;
			doc_append(list, e);
		}
	}
	if (conflicts)
		return conflict_failure(c, conflicts);
	struct doc_node *base = live ? doc_copy(d, live) : doc_new_object(d);
	*ret_after = doc_apply(d, base, config, old_set, others, n);
	bool unchanged = old_set && doc_equal(old_set, set);
	if (set->child)
		doc_append(list, unchanged ? old_entry : new_entry(c, m, set));
	*ret_fields = list;
	return 0;
}
