#include "queue_read.h"
#include <stdio.h>

enum { TRIES = 1000 };

/* ---- what writer and readers agree on ---- */

#define NAME_OF(function, list)                                                                              \
	const char *function(uint32_t v)                                                                     \
	{                                                                                                    \
		static const char *const names[] = {list(NAME_TEXT)};                                        \
		return v < ARRAY_SIZE(names) ? names[v] : "?";                                               \
	}
#define NAME_TEXT(NAME, text) text,
NAME_OF(shm_state_name, SHM_STATES)
NAME_OF(shm_wait_name, SHM_WAITS)
NAME_OF(shm_pause_name, SHM_PAUSES)
NAME_OF(shm_result_name, SHM_RESULTS)
NAME_OF(shm_happened_name, SHM_HAPPENED)

uint32_t shm_text_size(uint8_t block)
{
	static const uint32_t sizes[SHM_BLOCK_COUNT] = {
#define X(size) [SHM_BLOCK_TEXT_##size] = size,
	    SHM_TEXT_CLASSES(X)
#undef X
	};
	return block < SHM_BLOCK_COUNT ? sizes[block] : 0;
}

uint64_t shm_constants_check(const struct shm_queue_header *h)
{
	const size_t from = offsetof(struct shm_queue_header, hash_seed),
		     to = offsetof(struct shm_queue_header, constants_check);
	return shm_hash(0, (struct span){(const char *)h + from, to - from});
}

uint64_t shm_redo_check(const struct shm_redo *r, uint32_t bytes)
{
	return shm_hash(r->slot, (struct span){(const char *)r->entries, bytes});
}

