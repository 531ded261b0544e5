/* Reading the region while it is written: whole keys or none. */
#include "queue_lib.h"
#include "queue_read.h"
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];
static struct region region;
static struct lib l;

static int grow(void *ctx, uint64_t size)
{
	return region_grow(ctx, size);
}

static void setup(void)
{
	snprintf(folder, sizeof(folder), "/dev/shm/queue-read-XXXXXX");
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/%s", folder, SHM_QUEUE_FILE);
	struct region_spec spec = shm_queue_spec();
	spec.max_size = 64 * (uint64_t)SHM_BLOCK;
	spec.initial_size = 4 * (uint64_t)SHM_BLOCK;
	enum region_state state;
	cr_assert(region_write(path, &spec, &region, &state, NULL) == 0);
	l = (struct lib){.memory = region.at, .now = 1000 * S};
	l.store = lib_store(region.at, spec.max_size);
	l.store.grow = grow;
	l.store.grow_ctx = &region;
	cr_assert(store_format(&l.store, 2 * (uint64_t)SHM_BLOCK) == 0);
	cr_assert(workqueue_init(&l.wq, &l.store, 42, NULL) == 0);
	bool new;
	cr_assert(workqueue_open(&l.wq, "web", &l.c, &new) == 0);
	struct workqueue_rules rules = lib_rules();
	workqueue_configure(&l.wq, l.c, &rules);
}

static void teardown(void)
{
	workqueue_done_with(&l.wq);
	store_done(&l.store);
	region_done(&region);
	unlink(path);
	rmdir(folder);
}
TestSuite(queue_read, .init = setup, .fini = teardown);

static struct queue_reader *reader(void)
{
	struct queue_reader *q;
	struct err err = {0};
	int rc = queue_open(folder, &q, &err);
	cr_assert(rc == 0, "%s", err.text);
	return q;
}

Test(queue_read, what_a_slot_knows)
{
	struct wire_add_key key = lib_key("a", 7);
	key.cause_kind = span_of("ConfigMap.v1");
	key.cause_namespace = span_of("elsewhere");
	key.cause_name = span_of("settings");
	lib_add_key(&l, key);
	struct workqueue_grant g = lib_get(&l, "a");
	lib_end(&l, &g,
		(struct wire_done){.outcome = WIRE_OUTCOME_TRANSIENT,
				   .requeue_after_ms = 20000,
				   .duration_us = 777,
				   .reason = span_of("BackendDown"),
				   .message = span_of("connection refused")});
	const char *longer = "a-name-that-does-not-fit-into-the-slot-itself";
	lib_add(&l, longer);
	lib_get(&l, longer);
	lib_add(&l, longer);
	struct queue_reader *q = reader();
	cr_assert(queue_has_writer(q));
	struct queue_key k;
	cr_assert(queue_find(q, span_of("web"), span_of("shop"), span_of("a"), &k) == 0);
	cr_assert(k.state == SHM_STATE_WAITING && k.wait == SHM_WAIT_BACKOFF && k.priority == 7 && k.pending);
	cr_assert(k.ready_at == l.now + 20 * S && k.record.last_outcome == WIRE_OUTCOME_TRANSIENT &&
		  k.record.attempt == 1 && k.record.outcomes[WIRE_OUTCOME_TRANSIENT] == 1 &&
		  k.record.duration_us == 777);
	cr_assert_str_eq(k.reason, "BackendDown");
	cr_assert_str_eq(k.message, "connection refused");
	cr_assert(queue_find(q, span_of("web"), span_of("shop"), span_of(longer), &k) == 0);
	cr_assert(k.state == SHM_STATE_DIRTY && k.pending && k.count == 1 &&
		  k.detail.host_pid == lib_holder.host_pid);
	cr_assert_str_eq(k.name, longer);
	cr_assert(queue_find(q, span_of("web"), span_of("shop"), span_of("b"), &k) == -ENOENT);
	cr_assert(queue_find(q, span_of("other"), span_of("shop"), span_of("a"), &k) == -ENOENT);
	struct shm_controller c;
	cr_assert(queue_controller(q, l.c, &c) && strcmp(c.name, "web") == 0 && c.counters.grants == 2);
	cr_assert(!queue_controller(q, 63, &c) && !queue_controller(q, 64, &c));
	queue_close(q);
}

