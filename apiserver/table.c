#include "table.h"
#include <stdio.h>
#include <time.h>

/* Built-in kinds that say more than NAME and AGE. */
static const struct builtin_column {
	const char *group, *plural, *name, *type, *path;
} builtin_columns[] = {
    {"", "namespaces", "Status", "string", ".status.phase"},
    {"", "configmaps", "Data", "count", ".data"},
    {"", "secrets", "Type", "string", ".type"},
    {"", "secrets", "Data", "count", ".data"},
    {"", "services", "Type", "string", ".spec.type"},
    {"", "services", "Cluster-IP", "string", ".spec.clusterIP"},
    {"", "services", "Port", "string", ".spec.ports[0].port"},
    {"", "pods", "Status", "string", ".status.phase"},
    {"", "nodes", "Version", "string", ".status.nodeInfo.kubeletVersion"},
    {"", "events", "Type", "string", ".type"},
    {"", "events", "Reason", "string", ".reason"},
    {"", "events", "Object", "string", ".involvedObject.name"},
    {"", "events", "Message", "string", ".message"},
    {"events.k8s.io", "events", "Type", "string", ".type"},
    {"events.k8s.io", "events", "Reason", "string", ".reason"},
    {"events.k8s.io", "events", "Object", "string", ".involvedObject.name"},
    {"events.k8s.io", "events", "Note", "string", ".message"},
    {"apps", "deployments", "Replicas", "integer", ".spec.replicas"},
    {"apps", "deployments", "Ready", "integer", ".status.readyReplicas"},
    {"apps", "deployments", "Available", "integer", ".status.availableReplicas"},
    {"apps", "statefulsets", "Replicas", "integer", ".spec.replicas"},
    {"apps", "statefulsets", "Ready", "integer", ".status.readyReplicas"},
    {"apps", "replicasets", "Desired", "integer", ".spec.replicas"},
    {"apps", "replicasets", "Ready", "integer", ".status.readyReplicas"},
    {"batch", "jobs", "Succeeded", "integer", ".status.succeeded"},
    {"coordination.k8s.io", "leases", "Holder", "string", ".spec.holderIdentity"},
    {"apiextensions.k8s.io", "customresourcedefinitions", "Created At", "string",
     ".metadata.creationTimestamp"},
};

const char *table_age(int64_t s, char buf[32])
{
	int64_t m = s / 60, h = m / 60, d = h / 24, y = d / 365;
	if (s < 0)
		snprintf(buf, 32, "%s", s < -1 ? "<invalid>" : "0s");
	else if (s < 120)
		snprintf(buf, 32, "%llds", (long long)s);
	else if (m < 10)
		snprintf(buf, 32, s % 60 ? "%lldm%llds" : "%lldm", (long long)m, (long long)(s % 60));
	else if (m < 180)
		snprintf(buf, 32, "%lldm", (long long)m);
	else if (h < 8)
		snprintf(buf, 32, m % 60 ? "%lldh%lldm" : "%lldh", (long long)h, (long long)(m % 60));
	else if (h < 48)
		snprintf(buf, 32, "%lldh", (long long)h);
	else if (h < 192)
		snprintf(buf, 32, h % 24 ? "%lldd%lldh" : "%lldd", (long long)d, (long long)(h % 24));
	else if (d < 730)
		snprintf(buf, 32, "%lldd", (long long)d);
	else
		snprintf(buf, 32, d % 365 ? "%lldy%lldd" : "%lldy", (long long)y, (long long)(d % 365));
	return buf;
}

/* ---- paths ---- */

static struct span element(struct span array, size_t index)
{
	struct json_iter it = {0};
	struct span key, value;
	while (json_type_of(array) == JSON_ARRAY && json_each(array, &it, &key, &value))
		if (index-- == 0)
			return value;
	return (struct span){0};
}

/* [?(@.type=="Ready")]: the first element whose member is that text. */
static struct span filtered(struct span array, const char *expression, size_t len)
{
	_cleanup_(free_ptr) char *text = span_dup((struct span){expression, len});
	char name[64], wanted[128];
	if (sscanf(text, "?(@.%63[A-Za-z0-9]%*[ =]%*[\"']%127[^\"']", name, wanted) != 2)
		return (struct span){0};
	struct json_iter it = {0};
	struct span key, value;
	while (json_type_of(array) == JSON_ARRAY && json_each(array, &it, &key, &value))
		if (json_type_of(value) == JSON_OBJECT && json_string_is(json_get(value, name), wanted))
			return value;
	return (struct span){0};
}

static struct span named(struct span object, const char *name, size_t len)
{
	_cleanup_(free_ptr) char *key = xmalloc(len + 1);
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		if (name[i] == '\\' && i + 1 < len)
			i++;
		key[n++] = name[i];
	}
	key[n] = 0;
	return json_type_of(object) == JSON_OBJECT ? json_get(object, key) : (struct span){0};
}

static struct span bracket(struct span at, const char *inside, size_t len)
{
	if (len > 2 && (*inside == '\'' || *inside == '"'))
		return named(at, inside + 1, len - 2);
	if (*inside == '?')
		return filtered(at, inside, len);
	if (*inside == '*')
		return element(at, 0);
	return *inside >= '0' && *inside <= '9' ? element(at, strtoul(inside, NULL, 10)) : (struct span){0};
}

