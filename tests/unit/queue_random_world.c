/* Random operations around the keys: time, the watch, controllers, an operator, restarts; and the beginning of a run. */
#include "queue_random.h"

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t run_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t run_draw(struct run *r, uint64_t below)
{
	r->random = run_mix(r->random);
	return r->random % below;
}

bool run_one_in(struct run *r, uint64_t n)
{
	return run_draw(r, n) == 0;
}

/* ---- keys, controllers, rules ---- */

const char *const run_controllers[MODEL_CONTROLLERS] = {"web", "database", "a"};

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
	if (workqueue_open(&r->l.wq, run_controllers[controller], &r->row[controller], &new) < 0)
		return FAIL(r, "no row for %s", run_controllers[controller]);
	if (new == r->m.controllers[controller].open)
		return FAIL(r, "the row of %s is %s", run_controllers[controller], new ? "new" : "there");
	workqueue_configure(&r->l.wq, r->row[controller], &real);
	model_open(&r->m, controller, &rules);
	return true;
}

bool run_begin(struct run *r, uint64_t seed, bool verbose)
{
	*r = (struct run){.seed = seed, .verbose = verbose, .names = 6};
	r->tight = seed % 4 == 3;
	r->limit = LIB_BYTES;
	if (r->tight) {
		r->names = MODEL_NAMES_MAX;
		r->limit = 12 * (uint64_t)SHM_BLOCK;
	}
	if (!r->tight && seed % 2)
		r->cap = 3;
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

void run_end(struct run *r)
{
	lib_done(&r->l);
	model_free(&r->m);
	free(r->spare);
}

/* ---- time ---- */

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
		r->in_vain += model_settles(&r->m.keys[due]);
		model_tick(&r->m, due, r->now);
		bool leased = r->m.keys[due].generation;
		if (leased != (over_slot != INDEX_NONE) || (leased && over_slot != run_slot(r, due)))
			return FAIL(r, "key %d was due, something else was handled", due);
		if (!run_same_key(r, due))
			return false;
		r->now++;
	}
}

bool run_tick(struct run *r, int *touched)
{
	(void)touched;
	/* From a millisecond to a day, each size as likely; always whole milliseconds, so that no two times are
	 * equal by chance. */
	int64_t most = INT64_C(1) << run_draw(r, run_one_in(r, 50) ? 27 : 16);
	int64_t by = (int64_t)run_draw(r, (uint64_t)most) * MS;
	SAY(r, "%lld ms pass\n", (long long)(by / MS));
	r->now += by;
	return tick(r);
}

/* ---- the watch ---- */

/* It comes to what some key waits for, to the newest there is, or its stream is gone. */
bool run_progress(struct run *r, int *touched)
{
	(void)touched;
	int stream = (int)run_draw(r, MODEL_STREAMS), key = (int)run_draw(r, (uint64_t)r->m.n_keys);
	uint64_t version = run_one_in(r, 20)  ? UINT64_MAX
			   : run_one_in(r, 2) ? r->version
					      : 1 + run_draw(r, r->version + 1);
	for (int n = 0; n < r->m.n_keys && !r->m.keys[key].n_writes; n++)
		key = (key + 1) % r->m.n_keys;
	const struct model_key *k = &r->m.keys[key];
	if (k->n_writes && !run_one_in(r, 3)) {
		const struct model_event *w = &k->writes[run_draw(r, (uint64_t)k->n_writes)];
		stream = w->stream;
		version = w->version - run_one_in(r, 4);
	}
	SAY(r, "stream %d is at %llu\n", stream, (unsigned long long)version);
	uint32_t held = r->l.wq.settle.keys;
	struct wire_place place = run_place(stream, version);
	workqueue_passed(&r->l.wq, &place, r->now);
	model_passed(&r->m, stream, version, r->now);
	r->shown += held - r->l.wq.settle.keys;
	return true;
}

