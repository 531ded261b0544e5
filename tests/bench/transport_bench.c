/* What a round trip between two processes of one host costs: the ways that nng 1.5.2 offers, common/transport.h, and the floor
 * below all of them, a bare SEQPACKET socket. Prints one JSON object a line: bench, unit, ours, peer, theirs, ratio (how many
 * times better than the peer; 1 = equal), min and max of the ratio, rounds.
 *
 *   transport_bench [--rounds N] [--ms N] [--load] [--only WAY]
 *
 *   transport.WAY.N      N clients, each with one request of 128 bytes in flight; round trips a second of all
 *   transport.WAY.idle   one client that asks every 2 ms, so that both sides sleep before; server and client each have a core;
 *                        microseconds, p50 and p99
 *
 * Every way is measured once in each round, so that what else the machine does meets all of them; ratios are made within a
 * round, medians over the rounds. --load keeps every core busy with one process that only counts.
 *
 * This process never calls nng: each server and client is a fork of it. */
#include "transport.h"
#include <math.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 128, CLIENTS_MAX = 16, SAMPLES_MAX = 2000, ROUNDS_MAX = 51, CONTEXTS = 64, IDLE_US = 2000 };

/* Written by the clients, read by this process. */
struct shared {
	atomic_int ready;
	atomic_bool start, stop;
	struct {
		uint64_t trips, ns;
		uint32_t n_samples;
		uint32_t sample_ns[SAMPLES_MAX];
	} client[CLIENTS_MAX];
};
static struct shared *shared;

