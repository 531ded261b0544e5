/* The parts of reconciled-jail, and what they share. Everything here runs once, in order, in a process that
 * does nothing else, so there is one global setup and an error ends the process after its text went to the
 * host (jail_fail).
 *
 * Written so that every step has a reason that a reader can check; what was tried and failed stands in the
 * comments. */
#pragma once
#include "base.h"
#include "jail.h"

enum jail_part {
	PART_USER,
	PART_PID,
	PART_MOUNT,
	PART_NETWORK,
	PART_IPC,
	PART_PROC,
	PART_SECCOMP,
	PART_COUNT
};
enum jail_path_kind { PATH_READ_ONLY, PATH_READ_WRITE, PATH_HIDDEN };
enum { JAIL_PATHS_MAX = 512 };

struct jail_path {
	const char *path;
	enum jail_path_kind kind;
};

struct jail_setup {
	struct jail_path paths[JAIL_PATHS_MAX];
	size_t path_count;
	const char *work;
	bool without[PART_COUNT];
	bool network_host;
	/* test builds: a plain process group in the place of the jail, to show what the jail is for */
	bool bare;
	uint64_t cpu_s, files, processes, data_bytes; /* 0: no limit */
	uid_t uid;
	gid_t gid;
	char user[64]; /* "reconciled (997)", for messages */
};
extern struct jail_setup jail;

/* The own folders of a jail are directories of one tmpfs; init empties them between programs through these
 * descriptors. */
enum { OWN_FOLDERS_MAX = 6 };
struct own_folders {
	int fd[OWN_FOLDERS_MAX];
	size_t count;
};

/* Tells the host and exits. Text: what could not be done, as whom if that matters, and what to do. */
_Noreturn void jail_fail(const char *fmt, ...) _printf_(1, 2);

/* jail_mount.c: builds the jail's view of the file system in a new mount namespace and moves into it. */
void jail_mount(struct own_folders *ret_own);

/* jail_rights.c */
void jail_loopback_up(void);
void jail_check_limits(void); /* before anything is started: can the limits be set? */
void jail_child_limits(void); /* in the program's process: no allocation, no error */
void jail_drop_rights(void);  /* user, capabilities, dumpable, system calls */

/* jail_init.c: runs programs until the host or the launcher is gone. launcher: end of a pipe that the
 * launcher holds open. */
_Noreturn void jail_serve(int launcher, const struct own_folders *own);
