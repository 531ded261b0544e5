#include "change.h"
#include "program.h"

static void count(uint16_t *n)
{
	if (*n < UINT16_MAX)
		(*n)++;
}

/* ---- add ---- */

enum { CAUSE_MOST = 253 + 1 + NAMESPACE_MAX_LEN + 1 + NAME_MAX_LEN };

/* "kind\0namespace\0name" of the object, unless the key itself names it well enough: initial lists and sweeps
 * cause a key per object. */
static struct span cause_object(const struct wire_add_key *key, char room[CAUSE_MOST])
{
	if (!key->cause_kind.len ||
	    (span_eq(key->cause_namespace, key->namespace) && span_eq(key->cause_name, key->name)) ||
	    key->cause == WIRE_CAUSE_INITIAL || key->cause == WIRE_CAUSE_RESYNC ||
	    key->cause == WIRE_CAUSE_SWEEP)
		return (struct span){0};
	size_t n = 0;
	const struct span parts[] = {key->cause_kind, key->cause_namespace, key->cause_name};
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i].len)
			memcpy(room + n, parts[i].at, parts[i].len);
		n += parts[i].len;
		if (i < 2)
			room[n++] = '\0';
	}
	return (struct span){room, n};
}

/* Causes are a hint (`reasons`), so where the region has no cell for one it is left out and the add
 * stands. */
static void remember_cause(struct workqueue *wq, struct change *ch, const struct wire_add_key *key)
{
	char room[CAUSE_MOST];
	struct span object = cause_object(key, room);
	bool first = ch->s.count == 0;
	uint32_t ref = 0;
	if (object.len && !ch->detail && store_detail_new(wq->store, &ch->detail) < 0)
		ch->detail = 0;
	if (object.len && ch->detail && store_text_new(wq->store, object, &ref) < 0)
		ref = 0;
	uint8_t cause = (uint8_t)(key->cause < WIRE_CAUSE_COUNT ? key->cause : WIRE_CAUSE_UPDATED);
	ch->s.causes |= (uint8_t)(1u << cause);
	ch->s.ends = (uint8_t)(first ? cause | cause << 4 : (ch->s.ends & 15) | cause << 4);
	if (first) {
		ch->d.objects.first_object = ref;
	} else {
		store_release_text(wq->store, ch->d.objects.last_object);
		ch->d.objects.last_object = ref;
	}
	count(&ch->s.count);
	ch->h.cause = cause;
	for (size_t i = 0; i < object.len && i < sizeof(ch->h.text) - 1; i++)
		ch->h.text[i] = object.at[i] ? object.at[i] : ' ';
}

static int new_slot(struct workqueue *wq, uint16_t controller, const struct wire_add_key *key,
		    struct shm_slot *s, uint32_t *ret_slot)
{
	struct store *st = wq->store;
	if (!store_has_room(st))
		return -ENOSPC;
	*s = (struct shm_slot){
	    .controller = controller,
	    .namespace_len = (uint8_t)key->namespace.len,
	    .name_len = (uint8_t)key->name.len,
	};
	char bytes[KEY_MAX_LEN];
	size_t len = key->namespace.len + key->name.len;
	if (key->namespace.len)
		memcpy(bytes, key->namespace.at, key->namespace.len);
	memcpy(bytes + key->namespace.len, key->name.at, key->name.len);
	uint32_t ref = 0;
	if (len <= SHM_KEY_INLINE) {
		memcpy(s->key, bytes, len);
	} else {
		int rc = store_text_new(st, (struct span){bytes, len}, &ref);
		if (rc < 0)
			return rc;
		memcpy(s->key, &ref, sizeof(ref));
	}
	int rc = store_slot_new(st, ret_slot);
	if (rc < 0)
		store_text_drop(st, ref);
	return rc;
}

static int32_t clamp_priority(int64_t priority)
{
	return (int32_t)MAX(MIN(priority, (int64_t)1000000), (int64_t)-1000000);
}

static enum state_event add_event(const struct shm_slot *s, const struct wire_add_key *key)
{
	if (key->cause == WIRE_CAUSE_OPERATOR)
		return STATE_EVENT_CHANGE;
	if (s->state == SHM_STATE_WAITING && s->wait == SHM_WAIT_THROTTLED)
		return STATE_EVENT_MERGE;
	return key->primary_changed && !fault("leave") ? STATE_EVENT_CHANGE : STATE_EVENT_ADD;
}

