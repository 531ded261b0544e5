#include "hold.h"
#include "index_find.h"
#include "later.h"
#include "plain.h"
#include "text.h"

uint32_t workqueue_slot(const struct workqueue *wq, uint16_t controller, struct span namespace,
			struct span name)
{
	struct index_key at = index_key(&wq->index, controller, &namespace, &name);
	return index_find(&wq->index, &at);
}

/* ---- grant ---- */

/* Who is next, if anybody may be granted now. */
static uint32_t next_slot(const struct workqueue *wq, uint16_t controller, int64_t now)
{
	const struct workqueue_controller *c = &wq->controllers[controller];
	if (!c->configured || (c->rules.max_concurrent && c->running >= c->rules.max_concurrent) ||
	    !pause_lets(store_controller(wq->store, controller), c->running, now))
		return INDEX_NONE;
	return index_ready_next(&wq->index, controller);
}

bool workqueue_ready(const struct workqueue *wq, uint16_t controller, int64_t now)
{
	return next_slot(wq, controller, now) != INDEX_NONE;
}

static void lease_take(struct change *ch, struct workqueue *wq, const struct workqueue_holder *holder,
		       uint64_t generation, int64_t now)
{
	struct shm_detail *d = &ch->d;
	d->lease_causes = ch->s.causes;
	d->lease_ends = ch->s.ends;
	d->lease_count = ch->s.count;
	d->lease_priority = ch->s.priority;
	d->lease_flags = ch->s.flags & SHM_SLOT_CHANGED;
	d->lease_objects = d->objects;
	d->lease_added = ch->s.added;
	d->key_hash = ch->h.key_hash;
	d->generation = generation;
	d->granted_at = now;
	d->deadline = now + wq->controllers[ch->s.controller].rules.timeout;
	d->lease_end = d->deadline + wq->write_timeout + wq->kill_grace;
	d->host_pid = holder->host_pid;
	d->host_start = holder->host_start;
	d->jail_pid = holder->jail_pid;
	d->jail_start = holder->jail_start;
	d->objects = (struct shm_causes){0};
	hold_forget_pending(wq, ch);
	ch->s.ready_at = 0;
}

static void describe(const struct workqueue *wq, const struct change *ch, struct workqueue_grant *ret)
{
	const struct shm_detail *d = &ch->d;
	*ret = (struct workqueue_grant){
	    .slot = ch->slot,
	    .generation = d->generation,
	    .priority = d->lease_priority,
	    .deadline = d->deadline,
	    .lease_end = d->lease_end,
	};
	if (ch->has_record) {
		ret->attempt = ch->r.attempt;
		ret->last_outcome = ch->r.attempt ? ch->r.last_outcome : WIRE_OUTCOME_OK;
		ret->reason = store_text(wq->store, ch->r.reason);
		ret->message = store_text(wq->store, ch->r.message);
	}
	store_key(wq->store, store_slot(wq->store, ch->slot), &ret->namespace, &ret->name);
	if (d->lease_count > 0)
		ret->causes[ret->n_causes++] = (struct workqueue_cause){
		    d->lease_ends & 15, store_text(wq->store, d->lease_objects.first_object)};
	if (d->lease_count > 1)
		ret->causes[ret->n_causes++] = (struct workqueue_cause){
		    d->lease_ends >> 4, store_text(wq->store, d->lease_objects.last_object)};
}

static int grant(struct workqueue *wq, uint32_t slot, const struct workqueue_holder *holder, int64_t now,
		 struct workqueue_grant *ret)
{
	struct change ch;
	change_begin(wq, slot, SHM_HAPPENED_GRANTED, now, &ch);
	if (change_detail(wq, &ch) < 0) {
		store_cancel(wq->store);
		return -ENOSPC;
	}
	uint64_t generation = store_header(wq->store)->next_generation;
	store_put_generation(wq->store, generation + 1);
	change_move(&ch, STATE_EVENT_GRANT);
	ch.h.generation = generation;
	ch.h.delay = now - ch.s.ready_at;
	ch.h.count = ch.s.count;
	ch.h.causes = ch.s.causes;
	ch.h.ends = ch.s.ends;
	ch.h.pid = holder->host_pid;
	lease_take(&ch, wq, holder, generation, now);
	change_count(wq, &ch, grants);
	if (store_controller(wq->store, ch.s.controller)->pause != SHM_PAUSE_NONE)
		pause_granted(change_row(wq, &ch), now);
	change_commit(wq, &ch);
	describe(wq, &ch, ret);
	return 1;
}

