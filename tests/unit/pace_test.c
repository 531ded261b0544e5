#include "watcher/pace.h"
#include <criterion/criterion.h>

#define S(n) ((int64_t)(n)*NS_PER_S)

/* Takes all that is due at each tenth of a second; how many by then. */
static uint64_t taken_by(struct pace *p, uint64_t all, uint64_t taken, int64_t from_ns, int64_t until_ns)
{
	for (int64_t now = from_ns; now <= until_ns; now += NS_PER_S / 10)
		while (taken < all && pace_due_ns(p, all - taken) <= now) {
			pace_took(p, all - taken);
			taken++;
		}
	return taken;
}

Test(pace, a_round_is_even_and_over_at_its_end)
{
	struct pace p;
	pace_begin(&p, S(1000), S(100), 0.5);
	cr_expect_eq(p.end_ns, S(1100));
	uint64_t taken = 0, before = 0;
	for (int64_t at = S(1000); at < S(1100); at += S(10), before = taken) {
		taken = taken_by(&p, 1000, taken, at, at + S(10));
		cr_expect(taken - before >= 99 && taken - before <= 101, "%llu",
			  (unsigned long long)(taken - before));
	}
	cr_expect_eq(taken, 1000u);
	cr_expect_eq(pace_due_ns(&p, 0), S(1100));
}

Test(pace, the_one_thing_of_a_round_comes_at_its_end)
{
	struct pace p;
	pace_begin(&p, S(5), S(100), 0.5);
	cr_expect_eq(pace_due_ns(&p, 1), S(105));
}

Test(pace, the_period_varies_by_a_tenth)
{
	struct pace p;
	pace_begin(&p, 0, S(100), 0);
	cr_expect_eq(p.end_ns, S(90));
	pace_begin(&p, 0, S(100), 0.9999999);
	cr_expect(p.end_ns > S(109) && p.end_ns < S(110));
}

Test(pace, more_things_on_the_way_are_still_over_at_the_end)
{
	struct pace p;
	pace_begin(&p, 0, S(100), 0.5);
	uint64_t taken = taken_by(&p, 10, 0, 0, S(50));
	cr_expect(taken == 4 || taken == 5);
	cr_expect_eq(taken_by(&p, 1000, taken, S(50), S(100)), 1000u);
	pace_begin(&p, 0, S(100), 0.5);
	taken = taken_by(&p, 1000, 0, 0, S(50));
	cr_expect_eq(taken_by(&p, taken, taken, S(50), S(100)), taken, "the others are gone");
	cr_expect_eq(pace_due_ns(&p, 0), S(100));
}

Test(pace, a_limit_lets_a_second_s_worth_at_once_and_then_so_many_a_second)
{
	struct limit l = {0};
	cr_expect_eq(limit_has(&l, 100, S(50)), 100u);
	limit_take(&l, 100, 100, S(50));
	cr_expect_eq(limit_has(&l, 100, S(50)), 0u);
	cr_expect(limit_due_ns(&l, 100) <= S(50) + NS_PER_S / 99);
	cr_expect_eq(limit_has(&l, 100, limit_due_ns(&l, 100)), 1u);
	cr_expect_eq(limit_has(&l, 100, S(50) + NS_PER_S / 2), 50u);
	uint32_t sum = 0;
	for (int64_t now = S(50); now < S(60); now += NS_PER_S / 7) {
		uint32_t n = limit_has(&l, 100, now);
		limit_take(&l, 100, n, now);
		sum += n;
	}
	cr_expect(sum >= 970 && sum <= 1000, "%u", sum);
	cr_expect_eq(limit_has(&l, 100, S(100)), 100u, "what was not used for long does not add up");
}
