#include "sdk.h"
#include <stdio.h>

/* ---- lists under construction ---- */

static struct buf *list_add(struct sdk_list *list, const char *name)
{
	for (size_t i = 0; name && i < list->count; i++)
		if (strcmp(list->at[i].name, name) == 0) {
			buf_reset(&list->at[i].json);
			return &list->at[i].json;
		}
	list->at = xrealloc(list->at, (list->count + 1) * sizeof *list->at);
	struct sdk_named *n = &list->at[list->count++];
	*n = (struct sdk_named){.name = name ? xstrdup(name) : NULL, .json = {.limit = SDK_RESPONSE_MAX}};
	return &n->json;
}

static void list_done(struct sdk_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->at[i].name);
		buf_done(&list->at[i].json);
	}
	free(list->at);
}

void sdk_response_done(struct reconcile_response *res)
{
	list_done(&res->status);
	list_done(&res->conditions);
	list_done(&res->children);
	list_done(&res->events);
}

static void bug(struct reconcile_response *res, const char *where, const char *what)
{
	if (!*res->bug)
		snprintf(res->bug, sizeof res->bug, "%s: %s", where, what);
}

static void _printf_(2, 0) add_message(struct buf *out, const char *format, va_list ap)
{
	_cleanup_(buf_done) struct buf text = {.limit = SDK_RESPONSE_MAX};
	buf_vprintf(&text, format, ap);
	buf_json_string(out, buf_span(&text));
	out->failed |= buf_failed(&text);
}

/* ---- what a handler says ---- */

void reconcile_status(struct reconcile_response *res, const char *field, const char *template, ...)
{
	struct err err = {{0}};
	va_list ap;
	va_start(ap, template);
	if (sdk_template(list_add(&res->status, field), &err, template, ap) < 0)
		bug(res, "reconcile_status", err.text);
	va_end(ap);
}

void reconcile_child_add(struct reconcile_response *res, const char *template, ...)
{
	struct err err = {{0}};
	va_list ap;
	res->children_managed = true;
	struct buf *out = list_add(&res->children, NULL);
	va_start(ap, template);
	if (sdk_template(out, &err, template, ap) < 0)
		bug(res, "reconcile_child_add", err.text);
	else if (json_type_of(buf_span(out)) != JSON_OBJECT)
		bug(res, "reconcile_child_add", "the template is no object");
	va_end(ap);
}

void reconcile_children_managed(struct reconcile_response *res)
{
	res->children_managed = true;
}

void reconcile_condition(struct reconcile_response *res, const char *type, enum reconcile_truth truth,
			 const char *reason, const char *message, ...)
{
	static const char *const status[] = {
	    [RECONCILE_FALSE] = "False", [RECONCILE_TRUE] = "True", [RECONCILE_UNKNOWN] = "Unknown"};
	struct buf *out = list_add(&res->conditions, type);
	buf_puts(out, "{\"type\":");
	buf_json_string(out, span_of(type));
	buf_printf(out, ",\"status\":\"%s\",\"reason\":", status[truth]);
	buf_json_string(out, span_of(reason));
	buf_puts(out, ",\"message\":");
	va_list ap;
	va_start(ap, message);
	add_message(out, message, ap);
	va_end(ap);
	buf_putc(out, '}');
}

void reconcile_event(struct reconcile_response *res, const char *type, const char *reason,
		     const char *message, ...)
{
	struct buf *out = list_add(&res->events, NULL);
	buf_puts(out, "{\"type\":");
	buf_json_string(out, span_of(type));
	buf_puts(out, ",\"reason\":");
	buf_json_string(out, span_of(reason));
	buf_puts(out, ",\"message\":");
	va_list ap;
	va_start(ap, message);
	add_message(out, message, ap);
	va_end(ap);
	buf_putc(out, '}');
}

void reconcile_requeue_after_ms(struct reconcile_response *res, int64_t milliseconds)
{
	if (milliseconds <= 0)
		bug(res, "reconcile_requeue_after_ms", "not a positive time");
	res->requeue_after_ms = milliseconds;
}

void reconcile_requeue(struct reconcile_response *res)
{
	res->requeue = true;
}

void reconcile_priority(struct reconcile_response *res, int priority)
{
	res->has_priority = true;
	res->priority = priority;
}

void reconcile_finalized(struct reconcile_response *res)
{
	res->finalized = true;
}

int reconcile_error(struct reconcile_response *res, enum reconcile_error_type type, const char *reason,
		    const char *message, ...)
{
	res->has_error = true;
	res->error_type = type;
	snprintf(res->error_reason, sizeof res->error_reason, "%s", reason);
	va_list ap;
	va_start(ap, message);
	vsnprintf(res->error_message, sizeof res->error_message, message, ap);
	va_end(ap);
	return -1;
}

