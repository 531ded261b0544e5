/* How many hosts are awake, and whose turn it is. */
#include "queue/crew.h"
#include "queue/share.h"
#include <criterion/criterion.h>

#define S NS_PER_S
static const struct crew_rules elastic = {1, 3}, all = {CREW_ALL, CREW_ALL}, none = {0, 0};

#define EXPECT_STEP(want, rules, now, ...)                                                                   \
	cr_expect_eq(crew_step(&(struct crew){__VA_ARGS__}, &(rules), CREW_REST, now), want)

Test(crew, all_are_awake_where_nothing_is_elastic)
{
	EXPECT_STEP(CREW_STAY, all, 1000 * S, .awake = 5, .idle = true, .idle_since = S);
	EXPECT_STEP(CREW_WAKE, all, S, .awake = 5, .asleep = 1); /* it slept by an operator's word */
	cr_expect(crew_admits(&(struct crew){.awake = 255}, &all));
}

Test(crew, the_least_are_always_awake)
{
	cr_expect(crew_admits(&(struct crew){0}, &elastic));
	cr_expect(!crew_admits(&(struct crew){.awake = 1}, &elastic));
	EXPECT_STEP(CREW_WAKE, elastic, S, .awake = 0, .asleep = 2);
	EXPECT_STEP(CREW_STAY, elastic, 1000 * S, .awake = 1, .asleep = 2, .idle = true, .idle_since = S);
	EXPECT_STEP(CREW_STAY, none, S, .awake = 0, .asleep = 2, .ready = 7);
}

Test(crew, right_after_a_start_nobody_is_woken_for_the_number_and_the_least_do_not_sleep)
{
	EXPECT_STEP(CREW_STAY, elastic, S, .awake = 0, .asleep = 2, .partial = true);
	EXPECT_STEP(CREW_WAKE, elastic, S, .awake = 0, .asleep = 2, .partial = true, .ready = 1);
	EXPECT_STEP(CREW_WAKE, all, S, .awake = 1, .asleep = 2, .partial = true);
	EXPECT_STEP(CREW_STAY, elastic, S + CREW_REST, .awake = 1, .partial = true, .idle = true,
		    .idle_since = S);
	EXPECT_STEP(CREW_SLEEP, elastic, S + CREW_REST, .awake = 2, .partial = true, .idle = true,
		    .idle_since = S);
}

Test(crew, one_more_is_woken_while_keys_are_ready_and_all_are_busy)
{
	EXPECT_STEP(CREW_WAKE, elastic, S, .awake = 1, .asleep = 2, .ready = 1);
	EXPECT_STEP(CREW_STAY, elastic, S, .awake = 1, .asleep = 2, .ready = 1, .idle = true);
	/* The one that is waking will take it. */
	EXPECT_STEP(CREW_STAY, elastic, S, .awake = 2, .waking = 1, .asleep = 1, .ready = 1);
	EXPECT_STEP(CREW_WAKE, elastic, S, .awake = 2, .waking = 1, .asleep = 1, .ready = 2);
	EXPECT_STEP(CREW_STAY, elastic, S, .awake = 3, .asleep = 5, .ready = 9);
	EXPECT_STEP(CREW_STAY, elastic, S, .awake = 1, .asleep = 0, .ready = 9);
	cr_expect(crew_admits(&(struct crew){.awake = 2, .ready = 1}, &elastic));
	cr_expect(!crew_admits(&(struct crew){.awake = 2, .waking = 1, .ready = 1}, &elastic));
	cr_expect(!crew_admits(&(struct crew){.awake = 3, .ready = 9}, &elastic));
}

Test(crew, who_is_idle_for_long_sleeps_down_to_the_least)
{
	EXPECT_STEP(CREW_STAY, elastic, S + CREW_REST - 1, .awake = 2, .idle = true, .idle_since = S);
	EXPECT_STEP(CREW_SLEEP, elastic, S + CREW_REST, .awake = 2, .idle = true, .idle_since = S);
	EXPECT_STEP(CREW_STAY, elastic, S + CREW_REST, .awake = 2, .idle = false);
	cr_expect_eq(
	    crew_next(&(struct crew){.awake = 2, .idle = true, .idle_since = S}, &elastic, CREW_REST),
	    S + CREW_REST);
	cr_expect_eq(
	    crew_next(&(struct crew){.awake = 1, .idle = true, .idle_since = S}, &elastic, CREW_REST),
	    INT64_MAX);
}

Test(crew, an_operators_number_counts_at_once)
{
	EXPECT_STEP(CREW_SLEEP, none, S, .awake = 1, .idle = true, .idle_since = S);
	EXPECT_STEP(CREW_STAY, none, S, .awake = 1, .idle = false); /* busy: it may end */
	cr_expect(!crew_admits(&(struct crew){.ready = 9}, &none));
}

Test(share, takes_turns_and_skips_who_wants_nothing)
{
	cr_expect_eq(share_next(0, 5), -1);
	cr_expect_eq(share_next(1u << 5, 5), 5, "alone it may go on");
	cr_expect_eq(share_next(1u << 5 | 1u << 9, 5), 9);
	cr_expect_eq(share_next(1u << 5 | 1u << 9, 9), 5);
	cr_expect_eq(share_next(UINT64_C(1) << 63 | 1, 62), 63);
	cr_expect_eq(share_next(UINT64_C(1) << 63 | 1, 63), 0);
}
