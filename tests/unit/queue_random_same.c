/* Looks at the real one and holds it against the model: a key, a controller. */
#include "queue_random.h"

static const char *const namespaces[MODEL_NAMESPACES] = {
    "", "shop", "b", "a-namespace-of-sixty-three-characters-is-the-longest-there-can-be"};

struct span run_name(const struct run *r, int key)
{
	return span_of(r->name[key % r->names]);
}

struct span run_namespace(const struct run *r, int key)
{
	struct span s = span_of(namespaces[model_namespace_of(&r->m, key)]);
	return (struct span){s.at, MIN(s.len, (size_t)NAMESPACE_MAX_LEN)};
}

uint32_t run_slot(const struct run *r, int key)
{
	struct span name = run_name(r, key), namespace = run_namespace(r, key);
	int controller = model_controller_of(&r->m, key);
	if (!r->m.controllers[controller].open)
		return INDEX_NONE; /* the row may be another's */
	return workqueue_slot(&r->l.wq, r->row[controller], namespace, name);
}

const struct shm_record *run_record(const struct run *r, const struct shm_slot *s)
{
	static const struct shm_record none;
	return s->record ? store_record(&r->l.store, s->record) : &none;
}

static const struct shm_detail *detail_of(const struct run *r, const struct shm_slot *s)
{
	return s->detail ? store_detail(&r->l.store, s->detail) : NULL;
}

const enum shm_state run_states[MODEL_SETTLING_DIRTY + 1] = {[MODEL_NONE] = SHM_STATE_NONE,
							     [MODEL_READY] = SHM_STATE_READY,
							     [MODEL_WAITING] = SHM_STATE_WAITING,
							     [MODEL_RUNNING] = SHM_STATE_RUNNING,
							     [MODEL_DIRTY] = SHM_STATE_DIRTY,
							     [MODEL_TIMED] = SHM_STATE_TIMED,
							     [MODEL_QUARANTINED] = SHM_STATE_QUARANTINED,
							     [MODEL_SETTLING] = SHM_STATE_SETTLING,
							     [MODEL_SETTLING_DIRTY] =
								 SHM_STATE_SETTLING_DIRTY};
const enum shm_wait run_waits[MODEL_WAIT_ADD_AFTER + 1] = {[MODEL_WAIT_NONE] = SHM_WAIT_NONE,
							   [MODEL_WAIT_BACKOFF] = SHM_WAIT_BACKOFF,
							   [MODEL_WAIT_REQUEUE_AFTER] =
							       SHM_WAIT_REQUEUE_AFTER,
							   [MODEL_WAIT_REQUEUE] = SHM_WAIT_REQUEUE,
							   [MODEL_WAIT_NOT_READY] = SHM_WAIT_NOT_READY,
							   [MODEL_WAIT_THROTTLED] = SHM_WAIT_THROTTLED,
							   [MODEL_WAIT_CONFLICT] = SHM_WAIT_CONFLICT,
							   [MODEL_WAIT_ADD_AFTER] = SHM_WAIT_ADD_AFTER};

struct wire_place run_place(int stream, uint64_t version)
{
	static const struct wire_place streams[MODEL_STREAMS] = {
	    {1, 0, 0}, {1, 1, 0}, {2, 0, 0}, {UINT32_MAX, UINT16_MAX, 0}};
	struct wire_place p =
	    stream == MODEL_NOBODY ? (struct wire_place){1, UINT16_MAX + 1, 0} : streams[stream];
	p.resource_version = version;
	return p;
}

/* What somebody waits for and the watcher was not told: it must be known that there is something to tell. */
bool run_same_watch(struct run *r)
{
	for (int i = 0; i < MODEL_STREAMS; i++)
		if (model_awaited(&r->m, i) && !r->l.wq.settle.news)
			return FAIL(r, "nobody tells the watcher that %llu of stream %d is waited for",
				    (unsigned long long)model_awaited(&r->m, i), i);
	return true;
}

