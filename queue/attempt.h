/* What the end of an attempt means for its key: the table of error.type, as a function. Pure: works on the
 * image of the key's record. */
#pragma once
#include "limiter.h"
#include "shm_queue.h"
#include "state.h"

#define ATTEMPT_NOT_READY (60 * NS_PER_S) /* NotReady and Throttled without retryAfter */

struct attempt_rules { /* of the controller */
	struct limits limits;
	uint32_t crashes; /* within `within` that park a key; 0: never */
	int64_t within, park_for;
};

struct attempt_plan {
	enum state_event event; /* FINISH, DELAY, HOLD, PARK, RETURN */
	enum shm_wait wait;
	int64_t delay;		/* ns */
	bool limited;		/* the delay is the rate limiter's: a retry */
	enum shm_result result; /* for the counters; SHM_RESULT_COUNT: none */
};

/* A success after which nothing is to follow: for a key without a record, attempt_end would say FINISH and leave none. */
static inline bool attempt_is_plain_success(const struct wire_done *done)
{
	return done->outcome == WIRE_OUTCOME_OK && !done->requeue && done->requeue_after_ms <= 0;
}

/* Counts the outcome in *r (all but texts) and says what follows. granted_at: of this attempt; pending: there was an add while
 * it ran (it consumes delays, so no token is taken); changed: one saying that the key's own object changed
 * (so it is not parked). *bucket: see limiter.h. */
struct attempt_plan attempt_end(struct shm_record *r, const struct wire_done *done,
				const struct attempt_rules *rules, int64_t granted_at, bool pending,
				bool changed, int64_t *bucket, uint64_t *random, int64_t now);
/* The key's own object changed, or an operator wants it run: what it failed with before says nothing about it
 * now, so its backoff starts anew. The count of failures in a row stays. */
void attempt_changed(struct shm_record *r);
/* What leaving quarantine forgets: crashes and backoff, not the count of failures in a row. */
void attempt_unpark(struct shm_record *r);
