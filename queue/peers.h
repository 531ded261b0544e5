/* Who is connected. A peer is one connection; it counts for something once its HELLO was accepted. */
#pragma once
#include "procs.h"
#include "transport.h"
#include "wire.h"
#include <stdio.h>
#include <sys/queue.h>

struct peer {
	uint32_t pipe;
	pid_t pid;  /* by the socket's credentials */
	bool known; /* HELLO was accepted */
	uint32_t role;
	uint32_t refused; /* enum wire_refusal of the last refusal that was logged, + 1 */
	char instance[84];
	char controller[64], digest[72]; /* of a host */
	struct proc *host, *jail;	 /* of a host; jail NULL: it has none now */
	int64_t since;			 /* CLOCK_BOOTTIME */
	/* of a host: crews.c */
	uint16_t row;		  /* of its controller, when it was last asked for */
	bool awake, waking;	  /* counted so in the crew of that row */
	void *poll;		  /* token of its parked POLL, or NULL */
	bool resting;		  /* of that POLL: its child is stopped */
	int64_t parked_since;	  /* CLOCK_BOOTTIME */
	TAILQ_ENTRY(peer) parked; /* while poll is set */
	struct peer *next;
};
TAILQ_HEAD(peer_list, peer);

struct peers {
	struct peer *list;
	struct peer *
	    slots[TRANSPORT_PEERS_MAX]; /* at pipe % TRANSPORT_PEERS_MAX: transport.h gives no two the same */
};

struct peer *peers_find(struct peers *ps, uint32_t pipe); /* NULL */
struct peer *peers_add(struct peers *ps, uint32_t pipe, pid_t pid);
/* The caller has unparked it and given its processes back. */
void peers_remove(struct peers *ps, struct peer *p);
/* Name in reports and status: the instance, or the role. */
const char *peer_name(const struct peer *p);
