#include "hold.h"
#include "later.h"
#include "program.h"

/* Events of the detail; at most SHM_EVENTS_MAX. */
static size_t events_of(const struct workqueue *wq, uint32_t ref, struct shm_event out[SHM_EVENTS_MAX])
{
	struct span text = store_text(wq->store, ref);
	size_t n = MIN(text.len / sizeof(*out), (size_t)SHM_EVENTS_MAX);
	if (n)
		memcpy(out, text.at, n * sizeof(*out));
	return n;
}

/* resource_version 0: of an add that names none. */
static struct shm_event event_of(const struct wire_add_key *key)
{
	bool known = key->stream <= UINT16_MAX && key->cause != WIRE_CAUSE_OPERATOR && !key->delay_ms;
	return (struct shm_event){
	    .table = key->table,
	    .stream = (uint16_t)key->stream,
	    .resource_version = known ? key->resource_version : 0,
	};
}

/* ---- an add ---- */

bool hold_shows_own(const struct workqueue *wq, const struct shm_slot *s, const struct wire_add_key *key)
{
	if (!SHM_SETTLES(s->state))
		return false;
	struct shm_event writes[SHM_EVENTS_MAX], event = event_of(key);
	size_t n = events_of(wq, store_detail(wq->store, s->detail)->events, writes);
	return event.resource_version && settle_is_own(writes, n, &event);
}

bool hold_may_be_own(const struct shm_slot *s)
{
	return s->state == SHM_STATE_DIRTY && !(s->flags & SHM_SLOT_NEWS);
}

void hold_remember_event(struct workqueue *wq, struct change *ch, const struct wire_add_key *key)
{
	struct shm_event events[SHM_EVENTS_MAX], event = event_of(key);
	if (ch->s.flags & SHM_SLOT_NEWS)
		return;
	size_t n = events_of(wq, ch->d.events, events);
	store_release(wq->store, ch->d.events);
	ch->d.events = 0;
	events[n++] = event;
	if (event.resource_version && n <= HOLD_EVENTS &&
	    store_text_new(wq->store, (struct span){(const char *)events, n * sizeof(*events)},
			   &ch->d.events) == 0)
		return;
	ch->d.events = 0;
	ch->s.flags |= SHM_SLOT_NEWS;
}

/* ---- the end of an attempt ---- */

void hold_forget_pending(struct workqueue *wq, struct change *ch)
{
	store_release(wq->store, ch->d.objects.first_object);
	store_release(wq->store, ch->d.objects.last_object);
	ch->d.objects = (struct shm_causes){0};
	ch->s.causes = ch->s.ends = 0;
	ch->s.flags &= SHM_SLOT_ADDED;
	ch->s.count = 0;
	ch->s.added = 0;
}

void hold_forget_own(struct workqueue *wq, struct change *ch, const struct wire_done *done)
{
	struct shm_event events[SHM_EVENTS_MAX], writes[SHM_EVENTS_MAX];
	bool own = hold_may_be_own(&ch->s) && done->writes.len;
	size_t n = own ? events_of(wq, ch->d.events, events) : 0;
	size_t n_writes = own ? settle_writes(done, writes) : 0;
	for (size_t i = 0; i < n && own; i++)
		own = settle_is_own(writes, n_writes, &events[i]);
	if (own && n)
		change_move(ch, STATE_EVENT_OWN);
	if (own && n && ch->d.timer) { /* an add for a later time is left */
		change_move(ch, STATE_EVENT_AFTER);
		ch->s.ready_at = ch->d.timer;
	} else if (own && n) {
		hold_forget_pending(wq, ch);
	}
	store_release(wq->store, ch->d.events);
	ch->d.events = 0;
}

bool hold_is_due(const struct wire_done *done)
{
	struct shm_event writes[SHM_EVENTS_MAX];
	return done->writes.len && settle_writes(done, writes) && !fault("settle");
}

void hold_begin(struct workqueue *wq, struct change *ch, const struct wire_done *done, int64_t timer,
		int64_t now)
{
	struct shm_event writes[SHM_EVENTS_MAX];
	size_t n = settle_writes(done, writes);
	/* Without a cell for the list the key is held for the whole time. */
	if (store_text_new(wq->store, (struct span){(const char *)writes, n * sizeof(*writes)},
			   &ch->d.events) < 0)
		ch->d.events = 0;
	ch->d.lease_end = now + SETTLE_MOST;
	ch->d.timer = timer;
	change_count(wq, ch, holds);
}

/* ---- the hold ---- */

void hold_index(struct workqueue *wq, uint32_t slot)
{
	struct shm_event writes[SHM_EVENTS_MAX];
	uint32_t ref = store_detail(wq->store, store_slot(wq->store, slot)->detail)->events;
	settle_add(&wq->settle, slot, writes, events_of(wq, ref, writes));
}

void hold_end(struct workqueue *wq, uint32_t slot, bool in_vain, int64_t now)
{
	struct change ch;
	change_begin(wq, slot, SHM_HAPPENED_SETTLED, now, &ch);
	later_held(&ch);
	change_move(&ch, ch.s.wait == SHM_WAIT_NONE	   ? STATE_EVENT_FINISH
			 : ch.s.wait == SHM_WAIT_THROTTLED ? STATE_EVENT_HOLD
							   : STATE_EVENT_DELAY);
	if (ch.s.state == SHM_STATE_WAITING && ch.s.ready_at <= now)
		change_move(&ch, STATE_EVENT_DUE);
	if (ch.s.state == SHM_STATE_WAITING) {
		ch.h.delay = ch.s.ready_at - now;
	} else {
		ch.s.ready_at = now;
		ch.s.wait = SHM_WAIT_NONE;
	}
	store_release(wq->store, ch.d.events);
	ch.d.events = 0;
	ch.d.lease_end = 0;
	if (in_vain) {
		wq->holds_in_vain++;
		change_count(wq, &ch, holds_in_vain);
		change_say(&ch, span_of("the watch has not shown in time what was written"));
	}
	change_commit(wq, &ch);
}

void workqueue_passed(struct workqueue *wq, const struct wire_place *place, int64_t now)
{
	for (uint32_t slot; (slot = settle_passed(&wq->settle, place)) != SETTLE_NONE;)
		hold_end(wq, slot, false, now);
}
