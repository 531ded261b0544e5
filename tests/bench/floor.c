/* What is below any dispatch: the bytes of the same two messages, DONE and GRANT, between a process that answers and HOSTS
 * that ask, without a queue, without encoding, without anything else.
 *
 * bench_floor seqpacket HOSTS N    over SEQPACKET sockets; the server waits with epoll
 * bench_floor shm HOSTS N          through shared memory; who has nothing to do looks a while, then sleeps on a futex
 * bench_floor latency N            one SEQPACKET round trip, the two sides on two cores, each asleep before */
#include "clients.h"
#include "program.h"
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MESSAGE_MOST = 512, PAUSE_US = 2000, LOOKS = 2000 };

static char done_bytes[MESSAGE_MOST], grant_bytes[MESSAGE_MOST];
static size_t done_len, grant_len;
static struct bench_keys keys;

static size_t encode(const struct wire *m, char to[MESSAGE_MOST])
{
	_cleanup_(buf_done) struct buf out = {.limit = MESSAGE_MOST};
	struct err err = {0};
	if (wire_encode(m, &out, &err) < 0)
		bench_fail("%s", err.text);
	struct span bytes = buf_span(&out);
	memcpy(to, bytes.at, bytes.len);
	return bytes.len;
}

static void make_messages(void)
{
	struct wire_add_key reason = bench_add_key(&keys, 0);
	int64_t now = bench_now();
	done_len = encode(&(struct wire){.type = WIRE_TYPE_DONE,
					 .done = {.incarnation = (uint64_t)now,
						  .slot = 1000,
						  .generation = 1000000,
						  .requeue_after_ms = -1,
						  .duration_us = 1}},
			  done_bytes);
	grant_len = encode(&(struct wire){.type = WIRE_TYPE_GRANT,
					  .grant = {.incarnation = (uint64_t)now,
						    .slot = 1000,
						    .generation = 1000000,
						    .namespace = reason.namespace,
						    .name = reason.name,
						    .deadline_ns = now,
						    .lease_end_ns = now,
						    .reasons = {&reason, 1}}},
			   grant_bytes);
}

/* ---- SEQPACKET ---- */

static int sockets[CLIENTS_MOST][2];

static _Noreturn void seqpacket_host(struct clients *cs, void *ctx _unused_)
{
	char bytes[MESSAGE_MOST];
	int fd = sockets[cs->self][1];
	clients_ready(cs);
	for (uint32_t i = cs->self; i < cs->keys; i += cs->n) {
		BENCH_CHECK(send(fd, done_bytes, done_len, 0) == (ssize_t)done_len);
		BENCH_CHECK(recv(fd, bytes, sizeof(bytes), 0) == (ssize_t)grant_len);
		clients_got(cs, (struct span){keys.at[i], BENCH_KEY});
		clients_done(cs);
	}
	for (;;)
		pause();
}

static _Noreturn void seqpacket_server(uint32_t hosts)
{
	char bytes[MESSAGE_MOST];
	int epoll = epoll_create1(0);
	for (uint32_t i = 0; i < hosts; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.fd = sockets[i][0]};
		BENCH_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[i][0], &e) == 0);
	}
	for (;;) {
		struct epoll_event got[16];
		int n = epoll_wait(epoll, got, 16, -1);
		for (int i = 0; i < n; i++) {
			if (recv(got[i].data.fd, bytes, sizeof(bytes), 0) <= 0)
				_exit(0);
			BENCH_CHECK(send(got[i].data.fd, grant_bytes, grant_len, 0) == (ssize_t)grant_len);
		}
	}
}

/* ---- shared memory ---- */

struct place {				     /* of one host */
	_Alignas(64) _Atomic uint32_t asked; /* 1: message is a DONE; 0: it is a GRANT */
	_Atomic uint32_t asleep;
	char message[MESSAGE_MOST];
};
static struct board {
	_Atomic uint32_t bell, asleep;
	struct place hosts[CLIENTS_MOST];
} * board;

