/* Random operations on keys: add, grant, done. */
#include "queue/share.h"
#include "queue_random.h"

/* ---- operations: each says which key it touched, -1 for none or many ---- */

static int any_leased(struct run *r)
{
	int n = 0, chosen = MODEL_NOBODY;
	for (int i = 0; i < r->m.n_keys; i++)
		if (model_leased(&r->m.keys[i]) && run_draw(r, (uint64_t)++n) == 0)
			chosen = i;
	return chosen;
}

/* Much of what happens, happens to keys that run. */
static int any_key(struct run *r)
{
	int leased = !r->filling && run_one_in(r, 4) ? any_leased(r) : MODEL_NOBODY;
	if (leased != MODEL_NOBODY)
		return leased;
	int key = (int)run_draw(r, (uint64_t)r->m.n_keys);
	/* Half of the rest, to a few. */
	return r->filling || run_one_in(r, 2) ? key : key / r->names * r->names;
}

static int64_t any_priority(struct run *r)
{
	static const int64_t some[] = {0,   0,	  0, 0, 0,	 -100,	   -100,      -1,
				       -99, -101, 1, 7, 1000000, -1000000, INT64_MAX, INT64_MIN};
	return some[run_draw(r, ARRAY_SIZE(some))];
}

/* Of a key that is leased or settles, often one that its attempt wrote, or may say to have written. */
static struct model_event any_event(struct run *r, int key)
{
	const struct model_key *k = &r->m.keys[key];
	struct model_event e = {.stream = run_one_in(r, 20) ? MODEL_NOBODY : (int)run_draw(r, MODEL_STREAMS)};
	if (run_one_in(r, 4))
		return e; /* from a list: it names no version */
	if (model_settles(k) && k->n_writes && !run_one_in(r, 3)) {
		e = k->writes[run_draw(r, (uint64_t)k->n_writes)];
		return e;
	}
	e.version = ++r->version;
	if (k->generation && r->n_heard[key] < RUN_HEARD)
		r->heard[key][r->n_heard[key]++] = e;
	return e;
}

static struct model_add any_add(struct run *r, int key)
{
	struct model_add add = {.key = key,
				.priority = any_priority(r),
				.changed = run_one_in(r, 8),
				.cause = (int)run_draw(r, WIRE_CAUSE_COUNT)};
	static const int64_t delays[] = {1, 20, 1000, 60000, 3600000, WIRE_DELAY_MS_MOST};
	if (run_one_in(r, 8))
		add.delay = delays[run_draw(r, ARRAY_SIZE(delays))] * MS;
	if (run_one_in(r, 16))
		add.timer = MODEL_CANCEL;
	else if (run_one_in(r, 2))
		add.timer = MODEL_REPLACE;
	if (add.timer == MODEL_CANCEL)
		add.delay = 0;
	if (add.cause != WIRE_CAUSE_INITIAL && add.cause != WIRE_CAUSE_RESYNC &&
	    add.cause != WIRE_CAUSE_SWEEP && run_one_in(r, 3))
		add.object = 1 + (int)run_draw(r, 1000);
	add.event = any_event(r, key);
	static const char *const timers[] = {"add", "add or replace", "cancel"};
	SAY(r, "%s key %d in %lld ms priority %lld%s cause %s object %d event %d/%llu\n", timers[add.timer],
	    key, (long long)(add.delay / MS), (long long)add.priority, add.changed ? " changed" : "",
	    wire_cause_name((uint32_t)add.cause), add.object, add.event.stream,
	    (unsigned long long)add.event.version);
	return add;
}

/* object: room for the name of the one that caused it. */
static struct wire_add_key wire_of(const struct run *r, const struct model_add *add, char object[16])
{
	struct wire_place event = run_place(add->event.stream, add->event.version);
	snprintf(object, 16, "o%d", add->object);
	return (struct wire_add_key){.namespace = run_namespace(r, add->key),
				     .name = run_name(r, add->key),
				     .priority = add->priority,
				     .primary_changed = add->changed,
				     .cause = (uint32_t)add->cause,
				     .cause_kind = span_of(add->object ? "Secret.v1" : ""),
				     .cause_namespace = span_of(""),
				     .cause_name = span_of(add->object ? object : ""),
				     .table = event.table,
				     .stream = event.stream,
				     .resource_version = event.resource_version,
				     .delay_ms = add->delay / MS,
				     .timer = (uint32_t)add->timer};
}

/* Where there is no room for its events, the add of a leased key is somebody else's. */
static void maybe_news(struct run *r, int key)
{
	uint32_t slot = run_slot(r, key);
	if (r->tight && slot != INDEX_NONE && r->m.keys[key].state == MODEL_DIRTY)
		r->m.keys[key].news |= (store_slot(&r->l.store, slot)->flags & SHM_SLOT_NEWS) != 0;
}

