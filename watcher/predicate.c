#include "predicate.h"
#include "kube.h"

int predicate_init(struct predicate *p, const struct config_predicate *c, struct err *err)
{
	*p = (struct predicate){.type = c->type, .config = c};
	int rc = 0;
	if (c->type == PREDICATE_FIELD)
		rc = path_parse(c->text, &p->path, err);
	if (c->type == PREDICATE_LABEL_SELECTOR && kube_selector_match(c->text, span_of("{}"), err) < 0)
		rc = -EINVAL;
	p->children = c->count ? xcalloc(c->count, sizeof *p->children) : NULL;
	for (; rc == 0 && p->count < c->count; p->count++)
		rc = predicate_init(&p->children[p->count], &c->children[p->count], err);
	if (rc < 0)
		predicate_done(p);
	return rc;
}

void predicate_init_default(struct predicate *p, bool custom_primary)
{
	*p = (struct predicate){.type = custom_primary ? PREDICATE_DEFAULT_CUSTOM
						       : PREDICATE_RESOURCE_VERSION_CHANGED};
}

void predicate_done(struct predicate *p)
{
	for (size_t i = 0; i < p->count; i++)
		predicate_done(&p->children[i]);
	free(p->children);
	path_done(&p->path);
	*p = (struct predicate){0};
}

/* ---- Field ---- */

static bool scalar_is(struct span value, const char *text)
{
	if (json_type_of(value) == JSON_STRING)
		return json_string_is(value, text);
	return span_is(value, text);
}

static int is_one_of(void *ctx, struct span value)
{
	for (char **v = ctx; v && *v; v++)
		if (scalar_is(value, *v))
			return 1;
	return 0;
}

static int exists(void *ctx _unused_, struct span value _unused_)
{
	return 1;
}

static int collect(void *ctx, struct span value)
{
	buf_span_add(ctx, value);
	buf_putc(
	    ctx,
	    '\n'); /* JSON scalars have none inside; between values it keeps ["ab"] and ["a","b"] apart */
	return 0;
}

static bool field_changed(const struct path *path, const struct object *before, const struct object *after)
{
	struct buf a = {0}, b = {0};
	path_each(path, before->json, collect, &a);
	path_each(path, after->json, collect, &b);
	bool changed = buf_failed(&a) || buf_failed(&b) || !span_eq(buf_span(&a), buf_span(&b));
	buf_done(&a);
	buf_done(&b);
	return changed;
}

static bool field_passes(const struct predicate *p, const struct object *before, const struct object *after)
{
	const struct config_predicate *c = p->config;
	const struct object *o = after ? after : before;
	if (!o)
		return false;
	switch (c->op) {
	case FIELD_IN:
		return path_each(&p->path, o->json, is_one_of, c->values) == 1;
	case FIELD_NOT_IN:
		return path_each(&p->path, o->json, is_one_of, c->values) == 0;
	case FIELD_EXISTS:
		return (path_each(&p->path, o->json, exists, NULL) == 1) == c->wanted;
	case FIELD_CHANGED:
		return !before || !after || field_changed(&p->path, before, after) == c->wanted;
	}
	return true;
}

/* ---- all ---- */

bool predicate_passes(const struct predicate *p, const struct object *before, const struct object *after)
{
	bool update = before && after;
	if (!before && !after)
		return false;
	switch (p->type) {
	case PREDICATE_AND:
		for (size_t i = 0; i < p->count; i++)
			if (!predicate_passes(&p->children[i], before, after))
				return false;
		return true;
	case PREDICATE_OR:
		for (size_t i = 0; i < p->count; i++)
			if (predicate_passes(&p->children[i], before, after))
				return true;
		return false;
	case PREDICATE_NOT:
		for (size_t i = 0; i < p->count; i++)
			if (predicate_passes(&p->children[i], before, after))
				return false;
		return true;
	case PREDICATE_GENERATION_CHANGED:
		return !update || before->generation != after->generation;
	case PREDICATE_RESOURCE_VERSION_CHANGED:
		return !update || !span_eq(before->version, after->version);
	case PREDICATE_LABEL_CHANGED:
		return !update || !span_eq(before->labels, after->labels);
	case PREDICATE_ANNOTATION_CHANGED:
		return !update || !span_eq(before->annotations, after->annotations);
	case PREDICATE_DEFAULT_CUSTOM:
		return !update || before->generation != after->generation ||
		       !span_eq(before->labels, after->labels) ||
		       !span_eq(before->annotations, after->annotations) ||
		       !span_eq(before->finalizers, after->finalizers) ||
		       !span_eq(before->deletion, after->deletion);
	case PREDICATE_LABEL_SELECTOR: {
		struct span labels = (after ? after : before)->labels;
		return kube_selector_match(p->config->text, labels.at ? labels : span_of("{}"), NULL) == 1;
	}
	case PREDICATE_FIELD:
		return field_passes(p, before, after);
	}
	return true;
}

bool predicate_passes_creates(const struct predicate *p)
{
	switch (p->type) {
	case PREDICATE_AND:
		for (size_t i = 0; i < p->count; i++)
			if (!predicate_passes_creates(&p->children[i]))
				return false;
		return true;
	case PREDICATE_OR:
		for (size_t i = 0; i < p->count; i++)
			if (predicate_passes_creates(&p->children[i]))
				return true;
		return false;
	case PREDICATE_GENERATION_CHANGED:
	case PREDICATE_RESOURCE_VERSION_CHANGED:
	case PREDICATE_LABEL_CHANGED:
	case PREDICATE_ANNOTATION_CHANGED:
	case PREDICATE_DEFAULT_CUSTOM:
		return true;
	case PREDICATE_FIELD:
		return p->config->op == FIELD_CHANGED;
	case PREDICATE_NOT:
	case PREDICATE_LABEL_SELECTOR:
		break;
	}
	return false;
}
