/* The only writer of the queue region: cells, and transitions through the redo record. Pure: memory comes
 * from the caller.
 *
 * A transition is: store_begin, store_put of every new image, store_commit. The images are first written into
 * the redo record, which one release store makes valid; then they are copied to their places and the record
 * is made invalid. A process killed at any instruction leaves the region before or after the transition:
 * store_recover copies a valid record again.
 *
 * Cells that nothing names yet (texts, details, slots) are free by definition, so they are filled before the
 * transition that names them and given back after the one that no longer does; who dies in between loses
 * nothing, because free lists are rebuilt. */
#pragma once
#include "shm_queue.h"

#define STORE_NO_SLOT UINT32_MAX

struct store_cells { /* free cells, as a stack */
	uint32_t *at;
	size_t len, cap;
};

struct store {
	char *at;	    /* the region; never moves */
	uint64_t allocated; /* bytes that may be touched */
	uint64_t limit;	    /* of allocated */
	uint64_t reserve;   /* of limit, left for what accepted keys need: see store_has_room */
	/* Makes bytes up to size touchable and zero. 0 or negative errno. */
	int (*grow)(void *ctx, uint64_t size);
	void *grow_ctx;
	/* For tests: after each store into the region, which is then made of stores of at most 8 bytes. */
	void (*after_store)(void *ctx);
	void *after_store_ctx;

	uint32_t blocks;       /* in use */
	uint32_t *slot_blocks; /* which ones hold slots */
	uint32_t n_slot_blocks;
	struct store_cells free_slots, free_details, free_texts[SHM_BLOCK_COUNT];
	/* the transition that is being put together */
	bool open;
	uint32_t change_slot;
	size_t change_bytes;
	uint32_t released[16]; /* texts and details that are free after it */
	size_t n_released;
	bool slot_released;
};

/* at: a region with its region_header, `allocated` bytes of it zero behind the first page. history: bytes of
 * the ring at most. */
int store_format(struct store *st, uint64_t history);
/* Finishes what was interrupted, checks every slot, rebuilds the free lists. -EBADMSG: it cannot be trusted
 * (err says why). */
int store_recover(struct store *st, struct err *err);
void store_done(struct store *st); /* frees the private memory; the region stays */

/* ---- reading ---- */

static inline uint32_t store_slots(const struct store *st)
{
	return st->n_slot_blocks * (uint32_t)SHM_SLOTS_PER_BLOCK;
}
static inline const struct shm_slot *store_slot(const struct store *st, uint32_t slot)
{
	return (const struct shm_slot *)(const void *)(st->at +
						       (uint64_t)st->slot_blocks[slot / SHM_SLOTS_PER_BLOCK] *
							   SHM_BLOCK) +
	       slot % SHM_SLOTS_PER_BLOCK;
}
static inline const struct shm_detail *store_detail(const struct store *st, uint32_t ref)
{
	return (const struct shm_detail *)(const void *)(st->at + (uint64_t)ref * SHM_REF_UNIT);
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
struct span store_text(const struct store *st, uint32_t ref); /* {"", 0} for 0; until the text is released */
void store_key(const struct store *st, const struct shm_slot *s, struct span *ret_namespace,
	       struct span *ret_name);

/* ---- cells ---- */

/* Is there room for another new key, so that the keys that are in can still be leased and can fail? */
bool store_has_room(struct store *st);
int store_slot_new(struct store *st,
		   uint32_t *ret_slot); /* -ENOSPC; a slot in state NONE that is the caller's */
int store_detail_new(struct store *st, uint32_t *ret_ref); /* -ENOSPC */
int store_text_new(struct store *st, struct span text,
		   uint32_t *ret_ref); /* -ENOSPC, -EMSGSIZE; empty text: 0 */
/* A cell that no slot names (an attempt that was given up). */
void store_slot_drop(struct store *st, uint32_t slot);
void store_detail_drop(struct store *st, uint32_t ref);
void store_text_drop(struct store *st, uint32_t ref);

/* ---- transitions ---- */

void store_begin(struct store *st, uint32_t slot); /* STORE_NO_SLOT: of no slot */
void store_put_slot(struct store *st,
		    const struct shm_slot *image); /* seq is not taken from it; state NONE frees the slot */
void store_put_detail(struct store *st, uint32_t ref, const struct shm_detail *image);
void store_put_controller(struct store *st, uint32_t index, const struct shm_controller *image);
void store_put_generation(struct store *st, uint64_t next);
void store_release_text(struct store *st, uint32_t ref); /* at commit; 0 is fine */
void store_release_detail(struct store *st, uint32_t ref);
void store_commit(struct store *st);

/* Appends to the ring; number is filled in. Not part of the transition: an entry may be lost with the
 * process, never half there. */
void store_history(struct store *st, struct shm_history *entry);

/* Ends the process with a message: a bug, not a user's mistake. */
_Noreturn void store_bug(const char *what, uint64_t a, uint64_t b);
