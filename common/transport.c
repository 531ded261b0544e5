/* nng 1.5.2's raw REQ and REP sockets; see transport.h for what they are to the programs.
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
#include "transport.h"
#include "wire.h"
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	PEERS_MAX = 4096,      /* connections of a server; more are turned away */
	SERVER_QUEUE = 4096,   /* answers that wait for nng */
	RECONNECT_MIN_MS = 10, /* from the first try after a loss ... */
	RECONNECT_MAX_MS = 1000,
	REQUEST_ID = 0x80000000u, /* marks the last word of a header */
	HEADER_BYTES = 4,	  /* on the wire; RECVMAXSZ counts it */
	CLOSE_WAIT_MS = 500,
};

/* nng 1.5.2 ends a listener for good, without a word, when a peer connects and closes before the handshake:
 * sendmsg fails with EPIPE, which nng reads as "this listener is closed" (upstream issue 1518, fixed
 * in 1.6.0). ECONNRESET means to it what happened. The whole program is linked with --wrap=sendmsg: for
 * nobody else does the difference matter. */
ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t r = __real_sendmsg(fd, m, flags);
	if (r < 0 && errno == EPIPE)
		errno = ECONNRESET;
	return r;
}

/* ---- what both sides have: a socket, its descriptors, and messages that wait for it ---- */

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

static int side_errno(int nng_code)
{
	switch (nng_code) {
	case NNG_EADDRINUSE:
		return -EADDRINUSE;
	case NNG_EPERM:
		return -EACCES;
	case NNG_ENOMEM:
		return -ENOMEM;
	case NNG_ENOFILES:
		return -EMFILE;
	default:
		return -EIO;
	}
}

static int side_watch(struct side *s, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};
	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static int side_open(struct side *s, const char *path, int (*open_raw)(nng_socket *), int send_buffer,
		     size_t queue_size, struct err *err)
{
	pthread_mutex_init(&s->lock, NULL);
	s->epoll = s->events = -1;
	if (strlen(path) >= sizeof s->path)
		return err_set(
		    err, -ENAMETOOLONG,
		    "socket path %s: %zu bytes are too long, at most %zu: use a shorter --runtime-dir", path,
		    strlen(path), sizeof s->path - 1);
	strcpy(s->path, path);
	/* The first call starts nng's threads: they must not take signals that are meant for the program. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = open_raw(&s->socket);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		return err_set(err, side_errno(r), "socket %s: %s", path, nng_strerror(r));
	s->open = true;
	int recv_fd;
	if ((r = nng_socket_set_int(s->socket, NNG_OPT_SENDBUF, send_buffer)) ||
	    (r = nng_socket_set_int(s->socket, NNG_OPT_RECVBUF, 2 * TRANSPORT_IN_FLIGHT_MAX)) ||
	    (r = nng_socket_set_int(s->socket, NNG_OPT_MAXTTL, 1)) ||
	    (r = nng_socket_set_size(s->socket, NNG_OPT_RECVMAXSZ, WIRE_MAX_BYTES + HEADER_BYTES)) ||
	    (r = nng_socket_get_int(s->socket, NNG_OPT_RECVFD, &recv_fd)) ||
	    (r = nng_socket_get_int(s->socket, NNG_OPT_SENDFD, &s->send_fd)))
		return err_set(err, side_errno(r), "socket %s: %s", path, nng_strerror(r));
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll < 0 || s->events < 0)
		return err_set(err, -errno, "socket %s: %s", path, strerror(errno));
	if ((r = side_watch(s, recv_fd, EPOLLIN)) || (r = side_watch(s, s->events, EPOLLIN)) ||
	    (r = side_watch(s, s->send_fd, 0)))
		return err_set(err, r, "socket %s: %s", path, strerror(-r));
	s->queue = xcalloc(queue_size, sizeof *s->queue);
	s->queue_size = queue_size;
	return 0;
}

static void side_raise(struct side *s)
{
	uint64_t one = 1;
	if (write(s->events, &one, sizeof one) < 0) {
		/* It is readable already. */
	}
}

static void side_clear(struct side *s)
{
	uint64_t count;
	if (read(s->events, &count, sizeof count) < 0) {
		/* It was not readable. */
	}
}

static void side_drop_queue(struct side *s)
{
	for (; s->queue_len; s->queue_len--) {
		nng_msg_free(s->queue[s->queue_first]);
		s->queue_first = (s->queue_first + 1) % s->queue_size;
	}
}

/* Hands over what waits, as far as nng takes it; while something is left, room in nng makes the side's
 * descriptor readable. */