bool run_add(struct run *r, int *touched)
{
	int key = any_key(r), controller = model_controller_of(&r->m, key);
	if (!r->m.controllers[controller].configured)
		return true;
	struct model_add add = any_add(r, key);
	char object[16];
	struct wire_add_key wire = wire_of(r, &add, object);
	bool new = r->m.keys[key].state == MODEL_NONE;
	enum shm_state state;
	int rc = workqueue_add(&r->l.wq, r->row[controller], &wire, r->now, &state);
	*touched = key;
	if (rc == -ENOSPC && new && r->tight) {
		r->refused++;
		return true;
	}
	if (rc < 0)
		return FAIL(r, "add of key %d: %d", key, rc);
	model_add(&r->m, &add, r->now);
	maybe_news(r, key);
	SAME("state that add answers", state, run_states[r->m.keys[key].state]);
	return true;
}

/* Some keys of one controller, a key perhaps more than once: as they come from the watcher. */
bool run_batch(struct run *r, int *touched)
{
	(void)touched;
	struct model_add adds[RUN_BATCH_MOST];
	struct wire_add_key wire[RUN_BATCH_MOST];
	char objects[RUN_BATCH_MOST][16];
	enum shm_state states[RUN_BATCH_MOST];
	int controller = (int)run_draw(r, MODEL_CONTROLLERS);
	size_t n = 1 + run_draw(r, RUN_BATCH_MOST);
	int keys = r->m.n_keys / MODEL_CONTROLLERS;
	if (!r->m.controllers[controller].configured || (r->filling && run_one_in(r, 2)))
		return true;
	SAY(r, "a batch of %zu\n", n);
	for (size_t i = 0; i < n; i++) {
		int key = controller * keys + (int)run_draw(r, (uint64_t)keys);
		adds[i] = any_add(r, key);
		wire[i] = wire_of(r, &adds[i], objects[i]);
	}
	size_t stored = workqueue_add_batch(&r->l.wq, r->row[controller], wire, n, r->now, states);
	if (stored > n || (stored < n && !r->tight))
		return FAIL(r, "%zu of a batch of %zu are stored", stored, n);
	enum model_state want[RUN_BATCH_MOST];
	for (size_t i = 0; i < stored; i++) {
		model_add(&r->m, &adds[i], r->now);
		want[i] = r->m.keys[adds[i].key].state;
	}
	if (stored < n && r->m.keys[adds[stored].key].state != MODEL_NONE)
		return FAIL(r, "a key that is there is refused for want of room");
	r->refused += stored < n;
	r->batches++;
	for (size_t i = 0; i < stored; i++) {
		int key = adds[i].key;
		maybe_news(r, key);
		SAME("state that a batch answers", states[i], run_states[want[i]]);
		if (!run_same_key(r, key))
			return false;
	}
	return true;
}

static bool same_cause(struct run *r, int key, const char *which, const struct workqueue_cause *real,
		       int event, int object)
{
	char want[32] = "";
	size_t len = 0;
	if (object)
		len = (size_t)snprintf(want, sizeof(want), "Secret.v1%c%co%d", 0, 0, object);
	SAME(which, real->event, event);
	if (!r->tight && !span_eq(real->object, (struct span){want, len}))
		return FAIL(r, "key %d: the object of the %s is another", key, which);
	return true;
}

/* Whose turn it is under the cap: of the rows behind the last one that was served, the first that could be. */
static int whose_turn(const struct run *r, uint64_t idle)
{
	for (unsigned n = 1; n <= SHM_CONTROLLERS_MAX; n++)
		for (int c = 0; c < MODEL_CONTROLLERS; c++)
			if (r->m.controllers[c].open && r->row[c] == (r->served + n) % SHM_CONTROLLERS_MAX &&
			    (idle & UINT64_C(1) << c) && model_next_key(&r->m, c, r->now) != MODEL_NOBODY)
				return c;
	return MODEL_NOBODY;
}

/* A host that becomes idle in its turn, while those of some other controllers are. */
static bool next_under_cap(struct run *r, int *ret_controller)
{
	uint64_t idle = run_draw(r, 1u << MODEL_CONTROLLERS), rows = 0;
	uint32_t leases = 0, want = 0;
	for (int c = 0; c < MODEL_CONTROLLERS; c++) {
		if (!r->m.controllers[c].open)
			continue;
		rows |= (idle >> c & 1) << r->row[c];
		leases += r->l.wq.controllers[r->row[c]].running;
	}
	for (int i = 0; i < r->m.n_keys; i++)
		want += model_leased(&r->m.keys[i]);
	if (leases != want || leases > r->cap)
		return FAIL(r, "%u leases under a cap of %u, the model has %u", leases, r->cap, want);
	int row = leases < r->cap ? share_next(share_wanting(&r->l.wq, rows, r->now), r->served) : -1;
	int turn = leases < r->cap ? whose_turn(r, idle) : MODEL_NOBODY;
	r->capped += leases == r->cap;
	if (row != (turn == MODEL_NOBODY ? -1 : r->row[turn]))
		return FAIL(r, "it is the turn of row %d, the model has controller %d", row, turn);
	*ret_controller = turn;
	return true;
}

