/* Adds for a later time: one time a key, which the earliest takes, a replacement moves, and a cancel takes away. */
#include "queue_lib.h"

static struct lib l;
static void setup(void)
{
	lib_init(&l);
}
static void teardown(void)
{
	lib_done(&l);
}
TestSuite(timer, .init = setup, .fini = teardown);

static enum shm_state cancel(const char *name)
{
	return lib_after(&l, name, 0, WIRE_TIMER_CANCEL);
}

Test(timer, a_replacement_moves_it_later_and_earlier)
{
	lib_after(&l, "a", 5000, WIRE_TIMER_EARLIEST);
	lib_after(&l, "a", 9000, WIRE_TIMER_REPLACE);
	lib_expect_due_in(&l, "a", 9 * S);
	lib_after(&l, "a", 5000, WIRE_TIMER_EARLIEST);
	lib_after(&l, "a", 2000, WIRE_TIMER_REPLACE);
	lib_expect_due_in(&l, "a", 2 * S);
}

/* client-go issue 131: nothing could take a delayed add back. */
Test(timer, a_cancelled_key_is_gone)
{
	lib_after(&l, "a", 5000, WIRE_TIMER_EARLIEST);
	cr_assert(cancel("a") == SHM_STATE_NONE && lib_slot(&l, "a") == NULL);
	cr_assert(cancel("a") == SHM_STATE_NONE);
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_end(&l, &g, (struct wire_done){.requeue_after_ms = 1000});
	cr_assert(cancel("a") == SHM_STATE_NONE, "requeueAfter is a request, too");
	cr_assert(workqueue_next(&l.wq, l.now) == INT64_MAX);
}

Test(timer, a_cancel_takes_no_retry_no_event_and_no_quarantine_away)
{
	static const enum wire_outcome outcomes[] = {WIRE_OUTCOME_TRANSIENT, WIRE_OUTCOME_NOT_READY,
						     WIRE_OUTCOME_THROTTLED, WIRE_OUTCOME_CONFLICT};
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		lib_add(&l, "a");
		lib_run(&l, "a", outcomes[i]);
		lib_after(&l, "a", 1, WIRE_TIMER_EARLIEST);
		cr_assert(cancel("a") == SHM_STATE_WAITING, "%s", wire_outcome_name((uint32_t)outcomes[i]));
		lib_advance(&l, 1000000 * S);
		lib_run(&l, "a", WIRE_OUTCOME_OK);
	}
	lib_add(&l, "a");
	cr_assert(cancel("a") == SHM_STATE_READY);
	for (int i = 0; i < 3; i++)
		lib_advance(&l, i < 3 - 1 ? lib_run(&l, "a", WIRE_OUTCOME_CRASHED).delay
					  : (lib_run(&l, "a", WIRE_OUTCOME_CRASHED), 0));
	cr_assert(cancel("a") == SHM_STATE_QUARANTINED);
}

Test(timer, an_event_consumes_it)
{
	lib_after(&l, "a", 5000, WIRE_TIMER_EARLIEST);
	cr_assert(lib_add(&l, "a") == SHM_STATE_READY);
	cr_assert(lib_after(&l, "a", 9000, WIRE_TIMER_REPLACE) == SHM_STATE_READY, "an event was put off");
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	cr_assert(workqueue_next(&l.wq, l.now) == INT64_MAX);
}

Test(timer, of_a_running_key_is_kept_until_it_is_done)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(lib_after(&l, "a", 5000, WIRE_TIMER_EARLIEST) == SHM_STATE_TIMED);
	lib_advance(&l, 1 * S);
	lib_restart(&l);
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_OK).to == SHM_STATE_WAITING);
	lib_expect_due_in(&l, "a", 4 * S);
}