static void side_flush(struct side *s)
{
	while (s->queue_len) {
		int r = nng_sendmsg(s->socket, s->queue[s->queue_first], NNG_FLAG_NONBLOCK);
		if (r == NNG_EAGAIN)
			break;
		if (r)
			nng_msg_free(s->queue[s->queue_first]);
		s->queue_first = (s->queue_first + 1) % s->queue_size;
		s->queue_len--;
	}
	if (s->watching_send == (s->queue_len > 0))
		return;
	s->watching_send = s->queue_len > 0;
	struct epoll_event e = {.events = s->watching_send ? EPOLLIN : 0, .data.fd = s->send_fd};
	epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->send_fd, &e);
}

/* -EAGAIN when the queue is full; else the message is taken. */
static int side_send(struct side *s, nng_msg *m)
{
	side_flush(s);
	if (s->queue_len == s->queue_size)
		return -EAGAIN;
	s->queue[(s->queue_first + s->queue_len++) % s->queue_size] = m;
	side_flush(s);
	return 0;
}

static nng_msg *side_message(struct span bytes)
{
	nng_msg *m;
	if (nng_msg_alloc(&m, bytes.len))
		return NULL;
	if (bytes.len)
		memcpy(nng_msg_body(m), bytes.at, bytes.len);
	return m;
}

static void side_release_current(struct side *s)
{
	if (s->current)
		nng_msg_free(s->current);
	s->current = NULL;
}

static nng_msg *side_receive(struct side *s)
{
	nng_msg *m;
	return nng_recvmsg(s->socket, &m, NNG_FLAG_NONBLOCK) ? NULL : m;
}

static uint32_t word_at(const nng_msg *m, size_t at)
{
	const uint8_t *h = (const uint8_t *)nng_msg_header((nng_msg *)m) + at;
	return (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3];
}

static struct transport_peer peer_of(nng_pipe p)
{
	uint64_t uid = UINT64_MAX, pid = 0;
	if (nng_pipe_get_uint64(p, NNG_OPT_IPC_PEER_UID, &uid) ||
	    nng_pipe_get_uint64(p, NNG_OPT_IPC_PEER_PID, &pid))
		return (struct transport_peer){.uid = (uid_t)-1};
	return (struct transport_peer){.pipe = (uint32_t)p.id, .pid = (pid_t)pid, .uid = (uid_t)uid};
}

/* Some ways of nng_close() in this version can wait for ever: it gets a thread, and we wait for that only a
 * while. What is left then is leaked on purpose. */
struct closing {
	struct side *side;
	void (*free_all)(void *);
	void *all;
	sem_t done;
	atomic_int users; /* the thread and the one that waits */
};

static void closing_release(struct closing *c)
{
	if (atomic_fetch_sub(&c->users, 1) > 1)
		return;
	sem_destroy(&c->done);
	free(c);
}

static void *closing_run(void *arg)
{
	struct closing *c = arg;
	struct side *s = c->side;
	if (s->open)
		nng_close(s->socket);
	side_release_current(s);
	side_drop_queue(s);
	free(s->queue);
	close_fd(&s->epoll);
	close_fd(&s->events);
	pthread_mutex_destroy(&s->lock);
	c->free_all(c->all);
	sem_post(&c->done);
	closing_release(c);
	return NULL;
}

