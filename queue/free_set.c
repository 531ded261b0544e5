#include "free_set.h"

void free_set_grow(struct free_set *f, uint32_t cells)
{
	size_t need = cells;
	for (int i = 0; i < FREE_SET_LEVELS; i++) {
		need = (need + 63) / 64;
		if (need <= f->words[i])
			continue;
		size_t room = MAX(need, f->words[i] * 2);
		f->level[i] = xrealloc(f->level[i], room * sizeof(uint64_t));
		memset(f->level[i] + f->words[i], 0, (room - f->words[i]) * sizeof(uint64_t));
		f->words[i] = room;
	}
}

void free_set_put(struct free_set *f, uint32_t cell)
{
	f->len++;
	f->hint = MIN(f->hint, cell / 64);
	for (int i = 0; i < FREE_SET_LEVELS; i++, cell /= 64) {
		uint64_t had = f->level[i][cell / 64];
		f->level[i][cell / 64] = had | UINT64_C(1) << cell % 64;
		if (had)
			return;
	}
}

uint32_t free_set_search(struct free_set *f)
{
	if (f->len == 0)
		return FREE_SET_NONE;
	f->len--;
	uint32_t at = 0;
	while (!f->level[FREE_SET_LEVELS - 1][at])
		at++;
	for (int i = FREE_SET_LEVELS; i-- > 0;)
		at = at * 64 + (uint32_t)__builtin_ctzll(f->level[i][at]);
	uint32_t cell = at;
	f->hint = cell / 64;
	for (int i = 0; i < FREE_SET_LEVELS; i++, at /= 64) {
		f->level[i][at / 64] &= ~(UINT64_C(1) << at % 64);
		if (f->level[i][at / 64])
			break;
	}
	return cell;
}

void free_set_done(struct free_set *f)
{
	for (int i = 0; i < FREE_SET_LEVELS; i++)
		free(f->level[i]);
	*f = (struct free_set){0};
}
