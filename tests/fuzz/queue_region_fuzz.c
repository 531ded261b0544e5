/* Damaged queue regions: a start refuses them with a reason, or what it finds is a whole queue that can be worked off.
 *
 * Input: {blocks that are left}, then changes of {offset 4 bytes, what, value}. The region that is damaged has keys in all states. */
#include "fuzz.h"
#include "queue/workqueue.h"

enum { BLOCKS = 40, KEYS = 40 };
#define BYTES ((size_t)BLOCKS * SHM_BLOCK)
#define NOW   (1000 * NS_PER_S)

static char *whole, *damaged;
static size_t used; /* bytes of whole */

static int grow(void *ctx, uint64_t size)
{
	(void)ctx;
	return size <= BYTES ? 0 : -EFBIG;
}

static struct store store_over(char *memory, uint64_t allocated)
{
	return (struct store){.at = memory,
			      .allocated = allocated,
			      .limit = BYTES,
			      .reserve = 4 * (uint64_t)SHM_BLOCK,
			      .hash_seed = 7,
			      .grow = grow};
}

static const struct workqueue_rules rules = {
    .attempt = {.limits = {5 * NS_PER_MS, 1000 * NS_PER_S, 0.1, 10, 100},
		.crashes = 3,
		.within = 600 * NS_PER_S,
		.park_for = 3600 * NS_PER_S},
    .timeout = 30 * NS_PER_S,
};
static const struct workqueue_holder holder = {100, 101, 7, 8};

/* A worker that is done at once with everything, as often as there are keys. */
static void work_off(struct workqueue *wq, uint16_t controller, int64_t now, uint32_t outcome, int most)
{
	struct workqueue_grant g;
	struct workqueue_end end;
	while (most-- > 0 && workqueue_grant(wq, controller, &holder, now, &g) == 1) {
		struct wire_done done = {.slot = g.slot,
					 .generation = g.generation,
					 .outcome = outcome,
					 .requeue_after_ms = -1,
					 .reason = span_of("Reason"),
					 .message = span_of("the last line of stderr")};
		FUZZ_CHECK(workqueue_done(wq, &done, now, &end) == 0,
			   "a lease that was just given is not there");
	}
}

/* Leases one key and ends it so: it is held for what it wrote; parked, when it crashes often enough; or it stays leased and is
 * added again, now or for later. */
static void one_of_each(struct workqueue *wq, uint16_t controller)
{
	static const struct wire_write write = {
	    .table = 1, .stream = 0, .resource_version = 1000, .own = true};
	static const struct wire_add_key again[] = {{.cause = WIRE_CAUSE_UPDATED}, {.delay_ms = 60000}};
	struct workqueue_grant g;
	struct workqueue_end end = {.to = SHM_STATE_READY};
	enum shm_state state;
	for (int dirty = 0; dirty < 2; dirty++) {
		FUZZ_CHECK(workqueue_grant(wq, controller, &holder, NOW, &g) == 1, "nothing is ready");
		struct wire_done done = {.slot = g.slot,
					 .generation = g.generation,
					 .requeue_after_ms = dirty ? 1000 : -1,
					 .writes = {&write, 1}};
		FUZZ_CHECK(workqueue_done(wq, &done, NOW, &end) == 0 && end.to == SHM_STATE_SETTLING,
			   "it is not held");
	}
	for (size_t i = 0; i < ARRAY_SIZE(again); i++) {
		FUZZ_CHECK(workqueue_grant(wq, controller, &holder, NOW, &g) == 1, "nothing is ready");
		char namespace[64], name[200];
		snprintf(namespace, sizeof(namespace), SPAN_FMT, SPAN_ARG(g.namespace));
		snprintf(name, sizeof(name), SPAN_FMT, SPAN_ARG(g.name));
		struct wire_add_key key = again[i];
		key.namespace = span_of(namespace);
		key.name = span_of(name);
		workqueue_add(wq, controller, &key, NOW, &state);
		FUZZ_CHECK(state == (i ? SHM_STATE_TIMED : SHM_STATE_DIRTY), "%s", shm_state_name(state));
	}
	struct wire_add_key key = {
	    .namespace = span_of("shop"), .name = span_of("crashes"), .priority = 1000};
	for (int i = 0; i < 3; i++) {
		key.cause = i ? WIRE_CAUSE_OPERATOR : WIRE_CAUSE_CREATED;
		workqueue_add(wq, controller, &key, NOW, &state);
		work_off(wq, controller, NOW, WIRE_OUTCOME_CRASHED, 1);
	}
	FUZZ_CHECK(store_slot(wq->store, workqueue_slot(wq, controller, key.namespace, key.name))->state ==
		       SHM_STATE_QUARANTINED,
		   "it is not parked");
}

