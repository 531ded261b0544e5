/* Read-your-writes: the hold after an attempt that wrote something, and the adds that an attempt caused itself. */
#include "queue_lib.h"

/* ---- who waits for what ---- */

static struct shm_event wrote(uint32_t table, uint64_t version)
{
	return (struct shm_event){table, 0, 1, version};
}

static uint32_t passes(struct settle *s, uint32_t table, uint64_t version)
{
	return settle_passed(s, &(struct wire_place){table, 0, version});
}

Test(settle, a_key_waits_for_the_highest_version_of_each_stream)
{
	struct settle s;
	settle_init(&s);
	const struct shm_event writes[] = {wrote(1, 10), wrote(2, 7), wrote(1, 12), wrote(1, 11)};
	settle_add(&s, 5, writes, ARRAY_SIZE(writes));
	settle_add(&s, 6, writes, 1);
	cr_assert_eq(passes(&s, 1, 9), SETTLE_NONE);
	cr_assert_eq(passes(&s, 3, 100), SETTLE_NONE);
	cr_assert_eq(passes(&s, 1, 11), 6);
	cr_assert_eq(passes(&s, 1, 11), SETTLE_NONE);
	cr_assert_eq(passes(&s, 1, 12), SETTLE_NONE);
	cr_assert_eq(passes(&s, 2, UINT64_MAX), 5);
	cr_assert(s.keys == 0 && !s.streams);
	settle_done(&s);
}

Test(settle, places_are_told_once_to_each_watcher)
{
	struct settle s;
	struct wire_place out[8];
	settle_init(&s);
	cr_assert(!s.news);
	const struct shm_event low[] = {wrote(1, 10)}, high[] = {wrote(1, 20), wrote(2, 5)};
	settle_add(&s, 1, high, 2);
	settle_add(&s, 2, low, 1);
	cr_assert(s.news);
	cr_assert_eq(settle_awaited(&s, out, 1), 1);
	cr_assert(s.news, "one is left");
	cr_assert_eq(settle_awaited(&s, out + 1, 7), 1);
	for (int i = 0; i < 2; i++)
		cr_assert(out[i].resource_version == (out[i].table == 1 ? 20 : 5));
	cr_assert(!s.news && settle_awaited(&s, out, 8) == 0);
	settle_add(&s, 3, low, 1); /* the watcher tells each step up to 20 */
	cr_assert(!s.news);
	settle_untell(&s);
	cr_assert(s.news && settle_awaited(&s, out, 8) == 2);
	settle_remove(&s, 1);
	settle_remove(&s, 1);
	cr_assert_eq(passes(&s, 1, 10), 2);
	cr_assert_eq(passes(&s, 1, 10), 3);
	cr_assert(!s.streams);
	settle_untell(&s);
	cr_assert(!s.news);
	settle_done(&s);
}

Test(settle, thousands_of_keys)
{
	struct settle s;
	settle_init(&s);
	enum { KEYS = 3000 };
	for (uint32_t i = 0; i < KEYS; i++) {
		const struct shm_event w[] = {wrote(1 + i % 3, 1000 + i * 7919u % KEYS), wrote(9, 1 + i)};
		settle_add(&s, i * 64, w, 2);
	}
	cr_assert_eq(s.keys, KEYS);
	for (uint32_t t = 1; t <= 3; t++)
		cr_assert_eq(passes(&s, t, 2 * KEYS), SETTLE_NONE);
	for (uint32_t i = 0; i < KEYS; i++) {
		cr_assert_eq(passes(&s, 9, 1 + i), i * 64);
		cr_assert_eq(passes(&s, 9, 1 + i), SETTLE_NONE);
	}
	cr_assert_eq(s.keys, 0);
	settle_done(&s);
}

/* ---- the life of a key ---- */

static struct wire_write write_of(uint64_t version)
{
	return (struct wire_write){.table = 1, .stream = 2, .resource_version = version, .own = true};
}

static struct wire_add_key event_add(const char *name, uint64_t version)
{
	struct wire_add_key key = lib_key(name, 0);
	key.table = 1;
	key.stream = 2;
	key.resource_version = version;
	return key;
}

