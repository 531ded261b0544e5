/* The redo record and recovery: damage; the same queue after a restart; random histories. Killed at any store: tests/step. */
#include "buf.h"
#include "queue_lib.h"
#include <time.h>

static struct lib l;
static void setup(void)
{
	lib_init(&l);
}
static void teardown(void)
{
	lib_done(&l);
}
TestSuite(store, .init = setup, .fini = teardown);

/* ---- what a region says, as text ---- */

static void dump_text(const struct store *st, const char *name, uint32_t ref, struct buf *out)
{
	struct span t = store_text(st, ref);
	buf_printf(out, " %s=", name);
	buf_json_string(out, t);
}

static void dump_slot(const struct store *st, uint32_t i, struct buf *out)
{
	const struct shm_slot *s = store_slot(st, i);
	struct span namespace, name;
	if (s->state == SHM_STATE_NONE)
		return;
	store_key(st, s, &namespace, &name);
	buf_printf(out, "%u " SPAN_FMT "/" SPAN_FMT " %u %u %u %lld %lld %d %u %u %u %u %u", i,
		   SPAN_ARG(namespace), SPAN_ARG(name), s->state, s->wait, s->controller,
		   (long long)s->ready_at, (long long)s->added, s->priority, s->count, s->causes, s->ends,
		   s->flags, s->uncounted);
	if (s->detail) {
		const struct shm_detail *d = store_detail(st, s->detail);
		dump_text(st, "first", d->objects.first_object, out);
		dump_text(st, "last", d->objects.last_object, out);
		dump_text(st, "lease_first", d->lease_objects.first_object, out);
		dump_text(st, "lease_last", d->lease_objects.last_object, out);
		struct shm_detail plain = *d;
		plain.objects = plain.lease_objects = (struct shm_causes){0};
		buf_printf(out, " detail=%llx",
			   (unsigned long long)hash_bytes(&plain, sizeof(plain), HASH_SEED));
	}
	if (s->record) {
		const struct shm_record *r = store_record(st, s->record);
		dump_text(st, "reason", r->reason, out);
		dump_text(st, "message", r->message, out);
		struct shm_record plain = *r;
		plain.reason = plain.message = 0;
		buf_printf(out, " record=%llx",
			   (unsigned long long)hash_bytes(&plain, sizeof(plain), HASH_SEED));
	}
	buf_putc(out, '\n');
}

