#include "transport_private.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { RECONNECT_MIN_MS = 10, RECONNECT_MAX_MS = 1000, EVENT_TIMER = 0, EVENT_STREAM = 1 };

struct transport_client {
	struct port *port;
	struct conn conn; /* stream NULL: none, the timer runs */
	struct kept kept;
	/* The epoll holds the timer, and the stream while more than its bytes is waited for: else the user waits for the stream
	 * itself, which wakes him sooner than through an epoll. */
	int epoll, timer;
	bool woke;	/* there are bytes: nobody has to ask */
	bool asked;	/* what there is, since the last TRANSPORT_NOTHING */
	bool connected; /* the user knows */
	bool broken;	/* of no more use; the timer says it */
	bool watches_room;
	uint32_t last_id, in_flight;
	int backoff_ms;
	char *path;
	struct inbox in;
};

static int client_watch(struct transport_client *c, int op, int fd, uint32_t events, uint32_t tag)
{
	struct epoll_event e = {.events = events, .data.u32 = tag};
	return epoll_ctl(c->epoll, op, fd, &e) ? -errno : 0;
}

/* The next attempt, after a while that doubles; between half of it and all, so that hosts that lost one broker do not come back
 * at once. */
static void client_later(struct transport_client *c)
{
	int64_t ns = (int64_t)c->backoff_ms * NS_PER_MS;
	ns = ns / 2 + (int64_t)random_below((uint64_t)ns / 2 + 1);
	struct itimerspec at = {.it_value = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S}};
	timerfd_settime(c->timer, 0, &at, NULL);
	c->backoff_ms = MIN(2 * c->backoff_ms, (int)RECONNECT_MAX_MS);
}

static void client_drop(struct transport_client *c)
{
	if (c->watches_room)
		epoll_ctl(c->epoll, EPOLL_CTL_DEL, stream_fd(c->conn.stream), NULL);
	conn_done(&c->conn);
	c->conn = (struct conn){.kept = &c->kept};
	c->in.at = c->in.len = 0;
	c->watches_room = c->broken = false;
	client_later(c);
}

static bool peer_welcome(const struct stream *s)
{
	pid_t pid;
	uid_t uid;
	stream_peer(s, &pid, &uid);
	return uid == geteuid() || uid == 0 || geteuid() == 0;
}

static void client_dial(struct transport_client *c)
{
	struct stream *s = NULL;
	if (port_connect(c->port, &s) < 0) {
		client_later(c);
		return;
	}
	c->conn.stream = s;
	if (!peer_welcome(s) || !stream_silent(s) || conn_greet(&c->conn))
		client_drop(c);
}

int transport_dial(const char *path, struct transport_client **ret, struct err *err)
{
	struct transport_client *c = xcalloc(1, sizeof *c);
	c->kept.most = (size_t)TRANSPORT_IN_FLIGHT_MAX * (WIRE_MAX_BYTES + FRAME_HEADER) * 2;
	c->conn.kept = &c->kept;
	c->last_id = (uint32_t)random_below(INT32_MAX);
	c->backoff_ms = RECONNECT_MIN_MS;
	c->path = xstrdup(path);
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	c->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	int r = c->epoll < 0 || c->timer < 0 ? -errno
					     : client_watch(c, EPOLL_CTL_ADD, c->timer, EPOLLIN, EVENT_TIMER);
	if (r)
		err_set(err, r, "socket %s: %s", path, strerror(-r));
	else
		r = port_dialer(path, &c->port, err);
	if (r) {
		transport_client_free(c);
		return r;
	}
	client_dial(c);
	*ret = c;
	return 0;
}

void transport_client_free(struct transport_client *c)
{
	if (!c)
		return;
	conn_done(&c->conn);
	port_free(c->port);
	close_fd(&c->epoll);
	close_fd(&c->timer);
	free(c->path);
	free(c);
}

const char *transport_client_path(const struct transport_client *c)
{
	return c->path;
}

int transport_client_fd(const struct transport_client *c)
{
	return c->conn.stream && !c->watches_room && !c->broken ? stream_fd(c->conn.stream) : c->epoll;
}