void reconcile_retry_after_ms(struct reconcile_response *res, int64_t milliseconds)
{
	res->retry_after_ms = milliseconds;
}

void reconcile_pause_controller(struct reconcile_response *res)
{
	res->pause_controller = true;
}

/* ---- how it is written ---- */

static void print_list(struct buf *out, const char *name, const struct sdk_list *list)
{
	buf_printf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < list->count; i++) {
		buf_puts(out, i ? "," : "");
		buf_span_add(out, buf_span(&list->at[i].json));
		out->failed |= buf_failed(&list->at[i].json);
	}
	buf_putc(out, ']');
}

static void print_status(struct buf *out, const struct sdk_list *status)
{
	buf_puts(out, ",\"status\":{");
	for (size_t i = 0; i < status->count; i++) {
		buf_puts(out, i ? "," : "");
		buf_json_string(out, span_of(status->at[i].name));
		buf_putc(out, ':');
		buf_span_add(out, buf_span(&status->at[i].json));
	}
	buf_putc(out, '}');
}

static void print_error(struct buf *out, const struct reconcile_response *res)
{
	static const char *const types[] = {[RECONCILE_TRANSIENT] = "Transient",
					    [RECONCILE_NOT_READY] = "NotReady",
					    [RECONCILE_THROTTLED] = "Throttled",
					    [RECONCILE_CONFLICT] = "Conflict",
					    [RECONCILE_TERMINAL] = "Terminal"};
	buf_printf(out, ",\"error\":{\"type\":\"%s\",\"reason\":", types[res->error_type]);
	buf_json_string(out, span_of(res->error_reason));
	buf_puts(out, ",\"message\":");
	buf_json_string(out, span_of(res->error_message));
	if (res->retry_after_ms > 0)
		buf_printf(out, ",\"retryAfter\":\"%lldms\"", (long long)res->retry_after_ms);
	if (res->pause_controller && res->error_type == RECONCILE_THROTTLED)
		buf_puts(out, ",\"scope\":\"Controller\"");
	buf_putc(out, '}');
}

static void print_result(struct buf *out, const struct reconcile_response *res)
{
	const char *comma = "";
	buf_puts(out, ",\"result\":{");
	if (res->requeue_after_ms > 0 && !res->has_error) {
		buf_printf(out, "\"requeueAfter\":\"%lldms\"", (long long)res->requeue_after_ms);
		comma = ",";
	} else if (res->requeue && !res->has_error) {
		buf_puts(out, "\"requeue\":true");
		comma = ",";
	}
	if (res->has_priority)
		buf_printf(out, "%s\"priority\":%d", comma, res->priority);
	buf_putc(out, '}');
}

static void print_all(const struct reconcile_response *res, struct reconcile_request *req, struct buf *out)
{
	buf_puts(out, "{\"apiVersion\":\"" SDK_VERSION "\",\"kind\":\"ReconcileResponse\",\"uid\":");
	buf_json_string(out, span_of(reconcile_uid(req)));
	if (res->has_priority || res->requeue || res->requeue_after_ms > 0)
		print_result(out, res);
	if (res->has_error)
		print_error(out, res);
	if (res->status.count)
		print_status(out, &res->status);
	if (res->conditions.count)
		print_list(out, "conditions", &res->conditions);
	if (res->children_managed && !res->has_error)
		print_list(out, "children", &res->children);
	if (res->finalized && !res->has_error)
		buf_puts(out, ",\"finalized\":true");
	if (res->events.count)
		print_list(out, "events", &res->events);
	buf_putc(out, '}');
}

void sdk_response_print(struct reconcile_response *res, struct reconcile_request *req, int result,
			struct buf *out)
{
	out->limit = SDK_RESPONSE_MAX;
	if (result != 0 && !res->has_error)
		reconcile_error(res, RECONCILE_TRANSIENT, "ReconcileFailed",
				"the reconcile function returned %d", result);
	if (!*res->bug)
		print_all(res, req, out);
	if (!*res->bug && !buf_failed(out))
		return;
	/* A response that is wrong says nothing at all but that. */
	struct reconcile_response wrong = {0};
	reconcile_error(&wrong, RECONCILE_TERMINAL, *res->bug ? "InvalidResponse" : "ResponseTooLarge", "%s",
			*res->bug ? res->bug : "the response is larger than 4 MiB");
	buf_reset(out);
	print_all(&wrong, req, out);
}
