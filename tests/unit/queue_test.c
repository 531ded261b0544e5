/* The workqueue: what it does beyond what others' do (queue_conformance_test.c has that): leases, outcomes, causes, controllers, a
 * full region. */
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
TestSuite(queue, .init = setup, .fini = teardown);

Test(queue, first_in_first_out)
{
	char name[8];
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		lib_add(&l, name);
	}
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		lib_run(&l, name, WIRE_OUTCOME_OK);
	}
}

Test(queue, done_twice_is_stale_and_changes_nothing)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_outcome(&l, &g, WIRE_OUTCOME_TRANSIENT);
	struct wire_done done = {.slot = g.slot, .generation = g.generation};
	struct workqueue_end end;
	cr_assert(workqueue_done(&l.wq, &done, l.now, &end) == -ESTALE);
	cr_assert(lib_slot(&l, "a")->state == SHM_STATE_WAITING);
	done.slot = UINT64_MAX;
	cr_assert(workqueue_done(&l.wq, &done, l.now, &end) == -ESTALE);
	lib_advance(&l, 1 * S);
	struct workqueue_grant later = lib_get(&l, "a");
	cr_assert(workqueue_done(&l.wq, &(struct wire_done){.slot = later.slot, .generation = g.generation},
				 l.now, &end) == -ESTALE,
		  "a result of the last attempt ended this one");
}

Test(queue, two_controllers_have_their_own_keys)
{
	uint16_t other;
	bool new;
	cr_assert(workqueue_open(&l.wq, "other", &other, &new) == 0 && new &&other != l.c);
	struct workqueue_rules rules = lib_rules();
	workqueue_configure(&l.wq, other, &rules);
	lib_add(&l, "a");
	enum shm_state state;
	struct wire_add_key key = lib_key("a", 0);
	cr_assert(workqueue_add(&l.wq, other, &key, l.now, &state) == 0 && state == SHM_STATE_READY);
	lib_get(&l, "a");
	struct workqueue_grant g;
	cr_assert(workqueue_grant(&l.wq, other, &lib_holder, l.now, &g) == 1);
}

Test(queue, max_concurrent_is_the_most_that_is_leased)
{
	struct workqueue_rules rules = lib_rules();
	rules.max_concurrent = 2;
	workqueue_configure(&l.wq, l.c, &rules);
	lib_add(&l, "a");
	lib_add(&l, "b");
	lib_add(&l, "c");
	struct workqueue_grant a = lib_get(&l, "a"), g;
	lib_get(&l, "b");
	cr_assert(!lib_grant(&l, &g));
	lib_outcome(&l, &a, WIRE_OUTCOME_OK);
	lib_get(&l, "c");
}

/* ---- outcomes and delays ---- */

/* kubernetes/kubernetes issue 132805: events bypass the backoff, so it must not grow by attempts that never
 * waited. */
Test(queue, event_storm_does_not_inflate_the_backoff)
{
	lib_add(&l, "a");
	cr_assert(lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay == 5 * MS);
	for (int i = 0; i < 50; i++) {
		l.now += 1;
		lib_add(&l, "a");
		struct workqueue_end end = lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT);
		cr_assert(end.delay == 5 * MS, "attempt %d: %lld", i, (long long)end.delay);
		cr_assert(end.attempt == (uint32_t)i + 2);
	}
	lib_advance(&l, 5 * MS);
	cr_assert(lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay == 10 * MS);
}

/* What it failed with says nothing about the object as it is now. */
Test(queue, a_changed_object_starts_the_backoff_anew)
{
	lib_add(&l, "a");
	for (int i = 0; i < 10; i++)
		lib_advance(&l, lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay);
	lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT);
	cr_assert(lib_change(&l, "a") == SHM_STATE_READY);
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(g.attempt == 11, "failures in a row are what they are");
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_TRANSIENT).delay == 5 * MS);
	lib_advance(&l, 5 * MS);
	for (int i = 0; i < 5; i++)
		lib_advance(&l, lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay);
	g = lib_get(&l, "a");
	lib_change(&l, "a"); /* while it runs */
	lib_outcome(&l, &g, WIRE_OUTCOME_TRANSIENT);
	cr_assert(lib_run(&l, "a", WIRE_OUTCOME_TRANSIENT).delay == 5 * MS);
}

