/* Which of many numbered cells are free: a bit each, and above it bits for words that have any, so that the lowest free one is
 * found in four steps. The lowest first: what is in use stays together. */
#pragma once
#include "base.h"

#define FREE_SET_NONE UINT32_MAX
enum { FREE_SET_LEVELS = 4 }; /* 64^4 cells below one word of the last level, which may have several */

struct free_set {
	uint64_t *level[FREE_SET_LEVELS];
	size_t words[FREE_SET_LEVELS];
	uint32_t len;  /* how many are free */
	uint32_t hint; /* no word of the first level before this one has any */
};

void free_set_grow(struct free_set *f, uint32_t cells); /* room for numbers below; new ones are in use */
void free_set_put(struct free_set *f, uint32_t cell);
uint32_t free_set_search(struct free_set *f); /* for free_set_take */
/* The lowest; FREE_SET_NONE: none is free. */
static inline uint32_t free_set_take(struct free_set *f)
{
	uint64_t word = f->len ? f->level[0][f->hint] : 0;
	/* The last bit of a word changes the levels above it. */
	if (!(word & (word - 1)))
		return free_set_search(f);
	f->level[0][f->hint] = word & (word - 1);
	f->len--;
	return f->hint * 64 + (uint32_t)__builtin_ctzll(word);
}
void free_set_done(struct free_set *f);