static void sleep_on(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static _Noreturn void shm_host(struct clients *cs, void *ctx _unused_)
{
	char bytes[MESSAGE_MOST];
	struct place *p = &board->hosts[cs->self];
	clients_ready(cs);
	for (uint32_t i = cs->self; i < cs->keys; i += cs->n) {
		memcpy(p->message, done_bytes, done_len);
		p->asked = 1;
		board->bell++;
		if (board->asleep)
			wake(&board->bell);
		for (int looks = cs->n == 1 ? LOOKS : 0; p->asked;) {
			if (looks-- > 0)
				continue;
			p->asleep = 1;
			sleep_on(&p->asked, 1);
			p->asleep = 0;
		}
		memcpy(bytes, p->message, grant_len);
		BENCH_CHECK(bytes[0] == grant_bytes[0]);
		clients_got(cs, (struct span){keys.at[i], BENCH_KEY});
		clients_done(cs);
	}
	for (;;)
		pause();
}

static _Noreturn void shm_server(uint32_t hosts)
{
	char bytes[MESSAGE_MOST];
	for (int looks = 0;;) {
		uint32_t bell = board->bell;
		bool none = true;
		for (uint32_t i = 0; i < hosts; i++) {
			struct place *p = &board->hosts[i];
			if (!p->asked)
				continue;
			none = false;
			memcpy(bytes, p->message, done_len);
			memcpy(p->message, grant_bytes, grant_len);
			p->asked = 0;
			if (p->asleep)
				wake(&p->asked);
		}
		looks = none ? looks + 1 : 0;
		if (looks < (hosts == 1 ? LOOKS : 1))
			continue;
		board->asleep = 1;
		sleep_on(&board->bell, bell);
		board->asleep = 0;
		looks = 0;
	}
}

/* ---- */

static void rate(uint32_t hosts, uint32_t n, void (*host)(struct clients *cs, void *ctx),
		 void (*server)(uint32_t hosts))
{
	struct clients cs;
	clients_fork(&cs, hosts, n, 0, false, host, NULL);
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		if (process_die_with(parent))
			server(hosts);
		_exit(1);
	}
	clients_await_ready(&cs);
	bench_print("rate", n / clients_measure(&cs));
	clients_end(&cs);
	bench_stop(pid);
}

static void run_on(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		bench_fail("this needs two processors: %s", strerror(errno));
}

static void latency(uint32_t n)
{
	char bytes[MESSAGE_MOST];
	int fd[2];
	BENCH_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) == 0);
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		if (!process_die_with(parent))
			_exit(1);
		close(fd[0]);
		run_on(1);
		while (recv(fd[1], bytes, sizeof(bytes), 0) > 0)
			BENCH_CHECK(send(fd[1], grant_bytes, grant_len, 0) == (ssize_t)grant_len);
		_exit(0);
	}
	run_on(0);
	_cleanup_(free_ptr) int64_t *ns = xcalloc(n, sizeof(*ns));
	for (uint32_t i = 0; i < n; i++) {
		usleep(PAUSE_US);
		int64_t begin = bench_now();
		BENCH_CHECK(send(fd[0], done_bytes, done_len, 0) == (ssize_t)done_len);
		BENCH_CHECK(recv(fd[0], bytes, sizeof(bytes), 0) == (ssize_t)grant_len);
		ns[i] = bench_now() - begin;
	}
	bench_print("p50", bench_percentile(ns, n, 0.5));
	bench_print("p99", bench_percentile(ns, n, 0.99));
	bench_stop(pid);
}

int main(int argc, char **argv)
{
	bench_begin();
	if (argc == 3 && strcmp(argv[1], "latency") == 0) {
		keys = bench_keys_new(1, 0);
		make_messages();
		latency(bench_number(argv[2]));
		bench_end();
	}
	if (argc != 4)
		bench_fail("usage: bench_floor seqpacket HOSTS N | shm HOSTS N | latency N");
	uint32_t hosts = bench_number(argv[2]), n = bench_number(argv[3]);
	keys = bench_keys_new(n, 0);
	make_messages();
	if (strcmp(argv[1], "seqpacket") == 0) {
		for (uint32_t i = 0; i < hosts && i < CLIENTS_MOST; i++)
			BENCH_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets[i]) == 0);
		rate(hosts, n, seqpacket_host, seqpacket_server);
	} else if (strcmp(argv[1], "shm") == 0) {
		board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		BENCH_CHECK(board != MAP_FAILED);
		rate(hosts, n, shm_host, shm_server);
	} else {
		bench_fail("no floor is named %s", argv[1]);
	}
	bench_end();
}
