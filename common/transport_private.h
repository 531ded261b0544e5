/* What the two sides of transport.h have in common: a socket, its descriptors, and messages that wait for it.
 * Private to transport*.c; the only include of nng.
 *
 * Raw messages carry their address in a header that we write and read: 4 bytes of request id with the high
 * bit set from the client, and before them, on the server's side, 4 bytes with nng's pipe id. The header of a
 * request is kept and put before its answer.
 *
 * What another thread does. nng calls pipe_event() from its own threads when a connection comes or goes; it
 * changes the little state below `lock` and makes an eventfd readable. All else belongs to the one thread
 * that uses the side.
 *
 * Nothing is sent to a connection that its user has not been told of. Server: requests of a connection are
 * handed out after its CONNECTED and never after its GONE. Client: nng's own send queue has no room (it hands
 * a message to a live pipe or refuses it), what waits waits here and is thrown away with GONE, and a new
 * connection is turned away until the loss of the last one has been read. So a message written for one broker
 * never reaches the next. */
#pragma once
#include "transport.h"
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <sys/un.h>

#define REQUEST_ID 0x80000000u /* marks the last word of a header */
enum { HEADER_BYTES = 4 };     /* on the wire; RECVMAXSZ counts it */

struct side {
	nng_socket socket;
	bool open;
	int epoll, events, send_fd; /* events: an eventfd; send_fd is nng's */
	bool watching_send;
	pthread_mutex_t lock; /* between the user's thread and nng's */
	nng_msg *current;     /* whose bytes the user is reading */
	nng_msg **queue;      /* a ring of queue_size */
	size_t queue_size, queue_first, queue_len;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

int side_errno(int nng_code);
/* send_buffer: messages that nng holds for a connection; queue_size: messages that wait here for nng. Fails
 * with s in a state for side_close. */
int side_open(struct side *s, const char *path, int (*open_raw)(nng_socket *), int send_buffer,
	      size_t queue_size, struct err *err);
/* Frees the side and then, by free_all(all), what it is part of; perhaps after the return. */
void side_close(struct side *s, void (*free_all)(void *), void *all);

void side_raise(struct side *s); /* makes the descriptor readable until side_clear */
void side_clear(struct side *s);

/* Hands over what waits, as far as nng takes it; while something is left, room in nng makes the descriptor
 * readable. */
void side_flush(struct side *s);
/* -EAGAIN when the queue is full; else the message is taken. */
int side_send(struct side *s, nng_msg *m);
void side_drop_queue(struct side *s);
nng_msg *side_receive(struct side *s);
void side_release_current(struct side *s);

nng_msg *side_message(struct span bytes);
uint32_t side_header_word(const nng_msg *m, size_t at);
/* uid is -1 when nng does not know. */
struct transport_peer side_peer(nng_pipe p);
