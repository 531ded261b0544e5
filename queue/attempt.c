#include "attempt.h"
#include "program.h"

enum { CENTISECOND = 10 * NS_PER_MS };

static void count16(uint16_t *n)
{
	if (*n < UINT16_MAX)
		(*n)++;
}

static int64_t asked(const struct wire_done *done, int64_t otherwise)
{
	if (done->requeue_after_ms <= 0)
		return otherwise;
	return done->requeue_after_ms > INT64_MAX / 2 / NS_PER_MS ? INT64_MAX / 2
								  : done->requeue_after_ms * NS_PER_MS;
}

/* A failure raises the delay only if the last delay was served: an attempt that an event started in the
 * middle of it fails as often as events come, and must not push the key to the longest delay. */
static int64_t backoff(struct shm_record *r, const struct attempt_rules *rules, int64_t granted_at,
		       bool pending, int64_t *bucket, uint64_t *random, int64_t now)
{
	if (r->step == 0 || granted_at >= r->backoff_until)
		r->step += r->step < UINT32_MAX;
	int64_t delay = limiter_backoff(&rules->limits, r->step, random);
	int64_t token = pending ? 0 : limiter_take(&rules->limits, bucket, now);
	return MIN(MAX(delay, token), rules->limits.max_delay);
}

static void forget_crashes(struct shm_record *r)
{
	memset(r->crashes, 0, sizeof(r->crashes));
	r->crash_next = r->crash_count = 0;
}

static void reset(struct shm_record *r)
{
	r->attempt = r->step = r->conflicts = 0;
	r->backoff_until = 0;
	memset(r->outcomes, 0, sizeof(r->outcomes));
	forget_crashes(r);
}

/* More crashes than the ring has times: then only their number since the first of a window is kept. */
enum { WINDOW = SHM_CRASHES_MAX }; /* in crash_next */

static bool within(const struct attempt_rules *rules, uint32_t from, uint32_t to)
{
	return (int64_t)(uint32_t)(to - from) * CENTISECOND <= rules->within;
}

static bool too_many_in_window(struct shm_record *r, const struct attempt_rules *rules, uint32_t at)
{
	uint32_t *start = &r->crashes[0], *n = &r->crashes[1];
	if (r->crash_next != WINDOW || !within(rules, *start, at)) {
		forget_crashes(r);
		r->crash_next = WINDOW;
		*start = at;
	}
	*n += 1;
	r->crash_count = (uint8_t)MIN(*n, UINT8_MAX);
	return *n >= rules->crashes;
}

/* True if this was the last one that is allowed. The ring holds the last ones, so only its oldest `crashes`
 * matter. */
static bool crashed_too_often(struct shm_record *r, const struct attempt_rules *rules, int64_t now)
{
	uint32_t at = (uint32_t)(now / CENTISECOND);
	if (rules->crashes > SHM_CRASHES_MAX)
		return too_many_in_window(r, rules, at);
	if (r->crash_next == WINDOW)
		forget_crashes(r);
	r->crashes[r->crash_next] = at;
	r->crash_next = (uint8_t)((r->crash_next + 1) % SHM_CRASHES_MAX);
	r->crash_count = (uint8_t)MIN(r->crash_count + 1u, SHM_CRASHES_MAX);
	return rules->crashes > 0 && r->crash_count >= rules->crashes &&
	       within(rules, r->crashes[(r->crash_next + SHM_CRASHES_MAX - rules->crashes) % SHM_CRASHES_MAX],
		      at);
}

static struct attempt_plan failure(struct shm_record *r, const struct wire_done *done,
				   const struct attempt_rules *rules, int64_t granted_at, bool pending,
				   int64_t *bucket, uint64_t *random, int64_t now)
{
	r->attempt += r->attempt < UINT32_MAX;
	r->conflicts = 0;
	int64_t delay = backoff(r, rules, granted_at, pending, bucket, random, now);
	delay = MAX(delay, asked(done, 0));
	return (struct attempt_plan){STATE_EVENT_DELAY, SHM_WAIT_BACKOFF, delay, true, SHM_RESULT_ERROR};
}

