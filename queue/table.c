#include "table.h"
#include <stdio.h>

_Static_assert(sizeof(struct table_line) == 64, "a line is a cache line");
_Static_assert(TABLE_FULL < UINT16_MAX, "counted in 16 bits");

static const size_t segment_bytes = TABLE_LINES * sizeof(struct table_line);

static int segment_new(struct table *t, uint32_t *ret)
{
	int rc = big_grow(&t->memory, (t->n_segments + 1) * segment_bytes);
	if (rc < 0)
		return -ENOSPC;
	if ((t->n_segments & (t->n_segments - 1)) == 0)
		t->segments =
		    xrealloc(t->segments, MAX(2 * (size_t)t->n_segments, (size_t)1) * sizeof(*t->segments));
	*ret = t->n_segments++;
	t->segments[*ret] = (struct table_segment){0};
	return 0;
}

void table_init(struct table *t, uint32_t most, uint32_t expected)
{
	*t = (struct table){0};
	/* Right after a split segments are half full; and one may be split before the others. */
	big_init(&t->memory, ((uint64_t)most * 3 / TABLE_FULL + 64) * segment_bytes);
	while ((uint64_t)TABLE_FULL * 9 / 10 << t->depth < expected && t->depth < TABLE_DEPTH_MAX)
		t->depth++;
	size_t n = (size_t)1 << t->depth;
	t->directory = xcalloc(n, sizeof(*t->directory));
	uint32_t segment;
	int rc = big_grow(&t->memory, n * segment_bytes); /* at once: in large pages */
	for (size_t i = 0; rc == 0 && i < n; i++)
		if ((rc = segment_new(t, &segment)) == 0) {
			t->segments[segment].depth = (uint16_t)t->depth;
			t->directory[i] = segment;
		}
	if (rc < 0) {
		fputs("no memory for the first keys\n", stderr);
		abort();
	}
}

void table_done(struct table *t)
{
	big_done(&t->memory);
	free(t->segments);
	free(t->directory);
	*t = (struct table){0};
}

static void deepen(struct table *t)
{
	size_t n = (size_t)1 << t->depth;
	t->directory = xrealloc(t->directory, 2 * n * sizeof(*t->directory));
	for (size_t i = n; i-- > 0;)
		t->directory[2 * i] = t->directory[2 * i + 1] = t->directory[i];
	t->depth++;
}

static void place(struct table_line *lines, uint32_t tag, uint32_t number)
{
	uint32_t at = table_home(tag);
	while (lines[at].number[TABLE_LINE - 1])
		at = at + 1 == TABLE_LINES ? 0 : at + 1;
	unsigned i = table_empty(&lines[at]);
	lines[at].tag[i] = tag;
	lines[at].number[i] = number;
}

static void enter(struct table *t, uint32_t segment, uint32_t tag, uint32_t number)
{
	struct table_line *lines = table_lines(t, segment);
	uint16_t len = t->segments[segment].len++;
	if (!t->gathering) {
		place(lines, tag, number);
		return;
	}
	/* Each begins with another line: else those that are written now would all be in the same sets of the caches. */
	struct table_line *line = &lines[(segment + len / TABLE_LINE) % TABLE_LINES];
	line->tag[len % TABLE_LINE] = tag;
	line->number[len % TABLE_LINE] = number;
	/* The segment's next line: so many places in turn are more than a processor foresees. */
	if (len % TABLE_LINE == 0)
		__builtin_prefetch(&lines[(segment + len / TABLE_LINE + 1) % TABLE_LINES], 1);
}

/* Takes all lines of a segment out of it, into room for one. */
static void take_lines(struct table *t, uint32_t segment, struct table_line *ret)
{
	memcpy(ret, table_lines(t, segment), segment_bytes);
	memset(table_lines(t, segment), 0, segment_bytes);
	t->segments[segment].len = 0;
}

/* Half of its entries go into a new segment. */
static int split(struct table *t, uint32_t segment)
{
	struct table_segment *s = &t->segments[segment];
	uint32_t fresh;
	if (s->depth == TABLE_DEPTH_MAX || segment_new(t, &fresh) < 0)
		return -ENOSPC;
	s = &t->segments[segment];
	if (s->depth == t->depth)
		deepen(t);
	uint32_t bit = UINT32_C(1) << (31 - s->depth);
	s->depth++;
	t->segments[fresh] = (struct table_segment){.depth = s->depth};
	/* The directory's entries of this segment are neighbours; the second half is the new one's. */
	struct table_line *old = xmalloc(segment_bytes);
	take_lines(t, segment, old);
	uint32_t some = 0;
	for (uint32_t l = 0; l < TABLE_LINES; l++)
		for (uint32_t i = 0; i < TABLE_LINE && old[l].number[i]; i++) {
			uint32_t tag = some = old[l].tag[i];
			enter(t, tag & bit ? fresh : segment, tag, old[l].number[i]);
		}
	free(old);
	uint32_t shared = (uint32_t)((uint64_t)some >> (33 - s->depth)); /* the bits before `bit` */
	size_t half = (size_t)1 << (t->depth - s->depth);
	size_t from = ((size_t)shared * 2 + 1) * half;
	for (size_t i = 0; i < half; i++)
		t->directory[from + i] = fresh;
	return 0;
}

