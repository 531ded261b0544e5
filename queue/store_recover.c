/* A region that an earlier process left: finish what was interrupted, look at every slot, find what is free. Nothing in it is
 * believed: a reference may lead anywhere. */
#include "store.h"
#include <unistd.h>

static const uint8_t *directory_at(const struct store *st)
{
	return (const uint8_t *)st->at + SHM_DIRECTORY_AT;
}

static uint8_t kind_of(const struct store *st, uint32_t block)
{
	return shm_block_kind(directory_at(st)[block]);
}

/* Which cells are named by a slot: a bit for each 16 bytes of the region, and one for each namespace. */
struct named {
	uint64_t *cells, *namespaces;
};

enum cell { CELL_TEXT, CELL_DETAIL, CELL_RECORD };

static int name_cell(const struct store *st, struct named *named, uint32_t ref, enum cell kind,
		     struct err *err)
{
	if (!ref)
		return 0;
	uint64_t at = (uint64_t)ref * SHM_REF_UNIT;
	if (at / SHM_BLOCK >= st->blocks)
		return err_set(err, -EBADMSG, "a reference leads outside (%u)", ref);
	uint8_t holds = kind_of(st, (uint32_t)(at / SHM_BLOCK));
	bool right = kind == CELL_DETAIL   ? holds == SHM_BLOCK_DETAILS
		     : kind == CELL_RECORD ? holds == SHM_BLOCK_RECORDS
					   : shm_text_size(holds) != 0;
	uint32_t size = right ? store_cell_size(holds) : 0;
	if (size == 0 || at % SHM_BLOCK % size || at % SHM_BLOCK + size > SHM_BLOCK)
		return err_set(err, -EBADMSG, "a reference names no cell (%u)", ref);
	if (kind == CELL_TEXT && store_text(st, ref).len > size - sizeof(uint16_t))
		return err_set(err, -EBADMSG, "a text is longer than its cell (%u)", ref);
	if (named->cells[ref / 64] >> ref % 64 & 1)
		return err_set(err, -EBADMSG, "a cell is named twice (%u)", ref);
	named->cells[ref / 64] |= UINT64_C(1) << ref % 64;
	return 0;
}

static int name_texts(const struct store *st, struct named *named, const uint32_t *refs, size_t n,
		      struct err *err)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = name_cell(st, named, refs[i], CELL_TEXT, err);
	return rc;
}

static int check_namespace(const struct store *st, struct named *named, uint32_t slot, uint32_t number,
			   struct err *err)
{
	if (number >= store_namespaces(st) || store_namespace(st, number).len > NAMESPACE_MAX_LEN)
		return err_set(err, -EBADMSG, "slot %u has no namespace", slot);
	named->namespaces[number / 64] |= UINT64_C(1) << number % 64;
	return 0;
}

static int check_name(const struct store *st, struct named *named, uint32_t slot, const struct shm_slot *s,
		      struct err *err)
{
	uint32_t ref;
	memcpy(&ref, s->name, sizeof(ref));
	int rc = ref ? name_cell(st, named, ref, CELL_TEXT, err)
		     : err_set(err, -EBADMSG, "slot %u has no name", slot);
	if (rc == 0 && store_text(st, ref).len != s->name_len)
		rc = err_set(err, -EBADMSG, "slot %u has a name of another length", slot);
	return rc;
}

static int check_detail(const struct store *st, struct named *named, uint32_t slot, const struct shm_slot *s,
			struct err *err)
{
	int rc = s->detail ? name_cell(st, named, s->detail, CELL_DETAIL, err) : 0;
	if (rc < 0)
		return rc;
	bool leased = SHM_LEASED(s->state);
	const struct shm_detail *d = s->detail ? store_detail(st, s->detail) : NULL;
	if (leased != (d && d->generation != 0))
		return err_set(err, -EBADMSG, "slot %u: its state and its lease contradict", slot);
	if (!d && SHM_SETTLES(s->state))
		return err_set(err, -EBADMSG, "slot %u is held without a detail", slot);
	if (!d)
		return 0;
	if (d->generation >= store_header(st)->next_generation)
		return err_set(err, -EBADMSG, "the detail of slot %u is damaged", slot);
	const uint32_t texts[] = {d->objects.first_object, d->objects.last_object,
				  d->lease_objects.first_object, d->lease_objects.last_object, d->events};
	return name_texts(st, named, texts, ARRAY_SIZE(texts), err);
}

static int check_record(const struct store *st, struct named *named, uint32_t slot, uint32_t ref,
			struct err *err)
{
	int rc = name_cell(st, named, ref, CELL_RECORD, err);
	if (rc < 0)
		return rc;
	const struct shm_record *r = store_record(st, ref);
	if (r->crash_next > SHM_CRASHES_MAX || r->last_outcome >= WIRE_OUTCOME_COUNT)
		return err_set(err, -EBADMSG, "the record of slot %u is damaged", slot);
	const uint32_t texts[] = {r->reason, r->message};
	return name_texts(st, named, texts, ARRAY_SIZE(texts), err);
}