static enum transport_event_type client_lost(struct transport_client *c)
{
	bool known = c->connected;
	client_drop(c);
	c->connected = false;
	c->in_flight = 0;
	return known ? TRANSPORT_GONE : TRANSPORT_NOTHING;
}

/* What the inbox holds, one by one; TRANSPORT_NOTHING when it is used up. */
static enum transport_event_type client_frame(struct transport_client *c, struct transport_reply *ret)
{
	struct frame f;
	for (;;) {
		conn_release(&c->conn);
		switch (conn_next(&c->conn, &c->in, &f, NULL)) {
		case FRAME_NONE:
			return TRANSPORT_NOTHING;
		case FRAME_BAD:
			return client_lost(c);
		case FRAME_GREETING:
			c->connected = true;
			return TRANSPORT_CONNECTED;
		case FRAME_WHOLE:
			if (!c->in_flight)
				return client_lost(c); /* nobody asked */
			c->in_flight--;
			c->backoff_ms = RECONNECT_MIN_MS;
			if (!f.bytes.len)
				break;
			ret->request = f.id;
			ret->bytes = f.bytes;
			return TRANSPORT_REQUEST;
		}
	}
}

/* Room in the socket is watched for while something waits for it. A write that fails says nothing: what came before the end is
 * still to be read. */
static void client_flush(struct transport_client *c)
{
	if (conn_flush(&c->conn))
		conn_forget_out(&c->conn);
	bool waits = conn_waits(&c->conn);
	if (waits == c->watches_room)
		return;
	c->watches_room = waits;
	client_watch(c, waits ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, stream_fd(c->conn.stream), EPOLLIN | EPOLLOUT,
		     EVENT_STREAM);
}

static enum transport_event_type client_ready(struct transport_client *c, const struct epoll_event *e)
{
	uint64_t count;
	if (e->data.u32 == EVENT_TIMER) {
		if (read(c->timer, &count, sizeof count) != sizeof count)
			return TRANSPORT_NOTHING;
		if (c->broken)
			return client_lost(c);
		if (!c->conn.stream)
			client_dial(c);
		return TRANSPORT_NOTHING;
	}
	if (e->events & EPOLLOUT)
		client_flush(c);
	if (!(e->events & ~(uint32_t)EPOLLOUT))
		return TRANSPORT_NOTHING;
	ssize_t n = conn_read(&c->conn, &c->in);
	return n > 0 || n == -EAGAIN ? TRANSPORT_NOTHING : client_lost(c);
}

void transport_client_woke(struct transport_client *c)
{
	c->woke = true;
}

/* What there is now, if anything. */
static bool client_ask(struct transport_client *c, struct epoll_event *ret)
{
	int fd = transport_client_fd(c);
	bool woke = c->woke;
	c->woke = false;
	if (fd == c->epoll)
		return epoll_wait(c->epoll, ret, 1, 0) == 1;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	*ret = (struct epoll_event){.events = EPOLLIN, .data.u32 = EVENT_STREAM};
	return woke || poll(&p, 1, 0) == 1;
}

enum transport_event_type transport_client_next(struct transport_client *c, struct transport_reply *ret)
{
	*ret = (struct transport_reply){0};
	while (ret->type == TRANSPORT_NOTHING) {
		struct epoll_event e;
		ret->type = client_frame(c, ret);
		if (ret->type != TRANSPORT_NOTHING)
			break;
		/* Once from one TRANSPORT_NOTHING to the next: what comes later makes the descriptor readable. */
		c->asked = !c->asked;
		if (!c->asked)
			break;
		if (client_ask(c, &e))
			ret->type = client_ready(c, &e);
	}
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
	c->last_id = c->last_id >= INT32_MAX ? 1 : c->last_id + 1;
	int r = conn_send(&c->conn, c->last_id, bytes, SIZE_MAX);
	if (r == -ENOBUFS) { /* out of memory in the middle of a frame: this connection is of no more use */
		const struct itimerspec now = {.it_value = {.tv_nsec = 1}};
		timerfd_settime(c->timer, 0, &now, NULL);
		c->broken = true;
	}
	c->in_flight++;
	*ret_request = c->last_id;
	client_flush(c);
	return 0;
}