static struct workqueue_end end_with(struct lib *l, const struct workqueue_grant *g, struct wire_done done,
				     const struct wire_write *writes, size_t n)
{
	done.writes.at = writes;
	done.writes.len = n;
	if (!done.requeue_after_ms)
		done.requeue_after_ms = -1;
	return lib_end(l, g, done);
}

static void pass(struct lib *l, uint64_t version)
{
	workqueue_passed(&l->wq, &(struct wire_place){1, 2, version}, l->now);
}

static enum shm_state state(struct lib *l, const char *name)
{
	const struct shm_slot *s = lib_slot(l, name);
	return s ? s->state : SHM_STATE_NONE;
}

static struct shm_controller_counters counters(struct lib *l)
{
	return workqueue_counters(&l->wq, l->c);
}

/* A queue in which "a" runs. */
static struct workqueue_grant begin(struct lib *l)
{
	lib_init(l);
	lib_add(l, "a");
	return lib_get(l, "a");
}

/* An attempt of "a" that ended with these writes. */
static void run(struct lib *l, struct wire_done done, const struct wire_write *writes, size_t n)
{
	lib_add(l, "a");
	struct workqueue_grant g = lib_get(l, "a");
	enum shm_state to = end_with(l, &g, done, writes, n).to;
	cr_assert(to == SHM_STATE_SETTLING, "%s", shm_state_name(to));
}

/* A queue in which "a" settles until the watch shows version 100. */
static void settle(struct lib *l, struct wire_done done)
{
	lib_init(l);
	run(l, done, (const struct wire_write[]){write_of(100)}, 1);
}

Test(hold, a_key_that_wrote_settles_until_the_watch_shows_it)
{
	struct lib l;
	lib_init(&l);
	const struct wire_write w[] = {write_of(100), write_of(103)};
	run(&l, (struct wire_done){0}, w, 2);
	struct workqueue_grant g;
	cr_assert(l.wq.controllers[l.c].settling == 1 && !lib_grant(&l, &g));
	pass(&l, 102);
	cr_assert_eq(state(&l, "a"), SHM_STATE_SETTLING);
	pass(&l, 103);
	cr_assert_eq(state(&l, "a"), SHM_STATE_NONE);
	cr_assert(l.wq.controllers[l.c].settling == 0 && counters(&l).holds == 1 &&
		  counters(&l).holds_in_vain == 0);
	cr_assert_eq(workqueue_next(&l.wq, l.now), INT64_MAX);
	lib_done(&l);
}

Test(hold, without_writes_nothing_is_held)
{
	struct lib l;
	struct workqueue_grant g = begin(&l);
	const struct wire_write unknown[] = {{.table = 1, .stream = 70000, .resource_version = 5},
					     {.table = 1}};
	cr_assert_eq(end_with(&l, &g, (struct wire_done){0}, unknown, 2).to, SHM_STATE_NONE);
	cr_assert_eq(counters(&l).holds, 0);
	lib_done(&l);
}

/* The one number of the bound. */
Test(hold, five_seconds_at_most)
{
	struct lib l;
	settle(&l, (struct wire_done){0});
	lib_add(&l, "a");
	cr_assert_eq(workqueue_next(&l.wq, l.now), l.now + 5 * S);
	lib_advance(&l, 5 * S - 1);
	cr_assert_eq(state(&l, "a"), SHM_STATE_SETTLING_DIRTY);
	lib_advance(&l, 1);
	cr_assert_eq(state(&l, "a"), SHM_STATE_READY);
	cr_assert_eq(counters(&l).holds_in_vain, 1);
	pass(&l, 100); /* late */
	lib_get(&l, "a");
	lib_done(&l);
}

