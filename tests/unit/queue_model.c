#include "queue_model.h"
#include "wire.h"

enum { BANDS = 4 };
#define AGING	    (30 * NS_PER_S)
#define LEASE_EXTRA (35 * NS_PER_S) /* 30 s for writes, 5 s to be killed */
#define KILL_AGAIN  (5 * NS_PER_S)

void model_init(struct model *m, int names)
{
	*m = (struct model){.names = names, .n_keys = MODEL_CONTROLLERS * MODEL_NAMESPACES * names};
	m->keys = xcalloc((size_t)m->n_keys, sizeof(*m->keys));
}

void model_free(struct model *m)
{
	free(m->keys);
	*m = (struct model){0};
}

int model_controller_of(const struct model *m, int key)
{
	return key / m->names / MODEL_NAMESPACES;
}

int model_namespace_of(const struct model *m, int key)
{
	return key / m->names % MODEL_NAMESPACES;
}

struct model_controller *model_controller(struct model *m, int key)
{
	return &m->controllers[model_controller_of(m, key)];
}

void model_open(struct model *m, int controller, const struct model_rules *rules)
{
	struct model_controller *c = &m->controllers[controller];
	if (!c->open)
		*c = (struct model_controller){.open = true};
	c->configured = true;
	c->rules = *rules;
}

int model_count(const struct model *m, int controller, enum model_state state)
{
	int n = 0;
	for (int i = 0; i < m->n_keys; i++)
		n += m->keys[i].state == state && model_controller_of(m, i) == controller;
	return n;
}

bool model_leased(const struct model_key *k)
{
	return k->state == MODEL_RUNNING || k->state == MODEL_DIRTY || k->state == MODEL_TIMED;
}

bool model_settles(const struct model_key *k)
{
	return k->state == MODEL_SETTLING || k->state == MODEL_SETTLING_DIRTY;
}

static int leases(const struct model *m, int controller)
{
	int n = 0;
	for (int i = 0; i < m->n_keys; i++)
		n += model_leased(&m->keys[i]) && model_controller_of(m, i) == controller;
	return n;
}

/* ---- order ---- */

static int band_of(int32_t priority)
{
	return priority > 0 ? 0 : priority == 0 ? 1 : priority > -100 ? 2 : 3;
}

/* A namespace that has nothing left is not in the round; one that has is, at the end when it is new. */
void model_turns_update(struct model *m, int controller)
{
	struct model_controller *c = &m->controllers[controller];
	bool has[BANDS][MODEL_NAMESPACES] = {0};
	for (int i = 0; i < m->n_keys; i++)
		if (m->keys[i].state == MODEL_READY && model_controller_of(m, i) == controller)
			has[band_of(m->keys[i].pending.priority)][model_namespace_of(m, i)] = true;
	for (int b = 0; b < BANDS; b++) {
		int kept = 0;
		for (int i = 0; i < c->n_turn[b]; i++)
			if (has[b][c->turn[b][i]]) {
				has[b][c->turn[b][i]] = false;
				c->turn[b][kept++] = c->turn[b][i];
			}
		for (int n = 0; n < MODEL_NAMESPACES; n++)
			if (has[b][n])
				c->turn[b][kept++] = n;
		c->n_turn[b] = kept;
	}
}

