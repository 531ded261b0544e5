/* One program in a jail with its three pipes: what reconcilers, exec and coprocess, and the programs of predicates and maps have in common.
 *
 * Nothing here waits: pipes are non-blocking and every stream is served whenever it is ready, so no order of
 * reading and writing on the program's side can block both. What it says is bounded: stdout by
 * PROCESS_STDOUT_MAX not yet taken, stderr by lines.h. */
#pragma once
#include "jail_client.h"
#include "lines.h"
#include <poll.h>

#define PROCESS_STDOUT_MAX (UINT64_C(4) << 20) /* bytes of one answer */
#define PROCESS_STDIN_HIGH                                                                                   \
	(UINT64_C(1) << 20) /* above it a coprocess is not read: it must take its answers first */
#define PROCESS_TERM_GRACE_NS (1 * NS_PER_S) /* from SIGTERM to SIGKILL */
#define PROCESS_KILL_WAIT_NS  (5 * NS_PER_S) /* from SIGKILL to giving up on the jail */

/* Why its owner had it killed. */
enum kill_cause {
	KILL_NONE,
	KILL_DEADLINE, /* reconciliationTimeout */
	KILL_MEMORY,   /* above maxMemory */
	KILL_PROTOCOL, /* said what the protocol does not know, or too much of it */
	KILL_LEASE,    /* the lease is no longer ours: there is nothing to report */
	KILL_DRAIN,    /* the worker ends */
	KILL_LEAD,     /* this host no longer leads */
};

struct ending {
	int wait_status; /* as waitpid gives it */
	enum kill_cause killed;
	bool memory_evidence; /* the kernel killed somebody for want of memory meanwhile */
	bool near_limit;      /* its peak came near maxMemory, where allocations fail */
	int64_t timeout_ns;   /* reconciliationTimeout, for the message */
	int64_t limit_cpu_ns; /* limits.cpu, for the message */
};

struct process;
enum process_state {
	PROCESS_NONE,	  /* not started */
	PROCESS_STARTING, /* the jail was asked */
	PROCESS_RUNNING,
	PROCESS_ENDED, /* it and all that it started are gone, or it could not be executed (exec_error) */
};

/* What its owner is to tell people. */
struct process_ops {
	void (*line)(const struct process *p, struct span line);  /* of its stderr */
	void (*dropped)(const struct process *p, uint64_t lines); /* of its stderr: too many */
	void (*left)(const struct process *p, unsigned count,
		     const char *names); /* outlived it, and were killed */
};

struct process {
	enum process_state state;
	struct jail *jail; /* borrowed */
	int in, out, err;  /* our ends; -1: closed */
	struct buf to;	   /* not yet written to its stdin */
	size_t to_sent;
	bool close_in;	 /* EOF after `to` */
	struct buf from; /* its stdout, of which the first from_taken bytes are used up */
	size_t from_taken;
	bool overflow; /* more than PROCESS_STDOUT_MAX came */
	struct lines lines;

	int exec_error;	 /* ENDED: positive errno of the exec; 0: it ran */
	int wait_status; /* ENDED */
	struct rusage usage;
	enum kill_cause killed;
	int64_t started_ns, ended_ns, term_ns, kill_ns; /* 0: not yet */
	uint64_t oom_kills;				/* of the machine, at the start */

	const struct process_ops *ops;
	void *owner;
	/* For log lines. */
	const char *controller;
	char key[KEY_MAX_LEN + 1], uid[33];
};

/* ops and owner stay the caller's. */
void process_init(struct process *p, const struct process_ops *ops,
		  void *owner); /* once; then process_start and process_done any number of times */
int process_start(struct process *p, struct jail *j, const char *const *argv, const char *const *env,
		  struct err *err);
/* Closes pipes, frees buffers. The program must have ended, or the jail be gone. */
void process_done(struct process *p);

void process_send(struct process *p, struct span bytes);
/* EOF on its stdin once everything is written. */
void process_end_input(struct process *p);

/* What to poll for: appends to fds (room for 3), returns how many. */
size_t process_poll(const struct process *p, struct pollfd *fds);
/* Moves what can be moved now: stdin, stdout, stderr. */
void process_io(struct process *p);
/* What of its stdout is not yet taken; valid until the next process_io. */
struct span process_unread(const struct process *p);
void process_take(struct process *p, size_t bytes);
/* Its next whole line, without the newline; absent: none yet. And away with it. */
struct span process_line(const struct process *p);
void process_drop_line(struct process *p, struct span line);
/* STARTED, ENDED and GONE of the jail. */
void process_event(struct process *p, const struct jail_event *e);

/* SIGTERM now, SIGKILL to all of it after the grace (at once if grace_ns is 0). The first cause stays. */
void process_stop(struct process *p, enum kill_cause why, int64_t now_ns, int64_t grace_ns);
/* Escalates; -ETIMEDOUT: it does not end even by SIGKILL, the jail must be given up. */
int process_tick(struct process *p, int64_t now_ns);
/* When process_tick wants to be called; INT64_MAX: no need. */
int64_t process_timer(const struct process *p);

/* How it ended, for outcome_of_ending. max_memory 0: none. */
struct ending process_ending(const struct process *p, uint64_t max_memory);
/* "exit status 3", "SIGSEGV", "SIGKILL"; buf of 64 bytes. Returns buf. */
const char *ending_text(int wait_status, char buf[64]);
/* "SIGSEGV"; "signal 40" for one without a name; buf of 24 bytes. */
const char *signal_text(int sig, char buf[24]);
