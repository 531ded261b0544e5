/* Keys go out to hosts and come back. */
#include "broker.h"
#include "share.h"

const char *broker_key(const struct broker *b, uint64_t slot, char text[KEY_MAX_LEN + 1])
{
	struct span namespace, name;
	store_key(&b->store, store_slot(&b->store, (uint32_t)slot), &namespace, &name);
	char *at = text;
	if (namespace.len) {
		at = mempcpy(at, namespace.at, MIN(namespace.len, (size_t)NAMESPACE_MAX_LEN));
		*at++ = '/';
	}
	at = mempcpy(at, name.at, MIN(name.len, (size_t)NAME_MAX_LEN));
	*at = '\0';
	return text;
}

/* Spans of "kind\0namespace\0name". */
static void split_object(struct span object, struct wire_add_key *ret)
{
	struct span *parts[3] = {&ret->cause_kind, &ret->cause_namespace, &ret->cause_name};
	const char *at = object.at, *end = object.at + object.len;
	for (size_t i = 0; i < 3; i++) {
		size_t n = strnlen(at, (size_t)(end - at));
		*parts[i] = (struct span){at, n};
		at += n + (at + n < end);
	}
}

static uint32_t cap(const struct broker *b)
{
	return b->config.main.max_concurrent ? b->config.main.max_concurrent : UINT32_MAX;
}

bool broker_grant(struct broker *b, struct peer *p, uint16_t controller, bool done_stale, int64_t now,
		  struct wire *m, struct wire_add_key reasons[2])
{
	const struct shm_controller *row = store_controller(&b->store, controller);
	/* Without an init to watch, the death of what it runs could never be proven. */
	if (b->stopping || broker_held(b, now) || !lead_may_grant(&b->lead, now) || b->leases.len >= cap(b) ||
	    (fault("broker") && b->recovered))
		return false;
	if (!p->jail || procs_dead(p->host) || procs_dead(p->jail) || strcmp(row->digest, p->digest) != 0)
		return false;
	const struct workqueue_holder holder = {p->host->pid, p->jail->pid, p->host->start, p->jail->start};
	struct workqueue_grant g;
	char key[KEY_MAX_LEN + 1];
	int rc = workqueue_grant(&b->wq, controller, &holder, now, &g);
	if (rc < 0)
		log_error("no room for a lease: the region is full; raise budgets.queue in reconciled.yaml",
			  LOG_S("controller", row->name));
	if (rc <= 0)
		return false;
	lease_add(&b->leases, g.slot, g.generation, p->host, p->jail);
	b->served = controller;
	*m = (struct wire){.type = WIRE_TYPE_GRANT,
			   .grant = {
			       .incarnation = b->incarnation,
			       .slot = g.slot,
			       .generation = g.generation,
			       .namespace = g.namespace,
			       .name = g.name,
			       .priority = g.priority,
			       .attempt = g.attempt,
			       .last_outcome = g.last_outcome,
			       .last_reason = g.reason,
			       .last_message = g.message,
			       .deadline_ns = g.deadline,
			       .lease_end_ns = g.lease_end,
			       .done_stale = done_stale,
			       .reasons = {reasons, g.n_causes},
			   }};
	for (size_t i = 0; i < g.n_causes; i++) {
		reasons[i] = (struct wire_add_key){.namespace = g.namespace,
						   .name = g.name,
						   .cause = g.causes[i].event,
						   .cause_namespace = g.namespace,
						   .cause_name = g.name};
		if (g.causes[i].object.len)
			split_object(g.causes[i].object, &reasons[i]);
	}
	log_debug("key granted", LOG_S("controller", row->name), LOG_S("key", broker_key(b, g.slot, key)),
		  LOG_I("slot", g.slot), LOG_I("generation", g.generation), LOG_I("host", p->host->pid),
		  LOG_I("attempt", g.attempt));
	return true;
}

/* ---- who is next ---- */

/* A bit for each controller that has a key and a host for it. */
static uint64_t wanting(const struct broker *b, int64_t now)
{
	uint64_t idle = 0;
	for (unsigned i = 0; i < SHM_CONTROLLERS_MAX; i++)
		idle |= (uint64_t)!TAILQ_EMPTY(&b->crews[i].idle) << i;
	return share_wanting(&b->wq, idle, now);
}

bool broker_turn(const struct broker *b, uint16_t controller, int64_t now)
{
	if (cap(b) == UINT32_MAX)
		return true;
	return share_next(wanting(b, now) | UINT64_C(1) << controller, b->served) == controller;
}

