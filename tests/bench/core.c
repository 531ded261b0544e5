/* bench_core NAME N DIR: the queue itself, in one thread, on a region in DIR (on tmpfs). The memory is cold: this
 * process has not touched it before. */
#include "bench.h"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* As the broker's REQUESTS_A_TURN, REQUESTS_A_TIME. */
enum { TURN = 256, TIME = 16 };

static const char *dir;

/* What the broker does before request i: an ADD of some keys, a DONE with the next grant. */
static int64_t request(struct bench_queue *q, uint32_t i)
{
	static int64_t now;
	if (i % TIME == 0)
		now = bench_now();
	if (i % TURN == 0)
		bench_queue_tick(q, now);
	return now;
}

static void add_all(struct bench_queue *q, const struct bench_keys *keys, uint32_t batch)
{
	for (uint32_t i = 0, requests = 0; i < keys->len;) {
		int64_t now = request(q, requests++);
		struct wire_add_key list[64];
		uint32_t n = MIN(MIN(keys->len - i, batch), (uint32_t)ARRAY_SIZE(list));
		for (uint32_t k = 0; k < n; k++)
			list[k] = bench_add_key(keys, i + k);
		if (workqueue_add_batch(&q->wq, q->controller, list, n, now, NULL) != n)
			bench_fail("the region is full");
		i += n;
	}
}

static void run_all(struct bench_queue *q, const struct bench_keys *keys, struct wire_done done)
{
	struct workqueue_grant g;
	for (uint32_t i = 0; i < keys->len; i++) {
		int64_t now = request(q, i);
		bench_queue_grant(q, &g, now);
		if (!bench_is_key(keys, i, g.namespace, g.name))
			bench_fail("key %u was granted as " SPAN_FMT "/" SPAN_FMT, i, SPAN_ARG(g.namespace),
				   SPAN_ARG(g.name));
		bench_queue_done(q, &g, &done, now);
	}
}

static void must_be_empty(struct bench_queue *q)
{
	struct workqueue_grant g;
	static const struct workqueue_holder holder = {100, 101, 7, 8};
	if (workqueue_grant(&q->wq, q->controller, &holder, bench_now(), &g) != 0)
		bench_fail("a key was granted twice");
}

/* All are added, then each is granted and done; and a second time, on memory that is warm. */
static void cycle(uint32_t n, uint32_t batch)
{
	struct bench_keys keys = bench_keys_new(n, 0);
	struct bench_queue q;
	bench_queue_open(&q, dir, false);
	for (int pass = 0; pass < 2; pass++) {
		struct bench_time begin = bench_time();
		add_all(&q, &keys, batch);
		struct bench_time middle = bench_time();
		run_all(&q, &keys, BENCH_OK);
		struct bench_time end = bench_time();
		must_be_empty(&q);
		bench_print_times(pass ? "warm-add" : "add", begin, middle, n);
		bench_print_times(pass ? "warm-grant-done" : "grant-done", middle, end, n);
		bench_print_times(pass ? "warm-cycle" : "cycle", begin, end, n);
	}
}

static void bench_cycle(uint32_t n)
{
	cycle(n, 1);
}

static void bench_cycle_64(uint32_t n)
{
	cycle(n, 64);
}

/* Each key alone: added, granted, done, before the next one. */
static void bench_cycle_1(uint32_t n)
{
	struct bench_keys keys = bench_keys_new(n, 0);
	struct bench_queue q;
	bench_queue_open(&q, dir, false);
	struct wire_done ok = BENCH_OK;
	struct bench_time begin = bench_time();
	for (uint32_t i = 0; i < n; i++) {
		struct wire_add_key key = bench_add_key(&keys, i);
		struct workqueue_grant g;
		int64_t now = request(&q, 2 * i);
		bench_queue_add(&q, q.controller, &key, now);
		bench_queue_grant(&q, &g, now); /* to a host that waits for one, in the turn of the ADD */
		BENCH_CHECK(bench_is_key(&keys, i, g.namespace, g.name));
		bench_queue_done(&q, &g, &ok, request(&q, 2 * i + 1));
	}
	bench_print_times("cycle", begin, bench_time(), n);
	must_be_empty(&q);
}