Test(hold, an_add_meanwhile_waits_and_then_runs_once)
{
	struct lib l;
	settle(&l, (struct wire_done){.requeue_after_ms = 60000});
	struct workqueue_grant g;
	cr_assert_eq(lib_add_key(&l, event_add("a", 101)), SHM_STATE_SETTLING_DIRTY);
	cr_assert_eq(lib_add_key(&l, event_add("a", 102)), SHM_STATE_SETTLING_DIRTY);
	cr_assert_eq(lib_change(&l, "a"), SHM_STATE_SETTLING_DIRTY);
	cr_assert(!lib_grant(&l, &g));
	lib_advance(&l, 10 * MS);
	pass(&l, 100);
	cr_assert_eq(state(&l, "a"), SHM_STATE_READY);
	cr_assert_eq(lib_slot(&l, "a")->count, 3);
	cr_assert_eq(lib_slot(&l, "a")->ready_at, l.now);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	cr_assert_eq(state(&l, "a"), SHM_STATE_NONE);
	lib_done(&l);
}

Test(hold, what_the_outcome_says_comes_at_its_own_time)
{
	struct lib l;
	settle(&l, (struct wire_done){.requeue_after_ms = 60000});
	int64_t due = l.now + 60 * S;
	lib_advance(&l, S);
	pass(&l, 100);
	cr_assert_eq(state(&l, "a"), SHM_STATE_WAITING);
	cr_assert(lib_slot(&l, "a")->wait == SHM_WAIT_REQUEUE_AFTER && lib_slot(&l, "a")->ready_at == due);
	lib_advance(&l, 59 * S);
	cr_assert_eq(state(&l, "a"), SHM_STATE_READY);
	/* A failure settles as well; its backoff of 5 ms is over by then. */
	const struct wire_write w[] = {write_of(100)};
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert_eq(end_with(&l, &g,
			      (struct wire_done){.outcome = WIRE_OUTCOME_TRANSIENT, .message = span_of("no")},
			      w, 1)
			 .to,
		     SHM_STATE_SETTLING);
	cr_assert_eq(counters(&l).retries, 1);
	lib_advance(&l, 20 * MS);
	cr_assert_eq(state(&l, "a"), SHM_STATE_SETTLING);
	pass(&l, 100);
	cr_assert(state(&l, "a") == SHM_STATE_READY && lib_slot(&l, "a")->ready_at == l.now);
	g = lib_get(&l, "a");
	cr_assert(g.attempt == 1 && span_is(g.message, "no"));
	lib_done(&l);
}

Test(hold, throttled_is_waited_out_but_for_an_operator)
{
	const struct wire_done throttled = {.outcome = WIRE_OUTCOME_THROTTLED, .requeue_after_ms = 60000};
	for (int operator= 0; operator<2; operator++) {
		struct lib l;
		settle(&l, throttled);
		lib_add(&l, "a");
		struct wire_add_key key = lib_key("a", 0);
		key.cause = operator? WIRE_CAUSE_OPERATOR : WIRE_CAUSE_UPDATED;
		cr_assert_eq(lib_add_key(&l, key), SHM_STATE_SETTLING_DIRTY);
		pass(&l, 100);
		cr_assert_eq(state(&l, "a"), operator? SHM_STATE_READY : SHM_STATE_WAITING);
		lib_done(&l);
	}
}

/* The hold is about what a reconcile sees: nobody can shorten it. */
Test(hold, an_operator_does_not_end_it)
{
	struct lib l;
	settle(&l, (struct wire_done){0});
	struct wire_add_key key = lib_key("a", 0);
	key.cause = WIRE_CAUSE_OPERATOR;
	struct workqueue_grant g;
	cr_assert(lib_add_key(&l, key) == SHM_STATE_SETTLING_DIRTY && !lib_grant(&l, &g));
	pass(&l, 100);
	lib_get(&l, "a");
	lib_done(&l);
}

/* ---- own events ---- */

