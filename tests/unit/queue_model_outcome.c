/* What an outcome asks for: limiters, quarantine, the state that follows. */
#include "queue_model.h"
#include "wire.h"

#define A_CENTI (10 * NS_PER_MS)

static void forget_crashes(struct model_key *k)
{
	k->n_crashes = k->in_window = 0;
}

void model_backoff_anew(struct model_key *k)
{
	k->step = 0;
	k->backoff_until = 0;
}

void model_unpark(struct model_key *k)
{
	model_backoff_anew(k);
	forget_crashes(k);
}

/* A bucket that fills by itself; it may be in debt by the longest delay. */
static int64_t take_token(struct model_controller *c, int64_t now)
{
	if (c->rules.qps <= 0)
		return 0;
	int64_t token = (int64_t)((double)NS_PER_S / c->rules.qps), full = token * c->rules.burst;
	if (!c->bucket_used)
		c->credit = full;
	else
		c->credit = MIN(full, c->credit + (now - c->credit_at));
	c->bucket_used = true;
	c->credit_at = now;
	c->credit = MAX(c->credit - token, -c->rules.max_delay);
	return MAX(-c->credit, (int64_t)0);
}

/* Bounds of the delay before another attempt. */
static void limited(struct model_controller *c, struct model_key *k, bool free, int64_t now,
		    struct model_end *e)
{
	if (k->step == 0 || k->granted_at >= k->backoff_until)
		k->step++;
	const struct model_rules *r = &c->rules;
	long double exact = (long double)r->base_delay;
	for (uint32_t i = 1; i < k->step && exact < (long double)r->max_delay; i++)
		exact *= 2;
	int64_t delay = exact > (long double)r->max_delay ? r->max_delay : (int64_t)exact;
	int64_t spread = (int64_t)((double)delay * r->jitter);
	int64_t token = free ? 0 : take_token(c, now);
	e->least = MIN(MAX(MIN(delay, r->max_delay - spread), token), r->max_delay);
	e->most = MIN(MAX(MIN(delay + spread, r->max_delay), token), r->max_delay);
	e->limited = true;
}

static bool one_crash_too_many(const struct model_rules *r, struct model_key *k, int64_t now)
{
	int64_t at = now / A_CENTI;
	if (r->crashes > MODEL_CRASHES_KEPT) {
		if (k->in_window == 0 || (at - k->window) * A_CENTI > r->within) {
			k->window = at;
			k->in_window = 0;
		}
		return ++k->in_window >= r->crashes;
	}
	memmove(k->crashes + 1, k->crashes, (MODEL_CRASHES_KEPT - 1) * sizeof(k->crashes[0]));
	k->crashes[0] = at;
	k->n_crashes = MIN(k->n_crashes + 1, (uint32_t)MODEL_CRASHES_KEPT);
	return r->crashes && k->n_crashes >= r->crashes &&
	       (at - k->crashes[r->crashes - 1]) * A_CENTI <= r->within;
}

static void forgiven(struct model_key *k)
{
	k->attempt = k->conflicts = 0;
	model_unpark(k);
}

static struct model_end waits(enum model_wait why, int64_t delay)
{
	return (struct model_end){.to = MODEL_WAITING, .wait = why, .least = delay, .most = delay};
}

