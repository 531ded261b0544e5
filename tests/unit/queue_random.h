/* The random operations on the workqueue and its model: one run of them. */
#pragma once
#include "queue_lib.h"
#include "queue_model.h"

struct run {
	uint64_t seed;
	bool verbose;
	int names;
	char name[MODEL_NAMES_MAX][NAME_MAX_LEN + 1];
	struct lib l; /* its controller is not used */
	char *spare;  /* as much memory again, for restarts */
	uint64_t limit;
	bool filling;  /* next to nothing is granted for a while */
	bool crashing; /* nothing succeeds for a while */
	bool tight;    /* the region may be full */
	struct model m;
	uint16_t row[MODEL_CONTROLLERS];
	uint64_t random, last_generation;
	int64_t now;
	uint32_t refused, restarts, paused[MODEL_PAUSE_THROTTLED + 1]; /* so often seen */
	uint32_t seen[MODEL_QUARANTINED + 1];
	char why[512];
};

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

extern const enum shm_state run_states[MODEL_QUARANTINED + 1]; /* of the model's */
extern const enum shm_wait run_waits[MODEL_WAIT_ADD_AFTER + 1];

struct span run_name(const struct run *r, int key);
struct span run_namespace(const struct run *r, int key);
/* INDEX_NONE: it has none. */
uint32_t run_slot(const struct run *r, int key);
const struct shm_record *run_record(const struct run *r, const struct shm_slot *s);
/* false: r->why says what differs. */
bool run_same_key(struct run *r, int key);
bool run_same_controller(struct run *r, int controller);