static void side_close(struct side *s, void (*free_all)(void *), void *all)
{
	struct closing *c = xcalloc(1, sizeof *c);
	*c = (struct closing){.side = s, .free_all = free_all, .all = all, .users = 2};
	sem_init(&c->done, 0, 0);
	pthread_t thread;
	sigset_t mask, before;
	sigfillset(&mask);
	pthread_sigmask(SIG_SETMASK, &mask, &before);
	int r = pthread_create(&thread, NULL, closing_run, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		return;
	pthread_detach(thread);
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	int64_t ns = until.tv_nsec + (int64_t)CLOSE_WAIT_MS * NS_PER_MS;
	until.tv_sec += (time_t)(ns / NS_PER_S);
	until.tv_nsec = (long)(ns % NS_PER_S);
	while (sem_timedwait(&c->done, &until) && errno == EINTR)
		;
	closing_release(c);
}

/* ---- the broker's side ---- */

enum peer_state {
	PEER_NEW,  /* CONNECTED is to be reported */
	PEER_LIVE, /* reported */
	PEER_GONE, /* GONE is to be reported */
};

struct peer {
	struct transport_peer who;
	enum peer_state state;
	uint32_t unanswered; /* user's thread only */
	struct peer *next;   /* of its bucket */
	struct peer *report; /* the next in the order of events; only NEW and GONE are in it */
};

struct transport_server {
	struct side side;
	nng_msg *held; /* received before its CONNECTED was reported */
	struct peer *buckets[256];
	size_t n_peers;
	struct peer *report, **report_end;
};

struct token {
	struct transport_server *server;
	uint32_t pipe, request;
};

static struct peer **peer_slot(struct transport_server *s, uint32_t pipe)
{
	struct peer **p = &s->buckets[pipe % ARRAY_SIZE(s->buckets)];
	while (*p && (*p)->who.pipe != pipe)
		p = &(*p)->next;
	return p;
}

static void report_add(struct transport_server *s, struct peer *p)
{
	p->report = NULL;
	*s->report_end = p;
	s->report_end = &p->report;
	side_raise(&s->side);
}

static void report_remove(struct transport_server *s, struct peer *p)
{
	struct peer **at = &s->report;
	while (*at != p)
		at = &(*at)->report;
	*at = p->report;
	if (s->report_end == &p->report)
		s->report_end = at;
}

static void peer_forget(struct transport_server *s, struct peer **slot)
{
	struct peer *p = *slot;
	*slot = p->next;
	s->n_peers--;
	free(p);
}

static void server_pipe_event(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
	struct transport_server *s = arg;
	struct transport_peer who = {0};
	if (event == NNG_PIPE_EV_ADD_PRE) {
		who = peer_of(pipe);
		if (who.uid != geteuid() && who.uid != 0) {
			nng_pipe_close(pipe);
			return;
		}
	}
	pthread_mutex_lock(&s->side.lock);
	struct peer **slot = peer_slot(s, (uint32_t)pipe.id);
	if (event == NNG_PIPE_EV_ADD_PRE && s->n_peers >= PEERS_MAX) {
		nng_pipe_close(pipe);
	} else if (event == NNG_PIPE_EV_ADD_PRE) {
		struct peer *p = xcalloc(1, sizeof *p);
		p->who = who;
		*slot = p;
		s->n_peers++;
		report_add(s, p);
	} else if (*slot && (*slot)->state == PEER_NEW) { /* came and went unseen */
		report_remove(s, *slot);
		peer_forget(s, slot);
	} else if (*slot && (*slot)->state == PEER_LIVE) {
		(*slot)->state = PEER_GONE;
		report_add(s, *slot);
	}
	pthread_mutex_unlock(&s->side.lock);
}

static void server_free_memory(void *arg)
{
	struct transport_server *s = arg;
	if (s->held)
		nng_msg_free(s->held);
	for (size_t i = 0; i < ARRAY_SIZE(s->buckets); i++)
		while (s->buckets[i])
			peer_forget(s, &s->buckets[i]);
	free(s);
}

int transport_listen(const char *path, struct transport_server **ret, struct err *err)
{
	struct transport_server *s = xcalloc(1, sizeof *s);
	s->report_end = &s->report;
	int r = side_open(&s->side, path, nng_rep0_open_raw, 2 * TRANSPORT_IN_FLIGHT_MAX, SERVER_QUEUE, err);
	if (r) {
		side_close(&s->side, server_free_memory, s);
		return r;
	}
	char url[sizeof s->side.path + 8];
	snprintf(url, sizeof url, "ipc://%s", path);
	nng_listener listener;
	if ((r = nng_pipe_notify(s->side.socket, NNG_PIPE_EV_ADD_PRE, server_pipe_event, s)) ||
	    (r = nng_pipe_notify(s->side.socket, NNG_PIPE_EV_REM_POST, server_pipe_event, s)) ||
	    (r = nng_listener_create(&listener, s->side.socket, url)) ||
	    (r = nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, 0600)) ||
	    (r = nng_listener_start(listener, 0))) {
		const char *hint =
		    r == NNG_EADDRINUSE ? " (another process listens there: stop it first)" : "";
		err_set(err, side_errno(r), "cannot listen on %s: %s%s", path, nng_strerror(r), hint);
		side_close(&s->side, server_free_memory, s);
		return side_errno(r);
	}
	*ret = s;
	return 0;
}

void transport_server_free(struct transport_server *s)
{
	if (!s)
		return;
	unlink(s->side.path);
	side_close(&s->side, server_free_memory, s);
}

int transport_server_fd(const struct transport_server *s)
{
	return s->side.epoll;
}

