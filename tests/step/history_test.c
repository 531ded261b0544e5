/* kill -9 of the broker at any instruction: a scripted history on a region file, cut after every store (see
 * trap.h). What is left at each cut is started again as the broker does; each key and each row must be as
 * before or as after the transition, no cell lost or in two places, a DONE that is sent again counts once,
 * and a reader that looks at that instant sees nothing torn. */
#include "step.h"
#include <stdio.h>

enum { MS = NS_PER_MS, LEASES = 64 };
#define S NS_PER_S

#define SHORT	 "a"
#define LONG	 "a-key-that-is-longer-than-what-fits-into-a-slot"
#define SETTINGS "settings"
#define LARGE	 "a-settings-object-with-a-name-that-needs-a-larger-cell-of-text-than-the-other"

static uint16_t web, db;
static const struct workqueue_holder holder = {100, 101, 7, 8};
static struct workqueue_grant leases[LEASES];
static char lease_names[LEASES][NAME_MAX_LEN + 1];
/* transitions that were seen, by state before and after */
static bool seen[SHM_STATE_COUNT][SHM_STATE_COUNT];
static size_t leases_over;

/* ---- steps ---- */

static void note(const struct workqueue_end *end, enum shm_state from)
{
	seen[from][end->to] = true;
}

static uint32_t slot_of(uint16_t c, const char *namespace, const char *name)
{
	return workqueue_slot(&live.s.wq, c, span_of(namespace), span_of(name));
}

static enum shm_state state_of(uint16_t c, const char *namespace, const char *name)
{
	uint32_t slot = slot_of(c, namespace, name);
	return slot == INDEX_NONE ? SHM_STATE_NONE : store_slot(&live.s.store, slot)->state;
}

static void expect(enum shm_state is, enum shm_state wanted)
{
	if (is != wanted)
		step_violation("the key is %s, not %s", shm_state_name(is), shm_state_name(wanted));
}

static struct wire_add_key key(const char *name)
{
	return (struct wire_add_key){
	    .namespace = span_of("shop"), .name = span_of(name), .cause = WIRE_CAUSE_UPDATED};
}

static struct wire_add_key caused(const char *name, const char *object)
{
	struct wire_add_key k = key(name);
	k.cause_kind = span_of("ConfigMap.v1");
	k.cause_namespace = span_of("shop");
	k.cause_name = span_of(object);
	return k;
}

static int add_to(uint16_t c, struct wire_add_key k, enum shm_state wanted)
{
	_cleanup_(free_ptr) char *namespace = span_dup(k.namespace), *name = span_dup(k.name);
	enum shm_state from = state_of(c, namespace, name), to = from;
	live.now += MS;
	step_begin("add", true);
	int rc = workqueue_add(&live.s.wq, c, &k, live.now, &to);
	step_end();
	expect(to, wanted);
	seen[from][to] = true;
	return rc;
}

static void add(struct wire_add_key k, enum shm_state wanted)
{
	int rc = add_to(web, k, wanted);
	if (rc < 0)
		step_violation("an add is refused: %s", strerror(-rc));
}

/* The next key of the controller; it must be this one. */
static size_t grant_from(uint16_t c, const char *name)
{
	struct workqueue_grant g = {0};
	live.now += MS;
	step_begin("grant", true);
	int rc = workqueue_grant(&live.s.wq, c, &holder, live.now, &g);
	step_end();
	size_t i = 0;
	while (leases[i].generation)
		i++;
	if (rc != 1 || !span_is(g.name, name)) {
		step_violation("granted is '" SPAN_FMT "' (%d), not '%s'", SPAN_ARG(g.name), rc, name);
		return LEASES - 1;
	}
	live.generation = g.generation;
	seen[SHM_STATE_READY][SHM_STATE_RUNNING] = true;
	leases[i] = g;
	snprintf(lease_names[i], sizeof(lease_names[i]), "%s", name);
	return i;
}

static size_t lease_of(const char *name)
{
	for (size_t i = 0; i < LEASES; i++)
		if (leases[i].generation && strcmp(lease_names[i], name) == 0)
			return i;
	return LEASES - 1;
}

static void grant(const char *name)
{
	grant_from(web, name);
}