/* The next grant comes soon: the place of its key in the hash table is needed when it is done. */
static void fetch_ahead(struct workqueue *wq, uint16_t controller, unsigned band)
{
	wq->ahead = index_ready_ahead(&wq->index, controller, band);
	if (wq->ahead == INDEX_NONE)
		return;
	wq->ahead_hash = index_hash_of(&wq->index, store_slot(wq->store, wq->ahead));
	index_prefetch(&wq->index, wq->ahead_hash);
}

int workqueue_grant(struct workqueue *wq, uint16_t controller, const struct workqueue_holder *holder,
		    int64_t now, struct workqueue_grant *ret)
{
	uint32_t slot = next_slot(wq, controller, now);
	if (slot == INDEX_NONE)
		return 0;
	/* What its end needs is reserved now, so that a result can always be kept. */
	if (store_records_reserve(wq->store, wq->unrecorded + 1ul) < 0)
		return -ENOSPC;
	unsigned band = index_band(store_slot(wq->store, slot)->priority);
	int rc = wq->never_plain ? 0 : plain_grant(wq, slot, holder, now, ret);
	if (rc == 0)
		rc = grant(wq, slot, holder, now, ret);
	if (rc > 0)
		fetch_ahead(wq, controller, band);
	return rc;
}

const struct shm_detail *workqueue_lease(const struct workqueue *wq, uint64_t slot, uint64_t generation)
{
	if (slot >= store_slots(wq->store) || generation == 0)
		return NULL;
	const struct shm_slot *s = store_slot(wq->store, (uint32_t)slot);
	if (!SHM_LEASED(s->state))
		return NULL;
	const struct shm_detail *d = store_detail(wq->store, s->detail);
	return d->generation == generation ? d : NULL;
}

/* ---- the end of an attempt ---- */

/* What was pending at the grant comes back, before what was added since. */
static void pending_restore(struct workqueue *wq, struct change *ch, bool dirty)
{
	struct shm_detail *d = &ch->d;
	ch->s.priority = dirty ? MAX(ch->s.priority, d->lease_priority) : d->lease_priority;
	ch->s.added = d->lease_added;
	ch->s.flags |= d->lease_flags;
	ch->s.causes |= d->lease_causes;
	if (dirty && d->lease_count) {
		/* The first of the lease, the last of what came since (which may be its only one, kept as its
		 * first). */
		uint32_t last = ch->s.count > 1 ? d->objects.last_object : d->objects.first_object;
		if (ch->s.count > 1)
			store_release(wq->store, d->objects.first_object);
		store_release(wq->store, d->lease_objects.last_object);
		d->objects = (struct shm_causes){d->lease_objects.first_object, last};
		ch->s.ends = (uint8_t)((d->lease_ends & 15) | (ch->s.ends & 0xf0));
	} else if (!dirty) {
		d->objects = d->lease_objects;
		ch->s.ends = d->lease_ends;
	}
	ch->s.count = (uint16_t)MIN((uint32_t)ch->s.count + d->lease_count, UINT16_MAX);
	d->lease_objects = (struct shm_causes){0};
}

static void lease_clear(struct workqueue *wq, struct change *ch)
{
	struct shm_detail *d = &ch->d;
	store_release(wq->store, d->lease_objects.first_object);
	store_release(wq->store, d->lease_objects.last_object);
	d->lease_objects = (struct shm_causes){0};
	d->lease_causes = d->lease_ends = d->lease_flags = 0;
	d->lease_count = 0;
	d->lease_priority = 0;
	d->lease_added = 0;
	d->deadline = d->lease_end = d->timer = 0;
	d->generation = d->key_hash = 0;
	d->host_pid = d->jail_pid = 0;
	d->host_start = d->jail_start = 0;
}

