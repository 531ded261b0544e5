#include "queue_view.h"
#include <inttypes.h>

char *view_key(const struct queue_key *k)
{
	return *k->namespace ? xasprintf("%s/%s", k->namespace, k->name) : xstrdup(k->name);
}

void view_state(const struct queue_key *k, const char *worker, int64_t now, struct buf *out)
{
	char text[32];
	switch (k->state) {
	case SHM_STATE_READY:
		buf_printf(out, "ready since %s", age(now, k->ready_at, text));
		break;
	case SHM_STATE_WAITING:
		buf_printf(out, "%s, due in %s", shm_wait_name(k->wait), age(k->ready_at, now, text));
		break;
	case SHM_STATE_RUNNING:
	case SHM_STATE_DIRTY:
	case SHM_STATE_TIMED:
		buf_printf(out, "for %s in %s%sprocess %" PRIu32 "%s%s", age(now, k->detail.granted_at, text),
			   worker ? worker : "", worker ? ", " : "", k->detail.host_pid,
			   now > k->detail.lease_end ? ", over its time: being killed" : "",
			   k->state == SHM_STATE_DIRTY ? ", runs again afterwards" : "");
		if (k->state == SHM_STATE_TIMED)
			buf_printf(out, ", is to run again in %s", age(k->ready_at, now, text));
		break;
	case SHM_STATE_SETTLING:
	case SHM_STATE_SETTLING_DIRTY:
		buf_printf(out, "until the watch shows what it wrote, %s at most%s",
			   age(k->detail.lease_end, now, text),
			   k->state == SHM_STATE_SETTLING_DIRTY ? ", runs again afterwards" : "");
		break;
	case SHM_STATE_QUARANTINED:
		buf_printf(out, "for another %s, or until the object changes", age(k->ready_at, now, text));
		break;
	case SHM_STATE_NONE:
	case SHM_STATE_COUNT:
		break;
	}
}

void view_cause(const struct queue_cause *c, struct buf *out)
{
	if (*c->kind)
		buf_printf(out, "%s %s%s%s ", c->kind, c->namespace, *c->namespace ? "/" : "", c->name);
	buf_puts(out, wire_cause_name(c->event));
}

void view_time_json(int64_t boottime, int64_t now, struct buf *out)
{
	char text[21];
	if (boottime)
		buf_printf(out, "\"%s\"", format_boottime(boottime, now, text));
	else
		buf_puts(out, "null");
}

static void text_json(const char *name, const char *text, struct buf *out)
{
	buf_printf(out, ",\"%s\":", name);
	buf_json_string(out, span_of(text));
}

static void time_json(const char *name, int64_t boottime, int64_t now, struct buf *out)
{
	buf_printf(out, ",\"%s\":", name);
	view_time_json(boottime, now, out);
}

static void cause_json(const struct queue_cause *c, struct buf *out)
{
	buf_printf(out, "{\"event\":\"%s\"", wire_cause_name(c->event));
	if (*c->kind) {
		text_json("kind", c->kind, out);
		text_json("namespace", c->namespace, out);
		text_json("name", c->name, out);
	}
	buf_putc(out, '}');
}

static void instance_json(const char *worker, struct buf *out)
{
	if (worker)
		text_json("instance", worker, out);
	else
		buf_puts(out, ",\"instance\":null");
}

static void lease_json(const struct queue_key *k, const char *worker, int64_t now, struct buf *out)
{
	const struct shm_detail *d = &k->detail;
	buf_printf(out, ",\"lease\":{\"generation\":%" PRIu64 ",\"pid\":%" PRIu32 ",\"jailPid\":%" PRIu32,
		   d->generation, d->host_pid, d->jail_pid);
	instance_json(worker, out);
	time_json("since", d->granted_at, now, out);
	time_json("deadline", d->deadline, now, out);
	time_json("end", d->lease_end, now, out);
	buf_printf(out, ",\"priority\":%" PRId32 ",\"adds\":%u,\"overdue\":%s,\"first\":", d->lease_priority,
		   d->lease_count, now > d->lease_end ? "true" : "false");
	cause_json(&k->lease_first, out);
	buf_puts(out, ",\"last\":");
	cause_json(&k->lease_last, out);
	buf_putc(out, '}');
}

static void failures_json(const struct shm_record *r, struct buf *out)
{
	const char *comma = "";
	buf_puts(out, ",\"outcomes\":{");
	for (uint32_t i = 0; i < MIN((uint32_t)WIRE_OUTCOME_COUNT, (uint32_t)ARRAY_SIZE(r->outcomes)); i++) {
		if (!r->outcomes[i])
			continue;
		buf_printf(out, "%s\"%s\":%u", comma, wire_outcome_name(i), r->outcomes[i]);
		comma = ",";
	}
	buf_putc(out, '}');
}