/* Adds to keys that are in: 1,000 of them, in turn. They are made before, as the peer's. */
static void bench_duplicate(uint32_t n)
{
	struct bench_keys keys = bench_keys_new(MIN(n, 1000u), 0);
	struct bench_queue q;
	bench_queue_open(&q, dir, false);
	add_all(&q, &keys, 1);
	struct wire_add_key list[1000];
	for (uint32_t k = 0; k < keys.len; k++)
		list[k] = bench_add_key(&keys, k);
	struct bench_time begin = bench_time();
	for (uint32_t i = 0, k = 0; i < n; i++) {
		bench_queue_add(&q, q.controller, &list[k], request(&q, i));
		k = k + 1 == keys.len ? 0 : k + 1;
	}
	bench_print_times("add", begin, bench_time(), n);
	run_all(&q, &keys, BENCH_OK);
	must_be_empty(&q);
}

/* Adds with a delay of one to two hours, in no order. */
static void delay_all(struct bench_queue *q, const struct bench_keys *keys)
{
	for (uint32_t i = 0; i < keys->len; i++) {
		struct wire_add_key key = bench_add_key(keys, i);
		key.delay_ms = 3600000 + (int64_t)(i * UINT64_C(7919) % 1000000) * 3;
		bench_queue_add(q, q->controller, &key, request(q, i));
	}
}

/* The timers are set; then the clock that the queue is given jumps, and they are all due, granted and done. */
static void bench_delay(uint32_t n)
{
	struct bench_keys keys = bench_keys_new(n, 0);
	struct bench_queue q;
	bench_queue_open(&q, dir, false);
	struct bench_time begin = bench_time();
	delay_all(&q, &keys);
	bench_print_times("set", begin, bench_time(), n);
	must_be_empty(&q);
	begin = bench_time();
	int64_t then = begin.wall + 7200 * NS_PER_S;
	for (uint32_t i = 0; i < n; i += 4096)
		bench_queue_tick(&q, then);
	bench_print_times("due", begin, bench_time(), n);
	struct wire_done ok = BENCH_OK;
	_cleanup_(free_ptr) uint8_t *seen = xcalloc(n, 1);
	for (uint32_t i = 0; i < n; i++) {
		struct workqueue_grant g;
		bench_queue_grant(&q, &g, then);
		uint32_t k = (uint32_t)strtoul(g.name.at + BENCH_NAME - 8, NULL, 10);
		BENCH_CHECK(k < n && !seen[k]);
		seen[k] = 1;
		bench_queue_done(&q, &g, &ok, then);
	}
	must_be_empty(&q);
}

/* ---- memory ---- */

static void fill_ready(struct bench_queue *q, const struct bench_keys *keys)
{
	add_all(q, keys, 1);
}

static void fill_running(struct bench_queue *q, const struct bench_keys *keys)
{
	struct workqueue_grant g;
	add_all(q, keys, 1);
	for (uint32_t i = 0; i < keys->len; i++)
		bench_queue_grant(q, &g, bench_now());
}

/* Failed once, with an error of a common length. */
static void fill_failing(struct bench_queue *q, const struct bench_keys *keys)
{
	struct wire_done done = BENCH_OK;
	done.outcome = WIRE_OUTCOME_TRANSIENT;
	done.requeue_after_ms = 3600000;
	done.reason = span_of("BackendDown");
	done.message = span_of("connection refused by 10.0.0.1:5432");
	add_all(q, keys, 1);
	run_all(q, keys, done);
}

static void bytes(uint32_t n, void (*fill)(struct bench_queue *q, const struct bench_keys *keys))
{
	struct bench_keys keys = bench_keys_new(n, 0);
	struct bench_queue q;
	bench_queue_open(&q, dir, false);
	double empty = bench_queue_bytes(&q);
	fill(&q, &keys);
	bench_print("bytes", (bench_queue_bytes(&q) - empty) / n);
}

static void bench_bytes(uint32_t n)
{
	bytes(n, fill_ready);
}

static void bench_bytes_waiting(uint32_t n)
{
	bytes(n, delay_all);
}

static void bench_bytes_failing(uint32_t n)
{
	bytes(n, fill_failing);
}

static void bench_bytes_running(uint32_t n)
{
	bytes(n, fill_running);
}

/* ---- growth ---- */

/* The most CPU time of one operation while region and indexes grow. */
static int64_t growth(const struct bench_keys *keys)
{
	struct bench_queue q;
	bench_queue_open(&q, dir, false);
	int64_t worst = 0, then = bench_thread_cpu();
	for (uint32_t i = 0; i < keys->len; i++) {
		struct wire_add_key key = bench_add_key(keys, i);
		bench_queue_add(&q, q.controller, &key, bench_now());
		int64_t now = bench_thread_cpu();
		worst = MAX(worst, now - then);
		then = now;
	}
	bench_queue_remove(&q, dir);
	return worst;
}

