#include "transport_private.h"
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
	ASKS_MAX = 64,	/* then the user has his turn, however many dial */
	PAUSE_MS = 100, /* without a descriptor for it, the next connection waits that long */
	ROOM = 8,	/* connections that are ended when a descriptor is missing */
};
/* Beside TRANSPORT_TAG; others are the pipe of a peer. */
#define EVENT_LISTENER (UINT64_C(1) << 32)
#define EVENT_TIMER    (UINT64_C(2) << 32)
#define EVENT_RAISED   (UINT64_C(3) << 32)

enum peer_state {
	PEER_NEW,  /* has not greeted; the user knows nothing of it */
	PEER_LIVE, /* CONNECTED was reported */
	PEER_GONE, /* GONE is to be reported */
};

TAILQ_HEAD(peer_list, peer);
struct peer {
	struct transport_peer who;
	struct conn conn;
	enum peer_state state;
	uint32_t unanswered;
	bool watches_room;
	char *why;		/* we closed it; NULL: it did */
	struct peer_list *list; /* which one it is in; NULL: it has asked something */
	TAILQ_ENTRY(peer) link;
};

struct transport_server {
	struct port *port;
	int epoll, timer, raised;
	bool own_epoll;
	struct epoll_event batch[TRANSPORT_BATCH];
	int batch_at, batch_len;
	int asks;				 /* how often the epoll, since the last TRANSPORT_NOTHING */
	bool again;				 /* more may be there than it named */
	struct peer *slots[TRANSPORT_PEERS_MAX]; /* at pipe % TRANSPORT_PEERS_MAX */
	size_t n_peers;
	uint32_t last_pipe;
	struct peer *reading;  /* whose bytes are in the inbox */
	struct peer *given;    /* whose bytes are with the user */
	struct peer *reported; /* whose GONE is with the user */
	/* Those that have not greeted and those that have not asked, oldest first: they go in that order when there are too many.
	 * And those whose GONE is to be reported. */
	struct peer_list fresh, quiet, gone;
	struct kept kept;
	struct transport_event refused; /* to be reported when it counts any */
	struct err refused_why;
	char *path;
	struct inbox in;
};

/* ---- peers ---- */

static struct peer *peer_find(struct transport_server *s, uint32_t pipe)
{
	struct peer *p = s->slots[pipe % TRANSPORT_PEERS_MAX];
	return p && p->who.pipe == pipe && p->state != PEER_GONE ? p : NULL;
}

static void peer_move(struct peer *p, struct peer_list *to)
{
	if (p->list)
		TAILQ_REMOVE(p->list, p, link);
	p->list = to;
	if (to)
		TAILQ_INSERT_TAIL(to, p, link);
}

static struct peer *peer_add(struct transport_server *s, struct stream *stream, struct transport_peer who)
{
	do
		s->last_pipe++;
	while (!s->last_pipe || s->slots[s->last_pipe % TRANSPORT_PEERS_MAX]);
	struct peer *p = xcalloc(1, sizeof *p);
	*p = (struct peer){.who = who, .conn = {.stream = stream, .kept = &s->kept}};
	p->who.pipe = s->last_pipe;
	s->slots[p->who.pipe % TRANSPORT_PEERS_MAX] = p;
	s->n_peers++;
	peer_move(p, &s->fresh);
	return p;
}

static void peer_forget(struct transport_server *s, struct peer *p)
{
	if (!p)
		return;
	s->slots[p->who.pipe % TRANSPORT_PEERS_MAX] = NULL;
	s->n_peers--;
	conn_done(&p->conn);
	free(p->why);
	free(p);
}

static void refuse(struct transport_server *s, struct transport_peer who, const char *why)
{
	snprintf(s->refused_why.text, sizeof s->refused_why.text, "%s", why);
	s->refused = (struct transport_event){.type = TRANSPORT_REFUSED,
					      .peer = who,
					      .why = s->refused_why.text,
					      .refused = s->refused.refused + 1};
}

