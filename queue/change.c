#include "hold.h"

static uint64_t hash_of(const struct workqueue *wq, const struct change *ch)
{
	if (ch->d.generation)
		return ch->d.key_hash;
	return ch->slot == wq->ahead ? wq->ahead_hash : index_hash_of(&wq->index, &ch->s);
}

void change_begin(struct workqueue *wq, uint32_t slot, enum shm_happened happened, int64_t now,
		  struct change *ch)
{
	const struct shm_slot *s = store_slot(wq->store, slot);
	ch->slot = slot;
	memcpy(&ch->s, s, sizeof(ch->s));
	ch->from = s->state;
	ch->from_band = index_band(s->priority);
	ch->fresh_detail = ch->has_row = false;
	if (s->detail)
		memcpy(&ch->d, store_detail(wq->store, s->detail), sizeof(ch->d));
	else
		memset(&ch->d, 0, sizeof(ch->d));
	ch->has_record = s->record != 0;
	if (ch->has_record)
		memcpy(&ch->r, store_record(wq->store, s->record), sizeof(ch->r));
	ch->adds = ch->merges = 0;
	ch->text_len = 0;
	ch->h = (struct shm_history){
	    .at = now,
	    .key_hash = hash_of(wq, ch),
	    .controller = s->controller,
	    .happened = (uint8_t)happened,
	    .from = s->state,
	};
	store_begin(wq->store, slot);
}

void change_move(struct change *ch, enum state_event event)
{
	enum shm_state to = state_next(ch->s.state, event);
	if (to == SHM_STATE_BUG)
		store_bug("a key cannot do this", ch->s.state, event);
	ch->s.state = (uint8_t)to;
}

int change_detail(struct workqueue *wq, struct change *ch)
{
	if (ch->s.detail)
		return 0;
	int rc = store_detail_new(wq->store, &ch->s.detail);
	ch->fresh_detail = rc == 0;
	return rc;
}

void change_record(struct change *ch)
{
	if (!ch->has_record)
		memset(&ch->r, 0, sizeof(ch->r));
	ch->has_record = true;
}

struct shm_controller *change_row(struct workqueue *wq, struct change *ch)
{
	if (!ch->has_row)
		memcpy(&ch->row, store_controller(wq->store, ch->s.controller), sizeof(ch->row));
	ch->has_row = true;
	return &ch->row;
}

void change_say(struct change *ch, struct span text)
{
	if (ch->text_len && text.len && ch->text_len < sizeof(ch->text))
		ch->text[ch->text_len++] = ' ';
	size_t n = MIN(text.len, sizeof(ch->text) - ch->text_len);
	for (size_t i = 0; i < n; i++)
		ch->text[ch->text_len++] = text.at[i] ? text.at[i] : ' ';
}

/* ---- indexes ---- */

static void index_out(struct workqueue *wq, const struct change *ch)
{
	struct workqueue_controller *c = &wq->controllers[ch->s.controller];
	struct index *x = &wq->index;
	switch (ch->from) {
	case SHM_STATE_READY:
		if (ch->h.happened == SHM_HAPPENED_GRANTED)
			index_ready_take(x, ch->slot, ch->s.namespace_number, ch->from_band);
		else
			index_ready_remove(x, ch->slot, ch->s.namespace_number, ch->from_band);
		break;
	case SHM_STATE_WAITING:
		index_timer_remove(x, INDEX_WAITS, ch->slot);
		c->waiting--;
		break;
	case SHM_STATE_RUNNING:
	case SHM_STATE_DIRTY:
	case SHM_STATE_TIMED:
		index_timer_remove(x, INDEX_LEASES, ch->slot);
		c->running--;
		break;
	case SHM_STATE_QUARANTINED:
		index_timer_remove(x, INDEX_WAITS, ch->slot);
		c->quarantined--;
		break;
	case SHM_STATE_SETTLING:
	case SHM_STATE_SETTLING_DIRTY:
		index_timer_remove(x, INDEX_WAITS, ch->slot);
		settle_remove(&wq->settle, ch->slot);
		c->settling--;
		break;
	case SHM_STATE_NONE:
	case SHM_STATE_COUNT:
		break;
	}
}

void change_index(struct workqueue *wq, uint32_t slot)
{
	const struct shm_slot *s = store_slot(wq->store, slot);
	struct workqueue_controller *c = &wq->controllers[s->controller];
	struct index *x = &wq->index;
	switch ((enum shm_state)s->state) {
	case SHM_STATE_READY:
		index_ready_add(x, slot, s->namespace_number, index_band(s->priority));
		break;
	case SHM_STATE_WAITING:
		index_timer_add(x, INDEX_WAITS, slot, s->ready_at);
		c->waiting++;
		break;
	case SHM_STATE_RUNNING:
	case SHM_STATE_DIRTY:
	case SHM_STATE_TIMED:
		index_timer_add(x, INDEX_LEASES, slot, store_detail(wq->store, s->detail)->lease_end);
		c->running++;
		break;
	case SHM_STATE_QUARANTINED:
		index_timer_add(x, INDEX_WAITS, slot, s->ready_at);
		c->quarantined++;
		break;
	case SHM_STATE_SETTLING:
	case SHM_STATE_SETTLING_DIRTY:
		index_timer_add(x, INDEX_WAITS, slot, store_detail(wq->store, s->detail)->lease_end);
		hold_index(wq, slot);
		c->settling++;
		break;
	case SHM_STATE_NONE:
	case SHM_STATE_COUNT:
		break;
	}
}

