/* Connections of transport.h, from the bottom: a stream is one connection as nng 1.5.2 gives it (transport_stream.c, the only
 * include of nng), a conn is a stream with frames (transport_frame.c); the two sides are made of those.
 *
 * What goes over a connection. First each side says 8 bytes, the client at once, the server when it has read the client's:
 * TRANSPORT_MAGIC and the version of the framing in the last byte. Then frames: length and request id, 4 bytes each, most
 * significant first, then so many bytes. A length of 0 comes only from a server and means that this request gets no answer.
 * Any other order or length ends the connection.
 *
 * Nothing here is called by another thread. */
#pragma once
#include "buf.h"
#include "transport.h"
#include "wire.h"
#include <sys/uio.h>

/* ---- transport_stream.c ---- */

/* Where connections come from: a listener or a dialer. */
struct port;
struct stream;

int port_listen(const char *path, struct port **ret, struct err *err);
int port_dialer(const char *path, struct port **ret, struct err *err);
/* Of a listener: readable when a connection waits. Unlinks the path when it is freed. */
int port_fd(const struct port *p);
/* Accepts the connection that waits, or dials: at once, or -EAGAIN, -ECONNREFUSED, -EMFILE, -EACCES, ... */
int port_connect(struct port *p, struct stream **ret);
void port_free(struct port *p); /* its streams are freed before */

int stream_fd(const struct stream *s);
void stream_peer(const struct stream *s, pid_t *ret_pid, uid_t *ret_uid);
/* As read(2) and writev(2) of a descriptor that does not block: 0 is the end, -EAGAIN: nothing now. At most 8 vectors. */
ssize_t stream_read(struct stream *s, void *at, size_t n);
ssize_t stream_write(struct stream *s, const struct iovec *iov, unsigned n);
/* Whether nothing can be read now. To be asked once of every new connection, when its other side has no reason to say anything:
 * the vain attempt also tells nng's poller that somebody waits. Without that, it would turn in circles from the moment the other
 * side closes until we do. */
bool stream_silent(struct stream *s);
void stream_free(struct stream *s);

/* ---- transport_frame.c ---- */

enum { FRAME_HEADER = 8, INBOX = 65536, KEEP_MAX = 16384 };

/* Bytes that were read of one connection; a side has one for all of them, so that an idle connection holds no memory. */
struct inbox {
	size_t at, len;
	char bytes[INBOX];
};

/* What all connections of a side keep: unfinished frames and what the kernel did not take. */
struct kept {
	size_t bytes, most;
};

struct conn {
	struct stream *stream;
	struct kept *kept;
	struct buf part; /* an unfinished frame, or the one that was given out */
	struct buf out;	 /* not sent yet, from out_at on */
	size_t out_at, counted;
	bool greeted, given; /* given: part is with the user until conn_release */
};

struct frame {
	uint32_t id;
	struct span bytes; /* in the inbox or in the conn's part */
};
enum frame_type { FRAME_NONE, FRAME_GREETING, FRAME_WHOLE, FRAME_BAD };

void conn_done(struct conn *c);
/* Into the inbox, which is empty. 0: the end; -EAGAIN. */
ssize_t conn_read(struct conn *c, struct inbox *in);
/* Takes the next frame out of the inbox; FRAME_NONE when the inbox is used up. FRAME_BAD: err says why, and the connection is of
 * no more use. */
enum frame_type conn_next(struct conn *c, struct inbox *in, struct frame *ret, struct err *err);
/* The user has done with the bytes of the last frame. */
void conn_release(struct conn *c);
int conn_greet(struct conn *c);
/* Sends now what the kernel takes and keeps the rest. -ENOBUFS: more than `most` bytes would be kept for this connection, or
 * more than kept->most for all. Other errors are those of a connection that has ended. */
int conn_send(struct conn *c, uint32_t id, struct span bytes, size_t most);
int conn_flush(struct conn *c);
void conn_forget_out(struct conn *c);
static inline bool conn_waits(const struct conn *c)
{
	return c->out.len > 0;
}
