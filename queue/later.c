#include "later.h"
#include "hold.h"

bool later_is_now(enum shm_state state)
{
	return state == SHM_STATE_READY || state == SHM_STATE_DIRTY || state == SHM_STATE_SETTLING_DIRTY;
}

/* ---- an add ---- */

static bool in_detail(enum shm_state state)
{
	return state == SHM_STATE_DIRTY || state == SHM_STATE_SETTLING;
}

/* Only an operator shortens what the program asked for as Throttled, and what cannot lift quarantine does not
 * move its end. A retry stays one, so that a cancel does not lose it. */
void later_add(struct change *ch, const struct wire_add_key *key, bool changed, int64_t at)
{
	struct shm_slot *s = &ch->s;
	bool first = ch->from == SHM_STATE_RUNNING || (in_detail(s->state) && !ch->d.timer);
	int64_t *time = in_detail(s->state) ? &ch->d.timer : &s->ready_at;
	bool moves = first || key->timer == WIRE_TIMER_REPLACE || at < *time;
	if (s->state == SHM_STATE_WAITING && s->wait == SHM_WAIT_THROTTLED &&
	    key->cause != WIRE_CAUSE_OPERATOR && at < s->ready_at)
		moves = false;
	if (s->state == SHM_STATE_QUARANTINED && !changed)
		moves = false;
	if (!moves || (later_is_now(s->state) && !in_detail(s->state)))
		return;
	*time = at;
	if (s->state == SHM_STATE_WAITING && s->wait == SHM_WAIT_REQUEUE_AFTER)
		s->wait = SHM_WAIT_ADD_AFTER;
}

void later_keep(struct change *ch)
{
	if (ch->from == SHM_STATE_TIMED && ch->s.state == SHM_STATE_DIRTY)
		ch->d.timer = ch->s.ready_at;
}

void later_cancel(struct workqueue *wq, uint32_t slot, int64_t now)
{
	const struct shm_slot *s = store_slot(wq->store, slot);
	bool asked = s->state == SHM_STATE_WAITING &&
		     (s->wait == SHM_WAIT_ADD_AFTER || s->wait == SHM_WAIT_REQUEUE_AFTER);
	bool kept = in_detail(s->state) && store_detail(wq->store, s->detail)->timer;
	if (s->state != SHM_STATE_TIMED && !asked && !kept)
		return;
	struct change ch;
	change_begin(wq, slot, SHM_HAPPENED_CANCELLED, now, &ch);
	change_move(&ch, STATE_EVENT_CANCEL);
	ch.d.timer = 0;
	if (ch.s.state == SHM_STATE_RUNNING || ch.s.state == SHM_STATE_SETTLING)
		hold_forget_pending(wq, &ch);
	if (ch.s.state == SHM_STATE_SETTLING) /* as the attempt's end left it */
		ch.s.added = (uint32_t)((ch.d.lease_end - SETTLE_MOST) / SHM_ADDED_UNIT);
	if (ch.s.state == SHM_STATE_RUNNING) {
		ch.s.ready_at = 0;
		ch.s.priority = ch.d.lease_priority;
	}
	change_commit(wq, &ch);
}

/* ---- the end of an attempt ---- */

void later_plan(struct attempt_plan *p, int64_t delay)
{
	bool asked = p->event == STATE_EVENT_FINISH || p->wait == SHM_WAIT_REQUEUE_AFTER;
	if (p->event == STATE_EVENT_HOLD || (p->event != STATE_EVENT_FINISH && p->delay <= delay))
		return;
	p->delay = delay;
	if (asked)
		p->wait = SHM_WAIT_ADD_AFTER;
}

void later_held(struct change *ch)
{
	struct shm_slot *s = &ch->s;
	bool asked = s->wait == SHM_WAIT_NONE || s->wait == SHM_WAIT_REQUEUE_AFTER;
	bool sooner =
	    s->wait == SHM_WAIT_NONE || (s->wait != SHM_WAIT_THROTTLED && ch->d.timer < s->ready_at);
	if (s->state == SHM_STATE_SETTLING && ch->d.timer && sooner) {
		s->ready_at = ch->d.timer;
		if (asked)
			s->wait = SHM_WAIT_ADD_AFTER;
	}
	ch->d.timer = 0;
}
