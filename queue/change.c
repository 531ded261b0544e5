#include "change.h"

void change_begin(struct workqueue *wq, uint32_t slot, enum shm_happened happened, int64_t now,
		  struct change *ch)
{
	const struct shm_slot *s = store_slot(wq->store, slot);
	memset(ch, 0, sizeof(*ch));
	ch->slot = slot;
	memcpy(&ch->s, s, sizeof(ch->s));
	ch->from = s->state;
	ch->from_band = index_band(s->priority);
	ch->detail = s->detail;
	if (ch->detail)
		memcpy(&ch->d, store_detail(wq->store, ch->detail), sizeof(ch->d));
	memcpy(&ch->c, store_controller(wq->store, s->controller), sizeof(ch->c));
	struct span namespace, name;
	store_key(wq->store, s, &namespace, &name);
	ch->h = (struct shm_history){
	    .at = now,
	    .key_hash = shm_key_hash(span_of(ch->c.name), namespace, name),
	    .slot = slot,
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

/* Waiting keys and leases are found by time, so only READY needs more than the heap. */
static void index_out(struct workqueue *wq, const struct change *ch)
{
	struct workqueue_controller *c = &wq->controllers[ch->s.controller];
	switch (ch->from) {
	case SHM_STATE_READY:
		index_ready_remove(&wq->index, ch->slot, ch->s.controller, ch->from_band);
		break;
	case SHM_STATE_WAITING:
		index_timer_remove(&wq->index, ch->slot);
		c->waiting--;
		break;
	case SHM_STATE_RUNNING:
	case SHM_STATE_DIRTY:
		index_timer_remove(&wq->index, ch->slot);
		c->running--;
		break;
	case SHM_STATE_QUARANTINED:
		index_timer_remove(&wq->index, ch->slot);
		c->quarantined--;
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
	switch ((enum shm_state)s->state) {
	case SHM_STATE_READY:
		index_ready_add(&wq->index, slot, s->controller, index_band(s->priority));
		break;
	case SHM_STATE_WAITING:
		index_timer_add(&wq->index, slot, s->ready_at);
		c->waiting++;
		break;
	case SHM_STATE_RUNNING:
	case SHM_STATE_DIRTY:
		index_timer_add(&wq->index, slot, store_detail(wq->store, s->detail)->lease_end);
		c->running++;
		break;
	case SHM_STATE_QUARANTINED:
		index_timer_add(&wq->index, slot, s->ready_at);
		c->quarantined++;
		break;
	case SHM_STATE_NONE:
	case SHM_STATE_COUNT:
		break;
	}
}

static uint32_t hash_of(const struct workqueue *wq, const struct shm_slot *s)
{
	struct span namespace, name;
	store_key(wq->store, s, &namespace, &name);
	return index_hash(s->controller, namespace, name);
}

static void release_detail(struct workqueue *wq, struct change *ch)
{
	struct shm_detail *d = &ch->d;
	const uint32_t texts[] = {
	    d->objects.first_object,	   d->objects.last_object,	d->reason, d->message,
	    d->lease_objects.first_object, d->lease_objects.last_object};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		store_release_text(wq->store, texts[i]);
	store_release_detail(wq->store, ch->detail);
	ch->detail = ch->s.detail = 0;
}

static bool leased(enum shm_state state)
{
	return state == SHM_STATE_RUNNING || state == SHM_STATE_DIRTY;
}

void change_commit(struct workqueue *wq, struct change *ch)
{
	struct store *st = wq->store;
	enum shm_state to = ch->s.state;
	/* A place in a ready list is kept by a key that stays in its band; a timer by one that still waits
	 * for the same time. */
	bool keeps_place =
	    (to == ch->from && (to != SHM_STATE_READY || index_band(ch->s.priority) == ch->from_band)) ||
	    (leased(to) && leased(ch->from));
	if (to == SHM_STATE_NONE && ch->from != SHM_STATE_NONE) {
		index_remove(&wq->index, hash_of(wq, &ch->s), ch->slot);
		if ((size_t)ch->s.namespace_len + ch->s.name_len > SHM_KEY_INLINE) {
			uint32_t ref;
			memcpy(&ref, ch->s.key, sizeof(ref));
			store_release_text(st, ref);
		}
	}
	if (ch->detail && (to == SHM_STATE_NONE || attempt_is_clean(&ch->d)))
		release_detail(wq, ch);
	if (!keeps_place)
		index_out(wq, ch);
	ch->s.detail = ch->detail;
	store_put_slot(st, to == SHM_STATE_NONE ? &(struct shm_slot){0} : &ch->s);
	if (ch->detail)
		store_put_detail(st, ch->detail, &ch->d);
	store_put_controller(st, ch->s.controller, &ch->c);
	store_commit(st);
	if (!keeps_place)
		change_index(wq, ch->slot);
	ch->h.to = (uint8_t)to;
	ch->h.wait = ch->s.wait;
	ch->h.priority = ch->s.priority;
	ch->h.attempt = ch->d.attempt;
	store_history(st, &ch->h);
}