static void make_region(void)
{
	if (whole)
		return;
	whole = xcalloc(BLOCKS, SHM_BLOCK);
	damaged = xcalloc(BLOCKS, SHM_BLOCK);
	struct store st = store_over(whole, 4 * (uint64_t)SHM_BLOCK);
	struct workqueue wq;
	struct err err = {0};
	uint16_t row;
	bool new;
	FUZZ_CHECK(store_format(&st, SHM_BLOCK) == 0 && workqueue_init(&wq, &st, 42, &err) == 0, "%s",
		   err.text);
	static const char *const names[] = {"web", "slow"};
	for (size_t c = 0; c < ARRAY_SIZE(names); c++) {
		FUZZ_CHECK(workqueue_open(&wq, names[c], &row, &new) == 0, "no row");
		workqueue_configure(&wq, row, &rules);
		for (int i = 0; i < KEYS; i++) {
			char name[200];
			enum shm_state state;
			snprintf(name, sizeof(name), "%s-%d",
				 i % 3 ? "short" : "a-name-that-does-not-fit-into-its-slot-and-needs-a-cell",
				 i);
			struct wire_add_key key = {.namespace = span_of(i % 4 ? "shop" : "blog"),
						   .name = span_of(name),
						   .priority = i % 5 ? 0 : -100,
						   .cause_kind = span_of(i % 2 ? "" : "ConfigMap.v1"),
						   .cause_name = span_of("settings")};
			FUZZ_CHECK(workqueue_add(&wq, row, &key, NOW, &state) == 0, "no room");
		}
		work_off(&wq, row, NOW, WIRE_OUTCOME_TRANSIENT, 5);
		work_off(&wq, row, NOW, WIRE_OUTCOME_CRASHED, 3);
		work_off(&wq, row, NOW, WIRE_OUTCOME_THROTTLED, 2);
		one_of_each(&wq, row);
		struct workqueue_grant g;
		for (int i = 0; i < 4; i++)
			FUZZ_CHECK(workqueue_grant(&wq, row, &holder, NOW, &g) == 1, "nothing is ready");
	}
	used = (size_t)st.blocks * SHM_BLOCK;
	workqueue_done_with(&wq);
	store_done(&st);
}

static void damage(struct fuzz_input *in)
{
	while (in->len) {
		uint64_t at = (uint64_t)fuzz_u8(in) << 24 | (uint64_t)fuzz_u8(in) << 16 |
			      (uint64_t)fuzz_u8(in) << 8 | fuzz_u8(in);
		at %= used;
		uint8_t what = fuzz_u8(in);
		unsigned char *to = (unsigned char *)damaged + at;
		if (what < 8)
			*to ^= (unsigned char)(1u << what);
		else if (what == 8) /* a hole that was punched */
			memset(damaged + at / REGION_PAGE * REGION_PAGE, 0, REGION_PAGE);
		else if (what == 9 && at + 8 <= used)
			memset(to, 0xff, 8);
		else
			*to = fuzz_u8(in);
	}
}

static void is_over(void *ctx, uint32_t slot)
{
	(void)ctx;
	(void)slot;
}

