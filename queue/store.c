#include "store.h"
#include <stdio.h>

enum { CELLS_FIRST = 256 };

_Noreturn void store_bug(const char *what, uint64_t a, uint64_t b)
{
	fprintf(stderr, "reconciled-queue: bug: %s (%llu, %llu)\n", what, (unsigned long long)a,
		(unsigned long long)b);
	abort();
}

/* ---- stores into the region ---- */

static void stored(struct store *st)
{
	if (st->after_store)
		st->after_store(st->after_store_ctx);
}

static void put_bytes(struct store *st, void *to, const void *from, size_t n)
{
	if (!st->after_store) {
		memcpy(to, from, n);
		return;
	}
	for (size_t at = 0; at < n; at += 8) {
		memcpy((char *)to + at, (const char *)from + at, MIN(n - at, (size_t)8));
		stored(st);
	}
}

static struct shm_redo *redo_of(const struct store *st)
{
	return (struct shm_redo *)(void *)(st->at + SHM_REDO_AT);
}

static uint8_t *directory_of(const struct store *st)
{
	return (uint8_t *)st->at + SHM_DIRECTORY_AT;
}

/* ---- free cells ---- */

static void cells_push(struct store_cells *c, uint32_t cell)
{
	if (c->len == c->cap) {
		c->cap = MAX(c->cap * 2, (size_t)CELLS_FIRST);
		c->at = xrealloc(c->at, c->cap * sizeof(*c->at));
	}
	c->at[c->len++] = cell;
}

static uint8_t block_of(const struct store *st, uint32_t ref)
{
	return directory_of(st)[(uint64_t)ref * SHM_REF_UNIT / SHM_BLOCK];
}

static void slot_block_add(struct store *st, uint32_t block)
{
	st->slot_blocks = xrealloc(st->slot_blocks, (st->n_slot_blocks + 1) * sizeof(*st->slot_blocks));
	st->slot_blocks[st->n_slot_blocks++] = block;
}

/* Takes the next block for a use. Its bytes are zero. */
static int block_new(struct store *st, uint8_t holds, uint32_t *ret_block)
{
	uint64_t end = ((uint64_t)st->blocks + 1) * SHM_BLOCK;
	if (st->blocks >= SHM_BLOCKS_MAX || end > st->limit)
		return -ENOSPC;
	if (end > st->allocated) {
		/* Some blocks ahead, so that a fill does not ask for every one. */
		uint64_t want = MIN(st->limit / SHM_BLOCK * SHM_BLOCK, end + 15 * SHM_BLOCK);
		int rc = st->grow(st->grow_ctx, want);
		if (rc < 0) {
			want = end;
			rc = st->grow(st->grow_ctx, want);
		}
		if (rc < 0)
			return -ENOSPC;
		st->allocated = want;
	}
	__atomic_store_n(&directory_of(st)[st->blocks], holds, __ATOMIC_RELEASE);
	stored(st);
	*ret_block = st->blocks++;
	return 0;
}

static int refill_refs(struct store *st, uint8_t holds, uint32_t size, struct store_cells *cells)
{
	uint32_t block;
	int rc = block_new(st, holds, &block);
	if (rc < 0)
		return rc;
	for (uint32_t i = SHM_BLOCK / size; i-- > 0;)
		cells_push(cells,
			   (uint32_t)(((uint64_t)block * SHM_BLOCK + (uint64_t)i * size) / SHM_REF_UNIT));
	return 0;
}

bool store_has_room(struct store *st)
{
	uint64_t blocks = MIN(st->limit / SHM_BLOCK, (uint64_t)SHM_BLOCKS_MAX);
	return st->free_slots.len > 0 || st->blocks + st->reserve / SHM_BLOCK < blocks;
}

int store_slot_new(struct store *st, uint32_t *ret_slot)
{
	if (st->free_slots.len == 0) {
		uint32_t block;
		int rc = block_new(st, SHM_BLOCK_SLOTS, &block);
		if (rc < 0)
			return rc;
		slot_block_add(st, block);
		uint32_t end = store_slots(st);
		for (uint32_t i = 1; i <= SHM_SLOTS_PER_BLOCK; i++)
			cells_push(&st->free_slots, end - i);
	}
	*ret_slot = st->free_slots.at[--st->free_slots.len];
	return 0;
}

