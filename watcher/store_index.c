/* The shared indexes: open addressing, linear probing. Entries never move (readers probe without locks); a
 * full or worn one is built anew beside the old and switched by one store. */
#include "store_internal.h"

enum { LOG2_MIN = 10 };

static _Atomic uint64_t *shared_word(const struct store *s, enum store_index which)
{
	struct cache_header *h = store_header(s);
	return which == STORE_INDEX_NAME ? &h->name_index : &h->owner_index;
}

static _Atomic uint64_t *entries(const struct store *s, uint64_t word)
{
	return (_Atomic uint64_t *)(void *)(s->region.at + cache_index_offset(word));
}

static uint64_t capacity(uint64_t word)
{
	return word ? UINT64_C(1) << cache_index_log2(word) : 0;
}

/* Entries are written with the array not yet or already shared: the release makes the slot's record visible
 * first. */
static void put(struct store *s, uint64_t word, uint64_t hash, uint32_t slot, uint64_t *used)
{
	_Atomic uint64_t *e = entries(s, word);
	uint64_t mask = capacity(word) - 1, k = cache_index_home(hash, cache_index_log2(word)), old;
	while ((old = atomic_load_explicit(&e[k], memory_order_relaxed)) != 0 && old != CACHE_INDEX_GONE)
		k = (k + 1) & mask;
	atomic_store_explicit(&e[k], cache_index_entry(hash, slot), memory_order_release);
	*used += old == 0;
}

void store_index_add(struct store *s, enum store_index which, uint64_t hash, uint32_t slot)
{
	struct store_index_state *x = &s->index[which];
	put(s, x->word, hash, slot, &x->used);
	x->live++;
}

void store_index_remove(struct store *s, enum store_index which, uint64_t hash, uint32_t slot)
{
	struct store_index_state *x = &s->index[which];
	_Atomic uint64_t *e = entries(s, x->word);
	uint64_t mask = capacity(x->word) - 1, k = cache_index_home(hash, cache_index_log2(x->word)), at;
	for (uint64_t n = 0; n <= mask && (at = atomic_load_explicit(&e[k], memory_order_relaxed)) != 0;
	     n++, k = (k + 1) & mask)
		if (at == cache_index_entry(hash, slot)) {
			atomic_store_explicit(&e[k], CACHE_INDEX_GONE, memory_order_release);
			x->live--;
			return;
		}
}

bool store_index_find(const struct store *s, enum store_index which, uint64_t hash,
		      bool (*match)(const struct store *s, uint32_t slot, void *ctx), void *ctx,
		      uint32_t *ret_slot)
{
	uint64_t word = s->index[which].word, mask = capacity(word) - 1, at;
	if (!word)
		return false;
	_Atomic uint64_t *e = entries(s, word);
	uint64_t k = cache_index_home(hash, cache_index_log2(word));
	for (uint64_t n = 0; n <= mask && (at = atomic_load_explicit(&e[k], memory_order_relaxed)) != 0;
	     n++, k = (k + 1) & mask)
		if (at != CACHE_INDEX_GONE && !((at ^ hash) >> 32) && match(s, cache_index_slot(at), ctx)) {
			*ret_slot = cache_index_slot(at);
			return true;
		}
	return false;
}

static bool in_use(const struct store *s, uint64_t offset)
{
	return (s->index[0].word && cache_index_offset(s->index[0].word) == offset) ||
	       (s->index[1].word && cache_index_offset(s->index[1].word) == offset);
}

/* A free area of exactly this size, or a new one at the end of the region. */
static int take_area(struct store *s, uint64_t size, uint64_t *ret, struct err *err)
{
	struct cache_header *h = store_header(s);
	uint32_t n = atomic_load_explicit(&h->areas, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++)
		if (h->area[i].size == size && !in_use(s, h->area[i].offset)) {
			*ret = h->area[i].offset;
			return 0;
		}
	if (n == CACHE_AREAS)
		return err_set(err, -ENOSPC, "the cache has no room for another index");
	uint64_t offset = region_header(&s->region)->allocated;
	int rc = store_grow_main(s, offset + size, err);
	if (rc < 0)
		return rc;
	h->area[n] = (struct cache_area){offset, size};
	atomic_store_explicit(&h->areas, n + 1, memory_order_release);
	*ret = offset;
	return 0;
}

