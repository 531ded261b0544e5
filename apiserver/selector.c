#include "selector.h"
#include "names.h"

enum operator{ OP_IN, OP_NOT_IN, OP_EXISTS, OP_ABSENT };

struct requirement {
	char *key;
	enum operator op;
	char **values;
	size_t n_values;
};

struct selector {
	struct requirement list[REQUIREMENTS_MAX];
	size_t n, n_values;
};

void selector_free(struct selector *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		for (size_t j = 0; j < s->list[i].n_values; j++)
			free(s->list[i].values[j]);
		free(s->list[i].values);
		free(s->list[i].key);
	}
	free(s);
}

static struct requirement *add_requirement(struct selector *s, struct span key, enum operator op)
{
	struct requirement *r = &s->list[s->n++];
	*r = (struct requirement){.key = span_dup(key), .op = op};
	return r;
}

static void add_value(struct selector *s, struct requirement *r, struct span value)
{
	r->values = xrealloc(r->values, (r->n_values + 1) * sizeof(char *));
	r->values[r->n_values++] = span_dup(value);
	s->n_values++;
}

/* ---- labels ---- */

struct cursor {
	const char *at, *end;
};

static void blanks(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
		c->at++;
}

static bool accept(struct cursor *c, const char *token)
{
	size_t n = strlen(token);
	blanks(c);
	if ((size_t)(c->end - c->at) < n || memcmp(c->at, token, n) != 0)
		return false;
	c->at += n;
	return true;
}

static struct span word(struct cursor *c)
{
	blanks(c);
	const char *start = c->at;
	while (c->at < c->end && !strchr(" \t,()=!<>", *c->at))
		c->at++;
	return (struct span){start, (size_t)(c->at - start)};
}

static const char *parse_set(struct cursor *c, struct selector *s, struct requirement *r)
{
	if (!accept(c, "("))
		return "a list in parentheses must follow 'in' and 'notin'";
	do {
		struct span value = word(c);
		if (!kube_is_label_value(value))
			return "a value is not a valid label value";
		if (s->n_values == SELECTOR_VALUES_MAX)
			return "more than 256 values";
		add_value(s, r, value);
	} while (accept(c, ","));
	return accept(c, ")") ? NULL : "')' is missing";
}

static const char *parse_value(struct cursor *c, struct selector *s, struct span key, enum operator op)
{
	struct span value = word(c);
	if (!kube_is_label_value(value))
		return "a value is not a valid label value";
	add_value(s, add_requirement(s, key, op), value);
	return NULL;
}

static const char *parse_requirement(struct cursor *c, struct selector *s)
{
	if (s->n == REQUIREMENTS_MAX)
		return "more than 64 requirements";
	bool absent = accept(c, "!");
	struct span key = word(c);
	if (!kube_is_qualified_name(key))
		return "a key is not a valid label name";
	if (absent) {
		add_requirement(s, key, OP_ABSENT);
		return NULL;
	}
	if (accept(c, "!="))
		return parse_value(c, s, key, OP_NOT_IN);
	if (accept(c, "==") || accept(c, "="))
		return parse_value(c, s, key, OP_IN);
	struct cursor ahead = *c;
	struct span op = word(&ahead);
	if (span_is(op, "in") || span_is(op, "notin")) {
		*c = ahead;
		return parse_set(c, s, add_requirement(s, key, op.len == 2 ? OP_IN : OP_NOT_IN));
	}
	add_requirement(s, key, OP_EXISTS);
	return NULL;
}

int selector_parse_labels(struct span text, struct selector **ret, struct failure *f)
{
	struct cursor c = {text.at, text.at + text.len};
	blanks(&c);
	if (c.at == c.end) {
		*ret = NULL;
		return 0;
	}
	struct selector *s = xcalloc(1, sizeof(*s));
	const char *wrong;
	do
		wrong = parse_requirement(&c, s);
	while (!wrong && accept(&c, ","));
	blanks(&c);
	if (!wrong && c.at != c.end)
		wrong = "something follows that is no requirement";
	if (wrong) {
		selector_free(s);
		return fail_bad_request(f,
					"unable to parse requirement in labelSelector \"" SPAN_FMT "\": %s",
					(int)MIN(text.len, (size_t)512), text.at, wrong);
	}
	*ret = s;
	return 0;
}

/* Whether the value (absent: not there) satisfies the requirement. Labels and fields differ in what "not
 * there" is. */
static bool satisfied(const struct requirement *r, bool present, struct span value)
{
	bool listed = false;
	for (size_t i = 0; present && i < r->n_values && !listed; i++)
		listed = span_is(value, r->values[i]);
	switch (r->op) {
	case OP_IN:
		return listed;
	case OP_NOT_IN:
		return !listed;
	case OP_EXISTS:
		return present;
	case OP_ABSENT:
		return !present;
	}
	return false;
}

bool selector_match_labels(const struct selector *s, const struct object *o)
{
	for (size_t i = 0; s && i < s->n; i++) {
		struct span value = {0};
		struct span json = json_get(o->labels, s->list[i].key);
		/* Label values need no escapes, but a client may have written some. */
		_cleanup_(buf_done) struct buf plain = {0};
		bool present = json_type_of(json) == JSON_STRING;
		if (present && json_string_raw(json, &value) < 0) {
			json_unescape(json, &plain);
			value = buf_span(&plain);
		}
		if (!satisfied(&s->list[i], present, value))
			return false;
	}
	return true;
}

/* ---- fields ---- */

