/* A workqueue over plain memory, for the tests of queue/. */
#pragma once
#include "queue/workqueue.h"
#include <criterion/criterion.h>
#include <stdio.h>

enum { LIB_BLOCKS = 256 };
#define LIB_BYTES ((size_t)LIB_BLOCKS * SHM_BLOCK)
#define MS	  ((int64_t)NS_PER_MS)
#define S	  NS_PER_S

struct lib {
	char *memory;
	struct store store;
	struct workqueue wq;
	uint16_t c; /* the controller "web" */
	int64_t now;
};

static inline int lib_grow(void *ctx, uint64_t size)
{
	(void)ctx;
	return size <= LIB_BYTES ? 0 : -EFBIG;
}

static inline struct workqueue_rules lib_rules(void)
{
	return (struct workqueue_rules){
	    .attempt = {.limits = {5 * MS, 1000 * S, 0, 0, 100},
			.crashes = 3,
			.within = 600 * S,
			.park_for = 3600 * S},
	    .timeout = 30 * S,
	};
}

static inline struct store lib_store(char *memory, uint64_t limit)
{
	return (struct store){.at = memory,
			      .allocated = 4 * (uint64_t)SHM_BLOCK,
			      .limit = limit,
			      .reserve = 4 * (uint64_t)SHM_BLOCK,
			      .grow = lib_grow};
}

static inline void lib_init_limit(struct lib *l, uint64_t limit)
{
	*l = (struct lib){.memory = xcalloc(LIB_BYTES, 1), .now = 1000 * S};
	l->store = lib_store(l->memory, limit);
	cr_assert(store_format(&l->store, 2 * (uint64_t)SHM_BLOCK) == 0);
	struct err err = {0};
	cr_assert(workqueue_init(&l->wq, &l->store, 42, &err) == 0, "%s", err.text);
	bool new;
	cr_assert(workqueue_open(&l->wq, "web", &l->c, &new) == 0 && new);
	struct workqueue_rules rules = lib_rules();
	workqueue_configure(&l->wq, l->c, &rules);
}

static inline void lib_init(struct lib *l)
{
	lib_init_limit(l, LIB_BYTES);
}

static inline void lib_done(struct lib *l)
{
	workqueue_done_with(&l->wq);
	store_done(&l->store);
	free(l->memory);
}

/* As a broker killed now and started again. */
static inline void lib_restart(struct lib *l)
{
	workqueue_done_with(&l->wq);
	store_done(&l->store);
	l->store = lib_store(l->memory, LIB_BYTES);
	l->store.allocated = LIB_BYTES;
	struct err err = {0};
	cr_assert(store_recover(&l->store, &err) == 0, "%s", err.text);
	cr_assert(workqueue_init(&l->wq, &l->store, 42, &err) == 0, "%s", err.text);
	struct workqueue_rules rules = lib_rules();
	workqueue_configure(&l->wq, l->c, &rules);
}

static inline struct wire_add_key lib_key(const char *name, int64_t priority)
{
	return (struct wire_add_key){.namespace = span_of("shop"),
				     .name = span_of(name),
				     .priority = priority,
				     .cause = WIRE_CAUSE_UPDATED};
}

static inline enum shm_state lib_add_key(struct lib *l, struct wire_add_key key)
{
	enum shm_state state = SHM_STATE_NONE;
	int rc = workqueue_add(&l->wq, l->c, &key, l->now, &state);
	cr_assert(rc == 0, "add: %d", rc);
	return state;
}

static inline enum shm_state lib_add(struct lib *l, const char *name)
{
	return lib_add_key(l, lib_key(name, 0));
}

static inline enum shm_state lib_change(struct lib *l, const char *name)
{
	struct wire_add_key key = lib_key(name, 0);
	key.primary_changed = true;
	return lib_add_key(l, key);
}

static const struct workqueue_holder lib_holder = {100, 101, 7, 8};

static inline bool lib_grant(struct lib *l, struct workqueue_grant *g)
{
	return workqueue_grant(&l->wq, l->c, &lib_holder, l->now, g) == 1;
}

/* Grants and expects that key. */
static inline struct workqueue_grant lib_get(struct lib *l, const char *name)
{
	struct workqueue_grant g;
	cr_assert(lib_grant(l, &g), "nothing was granted, wanted %s", name);
	cr_assert(span_is(g.name, name), "granted " SPAN_FMT ", wanted %s", SPAN_ARG(g.name), name);
	return g;
}

static inline struct workqueue_end lib_end(struct lib *l, const struct workqueue_grant *g,
					   struct wire_done done)
{
	struct workqueue_end end = {0};
	done.slot = g->slot;
	done.generation = g->generation;
	cr_assert(workqueue_done(&l->wq, &done, l->now, &end) == 0);
	return end;
}

static inline struct workqueue_end lib_outcome(struct lib *l, const struct workqueue_grant *g,
					       enum wire_outcome outcome)
{
	return lib_end(l, g,
		       (struct wire_done){
			   .outcome = (uint32_t)outcome, .requeue_after_ms = -1, .message = span_of("why")});
}

static inline void lib_no_over(void *ctx, uint32_t slot)
{
	(void)ctx;
	(void)slot;
}

static inline void lib_advance(struct lib *l, int64_t by)
{
	l->now += by;
	workqueue_tick(&l->wq, l->now, SIZE_MAX, lib_no_over, NULL);
}

/* One attempt of the only ready key. */
static inline struct workqueue_end lib_run(struct lib *l, const char *name, enum wire_outcome outcome)
{
	struct workqueue_grant g = lib_get(l, name);
	return lib_outcome(l, &g, outcome);
}

static inline const struct shm_slot *lib_slot(struct lib *l, const char *name)
{
	uint32_t i = workqueue_slot(&l->wq, l->c, span_of("shop"), span_of(name));
	return i == INDEX_NONE ? NULL : store_slot(&l->store, i);
}

static inline enum shm_state lib_after(struct lib *l, const char *name, int64_t ms, enum wire_timer timer)
{
	struct wire_add_key key = lib_key(name, 0);
	key.delay_ms = ms;
	key.timer = (uint32_t)timer;
	return lib_add_key(l, key);
}

/* It waits so long and runs then, once. */
static inline void lib_expect_due_in(struct lib *l, const char *name, int64_t delay)
{
	const struct shm_slot *s = lib_slot(l, name);
	cr_assert(s && s->state == SHM_STATE_WAITING && s->ready_at == l->now + delay, "due in %lld",
		  s ? (long long)(s->ready_at - l->now) : -1);
	cr_assert(workqueue_next(&l->wq, l->now) == l->now + delay, "the timers do not know of it");
	struct workqueue_grant g;
	lib_advance(l, delay - 1);
	cr_assert(!lib_grant(l, &g), "it ran too early");
	lib_advance(l, 1);
	lib_run(l, name, WIRE_OUTCOME_OK);
	lib_advance(l, 1000000 * S);
	cr_assert(!lib_grant(l, &g), "it ran twice");
}
