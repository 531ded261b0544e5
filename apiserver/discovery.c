/* What is served: /version, /api, /apis and below. */
#include "call.h"
#include <stdio.h>

#define KUBERNETES_VERSION "1.26.0" /* whose API this server follows, where it follows it */

static void version(struct buf *out)
{
	buf_puts(out, "{\"major\":\"1\",\"minor\":\"26\",\"gitVersion\":\"v" KUBERNETES_VERSION
		      "+reconciled-" RECONCILED_VERSION
		      "\",\"gitCommit\":\"\",\"gitTreeState\":\"clean\",\"buildDate\":\"1970-01-01T00:00:"
		      "00Z\",\"goVersion\":\"none\","
		      "\"compiler\":\"gcc\",\"platform\":\"linux\"}");
}

static bool in_group(const struct kind *k, const char *group, const char *version,
		     const struct kind_version **ret)
{
	if (!k->served || strcmp(k->def->group, group) != 0)
		return false;
	for (size_t i = 0; i < k->def->n_versions; i++) {
		const struct kind_version *v = &k->def->versions[i];
		if (v->served && (!version || !strcmp(v->name, version))) {
			*ret = v;
			return true;
		}
	}
	return false;
}

/* ---- groups ---- */

/* v1 before v1beta1 before v1alpha1, higher numbers first: the order that the API prescribes. */
static int version_rank(const char *name)
{
	int major = 0, minor = 0;
	char stage[8] = "";
	int n = sscanf(name, "v%d%7[a-z]%d", &major, stage, &minor);
	if (n < 1)
		return -1;
	int level = n == 1 ? 3 : !strcmp(stage, "beta") ? 2 : 1;
	return level * 1000000 + MIN(major, 999) * 1000 + MIN(minor, 999);
}

static int compare_versions(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	int rank = version_rank(y) - version_rank(x);
	return rank ? rank : strcmp(x, y);
}

enum { GROUP_VERSIONS_MAX = 64 };

static size_t versions_of(struct storage *s, const char *group, const char *ret[GROUP_VERSIONS_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < s->n_kinds; i++) {
		const struct kind *k = s->kinds[i];
		for (size_t j = 0; k->served && !strcmp(k->def->group, group) && j < k->def->n_versions;
		     j++) {
			const struct kind_version *v = &k->def->versions[j];
			bool known = !v->served || n == GROUP_VERSIONS_MAX;
			for (size_t m = 0; m < n && !known; m++)
				known = !strcmp(ret[m], v->name);
			if (!known)
				ret[n++] = v->name;
		}
	}
	qsort(ret, n, sizeof(*ret), compare_versions);
	return n;
}

static bool print_group(struct buf *out, struct storage *s, const char *group, bool alone)
{
	const char *versions[GROUP_VERSIONS_MAX];
	size_t n = versions_of(s, group, versions);
	if (!n)
		return false;
	buf_printf(out, "{%s\"name\":\"%s\",\"versions\":[",
		   alone ? "\"kind\":\"APIGroup\",\"apiVersion\":\"v1\"," : "", group);
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s{\"groupVersion\":\"%s/%s\",\"version\":\"%s\"}", i ? "," : "", group,
			   versions[i], versions[i]);
	buf_printf(out, "],\"preferredVersion\":{\"groupVersion\":\"%s/%s\",\"version\":\"%s\"}}", group,
		   versions[0], versions[0]);
	return true;
}

static bool first_of_group(struct storage *s, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (s->kinds[i]->served && !strcmp(s->kinds[i]->def->group, s->kinds[at]->def->group))
			return false;
	return true;
}

static void groups(struct buf *out, struct storage *s)
{
	bool first = true;
	buf_puts(out, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[");
	for (size_t i = 0; i < s->n_kinds; i++) {
		const struct kind *k = s->kinds[i];
		if (!k->served || !*k->def->group || !first_of_group(s, i))
			continue;
		size_t at = out->len;
		if (!first)
			buf_putc(out, ',');
		if (print_group(out, s, k->def->group, false))
			first = false;
		else
			out->len = at; /* no version of it is served */
	}
	buf_puts(out, "]}");
}

/* ---- resources ---- */

static void words(struct buf *out, const char *key, char *const *list, size_t n)
{
	if (!n)
		return;
	buf_printf(out, ",\"%s\":[", key);
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(out, ',');
		buf_json_string(out, span_of(list[i]));
	}
	buf_putc(out, ']');
}

static void print_resource(struct buf *out, const struct definition *d, const struct kind_version *v)
{
	const char *namespaced = d->scope == NAMESPACED ? "true" : "false";
	buf_printf(out,
		   "{\"name\":\"%s\",\"singularName\":\"%s\",\"namespaced\":%s,\"kind\":\"%s\",\"verbs\":["
		   "\"create\",\"delete\",%s"
		   "\"get\",\"list\",\"patch\",\"update\",\"watch\"]",
		   d->plural, d->singular, namespaced, d->kind, "\"deletecollection\",");
	words(out, "shortNames", d->short_names, d->n_short_names);
	words(out, "categories", d->categories, d->n_categories);
	buf_putc(out, '}');
	struct view view = {NULL, (struct definition *)(uintptr_t)d, v};
	if (view_has_status(&view))
		buf_printf(out,
			   ",{\"name\":\"%s/"
			   "status\",\"singularName\":\"\",\"namespaced\":%s,\"kind\":\"%s\",\"verbs\":["
			   "\"get\",\"patch\","
			   "\"update\"]}",
			   d->plural, namespaced, d->kind);
}

static bool resources(struct buf *out, struct storage *s, const char *group, const char *name)
{
	bool any = false;
	buf_puts(out, "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"");
	buf_printf(out, *group ? "%s/%s" : "%s%s", group, name);
	buf_puts(out, "\",\"resources\":[");
	for (size_t i = 0; i < s->n_kinds; i++) {
		const struct kind_version *v;
		if (!in_group(s->kinds[i], group, name, &v))
			continue;
		if (any)
			buf_putc(out, ',');
		print_resource(out, s->kinds[i]->def, v);
		any = true;
	}
	buf_puts(out, "]}");
	return any;
}

static bool print(struct call *c, const struct uri *u)
{
	struct buf *out = &c->out->body;
	if (!u->n) {
		buf_puts(out, "{\"paths\":[\"/api\",\"/api/v1\",\"/apis\",\"/healthz\",\"/livez\",\"/"
			      "readyz\",\"/version\"]}");
		return true;
	}
	if (!strcmp(u->segments[0], "version")) {
		version(out);
		return true;
	}
	if (!strcmp(u->segments[0], "api")) {
		if (u->n == 2)
			return resources(out, c->store, "", u->segments[1]);
		buf_puts(
		    out,
		    "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[]}");
		return true;
	}
	if (u->n == 3)
		return *u->segments[1] && resources(out, c->store, u->segments[1], u->segments[2]);
	if (u->n == 2)
		return *u->segments[1] && print_group(out, c->store, u->segments[1], true);
	groups(out, c->store);
	return true;
}

int call_discovery(struct call *c, const struct uri *u)
{
	int r = accept_form(c->in->accept, &c->form, &c->f);
	if (r < 0)
		return r;
	storage_lock(c->store);
	bool found = print(c, u);
	storage_unlock(c->store);
	c->out->code = 200;
	return found ? 0 : fail_no_route(&c->f);
}