Test(queue, a_failure_of_a_dirty_key_runs_again_at_once)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_add(&l, "a");
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_TRANSIENT).to == SHM_STATE_READY);
	lib_get(&l, "a");
}

Test(queue, not_ready_waits_a_minute_and_events_shorten_it)
{
	lib_add(&l, "a");
	struct workqueue_end end = lib_run(&l, "a", WIRE_OUTCOME_NOT_READY);
	cr_assert(end.delay == 60 * S && end.wait == SHM_WAIT_NOT_READY && end.attempt == 0);
	cr_assert(lib_add(&l, "a") == SHM_STATE_READY);
}

Test(queue, throttled_is_not_shortened_by_events_but_by_an_operator)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_end(&l, &g, (struct wire_done){.outcome = WIRE_OUTCOME_THROTTLED, .requeue_after_ms = 20000});
	cr_assert(lib_add(&l, "a") == SHM_STATE_WAITING);
	cr_assert(lib_change(&l, "a") == SHM_STATE_WAITING);
	lib_advance(&l, 19 * S);
	cr_assert(!lib_grant(&l, &g));
	lib_advance(&l, 1 * S);
	g = lib_get(&l, "a");
	cr_assert(g.n_causes == 2, "what came meanwhile was forgotten");
	lib_add(&l, "a");
	cr_assert(
	    lib_end(&l, &g, (struct wire_done){.outcome = WIRE_OUTCOME_THROTTLED, .requeue_after_ms = 20000})
		    .to == SHM_STATE_WAITING,
	    "an event during the attempt shortened it");
	struct wire_add_key key = lib_key("a", 0);
	key.cause = WIRE_CAUSE_OPERATOR;
	cr_assert(lib_add_key(&l, key) == SHM_STATE_READY);
}

Test(queue, throttled_with_scope_controller_pauses_all_keys)
{
	lib_add(&l, "a");
	lib_add(&l, "b");
	struct workqueue_grant g = lib_get(&l, "a");
	lib_end(&l, &g,
		(struct wire_done){
		    .outcome = WIRE_OUTCOME_THROTTLED, .requeue_after_ms = 20000, .pause_controller = true});
	cr_assert(!lib_grant(&l, &g));
	cr_assert(workqueue_next(&l.wq, l.now) == l.now + 20 * S);
	lib_advance(&l, 20 * S);
	lib_get(&l, "b");
}

Test(queue, conflict_is_short_and_capped)
{
	lib_add(&l, "a");
	for (int i = 0; i < 20; i++) {
		struct workqueue_end end = lib_run(&l, "a", WIRE_OUTCOME_CONFLICT);
		int64_t most = MIN(100 * MS << MIN(i, 10), 5 * S);
		cr_assert(end.delay >= most / 2 && end.delay <= most, "conflict %d: %lld", i,
			  (long long)end.delay);
		cr_assert(end.attempt == 0 && end.wait == SHM_WAIT_CONFLICT);
		lib_advance(&l, end.delay);
	}
}

/* ---- the bucket ---- */

Test(queue, bucket_survives_a_restart)
{
	struct limits limits = {5 * MS, 1000 * S, 0, 1, 1};
	int64_t bucket = 0, now = 1000 * S;
	cr_assert(limiter_take(&limits, &bucket, now) == 0);
	cr_assert(limiter_take(&limits, &bucket, now) == 1 * S);
	cr_assert(limiter_take(&limits, &bucket, now + 500 * MS) == 1500 * MS);
	limits.max_delay = 2 * S;
	for (int i = 0; i < 100; i++)
		cr_assert(limiter_take(&limits, &bucket, now) <= 2 * S);
	limits.qps = 0;
	cr_assert(limiter_take(&limits, &bucket, now) == 0);
}

Test(limiter, jitter_spreads_and_never_passes_the_longest_delay)
{
	struct limits limits = {100 * MS, 10 * S, 0.1, 0, 0};
	uint64_t random = 3;
	int64_t least = INT64_MAX, most = 0;
	for (int i = 0; i < 1000; i++) {
		int64_t d = limiter_backoff(&limits, 1, &random);
		least = MIN(least, d);
		most = MAX(most, d);
		d = limiter_backoff(&limits, 60, &random);
		cr_assert(d <= 10 * S && d >= 9 * S);
	}
	cr_assert(least >= 100 * MS && least < 101 * MS && most > 109 * MS && most <= 110 * MS);
}