/* For so long nobody else is answered. The least of some passes, each from the beginning: what the machine adds is no growth. On a virtual
 * machine that is much: its host may give it memory only when it is touched for the first time, and that is counted as its CPU time (5 to
 * 9 ms for 2 MiB where this was written, 0.2 ms the second time). */
static void bench_growth(uint32_t n)
{
	enum { PASSES = 5 };
	struct bench_keys keys = bench_keys_new(n, 0);
	int64_t least = INT64_MAX;
	for (int pass = 0; pass < PASSES; pass++)
		least = MIN(least, growth(&keys));
	bench_print("growth", (double)least);
}

/* ---- recovery ---- */

static void fill_in_order(struct bench_queue *q, const struct bench_keys *keys)
{
	add_all(q, keys, 64);
}

/* Where key i comes in fill_unordered: another order than that of the slots, by as many keys as one likes. */
static uint32_t unordered(uint32_t i, uint32_t n)
{
	return (uint32_t)(i * UINT64_C(7919) % n);
}

/* Delays that are over one after the other. */
static void fill_unordered(struct bench_queue *q, const struct bench_keys *keys)
{
	int64_t now = bench_now();
	for (uint32_t i = 0; i < keys->len; i++) {
		struct wire_add_key key = bench_add_key(keys, i);
		key.delay_ms = 1 + unordered(i, keys->len);
		bench_queue_add(q, q->controller, &key, now);
	}
	for (uint32_t i = 0; i < keys->len; i++)
		bench_queue_tick(q, now + (i + INT64_C(1)) * NS_PER_MS);
}

/* A process fills the region and is killed; this one has not seen it before. */
static void recover(uint32_t n, void (*fill)(struct bench_queue *q, const struct bench_keys *keys))
{
	struct bench_keys keys = bench_keys_new(n, 0);
	struct bench_queue q;
	int ready[2];
	char byte;
	BENCH_CHECK(pipe(ready) == 0);
	pid_t filler = fork();
	if (filler == 0) {
		close(ready[0]);
		bench_queue_open(&q, dir, false);
		fill(&q, &keys);
		BENCH_CHECK(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	int status;
	bool filled = filler > 0 && read(ready[0], &byte, 1) == 1;
	kill(filler, SIGKILL);
	BENCH_CHECK(filled && waitpid(filler, &status, 0) == filler && WIFSIGNALED(status));
	struct workqueue_grant g;
	struct bench_time begin = bench_time();
	bench_queue_open(&q, dir, true);
	int64_t opened = bench_now();
	bench_queue_grant(&q, &g, opened);
	bench_print_times("recover", begin, bench_time(), 1);
	struct wire_done ok = BENCH_OK;
	bool in_order = fill == fill_in_order;
	for (uint32_t i = 0;;) { /* the rest is there, too, and in order */
		uint32_t k = (uint32_t)strtoul(g.name.at + BENCH_NAME - 8, NULL, 10);
		BENCH_CHECK(k < n && (in_order ? k : unordered(k, n)) == i &&
			    bench_is_key(&keys, k, g.namespace, g.name));
		bench_queue_done(&q, &g, &ok, opened);
		if (++i == n)
			break;
		bench_queue_grant(&q, &g, opened);
	}
	must_be_empty(&q);
}

static void bench_recover(uint32_t n)
{
	recover(n, fill_in_order);
}

static void bench_recover_unordered(uint32_t n)
{
	recover(n, fill_unordered);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(uint32_t n);
	} benches[] = {
	    {"cycle", bench_cycle},
	    {"cycle.64", bench_cycle_64},
	    {"cycle.1", bench_cycle_1},
	    {"duplicate", bench_duplicate},
	    {"delay", bench_delay},
	    {"bytes", bench_bytes},
	    {"bytes.waiting", bench_bytes_waiting},
	    {"bytes.failing", bench_bytes_failing},
	    {"bytes.running", bench_bytes_running},
	    {"growth", bench_growth},
	    {"recover", bench_recover},
	    {"recover.unordered", bench_recover_unordered},
	};
	bench_begin();
	for (size_t i = 0; argc == 4 && i < ARRAY_SIZE(benches); i++)
		if (strcmp(argv[1], benches[i].name) == 0) {
			dir = argv[3];
			benches[i].run(bench_number(argv[2]));
			bench_end();
		}
	bench_fail("usage: bench_core NAME N DIR");
}
