/* bench_scale KIND OTHERS DIR: what an operation costs for a few keys that come and go, while OTHERS are in the queue:
 *
 *   ready     OTHERS wait for a worker, in a lower band
 *   waiting   OTHERS wait for their requeueAfter
 *   other     OTHERS are ready in 63 other controllers
 *   running   OTHERS are leased
 *
 * CPU time of this thread, and the median of many passes, so that what else the machine does counts less. */
#include "bench.h"
#include <stdio.h>

enum { HOT = 200, PASSES = 500, OTHER_CONTROLLERS = SHM_CONTROLLERS_MAX - 1 };

static void fill(struct bench_queue *q, const struct bench_keys *others, const char *kind)
{
	bool ready = strcmp(kind, "ready") == 0, waiting = strcmp(kind, "waiting") == 0;
	bool other = strcmp(kind, "other") == 0, running = strcmp(kind, "running") == 0;
	uint16_t rows[OTHER_CONTROLLERS];
	if (!ready && !waiting && !other && !running)
		bench_fail("no kind is named %s", kind);
	for (uint32_t i = 0; other && i < OTHER_CONTROLLERS; i++) {
		char name[16];
		bool new;
		snprintf(name, sizeof(name), "other-%u", i);
		BENCH_CHECK(workqueue_open(&q->wq, name, &rows[i], &new) == 0);
		bench_queue_rules(q, rows[i]);
	}
	for (uint32_t i = 0; i < others->len; i++) {
		int64_t now = bench_now();
		struct wire_add_key key = bench_add_key(others, i);
		struct workqueue_grant g;
		struct wire_done done = BENCH_OK;
		key.priority = ready ? -100 : 0;
		bench_queue_add(q, other ? rows[i % OTHER_CONTROLLERS] : q->controller, &key, now);
		if (waiting || running)
			bench_queue_grant(q, &g, now);
		done.requeue_after_ms = 3600000 + (int64_t)(i * UINT64_C(7919) % 1000000) * 3;
		if (waiting)
			bench_queue_done(q, &g, &done, now);
	}
}

/* Every page of the history ring was written once: for many others that was done before. */
static bool history_is_full(const struct bench_queue *q)
{
	const struct shm_queue_header *h = store_header(&q->store);
	return atomic_load(&h->history_next) > h->history_entries;
}

int main(int argc, char **argv)
{
	bench_begin();
	if (argc != 4)
		bench_fail("usage: bench_scale KIND OTHERS DIR");
	uint32_t n = bench_number(argv[2]);
	struct bench_keys hot = bench_keys_new(HOT, n), others = bench_keys_new(n, 0);
	struct bench_queue q;
	bench_queue_open(&q, argv[3], false);
	fill(&q, &others, argv[1]);
	struct wire_done ok = BENCH_OK;
	static struct workqueue_grant grants[HOT];
	static int64_t add[PASSES], grant[PASSES], done[PASSES], cycle[PASSES];
	for (int pass = -1; pass < PASSES;) {
		int64_t now = bench_now(), begin = bench_thread_cpu();
		bench_queue_tick(&q, now);
		for (uint32_t i = 0; i < HOT; i++) {
			struct wire_add_key key = bench_add_key(&hot, i);
			bench_queue_add(&q, q.controller, &key, now);
		}
		int64_t added = bench_thread_cpu();
		for (uint32_t i = 0; i < HOT; i++) {
			bench_queue_grant(&q, &grants[i], now);
			if (!bench_is_key(&hot, i, grants[i].namespace, grants[i].name))
				bench_fail("hot key %u was granted as " SPAN_FMT, i,
					   SPAN_ARG(grants[i].name));
		}
		int64_t granted = bench_thread_cpu();
		for (uint32_t i = 0; i < HOT; i++)
			bench_queue_done(&q, &grants[i], &ok, now);
		int64_t end = bench_thread_cpu();
		if (pass < 0) { /* warms up */
			pass += history_is_full(&q);
			continue;
		}
		add[pass] = added - begin;
		grant[pass] = granted - added;
		done[pass] = end - granted;
		cycle[pass++] = end - begin;
	}
	bench_print("add", bench_percentile(add, PASSES, 0.5) / HOT);
	bench_print("grant", bench_percentile(grant, PASSES, 0.5) / HOT);
	bench_print("done", bench_percentile(done, PASSES, 0.5) / HOT);
	bench_print("cycle", bench_percentile(cycle, PASSES, 0.5) / HOT);
	bench_end();
}
