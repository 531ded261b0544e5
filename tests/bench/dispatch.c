/* bench_dispatch product HOSTS N DIR    HOSTS processes take N keys from reconciled-queue, each DONE with the next grant in
 *                                       one round trip
 * bench_dispatch workers HOSTS N DIR    the same with one host, while all others hold a key each
 * bench_dispatch latency N DIR          N times, one after the other: from the watcher's ADD to the GRANT that a parked host
 *                                       receives; everybody sleeps before
 *
 * The broker is the real program. The hosts and the watcher are here, and speak to it as the real ones do; a host's reconciler
 * does nothing, and a process that only sleeps stands for its jail. */
#include "clients.h"
#include "config.h"
#include "program.h"
#include "transport.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT_MS = 30000, PAUSE_US = 2000 };

static const char *dir;
static char socket_path[300], digest[72];

/* ---- both sides ---- */

static struct transport_client *connect_to_broker(void)
{
	struct transport_client *c;
	struct err err = {0};
	if (transport_dial(socket_path, &c, &err) < 0)
		bench_fail("%s", err.text);
	int64_t end = bench_now() + WAIT_MS * (int64_t)NS_PER_MS;
	struct transport_reply reply;
	while (transport_client_next(c, &reply) != TRANSPORT_CONNECTED) {
		struct pollfd p = {.fd = transport_client_fd(c), .events = POLLIN};
		if (bench_now() > end)
			bench_fail("%s: no connection within %d s: see %s/broker.log", socket_path,
				   WAIT_MS / 1000, dir);
		poll(&p, 1, 1000);
	}
	return c;
}

static void send_message(struct transport_client *c, const struct wire *m)
{
	static struct buf out;
	struct err err = {0};
	uint32_t request;
	buf_reset(&out);
	int rc = wire_encode(m, &out, &err);
	if (rc == 0)
		rc = transport_send(c, buf_span(&out), &request);
	if (rc < 0)
		bench_fail("%s: %s %s", wire_type_name(m->type), strerror(-rc), err.text);
}

/* The next message, decoded: free it with wire_done before the next one is asked for. */
static void receive_message(struct transport_client *c, struct wire *ret)
{
	struct transport_reply reply;
	struct err err = {0};
	enum transport_event_type type;
	while ((type = transport_client_next(c, &reply)) == TRANSPORT_NOTHING) {
		struct pollfd p = {.fd = transport_client_fd(c), .events = POLLIN};
		if (poll(&p, 1, -1) == 1)
			transport_client_woke(c); /* as the host does */
	}
	if (type != TRANSPORT_REQUEST)
		bench_fail("the broker is gone");
	if (wire_decode(reply.bytes, ret, &err) < 0)
		bench_fail("an answer is malformed: %s", err.text);
	if (ret->type == WIRE_TYPE_REFUSED)
		bench_fail("refused: " SPAN_FMT, SPAN_ARG(ret->refused.message));
}

static struct wire expect_message(struct transport_client *c, enum wire_type type)
{
	struct wire m = {0};
	receive_message(c, &m);
	if (m.type != type)
		bench_fail("%s was answered where %s was expected", wire_type_name(m.type),
			   wire_type_name(type));
	return m;
}

/* ---- a host ---- */

static _Noreturn void host(struct clients *cs, void *ctx _unused_)
{
	uint64_t start, jail_start;
	pid_t self = getpid(), jail = fork();
	if (jail == 0) {
		while (process_die_with(self))
			pause();
		_exit(0);
	}
	BENCH_CHECK(jail > 0 && process_start_time(self, &start) == 0 &&
		    process_start_time(jail, &jail_start) == 0);
	struct transport_client *c = connect_to_broker();
	char instance[32];
	snprintf(instance, sizeof(instance), "web.%u", cs->self + 1);
	struct wire_loaded loaded = {span_of("web"), span_of(digest)};
	send_message(c, &(struct wire){.type = WIRE_TYPE_HELLO,
				       .hello = {.version = WIRE_VERSION,
						 .role = WIRE_ROLE_HOST,
						 .pid = (uint32_t)self,
						 .start_time = start,
						 .jail_pid = (uint32_t)jail,
						 .jail_start_time = jail_start,
						 .instance = span_of(instance),
						 .loaded = {&loaded, 1}}});
	struct wire ack = expect_message(c, WIRE_TYPE_HELLO_ACK);
	uint64_t incarnation = ack.hello_ack.incarnation;
	wire_done(&ack);
	const struct wire poll_message = {.type = WIRE_TYPE_POLL, .poll = {.incarnation = incarnation}};
	if (cs->self < cs->held) {
		send_message(c, &poll_message);
		struct wire grant = expect_message(c, WIRE_TYPE_GRANT);
		clients_got(cs, grant.grant.name);
		clients_ready(cs);
		for (;;)
			pause();
	}
	clients_ready(cs);
	send_message(c, &poll_message);
	for (bool running = false;;) {
		struct wire m = {0};
		receive_message(c, &m);
		if (running)
			BENCH_CHECK(m.type == WIRE_TYPE_GRANT
					? !m.grant.done_stale
					: m.type == WIRE_TYPE_DONE_ACK && !m.done_ack.stale);
		if (m.type == WIRE_TYPE_GRANT) {
			clients_got(cs, m.grant.name);
			send_message(c, &(struct wire){.type = WIRE_TYPE_DONE,
						       .done = {.incarnation = incarnation,
								.slot = m.grant.slot,
								.generation = m.grant.generation,
								.outcome = WIRE_OUTCOME_OK,
								.requeue_after_ms = -1,
								.duration_us = 1}});
		} else {
			BENCH_CHECK(running);
			send_message(c, &poll_message);
		}
		if (running)
			clients_done(cs);
		running = m.type == WIRE_TYPE_GRANT;
		wire_done(&m);
	}
}