const struct shm_slot *store_read_slots(const struct store *st, uint32_t slot, uint32_t n,
					struct shm_slot *room)
{
	const struct shm_slot *at = store_slot(st, slot);
	size_t bytes = n * sizeof(*room);
	return st->fd && pread(st->fd, room, bytes, (const char *)at - st->at) == (ssize_t)bytes ? room : at;
}

static int check_slot(struct store *st, struct named *named, uint32_t number, const struct shm_slot *s,
		      struct err *err)
{
	uint32_t seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
	if (s->state == SHM_STATE_NONE) {
		/* Odd: a key was about to be put here. */
		if (seq & 1)
			atomic_store_explicit(&store_slot_at(st, number)->seq, seq + 1, memory_order_relaxed);
		free_set_put(&st->free_slots, number);
		return 0;
	}
	if (seq & 1)
		return err_set(err, -EBADMSG, "slot %u is half written", number);
	if (s->state >= SHM_STATE_COUNT || s->wait >= SHM_WAIT_COUNT ||
	    s->controller >= SHM_CONTROLLERS_MAX || !store_controller(st, s->controller)->name[0] ||
	    s->name_len > NAME_MAX_LEN || s->name_len == 0)
		return err_set(err, -EBADMSG, "slot %u is damaged", number);
	int rc = check_namespace(st, named, number, s->namespace_number, err);
	if (rc == 0 && s->name_len > SHM_NAME_INLINE)
		rc = check_name(st, named, number, s, err);
	if (rc == 0)
		rc = check_detail(st, named, number, s, err);
	if (rc == 0 && s->record)
		rc = check_record(st, named, number, s->record, err);
	return rc;
}

static int recover_directory(struct store *st, struct err *err)
{
	uint64_t most = MIN(st->allocated / SHM_BLOCK, (uint64_t)SHM_BLOCKS_MAX);
	for (st->blocks = 0; st->blocks < most && kind_of(st, st->blocks) != SHM_BLOCK_NONE; st->blocks++) {
		uint8_t holds = kind_of(st, st->blocks);
		if (holds >= SHM_BLOCK_COUNT || (holds == SHM_BLOCK_FIXED) != (st->blocks < 2))
			return err_set(err, -EBADMSG,
				       "the directory is damaged: block %u holds nothing known (0x%02x)",
				       st->blocks, directory_at(st)[st->blocks]);
		if (holds == SHM_BLOCK_SLOTS)
			store_blocks_add(&st->slots, st->blocks);
		if (holds == SHM_BLOCK_NAMESPACES)
			store_blocks_add(&st->namespaces, st->blocks);
	}
	const struct shm_queue_header *h = store_header(st);
	if (st->blocks < 2 || h->next_generation == 0)
		return err_set(err, -EBADMSG, "its making was never finished");
	uint64_t ring = h->history_entries * sizeof(struct shm_history);
	if (h->history_at != SHM_HISTORY_AT || ring % SHM_BLOCK || ring > st->allocated ||
	    SHM_HISTORY_AT + ring > (uint64_t)st->blocks * SHM_BLOCK)
		return err_set(err, -EBADMSG, "the history ring is outside");
	for (uint32_t i = st->blocks; i < SHM_BLOCKS_MAX; i++) /* none is behind the first that is free */
		if (directory_at(st)[i])
			return err_set(
			    err, -EBADMSG,
			    "the directory is damaged: block %u holds 0x%02x, one before it is free", i,
			    directory_at(st)[i]);
	if (h->constants_check != shm_constants_check(h))
		return err_set(err, -EBADMSG, "the header of the queue is damaged");
	return 0;
}

/* Is what stands behind the entries what they should have? */
static bool redo_is_whole(const struct shm_redo *redo, uint32_t bytes)
{
	uint64_t check;
	if (bytes + sizeof(check) > sizeof(redo->entries))
		return false;
	memcpy(&check, redo->entries + bytes, sizeof(check));
	return check == shm_redo_check(redo, bytes);
}

/* A short record has no check: it belongs to keys that are well, and to every one of them. What it may change is its own slot, then the
 * number of the next lease and counters of the slot's controller, so that wrong bits in it reach no other key. */
static bool short_may_change(const struct store *st, const struct shm_redo *redo, uint32_t at,
			     struct store_redo_entry entry)
{
	uint64_t place = (uint64_t)redo->slot * SHM_REF_UNIT;
	const struct shm_slot *slot = (const struct shm_slot *)(const void *)(st->at + place);
	if (at == 0)
		return kind_of(st, (uint32_t)(place / SHM_BLOCK)) == SHM_BLOCK_SLOTS &&
		       place % sizeof(*slot) == 0 &&
		       entry.offset == place + offsetof(struct shm_slot, word) &&
		       entry.length <=
			   offsetof(struct shm_slot, controller) - offsetof(struct shm_slot, word);
	if (entry.offset == SHM_HEADER_AT + offsetof(struct shm_queue_header, next_generation))
		return entry.length == 2 * sizeof(uint64_t);
	uint64_t counters = STORE_ROW_BYTE(slot->controller, counters);
	return entry.offset >= counters &&
	       entry.offset + entry.length <= counters + sizeof(struct shm_controller_counters);
}

