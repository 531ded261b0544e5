#include "listing.h"
#include <stdio.h>

void answer_object(struct call *c, int code, const struct object *o)
{
	c->out->code = code;
	encode_as(&c->out->body, &c->view, c->form, o, true, c->in->now);
}

/* Lists larger than this are printed while they are sent. */
enum { LIST_AT_ONCE = 256 << 10 };

void answer_list(struct call *c, struct snapshot *snap, const struct list_meta *meta)
{
	struct listing *l = listing_new(&c->view, c->form, snap, meta, c->in->now);
	bool more = true;
	while (more && c->out->body.len < LIST_AT_ONCE)
		more = listing_read(l, &c->out->body);
	c->out->code = 200;
	if (more)
		c->out->rest = l;
	else
		listing_free(l);
}

/* "123" to a number; "" and absent: 0. */
static int parse_version(struct call *c, uint64_t *ret)
{
	const char *text = c->params.resource_version;
	char *end;
	if (!text || !*text) {
		*ret = 0;
		return 0;
	}
	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno)
		return fail_bad_request(&c->f, "Invalid value: \"%.64s\": resourceVersion must be a number",
					text);
	return 0;
}

int call_get(struct call *c)
{
	uint64_t version;
	int r = parse_version(c, &version);
	if (r < 0)
		return r;
	storage_lock(c->store);
	struct object *found = storage_find(c->view.kind->storage, ns_span(c), span_of(c->name));
	_cleanup_(object_unref_ptr) struct object *o = found ? object_ref(found) : NULL;
	r = version > c->store->rv ? fail_too_large(&c->f, version, c->store->rv) : 0;
	storage_unlock(c->store);
	if (r < 0)
		return r;
	if (!o)
		return fail_not_found(&c->f, c->view.def->group, c->view.def->plural, span_of(c->name));
	answer_object(c, 200, o);
	return 0;
}

/* ---- list ---- */

struct list {
	struct selector *labels, *fields;
	uint64_t rv;
	struct span after_namespace, after_name;
	bool after;
};

static void list_done(struct list *l)
{
	selector_free(l->labels);
	selector_free(l->fields);
}

static bool matches(const struct object *o, void *ctx)
{
	const struct list *l = ctx;
	return selector_match_labels(l->labels, o) && selector_match_fields(l->fields, o);
}

/* A continue token says where to go on and as of when: "VERSION:NAMESPACE/NAME". */
static int parse_token(struct call *c, struct list *l)
{
	const char *token = c->params.continue_token;
	char *colon;
	errno = 0;
	l->rv = strtoull(token, &colon, 10);
	const char *slash = *colon == ':' ? strchr(colon, '/') : NULL;
	if (*token < '0' || *token > '9' || errno || !slash)
		return fail_bad_request(&c->f, "continue key is not valid: this server did not give it out");
	if (c->params.resource_version && *c->params.resource_version &&
	    strcmp(c->params.resource_version, "0") != 0)
		return fail_bad_request(&c->f,
					"specifying resource version is not allowed when using continue");
	l->after = true;
	l->after_namespace = (struct span){colon + 1, (size_t)(slash - colon - 1)};
	l->after_name = span_of(slash + 1);
	return 0;
}

/* As of which version the list is to be. */
static int list_version(struct call *c, struct list *l)
{
	const char *match = c->params.resource_version_match;
	uint64_t version;
	int r = parse_version(c, &version);
	if (r < 0)
		return r;
	bool named = c->params.resource_version && *c->params.resource_version,
	     exact = match && !strcmp(match, "Exact");
	if (match && *match && !exact && strcmp(match, "NotOlderThan") != 0)
		invalid(&c->f, "FieldValueNotSupported", "resourceVersionMatch",
			"Unsupported value: \"%.64s\": supported values: \"Exact\", \"NotOlderThan\"", match);
	else if (match && *match && !named)
		invalid(&c->f, "FieldValueForbidden", "resourceVersionMatch",
			"Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided");
	else if (exact && version == 0)
		invalid(&c->f, "FieldValueForbidden", "resourceVersionMatch",
			"Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"");
	if (c->params.send_initial_events)
		invalid(&c->f, "FieldValueForbidden", "sendInitialEvents",
			"Forbidden: sendInitialEvents is forbidden for list");
	r = invalid_done(&c->f, "meta.k8s.io", "ListOptions", span_of(""));
	if (r < 0)
		return r;
	if (version > c->store->rv)
		return fail_too_large(&c->f, version, c->store->rv);
	/* With a limit, and nothing said of how it is meant, a version is that of the list. */
	bool paged = c->params.limit > 0 && version && (!match || !*match);
	l->rv = exact || paged ? version : c->store->rv;
	return 0;
}

static int take_snapshot(struct call *c, struct list *l, struct snapshot *ret)
{
	struct kind *kind = c->view.kind->storage;
	size_t max = c->params.limit > 0 ? (size_t)c->params.limit : SIZE_MAX;
	bool more = c->params.continue_token && *c->params.continue_token;
	storage_lock(c->store);
	int r = more ? parse_token(c, l) : list_version(c, l);
	if (r == 0) {
		struct span all = {0};
		r = storage_snapshot(c->store, kind, l->rv, c->namespace ? ns_span(c) : all,
				     l->after_namespace, l->after_name, l->after, max, matches, l, ret);
		if (r == -ESTALE)
			r = fail_expired(&c->f,
					 more ? "The provided continue parameter is too old to display a "
						"consistent list result. "
						"You can start a new list without the continue parameter."
					      : "The resourceVersion for the provided list is too old.");
	}
	storage_unlock(c->store);
	return r;
}

int call_list(struct call *c)
{
	struct list l = {0};
	struct snapshot snap = {0};
	const char *labels = c->params.label_selector, *fields = c->params.field_selector;
	int r = selector_parse_labels(span_of(labels ? labels : ""), &l.labels, &c->f);
	if (r == 0)
		r = selector_parse_fields(span_of(fields ? fields : ""), c->view.def, &l.fields, &c->f);
	if (r == 0)
		r = take_snapshot(c, &l, &snap);
	if (r == 0) {
		_cleanup_(free_ptr) char *token = NULL;
		if (snap.more) {
			const struct object *last = snap.objects[snap.n - 1];
			token =
			    xasprintf("%llu:%s/%s", (unsigned long long)l.rv, last->namespace, last->name);
		}
		struct list_meta meta = {l.rv, token, l.labels || l.fields ? -1 : (int64_t)snap.more};
		answer_list(c, &snap, &meta);
	}
	list_done(&l);
	return r;
}
