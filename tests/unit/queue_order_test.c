/* Whose turn it is, at sizes where it matters; that the short way of a transition is the long one; that growth is work in small
 * pieces. */
#include "buf.h"
#include "queue_lib.h"
#include <time.h>

static struct lib l;
static void setup(void)
{
	lib_init(&l);
}
static void teardown(void)
{
	lib_done(&l);
}
TestSuite(order, .init = setup, .fini = teardown);

static void add_to(const char *namespace, const char *name, int64_t priority)
{
	struct wire_add_key key = lib_key(name, priority);
	key.namespace = span_of(namespace);
	lib_add_key(&l, key);
}

static struct workqueue_grant get_from(const char *namespace)
{
	struct workqueue_grant g;
	cr_assert(lib_grant(&l, &g), "nothing was granted, wanted one of %s", namespace);
	cr_assert(span_is(g.namespace, namespace), "granted " SPAN_FMT "/" SPAN_FMT ", wanted one of %s",
		  SPAN_ARG(g.namespace), SPAN_ARG(g.name), namespace);
	return g;
}

Test(order, namespaces_take_turns_and_each_is_first_in_first_out)
{
	static const char *const keys[][2] = {{"a", "1"}, {"a", "2"}, {"a", "3"},
					      {"b", "1"}, {"b", "2"}, {"c", "1"}};
	static const char *const want[][2] = {{"a", "1"}, {"b", "1"}, {"c", "1"},
					      {"a", "2"}, {"b", "2"}, {"a", "3"}};
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		add_to(keys[i][0], keys[i][1], 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct workqueue_grant g = get_from(want[i][0]);
		cr_assert(span_is(g.name, want[i][1]));
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	}
}

Test(order, a_namespace_of_100000_keys_delays_another_by_one_round)
{
	char name[16];
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		add_to("large", name, 0);
	}
	for (int round = 0; round < 3; round++) {
		struct workqueue_grant g = get_from("large");
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
		add_to("small", "only", 0);
		g = get_from("large"); /* its turn began before */
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
		g = get_from("small");
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	}
}

/* controller-runtime issue 3496: strict priority starves. Here: 90 s behind higher bands, then one key of each other namespace for each of its own that is before it. */
Test(order, a_flood_of_high_priority_delays_the_lowest_band_by_the_stated_bound)
{
	char name[16];
	int64_t start = l.now;
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		add_to(name, "low", -100);
	}
	add_to("n7", "low-last", -100);
	for (int i = 0, low = 0; low < 21; i++) {
		snprintf(name, sizeof(name), "h%d", i); /* as many as can be served */
		add_to("flood", name, 10);
		struct workqueue_grant g;
		cr_assert(lib_grant(&l, &g));
		low += g.priority == -100;
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
		cr_assert(low == 0 || l.now - start >= 90 * S, "band 3 was served too early");
		cr_assert(low > 0 || l.now - start <= 91 * S, "the first waited longer than the bound");
		cr_assert(l.now - start <= 91 * S + 21 * S / 10, "the last waited longer than a round");
		lib_advance(&l, S / 10);
	}
}

Test(order, a_raise_never_makes_a_key_wait_longer)
{
	lib_add_key(&l, lib_key("old", -100));
	l.now += 80 * S;
	lib_add_key(&l, lib_key("a", 0));
	lib_add_key(&l, lib_key("old", 0));
	lib_add_key(&l, lib_key("b", 0));
	lib_run(&l, "old", WIRE_OUTCOME_OK);
	lib_run(&l, "a", WIRE_OUTCOME_OK);
	lib_run(&l, "b", WIRE_OUTCOME_OK);
}

Test(order, a_key_that_was_raised_or_dropped_leaves_its_lists_whole)
{
	char name[16];
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		add_to(i % 3 ? "a" : "b", name, -100);
	}
	for (int i = 0; i < 30; i += 2) { /* also the first and the last of each list */
		snprintf(name, sizeof(name), "k%d", i);
		add_to(i % 3 ? "a" : "b", name, 5);
	}
	int high = 0, low = 0;
	for (struct workqueue_grant g; lib_grant(&l, &g); lib_outcome(&l, &g, WIRE_OUTCOME_OK)) {
		cr_assert(g.priority != 5 || low == 0);
		high += g.priority == 5;
		low += g.priority == -100;
	}
	cr_assert(high == 15 && low == 15 && l.wq.index.keys == 0, "%d, %d", high, low);
}

/* ---- the short way and the long one ---- */