/* What the watcher is to be asked for, a few places at a time; sometimes it is another watcher. */
bool run_await(struct run *r, int *touched)
{
	(void)touched;
	if (run_one_in(r, 8)) {
		SAY(r, "another watcher\n");
		settle_untell(&r->l.wq.settle);
		model_untell(&r->m);
	}
	struct wire_place out[MODEL_STREAMS];
	size_t most = 1 + run_draw(r, MODEL_STREAMS), want = 0;
	for (int i = 0; i < MODEL_STREAMS; i++)
		want += model_awaited(&r->m, i) != 0;
	size_t n = settle_awaited(&r->l.wq.settle, out, most);
	SAY(r, "the watcher is asked for %zu places\n", n);
	if (n != MIN(want, most))
		return FAIL(r, "%zu places are told, the model has %zu", n, MIN(want, most));
	for (size_t i = 0; i < n; i++) {
		int stream = 0;
		while (stream < MODEL_STREAMS && (run_place(stream, 0).table != out[i].table ||
						  run_place(stream, 0).stream != out[i].stream))
			stream++;
		if (stream == MODEL_STREAMS || out[i].resource_version != model_awaited(&r->m, stream))
			return FAIL(r, "%llu of stream %d is told, which nobody waits for",
				    (unsigned long long)out[i].resource_version, stream);
		model_tell(&r->m, stream);
	}
	r->told += (uint32_t)n;
	return true;
}

/* ---- controllers ---- */

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

bool run_controller(struct run *r, int *touched)
{
	(void)touched;
	int key = (int)run_draw(r, MODEL_CONTROLLERS); /* for the words of SAME */
	struct model_controller *c = &r->m.controllers[key];
	if (r->filling)
		return true;
	if (!c->configured) {
		SAY(r, "%s comes back\n", run_controllers[key]);
		return open_controller(r, key);
	}
	switch (run_draw(r, 3)) {
	case 0: {
		SAY(r, "%s goes\n", run_controllers[key]);
		uint32_t n = workqueue_drop(&r->l.wq, r->row[key], r->now);
		SAME("number of dropped keys", n, model_drop(&r->m, key));
		return true;
	}
	case 1: {
		char digest[32];
		snprintf(digest, sizeof(digest), "%llx", (unsigned long long)run_draw(r, 1u << 30));
		SAY(r, "%s has another file\n", run_controllers[key]);
		uint32_t n = workqueue_set_digest(&r->l.wq, r->row[key], digest, r->now);
		model_unpause(&r->m, key);
		SAME("number of keys that left quarantine", n, clear_by_slot(r, key));
		return true;
	}
	default:
		SAY(r, "%s goes on\n", run_controllers[key]);
		workqueue_unpause(&r->l.wq, r->row[key]);
		model_unpause(&r->m, key);
		return true;
	}
}

/* pause, drain (which is a pause and waiting for the last lease), resume. */
bool run_operator(struct run *r, int *touched)
{
	(void)touched;
	int controller = (int)run_draw(r, MODEL_CONTROLLERS);
	struct model_controller *c = &r->m.controllers[controller];
	if (!c->open || (r->filling && !c->held))
		return true;
	if (c->held || run_one_in(r, 8)) {
		SAY(r, "an operator resumes %s\n", run_controllers[controller]);
		workqueue_resume(&r->l.wq, r->row[controller]);
		model_resume(&r->m, controller);
	} else {
		SAY(r, "an operator pauses %s\n", run_controllers[controller]);
		workqueue_hold(&r->l.wq, r->row[controller], r->now);
		model_hold(&r->m, controller);
		r->held++;
	}
	return true;
}

/* The broker is killed, and another one recovers from what is in memory then. */
bool run_restart(struct run *r, int *touched)
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
	/* Of keys that became ready at the same time (of one batch), the order is that of their slots now. */
	for (int i = 0; i < r->m.n_keys; i++)
		if (r->m.keys[i].state == MODEL_READY)
			r->m.keys[i].order = run_slot(r, i);
	model_restart(&r->m);
	for (int c = 0; c < MODEL_CONTROLLERS; c++)
		if (r->m.controllers[c].open && !open_controller(r, c))
			return false;
	return true;
}