bool run_grant(struct run *r, int *touched)
{
	int controller = (int)run_draw(r, MODEL_CONTROLLERS);
	if (!r->m.controllers[controller].open || (r->filling && !run_one_in(r, 20)))
		return true;
	if (r->cap && !next_under_cap(r, &controller))
		return false;
	if (controller == MODEL_NOBODY)
		return true;
	int key = model_next_key(&r->m, controller, r->now);
	struct workqueue_grant g;
	int rc = workqueue_grant(&r->l.wq, r->row[controller], &lib_holder, r->now, &g);
	SAY(r, "grant of %s: key %d\n", run_controllers[controller], key);
	*touched = key;
	if (rc == -ENOSPC && r->tight) {
		r->refused++;
		return true;
	}
	if (rc != (key != MODEL_NOBODY))
		return FAIL(r, "grant answers %d, the model has key %d", rc, key);
	if (!rc)
		return true;
	if (!span_eq(g.name, run_name(r, key)) || !span_eq(g.namespace, run_namespace(r, key)))
		return FAIL(r,
			    "granted " SPAN_FMT "/" SPAN_FMT ", the model has key %d, " SPAN_FMT "/" SPAN_FMT,
			    SPAN_ARG(g.namespace), SPAN_ARG(g.name), key, SPAN_ARG(run_namespace(r, key)),
			    SPAN_ARG(run_name(r, key)));
	if (g.generation <= r->last_generation)
		return FAIL(r, "generation %llu after %llu", (unsigned long long)g.generation,
			    (unsigned long long)r->last_generation);
	r->last_generation = g.generation;
	model_grant(&r->m, key, g.generation, r->now);
	r->served = r->row[controller];
	r->n_heard[key] = 0;
	const struct model_key *k = &r->m.keys[key];
	const struct model_pending *p = &k->leased;
	SAME("granted priority", g.priority, p->priority);
	SAME("granted attempt", g.attempt, k->attempt);
	SAME("last outcome", g.last_outcome, k->attempt ? k->last_outcome : WIRE_OUTCOME_OK);
	SAME("deadline", g.deadline, k->deadline);
	SAME("lease's end", g.lease_end, k->lease_end);
	SAME("number of causes", g.n_causes, MIN(p->count, 2u));
	if (p->count > 0 && !same_cause(r, key, "first cause", &g.causes[0], p->first_cause, p->first_object))
		return false;
	return p->count < 2 || same_cause(r, key, "last cause", &g.causes[1], p->last_cause, p->last_object);
}

static bool drop_again(struct run *r, int controller)
{
	if (!r->m.controllers[controller].open || r->m.controllers[controller].configured)
		return true;
	int key = controller;
	uint32_t n = workqueue_drop(&r->l.wq, r->row[controller], r->now);
	SAME("number of dropped keys", n, model_drop(&r->m, controller));
	return true;
}