static const struct {
	const char *group, *plural, *field;
} known_fields[] = {
    {"", "pods", "spec.nodeName"},
    {"", "pods", "spec.restartPolicy"},
    {"", "pods", "spec.schedulerName"},
    {"", "pods", "spec.serviceAccountName"},
    {"", "pods", "status.phase"},
    {"", "pods", "status.podIP"},
    {"", "pods", "status.nominatedNodeName"},
    {"", "nodes", "spec.unschedulable"},
    {"", "namespaces", "status.phase"},
    {"", "secrets", "type"},
    {"", "events", "involvedObject.kind"},
    {"", "events", "involvedObject.namespace"},
    {"", "events", "involvedObject.name"},
    {"", "events", "involvedObject.uid"},
    {"", "events", "involvedObject.apiVersion"},
    {"", "events", "involvedObject.resourceVersion"},
    {"", "events", "involvedObject.fieldPath"},
    {"", "events", "reason"},
    {"", "events", "reportingComponent"},
    {"", "events", "source"},
    {"", "events", "type"},
    {"events.k8s.io", "events", "regarding.kind"},
    {"events.k8s.io", "events", "regarding.namespace"},
    {"events.k8s.io", "events", "regarding.name"},
    {"events.k8s.io", "events", "regarding.uid"},
    {"events.k8s.io", "events", "reason"},
    {"events.k8s.io", "events", "reportingController"},
    {"events.k8s.io", "events", "type"},
    {"batch", "jobs", "status.successful"},
    {"apps", "replicasets", "status.replicas"},
};

static bool field_known(const struct definition *def, struct span field)
{
	if (span_is(field, "metadata.name") ||
	    (span_is(field, "metadata.namespace") && def->scope == NAMESPACED))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(known_fields); i++)
		if (!strcmp(known_fields[i].group, def->group) &&
		    !strcmp(known_fields[i].plural, def->plural) && span_is(field, known_fields[i].field))
			return true;
	return false;
}

/* Objects are kept with the core names: what the events.k8s.io names stand for. */
static char *stored_field(const struct definition *def, struct span field)
{
	if (def->flags & ALIAS) {
		if (span_is(field, "reportingController"))
			return xstrdup("reportingComponent");
		if (field.len > 10 && !memcmp(field.at, "regarding.", 10))
			return xasprintf("involvedObject." SPAN_FMT, (int)field.len - 10, field.at + 10);
	}
	return span_dup(field);
}

/* The end of a term: the next comma that is not escaped. */
static size_t term_length(const char *at, size_t len)
{
	size_t i = 0;
	while (i < len && at[i] != ',')
		i += at[i] == '\\' && i + 1 < len ? 2 : 1;
	return MIN(i, len);
}

static int field_term(struct selector *s, const struct definition *def, struct span term, struct failure *f)
{
	const char *eq = memchr(term.at, '=', term.len);
	if (!eq || eq == term.at)
		return fail_bad_request(f, "invalid field selector: \"" SPAN_FMT "\": '=' or '!=' is missing",
					(int)MIN(term.len, (size_t)256), term.at);
	bool differs = eq[-1] == '!';
	struct span field = {term.at, (size_t)(eq - term.at) - differs};
	const char *value = eq + 1;
	if (!differs && value < term.at + term.len && *value == '=')
		value++;
	if (!field_known(def, field))
		return fail_bad_request(f, "field label not supported: " SPAN_FMT,
					(int)MIN(field.len, (size_t)256), field.at);
	if (s->n == REQUIREMENTS_MAX)
		return fail_bad_request(f, "invalid field selector: more than 64 requirements");
	_cleanup_(buf_done) struct buf plain = {0};
	for (const char *p = value; p < term.at + term.len; p++) {
		if (*p == '\\' && p + 1 < term.at + term.len)
			p++;
		buf_putc(&plain, *p);
	}
	struct requirement *r = &s->list[s->n++];
	*r = (struct requirement){.key = stored_field(def, field), .op = differs ? OP_NOT_IN : OP_IN};
	add_value(s, r, buf_span(&plain));
	return 0;
}

int selector_parse_fields(struct span text, const struct definition *def, struct selector **ret,
			  struct failure *f)
{
	struct selector *s = NULL;
	for (size_t at = 0; at < text.len;) {
		size_t n = term_length(text.at + at, text.len - at);
		if (n) {
			if (!s)
				s = xcalloc(1, sizeof(*s));
			int r = field_term(s, def, (struct span){text.at + at, n}, f);
			if (r < 0) {
				selector_free(s);
				return r;
			}
		}
		at += n + 1;
	}
	*ret = s;
	return 0;
}

static struct span field_value(const struct object *o, const char *field, struct buf *scratch)
{
	if (!strcmp(field, "metadata.name"))
		return span_of(o->name);
	if (!strcmp(field, "metadata.namespace"))
		return span_of(o->namespace);
	struct span at = o->text;
	for (const char *p = field; *p;) {
		size_t n = strcspn(p, ".");
		_cleanup_(free_ptr) char *key = span_dup((struct span){p, n});
		at = json_type_of(at) == JSON_OBJECT ? json_get(at, key) : (struct span){0};
		p += n + (p[n] == '.');
	}
	if (json_type_of(at) == JSON_STRING) {
		json_unescape(at, scratch);
		return buf_span(scratch);
	}
	return at.at ? at : span_of("");
}

bool selector_match_fields(const struct selector *s, const struct object *o)
{
	for (size_t i = 0; s && i < s->n; i++) {
		_cleanup_(buf_done) struct buf scratch = {0};
		if (!satisfied(&s->list[i], true, field_value(o, s->list[i].key, &scratch)))
			return false;
	}
	return true;
}