int table_reserve(struct table *t, uint32_t tag)
{
	for (;;) {
		uint32_t segment = table_segment_of(t, tag);
		if (t->segments[segment].len < TABLE_FULL)
			return 0;
		if (split(t, segment) < 0)
			return t->segments[segment].len < TABLE_LINES * TABLE_LINE - TABLE_LINE ? 0 : -ENOSPC;
	}
}

void table_insert(struct table *t, uint32_t tag, uint32_t number)
{
	enter(t, table_segment_of(t, tag), tag, number + 1);
	t->len++;
}

void table_gather(struct table *t)
{
	t->gathering = true;
}

/* As place, but for an entry that is there already: false. */
static bool place_new(struct table_line *lines, uint32_t tag, uint32_t number,
		      bool (*same)(const void *ctx, uint32_t a, uint32_t b), const void *ctx)
{
	for (uint32_t at = table_home(tag);; at = at + 1 == TABLE_LINES ? 0 : at + 1) {
		struct table_line *line = &lines[at];
		for (unsigned hits = table_hits(line, tag); hits; hits &= hits - 1) {
			uint32_t other = line->number[__builtin_ctz(hits)];
			if (other && same(ctx, other - 1, number - 1))
				return false;
		}
		if (line->number[TABLE_LINE - 1])
			continue;
		unsigned i = table_empty(line);
		line->tag[i] = tag;
		line->number[i] = number;
		return true;
	}
}

uint32_t table_arrange(struct table *t, bool (*same)(const void *ctx, uint32_t a, uint32_t b),
		       const void *ctx)
{
	struct table_line old[TABLE_LINES];
	for (uint32_t segment = 0; segment < t->n_segments; segment++) {
		uint16_t len = t->segments[segment].len;
		take_lines(t, segment, old);
		for (uint32_t l = 0; l < TABLE_LINES; l++)
			for (uint32_t i = 0; i < TABLE_LINE && old[l].number[i]; i++)
				if (!place_new(table_lines(t, segment), old[l].tag[i], old[l].number[i], same,
					       ctx))
					return old[l].number[i] - 1;
		t->segments[segment].len = len;
	}
	t->gathering = false;
	return TABLE_NONE;
}

static uint32_t distance(uint32_t from, uint32_t to)
{
	return to >= from ? to - from : to + TABLE_LINES - from;
}

/* Takes entry i out; the last of the line takes its place. True: the line was full. */
static bool take_out(struct table_line *line, uint32_t i)
{
	bool full = line->number[TABLE_LINE - 1] != 0;
	uint32_t last = i;
	while (last + 1 < TABLE_LINE && line->number[last + 1])
		last++;
	line->tag[i] = line->tag[last];
	line->number[i] = line->number[last];
	line->number[last] = 0;
	return full;
}

void table_remove(struct table *t, uint32_t tag, uint32_t number)
{
	uint32_t segment = table_segment_of(t, tag), hole = table_home(tag), i = 0;
	struct table_line *lines = table_lines(t, segment);
	for (;; hole = hole + 1 == TABLE_LINES ? 0 : hole + 1) {
		for (i = 0; i < TABLE_LINE && lines[hole].number[i] != number + 1; i++)
			;
		if (i < TABLE_LINE)
			break;
		if (!lines[hole].number[TABLE_LINE - 1]) {
			fprintf(stderr, "bug: a number is not in the table (%u, %u)\n", tag, number);
			abort();
		}
	}
	t->segments[segment].len--;
	t->len--;
	/* As Knuth, vol. 3, 6.4, algorithm R, with lines for places: whoever had to pass the line that was full moves
	 * into it. */
	bool full = take_out(&lines[hole], i);
	for (uint32_t at = hole; full;) {
		at = at + 1 == TABLE_LINES ? 0 : at + 1;
		full = lines[at].number[TABLE_LINE - 1] != 0;
		for (i = 0; i < TABLE_LINE && lines[at].number[i]; i++) {
			uint32_t moved = lines[at].tag[i];
			if (distance(table_home(moved), at) < distance(hole, at))
				continue;
			lines[hole].tag[TABLE_LINE - 1] = moved;
			lines[hole].number[TABLE_LINE - 1] = lines[at].number[i];
			take_out(&lines[at], i);
			hole = at;
			break;
		}
	}
}
