#include "write.h"
#include "check.h"
#include "crd.h"
#include "remove.h"
#include <stdio.h>

enum { NAME_ATTEMPTS = 8 };

/* ---- identity ---- */

static int mismatch(struct call *c, struct doc_node *root)
{
	struct doc *d = c->doc;
	char expected[API_VERSION_MAX];
	struct span kind = doc_string(d, doc_get(root, "kind")),
		    version = doc_string(d, doc_get(root, "apiVersion"));
	view_api_version(&c->view, expected);
	if (version.at && !span_is(version, expected))
		return fail_bad_request(&c->f,
					"the API version in the data (" SPAN_FMT
					") does not match the expected API version (%s)",
					(int)MIN(version.len, (size_t)300), version.at, expected);
	if (kind.at && !span_is(kind, c->view.def->kind))
		return fail_bad_request(
		    &c->f, SPAN_FMT " in version \"%s\" cannot be handled as a %s: unknown conversion",
		    (int)MIN(kind.len, (size_t)300), kind.at, c->view.version->name, c->view.def->kind);
	return 0;
}

int write_identity(struct call *c, struct doc_node *root)
{
	struct doc *d = c->doc;
	int r = mismatch(c, root);
	if (r < 0)
		return r;
	static const char *const required[] = {"kind", "apiVersion"};
	for (size_t i = 0; !c->view.def->builtin && i < ARRAY_SIZE(required); i++)
		if (!doc_string(d, doc_get(root, required[i])).len)
			return fail_bad_request(
			    &c->f, "%s in version \"%s\" cannot be handled as a %s: Object '%s' is missing",
			    c->view.def->kind, c->view.version->name, c->view.def->kind, required[i]);
	char version[API_VERSION_MAX];
	doc_set(d, root, "kind", doc_new_string(d, span_of(c->view.def->kind)));
	doc_set(d, root, "apiVersion", doc_new_string(d, span_of(view_api_version(&c->view, version))));
	struct doc_node *meta = doc_ensure_object(d, root, "metadata");
	struct span namespace = doc_string(d, doc_get(meta, "namespace")),
		    name = doc_string(d, doc_get(meta, "name"));
	if (c->view.def->scope == CLUSTER)
		doc_set(d, meta, "namespace", NULL);
	else if (namespace.len && !span_eq(namespace, ns_span(c)))
		return fail_bad_request(
		    &c->f,
		    "the namespace of the provided object does not match the namespace sent on the request");
	else if (!namespace.len)
		doc_set(d, meta, "namespace", doc_new_string(d, ns_span(c)));
	if (!c->name)
		return 0;
	if (name.len && !span_is(name, c->name))
		return fail_bad_request(
		    &c->f, "the name of the object (" SPAN_FMT ") does not match the name on the URL (%s)",
		    (int)MIN(name.len, (size_t)300), name.at, c->name);
	if (!name.len)
		doc_set(d, meta, "name", doc_new_string(d, span_of(c->name)));
	return 0;
}

struct doc_node *write_live_tree(struct call *c, const struct object *o)
{
	struct doc_node *root;
	_cleanup_(buf_done) struct buf text = {0};
	encode_object(&text, &c->view, o);
	if (buf_failed(&text) || doc_parse(c->doc, buf_span(&text), &root, NULL) < 0)
		abort(); /* we wrote it */
	return root;
}

/* ---- storing ---- */

static int storage_full(struct call *c)
{
	return fail(&c->f, 500, "InternalError",
		    "the store is full: its objects may take %llu MiB (--storage-limit)",
		    (unsigned long long)(c->store->bytes_max >> 20));
}

int write_store(struct call *c, struct doc_node *root, struct object **ret)
{
	struct object *o = object_new(c->view.kind->storage, c->doc, root, c->store->rv + 1);
	if (!o)
		return fail(&c->f, 500, "InternalError", "out of memory");
	if (o->text.len > OBJECT_MAX) {
		object_unref(o);
		return fail(&c->f, 413, "RequestEntityTooLarge",
			    "Request entity too large: an object may take %d bytes, managedFields included",
			    OBJECT_MAX);
	}
	o->written = c->in->now;
	object_ref(o);
	if (!c->params.dry_run && storage_put(c->store, o) < 0) {
		object_unref(o);
		return storage_full(c);
	}
	if (c->params.dry_run)
		object_unref(o);
	*ret = o;
	return 0;
}

