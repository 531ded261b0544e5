/* The only writer of the queue region: cells, and transitions through the redo record. Pure: memory comes
 * from the caller.
 *
 * A transition is: store_begin, store_put_* of what changes, store_commit. The new bytes are first written into
 * the redo record, which one release store makes valid; then they are copied to their places and the record
 * is made invalid. A process killed at any instruction leaves the region before or after the transition:
 * store_recover copies a valid record again.
 *
 * Two changes need no record, because one store of 8 bytes makes them: a key that was not there (store_publish: all but
 * the word is written into a free slot, then the word), and a merge that moves nothing (store_word).
 *
 * Cells that nothing names yet (texts, details, records, namespaces, slots) are free by definition, so they are filled
 * before the change that names them and given back after the one that no longer does; who dies in between loses
 * nothing, because what is free is found again. */
#pragma once
#include "free_set.h"
#include "shm_queue.h"

#define STORE_NO_SLOT UINT32_MAX
enum { STORE_HISTORY_AHEAD = 8 }; /* entries that are fetched before they are written */

struct store_redo_entry { /* before the bytes */
	uint32_t offset, length;
};

struct store_cells { /* free cells, as a stack */
	uint32_t *at;
	size_t len, cap;
};

struct store_blocks { /* which blocks are of a kind, in order */
	uint32_t *at, len;
};

struct store {
	char *at;	    /* the region; never moves */
	uint64_t allocated; /* bytes that may be touched */
	uint64_t limit;	    /* of allocated */
	uint64_t reserve;   /* of limit, left for what accepted keys need: see store_has_room */
	uint64_t hash_seed; /* of a region that is made; random where others choose the names */
	/* Makes bytes up to size touchable and zero. 0 or negative errno. */
	int (*grow)(void *ctx, uint64_t size);
	/* Touches private memory that will be written soon, beside this thread. May do nothing. NULL: there is none. */
	void (*touch)(void *ctx, void *at, size_t bytes);
	void *grow_ctx;
	/* The region's file, or 0: at a start all slots are read from it, which is many times cheaper than to touch their pages in
	 * the mapping, each for the first time. */
	int fd;

	uint32_t blocks; /* in use */
	struct store_blocks slots, namespaces;
	struct free_set free_slots, free_namespaces;
	struct store_cells free_details, free_records, free_texts[SHM_BLOCK_COUNT];
	struct shm_history *history;		/* the ring; none: history_entries is 0 */
	uint64_t history_entries, history_next; /* next: the entry that is written next */
	bool open;
	uint32_t change_slot;
	uint32_t change_bytes;
	uint32_t released[20]; /* texts, details and records that are free after it */
	uint32_t n_released;
};

/* at: a region with its region_header, `allocated` bytes of it zero behind the first page. history: bytes of
 * the ring at most. */
int store_format(struct store *st, uint64_t history);
/* Of a region that is there: checks what is not slots, finishes what was interrupted. -EBADMSG: it cannot be trusted
 * (err says why). workqueue_init goes on with the slots. */
int store_recover(struct store *st, struct err *err);
/* Checks every slot, calls each (whose error ends it) for those that are in use, finds what is free. -EBADMSG. */
int store_check(struct store *st,
		int (*each)(void *ctx, uint32_t slot, const struct shm_slot *s, struct err *err), void *ctx,
		struct err *err);
void store_done(struct store *st); /* frees the private memory; the region stays */

/* Ends the process with a message: a bug, not a user's mistake. */
_Noreturn void store_bug(const char *what, uint64_t a, uint64_t b);

/* ---- reading ---- */

static inline uint32_t store_slots(const struct store *st)
{
	return st->slots.len * SHM_SLOTS_PER_BLOCK;
}
static inline uint32_t store_namespaces(const struct store *st)
{
	return st->namespaces.len * (uint32_t)SHM_NAMESPACES_PER_BLOCK;
}
static inline struct shm_slot *store_slot_at(const struct store *st, uint32_t slot)
{
	return (struct shm_slot *)(void *)(st->at +
					   (uint64_t)st->slots.at[slot / SHM_SLOTS_PER_BLOCK] * SHM_BLOCK) +
	       slot % SHM_SLOTS_PER_BLOCK;
}
static inline const struct shm_slot *store_slot(const struct store *st, uint32_t slot)
{
	return store_slot_at(st, slot);
}
static inline const struct shm_detail *store_detail(const struct store *st, uint32_t ref)
{
	return (const struct shm_detail *)(const void *)(st->at + (uint64_t)ref * SHM_REF_UNIT);
}
/* One that nothing names yet, to be filled. */
static inline struct shm_detail *store_detail_at(struct store *st, uint32_t ref)
{
	return (struct shm_detail *)(void *)(st->at + (uint64_t)ref * SHM_REF_UNIT);
}
static inline const struct shm_record *store_record(const struct store *st, uint32_t ref)
{
	return (const struct shm_record *)(const void *)(st->at + (uint64_t)ref * SHM_REF_UNIT);
}
static inline const struct shm_controller *store_controller(const struct store *st, uint32_t index)
{
	return (const struct shm_controller *)(const void *)(st->at + SHM_CONTROLLERS_AT +
							     index * SHM_CONTROLLER_SIZE);
}
static inline const struct shm_queue_header *store_header(const struct store *st)
{
	return (const struct shm_queue_header *)(const void *)(st->at + SHM_HEADER_AT);
}
static inline struct shm_namespace *store_namespace_at(const struct store *st, uint32_t number)
{
	uint64_t block = st->namespaces.at[number / SHM_NAMESPACES_PER_BLOCK];
	return (struct shm_namespace *)(void *)(st->at + block * SHM_BLOCK) +
	       number % SHM_NAMESPACES_PER_BLOCK;
}
static inline struct span store_namespace(const struct store *st, uint32_t number)
{
	const struct shm_namespace *n = store_namespace_at(st, number);
	return (struct span){n->text, n->len};
}
struct span store_text(const struct store *st, uint32_t ref); /* {"", 0} for 0; until the text is released */
static inline struct span store_name(const struct store *st, const struct shm_slot *s)
{
	if (s->name_len <= SHM_NAME_INLINE)
		return (struct span){(const char *)s->name, s->name_len};
	uint32_t ref;
	memcpy(&ref, s->name, sizeof(ref));
	return (struct span){store_text(st, ref).at, s->name_len};
}
static inline void store_key(const struct store *st, const struct shm_slot *s, struct span *ret_namespace,
			     struct span *ret_name)
{
	*ret_namespace = store_namespace(st, s->namespace_number);
	*ret_name = store_name(st, s);
}

