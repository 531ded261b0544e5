/* Keys that are parked, and controllers that are paused. */
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

static void crash(enum wire_outcome outcome, enum shm_state want)
{
	struct workqueue_end end = lib_run(&l, "a", outcome);
	cr_assert(end.to == want, "%s led to %s", wire_outcome_name((uint32_t)outcome),
		  shm_state_name(end.to));
	if (want == SHM_STATE_WAITING)
		lib_advance(&l, end.delay);
}

static void park(void)
{
	lib_add(&l, "a");
	crash(WIRE_OUTCOME_CRASHED, SHM_STATE_WAITING);
	crash(WIRE_OUTCOME_TIMEOUT, SHM_STATE_WAITING);
	crash(WIRE_OUTCOME_OOM_KILLED, SHM_STATE_QUARANTINED);
}

Test(quarantine, parks_after_so_many_and_stays_through_events, .init = setup, .fini = teardown)
{
	park();
	cr_assert(lib_add(&l, "a") == SHM_STATE_QUARANTINED);
	lib_advance(&l, 3599 * S);
	struct workqueue_grant g;
	cr_assert(!lib_grant(&l, &g));
	cr_assert(l.wq.controllers[l.c].quarantined == 1);
	lib_advance(&l, 1 * S);
	lib_get(&l, "a");
}

Test(quarantine, is_left_when_the_object_itself_changes, .init = setup, .fini = teardown)
{
	park();
	cr_assert(lib_change(&l, "a") == SHM_STATE_READY);
	struct workqueue_end end = lib_run(&l, "a", WIRE_OUTCOME_CRASHED);
	cr_assert(end.to == SHM_STATE_WAITING && end.delay == 5 * MS && end.crashes == 1);
}

Test(quarantine, is_left_by_an_operator_and_by_another_file, .init = setup, .fini = teardown)
{
	park();
	struct wire_add_key key = lib_key("a", 0);
	key.cause = WIRE_CAUSE_OPERATOR;
	cr_assert(lib_add_key(&l, key) == SHM_STATE_READY);
	crash(WIRE_OUTCOME_CRASHED, SHM_STATE_WAITING);
	crash(WIRE_OUTCOME_CRASHED, SHM_STATE_WAITING);
	crash(WIRE_OUTCOME_CRASHED, SHM_STATE_QUARANTINED);
	cr_assert(workqueue_set_digest(&l.wq, l.c, "one", l.now) == 1);
	cr_assert(workqueue_set_digest(&l.wq, l.c, "one", l.now) == 0);
	lib_get(&l, "a");
}

Test(quarantine, crashes_that_are_far_apart_do_not_park, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	for (int i = 0; i < 30; i++) {
		crash(WIRE_OUTCOME_CRASHED, SHM_STATE_WAITING);
		lib_advance(&l, 400 * S);
	}
}

Test(quarantine, more_crashes_than_times_are_kept, .init = setup, .fini = teardown)
{
	struct workqueue_rules rules = lib_rules();
	rules.attempt.crashes = 40;
	workqueue_configure(&l.wq, l.c, &rules);
	lib_add(&l, "a");
	struct workqueue_end end;
	for (int i = 0; i < 6; i++) {
		lib_run(&l, "a", WIRE_OUTCOME_CRASHED);
		lib_change(&l, "a");
	}
	l.now += 601 * S; /* those are too long ago to count */
	for (int i = 0; i < 40; i++) {
		end = lib_run(&l, "a", WIRE_OUTCOME_CRASHED);
		cr_assert((end.to == SHM_STATE_QUARANTINED) == (i == 39), "crash %d led to %s", i + 1,
			  shm_state_name(end.to));
		if (i < 39)
			lib_change(&l, "a");
		if (i == 20) {
			lib_restart(&l);
			workqueue_configure(&l.wq, l.c, &rules);
		}
	}
}

Test(quarantine, lost_workers_errors_and_protocol_errors_do_not_count, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	for (int i = 0; i < 30; i++) {
		static const enum wire_outcome outcomes[] = {
		    WIRE_OUTCOME_TRANSIENT, WIRE_OUTCOME_PROTOCOL_ERROR, WIRE_OUTCOME_WORKER_LOST,
		    WIRE_OUTCOME_CANCELLED};
		struct workqueue_end end = lib_run(&l, "a", outcomes[i % 4]);
		cr_assert(end.to != SHM_STATE_QUARANTINED);
		lib_advance(&l, end.delay);
	}
}

Test(quarantine, an_object_that_changed_during_the_last_crash_runs_again, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	crash(WIRE_OUTCOME_CRASHED, SHM_STATE_WAITING);
	crash(WIRE_OUTCOME_CRASHED, SHM_STATE_WAITING);
	struct workqueue_grant g = lib_get(&l, "a");
	lib_change(&l, "a");
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_CRASHED).to == SHM_STATE_READY);
}

