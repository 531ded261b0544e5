/* What client-go's workqueue and controller-runtime's priority queue and controller are tested for, one small test for each
 * behaviour. Where ours differs on purpose, the test says so. What only ours does is in the other tests of the queue; that all of
 * it holds together is in queue_random_test.c. */
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
TestSuite(workqueue, .init = setup, .fini = teardown);
TestSuite(delay, .init = setup, .fini = teardown);
TestSuite(limiter, .init = setup, .fini = teardown);
TestSuite(priority, .init = setup, .fini = teardown);
TestSuite(controller, .init = setup, .fini = teardown);

static uint32_t len(void)
{
	return index_ready_len(&l.wq.index, l.c);
}

static struct shm_controller_counters counters(void)
{
	return workqueue_counters(&l.wq, l.c);
}

/* ---- the workqueue of client-go ---- */

Test(workqueue, basic)
{
	struct workqueue_grant g;
	cr_assert(!lib_grant(&l, &g));
	cr_assert(lib_add(&l, "a") == SHM_STATE_READY);
	g = lib_get(&l, "a");
	cr_assert(span_is(g.namespace, "shop"));
	cr_assert(lib_slot(&l, "a")->state == SHM_STATE_RUNNING);
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_OK).to == SHM_STATE_NONE);
	cr_assert(lib_slot(&l, "a") == NULL);
	cr_assert(!lib_grant(&l, &g));
}

Test(workqueue, add_while_processing_runs_once_more_after_it)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a"), again;
	cr_assert(lib_add(&l, "a") == SHM_STATE_DIRTY);
	cr_assert(lib_add(&l, "a") == SHM_STATE_DIRTY);
	cr_assert(!lib_grant(&l, &again), "a leased key was granted a second time");
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_OK).to == SHM_STATE_READY);
	again = lib_get(&l, "a");
	cr_assert(again.generation != g.generation);
	lib_outcome(&l, &again, WIRE_OUTCOME_OK);
	cr_assert(!lib_grant(&l, &again));
}

Test(workqueue, len_is_of_ready_keys_only)
{
	lib_add(&l, "a");
	lib_add(&l, "b");
	lib_after(&l, "later", 5000, WIRE_TIMER_EARLIEST);
	cr_assert(len() == 2);
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(len() == 1, "one that runs is counted");
	lib_add(&l, "a");
	cr_assert(len() == 1, "one that runs is counted because it is dirty");
	lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	cr_assert(len() == 2);
	lib_advance(&l, 5 * S);
	cr_assert(len() == 3);
}

Test(workqueue, reinsert_goes_to_the_tail)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	l.now += 1;
	lib_add(&l, "a");
	l.now += 1;
	lib_add(&l, "b");
	lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	lib_run(&l, "b", WIRE_OUTCOME_OK);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
}

Test(workqueue, collapse)
{
	for (int i = 0; i < 5; i++)
		lib_add(&l, "a");
	cr_assert(index_ready_len(&l.wq.index, l.c) == 1);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	struct workqueue_grant g;
	cr_assert(!lib_grant(&l, &g));
}

Test(workqueue, collapse_while_processing)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	for (int i = 0; i < 5; i++)
		lib_add(&l, "a");
	lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	cr_assert(len() == 1 && lib_slot(&l, "a")->count == 5);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	cr_assert(len() == 0 && !lib_grant(&l, &g));
}

/* Theirs hands the backlog out before it stops (workqueue) or drops it (priority queue); ours is in the region. */
Test(workqueue, a_stopped_queue_keeps_what_it_has)
{
	lib_add(&l, "a");
	lib_after(&l, "later", 5000, WIRE_TIMER_EARLIEST);
	lib_restart(&l);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	lib_expect_due_in(&l, "later", 5 * S);
}

