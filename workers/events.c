#include "events.h"
#include <stdio.h>

static uint64_t hash_field(uint64_t h, struct span s)
{
	uint64_t len = s.len;
	return hash_bytes(s.at, s.len, hash_bytes(&len, sizeof(len), h));
}

static uint64_t hash_subject(const struct event_regarding *about)
{
	uint64_t h = hash_field(HASH_SEED, about->namespace);
	h = hash_field(hash_field(h, about->name), about->uid);
	return h ? h : 1;
}

static uint64_t hash_event(uint64_t subject, const struct answer_event *e)
{
	uint64_t h = hash_field(subject + e->warning, e->reason);
	h = hash_field(h, e->message);
	return h ? h : 1;
}

/* One write's worth from the object's bucket. */
static bool take_token(struct events *s, uint64_t hash, int64_t now_ns)
{
	struct event_subject *at = &s->subjects[0];
	for (size_t i = 0; i < EVENT_SUBJECTS; i++) {
		struct event_subject *o = &s->subjects[i];
		if (o->hash == hash) {
			at = o;
			break;
		}
		if (at->hash && (!o->hash || o->last_ns < at->last_ns))
			at = o;
	}
	if (at->hash != hash)
		*at = (struct event_subject){hash, now_ns, EVENT_BURST * EVENT_REFILL_NS};
	at->tokens_ns = MIN(at->tokens_ns + (now_ns - at->last_ns), EVENT_BURST * EVENT_REFILL_NS);
	at->last_ns = now_ns;
	if (at->tokens_ns < EVENT_REFILL_NS) {
		s->dropped++;
		return false;
	}
	at->tokens_ns -= EVENT_REFILL_NS;
	return true;
}

static struct event_series *find_series(struct events *s, uint64_t hash, int64_t now_ns, bool *ret_going)
{
	struct event_series *oldest = &s->series[0];
	for (size_t i = 0; i < EVENT_SERIES; i++) {
		struct event_series *e = &s->series[i];
		if (e->hash == hash) {
			*ret_going = now_ns - e->last_ns < EVENT_SERIES_QUIET_NS;
			return e;
		}
		if (oldest->hash && (!e->hash || e->last_ns < oldest->last_ns))
			oldest = e;
	}
	*ret_going = false;
	return oldest;
}

struct event_plan events_plan(struct events *s, const struct event_regarding *about,
			      const struct answer_event *e, int64_t now_ns)
{
	uint64_t subject = hash_subject(about), hash = hash_event(subject, e);
	bool going;
	struct event_series *series = find_series(s, hash, now_ns, &going);
	struct event_plan plan = {EVENT_NOTHING, series};
	if (going) {
		series->count++;
		series->last_ns = now_ns;
		if (series->count > 2 && now_ns - series->written_ns < EVENT_SERIES_WRITE_NS)
			return plan;
		if (!take_token(s, subject, now_ns))
			return plan;
		series->written_ns = now_ns;
		plan.action = EVENT_PATCH_SERIES;
		return plan;
	}
	if (!take_token(s, subject, now_ns))
		return plan;
	char id[33];
	*series = (struct event_series){.hash = hash, .last_ns = now_ns, .written_ns = now_ns, .count = 1};
	/* As client-go: the object's name and something unique. */
	snprintf(series->name, sizeof(series->name), "%.*s.%.16s",
		 (int)MIN(about->name.len, (size_t)NAME_MAX_LEN - 17), about->name.at, random_id(id));
	plan.action = EVENT_CREATE;
	return plan;
}

void events_forget(struct event_plan *plan)
{
	plan->series->hash = 0;
}

struct span events_namespace(const struct events *s, const struct event_regarding *about)
{
	if (about->namespace.len)
		return about->namespace;
	return span_of(s->use_kube_system ? "kube-system" : "default");
}

/* MicroTime: "2026-09-30T12:00:30.000000Z" */
static void add_micro_time(struct buf *out, int64_t unix_ns)
{
	char text[21];
	format_rfc3339(unix_ns / NS_PER_S, text);
	buf_printf(out, "\"%.19s.%06lldZ\"", text, (long long)(unix_ns % NS_PER_S / NS_PER_US));
}

static void add_text(struct buf *out, const char *before, struct span text)
{
	buf_puts(out, before);
	buf_json_string(out, text);
}

void events_body(const struct events *s, const struct event_plan *plan, const struct event_regarding *about,
		 const struct answer_event *e, const char *controller, const char *instance, int64_t unix_ns,
		 struct buf *out)
{
	if (plan->action == EVENT_PATCH_SERIES) {
		buf_printf(out, "{\"series\":{\"count\":%u,\"lastObservedTime\":", plan->series->count);
		add_micro_time(out, unix_ns);
		buf_puts(out, "}}");
		return;
	}
	add_text(out, "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\",\"metadata\":{\"name\":",
		 span_of(plan->series->name));
	add_text(out, ",\"namespace\":", events_namespace(s, about));
	buf_puts(out, "},\"eventTime\":");
	add_micro_time(out, unix_ns);
	buf_printf(out, ",\"reportingController\":\"reconciled.dev/%s\"",
		   controller); /* a DNS label needs no escape */
	add_text(out, ",\"reportingInstance\":", span_of(instance));
	add_text(out, ",\"action\":\"Reconcile\",\"type\":", span_of(e->warning ? "Warning" : "Normal"));
	add_text(out, ",\"reason\":", e->reason);
	add_text(out, ",\"note\":", e->message.at ? e->message : span_of(""));
	add_text(out, ",\"regarding\":{\"apiVersion\":", span_of(about->api_version));
	add_text(out, ",\"kind\":", span_of(about->kind));
	if (about->namespace.len)
		add_text(out, ",\"namespace\":", about->namespace);
	add_text(out, ",\"name\":", about->name);
	add_text(out, ",\"uid\":", about->uid);
	if (about->resource_version.len)
		add_text(out, ",\"resourceVersion\":", about->resource_version);
	buf_puts(out, "}}");
}
