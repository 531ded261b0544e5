/* The order of the bands, and what a merge does to a key's place in it. */
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

static struct wire_add_key with_priority(const char *name, int64_t priority)
{
	return lib_key(name, priority);
}

Test(priority, order_is_by_band_then_first_in_first_out, .init = setup, .fini = teardown)
{
	lib_add_key(&l, with_priority("low", -100));
	lib_add_key(&l, with_priority("normal1", 0));
	lib_add_key(&l, with_priority("high", 7));
	lib_add_key(&l, with_priority("normal2", 0));
	lib_add_key(&l, with_priority("lower", -5));
	static const char *const want[] = {"high", "normal1", "normal2", "lower", "low"};
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		lib_run(&l, want[i], WIRE_OUTCOME_OK);
}

/* controller-runtime issue 3496: strict priority starves. */
Test(priority, nothing_starves, .init = setup, .fini = teardown)
{
	lib_add_key(&l, with_priority("low", -100));
	int64_t start = l.now;
	struct workqueue_grant g;
	char name[16];
	for (int i = 0;; i++) {
		snprintf(name, sizeof(name), "high%d", i);
		lib_add_key(&l, with_priority(name, 10));
		cr_assert(lib_grant(&l, &g));
		bool low = span_is(g.name, "low");
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
		if (low)
			break;
		lib_advance(&l, 1 * S);
		cr_assert(l.now - start <= 91 * S, "it waited longer than three times the aging interval");
	}
	cr_assert(l.now - start >= 89 * S);
}

Test(priority, keeps_the_highest_and_never_lowers, .init = setup, .fini = teardown)
{
	lib_add_key(&l, with_priority("a", 5));
	lib_add_key(&l, with_priority("a", -100));
	lib_add_key(&l, with_priority("b", 0));
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(g.priority == 5);
}

Test(priority, a_raised_key_goes_to_the_tail_of_its_new_band, .init = setup, .fini = teardown)
{
	lib_add_key(&l, with_priority("a", -100));
	l.now++;
	lib_add_key(&l, with_priority("b", 0));
	l.now++;
	lib_add_key(&l, with_priority("a", 0));
	lib_run(&l, "b", WIRE_OUTCOME_OK);
	struct workqueue_grant g = lib_get(&l, "a");
	cr_assert(g.priority == 0);
}

Test(priority, a_raise_never_makes_a_key_wait_longer, .init = setup, .fini = teardown)
{
	lib_add_key(&l, with_priority("old", -100));
	l.now += 80 * S;
	lib_add_key(&l, with_priority("a", 0));
	lib_add_key(&l, with_priority("old", 0));
	lib_add_key(&l, with_priority("b", 0));
	lib_run(&l, "old", WIRE_OUTCOME_OK);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	lib_run(&l, "b", WIRE_OUTCOME_OK);
}

Test(priority, is_retained_by_each_requeue_and_overridden_by_the_answer, .init = setup, .fini = teardown)
{
	static const struct wire_done requeues[] = {
	    {.outcome = WIRE_OUTCOME_TRANSIENT, .requeue_after_ms = -1},
	    {.requeue_after_ms = 1000},
	    {.requeue = true, .requeue_after_ms = -1}};
	for (size_t i = 0; i < ARRAY_SIZE(requeues); i++) {
		lib_add_key(&l, with_priority("a", -100));
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

/* ---- turns ---- */

static void add_to(const char *namespace, const char *name, int64_t priority)
{
	struct wire_add_key key = lib_key(name, priority);
	key.namespace = span_of(namespace);
	lib_add_key(&l, key);
}

Test(turns, a_hundred_thousand_keys_of_a_namespace_delay_another_key_by_one_turn, .init = setup,
     .fini = teardown)
{
	char name[16];
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		add_to("crowd", name, 0);
	}
	struct workqueue_grant g;
	for (int i = 0; i < 50; i++)
		cr_assert(lib_grant(&l, &g) && span_is(g.namespace, "crowd"));
	add_to("alone", "a", 0);
	bool seen = false;
	for (int i = 0; i < 2 && !seen; i++)
		seen = lib_grant(&l, &g) && span_is(g.namespace, "alone");
	cr_assert(seen, "it waits behind the crowd");
	snprintf(name, sizeof(name), "k%d", 51);
	lib_get(&l, name);
}

Test(turns, each_namespace_gives_its_keys_first_in_first_out, .init = setup, .fini = teardown)
{
	static const char *const added[][2] = {{"x", "1"}, {"x", "2"}, {"x", "3"},
					       {"y", "1"}, {"y", "2"}, {"z", "1"}};
	static const char *const want[] = {"x1", "y1", "z1", "x2", "y2", "x3"};
	for (size_t i = 0; i < ARRAY_SIZE(added); i++)
		add_to(added[i][0], added[i][1], 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct workqueue_grant g;
		cr_assert(lib_grant(&l, &g));
		cr_assert(g.namespace.at[0] == want[i][0] && g.name.at[0] == want[i][1], "grant %zu", i);
	}
}

/* The bound of docs/queue-protocol.md: three times the aging interval, then the turns of the other namespaces. */
Test(turns, under_a_flood_of_high_priority_the_bound_holds, .init = setup, .fini = teardown)
{
	static const char *const floods[] = {"f0", "f1", "f2"};
	add_to("shop", "low", -100);
	int64_t start = l.now;
	char name[16];
	for (int i = 0; l.now - start <= 91 * S; i++) {
		for (size_t f = 0; f < ARRAY_SIZE(floods); f++) {
			snprintf(name, sizeof(name), "h%d", i);
			add_to(floods[f], name, 1000000);
		}
		struct workqueue_grant g;
		for (size_t f = 0; f < ARRAY_SIZE(floods); f++) {
			cr_assert(lib_grant(&l, &g));
			if (span_is(g.namespace, "shop"))
				return;
			lib_outcome(&l, &g, WIRE_OUTCOME_OK);
		}
		lib_advance(&l, S / 2);
	}
	cr_assert_fail("the low key waited for longer than 91 s");
}
