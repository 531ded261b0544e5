#include "request.h"
#include "json_scan.h"

char *request_kind_key(const char *api_version, const char *kind)
{
	return xasprintf("%s.%s", kind, api_version);
}

static void kinds_done(struct request_kind *k, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(k[i].key);
		buf_done(&k[i].full);
		buf_done(&k[i].names);
	}
	free(k);
}

void request_done(struct request *r)
{
	kinds_done(r->children, r->children_count);
	kinds_done(r->related, r->related_count);
	buf_done(&r->object);
	*r = (struct request){0};
}

static struct request_kind *add_kind(struct request_kind **list, size_t *count, const struct config_kind *k)
{
	char *key = request_kind_key(k->api_version, k->kind);
	for (size_t i = 0; i < *count; i++)
		if (strcmp((*list)[i].key, key) == 0) {
			free(key);
			return &(*list)[i];
		}
	*list = xrealloc(*list, (*count + 1) * sizeof(**list));
	struct request_kind *e = &(*list)[(*count)++];
	*e = (struct request_kind){
	    .key = key, .full = {.limit = REQUEST_MAX}, .names = {.limit = REQUEST_MAX}};
	return e;
}

struct request_kind *request_children(struct request *r, const struct config_kind *k)
{
	return add_kind(&r->children, &r->children_count, k);
}

struct request_kind *request_related(struct request *r, const struct config_kind *k)
{
	return add_kind(&r->related, &r->related_count, k);
}

static void add_key(struct buf *b, struct span namespace, struct span name)
{
	char key[KEY_MAX_LEN];
	size_t n = 0;
	if (b->len)
		buf_putc(b, ',');
	if (namespace.len && namespace.len < sizeof(key)) {
		memcpy(key, namespace.at, namespace.len);
		key[namespace.len] = '/';
		n = namespace.len + 1;
	}
	size_t room = MIN(name.len, sizeof(key) - n);
	memcpy(key + n, name.at, room);
	buf_json_string(b, (struct span){key, n + room});
	buf_putc(b, ':');
}

void request_add(struct request_kind *k, struct span namespace, struct span name, struct span object)
{
	add_key(&k->full, namespace, name);
	buf_span_add(&k->full, object);
	add_key(&k->names, namespace, name);
	buf_puts(&k->names, "null");
}

/* ---- the line ---- */

static void member(struct buf *b, const char *name)
{
	buf_printf(b, ",\"%s\":", name);
}

static void text_member(struct buf *b, const char *name, struct span text)
{
	member(b, name);
	buf_json_string(b, text);
}

static void print_kinds(struct buf *b, const char *name, const struct request_kind *k, size_t n, bool names)
{
	member(b, name);
	buf_putc(b, '{');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(b, ',');
		buf_json_string(b, span_of(k[i].key));
		buf_puts(b, ":{");
		if (!names &&
		    buf_failed(&k[i].full)) /* did not fit into its own buffer: neither into the line */
			b->failed = true;
		buf_span_add(b, buf_span(names ? &k[i].names : &k[i].full));
		b->failed |= names && buf_failed(&k[i].names);
		buf_putc(b, '}');
	}
	buf_putc(b, '}');
}

static void print_reason(struct buf *b, const struct wire_add_key *k, const struct config_kind *of)
{
	buf_puts(b, "{\"event\":");
	buf_json_string(b, span_of(wire_cause_name(k->cause)));
	/* "Deployment.apps/v1" is kind and apiVersion: a kind has no dot. Without one it is the object itself. */
	const char *dot = k->cause_kind.len ? memchr(k->cause_kind.at, '.', k->cause_kind.len) : NULL;
	size_t kind = dot ? (size_t)(dot - k->cause_kind.at) : 0;
	bool has_object = dot || k->cause != WIRE_CAUSE_OPERATOR;
	if (has_object) {
		text_member(b, "apiVersion",
			    dot ? (struct span){dot + 1, k->cause_kind.len - kind - 1}
				: span_of(of->api_version));
		text_member(b, "kind", dot ? (struct span){k->cause_kind.at, kind} : span_of(of->kind));
		if (k->cause_namespace.len)
			text_member(b, "namespace", k->cause_namespace);
		text_member(b, "name", k->cause_name);
	}
	buf_putc(b, '}');
}