/* Closes the connection; why is NULL when the other side did. What the user holds of it stays until the next event. */
static void peer_end(struct transport_server *s, struct peer *p, const char *why)
{
	if (s->reading == p) {
		s->reading = NULL;
		s->in.at = s->in.len = 0;
	}
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, stream_fd(p->conn.stream), NULL);
	stream_free(p->conn.stream);
	p->conn.stream = NULL;
	conn_forget_out(&p->conn);
	peer_move(p, NULL);
	if (p->state == PEER_NEW) {
		if (why)
			refuse(s, p->who, why);
		peer_forget(s, p);
		return;
	}
	p->why = why ? xstrdup(why) : NULL;
	p->state = PEER_GONE;
	peer_move(p, &s->gone);
}

/* The same from outside of transport_server_next, which then has something to say. */
static void peer_end_and_raise(struct transport_server *s, struct peer *p, const char *why)
{
	uint64_t one = 1;
	peer_end(s, p, why);
	if (write(s->raised, &one, sizeof one) < 0) {
		/* It is readable already. */
	}
}

static int server_watch(struct transport_server *s, int op, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event e = {.events = events, .data.u64 = TRANSPORT_TAG | tag};
	return epoll_ctl(s->epoll, op, fd, &e) ? -errno : 0;
}

/* Room in the socket is watched for while something waits for it. */
static void peer_watch(struct transport_server *s, struct peer *p)
{
	bool waits = conn_waits(&p->conn);
	if (waits == p->watches_room)
		return;
	p->watches_room = waits;
	server_watch(s, EPOLL_CTL_MOD, stream_fd(p->conn.stream), EPOLLIN | (waits ? EPOLLOUT : 0),
		     p->who.pipe);
}

/* ---- start and end ---- */