static bool end_lease(struct run *r, int key, const struct model_done *d)
{
	uint32_t slot = run_slot(r, key);
	const struct model_key *k = &r->m.keys[key];
	struct wire_write writes[MODEL_WRITES_MAX];
	for (int i = 0; i < d->n_writes; i++) {
		struct wire_place p = run_place(d->writes[i].stream, d->writes[i].version);
		writes[i] = (struct wire_write){p.table, p.stream, p.resource_version, d->writes[i].own};
	}
	struct wire_done wire = {.slot = slot,
				 .generation = k->generation,
				 .outcome = (uint32_t)d->outcome,
				 .requeue_after_ms = d->asked ? d->asked / MS : -1,
				 .requeue = d->requeue,
				 .has_priority = d->has_priority,
				 .priority = d->priority,
				 .pause_controller = d->pause_controller,
				 .writes = {writes, (size_t)d->n_writes},
				 .reason = span_of("Reason"),
				 .message = span_of("what was said")};
	SAY(r, "done of key %d: %s, asks for %lld ms%s%s%s\n", key, wire_outcome_name((uint32_t)d->outcome),
	    (long long)(d->asked / MS), d->requeue ? ", requeue" : "", d->has_priority ? ", priority" : "",
	    d->pause_controller ? ", pauses" : "");
	for (int i = 0; i < d->n_writes; i++)
		SAY(r, "  wrote %d/%llu%s\n", d->writes[i].stream, (unsigned long long)d->writes[i].version,
		    d->writes[i].own ? "" : ", perhaps not alone");
	bool dirty = k->state == MODEL_DIRTY;
	struct model_end want = model_plan(&r->m, key, d, r->now);
	struct workqueue_end end;
	int rc = d->outcome == WIRE_OUTCOME_WORKER_LOST
		     ? workqueue_lost(&r->l.wq, slot, k->generation, r->now, &end)
		     : workqueue_done(&r->l.wq, &wire, r->now, &end);
	if (rc < 0)
		return FAIL(r, "done of key %d: %d", key, rc);
	SAME("state that done leads to", end.to, run_states[want.to]);
	SAME("wait that done leads to", end.wait, run_waits[want.wait]);
	SAME("attempt after done", end.attempt, want.attempt);
	if (end.delay < want.least || end.delay > want.most)
		return FAIL(r, "key %d: the delay is %lld, the model has %lld to %lld", key,
			    (long long)end.delay, (long long)want.least, (long long)want.most);
	int64_t backoff = 0;
	if (want.limited) {
		backoff = run_record(r, store_slot(&r->l.store, slot))->backoff_until - r->now;
		if (backoff < want.backoff_least || backoff > want.backoff_most)
			return FAIL(r, "key %d: the backoff is %lld, the model has %lld to %lld", key,
				    (long long)backoff, (long long)want.backoff_least,
				    (long long)want.backoff_most);
	}
	r->forgotten += dirty && k->state != MODEL_DIRTY;
	model_ended(&r->m, key, d, &want, end.delay, backoff, r->now);
	/* Where there is no room for what it wrote, it waits for nothing but its time. */
	if (r->tight && model_settles(k) &&
	    !store_detail(&r->l.store, store_slot(&r->l.store, slot)->detail)->events)
		r->m.keys[key].n_writes = 0;
	return drop_again(r, model_controller_of(&r->m, key));
}

static void any_writes(struct run *r, int key, struct model_done *d)
{
	if (run_one_in(r, 2))
		return;
	for (int i = 0; i < r->n_heard[key]; i++)
		if (!run_one_in(r, 8))
			d->writes[d->n_writes++] = r->heard[key][i];
	for (uint64_t n = run_draw(r, 3); n > 0 && d->n_writes < MODEL_WRITES_MAX; n--)
		d->writes[d->n_writes++] = (struct model_event){
		    .stream = run_one_in(r, 10) ? MODEL_NOBODY : (int)run_draw(r, MODEL_STREAMS),
		    .version = run_one_in(r, 10) ? 0 : ++r->version};
	for (int i = 0; i < d->n_writes; i++)
		d->writes[i].own = !run_one_in(r, 8);
}

bool run_done(struct run *r, int *touched)
{
	int key = any_leased(r);
	if (key == MODEL_NOBODY)
		return true;
	static const int64_t asks[] = {1, 500, 30000, 3600000, INT64_C(86400000) * 365};
	struct model_done d = {.outcome =
				   run_one_in(r, 3) ? (int)run_draw(r, WIRE_OUTCOME_COUNT) : WIRE_OUTCOME_OK,
			       .requeue = run_one_in(r, 6),
			       .has_priority = run_one_in(r, 6),
			       .pause_controller = run_one_in(r, 20)};
	if (run_one_in(r, 4) || r->crashing)
		d.outcome = WIRE_OUTCOME_CRASHED + (int)run_draw(r, 2);
	if (run_one_in(r, 4))
		d.asked = asks[run_draw(r, ARRAY_SIZE(asks))] * MS;
	if (d.has_priority)
		d.priority = any_priority(r);
	if (d.outcome != WIRE_OUTCOME_WORKER_LOST) /* it took its list along */
		any_writes(r, key, &d);
	*touched = key;
	return end_lease(r, key, &d);
}

bool run_stale(struct run *r, int *touched)
{
	int key = any_leased(r);
	struct wire_done wire = {.slot = key == MODEL_NOBODY ? run_draw(r, 2000) : run_slot(r, key),
				 .generation = r->last_generation + 1 - run_draw(r, 3),
				 .requeue_after_ms = -1};
	static const uint64_t odd[] = {UINT64_MAX, UINT32_MAX, UINT64_C(1) << 32, 1u << 31};
	if (run_one_in(r, 4))
		wire.slot = odd[run_draw(r, ARRAY_SIZE(odd))];
	if (run_one_in(r, 4))
		wire.generation = run_one_in(r, 2) ? 0 : UINT64_MAX;
	*touched = key;
	if (key != MODEL_NOBODY && r->m.keys[key].generation == wire.generation)
		return true;
	struct workqueue_end end;
	int rc = workqueue_done(&r->l.wq, &wire, r->now, &end);
	return rc == -ESTALE || FAIL(r, "a stale done answers %d", rc);
}