/* Adds and merges as the broker itself tells them: some are still in the slots. */
static void counts_are(uint64_t adds, uint64_t merges)
{
	struct queue_reader *q = reader();
	struct shm_controller row;
	struct queue_key k;
	uint32_t cursor = 0;
	cr_assert(queue_controller(q, l.c, &row));
	while (queue_next(q, &cursor, &k) == 1) {
		row.counters.adds += k.uncounted_adds;
		row.counters.merges += k.uncounted_merges;
	}
	struct shm_controller_counters own = workqueue_counters(&l.wq, l.c);
	cr_expect(row.counters.adds == adds && row.counters.merges == merges, "%llu, %llu",
		  (unsigned long long)row.counters.adds, (unsigned long long)row.counters.merges);
	cr_expect(own.adds == adds && own.merges == merges);
	queue_close(q);
}

Test(queue_read, adds_and_merges_are_all_there_wherever_they_are_counted)
{
	counts_are(0, 0);
	lib_add(&l, "a");
	lib_add(&l, "b"), lib_add(&l, "b"), lib_add(&l, "b");
	counts_are(2, 2);
	struct workqueue_grant g = lib_get(&l, "a");
	counts_are(2, 2);
	lib_end(&l, &g, (struct wire_done){.outcome = WIRE_OUTCOME_OK});
	counts_are(2, 2);
	for (int i = 0; i < 300; i++) /* more than a slot can keep */
		lib_add(&l, "b");
	counts_are(2, 302);
	lib_get(&l, "b");
	counts_are(2, 302);
}

Test(queue_read, causes_have_their_objects)
{
	struct wire_add_key key = lib_key("a", 0);
	key.cause_kind = span_of("ConfigMap.v1");
	key.cause_namespace = span_of("elsewhere");
	key.cause_name = span_of("settings");
	lib_add_key(&l, key);
	lib_change(&l, "a");
	struct queue_reader *q = reader();
	struct queue_key k;
	cr_assert(queue_find(q, span_of("web"), span_of("shop"), span_of("a"), &k) == 0);
	cr_assert(k.count == 2 && k.first.event == WIRE_CAUSE_UPDATED);
	cr_assert_str_eq(k.first.kind, "ConfigMap.v1");
	cr_assert_str_eq(k.first.namespace, "elsewhere");
	cr_assert_str_eq(k.first.name, "settings");
	cr_assert_str_eq(k.last.kind, "");
	queue_close(q);
}

static int count_entry(void *ctx, const struct queue_happened *h)
{
	uint64_t *last = ctx;
	cr_assert(h->entry.number > *last, "the ring is out of order");
	*last = h->entry.number;
	return 0;
}

Test(queue_read, history_outlives_the_slot_and_wraps)
{
	struct queue_reader *q = reader();
	uint64_t last = 0;
	lib_add(&l, "gone");
	lib_run(&l, "gone", WIRE_OUTCOME_OK);
	cr_assert(queue_history(q, span_of("web"), span_of("shop"), span_of("gone"), count_entry, &last) ==
		      0 &&
		  last == 3);
	for (int i = 0; i < 1000; i++) {
		lib_add(&l, "a");
		lib_run(&l, "a", WIRE_OUTCOME_OK);
	}
	last = 0;
	cr_assert(queue_history(q, span_of("web"), span_of("shop"), span_of(""), count_entry, &last) == 0 &&
		  last == 4003); /* a cycle is three entries and a text */
	cr_assert(queue_history(q, span_of("web"), span_of("shop"), span_of("a"), count_entry,
				&(uint64_t){0}) == 0);
	queue_close(q);
}

/* ---- against a writer that never rests ---- */

static _Atomic bool stop;
static _Atomic uint64_t written;

