/* kill -9 of the watcher at any instruction between outbox, object, index and ADD: a scripted history of events through
 * watcher/informer.c and watcher/delivery.c on a cache in shared memory, cut after every store (trap.h). At each cut a reader looks at
 * that instant, and what is left is started again as the watcher does; some of these starts are cut after each of their own stores, too. Each object must be as before or as after the event, whole; once it
 * was as after it must not be as before again; and whoever finds it as after must find its keys, too: in the outbox, or stored by the
 * broker; and that its resourceVersion was seen.
 *
 *   step_cache_history_test               all of it
 *   step_cache_history_test --violation   passes when the first violation is found: for code that has a rule taken out
 *
 * The broker is a stand-in in memory (the functions of watcher/broker.h): it stores at once what is sent, and answers when it is told. */
#include "cache_step.h"
#include "log.h"
#include "trap.h"
#include "watcher.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MAPS = 840,   /* ConfigMaps m0, m1, ...: so many that the name index is built anew in the middle */
	MANY = 670,   /* of them are there before anything is cut */
	SECRETS = 24, /* s0, s1, ...: owned by ConfigMaps */
	THINGS = MAPS + SECRETS,
	LARGE =
	    760, /* of them from this number on have up to 32 KB, for dictionaries and for segments that are emptied */
	LOOK_AT = 24,  /* objects of each cut, beside those that change */
	RUN_LOOK = 48, /* of stores one after the other into the same part of memory so many are looked at, */
	RUN_EACH = 127,	     /* and then every so many: long copies are alike */
	RECOVERY_EACH = 607, /* every so many cuts the start is cut, too */
	BUDGET = 4 << 20,
};

/* An object in the API server. */
static struct thing {
	bool secret;
	unsigned number;
	uint64_t before,
	    now;	/* resourceVersion; 0: there is none. They differ while an event is under way. */
	uint64_t gone;	/* resourceVersion of the event that told that there is none any more */
	bool was_now;	/* a start has found it as now */
	int pending[4]; /* numbers of ConfigMaps whose keys have to be stored by the broker */
	size_t n_pending;
} things[THINGS];

static struct {
	uint64_t stores, cuts, reads, started, recoveries_cut, violations;
	bool want_violation;
} totals;

static char folder[64], live[80], cut[80], again[80],
    third[80]; /* again: of a start that is cut; third: of the one after it */
static struct watcher w;
static struct trap trap = {.most = TRAP_RANGES};
static struct cache *reader;
static const char *event = "nothing";
static uint64_t version = 100;

static void clean_all(void)
{
	const char *const paths[] = {live, cut, again, third, folder};
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		clean(paths[i], true);
}

