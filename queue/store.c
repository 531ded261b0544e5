#include "store.h"
#include <stdio.h>

enum {
	CELLS_FIRST = 256,
	SLOTS_AHEAD = 4,  /* fetched before they are written */
	BLOCKS_AHEAD = 8, /* that a growth takes at once: 512 KiB, in about a millisecond */
};

_Noreturn void store_bug(const char *what, uint64_t a, uint64_t b)
{
	fprintf(stderr, "reconciled-queue: bug: %s (%llu, %llu)\n", what, (unsigned long long)a,
		(unsigned long long)b);
	abort();
}

/* ---- stores into the region ---- */

static struct shm_redo *redo_of(const struct store *st)
{
	return (struct shm_redo *)(void *)(st->at + SHM_REDO_AT);
}

static uint8_t *directory_of(const struct store *st)
{
	return (uint8_t *)st->at + SHM_DIRECTORY_AT;
}

/* ---- blocks ---- */

void store_cells_push(struct store_cells *c, uint32_t cell)
{
	if (c->len == c->cap) {
		c->cap = MAX(c->cap * 2, (size_t)CELLS_FIRST);
		c->at = xrealloc(c->at, c->cap * sizeof(*c->at));
	}
	c->at[c->len++] = cell;
}

static uint8_t holds_of(const struct store *st, uint32_t ref)
{
	return shm_block_kind(directory_of(st)[(uint64_t)ref * SHM_REF_UNIT / SHM_BLOCK]);
}

void store_blocks_add(struct store_blocks *b, uint32_t block)
{
	b->at = xrealloc(b->at, (b->len + 1) * sizeof(*b->at));
	b->at[b->len++] = block;
}

/* Takes the next block for a use. Its bytes are zero. */
static int block_new(struct store *st, uint8_t holds, uint32_t *ret_block)
{
	uint64_t end = ((uint64_t)st->blocks + 1) * SHM_BLOCK;
	if (st->blocks >= SHM_BLOCKS_MAX || end > st->limit)
		return -ENOSPC;
	if (end > st->allocated) {
		uint64_t want = MIN(st->limit / SHM_BLOCK * SHM_BLOCK, end + (BLOCKS_AHEAD - 1) * SHM_BLOCK);
		int rc = st->grow(st->grow_ctx, want);
		if (rc < 0) {
			want = end;
			rc = st->grow(st->grow_ctx, want);
		}
		if (rc < 0)
			return -ENOSPC;
		st->allocated = want;
	}
	__atomic_store_n(&directory_of(st)[st->blocks], shm_block_entry(holds), __ATOMIC_RELEASE);
	*ret_block = st->blocks++;
	return 0;
}

bool store_has_room(const struct store *st)
{
	uint64_t blocks = MIN(st->limit / SHM_BLOCK, (uint64_t)SHM_BLOCKS_MAX);
	return st->free_slots.len > 0 || st->blocks + st->reserve / SHM_BLOCK < blocks;
}

/* Numbered cells: a block more of them. */
static int numbers_new(struct store *st, uint8_t holds, uint32_t per_block, struct store_blocks *blocks,
		       struct free_set *free)
{
	uint32_t block;
	int rc = block_new(st, holds, &block);
	if (rc < 0)
		return rc;
	store_blocks_add(blocks, block);
	free_set_grow(free, blocks->len * per_block);
	for (uint32_t i = (blocks->len - 1) * per_block; i < blocks->len * per_block; i++)
		free_set_put(free, i);
	return 0;
}

int store_slot_new(struct store *st, uint32_t *ret_slot)
{
	int rc = st->free_slots.len
		     ? 0
		     : numbers_new(st, SHM_BLOCK_SLOTS, SHM_SLOTS_PER_BLOCK, &st->slots, &st->free_slots);
	if (rc < 0)
		return rc;
	uint32_t slot = free_set_take(&st->free_slots);
	if (slot % SHM_SLOTS_PER_BLOCK + SLOTS_AHEAD < SHM_SLOTS_PER_BLOCK)
		__builtin_prefetch(store_slot(st, slot) + SLOTS_AHEAD, 1);
	*ret_slot = slot;
	return 0;
}

