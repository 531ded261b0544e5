/* The answer to STATUS, as docs/wire.md describes it. */
#include "broker.h"
#include <unistd.h>

static void member(struct buf *out, const char *name, struct span text)
{
	buf_printf(out, ",\"%s\":", name);
	buf_json_string(out, text);
}

static void since_boot(struct buf *out, const char *name, int64_t at, int64_t now)
{
	char text[21];
	if (at)
		buf_printf(out, ",\"%s\":\"%s\"", name, format_boottime(at, now, text));
	else
		buf_printf(out, ",\"%s\":null", name);
}

static const struct lease *lease_of(const struct broker *b, const struct peer *p)
{
	for (size_t i = 0; p->host && i < b->leases.len; i++)
		if (b->leases.at[i].host == p->host)
			return &b->leases.at[i];
	return NULL;
}

static void process(const struct broker *b, const struct peer *p, int64_t now, struct buf *out)
{
	const struct lease *l = lease_of(b, p);
	bool host = p->role == WIRE_ROLE_HOST;
	buf_printf(out, ",{\"role\":\"%s\",\"pid\":%d", wire_role_name(p->role), (int)p->pid);
	member(out, "instance", span_of(p->instance));
	member(out, "controller", span_of(p->controller));
	member(out, "state",
	       span_of(!host	   ? "connected"
		       : l	   ? "running"
		       : p->poll   ? (p->resting ? "asleep" : "idle")
		       : p->waking ? "waking"
		       : !p->jail  ? "no jail"
				   : "connected"));
	buf_puts(out, ",\"running\":");
	if (l) {
		char key[KEY_MAX_LEN + 1];
		broker_key(b, l->slot, key);
		buf_json_string(out, span_of(key));
	} else {
		buf_puts(out, "null");
	}
	since_boot(out, "since", p->since, now);
	buf_putc(out, '}');
}

static void processes(const struct broker *b, int64_t now, struct buf *out)
{
	buf_printf(out,
		   "[{\"role\":\"queue\",\"pid\":%d,\"instance\":\"\",\"controller\":\"\",\"state\":\"%s\","
		   "\"running\":null",
		   (int)getpid(),
		   b->stopping ? "stopping"
		   : b->fenced ? "not leading"
			       : "serving");
	since_boot(out, "since", b->started, now);
	buf_putc(out, '}');
	for (const struct peer *p = b->peers.list; p; p = p->next)
		if (p->known && p->role != WIRE_ROLE_CTL)
			process(b, p, now, out);
	buf_putc(out, ']');
}

/* What its file says is what is in force: a part that cannot be set up keeps the controller from starting. */
static void sandbox(const struct broker *b, const char *name, struct buf *out)
{
	const struct config_controller *c = config_find(&b->config, name);
	_cleanup_(buf_done) struct buf text = {0};
	for (char **part = c ? c->reconciler.without : NULL; part && *part; part++)
		buf_printf(&text, "%s%s", text.len ? ", " : "without ", *part);
	if (c && !text.len)
		buf_puts(&text, "all parts");
	if (c && c->reconciler.network_host)
		buf_puts(&text, "; the host's network");
	member(out, "sandbox", buf_span(&text));
}

static void limit(struct buf *out, const char *name, uint32_t n)
{
	if (n == CREW_ALL)
		buf_printf(out, ",\"%s\":null", name);
	else
		buf_printf(out, ",\"%s\":%u", name, n);
}

static void workers(const struct broker *b, uint16_t row, struct buf *out)
{
	const char *name = store_controller(&b->store, row)->name;
	struct crew_rules rules = crews_rules(b, row);
	uint32_t connected = 0, asleep = 0;
	for (const struct peer *p = b->peers.list; p; p = p->next) {
		if (!p->known || p->role != WIRE_ROLE_HOST || strcmp(p->controller, name) != 0)
			continue;
		connected++;
		asleep += p->poll && p->resting;
	}
	buf_printf(out, ",\"workers\":{\"connected\":%u,\"asleep\":%u", connected, asleep);
	limit(out, "least", rules.least);
	limit(out, "most", rules.most);
	buf_putc(out, '}');
}

/* What each of its workers that are awake is kept from going on by. NULL: one goes on, or there is none. */
static const struct report *all_stand_still(const struct broker *b, const char *name)
{
	const struct report *why = NULL;
	for (const struct peer *p = b->peers.list; p; p = p->next) {
		size_t at = 0;
		if (!p->known || p->role != WIRE_ROLE_HOST || strcmp(p->controller, name) != 0 ||
		    (p->poll && p->resting))
			continue;
		why = reports_next_still(&b->reports, peer_name(p), name, &at);
		if (!why)
			return NULL;
	}
	return why;
}