uint64_t shm_queue_layout_hash(void)
{
#define AT(type, field) offsetof(struct type, field), sizeof(((struct type *)0)->field)
	static const uint64_t shape[] = {
	    SHM_BLOCK,
	    SHM_BLOCKS_MAX,
	    SHM_CONTROLLERS_MAX,
	    SHM_REDO_BYTES,
	    SHM_STATE_COUNT,
	    SHM_WAIT_COUNT,
	    SHM_PAUSE_COUNT,
	    SHM_RESULT_COUNT,
	    SHM_BLOCK_COUNT,
	    SHM_HAPPENED_COUNT,
	    WIRE_CAUSE_COUNT,
	    WIRE_OUTCOME_COUNT,
	    sizeof(struct region_header),
	    sizeof(struct shm_slot),
	    sizeof(struct shm_namespace),
	    SHM_DETAIL_SIZE,
	    sizeof(struct shm_detail),
	    SHM_RECORD_SIZE,
	    sizeof(struct shm_record),
	    sizeof(struct shm_controller),
	    sizeof(struct shm_history),
	    sizeof(struct shm_queue_header),
	    sizeof(struct shm_redo),
	    AT(shm_slot, seq),
	    AT(shm_slot, namespace_number),
	    AT(shm_slot, word),
	    AT(shm_slot, count),
	    AT(shm_slot, causes),
	    AT(shm_slot, ends),
	    AT(shm_slot, flags),
	    AT(shm_slot, uncounted),
	    AT(shm_slot, state),
	    AT(shm_slot, wait),
	    AT(shm_slot, ready_at),
	    AT(shm_slot, priority),
	    AT(shm_slot, added),
	    AT(shm_slot, detail),
	    AT(shm_slot, record),
	    AT(shm_slot, controller),
	    AT(shm_slot, name_len),
	    AT(shm_slot, name),
	    AT(shm_namespace, len),
	    AT(shm_namespace, text),
	    AT(shm_detail, objects),
	    AT(shm_detail, generation),
	    AT(shm_detail, granted_at),
	    AT(shm_detail, deadline),
	    AT(shm_detail, lease_end),
	    AT(shm_detail, events),
	    AT(shm_detail, timer),
	    sizeof(struct shm_event),
	    AT(shm_detail, host_pid),
	    AT(shm_detail, jail_pid),
	    AT(shm_detail, host_start),
	    AT(shm_detail, jail_start),
	    AT(shm_detail, lease_objects),
	    AT(shm_detail, lease_priority),
	    AT(shm_detail, lease_added),
	    AT(shm_detail, key_hash),
	    AT(shm_detail, lease_count),
	    AT(shm_detail, lease_causes),
	    AT(shm_detail, lease_ends),
	    AT(shm_detail, lease_flags),
	    AT(shm_record, reason),
	    AT(shm_record, message),
	    AT(shm_record, attempt),
	    AT(shm_record, step),
	    AT(shm_record, conflicts),
	    AT(shm_record, duration_us),
	    AT(shm_record, backoff_until),
	    AT(shm_record, last_at),
	    AT(shm_record, quarantined_at),
	    AT(shm_record, outcomes),
	    AT(shm_record, crashes),
	    AT(shm_record, crash_next),
	    AT(shm_record, crash_count),
	    AT(shm_record, last_outcome),
	    AT(shm_record, attempted),
	    AT(shm_controller, name),
	    AT(shm_controller, digest),
	    AT(shm_controller, swept),
	    AT(shm_controller, pause),
	    AT(shm_controller, pause_since),
	    AT(shm_controller, pause_until),
	    AT(shm_controller, pause_delay),
	    AT(shm_controller, bucket),
	    AT(shm_controller, counters),
	    AT(shm_controller, crashed),
	    AT(shm_controller, crashed_count),
	    AT(shm_controller, pause_message),
	    AT(shm_controller, held_since),
	    AT(shm_controller, scale),
	    AT(shm_history, number),
	    AT(shm_history, happened),
	    AT(shm_history, controller),
	    AT(shm_history, from),
	    AT(shm_history, to),
	    AT(shm_history, outcome),
	    AT(shm_history, wait),
	    AT(shm_history, texts),
	    AT(shm_history, ends),
	    AT(shm_history, at),
	    AT(shm_history, key_hash),
	    AT(shm_history, generation),
	    AT(shm_history, delay),
	    AT(shm_history, attempt),
	    AT(shm_history, priority),
	    AT(shm_history, duration_us),
	    AT(shm_history, count),
	    AT(shm_history, causes),
	    AT(shm_history, pid),
	    AT(shm_history_text, len),
	    AT(shm_history_text, text),
	    AT(shm_queue_header, next_generation),
	    AT(shm_queue_header, generation_check),
	    AT(shm_queue_header, constants_check),
	    AT(shm_queue_header, hash_seed),
	    AT(shm_queue_header, history_at),
	    AT(shm_queue_header, history_entries),
	    AT(shm_redo, bytes),
	    AT(shm_redo, entries),
	};
#undef AT
	return hash_bytes(shape, sizeof(shape), HASH_SEED);
}

struct region_spec shm_queue_spec(void)
{
	return (struct region_spec){
	    .magic = SHM_QUEUE_MAGIC,
	    .layout_version = SHM_QUEUE_VERSION,
	    .layout_hash = shm_queue_layout_hash(),
	    .mode = 0600,
	};
}

/* ---- the reader ---- */

struct blocks { /* which ones are of a kind, in order */
	uint32_t *at, len;
};

struct queue_reader {
	struct region region;
	struct blocks slots, namespaces;
	uint32_t n_blocks; /* of the directory that were looked at */
};

static void blocks_add(struct blocks *b, uint32_t block)
{
	b->at = xrealloc(b->at, (b->len + 1) * sizeof(*b->at));
	b->at[b->len++] = block;
}

/* The directory only grows, so what was read stays true. */
static int look_at_directory(struct queue_reader *q)
{
	uint64_t allocated =
	    atomic_load_explicit(&region_header(&q->region)->allocated, memory_order_acquire);
	if (allocated > q->region.mapped) {
		int rc = region_remap(&q->region);
		if (rc < 0)
			return rc;
	}
	uint32_t blocks = (uint32_t)MIN(q->region.mapped / SHM_BLOCK, (uint64_t)SHM_BLOCKS_MAX);
	const uint8_t *directory = (const uint8_t *)q->region.at + SHM_DIRECTORY_AT;
	for (; q->n_blocks < blocks; q->n_blocks++) {
		uint8_t holds = shm_block_kind(__atomic_load_n(&directory[q->n_blocks], __ATOMIC_ACQUIRE));
		if (holds == SHM_BLOCK_NONE)
			break;
		if (holds == SHM_BLOCK_SLOTS)
			blocks_add(&q->slots, q->n_blocks);
		if (holds == SHM_BLOCK_NAMESPACES)
			blocks_add(&q->namespaces, q->n_blocks);
	}
	return 0;
}