void store_slot_drop(struct store *st, uint32_t slot)
{
	free_set_put(&st->free_slots, slot);
}

int store_namespace_new(struct store *st, struct span text, uint32_t *ret_number)
{
	int rc = st->free_namespaces.len ? 0
					 : numbers_new(st, SHM_BLOCK_NAMESPACES, SHM_NAMESPACES_PER_BLOCK,
						       &st->namespaces, &st->free_namespaces);
	if (rc < 0)
		return rc;
	uint32_t number = free_set_take(&st->free_namespaces);
	struct shm_namespace cell = {.len = (uint8_t)text.len};
	if (text.len)
		memcpy(cell.text, text.at, MIN(text.len, sizeof(cell.text)));
	memcpy(store_namespace_at(st, number), &cell, sizeof(cell));
	*ret_number = number;
	return 0;
}

void store_namespace_drop(struct store *st, uint32_t number)
{
	free_set_put(&st->free_namespaces, number);
}

/* ---- cells by reference ---- */

uint32_t store_cell_size(uint8_t holds)
{
	return holds == SHM_BLOCK_DETAILS   ? SHM_DETAIL_SIZE
	       : holds == SHM_BLOCK_RECORDS ? SHM_RECORD_SIZE
					    : shm_text_size(holds);
}

struct store_cells *store_cells_of(struct store *st, uint8_t holds)
{
	return holds == SHM_BLOCK_DETAILS   ? &st->free_details
	       : holds == SHM_BLOCK_RECORDS ? &st->free_records
					    : &st->free_texts[holds];
}

static int cells_refill(struct store *st, uint8_t holds)
{
	uint32_t block, size = store_cell_size(holds);
	int rc = block_new(st, holds, &block);
	if (rc < 0)
		return rc;
	struct store_cells *cells = store_cells_of(st, holds);
	for (uint32_t i = SHM_BLOCK / size; i-- > 0;)
		store_cells_push(
		    cells, (uint32_t)(((uint64_t)block * SHM_BLOCK + (uint64_t)i * size) / SHM_REF_UNIT));
	return 0;
}

static int cell_new(struct store *st, uint8_t holds, uint32_t *ret_ref)
{
	struct store_cells *cells = store_cells_of(st, holds);
	int rc = cells->len ? 0 : cells_refill(st, holds);
	if (rc == 0)
		*ret_ref = cells->at[--cells->len];
	return rc;
}

int store_detail_new(struct store *st, uint32_t *ret_ref)
{
	return cell_new(st, SHM_BLOCK_DETAILS, ret_ref);
}

int store_record_new(struct store *st, uint32_t *ret_ref)
{
	return cell_new(st, SHM_BLOCK_RECORDS, ret_ref);
}