/* One key to the first idle host that may have it. */
static bool serve_one(struct broker *b, uint16_t controller, int64_t now)
{
	struct peer *p;
	TAILQ_FOREACH(p, &b->crews[controller].idle, parked)
	{
		struct wire m;
		struct wire_add_key reasons[2];
		if (!broker_grant(b, p, controller, false, now, &m, reasons))
			continue;
		broker_answer(b, crews_take_poll(b, p), &m);
		return true;
	}
	return false;
}

static void serve_in_turns(struct broker *b, int64_t now)
{
	uint64_t left = wanting(b, now);
	for (int row; b->leases.len < cap(b) && (row = share_next(left, b->served)) >= 0;) {
		bool served = serve_one(b, (uint16_t)row, now);
		if (!served || TAILQ_EMPTY(&b->crews[row].idle) ||
		    !workqueue_ready(&b->wq, (uint16_t)row, now))
			left &= ~(UINT64_C(1) << row);
	}
}

void broker_serve_all(struct broker *b, int64_t now)
{
	if (cap(b) != UINT32_MAX) {
		serve_in_turns(b, now);
		return;
	}
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		while (!TAILQ_EMPTY(&b->crews[i].idle) && workqueue_ready(&b->wq, i, now) &&
		       serve_one(b, i, now))
			;
}

/* ---- the end of a lease ---- */

static enum log_level level_of(const struct wire_done *done, const struct workqueue_end *end)
{
	if (end->to == SHM_STATE_QUARANTINED)
		return LOG_LEVEL_WARNING;
	return wire_outcome_is_failure(done->outcome) || done->outcome == WIRE_OUTCOME_EXEC_FAILED ||
		       done->outcome == WIRE_OUTCOME_START_FAILED
		   ? LOG_LEVEL_INFO
		   : LOG_LEVEL_DEBUG;
}

int broker_end_lease(struct broker *b, const struct wire_done *done, const char *how, int64_t now)
{
	const struct shm_detail *d = workqueue_lease(&b->wq, done->slot, done->generation);
	if (!d)
		return -ESTALE;
	char key[KEY_MAX_LEN + 1];
	broker_key(b, done->slot, key); /* while there is one */
	uint16_t row = store_slot(&b->store, (uint32_t)done->slot)->controller;
	uint32_t was = store_controller(&b->store, row)->pause;
	struct workqueue_end end;
	int rc = workqueue_done(&b->wq, done, now, &end);
	if (rc < 0)
		return rc;
	struct lease *l = lease_find(&b->leases, (uint32_t)done->slot);
	if (l)
		lease_remove(&b->leases, l);
	const struct shm_controller *c = store_controller(&b->store, row);
	const char *message = end.to == SHM_STATE_QUARANTINED ? "quarantined"
			      : end.to == SHM_STATE_WAITING   ? "retry scheduled"
							      : how;
	log_at(level_of(done, &end), message, LOG_S("controller", c->name), LOG_S("key", key),
	       LOG_I("slot", done->slot), LOG_I("generation", done->generation),
	       LOG_S("outcome", wire_outcome_name(done->outcome)), LOG_S("state", shm_state_name(end.to)),
	       LOG_S("wait", shm_wait_name(end.wait)), LOG_I("delay_ms", end.delay / NS_PER_MS),
	       LOG_I("attempt", end.attempt), LOG_I("duration_us", done->duration_us),
	       LOG_SP("reason", done->reason), LOG_SP("text", done->message));
	if (c->pause != was && c->pause != SHM_PAUSE_NONE)
		log_warning("controller paused", LOG_S("controller", c->name),
			    LOG_S("why", shm_pause_name(c->pause)),
			    LOG_I("probe_ms", c->pause_delay / NS_PER_MS), LOG_S("text", c->pause_message));
	else if (c->pause != was)
		log_info("controller goes on", LOG_S("controller", c->name));
	if (!b->wq.controllers[row].configured && b->config.errors.fatal == 0)
		workqueue_drop(&b->wq, row, now);
	return 0;
}

void broker_lose_lease(struct broker *b, struct lease *l, const char *why, int64_t now)
{
	const struct wire_done done = {
	    .slot = l->slot,
	    .generation = l->generation,
	    .outcome = WIRE_OUTCOME_WORKER_LOST,
	    .requeue_after_ms = -1,
	    .message = span_of(why),
	};
	struct lease copy = *l;
	if (broker_end_lease(b, &done, "lease ended", now) < 0) {
		/* The region knows of no such lease: what was in memory is all that there is to end. */
		l = lease_find(&b->leases, copy.slot);
		if (l)
			lease_remove(&b->leases, l);
	}
}

