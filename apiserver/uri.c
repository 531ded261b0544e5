#include "call.h"
#include <stdio.h>

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Owned by the caller; NULL for a broken escape or a NUL. */
static char *decode(struct span s, bool plus)
{
	char *text = xmalloc(s.len + 1), *to = text;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		if (c == '+' && plus) {
			c = ' ';
		} else if (c == '%') {
			int high = i + 2 < s.len ? hex(s.at[i + 1]) : -1,
			    low = i + 2 < s.len ? hex(s.at[i + 2]) : -1;
			if (high < 0 || low < 0 || (high == 0 && low == 0)) {
				free(text);
				return NULL;
			}
			c = (char)(high * 16 + low);
			i += 2;
		}
		*to++ = c;
	}
	*to = 0;
	return text;
}

static struct span before(struct span s, char c)
{
	const char *at = s.len ? memchr(s.at, c, s.len) : NULL;
	return at ? (struct span){s.at, (size_t)(at - s.at)} : s;
}

static struct span skip(struct span s, size_t n)
{
	return (struct span){s.at + MIN(n, s.len), s.len - MIN(n, s.len)};
}

int uri_path(struct span uri, struct uri *ret, struct failure *f)
{
	struct span path = before(uri, '?');
	*ret = (struct uri){0};
	while (path.len) {
		if (*path.at == '/') {
			path = skip(path, 1);
			ret->trailing_slash = !path.len;
			continue;
		}
		struct span segment = before(path, '/');
		char *text = ret->n < SEGMENTS_MAX ? decode(segment, false) : NULL;
		if (!text) {
			int r = ret->n < SEGMENTS_MAX
				    ? fail_bad_request(f, "the path holds a broken percent escape")
				    : fail_no_route(f);
			uri_done(ret);
			return r;
		}
		ret->segments[ret->n++] = text;
		path = skip(path, segment.len);
	}
	return 0;
}

void uri_done(struct uri *u)
{
	for (size_t i = 0; i < u->n; i++)
		free(u->segments[i]);
	*u = (struct uri){0};
}

static int param_bool(const char *name, const char *value, bool *ret, struct failure *f)
{
	if (!strcmp(value, "true") || !strcmp(value, "1"))
		*ret = true;
	else if (!strcmp(value, "false") || !strcmp(value, "0") || !*value)
		*ret = false;
	else
		return fail_bad_request(f, "%s must be true or false, not \"%.64s\"", name, value);
	return 0;
}

static int param_number(const char *name, const char *value, int64_t *ret, struct failure *f)
{
	char *end;
	errno = 0;
	long long n = strtoll(value, &end, 10);
	if (!*value || *end || errno || n < 0)
		return fail_bad_request(f, "%s must be a number from 0 on, not \"%.64s\"", name, value);
	*ret = n;
	return 0;
}

static void param_text(char **field, const char *value)
{
	free(*field);
	*field = xstrdup(value);
}

static int param_dry_run(const char *value, bool *ret, struct failure *f)
{
	if (*value && strcmp(value, "All") != 0) {
		invalid(f, "FieldValueNotSupported", "dryRun",
			"Unsupported value: \"%.64s\": supported values: \"All\"", value);
		return invalid_done(f, "meta.k8s.io", "Options", span_of(""));
	}
	*ret = *value != 0;
	return 0;
}