/* Also of a key that was added while it ran. Theirs runs it once more; ours runs it after the pause, and refuses no add. */
Test(workqueue, drain_waits_for_what_runs_and_grants_nothing_more)
{
	struct workqueue_grant none;
	lib_add(&l, "a");
	lib_add(&l, "b");
	struct workqueue_grant a = lib_get(&l, "a");
	lib_add(&l, "a");
	workqueue_hold(&l.wq, l.c, l.now);
	cr_assert(l.wq.controllers[l.c].running == 1 && !lib_grant(&l, &none));
	cr_assert(lib_outcome(&l, &a, WIRE_OUTCOME_OK).to == SHM_STATE_READY);
	cr_assert(l.wq.controllers[l.c].running == 0 && !lib_grant(&l, &none));
	cr_assert(lib_add(&l, "c") == SHM_STATE_READY);
	workqueue_resume(&l.wq, l.c);
	lib_run(&l, "b", WIRE_OUTCOME_OK);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	lib_run(&l, "c", WIRE_OUTCOME_OK);
}

Test(workqueue, forced_shutdown_neither_loses_nor_doubles_a_running_key)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a"), second;
	lib_add(&l, "a");
	lib_restart(&l);
	cr_assert(!lib_grant(&l, &second), "it runs in two places");
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_OK).to == SHM_STATE_READY);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
}

/* ---- its delays ---- */

Test(delay, an_add_for_later_waits)
{
	cr_assert(lib_after(&l, "a", 5000, WIRE_TIMER_EARLIEST) == SHM_STATE_WAITING);
	cr_assert(lib_slot(&l, "a")->wait == SHM_WAIT_ADD_AFTER);
	lib_expect_due_in(&l, "a", 5 * S);
}

Test(delay, the_earliest_wins)
{
	lib_after(&l, "a", 5000, WIRE_TIMER_EARLIEST);
	lib_after(&l, "a", 9000, WIRE_TIMER_EARLIEST);
	lib_after(&l, "a", 3000, WIRE_TIMER_EARLIEST);
	cr_assert(lib_slot(&l, "a")->count == 3);
	lib_expect_due_in(&l, "a", 3 * S);
}

Test(delay, of_two_the_one_that_is_due_first_runs_first)
{
	lib_add(&l, "a");
	lib_add(&l, "b");
	struct workqueue_grant a = lib_get(&l, "a"), b = lib_get(&l, "b");
	lib_end(&l, &a, (struct wire_done){.requeue_after_ms = 2000});
	lib_end(&l, &b, (struct wire_done){.requeue_after_ms = 1000});
	cr_assert(workqueue_next(&l.wq, l.now) == l.now + 1 * S);
	lib_advance(&l, 1 * S);
	lib_run(&l, "b", WIRE_OUTCOME_OK);
	lib_advance(&l, 1 * S);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
}

Test(delay, many_run_in_the_order_of_their_times)
{
	char name[16];
	for (int i = 0; i < 100; i++) {
		int at = i * 37 % 100; /* in any order */
		snprintf(name, sizeof(name), "k%d", at);
		lib_after(&l, name, 1000 + at, WIRE_TIMER_EARLIEST);
	}
	lib_advance(&l, 2 * S);
	for (int at = 0; at < 100; at++) {
		snprintf(name, sizeof(name), "k%d", at);
		lib_run(&l, name, WIRE_OUTCOME_OK);
	}
}

/* ---- its limiters (fast/slow is not there: limiters are rows of a file, not objects) ---- */

Test(limiter, exponential_table)
{
	static const int64_t ms[] = {5,	    10,	    20,	    40,	    80,	     160,    320,
				     640,   1280,   2560,   5120,   10240,   20480,  40960,
				     81920, 163840, 327680, 655360, 1000000, 1000000};
	lib_add(&l, "a");
	for (size_t i = 0; i < ARRAY_SIZE(ms); i++) {
		struct workqueue_end end = lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT);
		cr_assert(end.delay == ms[i] * MS, "failure %zu: %lld ms, wanted %lld", i + 1,
			  (long long)(end.delay / MS), (long long)ms[i]);
		cr_assert(end.attempt == i + 1);
		lib_advance(&l, end.delay);
	}
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	lib_add(&l, "a");
	cr_assert(lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay == 5 * MS,
		  "success did not reset the backoff");
}

