/* The workqueues: one named queue per controller over the slots of the region. Pure: the clock is passed in,
 * nothing is logged, nothing is sent. Times are CLOCK_BOOTTIME ns.
 *
 * What it keeps: a key is there at most once; a key is leased to at most one holder; an add while it is
 * leased leads to another attempt after it; a lease ends only through workqueue_done and workqueue_lost.
 * Semantics of add, delays and priority: controller-runtime's priority queue (v0.24), with the differences
 * that docs/queue-protocol.md names. */
#pragma once
#include "attempt.h"
#include "index.h"
#include "pause.h"
#include "settle.h"

#define WORKQUEUE_WRITE_TIMEOUT (30 * NS_PER_S) /* for the host's writes after the reconciler's deadline */
#define WORKQUEUE_KILL_GRACE	(5 * NS_PER_S)	/* no write starts later than this before the lease's end */

struct workqueue_rules { /* of one controller, from its file */
	struct attempt_rules attempt;
	uint32_t max_concurrent; /* 0: no limit but the number of hosts */
	int64_t timeout;	 /* reconciliationTimeout */
};

struct workqueue_controller {
	bool configured; /* rules are valid; without them nothing is granted */
	struct workqueue_rules rules;
	uint32_t waiting, running, quarantined, settling; /* READY: index_ready_len */
	/* What slots have for the counters of the row: see workqueue_counters. */
	uint64_t uncounted_adds, uncounted_merges;
};

struct workqueue {
	struct store *store;
	struct index index;
	struct settle settle;
	uint64_t holds_in_vain; /* since the start */
	struct workqueue_controller controllers[SHM_CONTROLLERS_MAX];
	uint8_t rows[2 * SHM_CONTROLLERS_MAX]; /* hash table of the names: row + 1 */
	uint32_t ahead; /* the slot that is probably granted next, and the hash of its key; INDEX_NONE */
	uint64_t ahead_hash;
	uint32_t unrecorded; /* leases whose keys have no record yet: so many cells are reserved */
	int64_t write_timeout, kill_grace;
	bool never_plain; /* for tests: plain.h declines everything */
	uint64_t random;  /* never 0 */
};

struct workqueue_holder { /* who gets a lease: processes as others can prove them */
	uint32_t host_pid, jail_pid;
	uint64_t host_start, jail_start;
};

struct workqueue_cause {
	uint32_t event;	    /* enum wire_cause */
	struct span object; /* "kind\0namespace\0name", empty: the key's own */
};

struct workqueue_grant { /* spans: until the next call that changes the queue */
	uint32_t slot;
	uint64_t generation;
	struct span namespace, name;
	int32_t priority;
	uint32_t attempt, last_outcome;
	struct span reason, message;
	int64_t deadline, lease_end;
	struct workqueue_cause causes[2]; /* the first and the last; only one when count is 1 */
	size_t n_causes;
};

struct workqueue_end { /* what became of a key whose attempt ended */
	uint16_t controller;
	enum shm_state to;
	enum shm_wait wait;
	int64_t delay; /* ns, to WAITING and QUARANTINED */
	uint32_t attempt;
	uint32_t crashes; /* in the window, when it was parked */
};

/* st: formatted or recovered. -EBADMSG: two slots have one key. */
int workqueue_init(struct workqueue *wq, struct store *st, uint64_t random, struct err *err);
void workqueue_done_with(struct workqueue *wq); /* frees the private memory */

/* The row of a controller: found, or made (rules are given later). -ENOSPC: 64 are in use. */
int workqueue_open(struct workqueue *wq, const char *name, uint16_t *ret, bool *ret_new);
int workqueue_find(const struct workqueue *wq, struct span name, uint16_t *ret); /* -ENOENT */
void workqueue_configure(struct workqueue *wq, uint16_t controller, const struct workqueue_rules *rules);
/* The digest that the watcher works with. A changed one lifts quarantine and pauses. Returns how many keys
 * left quarantine. */