int queue_open(const char *region_dir, struct queue_reader **ret, struct err *err)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", region_dir, SHM_QUEUE_FILE);
	struct region_spec spec = shm_queue_spec();
	struct region region;
	int rc = region_read(path, &spec, &region, err);
	if (rc < 0)
		return rc;
	struct queue_reader *q = xcalloc(1, sizeof(*q));
	q->region = region;
	if (q->region.mapped < SHM_HISTORY_AT)
		rc = err_set(err, -EPROTO, "%s is too short", path);
	else if ((rc = look_at_directory(q)) < 0)
		err_set(err, rc, "cannot map %s: %s", path, strerror(-rc));
	if (rc < 0) {
		queue_close(q);
		return rc;
	}
	*ret = q;
	return 0;
}

void queue_close(struct queue_reader *q)
{
	if (!q)
		return;
	region_done(&q->region);
	free(q->slots.at);
	free(q->namespaces.at);
	free(q);
}

bool queue_has_writer(const struct queue_reader *q)
{
	return region_has_writer(&q->region);
}

uint64_t queue_incarnation(const struct queue_reader *q)
{
	return atomic_load_explicit(&region_header(&q->region)->incarnation, memory_order_relaxed);
}

/* Copies a text into a terminated buffer. -EPROTO when the reference names no text; that also happens when
 * the slot changes meanwhile. */
static int copy_text(struct queue_reader *q, uint32_t ref, char *out, size_t room, size_t *ret_len)
{
	*ret_len = 0;
	out[0] = '\0';
	if (ref == 0)
		return 0;
	uint64_t at = (uint64_t)ref * SHM_REF_UNIT;
	if (at / SHM_BLOCK >= q->region.mapped / SHM_BLOCK && region_remap(&q->region) < 0)
		return -EPROTO;
	if (at / SHM_BLOCK >= MIN(q->region.mapped / SHM_BLOCK, (uint64_t)SHM_BLOCKS_MAX))
		return -EPROTO;
	const uint8_t *directory = (const uint8_t *)q->region.at + SHM_DIRECTORY_AT;
	uint32_t size =
	    shm_text_size(shm_block_kind(__atomic_load_n(&directory[at / SHM_BLOCK], __ATOMIC_ACQUIRE)));
	if (size == 0 || at % SHM_BLOCK % size != 0 || at % SHM_BLOCK + size > SHM_BLOCK)
		return -EPROTO;
	uint16_t len;
	memcpy(&len, q->region.at + at, sizeof(len));
	if (len > size - sizeof(len) || len >= room)
		return -EPROTO;
	memcpy(out, q->region.at + at + sizeof(len), len);
	out[len] = '\0';
	*ret_len = len;
	return 0;
}

static int copy_cause(struct queue_reader *q, uint8_t event, uint32_t ref, struct queue_cause *ret)
{
	char text[sizeof(ret->kind) + sizeof(ret->namespace) + sizeof(ret->name)];
	size_t len;
	*ret = (struct queue_cause){.event = event};
	int rc = copy_text(q, ref, text, sizeof(text), &len);
	if (rc < 0 || len == 0)
		return rc;
	struct {
		char *to;
		size_t room;
	} parts[] = {{ret->kind, sizeof(ret->kind)},
		     {ret->namespace, sizeof(ret->namespace)},
		     {ret->name, sizeof(ret->name)}};
	const char *p = text, *end = text + len;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		size_t n = strnlen(p, (size_t)(end - p));
		if (n >= parts[i].room || (i < 2 && p + n == end))
			return -EPROTO;
		memcpy(parts[i].to, p, n);
		parts[i].to[n] = '\0';
		p += n + (i < 2);
	}
	return 0;
}