/* The oldest connection event, if any. */
static enum transport_event_type server_next_report(struct transport_server *s, struct transport_event *ret)
{
	enum transport_event_type type = TRANSPORT_NOTHING;
	pthread_mutex_lock(&s->side.lock);
	struct peer *p = s->report;
	if (p) {
		s->report = p->report;
		if (!s->report)
			s->report_end = &s->report;
		type = p->state == PEER_NEW ? TRANSPORT_CONNECTED : TRANSPORT_GONE;
		*ret = (struct transport_event){.type = type, .peer = p->who};
		if (p->state == PEER_NEW)
			p->state = PEER_LIVE;
		else
			peer_forget(s, peer_slot(s, p->who.pipe));
	}
	if (!s->report && !s->held)
		side_clear(&s->side);
	pthread_mutex_unlock(&s->side.lock);
	return type;
}

/* Who sent it, if the user knows the connection; counts the request. */
static bool server_sender(struct transport_server *s, uint32_t pipe, struct transport_peer *ret)
{
	pthread_mutex_lock(&s->side.lock);
	struct peer *p = *peer_slot(s, pipe);
	bool live = p && p->state == PEER_LIVE;
	bool too_many = live && p->unanswered >= TRANSPORT_IN_FLIGHT_MAX;
	if (live && !too_many) {
		*ret = p->who;
		p->unanswered++;
	}
	pthread_mutex_unlock(&s->side.lock);
	if (too_many)
		transport_close_peer(s, pipe);
	return live && !too_many;
}

enum transport_event_type transport_server_next(struct transport_server *s, struct transport_event *ret)
{
	side_release_current(&s->side);
	side_flush(&s->side);
	for (;;) {
		enum transport_event_type type = server_next_report(s, ret);
		if (type != TRANSPORT_NOTHING)
			return type;
		nng_msg *m = s->held;
		s->held = NULL;
		if (!m && (m = side_receive(&s->side))) {
			/* Its CONNECTED may have come since we looked: that goes first. */
			s->held = m;
			continue;
		}
		if (!m) {
			*ret = (struct transport_event){.type = TRANSPORT_NOTHING};
			return TRANSPORT_NOTHING;
		}
		struct transport_peer who;
		if (nng_msg_header_len(m) != 2 * sizeof(uint32_t) || !server_sender(s, word_at(m, 0), &who)) {
			nng_msg_free(m);
			continue;
		}
		struct token *token = xcalloc(1, sizeof *token);
		*token = (struct token){.server = s, .pipe = word_at(m, 0), .request = word_at(m, 4)};
		s->side.current = m;
		*ret = (struct transport_event){.type = TRANSPORT_REQUEST,
						.peer = who,
						.bytes = {nng_msg_body(m), nng_msg_len(m)},
						.token = token};
		return TRANSPORT_REQUEST;
	}
}

static void server_answer(struct token *t, struct span bytes)
{
	struct transport_server *s = t->server;
	pthread_mutex_lock(&s->side.lock);
	struct peer *p = *peer_slot(s, t->pipe);
	if (p)
		p->unanswered--;
	pthread_mutex_unlock(&s->side.lock);
	nng_msg *m = p ? side_message(bytes) : NULL;
	if (!m || nng_msg_header_append_u32(m, t->pipe) || nng_msg_header_append_u32(m, t->request) ||
	    side_send(&s->side, m)) {
		/* An answer that cannot be kept must not leave its asker waiting for ever. */
		if (m)
			nng_msg_free(m);
		transport_close_peer(s, t->pipe);
	}
	free(t);
}

int transport_answer(struct transport_server *s _unused_, void *token, struct span bytes)
{
	if (bytes.len > WIRE_MAX_BYTES || !bytes.len) {
		transport_drop(token);
		return bytes.len ? -EMSGSIZE : -EINVAL;
	}
	server_answer(token, bytes);
	return 0;
}

void transport_drop(void *token)
{
	if (token)
		server_answer(
		    token,
		    (struct span){"", 0}); /* the other side takes it as "no answer comes" and tells nobody */
}

void transport_close_peer(struct transport_server *s _unused_, uint32_t pipe)
{
	nng_pipe_close((nng_pipe){.id = pipe});
}

/* ---- the other side ---- */

struct transport_client {
	struct side side;
	uint32_t last_id, in_flight;
	bool connected; /* the user knows */
	/* below lock */
	uint32_t pipe; /* 0: none */
	bool ready;    /* the pipe works, CONNECTED is to be reported */
	bool lost;     /* GONE is to be reported; until then no other pipe is let in */
};

