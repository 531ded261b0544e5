/* How long a key waits after an attempt. Pure: time and randomness come from the caller. Times and delays in
 * ns.
 *
 * Semantics are those of client-go's rate limiters (exponential per key, token bucket per controller), with
 * jitter, and with a bucket that survives a restart because it is one number. */
#pragma once
#include "base.h"

struct limits { /* of one controller */
	int64_t base_delay, max_delay;
	double jitter;	/* 0.1: up to a tenth longer */
	double qps;	/* 0: no bucket */
	uint32_t burst; /* 0: every token is waited for */
};

/* A number in [0, 1) from a generator of one word of state (never 0). */
double limiter_random(uint64_t *state);

/* base doubling with each step, at most max; then lengthened by up to jitter, or shortened where it would
 * pass max. step counts from 1. Any numbers will do: what would overflow is max. */
int64_t limiter_backoff(const struct limits *l, uint32_t step, uint64_t *random);

/* Takes one token and says how long until it is there; never longer than max_delay. *bucket is the only
 * state: the time when the last token taken so far was, or will be, due. A bucket that nobody took from for a
 * while is full, which is 0's meaning too. It saves up the tokens of 73 years at most. */
int64_t limiter_take(const struct limits *l, int64_t *bucket, int64_t now);

/* After the n-th conflict in a row (from 1): 50 to 100 ms, doubling to 2.5 to 5 s. */
int64_t limiter_conflict(uint32_t n, uint64_t *random);
