/* The rows of controllers, and what a changed file or an operator does to their keys. */
#include "change.h"

/* ---- names of rows ---- */

static uint32_t first_place(const struct workqueue *wq, struct span name)
{
	return (uint32_t)(shm_hash(0, name) % ARRAY_SIZE(wq->rows));
}

void workqueue_rows_changed(struct workqueue *wq)
{
	memset(wq->rows, 0, sizeof(wq->rows));
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		struct span name = span_of(store_controller(wq->store, i)->name);
		index_controller(&wq->index, i, name);
		if (!name.len)
			continue;
		uint32_t at = first_place(wq, name);
		while (wq->rows[at])
			at = (at + 1) % (uint32_t)ARRAY_SIZE(wq->rows);
		wq->rows[at] = (uint8_t)(i + 1);
	}
}

/* ---- rows ---- */

static void put_row(struct workqueue *wq, uint16_t controller, const struct shm_controller *row)
{
	store_begin(wq->store, STORE_NO_SLOT);
	store_put_controller(wq->store, controller, row);
	store_commit(wq->store);
}

int workqueue_find(const struct workqueue *wq, struct span name, uint16_t *ret)
{
	if (!name.len)
		return -ENOENT;
	for (uint32_t at = first_place(wq, name); wq->rows[at];
	     at = (at + 1) % (uint32_t)ARRAY_SIZE(wq->rows)) {
		if (!span_is(name, store_controller(wq->store, wq->rows[at] - 1u)->name))
			continue;
		*ret = (uint16_t)(wq->rows[at] - 1);
		return 0;
	}
	return -ENOENT;
}

int workqueue_open(struct workqueue *wq, const char *name, uint16_t *ret, bool *ret_new)
{
	*ret_new = workqueue_find(wq, span_of(name), ret) < 0;
	if (!*ret_new)
		return 0;
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		if (store_controller(wq->store, i)->name[0])
			continue;
		struct shm_controller row = {0};
		memcpy(row.name, name, strnlen(name, sizeof(row.name) - 1));
		put_row(wq, i, &row);
		workqueue_rows_changed(wq);
		*ret = i;
		return 0;
	}
	return -ENOSPC;
}

void workqueue_configure(struct workqueue *wq, uint16_t controller, const struct workqueue_rules *rules)
{
	struct workqueue_controller *c = &wq->controllers[controller];
	c->configured = true;
	c->rules = *rules;
}

void workqueue_swept(struct workqueue *wq, uint16_t controller)
{
	struct shm_controller row = *store_controller(wq->store, controller);
	row.swept = 1;
	put_row(wq, controller, &row);
}

void workqueue_unpause(struct workqueue *wq, uint16_t controller)
{
	struct shm_controller row = *store_controller(wq->store, controller);
	if (row.pause == SHM_PAUSE_NONE && row.crashed_count == 0)
		return;
	pause_clear(&row);
	put_row(wq, controller, &row);
}

void workqueue_hold(struct workqueue *wq, uint16_t controller, int64_t now)
{
	struct shm_controller row = *store_controller(wq->store, controller);
	if (row.held_since)
		return;
	row.held_since = now;
	put_row(wq, controller, &row);
}

void workqueue_resume(struct workqueue *wq, uint16_t controller)
{
	struct shm_controller row = *store_controller(wq->store, controller);
	row.held_since = 0;
	pause_clear(&row);
	put_row(wq, controller, &row);
}

void workqueue_scale(struct workqueue *wq, uint16_t controller, uint32_t hosts)
{
	struct shm_controller row = *store_controller(wq->store, controller);
	row.scale = hosts == WIRE_SCALE_AUTO ? 0 : hosts + 1;
	put_row(wq, controller, &row);
}

static void leave_quarantine(struct workqueue *wq, uint32_t slot, int64_t now)
{
	struct change ch;
	change_begin(wq, slot, SHM_HAPPENED_CLEARED, now, &ch);
	change_move(&ch, STATE_EVENT_CLEAR);
	ch.s.ready_at = now;
	attempt_unpark(&ch.r);
	change_commit(wq, &ch);
}

uint32_t workqueue_clear(struct workqueue *wq, uint16_t controller, struct span namespace, struct span name,
			 int64_t now)
{
	uint32_t cleared = 0;
	if (name.len) {
		uint32_t slot = workqueue_slot(wq, controller, namespace, name);
		if (slot == INDEX_NONE || store_slot(wq->store, slot)->state != SHM_STATE_QUARANTINED)
			return 0;
		leave_quarantine(wq, slot, now);
		return 1;
	}
	for (uint32_t i = 0; wq->controllers[controller].quarantined > 0 && i < store_slots(wq->store); i++) {
		const struct shm_slot *s = store_slot(wq->store, i);
		if (s->state != SHM_STATE_QUARANTINED || s->controller != controller)
			continue;
		leave_quarantine(wq, i, now);
		cleared++;
	}
	return cleared;
}

uint32_t workqueue_set_digest(struct workqueue *wq, uint16_t controller, const char *digest, int64_t now)
{
	struct shm_controller row = *store_controller(wq->store, controller);
	if (strcmp(row.digest, digest) == 0)
		return 0;
	memset(row.digest, 0, sizeof(row.digest));
	memcpy(row.digest, digest, strnlen(digest, sizeof(row.digest) - 1));
	row.scale = 0;
	pause_clear(&row);
	put_row(wq, controller, &row);
	return workqueue_clear(wq, controller, (struct span){0}, (struct span){0}, now);
}

uint32_t workqueue_drop(struct workqueue *wq, uint16_t controller, int64_t now)
{
	uint32_t dropped = 0, left = 0;
	for (uint32_t i = 0; i < store_slots(wq->store); i++) {
		const struct shm_slot *s = store_slot(wq->store, i);
		if (s->state == SHM_STATE_NONE || s->controller != controller)
			continue;
		struct change ch;
		enum shm_state to = state_next(s->state, STATE_EVENT_DROP);
		if (to != SHM_STATE_NONE) {
			left++;
			continue;
		}
		change_begin(wq, i, SHM_HAPPENED_DROPPED, now, &ch);
		change_move(&ch, STATE_EVENT_DROP);
		change_commit(wq, &ch);
		dropped++;
	}
	wq->controllers[controller].configured = false;
	if (left == 0) {
		put_row(wq, controller, &(struct shm_controller){0});
		workqueue_rows_changed(wq);
	}
	return dropped;
}

struct shm_controller_counters workqueue_counters(const struct workqueue *wq, uint16_t controller)
{
	struct shm_controller_counters n = store_controller(wq->store, controller)->counters;
	n.adds += wq->controllers[controller].uncounted_adds;
	n.merges += wq->controllers[controller].uncounted_merges;
	return n;
}