static bool earlier(const struct model_key *a, const struct model_key *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* The one that is ready for the longest; of all namespaces: -1. */
static int oldest(const struct model *m, int controller, int band, int namespace)
{
	int best = MODEL_NOBODY;
	for (int i = 0; i < m->n_keys; i++) {
		const struct model_key *k = &m->keys[i];
		if (k->state == MODEL_READY && model_controller_of(m, i) == controller &&
		    band_of(k->pending.priority) == band &&
		    (namespace < 0 || model_namespace_of(m, i) == namespace) &&
		    (best == MODEL_NOBODY || earlier(k, &m->keys[best])))
			best = i;
	}
	return best;
}

static bool pause_lets(const struct model *m, int controller, int64_t now)
{
	const struct model_controller *c = &m->controllers[controller];
	if (c->held)
		return false;
	switch (c->pause) {
	case MODEL_PAUSE_NONE:
		return true;
	case MODEL_PAUSE_THROTTLED:
		return now >= c->pause_until;
	case MODEL_PAUSE_START:
	case MODEL_PAUSE_CRASHES:
		return now >= c->pause_until && leases(m, controller) == 0;
	}
	return false;
}

int model_next_key(const struct model *m, int controller, int64_t now)
{
	const struct model_controller *c = &m->controllers[controller];
	if (!c->configured || !pause_lets(m, controller, now) ||
	    (c->rules.max_concurrent && leases(m, controller) >= (int)c->rules.max_concurrent))
		return MODEL_NOBODY;
	int best = -1;
	int64_t best_at = 0;
	for (int b = 0; b < BANDS; b++) {
		int head = oldest(m, controller, b, -1);
		if (head == MODEL_NOBODY)
			continue;
		int64_t at = m->keys[head].at + b * AGING;
		if (best < 0 || at < best_at) {
			best = b;
			best_at = at;
		}
	}
	return best < 0 ? MODEL_NOBODY : oldest(m, controller, best, c->turn[best][0]);
}

void model_restart(struct model *m)
{
	for (int i = 0; i < m->n_keys; i++) {
		m->keys[i].over_at = m->keys[i].lease_end;
		/* Where the streams were is not kept: it is asked again. */
		for (int w = 0; w < m->keys[i].n_writes; w++)
			m->keys[i].writes[w].passed = false;
	}
	model_untell(m);
	/* The round begins with the namespace that waits for the longest. */
	for (int controller = 0; controller < MODEL_CONTROLLERS; controller++)
		for (int b = 0; b < BANDS; b++) {
			struct model_controller *c = &m->controllers[controller];
			for (int i = 1; i < c->n_turn[b]; i++)
				for (int j = i; j > 0; j--) {
					int x = oldest(m, controller, b, c->turn[b][j - 1]);
					int y = oldest(m, controller, b, c->turn[b][j]);
					if (!earlier(&m->keys[y], &m->keys[x]))
						break;
					int swap = c->turn[b][j];
					c->turn[b][j] = c->turn[b][j - 1];
					c->turn[b][j - 1] = swap;
				}
		}
}

/* ---- add ---- */

static int32_t clamp_priority(int64_t p)
{
	return (int32_t)(p > 1000000 ? 1000000 : p < -1000000 ? -1000000 : p);
}

static void merge_cause(struct model_pending *p, const struct model_add *add, int64_t now)
{
	if (p->count == 0) {
		p->first_cause = add->cause;
		p->first_object = add->object;
		p->last_object = 0;
		p->added_at = now;
	} else {
		p->last_object = add->object;
	}
	p->last_cause = add->cause;
	p->causes |= 1u << add->cause;
	p->count += p->count < UINT16_MAX;
}

void model_make_ready(struct model *m, struct model_key *k, int64_t now)
{
	k->order = ++m->order;
	k->state = MODEL_READY;
	k->wait = MODEL_WAIT_NONE;
	k->at = now;
}

static void cancel(struct model_key *k)
{
	if (k->state == MODEL_WAITING &&
	    (k->wait == MODEL_WAIT_ADD_AFTER || k->wait == MODEL_WAIT_REQUEUE_AFTER))
		*k = (struct model_key){0};
	else if (k->state == MODEL_TIMED) {
		k->state = MODEL_RUNNING;
		k->pending = (struct model_pending){.priority = k->leased.priority};
	} else if (k->state == MODEL_DIRTY) {
		k->later = 0;
	} else if (k->state == MODEL_SETTLING && k->later) {
		k->later = 0;
		k->pending = (struct model_pending){.priority = k->pending.priority,
						    .added_at = k->lease_end - MODEL_HELD_AT_MOST};
	}
}

/* Where a key is to run again, does `at` take the place of `there`? */
static bool moves(const struct model_add *add, int64_t at, int64_t there)
{
	return add->timer == MODEL_REPLACE ? at != there : at < there;
}

void model_add(struct model *m, const struct model_add *add, int64_t now)
{
	struct model_key *k = &m->keys[add->key];
	struct model_controller *c = model_controller(m, add->key);
	if (add->timer == MODEL_CANCEL) {
		cancel(k);
		return;
	}
	bool by_operator = add->cause == WIRE_CAUSE_OPERATOR, now_ready = false;
	bool changed = add->changed || by_operator;
	int32_t priority = clamp_priority(add->priority);
	int64_t at = now + add->delay;
	struct model_event event = add->event;
	if (by_operator || add->delay)
		event.version = 0;
	if (model_settles(k) && model_is_own(k->writes, k->n_writes, &event))
		return;
	switch (k->state) {
	case MODEL_NONE:
		k->pending.priority = priority;
		if (add->delay) {
			k->state = MODEL_WAITING;
			k->wait = MODEL_WAIT_ADD_AFTER;
			k->at = at;
		} else {
			model_make_ready(m, k, now);
		}
		now_ready = true;
		break;
	case MODEL_READY:
		if (priority > k->pending.priority) {
			int from = band_of(k->pending.priority), to = band_of(priority);
			if (from == to) {
				k->pending.priority = priority;
			} else if (now + to * AGING < k->at + from * AGING) {
				k->pending.priority = priority;
				k->order = ++m->order;
				k->at = now;
			}
		}
		break;
	case MODEL_WAITING:
		k->pending.priority = MAX(k->pending.priority, priority);
		if (!add->delay && (k->wait != MODEL_WAIT_THROTTLED || by_operator)) {
			model_make_ready(m, k, now);
			now_ready = true;
		} else if (add->delay && moves(add, at, k->at) &&
			   (k->wait != MODEL_WAIT_THROTTLED || by_operator || at > k->at)) {
			k->at = at;
			if (k->wait == MODEL_WAIT_REQUEUE_AFTER)
				k->wait = MODEL_WAIT_ADD_AFTER;
		}
		break;
	case MODEL_RUNNING:
		k->state = add->delay ? MODEL_TIMED : MODEL_DIRTY;
		k->at = at;
		k->pending.priority = priority;
		if (!add->delay)
			model_hear(k, &event);
		break;
	case MODEL_TIMED:
		k->pending.priority = MAX(k->pending.priority, priority);
		if (!add->delay) {
			k->later = k->at;
			k->state = MODEL_DIRTY;
			model_hear(k, &event);
		}
		if (!add->delay || moves(add, at, k->at))
			k->at = at;
		break;
	case MODEL_DIRTY:
		k->pending.priority = MAX(k->pending.priority, priority);
		if (!add->delay)
			model_hear(k, &event);
		else if (!k->later || moves(add, at, k->later))
			k->later = at;
		break;
	case MODEL_SETTLING:
	case MODEL_SETTLING_DIRTY:
		/* It has a priority of its own only for a delay that its outcome gave it. */
		if (k->pending.count == 0 && k->wait == MODEL_WAIT_NONE && k->state == MODEL_SETTLING)
			k->pending.priority = priority;
		k->pending.priority = MAX(k->pending.priority, priority);
		if (!add->delay)
			k->state = MODEL_SETTLING_DIRTY;
		else if (k->state == MODEL_SETTLING && (!k->later || moves(add, at, k->later)))
			k->later = at;
		if (by_operator && !add->delay)
			k->wait = MODEL_WAIT_NONE;
		break;
	case MODEL_QUARANTINED:
		k->pending.priority = MAX(k->pending.priority, priority);
		if (changed && !add->delay) {
			model_make_ready(m, k, now);
			model_unpark(k);
			now_ready = true;
		} else if (changed && moves(add, at, k->at)) {
			k->at = at;
		}
		break;
	}
	/* Whether a change is the attempt's own doing shows at its end. */
	if (changed && !(k->state == MODEL_DIRTY && !k->news))
		model_backoff_anew(k);
	k->pending.changed |= changed;
	merge_cause(&k->pending, add, now);
	if (now_ready)
		c->adds++;
	else
		c->merges++;
	model_turns_update(m, model_controller_of(m, add->key));
}

/* ---- grant ---- */

static void pause_end(struct model_controller *c)
{
	c->pause = MODEL_PAUSE_NONE;
	c->pause_since = c->pause_until = c->pause_delay = 0;
}

static void forget_crashed(struct model_controller *c)
{
	memset(c->crashed, 0, sizeof(c->crashed));
	c->n_crashed = 0;
}

void model_grant(struct model *m, int key, uint64_t generation, int64_t now)
{
	struct model_key *k = &m->keys[key];
	struct model_controller *c = model_controller(m, key);
	int b = band_of(k->pending.priority), namespace = model_namespace_of(m, key);
	k->state = MODEL_RUNNING;
	k->leased = k->pending;
	k->pending = (struct model_pending){.priority = k->leased.priority};
	k->generation = generation;
	k->granted_at = now;
	k->deadline = now + c->rules.timeout;
	k->lease_end = k->over_at = k->deadline + LEASE_EXTRA;
	k->at = k->later = 0;
	k->n_events = 0;
	k->news = false;
	c->grants++;
	/* Its turn is over: to the end of the round. */
	for (int i = 0, at = 0; i < c->n_turn[b]; i++)
		if (c->turn[b][i] != namespace)
			c->turn[b][at++] = c->turn[b][i];
	c->turn[b][c->n_turn[b] - 1] = namespace;
	model_turns_update(m, model_controller_of(m, key));
	if (c->pause == MODEL_PAUSE_THROTTLED)
		pause_end(c);
	else if (c->pause != MODEL_PAUSE_NONE)
		c->pause_until = now + c->pause_delay;
}

/* ---- the end of an attempt ---- */

static void pause_begin(struct model_controller *c, enum model_pause why, int64_t delay, int64_t now)
{
	c->pause = why;
	c->pause_since = now;
	c->pause_delay = delay;
	c->pause_until = now + delay;
}

static void pause_ended(struct model *m, int key, const struct model_done *d, int64_t until, int64_t now)
{
	struct model_controller *c = model_controller(m, key);
	const struct model_key *k = &m->keys[key];
	int local = key % (m->names * MODEL_NAMESPACES);
	switch ((enum wire_outcome)d->outcome) {
	case WIRE_OUTCOME_EXEC_FAILED:
	case WIRE_OUTCOME_START_FAILED:
		if (c->pause != MODEL_PAUSE_START) {
			pause_begin(c, MODEL_PAUSE_START, NS_PER_S, now);
		} else if (k->granted_at > c->pause_since) { /* a probe, not one that was out already */
			int64_t since = c->pause_since;
			pause_begin(c, MODEL_PAUSE_START, MIN(c->pause_delay * 2, 60 * NS_PER_S), now);
			c->pause_since = since;
		}
		break;
	case WIRE_OUTCOME_CRASHED:
	case WIRE_OUTCOME_TIMEOUT:
	case WIRE_OUTCOME_OOM_KILLED:
		if (c->pause == MODEL_PAUSE_START)
			pause_end(c);
		if (!c->crashed[local] && c->n_crashed < 10) {
			c->crashed[local] = true;
			c->n_crashed++;
		}
		if (c->n_crashed == 10 && c->pause == MODEL_PAUSE_NONE)
			pause_begin(c, MODEL_PAUSE_CRASHES, 60 * NS_PER_S, now);
		break;
	case WIRE_OUTCOME_PROTOCOL_ERROR:
		if (c->pause == MODEL_PAUSE_START)
			pause_end(c);
		break;
	case WIRE_OUTCOME_OK:
		forget_crashed(c);
		if (c->pause != MODEL_PAUSE_THROTTLED)
			pause_end(c);
		break;
	case WIRE_OUTCOME_TRANSIENT:
	case WIRE_OUTCOME_NOT_READY:
	case WIRE_OUTCOME_THROTTLED:
	case WIRE_OUTCOME_CONFLICT:
	case WIRE_OUTCOME_TERMINAL:
		if (c->pause == MODEL_PAUSE_CRASHES)
			forget_crashed(c);
		if (c->pause == MODEL_PAUSE_START || c->pause == MODEL_PAUSE_CRASHES)
			pause_end(c);
		if (until > now && (c->pause == MODEL_PAUSE_NONE || until > c->pause_until))
			pause_begin(c, MODEL_PAUSE_THROTTLED, until - now, now);
		break;
	case WIRE_OUTCOME_WORKER_LOST:
	case WIRE_OUTCOME_CANCELLED:
	case WIRE_OUTCOME_COUNT:
		break;
	}
}

static bool returned(const struct model_done *d)
{
	return d->outcome == WIRE_OUTCOME_WORKER_LOST || d->outcome == WIRE_OUTCOME_EXEC_FAILED ||
	       d->outcome == WIRE_OUTCOME_START_FAILED || d->outcome == WIRE_OUTCOME_CANCELLED;
}

/* What was pending at the grant comes back, before what came since. */
static void give_back(struct model_key *k)
{
	struct model_pending *p = &k->pending, *was = &k->leased;
	if (k->state == MODEL_RUNNING) {
		*p = *was;
		return;
	}
	p->priority = MAX(p->priority, was->priority);
	p->added_at = was->added_at;
	p->changed |= was->changed;
	p->causes |= was->causes;
	if (was->count) {
		p->last_object = p->count > 1 ? p->last_object : p->first_object;
		p->first_cause = was->first_cause;
		p->first_object = was->first_object;
	}
	p->count = MIN(p->count + was->count, (uint32_t)UINT16_MAX);
}

void model_ended(struct model *m, int key, const struct model_done *d, const struct model_end *e,
		 int64_t delay, int64_t backoff, int64_t now)
{
	struct model_key *k = &m->keys[key];
	struct model_controller *c = model_controller(m, key);
	bool pending = k->state != MODEL_RUNNING;
	int64_t later = k->state == MODEL_TIMED ? k->at : 0;
	if (e->limited)
		k->backoff_until = now + backoff;
	int64_t until = d->pause_controller && e->wait == MODEL_WAIT_THROTTLED ? now + delay : 0;
	pause_ended(m, key, d, until, now);
	c->outcomes[d->outcome]++;
	if (model_result(d) >= 0)
		c->results[model_result(d)]++;
	k->last_outcome = d->outcome;
	if (returned(d)) {
		give_back(k);
	} else if (!(d->outcome == WIRE_OUTCOME_TERMINAL ||
		     (d->outcome == WIRE_OUTCOME_OK && !d->asked && !d->requeue))) {
		int32_t priority = d->has_priority ? clamp_priority(d->priority) : k->leased.priority;
		k->pending.priority = pending ? MAX(k->pending.priority, priority) : priority;
	}
	k->state = e->to;
	k->wait = e->wait;
	k->at = now + delay;
	if (!k->pending.added_at)
		k->pending.added_at = now;
	k->leased = (struct model_pending){0};
	k->generation = 0;
	k->lease_end = k->over_at = 0;
	k->later = 0;
	if (model_settles(k)) {
		k->later = later;
		model_hold_begin(m, key, d, now);
	}
	if (e->to == MODEL_QUARANTINED)
		c->quarantines++;
	if ((e->to == MODEL_WAITING || e->to == MODEL_SETTLING) && e->limited)
		c->retries++;
	if (e->to == MODEL_NONE)
		*k = (struct model_key){0};
	model_turns_update(m, model_controller_of(m, key));
}

/* ---- time ---- */

int64_t model_due(const struct model *m, int key)
{
	const struct model_key *k = &m->keys[key];
	if (model_leased(k))
		return k->over_at;
	if (model_settles(k))
		return k->lease_end;
	return k->state == MODEL_WAITING || k->state == MODEL_QUARANTINED ? k->at : INT64_MAX;
}

int64_t model_next_time(const struct model *m, int64_t now)
{
	int64_t next = INT64_MAX;
	for (int i = 0; i < m->n_keys; i++)
		next = MIN(next, model_due(m, i));
	for (int i = 0; i < MODEL_CONTROLLERS; i++) {
		const struct model_controller *c = &m->controllers[i];
		if (c->configured && !c->held && c->pause != MODEL_PAUSE_NONE && c->pause_until > now)
			next = MIN(next, c->pause_until);
	}
	return next;
}

void model_tick(struct model *m, int key, int64_t now)
{
	struct model_key *k = &m->keys[key];
	if (model_leased(k)) {
		k->over_at = now + KILL_AGAIN;
		return;
	}
	if (model_settles(k)) {
		model_hold_end(m, key, true, now);
		return;
	}
	if (k->state == MODEL_QUARANTINED)
		model_unpark(k);
	model_make_ready(m, k, now);
	model_turns_update(m, model_controller_of(m, key));
}

/* ---- controllers ---- */

int model_drop(struct model *m, int controller)
{
	int dropped = 0;
	for (int i = 0; i < m->n_keys; i++) {
		struct model_key *k = &m->keys[i];
		if (model_controller_of(m, i) != controller || k->state == MODEL_NONE || model_leased(k))
			continue;
		*k = (struct model_key){0};
		dropped++;
	}
	model_forget_told(m);
	struct model_controller *c = &m->controllers[controller];
	c->configured = false;
	if (leases(m, controller) == 0)
		*c = (struct model_controller){0};
	model_turns_update(m, controller);
	return dropped;
}

void model_clear(struct model *m, int key, int64_t now)
{
	model_unpark(&m->keys[key]);
	model_make_ready(m, &m->keys[key], now);
	model_turns_update(m, model_controller_of(m, key));
}

void model_unpause(struct model *m, int controller)
{
	pause_end(&m->controllers[controller]);
	forget_crashed(&m->controllers[controller]);
}

void model_hold(struct model *m, int controller)
{
	m->controllers[controller].held = true;
}

void model_resume(struct model *m, int controller)
{
	m->controllers[controller].held = false;
	model_unpause(m, controller);
}