static struct attempt_plan success(struct shm_record *r, const struct wire_done *done,
				   const struct attempt_rules *rules, int64_t granted_at, bool pending,
				   int64_t *bucket, uint64_t *random, int64_t now)
{
	if (asked(done, 0) > 0) {
		reset(r);
		return (struct attempt_plan){STATE_EVENT_DELAY, SHM_WAIT_REQUEUE_AFTER, asked(done, 0), false,
					     SHM_RESULT_REQUEUE_AFTER};
	}
	if (!done->requeue) {
		reset(r);
		return (struct attempt_plan){STATE_EVENT_FINISH, SHM_WAIT_NONE, 0, false, SHM_RESULT_SUCCESS};
	}
	/* As AddRateLimited: the delays grow, yet nothing failed. */
	r->attempt = 0;
	r->conflicts = 0;
	int64_t delay = backoff(r, rules, granted_at, pending, bucket, random, now);
	return (struct attempt_plan){STATE_EVENT_DELAY, SHM_WAIT_REQUEUE, delay, true, SHM_RESULT_REQUEUE};
}

static struct attempt_plan plan(struct shm_record *r, const struct wire_done *done,
				const struct attempt_rules *rules, int64_t granted_at, bool pending,
				bool changed, int64_t *bucket, uint64_t *random, int64_t now)
{
	switch ((enum wire_outcome)done->outcome) {
	case WIRE_OUTCOME_OK:
		return success(r, done, rules, granted_at, pending, bucket, random, now);
	case WIRE_OUTCOME_TRANSIENT:
	case WIRE_OUTCOME_PROTOCOL_ERROR:
		return failure(r, done, rules, granted_at, pending, bucket, random, now);
	case WIRE_OUTCOME_TIMEOUT:
	case WIRE_OUTCOME_CRASHED:
	case WIRE_OUTCOME_OOM_KILLED: {
		struct attempt_plan p = failure(r, done, rules, granted_at, pending, bucket, random, now);
		if (crashed_too_often(r, rules, now) && !changed && !fault("quarantine"))
			p = (struct attempt_plan){STATE_EVENT_PARK, SHM_WAIT_NONE, rules->park_for, false,
						  SHM_RESULT_ERROR};
		return p;
	}
	case WIRE_OUTCOME_TERMINAL:
		reset(r);
		return (struct attempt_plan){STATE_EVENT_FINISH, SHM_WAIT_NONE, 0, false, SHM_RESULT_ERROR};
	case WIRE_OUTCOME_NOT_READY:
		r->conflicts = 0;
		return (struct attempt_plan){STATE_EVENT_DELAY, SHM_WAIT_NOT_READY,
					     asked(done, ATTEMPT_NOT_READY), false, SHM_RESULT_REQUEUE_AFTER};
	case WIRE_OUTCOME_THROTTLED:
		r->conflicts = 0;
		return (struct attempt_plan){STATE_EVENT_HOLD, SHM_WAIT_THROTTLED,
					     asked(done, ATTEMPT_NOT_READY), false, SHM_RESULT_REQUEUE_AFTER};
	case WIRE_OUTCOME_CONFLICT:
		r->conflicts += r->conflicts < UINT32_MAX;
		return (struct attempt_plan){STATE_EVENT_DELAY, SHM_WAIT_CONFLICT,
					     limiter_conflict(r->conflicts, random), false,
					     SHM_RESULT_REQUEUE};
	case WIRE_OUTCOME_WORKER_LOST:
	case WIRE_OUTCOME_EXEC_FAILED:
	case WIRE_OUTCOME_START_FAILED:
	case WIRE_OUTCOME_CANCELLED:
	case WIRE_OUTCOME_COUNT:
		break;
	}
	return (struct attempt_plan){STATE_EVENT_RETURN, SHM_WAIT_NONE, 0, false, SHM_RESULT_COUNT};
}

struct attempt_plan attempt_end(struct shm_record *r, const struct wire_done *done,
				const struct attempt_rules *rules, int64_t granted_at, bool pending,
				bool changed, int64_t *bucket, uint64_t *random, int64_t now)
{
	struct attempt_plan p = plan(r, done, rules, granted_at, pending, changed, bucket, random, now);
	if (p.wait == SHM_WAIT_BACKOFF || p.wait == SHM_WAIT_REQUEUE)
		r->backoff_until = now + p.delay;
	if (done->outcome < ARRAY_SIZE(r->outcomes) && done->outcome != WIRE_OUTCOME_OK)
		count16(&r->outcomes[done->outcome]);
	r->attempted = 1;
	r->last_outcome = (uint8_t)done->outcome;
	r->last_at = now;
	r->duration_us = (uint32_t)MIN(done->duration_us, (uint64_t)UINT32_MAX);
	return p;
}

void attempt_changed(struct shm_record *r)
{
	r->step = 0;
	r->backoff_until = 0;
}

void attempt_unpark(struct shm_record *r)
{
	attempt_changed(r);
	r->quarantined_at = 0;
	forget_crashes(r);
}
