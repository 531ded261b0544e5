/* POST, PUT and PATCH: from the body to a draft. */
#include "check.h"
#include "json_patch.h"
#include "strategic.h"
#include "write.h"

/* The whole object that is in the body, and who sends it. */
static int read_draft(struct call *c, struct draft *w)
{
	int r = body_parse(c, &w->after);
	if (r == 0)
		r = check_types(c, w->after);
	if (r == 0)
		r = write_identity(c, w->after);
	if (r == 0)
		r = manager_of(c, false, &w->manager);
	return r;
}

int call_create(struct call *c)
{
	struct draft w = {0};
	int r = read_draft(c, &w);
	if (r < 0)
		return r;
	storage_lock(c->store);
	r = write_create(c, &w);
	storage_unlock(c->store);
	return r;
}

/* The live object under the lock, with its tree; 404. */
static int find_live(struct call *c, struct draft *w)
{
	w->live = storage_find(c->view.kind->storage, ns_span(c), span_of(c->name));
	if (!w->live)
		return fail_not_found(&c->f, c->view.def->group, c->view.def->plural, span_of(c->name));
	w->before = write_live_tree(c, w->live);
	if (c->view.def->flags & ALIAS)
		alias_to_stored(w->before);
	return 0;
}

int call_update(struct call *c)
{
	struct draft w = {0};
	int r = read_draft(c, &w);
	if (r < 0)
		return r;
	storage_lock(c->store);
	bool free = !storage_find(c->view.kind->storage, ns_span(c), span_of(c->name));
	if (free && !c->subresource && c->view.def->flags & CREATE_ON_PUT) {
		doc_set(c->doc, doc_get(w.after, "metadata"), "resourceVersion", NULL);
		r = write_create(c, &w);
	} else if ((r = find_live(c, &w)) == 0) {
		r = write_update(c, &w);
	}
	storage_unlock(c->store);
	return r;
}

/* ---- patches ---- */

enum patch { PATCH_MERGE, PATCH_JSON, PATCH_STRATEGIC, PATCH_APPLY };

static int patch_type(struct call *c, enum patch *ret)
{
	struct span type = media_type(c->in->content_type);
	if (span_is(type, "application/merge-patch+json"))
		*ret = PATCH_MERGE;
	else if (span_is(type, "application/json-patch+json"))
		*ret = PATCH_JSON;
	else if (span_is(type, "application/apply-patch+yaml"))
		*ret = PATCH_APPLY;
	else if (span_is(type, "application/strategic-merge-patch+json") && c->view.def->builtin)
		*ret = PATCH_STRATEGIC;
	else
		return fail(
		    &c->f, 415, "UnsupportedMediaType",
		    "the body of the request was in an unknown format - accepted media types include: "
		    "application/json-patch+json, application/merge-patch+json, "
		    "application/apply-patch+yaml");
	return 0;
}

/* Name and namespace can be changed by no patch. */
static int patched_identity(struct call *c, const struct doc_node *root)
{
	struct span name = doc_string(c->doc, doc_path(root, "metadata", "name", NULL));
	struct span namespace = doc_string(c->doc, doc_path(root, "metadata", "namespace", NULL));
	if (name.len && !span_is(name, c->name))
		return fail_bad_request(
		    &c->f, "the name of the object (" SPAN_FMT ") does not match the name on the URL (%s)",
		    (int)MIN(name.len, (size_t)253), name.at, c->name);
	if (c->namespace && namespace.len && !span_is(namespace, c->namespace))
		return fail_bad_request(&c->f,
					"the namespace of the object (" SPAN_FMT
					") does not match the namespace on the request (%s)",
					(int)MIN(namespace.len, (size_t)253), namespace.at, c->namespace);
	return 0;
}

static int patch_locked(struct call *c, struct draft *w, enum patch type, struct doc_node *body)
{
	int r = find_live(c, w);
	if (r < 0)
		return r;
	struct doc_node *shown = write_live_tree(c, w->live);
	if (type == PATCH_MERGE)
		w->after = doc_merge_patch(c->doc, shown, body);
	else if (type == PATCH_STRATEGIC)
		r = strategic_patch(c->doc, shown, body, &w->after, &c->f);
	else
		r = json_patch(c->doc, shown, body, &w->after, &c->f);
	if (r < 0)
		return r;
	if ((r = check_types(c, w->after)) < 0 || (r = patched_identity(c, w->after)) < 0 ||
	    (r = write_identity(c, w->after)) < 0)
		return r;
	return write_update(c, w);
}