Test(hold, own_events_before_the_end_are_forgotten)
{
	struct lib l;
	struct workqueue_grant g = begin(&l);
	struct wire_add_key own = event_add("a", 101);
	own.primary_changed = true;
	own.cause_kind = span_of("Deployment.apps/v1");
	own.cause_name = span_of("child");
	cr_assert_eq(lib_add_key(&l, event_add("a", 100)), SHM_STATE_DIRTY);
	cr_assert_eq(lib_add_key(&l, own), SHM_STATE_DIRTY);
	const struct wire_write w[] = {write_of(100), write_of(101)};
	struct workqueue_end end = end_with(&l, &g, (struct wire_done){0}, w, 2);
	cr_assert_eq(end.to, SHM_STATE_SETTLING);
	cr_assert(lib_slot(&l, "a")->count == 0 && !(lib_slot(&l, "a")->flags & SHM_SLOT_CHANGED));
	/* One that comes now, too. */
	cr_assert_eq(lib_add_key(&l, event_add("a", 101)), SHM_STATE_SETTLING);
	pass(&l, 101);
	cr_assert_eq(state(&l, "a"), SHM_STATE_NONE);
	lib_done(&l);
}

Test(hold, own_events_do_not_consume_requeue_after)
{
	struct lib l;
	struct workqueue_grant g = begin(&l);
	lib_add_key(&l, event_add("a", 100));
	const struct wire_write w[] = {write_of(100)};
	end_with(&l, &g, (struct wire_done){.requeue_after_ms = 60000}, w, 1);
	int64_t due = l.now + 60 * S;
	pass(&l, 100);
	cr_assert(state(&l, "a") == SHM_STATE_WAITING && lib_slot(&l, "a")->ready_at == due);
	lib_done(&l);
}

/* Whatever may be somebody else's runs the key once more. */
Test(hold, any_other_event_makes_it_ready_once)
{
	static const struct {
		const char *why;
		uint64_t events[6];
		struct wire_write writes[2];
		size_t n_writes;
	} rows[] = {
	    {"another version", {100, 101}, {{1, 2, 100, true}}, 1},
	    {"no version", {100, 0}, {{1, 2, 100, true}}, 1},
	    {"another stream", {100}, {{1, 3, 100, true}}, 1},
	    {"another table", {100}, {{2, 2, 100, true}}, 1},
	    {"not surely its own", {100}, {{1, 2, 100, false}}, 1},
	    {"more than four", {100, 101, 100, 101, 100}, {{1, 2, 100, true}, {1, 2, 101, true}}, 2},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct lib l;
		struct workqueue_grant g = begin(&l);
		for (size_t n = 0; n == 0 || rows[i].events[n]; n++)
			cr_assert_eq(lib_add_key(&l, event_add("a", rows[i].events[n])), SHM_STATE_DIRTY);
		if (!strcmp(rows[i].why, "no version"))
			lib_add(&l, "a");
		struct workqueue_end end =
		    end_with(&l, &g, (struct wire_done){0}, rows[i].writes, rows[i].n_writes);
		cr_assert_eq(end.to, SHM_STATE_SETTLING_DIRTY, "%s", rows[i].why);
		for (uint32_t table = 1; table < 3; table++)
			for (uint32_t stream = 2; stream < 4; stream++)
				workqueue_passed(&l.wq, &(struct wire_place){table, stream, 200}, l.now);
		cr_assert_eq(state(&l, "a"), SHM_STATE_READY, "%s", rows[i].why);
		lib_run(&l, "a", WIRE_OUTCOME_OK);
		cr_assert_eq(state(&l, "a"), SHM_STATE_NONE, "%s", rows[i].why);
		lib_done(&l);
	}
}

Test(hold, events_without_writes_or_without_a_result_count)
{
	struct lib l;
	struct workqueue_grant g = begin(&l);
	lib_add_key(&l, event_add("a", 100));
	cr_assert_eq(lib_outcome(&l, &g, WIRE_OUTCOME_OK).to, SHM_STATE_READY);
	g = lib_get(&l, "a");
	lib_add_key(&l, event_add("a", 101));
	struct workqueue_end end;
	cr_assert_eq(workqueue_lost(&l.wq, g.slot, g.generation, l.now, &end), 0);
	cr_assert_eq(end.to, SHM_STATE_READY);
	lib_done(&l);
}