static int copy_namespace(struct queue_reader *q, uint32_t number, char out[NAMESPACE_MAX_LEN + 1])
{
	if (number / SHM_NAMESPACES_PER_BLOCK >= q->namespaces.len && look_at_directory(q) < 0)
		return -EPROTO;
	if (number / SHM_NAMESPACES_PER_BLOCK >= q->namespaces.len)
		return -EPROTO;
	struct shm_namespace cell;
	memcpy(&cell,
	       q->region.at + (uint64_t)q->namespaces.at[number / SHM_NAMESPACES_PER_BLOCK] * SHM_BLOCK +
		   number % SHM_NAMESPACES_PER_BLOCK * sizeof(cell),
	       sizeof(cell));
	if (cell.len > NAMESPACE_MAX_LEN)
		return -EPROTO;
	memcpy(out, cell.text, cell.len);
	out[cell.len] = '\0';
	return 0;
}

static int copy_key(struct queue_reader *q, const struct shm_slot *s, struct queue_key *ret)
{
	if (s->name_len > NAME_MAX_LEN)
		return -EPROTO;
	if (s->name_len <= SHM_NAME_INLINE) {
		memcpy(ret->name, s->name, s->name_len);
		ret->name[s->name_len] = '\0';
	} else {
		uint32_t ref;
		size_t len;
		memcpy(&ref, s->name, sizeof(ref));
		int rc = copy_text(q, ref, ret->name, sizeof(ret->name), &len);
		if (rc < 0)
			return rc;
		if (len != s->name_len)
			return -EPROTO;
	}
	return copy_namespace(q, s->namespace_number, ret->namespace);
}

/* The bytes of a cell of this kind. */
static int copy_cell(struct queue_reader *q, uint32_t ref, enum shm_block kind, size_t cell, void *out,
		     size_t n)
{
	uint64_t at = (uint64_t)ref * SHM_REF_UNIT;
	if (at + cell > q->region.mapped && (region_remap(&q->region) < 0 || at + cell > q->region.mapped))
		return -EPROTO;
	const uint8_t *directory = (const uint8_t *)q->region.at + SHM_DIRECTORY_AT;
	if (at / SHM_BLOCK >= SHM_BLOCKS_MAX || at % SHM_BLOCK % cell || at % SHM_BLOCK + cell > SHM_BLOCK ||
	    shm_block_kind(__atomic_load_n(&directory[at / SHM_BLOCK], __ATOMIC_ACQUIRE)) != kind)
		return -EPROTO;
	memcpy(out, q->region.at + at, n);
	return 0;
}

static int copy_detail(struct queue_reader *q, const struct shm_slot *s, struct queue_key *ret)
{
	int rc =
	    copy_cell(q, s->detail, SHM_BLOCK_DETAILS, SHM_DETAIL_SIZE, &ret->detail, sizeof(ret->detail));
	const struct shm_detail *d = &ret->detail;
	if (rc == 0)
		rc = copy_cause(q, s->ends & 15, d->objects.first_object, &ret->first);
	if (rc == 0)
		rc = copy_cause(q, s->ends >> 4, d->objects.last_object, &ret->last);
	if (rc == 0)
		rc = copy_cause(q, d->lease_ends & 15, d->lease_objects.first_object, &ret->lease_first);
	if (rc == 0)
		rc = copy_cause(q, d->lease_ends >> 4, d->lease_objects.last_object, &ret->lease_last);
	return rc;
}

static int copy_record(struct queue_reader *q, uint32_t ref, struct queue_key *ret)
{
	size_t len;
	int rc = copy_cell(q, ref, SHM_BLOCK_RECORDS, SHM_RECORD_SIZE, &ret->record, sizeof(ret->record));
	if (rc == 0)
		rc = copy_text(q, ret->record.reason, ret->reason, sizeof(ret->reason), &len);
	if (rc == 0)
		rc = copy_text(q, ret->record.message, ret->message, sizeof(ret->message), &len);
	return rc;
}