/* A raise puts the key at the end of its new band, unless it is served sooner where it is. */
static void raise_ready(struct shm_slot *s, int32_t priority, int64_t now)
{
	if (priority <= s->priority)
		return;
	unsigned from = index_band(s->priority), to = index_band(priority);
	if (from == to) {
		s->priority = priority;
	} else if (now + to * INDEX_AGING < s->ready_at + from * INDEX_AGING) {
		s->priority = priority;
		s->ready_at = now;
	}
}

int workqueue_add(struct workqueue *wq, uint16_t controller, const struct wire_add_key *key, int64_t now,
		  enum shm_state *ret_state)
{
	uint32_t hash = index_hash(controller, key->namespace, key->name);
	uint32_t slot = index_find(&wq->index, hash, controller, key->namespace, key->name);
	struct shm_slot fresh = {0};
	bool new = slot == INDEX_NONE;
	if (new) {
		int rc = new_slot(wq, controller, key, &fresh, &slot);
		if (rc < 0)
			return rc;
	}
	struct change ch;
	change_begin(wq, slot, new ? SHM_HAPPENED_ADDED : SHM_HAPPENED_MERGED, now, &ch);
	if (new) {
		ch.s = fresh;
		ch.from = SHM_STATE_NONE;
		ch.detail = 0;
		memset(&ch.d, 0, sizeof(ch.d));
		memcpy(&ch.c, store_controller(wq->store, controller), sizeof(ch.c));
		ch.h.controller = controller;
		ch.h.key_hash = shm_key_hash(span_of(ch.c.name), key->namespace, key->name);
		ch.h.from = SHM_STATE_NONE;
	}
	int32_t priority = clamp_priority(key->priority);
	enum state_event event = add_event(&ch.s, key);
	change_move(&ch, event);
	bool to_ready = ch.s.state == SHM_STATE_READY && ch.from != SHM_STATE_READY;
	bool to_dirty = ch.s.state == SHM_STATE_DIRTY && ch.from == SHM_STATE_RUNNING;
	if (ch.s.count == 0)
		ch.s.added_at = now;
	if (ch.from == SHM_STATE_NONE || to_dirty)
		ch.s.priority = priority;
	else if (ch.from == SHM_STATE_READY)
		raise_ready(&ch.s, priority, now);
	else
		ch.s.priority = MAX(ch.s.priority, priority);
	if (to_ready || to_dirty)
		ch.s.ready_at = now;
	if (to_ready) {
		ch.s.wait = SHM_WAIT_NONE;
		ch.c.counters.adds++;
	} else {
		ch.c.counters.merges++;
	}
	if (key->primary_changed || key->cause == WIRE_CAUSE_OPERATOR) {
		ch.s.flags |= SHM_SLOT_CHANGED;
		attempt_changed(&ch.d);
	}
	if (ch.from == SHM_STATE_QUARANTINED && to_ready) {
		attempt_unpark(&ch.d);
		ch.h.happened = SHM_HAPPENED_CLEARED;
	}
	remember_cause(wq, &ch, key);
	change_commit(wq, &ch);
	if (new)
		index_insert(&wq->index, hash, slot);
	*ret_state = ch.s.state;
	return 0;
}

/* ---- grant ---- */

bool workqueue_ready(const struct workqueue *wq, uint16_t controller, int64_t now)
{
	const struct workqueue_controller *c = &wq->controllers[controller];
	return c->configured && (!c->rules.max_concurrent || c->running < c->rules.max_concurrent) &&
	       pause_lets(store_controller(wq->store, controller), c->running, now) &&
	       index_ready_next(&wq->index, controller) != INDEX_NONE;
}

static void lease_take(struct change *ch, const struct workqueue *wq, const struct workqueue_holder *holder,
		       uint64_t generation, int64_t now)
{
	struct shm_detail *d = &ch->d;
	d->lease_causes = ch->s.causes;
	d->lease_ends = ch->s.ends;
	d->lease_count = ch->s.count;
	d->lease_priority = ch->s.priority;
	d->lease_flags = ch->s.flags;
	d->lease_objects = d->objects;
	d->lease_added_at = ch->s.added_at;
	d->generation = generation;
	d->granted_at = now;
	d->deadline = now + wq->controllers[ch->s.controller].rules.timeout;
	d->lease_end = d->deadline + wq->write_timeout + wq->kill_grace;
	d->host_pid = holder->host_pid;
	d->host_start = holder->host_start;
	d->jail_pid = holder->jail_pid;
	d->jail_start = holder->jail_start;
	/* Nothing is pending now. */
	d->objects = (struct shm_causes){0};
	ch->s.causes = ch->s.ends = ch->s.flags = 0;
	ch->s.count = 0;
	ch->s.added_at = ch->s.ready_at = 0;
}