static void client_pipe_event(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
	struct transport_client *c = arg;
	bool welcome = true;
	if (event == NNG_PIPE_EV_ADD_PRE) {
		struct transport_peer who = peer_of(pipe);
		welcome = who.uid != (uid_t)-1 && (who.uid == geteuid() || who.uid == 0 || geteuid() == 0);
	}
	uint32_t id = (uint32_t)pipe.id;
	pthread_mutex_lock(&c->side.lock);
	if (event == NNG_PIPE_EV_ADD_PRE) {
		welcome = welcome && !c->pipe && !c->lost;
		if (welcome)
			c->pipe = id;
	} else if (event == NNG_PIPE_EV_ADD_POST && c->pipe == id) {
		c->ready = true;
		side_raise(&c->side);
	} else if (event == NNG_PIPE_EV_REM_POST && c->pipe == id) {
		c->lost = c->connected; /* what was never reported is not reported lost */
		c->pipe = 0;
		c->ready = false;
		side_raise(&c->side);
	}
	pthread_mutex_unlock(&c->side.lock);
	if (!welcome)
		nng_pipe_close(pipe);
}

int transport_dial(const char *path, struct transport_client **ret, struct err *err)
{
	struct transport_client *c = xcalloc(1, sizeof *c);
	c->last_id = (uint32_t)random_below(REQUEST_ID);
	int r = side_open(&c->side, path, nng_req0_open_raw, 0, TRANSPORT_IN_FLIGHT_MAX, err);
	if (r) {
		side_close(&c->side, free, c);
		return r;
	}
	char url[sizeof c->side.path + 8];
	snprintf(url, sizeof url, "ipc://%s", path);
	nng_socket socket = c->side.socket;
	if ((r = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, client_pipe_event, c)) ||
	    (r = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, client_pipe_event, c)) ||
	    (r = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, client_pipe_event, c)) ||
	    (r = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS)) ||
	    (r = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS)) ||
	    (r = nng_dial(socket, url, NULL, NNG_FLAG_NONBLOCK))) {
		err_set(err, side_errno(r), "cannot dial %s: %s", path, nng_strerror(r));
		side_close(&c->side, free, c);
		return side_errno(r);
	}
	*ret = c;
	return 0;
}

void transport_client_free(struct transport_client *c)
{
	if (c)
		side_close(&c->side, free, c);
}

const char *transport_client_path(const struct transport_client *c)
{
	return c->side.path;
}

int transport_client_fd(const struct transport_client *c)
{
	return c->side.epoll;
}

static enum transport_event_type client_next_report(struct transport_client *c)
{
	enum transport_event_type type = TRANSPORT_NOTHING;
	pthread_mutex_lock(&c->side.lock);
	side_clear(&c->side);
	if (c->lost) {
		type = TRANSPORT_GONE;
		side_drop_queue(&c->side); /* before another pipe is let in */
		c->in_flight = 0;
		c->connected = c->lost = false;
	} else if (c->ready) {
		type = TRANSPORT_CONNECTED;
		c->ready = false;
		c->connected = true;
	}
	pthread_mutex_unlock(&c->side.lock);
	return type;
}

enum transport_event_type transport_client_next(struct transport_client *c, struct transport_reply *ret)
{
	side_release_current(&c->side);
	side_flush(&c->side);
	/* Answers first: those that came before a loss still count. */
	for (nng_msg *m; (m = side_receive(&c->side));) {
		bool known = c->connected && nng_msg_header_len(m) == HEADER_BYTES && c->in_flight > 0;
		c->in_flight -= known;
		if (!known || !nng_msg_len(m)) {
			nng_msg_free(m);
			continue;
		}
		c->side.current = m;
		*ret = (struct transport_reply){.type = TRANSPORT_REQUEST,
						.request = word_at(m, 0) & ~(uint32_t)REQUEST_ID,
						.bytes = {nng_msg_body(m), nng_msg_len(m)}};
		return TRANSPORT_REQUEST;
	}
	*ret = (struct transport_reply){.type = client_next_report(c)};
	return ret->type;
}

int transport_send(struct transport_client *c, struct span bytes, uint32_t *ret_request)
{
	if (bytes.len > WIRE_MAX_BYTES)
		return -EMSGSIZE;
	if (!bytes.len)
		return -EINVAL;
	if (!c->connected)
		return -ENOTCONN;
	if (c->in_flight >= TRANSPORT_IN_FLIGHT_MAX)
		return -EAGAIN;
	nng_msg *m = side_message(bytes);
	if (!m)
		return -ENOMEM;
	uint32_t id = c->last_id + 1 >= REQUEST_ID ? 1 : c->last_id + 1;
	int r = nng_msg_header_append_u32(m, id | REQUEST_ID) ? -ENOMEM : side_send(&c->side, m);
	if (r) {
		nng_msg_free(m);
		return r;
	}
	c->last_id = id;
	c->in_flight++;
	*ret_request = id;
	return 0;
}
