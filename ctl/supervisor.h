/* When a child process is started, started again, or left alone. Pure: the clock is passed in, nothing is
 * spawned here.
 *
 *   IDLE --started--> RUNNING --ended--> WAITING --due--> (started again)
 *                        |                            delay 100 ms, doubling to 5 s; back to 100 ms after 10
 * s of life
 *                        +--ended with 2 or 78--> PARKED   the same arguments and files would fail again:
 * until a reload
 *                        +--ended, retiring-----> GONE */
#pragma once
#include "base.h"
#include <sys/types.h>

#define SUPERVISOR_DELAY_MIN (100 * (int64_t)NS_PER_MS)
#define SUPERVISOR_DELAY_MAX (5 * NS_PER_S)
#define SUPERVISOR_LIFE	     (10 * NS_PER_S)

enum child_state { CHILD_IDLE, CHILD_RUNNING, CHILD_WAITING, CHILD_PARKED, CHILD_GONE };

/* The order of starting; stopping goes backwards. */
enum child_stage { STAGE_SERVER, STAGE_QUEUE, STAGE_WATCHER, STAGE_WORKERS, STAGE_COUNT };

struct child {
	char *name;	  /* "reconciled-worker website.1": for messages */
	char *controller; /* of a worker; NULL otherwise */
	uint32_t number;  /* of a worker, from 1 */
	char **argv;	  /* NULL-terminated; argv[0] is a path */
	enum child_stage stage;
	enum child_state state;
	bool retiring;	    /* not started again once it has ended */
	pid_t pid;	    /* RUNNING */
	int64_t started_at; /* CLOCK_BOOTTIME */
	int64_t due_at;	    /* WAITING */
	int64_t delay;	    /* the last one; 0: none yet */
	uint64_t starts;
};

void child_started(struct child *c, pid_t pid, int64_t now);
/* It could not be started at all: as if it had ended at once. */
void child_start_failed(struct child *c, int64_t now);
/* wait_status as waitpid() gives it. */
void child_ended(struct child *c, int wait_status, int64_t now);
/* A reload: what was parked is tried again, what waits need not wait. */
void child_reload(struct child *c, int64_t now);
/* No more wanted: GONE at once unless it runs. */
void child_retire(struct child *c);
bool child_is_due(const struct child *c, int64_t now);
void child_free(struct child *c);

/* "exit status 1", "killed by SIGSEGV (core dumped)". Returns buf. */
const char *child_end_text(int wait_status, char buf[64]);
