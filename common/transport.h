/* Requests and answers between our processes on one host, over nng's streams on ipc://. Everything is non-blocking and driven by
 * one pollable descriptor per side, so each program keeps its one event loop; no other thread calls our code.
 *
 * Why streams and not nng's REQ and REP sockets: between two processes those wake three threads on each side for a message, and
 * make a seventh to a tenth of the round trips of a bare SEQPACKET socket; this module makes most of them (docs/performance.md,
 * tests/bench/transport_bench.c). And a request is never sent again by itself, an answer may come much later than the next
 * request, and a message that was written for one connection never reaches another.
 *
 * Peers are checked by SO_PEERCRED: another uid than ours (root is let in) is closed at once. A client that runs as root talks
 * to any broker.
 *
 * Nobody can make the other side keep more than is said here. A connection that has asked nothing yet holds a descriptor and
 * some hundred bytes, and is the first to be closed when there are too many.
 *
 * Do not fork() in a process that has called into this module; posix_spawn is fine. Calls of one side: one thread. */
#pragma once
#include "buf.h"
#include <sys/types.h>

enum {
	/* Requests of one connection without an answer. transport_send refuses more; a server closes a peer that has more. A
	 * request that is dropped by the server counts no longer. */
	TRANSPORT_IN_FLIGHT_MAX = 64,
	TRANSPORT_PEERS_MAX = 1024,	 /* connections of a server */
	TRANSPORT_UNREAD_MAX = 16 << 20, /* bytes of answers that a peer does not read: then it is closed */
	TRANSPORT_KEPT_MAX =
	    128
	    << 20, /* of all peers of a server, with half-received requests: whose bytes pass it is closed */
};

struct transport_peer {
	/* Identity of the connection; never used again within a process. Of a server: no two connections that are not GONE have the
	 * same remainder of TRANSPORT_PEERS_MAX. */
	uint32_t pipe;
	pid_t pid;
	uid_t uid;
};

/* ---- the broker's side ---- */

struct transport_server;

/* Listens on path (mode 0600 until adopted by tmpfiles' folder rights). The caller holds its own lock on the
 * folder. */
int transport_listen(const char *path, struct transport_server **ret, struct err *err);
/* Ends all connections, unlinks the path. NULL is fine. */
void transport_server_free(struct transport_server *s);
/* Readable: call transport_server_next until TRANSPORT_NOTHING. */
int transport_server_fd(const struct transport_server *s);
/* As transport_listen for a program that waits by epoll: the side's descriptors are in the program's instance, where their
 * data.u64 has the bit TRANSPORT_TAG. Whatever epoll_wait gave goes to transport_server_take, then transport_server_next is
 * called until TRANSPORT_NOTHING. This saves waking through one epoll from another, and a system call for each message. */
#define TRANSPORT_TAG (UINT64_C(1) << 63)
struct epoll_event;
int transport_listen_in(int epoll, const char *path, struct transport_server **ret, struct err *err);
/* True if any of the n events, at most TRANSPORT_BATCH, is for this side. */
enum { TRANSPORT_BATCH = 64 };
bool transport_server_take(struct transport_server *s, const struct epoll_event *events, int n);

enum transport_event_type {
	TRANSPORT_NOTHING,
	TRANSPORT_REQUEST,
	TRANSPORT_CONNECTED,
	TRANSPORT_GONE,
	TRANSPORT_REFUSED /* of a server: connections that were closed before they became CONNECTED */
};
struct transport_event {
	enum transport_event_type type;
	struct transport_peer peer;
	struct span bytes; /* REQUEST: valid until the next call of transport_server_next */
	/* REQUEST: give it to transport_answer or transport_drop exactly once, at any later time */
	void *token;
	/* GONE: why we ended the connection, NULL when the peer or transport_close_peer did. REFUSED: the same of the last one.
	 * For the log; valid until the next call. */
	const char *why;
	uint32_t
	    refused; /* REFUSED: how many since the last such event; peer (no pipe) is the last of them */
};
enum transport_event_type transport_server_next(struct transport_server *s, struct transport_event *ret);
/* Frees the token, always. A peer that has gone swallows the answer without an error: leases have other
 * means. -EMSGSIZE above WIRE_MAX_BYTES, -EINVAL for no bytes at all: then the request is dropped. Tokens are
 * used up before transport_server_free. */
int transport_answer(struct transport_server *s, void *token, struct span bytes);
void transport_drop(struct transport_server *s, void *token); /* no answer comes; a NULL token is fine */
/* Ends one connection, for a peer that sent nonsense. */
void transport_close_peer(struct transport_server *s, uint32_t pipe);

/* ---- the other side ---- */

struct transport_client;

/* Dials now and, from transport_client_next, for ever, 10 ms to 1 s between attempts; connecting is reported by events. */
int transport_dial(const char *path, struct transport_client **ret, struct err *err);
void transport_client_free(struct transport_client *c);
/* Readable: call transport_client_next until TRANSPORT_NOTHING. Ask for it before each wait: it is another one when the
 * connection is. */
int transport_client_fd(const struct transport_client *c);
/* The caller's poll found that descriptor readable: saves transport_client_next the question, a system call. Optional. */
void transport_client_woke(struct transport_client *c);
const char *transport_client_path(const struct transport_client *c);

struct transport_reply {
	enum transport_event_type type; /* REQUEST here means: an answer */
	uint32_t request;		/* which transport_send it answers */
	struct span bytes;		/* until the next call */
};
/* CONNECTED: say HELLO. GONE: every request in flight is lost; nothing is sent again by itself. */
enum transport_event_type transport_client_next(struct transport_client *c, struct transport_reply *ret);
/* -ENOTCONN when CONNECTED has not been read, -EMSGSIZE, -EAGAIN when TRANSPORT_IN_FLIGHT_MAX are unanswered.
 * ret_request is never 0. What the kernel does not take now goes out in transport_client_next. */
int transport_send(struct transport_client *c, struct span bytes, uint32_t *ret_request);
/* One request and its answer, waiting up to timeout_ms: for reconcilectl. -ETIMEDOUT, -ENOTCONN (nobody
 * listens). */
int transport_call(struct transport_client *c, struct span bytes, int timeout_ms, struct buf *ret_answer,
		   struct err *err);