/* Texts of the last outcome; without a cell for them the outcome stands without its words. */
static void remember_words(struct workqueue *wq, struct change *ch, const struct wire_done *done)
{
	struct shm_record *r = &ch->r;
	store_release(wq->store, r->reason);
	store_release(wq->store, r->message);
	r->reason = r->message = 0;
	bool kept = ch->s.state != SHM_STATE_NONE && done->outcome != WIRE_OUTCOME_OK;
	if (kept && store_text_new(wq->store, done->reason, &r->reason) < 0)
		r->reason = 0;
	if (kept && store_text_new(wq->store, done->message, &r->message) < 0)
		r->message = 0;
	change_say(ch, done->reason);
	char said[sizeof(ch->text)];
	size_t most = sizeof(said) - MIN(done->reason.len + 1, sizeof(said) / 2);
	change_say(ch, (struct span){said, text_ends(done->message, most, said)});
}

static void count_outcome(struct workqueue *wq, const struct change *ch, const struct wire_done *done,
			  const struct attempt_plan *p)
{
	if (done->outcome < ARRAY_SIZE(((struct shm_controller_counters *)0)->outcomes))
		change_count(wq, ch, outcomes[done->outcome]);
	if (p->result < SHM_RESULT_COUNT)
		change_count(wq, ch, results[p->result]);
	if (ch->s.state == SHM_STATE_QUARANTINED)
		change_count(wq, ch, quarantines);
}

/* Most attempts end well in a controller that is well: that leaves its row as it is. */
static void end_pause(struct workqueue *wq, struct change *ch, const struct wire_done *done, int64_t until,
		      int64_t now)
{
	const struct shm_controller *row = store_controller(wq->store, ch->s.controller);
	if (done->outcome == WIRE_OUTCOME_OK && row->pause == SHM_PAUSE_NONE && row->crashed_count == 0)
		return;
	pause_ended(change_row(wq, ch), done->outcome, ch->h.key_hash, ch->d.granted_at, until,
		    done->message.len ? done->message : done->reason, now);
}

static void end_attempt(struct workqueue *wq, uint32_t slot, const struct wire_done *done, int64_t now,
			struct workqueue_end *ret)
{
	struct change ch;
	change_begin(wq, slot, SHM_HAPPENED_DONE, now, &ch);
	change_record(&ch);
	if (ch.d.events)
		hold_forget_own(wq, &ch, done);
	if (ch.s.flags & SHM_SLOT_CHANGED)
		attempt_changed(&ch.r);
	const struct workqueue_controller *c = &wq->controllers[ch.s.controller];
	if (ch.s.state == SHM_STATE_TIMED && ch.s.ready_at <= now)
		change_move(&ch, STATE_EVENT_DUE);
	bool dirty = ch.s.state == SHM_STATE_DIRTY, timed = ch.s.state == SHM_STATE_TIMED;
	int64_t timer = ch.s.ready_at;
	int64_t bucket = store_controller(wq->store, ch.s.controller)->bucket, old_bucket = bucket;
	struct attempt_plan p = attempt_end(&ch.r, done, &c->rules.attempt, ch.d.granted_at, dirty,
					    ch.s.flags & SHM_SLOT_CHANGED, &bucket, &wq->random, now);
	if (bucket != old_bucket)
		change_row(wq, &ch)->bucket = bucket;
	/* A parked key is not held: what lifts its quarantine is a later change of the one object that it wrote. */
	bool hold = p.event != STATE_EVENT_PARK && hold_is_due(done);
	if (hold && p.event == STATE_EVENT_RETURN)
		change_move(&ch, STATE_EVENT_MERGE); /* what was pending comes back */
	change_move(&ch, hold ? STATE_EVENT_SETTLE : p.event);
	enum shm_state to = ch.s.state;
	ch.h.outcome = (uint8_t)done->outcome;
	ch.h.generation = ch.d.generation;
	ch.h.duration_us = ch.r.duration_us;
	end_pause(wq, &ch, done, done->pause_controller && p.event == STATE_EVENT_HOLD ? now + p.delay : 0,
		  now);