/* ---- what a key keeps ---- */

static void release_texts(struct store *st, const uint32_t *refs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_release(st, refs[i]);
}

static void keep_detail(struct workqueue *wq, struct change *ch)
{
	const struct shm_detail *d = &ch->d;
	bool idle = !d->generation && !SHM_SETTLES(ch->s.state) && !d->objects.first_object &&
		    !d->objects.last_object;
	if (ch->s.state == SHM_STATE_NONE || idle) {
		const uint32_t texts[] = {d->objects.first_object, d->objects.last_object,
					  d->lease_objects.first_object, d->lease_objects.last_object,
					  d->events};
		release_texts(wq->store, texts, ARRAY_SIZE(texts));
		store_release(wq->store, ch->s.detail);
		ch->s.detail = 0;
	} else if (ch->fresh_detail) {
		store_detail_fill(wq->store, ch->s.detail, d);
	} else {
		store_put_detail(wq->store, ch->s.detail, d);
	}
}

static void keep_record(struct workqueue *wq, struct change *ch)
{
	const struct shm_record *r = &ch->r;
	if (ch->s.state == SHM_STATE_NONE || !(r->attempted || r->quarantined_at)) {
		const uint32_t texts[] = {r->reason, r->message};
		release_texts(wq->store, texts, ARRAY_SIZE(texts));
		store_release(wq->store, ch->s.record);
		ch->s.record = 0;
	} else if (ch->s.record) {
		store_put_record(wq->store, ch->s.record, r);
	} else {
		if (store_record_new(wq->store, &ch->s.record) < 0)
			store_bug("no record was reserved", ch->slot, 0);
		store_record_fill(wq->store, ch->s.record, r);
	}
}

/* Also the adds and merges of one store, which the row does not have yet. */
static void put_counts(struct workqueue *wq, struct change *ch)
{
	struct workqueue_controller *c = &wq->controllers[ch->s.controller];
	const struct shm_controller_counters *n = &store_controller(wq->store, ch->s.controller)->counters;
	if (ch->s.flags & SHM_SLOT_ADDED) {
		ch->adds++;
		c->uncounted_adds--;
		ch->s.flags = (uint8_t)(ch->s.flags & ~SHM_SLOT_ADDED);
	}
	ch->merges += ch->s.uncounted;
	c->uncounted_merges -= ch->s.uncounted;
	ch->s.uncounted = 0;
	if (ch->adds)
		store_put_row_word(wq->store, ch->s.controller,
				   offsetof(struct shm_controller, counters.adds), n->adds + ch->adds);
	if (ch->merges)
		store_put_row_word(wq->store, ch->s.controller,
				   offsetof(struct shm_controller, counters.merges), n->merges + ch->merges);
}

void change_commit(struct workqueue *wq, struct change *ch)
{
	struct store *st = wq->store;
	enum shm_state to = ch->s.state;
	/* A place in a ready list is kept by a key that stays in its band; a timer by one that still waits
	 * for the same time. */
	bool keeps_place = (to == ch->from &&
			    (to == SHM_STATE_READY ? index_band(ch->s.priority) == ch->from_band
						   : ch->s.ready_at == store_slot(st, ch->slot)->ready_at)) ||
			   (SHM_LEASED(to) && SHM_LEASED(ch->from)) ||
			   (SHM_SETTLES(to) && SHM_SETTLES(ch->from));
	bool recorded = SHM_LEASED(ch->from) && store_slot(st, ch->slot)->record;
	if (!keeps_place)
		index_out(wq, ch);
	put_counts(wq, ch);
	if (ch->s.detail)
		keep_detail(wq, ch);
	if (ch->has_record)
		keep_record(wq, ch);
	if (to == SHM_STATE_NONE) {
		if (ch->slot == wq->ahead)
			wq->ahead = INDEX_NONE;
		if (ch->s.name_len > SHM_NAME_INLINE) {
			uint32_t ref;
			memcpy(&ref, ch->s.name, sizeof(ref));
			store_release(st, ref);
		}
		index_remove(&wq->index, ch->h.key_hash, ch->slot, ch->s.namespace_number);
		store_put_slot_free(st);
	} else {
		store_put_slot(st, &ch->s);
	}
	if (ch->has_row)
		store_put_controller(st, ch->s.controller, &ch->row);
	store_commit(st);
	if (!keeps_place)
		change_index(wq, ch->slot);
	/* Leases whose keys have no record yet have a cell reserved for it. */
	wq->unrecorded -= SHM_LEASED(ch->from) && !recorded;
	wq->unrecorded += SHM_LEASED(to) && !ch->s.record;
	ch->h.to = (uint8_t)to;
	ch->h.wait = ch->s.wait;
	ch->h.priority = ch->s.priority;
	ch->h.attempt = ch->has_record ? ch->r.attempt : 0;
	store_history(st, &ch->h, (struct span){ch->text, ch->text_len});
}