static void dump(const struct lib *q, struct buf *out)
{
	for (uint32_t i = 0; i < store_slots(&q->store); i++) {
		const struct shm_slot *s = store_slot(&q->store, i);
		if (s->state == SHM_STATE_NONE)
			continue;
		struct shm_slot plain = *s;
		atomic_store_explicit(&plain.seq, 0, memory_order_relaxed);
		plain.detail = s->detail != 0;
		buf_printf(out, "%u %llx", i,
			   (unsigned long long)hash_bytes(&plain, sizeof(plain), HASH_SEED));
		if (s->detail)
			buf_printf(out, " %llx",
				   (unsigned long long)hash_bytes(store_detail(&q->store, s->detail),
								  sizeof(struct shm_detail), HASH_SEED));
		buf_putc(out, '\n');
	}
	buf_printf(out, "%llx %llu %u %u %u\n",
		   (unsigned long long)hash_bytes(store_controller(&q->store, q->c),
						  sizeof(struct shm_controller), HASH_SEED),
		   (unsigned long long)store_header(&q->store)->next_generation, q->wq.index.keys,
		   q->wq.unrecorded, q->wq.controllers[q->c].running);
	const struct shm_history *ring = (const void *)(q->store.at + SHM_HISTORY_AT);
	buf_printf(out, "%llx\n",
		   (unsigned long long)hash_bytes(ring, q->store.history_next * sizeof(*ring), HASH_SEED));
}

static void a_step(struct lib *q, uint64_t random, struct workqueue_grant *g)
{
	char name[16];
	snprintf(name, sizeof(name), "k%u", (unsigned)(random >> 8) % 9);
	struct wire_add_key key = lib_key(name, (int64_t)(random >> 16) % 3 - 1);
	key.primary_changed = random >> 20 & 1;
	switch (random % 8) {
	case 0:
	case 1:
	case 2:
		lib_add_key(q, key);
		return;
	case 3:
	case 4:
		if (!g->generation && !lib_grant(q, g))
			g->generation = 0;
		return;
	case 5:
	case 6:
	case 7:
		if (g->generation)
			lib_end(q, g,
				(struct wire_done){.outcome = random % 64 == 7 ? WIRE_OUTCOME_TRANSIENT
									       : WIRE_OUTCOME_OK,
						   .requeue_after_ms = -1,
						   .duration_us = 7});
		g->generation = 0;
		lib_advance(q, MS);
	}
}

Test(order, plain_and_every_other_way_agree)
{
	struct lib other;
	lib_init(&other);
	other.wq.never_plain = true;
	uint64_t random = (uint64_t)time(NULL) * 2654435761u | 1;
	fprintf(stderr, "SEED=%llu\n", (unsigned long long)random);
	struct workqueue_grant a = {0}, b = {0};
	for (int i = 0; i < 3000; i++) {
		limiter_random(&random);
		a_step(&l, random, &a);
		a_step(&other, random, &b);
		if (i % 10)
			continue;
		_cleanup_(buf_done) struct buf x = {0}, y = {0};
		dump(&l, &x);
		dump(&other, &y);
		cr_assert_str_eq(buf_str(&x), buf_str(&y), "step %d", i);
	}
	lib_done(&other);
}

/* ---- batches, and growth ---- */

/* The last key of a namespace goes, which takes the number from the namespace that has been without keys for longest; the next one gets
 * it, before the third add of the batch is of the old one. */
Test(order, a_namespace_that_loses_its_number_in_a_batch_is_another_one)
{
	char old[INDEX_IDLE][16];
	enum shm_state states[3];
	struct wire_add_key key = lib_key("k", 0), keys[3];
	for (int i = 0; i <= INDEX_IDLE; i++) {
		if (i < INDEX_IDLE)
			snprintf(old[i], sizeof(old[i]), "old-%d", i);
		key.namespace = span_of(i < INDEX_IDLE ? old[i] : "last");
		key.delay_ms = 1000;
		key.timer = WIRE_TIMER_EARLIEST;
		lib_add_key(&l, key);
		key.delay_ms = 0;
		key.timer = WIRE_TIMER_CANCEL;
		if (i < INDEX_IDLE)
			lib_add_key(&l, key);
	}
	cr_assert(l.wq.index.keys == 1);
	const char *namespaces[] = {"last", "new", old[0]};
	for (int i = 0; i < 3; i++) {
		keys[i] = i == 0 ? key : lib_key("k", 0);
		keys[i].namespace = span_of(namespaces[i]);
	}
	cr_assert(workqueue_add_batch(&l.wq, l.c, keys, 3, l.now, states) == 3);
	cr_assert(l.wq.index.keys == 2, "%u keys", l.wq.index.keys);
	get_from("new");
	get_from(old[0]);
}