/* ---- causes ---- */

Test(queue, causes_are_merged_and_the_first_and_last_kept)
{
	struct wire_add_key key = lib_key("a", 0);
	key.cause_kind = span_of("Deployment.apps/v1");
	key.cause_namespace = span_of("shop");
	key.cause_name = span_of("a-web");
	lib_add_key(&l, key);
	key.cause = WIRE_CAUSE_DELETED;
	key.cause_kind = span_of("Secret.v1");
	key.cause_name = span_of("tls");
	lib_add_key(&l, key);
	key.cause_name = span_of("tls2");
	lib_add_key(&l, key);
	const struct shm_slot *s = lib_slot(&l, "a");
	cr_assert(s->count == 3 && s->causes == (1u << WIRE_CAUSE_UPDATED | 1u << WIRE_CAUSE_DELETED));
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(g.n_causes == 2 && g.causes[0].event == WIRE_CAUSE_UPDATED &&
		  g.causes[1].event == WIRE_CAUSE_DELETED);
	cr_assert(g.causes[0].object.len == sizeof("Deployment.apps/v1\0shop\0a-web") - 1);
	cr_assert(memcmp(g.causes[0].object.at, "Deployment.apps/v1\0shop\0a-web", g.causes[0].object.len) ==
		  0);
	cr_assert(memcmp(g.causes[1].object.at, "Secret.v1\0shop\0tls2", g.causes[1].object.len) == 0);
}

/* A Deployment of a Website has its name, as often as not. */
Test(queue, a_cause_that_has_the_keys_own_name_keeps_its_kind)
{
	struct wire_add_key key = lib_key("a", 0);
	key.cause_kind = span_of("Deployment.apps/v1");
	key.cause_namespace = key.namespace;
	key.cause_name = key.name;
	lib_add_key(&l, key);
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(g.n_causes == 1 && g.causes[0].object.len == sizeof("Deployment.apps/v1\0shop\0a") - 1);
	cr_assert(memcmp(g.causes[0].object.at, "Deployment.apps/v1\0shop\0a", g.causes[0].object.len) == 0);
}

/* More than a slot counts by itself, then more than it shows. A killed broker loses none. */
Test(queue, merges_are_counted_however_many)
{
	lib_add(&l, "a");
	const struct shm_controller_counters *n = &store_controller(&l.store, l.c)->counters;
	for (uint32_t i = 1; i <= 70000; i++) {
		lib_add(&l, "a");
		const struct shm_slot *s = lib_slot(&l, "a");
		cr_assert_eq(s->count, MIN(i + 1, (uint32_t)UINT16_MAX));
		cr_assert_eq(n->merges + s->uncounted, i);
		cr_assert_eq(l.wq.controllers[l.c].uncounted_merges, s->uncounted);
	}
	lib_restart(&l);
	n = &store_controller(&l.store, l.c)->counters;
	cr_assert_eq(n->merges + l.wq.controllers[l.c].uncounted_merges, 70000);
	lib_get(&l, "a");
	cr_assert(n->adds == 1 && n->merges == 70000 && l.wq.controllers[l.c].uncounted_merges == 0);
}

Test(queue, a_lost_lease_gives_back_what_was_pending_before_and_since)
{
	struct wire_add_key key = lib_key("a", 4);
	key.cause_kind = span_of("Secret.v1");
	key.cause_name = span_of("first");
	lib_add_key(&l, key);
	struct workqueue_grant g = lib_get(&l, "a");
	key.priority = -100;
	key.cause = WIRE_CAUSE_DELETED;
	key.cause_name = span_of("since");
	lib_add_key(&l, key);
	struct workqueue_end end;
	cr_assert(workqueue_lost(&l.wq, g.slot, g.generation, l.now, &end) == 0);
	cr_assert(end.to == SHM_STATE_READY);
	cr_assert(workqueue_lost(&l.wq, g.slot, g.generation, l.now, &end) == -ESTALE);
	g = lib_get(&l, "a");
	cr_assert(g.priority == 4 && g.attempt == 0 && g.n_causes == 2);
	cr_assert(memcmp(g.causes[0].object.at, "Secret.v1\0\0first", g.causes[0].object.len) == 0);
	cr_assert(memcmp(g.causes[1].object.at, "Secret.v1\0\0since", g.causes[1].object.len) == 0);
	cr_assert(lib_outcome(&l, &g, WIRE_OUTCOME_OK).to == SHM_STATE_NONE);
}

