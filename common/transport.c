#include "transport_private.h"
#include "wire.h"
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLOSE_WAIT_MS = 500 };

/* nng 1.5.2 ends a listener for good, without a word, when a peer connects and closes before the handshake:
 * sendmsg fails with EPIPE, which nng reads as "this listener is closed" (upstream issue 1518, fixed
 * in 1.6.0). ECONNRESET means to it what happened. The whole program is linked with --wrap=sendmsg: for
 * nobody else does the difference matter. */
/* NOLINTBEGIN(bugprone-reserved-identifier): the linker makes these names */
ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t r = __real_sendmsg(fd, m, flags);
	if (r < 0 && errno == EPIPE)
		errno = ECONNRESET;
	return r;
}
/* NOLINTEND(bugprone-reserved-identifier) */

int side_errno(int nng_code)
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

int side_open(struct side *s, const char *path, int (*open_raw)(nng_socket *), int send_buffer,
	      size_t queue_size, struct err *err)
{
	pthread_mutex_init(&s->lock, NULL);
	s->epoll = s->events = -1;
	if (strlen(path) >= sizeof s->path)
		return err_set(
		    err, -ENAMETOOLONG,
		    "socket path %s: %zu bytes are too long, at most %zu: use a shorter --runtime-dir", path,
		    strlen(path), sizeof s->path - 1);
	memcpy(s->path, path, strlen(path) + 1);
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

void side_raise(struct side *s)
{
	uint64_t one = 1;
	if (write(s->events, &one, sizeof one) < 0) {
		/* It is readable already. */
	}
}

void side_clear(struct side *s)
{
	uint64_t count;
	if (read(s->events, &count, sizeof count) < 0) {
		/* It was not readable. */
	}
}

void side_drop_queue(struct side *s)
{
	for (; s->queue_len; s->queue_len--) {
		nng_msg_free(s->queue[s->queue_first]);
		s->queue_first = (s->queue_first + 1) % s->queue_size;
	}
}

void side_flush(struct side *s)
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

int side_send(struct side *s, nng_msg *m)
{
	side_flush(s);
	if (s->queue_len == s->queue_size)
		return -EAGAIN;
	s->queue[(s->queue_first + s->queue_len++) % s->queue_size] = m;
	side_flush(s);
	return 0;
}

nng_msg *side_message(struct span bytes)
{
	nng_msg *m;
	if (nng_msg_alloc(&m, bytes.len))
		return NULL;
	if (bytes.len)
		memcpy(nng_msg_body(m), bytes.at, bytes.len);
	return m;
}

void side_release_current(struct side *s)
{
	if (s->current)
		nng_msg_free(s->current);
	s->current = NULL;
}

nng_msg *side_receive(struct side *s)
{
	nng_msg *m;
	return nng_recvmsg(s->socket, &m, NNG_FLAG_NONBLOCK) ? NULL : m;
}

uint32_t side_header_word(const nng_msg *m, size_t at)
{
	const uint8_t *h = (const uint8_t *)nng_msg_header((nng_msg *)m) + at;
	return (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3];
}

struct transport_peer side_peer(nng_pipe p)
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

void side_close(struct side *s, void (*free_all)(void *), void *all)
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
