/* The transitions of a key that is well: caused by its own object, granted, a success. They do what change.c does for every key, with
 * the few words that change written down, because this is what nearly all of the work is: inline, for add.c and workqueue.c alone. They
 * decline (0, false) when it is more than that: then the transition is made as every other. The test
 * plain_and_every_other_way_agree compares the two. */
#pragma once
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

/* A merge where the slot's own count of merges is full: the row takes it over, this one included. */
static __attribute__((noinline)) void merge_counted(struct workqueue *wq, struct shm_slot *s, uint64_t word)
{
	struct store *st = wq->store;
	const struct shm_controller *row = store_controller(st, s->controller);
	static const struct shm_pending full = {.uncounted = UINT8_MAX};
	static const uint32_t words[] = {1, 1};
	uint64_t *run = store_short(st);
	run[0] = STORE_RUN((uint64_t)((const char *)&s->word - st->at), 1);
	run[1] = word & ~shm_pending_word(full);
	run[2] = STORE_RUN((uint64_t)((const char *)&row->counters.merges - st->at), 1);
	run[3] = row->counters.merges + UINT8_MAX + 1;
	store_short_commit(st, s, words, ARRAY_SIZE(words));
	wq->controllers[s->controller].uncounted_merges -= UINT8_MAX;
}