Test(timer, of_a_running_key_and_its_outcome_the_earlier_counts)
{
	static const struct {
		int64_t timer, requeue_after, want;
		enum shm_wait wait;
	} rows[] = {{5000, 3000, 3 * S, SHM_WAIT_REQUEUE_AFTER}, {5000, 8000, 5 * S, SHM_WAIT_ADD_AFTER}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		lib_add(&l, "a");
		struct workqueue_grant g = lib_get(&l, "a");
		lib_after(&l, "a", rows[i].timer, WIRE_TIMER_EARLIEST);
		struct workqueue_end end =
		    lib_end(&l, &g, (struct wire_done){.requeue_after_ms = rows[i].requeue_after});
		cr_assert(end.delay == rows[i].want && end.wait == rows[i].wait, "row %zu", i);
		lib_expect_due_in(&l, "a", rows[i].want);
	}
}

Test(timer, of_a_running_key_that_is_over_runs_at_once)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_after(&l, "a", 1000, WIRE_TIMER_EARLIEST);
	lib_advance(&l, 2 * S);
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_OK).to == SHM_STATE_READY);
}

Test(timer, of_a_running_key_is_replaced_and_cancelled)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_after(&l, "a", 5000, WIRE_TIMER_EARLIEST);
	lib_after(&l, "a", 9000, WIRE_TIMER_REPLACE);
	cr_assert(lib_slot(&l, "a")->ready_at == l.now + 9 * S);
	cr_assert(cancel("a") == SHM_STATE_RUNNING);
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_OK).to == SHM_STATE_NONE);
}

Test(timer, throttled_is_put_off_and_not_shortened_but_by_an_operator)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_end(&l, &g, (struct wire_done){.outcome = WIRE_OUTCOME_THROTTLED, .requeue_after_ms = 20000});
	lib_after(&l, "a", 1000, WIRE_TIMER_EARLIEST);
	lib_after(&l, "a", 1000, WIRE_TIMER_REPLACE);
	cr_assert(lib_slot(&l, "a")->ready_at == l.now + 20 * S);
	lib_after(&l, "a", 30000, WIRE_TIMER_REPLACE);
	cr_assert(lib_slot(&l, "a")->ready_at == l.now + 30 * S);
	struct wire_add_key key = lib_key("a", 0);
	key.cause = WIRE_CAUSE_OPERATOR;
	key.delay_ms = 2000;
	lib_add_key(&l, key);
	lib_expect_due_in(&l, "a", 2 * S);
}

Test(timer, the_longest_delay_does_not_overflow)
{
	l.now = INT64_C(300000000) * S;
	lib_after(&l, "a", WIRE_DELAY_MS_MOST, WIRE_TIMER_EARLIEST);
	cr_assert(lib_slot(&l, "a")->ready_at == l.now + WIRE_DELAY_MS_MOST * MS);
}

/* ---- restart ---- */

/* Two of three are ready, in another order than that of their slots; one of them for a month. */
Test(timer, after_a_restart_ready_keys_come_in_the_order_of_their_times_and_the_others_when_they_are_due)
{
	enum { N = 600 };
	lib_add(&l, "old");
	lib_advance(&l, 30 * 24 * 3600 * S);
	for (int i = 0; i < N; i++) {
		char name[16];
		int place = i * 7 % N;
		snprintf(name, sizeof(name), "k%d", place);
		lib_after(&l, name, place % 3 ? 1 + place : 3600000 + place, WIRE_TIMER_EARLIEST);
	}
	for (int i = 0; i < N; i++)
		lib_advance(&l, NS_PER_MS);
	lib_restart(&l);
	lib_run(&l, "old", WIRE_OUTCOME_OK);
	for (int third = 0; third < 2; third++) {
		for (int i = 0; i < N; i++) {
			char name[16];
			snprintf(name, sizeof(name), "k%d", i);
			if (third == 0 && i % 3)
				lib_run(&l, name, WIRE_OUTCOME_OK);
			if (third == 1 && i % 3 == 0) {
				lib_advance(&l, 3 * NS_PER_MS * (i > 0));
				lib_run(&l, name, WIRE_OUTCOME_OK);
			}
		}
		lib_advance(&l, 3600000 * (int64_t)NS_PER_MS - N * NS_PER_MS);
	}
}