/* What an apply may not speak of: the other part of the object. */
static void applied_part(struct call *c, struct doc_node *config)
{
	struct doc *d = c->doc;
	if (!c->subresource) {
		if (view_has_status(&c->view))
			doc_set(d, config, "status", NULL);
		return;
	}
	for (struct doc_node *n = config->child, *next; n; n = next) {
		next = n->next;
		if (!span_is(n->key, "status") && !span_is(n->key, "kind") &&
		    !span_is(n->key, "apiVersion") && !span_is(n->key, "metadata"))
			doc_remove(config, n);
	}
	struct doc_node *meta = doc_get(config, "metadata");
	for (struct doc_node *n = meta ? meta->child : NULL, *next; n; n = next) {
		next = n->next;
		if (!span_is(n->key, "name") && !span_is(n->key, "namespace") && !span_is(n->key, "uid") &&
		    !span_is(n->key, "resourceVersion"))
			doc_remove(meta, n);
	}
}

static int apply_create(struct call *c, struct draft *w, struct doc_node *config)
{
	struct doc *d = c->doc;
	struct span uid = doc_string(d, doc_path(config, "metadata", "uid", NULL));
	if (c->subresource)
		return fail_not_found(&c->f, c->view.def->group, c->view.def->plural, span_of(c->name));
	if (uid.len)
		return fail_conflict(&c->f, c->view.def->group, c->view.def->plural, span_of(c->name),
				     "uid mismatch: the provided object specified uid " SPAN_FMT
				     ", and no existing object was found",
				     (int)MIN(uid.len, (size_t)64), uid.at);
	doc_set(d, doc_get(config, "metadata"), "resourceVersion", NULL);
	int r = fields_apply(c, &w->manager, NULL, config, &w->after, &w->fields);
	return r < 0 ? r : write_create(c, w);
}

static int apply_locked(struct call *c, struct draft *w, struct doc_node *config)
{
	struct doc *d = c->doc;
	struct object *live = storage_find(c->view.kind->storage, ns_span(c), span_of(c->name));
	if (!live)
		return apply_create(c, w, config);
	int r = find_live(c, w);
	if (r < 0)
		return r;
	/* Preconditions come with the config and are no fields of it. */
	struct doc_node *meta = doc_get(config, "metadata"), *uid = doc_get(meta, "uid"),
			*version = doc_get(meta, "resourceVersion");
	struct doc_node *shown = write_live_tree(c, live);
	if ((r = fields_apply(c, &w->manager, shown, config, &w->after, &w->fields)) < 0)
		return r;
	struct doc_node *after_meta = doc_ensure_object(d, w->after, "metadata");
	doc_set(d, after_meta, "resourceVersion", version ? doc_copy(d, version) : NULL);
	if (uid)
		doc_set(d, after_meta, "uid", doc_copy(d, uid));
	return write_update(c, w);
}

static int call_apply(struct call *c, struct draft *w, struct doc_node *config)
{
	int r = check_types(c, config);
	if (r < 0)
		return r;
	if (!doc_string(c->doc, doc_get(config, "apiVersion")).len ||
	    !doc_string(c->doc, doc_get(config, "kind")).len)
		return fail_bad_request(&c->f, "an applied configuration must have apiVersion and kind");
	if (doc_path(config, "metadata", "managedFields", NULL))
		return fail_bad_request(&c->f, "metadata.managedFields must be nil");
	if ((r = write_identity(c, config)) < 0)
		return r;
	applied_part(c, config);
	storage_lock(c->store);
	r = apply_locked(c, w, config);
	storage_unlock(c->store);
	return r;
}

int call_patch(struct call *c)
{
	struct draft w = {0};
	struct doc_node *body = NULL;
	enum patch type = PATCH_MERGE;
	int r = patch_type(c, &type);
	if (r == 0)
		r = body_parse(c, &body);
	if (r == 0)
		r = manager_of(c, type == PATCH_APPLY, &w.manager);
	if (r < 0)
		return r;
	if (type == PATCH_APPLY)
		return call_apply(c, &w, body);
	if (c->params.force) {
		invalid(&c->f, "FieldValueForbidden", "force",
			"Forbidden: may not be specified for non-apply patch");
		return invalid_done(&c->f, "meta.k8s.io", "PatchOptions", span_of(""));
	}
	if (type == PATCH_MERGE && (!body || body->type != JSON_OBJECT))
		return fail_bad_request(&c->f, "a merge patch must be a JSON object");
	storage_lock(c->store);
	r = patch_locked(c, &w, type, body);
	storage_unlock(c->store);
	return r;
}
