#include "kinds.h"
#include <stdio.h>

static const struct builtin_kind {
	const char *group, *version, *kind, *plural, *singular, *short_names;
	enum kind_scope scope;
	int flags;
	enum kind_names names;
} builtin_kinds[] = {
#define KIND(...) {__VA_ARGS__},
#include "kinds.def"
#undef KIND
};

/* ---- definitions ---- */

struct definition *definition_new(void)
{
	struct definition *d = xcalloc(1, sizeof(*d));
	d->refs = 1;
	return d;
}

struct definition *definition_ref(struct definition *d)
{
	__atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
	return d;
}

static void version_done(struct kind_version *v)
{
	free(v->name);
	for (size_t i = 0; i < v->n_columns; i++) {
		free(v->columns[i].name);
		free(v->columns[i].type);
		free(v->columns[i].path);
		free(v->columns[i].description);
	}
}

void definition_unref(struct definition *d)
{
	if (!d || __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	free(d->group);
	free(d->kind);
	free(d->list_kind);
	free(d->plural);
	free(d->singular);
	for (size_t i = 0; i < d->n_short_names; i++)
		free(d->short_names[i]);
	for (size_t i = 0; i < d->n_categories; i++)
		free(d->categories[i]);
	for (size_t i = 0; i < d->n_versions; i++)
		version_done(&d->versions[i]);
	free(d);
}

static size_t split_words(const char *words, char **ret, size_t max)
{
	size_t n = 0;
	for (const char *p = words; *p && n < max;) {
		size_t len = strcspn(p, " ");
		ret[n++] = span_dup((struct span){p, len});
		p += len + (p[len] == ' ');
	}
	return n;
}

static struct definition *builtin_definition(const struct builtin_kind *b)
{
	struct definition *d = definition_new();
	d->group = xstrdup(b->group);
	d->kind = xstrdup(b->kind);
	d->list_kind = xasprintf("%sList", b->kind);
	d->plural = xstrdup(b->plural);
	d->singular = xstrdup(b->singular);
	d->n_short_names = split_words(b->short_names, d->short_names, SHORT_NAMES_MAX);
	if (b->flags & ALL)
		d->categories[d->n_categories++] = xstrdup("all");
	d->scope = b->scope;
	d->names = b->names;
	d->flags = b->flags;
	d->builtin = true;
	d->versions[0] = (struct kind_version){.name = xstrdup(b->version), .served = true, .storage = true};
	d->n_versions = 1;
	return d;
}

void kinds_add_builtin(struct storage *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(builtin_kinds); i++) {
		struct kind *k = storage_add_kind(s);
		kinds_define(s, k, builtin_definition(&builtin_kinds[i]));
		if (k->def->flags & ALIAS)
			k->storage = kinds_find(s, span_of(""), span_of(k->def->plural));
	}
}

struct kind *kinds_find(struct storage *s, struct span group, struct span plural)
{
	for (size_t i = 0; i < s->n_kinds; i++)
		if (s->kinds[i]->def && span_is(group, s->kinds[i]->def->group) &&
		    span_is(plural, s->kinds[i]->def->plural))
			return s->kinds[i];
	return NULL;
}

void kinds_define(struct storage *s, struct kind *kind, struct definition *def)
{
	definition_unref(kind->def);
	kind->def = def;
	kind->served = true;
	s->kinds_changed++;
}

void kinds_withdraw(struct storage *s, struct kind *kind)
{
	kind->served = false;
	s->kinds_changed++;
	pthread_cond_broadcast(&kind->changed);
}

/* ---- views ---- */

static const struct kind_version *version_find(const struct definition *d, struct span version)
{
	for (size_t i = 0; i < d->n_versions; i++) {
		const struct kind_version *v = &d->versions[i];
		if (version.at ? v->served && span_is(version, v->name) : v->storage)
			return v;
	}
	return NULL;
}

static bool view_make(struct kind *kind, struct span version, struct view *ret)
{
	const struct kind_version *v = kind && kind->served ? version_find(kind->def, version) : NULL;
	if (!v)
		return false;
	*ret = (struct view){kind, definition_ref(kind->def), v};
	return true;
}

bool view_find(struct storage *s, struct span group, struct span version, struct span plural,
	       struct view *ret)
{
	return view_make(kinds_find(s, group, plural), version, ret);
}

bool view_find_kind(struct storage *s, struct span group, struct span version, struct span kind,
		    struct view *ret)
{
	for (size_t i = 0; i < s->n_kinds; i++) {
		struct kind *k = s->kinds[i];
		if (k->served && span_is(group, k->def->group) && span_is(kind, k->def->kind))
			return view_make(k, version, ret);
	}
	return false;
}

struct view view_of_kind(struct kind *kind)
{
	struct span none = {0};
	const struct kind_version *v = version_find(kind->def, none);
	return (struct view){kind, definition_ref(kind->def), v ? v : &kind->def->versions[0]};
}

void view_done(struct view *v)
{
	definition_unref(v->def);
	*v = (struct view){0};
}

bool view_has_status(const struct view *v)
{
	return v->def->builtin ? v->def->flags & STATUS : v->version->status;
}

bool view_has_generation(const struct view *v)
{
	return !v->def->builtin || v->def->flags & GENERATION;
}

const char *view_api_version(const struct view *v, char buf[API_VERSION_MAX])
{
	snprintf(buf, API_VERSION_MAX, *v->def->group ? "%s/%s" : "%s%s", v->def->group, v->version->name);
	return buf;
}

bool api_version_split(struct span text, struct span *ret_group, struct span *ret_version)
{
	const char *slash = text.len ? memchr(text.at, '/', text.len) : NULL;
	if (!text.len)
		return false;
	if (!slash) {
		*ret_group = span_of("");
		*ret_version = text;
		return true;
	}
	*ret_group = (struct span){text.at, (size_t)(slash - text.at)};
	*ret_version = (struct span){slash + 1, text.len - ret_group->len - 1};
	return ret_group->len && ret_version->len && !memchr(ret_version->at, '/', ret_version->len);
}
