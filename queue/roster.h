/* Which hosts and jails there are, in a file of the runtime folder: what a new broker knows when the region, and with it
 * every lease, is gone. Then nobody may get a key before each of these hosts was heard, or is proven dead: one that is
 * stopped just then would go on with its key beside another.
 *
 *   hosts are written down before their HELLO is acknowledged, so before their first grant; they go when host and jail are
 *   dead. The file is replaced as a whole, one line a host: pid, start time, pid and start time of its jail's init, what is
 *   still owed. It is small and changes only when a host or a jail starts or ends. */
#pragma once
#include "procs.h"

/* The file of the runtime folder. */
#define ROSTER_FILE "queue.hosts"

/* What a host owes since a region was lost. */
enum roster_debt {
	ROSTER_NONE,
	ROSTER_WORD, /* it was not heard yet: a HELLO that names no lease, a POLL, a DONE or its death settle it */
	ROSTER_STOP, /* it named a lease and was told that it is lost: a POLL, a DONE or its death settle it */
};

struct roster_entry {
	struct proc *host, *jail; /* jail NULL: it had none */
	enum roster_debt debt;
};

struct roster {
	struct procs *procs;
	char *path;
	struct roster_entry *at;
	size_t len, cap, owing;
	bool unwritten; /* the file could not be written and is tried again; told of once */
};

/* Reads the file and opens its processes; those that are gone are left out. lost: the region is, everybody owes.
 * -ENOENT: there is no file. -EBADMSG: it is damaged (err says where); it counts as none. */
int roster_read(struct roster *r, struct procs *procs, const char *path, bool lost, struct err *err);
/* A HELLO: writes the host down. 0, or why the file could not be written. */
int roster_hello(struct roster *r, struct proc *host, struct proc *jail, bool running, struct err *err);
/* A POLL or a DONE: whatever it had has ended. */
int roster_idle(struct roster *r, const struct proc *host, struct err *err);
/* Takes out who is dead. */
int roster_reap(struct roster *r, struct err *err);
/* A host is dead: what it left in its jail must not go on. */
void roster_kill_orphans(const struct roster *r, const struct proc *host);
/* SIGKILL to all that still owe; returns how many hosts and jails that were. */
size_t roster_kill_owing(const struct roster *r);
void roster_done(struct roster *r); /* frees; the file stays */