static void done(const char *name, struct wire_done d, enum shm_state wanted)
{
	size_t i = lease_of(name);
	struct workqueue_end end = {0};
	enum shm_state from = store_slot(&live.s.store, leases[i].slot)->state;
	d.slot = leases[i].slot;
	d.generation = leases[i].generation;
	d.duration_us = 1234;
	live.now += MS;
	step_begin(wire_outcome_name(d.outcome), true);
	step_resend(&d);
	int rc = workqueue_done(&live.s.wq, &d, live.now, &end);
	step_end();
	leases[i].generation = 0;
	if (rc < 0)
		step_violation("a DONE is refused: %s", strerror(-rc));
	expect(end.to, wanted);
	note(&end, from);
}

static struct wire_done outcome(enum wire_outcome o)
{
	return (struct wire_done){.outcome = (uint32_t)o,
				  .requeue_after_ms = -1,
				  .reason = span_of("BackendDown"),
				  .message = span_of("the last lines of stderr, as they often are: line 1, "
						     "line 2, and the third one")};
}

static void lost(const char *name)
{
	size_t i = lease_of(name);
	struct workqueue_end end = {0};
	enum shm_state from = store_slot(&live.s.store, leases[i].slot)->state;
	live.now += MS;
	step_begin("lost", true);
	int rc = workqueue_lost(&live.s.wq, leases[i].slot, leases[i].generation, live.now, &end);
	step_end();
	leases[i].generation = 0;
	if (rc < 0)
		step_violation("a lost lease is refused: %s", strerror(-rc));
	expect(end.to, SHM_STATE_READY);
	note(&end, from);
}

static void on_over(void *ctx, uint32_t slot)
{
	(void)ctx;
	(void)slot;
	leases_over++;
}

/* Time passes; what is due is done, one transition a step. */
static void pass(int64_t ns)
{
	live.now += ns;
	for (size_t n = 1; n;) {
		step_begin("time", true);
		n = workqueue_tick(&live.s.wq, live.now, 1, on_over, NULL);
		step_end();
	}
}

static void due(const char *name, int64_t ns)
{
	enum shm_state from = state_of(web, "shop", name);
	pass(ns);
	expect(state_of(web, "shop", name), SHM_STATE_READY);
	seen[from][SHM_STATE_READY] = true;
}

static void open_row(const char *name, uint16_t *ret)
{
	bool new;
	struct workqueue_rules rules = left_rules();
	step_begin("a new controller", true);
	int rc = workqueue_open(&live.s.wq, name, ret, &new);
	step_end();
	if (rc < 0 || !new)
		step_violation("no new row for %s", name);
	workqueue_configure(&live.s.wq, *ret, &rules);
}

static void digest(const char *text)
{
	live.now += MS;
	step_begin("another digest", false);
	workqueue_set_digest(&live.s.wq, web, text, live.now);
	step_end();
}

static void drop(uint16_t c)
{
	live.now += MS;
	step_begin("drop of a controller", false);
	workqueue_drop(&live.s.wq, c, live.now);
	step_end();
}

/* ---- the history ---- */

/* One attempt, as the only ready key. */
static void attempt(const char *name, struct wire_done d, enum shm_state wanted)
{
	add(key(name), SHM_STATE_READY);
	grant(name);
	done(name, d, wanted);
}

static void finish(const char *name)
{
	grant(name);
	done(name, outcome(WIRE_OUTCOME_OK), SHM_STATE_NONE);
}

/* Whatever waits is cleared by an operator's add, and runs to its end. */
static void clear(const char *name)
{
	struct wire_add_key k = key(name);
	k.cause = WIRE_CAUSE_OPERATOR;
	if (state_of(web, "shop", name) == SHM_STATE_NONE)
		return;
	add(k, SHM_STATE_READY);
	finish(name);
}

