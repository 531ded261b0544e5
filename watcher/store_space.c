/* Segments: bytes for records. A record goes where the open segment ends. What is freed is only counted; a
 * segment that holds less than half is emptied into the open one bit by bit (store_move.c) and unlinked, so garbage
 * hardly exceeds the live bytes. When the budget is reached, the segment with most garbage is emptied at once, for
 * which one segment's worth of the budget is kept in reserve; a sixteenth is kept for the metadata of objects for
 * which there is no room. */
#include "store_internal.h"
#include <stdio.h>
#include <unistd.h>

enum { GROW_MIN = 64 << 10, GROW_MAX = 4 << 20, METADATA_PART = 16 };
#define SEGMENT_CAP_MIN (UINT64_C(256) << 10)

bool store_may_fit(const struct store *s, uint64_t bytes)
{
	return s->allocated + MAX(bytes, (uint64_t)GROW_MIN) <= store_limit(s);
}

uint64_t store_limit(const struct store *s)
{
	/* What the outbox may still grow by is nobody else's. */
	uint32_t outbox =
	    s->outbox_most -
	    MIN(s->outbox_most, atomic_load_explicit(&store_header(s)->outbox_extents, memory_order_relaxed));
	uint64_t kept = s->purpose == STORE_OUTBOX ? 0 : outbox * STORE_OUTBOX_EXTENT;
	if (s->purpose < STORE_MOVING)
		kept += s->segment_cap;
	if (s->purpose == STORE_OBJECT)
		kept += s->budget / METADATA_PART;
	return s->budget - MIN(s->budget, kept);
}

static int refuse(const struct store *s, int rc, uint64_t bytes, struct err *err)
{
	if (rc == -ENOSPC)
		return err_set(err, rc, "the file system of %s is full: %llu more bytes are needed",
			       s->region_dir, (unsigned long long)bytes);
	if (rc == -EDQUOT)
		return err_set(err, -ENOSPC,
			       "the cache budget of %llu bytes is used up (%llu allocated, %u objects), %llu "
			       "more are needed: raise it in "
			       "reconciled.yaml, or watch less (selectors, metadataOnly)",
			       (unsigned long long)s->budget, (unsigned long long)s->allocated, s->objects,
			       (unsigned long long)bytes);
	return err_set(err, rc, "cannot grow the cache in %s by %llu bytes: %s", s->region_dir,
		       (unsigned long long)bytes, strerror(-rc));
}

static int grow(struct store *s, struct region *r, uint64_t size)
{
	uint64_t before = region_header(r)->allocated;
	if (size <= before)
		return 0;
	if (s->allocated + (size - before) > store_limit(s))
		return -EDQUOT;
	int rc = region_grow(r, size);
	s->allocated += region_header(r)->allocated - before;
	return rc;
}

int store_grow(struct store *s, struct region *r, uint64_t size, struct err *err)
{
	uint64_t before = region_header(r)->allocated;
	int rc = grow(s, r, size);
	return rc < 0 ? refuse(s, rc, size - before, err) : 0;
}

static char *segment_path(const struct store *s, uint64_t file)
{
	return xasprintf("%s/cache-%llu.seg", s->region_dir, (unsigned long long)file);
}

int store_segment_attach(struct store *s, uint32_t index, uint64_t file, struct err *err)
{
	_cleanup_(free_ptr) char *path = segment_path(s, file);
	struct region_spec spec = cache_segment_spec();
	struct store_segment *g = &s->segments[index];
	enum region_state state;
	int rc = region_write(path, &spec, &g->region, &state, err);
	if (rc < 0)
		return rc;
	g->file = file;
	g->cap = s->segment_cap;
	g->used = REGION_PAGE;
	g->live = 0;
	s->allocated += region_header(&g->region)->allocated;
	return state == REGION_RECOVERED;
}

void store_segment_drop(struct store *s, uint32_t index)
{
	struct store_segment *g = &s->segments[index];
	struct cache_header *h = store_header(s);
	atomic_store_explicit(&h->segment_file[index], 0, memory_order_release);
	atomic_fetch_add_explicit(&h->segment_epoch, 1, memory_order_release);
	_cleanup_(free_ptr) char *path = segment_path(s, g->file);
	unlink(path);
	s->allocated -= MIN(s->allocated, region_header(&g->region)->allocated);
	region_done(&g->region);
	*g = (struct store_segment){0};
	s->stuck = 0;
	if (s->victim == index)
		s->victim = CACHE_SEGMENTS;
	if (s->open == index)
		s->open = CACHE_SEGMENTS;
}