	if (p.event == STATE_EVENT_RETURN) {
		ch.h.happened =
		    done->outcome == WIRE_OUTCOME_WORKER_LOST ? SHM_HAPPENED_LOST : SHM_HAPPENED_DONE;
		pending_restore(wq, &ch, dirty || timed);
	} else if (p.event != STATE_EVENT_FINISH) {
		int32_t priority = done->has_priority ? clamp_priority(done->priority) : ch.d.lease_priority;
		ch.s.priority = dirty || timed ? MAX(ch.s.priority, priority) : priority;
	}
	if (timed && to == SHM_STATE_WAITING)
		later_plan(&p, timer - now);
	ch.s.wait = (uint8_t)(hold || to == SHM_STATE_WAITING ? p.wait : SHM_WAIT_NONE);
	if (hold || to == SHM_STATE_WAITING || to == SHM_STATE_QUARANTINED)
		ch.h.delay = MIN(p.delay, INT64_MAX - now);
	ch.s.ready_at = now + ch.h.delay;
	if (!ch.s.added)
		ch.s.added = added_at(now);
	if ((to == SHM_STATE_WAITING || to == SHM_STATE_SETTLING) && p.limited)
		change_count(wq, &ch, retries);
	if (to == SHM_STATE_QUARANTINED)
		ch.r.quarantined_at = now;
	count_outcome(wq, &ch, done, &p);
	lease_clear(wq, &ch);
	if (hold)
		hold_begin(wq, &ch, done, timed ? timer : 0, now);
	remember_words(wq, &ch, done);
	*ret = (struct workqueue_end){
	    .controller = ch.s.controller,
	    .to = to,
	    .wait = ch.s.wait,
	    .delay = ch.h.delay,
	    .attempt = ch.r.attempt,
	    .crashes = ch.r.crash_count,
	};
	change_commit(wq, &ch);
}

int workqueue_done(struct workqueue *wq, const struct wire_done *done, int64_t now, struct workqueue_end *ret)
{
	if (!workqueue_lease(wq, done->slot, done->generation))
		return -ESTALE;
	if (wq->never_plain || !plain_done(wq, done, now, ret))
		end_attempt(wq, (uint32_t)done->slot, done, now, ret);
	return 0;
}

int workqueue_lost(struct workqueue *wq, uint32_t slot, uint64_t generation, int64_t now,
		   struct workqueue_end *ret)
{
	const struct wire_done done = {.slot = slot,
				       .generation = generation,
				       .outcome = WIRE_OUTCOME_WORKER_LOST,
				       .requeue_after_ms = -1};
	return workqueue_done(wq, &done, now, ret);
}

/* ---- time ---- */

static void lease_over(struct workqueue *wq, uint32_t slot, int64_t now,
		       void (*over)(void *ctx, uint32_t slot), void *ctx)
{
	index_timer_remove(&wq->index, INDEX_LEASES, slot);
	index_timer_add(&wq->index, INDEX_LEASES, slot, now + WORKQUEUE_KILL_GRACE);
	over(ctx, slot);
}

size_t workqueue_tick(struct workqueue *wq, int64_t now, size_t most, void (*over)(void *ctx, uint32_t slot),
		      void *ctx)
{
	size_t n = 0;
	for (uint32_t slot; n < most && (slot = index_timer_due(&wq->index, now)) != INDEX_NONE; n++) {
		enum shm_state state = store_slot(wq->store, slot)->state;
		if (SHM_LEASED(state)) {
			lease_over(wq, slot, now, over, ctx);
			continue;
		}
		if (SHM_SETTLES(state)) {
			hold_end(wq, slot, true, now);
			continue;
		}
		struct change ch;
		change_begin(wq, slot,
			     state == SHM_STATE_QUARANTINED ? SHM_HAPPENED_CLEARED : SHM_HAPPENED_DUE, now,
			     &ch);
		change_move(&ch, STATE_EVENT_DUE);
		ch.s.ready_at = now;
		ch.s.wait = SHM_WAIT_NONE;
		if (state == SHM_STATE_QUARANTINED)
			attempt_unpark(&ch.r);
		change_commit(wq, &ch);
	}
	return n;
}

int64_t workqueue_next(const struct workqueue *wq, int64_t now)
{
	int64_t next = index_timer_next(&wq->index);
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		if (wq->controllers[i].configured)
			next = MIN(next, pause_next(store_controller(wq->store, i), now));
	return next;
}
