/* The shared indexes: open addressing, linear probing. Entries never move (readers probe without locks); a
 * full or worn one is built anew in another file and switched by one store; then the old file is unlinked. */
#include "store_internal.h"
#include <unistd.h>

enum { LOG2_MIN = 10 };

static _Atomic uint64_t *shared_word(const struct store *s, enum store_index which)
{
	struct cache_header *h = store_header(s);
	return which == STORE_INDEX_NAME ? &h->name_index : &h->owner_index;
}

static _Atomic uint64_t *entries(const struct store_index_state *x)
{
	return (_Atomic uint64_t *)(void *)(x->region.at + REGION_PAGE);
}

static uint64_t capacity(uint64_t word)
{
	return word ? UINT64_C(1) << cache_index_log2(word) : 0;
}

/* Entries are written with the array not yet or already shared: the release makes the slot's record visible
 * first. */
static void put(struct store_index_state *x, uint64_t hash, uint32_t slot)
{
	_Atomic uint64_t *e = entries(x);
	uint64_t mask = capacity(x->word) - 1, k = cache_index_home(hash, cache_index_log2(x->word)), old;
	while ((old = atomic_load_explicit(&e[k], memory_order_relaxed)) != 0 && old != CACHE_INDEX_GONE)
		k = (k + 1) & mask;
	atomic_store_explicit(&e[k], cache_index_entry(hash, slot), memory_order_release);
	x->used += old == 0;
}

void store_index_add(struct store *s, enum store_index which, uint64_t hash, uint32_t slot)
{
	struct store_index_state *x = &s->index[which];
	put(x, hash, slot);
	x->live++;
}

void store_index_remove(struct store *s, enum store_index which, uint64_t hash, uint32_t slot)
{
	struct store_index_state *x = &s->index[which];
	_Atomic uint64_t *e = entries(x);
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
	const struct store_index_state *x = &s->index[which];
	uint64_t word = x->word, mask = capacity(word) - 1, at;
	if (!word)
		return false;
	_Atomic uint64_t *e = entries(x);
	uint64_t k = cache_index_home(hash, cache_index_log2(word));
	for (uint64_t n = 0; n <= mask && (at = atomic_load_explicit(&e[k], memory_order_relaxed)) != 0;
	     n++, k = (k + 1) & mask)
		if (at != CACHE_INDEX_GONE && !((at ^ hash) >> 32) && match(s, cache_index_slot(at), ctx)) {
			*ret_slot = cache_index_slot(at);
			return true;
		}
	return false;
}

/* ---- its file ---- */

static char *index_path(const struct store *s, uint64_t word)
{
	return xasprintf("%s/cache-%llu.idx", s->region_dir, (unsigned long long)cache_index_file(word));
}

void store_index_close(struct store *s, enum store_index which)
{
	if (s->index[which].word)
		region_done(&s->index[which].region);
	s->index[which] = (struct store_index_state){0};
}

/* Nobody is to find it any more. */
static void drop(struct store *s, struct store_index_state *x)
{
	if (!x->word)
		return;
	_cleanup_(free_ptr) char *path = index_path(s, x->word);
	unlink(path);
	s->allocated -= MIN(s->allocated, region_header(&x->region)->allocated);
	region_done(&x->region);
	*x = (struct store_index_state){0};
}

/* An empty one for 2^log2 entries, which no word names yet. */
static int make(struct store *s, unsigned log2, struct store_index_state *ret, struct err *err)
{
	uint64_t file = atomic_fetch_add_explicit(&store_header(s)->next_segment, 1, memory_order_release);
	struct store_index_state x = {.word = cache_index_word(file, log2)};
	_cleanup_(free_ptr) char *path = index_path(s, x.word);
	struct region_spec spec = cache_index_spec(x.word);
	enum region_state state;
	int rc = region_write(path, &spec, &x.region, &state, err);
	if (rc < 0) {
		unlink(path);
		return rc;
	}
	s->allocated += region_header(&x.region)->allocated;
	rc = store_grow(s, &x.region, cache_index_size(x.word), err);
	if (rc < 0)
		drop(s, &x);
	else
		*ret = x;
	return rc;
}