static char *dump(const struct store *st)
{
	struct buf out = {0};
	for (uint32_t i = 0; i < store_slots(st); i++)
		dump_slot(st, i, &out);
	for (uint32_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		if (store_controller(st, i)->name[0])
			buf_printf(&out, "controller %u %llx\n", i,
				   (unsigned long long)hash_bytes(store_controller(st, i),
								  sizeof(struct shm_controller), HASH_SEED));
	buf_printf(&out, "next %llu\n", (unsigned long long)store_header(st)->next_generation);
	return buf_steal(&out);
}

/* ---- random histories ---- */

static uint64_t seed;
static uint32_t below(uint32_t n)
{
	return (uint32_t)(limiter_random(&seed) * n);
}

static void start_random(void)
{
	const char *given = getenv("SEED");
	seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 2654435761u | 1;
	fprintf(stderr, "SEED=%llu\n", (unsigned long long)seed);
}

enum { KEYS = 12 };
static struct workqueue_grant leases[KEYS]; /* by key; generation 0: none */

static void name_of(uint32_t i, char name[80])
{
	snprintf(name, 80, i % 3 ? "key-%u" : "a-key-that-is-longer-than-what-fits-into-a-slot-%u", i);
}

static uint32_t key_of(struct span name)
{
	char text[80];
	for (uint32_t i = 0; i < KEYS; i++) {
		name_of(i, text);
		if (span_is(name, text))
			return i;
	}
	cr_assert(false, "a key that nobody added");
	return 0;
}

static void random_add(struct lib *q, uint32_t i)
{
	char name[80];
	name_of(i, name);
	struct wire_add_key key = lib_key(name, below(3) == 0 ? -100 : (int64_t)below(10));
	key.cause = below(WIRE_CAUSE_COUNT);
	key.primary_changed = below(4) == 0;
	if (below(2)) {
		key.cause_kind = span_of("ConfigMap.v1");
		key.cause_namespace = span_of("shop");
		key.cause_name = span_of(
		    below(2) ? "settings" : "a-settings-object-with-a-name-that-needs-a-larger-cell-of-text");
	}
	lib_add_key(q, key);
}

static struct wire_done random_done(void)
{
	static const char *const messages[] = {
	    "", "short",
	    "a message that is longer, as the last lines of stderr of a program often are: line 1, line 2"};
	return (struct wire_done){
	    .outcome = below(WIRE_OUTCOME_COUNT),
	    .requeue_after_ms = below(2) ? (int64_t)below(5000) : -1,
	    .has_priority = below(5) == 0,
	    .priority = 3,
	    .pause_controller = below(20) == 0,
	    .reason = span_of(messages[below(2)]),
	    .message = span_of(messages[below(3)]),
	};
}

/* One call of the queue, at most one transition. */
static void random_step(struct lib *q)
{
	struct workqueue_grant g;
	uint32_t i = below(KEYS);
	switch (below(8)) {
	case 0:
	case 1:
	case 2:
		random_add(q, i);
		return;
	case 3:
	case 4:
		if (lib_grant(q, &g))
			leases[key_of(g.name)] = g;
		return;
	case 5:
	case 6:
		for (uint32_t j = 0; j < KEYS; j++, i = (i + 1) % KEYS)
			if (leases[i].generation) {
				lib_end(q, &leases[i], random_done());
				leases[i].generation = 0;
				return;
			}
		return;
	default:
		q->now += (int64_t)below(3000) * MS;
		workqueue_tick(&q->wq, q->now, 1, lib_no_over, NULL);
	}
}

/* ---- damage ---- */

Test(store, a_transition_without_its_redo_record_is_found_out)
{
	lib_add(&l, "a");
	char *memory = l.memory;
	struct shm_redo *redo = (struct shm_redo *)(void *)(memory + SHM_REDO_AT);
	cr_assert(redo->bytes == 0, "the record stayed valid");
	store_slot_at(&l.store, 0)->seq |= 1;
	struct store st = lib_store(memory, LIB_BYTES);
	st.allocated = LIB_BYTES;
	struct workqueue wq = {0};
	struct err err = {0};
	cr_assert(store_recover(&st, &err) == 0 && workqueue_init(&wq, &st, 1, &err) == -EBADMSG);
	cr_assert(strstr(err.text, "half written"), "%s", err.text);
	store_done(&st);
}

static void expect_distrust(const char *why)
{
	struct store st = lib_store(l.memory, LIB_BYTES);
	struct workqueue wq = {0};
	st.allocated = LIB_BYTES;
	struct err err = {0};
	int rc = store_recover(&st, &err);
	if (rc == 0 && (rc = workqueue_init(&wq, &st, 1, &err)) == 0)
		workqueue_done_with(&wq);
	cr_assert(rc == -EBADMSG, "damage was not found (%s)", why);
	cr_assert(strstr(err.text, why), "'%s' does not say '%s'", err.text, why);
	store_done(&st);
}

static struct shm_slot *raw_slot(const char *name)
{
	return (struct shm_slot *)(uintptr_t)lib_slot(&l, name);
}

Test(store, damage_is_found)
{
	lib_add(&l, "a");
	lib_add(&l, "b");
	struct shm_slot *a = raw_slot("a"), *b = raw_slot("b"), keep = *a;
	a->state = 99;
	expect_distrust("damaged");
	*a = keep;
	a->name_len = 0;
	expect_distrust("damaged");
	*a = keep;
	a->controller = 9;
	expect_distrust("damaged");
	*a = keep;
	memcpy(a->name, b->name, sizeof(a->name));
	expect_distrust("two slots");
	*a = keep;
	a->detail = 5;
	expect_distrust("names no cell");
	a->detail = UINT32_MAX;
	expect_distrust("outside");
	*a = keep;
	a->record = 5;
	expect_distrust("names no cell");
	*a = keep;
	a->namespace_number = 1024;
	expect_distrust("no namespace");
	*a = keep;
	a->state = SHM_STATE_RUNNING;
	expect_distrust("contradict");
	*a = keep;
	struct shm_redo *redo = (struct shm_redo *)(void *)(l.memory + SHM_REDO_AT);
	redo->bytes = 7;
	expect_distrust("redo record");
	redo->bytes = 0;
	((uint8_t *)l.memory)[SHM_DIRECTORY_AT + 3] = 200;
	expect_distrust("holds nothing known");
}

Test(store, a_cell_named_twice_is_found)
{
	lib_add(&l, "a");
	lib_add(&l, "b");
	lib_get(&l, "a");
	lib_get(&l, "b");
	raw_slot("b")->detail = raw_slot("a")->detail;
	expect_distrust("named twice");
}

Test(store, random_damage_never_crashes_the_recovery)
{
	start_random();
	for (int i = 0; i < 200; i++)
		random_step(&l);
	char *good = xcalloc(LIB_BYTES, 1);
	memcpy(good, l.memory, LIB_BYTES);
	size_t used = (size_t)l.store.blocks * SHM_BLOCK, distrusted = 0;
	for (int i = 0; i < 300; i++) {
		memcpy(l.memory, good, used);
		for (uint32_t n = 1 + below(40); n > 0; n--)
			l.memory[SHM_HEADER_AT + below((uint32_t)used - SHM_HEADER_AT)] = (char)below(256);
		struct store st = lib_store(l.memory, LIB_BYTES);
		struct workqueue wq;
		st.allocated = LIB_BYTES;
		if (store_recover(&st, NULL) < 0)
			distrusted++;
		else if (workqueue_init(&wq, &st, 1, NULL) < 0)
			distrusted++;
		else
			workqueue_done_with(&wq);
		store_done(&st);
	}
	fprintf(stderr, "distrusted %zu of 300\n", distrusted);
	memcpy(l.memory, good, used);
	free(good);
}

/* ---- a restart changes nothing ---- */

Test(store, recovery_is_equal)
{
	start_random();
	for (int round = 0; round < 60; round++) {
		for (int i = 0; i < 50; i++)
			random_step(&l);
		char *before = dump(&l.store);
		uint32_t waiting = l.wq.controllers[l.c].waiting, running = l.wq.controllers[l.c].running,
			 quarantined = l.wq.controllers[l.c].quarantined,
			 ready = index_ready_len(&l.wq.index, l.c), keys = l.wq.index.keys;
		int64_t next = workqueue_next(&l.wq, l.now);
		lib_restart(&l);
		char *after = dump(&l.store);
		cr_assert_str_eq(before, after);
		cr_assert(waiting == l.wq.controllers[l.c].waiting &&
			  running == l.wq.controllers[l.c].running &&
			  quarantined == l.wq.controllers[l.c].quarantined &&
			  ready == index_ready_len(&l.wq.index, l.c) && keys == l.wq.index.keys);
		cr_assert(next == workqueue_next(&l.wq, l.now));
		free(before);
		free(after);
	}
}

Test(store, order_of_ready_keys_survives)
{
	char name[16];
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		l.now++;
		lib_add(&l, name);
	}
	lib_restart(&l);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		lib_run(&l, name, WIRE_OUTCOME_OK);
	}
}