static void print_reasons(struct buf *b, const struct request *r)
{
	member(b, "reasons");
	buf_putc(b, '[');
	for (size_t i = 0; i < r->reason_count; i++) {
		if (i)
			buf_putc(b, ',');
		print_reason(b, &r->reasons[i], r->of);
	}
	buf_putc(b, ']');
}

static void print_last_error(struct buf *b, const struct request *r)
{
	member(b, "lastError");
	if (!r->attempt) {
		buf_puts(b, "null");
		return;
	}
	buf_puts(b, "{\"type\":");
	buf_json_string(b, span_of(wire_outcome_name(r->last_outcome)));
	text_member(b, "reason", r->last_reason);
	text_member(b, "message", r->last_message);
	buf_putc(b, '}');
}

static void print_line(const struct request *r, bool related_names, bool children_names, struct buf *b)
{
	char deadline[21];
	buf_puts(b, "{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"ReconcileRequest\"");
	text_member(b, "uid", r->uid);
	text_member(b, "controller", span_of(r->controller));
	member(b, "request");
	buf_putc(b, '{');
	if (r->namespace.len) {
		buf_puts(b, "\"namespace\":");
		buf_json_string(b, r->namespace);
		buf_putc(b, ',');
	}
	buf_puts(b, "\"name\":");
	buf_json_string(b, r->name);
	buf_putc(b, '}');
	member(b, "object");
	buf_span_add(b, r->object.len ? buf_span(&r->object) : span_of("null"));
	buf_printf(b, ",\"finalizing\":%s,\"dryRun\":false", r->finalizing ? "true" : "false");
	if (r->with_children)
		print_kinds(b, "children", r->children, r->children_count, children_names);
	if (r->with_related)
		print_kinds(b, "related", r->related, r->related_count, related_names);
	if (related_names || children_names)
		buf_puts(b, ",\"truncated\":true");
	buf_printf(b, ",\"attempt\":%u", r->attempt);
	print_last_error(b, r);
	buf_printf(b, ",\"timeoutSeconds\":%lld", (long long)((r->timeout_ns + NS_PER_S - 1) / NS_PER_S));
	text_member(b, "deadline", span_of(format_rfc3339(r->deadline_unix_s, deadline)));
	if (r->with_reasons)
		print_reasons(b, r);
	buf_puts(b, "}\n");
}

int request_print(struct request *r, struct buf *out, struct err *err)
{
	static const struct {
		bool related, children;
	} tries[] = {{false, false}, {true, false}, {true, true}};
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		if ((i == 1 && !r->with_related) || (i == 2 && !r->with_children))
			continue;
		_cleanup_(buf_done) struct buf line = {.limit = REQUEST_MAX};
		print_line(r, tries[i].related && r->with_related, tries[i].children && r->with_children,
			   &line);
		if (buf_failed(&line))
			continue;
		/* A newline can stand in JSON only between tokens; here it would end the line. */
		for (char *at = line.data; (at = memchr(at, '\n', line.len - 1 - (size_t)(at - line.data)));
		     at++)
			*at = ' ';
		r->truncated = i > 0;
		buf_span_add(out, buf_span(&line));
		return buf_failed(out) ? err_set(err, -ENOMEM, "request: out of memory") : 0;
	}
	return err_set(
	    err, -EMSGSIZE,
	    "the request for this key has more than %llu MiB even with names only; take objects out with "
	    "input.children: false or metadataOnly: true",
	    (unsigned long long)(REQUEST_MAX >> 20));
}