/* What the outcome alone asks for; READY: back at once as it was, QUARANTINED: parked. */
static struct model_end outcome(struct model_controller *c, struct model_key *k, const struct model_done *d,
				int64_t now)
{
	const int64_t minute = 60 * NS_PER_S;
	bool dirty = k->state == MODEL_DIRTY;
	struct model_end e = waits(MODEL_WAIT_BACKOFF, 0);
	switch ((enum wire_outcome)d->outcome) {
	case WIRE_OUTCOME_OK:
		if (d->asked) {
			forgiven(k);
			return waits(MODEL_WAIT_REQUEUE_AFTER, d->asked);
		}
		if (!d->requeue) {
			forgiven(k);
			return (struct model_end){.to = MODEL_NONE};
		}
		k->attempt = k->conflicts = 0;
		e.wait = MODEL_WAIT_REQUEUE;
		limited(c, k, dirty, now, &e);
		return e;
	case WIRE_OUTCOME_TRANSIENT:
	case WIRE_OUTCOME_PROTOCOL_ERROR:
	case WIRE_OUTCOME_TIMEOUT:
	case WIRE_OUTCOME_CRASHED:
	case WIRE_OUTCOME_OOM_KILLED:
		k->attempt++;
		k->conflicts = 0;
		limited(c, k, dirty, now, &e);
		e.least = MAX(e.least, d->asked);
		e.most = MAX(e.most, d->asked);
		if (d->outcome != WIRE_OUTCOME_TRANSIENT && d->outcome != WIRE_OUTCOME_PROTOCOL_ERROR &&
		    one_crash_too_many(&c->rules, k, now) && !k->pending.changed)
			return (struct model_end){
			    .to = MODEL_QUARANTINED, .least = c->rules.park_for, .most = c->rules.park_for};
		return e;
	case WIRE_OUTCOME_TERMINAL:
		forgiven(k);
		return (struct model_end){.to = MODEL_NONE};
	case WIRE_OUTCOME_NOT_READY:
		k->conflicts = 0;
		return waits(MODEL_WAIT_NOT_READY, d->asked ? d->asked : minute);
	case WIRE_OUTCOME_THROTTLED:
		k->conflicts = 0;
		return waits(MODEL_WAIT_THROTTLED, d->asked ? d->asked : minute);
	case WIRE_OUTCOME_CONFLICT:
		k->conflicts++;
		e = waits(MODEL_WAIT_CONFLICT, 0);
		e.most = MIN((100 * (int64_t)NS_PER_MS) << MIN(k->conflicts - 1, 10u), 5 * NS_PER_S);
		e.least = e.most / 2;
		return e;
	case WIRE_OUTCOME_WORKER_LOST:
	case WIRE_OUTCOME_EXEC_FAILED:
	case WIRE_OUTCOME_START_FAILED:
	case WIRE_OUTCOME_CANCELLED:
	case WIRE_OUTCOME_COUNT:
		break;
	}
	return (struct model_end){.to = MODEL_READY};
}

struct model_end model_plan(struct model *m, int key, const struct model_done *d, int64_t now)
{
	struct model_key *k = &m->keys[key];
	model_forget_own(k, d);
	if (k->pending.changed)
		model_backoff_anew(k);
	if (k->state == MODEL_TIMED && k->at <= now)
		k->state = MODEL_DIRTY;
	struct model_end e = outcome(model_controller(m, key), k, d, now);
	e.attempt = k->attempt;
	e.backoff_least = e.least;
	e.backoff_most = e.most;
	bool throttled = e.wait == MODEL_WAIT_THROTTLED;
	if (e.to != MODEL_QUARANTINED && model_wrote(d)) {
		/* One that is given back is to run for what it was granted for. */
		e.to = e.to == MODEL_READY || k->state == MODEL_DIRTY ? MODEL_SETTLING_DIRTY : MODEL_SETTLING;
		return e;
	}
	if (e.to == MODEL_READY || e.to == MODEL_QUARANTINED)
		return e;
	if (k->state == MODEL_DIRTY && !throttled) {
		e.to = MODEL_READY;
		e.wait = MODEL_WAIT_NONE;
		e.least = e.most = 0;
	}
	if (k->state == MODEL_TIMED && !throttled) {
		/* The earlier of what it was added for and what its outcome asks for. */
		int64_t left = k->at - now;
		if (e.to == MODEL_NONE || (left < e.least && e.wait == MODEL_WAIT_REQUEUE_AFTER))
			e.wait = MODEL_WAIT_ADD_AFTER;
		e.least = e.to == MODEL_NONE ? left : MIN(e.least, left);
		e.most = e.to == MODEL_NONE ? left : MIN(e.most, left);
		e.to = MODEL_WAITING;
	}
	return e;
}

/* As controller-runtime counts. */
int model_result(const struct model_done *d)
{
	switch ((enum wire_outcome)d->outcome) {
	case WIRE_OUTCOME_OK:
		return d->asked ? 3 : d->requeue ? 2 : 0;
	case WIRE_OUTCOME_NOT_READY:
	case WIRE_OUTCOME_THROTTLED:
		return 3;
	case WIRE_OUTCOME_CONFLICT:
		return 2;
	case WIRE_OUTCOME_TRANSIENT:
	case WIRE_OUTCOME_PROTOCOL_ERROR:
	case WIRE_OUTCOME_TIMEOUT:
	case WIRE_OUTCOME_CRASHED:
	case WIRE_OUTCOME_OOM_KILLED:
	case WIRE_OUTCOME_TERMINAL:
		return 1;
	case WIRE_OUTCOME_WORKER_LOST:
	case WIRE_OUTCOME_EXEC_FAILED:
	case WIRE_OUTCOME_START_FAILED:
	case WIRE_OUTCOME_CANCELLED:
	case WIRE_OUTCOME_COUNT:
		break;
	}
	return -1;
}