/* ---- pauses of the controller ---- */

Test(pause, a_program_that_cannot_be_started_charges_no_key_and_is_probed, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	lib_add(&l, "b");
	struct workqueue_grant a = lib_get(&l, "a"), b = lib_get(&l, "b"), g;
	cr_assert(lib_outcome(&l, &a, WIRE_OUTCOME_EXEC_FAILED).to == SHM_STATE_READY);
	cr_assert(lib_outcome(&l, &b, WIRE_OUTCOME_EXEC_FAILED).to == SHM_STATE_READY);
	static const int64_t probes[] = {1, 2, 4, 8, 16, 32, 60, 60};
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		lib_advance(&l, probes[i] * S - 1);
		cr_assert(!lib_grant(&l, &g), "probe %zu came too early", i);
		lib_advance(&l, 1);
		cr_assert(lib_grant(&l, &g), "probe %zu did not come", i);
		cr_assert(g.attempt == 0);
		struct workqueue_grant second;
		cr_assert(!lib_grant(&l, &second), "a second key was granted beside the probe");
		lib_outcome(&l, &g, WIRE_OUTCOME_START_FAILED);
	}
	lib_advance(&l, 60 * S);
	cr_assert(lib_grant(&l, &g));
	lib_outcome(&l, &g, WIRE_OUTCOME_TRANSIENT);
	cr_assert(store_controller(&l.store, l.c)->pause == SHM_PAUSE_NONE);
	cr_assert(lib_grant(&l, &g));
}

Test(pause, is_cleared_by_a_reload, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	lib_run(&l, "a", WIRE_OUTCOME_EXEC_FAILED);
	struct workqueue_grant g;
	cr_assert(!lib_grant(&l, &g));
	workqueue_unpause(&l.wq, l.c);
	cr_assert(lib_grant(&l, &g));
}

Test(pause, ten_different_keys_that_crash_pause_the_controller, .init = setup, .fini = teardown)
{
	char name[8];
	struct workqueue_grant g;
	for (int i = 0; i < 10; i++) {
		cr_assert(store_controller(&l.store, l.c)->pause == SHM_PAUSE_NONE);
		snprintf(name, sizeof(name), "k%d", i);
		lib_add(&l, name);
		lib_run(&l, name, WIRE_OUTCOME_CRASHED);
	}
	lib_add(&l, "x");
	lib_advance(&l, 59 * S);
	cr_assert(!lib_grant(&l, &g));
	lib_advance(&l, 1 * S);
	cr_assert(lib_grant(&l, &g));
	struct workqueue_grant second;
	cr_assert(!lib_grant(&l, &second));
	lib_outcome(&l, &g, WIRE_OUTCOME_CRASHED);
	lib_advance(&l, 30 * S);
	cr_assert(!lib_grant(&l, &second));
	lib_advance(&l, 30 * S);
	cr_assert(lib_grant(&l, &g));
	lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	cr_assert(lib_grant(&l, &g) && lib_grant(&l, &second));
}

Test(pause, a_success_in_between_forgets_the_crashes, .init = setup, .fini = teardown)
{
	char name[8];
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		lib_add(&l, name);
		lib_run(&l, name, i % 9 == 8 ? WIRE_OUTCOME_OK : WIRE_OUTCOME_CRASHED);
		cr_assert(store_controller(&l.store, l.c)->pause == SHM_PAUSE_NONE);
	}
}

/* Another pause in between is no success, whichever way it ends. */
Test(pause, crashes_before_and_after_another_pause_add_up, .init = setup, .fini = teardown)
{
	static const enum wire_outcome others[] = {WIRE_OUTCOME_THROTTLED, WIRE_OUTCOME_START_FAILED};
	struct workqueue_rules rules = lib_rules();
	rules.attempt.limits.base_delay = rules.attempt.limits.max_delay; /* those that crashed stay away */
	for (size_t o = 0; o < ARRAY_SIZE(others); o++) {
		char name[8];
		workqueue_configure(&l.wq, l.c, &rules);
		for (int i = 0; i < 10; i++) {
			const struct shm_controller *row = store_controller(&l.store, l.c);
			cr_assert(row->pause == SHM_PAUSE_NONE, "%d crashes around %s", i,
				  wire_outcome_name((uint32_t)others[o]));
			if (i == 5) {
				struct wire_done done = {.outcome = (uint32_t)others[o],
							 .requeue_after_ms = 1000,
							 .pause_controller = true};
				lib_add(&l, "other");
				struct workqueue_grant g = lib_get(&l, "other");
				lib_end(&l, &g, done);
				cr_assert(row->pause != SHM_PAUSE_NONE);
				lib_advance(&l, 1 * S);
				lib_run(&l, "other", WIRE_OUTCOME_TRANSIENT);
			}
			snprintf(name, sizeof(name), "k%d", i);
			lib_add(&l, name);
			lib_run(&l, name, WIRE_OUTCOME_CRASHED);
		}
		cr_assert(store_controller(&l.store, l.c)->pause == SHM_PAUSE_CRASHES);
		lib_done(&l);
		lib_init(&l);
	}
}

