#include "children.h"
#include "log.h"
#include "write.h"
#include <stdio.h>

struct planned {
	size_t watch;
	const struct kube_resource *resource;
	struct doc_node *document; /* NULL: a delete */
	struct span namespace, name, uid;
	struct span version; /* resourceVersion of the cached one; empty: none is known */
	bool current;	     /* nothing to do */
};

struct write_children {
	struct planned *at;
	size_t count, room;
	size_t needed;
};

static struct planned *add(struct write_children *p)
{
	if (p->count == p->room) {
		p->room = p->room ? p->room * 2 : 16;
		p->at = xrealloc(p->at, p->room * sizeof(*p->at));
	}
	struct planned *n = &p->at[p->count++];
	*n = (struct planned){0};
	return n;
}

static const char *describe(const struct planned *n, char buf[512])
{
	snprintf(buf, 512, "child %s.%s %.*s%s%.*s", n->resource->kind, n->resource->api_version,
		 SPAN_ARG(n->namespace), n->namespace.len ? "/" : "", SPAN_ARG(n->name));
	return buf;
}

/* What the cache shows of this child: which version, and is it as desired? */
static void compare(struct writer *w, struct planned *n)
{
	_cleanup_(buf_done) struct buf cached = {.limit = JSON_MAX_ITEM};
	struct doc_node *have;
	if (kinds_get(w->kinds, n->watch, n->namespace, n->name, &cached, NULL) < 0 ||
	    doc_parse(w->doc, buf_span(&cached), &have, NULL) < 0)
		return;
	n->version = doc_string(w->doc, doc_path(have, "metadata", "resourceVersion", NULL));
	n->current = !w->controller->watches[n->watch].kind.metadata_only &&
		     child_is_current(w->doc, have, n->document);
}

static int plan_apply(struct writer *w, const struct answer *a, size_t index, struct write_children *p,
		      struct err *err)
{
	const struct child *c = &a->children[index];
	const struct config_kind *owner_kind = &w->controller->watches[0].kind;
	struct owner owner = {owner_kind->api_version, owner_kind->kind, w->namespace, w->name,
			      writer_uid(w)};
	const struct kube_resource *resource;
	int r = kinds_resource(w->kinds, c->watch, &resource, err);
	if (r < 0)
		return err_prefix(err, r == -EPROTO ? -EIO : r, "children[%zu]", index);
	struct doc_node *document;
	r = child_document(w->doc, c, index, resource->namespaced, &owner, &document, err);
	if (r < 0)
		return r;
	struct planned *n = add(p);
	n->watch = c->watch;
	n->resource = resource;
	n->document = document;
	n->name = c->name;
	n->namespace =
	    resource->namespaced ? (c->namespace.len ? c->namespace : w->namespace) : (struct span){"", 0};
	compare(w, n);
	p->needed += !n->current;
	return 0;
}

/* ---- prune ---- */

struct prune {
	struct writer *w;
	const struct answer *a;
	struct write_children *plan;
	const struct kube_resource *resource;
	size_t watch;
};

static bool is_desired(const struct prune *p, struct span namespace, struct span name)
{
	for (size_t i = 0; i < p->a->child_count; i++) {
		const struct child *c = &p->a->children[i];
		struct span in =
		    c->namespace.len || !p->resource->namespaced ? c->namespace : p->w->namespace;
		if (c->watch == p->watch && span_eq(c->name, name) && span_eq(in, namespace))
			return true;
	}
	return false;
}

static int consider_pruning(void *ctx, struct span namespace, struct span name, struct span object)
{
	struct prune *p = ctx;
	struct doc *d = p->w->doc;
	struct doc_node *n;
	if (is_desired(p, namespace, name) || doc_parse(d, object, &n, NULL) < 0 ||
	    !child_is_prunable(d, n, writer_uid(p->w)))
		return 0;
	struct planned *e = add(p->plan);
	e->resource = p->resource;
	e->namespace = doc_keep(d, namespace);
	e->name = doc_keep(d, name);
	e->uid = doc_string(d, doc_path(n, "metadata", "uid", NULL));
	p->plan->needed++;
	return 0;
}

/* Two watches of one kind may split its objects by selectors: an object wanted through one is not pruned
 * through the other, because a child's watch is the first of its kind, and only that one is walked. */
static bool is_first_of_kind(const struct config_controller *c, size_t watch)
{
	const struct config_kind *k = &c->watches[watch].kind;
	for (size_t i = 0; i < watch; i++)
		if (c->watches[i].is_owns && strcmp(c->watches[i].kind.api_version, k->api_version) == 0 &&
		    strcmp(c->watches[i].kind.kind, k->kind) == 0)
			return false;
	return true;
}