uint32_t workqueue_set_digest(struct workqueue *wq, uint16_t controller, const char *digest, int64_t now);
void workqueue_unpause(struct workqueue *wq, uint16_t controller);
/* An operator's pause: nothing is granted from now on; kept in the region. */
void workqueue_hold(struct workqueue *wq, uint16_t controller, int64_t now);
/* The operator's pause ends, and any other: what was wrong is said to be repaired. */
void workqueue_resume(struct workqueue *wq, uint16_t controller);
/* Lifts quarantine of one key (name empty: of all keys of the controller). Returns how many left it. */
uint32_t workqueue_clear(struct workqueue *wq, uint16_t controller, struct span namespace, struct span name,
			 int64_t now);
/* How many hosts an operator wants awake, kept in the region until the file changes; WIRE_SCALE_AUTO: as the file says. */
void workqueue_scale(struct workqueue *wq, uint16_t controller, uint32_t hosts);
void workqueue_swept(struct workqueue *wq, uint16_t controller);
/* No longer configured: every key without a lease goes; the row is free once none is left (call again after a
 * lease ended). */
uint32_t workqueue_drop(struct workqueue *wq, uint16_t controller, int64_t now);

/* Stores a key or merges it into what is there. -ENOSPC: the region is full, nothing changed. ret_state:
 * where it is now. */
int workqueue_add(struct workqueue *wq, uint16_t controller, const struct wire_add_key *key, int64_t now,
		  enum shm_state *ret_state);
/* The same for n keys, with their memory fetched ahead. Returns how many are stored: fewer than n when the region is
 * full. ret_states: NULL, or n of them. */
size_t workqueue_add_batch(struct workqueue *wq, uint16_t controller, const struct wire_add_key *keys,
			   size_t n, int64_t now, enum shm_state *ret_states);
/* 1: the next key is leased to holder. 0: nothing to do now. -ENOSPC: a key is ready but the region has no
 * cell for its lease. */
int workqueue_grant(struct workqueue *wq, uint16_t controller, const struct workqueue_holder *holder,
		    int64_t now, struct workqueue_grant *ret);
/* The lease {slot, generation} ends with a result. -ESTALE: there is none such (any more), nothing
 * changed. */
int workqueue_done(struct workqueue *wq, const struct wire_done *done, int64_t now,
		   struct workqueue_end *ret);
/* It ends without one: the holder is proven dead, or lost it. The key is ready at once, uncharged.
 * -ESTALE. */
int workqueue_lost(struct workqueue *wq, uint32_t slot, uint64_t generation, int64_t now,
		   struct workqueue_end *ret);

/* The watcher has come to this place: keys that waited for no more are held no longer. */
void workqueue_passed(struct workqueue *wq, const struct wire_place *place, int64_t now);
/* What time alone does. Due keys become ready; for a lease that is over, over() is called and the lease
 * stays: it is due again after WORKQUEUE_KILL_GRACE. Handles at most `most` (for the broker's loop to
 * breathe); returns how many. */
size_t workqueue_tick(struct workqueue *wq, int64_t now, size_t most, void (*over)(void *ctx, uint32_t slot),
		      void *ctx);
/* When to tick, or to try granting again; INT64_MAX: nothing is timed. */
int64_t workqueue_next(const struct workqueue *wq, int64_t now);
/* Could a holder get a key now? */
bool workqueue_ready(const struct workqueue *wq, uint16_t controller, int64_t now);
/* The slot of a key, or INDEX_NONE. */
uint32_t workqueue_slot(const struct workqueue *wq, uint16_t controller, struct span namespace,
			struct span name);
/* All that was counted, also what is not in the row yet. */
struct shm_controller_counters workqueue_counters(const struct workqueue *wq, uint16_t controller);
/* Is this the lease? Then its detail. */
const struct shm_detail *workqueue_lease(const struct workqueue *wq, uint64_t slot, uint64_t generation);
