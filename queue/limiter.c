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
	for (uint32_t i = 1; i < step && delay < l->max_delay; i++)
		delay = delay > l->max_delay / 2 ? l->max_delay : delay * 2;
	int64_t spread = (int64_t)((double)delay * l->jitter * limiter_random(random));
	/* At the ceiling jitter must still spread keys that fail together, so there it goes downwards. */
	return delay > l->max_delay - spread ? l->max_delay - spread : delay + spread;
}

int64_t limiter_take(const struct limits *l, int64_t *bucket, int64_t now)
{
	if (l->qps <= 0)
		return 0;
	int64_t interval = (int64_t)((double)NS_PER_S / l->qps);
	int64_t full = now - interval * (int64_t)l->burst;
	int64_t due = MAX(*bucket, full) + interval;
	/* A delay that may not grow does not save up debt either. */
	due = MIN(due, now + l->max_delay);
	*bucket = due;
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
