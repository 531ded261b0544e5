/* Who has which key. The lease itself is in the region (shm_detail); here is what proves its holder's death.
 *
 * A lease ends by DONE, by a live host's HELLO that does not name it, or by proven death of host and jail:
 * both pidfds readable. Never by time alone: at its end the holder is killed, and the lease stands until both
 * are dead. */
#pragma once
#include "procs.h"
#include "workqueue.h"

struct lease {
	uint32_t slot;
	uint64_t generation;
	struct proc *host, *jail;
	int64_t over_at; /* when it was found to be over and SIGKILL was sent; 0: it is not */
};

struct leases {
	struct procs *procs;
	struct lease *at;
	size_t len, cap;
	uint32_t *of_slot; /* its place in `at` + 1; 0: none */
	uint32_t slots;	   /* of of_slot: up to the last slot that had a lease */
};

/* Takes a reference of each process. The slot has no lease yet. */
void lease_add(struct leases *ls, uint32_t slot, uint64_t generation, struct proc *host, struct proc *jail);
/* All leases of a recovered region: their processes are opened again. A process that is gone is dead at once
 * (lease_next_dead). */
int lease_recover(struct leases *ls, const struct workqueue *wq, struct err *err);
struct lease *lease_find(struct leases *ls, uint32_t slot); /* NULL: none */
struct lease *lease_of_host(struct leases *ls, uint32_t pid,
			    uint64_t start); /* the first that this host process has, or NULL */
/* One whose holder is proven dead, or NULL. */
struct lease *lease_next_dead(struct leases *ls);
/* A host is dead: what it left in its jail must not go on. */
void lease_kill_orphans(struct leases *ls, const struct proc *host);
/* It has ended; gives the references back. Pointers to other leases are no longer valid. */
void lease_remove(struct leases *ls, struct lease *l);
void leases_done(struct leases *ls); /* frees what is left */