/* The one that a writer before this one has left; false: it is not there whole. */
static bool take_over(struct store *s, enum store_index which)
{
	struct store_index_state x = {.word =
					  atomic_load_explicit(shared_word(s, which), memory_order_relaxed)};
	if (!x.word || (which == STORE_INDEX_OWNER && x.word == s->index[STORE_INDEX_NAME].word))
		return false;
	_cleanup_(free_ptr) char *path = index_path(s, x.word);
	struct region_spec spec = cache_index_spec(x.word);
	enum region_state state;
	if (region_write(path, &spec, &x.region, &state, NULL) < 0)
		return false;
	s->allocated += region_header(&x.region)->allocated;
	if (region_header(&x.region)->allocated >= cache_index_size(x.word)) {
		s->index[which] = x;
		return true;
	}
	drop(s, &x);
	return false;
}

/* ---- repair ---- */

/* Where this very entry is met first; UINT64_MAX: nowhere. */
static uint64_t position(const struct store_index_state *x, uint64_t hash, uint32_t slot)
{
	_Atomic uint64_t *e = entries(x);
	uint64_t mask = capacity(x->word) - 1, k = cache_index_home(hash, cache_index_log2(x->word)), at;
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

static bool entry_right(const struct store *s, enum store_index which, uint64_t k, uint64_t entry)
{
	uint32_t slot = cache_index_slot(entry);
	uint64_t hash;
	for (size_t i = 0; slot < s->slots && hash_of_slot(s, which, slot, &i, &hash);)
		if (cache_index_entry(hash, slot) == entry && position(&s->index[which], hash, slot) == k)
			return true;
	return false;
}

bool store_index_repair(struct store *s, enum store_index which)
{
	struct store_index_state *x = &s->index[which];
	if (!take_over(s, which))
		return false;
	uint64_t size = capacity(x->word);
	_Atomic uint64_t *e = entries(x);
	for (uint64_t k = 0; k < size; k++) {
		uint64_t at = atomic_load_explicit(&e[k], memory_order_relaxed);
		x->used += at != 0;
		if (at && at != CACHE_INDEX_GONE && !entry_right(s, which, k, at))
			atomic_store_explicit(&e[k], CACHE_INDEX_GONE, memory_order_release);
	}
	for (uint32_t slot = 0; slot < s->slots; slot++) {
		uint64_t hash;
		for (size_t i = 0; hash_of_slot(s, which, slot, &i, &hash); x->live++) {
			if (position(x, hash, slot) != UINT64_MAX)
				continue;
			if ((x->used + 1) * 10 > size * 7)
				return false;
			put(x, hash, slot);
		}
	}
	return true;
}

static void fill(struct store *s, enum store_index which, struct store_index_state *x)
{
	uint64_t hash;
	for (uint32_t slot = 0; slot < s->slots; slot++)
		for (size_t i = 0; hash_of_slot(s, which, slot, &i, &hash); x->live++)
			put(x, hash, slot);
}

int store_index_rebuild(struct store *s, enum store_index which, uint64_t more, struct err *err)
{
	struct store_index_state *old = &s->index[which], x;
	uint64_t live = 0, hash;
	for (uint32_t slot = 0; slot < s->slots; slot++)
		for (size_t i = 0; hash_of_slot(s, which, slot, &i, &hash);)
			live++;
	unsigned log2 = LOG2_MIN;
	while ((UINT64_C(1) << log2) < (live + more) * 2)
		log2++;
	int rc = make(s, log2, &x, err);
	if (rc < 0)
		return rc;
	fill(s, which, &x);
	atomic_store_explicit(shared_word(s, which), x.word, memory_order_release);
	drop(s, old);
	*old = x;
	return 0;
}

int store_index_reserve(struct store *s, enum store_index which, uint64_t more, struct err *err)
{
	struct store_index_state *x = &s->index[which];
	if (x->word && (x->used + more) * 10 <= capacity(x->word) * 7)
		return 0;
	return store_index_rebuild(s, which, more, err);
}
