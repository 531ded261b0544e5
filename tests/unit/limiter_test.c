/* Delays at every limit of their numbers: what a configuration can name, and what it cannot. */
#include "queue/limiter.h"
#include <criterion/criterion.h>
#include <math.h>

#define MS ((int64_t)NS_PER_MS)
#define S  NS_PER_S

Test(limiter, the_delay_doubles_up_to_the_longest_and_no_step_overflows)
{
	static const struct {
		int64_t base, max, want;
		uint32_t step;
	} rows[] = {
	    {5 * MS, 1000 * S, 5 * MS, 0},
	    {5 * MS, 1000 * S, 5 * MS, 1},
	    {5 * MS, 1000 * S, 10 * MS, 2},
	    {5 * MS, 1000 * S, 655360 * MS, 18},
	    {5 * MS, 1000 * S, 1000 * S, 19},
	    {5 * MS, 1000 * S, 1000 * S, 63},
	    {5 * MS, 1000 * S, 1000 * S, 64},
	    {5 * MS, 1000 * S, 1000 * S, 65},
	    {5 * MS, 1000 * S, 1000 * S, UINT32_MAX},
	    {1, INT64_MAX, INT64_C(1) << 62, 63},
	    {1, INT64_MAX, INT64_MAX, 64},
	    {1, INT64_MAX, INT64_MAX, UINT32_MAX},
	    {INT64_MAX, INT64_MAX, INT64_MAX, 1},
	    {INT64_MAX, INT64_MAX, INT64_MAX, 2},
	    {INT64_MAX, 1 * S, 1 * S, 1},
	    {INT64_MAX / 2, INT64_MAX, INT64_MAX - 1, 2},
	    {INT64_MAX / 2 + 1, INT64_MAX, INT64_MAX, 2},
	    {3, 7, 6, 2},
	    {3, 7, 7, 3},
	    {0, 1000 * S, 0, 1},
	    {0, 1000 * S, 0, UINT32_MAX},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct limits limits = {.base_delay = rows[i].base, .max_delay = rows[i].max};
		uint64_t random = 1;
		int64_t got = limiter_backoff(&limits, rows[i].step, &random);
		cr_assert(got == rows[i].want, "row %zu: %lld", i, (long long)got);
	}
}

Test(limiter, jitter_never_overflows)
{
	uint64_t random = 7;
	for (int i = 0; i < 1000; i++)
		for (uint32_t step = 0; step < 70; step++) {
			struct limits limits = {
			    .base_delay = 1, .max_delay = INT64_MAX, .jitter = i % 2 ? 1.0 : 0.1};
			int64_t got = limiter_backoff(&limits, step, &random);
			cr_assert(got >= 0);
			limits.base_delay = INT64_MAX;
			got = limiter_backoff(&limits, step, &random);
			cr_assert(got >= 0 && (i % 2 || got >= INT64_MAX / 10 * 8));
		}
}

static int64_t wait_of(struct limits limits, unsigned taken, int64_t now)
{
	int64_t bucket = 0, wait = 0;
	for (unsigned i = 0; i < taken; i++)
		wait = limiter_take(&limits, &bucket, now);
	return wait;
}

Test(limiter, a_bucket_is_full_at_first_also_soon_after_a_boot)
{
	struct limits limits = {.max_delay = 1000 * S, .qps = 10, .burst = 100};
	for (int64_t now = 0; now <= 20 * S; now += 5 * S) {
		cr_assert(wait_of(limits, 100, now) == 0, "%lld s after the boot", (long long)(now / S));
		int64_t wait = wait_of(limits, 101, now);
		cr_assert(wait == 100 * MS || wait == 100 * MS - 1); /* -1 stands for the time 0 */
	}
}

Test(limiter, a_bucket_fills_again_and_not_further)
{
	struct limits limits = {.max_delay = 1000 * S, .qps = 10, .burst = 3};
	int64_t bucket = 0, now = 1000 * S;
	for (int i = 0; i < 3; i++)
		cr_assert(limiter_take(&limits, &bucket, now) == 0);
	cr_assert(limiter_take(&limits, &bucket, now) == 100 * MS);
	cr_assert(limiter_take(&limits, &bucket, now + 300 * MS) == 0);
	now += 3600 * S;
	for (int i = 0; i < 3; i++)
		cr_assert(limiter_take(&limits, &bucket, now) == 0);
	cr_assert(limiter_take(&limits, &bucket, now) == 100 * MS);
}

Test(limiter, a_burst_of_0_waits_for_every_token)
{
	struct limits limits = {.max_delay = 1000 * S, .qps = 10};
	cr_assert(wait_of(limits, 1, 1000 * S) == 100 * MS);
	cr_assert(wait_of(limits, 2, 1000 * S) == 200 * MS);
}

Test(limiter, no_qps_and_no_burst_overflow)
{
	static const double qps[] = {5e-324, 1e-300, 1e-12, 1e-6, 1, 1e5, 1e9, 1e12, 1e300, INFINITY};
	static const uint32_t bursts[] = {0, 1, 100, 1000000, UINT32_MAX};
	static const int64_t most[] = {1 * MS, 1000 * S, 86400 * S, INT64_MAX};
	for (size_t q = 0; q < ARRAY_SIZE(qps); q++)
		for (size_t b = 0; b < ARRAY_SIZE(bursts); b++)
			for (size_t m = 0; m < ARRAY_SIZE(most); m++) {
				struct limits limits = {
				    .max_delay = most[m], .qps = qps[q], .burst = bursts[b]};
				int64_t bucket = 0, last = 0;
				for (int i = 0; i < 300; i++) {
					int64_t wait = limiter_take(&limits, &bucket, 1000 * S);
					cr_assert(wait >= last && wait <= most[m], "qps %g burst %u: %lld",
						  qps[q], bursts[b], (long long)wait);
					if (i < (int64_t)bursts[b] && i / qps[q] < 73 * 365.0 * 86400)
						cr_assert(wait == 0, "qps %g burst %u: token %d", qps[q],
							  bursts[b], i);
					last = wait;
				}
			}
	struct limits none = {.max_delay = 1000 * S, .qps = NAN, .burst = 1};
	cr_assert(wait_of(none, 100, 0) == 0);
	none.qps = 0;
	cr_assert(wait_of(none, 100, 0) == 0);
}

Test(limiter, any_number_in_the_region_is_a_bucket)
{
	static const int64_t found[] = {INT64_MIN, -1, 1, 999 * S, 5000 * S, INT64_MAX - 1, INT64_MAX};
	struct limits limits = {.max_delay = 1000 * S, .qps = 10, .burst = 100};
	for (size_t i = 0; i < ARRAY_SIZE(found); i++) {
		int64_t bucket = found[i], wait = limiter_take(&limits, &bucket, 1000 * S);
		cr_assert(wait >= 0 && wait <= 1000 * S);
	}
}

Test(limiter, a_conflict_is_retried_soon_whatever_their_number)
{
	uint64_t random = 5;
	static const uint32_t n[] = {0, 1, 2, 7, 64, UINT32_MAX};
	for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
		int64_t wait = limiter_conflict(n[i], &random);
		cr_assert(wait >= 50 * MS && wait <= 5 * S);
	}
	cr_assert(limiter_conflict(UINT32_MAX, &random) >= 2500 * MS);
}
