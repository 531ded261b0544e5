#include "index.h"

struct index_entry {
	uint32_t hash;
	uint32_t slot; /* + 1; 0: empty */
};

enum { ENTRIES_FIRST = 1024 };

unsigned index_band(int32_t priority)
{
	return priority > 0 ? 0 : priority == 0 ? 1 : priority > -100 ? 2 : 3;
}

void index_init(struct index *x, struct store *st)
{
	*x = (struct index){.store = st, .mask = ENTRIES_FIRST - 1};
	x->entries = xcalloc(ENTRIES_FIRST, sizeof(*x->entries));
	for (size_t c = 0; c < SHM_CONTROLLERS_MAX; c++)
		for (size_t b = 0; b < INDEX_BANDS; b++)
			x->ready[c].bands[b] = (struct index_list){INDEX_NONE, INDEX_NONE, 0};
}

void index_done(struct index *x)
{
	free(x->links);
	free(x->entries);
	free(x->heap);
	*x = (struct index){0};
}

static struct index_links *links_of(struct index *x, uint32_t slot)
{
	if (slot >= x->n_links) {
		uint32_t n = store_slots(x->store);
		x->links = xrealloc(x->links, n * sizeof(*x->links));
		x->n_links = n;
	}
	return &x->links[slot];
}

/* ---- keys ---- */

uint32_t index_hash(uint16_t controller, struct span namespace, struct span name)
{
	uint64_t h = hash_bytes(&controller, sizeof(controller), HASH_SEED);
	h = hash_bytes(namespace.at, namespace.len, h);
	h = hash_bytes("/", 1, h);
	h = hash_bytes(name.at, name.len, h);
	h ^= h >> 32; /* FNV's low bits are its weak ones */
	h *= UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 32);
}

static bool has_key(const struct index *x, uint32_t slot, uint16_t controller, struct span namespace,
		    struct span name)
{
	const struct shm_slot *s = store_slot(x->store, slot);
	if (s->controller != controller || s->namespace_len != namespace.len || s->name_len != name.len)
		return false;
	struct span ns, n;
	store_key(x->store, s, &ns, &n);
	return span_eq(ns, namespace) && span_eq(n, name);
}

uint32_t index_find(const struct index *x, uint32_t hash, uint16_t controller, struct span namespace,
		    struct span name)
{
	for (uint32_t i = hash & x->mask;; i = (i + 1) & x->mask) {
		const struct index_entry *e = &x->entries[i];
		if (!e->slot)
			return INDEX_NONE;
		if (e->hash == hash && has_key(x, e->slot - 1, controller, namespace, name))
			return e->slot - 1;
	}
}

static void place(struct index_entry *entries, uint32_t mask, struct index_entry e)
{
	uint32_t i = e.hash & mask;
	while (entries[i].slot)
		i = (i + 1) & mask;
	entries[i] = e;
}

void index_insert(struct index *x, uint32_t hash, uint32_t slot)
{
	if ((uint64_t)(x->keys + 1) * 8 > ((uint64_t)x->mask + 1) * 7) {
		uint32_t mask = x->mask * 2 + 1;
		struct index_entry *entries = xcalloc((size_t)mask + 1, sizeof(*entries));
		for (uint32_t i = 0; i <= x->mask; i++)
			if (x->entries[i].slot)
				place(entries, mask, x->entries[i]);
		free(x->entries);
		x->entries = entries;
		x->mask = mask;
	}
	place(x->entries, x->mask, (struct index_entry){hash, slot + 1});
	x->keys++;
}

void index_remove(struct index *x, uint32_t hash, uint32_t slot)
{
	uint32_t i = hash & x->mask;
	while (x->entries[i].slot != slot + 1) {
		if (!x->entries[i].slot)
			store_bug("a key is not in the index", hash, slot);
		i = (i + 1) & x->mask;
	}
	/* Knuth, vol. 3, 6.4, algorithm R: no tombstones, the rest of the run moves up. */
	for (uint32_t j = i;;) {
		j = (j + 1) & x->mask;
		if (!x->entries[j].slot)
			break;
		uint32_t home = x->entries[j].hash & x->mask;
		if (((j - home) & x->mask) >= ((j - i) & x->mask)) {
			x->entries[i] = x->entries[j];
			i = j;
		}
	}
	x->entries[i] = (struct index_entry){0};
	x->keys--;
}

