/* A hash table of numbers: extendible hashing (Fagin and others, "Extendible hashing: a fast access method for dynamic
 * files", 1979). Entries are in segments of 20 KiB; a full one is split in two, so that growth is a few microseconds of
 * work at any size and nothing is ever copied as a whole. In a segment, lines of eight entries (one cache line) are
 * probed one after the other, mostly one. 9 to 19 bytes an entry. It does not shrink. Pure.
 *
 * Whoever asks compares the keys: entries are 32 bits of the hash (the tag) and a number. */
#pragma once
#include "big.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define TABLE_NONE UINT32_MAX
enum {
	TABLE_LINE = 8,
	TABLE_LINES = 320,				  /* of a segment */
	TABLE_FULL = TABLE_LINES * TABLE_LINE * 85 / 100, /* entries of a segment before it is split */
	TABLE_DEPTH_MAX = 20,
};

struct table_line {
	uint32_t tag[TABLE_LINE];
	uint32_t number[TABLE_LINE]; /* + 1; 0: empty, as all that follow in the line */
};

struct table_segment {
	uint16_t len, depth; /* depth: how many leading bits of their tags its entries share */
};

struct table {
	struct big memory;
	struct table_segment *segments;
	uint32_t *directory; /* segment by the leading `depth` bits of a tag */
	uint32_t n_segments, depth, len;
	bool gathering;
};

/* most: entries, ever; expected: soon. Aborts without memory for these. */
void table_init(struct table *t, uint32_t most, uint32_t expected);
void table_done(struct table *t);
/* The next table_insert of this tag cannot fail. -ENOSPC. */
int table_reserve(struct table *t, uint32_t tag);
void table_insert(struct table *t, uint32_t tag, uint32_t number);
void table_remove(struct table *t, uint32_t tag, uint32_t number); /* it is there */

/* For a million entries at once. From table_gather, of an empty table, to table_arrange only table_reserve and table_insert are
 * allowed: these write one entry behind the other into its segment, so that memory is written in order, and table_arrange puts those
 * of one segment after the other into their places, while all of it is in the processor's nearest caches.
 * table_arrange returns TABLE_NONE, or a number that is the same as another: then the table is good for nothing but table_done. */
void table_gather(struct table *t);
uint32_t table_arrange(struct table *t, bool (*same)(const void *ctx, uint32_t a, uint32_t b),
		       const void *ctx);

static inline size_t table_bytes(const struct table *t) /* of its memory that are used */
{
	return (size_t)t->n_segments * TABLE_LINES * sizeof(struct table_line);
}
static inline uint32_t table_segment_of(const struct table *t, uint32_t tag)
{
	return t->directory[(uint64_t)tag >> (32 - t->depth)];
}
static inline struct table_line *table_lines(const struct table *t, uint32_t segment)
{
	return (struct table_line *)(void *)t->memory.at + (size_t)segment * TABLE_LINES;
}
/* The leading bits of a tag are the same in all of a segment, so they are mixed with the others. */
static inline uint32_t table_home(uint32_t tag)
{
	return (uint32_t)((uint64_t)(tag * UINT32_C(0x9e3779b1)) * TABLE_LINES >> 32);
}
/* Always inlined: a function that only prefetches is nothing to gcc, and it takes the call away. */
_inline_ void table_prefetch(const struct table *t, uint32_t tag)
{
	const struct table_line *line = &table_lines(t, table_segment_of(t, tag))[table_home(tag)];
	__builtin_prefetch(line, 1);
}

/* A bit for each of four tags that is this one. */
static inline unsigned table_hits_of_four(const uint32_t *tags, uint32_t tag)
{
#ifdef __SSE2__
	__m128i have = _mm_load_si128((const __m128i *)(const void *)tags);
	return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(have, _mm_set1_epi32((int)tag))));
#else
	unsigned hits = 0;
	for (unsigned i = 0; i < 4; i++)
		hits |= (unsigned)(tags[i] == tag) << i;
	return hits;
#endif
}
/* A bit for each entry of the line that has this tag; those without a number may have any. */
static inline unsigned table_hits(const struct table_line *line, uint32_t tag)
{
	return table_hits_of_four(line->tag, tag) | table_hits_of_four(line->tag + 4, tag) << 4;
}

/* Where the first empty entry of a line is that has one. */
static inline unsigned table_empty(const struct table_line *line)
{
#ifdef __SSE2__
	const __m128i none = _mm_setzero_si128(), *numbers = (const __m128i *)(const void *)line->number;
	__m128i low = _mm_cmpeq_epi32(_mm_load_si128(&numbers[0]), none);
	__m128i high = _mm_cmpeq_epi32(_mm_load_si128(&numbers[1]), none);
	return (unsigned)__builtin_ctz((unsigned)(_mm_movemask_ps(_mm_castsi128_ps(low)) |
						  _mm_movemask_ps(_mm_castsi128_ps(high)) << 4));
#else
	unsigned i = 0;
	while (line->number[i])
		i++;
	return i;
#endif
}

/* The number with this tag for which is(ctx, number); or TABLE_NONE. */
_inline_ uint32_t table_find(const struct table *t, uint32_t tag, bool (*is)(void *ctx, uint32_t number),
			     void *ctx)
{
	const struct table_line *lines = table_lines(t, table_segment_of(t, tag));
	for (uint32_t at = table_home(tag);; at = at + 1 == TABLE_LINES ? 0 : at + 1) {
		const struct table_line *line = &lines[at];
		unsigned hits = table_hits(line, tag);
		for (; hits; hits &= hits - 1) {
			uint32_t number = line->number[__builtin_ctz(hits)];
			if (number && is(ctx, number - 1))
				return number - 1;
		}
		if (!line->number[TABLE_LINE - 1])
			return TABLE_NONE;
	}
}
