#include "exec_schedule.h"
#include <criterion/criterion.h>

#define S(n) ((int64_t)(n)*NS_PER_S)

/* A schedule whose credential came at second `now`. */
static struct exec_schedule with(int64_t now, int64_t life)
{
	struct exec_schedule s = {0};
	cr_assert_eq(exec_schedule_need(&s, S(now)), EXEC_WAIT);
	cr_assert(exec_schedule_wants_run(&s, true, S(now)));
	exec_schedule_started(&s, S(now));
	exec_schedule_got(&s, life, 0, S(now));
	cr_assert_eq(exec_schedule_need(&s, S(now)), EXEC_USE);
	return s;
}

Test(exec_schedule, one_run_for_everybody)
{
	struct exec_schedule s = {0};
	cr_assert(!exec_schedule_wants_run(&s, false, S(1)), "nobody needs it");
	cr_assert(exec_schedule_wants_run(&s, true, S(1)));
	exec_schedule_started(&s, S(1));
	cr_assert(!exec_schedule_wants_run(&s, true, S(1)));
	cr_assert_eq(exec_schedule_need(&s, S(1)), EXEC_WAIT);
	cr_assert_eq(exec_schedule_due_ns(&s), INT64_MAX);
	exec_schedule_got(&s, INT64_MAX, 0.5, S(2));
	s.used = true;
	cr_assert_eq(exec_schedule_due_ns(&s), INT64_MAX, "it never ends");
	cr_assert_eq(exec_schedule_need(&s, S(1000000)), EXEC_USE);
}

Test(exec_schedule, renewed_before_its_end_when_used)
{
	struct exec_schedule s = with(0, S(20));
	cr_assert(!exec_schedule_wants_run(&s, false, S(19)), "not used");
	s.used = true;
	cr_assert_eq(exec_schedule_due_ns(&s), S(16));
	cr_assert(!exec_schedule_wants_run(&s, false, S(15)) && exec_schedule_wants_run(&s, false, S(16)));
	exec_schedule_started(&s, S(16));
	cr_assert_eq(exec_schedule_need(&s, S(19)), EXEC_USE, "it is good while the next one is fetched");
	cr_assert_eq(exec_schedule_need(&s, S(20)), EXEC_WAIT);
	exec_schedule_got(&s, S(3600), 1.0, S(21));
	s.used = true;
	cr_assert_eq(exec_schedule_due_ns(&s), S(21 + 3600 - 60 - 30), "a little earlier by chance");
	s = with(0, S(20));
	cr_assert_eq(exec_schedule_need(&s, S(20)), EXEC_WAIT, "not used: fetched when it is needed");
	cr_assert(exec_schedule_wants_run(&s, true, S(20)));
}

/* A clock that is wrong makes no run for each request. */
Test(exec_schedule, over_when_it_comes)
{
	struct exec_schedule s = {0};
	exec_schedule_started(&s, S(1));
	cr_assert(exec_schedule_got(&s, S(-600), 0, S(1)), "is to be told");
	cr_assert_eq(exec_schedule_need(&s, S(10)), EXEC_USE);
	cr_assert_eq(exec_schedule_need(&s, S(11)), EXEC_WAIT);
	exec_schedule_started(&s, S(11));
	cr_assert(!exec_schedule_got(&s, S(10), 0, S(11)));
}

Test(exec_schedule, failures_hold_off)
{
	static const int64_t holds[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
	struct exec_schedule s = {0};
	int64_t now = 5;
	for (size_t i = 0; i < ARRAY_SIZE(holds); i++) {
		cr_assert(exec_schedule_wants_run(&s, true, S(now)));
		exec_schedule_started(&s, S(now));
		exec_schedule_failed(&s, S(now + 1));
		now += 1 + holds[i];
		cr_assert_eq(exec_schedule_need(&s, S(now) - 1), EXEC_FAIL);
		cr_assert(!exec_schedule_wants_run(&s, true, S(now) - 1));
		cr_assert_eq(exec_schedule_need(&s, S(now)), EXEC_WAIT);
	}
	exec_schedule_started(&s, S(now));
	exec_schedule_got(&s, S(100), 0, S(now));
	cr_assert_eq(s.failures, 0);
	/* A renewal that fails hurts nobody while the old one is good. */
	s.used = true;
	exec_schedule_started(&s, S(now + 80));
	exec_schedule_failed(&s, S(now + 81));
	cr_assert_eq(exec_schedule_need(&s, S(now + 81)), EXEC_USE);
	cr_assert_eq(exec_schedule_due_ns(&s), S(now + 82));
}

/* 401: asked once, and a server that goes on refusing makes no storm. */
Test(exec_schedule, refused)
{
	struct exec_schedule s = with(0, INT64_MAX);
	cr_assert(exec_schedule_refused(&s, S(10)));
	cr_assert_eq(exec_schedule_need(&s, S(10)), EXEC_WAIT);
	cr_assert(exec_schedule_wants_run(&s, true, S(10)));
	exec_schedule_started(&s, S(10));
	cr_assert(exec_schedule_refused(&s, S(10)), "those that come late wait for the same run");
	exec_schedule_got(&s, INT64_MAX, 0, S(10));
	cr_assert(!exec_schedule_refused(&s, S(10) + 1), "the new one too: not again at once");
	cr_assert_eq(exec_schedule_need(&s, S(10) + 1), EXEC_USE);
	unsigned runs = 0;
	for (int64_t t = 11; t < 11 + 600; t++) /* asked every second for ten minutes */
		if (exec_schedule_refused(&s, S(t))) {
			exec_schedule_started(&s, S(t));
			exec_schedule_got(&s, INT64_MAX, 0, S(t));
			runs++;
		}
	cr_assert(runs >= 5 && runs <= 16, "%u runs", runs);
	exec_schedule_accepted(&s);
	cr_assert(exec_schedule_refused(&s, S(1000)));
	exec_schedule_started(&s, S(1000));
	exec_schedule_failed(&s, S(1000));
	cr_assert_eq(exec_schedule_need(&s, S(1000)), EXEC_USE,
		     "the refused one is all there is: the server decides");
}
