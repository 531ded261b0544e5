#include "failure.h"
#include <stdio.h>

int fail(struct failure *f, int code, const char *reason, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
	va_end(ap);
	f->code = code;
	f->reason = reason;
	return -ECANCELED;
}

int fail_bad_request(struct failure *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
	va_end(ap);
	f->code = 400;
	f->reason = "BadRequest";
	return -ECANCELED;
}

static void details(struct failure *f, const char *group, const char *kind, struct span name)
{
	snprintf(f->group, sizeof(f->group), "%s", group);
	snprintf(f->kind, sizeof(f->kind), "%s", kind);
	snprintf(f->name, sizeof(f->name), SPAN_FMT, SPAN_ARG(name));
}

/* "deployments.apps", "configmaps" */
static const char *qualified(const char *group, const char *resource, char buf[600])
{
	snprintf(buf, 600, *group ? "%s.%s" : "%s", resource, group);
	return buf;
}

int fail_not_found(struct failure *f, const char *group, const char *resource, struct span name)
{
	char q[600];
	details(f, group, resource, name);
	return fail(f, 404, "NotFound", "%s \"" SPAN_FMT "\" not found", qualified(group, resource, q),
		    SPAN_ARG(name));
}

int fail_no_route(struct failure *f)
{
	f->bare = true;
	return fail(f, 404, "NotFound", "the server could not find the requested resource");
}

int fail_method(struct failure *f)
{
	f->bare = true;
	return fail(f, 405, "MethodNotAllowed",
		    "the server does not allow this method on the requested resource");
}

int fail_exists(struct failure *f, const char *group, const char *resource, struct span name)
{
	char q[600];
	details(f, group, resource, name);
	return fail(f, 409, "AlreadyExists", "%s \"" SPAN_FMT "\" already exists",
		    qualified(group, resource, q), SPAN_ARG(name));
}

int fail_conflict(struct failure *f, const char *group, const char *resource, struct span name,
		  const char *fmt, ...)
{
	char q[600], why[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	details(f, group, resource, name);
	return fail(f, 409, "Conflict", "Operation cannot be fulfilled on %s \"" SPAN_FMT "\": %s",
		    qualified(group, resource, q), SPAN_ARG(name), why);
}

int fail_forbidden(struct failure *f, const char *group, const char *resource, struct span name,
		   const char *fmt, ...)
{
	char q[600], why[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	details(f, group, resource, name);
	return fail(f, 403, "Forbidden", "%s \"" SPAN_FMT "\" is forbidden: %s",
		    qualified(group, resource, q), SPAN_ARG(name), why);
}

int fail_expired(struct failure *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
	va_end(ap);
	f->code = 410;
	f->reason = "Expired";
	return -ECANCELED;
}

int fail_too_large(struct failure *f, uint64_t version, uint64_t current)
{
	f->retry_after = 1;
	f->n_causes = 1;
	f->causes[0] =
	    (struct cause){.reason = "ResourceVersionTooLarge", .message = "Too large resource version"};
	return fail(f, 504, "Timeout", "Timeout: Too large resource version: %llu, current: %llu",
		    (unsigned long long)version, (unsigned long long)current);
}

void invalid(struct failure *f, const char *reason, const char *field, const char *fmt, ...)
{
	if (f->n_causes == FAILURE_CAUSES_MAX)
		return;
	struct cause *c = &f->causes[f->n_causes++];
	c->reason = reason;
	snprintf(c->field, sizeof(c->field), "%s", field);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->message, sizeof(c->message), fmt, ap);
	va_end(ap);
}

int invalid_done(struct failure *f, const char *group, const char *kind, struct span name)
{
	if (!f->n_causes)
		return 0;
	details(f, group, kind, name);
	char q[600];
	int code = fail(f, 422, "Invalid", "%s \"" SPAN_FMT "\" is invalid: ", qualified(group, kind, q),
			SPAN_ARG(name));
	size_t at = strlen(f->message);
	for (size_t i = 0; i < f->n_causes && at < sizeof(f->message); i++) {
		const struct cause *c = &f->causes[i];
		const char *open = f->n_causes > 1 && i == 0 ? "[" : "",
			   *next = i + 1 < f->n_causes ? ", " : "";
		const char *close = f->n_causes > 1 && i + 1 == f->n_causes ? "]" : "";
		at += (size_t)snprintf(f->message + at, sizeof(f->message) - at, "%s%s: %s%s%s", open,
				       c->field, c->message, next, close);
	}
	return code;
}

static void member(struct buf *out, const char *key, const char *value, bool *first)
{
	if (!*value)
		return;
	buf_printf(out, "%s\"%s\":", *first ? "" : ",", key);
	buf_json_string(out, span_of(value));
	*first = false;
}

static void print_details(const struct failure *f, struct buf *out)
{
	bool first = true;
	buf_puts(out, ",\"details\":{");
	member(out, "name", f->name, &first);
	member(out, "group", f->group, &first);
	member(out, "kind", f->kind, &first);
	member(out, "uid", f->uid, &first);
	if (f->n_causes) {
		buf_printf(out, "%s\"causes\":[", first ? "" : ",");
		for (size_t i = 0; i < f->n_causes; i++) {
			bool head = true;
			buf_puts(out, i ? ",{" : "{");
			member(out, "reason", f->causes[i].reason, &head);
			member(out, "message", f->causes[i].message, &head);
			member(out, "field", f->causes[i].field, &head);
			buf_putc(out, '}');
		}
		buf_putc(out, ']');
		first = false;
	}
	if (f->retry_after)
		buf_printf(out, "%s\"retryAfterSeconds\":%d", first ? "" : ",", f->retry_after);
	buf_putc(out, '}');
}

void failure_print(const struct failure *f, struct buf *out)
{
	buf_puts(
	    out,
	    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":");
	buf_json_string(out, span_of(f->message));
	buf_printf(out, ",\"reason\":\"%s\"", f->reason);
	if (*f->name || *f->kind || *f->uid || f->n_causes || f->retry_after || f->bare)
		print_details(f, out);
	buf_printf(out, ",\"code\":%d}", f->code);
}