/* Where this very entry is met first; UINT64_MAX: nowhere. */
static uint64_t position(const struct store *s, uint64_t word, uint64_t hash, uint32_t slot)
{
	_Atomic uint64_t *e = entries(s, word);
	uint64_t mask = capacity(word) - 1, k = cache_index_home(hash, cache_index_log2(word)), at;
	for (uint64_t n = 0; n <= mask && (at = atomic_load_explicit(&e[k], memory_order_relaxed)) != 0;
	     n++, k = (k + 1) & mask)
		if (at == cache_index_entry(hash, slot))
			return k;
	return UINT64_MAX;
}

/* The hash that a slot stands under, one after the other from i = 0; false: no more. */
static bool hash_of_slot(const struct store *s, enum store_index which, uint32_t index, size_t *i,
			 uint64_t *ret)
{
	const struct cache_slot *slot = store_slot(s, index);
	uint64_t place = atomic_load_explicit(&slot->place, memory_order_relaxed);
	if (!place)
		return false;
	if (which == STORE_INDEX_NAME) {
		*ret = slot->hash;
		return (*i)++ == 0;
	}
	const struct cache_record *r = store_record(s, place);
	while (*i < r->owners && !store_record_owner_is_first(r, *i))
		(*i)++;
	if (*i == r->owners)
		return false;
	*ret = store_record_owner(r, (*i)++);
	return true;
}

static bool entry_right(const struct store *s, enum store_index which, uint64_t word, uint64_t k,
			uint64_t entry)
{
	uint32_t slot = cache_index_slot(entry);
	uint64_t hash;
	for (size_t i = 0; slot < s->slots && hash_of_slot(s, which, slot, &i, &hash);)
		if (cache_index_entry(hash, slot) == entry && position(s, word, hash, slot) == k)
			return true;
	return false;
}

bool store_index_repair(struct store *s, enum store_index which)
{
	struct store_index_state *x = &s->index[which];
	uint64_t word = x->word, size = capacity(word), used = 0, live = 0;
	if (!word)
		return false;
	_Atomic uint64_t *e = entries(s, word);
	for (uint64_t k = 0; k < size; k++) {
		uint64_t at = atomic_load_explicit(&e[k], memory_order_relaxed);
		used += at != 0;
		if (at && at != CACHE_INDEX_GONE && !entry_right(s, which, word, k, at))
			atomic_store_explicit(&e[k], CACHE_INDEX_GONE, memory_order_release);
	}
	for (uint32_t slot = 0; slot < s->slots; slot++) {
		uint64_t hash;
		for (size_t i = 0; hash_of_slot(s, which, slot, &i, &hash); live++) {
			if (position(s, word, hash, slot) != UINT64_MAX)
				continue;
			if ((used + 1) * 10 > size * 7)
				return false;
			put(s, word, hash, slot, &used);
		}
	}
	*x = (struct store_index_state){.word = word, .used = used, .live = live};
	return true;
}

static void fill(struct store *s, enum store_index which, uint64_t word, uint64_t *used, uint64_t *live)
{
	for (uint32_t slot = 0; slot < s->slots; slot++) {
		uint64_t hash;
		for (size_t i = 0; hash_of_slot(s, which, slot, &i, &hash); (*live)++)
			put(s, word, hash, slot, used);
	}
}

int store_index_rebuild(struct store *s, enum store_index which, uint64_t more, struct err *err)
{
	struct store_index_state *x = &s->index[which];
	unsigned log2 = LOG2_MIN;
	while ((UINT64_C(1) << log2) < (x->live + more) * 2)
		log2++;
	uint64_t size = (UINT64_C(1) << log2) * 8, offset = 0;
	int rc = take_area(s, size, &offset, err);
	if (rc < 0)
		return rc;
	memset(s->region.at + offset, 0, size);
	/* The generation comes from the shared word: a reader must never meet the same word with other
	 * contents. */
	uint64_t generation = (atomic_load_explicit(shared_word(s, which), memory_order_relaxed) >> 38) + 1;
	uint64_t word = cache_index_word(offset, log2, generation & ((UINT64_C(1) << 26) - 1)), used = 0,
		 live = 0;
	fill(s, which, word, &used, &live);
	*x = (struct store_index_state){.word = word, .used = used, .live = live};
	atomic_store_explicit(shared_word(s, which), word, memory_order_release);
	return 0;
}

int store_index_reserve(struct store *s, enum store_index which, uint64_t more, struct err *err)
{
	struct store_index_state *x = &s->index[which];
	if (x->word && (x->used + more) * 10 <= capacity(x->word) * 7)
		return 0;
	return store_index_rebuild(s, which, more, err);
}
