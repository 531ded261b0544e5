/* What is due: heaps of four children that know where each slot is. Four children are one cache line, because an array begins
 * three entries into one. */
#include "index.h"

enum { BEFORE = 3 };
_Static_assert(sizeof(struct index_timer) == 16, "four children are a cache line");

void timers_init(struct index_heap *h, uint32_t most)
{
	big_init(&h->memory, ((size_t)most + BEFORE) * sizeof(*h->at));
	h->at = (struct index_timer *)(void *)h->memory.at + BEFORE;
	h->len = 0;
}

int timers_reserve(struct index_heap *h, uint32_t keys)
{
	return big_grow(&h->memory, ((size_t)keys + BEFORE) * sizeof(*h->at));
}

uint32_t timers_room(const struct index_heap *h)
{
	return (uint32_t)(h->memory.usable / sizeof(*h->at)) - BEFORE;
}

static void set(struct index *x, struct index_heap *h, uint32_t i, struct index_timer t)
{
	h->at[i] = t;
	x->links[t.slot].timer = i;
}

static void up(struct index *x, struct index_heap *h, uint32_t i, struct index_timer t)
{
	while (i > 0 && t.at < h->at[(i - 1) / 4].at) {
		set(x, h, i, h->at[(i - 1) / 4]);
		i = (i - 1) / 4;
	}
	set(x, h, i, t);
}

static void down(struct index *x, struct index_heap *h, uint32_t i, struct index_timer t)
{
	for (;;) {
		uint32_t child = 4 * i + 1, end = MIN(child + 4, h->len), least = child;
		if (child >= h->len)
			break;
		for (uint32_t c = child + 1; c < end; c++)
			if (h->at[c].at < h->at[least].at)
				least = c;
		if (t.at <= h->at[least].at)
			break;
		set(x, h, i, h->at[least]);
		i = least;
	}
	set(x, h, i, t);
}

void index_timer_add(struct index *x, enum index_timed what, uint32_t slot, int64_t at)
{
	struct index_heap *h = &x->heaps[what];
	up(x, h, h->len++, (struct index_timer){.at = at, .slot = slot});
	index_ahead(x, &h->memory, (h->len + (size_t)BEFORE) * sizeof(*h->at));
}

void index_timer_remove(struct index *x, enum index_timed what, uint32_t slot)
{
	struct index_heap *h = &x->heaps[what];
	uint32_t i = x->links[slot].timer;
	if (i >= h->len || h->at[i].slot != slot)
		store_bug("a slot is not in the heap", slot, i);
	struct index_timer last = h->at[--h->len];
	if (last.slot == slot)
		return;
	if (i > 0 && last.at < h->at[(i - 1) / 4].at)
		up(x, h, i, last);
	else
		down(x, h, i, last);
}

void index_timers_link(struct index *x)
{
	for (size_t what = 0; what < INDEX_TIMED_COUNT; what++)
		for (uint32_t i = 0; i < x->heaps[what].len; i++)
			x->links[x->heaps[what].at[i].slot].timer = i;
}

static const struct index_timer *first(const struct index *x)
{
	const struct index_timer *best = NULL;
	for (size_t i = 0; i < INDEX_TIMED_COUNT; i++) {
		const struct index_heap *h = &x->heaps[i];
		if (h->len && (!best || h->at[0].at < best->at))
			best = h->at;
	}
	return best;
}

int64_t index_timer_next(const struct index *x)
{
	const struct index_timer *t = first(x);
	return t ? t->at : INT64_MAX;
}

uint32_t index_timer_due(const struct index *x, int64_t now)
{
	const struct index_timer *t = first(x);
	return t && t->at <= now ? t->slot : INDEX_NONE;
}