Test(store, generations_never_repeat_over_a_restart)
{
	lib_add(&l, "a");
	struct workqueue_grant first = lib_get(&l, "a");
	lib_restart(&l);
	const struct shm_detail *d = workqueue_lease(&l.wq, first.slot, first.generation);
	cr_assert(d && d->host_pid == lib_holder.host_pid && d->jail_start == lib_holder.jail_start &&
		  d->lease_end == first.lease_end);
	struct workqueue_end end;
	cr_assert(workqueue_lost(&l.wq, first.slot, first.generation, l.now, &end) == 0);
	cr_assert(lib_get(&l, "a").generation > first.generation);
}

Test(store, cells_do_not_leak)
{
	start_random();
	for (int i = 0; i < 20000; i++)
		random_step(&l);
	for (uint32_t i = 0; i < KEYS; i++)
		if (leases[i].generation) {
			lib_outcome(&l, &leases[i], WIRE_OUTCOME_OK);
			leases[i].generation = 0;
		}
	workqueue_drop(&l.wq, l.c, l.now);
	cr_assert(l.wq.index.keys == 0);
	size_t free_slots = l.store.free_slots.len, free_details = l.store.free_details.len,
	       free_records = l.store.free_records.len, free_texts = 0, all_texts = 0;
	cr_assert(free_slots == store_slots(&l.store));
	size_t idle = 0;
	for (size_t i = 0; i < INDEX_IDLE; i++)
		idle += l.wq.index.idle[i] != INDEX_NONE;
	cr_assert(l.store.free_namespaces.len + idle == store_namespaces(&l.store));
	for (uint32_t b = 0; b < l.store.blocks; b++) {
		uint8_t holds = shm_block_kind(((uint8_t *)l.memory)[SHM_DIRECTORY_AT + b]);
		if (holds == SHM_BLOCK_DETAILS)
			free_details -= SHM_BLOCK / SHM_DETAIL_SIZE;
		if (holds == SHM_BLOCK_RECORDS)
			free_records -= SHM_BLOCK / SHM_RECORD_SIZE;
		if (shm_text_size(holds))
			all_texts += SHM_BLOCK / shm_text_size(holds);
	}
	for (size_t i = 0; i < SHM_BLOCK_COUNT; i++)
		free_texts += l.store.free_texts[i].len;
	cr_assert(free_details == 0, "details leak");
	cr_assert(free_records == 0, "records leak");
	cr_assert(free_texts == all_texts, "texts leak: %zu of %zu are free", free_texts, all_texts);
}