/* The tenth may crash while the controller is paused for another reason. */
Test(pause, the_tenth_crash_during_another_pause_counts_after_it, .init = setup, .fini = teardown)
{
	struct workqueue_grant g[11];
	char name[8];
	for (int i = 0; i < 11; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		lib_add(&l, name);
		g[i] = lib_get(&l, name);
	}
	lib_end(&l, &g[10],
		(struct wire_done){
		    .outcome = WIRE_OUTCOME_THROTTLED, .requeue_after_ms = 1000, .pause_controller = true});
	for (int i = 0; i < 10; i++)
		lib_outcome(&l, &g[i], WIRE_OUTCOME_CRASHED);
	cr_assert(store_controller(&l.store, l.c)->pause == SHM_PAUSE_THROTTLED);
	lib_advance(&l, 1 * S);
	lib_grant(&l, &g[0]);
	cr_assert(store_controller(&l.store, l.c)->pause == SHM_PAUSE_NONE);
	lib_outcome(&l, &g[0], WIRE_OUTCOME_CRASHED);
	cr_assert(store_controller(&l.store, l.c)->pause == SHM_PAUSE_CRASHES);
}

Test(pause, one_key_that_crashes_ten_times_does_not_pause_the_controller, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	for (int i = 0; i < 12; i++) {
		lib_run(&l, "a", WIRE_OUTCOME_CRASHED);
		lib_change(&l, "a");
	}
	cr_assert(store_controller(&l.store, l.c)->pause == SHM_PAUSE_NONE);
}

/* ---- an operator ---- */

Test(operator, a_pause_outlives_restart_and_reload_and_is_above_a_probe, .init = setup, .fini = teardown)
{
	struct workqueue_grant g;
	lib_add(&l, "a");
	lib_run(&l, "a", WIRE_OUTCOME_START_FAILED);
	workqueue_hold(&l.wq, l.c, l.now);
	lib_advance(&l, PAUSE_START_FIRST);
	cr_assert(!lib_grant(&l, &g), "a probe although an operator paused it");
	cr_assert_eq(workqueue_next(&l.wq, l.now), INT64_MAX, "it wakes up for a probe that is not allowed");
	lib_restart(&l);
	cr_assert(!lib_grant(&l, &g));
	workqueue_unpause(&l.wq, l.c);
	workqueue_set_digest(&l.wq, l.c, "another", l.now);
	cr_assert(!lib_grant(&l, &g));
	workqueue_resume(&l.wq, l.c);
	lib_get(&l, "a");
}

Test(operator, resume_ends_an_automatic_pause_too, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	lib_run(&l, "a", WIRE_OUTCOME_START_FAILED);
	workqueue_resume(&l.wq, l.c);
	cr_assert_eq(store_controller(&l.store, l.c)->pause, SHM_PAUSE_NONE);
	lib_get(&l, "a");
}

Test(operator, clears_one_key_or_all, .init = setup, .fini = teardown)
{
	const char *names[] = {"a", "b"};
	for (size_t i = 0; i < 2; i++) {
		lib_add(&l, names[i]);
		for (int n = 0; n < 3; n++) {
			lib_run(&l, names[i], WIRE_OUTCOME_CRASHED);
			lib_advance(&l, 10 * S);
		}
		cr_assert_eq(lib_slot(&l, names[i])->state, SHM_STATE_QUARANTINED);
	}
	cr_assert_eq(workqueue_clear(&l.wq, l.c, span_of("shop"), span_of("none"), l.now), 0);
	cr_assert_eq(workqueue_clear(&l.wq, l.c, span_of("shop"), span_of("b"), l.now), 1);
	cr_assert_eq(workqueue_clear(&l.wq, l.c, span_of("shop"), span_of("b"), l.now), 0,
		     "it is out already");
	lib_get(&l, "b");
	cr_assert_eq(workqueue_clear(&l.wq, l.c, (struct span){0}, (struct span){0}, l.now), 1);
	lib_get(&l, "a");
}

Test(operator, scale_is_forgotten_when_the_file_changes, .init = setup, .fini = teardown)
{
	workqueue_scale(&l.wq, l.c, 0);
	lib_restart(&l);
	cr_assert_eq(store_controller(&l.store, l.c)->scale, 1, "0 workers is not \"as the file says\"");
	workqueue_set_digest(&l.wq, l.c, "another", l.now);
	cr_assert_eq(store_controller(&l.store, l.c)->scale, 0);
}
