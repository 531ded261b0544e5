/* What every program of ours does alike: the common options, folders, signals, readiness.
 *
 * Common options (program_options handles them, the program lists only its own):
 *   --config-dir PATH   --runtime-dir DIR   --region-dir DIR   --kubeconfig FILE
 *   --log-level LEVEL   --log-format FORMAT   --help   --version
 * Exit status: 0 success, 1 failure, 2 wrong usage, 78 wrong configuration.
 *
 * PROGRAM_PARENT in the environment (the supervisor sets it to its pid): program_options lets the process die
 * with that parent, exits with 1 when that is no longer the parent, and takes the variable out, so that it
 * reaches nobody further down. */
#pragma once
#include "base.h"
#include "log.h"
#include <sys/types.h>

enum { EXIT_USAGE = 2, EXIT_CONFIG = 78 };
#define PROGRAM_PARENT "RECONCILED_PARENT"

struct program {
	const char *name;	 /* "reconciled-watcher" */
	const char *config_dir;	 /* "/etc/reconciled" */
	const char *runtime_dir; /* sockets */
	const char *region_dir;
	const char *kubeconfig; /* NULL: not given */
	enum log_level log_level;
	enum log_format log_format;
};

struct program_option {	      /* NULL-named ends */
	const char *name;     /* "workers": --workers N, --workers=N */
	char letter;	      /* 0: none */
	const char *argument; /* name of the value in --help; NULL: a flag */
	const char *help;
	/* Exactly one: where the value goes. A flag sets *flag. A repeated option appends to list
	 * (NULL-terminated, grown). */
	const char **text;
	bool *flag;
	const char ***list;
};

/* Fills p with defaults (root or systemd: /run/reconciled and /dev/shm/reconciled; else
 * $XDG_RUNTIME_DIR/reconciled or /tmp/reconciled-UID, and /dev/shm/reconciled-UID), parses argv, starts the
 * log. usage: "reconciled-queue [OPTION]..." and a paragraph, for --help. Handles --help, --version and wrong
 * usage by exiting. Returns the index of the first argument that is no option ("--" is skipped). */
int program_options(struct program *p, const char *name, const char *usage, const char *about,
		    const struct program_option *own, int argc, char **argv);

/* Creates the folder (0700, or keeps it), checks that it is ours or root's and that no other user may write.
 * err says what to do. */
int program_folder(const char *path, struct err *err);
/* Takes an flock on DIR/NAME.lock, kept until exit. -EBUSY: err names the pid that has it. */
int program_lock(const char *dir, const char *name, struct err *err);

/* A signalfd for SIGTERM, SIGINT, SIGHUP (and SIGCHLD if wanted), blocked for every thread: before any thread
 * is started. Ignores SIGPIPE. */
int program_signals(bool sigchld);

/* From now on, who touches a mapped page that is gone (its file was cut by somebody, or its file system cannot give it) ends with a message that says
 * so and status 1, in place of SIGBUS alone. Nothing can be done about it where it happens; the next start looks at the files. Once, before any
 * thread is started. */
void program_explain_cuts(const struct program *p);

/* sd_notify: nothing happens when not under systemd. state: "READY=1", "STATUS=...", "WATCHDOG=1",
 * "STOPPING=1", "RELOADING=1". */
void program_notify(const char *fmt, ...) _printf_(1, 2);
/* How often to send WATCHDOG=1 (half of WatchdogSec); 0: not wanted. */
int64_t program_watchdog_ns(void);

/* A process as others can prove it: the pid alone may be used again. start: field 22 of /proc/PID/stat.
 * -ESRCH. */
int process_start_time(pid_t pid, uint64_t *ret_start);
/* A pidfd of exactly that process: -ESRCH if it is gone or another has its pid now, -EACCES if it lives and /proc does not
 * show it. Readable when it has ended. */
int process_open(pid_t pid, uint64_t start, int *ret_pidfd);
/* The parent-death signal SIGKILL, then checks that the parent is still `parent`; false: it is gone, exit. */
bool process_die_with(pid_t parent);
/* A service that is to go late when memory runs out (OOMScoreAdjust=) does not hand that on to a child, which calls this.
 * Async-signal-safe. */
int process_go_early(void);
/* The folder of the running program's file, for the programs beside it: DIR/NAME, or
 * ../libexec/reconciled/NAME. Owned by the caller. */
char *program_beside(const char *name);

/* Faults that test builds plant (RECONCILED_FAULTS): true if the environment's RECONCILED_FAULT is that name.
 * Always false in other builds. */
#ifdef RECONCILED_FAULTS
bool fault(const char *name);
#else
static inline bool fault(const char *name)
{
	(void)name;
	return false;
}
#endif
