/* What the server fills in or drops: see check.h. */
#include "base64.h"
#include "check.h"
#include "crd.h"

static void drop_nulls(struct doc_node *n)
{
	struct doc_node *last = NULL;
	for (struct doc_node *m = n->child; m; m = m->next) {
		if (m->type != JSON_NULL || n->type != JSON_OBJECT) {
			drop_nulls(m);
			last = m;
			continue;
		}
		if (last)
			last->next = m->next;
		else
			n->child = m->next;
		n->count--;
	}
	n->last = last;
}

static void drop_empty_metadata(struct doc_node *meta)
{
	static const char *const fields[] = {"labels", "annotations", "finalizers", "ownerReferences"};
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct doc_node *n = doc_get(meta, fields[i]);
		if (n && !n->child)
			doc_remove(meta, n);
	}
}

/* stringData is a way of writing data, never kept. */
static void secret_data(struct doc *d, struct doc_node *root)
{
	struct doc_node *plain = doc_get(root, "stringData");
	if (plain && plain->child) {
		struct doc_node *data = doc_ensure_object(d, root, "data");
		doc_each (n, plain) {
			_cleanup_(buf_done) struct buf encoded = {0};
			base64_encode(&encoded, doc_string(d, n));
			doc_set_span(d, data, n->key, doc_new_string(d, buf_span(&encoded)));
		}
	}
	if (plain)
		doc_remove(root, plain);
	if (!doc_string(d, doc_get(root, "type")).len)
		doc_set(d, root, "type", doc_new_string(d, span_of("Opaque")));
}

static void namespace_defaults(struct doc *d, struct doc_node *root)
{
	struct doc_node *meta = doc_ensure_object(d, root, "metadata");
	doc_set(d, doc_ensure_object(d, meta, "labels"), "kubernetes.io/metadata.name",
		doc_new_string(d, doc_string(d, doc_get(meta, "name"))));
	struct doc_node *finalizers = doc_new_array(d);
	doc_append(finalizers, doc_new_string(d, span_of("kubernetes")));
	doc_set(d, doc_ensure_object(d, root, "spec"), "finalizers", finalizers);
	doc_set(d, doc_ensure_object(d, root, "status"), "phase", doc_new_string(d, span_of("Active")));
}

/* Only the collector takes these off. */
static void keep_namespace_finalizers(struct doc *d, const struct doc_node *before, struct doc_node *root)
{
	const struct doc_node *kept = doc_path(before, "spec", "finalizers", NULL);
	doc_set(d, doc_ensure_object(d, root, "spec"), "finalizers", kept ? doc_copy(d, kept) : NULL);
}

void prepare_object(struct call *c, const struct doc_node *before, struct doc_node *after)
{
	struct doc *d = c->doc;
	struct doc_node *meta = doc_ensure_object(d, after, "metadata");
	if (c->view.def->builtin)
		drop_nulls(after);
	else
		drop_nulls(meta);
	drop_empty_metadata(meta);
	if (view_is(&c->view, "", "secrets"))
		secret_data(d, after);
	if (!before && c->view.def->builtin && view_has_status(&c->view))
		doc_set(d, after, "status", doc_new_object(d));
	if (!before && view_is(&c->view, "", "namespaces"))
		namespace_defaults(d, after);
	if (before && view_is(&c->view, "", "namespaces"))
		keep_namespace_finalizers(d, before, after);
	if (!before && view_is(&c->view, "", "pods"))
		doc_set(d, doc_ensure_object(d, after, "status"), "phase",
			doc_new_string(d, span_of("Pending")));
	if (view_is(&c->view, "apiextensions.k8s.io", "customresourcedefinitions"))
		crd_prepare(c, before, after);
}