static int param_set(struct params *p, const char *name, const char *value, struct failure *f)
{
	const struct {
		const char *name;
		char **text;
		bool *flag;
		int64_t *number;
	} table[] = {
	    {"fieldManager", &p->field_manager, NULL, NULL},
	    {"labelSelector", &p->label_selector, NULL, NULL},
	    {"fieldSelector", &p->field_selector, NULL, NULL},
	    {"resourceVersion", &p->resource_version, NULL, NULL},
	    {"resourceVersionMatch", &p->resource_version_match, NULL, NULL},
	    {"continue", &p->continue_token, NULL, NULL},
	    {"propagationPolicy", &p->propagation_policy, NULL, NULL},
	    {"includeObject", &p->include_object, NULL, NULL},
	    {"force", NULL, &p->force, NULL},
	    {"watch", NULL, &p->watch, NULL},
	    {"allowWatchBookmarks", NULL, &p->bookmarks, NULL},
	    {"limit", NULL, NULL, &p->limit},
	    {"timeoutSeconds", NULL, NULL, &p->timeout_seconds},
	};
	if (!strcmp(name, "dryRun"))
		return param_dry_run(value, &p->dry_run, f);
	if (!strcmp(name, "sendInitialEvents")) {
		bool wanted;
		int r = param_bool(name, value, &wanted, f);
		if (r == 0)
			param_text(&p->send_initial_events, wanted ? "true" : "false");
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (strcmp(name, table[i].name) != 0)
			continue;
		if (table[i].flag)
			return param_bool(name, value, table[i].flag, f);
		if (table[i].number)
			return *value ? param_number(name, value, table[i].number, f) : 0;
		param_text(table[i].text, value);
		return 0;
	}
	return 0; /* pretty, fieldValidation, gracePeriodSeconds, ...: nothing to do here */
}

int uri_params(struct span uri, struct params *ret, struct failure *f)
{
	*ret = (struct params){.timeout_seconds = -1};
	struct span query = skip(uri, before(uri, '?').len + 1);
	while (query.len) {
		struct span pair = before(query, '&'), name = before(pair, '=');
		_cleanup_(free_ptr) char *key = decode(name, true),
					 *value = decode(skip(pair, name.len + 1), true);
		int r = key && value ? param_set(ret, key, value, f)
				     : fail_bad_request(f, "the query holds a broken percent escape");
		if (r < 0)
			return r;
		query = skip(query, pair.len + 1);
	}
	return 0;
}

void params_done(struct params *p)
{
	free(p->field_manager);
	free(p->label_selector);
	free(p->field_selector);
	free(p->resource_version);
	free(p->resource_version_match);
	free(p->continue_token);
	free(p->propagation_policy);
	free(p->include_object);
	free(p->send_initial_events);
	*p = (struct params){0};
}

static struct span trim(struct span s)
{
	while (s.len && (*s.at == ' ' || *s.at == '\t'))
		s = skip(s, 1);
	while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
		s.len--;
	return s;
}

static bool acceptable(struct span media)
{
	return span_is(media, "application/json") || span_is(media, "*/*") || span_is(media, "application/*");
}

/* One alternative of Accept: true if we can answer so. */
static bool accept_one(struct span one, enum form *ret)
{
	struct span media = before(one, ';'), as = {0}, group = {0}, version = {0};
	struct span rest = skip(one, media.len + 1);
	while (rest.len) {
		struct span parameter = before(rest, ';'), p = trim(parameter), name = before(p, '=');
		struct span value = skip(p, name.len + 1);
		if (span_is(name, "as"))
			as = value;
		else if (span_is(name, "g"))
			group = value;
		else if (span_is(name, "v"))
			version = value;
		rest = skip(rest, parameter.len + 1);
	}
	if (!acceptable(trim(media)))
		return false;
	*ret = FORM_OBJECT;
	if (!as.at)
		return true;
	if (!span_is(group, "meta.k8s.io") || !span_is(version, "v1"))
		return false;
	if (span_is(as, "Table"))
		*ret = FORM_TABLE;
	else if (span_is(as, "PartialObjectMetadata") || span_is(as, "PartialObjectMetadataList"))
		*ret = FORM_METADATA;
	else
		return false;
	return true;
}

int accept_form(const char *accept, enum form *ret, struct failure *f)
{
	struct span rest = span_of(accept);
	*ret = FORM_OBJECT;
	if (!rest.len)
		return 0;
	while (rest.len) {
		struct span one = before(rest, ',');
		if (accept_one(trim(one), ret))
			return 0;
		rest = skip(rest, one.len + 1);
	}
	return fail(f, 406, "NotAcceptable", "only the following media types are accepted: application/json");
}