static int copy_slot(struct queue_reader *q, const struct shm_slot *s, struct queue_key *ret)
{
	if (s->state >= SHM_STATE_COUNT || s->wait >= SHM_WAIT_COUNT || s->controller >= SHM_CONTROLLERS_MAX)
		return -EPROTO;
	ret->state = s->state;
	ret->wait = s->wait;
	ret->pending = s->state != SHM_STATE_RUNNING && s->state != SHM_STATE_SETTLING;
	ret->ready_at = s->ready_at;
	ret->added_at = s->added * SHM_ADDED_UNIT;
	ret->priority = s->priority;
	ret->count = s->count;
	ret->causes = s->causes;
	ret->uncounted_adds = (s->flags & SHM_SLOT_ADDED) != 0;
	ret->uncounted_merges = s->uncounted;
	ret->first.event = s->ends & 15;
	ret->last.event = s->ends >> 4;
	const struct shm_controller *c =
	    (const void *)(q->region.at + SHM_CONTROLLERS_AT + s->controller * SHM_CONTROLLER_SIZE);
	memcpy(ret->controller, c->name, sizeof(ret->controller));
	ret->controller[sizeof(ret->controller) - 1] = '\0';
	int rc = copy_key(q, s, ret);
	if (rc == 0 && s->detail)
		rc = copy_detail(q, s, ret);
	if (rc == 0 && s->record)
		rc = copy_record(q, s->record, ret);
	return rc;
}

/* 1: a key, 0: a free slot, -EAGAIN, -EPROTO. */
static int read_slot(struct queue_reader *q, uint32_t number, struct queue_key *ret)
{
	uint64_t at = (uint64_t)q->slots.at[number / SHM_SLOTS_PER_BLOCK] * SHM_BLOCK +
		      number % SHM_SLOTS_PER_BLOCK * sizeof(struct shm_slot);
	int rc = -EAGAIN;
	for (int i = 0; i < TRIES; i++) {
		const struct shm_slot *s = (const void *)(q->region.at + at);
		uint32_t before = atomic_load_explicit(&s->seq, memory_order_acquire);
		if (before & 1) {
			rc = -EAGAIN;
			continue;
		}
		struct shm_slot copy;
		memcpy(&copy, s, sizeof(copy));
		/* A merge stores it without raising seq. */
		uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);
		memcpy(&copy.pending, &word, sizeof(word));
		memset(ret, 0, sizeof(*ret));
		rc = copy.state == SHM_STATE_NONE ? 0 : copy_slot(q, &copy, ret);
		atomic_thread_fence(memory_order_acquire);
		s = (const void *)(q->region.at + at); /* a new mapping may have moved it */
		if (atomic_load_explicit(&s->seq, memory_order_relaxed) != before) {
			rc = -EAGAIN;
			continue;
		}
		ret->slot = number;
		return rc < 0 ? rc : copy.state != SHM_STATE_NONE;
	}
	return rc;
}

int queue_next(struct queue_reader *q, uint32_t *cursor, struct queue_key *ret)
{
	for (;;) {
		if (*cursor / SHM_SLOTS_PER_BLOCK >= q->slots.len) {
			int rc = look_at_directory(q);
			if (rc < 0)
				return rc;
			if (*cursor / SHM_SLOTS_PER_BLOCK >= q->slots.len)
				return 0;
		}
		int rc = read_slot(q, (*cursor)++, ret);
		if (rc != 0)
			return rc;
	}
}

int queue_find(struct queue_reader *q, struct span controller, struct span namespace, struct span name,
	       struct queue_key *ret)
{
	uint32_t cursor = 0;
	int rc, seen = -ENOENT;
	while ((rc = queue_next(q, &cursor, ret)) != 0) {
		if (rc < 0)
			seen = rc;
		else if (span_is(controller, ret->controller) && span_is(namespace, ret->namespace) &&
			 span_is(name, ret->name))
			return 0;
	}
	return seen;
}