/* ---- the broker and the watcher ---- */

static void make_folder(const char *name)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", dir, name);
	BENCH_CHECK(mkdir(path, 0700) == 0);
}

static void configure(void)
{
	make_folder("conf");
	make_folder("run");
	make_folder("shm");
	_cleanup_(free_ptr) char *conf = xasprintf("%s/conf", dir), *file = xasprintf("%s/web.yaml", conf);
	FILE *f = fopen(file, "w");
	BENCH_CHECK(f);
	fprintf(f,
		"apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: web}\nspec:\n"
		"  for: {apiVersion: v1, kind: ConfigMap}\n  reconciler: {exec: {command: [/bin/true]}}\n");
	fclose(f);
	struct config config;
	struct err err = {0};
	if (config_load(conf, &config, &err) < 0 || !config_find(&config, "web"))
		bench_fail("%s: %s", file, err.text);
	snprintf(digest, sizeof(digest), "%s", config_find(&config, "web")->digest);
	config_done(&config);
	snprintf(socket_path, sizeof(socket_path), "%s/run/queue.sock", dir);
}

static pid_t start_broker(void)
{
	_cleanup_(free_ptr) char *program = program_beside("reconciled-queue");
	_cleanup_(free_ptr) char *conf = xasprintf("%s/conf", dir), *run = xasprintf("%s/run", dir);
	_cleanup_(free_ptr) char *shm = xasprintf("%s/shm", dir), *log = xasprintf("%s/broker.log", dir);
	return bench_start(
	    log, (char *[]){program, "--config-dir", conf, "--runtime-dir", run, "--region-dir", shm, NULL});
}

static struct transport_client *start_watcher(void)
{
	struct transport_client *c = connect_to_broker();
	struct wire_loaded loaded = {span_of("web"), span_of(digest)};
	uint64_t start;
	BENCH_CHECK(process_start_time(getpid(), &start) == 0);
	send_message(c, &(struct wire){.type = WIRE_TYPE_HELLO,
				       .hello = {.version = WIRE_VERSION,
						 .role = WIRE_ROLE_WATCHER,
						 .pid = (uint32_t)getpid(),
						 .start_time = start,
						 .loaded = {&loaded, 1}}});
	struct wire ack = expect_message(c, WIRE_TYPE_HELLO_ACK);
	wire_done(&ack);
	return c;
}

static void add(struct transport_client *c, const struct bench_keys *keys, uint32_t from, uint32_t n)
{
	struct wire_add_key list[1024];
	for (uint32_t i = 0; i < n; i++)
		list[i] = bench_add_key(keys, from + i);
	send_message(c, &(struct wire){.type = WIRE_TYPE_ADD, .add = {span_of("web"), {list, n}}});
	struct wire ack = expect_message(c, WIRE_TYPE_ADD_ACK);
	BENCH_CHECK(ack.add_ack.accepted == n);
	wire_done(&ack);
}

/* Hosts of which `holders` keep the first key that they get. */
static void product(uint32_t hosts, uint32_t holders, uint32_t done)
{
	uint32_t n = done + holders;
	struct bench_keys keys = bench_keys_new(n, 0);
	struct clients cs;
	configure();
	pid_t broker = start_broker();
	clients_fork(&cs, hosts, n, holders, false, host, NULL);
	struct transport_client *watcher = start_watcher();
	for (uint32_t i = 0; i < n; i += 1024)
		add(watcher, &keys, i, MIN(n - i, 1024u));
	clients_await_ready(&cs);
	double cpu = bench_cpu(broker), seconds = clients_measure(&cs);
	bench_print("rate", done / seconds);
	bench_print("broker-cpu", (bench_cpu(broker) - cpu) / done);
	clients_end(&cs);
	bench_stop(broker);
}

static void latency(uint32_t n)
{
	struct bench_keys keys = bench_keys_new(n, 0);
	struct clients cs;
	configure();
	pid_t broker = start_broker();
	clients_fork(&cs, 1, n, 0, true, host, NULL);
	struct transport_client *watcher = start_watcher();
	clients_await_ready(&cs);
	clients_go(&cs);
	_cleanup_(free_ptr) int64_t *ns = xcalloc(n, sizeof(*ns));
	for (uint32_t i = 0; i < n; i++) {
		usleep(PAUSE_US); /* the host's POLL is parked, and everybody sleeps */
		int64_t begin = bench_now();
		add(watcher, &keys, i, 1);
		clients_hear(&cs);
		ns[i] = cs.shared->got_at - begin;
	}
	bench_print("p50", bench_percentile(ns, n, 0.5));
	bench_print("p99", bench_percentile(ns, n, 0.99));
	clients_end(&cs);
	bench_stop(broker);
}

int main(int argc, char **argv)
{
	bench_begin();
	dir = argv[argc - 1];
	if (argc == 5 && strcmp(argv[1], "product") == 0)
		product(bench_number(argv[2]), 0, bench_number(argv[3]));
	else if (argc == 5 && strcmp(argv[1], "workers") == 0)
		product(bench_number(argv[2]), bench_number(argv[2]) - 1, bench_number(argv[3]));
	else if (argc == 4 && strcmp(argv[1], "latency") == 0)
		latency(bench_number(argv[2]));
	else
		bench_fail("usage: bench_dispatch product|workers HOSTS N DIR | latency N DIR");
	bench_end();
}