void store_slot_drop(struct store *st, uint32_t slot)
{
	cells_push(&st->free_slots, slot);
}

int store_detail_new(struct store *st, uint32_t *ret_ref)
{
	if (st->free_details.len == 0) {
		int rc = refill_refs(st, SHM_BLOCK_DETAILS, SHM_DETAIL_SIZE, &st->free_details);
		if (rc < 0)
			return rc;
	}
	*ret_ref = st->free_details.at[--st->free_details.len];
	return 0;
}

void store_detail_drop(struct store *st, uint32_t ref)
{
	cells_push(&st->free_details, ref);
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
	struct store_cells *cells = &st->free_texts[class];
	/* A region without a block left may still have a larger cell. */
	int rc = cells->len ? 0 : refill_refs(st, class, shm_text_size(class), cells);
	for (; rc < 0 && class + 1 < SHM_BLOCK_COUNT; rc = cells->len ? 0 : rc)
		cells = &st->free_texts[++class];
	if (rc < 0)
		return rc;
	uint32_t ref = cells->at[--cells->len];
	char *at = st->at + (uint64_t)ref * SHM_REF_UNIT;
	put_bytes(st, at, &len, sizeof(len));
	put_bytes(st, at + sizeof(len), text.at, text.len);
	*ret_ref = ref;
	return 0;
}