static bool same_pending(struct run *r, int key, const struct shm_slot *s, const struct model_pending *p)
{
	SAME("count", s->count, p->count);
	SAME("causes", s->causes, p->causes);
	if (p->count) {
		SAME("first cause", s->ends & 15, p->first_cause);
		SAME("last cause", s->ends >> 4, p->last_cause);
	}
	SAME("changed", s->flags & SHM_SLOT_CHANGED, p->changed);
	/* A key that settles has one only for an add, or for a delay that its outcome gave it. */
	if (p->count || s->state != SHM_STATE_SETTLING || s->wait != SHM_WAIT_NONE)
		SAME("priority", s->priority, p->priority);
	SAME("added", s->added, p->added_at / SHM_ADDED_UNIT);
	return true;
}

bool run_same_key(struct run *r, int key)
{
	const struct model_key *k = &r->m.keys[key];
	uint32_t slot = run_slot(r, key);
	if (slot == INDEX_NONE) {
		SAME("state", SHM_STATE_NONE, run_states[k->state]);
		return true;
	}
	const struct shm_slot *s = store_slot(&r->l.store, slot);
	SAME("state", s->state, run_states[k->state]);
	SAME("wait", s->wait, run_waits[k->wait]);
	if (k->state != MODEL_RUNNING)
		SAME("time", s->ready_at, k->at);
	if (!same_pending(r, key, s, &k->pending))
		return false;
	const struct shm_detail *d = detail_of(r, s);
	SAME("attempt", run_record(r, s)->attempt, k->attempt);
	SAME("step", run_record(r, s)->step, k->step);
	SAME("conflicts", run_record(r, s)->conflicts, k->conflicts);
	SAME("generation", d ? d->generation : 0, k->generation);
	SAME("lease's end", d ? d->lease_end : 0, k->lease_end);
	return true;
}

bool run_same_controller(struct run *r, int controller)
{
	const struct model_controller *c = &r->m.controllers[controller];
	if (!c->open)
		return true;
	int key = controller; /* for the words of SAME */
	uint16_t row = r->row[controller];
	const struct workqueue_controller *w = &r->l.wq.controllers[row];
	const struct shm_controller *real = store_controller(&r->l.store, row);
	SAME("controller's ready keys", index_ready_len(&r->l.wq.index, row),
	     model_count(&r->m, controller, MODEL_READY));
	SAME("controller's waiting keys", w->waiting, model_count(&r->m, controller, MODEL_WAITING));
	SAME("controller's parked keys", w->quarantined, model_count(&r->m, controller, MODEL_QUARANTINED));
	SAME("controller's held keys", w->settling,
	     model_count(&r->m, controller, MODEL_SETTLING) +
		 model_count(&r->m, controller, MODEL_SETTLING_DIRTY));
	SAME("controller's leases", w->running,
	     model_count(&r->m, controller, MODEL_RUNNING) + model_count(&r->m, controller, MODEL_DIRTY) +
		 model_count(&r->m, controller, MODEL_TIMED));
	SAME("controller's adds", real->counters.adds + w->uncounted_adds, c->adds);
	SAME("controller's merges", real->counters.merges + w->uncounted_merges, c->merges);
	SAME("controller's grants", real->counters.grants, c->grants);
	SAME("controller's retries", real->counters.retries, c->retries);
	SAME("controller's quarantines", real->counters.quarantines, c->quarantines);
	SAME("controller's holds", real->counters.holds, c->holds);
	SAME("controller's holds in vain", real->counters.holds_in_vain, c->holds_in_vain);
	for (int i = 0; i < 4; i++)
		SAME("controller's results", real->counters.results[i], c->results[i]);
	for (int i = 0; i < WIRE_OUTCOME_COUNT; i++)
		SAME("controller's outcomes", real->counters.outcomes[i], c->outcomes[i]);
	SAME("controller's pause", real->pause, c->pause);
	SAME("operator's pause", real->held_since != 0, c->held);
	SAME("end of the controller's pause", real->pause_until, c->pause_until);
	int next = model_next_key(&r->m, controller, r->now);
	SAME("controller's readiness", workqueue_ready(&r->l.wq, row, r->now), next != MODEL_NOBODY);
	return true;
}