static void must(bool held, const char *what)
{
	if (held)
		return;
	fprintf(stderr, "transport_bench: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void must_nng(int r, const char *what)
{
	if (!r)
		return;
	fprintf(stderr, "transport_bench: %s: %s\n", what, nng_strerror(r));
	_exit(1);
}

static bool number(const char *text, uint32_t min, uint32_t max, uint32_t *ret)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);
	if (*end || end == text || v < min || v > max)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void wait_readable(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	poll(&p, 1, -1);
}

/* A connection of a client: one round trip of `message` at a time. */
struct session {
	void *way;
	char message[MESSAGE];
};

/* ---- bare SEQPACKET with epoll ---- */

static int seqpacket_socket(const char *path, struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	strncpy(a->sun_path, path, sizeof a->sun_path - 1);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	must(fd >= 0, "socket");
	return fd;
}

static void seqpacket_serve(const char *path)
{
	struct sockaddr_un a;
	int l = seqpacket_socket(path, &a), ep = epoll_create1(0);
	must(!bind(l, (struct sockaddr *)&a, sizeof a) && !listen(l, 128), "listen");
	struct epoll_event e = {.events = EPOLLIN, .data.fd = l}, got[64];
	epoll_ctl(ep, EPOLL_CTL_ADD, l, &e);
	for (char text[MESSAGE];;) {
		int n = epoll_wait(ep, got, 64, -1);
		for (int i = 0; i < n; i++) {
			int fd = got[i].data.fd;
			if (fd == l) {
				e.data.fd = accept(l, NULL, NULL);
				epoll_ctl(ep, EPOLL_CTL_ADD, e.data.fd, &e);
				continue;
			}
			ssize_t r = recv(fd, text, sizeof text, 0);
			if (r <= 0)
				close(fd);
			else
				must(send(fd, text, (size_t)r, MSG_NOSIGNAL) == r, "send");
		}
	}
}

static void seqpacket_open(struct session *s, const char *path)
{
	struct sockaddr_un a;
	int fd = seqpacket_socket(path, &a);
	while (connect(fd, (struct sockaddr *)&a, sizeof a))
		usleep(1000);
	s->way = (void *)(intptr_t)fd;
}

static void seqpacket_trip(struct session *s)
{
	int fd = (int)(intptr_t)s->way;
	must(send(fd, s->message, MESSAGE, MSG_NOSIGNAL) == MESSAGE, "send");
	must(recv(fd, s->message, MESSAGE, 0) == MESSAGE, "recv");
}

/* ---- nng REQ/REP, cooked: contexts on the server's side, a blocking socket on the other ---- */

struct context {
	nng_ctx ctx;
	nng_aio *aio;
	bool sending;
};

static void context_turn(void *arg)
{
	struct context *c = arg;
	if (nng_aio_result(c->aio)) {
		if (c->sending)
			nng_msg_free(nng_aio_get_msg(c->aio));
		c->sending = false;
	} else {
		c->sending = !c->sending;
	}
	if (c->sending)
		nng_ctx_send(c->ctx, c->aio);
	else
		nng_ctx_recv(c->ctx, c->aio);
}

static char *url_of(const char *path)
{
	return xasprintf("ipc://%s", path);
}

static void cooked_serve(const char *path)
{
	static struct context contexts[CONTEXTS];
	nng_socket s;
	must_nng(nng_rep0_open(&s), "rep");
	for (size_t i = 0; i < CONTEXTS; i++) {
		struct context *c = &contexts[i];
		must_nng(nng_ctx_open(&c->ctx, s), "context");
		must_nng(nng_aio_alloc(&c->aio, context_turn, c), "aio");
		nng_ctx_recv(c->ctx, c->aio);
	}
	must_nng(nng_listen(s, url_of(path), NULL, 0), "listen");
	for (;;)
		pause();
}

static void dial_until(nng_socket s, const char *path)
{
	nng_socket_set_ms(s, NNG_OPT_RECONNMINT, 5);
	must_nng(nng_dial(s, url_of(path), NULL, NNG_FLAG_NONBLOCK), "dial");
}

static void cooked_open(struct session *s, const char *path)
{
	nng_socket *q = xcalloc(1, sizeof *q);
	must_nng(nng_req0_open(q), "req");
	dial_until(*q, path);
	s->way = q;
}

static void cooked_trip(struct session *s)
{
	nng_socket *q = s->way;
	nng_msg *m;
	must_nng(nng_msg_alloc(&m, MESSAGE), "message");
	memcpy(nng_msg_body(m), s->message, MESSAGE);
	must_nng(nng_sendmsg(*q, m, 0), "send");
	must_nng(nng_recvmsg(*q, &m, 0), "recv");
	memcpy(s->message, nng_msg_body(m), MESSAGE);
	nng_msg_free(m);
}

/* ---- nng REQ/REP, raw: one thread and nng's pollable descriptor on each side ---- */

static void raw_serve(const char *path)
{
	nng_socket s;
	int fd;
	must_nng(nng_rep0_open_raw(&s), "rep");
	nng_socket_set_int(s, NNG_OPT_SENDBUF, 128);
	nng_socket_set_int(s, NNG_OPT_RECVBUF, 128);
	must_nng(nng_socket_get_int(s, NNG_OPT_RECVFD, &fd), "descriptor");
	must_nng(nng_listen(s, url_of(path), NULL, 0), "listen");
	for (nng_msg *m;;) {
		int r = nng_recvmsg(s, &m, NNG_FLAG_NONBLOCK);
		if (r == NNG_EAGAIN)
			wait_readable(fd);
		else
			must_nng(r ? r : nng_sendmsg(s, m, 0), "turn");
	}
}

struct raw {
	nng_socket s;
	int fd;
};

static void raw_open(struct session *s, const char *path)
{
	struct raw *q = xcalloc(1, sizeof *q);
	must_nng(nng_req0_open_raw(&q->s), "req");
	must_nng(nng_socket_get_int(q->s, NNG_OPT_RECVFD, &q->fd), "descriptor");
	dial_until(q->s, path);
	s->way = q;
}

static void raw_trip(struct session *s)
{
	struct raw *q = s->way;
	nng_msg *m;
	must_nng(nng_msg_alloc(&m, MESSAGE), "message");
	memcpy(nng_msg_body(m), s->message, MESSAGE);
	nng_msg_header_append_u32(m, 0x80000001u);
	must_nng(nng_sendmsg(q->s, m, 0), "send");
	while (nng_recvmsg(q->s, &m, NNG_FLAG_NONBLOCK) == NNG_EAGAIN)
		wait_readable(q->fd);
	memcpy(s->message, nng_msg_body(m), MESSAGE);
	nng_msg_free(m);
}

/* ---- nng's streams as they are meant: a callback posts to a list and makes an eventfd readable ---- */

struct stream {
	nng_stream *s;
	nng_aio *in, *out;
	char text[MESSAGE];
	size_t have;
	struct stream *next; /* of those that have something */
};

static pthread_mutex_t posted_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *posted;
static int posted_fd;

static void stream_read(struct stream *c)
{
	nng_iov iov = {c->text + c->have, MESSAGE - c->have};
	nng_aio_set_iov(c->in, 1, &iov);
	nng_stream_recv(c->s, c->in);
}

static void stream_came(void *arg)
{
	struct stream *c = arg;
	if (nng_aio_result(c->in))
		return;
	c->have += nng_aio_count(c->in);
	if (c->have < MESSAGE) {
		stream_read(c);
		return;
	}
	c->have = 0;
	pthread_mutex_lock(&posted_lock);
	bool first = !posted;
	c->next = posted;
	posted = c;
	pthread_mutex_unlock(&posted_lock);
	uint64_t one = 1;
	if (first)
		must(write(posted_fd, &one, sizeof one) == sizeof one, "eventfd");
}

static void stream_write(struct stream *c)
{
	nng_iov iov = {c->text, MESSAGE};
	nng_aio_set_iov(c->out, 1, &iov);
	nng_stream_send(c->s, c->out); /* an aio without a callback is done here and now */
	nng_aio_wait(c->out);
	must_nng(nng_aio_result(c->out), "send");
}

static struct stream *stream_new(nng_stream *s)
{
	struct stream *c = xcalloc(1, sizeof *c);
	c->s = s;
	must_nng(nng_aio_alloc(&c->in, stream_came, c), "aio");
	must_nng(nng_aio_alloc(&c->out, NULL, NULL), "aio");
	return c;
}

static nng_stream_listener *listener;
static nng_aio *accepting;

static void stream_accepted(void *arg)
{
	(void)arg;
	if (!nng_aio_result(accepting))
		stream_read(stream_new(nng_aio_get_output(accepting, 0)));
	nng_stream_listener_accept(listener, accepting);
}

static struct stream *stream_take(void)
{
	uint64_t n;
	pthread_mutex_lock(&posted_lock);
	struct stream *c = posted;
	posted = NULL;
	pthread_mutex_unlock(&posted_lock);
	if (!c) {
		wait_readable(posted_fd);
		must(read(posted_fd, &n, sizeof n) == sizeof n, "eventfd");
	}
	return c;
}

static void stream_serve(const char *path)
{
	posted_fd = eventfd(0, 0);
	must_nng(nng_stream_listener_alloc(&listener, url_of(path)), "listener");
	must_nng(nng_stream_listener_listen(listener), "listen");
	must_nng(nng_aio_alloc(&accepting, stream_accepted, NULL), "aio");
	nng_stream_listener_accept(listener, accepting);
	for (;;)
		for (struct stream *c = stream_take(), *next; c; c = next) {
			next = c->next;
			stream_write(c);
			stream_read(c);
		}
}

static void stream_open(struct session *s, const char *path)
{
	posted_fd = eventfd(0, 0);
	nng_stream_dialer *d;
	nng_aio *aio;
	must_nng(nng_stream_dialer_alloc(&d, url_of(path)), "dialer");
	must_nng(nng_aio_alloc(&aio, NULL, NULL), "aio");
	for (;;) {
		nng_stream_dialer_dial(d, aio);
		nng_aio_wait(aio);
		if (!nng_aio_result(aio))
			break;
		usleep(1000);
	}
	s->way = stream_new(nng_aio_get_output(aio, 0));
}

static void stream_trip(struct session *s)
{
	struct stream *c = s->way;
	memcpy(c->text, s->message, MESSAGE);
	stream_write(c);
	stream_read(c);
	while (!stream_take())
		;
	memcpy(s->message, c->text, MESSAGE);
}

/* ---- common/transport.h ---- */

static void module_serve(const char *path)
{
	struct transport_server *s;
	struct err err;
	int ep = epoll_create1(0);
	must(!transport_listen_in(ep, path, &s, &err), "listen");
	for (struct epoll_event got[TRANSPORT_BATCH];;) {
		transport_server_take(s, got, epoll_wait(ep, got, TRANSPORT_BATCH, -1));
		struct transport_event event;
		for (enum transport_event_type type;
		     (type = transport_server_next(s, &event)) != TRANSPORT_NOTHING;)
			if (type == TRANSPORT_REQUEST)
				transport_answer(s, event.token, event.bytes);
	}
}

static void module_open(struct session *s, const char *path)
{
	struct transport_client *c;
	struct transport_reply reply;
	struct err err;
	must(!transport_dial(path, &c, &err), "dial");
	while (transport_client_next(c, &reply) != TRANSPORT_CONNECTED)
		wait_readable(transport_client_fd(c));
	s->way = c;
}

static void module_trip(struct session *s)
{
	struct transport_reply reply;
	uint32_t id;
	must(!transport_send(s->way, (struct span){s->message, MESSAGE}, &id), "send");
	for (enum transport_event_type type;
	     (type = transport_client_next(s->way, &reply)) != TRANSPORT_REQUEST;) {
		must(type == TRANSPORT_NOTHING, "connection");
		wait_readable(transport_client_fd(s->way));
		transport_client_woke(s->way);
	}
	must(reply.request == id && reply.bytes.len == MESSAGE, "answer");
	memcpy(s->message, reply.bytes.at, MESSAGE);
}

static const struct way {
	const char *name;
	void (*serve)(const char *path);
	void (*open)(struct session *s, const char *path);
	void (*trip)(struct session *s);
} ways[] = {
    {"seqpacket", seqpacket_serve, seqpacket_open, seqpacket_trip}, /* the floor: first */
    {"cooked", cooked_serve, cooked_open, cooked_trip},
    {"raw", raw_serve, raw_open, raw_trip},
    {"stream", stream_serve, stream_open, stream_trip},
    {"module", module_serve, module_open, module_trip},
};

/* ---- processes ---- */

static pid_t spawn(void)
{
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void pin(int core)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void run_client(const struct way *w, const char *path, size_t me, bool idle)
{
	struct session s = {.message = "a request of the length that DONE and GRANT have"};
	w->open(&s, path);
	for (int i = 0; i < 20; i++)
		w->trip(&s);
	atomic_fetch_add(&shared->ready, 1);
	while (!atomic_load(&shared->start))
		usleep(100);
	int64_t start = now_ns();
	uint64_t trips = 0;
	uint32_t n = 0;
	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
		if (idle)
			usleep(IDLE_US);
		int64_t before = now_ns();
		w->trip(&s);
		if (idle && n < SAMPLES_MAX)
			shared->client[me].sample_ns[n++] = (uint32_t)(now_ns() - before);
		trips++;
	}
	shared->client[me].trips = trips;
	shared->client[me].ns = (uint64_t)(now_ns() - start);
	shared->client[me].n_samples = n;
	_exit(0);
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

/* Results: round trips a second, or (idle) the two quantiles in microseconds. */
static void measure(const struct way *w, size_t clients, bool idle, int ms, double ret[2])
{
	static unsigned count;
	_cleanup_(free_ptr) char *path = xasprintf("/tmp/transport_bench.%d.%u", getpid(), count++);
	*shared = (struct shared){0};
	pid_t server = spawn(), pids[CLIENTS_MAX];
	if (!server) {
		if (idle)
			pin(0);
		w->serve(path);
	}
	for (size_t i = 0; i < clients; i++) {
		pids[i] = spawn();
		if (!pids[i]) {
			if (idle)
				pin(1);
			run_client(w, path, i, idle);
		}
	}
	for (int i = 0; atomic_load(&shared->ready) < (int)clients; i++) {
		must(i < 30000, "the clients did not become ready within 30 s");
		usleep(1000);
	}
	atomic_store(&shared->start, true);
	usleep((useconds_t)ms * 1000);
	atomic_store(&shared->stop, true);
	for (size_t i = 0; i < clients; i++) {
		int status;
		must(waitpid(pids[i], &status, 0) == pids[i] && status == 0, "a client failed");
	}
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	unlink(path);
	ret[0] = ret[1] = 0;
	for (size_t i = 0; i < clients && !idle; i++)
		ret[0] += (double)shared->client[i].trips * 1e9 / (double)shared->client[i].ns;
	if (idle) {
		uint32_t n = shared->client[0].n_samples, *at = shared->client[0].sample_ns;
		must(n > 0, "no samples");
		qsort(at, n, sizeof *at, compare_u32);
		ret[0] = at[n / 2] / 1e3;
		ret[1] = at[n * 99 / 100] / 1e3;
	}
}

/* ---- results ---- */

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(const double *v, size_t n)
{
	double sorted[ROUNDS_MAX];
	memcpy(sorted, v, n * sizeof *v);
	qsort(sorted, n, sizeof *sorted, compare_double);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static void print_line(const char *bench, const char *unit, const double *ours, const double *theirs,
		       bool less_is_better, size_t n)
{
	double ratio[ROUNDS_MAX], least = INFINITY, most = 0;
	for (size_t i = 0; i < n; i++) {
		ratio[i] = less_is_better ? theirs[i] / ours[i] : ours[i] / theirs[i];
		least = MIN(least, ratio[i]);
		most = MAX(most, ratio[i]);
	}
	printf("{\"bench\":\"%s\",\"unit\":\"%s\",\"ours\":%.1f,\"peer\":\"seqpacket\",\"theirs\":%.1f,"
	       "\"ratio\":%.3f,"
	       "\"min\":%.3f,\"max\":%.3f,\"rounds\":%zu}\n",
	       bench, unit, median(ours, n), median(theirs, n), median(ratio, n), least, most, n);
	fflush(stdout);
}

enum { KINDS = 4 }; /* 1, 4 and 16 clients, idle */
static const size_t clients_of[KINDS] = {1, 4, 16, 1};
static double results[ARRAY_SIZE(ways)][KINDS][2][ROUNDS_MAX];

int main(int argc, char **argv)
{
	uint32_t rounds = 5, ms = 300;
	bool load = false;
	const char *only = NULL;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--load"))
			load = true;
		else if (i + 1 < argc && !strcmp(argv[i], "--only"))
			only = argv[++i];
		else if (i + 1 >= argc ||
			 !((!strcmp(argv[i], "--rounds") && number(argv[i + 1], 1, ROUNDS_MAX, &rounds)) ||
			   (!strcmp(argv[i], "--ms") && number(argv[i + 1], 10, 10000, &ms)))) {
			fprintf(stderr,
				"usage: transport_bench [--rounds 1..%d] [--ms 10..10000] [--load] [--only "
				"WAY]\n",
				ROUNDS_MAX);
			return 2;
		} else
			i++;
	}
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED, "mmap");
	pid_t busy[64];
	long cores = load ? MIN(sysconf(_SC_NPROCESSORS_ONLN), 64) : 0;
	for (long i = 0; i < cores; i++)
		if (!(busy[i] = spawn()))
			for (volatile uint64_t n = 0;; n++)
				;
	for (size_t round = 0; round < rounds; round++)
		for (size_t k = 0; k < KINDS; k++)
			for (size_t w = 0; w < ARRAY_SIZE(ways); w++) {
				double value[2];
				if (only && w && strcmp(only, ways[w].name))
					continue;
				measure(&ways[w], clients_of[k], k == KINDS - 1, (int)ms, value);
				for (size_t v = 0; v < 2; v++)
					results[w][k][v][round] = value[v];
			}
	for (long i = 0; i < cores; i++) {
		kill(busy[i], SIGKILL);
		waitpid(busy[i], NULL, 0);
	}
	for (size_t k = 0; k < KINDS; k++)
		for (size_t w = 1; w < ARRAY_SIZE(ways); w++) {
			char name[64];
			if (only && strcmp(only, ways[w].name))
				continue;
			if (k < KINDS - 1) {
				snprintf(name, sizeof name, "transport.%s.%zu", ways[w].name, clients_of[k]);
				print_line(name, "round trips/s", results[w][k][0], results[0][k][0], false,
					   rounds);
				continue;
			}
			for (size_t v = 0; v < 2; v++) {
				snprintf(name, sizeof name, "transport.%s.idle.%s", ways[w].name,
					 v ? "p99" : "p50");
				print_line(name, "us", results[w][k][v], results[0][k][v], true, rounds);
			}
		}
	return 0;
}
