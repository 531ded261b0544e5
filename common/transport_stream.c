/* Connections by nng 1.5.2's streams, without its threads.
 *
 * nng does what it is good for: it listens (permissions, a dead broker's socket file), dials, asks for the peer's credentials,
 * reads and writes. What it does not do is wait. Its own way from a readable socket to its user goes through its poller, one of
 * its task threads and our eventfd: three threads that wake each other one after the other, each on another core perhaps.
 * Three properties of this version make the way short (tests/bench/transport_bench.c compares):
 *
 *  - An operation is first tried in the calling thread, and an aio without a callback is then finished there: a read that finds
 *    bytes, a write that finds room, an accept and a dial touch no other thread.
 *  - One that would have to wait is taken back (nng_aio_abort) and was then not done at all.
 *  - So all that is missing is to know when to try: the descriptor, in an epoll of our own. There is no option for it; but nng
 *    asks the kernel for the peer's credentials, and listens, in the calling thread, and those two calls are wrapped
 *    (--wrap=getsockopt,listen): they note the descriptor.
 *
 * Should a later nng finish an operation in another thread, then all this is still right, only slower: nng_aio_wait waits for
 * the end of the operation whoever makes it. */
#include "transport_private.h"
#include <nng/nng.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct port {
	nng_stream_listener *listener;
	nng_stream_dialer *dialer;
	nng_aio *aio; /* of every operation: none outlives its call */
	int fd;
};

struct stream {
	nng_stream *nng;
	struct port *port;
	int fd;
	pid_t pid;
	uid_t uid;
};

/* ---- the descriptors ---- */