/* ---- against a model ---- */

static struct {
	bool there, leased, dirty, held; /* held: waits for a time that events do not shorten */
	int64_t until;			 /* WAITING: 0 is ready */
	bool parked;
	int64_t priority;
	uint64_t generation;
} model[KEYS];

static enum shm_state model_state(uint32_t i)
{
	if (!model[i].there)
		return SHM_STATE_NONE;
	if (model[i].leased)
		return model[i].dirty ? SHM_STATE_DIRTY : SHM_STATE_RUNNING;
	return model[i].parked ? SHM_STATE_QUARANTINED : model[i].until ? SHM_STATE_WAITING : SHM_STATE_READY;
}

static void model_free(uint32_t i)
{
	model[i].parked = model[i].held = false;
	model[i].until = 0;
}

static void model_add(uint32_t i, const struct wire_add_key *key)
{
	bool change = key->primary_changed || key->cause == WIRE_CAUSE_OPERATOR;
	bool fresh = !model[i].there || (model[i].leased && !model[i].dirty);
	model[i].priority = fresh ? key->priority : MAX(model[i].priority, key->priority);
	model[i].there = true;
	if (model[i].leased)
		model[i].dirty = true;
	else if (model[i].parked ? change : !model[i].held || key->cause == WIRE_CAUSE_OPERATOR)
		model_free(i);
}

static void model_end(uint32_t i, const struct wire_done *done, const struct workqueue_end *end)
{
	bool dirty = model[i].dirty;
	bool again = done->outcome != WIRE_OUTCOME_TERMINAL &&
		     !(done->outcome == WIRE_OUTCOME_OK && done->requeue_after_ms <= 0 && !done->requeue);
	bool returned = done->outcome >= WIRE_OUTCOME_WORKER_LOST;
	model[i].leased = model[i].dirty = false;
	model[i].there = again || dirty;
	model[i].held = done->outcome == WIRE_OUTCOME_THROTTLED;
	model[i].parked = end->to == SHM_STATE_QUARANTINED;
	cr_assert(!model[i].parked || wire_outcome_quarantines(done->outcome));
	model[i].until = 0;
	if (model[i].parked || model[i].held || (again && !returned && !dirty))
		model[i].until = l.now + end->delay;
}

Test(store, random_operations_agree_with_a_simple_model)
{
	start_random();
	char name[80];
	for (int step = 0; step < 30000; step++) {
		uint32_t i = below(KEYS), what = below(100);
		struct workqueue_grant g;
		name_of(i, name);
		if (what < 40) {
			struct wire_add_key key = lib_key(name, (int64_t)below(5) - 2);
			key.cause = below(WIRE_CAUSE_COUNT);
			key.primary_changed = below(5) == 0;
			lib_add_key(&l, key);
			model_add(i, &key);
		} else if (what < 65) {
			workqueue_unpause(&l.wq, l.c);
			bool any = false;
			for (uint32_t j = 0; j < KEYS; j++)
				any = any || model_state(j) == SHM_STATE_READY;
			bool got = lib_grant(&l, &g);
			cr_assert(got == any || store_controller(&l.store, l.c)->pause,
				  "step %d: granted %d, ready %d", step, got, any);
			if (!got)
				continue;
			i = key_of(g.name);
			cr_assert(model_state(i) == SHM_STATE_READY, "step %d: a key was granted that is %s",
				  step, shm_state_name(model_state(i)));
			model[i].leased = true;
			model[i].generation = g.generation;
			leases[i] = g;
		} else if (what < 90) {
			struct wire_done done = random_done();
			struct workqueue_end end;
			done.slot = leases[i].slot;
			done.generation = leases[i].generation;
			int rc = workqueue_done(&l.wq, &done, l.now, &end);
			cr_assert((rc == 0) == model[i].leased, "step %d: %d", step, rc);
			if (rc == 0)
				model_end(i, &done, &end);
		} else if (what < 98) {
			lib_advance(&l, (int64_t)below(20000) * MS);
			for (uint32_t j = 0; j < KEYS; j++)
				if (model[j].until && model[j].until <= l.now)
					model_free(j);
		} else {
			lib_restart(&l);
		}
		for (uint32_t j = 0; j < KEYS; j++) {
			name_of(j, name);
			const struct shm_slot *s = lib_slot(&l, name);
			enum shm_state is = s ? s->state : SHM_STATE_NONE;
			cr_assert(is == model_state(j), "step %d (%u): %s is %s, the model says %s", step,
				  what, name, shm_state_name(is), shm_state_name(model_state(j)));
		}
	}
}
