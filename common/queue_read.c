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

uint64_t shm_key_hash(struct span controller, struct span namespace, struct span name)
{
	uint64_t h = hash_bytes(controller.at, controller.len, HASH_SEED);
	h = hash_bytes("/", 1, h);
	h = hash_bytes(namespace.at, namespace.len, h);
	h = hash_bytes("/", 1, h);
	return hash_bytes(name.at, name.len, h);
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
	    sizeof(struct shm_detail),
	    sizeof(struct shm_controller),
	    sizeof(struct shm_history),
	    sizeof(struct shm_queue_header),
	    sizeof(struct shm_redo),
	    AT(shm_slot, seq),
	    AT(shm_slot, state),
	    AT(shm_slot, wait),
	    AT(shm_slot, controller),
	    AT(shm_slot, ready_at),
	    AT(shm_slot, added_at),
	    AT(shm_slot, priority),
	    AT(shm_slot, detail),
	    AT(shm_slot, count),
	    AT(shm_slot, causes),
	    AT(shm_slot, ends),
	    AT(shm_slot, flags),
	    AT(shm_slot, namespace_len),
	    AT(shm_slot, name_len),
	    AT(shm_slot, key),
	    AT(shm_detail, objects),
	    AT(shm_detail, reason),
	    AT(shm_detail, message),
	    AT(shm_detail, attempt),
	    AT(shm_detail, step),
	    AT(shm_detail, conflicts),
	    AT(shm_detail, duration_us),
	    AT(shm_detail, backoff_until),
	    AT(shm_detail, last_at),
	    AT(shm_detail, quarantined_at),
	    AT(shm_detail, outcomes),
	    AT(shm_detail, crashes),
	    AT(shm_detail, crash_next),
	    AT(shm_detail, crash_count),
	    AT(shm_detail, last_outcome),
	    AT(shm_detail, attempted),
	    AT(shm_detail, lease_causes),
	    AT(shm_detail, lease_ends),
	    AT(shm_detail, lease_count),
	    AT(shm_detail, lease_priority),
	    AT(shm_detail, lease_flags),

	    AT(shm_detail, lease_objects),
	    AT(shm_detail, generation),
	    AT(shm_detail, lease_added_at),
	    AT(shm_detail, granted_at),
	    AT(shm_detail, deadline),
	    AT(shm_detail, lease_end),
	    AT(shm_detail, host_start),
	    AT(shm_detail, jail_start),
	    AT(shm_detail, host_pid),
	    AT(shm_detail, jail_pid),
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
	    AT(shm_history, at),
	    AT(shm_history, key_hash),
	    AT(shm_history, happened),
	    AT(shm_history, text),
	    AT(shm_queue_header, next_generation),
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

struct queue_reader {
	struct region region;
	uint32_t *slot_blocks; /* which blocks hold slots, in order */
	uint32_t n_slot_blocks;
	uint32_t n_blocks; /* of the directory that were looked at */
};

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
		uint8_t holds = __atomic_load_n(&directory[q->n_blocks], __ATOMIC_ACQUIRE);
		if (holds == SHM_BLOCK_NONE)
			break;
		if (holds != SHM_BLOCK_SLOTS)
			continue;
		q->slot_blocks = xrealloc(q->slot_blocks, (q->n_slot_blocks + 1) * sizeof(*q->slot_blocks));
		q->slot_blocks[q->n_slot_blocks++] = q->n_blocks;
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
	free(q->slot_blocks);
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
	uint32_t size = shm_text_size(__atomic_load_n(&directory[at / SHM_BLOCK], __ATOMIC_ACQUIRE));
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

static int copy_key(struct queue_reader *q, const struct shm_slot *s, struct queue_key *ret)
{
	char text[KEY_MAX_LEN + 1];
	size_t len = (size_t)s->namespace_len + s->name_len;
	if (s->namespace_len > NAMESPACE_MAX_LEN || s->name_len > NAME_MAX_LEN)
		return -EPROTO;
	if (len <= SHM_KEY_INLINE) {
		memcpy(text, s->key, len);
	} else {
		uint32_t ref;
		size_t stored;
		memcpy(&ref, s->key, sizeof(ref));
		int rc = copy_text(q, ref, text, sizeof(text), &stored);
		if (rc < 0)
			return rc;
		if (stored != len)
			return -EPROTO;
	}
	memcpy(ret->namespace, text, s->namespace_len);
	ret->namespace[s->namespace_len] = '\0';
	memcpy(ret->name, text + s->namespace_len, s->name_len);
	ret->name[s->name_len] = '\0';
	return 0;
}

static int copy_detail(struct queue_reader *q, const struct shm_slot *s, struct queue_key *ret)
{
	uint64_t at = (uint64_t)s->detail * SHM_REF_UNIT;
	if (at + SHM_DETAIL_SIZE > q->region.mapped &&
	    (region_remap(&q->region) < 0 || at + SHM_DETAIL_SIZE > q->region.mapped))
		return -EPROTO;
	const uint8_t *directory = (const uint8_t *)q->region.at + SHM_DIRECTORY_AT;
	if (at / SHM_BLOCK >= SHM_BLOCKS_MAX || at % SHM_DETAIL_SIZE ||
	    __atomic_load_n(&directory[at / SHM_BLOCK], __ATOMIC_ACQUIRE) != SHM_BLOCK_DETAILS)
		return -EPROTO;
	memcpy(&ret->detail, q->region.at + at, sizeof(ret->detail));
	ret->has_detail = true;
	const struct shm_detail *d = &ret->detail;
	size_t len;
	int rc = copy_text(q, d->reason, ret->reason, sizeof(ret->reason), &len);
	if (rc == 0)
		rc = copy_text(q, d->message, ret->message, sizeof(ret->message), &len);
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

static int copy_slot(struct queue_reader *q, const struct shm_slot *s, struct queue_key *ret)
{
	if (s->state >= SHM_STATE_COUNT || s->wait >= SHM_WAIT_COUNT || s->controller >= SHM_CONTROLLERS_MAX)
		return -EPROTO;
	ret->state = s->state;
	ret->wait = s->wait;
	ret->pending = s->state != SHM_STATE_RUNNING;
	ret->ready_at = s->ready_at;
	ret->added_at = s->added_at;
	ret->priority = s->priority;
	ret->count = s->count;
	ret->causes = s->causes;
	ret->first.event = s->ends & 15;
	ret->last.event = s->ends >> 4;
	const struct shm_controller *c =
	    (const void *)(q->region.at + SHM_CONTROLLERS_AT + s->controller * SHM_CONTROLLER_SIZE);
	memcpy(ret->controller, c->name, sizeof(ret->controller));
	ret->controller[sizeof(ret->controller) - 1] = '\0';
	int rc = copy_key(q, s, ret);
	if (rc == 0 && s->detail)
		rc = copy_detail(q, s, ret);
	return rc;
}

/* 1: a key, 0: a free slot, -EAGAIN, -EPROTO. */
static int read_slot(struct queue_reader *q, uint32_t number, struct queue_key *ret)
{
	uint64_t at = (uint64_t)q->slot_blocks[number / SHM_SLOTS_PER_BLOCK] * SHM_BLOCK +
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
		if (*cursor / SHM_SLOTS_PER_BLOCK >= q->n_slot_blocks) {
			int rc = look_at_directory(q);
			if (rc < 0)
				return rc;
			if (*cursor / SHM_SLOTS_PER_BLOCK >= q->n_slot_blocks)
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

int queue_history(struct queue_reader *q, struct span controller, struct span namespace, struct span name,
		  int (*on_entry)(void *ctx, const struct shm_history *entry), void *ctx)
{
	struct shm_queue_header *h = (void *)(q->region.at + SHM_HEADER_AT);
	uint64_t at = h->history_at, entries = h->history_entries;
	if (entries == 0)
		return 0;
	if (at % SHM_BLOCK || at > q->region.mapped ||
	    entries > (q->region.mapped - at) / sizeof(struct shm_history))
		return -EPROTO;
	uint64_t hash = shm_key_hash(controller, namespace, name);
	uint64_t next = atomic_load_explicit(&h->history_next, memory_order_acquire);
	for (uint64_t number = next > entries ? next - entries : 1; number < next; number++) {
		struct shm_history *from =
				       (void *)(q->region.at + at + (number - 1) % entries * sizeof(*from)),
				   copy;
		if (atomic_load_explicit(&from->number, memory_order_acquire) != number)
			continue; /* overtaken by the writer */
		memcpy(&copy, from, sizeof(copy));
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&from->number, memory_order_relaxed) != number ||
		    (name.len && copy.key_hash != hash))
			continue;
		copy.text[sizeof(copy.text) - 1] = '\0';
		int rc = on_entry(ctx, &copy);
		if (rc)
			return rc;
	}
	return 0;
}