Test(limiter, no_number_of_failures_overflows)
{
	lib_add(&l, "a");
	for (int i = 0; i < 200; i++) {
		int64_t delay = lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay;
		cr_assert(delay > 0 && delay <= 1000 * S, "failure %d: %lld", i + 1, (long long)delay);
		lib_advance(&l, delay);
	}
}

Test(limiter, of_backoff_and_bucket_the_longer_counts_and_adds_are_free)
{
	struct workqueue_rules rules = lib_rules();
	rules.attempt.limits.qps = 10;
	rules.attempt.limits.burst = 3;
	workqueue_configure(&l.wq, l.c, &rules);
	char name[8];
	int64_t want[] = {5 * MS, 5 * MS, 5 * MS, 100 * MS, 200 * MS};
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		snprintf(name, sizeof(name), "k%zu", i);
		lib_add(&l, name);
		int64_t delay = lib_run(&l, name, WIRE_OUTCOME_TRANSIENT).delay;
		cr_assert(delay == want[i], "%zu: %lld ms", i, (long long)(delay / MS));
	}
}

/* Theirs reserves tokens without an end. */
Test(limiter, no_delay_is_longer_than_the_longest)
{
	struct workqueue_rules rules = lib_rules();
	rules.attempt.limits.qps = 0.1;
	rules.attempt.limits.burst = 1;
	rules.attempt.limits.max_delay = 25 * S;
	workqueue_configure(&l.wq, l.c, &rules);
	static const int64_t want[] = {5 * MS, 10 * S, 20 * S, 25 * S, 25 * S};
	char name[8];
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		snprintf(name, sizeof(name), "k%zu", i);
		lib_add(&l, name);
		int64_t delay = lib_run(&l, name, WIRE_OUTCOME_TRANSIENT).delay;
		cr_assert(delay == want[i], "%zu: %lld ms", i, (long long)(delay / MS));
	}
}

/* ---- the priority queue of controller-runtime ---- */

Test(priority, order_is_by_band_then_first_in_first_out)
{
	lib_add_key(&l, lib_key("low", -100));
	lib_add_key(&l, lib_key("normal1", 0));
	lib_add_key(&l, lib_key("high", 7));
	lib_add_key(&l, lib_key("normal2", 0));
	lib_add_key(&l, lib_key("lower", -5));
	static const char *const want[] = {"high", "normal1", "normal2", "lower", "low"};
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		lib_run(&l, want[i], WIRE_OUTCOME_OK);
}

Test(priority, a_leased_key_is_passed_over_and_comes_when_it_is_done)
{
	lib_add_key(&l, lib_key("a", 10));
	struct workqueue_grant a = lib_get(&l, "a"), none;
	lib_add_key(&l, lib_key("a", 10));
	lib_add_key(&l, lib_key("b", -100));
	lib_get(&l, "b");
	cr_assert(!lib_grant(&l, &none));
	lib_outcome(&l, &a, WIRE_OUTCOME_OK);
	lib_get(&l, "a");
}

Test(priority, an_add_while_it_runs_has_its_own_priority)
{
	lib_add_key(&l, lib_key("a", 10));
	struct workqueue_grant g = lib_get(&l, "a");
	lib_add_key(&l, lib_key("a", -100));
	lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	g = lib_get(&l, "a");
	cr_assert(g.priority == -100, "%d", g.priority);
}

Test(priority, keeps_the_highest_and_never_lowers)
{
	lib_add_key(&l, lib_key("a", 5));
	lib_add_key(&l, lib_key("a", -100));
	lib_add_key(&l, lib_key("b", 0));
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(g.priority == 5);
}

