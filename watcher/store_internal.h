/* Shared by the files of the store: store.c (tables and objects), store_open.c (start and repair),
 * store_space.c (segments), store_move.c (compaction), store_pack.c (how objects are packed), store_index.c (the
 * shared indexes). Nobody else includes it. */
#pragma once
#include "cache_unpack.h"
#include "store.h"

struct store_segment {
	struct region region;
	uint64_t file; /* N; 0: none */
	uint64_t cap;  /* bytes it may grow to */
	uint64_t used; /* where the next record goes; all before is live or garbage */
	uint64_t live; /* bytes of records that slots name */
};

enum store_index { STORE_INDEX_NAME, STORE_INDEX_OWNER, STORE_INDEXES };

struct store_index_state {
	struct region region; /* of its file */
	uint64_t word;	      /* 0: none */
	uint64_t used;	      /* entries that are not 0, gone ones too */
	uint64_t live;
};

/* How a table's objects are packed: store_pack.c. */
struct store_window {
	uint32_t n;
	uint64_t in, out;
};
struct store_packing {
	uint32_t table;
	uint32_t dictionary; /* N, of what comes in now; 0: none */
	struct compress_dictionary *ready;
	uint64_t used; /* the turn of its last use */
	bool learns, worse;
	uint64_t bytes;	    /* of the objects of the table, unpacked */
	uint64_t train_at;  /* so many of them, for the first dictionary */
	uint64_t since;	    /* objects that came in since the last training */
	uint64_t first_out; /* bytes that a thousand became in the first window; 0: it is not over */
	struct store_window window;
};
struct store_dictionary {
	uint32_t file, table;
	uint32_t uses; /* slots whose records name it */
};

#define STORE_OUTBOX_EXTENT (CACHE_OUTBOX_EXTENT * sizeof(struct cache_outbox_entry))

/* Each may use a part of the budget that those before may not. */
enum store_purpose { STORE_OBJECT, STORE_METADATA, STORE_MOVING, STORE_OUTBOX };

struct store {
	char *region_dir;
	struct region region;
	uint64_t budget;
	uint64_t allocated; /* cache.shm and segments */
	/* of new segments: the budget bounds it, so that one can be emptied into another */
	uint64_t segment_cap;
	struct store_segment *segments; /* CACHE_SEGMENTS */
	uint32_t open;			/* segment that is being filled; CACHE_SEGMENTS: none */
	struct store_index_state index[STORE_INDEXES];
	uint32_t *free_slots;	/* a stack */
	uint32_t n_free, slots; /* slots: how many are there in all */
	uint32_t *marks;
	uint32_t objects;
	uint32_t outbox_most;	    /* extents */
	enum store_purpose purpose; /* of what is being allocated */
	bool dropping;		    /* there may be objects of dropped tables from slot drop_at on */
	uint32_t drop_at;
	/* the mover's round over all slots: store_move.c */
	uint32_t at;
	uint32_t victim;   /* the segment that is being emptied; CACHE_SEGMENTS: none */
	bool round, again; /* one is under way; another one must follow */
	bool sparse;	   /* there may be a segment that is worth emptying */
	uint32_t stuck;	   /* there was no room: not tried again until a segment has gone */
	/* packing: store_pack.c */
	struct compress *compress;
	struct cache_unpack *unpack;
	struct buf packed, json;
	struct store_packing *packing; /* CACHE_TABLES */
	struct store_packing *learn;   /* is to be trained for; NULL: none */
	struct store_dictionary *dictionaries;
	size_t n_dictionaries;
	uint64_t turn;
};

static inline struct cache_header *store_header(const struct store *s)
{
	return (struct cache_header *)(void *)(s->region.at + REGION_PAGE);
}
static inline struct cache_slot *store_slot(const struct store *s, uint32_t slot)
{
	uint64_t offset =
	    atomic_load_explicit(&store_header(s)->extent[slot / CACHE_EXTENT_SLOTS], memory_order_relaxed);
	return (struct cache_slot *)(void *)(s->region.at + offset) + slot % CACHE_EXTENT_SLOTS;
}
static inline const struct cache_record *store_record(const struct store *s, uint64_t place)
{
	return (const struct cache_record *)(const void *)(s->segments[cache_place_segment(place)].region.at +
							   cache_place_offset(place));
}
static inline uint64_t store_record_owner(const struct cache_record *r, size_t i)
{
	uint64_t owner;
	memcpy(&owner, (const char *)(r + 1) + i * 8, 8);
	return owner;
}
static inline bool store_record_has_owner(const struct cache_record *r, size_t below, uint64_t owner)
{
	for (size_t i = 0; i < below; i++)
		if (store_record_owner(r, i) == owner)
			return true;
	return false;
}
static inline bool store_segment_sparse(const struct store_segment *g)
{
	return g->file && g->live < (g->used - REGION_PAGE) / 2;
}
/* An owner that is named twice stands in the index once. */
static inline bool store_record_owner_is_first(const struct cache_record *r, size_t i)
{
	return !store_record_has_owner(r, i, store_record_owner(r, i));
}