/* Key N always has N as its priority and its name as its reason, so that a mix of two shows. */
static void *writer(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; !stop; i = (i + 1) % 40) {
		char name[96], message[400];
		snprintf(name, sizeof(name),
			 i % 2 ? "key-%u" : "a-key-with-a-name-that-is-kept-outside-of-its-slot-%u", i);
		struct wire_add_key key = lib_key(name, 1 + (int64_t)i);
		key.cause_kind = span_of("ConfigMap.v1");
		key.cause_name = span_of(name);
		enum shm_state state;
		struct workqueue_grant g;
		struct workqueue_end end;
		workqueue_add(&l.wq, l.c, &key, l.now, &state);
		if (workqueue_grant(&l.wq, l.c, &lib_holder, l.now, &g) != 1)
			continue;
		snprintf(name, sizeof(name), SPAN_FMT, SPAN_ARG(g.name));
		uint32_t n = (uint32_t)atoi(strrchr(name, '-') + 1);
		uint32_t number = (uint32_t)written + 1;
		memset(message, 'a' + (int)(n % 26), sizeof(message));
		snprintf(message, 12, "%010u:", number);
		message[11] = 'a' + (char)(n % 26);
		struct wire_done done = {.slot = g.slot,
					 .generation = g.generation,
					 .requeue_after_ms = 1,
					 .outcome = n % 5 ? WIRE_OUTCOME_TRANSIENT : WIRE_OUTCOME_TERMINAL,
					 .reason = span_of(name),
					 .duration_us = number,
					 .message = {message, 12 + n * 9}};
		workqueue_done(&l.wq, &done, l.now, &end);
		l.now += 20 * MS;
		workqueue_tick(&l.wq, l.now, 100, lib_no_over, NULL);
		workqueue_unpause(&l.wq, l.c);
		written++;
	}
	return NULL;
}

static void check_key(const struct queue_key *k)
{
	unsigned n = 0;
	cr_assert(sscanf(strrchr(k->name, '-') + 1, "%u", &n) == 1 && n < 40, "name %s", k->name);
	cr_assert(strncmp(k->name, n % 2 ? "key-" : "a-key-with", 4) == 0);
	cr_assert(k->priority == 1 + (int32_t)n, "%s has priority %d", k->name, k->priority);
	cr_assert(!k->reason[0] || strcmp(k->reason, k->name) == 0, "%s has reason %s", k->name, k->reason);
	if (!k->message[0])
		return;
	/* The message, in a cell of its own, and the detail are of the same attempt. */
	cr_assert(strlen(k->message) == 12 + n * 9, "%s has a message of %zu", k->name, strlen(k->message));
	cr_assert((uint32_t)atoi(k->message) == k->record.duration_us, "%s: %u, %s", k->name,
		  k->record.duration_us, k->message);
	for (const char *m = k->message + 11; *m; m++)
		cr_assert(*m == 'a' + (char)(n % 26), "%s has message %s", k->name, k->message);
}

Test(queue_read, a_reader_sees_whole_keys_while_they_change)
{
	pthread_t thread;
	cr_assert(pthread_create(&thread, NULL, writer, NULL) == 0);
	struct queue_reader *q = reader();
	uint64_t read = 0, again = 0;
	int64_t end = clock_boottime_ns() + 20 * NS_PER_S;
	/* Of one key alone a writer that is not scheduled in the middle of it would hold up all that is read. */
	while (written < 1000 && clock_boottime_ns() < end)
		usleep(1000);
	while (clock_boottime_ns() < end && (read < 200000 || written < 100000)) {
		uint32_t cursor = 0;
		struct queue_key k;
		for (int rc; (rc = queue_next(q, &cursor, &k)) != 0;) {
			cr_assert(rc == 1 || rc == -EAGAIN, "%d", rc);
			if (rc == 1)
				check_key(&k);
			read += rc == 1;
			again += rc != 1;
		}
	}
	stop = true;
	pthread_join(thread, NULL);
	cr_assert(read > 1000 && written > 1000, "%llu read, %llu written", (unsigned long long)read,
		  (unsigned long long)written);
	cr_assert(again < read / 10, "%llu of %llu not read", (unsigned long long)again,
		  (unsigned long long)read);
	queue_close(q);
}