Test(priority, a_raised_key_goes_to_the_tail_of_its_new_band)
{
	lib_add_key(&l, lib_key("a", -100));
	l.now++;
	lib_add_key(&l, lib_key("b", 0));
	l.now++;
	lib_add_key(&l, lib_key("a", 0));
	lib_run(&l, "b", WIRE_OUTCOME_OK);
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(g.priority == 0);
}

Test(priority, an_add_for_now_consumes_the_one_for_later)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_end(&l, &g, (struct wire_done){.requeue_after_ms = 30000});
	l.now += 1 * S;
	cr_assert(lib_add(&l, "a") == SHM_STATE_READY);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	lib_advance(&l, 100 * S);
	cr_assert(!lib_grant(&l, &g), "the delayed entry of the classic queue ran a second time");
}

Test(priority, a_get_of_a_stopped_queue_returns)
{
	struct workqueue_grant g;
	lib_add(&l, "a");
	workqueue_hold(&l.wq, l.c, l.now);
	cr_assert(!lib_grant(&l, &g) && !workqueue_ready(&l.wq, l.c, l.now));
}

Test(priority, no_count_is_ever_negative)
{
	static const enum wire_outcome outcomes[] = {WIRE_OUTCOME_TRANSIENT, WIRE_OUTCOME_CONFLICT,
						     WIRE_OUTCOME_NOT_READY, WIRE_OUTCOME_OK};
	const struct workqueue_controller *c = &l.wq.controllers[l.c];
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		lib_after(&l, "a", 1, WIRE_TIMER_EARLIEST);
		lib_add_key(&l, lib_key("a", -100));
		lib_add_key(&l, lib_key("a", 10));
		cr_assert(len() == 1 && c->waiting == 0 && c->running == 0, "%zu", i);
		struct workqueue_end end = lib_run(&l, "a", outcomes[i]);
		bool waits = end.to == SHM_STATE_WAITING;
		cr_assert(len() == 0 && c->waiting == waits && c->running == 0, "%zu", i);
	}
	cr_assert(counters().adds == 5 && counters().merges == 7, "%llu, %llu",
		  (unsigned long long)counters().adds, (unsigned long long)counters().merges);
}

/* ---- the controller: what the end of an attempt does to the queue ---- */

/* The panic of theirs. It ends the process here and is counted against the key. */
Test(controller, a_crash_is_a_failure_with_backoff)
{
	lib_add(&l, "a");
	struct workqueue_end end = lib_run(&l, "a", WIRE_OUTCOME_CRASHED);
	cr_assert(end.to == SHM_STATE_WAITING && end.wait == SHM_WAIT_BACKOFF && end.delay == 5 * MS);
	cr_assert(end.attempt == 1 && counters().results[SHM_RESULT_ERROR] == 1 &&
		  counters().outcomes[WIRE_OUTCOME_CRASHED] == 1);
}

Test(controller, only_a_deadline_is_counted_as_a_timeout)
{
	lib_add(&l, "a");
	lib_run(&l, "a", WIRE_OUTCOME_CANCELLED); /* by the worker's end */
	cr_assert(counters().outcomes[WIRE_OUTCOME_TIMEOUT] == 0);
	lib_run(&l, "a", WIRE_OUTCOME_TIMEOUT);
	cr_assert(counters().outcomes[WIRE_OUTCOME_TIMEOUT] == 1);
	cr_assert(counters().results[SHM_RESULT_ERROR] == 1);
}

Test(controller, terminal_is_not_requeued_and_an_event_runs_it)
{
	lib_add(&l, "a");
	cr_assert(lib_run(&l, "a", WIRE_OUTCOME_TERMINAL).to == SHM_STATE_NONE);
	lib_advance(&l, 10000 * S);
	struct workqueue_grant g;
	cr_assert(!lib_grant(&l, &g));
	lib_add(&l, "a");
	g = lib_get(&l, "a");
	cr_assert(g.attempt == 0);
	cr_assert(store_controller(&l.store, l.c)->counters.results[SHM_RESULT_ERROR] == 1);
}

