#include "children.h"
#include <stdio.h>

/* ---- digest ---- */

struct digest {
	uint64_t a, b;
};

static void mix(struct digest *g, const void *p, size_t n)
{
	g->a = hash_bytes(p, n, g->a);
	g->b = hash_bytes(p, n, g->b * UINT64_C(0x9e3779b97f4a7c15) + 1);
}

static int by_key(const void *x, const void *y)
{
	const struct doc_node *a = *(const struct doc_node *const *)x,
			      *b = *(const struct doc_node *const *)y;
	int c = memcmp(a->key.at, b->key.at, MIN(a->key.len, b->key.len));
	return c ? c : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

/* Lengths go in as well, so that no two different trees feed the same bytes. */
static void digest_node(struct digest *g, const struct doc_node *n)
{
	uint64_t head[3] = {(uint64_t)n->type, n->text.len, n->count};
	bool container = n->type == JSON_OBJECT || n->type == JSON_ARRAY;
	if (container)
		head[1] = 0;
	mix(g, head, sizeof(head));
	if (!container) {
		mix(g, n->text.at, n->text.len);
	} else if (n->type == JSON_ARRAY) {
		doc_each (e, n)
			digest_node(g, e);
	} else if (n->count) {
		const struct doc_node **sorted = xcalloc(n->count, sizeof(void *));
		size_t count = 0;
		doc_each (m, n)
			sorted[count++] = m;
		qsort(sorted, count, sizeof(void *), by_key);
		for (size_t i = 0; i < count; i++) {
			uint64_t len = sorted[i]->key.len;
			mix(g, &len, sizeof(len));
			mix(g, sorted[i]->key.at, sorted[i]->key.len);
			digest_node(g, sorted[i]);
		}
		free(sorted);
	}
}

void doc_digest(const struct doc_node *n, char ret[33])
{
	struct digest g = {HASH_SEED, ~HASH_SEED};
	digest_node(&g, n);
	snprintf(ret, 33, "%016llx%016llx", (unsigned long long)g.a, (unsigned long long)g.b);
}

/* ---- the document ---- */

static int set_namespace(struct doc *d, struct doc_node *metadata, const struct child *c, size_t index,
			 bool namespaced, const struct owner *o, struct err *err)
{
	if (!namespaced && o->namespace.len)
		return err_set(
		    err, -EPROTO,
		    "children[%zu]: %s %.*s has a namespace and cannot own a cluster-scoped object", index,
		    o->kind, SPAN_ARG(o->name));
	if (!namespaced && c->namespace.len)
		return err_set(err, -EPROTO,
			       "children[%zu].metadata.namespace: objects of this kind have none", index);
	if (namespaced && !c->namespace.len && !o->namespace.len)
		return err_set(err, -EPROTO,
			       "children[%zu].metadata.namespace: missing; the owner is cluster-scoped and "
			       "has none to lend",
			       index);
	if (namespaced && !c->namespace.len)
		doc_set(d, metadata, "namespace", doc_new_string(d, o->namespace));
	return 0;
}

static int add_owner(struct doc *d, struct doc_node *metadata, size_t index, const struct owner *o,
		     struct err *err)
{
	struct doc_node *list = doc_get(metadata, "ownerReferences");
	if (!list || list->type != JSON_ARRAY)
		list = doc_set(d, metadata, "ownerReferences", doc_new_array(d));
	struct doc_node *ours = NULL;
	doc_each (n, list) {
		const struct doc_node *controller = doc_get(n, "controller");
		if (span_eq(doc_string(d, doc_get(n, "uid")), o->uid))
			ours = n;
		else if (controller && span_is(controller->text, "true"))
			return err_set(err, -EPROTO,
				       "children[%zu].metadata.ownerReferences: another owner has "
				       "controller: true; there can be one",
				       index);
	}
	if (!ours) {
		ours = doc_new_object(d);
		doc_append(list, ours);
	}
	doc_set(d, ours, "apiVersion", doc_new_string(d, span_of(o->api_version)));
	doc_set(d, ours, "kind", doc_new_string(d, span_of(o->kind)));
	doc_set(d, ours, "name", doc_new_string(d, o->name));
	doc_set(d, ours, "uid", doc_new_string(d, o->uid));
	doc_set(d, ours, "controller", doc_new_bool(d, true));
	doc_set(d, ours, "blockOwnerDeletion", doc_new_bool(d, true));
	return 0;
}

int child_document(struct doc *d, const struct child *c, size_t index, bool child_namespaced,
		   const struct owner *owner, struct doc_node **ret, struct err *err)
{
	struct doc_node *child = doc_copy(d, c->object), *metadata = doc_ensure_object(d, child, "metadata");
	int r = set_namespace(d, metadata, c, index, child_namespaced, owner, err);
	if (r < 0 || (r = add_owner(d, metadata, index, owner, err)) < 0)
		return r;
	/* A program that hands back a child as it read it has our annotation in it: it is no part of what is
	 * desired. */
	struct doc_node *annotations = doc_get(metadata, "annotations");
	if (annotations && annotations->type == JSON_OBJECT) {
		doc_set(d, annotations, APPLIED_ANNOTATION, NULL);
		if (!annotations->count)
			doc_set(d, metadata, "annotations", NULL);
	}
	char digest[33];
	doc_digest(child, digest);
	doc_set(d, doc_ensure_object(d, metadata, "annotations"), APPLIED_ANNOTATION,
		doc_new_string(d, span_of(digest)));
	*ret = child;
	return 0;
}

bool child_is_current(struct doc *d, const struct doc_node *cached, const struct doc_node *want)
{
	struct span have =
	    doc_string(d, doc_path(cached, "metadata", "annotations", APPLIED_ANNOTATION, NULL));
	struct span digest =
	    doc_string(d, doc_path(want, "metadata", "annotations", APPLIED_ANNOTATION, NULL));
	return cached && have.len && span_eq(have, digest) && doc_contains(cached, want);
}

bool child_is_prunable(struct doc *d, const struct doc_node *object, struct span owner_uid)
{
	if (!owner_uid.len || doc_path(object, "metadata", "deletionTimestamp", NULL))
		return false;
	doc_each (n, doc_path(object, "metadata", "ownerReferences", NULL)) {
		const struct doc_node *controller = doc_get(n, "controller");
		if (span_eq(doc_string(d, doc_get(n, "uid")), owner_uid) && controller &&
		    span_is(controller->text, "true"))
			return true;
	}
	return false;
}

bool child_owned_by(struct span object, struct span owner_uid, bool controller_only)
{
	struct json_iter it = {0};
	struct span list = json_path(object, "metadata", "ownerReferences", NULL), key, ref, uid;
	if (!list.at || json_type_of(list) != JSON_ARRAY)
		return false;
	while (json_each(list, &it, &key, &ref))
		if (json_type_of(ref) == JSON_OBJECT && json_string_raw(json_get(ref, "uid"), &uid) == 0 &&
		    span_eq(uid, owner_uid) &&
		    (!controller_only || span_is(json_get(ref, "controller"), "true")))
			return true;
	return false;
}