/* A worker that drains wrote the finalizer: the key comes back with what it was granted for, after the hold. */
Test(hold, a_key_that_is_given_back_settles_with_its_pending_part)
{
	struct lib l;
	struct workqueue_grant g = begin(&l);
	const struct wire_write w[] = {write_of(100)};
	struct workqueue_end end =
	    end_with(&l, &g, (struct wire_done){.outcome = WIRE_OUTCOME_CANCELLED}, w, 1);
	cr_assert_eq(end.to, SHM_STATE_SETTLING_DIRTY);
	pass(&l, 100);
	cr_assert(state(&l, "a") == SHM_STATE_READY && lib_slot(&l, "a")->count == 1);
	lib_done(&l);
}

Test(hold, a_crash_too_many_parks_at_once_and_own_changes_do_not_save_it)
{
	struct lib l;
	lib_init(&l);
	const struct wire_write w[] = {write_of(100)};
	for (int i = 0; i < 3; i++) {
		lib_add(&l, "a");
		struct workqueue_grant g = lib_get(&l, "a");
		struct wire_add_key own = event_add("a", 100);
		own.primary_changed = true;
		lib_add_key(&l, own);
		enum shm_state to =
		    end_with(&l, &g, (struct wire_done){.outcome = WIRE_OUTCOME_CRASHED}, w, 1).to;
		cr_assert_eq(to, i < 2 ? SHM_STATE_SETTLING : SHM_STATE_QUARANTINED);
		pass(&l, 100);
	}
	lib_done(&l);
}

/* ---- starts, ends, bounds ---- */

Test(hold, goes_on_across_a_restart)
{
	struct lib l;
	lib_init(&l);
	const struct wire_write w[] = {write_of(100), write_of(104)};
	run(&l, (struct wire_done){.requeue_after_ms = 60000}, w, 2);
	lib_add(&l, "b");
	struct workqueue_grant g = lib_get(&l, "b");
	lib_add_key(&l, event_add("b", 200));
	int64_t due = l.now + 60 * S;
	lib_advance(&l, S);
	lib_restart(&l);
	cr_assert(l.wq.settle.news && l.wq.controllers[l.c].settling == 1);
	cr_assert_eq(workqueue_next(&l.wq, l.now), l.now + 4 * S);
	cr_assert_eq(lib_add_key(&l, event_add("a", 104)), SHM_STATE_SETTLING);
	pass(&l, 103);
	cr_assert_eq(state(&l, "a"), SHM_STATE_SETTLING);
	pass(&l, 104);
	cr_assert(state(&l, "a") == SHM_STATE_WAITING && lib_slot(&l, "a")->ready_at == due);
	/* Own events that came before it, too. */
	const struct wire_write wb[] = {write_of(200)};
	cr_assert_eq(end_with(&l, &g, (struct wire_done){0}, wb, 1).to, SHM_STATE_SETTLING);
	lib_done(&l);
}

Test(hold, ends_with_its_controller)
{
	struct lib l;
	settle(&l, (struct wire_done){0});
	cr_assert_eq(workqueue_drop(&l.wq, l.c, l.now), 1);
	cr_assert(l.wq.settle.keys == 0 && l.wq.controllers[l.c].settling == 0);
	lib_done(&l);
}

Test(hold, the_longest_list)
{
	struct lib l;
	lib_init(&l);
	struct wire_write w[SHM_EVENTS_MAX];
	for (uint32_t i = 0; i < SHM_EVENTS_MAX; i++)
		w[i] = write_of(1000 + i);
	run(&l, (struct wire_done){0}, w, SHM_EVENTS_MAX);
	cr_assert_eq(lib_add_key(&l, event_add("a", 1000)), SHM_STATE_SETTLING);
	lib_restart(&l);
	cr_assert_eq(lib_add_key(&l, event_add("a", 1063)), SHM_STATE_SETTLING);
	pass(&l, 1062);
	cr_assert_eq(state(&l, "a"), SHM_STATE_SETTLING);
	pass(&l, 1063);
	cr_assert_eq(state(&l, "a"), SHM_STATE_NONE);
	lib_done(&l);
}