/* A new open segment for at least `length` bytes. */
static int segment_new(struct store *s, uint64_t length)
{
	struct cache_header *h = store_header(s);
	uint32_t index = 0;
	while (index < CACHE_SEGMENTS && s->segments[index].file)
		index++;
	if (index == CACHE_SEGMENTS)
		return -ENFILE;
	if (s->allocated + REGION_PAGE + length > store_limit(s))
		return -EDQUOT;
	/* The number is used up before the file exists: a file of a killed writer is never taken for a new
	 * one. */
	uint64_t file = atomic_fetch_add_explicit(&h->next_segment, 1, memory_order_release);
	int rc = store_segment_attach(s, index, file, NULL);
	if (rc < 0)
		return rc;
	s->segments[index].cap = MAX(s->segment_cap, REGION_PAGE + length);
	atomic_store_explicit(&h->segment_file[index], file, memory_order_release);
	s->open = index;
	s->sparse = true; /* the one before may be */
	return 0;
}

/* Grows the open segment so that `length` more bytes fit: by as much as it has (doubling), where the budget
 * lets it. */
static int segment_room(struct store *s, uint64_t length)
{
	struct store_segment *g = &s->segments[s->open];
	uint64_t need = g->used + length, has = region_header(&g->region)->allocated;
	if (need <= has)
		return 0;
	uint64_t step = MIN(MAX(has, (uint64_t)GROW_MIN), (uint64_t)GROW_MAX);
	uint64_t page_end = (need + REGION_PAGE - 1) / REGION_PAGE * REGION_PAGE;
	uint64_t want = MIN(MAX(page_end, has + step), g->cap);
	int rc = grow(s, &g->region, MAX(want, page_end));
	return rc == -EDQUOT || rc == -ENOSPC ? grow(s, &g->region, page_end) : rc;
}

int store_take(struct store *s, uint64_t length, uint64_t *ret_place, char **ret_at)
{
	if (s->open == CACHE_SEGMENTS || s->segments[s->open].used + length > s->segments[s->open].cap) {
		int rc = segment_new(s, length);
		if (rc < 0)
			return rc;
	}
	int rc = segment_room(s, length);
	if (rc < 0)
		return rc;
	struct store_segment *g = &s->segments[s->open];
	*ret_place = cache_place(s->open, g->used, length);
	*ret_at = g->region.at + g->used;
	g->used += length;
	g->live += length;
	/* Whoever still copies what lay here before finds the sequence of its slot changed. */
	atomic_thread_fence(memory_order_release);
	return 0;
}

/* Where most can be had back: enough for this record and a thirty-second part of a segment, or the copying
 * would never end. */
static uint32_t worst_segment(const struct store *s, uint64_t length)
{
	uint32_t worst = CACHE_SEGMENTS;
	uint64_t most = MAX(length, s->segment_cap / 32);
	for (uint32_t i = 0; i < CACHE_SEGMENTS; i++) {
		const struct store_segment *g = &s->segments[i];
		uint64_t garbage = g->file ? g->used - REGION_PAGE - g->live : 0;
		if (garbage > most) {
			most = garbage;
			worst = i;
		}
	}
	return worst;
}

int store_space_take(struct store *s, uint64_t length, uint64_t *ret_place, char **ret_at, struct err *err)
{
	for (;;) {
		int rc = store_take(s, length, ret_place, ret_at);
		if (rc != -EDQUOT && rc != -ENOSPC)
			return rc < 0 ? refuse(s, rc, length, err) : 0;
		if (store_drop(s))
			continue;
		uint32_t worst = worst_segment(s, length);
		if (worst == CACHE_SEGMENTS || store_move_all(s, worst) < 0)
			return refuse(s, rc, length, err);
	}
}

void store_space_give(struct store *s, uint64_t place)
{
	uint32_t index = cache_place_segment(place);
	struct store_segment *g = &s->segments[index];
	g->live -= cache_place_length(place);
	if (index == s->open) {
		if (!g->live)
			g->used = REGION_PAGE; /* nothing names its bytes: from the start again */
	} else if (!g->live) {
		store_segment_drop(s, index);
	} else if (store_segment_sparse(g)) {
		s->sparse = true;
	}
}