void view_key_json(const struct queue_key *k, const char *worker, int64_t now, struct buf *out)
{
	bool running = SHM_LEASED(k->state), settling = SHM_SETTLES(k->state);
	bool until = settling || k->state == SHM_STATE_WAITING || k->state == SHM_STATE_QUARANTINED;
	bool dirty = k->state == SHM_STATE_DIRTY || k->state == SHM_STATE_SETTLING_DIRTY;
	buf_puts(out, "{\"controller\":");
	buf_json_string(out, span_of(k->controller));
	text_json("namespace", k->namespace, out);
	text_json("name", k->name, out);
	text_json("state", shm_state_name(k->state), out);
	text_json("wait", k->state == SHM_STATE_WAITING ? shm_wait_name(k->wait) : "", out);
	time_json(until ? "until" : "since",
		  running    ? k->detail.granted_at
		  : settling ? k->detail.lease_end
			     : k->ready_at,
		  now, out);
	buf_printf(out, ",\"dirty\":%s,\"priority\":%" PRId32, dirty ? "true" : "false", k->priority);
	if (k->pending) {
		buf_printf(out, ",\"pending\":{\"adds\":%" PRIu32 ",\"first\":", k->count);
		cause_json(&k->first, out);
		buf_puts(out, ",\"last\":");
		cause_json(&k->last, out);
		buf_putc(out, '}');
	}
	if (running)
		lease_json(k, worker, now, out);
	buf_printf(out, ",\"attempt\":%" PRIu32, k->record.attempt);
	if (k->record.attempted) {
		text_json("lastOutcome", wire_outcome_name(k->record.last_outcome), out);
		time_json("lastTime", k->record.last_at, now, out);
		buf_printf(out, ",\"lastDurationSeconds\":%.6f", k->record.duration_us / 1e6);
		text_json("reason", k->reason, out);
		text_json("message", k->message, out);
		failures_json(&k->record, out);
	}
	buf_putc(out, '}');
}

void view_happened(const struct queue_happened *e, const char *worker, struct buf *out)
{
	const struct shm_history *h = &e->entry;
	char text[32];
	bool ended = h->happened == SHM_HAPPENED_DONE || h->happened == SHM_HAPPENED_LOST;
	bool added = h->happened == SHM_HAPPENED_ADDED || h->happened == SHM_HAPPENED_MERGED;
	buf_puts(out, shm_happened_name(h->happened));
	if (ended)
		buf_printf(out, " %s after %s", wire_outcome_name(h->outcome),
			   short_duration((int64_t)h->duration_us * NS_PER_US, text));
	if (h->happened == SHM_HAPPENED_GRANTED)
		buf_printf(out, " to %s%sprocess %" PRIu32 " after %s in the queue", worker ? worker : "",
			   worker ? ", " : "", h->pid, short_duration(h->delay, text));
	if (h->happened == SHM_HAPPENED_GRANTED && h->count > 1)
		buf_printf(out, ", %u events, last %s", h->count, wire_cause_name(h->ends >> 4));
	if (added)
		buf_printf(out, " %s", wire_cause_name(h->ends & 15));
	if (e->text[0])
		buf_printf(out, "%s%s", ended ? ": " : " ", e->text);
	buf_printf(out, " -> %s", shm_state_name(h->to));
	if (h->to == SHM_STATE_WAITING)
		buf_printf(out, " (%s)", shm_wait_name(h->wait));
	if (h->delay && (h->to == SHM_STATE_WAITING || h->to == SHM_STATE_QUARANTINED))
		buf_printf(out, " for %s", short_duration(h->delay, text));
}

void view_happened_json(const struct queue_happened *e, const char *worker, int64_t now, struct buf *out)
{
	const struct shm_history *h = &e->entry;
	buf_puts(out, "{\"time\":");
	view_time_json(h->at, now, out);
	text_json("happened", shm_happened_name(h->happened), out);
	text_json("from", shm_state_name(h->from), out);
	text_json("to", shm_state_name(h->to), out);
	if (h->happened == SHM_HAPPENED_DONE || h->happened == SHM_HAPPENED_LOST) {
		text_json("outcome", wire_outcome_name(h->outcome), out);
		buf_printf(out, ",\"durationSeconds\":%.6f", h->duration_us / 1e6);
	}
	if (h->happened == SHM_HAPPENED_ADDED || h->happened == SHM_HAPPENED_MERGED)
		text_json("event", wire_cause_name(h->ends & 15), out);
	if (h->happened == SHM_HAPPENED_GRANTED) {
		buf_printf(out, ",\"pid\":%" PRIu32 ",\"adds\":%u", h->pid, h->count);
		instance_json(worker, out);
	}
	if (h->to == SHM_STATE_WAITING)
		text_json("wait", shm_wait_name(h->wait), out);
	buf_printf(out,
		   ",\"delaySeconds\":%.3f,\"attempt\":%" PRIu32 ",\"priority\":%" PRId32
		   ",\"generation\":%" PRIu64 ",\"text\":",
		   (double)h->delay / 1e9, h->attempt, h->priority, h->generation);
	buf_json_string(out, span_of(e->text));
	buf_putc(out, '}');
}
