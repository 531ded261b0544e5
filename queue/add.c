/* Adds: a key that is not there is stored, one that is there is merged into, by what the state table says. */
#include "hold.h"
#include "index_find.h"
#include "later.h"
#include "plain.h"
#include "program.h"

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