/* What an add leaves in the word by its cause: its bit, and the last cause; as shm_pending_word has them. */
static const uint64_t last_of[] = {
#define X(NAME, text)                                                                                        \
	[WIRE_CAUSE_##NAME] = UINT64_C(1) << (16 + WIRE_CAUSE_##NAME) | (uint64_t)WIRE_CAUSE_##NAME << 28,
    WIRE_CAUSES(X)
#undef X
};

/* Counts an add of a pending key that changes nothing else: one store. False: nothing is pending, or its priority must be written down.
 * Does what pending_merge does, and uncounted + 1, in the word as it lies there. */
_inline_ bool pending_merge_in_place(struct workqueue *wq, struct shm_slot *s, const struct wire_add_key *key)
{
	static const struct shm_pending one = {.uncounted = 1}, last = {.ends = 0xf0},
					change = {.flags = SHM_SLOT_CHANGED};
	uint64_t word = s->word;
	uint8_t cause = cause_of(key);
	struct shm_pending p = shm_pending_of(word);
	if (key->priority > s->priority || p.count == 0)
		return false;
	word = (word & ~shm_pending_word(last)) + (p.count < UINT16_MAX);
	word |= last_of[cause];
	if (says_changed(key))
		word |= shm_pending_word(change);
	if (p.uncounted == UINT8_MAX) {
		merge_counted(wq, s, word);
		return true;
	}
	wq->controllers[s->controller].uncounted_merges++;
	store_word(s, word + shm_pending_word(one));
	return true;
}

/* Of READY every add for now leads to READY, so it is one store. */
_inline_ bool plain_merge(struct workqueue *wq, struct shm_slot *s, const struct wire_add_key *key)
{
	return shm_pending_of(s->word).state == SHM_STATE_READY && !(s->detail | s->record) &&
	       !key->delay_ms && cause_is_own(key) && pending_merge_in_place(wq, s, key);
}

/* 0: it is more than that; -ENOSPC. */
_inline_ int plain_grant(struct workqueue *wq, uint32_t slot, const struct workqueue_holder *holder,
			 int64_t now, struct workqueue_grant *ret)
{
	struct store *st = wq->store;
	struct shm_slot *s = store_slot_at(st, slot);
	const struct shm_controller *row = store_controller(st, s->controller);
	struct workqueue_controller *c = &wq->controllers[s->controller];
	if (s->detail || s->record || row->pause != SHM_PAUSE_NONE)
		return 0;
	struct shm_pending was = shm_pending_of(s->word);
	struct shm_history h =
	    happened(s, SHM_HAPPENED_GRANTED, state_next(was.state, STATE_EVENT_GRANT), now);
	uint32_t ref = 0;
	if (store_detail_new(st, &ref) < 0)
		return -ENOSPC;
	h.generation = store_header(st)->next_generation;
	h.key_hash = slot == wq->ahead ? wq->ahead_hash : index_hash_of(&wq->index, s);
	h.delay = now - s->ready_at;
	h.duration_us = was.count | (uint32_t)was.causes << 16; /* count and causes */
	h.ends = was.ends;
	h.pid = holder->host_pid;
	struct shm_detail *d = store_detail_at(st, ref);
	*d = (struct shm_detail){
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
	bool added = was.flags & SHM_SLOT_ADDED;
	index_ready_take(&wq->index, slot, s->namespace_number, index_band(s->priority));
	uint64_t *run = store_short(st);
	static const uint32_t words[] = {4, 2, 3};
	run[0] = STORE_RUN((uint64_t)((const char *)&s->word - st->at), 4);
	run[1] = shm_pending_word((struct shm_pending){.state = h.to});
	run[2] = 0;			/* ready_at */
	run[3] = (uint32_t)s->priority; /* added: 0 */
	run[4] = ref;			/* record: 0 */
	run[5] = STORE_RUN(SHM_HEADER_AT + offsetof(struct shm_queue_header, next_generation), 2);
	run[6] = h.generation + 1;
	run[7] = ~(h.generation + 1);
	run[8] = STORE_RUN((uint64_t)((const char *)&row->counters.adds - st->at), 3);
	run[9] = row->counters.adds + added;
	run[10] = row->counters.merges + was.uncounted;
	run[11] = row->counters.grants + 1;
	store_short_commit(st, s, words, ARRAY_SIZE(words));
	c->uncounted_adds -= added;
	c->uncounted_merges -= was.uncounted;
	c->running++;
	wq->unrecorded++;
	index_timer_add(&wq->index, INDEX_LEASES, slot, d->lease_end);
	store_history_plain(st, h);
	*ret = (struct workqueue_grant){
	    .slot = slot,
	    .generation = d->generation,
	    .priority = d->lease_priority,
	    .deadline = d->deadline,
	    .lease_end = d->lease_end,
	    .causes = {{d->lease_ends & 15, {"", 0}}, {d->lease_ends >> 4, {"", 0}}},
	    .n_causes = MIN(d->lease_count, 2u),
	};
	store_key(st, s, &ret->namespace, &ret->name);
	return 1;
}

/* The words that a grant changes. */
_Static_assert(offsetof(struct shm_slot, word) == 8 && offsetof(struct shm_slot, ready_at) == 16 &&
		   offsetof(struct shm_slot, priority) == 24 && offsetof(struct shm_slot, detail) == 32 &&
		   offsetof(struct shm_slot, controller) == 40 &&
		   offsetof(struct shm_controller_counters, merges) == 8 &&
		   offsetof(struct shm_controller_counters, grants) == 16,
	       "see plain_grant");

_inline_ bool plain_done(struct workqueue *wq, const struct wire_done *done, int64_t now,
			 struct workqueue_end *ret)
{
	struct store *st = wq->store;
	uint32_t slot = (uint32_t)done->slot;
	struct shm_slot *s = store_slot_at(st, slot);
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
	uint32_t controller = s->controller, ref = s->detail;
	index_timer_remove(&wq->index, INDEX_LEASES, slot);
	index_remove(&wq->index, h.key_hash, slot, s->namespace_number);
	uint64_t *run = store_short(st);
	static const uint32_t words[] = {1, 1, 1};
	run[0] = STORE_RUN((uint64_t)((const char *)&s->word - st->at), 1);
	run[1] = 0;
	run[2] = STORE_RUN((uint64_t)((const char *)&row->counters.results[SHM_RESULT_SUCCESS] - st->at), 1);
	run[3] = row->counters.results[SHM_RESULT_SUCCESS] + 1;
	run[4] = STORE_RUN((uint64_t)((const char *)&row->counters.outcomes[WIRE_OUTCOME_OK] - st->at), 1);
	run[5] = row->counters.outcomes[WIRE_OUTCOME_OK] + 1;
	store_short_commit(st, s, words, ARRAY_SIZE(words));
	store_detail_drop(st, ref);
	store_slot_drop(st, slot);
	wq->controllers[controller].running--;
	wq->unrecorded--;
	if (slot == wq->ahead)
		wq->ahead = INDEX_NONE;
	store_history_plain(st, h);
	return true;
}