static int plan_prune(struct writer *w, const struct answer *a, struct write_children *plan, struct err *err)
{
	const struct config_controller *c = w->controller;
	for (size_t i = 1; i < c->watch_count; i++) {
		if (!c->watches[i].is_owns || !is_first_of_kind(c, i))
			continue;
		struct prune p = {w, a, plan, NULL, i};
		struct err why = {0};
		int r = kinds_resource(w->kinds, i, &p.resource, err);
		if (r < 0)
			return err_prefix(err, r == -EPROTO ? -EIO : r, "prune");
		r = kinds_walk(w->kinds, i, writer_uid(w), consider_pruning, &p, &why);
		if (r == -EAGAIN || r == -ENODATA) /* out of sync: what is not seen is not missing */
			log_warning("not pruned now", LOG_S("controller", c->name),
				    LOG_S("kind", c->watches[i].kind.kind), LOG_S("cause", why.text));
		else if (r < 0)
			return err_set(err, r, "prune: %s", why.text);
	}
	return 0;
}

int write_children_plan(struct writer *w, const struct answer *a, bool prune_only,
			struct write_children **ret, struct err *err)
{
	struct write_children *p = xcalloc(1, sizeof(*p));
	int r = 0;
	for (size_t i = 0; r == 0 && !prune_only && i < a->child_count; i++)
		r = plan_apply(w, a, i, p, err);
	if (r == 0 && w->controller->prune)
		r = plan_prune(w, a, p, err);
	if (r < 0) {
		write_children_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

bool write_children_needed(const struct write_children *p)
{
	return p->needed > 0;
}

static int send_apply(struct writer *w, const struct planned *n, const char *path, struct span version,
		      struct buf *answer, struct kube_status *s, struct err *err)
{
	_cleanup_(buf_done) struct buf body = {0};
	doc_set(w->doc, doc_get(n->document, "metadata"), "resourceVersion",
		version.len ? doc_new_string(w->doc, version) : NULL);
	doc_print(n->document, &body);
	buf_reset(answer);
	return writer_do(w, "PATCH", path, "application/apply-patch+yaml", buf_span(&body), answer, s, err);
}

/* First with the version of the cached child: then the version that the API server answers is this write's alone, or nothing was written. If
 * the cache is behind, the apply holds nevertheless, for it is the desired state whatever is there. */
static int apply_and_note(struct writer *w, const struct planned *n, const char *path, struct kube_status *s,
			  struct err *err)
{
	_cleanup_(buf_done) struct buf answer = {0};
	struct span before = n->version, after = {"", 0};
	int r = send_apply(w, n, path, before, &answer, s, err);
	if (r == -EBUSY && before.len) {
		before = (struct span){"", 0};
		r = send_apply(w, n, path, before, &answer, s, err);
	}
	if (r < 0)
		return r;
	if (json_check(buf_span(&answer), NULL) == 0)
		json_string_raw(json_path(buf_span(&answer), "metadata", "resourceVersion", NULL), &after);
	if (after.len && !span_eq(before, after))
		writer_wrote(w, n->resource, buf_span(&answer), before.len || s->code == 201);
	return 0;
}

static void apply(struct writer *w, const struct planned *n)
{
	_cleanup_(buf_done) struct buf path = {0};
	struct kube_status s = {.retry_after_ms = -1};
	struct err why = {0};
	char what[512];
	kube_path(&path, n->resource, n->resource->namespaced ? n->namespace : (struct span){NULL, 0},
		  n->name, NULL);
	kube_query(&path, "fieldManager", span_of(w->controller->name));
	kube_query(&path, "force", span_of("true"));
	int r = apply_and_note(w, n, buf_str(&path), &s, &why);
	if (r == -ENOENT) /* no such namespace, or the kind is served otherwise now */
		kinds_forget(w->kinds, n->watch);
	if (r < 0)
		writer_failed(w, describe(n, what), r, &s, &why);
	else
		log_debug("child applied", LOG_SP("name", w->name), LOG_S("child", describe(n, what)),
			  LOG_I("code", s.code));
}

static void prune(struct writer *w, const struct planned *n)
{
	_cleanup_(buf_done) struct buf path = {0}, body = {0};
	struct kube_status s = {.retry_after_ms = -1};
	struct err why = {0};
	char what[512];
	kube_path(&path, n->resource, n->resource->namespaced ? n->namespace : (struct span){NULL, 0},
		  n->name, NULL);
	buf_puts(&body, "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"propagationPolicy\":"
			"\"Background\",\"preconditions\":{\"uid\":");
	buf_json_string(&body, n->uid);
	buf_puts(&body, "}}");
	int r = writer_do(w, "DELETE", buf_str(&path), NULL, buf_span(&body), NULL, &s, &why);
	/* Gone already, or another by that name: nothing of ours is left there. */
	if (r < 0 && r != -ENOENT && r != -EBUSY)
		writer_failed(w, describe(n, what), r, &s, &why);
	else
		log_info("child pruned", LOG_SP("name", w->name), LOG_S("child", describe(n, what)));
}

void write_children_apply(struct writer *w, struct write_children *p)
{
	for (size_t i = 0; i < p->count && !w->fenced; i++) {
		const struct planned *n = &p->at[i];
		if (!n->document)
			prune(w, n);
		else if (!n->current)
			apply(w, n);
	}
}

void write_children_free(struct write_children *p)
{
	if (!p)
		return;
	free(p->at);
	free(p);
}
