/* The workqueue as docs/queue-protocol.md tells it, written as simply as it can be: one array of keys that is
 * searched from end to end, no indexes, no redo record, no region. The property test holds the real one
 * against it. Times in ns. */
#pragma once
#include "base.h"

enum {
	MODEL_CONTROLLERS = 3,
	MODEL_NAMESPACES = 4,
	MODEL_NAMES_MAX = 128,
	MODEL_CRASHES_KEPT = 16,
	MODEL_STREAMS = 4,
	MODEL_EVENTS_KEPT = 4, /* more than these are somebody else's */
	MODEL_WRITES_MAX = 8,
	MODEL_NOBODY = -1,
};

#define MODEL_HELD_AT_MOST (5 * NS_PER_S)

enum model_state {
	MODEL_NONE,
	MODEL_READY,
	MODEL_WAITING,
	MODEL_RUNNING,
	MODEL_DIRTY, /* running, and added since */
	MODEL_TIMED, /* running, and to run again at a time */
	MODEL_QUARANTINED,
	MODEL_SETTLING,	      /* held until the watch shows what its attempt wrote */
	MODEL_SETTLING_DIRTY, /* and added since */
};

enum model_wait {
	MODEL_WAIT_NONE,
	MODEL_WAIT_BACKOFF,
	MODEL_WAIT_REQUEUE_AFTER,
	MODEL_WAIT_REQUEUE,
	MODEL_WAIT_NOT_READY,
	MODEL_WAIT_THROTTLED,
	MODEL_WAIT_CONFLICT,
	MODEL_WAIT_ADD_AFTER,
};

enum model_pause { MODEL_PAUSE_NONE, MODEL_PAUSE_START, MODEL_PAUSE_CRASHES, MODEL_PAUSE_THROTTLED };

enum model_timer { MODEL_EARLIEST, MODEL_REPLACE, MODEL_CANCEL };

struct model_event {	  /* what a stream of a watch shows: an object at a version */
	int stream;	  /* MODEL_NOBODY: none that can be waited for */
	uint64_t version; /* 0: none */
	bool own;	  /* of a write: the event shows nothing but it */
	bool passed;	  /* of a write that is waited for */
};

struct model_pending { /* what waits for the next attempt */
	int64_t added_at;
	int32_t priority;
	uint32_t count;
	unsigned causes;
	int first_cause, last_cause;   /* enum wire_cause */
	int first_object, last_object; /* 0: the key's own */
	bool changed;
};

struct model_key {
	enum model_state state;
	enum model_wait wait;
	uint64_t order; /* of what became ready at the same time */
	int64_t at;	/* READY, DIRTY: since; WAITING, TIMED, QUARANTINED: until */
	struct model_pending pending, leased;
	uint64_t generation;
	int64_t granted_at, deadline, lease_end,
	    over_at; /* lease_end: of a SETTLING key, when it is held no longer */
	/* DIRTY: the events of its adds, while each of them may be the attempt's own */
	struct model_event events[MODEL_EVENTS_KEPT];
	int n_events;
	bool news;     /* one of them is somebody else's */
	int64_t later; /* DIRTY, SETTLING: of an add for a later time; 0: none */
	struct model_event writes[MODEL_WRITES_MAX]; /* SETTLING */
	int n_writes;
	/* how attempts ended */
	uint32_t attempt, step, conflicts;
	int64_t backoff_until;
	int64_t crashes[MODEL_CRASHES_KEPT]; /* the last ones, in 1/100 s, latest first */
	uint32_t n_crashes;
	int64_t window; /* where so many are allowed that the first and their number must do */
	uint32_t in_window;
	int last_outcome;
};

struct model_rules {
	int64_t base_delay, max_delay;
	double jitter, qps;
	uint32_t burst, crashes, max_concurrent;
	int64_t within, park_for, timeout;
};

struct model_controller {
	bool open, configured;
	bool held; /* by an operator */
	struct model_rules rules;
	int64_t credit, credit_at; /* of the bucket, in ns of its filling; never more than `burst` tokens */
	bool bucket_used;
	enum model_pause pause;
	int64_t pause_since, pause_until, pause_delay;
	bool crashed[MODEL_NAMESPACES * MODEL_NAMES_MAX];
	unsigned n_crashed;
	/* Round robin: namespaces with ready keys, by band, the next one first. */
	int turn[4][MODEL_NAMESPACES];
	int n_turn[4];
	uint64_t adds, merges, grants, retries, quarantines, holds, holds_in_vain, results[4], outcomes[16];
};