static void every_outcome(void)
{
	static const enum shm_state clean[WIRE_OUTCOME_COUNT] = {
	    [WIRE_OUTCOME_OK] = SHM_STATE_NONE,
	    [WIRE_OUTCOME_TRANSIENT] = SHM_STATE_WAITING,
	    [WIRE_OUTCOME_NOT_READY] = SHM_STATE_WAITING,
	    [WIRE_OUTCOME_THROTTLED] = SHM_STATE_WAITING,
	    [WIRE_OUTCOME_CONFLICT] = SHM_STATE_WAITING,
	    [WIRE_OUTCOME_TERMINAL] = SHM_STATE_NONE,
	    [WIRE_OUTCOME_TIMEOUT] = SHM_STATE_WAITING,
	    [WIRE_OUTCOME_CRASHED] = SHM_STATE_WAITING,
	    [WIRE_OUTCOME_OOM_KILLED] = SHM_STATE_WAITING,
	    [WIRE_OUTCOME_PROTOCOL_ERROR] = SHM_STATE_WAITING,
	    [WIRE_OUTCOME_WORKER_LOST] = SHM_STATE_READY,
	    [WIRE_OUTCOME_EXEC_FAILED] = SHM_STATE_READY,
	    [WIRE_OUTCOME_START_FAILED] = SHM_STATE_READY,
	    [WIRE_OUTCOME_CANCELLED] = SHM_STATE_READY,
	};
	for (enum wire_outcome o = 0; o < WIRE_OUTCOME_COUNT; o++) {
		const char *name = o % 2 ? SHORT : LONG;
		/* Nothing came meanwhile. */
		add(caused(name, SETTINGS), SHM_STATE_READY);
		grant(name);
		done(name, outcome(o), clean[o]);
		if (clean[o] == SHM_STATE_WAITING)
			due(name, 70 * S);
		workqueue_unpause(&live.s.wq, web);
		/* An add meanwhile, and one that says that the object changed. */
		if (clean[o] == SHM_STATE_NONE)
			add(caused(name, LARGE), SHM_STATE_READY);
		grant(name);
		add(caused(name, LARGE), SHM_STATE_DIRTY);
		struct wire_add_key changed = caused(name, SETTINGS);
		changed.primary_changed = true;
		changed.priority = 5;
		add(changed, SHM_STATE_DIRTY);
		done(name, outcome(o), o == WIRE_OUTCOME_THROTTLED ? SHM_STATE_WAITING : SHM_STATE_READY);
		workqueue_unpause(&live.s.wq, web);
		if (o == WIRE_OUTCOME_THROTTLED) {
			add(key(name), SHM_STATE_WAITING); /* MERGE */
			pass(70 * S);
		}
		finish(name);
	}
}

static void ways_of_success(void)
{
	struct wire_done d = outcome(WIRE_OUTCOME_OK);
	d.requeue_after_ms = 5000;
	d.has_priority = true;
	d.priority = -100;
	attempt(SHORT, d, SHM_STATE_WAITING);
	add(key(SHORT), SHM_STATE_READY); /* consumes it */
	finish(SHORT);
	d = outcome(WIRE_OUTCOME_OK);
	d.requeue = true;
	attempt(SHORT, d, SHM_STATE_WAITING);
	due(SHORT, S);
	grant(SHORT);
	add(key(SHORT), SHM_STATE_DIRTY);
	lost(SHORT);
	grant(SHORT);
	lost(SHORT);
	finish(SHORT);
}

static void park(const char *name)
{
	for (int i = 0; i < 2; i++)
		attempt(name, outcome(WIRE_OUTCOME_CRASHED), SHM_STATE_WAITING);
	attempt(name, outcome(WIRE_OUTCOME_CRASHED), SHM_STATE_QUARANTINED);
}

static void quarantine(void)
{
	park(SHORT); /* DUE */
	add(caused(SHORT, LARGE), SHM_STATE_QUARANTINED);
	due(SHORT, 4000 * S);
	finish(SHORT);
	park(LONG); /* an operator */
	clear(LONG);
	park(SHORT); /* CHANGE */
	struct wire_add_key changed = key(SHORT);
	changed.primary_changed = true;
	add(changed, SHM_STATE_READY);
	finish(SHORT);
	park(SHORT); /* CLEAR: two of them in one call, which goes by slots */
	park(LONG);
	bool short_first = slot_of(web, "shop", SHORT) < slot_of(web, "shop", LONG);
	digest("another-digest");
	finish(short_first ? SHORT : LONG);
	finish(short_first ? LONG : SHORT);
	/* From DIRTY. */
	for (int i = 0; i < 2; i++)
		attempt(SHORT, outcome(WIRE_OUTCOME_OOM_KILLED), SHM_STATE_WAITING);
	add(key(SHORT), SHM_STATE_READY);
	grant(SHORT);
	add(caused(SHORT, SETTINGS), SHM_STATE_DIRTY);
	done(SHORT, outcome(WIRE_OUTCOME_TIMEOUT), SHM_STATE_QUARANTINED);
	clear(SHORT);
}

