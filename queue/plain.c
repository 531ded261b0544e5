/* The transitions of a key that is well: caused by its own object, granted, a success. They do what change.c does for every key, with
 * the few words that change written down, because this is what nearly all of the work is. The test
 * plain_and_every_other_way_agree compares the two. */
#include "change.h"

static struct shm_history happened(const struct shm_slot *s, enum shm_happened what, enum shm_state to,
				   int64_t now)
{
	return (struct shm_history){
	    .happened = (uint8_t)what,
	    .controller = s->controller,
	    .from = s->state,
	    .to = (uint8_t)to,
	    .at = now,
	    .priority = s->priority,
	};
}

int plain_grant(struct workqueue *wq, uint32_t slot, const struct workqueue_holder *holder, int64_t now,
		struct workqueue_grant *ret)
{
	struct store *st = wq->store;
	const struct shm_slot *s = store_slot(st, slot);
	const struct shm_controller *row = store_controller(st, s->controller);
	struct workqueue_controller *c = &wq->controllers[s->controller];
	if (s->detail || s->record || row->pause != SHM_PAUSE_NONE)
		return 0;
	struct shm_pending was = s->pending;
	struct shm_history h =
	    happened(s, SHM_HAPPENED_GRANTED, state_next(was.state, STATE_EVENT_GRANT), now);
	uint32_t ref;
	if (store_detail_new(st, &ref) < 0)
		return -ENOSPC;
	h.generation = store_header(st)->next_generation;
	h.key_hash = slot == wq->ahead ? wq->ahead_hash : index_hash_of(&wq->index, s);
	h.delay = now - s->ready_at;
	h.count = was.count;
	h.causes = was.causes;
	h.ends = was.ends;
	h.pid = holder->host_pid;
	const struct shm_detail d = {
	    .generation = h.generation,
	    .granted_at = now,
	    .deadline = now + c->rules.timeout,
	    .lease_end = now + c->rules.timeout + wq->write_timeout + wq->kill_grace,
	    .host_pid = holder->host_pid,
	    .jail_pid = holder->jail_pid,
	    .host_start = holder->host_start,
	    .jail_start = holder->jail_start,
	    .lease_priority = s->priority,
	    .lease_added = s->added,
	    .key_hash = h.key_hash,
	    .lease_count = was.count,
	    .lease_causes = was.causes,
	    .lease_ends = was.ends,
	    .lease_flags = was.flags & SHM_SLOT_CHANGED,
	};
	store_detail_fill(st, ref, &d);
	struct shm_slot to = {.state = h.to, .priority = s->priority, .detail = ref};
	uint64_t at = store_slot_byte(st, slot), words[4];
	memcpy(words, (const char *)&to + offsetof(struct shm_slot, word), sizeof(words));
	bool added = was.flags & SHM_SLOT_ADDED;
	index_ready_take(&wq->index, slot, s->namespace_number, index_band(s->priority));
	store_words(
	    st, slot,
	    (const struct store_word[]){
		{at + 8, words[0]},
		{at + 16, words[1]},
		{at + 24, words[2]},
		{at + 32, words[3]},
		{SHM_HEADER_AT + offsetof(struct shm_queue_header, next_generation), h.generation + 1},
		{SHM_HEADER_AT + offsetof(struct shm_queue_header, generation_check), ~(h.generation + 1)},
		{STORE_ROW_BYTE(s->controller, counters.grants), row->counters.grants + 1},
		{STORE_ROW_BYTE(s->controller, counters.adds), row->counters.adds + added},
		{STORE_ROW_BYTE(s->controller, counters.merges), row->counters.merges + was.uncounted},
	    },
	    9);
	c->uncounted_adds -= added;
	c->uncounted_merges -= was.uncounted;
	c->running++;
	wq->unrecorded++;
	index_timer_add(&wq->index, INDEX_LEASES, slot, d.lease_end);
	store_history(st, &h, (struct span){0});
	*ret = (struct workqueue_grant){
	    .slot = slot,
	    .generation = d.generation,
	    .priority = d.lease_priority,
	    .deadline = d.deadline,
	    .lease_end = d.lease_end,
	    .causes = {{d.lease_ends & 15, {"", 0}}, {d.lease_ends >> 4, {"", 0}}},
	    .n_causes = MIN(d.lease_count, 2u),
	};
	store_key(st, s, &ret->namespace, &ret->name);
	return 1;
}

/* The words of the slot that a grant changes are the first four after seq. */
_Static_assert(offsetof(struct shm_slot, word) == 8 && offsetof(struct shm_slot, ready_at) == 16 &&
		   offsetof(struct shm_slot, priority) == 24 && offsetof(struct shm_slot, detail) == 32 &&
		   offsetof(struct shm_slot, controller) == 40,
	       "see plain_grant");

bool plain_done(struct workqueue *wq, const struct wire_done *done, int64_t now, struct workqueue_end *ret)
{
	struct store *st = wq->store;
	uint32_t slot = (uint32_t)done->slot;
	const struct shm_slot *s = store_slot(st, slot);
	const struct shm_controller *row = store_controller(st, s->controller);
	const struct shm_detail *d = store_detail(st, s->detail);
	if (!attempt_is_plain_success(done) || done->writes.len || done->reason.len || done->message.len ||
	    s->state != SHM_STATE_RUNNING || s->record || s->name_len > SHM_NAME_INLINE ||
	    d->lease_objects.first_object || d->lease_objects.last_object || row->pause != SHM_PAUSE_NONE ||
	    row->crashed_count)
		return false;
	struct shm_history h = happened(s, SHM_HAPPENED_DONE, state_next(s->state, STATE_EVENT_FINISH), now);
	h.generation = d->generation;
	h.key_hash = d->key_hash;
	h.duration_us = (uint32_t)MIN(done->duration_us, (uint64_t)UINT32_MAX);
	*ret = (struct workqueue_end){.controller = s->controller, .to = h.to};
	uint32_t ref = s->detail;
	index_timer_remove(&wq->index, INDEX_LEASES, slot);
	index_remove(&wq->index, h.key_hash, slot, s->namespace_number);
	store_words(st, slot,
		    (const struct store_word[]){
			{store_slot_byte(st, slot) + offsetof(struct shm_slot, word), 0},
			{STORE_ROW_BYTE(s->controller, counters.results[SHM_RESULT_SUCCESS]),
			 row->counters.results[SHM_RESULT_SUCCESS] + 1},
			{STORE_ROW_BYTE(s->controller, counters.outcomes[WIRE_OUTCOME_OK]),
			 row->counters.outcomes[WIRE_OUTCOME_OK] + 1},
		    },
		    3);
	store_detail_drop(st, ref);
	store_slot_drop(st, slot);
	wq->controllers[s->controller].running--;
	wq->unrecorded--;
	if (slot == wq->ahead)
		wq->ahead = INDEX_NONE;
	store_history(st, &h, (struct span){0});
	return true;
}
