/* The random operations on the workqueue and its model: one run of them. */
#pragma once
#include "queue_lib.h"
#include "queue_model.h"

enum {
	RUN_KEYS_MAX = MODEL_CONTROLLERS * MODEL_NAMESPACES * MODEL_NAMES_MAX,
	RUN_HEARD = 6, /* so many events of a leased key are kept, to be among what its attempt wrote */
	RUN_BATCH_MOST = 40,
};

struct run {
	uint64_t seed;
	bool verbose;
	int names;
	char name[MODEL_NAMES_MAX][NAME_MAX_LEN + 1];
	struct lib l; /* its controller is not used */
	char *spare;  /* as much memory again, for restarts */
	uint64_t limit;
	bool filling;	  /* next to nothing is granted for a while */
	bool crashing;	  /* nothing succeeds for a while */
	bool tight;	  /* the region may be full */
	uint32_t cap;	  /* on the leases of all controllers; 0: none */
	unsigned served;  /* the row that was served last */
	uint64_t version; /* the last one that any stream has */
	struct model_event heard[RUN_KEYS_MAX][RUN_HEARD];
	uint8_t n_heard[RUN_KEYS_MAX];
	struct model m;
	uint16_t row[MODEL_CONTROLLERS];
	uint64_t random, last_generation;
	int64_t now;
	/* so often seen */
	uint32_t refused, restarts, forgotten, shown, in_vain, told, capped, held, batches;
	uint32_t paused[MODEL_PAUSE_THROTTLED + 1];
	uint32_t seen[MODEL_SETTLING_DIRTY + 1];
	char why[512];
};

/* Operations: each says which key it touched, MODEL_NOBODY for none or many. false: r->why says what differs. */
typedef bool run_operation(struct run *r, int *touched);
run_operation run_add, run_batch, run_grant, run_done, run_stale;			    /* keys */
run_operation run_tick, run_progress, run_await, run_controller, run_operator, run_restart; /* the world */
bool run_begin(struct run *r, uint64_t seed, bool verbose);
void run_end(struct run *r);

uint64_t run_mix(uint64_t x);
uint64_t run_draw(struct run *r, uint64_t below);
bool run_one_in(struct run *r, uint64_t n);
extern const char *const run_controllers[MODEL_CONTROLLERS];
/* A stream that a watch has, as the messages name it. */
struct wire_place run_place(int stream, uint64_t version);

#define FAIL(r, ...) (snprintf((r)->why, sizeof((r)->why), __VA_ARGS__), false)
#define SAY(r, ...)                                                                                          \
	do {                                                                                                 \
		if ((r)->verbose)                                                                            \
			fprintf(stderr, __VA_ARGS__);                                                        \
	} while (0)
#define SAME(what, real, model)                                                                              \
	do {                                                                                                 \
		if ((int64_t)(real) != (int64_t)(model))                                                     \
			return FAIL(r, "key %d: %s is %lld, the model has %lld", key, what,                  \
				    (long long)(real), (long long)(model));                                  \
	} while (0)

extern const enum shm_state run_states[MODEL_SETTLING_DIRTY + 1]; /* of the model's */
extern const enum shm_wait run_waits[MODEL_WAIT_ADD_AFTER + 1];

struct span run_name(const struct run *r, int key);
struct span run_namespace(const struct run *r, int key);
/* INDEX_NONE: it has none. */
uint32_t run_slot(const struct run *r, int key);
const struct shm_record *run_record(const struct run *r, const struct shm_slot *s);
/* false: r->why says what differs. */
bool run_same_key(struct run *r, int key);
bool run_same_controller(struct run *r, int controller);
bool run_same_watch(struct run *r);