void store_text_drop(struct store *st, uint32_t ref)
{
	if (ref)
		cells_push(&st->free_texts[block_of(st, ref)], ref);
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

void store_key(const struct store *st, const struct shm_slot *s, struct span *ret_namespace,
	       struct span *ret_name)
{
	const char *bytes = (const char *)s->key;
	if ((size_t)s->namespace_len + s->name_len > SHM_KEY_INLINE) {
		uint32_t ref;
		memcpy(&ref, s->key, sizeof(ref));
		bytes = store_text(st, ref).at;
	}
	*ret_namespace = (struct span){bytes, s->namespace_len};
	*ret_name = (struct span){bytes + s->namespace_len, s->name_len};
}

/* ---- transitions ---- */

struct redo_entry {
	uint32_t offset, length;
};

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

void store_begin(struct store *st, uint32_t slot)
{
	if (st->open)
		store_bug("a transition was begun inside another", slot, st->change_slot);
	st->open = true;
	st->change_slot = slot;
	st->change_bytes = 0;
	st->n_released = 0;
	st->slot_released = false;
}

static void put(struct store *st, uint64_t offset, const void *image, size_t n)
{
	struct shm_redo *redo = redo_of(st);
	if (!st->open || st->change_bytes + sizeof(struct redo_entry) + padded(n) > sizeof(redo->entries))
		store_bug("a transition is larger than the redo record", offset, n);
	struct redo_entry entry = {(uint32_t)offset, (uint32_t)n};
	put_bytes(st, redo->entries + st->change_bytes, &entry, sizeof(entry));
	put_bytes(st, redo->entries + st->change_bytes + sizeof(entry), image, n);
	st->change_bytes += sizeof(entry) + padded(n);
}

static uint64_t slot_offset(const struct store *st, uint32_t slot)
{
	return (uint64_t)((const char *)store_slot(st, slot) - st->at);
}

void store_put_slot(struct store *st, const struct shm_slot *image)
{
	/* All but seq, which store_commit drives. */
	const size_t skip = offsetof(struct shm_slot, state);
	put(st, slot_offset(st, st->change_slot) + skip, (const char *)image + skip, sizeof(*image) - skip);
	st->slot_released = image->state == SHM_STATE_NONE;
}

void store_put_detail(struct store *st, uint32_t ref, const struct shm_detail *image)
{
	put(st, (uint64_t)ref * SHM_REF_UNIT, image, sizeof(*image));
}

void store_put_controller(struct store *st, uint32_t index, const struct shm_controller *image)
{
	/* Only what differs: most transitions change a counter or two. */
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
_Static_assert(sizeof(struct shm_controller) % 8 == 0, "compared by 8 bytes");

void store_put_generation(struct store *st, uint64_t next)
{
	put(st, SHM_HEADER_AT + offsetof(struct shm_queue_header, next_generation), &next, sizeof(next));
}

static void release(struct store *st, uint32_t ref)
{
	if (!ref)
		return;
	if (st->n_released == ARRAY_SIZE(st->released))
		store_bug("a transition releases too many cells", ref, st->n_released);
	st->released[st->n_released++] = ref;
}

void store_release_text(struct store *st, uint32_t ref)
{
	release(st, ref);
}

void store_release_detail(struct store *st, uint32_t ref)
{
	release(st, ref);
}

/* Copies the images of a valid record to their places. May be done again after it was interrupted
 * anywhere. */
static void apply(struct store *st)
{
	struct shm_redo *redo = redo_of(st);
	uint32_t bytes = atomic_load_explicit(&redo->bytes, memory_order_acquire);
	struct shm_slot *slot =
	    redo->slot ? (struct shm_slot *)(void *)(st->at + (uint64_t)redo->slot * SHM_REF_UNIT) : NULL;
	uint32_t odd = 0;
	if (slot) {
		odd = atomic_load_explicit(&slot->seq, memory_order_relaxed) | 1;
		atomic_store_explicit(&slot->seq, odd, memory_order_relaxed);
		stored(st);
	}
	/* The record before the places, the odd seq before them too. */
	atomic_thread_fence(memory_order_release);
	for (uint32_t at = 0; at < bytes;) {
		struct redo_entry entry;
		memcpy(&entry, redo->entries + at, sizeof(entry));
		put_bytes(st, st->at + entry.offset, redo->entries + at + sizeof(entry), entry.length);
		at += (uint32_t)(sizeof(entry) + padded(entry.length));
	}
	if (slot) {
		atomic_store_explicit(&slot->seq, odd + 1, memory_order_release);
		stored(st);
	}
	atomic_store_explicit(&redo->bytes, 0, memory_order_release);
	stored(st);
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
	stored(st);
	if (st->change_bytes) {
		atomic_store_explicit(&redo->bytes, (uint32_t)st->change_bytes, memory_order_release);
		stored(st);
		apply(st);
	}
	st->open = false;
	for (size_t i = 0; i < st->n_released; i++) {
		uint32_t ref = st->released[i];
		if (block_of(st, ref) == SHM_BLOCK_DETAILS)
			store_detail_drop(st, ref);
		else
			store_text_drop(st, ref);
	}
	if (st->slot_released)
		store_slot_drop(st, st->change_slot);
}

void store_history(struct store *st, struct shm_history *entry)
{
	struct shm_queue_header *h = (struct shm_queue_header *)(void *)(st->at + SHM_HEADER_AT);
	if (h->history_entries == 0)
		return;
	uint64_t number = atomic_load_explicit(&h->history_next, memory_order_relaxed);
	struct shm_history *to =
	    (struct shm_history *)(void *)(st->at + h->history_at) + (number - 1) % h->history_entries;
	const size_t skip = sizeof(to->number);
	atomic_store_explicit(&to->number, 0, memory_order_relaxed);
	stored(st);
	atomic_thread_fence(memory_order_release);
	put_bytes(st, (char *)to + skip, (const char *)entry + skip, sizeof(*to) - skip);
	atomic_store_explicit(&to->number, number, memory_order_release);
	stored(st);
	atomic_store_explicit(&h->history_next, number + 1, memory_order_release);
	stored(st);
}

/* ---- a new region, and an old one ---- */

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
	h->next_generation = 1;
	h->history_at = SHM_HISTORY_AT;
	h->history_entries = ring * (SHM_BLOCK / sizeof(struct shm_history));
	atomic_store_explicit(&h->history_next, 1, memory_order_relaxed);
	return 0;
}

/* Which cells are named by a slot: a bit for each 16 bytes of the region. */
struct named {
	uint64_t *bits;
};

static int name_cell(const struct store *st, struct named *named, uint32_t ref, bool detail, struct err *err)
{
	if (!ref)
		return 0;
	uint64_t at = (uint64_t)ref * SHM_REF_UNIT;
	if (at / SHM_BLOCK >= st->blocks)
		return err_set(err, -EBADMSG, "a reference leads outside (%u)", ref);
	uint8_t holds = block_of(st, ref);
	uint32_t size = detail ? (holds == SHM_BLOCK_DETAILS ? SHM_DETAIL_SIZE : 0) : shm_text_size(holds);
	if (size == 0 || at % SHM_BLOCK % size)
		return err_set(err, -EBADMSG, "a reference names no cell (%u)", ref);
	if (!detail && store_text(st, ref).len > size - sizeof(uint16_t))
		return err_set(err, -EBADMSG, "a text is longer than its cell (%u)", ref);
	if (named->bits[ref / 64] >> ref % 64 & 1)
		return err_set(err, -EBADMSG, "a cell is named twice (%u)", ref);
	named->bits[ref / 64] |= UINT64_C(1) << ref % 64;
	return 0;
}

static int check_slot(const struct store *st, struct named *named, uint32_t number, struct err *err)
{
	const struct shm_slot *s = store_slot(st, number);
	if (atomic_load_explicit(&s->seq, memory_order_relaxed) & 1)
		return err_set(err, -EBADMSG, "slot %u is half written", number);
	if (s->state == SHM_STATE_NONE)
		return 0;
	size_t len = (size_t)s->namespace_len + s->name_len;
	if (s->state >= SHM_STATE_COUNT || s->wait >= SHM_WAIT_COUNT ||
	    s->controller >= SHM_CONTROLLERS_MAX || !store_controller(st, s->controller)->name[0] ||
	    s->namespace_len > NAMESPACE_MAX_LEN || s->name_len > NAME_MAX_LEN || s->name_len == 0)
		return err_set(err, -EBADMSG, "slot %u is damaged", number);
	int rc = 0;
	if (len > SHM_KEY_INLINE) {
		uint32_t ref;
		memcpy(&ref, s->key, sizeof(ref));
		rc = ref ? name_cell(st, named, ref, false, err)
			 : err_set(err, -EBADMSG, "slot %u has no key", number);
		if (rc == 0 && store_text(st, ref).len != len)
			rc = err_set(err, -EBADMSG, "slot %u has a key of another length", number);
	}
	if (rc == 0)
		rc = name_cell(st, named, s->detail, true, err);
	if (rc < 0)
		return rc;
	bool leased = s->state == SHM_STATE_RUNNING || s->state == SHM_STATE_DIRTY;
	const struct shm_detail *d = s->detail ? store_detail(st, s->detail) : NULL;
	if (leased != (d && d->generation != 0))
		return err_set(err, -EBADMSG, "slot %u: its state and its lease contradict", number);
	if (!d)
		return 0;
	if (d->crash_next > SHM_CRASHES_MAX || d->last_outcome >= WIRE_OUTCOME_COUNT ||
	    d->generation >= store_header(st)->next_generation)
		return err_set(err, -EBADMSG, "the detail of slot %u is damaged", number);
	const uint32_t texts[] = {
	    d->objects.first_object,	   d->objects.last_object,	d->reason, d->message,
	    d->lease_objects.first_object, d->lease_objects.last_object};
	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(texts); i++)
		rc = name_cell(st, named, texts[i], false, err);
	return rc;
}

