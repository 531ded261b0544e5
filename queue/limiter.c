#include "limiter.h"

double limiter_random(uint64_t *state)
{
	/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016. */
	uint64_t x = *state;
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return (double)((x * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

int64_t limiter_backoff(const struct limits *l, uint32_t step, uint64_t *random)
{
	int64_t delay = MIN(l->base_delay, l->max_delay);
	uint32_t doublings = step > 0 ? step - 1 : 0;
	if (delay > 0)
		delay =
		    doublings < 63 && delay <= l->max_delay >> doublings ? delay << doublings : l->max_delay;
	int64_t spread = (int64_t)((double)delay * l->jitter * limiter_random(random));
	/* At the ceiling jitter must still spread keys that fail together, so there it goes downwards. */
	return delay > l->max_delay - spread ? l->max_delay - spread : delay + spread;
}

/* 73 years: longer than anybody waits, and four of them fit. */
#define FOREVER (INT64_MAX / 4)

int64_t limiter_take(const struct limits *l, int64_t *bucket, int64_t now)
{
	if (!(l->qps > 0))
		return 0;
	double exact = (double)NS_PER_S / l->qps;
	int64_t interval = exact < (double)FOREVER ? (int64_t)exact : FOREVER;
	int64_t saved = l->burst && interval > FOREVER / l->burst ? FOREVER : interval * (int64_t)l->burst;
	int64_t full = now - saved;
	/* A delay that may not grow does not save up debt either. */
	int64_t latest = now + MIN(l->max_delay, FOREVER);
	/* Soon after a boot `full` is before 0, so 0 is a word and not a time. */
	int64_t taken = *bucket == 0 ? full : MAX(MIN(*bucket, latest), full);
	int64_t due = MIN(taken + interval, latest);
	*bucket = due == 0 ? -1 : due;
	return MAX(due - now, 0);
}

int64_t limiter_conflict(uint32_t n, uint64_t *random)
{
	const int64_t first = 100 * (int64_t)NS_PER_MS, most = 5 * NS_PER_S;
	int64_t delay = first;
	for (uint32_t i = 1; i < n && delay < most; i++)
		delay *= 2;
	int64_t half = MIN(delay, most) / 2;
	return half + (int64_t)((double)half * limiter_random(random));
}