static void pauses(void)
{
	struct wire_done d = outcome(WIRE_OUTCOME_THROTTLED);
	d.pause_controller = true;
	d.requeue_after_ms = 30000;
	attempt(SHORT, d, SHM_STATE_WAITING);
	pass(31 * S);
	finish(SHORT);
	attempt(SHORT, outcome(WIRE_OUTCOME_START_FAILED), SHM_STATE_READY);
	step_begin("unpause", true);
	workqueue_unpause(&live.s.wq, web);
	step_end();
	finish(SHORT);
	step_begin("swept", true);
	workqueue_swept(&live.s.wq, web);
	step_end();
}

static void names(void)
{
	char longest[NAME_MAX_LEN + 1], namespace[NAMESPACE_MAX_LEN + 1];
	memset(longest, 'n', sizeof(longest) - 1);
	memset(namespace, 's', sizeof(namespace) - 1);
	longest[NAME_MAX_LEN] = namespace[NAMESPACE_MAX_LEN] = '\0';
	struct wire_add_key k = caused(longest, longest);
	k.namespace = span_of(namespace);
	add(k, SHM_STATE_READY);
	k.priority = 7;
	add(k, SHM_STATE_READY);
	struct wire_add_key cluster = key(SHORT);
	cluster.namespace = span_of("");
	cluster.priority = -100;
	add(cluster, SHM_STATE_READY);
	grant(longest);
	lost(longest);
	finish(longest);
	cluster.priority = 3; /* raised over two bands */
	add(cluster, SHM_STATE_READY);
	finish(SHORT);
}

/* A lease that is over stays: only its holder's death ends it. */
static void over(void)
{
	attempt(SHORT, outcome(WIRE_OUTCOME_TRANSIENT), SHM_STATE_WAITING);
	add(key(SHORT), SHM_STATE_READY);
	grant(SHORT);
	pass(70 * S);
	expect(state_of(web, "shop", SHORT), SHM_STATE_RUNNING);
	if (leases_over == 0)
		step_violation("nobody was told that a lease is over");
	lost(SHORT);
	finish(SHORT);
}

/* ---- what an attempt wrote, and adds for a later time ---- */

static const struct wire_write a_write = {.table = 5, .own = true, .resource_version = 70};

static struct wire_done wrote(enum wire_outcome o)
{
	struct wire_done d = outcome(o);
	d.writes.at = &a_write;
	d.writes.len = 1;
	return d;
}

static struct wire_add_key shown(const char *name, uint64_t version)
{
	struct wire_add_key k = key(name);
	k.table = a_write.table;
	k.resource_version = version;
	return k;
}

static struct wire_add_key later(const char *name, int64_t ms, uint32_t timer)
{
	struct wire_add_key k = caused(name, SETTINGS);
	k.delay_ms = ms;
	k.timer = timer;
	return k;
}

/* The watch shows it. */
static void passed(const char *name, enum shm_state wanted)
{
	const struct wire_place place = {a_write.table, 0, a_write.resource_version};
	enum shm_state from = state_of(web, "shop", name);
	live.now += MS;
	step_begin("progress", true);
	workqueue_passed(&live.s.wq, &place, live.now);
	step_end();
	expect(state_of(web, "shop", name), wanted);
	seen[from][wanted] = true;
}

static void settles(void)
{
	struct wire_done again = wrote(WIRE_OUTCOME_OK);
	again.requeue_after_ms = 60000;
	attempt(SHORT, wrote(WIRE_OUTCOME_OK), SHM_STATE_SETTLING);
	passed(SHORT, SHM_STATE_NONE);
	attempt(LONG, again, SHM_STATE_SETTLING);
	step_restart();
	passed(LONG, SHM_STATE_WAITING);
	clear(LONG);
	attempt(SHORT, again, SHM_STATE_SETTLING);
	add(caused(SHORT, LARGE), SHM_STATE_SETTLING_DIRTY);
	passed(SHORT, SHM_STATE_READY);
	finish(SHORT);
	attempt(SHORT, wrote(WIRE_OUTCOME_THROTTLED), SHM_STATE_SETTLING);
	add(key(SHORT), SHM_STATE_SETTLING_DIRTY);
	passed(SHORT, SHM_STATE_WAITING);
	clear(SHORT);
	/* Its own event, with another, and in vain. */
	add(key(SHORT), SHM_STATE_READY);
	grant(SHORT);
	add(shown(SHORT, 70), SHM_STATE_DIRTY);
	done(SHORT, wrote(WIRE_OUTCOME_OK), SHM_STATE_SETTLING);
	seen[SHM_STATE_DIRTY][SHM_STATE_RUNNING] = true; /* OWN, on the way */
	add(shown(SHORT, 70), SHM_STATE_SETTLING);
	passed(SHORT, SHM_STATE_NONE);
	add(key(SHORT), SHM_STATE_READY);
	grant(SHORT);
	add(shown(SHORT, 70), SHM_STATE_DIRTY);
	add(shown(SHORT, 71), SHM_STATE_DIRTY);
	done(SHORT, wrote(WIRE_OUTCOME_OK), SHM_STATE_SETTLING_DIRTY);
	due(SHORT, 6 * S);
	finish(SHORT);
}