static int recover_directory(struct store *st, struct err *err)
{
	uint64_t most = MIN(st->allocated / SHM_BLOCK, (uint64_t)SHM_BLOCKS_MAX);
	st->blocks = 0;
	st->n_slot_blocks = 0;
	for (; st->blocks < most && directory_of(st)[st->blocks] != SHM_BLOCK_NONE; st->blocks++) {
		uint8_t holds = directory_of(st)[st->blocks];
		if (holds >= SHM_BLOCK_COUNT || (holds == SHM_BLOCK_FIXED) != (st->blocks < 2))
			return err_set(err, -EBADMSG, "block %u holds nothing known (%u)", st->blocks, holds);
		if (holds == SHM_BLOCK_SLOTS)
			slot_block_add(st, st->blocks);
	}
	const struct shm_queue_header *h = store_header(st);
	if (st->blocks < 2 || h->next_generation == 0)
		return err_set(err, -EBADMSG, "its making was never finished");
	uint64_t ring = h->history_entries * sizeof(struct shm_history);
	if (h->history_at != SHM_HISTORY_AT || ring % SHM_BLOCK || ring > st->allocated ||
	    SHM_HISTORY_AT + ring > (uint64_t)st->blocks * SHM_BLOCK)
		return err_set(err, -EBADMSG, "the history ring is outside");
	return 0;
}