Test(controller, the_backoff_grows_until_an_attempt_ends_without_an_error)
{
	lib_add(&l, "a");
	lib_advance(&l, lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay);
	lib_advance(&l, lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay);
	lib_advance(&l, lib_run(&l, "a", WIRE_OUTCOME_NOT_READY).delay);
	cr_assert(lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay == 20 * MS);
	lib_advance(&l, 20 * MS);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	lib_add(&l, "a");
	cr_assert(lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay == 5 * MS);
}

Test(controller, requeue_is_rate_limited_and_no_failure)
{
	lib_add(&l, "a");
	int64_t want = 5 * MS;
	for (int i = 0; i < 4; i++, want *= 2) {
		struct workqueue_grant g = lib_get(&l, "a");
		cr_assert(g.attempt == 0);
		struct workqueue_end end =
		    lib_end(&l, &g, (struct wire_done){.requeue = true, .requeue_after_ms = -1});
		cr_assert(end.wait == SHM_WAIT_REQUEUE && end.delay == want, "%lld", (long long)end.delay);
		lib_advance(&l, end.delay);
	}
	const struct shm_controller *c = store_controller(&l.store, l.c);
	cr_assert(c->counters.results[SHM_RESULT_REQUEUE] == 4 && c->counters.results[SHM_RESULT_ERROR] == 0);
}

Test(controller, requeue_after_waits_exactly_and_resets_the_backoff)
{
	lib_add(&l, "a");
	lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT);
	lib_advance(&l, 1 * S);
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(g.attempt == 1 && g.last_outcome == WIRE_OUTCOME_TRANSIENT && span_is(g.message, "why"));
	struct workqueue_end end = lib_end(&l, &g, (struct wire_done){.requeue_after_ms = 30000});
	cr_assert(end.to == SHM_STATE_WAITING && end.wait == SHM_WAIT_REQUEUE_AFTER && end.delay == 30 * S);
	lib_advance(&l, 30 * S - 1);
	cr_assert(!lib_grant(&l, &g));
	lib_advance(&l, 1);
	g = lib_get(&l, "a");
	cr_assert(g.attempt == 0);
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_TRANSIENT).delay == 5 * MS);
}

/* Theirs ignores the time; ours keeps it when it is the longer one. */
Test(controller, an_error_beats_the_time_it_asks_for)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	struct workqueue_end end =
	    lib_end(&l, &g, (struct wire_done){.outcome = WIRE_OUTCOME_TRANSIENT, .requeue_after_ms = 15000});
	cr_assert(end.delay == 15 * S);
	for (int i = 0; i < 14; i++) {
		lib_advance(&l, end.delay);
		end = lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT);
	}
	lib_advance(&l, end.delay);
	g = lib_get(&l, "a");
	end =
	    lib_end(&l, &g, (struct wire_done){.outcome = WIRE_OUTCOME_TRANSIENT, .requeue_after_ms = 1000});
	cr_assert(end.delay > 100 * S);
}

Test(controller, priority_is_retained_by_each_requeue_and_overridden_by_the_answer)
{
	static const struct wire_done requeues[] = {
	    {.outcome = WIRE_OUTCOME_TRANSIENT, .requeue_after_ms = -1},
	    {.requeue_after_ms = 1000},
	    {.requeue = true, .requeue_after_ms = -1}};
	for (size_t i = 0; i < ARRAY_SIZE(requeues); i++) {
		lib_add_key(&l, lib_key("a", -100));
		struct workqueue_grant g = lib_get(&l, "a");
		lib_end(&l, &g, requeues[i]);
		lib_advance(&l, 2000 * S);
		g = lib_get(&l, "a");
		cr_assert(g.priority == -100, "requeue %zu", i);
		struct wire_done over = requeues[i];
		over.has_priority = true;
		over.priority = 3;
		lib_end(&l, &g, over);
		lib_advance(&l, 2000 * S);
		g = lib_get(&l, "a");
		cr_assert(g.priority == 3, "requeue %zu: %d", i, g.priority);
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	}
}