static void later_times(void)
{
	add(later(SHORT, 1000, WIRE_TIMER_EARLIEST), SHM_STATE_WAITING);
	add(later(SHORT, 5000, WIRE_TIMER_REPLACE), SHM_STATE_WAITING);
	add(later(SHORT, 0, WIRE_TIMER_CANCEL), SHM_STATE_NONE);
	add(key(SHORT), SHM_STATE_READY);
	grant(SHORT);
	add(later(SHORT, 1000, WIRE_TIMER_EARLIEST), SHM_STATE_TIMED);
	add(later(SHORT, 0, WIRE_TIMER_CANCEL), SHM_STATE_RUNNING);
	add(later(SHORT, 1000, WIRE_TIMER_EARLIEST), SHM_STATE_TIMED);
	done(SHORT, outcome(WIRE_OUTCOME_OK), SHM_STATE_WAITING);
	due(SHORT, 2 * S);
	grant(SHORT);
	add(later(SHORT, 1000, WIRE_TIMER_EARLIEST), SHM_STATE_TIMED);
	lost(SHORT);
	grant(SHORT);
	add(later(SHORT, 60000, WIRE_TIMER_EARLIEST), SHM_STATE_TIMED);
	add(shown(SHORT, 70), SHM_STATE_DIRTY); /* its own: the time stays */
	done(SHORT, wrote(WIRE_OUTCOME_OK), SHM_STATE_SETTLING);
	seen[SHM_STATE_TIMED][SHM_STATE_SETTLING] = true; /* after OWN and AFTER */
	add(later(SHORT, 0, WIRE_TIMER_CANCEL), SHM_STATE_SETTLING);
	add(later(SHORT, 50000, WIRE_TIMER_EARLIEST), SHM_STATE_SETTLING);
	passed(SHORT, SHM_STATE_WAITING);
	clear(SHORT);
	for (int i = 0; i < 2; i++)
		attempt(SHORT, outcome(WIRE_OUTCOME_CRASHED), SHM_STATE_WAITING);
	add(key(SHORT), SHM_STATE_READY);
	grant(SHORT);
	add(later(SHORT, 1000, WIRE_TIMER_EARLIEST), SHM_STATE_TIMED);
	done(SHORT, outcome(WIRE_OUTCOME_CRASHED), SHM_STATE_QUARANTINED);
	clear(SHORT);
}

static void controller_goes(void)
{
	struct wire_add_key k = caused(LONG, LARGE);
	add_to(db, k, SHM_STATE_READY);
	add_to(db, key(SHORT), SHM_STATE_READY);
	add_to(db, key("waits"), SHM_STATE_READY);
	add_to(db, key("parked"), SHM_STATE_READY);
	grant_from(db, LONG);
	grant_from(db, SHORT);
	done(SHORT, outcome(WIRE_OUTCOME_CRASHED), SHM_STATE_WAITING);
	grant_from(db, "waits");
	done("waits", outcome(WIRE_OUTCOME_NOT_READY), SHM_STATE_WAITING);
	for (int i = 0; i < 3; i++) {
		grant_from(db, "parked");
		done("parked", outcome(WIRE_OUTCOME_CRASHED),
		     i < 2 ? SHM_STATE_WAITING : SHM_STATE_QUARANTINED);
		if (i < 2)
			add_to(db, key("parked"), SHM_STATE_READY);
	}
	for (int i = 0; i < 2; i++) { /* SETTLING, and added since */
		const char *name = i ? "wrote-too" : "wrote";
		add_to(db, key(name), SHM_STATE_READY);
		grant_from(db, name);
		done(name, wrote(WIRE_OUTCOME_OK), SHM_STATE_SETTLING);
	}
	add_to(db, key("wrote-too"), SHM_STATE_SETTLING_DIRTY);
	add_to(db, key("ready"), SHM_STATE_READY);
	drop(db);
	seen[SHM_STATE_SETTLING][SHM_STATE_NONE] = state_of(db, "shop", "wrote") == SHM_STATE_NONE;
	seen[SHM_STATE_SETTLING_DIRTY][SHM_STATE_NONE] = state_of(db, "shop", "wrote-too") == SHM_STATE_NONE;
	seen[SHM_STATE_READY][SHM_STATE_NONE] = state_of(db, "shop", "ready") == SHM_STATE_NONE;
	seen[SHM_STATE_WAITING][SHM_STATE_NONE] = state_of(db, "shop", "waits") == SHM_STATE_NONE;
	seen[SHM_STATE_QUARANTINED][SHM_STATE_NONE] = state_of(db, "shop", "parked") == SHM_STATE_NONE;
	expect(state_of(db, "shop", LONG), SHM_STATE_RUNNING);
	done(LONG, outcome(WIRE_OUTCOME_TRANSIENT), SHM_STATE_WAITING);
	drop(db);
	if (store_controller(&live.s.store, db)->name[0])
		step_violation("the row of a controller that went is still there");
}