static void answer(struct call *c, int code, struct object *o)
{
	answer_object(c, code, o);
	if (!c->params.dry_run && view_is(&c->view, "apiextensions.k8s.io", "customresourcedefinitions"))
		crd_written(c->store, o);
}

/* ---- create ---- */

static int namespace_ready(struct call *c, struct span name)
{
	if (c->view.def->scope == CLUSTER)
		return 0;
	struct kind *namespaces = kinds_find(c->store, span_of(""), span_of("namespaces"));
	struct object *o = storage_find(namespaces, span_of(""), ns_span(c));
	if (!o)
		return fail_not_found(&c->f, "", "namespaces", ns_span(c));
	if (o->deleting) {
		c->f.n_causes = 1;
		c->f.causes[0] =
		    (struct cause){.reason = "NamespaceTerminating", .field = "metadata.namespace"};
		snprintf(c->f.causes[0].message, sizeof(c->f.causes[0].message),
			 "namespace %s is being terminated", o->name);
		return fail_forbidden(
		    &c->f, c->view.def->group, c->view.def->plural, name,
		    "unable to create new content in namespace %s because it is being terminated", o->name);
	}
	return 0;
}

static void generate_name(struct doc *d, struct doc_node *meta, struct span prefix)
{
	static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
	char name[NAME_MAX_LEN + 1];
	int n = snprintf(name, sizeof(name), SPAN_FMT, (int)MIN(prefix.len, (size_t)(NAME_MAX_LEN - 5)),
			 prefix.at);
	for (int i = 0; i < 5; i++)
		name[n++] = letters[random_below(sizeof(letters) - 1)];
	doc_set(d, meta, "name", doc_new_string(d, (struct span){name, (size_t)n}));
}

/* The name to create under: free, and generated if the client left that to us. */
static int free_name(struct call *c, struct doc_node *meta)
{
	struct doc *d = c->doc;
	struct kind *kind = c->view.kind->storage;
	struct span name = doc_string(d, doc_get(meta, "name")),
		    prefix = doc_string(d, doc_get(meta, "generateName"));
	bool generated = !name.len && prefix.len;
	for (int i = 0; i < NAME_ATTEMPTS; i++) {
		if (generated)
			generate_name(d, meta, prefix);
		name = doc_string(d, doc_get(meta, "name"));
		if (!storage_find(kind, ns_span(c), name))
			return 0;
		if (!generated)
			break;
	}
	return fail_exists(&c->f, c->view.def->group, c->view.def->plural, name);
}

static void new_metadata(struct call *c, struct doc_node *meta)
{
	static const char *const server_owned[] = {
	    "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds",
	    "selfLink",	       "managedFields",	    "generation"};
	struct doc *d = c->doc;
	char time[21], uid[UID_MAX];
	for (size_t i = 0; i < ARRAY_SIZE(server_owned); i++)
		doc_set(d, meta, server_owned[i], NULL);
	doc_set(d, meta, "uid", doc_new_string(d, span_of(uid_new(uid))));
	doc_set(d, meta, "creationTimestamp", doc_new_string(d, span_of(format_rfc3339(c->in->now, time))));
	if (view_has_generation(&c->view))
		doc_set(d, meta, "generation", doc_new_int(d, 1));
}