static void describe(const struct workqueue *wq, uint32_t slot, struct workqueue_grant *ret)
{
	const struct shm_slot *s = store_slot(wq->store, slot);
	const struct shm_detail *d = store_detail(wq->store, s->detail);
	*ret = (struct workqueue_grant){
	    .slot = slot,
	    .generation = d->generation,
	    .priority = d->lease_priority,
	    .attempt = d->attempt,
	    .last_outcome = d->attempt ? d->last_outcome : WIRE_OUTCOME_OK,
	    .reason = store_text(wq->store, d->reason),
	    .message = store_text(wq->store, d->message),
	    .deadline = d->deadline,
	    .lease_end = d->lease_end,
	};
	store_key(wq->store, s, &ret->namespace, &ret->name);
	if (d->lease_count > 0)
		ret->causes[ret->n_causes++] = (struct workqueue_cause){
		    d->lease_ends & 15, store_text(wq->store, d->lease_objects.first_object)};
	if (d->lease_count > 1)
		ret->causes[ret->n_causes++] = (struct workqueue_cause){
		    d->lease_ends >> 4, store_text(wq->store, d->lease_objects.last_object)};
}

int workqueue_grant(struct workqueue *wq, uint16_t controller, const struct workqueue_holder *holder,
		    int64_t now, struct workqueue_grant *ret)
{
	if (!workqueue_ready(wq, controller, now))
		return 0;
	uint32_t slot = index_ready_next(&wq->index, controller), fresh = 0;
	if (!store_slot(wq->store, slot)->detail && store_detail_new(wq->store, &fresh) < 0)
		return -ENOSPC;
	struct change ch;
	change_begin(wq, slot, SHM_HAPPENED_GRANTED, now, &ch);
	if (fresh)
		ch.detail = fresh;
	uint64_t generation = store_header(wq->store)->next_generation;
	store_put_generation(wq->store, generation + 1);
	change_move(&ch, STATE_EVENT_GRANT);
	ch.h.generation = generation;
	ch.h.delay = now - ch.s.ready_at;
	lease_take(&ch, wq, holder, generation, now);
	ch.c.counters.grants++;
	pause_granted(&ch.c, now);
	change_commit(wq, &ch);
	describe(wq, slot, ret);
	return 1;
}

const struct shm_detail *workqueue_lease(const struct workqueue *wq, uint64_t slot, uint64_t generation)
{
	if (slot >= store_slots(wq->store) || generation == 0)
		return NULL;
	const struct shm_slot *s = store_slot(wq->store, (uint32_t)slot);
	if (s->state != SHM_STATE_RUNNING && s->state != SHM_STATE_DIRTY)
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
	ch->s.added_at = d->lease_added_at;
	ch->s.flags |= d->lease_flags;
	ch->s.causes |= d->lease_causes;
	if (dirty && d->lease_count) {
		/* The first of the lease, the last of what came since (which may be its only one, kept as its
		 * first). */
		uint32_t last = ch->s.count > 1 ? d->objects.last_object : d->objects.first_object;
		if (ch->s.count > 1)
			store_release_text(wq->store, d->objects.first_object);
		store_release_text(wq->store, d->lease_objects.last_object);
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
	store_release_text(wq->store, d->lease_objects.first_object);
	store_release_text(wq->store, d->lease_objects.last_object);
	d->lease_objects = (struct shm_causes){0};
	d->lease_causes = d->lease_ends = d->lease_flags = 0;
	d->lease_count = 0;
	d->lease_priority = 0;
	d->lease_added_at = d->deadline = d->lease_end = 0;
	d->generation = 0;
	d->host_pid = d->jail_pid = 0;
	d->host_start = d->jail_start = 0;
}

/* Texts of the last outcome; without a cell for them the outcome stands without its words. */
static void remember_words(struct workqueue *wq, struct change *ch, const struct wire_done *done)
{
	struct shm_detail *d = &ch->d;
	store_release_text(wq->store, d->reason);
	store_release_text(wq->store, d->message);
	d->reason = d->message = 0;
	bool kept = ch->s.state != SHM_STATE_NONE && done->outcome != WIRE_OUTCOME_OK;
	if (kept && store_text_new(wq->store, done->reason, &d->reason) < 0)
		d->reason = 0;
	if (kept && store_text_new(wq->store, done->message, &d->message) < 0)
		d->message = 0;
	const struct span words[] = {done->reason, done->message};
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (n && words[i].len && n < sizeof(ch->h.text) - 1)
			ch->h.text[n++] = ' ';
		size_t part = MIN(words[i].len, sizeof(ch->h.text) - 1 - n);
		if (part)
			memcpy(ch->h.text + n, words[i].at, part);
		n += part;
	}
}