static void paused(const struct broker *b, const struct shm_controller *c, struct buf *out)
{
	const struct report *r = all_stand_still(b, c->name);
	const char *what = c->pause != SHM_PAUSE_NONE ? shm_pause_name(c->pause) : r ? r->topic : NULL;
	const char *why = c->pause != SHM_PAUSE_NONE ? c->pause_message : r ? r->message : "";
	_cleanup_(buf_done) struct buf text = {0};
	if (what) {
		buf_printf(&text, "%s%s%s", what, *why ? ": " : "", why);
		member(out, "paused", buf_span(&text));
	} else {
		buf_puts(out, ",\"paused\":null");
	}
}

/* Watches and programs of the watcher that bring it nothing now. */
static void stalled(const struct broker *b, const char *name, struct buf *out)
{
	size_t at = 0;
	const char *comma = "";
	buf_puts(out, ",\"stalled\":[");
	for (const struct report *r;
	     (r = reports_next_still(&b->reports, wire_role_name(WIRE_ROLE_WATCHER), name, &at));) {
		buf_puts(out, comma);
		buf_json_string(out, span_of(r->topic));
		comma = ",";
	}
	buf_putc(out, ']');
}

static void controller(const struct broker *b, uint16_t row, int64_t now, struct buf *out)
{
	const struct shm_controller *c = store_controller(&b->store, row);
	const struct workqueue_controller *w = &b->wq.controllers[row];
	struct shm_controller_counters n = workqueue_counters(&b->wq, row);
	buf_puts(out, "{\"name\":");
	buf_json_string(out, span_of(c->name));
	member(out, "digest", span_of(c->digest));
	buf_printf(out,
		   ",\"configured\":%s,\"swept\":%s,\"ready\":%u,\"waiting\":%u,\"running\":%u,\"settling\":%"
		   "u,\"quarantined\":%u",
		   w->configured ? "true" : "false", c->swept ? "true" : "false",
		   index_ready_len(&b->wq.index, row), w->waiting, w->running, w->settling, w->quarantined);
	sandbox(b, c->name, out);
	since_boot(out, "held", c->held_since, now);
	workers(b, row, out);
	if (c->scale)
		buf_printf(out, ",\"scale\":%u", c->scale - 1);
	else
		buf_puts(out, ",\"scale\":null");
	paused(b, c, out);
	stalled(b, c->name, out);
	buf_printf(out,
		   ",\"adds\":%llu,\"merges\":%llu,\"grants\":%llu,\"retries\":%llu,\"quarantines\":%llu,"
		   "\"settled\":%llu,\"settledInVain\":%llu,\"results\":{",
		   (unsigned long long)n.adds, (unsigned long long)n.merges, (unsigned long long)n.grants,
		   (unsigned long long)n.retries, (unsigned long long)n.quarantines,
		   (unsigned long long)n.holds, (unsigned long long)n.holds_in_vain);
	for (uint32_t i = 0; i < SHM_RESULT_COUNT; i++)
		buf_printf(out, "%s\"%s\":%llu", i ? "," : "", shm_result_name(i),
			   (unsigned long long)n.results[i]);
	buf_puts(out, "},\"outcomes\":{");
	for (uint32_t i = 0; i < WIRE_OUTCOME_COUNT; i++)
		buf_printf(out, "%s\"%s\":%llu", i ? "," : "", wire_outcome_name(i),
			   (unsigned long long)n.outcomes[i]);
	buf_puts(out, "}}");
}

void broker_status(const struct broker *b, int64_t now, struct buf *out)
{
	buf_printf(out,
		   "{\"incarnation\":%llu,\"uptimeSeconds\":%lld,\"version\":\"%s\",\"region\":{\"bytes\":%"
		   "llu,\"limit\":%llu},\"processes\":",
		   (unsigned long long)b->incarnation, (long long)((now - b->started) / NS_PER_S),
		   RECONCILED_VERSION, (unsigned long long)b->store.blocks * SHM_BLOCK,
		   (unsigned long long)b->store.limit);
	processes(b, now, out);
	buf_puts(out, ",\"controllers\":[");
	bool any = false;
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		if (!store_controller(&b->store, i)->name[0])
			continue;
		if (any)
			buf_putc(out, ',');
		any = true;
		controller(b, i, now, out);
	}
	buf_puts(out, "],\"reports\":");
	reports_json(&b->reports, out);
	buf_putc(out, '}');
}