void broker_reap(struct broker *b, int64_t now)
{
	struct err err = {0};
	if (fault("worker"))
		return;
	broker_roster_result(b, roster_reap(&b->roster, &err), &err);
	for (struct lease *l; (l = lease_next_dead(&b->leases));) {
		const struct shm_detail *d = workqueue_lease(&b->wq, l->slot, l->generation);
		char key[KEY_MAX_LEN + 1];
		log_info("lease ended by proven death",
			 LOG_S("controller",
			       store_controller(&b->store, store_slot(&b->store, l->slot)->controller)->name),
			 LOG_S("key", broker_key(b, l->slot, key)), LOG_I("slot", l->slot),
			 LOG_I("generation", l->generation), LOG_I("host", l->host ? l->host->pid : 0),
			 LOG_I("jail", l->jail ? l->jail->pid : 0), LOG_I("dead_ns", now),
			 LOG_I("lease_end_ns", d ? d->lease_end : 0), LOG_I("killed_ns", l->over_at));
		broker_lose_lease(b, l, "its worker and everything in its jail are dead", now);
	}
}

bool broker_held(const struct broker *b, int64_t now)
{
	return (now < b->hold || b->roster.owing) && !fault("hold");
}

void broker_collect(struct broker *b, int64_t now)
{
	if (!b->owing_until)
		return;
	if (!b->roster.owing) {
		b->owing_until = 0;
		log_info("every worker of the last broker was heard, or is dead: keys are granted");
	} else if (now >= b->owing_until) {
		b->owing_until = now + b->wq.kill_grace;
		log_warning(
		    "workers were not heard since the region was lost, killing them: they may have keys",
		    LOG_I("processes", roster_kill_owing(&b->roster)));
	}
}

void broker_roster_result(struct broker *b, int rc, const struct err *err)
{
	if (rc == 0 && !b->roster_failed)
		return;
	if (rc < 0 && !b->roster_failed)
		log_error(
		    "the list of workers could not be written: should the region be lost, a worker that is "
		    "stopped just then is not waited for",
		    LOG_S("text", err->text));
	b->roster_failed = rc < 0;
	reports_set(&b->reports, "queue", span_of(""), span_of("roster"),
		    rc < 0 ? WIRE_STATE_DEGRADED : WIRE_STATE_OK, span_of(rc < 0 ? err->text : ""));
}

/* Only a planted fault ends a lease by time alone: and then the next worker that asks gets the key. */
void broker_break_leases(struct broker *b, int64_t now)
{
	for (size_t i = b->leases.len; fault("twice") && i-- > 0;) {
		struct lease *l = &b->leases.at[i];
		const struct shm_slot *s = store_slot(&b->store, l->slot);
		struct wire_add_key key = {.priority = 1000, .cause = WIRE_CAUSE_OPERATOR};
		enum shm_state state;
		if (now - store_detail(&b->store, s->detail)->granted_at < 100 * (int64_t)NS_PER_MS)
			continue;
		store_key(&b->store, s, &key.namespace, &key.name);
		workqueue_add(&b->wq, s->controller, &key, now, &state);
		broker_lose_lease(b, l, "a planted fault", now);
	}
}

void broker_lease_over(struct broker *b, uint32_t slot, int64_t now)
{
	struct lease *l = lease_find(&b->leases, slot);
	if (!l || now < b->patience)
		return;
	const struct shm_detail *d = workqueue_lease(&b->wq, l->slot, l->generation);
	char key[KEY_MAX_LEN + 1];
	log_warning(
	    "lease over, killing",
	    LOG_S("controller", store_controller(&b->store, store_slot(&b->store, slot)->controller)->name),
	    LOG_S("key", broker_key(b, slot, key)), LOG_I("slot", slot), LOG_I("generation", l->generation),
	    LOG_I("host", l->host ? l->host->pid : 0), LOG_I("jail", l->jail ? l->jail->pid : 0),
	    LOG_I("now_ns", now), LOG_I("lease_end_ns", d ? d->lease_end : 0));
	if (!l->over_at)
		l->over_at = now;
	procs_kill(l->host);
	procs_kill(l->jail);
}