int write_create(struct call *c, struct draft *w)
{
	struct doc *d = c->doc;
	struct doc_node *root = w->after, *meta = doc_ensure_object(d, root, "metadata");
	int r = namespace_ready(c, doc_string(d, doc_get(meta, "name")));
	if (r < 0)
		return r;
	if (c->view.def->flags & ALIAS)
		alias_to_stored(root);
	if ((r = free_name(c, meta)) < 0)
		return r;
	if (doc_string(d, doc_get(meta, "resourceVersion")).len)
		return fail_bad_request(&c->f, "resourceVersion should not be set on objects to be created");
	new_metadata(c, meta);
	if (view_has_status(&c->view))
		doc_set(d, root, "status", NULL);
	prepare_object(c, NULL, root);
	if ((r = check_object(c, root)) < 0)
		return r;
	struct doc_node *fields = w->fields ? w->fields : fields_update(c, &w->manager, NULL, NULL, root);
	doc_set(d, meta, "managedFields", fields->child ? fields : NULL);
	_cleanup_(object_unref_ptr) struct object *o = NULL;
	if ((r = write_store(c, root, &o)) < 0)
		return r;
	answer(c, 201, o);
	return 0;
}

/* ---- update ---- */

static int stale(struct call *c, const struct draft *w, struct doc_node *meta)
{
	struct doc *d = c->doc;
	struct span name = span_of(w->live->name), uid = doc_string(d, doc_get(meta, "uid"));
	struct span version = doc_string(d, doc_get(meta, "resourceVersion"));
	const char *group = c->view.def->group, *plural = c->view.def->plural;
	bool put = !strcmp(c->in->method, "PUT");
	char rv[24];
	snprintf(rv, sizeof(rv), "%llu", (unsigned long long)w->live->rv);
	if (uid.len && !span_is(uid, w->live->uid) && put)
		return fail_conflict(&c->f, group, plural, name,
				     "Precondition failed: UID in precondition: " SPAN_FMT
				     ", UID in object meta: %s",
				     (int)MIN(uid.len, (size_t)64), uid.at, w->live->uid);
	if (version.len && !span_is(version, "0") && !span_is(version, rv))
		return fail_conflict(&c->f, group, plural, name,
				     "the object has been modified; please apply your changes to the latest "
				     "version and try again");
	if (uid.len && !span_is(uid, w->live->uid)) {
		invalid(&c->f, "FieldValueInvalid", "metadata.uid",
			"Invalid value: \"" SPAN_FMT "\": field is immutable", (int)MIN(uid.len, (size_t)64),
			uid.at);
		return invalid_done(&c->f, group, c->view.def->kind, name);
	}
	if (put && !version.len && (!c->view.def->builtin || c->view.def->flags & CONDITIONAL)) {
		invalid(&c->f, "FieldValueInvalid", "metadata.resourceVersion",
			"Invalid value: 0x0: must be specified for an update");
		return invalid_done(&c->f, group, plural, name);
	}
	return 0;
}

/* metadata that is the server's stays as it was, whatever the client sent. */
static void keep_metadata(struct doc *d, const struct doc_node *before, struct doc_node *meta)
{
	static const char *const kept[] = {"uid",	  "creationTimestamp", "resourceVersion",
					   "generation",  "deletionTimestamp", "deletionGracePeriodSeconds",
					   "generateName"};
	doc_set(d, meta, "selfLink", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		const struct doc_node *old = doc_get(before, kept[i]);
		doc_set(d, meta, kept[i], old ? doc_copy(d, old) : NULL);
	}
}

/* A subresource changes its part alone; the main resource leaves that part alone. */
static void keep_other_parts(struct call *c, struct draft *w)
{
	struct doc *d = c->doc;
	const struct doc_node *status = doc_get(w->before, "status");
	if (c->subresource) {
		struct doc_node *new = doc_get(w->after, "status"),
				*fields = doc_path(w->after, "metadata", "managedFields", NULL);
		struct doc_node *root = doc_copy(d, w->before);
		doc_set(d, root, "status", new ? doc_copy(d, new) : NULL);
		if (fields)
			doc_set(d, doc_get(root, "metadata"), "managedFields", doc_copy(d, fields));
		w->after = root;
	} else if (view_has_status(&c->view)) {
		doc_set(d, w->after, "status", status ? doc_copy(d, status) : NULL);
	}
}

/* The desired state: all but metadata and status; for a custom kind without status subresource, status
 * too. */
