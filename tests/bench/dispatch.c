/* bench_dispatch product HOSTS N DIR    HOSTS processes take N keys from reconciled-queue, each DONE with the next grant in
 *                                       one round trip
 * bench_dispatch workers HOSTS N DIR    the same with one host, while all others hold a key each
 * bench_dispatch latency N DIR          N times, one after the other: from the watcher's ADD to the GRANT that a parked host
 *                                       receives; everybody sleeps before
 *
 * The broker is the real program. The hosts and the watcher are here, and speak to it as the real ones do; a host's reconciler
 * does nothing, and a process that only sleeps stands for its jail. */
#include "clients.h"
#include "program.h"
#include "system.h"
#include <unistd.h>

enum { PAUSE_US = 2000 };

static const char *dir;

/* ---- a host ---- */

static _Noreturn void host(struct clients *cs, void *ctx _unused_)
{
	struct transport_client *c = system_connect();
	uint64_t incarnation = system_hello_host(c, cs->self + 1);
	const struct wire poll_message = {.type = WIRE_TYPE_POLL, .poll = {.incarnation = incarnation}};
	if (cs->self < cs->held) {
		system_send(c, &poll_message);
		struct wire grant = system_expect(c, WIRE_TYPE_GRANT);
		clients_got(cs, grant.grant.name);
		clients_ready(cs);
		for (;;)
			pause();
	}
	clients_ready(cs);
	system_send(c, &poll_message);
	for (bool running = false;;) {
		struct wire m = {0};
		system_receive(c, &m);
		if (running)
			BENCH_CHECK(m.type == WIRE_TYPE_GRANT
					? !m.grant.done_stale
					: m.type == WIRE_TYPE_DONE_ACK && !m.done_ack.stale);
		if (m.type == WIRE_TYPE_GRANT) {
			clients_got(cs, m.grant.name);
			system_send_done(c, incarnation, &m.grant);
		} else {
			BENCH_CHECK(running);
			system_send(c, &poll_message);
		}
		if (running)
			clients_done(cs);
		running = m.type == WIRE_TYPE_GRANT;
		wire_done(&m);
	}
}

/* ---- the watcher ---- */

static struct transport_client *start_watcher(void)
{
	struct transport_client *c = system_connect();
	struct wire_loaded loaded = {span_of("web"), span_of(system_digest)};
	uint64_t start;
	BENCH_CHECK(process_start_time(getpid(), &start) == 0);
	system_send(c, &(struct wire){.type = WIRE_TYPE_HELLO,
				      .hello = {.version = WIRE_VERSION,
						.role = WIRE_ROLE_WATCHER,
						.pid = (uint32_t)getpid(),
						.start_time = start,
						.loaded = {&loaded, 1}}});
	struct wire ack = system_expect(c, WIRE_TYPE_HELLO_ACK);
	wire_done(&ack);
	return c;
}

static void add(struct transport_client *c, const struct bench_keys *keys, uint32_t from, uint32_t n)
{
	struct wire_add_key list[1024];
	for (uint32_t i = 0; i < n; i++)
		list[i] = bench_add_key(keys, from + i);
	system_send(c, &(struct wire){.type = WIRE_TYPE_ADD, .add = {span_of("web"), {list, n}}});
	struct wire ack = system_expect(c, WIRE_TYPE_ADD_ACK);
	BENCH_CHECK(ack.add_ack.accepted == n);
	wire_done(&ack);
}

/* Hosts of which `holders` keep the first key that they get. */
static void product(uint32_t hosts, uint32_t holders, uint32_t done)
{
	uint32_t n = done + holders;
	struct bench_keys keys = bench_keys_new(n, 0);
	struct clients cs;
	system_configure(dir, "v1", "ConfigMap");
	pid_t broker = system_start_broker();
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
	system_configure(dir, "v1", "ConfigMap");
	pid_t broker = system_start_broker();
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