void violation(const char *fmt, ...)
{
	if (totals.violations++ >= 10)
		return;
	va_list args;
	va_start(args, fmt);
	printf("VIOLATION in '%s', cut %llu: ", event, (unsigned long long)trap.stores);
	vprintf(fmt, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	if (totals.want_violation) {
		clean_all();
		printf("1 passed, 0 failed\n");
		fflush(stdout);
		_exit(EXIT_SUCCESS);
	}
}

/* ---- objects ---- */

static const char *table_of(const struct thing *t)
{
	return t->secret ? "v1 Secret metadata" : "v1 ConfigMap";
}

static int owner_of(const struct thing *t, uint64_t at)
{
	return (int)((t->number + at) % 7);
}

/* What the server says, and what the cache has of it, as nothing is cut out. Sizes differ with the version. */
static void make_json(const struct thing *t, uint64_t at, struct buf *out)
{
	buf_printf(
	    out,
	    "{\"apiVersion\":\"v1\",\"kind\":\"%s\",\"metadata\":{\"namespace\":\"shop\",\"name\":\"%c%u\","
	    "\"uid\":\"uid-%c%u\",\"resourceVersion\":\"%llu\"",
	    t->secret ? "Secret" : "ConfigMap", t->secret ? 's' : 'm', t->number, t->secret ? 's' : 'm',
	    t->number, (unsigned long long)at);
	if (t->secret)
		buf_printf(out,
			   ",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"m%"
			   "d\",\"uid\":\"uid-m%d\","
			   "\"controller\":true}]",
			   owner_of(t, at), owner_of(t, at));
	buf_puts(out, "}");
	if (!t->secret) {
		buf_puts(out, ",\"data\":{\"x\":\"");
		for (uint64_t i = 0; i < at % 90; i++)
			buf_printf(out, "%llx", (unsigned long long)(at * (i + 3)));
		for (uint64_t i = 0; t->number >= LARGE && i < (t->number % 2 ? 2000 : 300); i++)
			buf_printf(
			    out, "%llx",
			    (unsigned long long)cache_mix(at * 10000 + i % (t->number % 2 ? 2000 : 30)));
		buf_puts(out, "\"}");
	}
	buf_puts(out, "}");
}

static bool is_at(const struct thing *t, uint64_t at, struct span json)
{
	struct buf want = {0};
	if (at)
		make_json(t, at, &want);
	bool is = at && span_eq(buf_span(&want), json);
	buf_done(&want);
	return is;
}

static struct thing *thing(bool secret, unsigned number)
{
	return &things[secret ? MAPS + number : number];
}

/* ---- the broker ---- */

struct broker {
	struct broker_batch *batches[BROKER_BATCHES];
	size_t counts[BROKER_BATCHES], n;
	bool swept;
};
static struct broker broker;

bool broker_ready(const struct broker *b)
{
	(void)b;
	return true;
}
bool broker_may_add(const struct broker *b)
{
	return b->n < BROKER_BATCHES;
}
int broker_add(struct broker *b, const char *controller, const struct wire_add_key *keys, size_t count,
	       struct broker_batch *batch)
{
	(void)controller;
	for (size_t k = 0; k < count; k++)
		for (size_t i = 0; i < THINGS; i++)
			for (size_t n = 0; n < things[i].n_pending; n++) {
				char name[16];
				snprintf(name, sizeof name, "m%d", things[i].pending[n]);
				if (span_is(keys[k].name, name))
					things[i].pending[n--] = things[i].pending[--things[i].n_pending];
			}
	b->batches[b->n] = batch;
	b->counts[b->n++] = count;
	return 0;
}
int broker_swept(struct broker *b, const char *controller)
{
	(void)controller;
	b->swept = true;
	return 0;
}
int broker_progress(struct broker *b, const struct wire_place *passed, size_t count)
{
	(void)b;
	(void)passed;
	(void)count;
	return 0;
}
void broker_report(struct broker *b, const char *controller, const char *topic, enum wire_state state,
		   const char *message)
{
	(void)b;
	(void)controller;
	(void)topic;
	(void)state;
	(void)message;
}
void broker_reports_keep(struct broker *b, bool (*keep)(void *ctx, const char *controller, const char *topic),
			 void *ctx)
{
	(void)b;
	(void)keep;
	(void)ctx;
}

/* ---- a cut: the reader ---- */

/* The slots that are being written at this instant: one at most, of the object that changes or of one that is moved. */
static unsigned busy;

static void read_thing(struct thing *t)
{
	struct buf got = {0};
	struct err err = {0};
	uint32_t table;
	char name[16];
	snprintf(name, sizeof name, "%c%u", t->secret ? 's' : 'm', t->number);
	int rc = cache_table(reader, table_of(t), &table);
	if (rc == 0)
		rc = cache_get(reader, table, span_of("shop"), span_of(name), &got, &err);
	bool gone = rc == -ENOENT;
	totals.reads++;
	busy += rc == -EAGAIN;
	if (rc == -EAGAIN && busy == 1)
		;
	else if (gone && (!t->before || !t->now))
		;
	else if (rc < 0)
		violation("a reader: %s: %d %s", name, rc, err.text);
	else if (!is_at(t, t->before, buf_span(&got)) && !is_at(t, t->now, buf_span(&got)))
		violation("a reader: %s is torn: %s", name, buf_str(&got));
	buf_done(&got);
}

static int count_owned(void *ctx, struct span namespace, struct span name, struct span object)
{
	(void)namespace;
	(void)name;
	(void)object;
	++*(unsigned *)ctx;
	return 0;
}

/* Whoever is owned all the time is found all the time. */
static void read_owned(int owner)
{
	unsigned sure = 0, possible = 0, seen = 0;
	uint32_t table;
	char uid[16];
	snprintf(uid, sizeof uid, "uid-m%d", owner);
	for (unsigned i = 0; i < SECRETS; i++) {
		const struct thing *t = thing(true, i);
		bool before = t->before && owner_of(t, t->before) == owner,
		     now = t->now && owner_of(t, t->now) == owner;
		sure += before && now;
		possible += before || now;
	}
	int rc = cache_table(reader, "v1 Secret metadata", &table);
	if (rc == 0)
		rc = cache_walk(reader, table, span_of(uid), count_owned, &seen, NULL);
	if (rc != -EAGAIN && (rc || seen < sure || seen > possible))
		violation("a reader: m%d owns %u objects, not %u to %u (%d)", owner, seen, sure, possible,
			  rc);
}

/* ---- a cut: the next watcher ---- */

/* The names of the keys in the outbox. */
static void keys_of(struct store *s, struct keys *out, bool *ret_sweep)
{
	uint32_t at[64];
	struct outbox_place place = {.extent = store_outbox, .ctx = s};
	place.extents = store_outbox_extents(s, &place.most);
	struct outbox *o = outbox_new(&place, store_controllers(s));
	for (uint32_t got; (got = outbox_take(o, NULL, ARRAY_SIZE(at), at));)
		for (uint32_t i = 0; i < got; i++) {
			struct outbox_key k;
			outbox_view(o, at[i], &k);
			keys_add(out, k.namespace, k.name);
		}
	outbox_free(o);
	*ret_sweep = atomic_load(&store_controllers(s)[0].sweep);
}

static void judge(struct store *s, struct thing *t, const struct keys *keys, bool sweep)
{
	struct store_view v;
	struct span json = {0};
	uint32_t table;
	char name[16];
	snprintf(name, sizeof name, "%c%u", t->secret ? 's' : 'm', t->number);
	if (store_table(s, table_of(t), "v1", t->secret ? "Secret" : "ConfigMap", &table, NULL) < 0)
		die("table");
	bool there =
	    store_find(s, table, span_of("shop"), span_of(name), &v) && store_json(s, v.slot, &json) == 0;
	bool is_now = there ? is_at(t, t->now, json) : !t->now,
	     is_before = there ? is_at(t, t->before, json) : !t->before;
	if (!is_now && !is_before) {
		violation("a start finds %s neither as before nor as after", name);
	} else if (t->before != t->now && !is_now && t->was_now) {
		violation("a start finds %s as before again", name);
	} else if (is_now && !sweep) {
		for (size_t i = 0; i < t->n_pending; i++)
			if (!has_key(keys, t->pending[i]))
				violation("%s has changed, and the key m%d is lost", name, t->pending[i]);
	}
	t->was_now = t->was_now || is_now;
	uint64_t shown = there ? kube_version(v.version) : is_now ? t->gone : 0;
	if (shown > atomic_load(&store_table_entry(s, table)->seen))
		violation("%s is as of %llu, and that was not seen", name, (unsigned long long)shown);
}

/* The files of `of`, copied to `where`, as the next watcher finds them; from: whom to look at. */
static void start_again(const char *of, const char *where, size_t from)
{
	struct store *s;
	struct err err = {0}, why = {0};
	bool lost = false, sweep;
	struct keys keys = {0};
	copy_all(of, where);
	totals.started++;
	if (store_open(where, BUDGET, &s, &lost, &why, &err) < 0) {
		violation("it cannot be started: %s", err.text);
		return;
	}
	if (lost)
		violation("a start finds nothing: %s", why.text);
	keys_of(s, &keys, &sweep);
	for (size_t i = 0; i < THINGS && !lost; i++)
		if (things[i].before != things[i].now || things[i].n_pending || (i - from) % THINGS < LOOK_AT)
			judge(s, &things[i], &keys, sweep);
	keys_done(&keys);
	store_close(s);
}

/* ---- cuts ---- */

static unsigned each = 1; /* so many stores are one cut */
static size_t look_from;

static void on_recovery_cut(void)
{
	totals.recoveries_cut++;
	start_again(again, third, look_from);
}

static void on_cut(void *ctx)
{
	(void)ctx;
	static const void *range;
	static unsigned run;
	totals.stores++;
	run = trap.range == range ? run + 1 : 0;
	range = trap.range;
	if ((run >= RUN_LOOK && run % RUN_EACH) || trap.stores % each)
		return;
	totals.cuts++;
	busy = 0;
	size_t from = (size_t)(trap.stores * 31 % THINGS);
	for (size_t i = 0; i < THINGS; i++)
		if (things[i].before != things[i].now || (i - from) % THINGS < LOOK_AT)
			read_thing(&things[i]);
	read_owned((int)(trap.stores % 7));
	start_again(live, cut, from);
	look_from = from;
	if (totals.cuts % RECOVERY_EACH == 0)
		cut_a_start(live, again, BUDGET, on_recovery_cut);
}

static bool uncut; /* what happens now is not */
static void begin(const char *what)
{
	event = what;
	trap_pause(&trap, uncut);
}
static void end(void)
{
	trap_pause(&trap, true);
	for (size_t i = 0; i < THINGS; i++) {
		things[i].before = things[i].now;
		things[i].was_now = false;
	}
}

/* ---- events ---- */

static struct informer *informer_of(const struct thing *t)
{
	for (size_t i = 0; i < w.n_informers; i++)
		if (!strcmp(w.informers[i]->name, table_of(t)))
			return w.informers[i];
	die(table_of(t));
}

static void need(struct thing *t, int number)
{
	for (size_t i = 0; i < t->n_pending; i++)
		if (t->pending[i] == number)
			return;
	if (t->n_pending < ARRAY_SIZE(t->pending))
		t->pending[t->n_pending++] = number;
}

static void will_be(struct thing *t, uint64_t at)
{
	t->now = at;
	t->gone = 0;
	if (!t->secret)
		need(t, (int)t->number);
	if (t->secret && t->before)
		need(t, owner_of(t, t->before));
	if (t->secret && at)
		need(t, owner_of(t, at));
}

static void take_in(struct thing *t, uint32_t epoch, const char *what)
{
	struct buf json = {0};
	struct counts counts = {0};
	struct err err = {0};
	make_json(t, t->now, &json);
	begin(what);
	if (informer_put(&informer_of(t)->streams[0], buf_span(&json), epoch, &counts, &err) < 0)
		violation("it is refused: %s", err.text);
	end();
	buf_done(&json);
}

/* epoch 0: an event of a watch; else an item of a list. */
static void put(struct thing *t, uint32_t epoch)
{
	will_be(t, ++version);
	take_in(t, epoch, epoch ? "an item of a list" : "a change");
}

static void delete (struct thing *t)
{
	struct buf json = {0};
	struct err err = {0};
	make_json(t, ++version, &json);
	will_be(t, 0);
	t->gone = version;
	begin("a delete");
	if (informer_deleted(&informer_of(t)->streams[0], buf_span(&json), &err) < 0)
		violation("a delete is refused: %s", err.text);
	end();
	buf_done(&json);
}

/* ADD, and its answer. */
static void deliver(void)
{
	begin("ADD");
	delivery_run(&w, clock_boottime_ns());
	end();
	begin("the answer to ADD");
	while (broker.n) {
		size_t i = --broker.n;
		delivery_ops.on_added(&w, broker.batches[i], (int64_t)broker.counts[i], (struct span){0});
	}
	end();
	if (broker.swept) {
		broker.swept = false;
		begin("the answer to SWEPT");
		delivery_ops.on_swept(&w, span_of("web"), true);
		end();
	}
}

/* A list of Secrets in which one has changed, one is new and two are missing. */
static void relist(void)
{
	struct counts counts = {0};
	struct err err = {0};
	uint32_t epoch = ++w.last_epoch;
	for (unsigned i = 0; i < SECRETS; i++) {
		struct thing *t = thing(true, i);
		if (i % 11 == 5)
			continue;
		if (i % 9 == 4 || !t->now)
			put(t, epoch);
		else
			take_in(t, epoch, "an item that has not changed");
	}
	for (unsigned i = 5; i < SECRETS; i += 11)
		if (thing(true, i)->now)
			will_be(thing(true, i), 0);
	begin("the end of a list");
	if (informer_sweep(informer_of(thing(true, 0)), (struct span){0}, epoch, &counts, &err) < 0)
		violation("a sweep is refused: %s", err.text);
	end();
}

/* ---- the watcher ---- */

static void open_watcher(void)
{
	struct err err = {0}, why = {0};
	bool lost;
	struct config config = {0};
	trap_open(&trap);
	trap.paused = true;
	if (store_open(live, BUDGET, &w.store, &lost, &why, &err) < 0 ||
	    config_load(folder, &config, &err) < 0) {
		fprintf(stderr, "step_cache: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
	struct outbox_place place = {.extent = store_outbox, .ctx = w.store};
	place.extents = store_outbox_extents(w.store, &place.most);
	w.outbox = outbox_new(&place, store_controllers(w.store));
	w.broker = &broker;
	plan_apply(&w, &config);
	if (w.n_controllers != 1 || w.n_informers != 2)
		die("the controller is not as it should be");
	for (size_t i = 0; i < w.n_informers; i++) {
		w.informers[i]->served = true;
		w.informers[i]->resource.namespaced = true;
		store_table_entry(w.store, w.informers[i]->table)->scope = CACHE_SCOPE_NAMESPACED;
		store_table_set_synced(w.store, w.informers[i]->table, true);
	}
}

/* Killed between two events, and started again. */
static void restart(void)
{
	trap_close(&trap);
	store_close(w.store);
	outbox_free(w.outbox);
	w = (struct watcher){.last_epoch = w.last_epoch}; /* what it had is leaked, as by a kill */
	broker = (struct broker){0};
	trap = (struct trap){.after = on_cut, .most = TRAP_RANGES, .stores = trap.stores};
	open_watcher();
}

static void write_controller(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/web.yaml", folder);
	FILE *f = fopen(path, "w");
	if (!f)
		die(path);
	fputs("apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: web}\nspec:\n"
	      "  for: {apiVersion: v1, kind: ConfigMap}\n  owns: [{apiVersion: v1, kind: Secret}]\n"
	      "  reconciler:\n    exec: {command: [/bin/true]}\n",
	      f);
	fclose(f);
}

/* Not cut: so many objects that what follows is cut in the middle of their world. */
static void fill(void)
{
	struct counts counts = {0};
	struct err err = {0};
	for (size_t i = 0; i < THINGS; i++) {
		struct thing *t = &things[i];
		*t = (struct thing){.secret = i >= MAPS, .number = (unsigned)(i >= MAPS ? i - MAPS : i)};
		if (!t->secret && t->number >= MANY)
			continue; /* later */
		struct buf json = {0};
		t->before = t->now = ++version;
		make_json(t, t->now, &json);
		if (informer_put(&informer_of(t)->streams[0], buf_span(&json), 0, &counts, &err) < 0) {
			fprintf(stderr, "step_cache: %s\n", err.text);
			exit(EXIT_FAILURE);
		}
		buf_done(&json);
		while (outbox_waiting(w.outbox) > 100 || i + 1 == THINGS) {
			delivery_run(&w, clock_boottime_ns());
			if (!broker.n)
				break;
			while (broker.n) {
				size_t k = --broker.n;
				delivery_ops.on_added(&w, broker.batches[k], (int64_t)broker.counts[k],
						      (struct span){0});
			}
		}
	}
	broker.swept = false;
	delivery_ops.on_swept(&w, span_of("web"), true);
}

static void tidy_up(void)
{
	begin("tidying up");
	for (int i = 0; i < 1000 && store_work(w.store); i++)
		continue;
	end();
}

/* A dictionary is made while they come in and those before are packed with it; then most of them go, and the segments are emptied. */
static void large_ones(void)
{
	each = 3; /* their like follow each other, so that each store of the pattern has its cut */
	for (unsigned i = LARGE; i < MAPS; i++) {
		uncut = i < LARGE + 20 || (i >= LARGE + 32 && i % 5);
		put(thing(false, i), 0);
		if (i % 16 == 0)
			deliver();
	}
	uncut = false;
	if (!dictionaries(live))
		violation("no dictionary was made");
	tidy_up();
	deliver();
	restart();
	struct store_usage before, after;
	store_usage(w.store, &before);
	for (unsigned i = LARGE; i < MAPS; i++)
		if (i % 8) {
			uncut = i % 5;
			delete (thing(false, i));
			if (i % 16 == 1)
				deliver();
		}
	uncut = false;
	tidy_up();
	deliver();
	store_usage(w.store, &after);
	if (after.allocated >= before.allocated)
		violation("no bytes came back");
	each = 1;
}

static void history(void)
{
	for (unsigned i = 0; i < 6; i++)
		put(thing(false, i), 0);
	deliver();
	put(thing(true, 1), 0);
	put(thing(true, 1), 0); /* merged into what waits */
	delete (thing(true, 2));
	deliver();
	delete (thing(false, 20));
	put(thing(false, 20), 0);
	deliver();
	relist();
	deliver();
	for (unsigned i = MANY; i < LARGE; i++) /* the name index is built anew on the way */
		put(thing(false, i), 0);
	deliver();
	restart();
	for (unsigned i = 30; i < 40; i++)
		delete (thing(false, i));
	deliver();
	large_ones();
	relist();
	deliver();
}

int main(int argc, char **argv)
{
	totals.want_violation = argc == 2 && strcmp(argv[1], "--violation") == 0;
	if (argc > 2 || (argc == 2 && !totals.want_violation)) {
		fprintf(stderr, "usage: %s [--violation]\n", argv[0]);
		return 2;
	}
	if (!trap_possible()) {
		printf("SKIPPED: this machine is no x86-64: no trap flag to step stores with\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	log_init("step_cache", LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	snprintf(folder, sizeof folder, "%s/reconciled-step.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(folder))
		die(folder);
	char *const paths[] = {live, cut, again, third};
	for (int i = 0; i < 4; i++) {
		snprintf(paths[i], sizeof live, "%s/%d", folder, i);
		if (mkdir(paths[i], 0700) < 0)
			die(paths[i]);
	}
	write_controller();
	trap.after = on_cut;
	open_watcher();
	struct err err = {0};
	if (cache_open(live, &reader, &err) < 0)
		die(err.text);
	fill();
	history();
	trap_close(&trap);
	event = "a reader in the middle of a copy";
	a_reader_in_the_middle(cut, BUDGET);
	clean_all();
	if (totals.want_violation) {
		printf("FAILED: no violation was found\n0 passed, 1 failed\n");
		return EXIT_FAILURE;
	}
	printf("%llu stores, cut after %llu of them; %llu reads, %llu starts, %llu of them after a start "
	       "that was cut\n",
	       (unsigned long long)totals.stores, (unsigned long long)totals.cuts,
	       (unsigned long long)totals.reads, (unsigned long long)totals.started,
	       (unsigned long long)totals.recoveries_cut);
	printf(totals.violations ? "0 passed, 1 failed\n" : "1 passed, 0 failed\n");
	return totals.violations ? EXIT_FAILURE : EXIT_SUCCESS;
}
