#include "predicate.h"
#include "kube.h"

_Static_assert(CONFIG_PROGRAMS_MAX <= 32, "a bit for each");

static int init(struct predicate *p, const struct config_predicate *c, unsigned *programs, struct err *err)
{
	*p = (struct predicate){.type = c->type, .config = c};
	int rc = 0;
	if (c->type == PREDICATE_FIELD)
		rc = path_parse(c->text, &p->path, err);
	if (c->type == PREDICATE_LABEL_SELECTOR && kube_selector_match(c->text, span_of("{}"), err) < 0)
		rc = -EINVAL;
	p->children = c->count ? xcalloc(c->count, sizeof *p->children) : NULL;
	for (; rc == 0 && p->count < c->count; p->count++)
		rc = init(&p->children[p->count], &c->children[p->count], programs, err);
	if (c->type == PREDICATE_PROGRAM)
		p->program = (*programs)++;
	return rc;
}

int predicate_init(struct predicate *p, const struct config_predicate *c, struct err *err)
{
	unsigned programs = 0;
	int rc = init(p, c, &programs, err);
	p->programs = programs;
	if (rc < 0)
		predicate_done(p);
	return rc;
}

const struct config_program *predicate_program(const struct predicate *p, unsigned number)
{
	const struct config_program *found = NULL;
	if (p->type == PREDICATE_PROGRAM && p->program == number)
		return p->config->program;
	for (size_t i = 0; i < p->count && !found; i++)
		found = predicate_program(&p->children[i], number);
	return found;
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

static bool built_in_passes(const struct predicate *p, const struct object *before,
			    const struct object *after)
{
	bool update = before && after;
	switch (p->type) {
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
	case PREDICATE_AND:
	case PREDICATE_OR:
	case PREDICATE_NOT:
	case PREDICATE_PROGRAM:
		break;
	}
	return true;
}

/* AND ends at the first NO, OR at the first YES; a program that is asked later than another may make asking needless. */
static enum verdict judge_list(const struct predicate *p, const struct object *before,
			       const struct object *after, const struct predicate_answers *answers,
			       unsigned *ret_program)
{
	enum verdict end = p->type == PREDICATE_OR ? VERDICT_YES : VERDICT_NO,
		     all = p->type == PREDICATE_OR ? VERDICT_NO : VERDICT_YES;
	for (size_t i = 0; i < p->count; i++) {
		unsigned program;
		enum verdict v = predicate_judge(&p->children[i], before, after, answers, &program);
		if (v == end)
			return end;
		if (v == VERDICT_ASK && all != VERDICT_ASK)
			*ret_program = program;
		if (v == VERDICT_ASK)
			all = VERDICT_ASK;
	}
	return all;
}

enum verdict predicate_judge(const struct predicate *p, const struct object *before,
			     const struct object *after, const struct predicate_answers *answers,
			     unsigned *ret_program)
{
	enum verdict v;
	if (!before && !after)
		return VERDICT_NO;
	switch (p->type) {
	case PREDICATE_AND:
	case PREDICATE_OR:
		return judge_list(p, before, after, answers, ret_program);
	case PREDICATE_NOT:
		v = p->count ? predicate_judge(&p->children[0], before, after, answers, ret_program)
			     : VERDICT_NO;
		return v == VERDICT_ASK ? v : v == VERDICT_YES ? VERDICT_NO : VERDICT_YES;
	case PREDICATE_PROGRAM:
		*ret_program = p->program;
		if (!answers || !(answers->known >> p->program & 1))
			return VERDICT_ASK;
		return answers->pass >> p->program & 1 ? VERDICT_YES : VERDICT_NO;
	case PREDICATE_GENERATION_CHANGED:
	case PREDICATE_RESOURCE_VERSION_CHANGED:
	case PREDICATE_LABEL_CHANGED:
	case PREDICATE_ANNOTATION_CHANGED:
	case PREDICATE_DEFAULT_CUSTOM:
	case PREDICATE_LABEL_SELECTOR:
	case PREDICATE_FIELD:
		break;
	}
	return built_in_passes(p, before, after) ? VERDICT_YES : VERDICT_NO;
}

bool predicate_passes(const struct predicate *p, const struct object *before, const struct object *after)
{
	unsigned program;
	return predicate_judge(p, before, after, NULL, &program) == VERDICT_YES;
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
	case PREDICATE_PROGRAM:
		break;
	}
	return false;
}
