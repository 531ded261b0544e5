/* The mover: goes over all slots, a few with each change and the rest while the watcher waits, and writes records anew: those in the
 * segment that is being emptied, and those that are packed with another dictionary than their table has now. */
#include "store_internal.h"

enum {
	SLOTS_MIN = 256, /* looked at in one go, at least */
	STUCK = 1000,	 /* tries that are left out after one that found no room */
};

void store_move_again(struct store *s)
{
	s->again = true;
}

/* One that is worth emptying: less than half of it lives. */
static uint32_t find_victim(struct store *s)
{
	if (!s->sparse || s->stuck) {
		s->stuck -= s->stuck != 0;
		return CACHE_SEGMENTS;
	}
	for (uint32_t i = 0; i < CACHE_SEGMENTS; i++)
		if (i != s->open && store_segment_sparse(&s->segments[i]))
			return i;
	s->sparse = false;
	return CACHE_SEGMENTS;
}

/* The same record elsewhere: it is written whole before the slot is switched to it. */
static int move_record(struct store *s, uint32_t index, uint64_t place)
{
	uint64_t to, length = cache_place_length(place);
	char *at;
	s->purpose = STORE_MOVING;
	int rc = store_take(s, length, &to, &at);
	s->purpose = STORE_OBJECT;
	if (rc < 0)
		return rc;
	memcpy(at, store_record(s, place), length);
	store_slot_switch(store_slot(s, index), to);
	store_space_give(s, place);
	return 0;
}

/* The same object, packed as its table packs now. */
static int pack_record(struct store *s, uint32_t index, uint64_t place)
{
	const struct cache_record *old = store_record(s, place);
	struct cache_record head = *old;
	buf_reset(&s->json);
	int rc = store_unpack(s, place, &s->json);
	if (rc < 0)
		return rc;
	struct span stored = store_pack(s, old->table, buf_span(&s->json), &head);
	if (cache_record_size(&head) >= cache_record_size(old) && old->dictionary == 0 &&
	    old->encoding == CACHE_ZSTD)
		return 0; /* alone it is as good */
	uint64_t to, fixed = cache_record_fixed(old);
	char *at;
	rc = store_take(s, cache_record_size(&head), &to, &at);
	if (rc < 0)
		return rc;
	memcpy(at, old, fixed);
	memcpy(at + fixed, stored.at, stored.len);
	struct cache_record *r = (struct cache_record *)(void *)at;
	*r = head;
	r->check = store_record_check(r);
	store_slot_switch(store_slot(s, index), to);
	store_dictionary_count(s, head.dictionary, 1);
	store_dictionary_count(s, old->dictionary, -1);
	store_space_give(s, place);
	return 0;
}

/* What the slot's record needs, if anything: its bytes are added to *done. */
static int visit(struct store *s, uint32_t index, uint32_t victim, bool pack, uint64_t *done)
{
	uint64_t place = atomic_load_explicit(&store_slot(s, index)->place, memory_order_relaxed);
	if (!place)
		return 0;
	*done += 32;
	const struct cache_record *r = store_record(s, place);
	bool old = pack && store_pack_is_old(s, r);
	if (!old && cache_place_segment(place) != victim)
		return 0;
	*done += cache_place_length(place);
	return old ? pack_record(s, index, place) : move_record(s, index, place);
}

static void begin_round(struct store *s)
{
	s->victim = find_victim(s);
	s->round = s->again || s->victim != CACHE_SEGMENTS;
	s->again = false;
	s->at = 0;
}

bool store_move(struct store *s, uint64_t bytes)
{
	if (!s->round)
		begin_round(s);
	if (!s->round)
		return false;
	uint64_t done = 0;
	uint32_t looked = 0;
	int rc = 0;
	for (; rc == 0 && s->at < s->slots && (done < bytes || looked < SLOTS_MIN); looked++)
		rc = visit(s, s->at++, s->victim, true, &done);
	/* Without room for it the rest waits for better times: puts go before. */
	s->stuck = rc < 0 ? STUCK : s->stuck;
	if (rc < 0 || s->at >= s->slots) {
		s->round = false;
		s->victim = CACHE_SEGMENTS;
	}
	return true;
}

int store_move_all(struct store *s, uint32_t segment)
{
	if (s->open == segment)
		s->open = CACHE_SEGMENTS;
	int rc = 0;
	uint64_t done = 0, file = s->segments[segment].file;
	for (uint32_t i = 0; i < s->slots && s->segments[segment].file == file && rc == 0; i++)
		rc = visit(s, i, segment, false, &done);
	return rc;
}