/* ---- ready lists ---- */

void index_ready_add(struct index *x, uint32_t slot, uint16_t controller, unsigned band)
{
	struct index_list *l = &x->ready[controller].bands[band];
	*links_of(x, slot) = (struct index_links){l->tail, INDEX_NONE};
	if (l->tail == INDEX_NONE)
		l->head = slot;
	else
		x->links[l->tail].next = slot;
	l->tail = slot;
	l->len++;
}

void index_ready_remove(struct index *x, uint32_t slot, uint16_t controller, unsigned band)
{
	struct index_list *l = &x->ready[controller].bands[band];
	struct index_links at = x->links[slot];
	*(at.prev == INDEX_NONE ? &l->head : &x->links[at.prev].next) = at.next;
	*(at.next == INDEX_NONE ? &l->tail : &x->links[at.next].prev) = at.prev;
	l->len--;
}

uint32_t index_ready_next(const struct index *x, uint16_t controller)
{
	uint32_t best = INDEX_NONE;
	int64_t best_at = 0;
	for (unsigned b = 0; b < INDEX_BANDS; b++) {
		uint32_t head = x->ready[controller].bands[b].head;
		if (head == INDEX_NONE)
			continue;
		int64_t at = store_slot(x->store, head)->ready_at + b * INDEX_AGING;
		if (best == INDEX_NONE || at < best_at) {
			best = head;
			best_at = at;
		}
	}
	return best;
}

uint32_t index_ready_len(const struct index *x, uint16_t controller)
{
	uint32_t n = 0;
	for (unsigned b = 0; b < INDEX_BANDS; b++)
		n += x->ready[controller].bands[b].len;
	return n;
}

/* ---- times: a binary heap that knows where each slot is ---- */

static void heap_set(struct index *x, uint32_t i, struct index_timer t)
{
	x->heap[i] = t;
	x->links[t.slot].prev = i;
}

static void heap_up(struct index *x, uint32_t i, struct index_timer t)
{
	while (i > 0 && t.at < x->heap[(i - 1) / 2].at) {
		heap_set(x, i, x->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_set(x, i, t);
}

static void heap_down(struct index *x, uint32_t i, struct index_timer t)
{
	for (;;) {
		uint32_t child = 2 * i + 1;
		if (child >= x->heap_len)
			break;
		if (child + 1 < x->heap_len && x->heap[child + 1].at < x->heap[child].at)
			child++;
		if (t.at <= x->heap[child].at)
			break;
		heap_set(x, i, x->heap[child]);
		i = child;
	}
	heap_set(x, i, t);
}

void index_timer_add(struct index *x, uint32_t slot, int64_t at)
{
	links_of(x, slot);
	if (x->heap_len == x->heap_cap) {
		x->heap_cap = MAX(x->heap_cap * 2, 64u);
		x->heap = xrealloc(x->heap, x->heap_cap * sizeof(*x->heap));
	}
	heap_up(x, x->heap_len++, (struct index_timer){at, slot});
}

void index_timer_remove(struct index *x, uint32_t slot)
{
	uint32_t i = x->links[slot].prev;
	if (i >= x->heap_len || x->heap[i].slot != slot)
		store_bug("a slot is not in the heap", slot, i);
	struct index_timer last = x->heap[--x->heap_len];
	if (last.slot == slot)
		return;
	if (i > 0 && last.at < x->heap[(i - 1) / 2].at)
		heap_up(x, i, last);
	else
		heap_down(x, i, last);
}

int64_t index_timer_next(const struct index *x)
{
	return x->heap_len ? x->heap[0].at : INT64_MAX;
}

uint32_t index_timer_due(const struct index *x, int64_t now)
{
	return x->heap_len && x->heap[0].at <= now ? x->heap[0].slot : INDEX_NONE;
}