int store_records_reserve(struct store *st, size_t records)
{
	while (st->free_records.len < records) {
		int rc = cells_refill(st, SHM_BLOCK_RECORDS);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void store_detail_fill(struct store *st, uint32_t ref, const struct shm_detail *image)
{
	memcpy(st->at + (uint64_t)ref * SHM_REF_UNIT, image, sizeof(*image));
}

void store_record_fill(struct store *st, uint32_t ref, const struct shm_record *image)
{
	memcpy(st->at + (uint64_t)ref * SHM_REF_UNIT, image, sizeof(*image));
}

void store_detail_drop(struct store *st, uint32_t ref)
{
	store_cells_push(&st->free_details, ref);
}

int store_text_new(struct store *st, struct span text, uint32_t *ret_ref)
{
	if (text.len == 0) {
		*ret_ref = 0;
		return 0;
	}
	uint16_t len = (uint16_t)text.len;
	uint8_t class = SHM_BLOCK_TEXT_32;
	while (class < SHM_BLOCK_COUNT && shm_text_size(class) < text.len + sizeof(len))
		class ++;
	if (class == SHM_BLOCK_COUNT)
		return -EMSGSIZE;
	uint32_t ref = 0;
	int rc = cell_new(st, class, &ref);
	/* A region without a block left may still have a larger cell. */
	while (rc < 0 && ++class < SHM_BLOCK_COUNT)
		if (st->free_texts[class].len)
			rc = cell_new(st, class, &ref);
	if (rc < 0)
		return rc;
	char *at = st->at + (uint64_t)ref * SHM_REF_UNIT;
	memcpy(at, &len, sizeof(len));
	memcpy(at + sizeof(len), text.at, text.len);
	*ret_ref = ref;
	return 0;
}

void store_text_drop(struct store *st, uint32_t ref)
{
	if (ref)
		store_cells_push(&st->free_texts[holds_of(st, ref)], ref);
}

struct span store_text(const struct store *st, uint32_t ref)
{
	if (!ref)
		return span_of("");
	const char *at = st->at + (uint64_t)ref * SHM_REF_UNIT;
	uint16_t len;
	memcpy(&len, at, sizeof(len));
	return (struct span){at + sizeof(len), len};
}

/* ---- transitions ---- */

void store_begin(struct store *st, uint32_t slot)
{
	if (st->open)
		store_bug("a transition was begun inside another", slot, st->change_slot);
	st->open = true;
	st->change_slot = slot;
	st->change_bytes = 0;
	st->n_released = 0;
}

static inline void put(struct store *st, uint64_t offset, const void *image, size_t n)
{
	struct shm_redo *redo = redo_of(st);
	struct store_redo_entry entry = {(uint32_t)offset, (uint32_t)n};
	if (!st->open || st->change_bytes + sizeof(entry) + n + sizeof(uint64_t) > sizeof(redo->entries))
		store_bug("a transition is larger than the redo record", offset, n);
	memcpy(redo->entries + st->change_bytes, &entry, sizeof(entry));
	memcpy(redo->entries + st->change_bytes + sizeof(entry), image, n);
	st->change_bytes += (uint32_t)(sizeof(entry) + n);
}

static uint64_t slot_offset(const struct store *st, uint32_t slot)
{
	return (uint64_t)((const char *)store_slot(st, slot) - st->at);
}

#define SLOT_CHANGES offsetof(struct shm_slot, word)

void store_put_slot(struct store *st, const struct shm_slot *image)
{
	put(st, slot_offset(st, st->change_slot) + SLOT_CHANGES, (const char *)image + SLOT_CHANGES,
	    sizeof(*image) - SLOT_CHANGES);
}

void store_put_slot_free(struct store *st)
{
	put(st, slot_offset(st, st->change_slot) + SLOT_CHANGES, &(uint64_t){0}, sizeof(uint64_t));
}

void store_put_detail(struct store *st, uint32_t ref, const struct shm_detail *image)
{
	put(st, (uint64_t)ref * SHM_REF_UNIT, image, sizeof(*image));
}

void store_put_record(struct store *st, uint32_t ref, const struct shm_record *image)
{
	put(st, (uint64_t)ref * SHM_REF_UNIT, image, sizeof(*image));
}
_Static_assert(sizeof(struct shm_detail) % 8 == 0 && sizeof(struct shm_record) % 8 == 0 &&
		   sizeof(struct shm_controller) % 8 == 0,
	       "images are copied by 8 bytes");

void store_put_row_word(struct store *st, uint32_t controller, size_t at, uint64_t value)
{
	put(st, SHM_CONTROLLERS_AT + (uint64_t)controller * SHM_CONTROLLER_SIZE + at, &value, sizeof(value));
}

void store_put_controller(struct store *st, uint32_t index, const struct shm_controller *image)
{
	uint64_t base = SHM_CONTROLLERS_AT + (uint64_t)index * SHM_CONTROLLER_SIZE;
	const char *old = st->at + base, *new = (const char *)image;
	for (size_t from = 0; from < sizeof(*image);) {
		if (memcmp(old + from, new + from, 8) == 0) {
			from += 8;
			continue;
		}
		size_t to = from + 8;
		while (to < sizeof(*image) && memcmp(old + to, new + to, 8) != 0)
			to += 8;
		put(st, base + from, new + from, to - from);
		from = to;
	}
}

void store_put_generation(struct store *st, uint64_t next)
{
	const uint64_t both[] = {next, ~next};
	put(st, SHM_HEADER_AT + offsetof(struct shm_queue_header, next_generation), both, sizeof(both));
}

void store_release(struct store *st, uint32_t ref)
{
	if (!ref)
		return;
	if (st->n_released == ARRAY_SIZE(st->released))
		store_bug("a transition releases too many cells", ref, st->n_released);
	st->released[st->n_released++] = ref;
}

/* The lengths that each transition has, as moves instead of calls. */
static inline void copy_entry(char *to, const uint8_t *from, uint32_t n)
{
	switch (n) {
	case 8:
		memcpy(to, from, 8);
		break;
	case sizeof(struct shm_slot) - SLOT_CHANGES:
		memcpy(to, from, sizeof(struct shm_slot) - SLOT_CHANGES);
		break;
	case sizeof(struct shm_detail):
		memcpy(to, from, sizeof(struct shm_detail));
		break;
	case sizeof(struct shm_record):
		memcpy(to, from, sizeof(struct shm_record));
		break;
	default:
		memcpy(to, from, n);
	}
}

/* May be done again after it was interrupted anywhere. */
void store_apply(struct store *st)
{
	struct shm_redo *redo = redo_of(st);
	uint32_t bytes =
	    atomic_load_explicit(&redo->bytes, memory_order_acquire) & 0xffff & ~SHM_REDO_CHECKED;
	struct shm_slot *slot =
	    redo->slot ? (struct shm_slot *)(void *)(st->at + (uint64_t)redo->slot * SHM_REF_UNIT) : NULL;
	uint32_t odd = 0;
	if (slot) {
		odd = atomic_load_explicit(&slot->seq, memory_order_relaxed) | 1;
		atomic_store_explicit(&slot->seq, odd, memory_order_relaxed);
	}
	/* The record before the places, the odd seq before them too. */
	atomic_thread_fence(memory_order_release);
	for (uint32_t at = 0; at < bytes;) {
		struct store_redo_entry entry;
		memcpy(&entry, redo->entries + at, sizeof(entry));
		copy_entry(st->at + entry.offset, redo->entries + at + sizeof(entry), entry.length);
		at += (uint32_t)sizeof(entry) + entry.length;
	}
	if (slot)
		atomic_store_explicit(&slot->seq, odd + 1, memory_order_release);
	atomic_store_explicit(&redo->bytes, 0, memory_order_release);
	atomic_thread_fence(memory_order_release);
}

void store_commit(struct store *st)
{
	if (!st->open)
		store_bug("a transition ended that was not begun", 0, 0);
	struct shm_redo *redo = redo_of(st);
	redo->slot = st->change_slot == STORE_NO_SLOT
			 ? 0
			 : (uint32_t)(slot_offset(st, st->change_slot) / SHM_REF_UNIT);
	if (st->change_bytes) {
		uint64_t check = shm_redo_check(redo, st->change_bytes);
		memcpy(redo->entries + st->change_bytes, &check, sizeof(check));
		atomic_store_explicit(&redo->bytes, shm_redo_mark(st->change_bytes | SHM_REDO_CHECKED),
				      memory_order_release);
		store_apply(st);
	}
	st->open = false;
	for (uint32_t i = 0; i < st->n_released; i++)
		store_cells_push(store_cells_of(st, holds_of(st, st->released[i])), st->released[i]);
	if (st->change_slot != STORE_NO_SLOT && store_slot(st, st->change_slot)->state == SHM_STATE_NONE)
		store_slot_drop(st, st->change_slot);
}

void store_cancel(struct store *st)
{
	st->open = false;
}

/* ---- history ---- */

/* All but the number, which is 0 while it is written. */
static void put_history(struct shm_history *to, uint64_t number, const void *entry)
{
	const size_t skip = sizeof(to->number);
	atomic_store_explicit(&to->number, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	memcpy((char *)to + skip, (const char *)entry + skip, sizeof(*to) - skip);
	atomic_store_explicit(&to->number, number, memory_order_release);
}

/* The texts first, then the entry that they belong to: killed in between, none has less text than it says. For the same
 * reason the oldest entry goes before anything that may be its text is overwritten. */
void store_history(struct store *st, struct shm_history *entry, struct span text)
{
	struct shm_queue_header *h = (struct shm_queue_header *)(void *)(st->at + SHM_HEADER_AT);
	if (st->history_entries == 0)
		return;
	struct shm_history *ring = st->history, *to = &ring[st->history_next];
	uint64_t number = atomic_load_explicit(&h->history_next, memory_order_relaxed),
		 next = st->history_next;
	struct shm_history_text part = {.happened = SHM_HAPPENED_TEXT};
	entry->texts =
	    (uint8_t)MIN((text.len + sizeof(part.text) - 1) / sizeof(part.text), SHM_HISTORY_TEXTS_MAX);
	atomic_store_explicit(&to->number, 0, memory_order_relaxed);
	for (uint8_t i = 1; i <= entry->texts; i++) {
		part.len = (uint8_t)MIN(text.len, sizeof(part.text));
		memcpy(part.text, text.at, part.len);
		text = (struct span){text.at + part.len, text.len - part.len};
		next = next + 1 == st->history_entries ? 0 : next + 1;
		put_history(&ring[next], number + i, &part);
	}
	put_history(to, number, entry);
	st->history_next = next + 1 == st->history_entries ? 0 : next + 1;
	__builtin_prefetch(&ring[st->history_next + STORE_HISTORY_AHEAD], 1);
	atomic_store_explicit(&h->history_next, number + 1 + entry->texts, memory_order_release);
}

/* At a start the header may be behind by the entry that was being written. */
void store_history_find(struct store *st)
{
	struct shm_queue_header *h = (struct shm_queue_header *)(void *)(st->at + SHM_HEADER_AT);
	st->history_entries = h->history_entries;
	if (h->history_entries == 0)
		return;
	struct shm_history *ring = st->history = (struct shm_history *)(void *)(st->at + h->history_at);
	uint64_t next = MAX(atomic_load_explicit(&h->history_next, memory_order_relaxed), UINT64_C(1));
	const struct shm_history *last = &ring[(next - 1) % h->history_entries];
	if (atomic_load_explicit(&last->number, memory_order_relaxed) == next &&
	    last->happened != SHM_HAPPENED_TEXT)
		next += 1 + MIN(last->texts, SHM_HISTORY_TEXTS_MAX);
	atomic_store_explicit(&h->history_next, next, memory_order_relaxed);
	st->history_next = (next - 1) % h->history_entries;
}

/* ---- a new region ---- */

int store_format(struct store *st, uint64_t history)
{
	st->blocks = 0;
	uint32_t block;
	for (int i = 0; i < 2; i++) {
		int rc = block_new(st, SHM_BLOCK_FIXED, &block);
		if (rc < 0)
			return rc;
	}
	uint64_t ring = history / SHM_BLOCK;
	for (uint64_t i = 0; i < ring; i++) {
		int rc = block_new(st, SHM_BLOCK_HISTORY, &block);
		if (rc < 0)
			return rc;
	}
	struct shm_queue_header *h = (struct shm_queue_header *)(void *)(st->at + SHM_HEADER_AT);
	h->hash_seed = st->hash_seed;
	h->history_at = SHM_HISTORY_AT;
	h->history_entries = ring * (SHM_BLOCK / sizeof(struct shm_history));
	h->constants_check = shm_constants_check(h);
	atomic_store_explicit(&h->history_next, 1, memory_order_relaxed);
	store_history_find(st);
	h->generation_check = ~UINT64_C(1);
	h->next_generation = 1; /* last: it is made */
	return 0;
}

void store_done(struct store *st)
{
	free(st->slots.at);
	free(st->namespaces.at);
	free_set_done(&st->free_slots);
	free_set_done(&st->free_namespaces);
	free(st->free_details.at);
	free(st->free_records.at);
	for (size_t i = 0; i < SHM_BLOCK_COUNT; i++)
		free(st->free_texts[i].at);
	*st = (struct store){0};
}