static void count_outcome(struct change *ch, const struct wire_done *done, const struct attempt_plan *p)
{
	struct shm_controller_counters *n = &ch->c.counters;
	if (done->outcome < ARRAY_SIZE(n->outcomes))
		n->outcomes[done->outcome]++;
	if (p->result < SHM_RESULT_COUNT)
		n->results[p->result]++;
	if (ch->s.state == SHM_STATE_QUARANTINED)
		n->quarantines++;
}

static void end_attempt(struct workqueue *wq, uint32_t slot, const struct wire_done *done, int64_t now,
			struct workqueue_end *ret)
{
	struct change ch;
	change_begin(wq, slot, SHM_HAPPENED_DONE, now, &ch);
	const struct workqueue_controller *c = &wq->controllers[ch.s.controller];
	bool dirty = ch.s.state == SHM_STATE_DIRTY;
	int64_t granted_at = ch.d.granted_at;
	struct attempt_plan p = attempt_end(&ch.d, done, &c->rules.attempt, dirty,
					    ch.s.flags & SHM_SLOT_CHANGED, &ch.c.bucket, &wq->random, now);
	change_move(&ch, p.event);
	enum shm_state to = ch.s.state;
	ch.h.outcome = (uint8_t)done->outcome;
	ch.h.generation = ch.d.generation;
	ch.h.duration_us = ch.d.duration_us;
	int64_t until = done->pause_controller && p.event == STATE_EVENT_HOLD ? now + p.delay : 0;
	pause_ended(&ch.c, done->outcome, ch.h.key_hash, granted_at, until,
		    done->message.len ? done->message : done->reason, now);

	if (p.event == STATE_EVENT_RETURN) {
		ch.h.happened =
		    done->outcome == WIRE_OUTCOME_WORKER_LOST ? SHM_HAPPENED_LOST : SHM_HAPPENED_DONE;
		pending_restore(wq, &ch, dirty);
	} else if (p.event != STATE_EVENT_FINISH) {
		int32_t priority = done->has_priority ? clamp_priority(done->priority) : ch.d.lease_priority;
		ch.s.priority = dirty ? MAX(ch.s.priority, priority) : priority;
	}
	ch.s.wait = (uint8_t)(to == SHM_STATE_WAITING ? p.wait : SHM_WAIT_NONE);
	if (to == SHM_STATE_WAITING || to == SHM_STATE_QUARANTINED)
		ch.h.delay = MIN(p.delay, INT64_MAX - now);
	ch.s.ready_at = now + ch.h.delay;
	if (!ch.s.added_at)
		ch.s.added_at = now;
	if (to == SHM_STATE_WAITING && p.limited)
		ch.c.counters.retries++;
	if (to == SHM_STATE_QUARANTINED)
		ch.d.quarantined_at = now;
	count_outcome(&ch, done, &p);
	lease_clear(wq, &ch);
	remember_words(wq, &ch, done);
	*ret = (struct workqueue_end){
	    .controller = ch.s.controller,
	    .to = to,
	    .wait = ch.s.wait,
	    .delay = ch.h.delay,
	    .attempt = ch.d.attempt,
	    .crashes = ch.d.crash_count,
	};
	change_commit(wq, &ch);
}

int workqueue_done(struct workqueue *wq, const struct wire_done *done, int64_t now, struct workqueue_end *ret)
{
	if (!workqueue_lease(wq, done->slot, done->generation))
		return -ESTALE;
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
	index_timer_remove(&wq->index, slot);
	index_timer_add(&wq->index, slot, now + WORKQUEUE_KILL_GRACE);
	over(ctx, slot);
}

size_t workqueue_tick(struct workqueue *wq, int64_t now, size_t most, void (*over)(void *ctx, uint32_t slot),
		      void *ctx)
{
	size_t n = 0;
	for (uint32_t slot; n < most && (slot = index_timer_due(&wq->index, now)) != INDEX_NONE; n++) {
		enum shm_state state = store_slot(wq->store, slot)->state;
		if (state == SHM_STATE_RUNNING || state == SHM_STATE_DIRTY) {
			lease_over(wq, slot, now, over, ctx);
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
			attempt_unpark(&ch.d);
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