Test(order, a_row_that_another_controller_had_has_none_of_its_namespaces)
{
	bool is_new;
	uint16_t first, second;
	struct wire_add_key key = lib_key("k", 0);
	enum shm_state state;
	cr_assert(workqueue_open(&l.wq, "first", &first, &is_new) == 0 && is_new);
	cr_assert(workqueue_add(&l.wq, first, &key, l.now, &state) == 0);
	workqueue_drop(&l.wq, first, l.now);
	cr_assert(workqueue_open(&l.wq, "second", &second, &is_new) == 0 && is_new && second == first);
	struct workqueue_rules rules = lib_rules();
	workqueue_configure(&l.wq, second, &rules);
	cr_assert(workqueue_add(&l.wq, second, &key, l.now, &state) == 0);
	struct workqueue_grant g;
	cr_assert(workqueue_grant(&l.wq, second, &lib_holder, l.now, &g) == 1);
	/* It computes all hashes, and finds the lease's to be of another key if one was not right. */
	lib_restart(&l);
}

/* The key is among the recent ones; then its slot has one that would be at the same place among them. */
Test(order, a_slot_that_has_another_key_is_not_that_of_the_one_before)
{
	static const struct {
		const char *what, *namespace, *name;
	} others[] = {
	    {"a name that has the same ends", "namespace-1-somewhere", "configmap-2-somewhere"},
	    {"a namespace that has the same ends", "namespace-2-somewhere", "configmap-1-somewhere"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct workqueue_grant g;
		for (int n = 0; n < 3; n++)
			add_to("namespace-1-somewhere", "configmap-1-somewhere", 0);
		cr_assert(lib_grant(&l, &g) && l.wq.index.keys == 1);
		uint32_t slot = g.slot;
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
		add_to(others[i].namespace, others[i].name, 0);
		cr_assert(workqueue_slot(&l.wq, l.c, span_of(others[i].namespace), span_of(others[i].name)) ==
			      slot,
			  "%s: it has another slot, so nothing is tested", others[i].what);
		add_to("namespace-1-somewhere", "configmap-1-somewhere", 0);
		cr_assert(l.wq.index.keys == 2, "%s: they are one key", others[i].what);
		g = get_from(others[i].namespace);
		cr_assert(span_is(g.name, others[i].name));
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
		g = get_from("namespace-1-somewhere");
		cr_assert(span_is(g.name, "configmap-1-somewhere"));
		lib_outcome(&l, &g, WIRE_OUTCOME_OK);
	}
}

/* More of them than a set has room for, in the same set. */
Test(order, keys_that_have_the_same_ends_are_found_each)
{
	enum { KEYS = 10 };
	char names[KEYS][32];
	for (int round = 1; round <= 3; round++)
		for (int i = 0; i < KEYS; i++) {
			snprintf(names[i], sizeof(names[i]), "configmap-%d-somewhere", i);
			lib_add(&l, names[i]);
			cr_assert(lib_slot(&l, names[i])->count == round, "%s", names[i]);
		}
	cr_assert(l.wq.index.keys == KEYS);
}

Test(order, a_batch_is_its_keys_one_after_the_other)
{
	struct wire_add_key keys[100];
	enum shm_state states[100];
	char names[100][16];
	for (int i = 0; i < 100; i++) {
		snprintf(names[i], sizeof(names[i]), "k%d", i % 70);
		keys[i] = lib_key(names[i], 0);
	}
	cr_assert(workqueue_add_batch(&l.wq, l.c, keys, 100, l.now, states) == 100);
	cr_assert(l.wq.index.keys == 70 && lib_slot(&l, "k0")->count == 2 && lib_slot(&l, "k69")->count == 1);
	struct shm_controller_counters n = workqueue_counters(&l.wq, l.c);
	cr_assert(n.adds == 70 && n.merges == 30);
	lib_restart(&l);
	n = workqueue_counters(&l.wq, l.c);
	cr_assert(n.adds == 70 && n.merges == 30, "what slots had to count was lost by the restart");
	for (int i = 0; i < 70; i++)
		lib_run(&l, names[i], WIRE_OUTCOME_OK);
	cr_assert(store_controller(&l.store, l.c)->counters.adds == 70 &&
		  store_controller(&l.store, l.c)->counters.merges == 30);
}