static _Thread_local int noted_fd = -1;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker makes these names */
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	if (level == SOL_SOCKET && name == SO_PEERCRED)
		noted_fd = fd;
	return __real_getsockopt(fd, level, name, value, size);
}

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog)
{
	noted_fd = fd;
	return __real_listen(fd, backlog);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- ports ---- */

static int error_of(int nng_code)
{
	switch (nng_code) {
	case 0:
		return 0;
	case NNG_EAGAIN:
		return -EAGAIN;
	case NNG_EADDRINUSE:
		return -EADDRINUSE;
	case NNG_EPERM:
		return -EACCES;
	case NNG_ENOMEM:
		return -ENOMEM;
	case NNG_ENOFILES:
		return -EMFILE;
	case NNG_ECONNREFUSED:
		return -ECONNREFUSED;
	default:
		return nng_code & NNG_ESYSERR ? -(nng_code & ~NNG_ESYSERR) : -EIO;
	}
}

static int port_new(const char *path, struct port **ret, struct err *err)
{
	const size_t most = sizeof(((struct sockaddr_un *)0)->sun_path);
	if (strlen(path) >= most)
		return err_set(
		    err, -ENAMETOOLONG,
		    "socket path %s: %zu bytes are too long, at most %zu: use a shorter --runtime-dir", path,
		    strlen(path), most - 1);
	struct port *p = xcalloc(1, sizeof *p);
	p->fd = -1;
	/* The first call starts nng's threads: they must not take signals that are meant for the program. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = nng_aio_alloc(&p->aio, NULL, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r) {
		free(p);
		return err_set(err, error_of(r), "socket %s: %s", path, nng_strerror(r));
	}
	nng_aio_set_timeout(p->aio, NNG_DURATION_INFINITE);
	*ret = p;
	return 0;
}

void port_free(struct port *p)
{
	if (!p)
		return;
	if (p->listener)
		nng_stream_listener_close(p->listener);
	nng_stream_listener_free(p->listener);
	nng_stream_dialer_free(p->dialer);
	nng_aio_free(p->aio);
	free(p);
}

int port_listen(const char *path, struct port **ret, struct err *err)
{
	struct port *p = NULL;
	int r = port_new(path, &p, err);
	if (r)
		return r;
	_cleanup_(free_ptr) char *url = xasprintf("ipc://%s", path);
	noted_fd = -1;
	if (!(r = nng_stream_listener_alloc(&p->listener, url)) &&
	    !(r = nng_stream_listener_set_int(p->listener, NNG_OPT_IPC_PERMISSIONS, 0600)))
		r = nng_stream_listener_listen(p->listener);
	p->fd = noted_fd;
	if (!r && p->fd < 0)
		r = NNG_EINTERNAL;
	if (r) {
		struct stat st;
		const char *hint = r != NNG_EADDRINUSE ? ""
				   : lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)
				       ? " (what is there is no socket: remove it)"
				       : " (another process listens there: stop it first)";
		err_set(err, error_of(r), "cannot listen on %s: %s%s", path, nng_strerror(r), hint);
		port_free(p);
		return error_of(r);
	}
	*ret = p;
	return 0;
}

int port_dialer(const char *path, struct port **ret, struct err *err)
{
	struct port *p = NULL;
	int r = port_new(path, &p, err);
	if (r)
		return r;
	_cleanup_(free_ptr) char *url = xasprintf("ipc://%s", path);
	r = nng_stream_dialer_alloc(&p->dialer, url);
	if (r) {
		err_set(err, error_of(r), "cannot dial %s: %s", path, nng_strerror(r));
		port_free(p);
		return error_of(r);
	}
	*ret = p;
	return 0;
}

int port_fd(const struct port *p)
{
	return p->fd;
}

/* ---- streams ---- */

/* The result of the operation that was begun; one that has to wait was not done. */
static int finish(nng_aio *aio)
{
	nng_aio_abort(aio, NNG_EAGAIN);
	nng_aio_wait(aio);
	return nng_aio_result(aio);
}

int port_connect(struct port *p, struct stream **ret)
{
	if (p->listener)
		nng_stream_listener_accept(p->listener, p->aio);
	else
		nng_stream_dialer_dial(p->dialer, p->aio);
	int r = finish(p->aio);
	if (r)
		return error_of(r);
	struct stream *s = xcalloc(1, sizeof *s);
	uint64_t uid = UINT64_MAX, pid = 0;
	*s = (struct stream){.nng = nng_aio_get_output(p->aio, 0), .port = p};
	noted_fd = -1;
	r = nng_stream_get_uint64(s->nng, NNG_OPT_IPC_PEER_UID, &uid);
	if (!r)
		r = nng_stream_get_uint64(s->nng, NNG_OPT_IPC_PEER_PID, &pid);
	s->fd = noted_fd;
	s->uid = (uid_t)uid;
	s->pid = (pid_t)pid;
	if (r || s->fd < 0) {
		stream_free(s);
		return r ? error_of(r) : -EIO;
	}
	*ret = s;
	return 0;
}

int stream_fd(const struct stream *s)
{
	return s->fd;
}

void stream_peer(const struct stream *s, pid_t *ret_pid, uid_t *ret_uid)
{
	*ret_pid = s->pid;
	*ret_uid = s->uid;
}

ssize_t stream_read(struct stream *s, void *at, size_t n)
{
	nng_aio *aio = s->port->aio;
	nng_iov iov = {at, n};
	nng_aio_set_iov(aio, 1, &iov);
	nng_stream_recv(s->nng, aio);
	int r = finish(aio);
	if (r == NNG_ECONNSHUT || r == NNG_ECLOSED)
		return 0;
	return r ? error_of(r) : (ssize_t)nng_aio_count(aio);
}

ssize_t stream_write(struct stream *s, const struct iovec *v, unsigned n)
{
	nng_aio *aio = s->port->aio;
	nng_iov iov[8];
	for (unsigned i = 0; i < n && i < ARRAY_SIZE(iov); i++)
		iov[i] = (nng_iov){v[i].iov_base, v[i].iov_len};
	nng_aio_set_iov(aio, MIN(n, (unsigned)ARRAY_SIZE(iov)), iov);
	nng_stream_send(s->nng, aio);
	int r = finish(aio);
	if (r == NNG_ECONNSHUT || r == NNG_ECLOSED)
		return -EPIPE;
	return r ? error_of(r) : (ssize_t)nng_aio_count(aio);
}

bool stream_silent(struct stream *s)
{
	char byte;
	return stream_read(s, &byte, 1) == -EAGAIN;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	nng_stream_close(s->nng); /* the other side knows; memory and descriptor go a little later */
	nng_stream_free(s->nng);
	free(s);
}
