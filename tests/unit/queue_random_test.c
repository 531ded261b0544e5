/* Random operations on the workqueue and on a model of it, compared after each one: what was answered, the state
 * of every key, who is next, times, counts.
 *
 *   QUEUE_SEED=N    one run with this seed instead of the usual ones
 *   QUEUE_STEPS=N   operations of each run
 *
 * An operation is a number from which everything random in it is drawn, so any part of a run is a run, too: one
 * that fails is made shorter as long as it fails, and what is left is printed. */
#include "queue_random.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { STEPS = 50000 };
#else
enum { STEPS = 250000 };
#endif
enum { SHRINK_SECONDS = 15, THIN = 2 /* exit status: all agreed, but not everything happened */ };

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t draw(struct run *r, uint64_t below)
{
	r->random = mix(r->random);
	return r->random % below;
}

static bool one_in(struct run *r, uint64_t n)
{
	return draw(r, n) == 0;
}

/* ---- keys, controllers, rules ---- */

static const char *const controller_names[MODEL_CONTROLLERS] = {"web", "database", "a"};

/* Every fifth is too long to be kept in a slot, every tenth as long as may be. */
static void make_names(struct run *r)
{
	for (int n = 0; n < r->names; n++) {
		char *name = r->name[n];
		size_t len = (size_t)snprintf(name, sizeof(r->name[n]), "key-%d", n);
		size_t want = n % 5 < 4 ? len : n % 2 ? NAME_MAX_LEN : 100;
		memset(name + len, 'x', want - len);
		name[want] = '\0';
	}
}

static struct model_rules rules_of(const struct run *r, int controller)
{
	static const struct model_rules table[MODEL_CONTROLLERS] = {
	    {5 * MS, 1000 * S, 0.1, 10, 100, 5, 0, 600 * S, 3600 * S, 30 * S},
	    {1 * MS, 3600 * S, 0, 0, 1, 2, 3, 60 * S, 10 * S, 1 * S},
	    {1000 * MS, 60 * S, 1, 0.5, 3, 20, 0, 86400 * S, 60 * S, 3600 * S},
	};
	struct model_rules rules = table[controller];
	if (r->tight)
		rules.max_concurrent = 0;
	return rules;
}

static struct workqueue_rules real_rules(const struct model_rules *m)
{
	return (struct workqueue_rules){
	    .attempt = {.limits = {m->base_delay, m->max_delay, m->jitter, m->qps, m->burst},
			.crashes = m->crashes,
			.within = m->within,
			.park_for = m->park_for},
	    .max_concurrent = m->max_concurrent,
	    .timeout = m->timeout,
	};
}

static bool open_controller(struct run *r, int controller)
{
	bool new;
	struct model_rules rules = rules_of(r, controller);
	struct workqueue_rules real = real_rules(&rules);
	if (workqueue_open(&r->l.wq, controller_names[controller], &r->row[controller], &new) < 0)
		return FAIL(r, "no row for %s", controller_names[controller]);
	if (new == r->m.controllers[controller].open)
		return FAIL(r, "the row of %s is %s", controller_names[controller], new ? "new" : "there");
	workqueue_configure(&r->l.wq, r->row[controller], &real);
	model_open(&r->m, controller, &rules);
	return true;
}

static bool run_init(struct run *r, uint64_t seed, bool verbose)
{
	*r = (struct run){.seed = seed, .verbose = verbose, .names = 6};
	r->tight = seed % 4 == 3;
	r->limit = LIB_BYTES;
	if (r->tight) {
		r->names = MODEL_NAMES_MAX;
		r->limit = 12 * (uint64_t)SHM_BLOCK;
	}
	make_names(r);
	static const int64_t starts[] = {1 * S, 1000 * S, 2000 * S + 17, INT64_C(300000000) * S};
	r->now = starts[seed / 4 % ARRAY_SIZE(starts)];
	lib_init_limit(&r->l, r->limit);
	r->spare = xcalloc(LIB_BYTES, 1);
	workqueue_drop(&r->l.wq, r->l.c, r->now);
	model_init(&r->m, r->names);
	for (int c = 0; c < MODEL_CONTROLLERS; c++)
		if (!open_controller(r, c))
			return false;
	return true;
}

static void run_done(struct run *r)
{
	lib_done(&r->l);
	model_free(&r->m);
	free(r->spare);
}

