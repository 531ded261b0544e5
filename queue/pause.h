/* When a controller, not a key, is what is wrong: no grants for a while, then one key at a time as a probe.
 * Pure: works on an image of the controller's row, the time is passed in. */
#pragma once
#include "shm_queue.h"

#define PAUSE_START_FIRST   NS_PER_S /* between probes of a program that cannot be started; doubles */
#define PAUSE_START_MOST    (60 * NS_PER_S)
#define PAUSE_CRASHES_PROBE (60 * NS_PER_S) /* between probes of a controller whose keys all crash */

/* An operator's pause is above all of them: nothing is granted, not even a probe, until the operator lifts it. */

/* May a key be granted now, while `running` keys of it are out? */
bool pause_lets(const struct shm_controller *c, uint32_t running, int64_t now);
/* When pause_lets can change by time alone; INT64_MAX: never. */
int64_t pause_next(const struct shm_controller *c, int64_t now);
/* A grant was made: the next probe is not before this one's time is up. True: the row changed. */
bool pause_granted(struct shm_controller *c, int64_t now);
/* An attempt ended. key: shm_key_hash. until: with Throttled for the whole controller, when it may go on;
 * else 0. */
void pause_ended(struct shm_controller *c, uint32_t outcome, uint64_t key, int64_t granted_at, int64_t until,
		 struct span message, int64_t now);
/* Its file was loaded again, or an operator says so: everything that may have been its fault is forgiven. */
void pause_clear(struct shm_controller *c);