/* store.c */
uint32_t store_record_check(const struct cache_record *r);
int store_more_slots(struct store *s, struct err *err);
void store_slot_switch(struct cache_slot *slot, uint64_t place);
bool store_drop(struct store *s); /* takes some objects of dropped tables out; false: there are none */

/* store_pack.c */
/* How json is to be stored in this table: sets head's lengths, encoding and dictionary. The text is json, or good until
 * the next call. */
struct span store_pack(struct store *s, uint32_t table, struct span json, struct cache_record *head);
int store_unpack(struct store *s, uint64_t place, struct buf *out); /* appends */
/* Counts: a slot names this record now, instead of before (may be NULL); or none any more. before's bytes are read. */
void store_pack_stored(struct store *s, const struct cache_record *now, const struct cache_record *before);
void store_pack_gone(struct store *s, const struct cache_record *r);
bool store_pack_is_old(struct store *s,
		       const struct cache_record *r); /* would be packed with another dictionary now */
bool store_pack_learn(struct store *s);		      /* trains what is due; false: nothing was */
void store_pack_done(struct store *s);
int store_pack_found(
    struct store *s,
    const struct cache_record *r); /* at a start; -EPROTO: its dictionary is missing or damaged */
bool store_dictionary_known(const struct store *s, uint32_t file);
void store_dictionary_count(struct store *s, uint32_t file, int uses);
void store_dictionary_drop(struct store *s, uint32_t file); /* if nothing names it */
const char *store_dictionary_missing(const struct store *s);

/* store_move.c */
void store_move_again(struct store *s); /* another round: there is something to pack anew */
/* Goes on by about so many bytes of records; false: there is nothing to do. */
bool store_move(struct store *s, uint64_t bytes);
/* Empties the segment at once, as far as there is room, and unlinks it. */
int store_move_all(struct store *s, uint32_t segment);

/* store_space.c */
uint64_t store_limit(const struct store *s); /* of `allocated`, now */
int store_take(struct store *s, uint64_t length, uint64_t *ret_place,
	       char **ret_at); /* without moving others */
/* Of cache.shm or an index, to so many bytes, within the budget. */
int store_grow(struct store *s, struct region *r, uint64_t size, struct err *err);
/* Room for a record of `length` bytes (a multiple of CACHE_UNIT); *ret_at is where to write it. May move
 * other records. */
int store_space_take(struct store *s, uint64_t length, uint64_t *ret_place, char **ret_at, struct err *err);
void store_space_give(struct store *s, uint64_t place);
int store_segment_attach(struct store *s, uint32_t index, uint64_t file, struct err *err);
void store_segment_drop(struct store *s, uint32_t index);

/* store_index.c */
/* Makes sure that `more` entries can be added without failing. */
int store_index_reserve(struct store *s, enum store_index which, uint64_t more, struct err *err);
void store_index_add(struct store *s, enum store_index which, uint64_t hash, uint32_t slot);
void store_index_remove(struct store *s, enum store_index which, uint64_t hash, uint32_t slot);
/* Takes over the file that the shared word names and puts right what a killed writer left, where it stands. False: there is
 * none, or no room in it. */
bool store_index_repair(struct store *s, enum store_index which);
/* Builds it anew from the slots, beside the one that is there. */
int store_index_rebuild(struct store *s, enum store_index which, uint64_t more, struct err *err);
void store_index_close(struct store *s, enum store_index which); /* the file stays */
bool store_index_find(const struct store *s, enum store_index which, uint64_t hash,
		      bool (*match)(const struct store *s, uint32_t slot, void *ctx), void *ctx,
		      uint32_t *ret_slot);
