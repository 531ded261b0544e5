/* Queues that are servers, with as many clients as we have hosts, over a UNIX socket, one request at a time each:
 *
 * bench_peers beanstalkd HOSTS N DIR    reserve, then delete
 * bench_peers redis HOSTS N DIR         BRPOP from a list, then SREM from the set that keeps keys from being twice in it
 *
 * The clients are as small as they can be: no library, one write and one read a round trip. */
#include "clients.h"
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MOST = 1 << 16, WAIT_S = 30 };

static char socket_path[300];
static struct bench_keys keys;

struct connection {
	int fd;
	char buf[ANSWER_MOST];
	size_t len, at; /* what was read, and how far it is used */
};

static void open_connection(struct connection *c)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	memcpy(a.sun_path, socket_path, MIN(strlen(socket_path), sizeof(a.sun_path) - 1));
	*c = (struct connection){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	int64_t end = bench_now() + WAIT_S * NS_PER_S;
	while (connect(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		if (bench_now() > end)
			bench_fail("%s: %s", socket_path, strerror(errno));
		usleep(10000);
	}
}

static void send_bytes(struct connection *c, const char *bytes, size_t n)
{
	while (n) {
		ssize_t sent = write(c->fd, bytes, n);
		if (sent <= 0)
			bench_fail("write: %s", strerror(errno));
		bytes += sent;
		n -= (size_t)sent;
	}
}

/* The next line of the answer, without its end. */
static struct span read_line(struct connection *c)
{
	for (;;) {
		char *nl = memchr(c->buf + c->at, '\n', c->len - c->at);
		if (nl) {
			struct span line = {c->buf + c->at, (size_t)(nl - c->buf) - c->at - 1};
			c->at += line.len + 2;
			return line;
		}
		memmove(c->buf, c->buf + c->at, c->len - c->at);
		c->len -= c->at;
		c->at = 0;
		ssize_t got = read(c->fd, c->buf + c->len, sizeof(c->buf) - c->len);
		if (got <= 0)
			bench_fail("read: %s", got ? strerror(errno) : "the server is gone");
		c->len += (size_t)got;
	}
}

static bool begins(struct span line, const char *text)
{
	return line.len >= strlen(text) && memcmp(line.at, text, strlen(text)) == 0;
}

static void expect_line(struct connection *c, const char *text)
{
	struct span line = read_line(c);
	if (!begins(line, text))
		bench_fail("'%s' was expected, '" SPAN_FMT "' was answered", text, SPAN_ARG(line));
}

/* ---- beanstalkd ---- */

static void beanstalkd_fill(struct connection *c)
{
	for (uint32_t i = 0; i < keys.len; i++) {
		char text[128];
		int n = snprintf(text, sizeof(text), "put 1 0 60 %d\r\n%s\r\n", BENCH_KEY, keys.at[i]);
		send_bytes(c, text, (size_t)n);
		expect_line(c, "INSERTED");
	}
}

static _Noreturn void beanstalkd_host(struct clients *cs, void *ctx _unused_)
{
	static struct connection c;
	open_connection(&c);
	clients_ready(cs);
	for (;;) {
		send_bytes(&c, "reserve\r\n", 9);
		struct span line = read_line(&c);
		unsigned long long id;
		if (sscanf(line.at, "RESERVED %llu", &id) != 1)
			bench_fail("reserve: " SPAN_FMT, SPAN_ARG(line));
		clients_got(cs, read_line(&c));
		char text[64];
		send_bytes(&c, text, (size_t)snprintf(text, sizeof(text), "delete %llu\r\n", id));
		expect_line(&c, "DELETED");
		clients_done(cs);
	}
}

/* ---- Redis ---- */

static void redis_fill(struct connection *c)
{
	for (uint32_t i = 0; i < keys.len; i++) {
		char text[256];
		int n = snprintf(text, sizeof(text),
				 "*3\r\n$4\r\nSADD\r\n$1\r\ns\r\n$%d\r\n%s\r\n*3\r\n$5\r\nLPUSH\r\n$"
				 "1\r\nq\r\n$%d\r\n%s\r\n",
				 BENCH_KEY, keys.at[i], BENCH_KEY, keys.at[i]);
		send_bytes(c, text, (size_t)n);
		expect_line(c, ":1");
		expect_line(c, ":");
	}
}

static _Noreturn void redis_host(struct clients *cs, void *ctx _unused_)
{
	static const char take[] = "*3\r\n$5\r\nBRPOP\r\n$1\r\nq\r\n$1\r\n0\r\n";
	static struct connection c;
	open_connection(&c);
	clients_ready(cs);
	for (;;) {
		send_bytes(&c, take, sizeof(take) - 1);
		for (int i = 0; i < 4; i++) /* an array of two: the list, the key */
			read_line(&c);
		struct span key = read_line(&c);
		char text[128];
		int n =
		    snprintf(text, sizeof(text), "*3\r\n$4\r\nSREM\r\n$1\r\ns\r\n$%zu\r\n" SPAN_FMT "\r\n",
			     key.len, SPAN_ARG(key));
		clients_got(cs, key);
		send_bytes(&c, text, (size_t)n);
		expect_line(&c, ":1");
		clients_done(cs);
	}
}

int main(int argc, char **argv)
{
	bench_begin();
	if (argc != 5)
		bench_fail("usage: bench_peers beanstalkd|redis HOSTS N DIR");
	bool redis = strcmp(argv[1], "redis") == 0;
	if (!redis && strcmp(argv[1], "beanstalkd") != 0)
		bench_fail("no peer is named %s", argv[1]);
	uint32_t hosts = bench_number(argv[2]), n = bench_number(argv[3]);
	keys = bench_keys_new(n, 0);
	snprintf(socket_path, sizeof(socket_path), "%s/peer.sock", argv[4]);
	_cleanup_(free_ptr) char *log = xasprintf("%s/peer.log", argv[4]),
				 *listen = xasprintf("unix:%s", socket_path);
	pid_t server =
	    bench_start(log, redis ? (char *[]){"redis-server", "--port", "0", "--unixsocket", socket_path,
						"--save", "", "--appendonly", "no", "--dir", argv[4], NULL}
				   : (char *[]){"beanstalkd", "-l", listen, NULL});
	struct clients cs;
	clients_fork(&cs, hosts, n, 0, false, redis ? redis_host : beanstalkd_host, NULL);
	static struct connection c;
	open_connection(&c);
	(redis ? redis_fill : beanstalkd_fill)(&c);
	clients_await_ready(&cs);
	double cpu = bench_cpu(server), seconds = clients_measure(&cs);
	bench_print("rate", n / seconds);
	bench_print("server-cpu", (bench_cpu(server) - cpu) / n);
	clients_end(&cs);
	bench_stop(server);
	bench_end();
}