/* ---- cells ---- */

/* Is there room for another new key, so that the keys that are in can still be leased and can fail? */
bool store_has_room(const struct store *st);
/* Each of these: -ENOSPC when the region is full. The cell is the caller's: named by nothing, its bytes anything
 * (a slot is in state NONE). */
int store_slot_new(struct store *st, uint32_t *ret_slot);
int store_detail_new(struct store *st, uint32_t *ret_ref);
int store_record_new(struct store *st, uint32_t *ret_ref);
int store_namespace_new(struct store *st, struct span text, uint32_t *ret_number); /* filled */
int store_text_new(struct store *st, struct span text,
		   uint32_t *ret_ref); /* filled; also -EMSGSIZE; empty text: 0 */
/* So many calls of store_record_new cannot fail. -ENOSPC. */
int store_records_reserve(struct store *st, size_t records);
/* Fills a cell that nothing names. */
void store_detail_fill(struct store *st, uint32_t ref, const struct shm_detail *image);
void store_record_fill(struct store *st, uint32_t ref, const struct shm_record *image);
/* A cell that nothing names is free again. */
void store_slot_drop(struct store *st, uint32_t slot);
void store_detail_drop(struct store *st, uint32_t ref);
void store_namespace_drop(struct store *st, uint32_t number);
void store_text_drop(struct store *st, uint32_t ref); /* 0 is fine */

/* ---- changes of one store ---- */