static int recover_redo(struct store *st, struct err *err)
{
	struct shm_redo *redo = redo_of(st);
	uint32_t bytes = atomic_load_explicit(&redo->bytes, memory_order_acquire);
	if (bytes == 0)
		return 0;
	uint64_t end = (uint64_t)st->blocks * SHM_BLOCK;
	if (bytes > sizeof(redo->entries) || bytes % 8 ||
	    (uint64_t)redo->slot * SHM_REF_UNIT + sizeof(struct shm_slot) > end)
		return err_set(err, -EBADMSG, "the redo record is damaged");
	for (uint32_t at = 0; at < bytes;) {
		struct redo_entry entry;
		memcpy(&entry, redo->entries + at, sizeof(entry));
		uint64_t next = (uint64_t)at + sizeof(entry) + padded(entry.length);
		if (next > bytes || (uint64_t)entry.offset + entry.length > end ||
		    entry.offset < SHM_HEADER_AT)
			return err_set(err, -EBADMSG, "the redo record is damaged");
		at = (uint32_t)next;
	}
	apply(st);
	return 0;
}

static void recover_history(struct store *st)
{
	struct shm_queue_header *h = (struct shm_queue_header *)(void *)(st->at + SHM_HEADER_AT);
	uint64_t next = atomic_load_explicit(&h->history_next, memory_order_relaxed);
	if (h->history_entries == 0)
		return;
	/* The entry's number is written before the header's. */
	if (next == 0)
		next = 1;
	const struct shm_history *ring = (const struct shm_history *)(const void *)(st->at + h->history_at);
	if (atomic_load_explicit(&ring[(next - 1) % h->history_entries].number, memory_order_relaxed) == next)
		next++;
	atomic_store_explicit(&h->history_next, next, memory_order_relaxed);
}

static void recover_free(struct store *st, const struct named *named)
{
	for (uint32_t i = store_slots(st); i-- > 0;)
		if (store_slot(st, i)->state == SHM_STATE_NONE)
			cells_push(&st->free_slots, i);
	for (uint32_t block = st->blocks; block-- > 2;) {
		uint8_t holds = directory_of(st)[block];
		uint32_t size = holds == SHM_BLOCK_DETAILS ? SHM_DETAIL_SIZE : shm_text_size(holds);
		struct store_cells *cells =
		    holds == SHM_BLOCK_DETAILS ? &st->free_details : &st->free_texts[holds];
		for (uint32_t i = size ? SHM_BLOCK / size : 0; i-- > 0;) {
			uint32_t ref =
			    (uint32_t)(((uint64_t)block * SHM_BLOCK + (uint64_t)i * size) / SHM_REF_UNIT);
			if (!(named->bits[ref / 64] >> ref % 64 & 1))
				cells_push(cells, ref);
		}
	}
}

int store_recover(struct store *st, struct err *err)
{
	int rc = recover_directory(st, err);
	if (rc == 0)
		rc = recover_redo(st, err);
	if (rc < 0)
		return rc;
	recover_history(st);
	struct named named = {
	    xcalloc((uint64_t)st->blocks * SHM_BLOCK / SHM_REF_UNIT / 64 + 1, sizeof(uint64_t))};
	for (uint32_t i = 0; rc == 0 && i < store_slots(st); i++)
		rc = check_slot(st, &named, i, err);
	if (rc == 0)
		recover_free(st, &named);
	free(named.bits);
	return rc;
}

void store_done(struct store *st)
{
	free(st->slot_blocks);
	free(st->free_slots.at);
	free(st->free_details.at);
	for (size_t i = 0; i < SHM_BLOCK_COUNT; i++)
		free(st->free_texts[i].at);
	*st = (struct store){0};
}