static bool spec_changed(struct call *c, const struct doc_node *before, const struct doc_node *after)
{
	struct doc *d = c->doc;
	struct doc_node *a = doc_copy(d, before), *b = doc_copy(d, after);
	bool status = c->view.def->builtin || view_has_status(&c->view);
	static const char *const fields[] = {"kind", "apiVersion", "metadata", "status"};
	for (size_t i = 0; i < ARRAY_SIZE(fields) - !status; i++) {
		doc_set(d, a, fields[i], NULL);
		doc_set(d, b, fields[i], NULL);
	}
	return !doc_equal(a, b);
}

static bool equal_without_fields(struct doc *d, const struct doc_node *before, const struct doc_node *after)
{
	struct doc_node *a = doc_copy(d, before), *b = doc_copy(d, after);
	doc_set(d, doc_ensure_object(d, a, "metadata"), "managedFields", NULL);
	doc_set(d, doc_ensure_object(d, b, "metadata"), "managedFields", NULL);
	return doc_equal(a, b);
}

/* [] or [{}] in an update forgets all managers. */
static bool fields_reset(const struct doc_node *list)
{
	return list && list->type == JSON_ARRAY &&
	       (!list->child || (list->count == 1 && !list->child->child));
}

/* Sets managedFields of the new tree; false if nothing at all changed. */
static bool record_fields(struct call *c, struct draft *w)
{
	struct doc *d = c->doc;
	struct doc_node *meta = doc_get(w->after, "metadata");
	const struct doc_node *old = doc_path(w->before, "metadata", "managedFields", NULL);
	bool same = equal_without_fields(d, w->before, w->after);
	struct doc_node *fields = w->fields;
	if (!fields) {
		bool reset = fields_reset(doc_get(meta, "managedFields"));
		if (same && !(reset && old))
			return false;
		fields = reset ? doc_new_array(d) : fields_update(c, &w->manager, old, w->before, w->after);
	} else if (same && old && doc_equal(old, fields)) {
		return false;
	}
	doc_set(d, meta, "managedFields", fields->child ? fields : NULL);
	return true;
}

/* The last finalizer of a deleted object is gone: so is the object. */
static int finish_deletion(struct call *c, struct doc_node *root)
{
	struct object *o = object_new(c->view.kind->storage, c->doc, root, c->store->rv + 1);
	if (!o)
		return fail(&c->f, 500, "InternalError", "out of memory");
	object_ref(o);
	if (c->params.dry_run)
		object_unref(o);
	else
		remove_now(c->store, o);
	answer_object(c, 200, o);
	object_unref(o);
	return 0;
}

static bool nothing_holds(const struct call *c, const struct doc_node *root)
{
	/* the finalizer in a namespace's spec goes when the collector says that it is empty */
	bool occupied = view_is(&c->view, "", "namespaces") && doc_path(root, "spec", "finalizers", NULL);
	return doc_path(root, "metadata", "deletionTimestamp", NULL) &&
	       !doc_path(root, "metadata", "finalizers", NULL) && !occupied;
}

int write_update(struct call *c, struct draft *w)
{
	struct doc *d = c->doc;
	struct doc_node *meta = doc_ensure_object(d, w->after, "metadata");
	int r = stale(c, w, meta);
	if (r < 0)
		return r;
	if (c->view.def->flags & ALIAS)
		alias_to_stored(w->after);
	keep_metadata(d, doc_get(w->before, "metadata"), meta);
	keep_other_parts(c, w);
	prepare_object(c, w->before, w->after);
	meta = doc_get(w->after, "metadata");
	if ((r = check_object(c, w->after)) < 0 || (r = check_change(c, w->before, w->after)) < 0)
		return r;
	if (view_has_generation(&c->view) && spec_changed(c, w->before, w->after))
		doc_set(d, meta, "generation", doc_new_int(d, w->live->generation + 1));
	if (!record_fields(c, w)) {
		answer_object(c, 200, w->live);
		return 0;
	}
	if (nothing_holds(c, w->after))
		return finish_deletion(c, w->after);
	_cleanup_(object_unref_ptr) struct object *o = NULL;
	if ((r = write_store(c, w->after, &o)) < 0)
		return r;
	answer(c, 200, o);
	return 0;
}