/* The slot's own count of merges is full: the row takes it over. */
static void many_merges(void)
{
	add(key(SHORT), SHM_STATE_READY);
	for (int i = 0; i < UINT8_MAX; i++) {
		enum shm_state state;
		struct wire_add_key k = key(SHORT);
		workqueue_add(&live.s.wq, web, &k, ++live.now, &state);
	}
	add(key(SHORT), SHM_STATE_READY);
	finish(SHORT);
}

/* So many keys that a second block of slots is taken, then a region without room. */
static void growth(void)
{
	char name[64];
	unsigned n = 0;
	enum shm_state state;
	for (; n < SHM_SLOTS_PER_BLOCK - 1; n++) {
		snprintf(name, sizeof(name), "k%u", n);
		struct wire_add_key k = key(name);
		workqueue_add(&live.s.wq, web, &k, live.now, &state);
	}
	for (unsigned end = n + 2; n < end; n++) {
		snprintf(name, sizeof(name), "k%u", n);
		add(key(name), SHM_STATE_READY);
	}
	int rc = 0;
	struct wire_add_key k = key(name);
	for (; rc == 0; n++) {
		snprintf(name, sizeof(name), "a-name-for-which-a-text-is-needed-%u", n);
		k.name = span_of(name);
		rc = workqueue_add(&live.s.wq, web, &k, live.now, &state);
		if (n > 100000)
			break;
	}
	if (add_to(web, k, SHM_STATE_NONE) != -ENOSPC)
		step_violation("a full region takes a key");
	step_begin("a lease in a full region", true);
	struct workqueue_grant g;
	if (workqueue_grant(&live.s.wq, web, &holder, live.now + MS, &g) != 1)
		step_violation("a key that is in cannot be leased");
	step_end();
}

void step_history(void)
{
	open_row("web", &web);
	open_row("db", &db);
	digest("a-digest");
	/* So that the ring of the history has gone round. */
	for (int i = 0; i < 500; i++) {
		enum shm_state state;
		struct wire_add_key k = key(SHORT);
		struct workqueue_grant g;
		struct workqueue_end end;
		workqueue_add(&live.s.wq, web, &k, ++live.now, &state);
		workqueue_grant(&live.s.wq, web, &holder, ++live.now, &g);
		const struct wire_done d = {
		    .slot = g.slot, .generation = g.generation, .requeue_after_ms = -1};
		workqueue_done(&live.s.wq, &d, ++live.now, &end);
		live.generation = g.generation;
	}
	add(key(SHORT), SHM_STATE_READY);
	finish(SHORT);
	many_merges();
	ways_of_success();
	every_outcome();
	step_restart();
	names();
	quarantine();
	pauses();
	over();
	settles();
	later_times();
	controller_goes();
	step_restart();
	growth();
}

/* ---- the test ---- */

/* Every arrow of queue/state.def was cut. */
bool step_all_arrows(void)
{
	bool all = true;
	for (enum shm_state from = 0; from < SHM_STATE_COUNT; from++)
		for (enum state_event e = 0; e < STATE_EVENT_COUNT; e++) {
			enum shm_state to = state_next(from, e);
			if (to == SHM_STATE_BUG || to == from || seen[from][to])
				continue;
			printf("FAILED: the history has no %s --%s--> %s\n", shm_state_name(from),
			       state_event_name(e), shm_state_name(to));
			all = false;
		}
	return all;
}
