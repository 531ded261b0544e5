/* A jail as the one sees it who starts it: start one, run programs in it one after another, end it.
 *
 * The program `reconciled-jail` beside our own does the work; this side only speaks with it (jail.h). Nothing
 * here forks: it is posix_spawn throughout, so a process that uses nng may call it. One thread per jail, and
 * jail_start() from a thread that lives as long as the jail, best the main one: a parent-death signal comes
 * when the *thread* ends that started the child. */
#pragma once
#include "base.h"
#include <sys/resource.h>
#include <sys/types.h>

struct jail_options {
	/* The program's working directory, shown read-only at its own path; absolute. NULL: "/" and nothing
	 * more is shown. */
	const char *work;
	/* NULL-terminated lists of absolute paths, NULL: none. Shown at their own paths; a path that the
	 * jail's user cannot use is an error. Hidden ones (files or folders; a missing one is no error) are
	 * covered by something empty. A path below a hidden one is shown, one below a shown one is hidden;
	 * the same path in both is an error. */
	const char *const *read_only, *const *read_write, *const *hidden;
	const char *const *given; /* read-only as well: of the host's own */
	bool network_host;
	/* Limits of every process that is started, 0: none. processes counts the jail's own alone (not
	 * without the user namespace: there it is not set). cpu_s is per process and for `exec`; a
	 * coprocess's host measures. data_bytes: RLIMIT_DATA. */
	uint32_t cpu_s, files, processes;
	uint64_t data_bytes;
	/* Parts that are left out on purpose: user pid mount network ipc proc seccomp. `pid` and `mount` need
	 * `proc` too. */
	const char *const *without;
	int64_t start_timeout_ns; /* 0: 10 s */
};

struct jail;

/* Starts a jail and waits until it stands. On failure nothing of it is left and err says what could not be
 * set up, as which user, and what to do: -EINVAL wrong options, -EPERM the jail refused, -ETIMEDOUT, -ENOENT
 * the program is missing, -EPIPE it died. */
int jail_start(const struct jail_options *o, struct jail **ret, struct err *err);
/* The same for one who must not wait. jail_launch spawns it; then jail_ready, whenever jail_fd() is readable, until it is 1, or
 * negative as above: free it then. It is -ETIMEDOUT from jail_start_end_ns() on. */
int jail_launch(const struct jail_options *o, struct jail **ret, struct err *err);
int jail_ready(struct jail *j, struct err *err);
int64_t jail_start_end_ns(const struct jail *j); /* CLOCK_BOOTTIME */
/* Ends the jail with everything in it, waits for that (5 s at most) and reaps the launcher. Accepts NULL. */
void jail_free(struct jail *j);
/* The same without waiting until what is in it has ended: it does so soon. */
void jail_leave(struct jail *j);

int jail_fd(const struct jail *j);	   /* poll for POLLIN, then jail_next() until it returns 0 */
pid_t jail_init_pid(const struct jail *j); /* with the start time, what HELLO names */
uint64_t jail_init_start_time(const struct jail *j);
pid_t jail_launcher_pid(const struct jail *j);

/* Runs a program; its STARTED event follows. argv[0] without a slash is looked for in env's PATH, a relative
 * one starts at `work`. fds become its 0, 1, 2 and stay the caller's. -EBUSY: one is running or about to;
 * -E2BIG: argv and env are too long (err has the numbers); -EPIPE: the jail is gone. */
int jail_spawn(struct jail *j, const char *const *argv, const char *const *env, const int fds[3],
	       struct err *err);
/* SIGKILL: the program and all that it started; ENDED follows. Any other signal goes to the main process.
 * Nothing happens when no program runs. -EPIPE: the jail is gone. */
int jail_kill(struct jail *j, int signal);
/* True between a successful jail_spawn() and its ENDED (or a STARTED with an error). */
bool jail_busy(const struct jail *j);

enum jail_event_type { JAIL_EVENT_STARTED, JAIL_EVENT_ENDED, JAIL_EVENT_GONE };
struct jail_event {
	enum jail_event_type type;
	int error;	     /* STARTED: 0, or the positive errno of the exec (the program does not run) */
	int status;	     /* ENDED: as waitpid() gives it */
	struct rusage usage; /* ENDED */
	unsigned left;	     /* ENDED: how many processes outlived the main one; they are gone now */
	/* ENDED: their names, "sleep(12) sh(13)", cut at the room; GONE: why, if the jail said so */
	char text[1024];
};
/* Takes one event without waiting: 1, or 0 when there is none now. GONE is repeated for ever: the jail ended,
 * and what ran in it. */
int jail_next(struct jail *j, struct jail_event *ret);
