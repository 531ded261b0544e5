/* What host and jail say to each other: one message a packet on a SOCK_SEQPACKET socket, descriptor 3 of the
 * jail.
 *
 *   host --posix_spawn--> launcher --fork--> init (first process of the namespaces) --vfork, exec--> program
 *
 *   host                                        launcher, init
 *     |   <-- INIT {pid of init} + pidfd             |  at once; or FAILED
 *     |   <-- READY                                  |  the jail stands; or FAILED {what, as whom, what to
 * do}, then EOF |   SPAWN {argv, env} + descriptors 0, 1, 2 -> |  one program at a time |   <-- STARTED {0 or
 * errno of the exec}       |  with an errno no ENDED follows |   KILL {signal} ->                           |
 * SIGKILL: everything but init; any other: the main process |   <-- ENDED {wait status, usage, survivors}  |
 * after everything of the program is gone and its folders are empty |   (close) -> |  init ends, and with it
 * all that lives in its namespace
 *
 * A program's own bytes never pass through the jail: they go over the descriptors that came with SPAWN. Both
 * ends are one build of one machine, so the layout is the compiler's. */
#pragma once
#include "base.h"
#include <sys/resource.h>

enum jail_type {
	JAIL_INIT =
	    1,	    /* launcher -> host: value = pid of init as the host sees it; one descriptor, its pidfd */
	JAIL_READY, /* init -> host */
	/* launcher or init -> host: text = what could not be set up or kept up, and what to do */
	JAIL_FAILED,
	/* host -> init: text = argc strings of argv, then those of the environment; three descriptors */
	JAIL_SPAWN,
	JAIL_STARTED, /* init -> host: value = 0 or errno */
	JAIL_KILL,    /* host -> init: value = signal; ignored when no program runs */
	/* init -> host: value = wait status, usage, left = processes that outlived the main one, text =
	 * their names */
	JAIL_ENDED,
};

/* The descriptor that the jail's control socket has in the launcher and in init. */
enum { JAIL_CONTROL = 3 };
/* argv and environment with their terminators. A longer SPAWN is refused by the client (-E2BIG). */
enum { JAIL_TEXT_MAX = 128 << 10, JAIL_STRINGS_MAX = 4096, JAIL_FDS = 3 };

struct jail_msg {
	uint32_t type;
	int32_t value;
	uint32_t argc, left;
	struct rusage usage; /* the main process and what it waited for */
	char text[JAIL_TEXT_MAX];
};

/* Sends the head, `text` bytes of m->text and n descriptors. Waits for room unless flags has MSG_DONTWAIT.
 * Negative errno. */
int jail_msg_send(int sock, const struct jail_msg *m, size_t text, const int *fds, size_t n, int flags);
/* Receives one message; returns its bytes of text. -EPIPE: the other end is gone; -EAGAIN with MSG_DONTWAIT;
 * -EPROTO: cut, or not a message. ret_fds: three, close-on-exec, -1 where none came; the caller closes
 * them. */
ssize_t jail_msg_recv(int sock, struct jail_msg *m, int ret_fds[JAIL_FDS], int flags);
