/* What the benchmark programs share. Each is run afresh for every round by tests/bench/queue (the script), does one
 * measurement, and prints "NAME VALUE" lines: times in ns, memory in bytes, rates per second. It checks what came out of
 * the queue, so that a broken queue is an error and not a fast one. Files go into the folder that it is given, which is
 * the script's to remove. */
#pragma once
#include "base.h"
#include "queue/workqueue.h"
#include "region.h"

/* Ends the program with status 1. */
_Noreturn void bench_fail(const char *fmt, ...) _printf_(1, 2);
#define BENCH_CHECK(cond)                                                                                    \
	do {                                                                                                 \
		if (!(cond))                                                                                 \
			bench_fail("%s:%d: %s", __FILE__, __LINE__, #cond);                                  \
	} while (0)
void bench_print(const char *name, double value);
/* Dies with whoever started it. Call it first. */
void bench_begin(void);
/* Ends it with success, at once: does not wait for nng, gives nothing back. */
_Noreturn void bench_end(void);
uint32_t bench_number(const char *text); /* from 1 to 10000000 */
/* Wall time, and CPU time of all threads of this process. */
struct bench_time {
	int64_t wall, cpu;
};
struct bench_time bench_time(void);
/* Prints "NAME NS" and "NAME/cpu NS": what each of n took from one time to the other. */
void bench_print_times(const char *name, struct bench_time from, struct bench_time to, uint32_t n);
int64_t bench_now(void);				      /* CLOCK_BOOTTIME, as the broker */
int64_t bench_thread_cpu(void);				      /* CPU time of this thread, ns */
double bench_percentile(int64_t *values, size_t n, double p); /* sorts; p: 0 to 1 */

/* ---- keys ---- */

/* Key number i is namespace-NN/configmap-NNNNNNNN: 31 bytes with the slash. 50 namespaces take turns, so first in, first
 * out and round robin over namespaces are the same order. tests/bench/peer.go has the same ones. */
enum {
	BENCH_NAMESPACE = 12,
	BENCH_NAME = 18,
	BENCH_KEY = BENCH_NAMESPACE + 1 + BENCH_NAME,
	BENCH_NAMESPACES = 50
};
struct bench_keys {
	char (*at)[BENCH_KEY + 1];
	uint32_t len;
};
struct bench_keys bench_keys_new(uint32_t len, uint32_t from);
/* As the watcher adds it when its object is created. */
static inline struct wire_add_key bench_add_key(const struct bench_keys *k, uint32_t i)
{
	const char *at = k->at[i];
	struct span namespace = {at, BENCH_NAMESPACE}, name = {at + BENCH_NAMESPACE + 1, BENCH_NAME};
	return (struct wire_add_key){
	    .namespace = namespace, .name = name, .primary_changed = true, .cause = WIRE_CAUSE_CREATED};
}
static inline bool bench_is_key(const struct bench_keys *k, uint32_t i, struct span namespace,
				struct span name)
{
	return namespace.len == BENCH_NAMESPACE && name.len == BENCH_NAME &&
	       memcmp(namespace.at, k->at[i], BENCH_NAMESPACE) == 0 &&
	       memcmp(name.at, k->at[i] + BENCH_NAMESPACE + 1, BENCH_NAME) == 0;
}

/* ---- the queue as the broker has it, without the broker ---- */

struct bench_queue {
	struct region region;
	struct store store;
	struct workqueue wq;
	uint16_t controller; /* "web" */
};
/* Opens DIR/queue.shm as the broker does: a new one is formatted with the whole history ring, one that is there is
 * recovered. */
void bench_queue_open(struct bench_queue *q, const char *dir, bool must_be_there);
void bench_queue_remove(struct bench_queue *q, const char *dir);    /* the file, too */
void bench_queue_rules(struct bench_queue *q, uint16_t controller); /* the defaults of a controller's file */
static inline void bench_queue_add(struct bench_queue *q, uint16_t controller, const struct wire_add_key *key,
				   int64_t now)
{
	enum shm_state state;
	int rc = workqueue_add(&q->wq, controller, key, now, &state);
	if (rc < 0)
		bench_fail("add of " SPAN_FMT ": %s", SPAN_ARG(key->name), strerror(-rc));
}
/* What one process of a controller does with one key; grant ends the program when there is none, done writes slot and
 * generation into *done. */
static inline void bench_queue_grant(struct bench_queue *q, struct workqueue_grant *ret, int64_t now)
{
	static const struct workqueue_holder holder = {100, 101, 7, 8};
	if (workqueue_grant(&q->wq, q->controller, &holder, now, ret) != 1)
		bench_fail("nothing was granted, but a key is ready");
}
static inline void bench_queue_done(struct bench_queue *q, const struct workqueue_grant *g,
				    struct wire_done *done, int64_t now)
{
	struct workqueue_end end;
	done->slot = g->slot;
	done->generation = g->generation;
	if (workqueue_done(&q->wq, done, now, &end) < 0)
		bench_fail("a result was refused");
}
#define BENCH_OK ((struct wire_done){.outcome = WIRE_OUTCOME_OK, .requeue_after_ms = -1, .duration_us = 1000})
/* What the broker's loop does beside the requests. */
void bench_queue_tick(struct bench_queue *q, int64_t now);
/* Bytes that the queue has: allocated in the region's file, and this process' anonymous memory. */
double bench_queue_bytes(const struct bench_queue *q);
