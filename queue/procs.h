/* Processes whose death must be proven: one pidfd each, shared by everybody who asks about the same process.
 * A pid may be used again, so a process is {pid, start time}. The descriptor is registered with the broker's
 * epoll; `dead` is set when it becomes readable. */
#pragma once
#include "program.h"

struct proc {
	uint32_t pid;
	uint64_t start;
	int fd; /* -1 once it is dead */
	bool dead;
	uint32_t references;
	struct proc *next;
};

#define PROCS_EVENT UINT64_C(2) /* data.u64 of their epoll events */

struct procs {
	int epoll;
	struct proc *list;
};

/* A reference to the process; one that is gone already is dead from the beginning. pid 0 is no process: NULL.
 * A process that cannot be opened for another reason (out of descriptors) is an error: it would look
 * immortal. */
int procs_get(struct procs *ps, uint32_t pid, uint64_t start, struct proc **ret, struct err *err);
struct proc *procs_share(struct proc *p);	  /* one more reference; NULL is fine */
void procs_put(struct procs *ps, struct proc *p); /* NULL is fine */
/* Call it when epoll reports anything of PROCS_EVENT, until it is NULL: one that is newly found to be
 * dead. */
struct proc *procs_next_dead(struct procs *ps);
/* SIGKILL to exactly that process. Nothing happens to a dead one. */
void procs_kill(struct proc *p);
static inline bool procs_dead(const struct proc *p)
{
	return !p || p->dead;
}
