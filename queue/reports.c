#include "reports.h"

static void put(char *to, size_t room, struct span text)
{
	size_t n = MIN(text.len, room - 1);
	if (n)
		memcpy(to, text.at, n);
	to[n] = '\0';
}

static void take_out(struct reports *rs, size_t i)
{
	memmove(&rs->at[i], &rs->at[i + 1], (rs->len - i - 1) * sizeof(*rs->at));
	rs->len--;
}

void reports_set(struct reports *rs, const char *process, struct span controller, struct span topic,
		 uint32_t state, struct span message)
{
	struct report *r = NULL;
	for (size_t i = 0; i < rs->len && !r; i++)
		if (strcmp(rs->at[i].process, process) == 0 && span_is(controller, rs->at[i].controller) &&
		    span_is(topic, rs->at[i].topic))
			r = &rs->at[i];
	if (state == WIRE_STATE_OK) {
		if (r)
			take_out(rs, (size_t)(r - rs->at));
		return;
	}
	if (!rs->at)
		rs->at = xcalloc(REPORTS_MAX, sizeof(*rs->at));
	if (!r) {
		if (rs->len == REPORTS_MAX)
			take_out(rs, 0);
		r = &rs->at[rs->len++];
		*r = (struct report){0};
		put(r->process, sizeof(r->process), span_of(process));
		put(r->controller, sizeof(r->controller), controller);
		put(r->topic, sizeof(r->topic), topic);
	}
	if (r->state != state)
		r->since = clock_boottime_ns();
	r->state = state;
	put(r->message, sizeof(r->message), message);
}

void reports_forget(struct reports *rs, const char *process)
{
	for (size_t i = rs->len; i-- > 0;)
		if (strcmp(rs->at[i].process, process) == 0)
			take_out(rs, i);
}

void reports_forget_controller(struct reports *rs, const char *controller)
{
	for (size_t i = rs->len; i-- > 0;)
		if (strcmp(rs->at[i].controller, controller) == 0)
			take_out(rs, i);
}

void reports_keep(struct reports *rs, bool (*keep)(void *ctx, const char *controller), void *ctx)
{
	for (size_t i = rs->len; i-- > 0;)
		if (rs->at[i].controller[0] && !keep(ctx, rs->at[i].controller))
			take_out(rs, i);
}

const struct report *reports_next_still(const struct reports *rs, const char *process, const char *controller,
					size_t *at)
{
	while (*at < rs->len) {
		const struct report *r = &rs->at[(*at)++];
		if ((r->state == WIRE_STATE_FAILED || r->state == WIRE_STATE_WAITING) &&
		    strcmp(r->process, process) == 0 && strcmp(r->controller, controller) == 0)
			return r;
	}
	return NULL;
}

void reports_json(const struct reports *rs, struct buf *out)
{
	buf_putc(out, '[');
	for (size_t i = 0; i < rs->len; i++) {
		const struct report *r = &rs->at[i];
		char since[21];
		buf_puts(out, i ? ",{\"process\":" : "{\"process\":");
		buf_json_string(out, span_of(r->process));
		buf_puts(out, ",\"controller\":");
		buf_json_string(out, span_of(r->controller));
		buf_puts(out, ",\"topic\":");
		buf_json_string(out, span_of(r->topic));
		buf_printf(out, ",\"state\":\"%s\",\"message\":", wire_state_name(r->state));
		buf_json_string(out, span_of(r->message));
		buf_printf(out, ",\"since\":\"%s\"}", format_boottime(r->since, clock_boottime_ns(), since));
	}
	buf_putc(out, ']');
}