static bool same(struct run *r, bool all, int touched)
{
	if (!all)
		return touched < 0 || run_same_key(r, touched);
	for (int i = 0; i < r->m.n_keys; i++)
		if (!run_same_key(r, i))
			return false;
	for (int c = 0; c < MODEL_CONTROLLERS; c++)
		if (!run_same_controller(r, c))
			return false;
	int64_t next = workqueue_next(&r->l.wq, r->now), want = model_next_time(&r->m, r->now);
	if (next != want)
		return FAIL(r, "the next time is %lld, the model has %lld", (long long)next, (long long)want);
	return true;
}

/* ---- operations: each says which key it touched, -1 for none or many ---- */

static int any_key(struct run *r)
{
	int key = (int)draw(r, (uint64_t)r->m.n_keys);
	/* Half of what happens, happens to a few. */
	return r->filling || one_in(r, 2) ? key : key / r->names * r->names;
}

static int64_t any_priority(struct run *r)
{
	static const int64_t some[] = {0,   0,	  0, 0, 0,	 -100,	   -100,      -1,
				       -99, -101, 1, 7, 1000000, -1000000, INT64_MAX, INT64_MIN};
	return some[draw(r, ARRAY_SIZE(some))];
}

static bool do_add(struct run *r, int *touched)
{
	int key = any_key(r), controller = model_controller_of(&r->m, key);
	if (!r->m.controllers[controller].configured)
		return true;
	struct model_add add = {.key = key,
				.priority = any_priority(r),
				.changed = one_in(r, 8),
				.cause = (int)draw(r, WIRE_CAUSE_COUNT)};
	static const int64_t delays[] = {1, 20, 1000, 60000, 3600000, WIRE_DELAY_MS_MOST};
	if (one_in(r, 8))
		add.delay = delays[draw(r, ARRAY_SIZE(delays))] * MS;
	if (one_in(r, 16))
		add.timer = MODEL_CANCEL;
	else if (one_in(r, 2))
		add.timer = MODEL_REPLACE;
	if (add.timer == MODEL_CANCEL)
		add.delay = 0;
	char object[16] = "";
	bool has_object = add.cause != WIRE_CAUSE_INITIAL && add.cause != WIRE_CAUSE_RESYNC &&
			  add.cause != WIRE_CAUSE_SWEEP && one_in(r, 3);
	if (has_object) {
		add.object = 1 + (int)draw(r, 1000);
		snprintf(object, sizeof(object), "o%d", add.object);
	}
	struct wire_add_key wire = {.namespace = run_namespace(r, key),
				    .name = run_name(r, key),
				    .priority = add.priority,
				    .primary_changed = add.changed,
				    .cause = (uint32_t)add.cause,
				    .cause_kind = span_of(has_object ? "Secret.v1" : ""),
				    .cause_namespace = span_of(""),
				    .cause_name = span_of(object),
				    .delay_ms = add.delay / MS,
				    .timer = (uint32_t)add.timer};
	static const char *const timers[] = {"add", "add or replace", "cancel"};
	SAY(r, "%s key %d in %lld ms priority %lld%s cause %s object %d\n", timers[add.timer], key,
	    (long long)(add.delay / MS), (long long)add.priority, add.changed ? " changed" : "",
	    wire_cause_name((uint32_t)add.cause), add.object);
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
	SAME("state that add answers", state, run_states[r->m.keys[key].state]);
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

static bool do_grant(struct run *r, int *touched)
{
	int controller = (int)draw(r, MODEL_CONTROLLERS);
	if (!r->m.controllers[controller].open || (r->filling && !one_in(r, 20)))
		return true;
	int key = model_next_key(&r->m, controller, r->now);
	struct workqueue_grant g;
	int rc = workqueue_grant(&r->l.wq, r->row[controller], &lib_holder, r->now, &g);
	SAY(r, "grant of %s: key %d\n", controller_names[controller], key);
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

static int any_leased(struct run *r)
{
	int n = 0, chosen = MODEL_NOBODY;
	for (int i = 0; i < r->m.n_keys; i++)
		if (r->m.keys[i].generation && draw(r, (uint64_t)++n) == 0)
			chosen = i;
	return chosen;
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
	struct wire_done wire = {.slot = slot,
				 .generation = k->generation,
				 .outcome = (uint32_t)d->outcome,
				 .requeue_after_ms = d->asked ? d->asked / MS : -1,
				 .requeue = d->requeue,
				 .has_priority = d->has_priority,
				 .priority = d->priority,
				 .pause_controller = d->pause_controller,
				 .reason = span_of("Reason"),
				 .message = span_of("what was said")};
	SAY(r, "done of key %d: %s, asks for %lld ms%s%s%s\n", key, wire_outcome_name((uint32_t)d->outcome),
	    (long long)(d->asked / MS), d->requeue ? ", requeue" : "", d->has_priority ? ", priority" : "",
	    d->pause_controller ? ", pauses" : "");
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
	model_ended(&r->m, key, d, &want, end.delay, backoff, r->now);
	return drop_again(r, model_controller_of(&r->m, key));
}

static bool do_done(struct run *r, int *touched)
{
	int key = any_leased(r);
	if (key == MODEL_NOBODY)
		return true;
	static const int64_t asks[] = {1, 500, 30000, 3600000, INT64_C(86400000) * 365};
	struct model_done d = {.outcome = one_in(r, 3) ? (int)draw(r, WIRE_OUTCOME_COUNT) : WIRE_OUTCOME_OK,
			       .requeue = one_in(r, 6),
			       .has_priority = one_in(r, 6),
			       .pause_controller = one_in(r, 20)};
	if (one_in(r, 4) || r->crashing)
		d.outcome = WIRE_OUTCOME_CRASHED + (int)draw(r, 2);
	if (one_in(r, 4))
		d.asked = asks[draw(r, ARRAY_SIZE(asks))] * MS;
	if (d.has_priority)
		d.priority = any_priority(r);
	*touched = key;
	return end_lease(r, key, &d);
}

static bool do_stale(struct run *r, int *touched)
{
	int key = any_leased(r);
	struct wire_done wire = {.slot = key == MODEL_NOBODY ? draw(r, 2000) : run_slot(r, key),
				 .generation = r->last_generation + 1 - draw(r, 3),
				 .requeue_after_ms = -1};
	static const uint64_t odd[] = {UINT64_MAX, UINT32_MAX, UINT64_C(1) << 32, 1u << 31};
	if (one_in(r, 4))
		wire.slot = odd[draw(r, ARRAY_SIZE(odd))];
	if (one_in(r, 4))
		wire.generation = one_in(r, 2) ? 0 : UINT64_MAX;
	*touched = key;
	if (key != MODEL_NOBODY && r->m.keys[key].generation == wire.generation)
		return true;
	struct workqueue_end end;
	int rc = workqueue_done(&r->l.wq, &wire, r->now, &end);
	return rc == -ESTALE || FAIL(r, "a stale done answers %d", rc);
}

static uint32_t over_slot;
static void note_over(void *ctx, uint32_t slot)
{
	(void)ctx;
	over_slot = slot;
}

/* Of keys that are due at the same time, the one that was handled. */
static int which_of_equal(const struct run *r, int due)
{
	for (int i = 0; i < r->m.n_keys; i++) {
		if (model_due(&r->m, i) != model_due(&r->m, due))
			continue;
		uint32_t slot = run_slot(r, i);
		if (slot != INDEX_NONE &&
		    (over_slot == slot || store_slot(&r->l.store, slot)->state == SHM_STATE_READY))
			return i;
	}
	return due;
}

/* All that is due, one by one, so that it is known what came first. */
static bool tick(struct run *r)
{
	for (;;) {
		int due = MODEL_NOBODY;
		for (int i = 0; i < r->m.n_keys; i++)
			if (model_due(&r->m, i) <= r->now &&
			    (due == MODEL_NOBODY || model_due(&r->m, i) < model_due(&r->m, due)))
				due = i;
		over_slot = INDEX_NONE;
		size_t n = workqueue_tick(&r->l.wq, r->now, 1, note_over, NULL);
		if (n != (due != MODEL_NOBODY))
			return FAIL(r, "a tick handled %zu, the model has key %d", n, due);
		if (!n)
			return true;
		due = which_of_equal(r, due);
		model_tick(&r->m, due, r->now);
		bool leased = r->m.keys[due].generation;
		if (leased != (over_slot != INDEX_NONE) || (leased && over_slot != run_slot(r, due)))
			return FAIL(r, "key %d was due, something else was handled", due);
		if (!run_same_key(r, due))
			return false;
		r->now++;
	}
}

static bool do_tick(struct run *r, int *touched)
{
	(void)touched;
	/* From a millisecond to a day, each size as likely; always whole milliseconds, so that no two times are
	 * equal by chance. */
	int64_t most = INT64_C(1) << draw(r, one_in(r, 50) ? 27 : 16);
	int64_t by = (int64_t)draw(r, (uint64_t)most) * MS;
	SAY(r, "%lld ms pass\n", (long long)(by / MS));
	r->now += by;
	return tick(r);
}

/* The parked keys leave at the same time, in the order of their slots. */
static uint32_t clear_by_slot(struct run *r, int controller)
{
	uint32_t cleared = 0;
	for (;; cleared++) {
		int first = MODEL_NOBODY;
		for (int i = 0; i < r->m.n_keys; i++)
			if (model_controller_of(&r->m, i) == controller &&
			    r->m.keys[i].state == MODEL_QUARANTINED &&
			    (first == MODEL_NOBODY || run_slot(r, i) < run_slot(r, first)))
				first = i;
		if (first == MODEL_NOBODY)
			return cleared;
		model_clear(&r->m, first, r->now);
	}
}

static bool do_controller(struct run *r, int *touched)
{
	(void)touched;
	int key = (int)draw(r, MODEL_CONTROLLERS); /* for the words of SAME */
	struct model_controller *c = &r->m.controllers[key];
	if (r->filling)
		return true;
	if (!c->configured) {
		SAY(r, "%s comes back\n", controller_names[key]);
		return open_controller(r, key);
	}
	switch (draw(r, 3)) {
	case 0: {
		SAY(r, "%s goes\n", controller_names[key]);
		uint32_t n = workqueue_drop(&r->l.wq, r->row[key], r->now);
		SAME("number of dropped keys", n, model_drop(&r->m, key));
		return true;
	}
	case 1: {
		char digest[32];
		snprintf(digest, sizeof(digest), "%llx", (unsigned long long)draw(r, 1u << 30));
		SAY(r, "%s has another file\n", controller_names[key]);
		uint32_t n = workqueue_set_digest(&r->l.wq, r->row[key], digest, r->now);
		model_unpause(&r->m, key);
		SAME("number of keys that left quarantine", n, clear_by_slot(r, key));
		return true;
	}
	default:
		SAY(r, "%s goes on\n", controller_names[key]);
		workqueue_unpause(&r->l.wq, r->row[key]);
		model_unpause(&r->m, key);
		return true;
	}
}

/* The broker is killed, and another one recovers from what is in memory then. */
static bool do_restart(struct run *r, int *touched)
{
	(void)touched;
	SAY(r, "a restart\n");
	r->restarts++;
	uint64_t allocated = r->l.store.allocated;
	char *copy = r->spare; /* what is behind `allocated` was never touched */
	memcpy(copy, r->l.memory, allocated);
	workqueue_done_with(&r->l.wq);
	store_done(&r->l.store);
	r->spare = r->l.memory;
	r->l.memory = copy;
	r->l.store = lib_store(copy, r->limit);
	r->l.store.allocated = allocated;
	struct err err = {0};
	if (store_recover(&r->l.store, &err) < 0 || workqueue_init(&r->l.wq, &r->l.store, r->seed, &err) < 0)
		return FAIL(r, "recovery: %.400s", err.text);
	model_restart(&r->m);
	for (int c = 0; c < MODEL_CONTROLLERS; c++)
		if (r->m.controllers[c].open && !open_controller(r, c))
			return false;
	return true;
}

static bool step(struct run *r, uint64_t number)
{
	static const struct {
		bool (*run)(struct run *r, int *touched);
		unsigned weight;
	} table[] = {{do_add, 400},  {do_grant, 240},	 {do_done, 220}, {do_stale, 20},
		     {do_tick, 100}, {do_controller, 6}, {do_restart, 4}};
	unsigned all = 0;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		all += table[i].weight;
	r->random = mix(r->seed ^ mix(number));
	unsigned at = (unsigned)draw(r, all);
	r->filling = r->tight && number / 8192 % 2 == 0;
	r->crashing = mix(r->seed ^ number / 512) % 8 == 0;
	size_t i = 0;
	while (at >= table[i].weight)
		at -= table[i++].weight;
	int touched = -1;
	r->now++;
	bool good = table[i].run(r, &touched);
	if (touched >= 0) {
		r->seen[r->m.keys[touched].state]++;
		r->paused[r->m.controllers[model_controller_of(&r->m, touched)].pause]++;
	}
	bool every = !r->tight || number % 256 == 0 || touched < 0;
	return good && same(r, every && !(r->tight && number % 16), touched);
}

/* ---- a run, and a shorter one ---- */

struct sequence {
	uint32_t *at;
	size_t len;
};

/* A long run comes to everything there is; one that does not tests less than it says. */
static bool saw_everything(struct run *r)
{
	if (r->tight ? !r->refused : r->refused || !r->restarts)
		return FAIL(r, "%u refusals for want of room, %u restarts", r->refused, r->restarts);
	for (size_t i = 0; i < ARRAY_SIZE(r->seen); i++)
		if (!r->seen[i])
			return FAIL(r, "no key was ever in state %zu", i);
	for (size_t i = 0; i < ARRAY_SIZE(r->paused); i++)
		if (!r->paused[i])
			return FAIL(r, "no controller was ever in pause %zu", i);
	return true;
}

static size_t *went_well; /* of the sequence that is played: shared, so that it outlives the player */

/* How many of them went well. */
static size_t play(uint64_t seed, const struct sequence *s, bool verbose, bool *ret_thin, char *why,
		   size_t room)
{
	static struct run r;
	size_t i = 0;
	if (run_init(&r, seed, verbose))
		while (i < s->len && step(&r, s->at[i]))
			*went_well = ++i;
	*ret_thin = i == s->len && i >= STEPS && !saw_everything(&r);
	snprintf(why, room, "%s", r.why);
	run_done(&r);
	return i;
}

/* In a process of its own, which a broken invariant may end. */
static bool fails(uint64_t seed, const struct sequence *s, bool verbose)
{
	fflush(NULL);
	*went_well = 0;
	pid_t pid = fork();
	cr_assert(pid >= 0);
	if (pid == 0) {
		char why[512];
		int terminal = dup(STDERR_FILENO);
		if (!verbose && !freopen("/dev/null", "w", stderr))
			_exit(3);
		bool thin, bad = play(seed, s, verbose, &thin, why, sizeof(why)) < s->len;
		if (bad || thin)
			dprintf(thin ? terminal : STDERR_FILENO, "%s\n", why);
		fflush(NULL);
		_exit(bad ? 1 : thin ? THIN : 0);
	}
	int status;
	cr_assert(waitpid(pid, &status, 0) == pid);
	cr_assert(!WIFEXITED(status) || WEXITSTATUS(status) != THIN, "seed %llu tests too little",
		  (unsigned long long)seed);
	return status != 0;
}

static void shrink(uint64_t seed, struct sequence *s)
{
	int64_t until = clock_boottime_ns() + SHRINK_SECONDS * S;
	struct sequence t = {xmalloc(s->len * sizeof(*s->at)), 0};
	for (size_t part = s->len / 2; part > 0; part /= 2)
		for (size_t from = 0; from < s->len && clock_boottime_ns() < until;) {
			size_t n = MIN(part, s->len - from);
			memcpy(t.at, s->at, from * sizeof(*t.at));
			memcpy(t.at + from, s->at + from + n, (s->len - from - n) * sizeof(*t.at));
			t.len = s->len - n;
			if (fails(seed, &t, false)) {
				s->len = *went_well + 1;
				memcpy(s->at, t.at, s->len * sizeof(*t.at));
			} else {
				from += n;
			}
		}
	free(t.at);
}

static void check_seed(uint64_t seed, size_t steps)
{
	struct sequence s = {xmalloc(steps * sizeof(*s.at)), steps};
	for (size_t i = 0; i < steps; i++)
		s.at[i] = (uint32_t)i;
	if (fails(seed, &s, false)) {
		s.len = *went_well + 1;
		size_t at = s.len;
		shrink(seed, &s);
		fprintf(stderr, "QUEUE_SEED=%llu fails at operation %zu; shortest that fails has %zu:\n",
			(unsigned long long)seed, at, s.len);
		fails(seed, &s, true);
		cr_assert_fail("QUEUE_SEED=%llu", (unsigned long long)seed);
	}
	free(s.at);
}

static uint64_t number(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);
	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void check_seeds(uint64_t first)
{
	size_t steps = (size_t)number("QUEUE_STEPS", STEPS);
	went_well = mmap(NULL, sizeof(*went_well), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(went_well != MAP_FAILED);
	uint64_t one = number("QUEUE_SEED", UINT64_MAX);
	if (one != UINT64_MAX) {
		check_seed(one, steps);
		return;
	}
	for (uint64_t seed = first; seed < first + 4; seed++) {
		fprintf(stderr, "QUEUE_SEED=%llu, %zu operations\n", (unsigned long long)seed, steps);
		check_seed(seed, steps);
	}
}

Test(random, the_workqueue_and_its_model_agree)
{
	check_seeds(1);
}
