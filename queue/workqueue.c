#include "hold.h"
#include "index_find.h"
#include "later.h"
#include "plain.h"
#include "program.h"
#include "text.h"

static uint32_t added_at(int64_t now)
{
	return (uint32_t)(now / SHM_ADDED_UNIT);
}

/* ---- add ---- */

enum { CAUSE_MOST = 253 + 1 + NAMESPACE_MAX_LEN + 1 + NAME_MAX_LEN };

/* "kind\0namespace\0name" of the object, unless the key itself names it well enough. */
static struct span cause_object(const struct wire_add_key *key, char room[CAUSE_MOST])
{
	size_t n = 0;
	if (cause_is_own(key))
		return (struct span){0};
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
static void remember_cause(struct workqueue *wq, struct change *ch, const struct wire_add_key *key,
			   struct span object)
{
	uint32_t ref = 0;
	if (object.len && change_detail(wq, ch) == 0 && store_text_new(wq->store, object, &ref) < 0)
		ref = 0;
	if (ch->s.count == 0) {
		ch->d.objects.first_object = ref;
	} else {
		store_release(wq->store, ch->d.objects.last_object);
		ch->d.objects.last_object = ref;
	}
	ch->s.pending = pending_merge(ch->s.pending, key);
	ch->h.ends = cause_of(key);
	change_say(ch, object);
}

static int32_t clamp_priority(int64_t priority)
{
	return (int32_t)MAX(MIN(priority, (int64_t)1000000), (int64_t)-1000000);
}

static enum state_event add_event(struct shm_pending p, const struct wire_add_key *key)
{
	if (key->delay_ms)
		return STATE_EVENT_AFTER;
	if (key->cause == WIRE_CAUSE_OPERATOR)
		return STATE_EVENT_CHANGE;
	if (p.state == SHM_STATE_WAITING && p.wait == SHM_WAIT_THROTTLED)
		return STATE_EVENT_MERGE;
	return key->primary_changed && !fault("leave") ? STATE_EVENT_CHANGE : STATE_EVENT_ADD;
}

/* ---- a key that is not there ---- */

struct cells { /* of a new key */
	uint32_t slot, name, detail;
};

/* What does not fit into the slot, and the slot. */
static int take_cells(struct workqueue *wq, const struct index_key *key, struct span object,
		      struct cells *ret)
{
	struct store *st = wq->store;
	*ret = (struct cells){0};
	int rc = key->name->len > SHM_NAME_INLINE ? store_text_new(st, *key->name, &ret->name) : 0;
	if (rc == 0)
		rc = store_slot_new(st, &ret->slot);
	if (rc == 0 && (rc = index_reserve(&wq->index, key, ret->slot)) < 0)
		store_slot_drop(st, ret->slot);
	if (rc < 0) {
		store_text_drop(st, ret->name);
		return rc;
	}
	/* As remember_cause: without a cell for the object the add stands. */
	struct shm_detail d = {0};
	if (object.len && store_text_new(st, object, &d.objects.first_object) == 0) {
		if (store_detail_new(st, &ret->detail) == 0)
			store_detail_fill(st, ret->detail, &d);
		else
			store_text_drop(st, d.objects.first_object);
	}
	return 0;
}

static void say_added(struct store *st, struct shm_history h, struct span object)
{
	char text[CAUSE_MOST];
	for (size_t i = 0; i < object.len; i++)
		text[i] = object.at[i] ? object.at[i] : ' '; /* as change_say does */
	store_history(st, &h, (struct span){text, object.len});
}

static __attribute__((noinline)) int add_new(struct workqueue *wq, const struct index_key *at,
					     const struct wire_add_key *key, struct span object, int64_t now,
					     enum shm_state *ret_state)
{
	struct store *st = wq->store;
	struct cells cells;
	uint32_t namespace;
	int rc = store_has_room(st) ? index_namespace(&wq->index, at, &namespace) : -ENOSPC;
	if (rc < 0)
		return rc;
	rc = take_cells(wq, at, object, &cells);
	if (rc < 0) {
		index_namespace_drop(&wq->index, namespace);
		return rc;
	}
	struct shm_pending p = {.flags = SHM_SLOT_ADDED,
				.wait = key->delay_ms ? SHM_WAIT_ADD_AFTER : SHM_WAIT_NONE};
	p.state = (uint8_t)state_next(SHM_STATE_NONE, add_event(p, key));
	p = pending_merge(p, key);
	struct shm_slot *s = store_fill(st, cells.slot);
	s->namespace_number = namespace;
	s->ready_at = now + key->delay_ms * NS_PER_MS;
	s->priority = clamp_priority(key->priority);
	s->added = added_at(now);
	s->detail = cells.detail;
	s->record = 0;
	s->controller = (uint8_t)at->controller;
	s->name_len = (uint8_t)at->name->len;
	if (cells.name)
		memcpy(s->name, &cells.name, sizeof(cells.name));
	else
		memcpy(s->name, at->name->at, at->name->len);
	store_publish(s, p);
	index_insert(&wq->index, at->hash, cells.slot, namespace);
	wq->controllers[at->controller].uncounted_adds++;
	if (p.state == SHM_STATE_READY)
		index_ready_add(&wq->index, cells.slot, namespace, index_band(s->priority));
	else
		change_index(wq, cells.slot);
	if (index_ready_len(&wq->index, at->controller) == 1) {
		wq->ahead = cells.slot; /* its grant wants the hash */
		wq->ahead_hash = at->hash;
	}
	const struct shm_history h = {
	    .at = now,
	    .key_hash = at->hash,
	    .priority = clamp_priority(key->priority),
	    .controller = (uint8_t)at->controller,
	    .happened = SHM_HAPPENED_ADDED,
	    .to = p.state,
	    .ends = cause_of(key),
	};
	if (object.len)
		say_added(st, h, object);
	else
		store_history_plain(st, h);
	*ret_state = p.state;
	return 0;
}

/* ---- a key that is there ---- */

/* Is this the object that the pending part has as its last? */
static bool same_object(const struct workqueue *wq, const struct shm_slot *s, struct span object)
{
	uint32_t last = s->detail ? store_detail(wq->store, s->detail)->objects.last_object : 0;
	return object.len ? last && s->count > 1 && span_eq(store_text(wq->store, last), object) : !last;
}

/* A merge that moves nothing is one store. */
static bool merge_in_place(struct workqueue *wq, uint32_t slot, const struct wire_add_key *key,
			   enum state_event event, struct span object)
{
	struct shm_slot *s = store_slot_at(wq->store, slot);
	enum shm_state state = shm_pending_of(s->word).state;
	return state_next(state, event) == state && (!key->delay_ms || later_is_now(state)) &&
	       !(says_changed(key) && s->record) && same_object(wq, s, object) && !hold_may_be_own(s) &&
	       !(key->cause == WIRE_CAUSE_OPERATOR && s->wait != SHM_WAIT_NONE) &&
	       pending_merge_in_place(wq, s, key);
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

static void merge(struct workqueue *wq, uint32_t slot, const struct wire_add_key *key, enum state_event event,
		  struct span object, int64_t now)
{
	struct change ch;
	change_begin(wq, slot, SHM_HAPPENED_MERGED, now, &ch);
	int32_t priority = clamp_priority(key->priority);
	change_move(&ch, event);
	bool to_ready = ch.s.state == SHM_STATE_READY && ch.from != SHM_STATE_READY;
	/* The first of a pending part. A key that settles has a priority of its own only if its outcome gave it a delay. */
	bool first = ch.from == SHM_STATE_RUNNING ||
		     (ch.from == SHM_STATE_SETTLING && ch.s.count == 0 && ch.s.wait == SHM_WAIT_NONE);
	if (ch.s.state == SHM_STATE_DIRTY && !key->delay_ms)
		hold_remember_event(wq, &ch, key);
	/* Whatever was to be waited for: READY when it is held no longer. */
	if (ch.s.state == SHM_STATE_SETTLING_DIRTY && event == STATE_EVENT_CHANGE &&
	    key->cause == WIRE_CAUSE_OPERATOR)
		ch.s.wait = SHM_WAIT_NONE;
	if (ch.s.count == 0)
		ch.s.added = added_at(now);
	if (first)
		ch.s.priority = priority;
	else if (ch.from == SHM_STATE_READY)
		raise_ready(&ch.s, priority, now);
	else
		ch.s.priority = MAX(ch.s.priority, priority);
	if (key->delay_ms)
		later_add(&ch, key, says_changed(key), now + key->delay_ms * NS_PER_MS);
	else
		later_keep(&ch);
	if (to_ready || (!key->delay_ms && ch.s.state != ch.from && !SHM_SETTLES(ch.s.state)))
		ch.s.ready_at = now;
	if (to_ready) {
		ch.s.wait = SHM_WAIT_NONE;
		ch.adds++;
	} else {
		ch.merges++;
	}
	/* Of a leased key it may show only at the end that the change was its attempt's own. */
	if (says_changed(key) && ch.has_record && !hold_may_be_own(&ch.s))
		attempt_changed(&ch.r);
	if (ch.from == SHM_STATE_QUARANTINED && to_ready) {
		attempt_unpark(&ch.r);
		ch.h.happened = SHM_HAPPENED_CLEARED;
	}
	remember_cause(wq, &ch, key, object);
	change_commit(wq, &ch);
}

/* An add that is more than what add() does itself. slot: INDEX_NONE where the key is not there. */
static __attribute__((noinline)) int add_caused(struct workqueue *wq, const struct index_key *at,
						uint32_t slot, const struct wire_add_key *key, int64_t now,
						enum shm_state *ret_state)
{
	char room[CAUSE_MOST];
	struct span object = cause_object(key, room);
	if (slot == INDEX_NONE)
		return add_new(wq, at, key, object, now, ret_state);
	const struct shm_slot *s = store_slot(wq->store, slot);
	enum state_event event = add_event(s->pending, key);
	if (!hold_shows_own(wq, s, key) && !merge_in_place(wq, slot, key, event, object))
		merge(wq, slot, key, event, object, now);
	*ret_state = s->state;
	return 0;
}

static __attribute__((noinline)) int cancel(struct workqueue *wq, const struct index_key *at, int64_t now,
					    enum shm_state *ret_state)
{
	uint32_t slot = workqueue_slot(wq, at->controller, *at->namespace, *at->name);
	if (slot != INDEX_NONE)
		later_cancel(wq, slot, now);
	slot = workqueue_slot(wq, at->controller, *at->namespace, *at->name);
	*ret_state = slot == INDEX_NONE ? SHM_STATE_NONE : store_slot(wq->store, slot)->state;
	return 0;
}

static int add(struct workqueue *wq, const struct index_key *at, const struct wire_add_key *key, int64_t now,
	       enum shm_state *ret_state)
{
	if (key->timer == WIRE_TIMER_CANCEL)
		return cancel(wq, at, now, ret_state);
	uint32_t slot = index_find(&wq->index, at);
	if (slot == INDEX_NONE && cause_is_own(key))
		return add_new(wq, at, key, (struct span){0}, now, ret_state);
	if (slot != INDEX_NONE)
		index_remember(&wq->index, at, slot);
	if (slot == INDEX_NONE || wq->never_plain || !plain_merge(wq, store_slot_at(wq->store, slot), key))
		return add_caused(wq, at, slot, key, now, ret_state);
	*ret_state = SHM_STATE_READY;
	return 0;
}

static __attribute__((noinline)) int add_any(struct workqueue *wq, uint16_t controller,
					     const struct wire_add_key *key, int64_t now,
					     enum shm_state *ret_state)
{
	struct index_key at = index_key(&wq->index, controller, &key->namespace, &key->name);
	return add(wq, &at, key, now, ret_state);
}

/* Most adds are of keys that are in, and one store. What it calls otherwise it calls at its end, so there is nothing to be put aside. */
__attribute__((flatten)) int workqueue_add(struct workqueue *wq, uint16_t controller,
					   const struct wire_add_key *key, int64_t now,
					   enum shm_state *ret_state)
{
	struct shm_slot *s = key->timer == WIRE_TIMER_CANCEL || wq->never_plain
				 ? NULL
				 : index_recent_find(&wq->index, controller, key->namespace, key->name);
	if (!s || !plain_merge(wq, s, key))
		return add_any(wq, controller, key, now, ret_state);
	*ret_state = SHM_STATE_READY;
	return 0;
}

size_t workqueue_add_batch(struct workqueue *wq, uint16_t controller, const struct wire_add_key *keys,
			   size_t n, int64_t now, enum shm_state *ret_states)
{
	enum { AHEAD = 16 };
	struct index_key at[AHEAD];
	bool recent[AHEAD];
	for (size_t from = 0; from < n; from += AHEAD) {
		size_t len = MIN(n - from, (size_t)AHEAD);
		for (size_t i = 0; i < len; i++) {
			const struct wire_add_key *key = &keys[from + i];
			recent[i] =
			    index_recent_slot(&wq->index, index_recent_place(controller, key->namespace,
									     key->name)) != INDEX_NONE;
			if (recent[i])
				continue;
			at[i] = index_key(&wq->index, controller, &key->namespace, &key->name);
			index_prefetch(&wq->index, at[i].hash);
		}
		for (size_t i = 0; i < len; i++) {
			const struct wire_add_key *key = &keys[from + i];
			enum shm_state state;
			int rc = recent[i] ? workqueue_add(wq, controller, key, now, &state)
					   : add(wq, &at[i], key, now, &state);
			if (rc < 0)
				return from + i;
			if (ret_states)
				ret_states[from + i] = state;
		}
	}
	return n;
}

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
