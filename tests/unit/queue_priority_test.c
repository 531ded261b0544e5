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