/* ---- leases ---- */

static size_t overs;
static void count_over(void *ctx, uint32_t slot)
{
	(void)ctx;
	(void)slot;
	overs++;
}

Test(lease, never_ends_by_time_alone, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	struct workqueue_grant g = lib_get(&l, "a"), other;
	cr_assert(g.deadline == l.now + 30 * S && g.lease_end == l.now + 65 * S);
	l.now = g.lease_end - 1;
	workqueue_tick(&l.wq, l.now, SIZE_MAX, count_over, NULL);
	cr_assert(overs == 0);
	l.now += 1;
	workqueue_tick(&l.wq, l.now, SIZE_MAX, count_over, NULL);
	cr_assert(overs == 1);
	lib_add(&l, "a");
	workqueue_tick(&l.wq, l.now + 4 * S, SIZE_MAX, count_over, NULL);
	cr_assert(overs == 1, "an add brought the end forward");
	workqueue_tick(&l.wq, l.now + 5 * S, SIZE_MAX, count_over, NULL);
	cr_assert(overs == 2, "a holder that did not die was not killed again");
	cr_assert(!lib_grant(&l, &other), "the key was granted while its lease stands");
	lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	lib_get(&l, "a");
}

/* ---- controllers come and go ---- */

Test(controllers, a_removed_one_drops_its_keys_and_its_row, .init = setup, .fini = teardown)
{
	lib_add(&l, "a");
	lib_add(&l, "b");
	lib_add(&l, "waiting");
	struct workqueue_grant a = lib_get(&l, "a");
	cr_assert(workqueue_drop(&l.wq, l.c, l.now) == 2);
	struct workqueue_grant g;
	cr_assert(!lib_grant(&l, &g));
	cr_assert(store_controller(&l.store, l.c)->name[0], "the row went while a key of it is leased");
	lib_outcome(&l, &a, WIRE_OUTCOME_OK);
	workqueue_drop(&l.wq, l.c, l.now);
	cr_assert(!store_controller(&l.store, l.c)->name[0]);
	uint16_t found;
	cr_assert(workqueue_find(&l.wq, span_of("web"), &found) == -ENOENT);
}

Test(controllers, there_are_64_rows, .init = setup, .fini = teardown)
{
	char name[16];
	uint16_t c;
	bool new;
	for (unsigned i = 1; i < SHM_CONTROLLERS_MAX; i++) {
		snprintf(name, sizeof(name), "c%u", i);
		cr_assert(workqueue_open(&l.wq, name, &c, &new) == 0 && new);
	}
	cr_assert(workqueue_open(&l.wq, "one-more", &c, &new) == -ENOSPC);
	cr_assert(workqueue_open(&l.wq, "web", &c, &new) == 0 && !new &&c == l.c);
}

/* ---- a full region ---- */

Test(full, refuses_new_keys_and_works_on, .init = NULL, .fini = teardown)
{
	lib_init_limit(&l, 16 * (uint64_t)SHM_BLOCK);
	char name[64];
	int n = 0, rc;
	for (;; n++) {
		snprintf(name, sizeof(name), "a-name-that-is-too-long-to-be-kept-in-a-slot-%06d", n);
		struct wire_add_key key = lib_key(name, 0);
		enum shm_state state;
		rc = workqueue_add(&l.wq, l.c, &key, l.now, &state);
		if (rc < 0)
			break;
	}
	cr_assert(rc == -ENOSPC && n > 1000, "%d after %d", rc, n);
	snprintf(name, sizeof(name), "a-name-that-is-too-long-to-be-kept-in-a-slot-%06d", 0);
	cr_assert(lib_add(&l, name) == SHM_STATE_READY, "a key that is there cannot be merged");
	struct workqueue_grant g[200];
	for (size_t i = 0; i < ARRAY_SIZE(g); i++)
		cr_assert(lib_grant(&l, &g[i]), "the region has no room for lease %zu", i);
	for (size_t i = 0; i < ARRAY_SIZE(g); i++)
		cr_assert(lib_outcome(&l, &g[i], i % 2 ? WIRE_OUTCOME_TRANSIENT : WIRE_OUTCOME_OK).to !=
			  SHM_STATE_READY);
	cr_assert(lib_add(&l, "again") == SHM_STATE_READY, "room that became free is not used");
}