static int recover_redo(struct store *st, struct err *err)
{
	struct shm_redo *redo = (struct shm_redo *)(void *)(st->at + SHM_REDO_AT);
	uint32_t mark = atomic_load_explicit(&redo->bytes, memory_order_acquire);
	uint32_t bytes = mark & 0xffff & ~SHM_REDO_CHECKED;
	if (mark == 0)
		return 0;
	uint64_t end = (uint64_t)st->blocks * SHM_BLOCK;
	if (mark != shm_redo_mark(mark & 0xffff) || bytes > sizeof(redo->entries) || bytes % 8 ||
	    ((mark & SHM_REDO_CHECKED) && !redo_is_whole(redo, bytes)) ||
	    (uint64_t)redo->slot * SHM_REF_UNIT + sizeof(struct shm_slot) > end)
		return err_set(err, -EBADMSG, "the redo record is damaged");
	for (uint32_t at = 0; at < bytes;) {
		struct store_redo_entry entry;
		memcpy(&entry, redo->entries + at, sizeof(entry));
		uint64_t next = (uint64_t)at + sizeof(entry) + entry.length;
		if (next > bytes || entry.length % 8 || (uint64_t)entry.offset + entry.length > end ||
		    entry.offset < SHM_HEADER_AT ||
		    (!(mark & SHM_REDO_CHECKED) && !short_may_change(st, redo, at, entry)))
			return err_set(err, -EBADMSG, "the redo record is damaged");
		at = (uint32_t)next;
	}
	store_apply(st);
	return 0;
}

static void recover_free(struct store *st, const struct named *named)
{
	for (uint32_t i = 0; i < store_namespaces(st); i++)
		if (!(named->namespaces[i / 64] >> i % 64 & 1))
			free_set_put(&st->free_namespaces, i);
	for (uint32_t block = st->blocks; block-- > 2;) {
		uint8_t holds = kind_of(st, block);
		uint32_t size = store_cell_size(holds);
		for (uint32_t i = size ? SHM_BLOCK / size : 0; i-- > 0;) {
			uint32_t ref =
			    (uint32_t)(((uint64_t)block * SHM_BLOCK + (uint64_t)i * size) / SHM_REF_UNIT);
			if (!(named->cells[ref / 64] >> ref % 64 & 1))
				store_cells_push(store_cells_of(st, holds), ref);
		}
	}
}

static int check_controllers(const struct store *st, struct err *err)
{
	for (uint32_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		const struct shm_controller *c = store_controller(st, i);
		if (c->name[0] && (c->name[sizeof(c->name) - 1] || c->digest[sizeof(c->digest) - 1] ||
				   c->pause_message[sizeof(c->pause_message) - 1] ||
				   c->pause >= SHM_PAUSE_COUNT || c->crashed_count > SHM_CRASHED_KEYS))
			return err_set(err, -EBADMSG, "the row of controller %u is damaged", i);
	}
	return 0;
}

int store_recover(struct store *st, struct err *err)
{
	int rc = recover_directory(st, err);
	if (rc == 0)
		rc = recover_redo(st, err);
	if (rc == 0)
		rc = check_controllers(st, err);
	if (rc == 0 && store_header(st)->next_generation != ~store_header(st)->generation_check)
		rc = err_set(err, -EBADMSG, "the number of the next lease is damaged");
	if (rc < 0)
		return rc;
	store_history_find(st);
	return 0;
}

int store_check(struct store *st,
		int (*each)(void *ctx, uint32_t slot, const struct shm_slot *s, struct err *err), void *ctx,
		struct err *err)
{
	struct named named = {
	    xcalloc((uint64_t)st->blocks * SHM_BLOCK / SHM_REF_UNIT / 64 + 1, sizeof(uint64_t)),
	    xcalloc(store_namespaces(st) / 64 + 1, sizeof(uint64_t))};
	free_set_grow(&st->free_slots, store_slots(st));
	free_set_grow(&st->free_namespaces, store_namespaces(st));
	struct shm_slot *room = xmalloc(SHM_BLOCK);
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < st->slots.len; i++) {
		const struct shm_slot *slots =
		    store_read_slots(st, i * SHM_SLOTS_PER_BLOCK, SHM_SLOTS_PER_BLOCK, room);
		for (uint32_t k = 0; rc == 0 && k < SHM_SLOTS_PER_BLOCK; k++) {
			rc = check_slot(st, &named, i * SHM_SLOTS_PER_BLOCK + k, &slots[k], err);
			if (rc == 0 && slots[k].state != SHM_STATE_NONE)
				rc = each(ctx, i * SHM_SLOTS_PER_BLOCK + k, &slots[k], err);
		}
	}
	if (rc == 0)
		recover_free(st, &named);
	free(room);
	free(named.cells);
	free(named.namespaces);
	return rc;
}