/* A key for a free slot: store_fill, then its fields but for seq and the word are written, then store_publish. */
static inline struct shm_slot *store_fill(struct store *st, uint32_t slot)
{
	struct shm_slot *s = store_slot_at(st, slot);
	atomic_store_explicit(&s->seq, atomic_load_explicit(&s->seq, memory_order_relaxed) | 1,
			      memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	return s;
}
static inline void store_publish(struct shm_slot *s, struct shm_pending pending)
{
	/* Even before the word: a state under an odd seq would be a transition that was torn. */
	atomic_store_explicit(&s->seq, atomic_load_explicit(&s->seq, memory_order_relaxed) + 1,
			      memory_order_release);
	atomic_store_explicit(&s->word, shm_pending_word(pending), memory_order_release);
}
/* A merge: state and all that is not in the word stay. */
static inline void store_word(struct shm_slot *s, uint64_t word)
{
	atomic_store_explicit(&s->word, word, memory_order_release);
}

/* ---- transitions ---- */

void store_begin(struct store *st, uint32_t slot);		     /* STORE_NO_SLOT: of no slot */
void store_put_slot(struct store *st, const struct shm_slot *image); /* all but seq and the namespace */
/* The key goes: its slot is free after the commit. */
void store_put_slot_free(struct store *st);
void store_put_detail(struct store *st, uint32_t ref, const struct shm_detail *image);
void store_put_record(struct store *st, uint32_t ref, const struct shm_record *image);
/* One word of the row of a controller, `at` bytes into it. */
void store_put_row_word(struct store *st, uint32_t controller, size_t at, uint64_t value);
void store_put_controller(struct store *st, uint32_t index,
			  const struct shm_controller *image); /* what differs */
void store_put_generation(struct store *st, uint64_t next);
void store_release(struct store *st, uint32_t ref); /* a text, detail or record: free at commit; 0 is fine */
void store_commit(struct store *st);
void store_cancel(struct store *st); /* nothing happened */

static inline uint64_t store_slot_byte(const struct store *st, uint32_t slot)
{
	return (uint64_t)((const char *)store_slot(st, slot) - st->at);
}
#define STORE_ROW_BYTE(controller, member)                                                                   \
	(SHM_CONTROLLERS_AT + (uint64_t)(controller)*SHM_CONTROLLER_SIZE +                                   \
	 offsetof(struct shm_controller, member))

/* All of this in one call, for the transitions that every key makes. Into store_short go runs of words: STORE_RUN of where
 * they belong, then the words. Inline, so that what is constant is so here. slot: the one whose seq guards the change. */
#define STORE_RUN(at, words) ((at) | (uint64_t)(words)*8 << 32) /* struct store_redo_entry */
_Static_assert(sizeof(struct store_redo_entry) == 8 && offsetof(struct store_redo_entry, length) == 4 &&
		   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && offsetof(struct shm_redo, entries) % 8 == 0,
	       "an entry begins with one word");
static inline uint64_t *store_short(const struct store *st)
{
	return (uint64_t *)(void *)((struct shm_redo *)(void *)(st->at + SHM_REDO_AT))->entries;
}
/* n runs of so many words are there. */
_inline_ void store_short_commit(struct store *st, struct shm_slot *slot, const uint32_t *words, uint32_t n)
{
	struct shm_redo *redo = (struct shm_redo *)(void *)(st->at + SHM_REDO_AT);
	const uint64_t *run = store_short(st);
	uint32_t bytes = 0;
	if (st->open)
		store_bug("a transition was begun inside another", st->change_slot, n);
#pragma GCC unroll 4
	for (uint32_t i = 0; i < n; i++)
		bytes += 8 + words[i] * 8;
	redo->slot = (uint32_t)((uint64_t)((char *)slot - st->at) / SHM_REF_UNIT);
	atomic_store_explicit(&redo->bytes, shm_redo_mark(bytes), memory_order_release);
	uint32_t odd = atomic_load_explicit(&slot->seq, memory_order_relaxed) | 1;
	atomic_store_explicit(&slot->seq, odd, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
#pragma GCC unroll 4
	for (uint32_t i = 0; i < n; run += 1 + words[i++]) {
		uint64_t *to = (uint64_t *)(void *)(st->at + (uint32_t)*run);
		/* One by one, as they were written: a wider load would have to wait for these stores. */
#pragma GCC unroll 4
		for (uint32_t k = 0; k < words[i]; k++)
			__atomic_store_n(&to[k], run[1 + k], __ATOMIC_RELAXED);
	}
	atomic_store_explicit(&slot->seq, odd + 1, memory_order_release);
	atomic_store_explicit(&redo->bytes, 0, memory_order_release);
	atomic_thread_fence(memory_order_release);
}

/* Appends to the ring, with the beginning of text in entries of its own; number and texts are filled in. Not part of
 * the transition: an entry may be lost with the process, never half there. */
void store_history(struct store *st, struct shm_history *entry, struct span text);
/* The same for an entry without a text. Inline, so that the entry is written where it belongs and nowhere before. */
_inline_ void store_history_plain(struct store *st, struct shm_history entry)
{
	struct shm_queue_header *h = (struct shm_queue_header *)(void *)(st->at + SHM_HEADER_AT);
	if (st->history_entries == 0)
		return;
	struct shm_history *to = &st->history[st->history_next];
	uint64_t number = atomic_load_explicit(&h->history_next, memory_order_relaxed);
	atomic_store_explicit(&to->number, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	uint64_t head = entry.happened | (uint64_t)entry.controller << 8 | (uint64_t)entry.from << 16 |
			(uint64_t)entry.to << 24 | (uint64_t)entry.outcome << 32 |
			(uint64_t)entry.wait << 40 | (uint64_t)entry.ends << 56;
	memcpy(&to->happened, &head, sizeof(head));
	to->at = entry.at;
	to->key_hash = entry.key_hash;
	to->generation = entry.generation;
	to->delay = entry.delay;
	to->attempt = entry.attempt;
	to->priority = entry.priority;
	to->duration_us = entry.duration_us;
	to->pid = entry.pid;
	atomic_store_explicit(&to->number, number, memory_order_release);
	st->history_next = st->history_next + 1 == st->history_entries ? 0 : st->history_next + 1;
	__builtin_prefetch(&to[STORE_HISTORY_AHEAD], 1);
	atomic_store_explicit(&h->history_next, number + 1, memory_order_release);
}
_Static_assert(offsetof(struct shm_history, happened) == 8 && offsetof(struct shm_history, texts) == 14 &&
		   offsetof(struct shm_history, at) == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the eight bytes after the number are one word");

/* ---- for store_recover.c and start.c ---- */

/* n slots of one block: in room, or in the mapping; see store.fd. */
const struct shm_slot *store_read_slots(const struct store *st, uint32_t slot, uint32_t n,
					struct shm_slot *room);

void store_apply(struct store *st); /* copies a valid redo record to its places */
void store_history_find(struct store *st);
void store_cells_push(struct store_cells *c, uint32_t cell);
uint32_t store_cell_size(uint8_t holds); /* of details, records and texts; else 0 */
struct store_cells *store_cells_of(struct store *st, uint8_t holds);
void store_blocks_add(struct store_blocks *b, uint32_t block);