int queue_is_leased(struct queue_reader *q)
{
	int rc = look_at_directory(q);
	for (uint32_t b = 0; rc == 0 && b < q->slots.len; b++) {
		const struct shm_slot *slots =
		    (const void *)(q->region.at + (uint64_t)q->slots.at[b] * SHM_BLOCK);
		for (uint32_t i = 0; rc == 0 && i < SHM_SLOTS_PER_BLOCK; i++) {
			uint8_t state = __atomic_load_n(&slots[i].state, __ATOMIC_ACQUIRE);
			rc = state == SHM_STATE_RUNNING || state == SHM_STATE_DIRTY ||
			     state == SHM_STATE_TIMED;
		}
	}
	return rc;
}

bool queue_controller(struct queue_reader *q, uint32_t index, struct shm_controller *ret)
{
	if (index >= SHM_CONTROLLERS_MAX)
		return false;
	memcpy(ret, q->region.at + SHM_CONTROLLERS_AT + index * SHM_CONTROLLER_SIZE, sizeof(*ret));
	ret->name[sizeof(ret->name) - 1] = '\0';
	ret->digest[sizeof(ret->digest) - 1] = '\0';
	ret->pause_message[sizeof(ret->pause_message) - 1] = '\0';
	return ret->name[0] != '\0';
}

/* One entry of the ring, whole; false: it was overtaken by the writer. */
static bool copy_entry(const struct shm_history *from, uint64_t number, void *ret)
{
	if (atomic_load_explicit(&from->number, memory_order_acquire) != number)
		return false;
	memcpy(ret, from, sizeof(*from));
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&from->number, memory_order_relaxed) == number;
}

int queue_history(struct queue_reader *q, struct span controller, struct span namespace, struct span name,
		  int (*on_entry)(void *ctx, const struct queue_happened *entry), void *ctx)
{
	struct shm_queue_header *h = (void *)(q->region.at + SHM_HEADER_AT);
	uint64_t at = h->history_at, entries = h->history_entries;
	if (entries == 0)
		return 0;
	if (at % SHM_BLOCK || at > q->region.mapped ||
	    entries > (q->region.mapped - at) / sizeof(struct shm_history))
		return -EPROTO;
	const struct shm_history *ring = (const void *)(q->region.at + at);
	uint64_t hash = shm_key_hash(h->hash_seed, controller, namespace, name);
	uint64_t next = atomic_load_explicit(&h->history_next, memory_order_acquire);
	for (uint64_t number = next > entries ? next - entries : 1; number < next; number++) {
		struct queue_happened e = {0};
		if (!copy_entry(&ring[(number - 1) % entries], number, &e.entry) ||
		    e.entry.happened == SHM_HAPPENED_TEXT || (name.len && e.entry.key_hash != hash))
			continue;
		size_t len = 0;
		for (uint64_t i = 1; i <= MIN(e.entry.texts, SHM_HISTORY_TEXTS_MAX); i++) {
			struct shm_history_text part;
			if (!copy_entry(&ring[(number - 1 + i) % entries], number + i, &part) ||
			    part.happened != SHM_HAPPENED_TEXT || part.len > sizeof(part.text))
				break;
			memcpy(e.text + len, part.text, part.len);
			len += part.len;
		}
		int rc = on_entry(ctx, &e);
		if (rc)
			return rc;
	}
	return 0;
}

int64_t queue_history_since(struct queue_reader *q)
{
	struct shm_queue_header *h = (void *)(q->region.at + SHM_HEADER_AT);
	uint64_t at = h->history_at, entries = h->history_entries;
	if (entries == 0 || at % SHM_BLOCK || at > q->region.mapped ||
	    entries > (q->region.mapped - at) / sizeof(struct shm_history))
		return INT64_MAX;
	const struct shm_history *ring = (const void *)(q->region.at + at);
	uint64_t next = atomic_load_explicit(&h->history_next, memory_order_acquire);
	if (next <= entries)
		return 0;
	for (uint64_t number = next - entries; number < next; number++) {
		struct shm_history e;
		if (copy_entry(&ring[(number - 1) % entries], number, &e) && e.happened != SHM_HAPPENED_TEXT)
			return e.at;
	}
	return INT64_MAX;
}