struct model {
	int names; /* in use, of each namespace */
	struct model_controller controllers[MODEL_CONTROLLERS];
	struct model_key *keys; /* controller, namespace, name */
	int n_keys;
	uint64_t order;
	uint64_t told[MODEL_STREAMS]; /* the watcher knows that somebody waits for so much */
};

struct model_add {
	int key;
	int64_t priority;
	bool changed;
	int cause, object;
	int64_t delay;
	enum model_timer timer;
	struct model_event event;
};

struct model_done {
	int outcome;   /* enum wire_outcome */
	int64_t asked; /* requeueAfter or retryAfter in ns; 0: none */
	bool requeue, has_priority, pause_controller;
	int64_t priority;
	struct model_event writes[MODEL_WRITES_MAX];
	int n_writes;
};

struct model_end {
	enum model_state to;
	enum model_wait wait;
	int64_t least, most; /* the delay is between these */
	bool limited;	     /* its own delay, if nothing consumed it, is the rate limiter's: between these */
	int64_t backoff_least, backoff_most;
	uint32_t attempt;
};

void model_init(struct model *m, int names);
void model_free(struct model *m);
int model_controller_of(const struct model *m, int key);
int model_namespace_of(const struct model *m, int key);
void model_open(struct model *m, int controller, const struct model_rules *rules);
void model_add(struct model *m, const struct model_add *add, int64_t now);
/* The key that is granted next, or MODEL_NOBODY. */
int model_next_key(const struct model *m, int controller, int64_t now);
void model_grant(struct model *m, int key, uint64_t generation, int64_t now);
/* What is to follow; then model_ended is told what the real one chose within the bounds. */
struct model_end model_plan(struct model *m, int key, const struct model_done *done, int64_t now);
void model_ended(struct model *m, int key, const struct model_done *done, const struct model_end *end,
		 int64_t delay, int64_t backoff, int64_t now);
/* When its time comes; INT64_MAX: nothing of it is timed. */
int64_t model_due(const struct model *m, int key);
int64_t model_next_time(const struct model *m, int64_t now);
void model_tick(struct model *m, int key, int64_t now);	 /* its time has come */
int model_drop(struct model *m, int controller);	 /* returns how many keys went */
void model_clear(struct model *m, int key, int64_t now); /* quarantine is lifted: another file */
void model_unpause(struct model *m, int controller);
void model_hold(struct model *m, int controller);
void model_resume(struct model *m, int controller);
void model_restart(struct model *m);
/* Of the keys in that state. */
int model_count(const struct model *m, int controller, enum model_state state);

/* ---- what an attempt wrote ---- */

/* The stream shows everything up to this version. */
void model_passed(struct model *m, int stream, uint64_t version, int64_t now);
/* What the watcher is to be asked for: the version that somebody waits for; 0: nothing that it does not know. */
uint64_t model_awaited(const struct model *m, int stream);
void model_tell(struct model *m, int stream);
void model_untell(struct model *m); /* another watcher */

/* Between the files of the model. */
bool model_leased(const struct model_key *k);
bool model_settles(const struct model_key *k);
void model_make_ready(struct model *m, struct model_key *k, int64_t now);
void model_turns_update(struct model *m, int controller);
void model_hear(struct model_key *k, const struct model_event *event);
bool model_is_own(const struct model_event *writes, int n, const struct model_event *event);
bool model_forget_own(struct model_key *k, const struct model_done *done); /* true: it did */
bool model_wrote(const struct model_done *done);
void model_hold_begin(struct model *m, int key, const struct model_done *done, int64_t now);
void model_hold_end(struct model *m, int key, bool in_vain, int64_t now);
void model_forget_told(struct model *m); /* where nobody waits any more */
struct model_controller *model_controller(struct model *m, int key);
void model_backoff_anew(struct model_key *k);
void model_unpark(struct model_key *k);
int model_result(const struct model_done *done); /* as controller-runtime counts; -1: no result */
