/* Growth is by small steps, so that no operation waits for a big one: what one operation takes at most. How long it takes is
 * measured (./dev bench queue core.growth). */
#include "queue_lib.h"

enum {
	STEP = 512 << 10, /* bytes of the region */
	BIG = 2 << 20,	  /* bytes of one of the arrays of the indexes */
	KEYS = 100000,
	FAILING = 20000,
};

/* How often the region was asked to grow. */
static int note_grow(void *ctx, uint64_t size)
{
	(*(int *)ctx)++;
	return lib_grow(NULL, size);
}

struct sizes {
	uint64_t region;
	uint32_t segments, namespace_segments;
	size_t bigs[6];
};

static struct sizes sizes_of(const struct lib *l)
{
	const struct index *x = &l->wq.index;
	return (struct sizes){l->store.allocated,
			      x->by_key.n_segments,
			      x->by_namespace.n_segments,
			      {x->by_key.memory.usable, x->by_namespace.memory.usable, x->links_memory.usable,
			       x->namespaces_memory.usable, x->heaps[0].memory.usable,
			       x->heaps[1].memory.usable}};
}

static struct {
	struct sizes last;
	int calls;		      /* of note_grow */
	uint32_t steps, splits, bigs; /* so many were seen */
} seen;

/* Since the last time there was one operation. */
static void one_operation(const struct lib *l, const char *what, int i)
{
	struct sizes s = sizes_of(l), *last = &seen.last;
	cr_assert(seen.calls <= 1 && s.region - last->region <= STEP,
		  "%s %d: the region grew %d times, by %llu bytes", what, i, seen.calls,
		  (unsigned long long)(s.region - last->region));
	uint32_t splits = s.segments - last->segments + s.namespace_segments - last->namespace_segments;
	cr_assert(splits <= 1, "%s %d: %u splits", what, i, splits);
	for (size_t b = 0; b < ARRAY_SIZE(s.bigs); b++) {
		cr_assert(s.bigs[b] - last->bigs[b] <= BIG, "%s %d: %zu bytes more of array %zu", what, i,
			  s.bigs[b] - last->bigs[b], b);
		seen.bigs += s.bigs[b] > last->bigs[b];
	}
	seen.steps += s.region > last->region;
	seen.splits += splits;
	seen.last = s;
	seen.calls = 0;
}

Test(growth, one_operation_takes_a_small_step_at_most)
{
	struct lib l;
	lib_init(&l);
	l.store.grow = note_grow;
	l.store.grow_ctx = &seen.calls;
	seen.last = sizes_of(&l);
	char name[32];
	for (int i = 0; i < KEYS; i++) {
		snprintf(name, sizeof(name), "key-%d", i);
		if (i % 2)
			lib_after(&l, name, 3600000 + i, WIRE_TIMER_EARLIEST);
		else
			lib_add(&l, name);
		one_operation(&l, "add", i);
	}
	static struct workqueue_grant g[FAILING];
	for (int i = 0; i < FAILING; i++) {
		cr_assert(lib_grant(&l, &g[i]));
		one_operation(&l, "grant", i);
	}
	for (int i = 0; i < FAILING; i++) {
		lib_outcome(&l, &g[i], WIRE_OUTCOME_TRANSIENT);
		one_operation(&l, "done", i);
	}
	/* Were there any? */
	cr_assert(seen.steps >= 15 && seen.splits >= 40 && seen.bigs >= 3, "%u steps, %u splits, %u arrays",
		  seen.steps, seen.splits, seen.bigs);
	lib_done(&l);
}