/* The leases that were there end, as their workers say or without them. */
static void end_leases(struct workqueue *wq, int64_t now)
{
	static const uint32_t outcomes[] = {WIRE_OUTCOME_OK, WIRE_OUTCOME_CRASHED, WIRE_OUTCOME_THROTTLED};
	struct workqueue_end end;
	for (uint32_t slot = 0; slot < store_slots(wq->store); slot++) {
		const struct shm_slot *s = store_slot(wq->store, slot);
		if (!SHM_LEASED(s->state))
			continue;
		struct wire_done done = {.slot = slot,
					 .generation = store_detail(wq->store, s->detail)->generation,
					 .outcome = outcomes[slot % 3],
					 .requeue_after_ms = -1};
		FUZZ_CHECK((slot % 4 ? workqueue_done(wq, &done, now, &end)
				     : workqueue_lost(wq, slot, done.generation, now, &end)) == 0,
			   "a lease that was taken over is not there");
	}
}

/* Whatever was believed must bear a queue's life. */
static void use(struct workqueue *wq)
{
	int64_t now = NOW;
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		if (store_controller(wq->store, i)->name[0])
			workqueue_configure(wq, i, &rules);
	end_leases(wq, now);
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		if (wq->controllers[i].configured)
			workqueue_clear(wq, i, span_of(""), span_of(""), now);
	workqueue_passed(wq, &(struct wire_place){.table = 1, .resource_version = 1000}, now);
	for (int turn = 0; turn < 3; turn++) {
		workqueue_tick(wq, now, 4096, is_over, NULL);
		for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
			struct wire_add_key key = {.namespace = span_of("shop"), .name = span_of("short-1")};
			enum shm_state state;
			if (!wq->controllers[i].configured)
				continue;
			workqueue_add(wq, i, &key, now, &state);
			work_off(wq, i, now, turn == 1 ? WIRE_OUTCOME_CRASHED : WIRE_OUTCOME_OK, KEYS);
		}
		now = MAX(now + NS_PER_S, MIN(workqueue_next(wq, now), now + 7200 * NS_PER_S));
	}
}

static bool start(struct store *st, struct workqueue *wq, uint64_t allocated)
{
	struct err err = {0};
	*st = store_over(damaged, allocated);
	int rc = store_recover(st, &err);
	if (rc == 0) {
		rc = workqueue_init(wq, st, 42, &err);
		if (rc < 0)
			workqueue_done_with(wq);
	}
	FUZZ_CHECK(rc == 0 || (rc == -EBADMSG && err.text[0]), "%d '%s'", rc, err.text);
	if (rc < 0)
		store_done(st);
	return rc == 0;
}

static void stop(struct store *st, struct workqueue *wq)
{
	workqueue_done_with(wq);
	store_done(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	make_region();
	struct fuzz_input in = {bytes, len};
	struct store st;
	struct workqueue wq;
	memcpy(damaged, whole, used);
	memset(damaged + used, 0, BYTES - used);
	uint8_t cut = fuzz_u8(&in);
	uint64_t allocated = cut ? (uint64_t)(cut % BLOCKS) * SHM_BLOCK : BYTES;
	damage(&in);
	if (!start(&st, &wq, MAX(allocated, (uint64_t)SHM_BLOCK)))
		return 0;
	uint32_t keys = wq.index.keys;
	stop(&st, &wq);
	FUZZ_CHECK(start(&st, &wq, MAX(allocated, (uint64_t)SHM_BLOCK)),
		   "what was taken once is refused the second time");
	FUZZ_CHECK(wq.index.keys == keys, "%u keys, %u the second time", keys, wq.index.keys);
	use(&wq);
	stop(&st, &wq);
	FUZZ_CHECK(start(&st, &wq, BYTES), "what it made of it is not taken");
	stop(&st, &wq);
	return 0;
}

void fuzz_seeds(void (*put)(const char *name, struct span bytes))
{
	put("whole", span_of(""));
}
