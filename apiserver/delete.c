/* DELETE of one object and of a collection: options, preconditions, answers. */
#include "call.h"
#include "check.h"
#include "remove.h"
#include <stdio.h>

struct options {
	enum propagation how;
	struct span uid, version; /* preconditions */
};

static int propagation(struct call *c, struct span policy, enum propagation *ret)
{
	if (!policy.len || span_is(policy, "Background"))
		*ret = PROPAGATE_BACKGROUND;
	else if (span_is(policy, "Foreground"))
		*ret = PROPAGATE_FOREGROUND;
	else if (span_is(policy, "Orphan"))
		*ret = PROPAGATE_ORPHAN;
	else
		invalid(&c->f, "FieldValueNotSupported", "propagationPolicy",
			"Unsupported value: \"" SPAN_FMT
			"\": supported values: \"Foreground\", \"Background\", \"Orphan\"",
			(int)MIN(policy.len, (size_t)64), policy.at);
	return invalid_done(&c->f, "meta.k8s.io", "DeleteOptions", span_of(""));
}

static int read_options(struct call *c, struct options *ret)
{
	struct doc *d = c->doc;
	struct doc_node *body = NULL;
	if (c->in->body.len) {
		int r = body_parse(c, &body);
		if (r < 0)
			return r;
		if (body->type != JSON_OBJECT)
			return fail_bad_request(&c->f, "the body of a DELETE must be DeleteOptions");
		struct span kind = doc_string(d, doc_get(body, "kind"));
		if (kind.len && !span_is(kind, "DeleteOptions"))
			return fail_bad_request(&c->f,
						"the body of a DELETE must be DeleteOptions, not " SPAN_FMT,
						(int)MIN(kind.len, (size_t)64), kind.at);
	}
	doc_each (n, doc_get(body, "dryRun")) {
		if (!doc_is(d, n, "All"))
			return fail_bad_request(&c->f, "dryRun: the supported value is \"All\"");
		c->params.dry_run = true;
	}
	const struct doc_node *conditions = doc_get(body, "preconditions"),
			      *orphan = doc_get(body, "orphanDependents");
	ret->uid = doc_string(d, doc_get(conditions, "uid"));
	ret->version = doc_string(d, doc_get(conditions, "resourceVersion"));
	struct span policy = doc_string(d, doc_get(body, "propagationPolicy"));
	if (!policy.len && c->params.propagation_policy)
		policy = span_of(c->params.propagation_policy);
	if (!policy.len && orphan && orphan->type == JSON_BOOL && span_is(orphan->text, "true"))
		policy = span_of("Orphan");
	return propagation(c, policy, &ret->how);
}

static int check_conditions(struct call *c, const struct object *o, const struct options *opt)
{
	char rv[24];
	snprintf(rv, sizeof(rv), "%llu", (unsigned long long)o->rv);
	if (opt->uid.len && !span_is(opt->uid, o->uid))
		return fail_conflict(&c->f, c->view.def->group, c->view.def->kind, span_of(o->name),
				     "the UID in the precondition (" SPAN_FMT
				     ") does not match the UID in record (%s). The object might have "
				     "been deleted and then recreated",
				     (int)MIN(opt->uid.len, (size_t)64), opt->uid.at, o->uid);
	if (opt->version.len && !span_is(opt->version, rv))
		return fail_conflict(&c->f, c->view.def->group, c->view.def->kind, span_of(o->name),
				     "the ResourceVersion in the precondition (" SPAN_FMT
				     ") does not match the ResourceVersion in record "
				     "(%s). The object might have been modified",
				     (int)MIN(opt->version.len, (size_t)64), opt->version.at, rv);
	return 0;
}

/* A deletion that is complete is told as a Status. */
static void answer_success(struct call *c, const struct object *o)
{
	struct buf *out = &c->out->body;
	c->out->code = 200;
	buf_printf(out, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\","
			"\"details\":{\"name\":");
	buf_json_string(out, span_of(o->name));
	if (*c->view.def->group)
		buf_printf(out, ",\"group\":\"%s\"", c->view.def->group);
	buf_printf(out, ",\"kind\":\"%s\",\"uid\":\"%s\"}}", c->view.def->plural, o->uid);
}

static int protected(struct call *c)
{
	static const char *const names[] = {"default", "kube-system"};
	for (size_t i = 0; view_is(&c->view, "", "namespaces") && i < ARRAY_SIZE(names); i++)
		if (!strcmp(c->name, names[i]))
			return fail_forbidden(&c->f, "", "namespaces", span_of(c->name),
					      "this namespace may not be deleted");
	return 0;
}

static int delete_locked(struct call *c, const struct options *opt)
{
	struct object *o = storage_find(c->view.kind->storage, ns_span(c), span_of(c->name));
	if (!o)
		return fail_not_found(&c->f, c->view.def->group, c->view.def->plural, span_of(c->name));
	int r = check_conditions(c, o, opt);
	if (r < 0)
		return r;
	bool gone;
	_cleanup_(object_unref_ptr) struct object *after =
	    remove_object(c->store, o, opt->how, c->in->now, c->params.dry_run, &gone);
	if (!after)
		return fail(&c->f, 500, "InternalError", "the store is full or memory is out");
	if (gone || (c->params.dry_run && !after->deleting))
		answer_success(c, after);
	else
		answer_object(c, 200, after);
	return 0;
}

int call_delete(struct call *c)
{
	struct options opt = {0};
	int r = read_options(c, &opt);
	if (r == 0)
		r = protected(c);
	if (r < 0)
		return r;
	storage_lock(c->store);
	r = delete_locked(c, &opt);
	storage_unlock(c->store);
	return r;
}

/* ---- collections ---- */

struct match {
	struct selector *labels, *fields;
};

static bool matches(const struct object *o, void *ctx)
{
	const struct match *m = ctx;
	return selector_match_labels(m->labels, o) && selector_match_fields(m->fields, o);
}

static int collection_locked(struct call *c, const struct options *opt, struct match *m)
{
	struct snapshot snap = {0};
	struct span none = {0};
	size_t max = c->params.limit > 0 ? (size_t)c->params.limit : SIZE_MAX;
	int r = storage_snapshot(c->store, c->view.kind->storage, c->store->rv,
				 c->namespace ? ns_span(c) : none, none, none, false, max, matches, m, &snap);
	if (r < 0)
		return fail(&c->f, 500, "InternalError", "the collection cannot be listed");
	for (size_t i = 0; i < snap.n && r == 0; i++) {
		bool gone;
		_cleanup_(object_unref_ptr) struct object *after =
		    remove_object(c->store, snap.objects[i], opt->how, c->in->now, c->params.dry_run, &gone);
		if (!after)
			r = fail(&c->f, 500, "InternalError", "the store is full or memory is out");
	}
	if (r == 0) {
		struct list_meta meta = {c->store->rv, NULL, -1};
		answer_list(c, &snap, &meta);
	}
	snapshot_done(&snap);
	return r;
}

int call_delete_collection(struct call *c)
{
	struct options opt = {0};
	struct match m = {0};
	const char *labels = c->params.label_selector, *fields = c->params.field_selector;
	int r = read_options(c, &opt);
	if (r == 0)
		r = selector_parse_labels(span_of(labels ? labels : ""), &m.labels, &c->f);
	if (r == 0)
		r = selector_parse_fields(span_of(fields ? fields : ""), c->view.def, &m.fields, &c->f);
	if (r == 0) {
		storage_lock(c->store);
		r = collection_locked(c, &opt, &m);
		storage_unlock(c->store);
	}
	selector_free(m.labels);
	selector_free(m.fields);
	return r;
}
