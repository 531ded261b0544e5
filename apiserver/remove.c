#include "remove.h"
#include "crd.h"

static struct doc_node *parse(struct doc *d, const struct object *o)
{
	struct doc_node *root;
	if (doc_parse(d, o->text, &root, NULL) < 0)
		abort(); /* we wrote it */
	return root;
}

static bool list_has(struct doc *d, const struct doc_node *list, const char *text)
{
	doc_each (n, list)
		if (doc_is(d, n, text))
			return true;
	return false;
}

static bool is_kind(const struct object *o, const char *group, const char *plural)
{
	return !strcmp(o->kind->def->group, group) && !strcmp(o->kind->def->plural, plural);
}

/* Finalizers keep an object; of a namespace those in its spec too. */
static bool held(const struct object *o, const struct doc_node *root)
{
	const struct doc_node *meta = doc_path(root, "metadata", "finalizers", NULL);
	const struct doc_node *spec =
	    is_kind(o, "", "namespaces") ? doc_path(root, "spec", "finalizers", NULL) : NULL;
	return (meta && meta->child) || (spec && spec->child);
}

void remove_now(struct storage *s, struct object *o)
{
	if (is_kind(o, "apiextensions.k8s.io", "customresourcedefinitions")) {
		struct kind *kind = crd_kind(s, o);
		if (kind)
			kinds_withdraw(s, kind);
	}
	storage_remove(s, o);
}

static void add_finalizer(struct doc *d, struct doc_node *meta, const char *name)
{
	struct doc_node *list = doc_get(meta, "finalizers");
	if (!list)
		list = doc_set(d, meta, "finalizers", doc_new_array(d));
	if (!list_has(d, list, name))
		doc_append(list, doc_new_string(d, span_of(name)));
}

static void mark(struct doc *d, const struct object *o, struct doc_node *root, int64_t now)
{
	char time[21];
	struct doc_node *meta = doc_get(root, "metadata");
	doc_set(d, meta, "deletionTimestamp", doc_new_string(d, span_of(format_rfc3339(now, time))));
	doc_set(d, meta, "deletionGracePeriodSeconds", doc_new_int(d, 0));
	if (o->generation > 0)
		doc_set(d, meta, "generation", doc_new_int(d, o->generation + 1));
	if (is_kind(o, "", "namespaces"))
		doc_set(d, doc_ensure_object(d, root, "status"), "phase",
			doc_new_string(d, span_of("Terminating")));
}

struct object *remove_object(struct storage *s, struct object *o, enum propagation how, int64_t now,
			     bool dry_run, bool *ret_gone)
{
	_cleanup_(doc_free_ptr) struct doc *d = doc_new();
	struct doc_node *root = parse(d, o), *meta = doc_get(root, "metadata");
	if (how != PROPAGATE_BACKGROUND)
		add_finalizer(d, meta, how == PROPAGATE_FOREGROUND ? FINALIZER_FOREGROUND : FINALIZER_ORPHAN);
	bool hold = held(o, root), marked = o->deleting;
	*ret_gone = !hold && !dry_run;
	if (hold && marked)
		return object_ref(o); /* asked for before: nothing new */
	if (hold)
		mark(d, o, root, now);
	struct object *new = object_new(o->kind, d, root, s->rv + 1);
	if (!new || dry_run)
		return new;
	object_ref(new);
	if (hold && storage_put(s, new) < 0) {
		object_unref(new);
		return NULL;
	}
	if (!hold)
		remove_now(s, new);
	return new;
}

/* Stores the changed tree, or lets the object go when it is deleted and nothing holds it any more. */
static void put_or_remove(struct storage *s, struct doc *d, struct object *o, struct doc_node *root)
{
	bool gone = o->deleting && !held(o, root);
	struct object *new = object_new(o->kind, d, root, s->rv + 1);
	if (!new)
		return; /* out of memory: the collector comes again */
	if (gone)
		remove_now(s, new);
	else
		storage_put(s, new);
}

void remove_finalizer(struct storage *s, struct object *o, const char *name, bool spec)
{
	_cleanup_(doc_free_ptr) struct doc *d = doc_new();
	struct doc_node *root = parse(d, o), *parent = doc_get(root, spec ? "spec" : "metadata"),
			*list = doc_get(parent, "finalizers");
	doc_each (n, list)
		if (doc_is(d, n, name)) {
			doc_remove(list, n);
			break;
		}
	if (list && !list->child)
		doc_remove(parent, list);
	put_or_remove(s, d, o, root);
}

void remove_owner(struct storage *s, struct object *o, const char *uid)
{
	_cleanup_(doc_free_ptr) struct doc *d = doc_new();
	struct doc_node *root = parse(d, o), *meta = doc_get(root, "metadata"),
			*owners = doc_get(meta, "ownerReferences");
	for (struct doc_node *n = owners ? owners->child : NULL, *next; n; n = next) {
		next = n->next;
		if (doc_is(d, doc_get(n, "uid"), uid))
			doc_remove(owners, n);
	}
	if (owners && !owners->child)
		doc_remove(meta, owners);
	put_or_remove(s, d, o, root);
}