struct span table_value(struct span object, const char *path)
{
	struct span at = object;
	for (const char *p = path; *p && at.at;) {
		if (*p == '[') {
			const char *end = strchr(p, ']');
			if (!end || end == p + 1)
				return (struct span){0};
			at = bracket(at, p + 1, (size_t)(end - p - 1));
			p = end + 1;
			continue;
		}
		p += *p == '.';
		size_t n = 0;
		while (p[n] && p[n] != '.' && p[n] != '[')
			n += p[n] == '\\' && p[n + 1] ? 2 : 1;
		if (n)
			at = named(at, p, n);
		p += n;
	}
	return at;
}

/* ---- cells ---- */

static int64_t parse_time(struct span json)
{
	struct tm tm = {0};
	struct span text;
	char buf[32];
	if (json_string_raw(json, &text) < 0 || text.len >= sizeof(buf))
		return -1;
	snprintf(buf, sizeof(buf), SPAN_FMT, SPAN_ARG(text));
	return strptime(buf, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) : -1;
}

static void cell_age(struct buf *out, struct span time, int64_t now)
{
	char age[32];
	int64_t then = parse_time(time);
	buf_printf(out, "\"%s\"", then < 0 ? "<unknown>" : table_age(now - then, age));
}

static int64_t count_of(struct span container)
{
	struct json_iter it = {0};
	struct span key, value;
	int64_t n = 0;
	while (container.at && json_each(container, &it, &key, &value))
		n++;
	return n;
}

/* Values of another type than the column's are shown as their text: a table must not fail over an odd
 * object. */
static void cell(struct buf *out, const char *type, struct span value, int64_t now)
{
	enum json_type is = value.at ? json_type_of(value) : JSON_NULL;
	if (!strcmp(type, "count")) {
		buf_printf(out, "%lld",
			   (long long)(is == JSON_OBJECT || is == JSON_ARRAY ? count_of(value) : 0));
	} else if (is == JSON_NULL || is == JSON_NONE) {
		buf_puts(out, !strcmp(type, "integer") || !strcmp(type, "number") || !strcmp(type, "boolean")
				  ? "null"
				  : "\"\"");
	} else if (!strcmp(type, "date")) {
		cell_age(out, value, now);
	} else if (is == JSON_OBJECT || is == JSON_ARRAY || (is != JSON_STRING && !strcmp(type, "string"))) {
		buf_json_string(out, value);
	} else {
		buf_span_add(out, value);
	}
}

static const char *shown_type(const char *type)
{
	return !strcmp(type, "count") ? "integer" : !strcmp(type, "date") ? "string" : type;
}

static void column(struct buf *out, const char *name, const char *type, const char *format,
		   const char *description, int64_t priority)
{
	buf_puts(out, "{\"name\":");
	buf_json_string(out, span_of(name));
	buf_puts(out, ",\"type\":");
	buf_json_string(out, span_of(shown_type(type)));
	buf_printf(out, ",\"format\":\"%s\",\"description\":", format);
	buf_json_string(out, span_of(description ? description : ""));
	buf_printf(out, ",\"priority\":%lld}", (long long)priority);
}

static bool builtin_has(const struct view *v, const struct builtin_column *c)
{
	return !strcmp(c->group, v->def->group) && !strcmp(c->plural, v->def->plural);
}

void table_columns(struct buf *out, const struct view *v)
{
	bool age = true;
	buf_puts(out, "\"columnDefinitions\":[");
	column(out, "Name", "string", "name", "Name must be unique within a namespace.", 0);
	for (size_t i = 0; i < v->version->n_columns; i++) {
		const struct column *c = &v->version->columns[i];
		age &= strcasecmp(c->name, "age") != 0;
		buf_putc(out, ',');
		column(out, c->name, c->type, "", c->description, c->priority);
	}
	for (size_t i = 0; v->def->builtin && i < ARRAY_SIZE(builtin_columns); i++) {
		if (!builtin_has(v, &builtin_columns[i]))
			continue;
		buf_putc(out, ',');
		column(out, builtin_columns[i].name, builtin_columns[i].type, "", "", 0);
	}
	if (age) {
		buf_putc(out, ',');
		column(out, "Age", "date", "", "Time since creation.", 0);
	}
	buf_putc(out, ']');
}

void table_row(struct buf *out, const struct view *v, const struct object *o, int64_t now)
{
	bool age = true;
	buf_puts(out, "{\"cells\":[");
	buf_json_string(out, span_of(o->name));
	for (size_t i = 0; i < v->version->n_columns; i++) {
		const struct column *c = &v->version->columns[i];
		age &= strcasecmp(c->name, "age") != 0;
		buf_putc(out, ',');
		cell(out, c->type, table_value(o->text, c->path), now);
	}
	for (size_t i = 0; v->def->builtin && i < ARRAY_SIZE(builtin_columns); i++) {
		if (!builtin_has(v, &builtin_columns[i]))
			continue;
		buf_putc(out, ',');
		cell(out, builtin_columns[i].type, table_value(o->text, builtin_columns[i].path), now);
	}
	if (age) {
		buf_putc(out, ',');
		cell_age(out, json_get(o->metadata, "creationTimestamp"), now);
	}
	buf_puts(out, "],\"object\":");
	encode_as(out, v, FORM_METADATA, o, false, now);
	buf_putc(out, '}');
}