static int server_new(int epoll, const char *path, struct transport_server **ret, struct err *err)
{
	struct transport_server *s = xcalloc(1, sizeof *s);
	TAILQ_INIT(&s->fresh);
	TAILQ_INIT(&s->quiet);
	TAILQ_INIT(&s->gone);
	s->kept.most = TRANSPORT_KEPT_MAX;
	s->path = xstrdup(path);
	s->own_epoll = epoll < 0;
	s->epoll = s->own_epoll ? epoll_create1(EPOLL_CLOEXEC) : epoll;
	s->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	s->raised = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r = 0;
	if (s->epoll < 0 || s->timer < 0 || s->raised < 0 ||
	    (r = server_watch(s, EPOLL_CTL_ADD, s->timer, EPOLLIN, EVENT_TIMER)) ||
	    (r = server_watch(s, EPOLL_CTL_ADD, s->raised, EPOLLIN, EVENT_RAISED))) {
		r = r ? r : -errno;
		err_set(err, r, "socket %s: %s", path, strerror(-r));
	}
	if (!r && !(r = port_listen(path, &s->port, err)) &&
	    (r = server_watch(s, EPOLL_CTL_ADD, port_fd(s->port), EPOLLIN, EVENT_LISTENER)))
		err_set(err, r, "socket %s: %s", path, strerror(-r));
	if (r) {
		transport_server_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

int transport_listen(const char *path, struct transport_server **ret, struct err *err)
{
	return server_new(-1, path, ret, err);
}

int transport_listen_in(int epoll, const char *path, struct transport_server **ret, struct err *err)
{
	return server_new(epoll, path, ret, err);
}

void transport_server_free(struct transport_server *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < TRANSPORT_PEERS_MAX; i++)
		peer_forget(s, s->slots[i]);
	port_free(s->port);
	if (s->own_epoll)
		close_fd(&s->epoll);
	close_fd(&s->timer);
	close_fd(&s->raised);
	free(s->path);
	free(s);
}

int transport_server_fd(const struct transport_server *s)
{
	return s->epoll;
}

/* ---- what comes ---- */

/* Ends the connection that was silent longest. */
static bool server_make_room(struct transport_server *s, const char *why)
{
	struct peer *p = TAILQ_EMPTY(&s->fresh) ? TAILQ_FIRST(&s->quiet) : TAILQ_FIRST(&s->fresh);
	if (p)
		peer_end(s, p, why);
	return p;
}

/* For a while nobody is let in: without descriptors, the listener would stay readable. */
static void server_pause(struct transport_server *s, int ms)
{
	const struct itimerspec at = {.it_value = {.tv_nsec = ms * (long)NS_PER_MS}};
	server_watch(s, EPOLL_CTL_MOD, port_fd(s->port), 0, EVENT_LISTENER);
	timerfd_settime(s->timer, 0, &at, NULL);
}

static void server_read(struct transport_server *s, struct peer *p)
{
	ssize_t n = conn_read(&p->conn, &s->in);
	if (n > 0)
		s->reading = p;
	else if (n != -EAGAIN)
		peer_end(s, p, NULL);
}

static void server_accept(struct transport_server *s)
{
	struct stream *stream;
	struct transport_peer who = {0};
	char why[120];
	int r = port_connect(s->port, &stream);
	if (r == -EAGAIN)
		return;
	if (r < 0) {
		snprintf(why, sizeof why, "no connection can be taken: %s", strerror(-r));
		int ended = 0;
		while (ended < ROOM && server_make_room(s, why))
			ended++;
		if (!ended)
			refuse(s, who, why);
		/* nng closes what we ended in a thread of its own, a little later. */
		server_pause(s, ended ? 1 : PAUSE_MS);
		return;
	}
	stream_peer(stream, &who.pid, &who.uid);
	if (who.uid != geteuid() && who.uid != 0) {
		snprintf(why, sizeof why, "it belongs to another user (uid %u)", who.uid);
		refuse(s, who, why);
		stream_free(stream);
		return;
	}
	snprintf(why, sizeof why, "too many connections: at most %d", TRANSPORT_PEERS_MAX);
	if (s->n_peers == TRANSPORT_PEERS_MAX && !server_make_room(s, why)) {
		refuse(s, who, why);
		stream_free(stream);
		return;
	}
	if (s->n_peers == TRANSPORT_PEERS_MAX) { /* the place is free once GONE was reported */
		stream_free(stream);
		return;
	}
	struct peer *p = peer_add(s, stream, who);
	if ((r = server_watch(s, EPOLL_CTL_ADD, stream_fd(stream), EPOLLIN, p->who.pipe)) < 0)
		peer_end(s, p, strerror(-r));
	else
		server_read(s, p); /* its greeting is there already, as a rule */
}

static void server_ready(struct transport_server *s, const struct epoll_event *e)
{
	uint64_t count, tag = e->data.u64 & ~TRANSPORT_TAG;
	if (tag == EVENT_LISTENER) {
		s->again = true;
		server_accept(s);
		return;
	}
	if (tag == EVENT_TIMER || tag == EVENT_RAISED) {
		bool timer = tag == EVENT_TIMER;
		if (read(timer ? s->timer : s->raised, &count, sizeof count) == sizeof count && timer)
			server_watch(s, EPOLL_CTL_MOD, port_fd(s->port), EPOLLIN, EVENT_LISTENER);
		return;
	}
	struct peer *p = peer_find(s, (uint32_t)tag);
	if (!p)
		return;
	/* A write that fails says nothing: what came before the end is still to be read. */
	if (e->events & EPOLLOUT) {
		if (conn_flush(&p->conn))
			conn_forget_out(&p->conn);
		peer_watch(s, p);
	}
	if (e->events & ~(uint32_t)EPOLLOUT)
		server_read(s, p);
}

static void *token_of(uint32_t pipe, uint32_t request)
{
	_Static_assert(sizeof(uintptr_t) >= sizeof(uint64_t), "a token is two words of 32 bits");
	return (void *)(uintptr_t)((uint64_t)pipe << 32 | request);
}

static bool server_greeting(struct transport_server *s, struct peer *p)
{
	if (s->in.at < s->in.len || !stream_silent(p->conn.stream)) {
		peer_end(s, p, "it says more before it was greeted");
		return false;
	}
	if (conn_greet(&p->conn)) {
		peer_end(s, p, NULL);
		return false;
	}
	p->state = PEER_LIVE;
	peer_move(p, &s->quiet);
	return true;
}

/* The next frame of the inbox as an event; none: TRANSPORT_NOTHING. */
static enum transport_event_type server_frame(struct transport_server *s, struct transport_event *ret)
{
	struct peer *p = s->reading;
	struct frame f;
	struct err err;
	char why[80];
	*ret = (struct transport_event){.peer = p->who};
	switch (conn_next(&p->conn, &s->in, &f, &err)) {
	case FRAME_NONE:
		s->reading = NULL;
		break;
	case FRAME_BAD:
		peer_end(s, p, err.text);
		break;
	case FRAME_GREETING:
		conn_release(&p->conn);
		if (server_greeting(s, p))
			ret->type = TRANSPORT_CONNECTED;
		break;
	case FRAME_WHOLE:
		snprintf(why, sizeof why, "more than %d requests without an answer", TRANSPORT_IN_FLIGHT_MAX);
		if (!f.bytes.len || p->unanswered >= TRANSPORT_IN_FLIGHT_MAX) {
			peer_end(s, p, f.bytes.len ? why : "an empty message");
			break;
		}
		peer_move(p, NULL);
		p->unanswered++;
		s->given = p;
		ret->bytes = f.bytes;
		ret->token = token_of(p->who.pipe, f.id);
		ret->type = TRANSPORT_REQUEST;
		break;
	}
	return ret->type;
}

static enum transport_event_type server_gone(struct transport_server *s, struct transport_event *ret)
{
	struct peer *p = TAILQ_FIRST(&s->gone);
	if (!p)
		return TRANSPORT_NOTHING;
	peer_move(p, NULL);
	s->reported = p;
	*ret = (struct transport_event){.type = TRANSPORT_GONE, .peer = p->who, .why = p->why};
	return TRANSPORT_GONE;
}

bool transport_server_take(struct transport_server *s, const struct epoll_event *events, int n)
{
	/* What was not looked at of the last ones is named again. */
	s->batch_at = s->batch_len = 0;
	for (int i = 0; i < n && s->batch_len < TRANSPORT_BATCH; i++)
		if (events[i].data.u64 & TRANSPORT_TAG)
			s->batch[s->batch_len++] = events[i];
	return s->batch_len > 0;
}

enum transport_event_type transport_server_next(struct transport_server *s, struct transport_event *ret)
{
	if (s->given)
		conn_release(&s->given->conn);
	peer_forget(s, s->reported);
	s->given = s->reported = NULL;
	for (;;) {
		if (server_gone(s, ret) || (s->reading && server_frame(s, ret)))
			return ret->type;
		if (s->reading)
			continue;
		if (s->batch_at < s->batch_len) {
			server_ready(s, &s->batch[s->batch_at++]);
			continue;
		}
		/* Once from one TRANSPORT_NOTHING to the next: what comes later makes the descriptor readable. */
		if (!s->own_epoll || (s->asks && (!s->again || s->asks == ASKS_MAX)))
			break;
		int n = epoll_wait(s->epoll, s->batch, TRANSPORT_BATCH, 0);
		s->batch_len = MAX(n, 0);
		s->batch_at = 0;
		s->again = n == TRANSPORT_BATCH;
		s->asks++;
	}
	if (s->refused.refused) {
		*ret = s->refused;
		s->refused.refused = 0;
		return ret->type;
	}
	s->asks = 0;
	*ret = (struct transport_event){.type = TRANSPORT_NOTHING};
	return TRANSPORT_NOTHING;
}

/* ---- answers ---- */

static void server_answer(struct transport_server *s, void *token, struct span bytes)
{
	uint64_t both = (uintptr_t)token;
	struct peer *p = peer_find(s, (uint32_t)(both >> 32));
	if (!p)
		return;
	p->unanswered--;
	int r = conn_send(&p->conn, (uint32_t)both, bytes, TRANSPORT_UNREAD_MAX);
	if (r == -ENOBUFS) {
		char why[120];
		snprintf(why, sizeof why, "it does not read its answers: %zu bytes wait for it",
			 p->conn.out.len - p->conn.out_at);
		peer_end_and_raise(s, p, why);
		return;
	}
	if (r < 0) /* it has ended: the next read tells */
		conn_forget_out(&p->conn);
	peer_watch(s, p);
}

int transport_answer(struct transport_server *s, void *token, struct span bytes)
{
	if (bytes.len > WIRE_MAX_BYTES || !bytes.len) {
		transport_drop(s, token);
		return bytes.len ? -EMSGSIZE : -EINVAL;
	}
	server_answer(s, token, bytes);
	return 0;
}

void transport_drop(struct transport_server *s, void *token)
{
	if (token) /* nothing: the other side takes it as "no answer comes" and tells nobody */
		server_answer(s, token, (struct span){"", 0});
}

void transport_close_peer(struct transport_server *s, uint32_t pipe)
{
	struct peer *p = peer_find(s, pipe);
	if (p)
		peer_end_and_raise(s, p, NULL);
}
