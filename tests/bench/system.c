#include "system.h"
#include "bench.h"
#include "clients.h"
#include "config.h"
#include "program.h"
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT_MS = 30000 };

char system_digest[72];
char *system_table;
static const char *dir;
static char socket_path[300];

/* ---- the programs ---- */

static void make_folder(const char *name)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", dir, name);
	BENCH_CHECK(mkdir(path, 0700) == 0);
}

void system_configure(const char *folder, const char *api_version, const char *kind)
{
	dir = folder;
	make_folder("conf");
	make_folder("run");
	make_folder("shm");
	_cleanup_(free_ptr) char *conf = xasprintf("%s/conf", dir), *file = xasprintf("%s/web.yaml", conf);
	_cleanup_(free_ptr) char *main_file = xasprintf("%s/reconciled.yaml", conf);
	FILE *f = fopen(file, "w"), *m = fopen(main_file, "w");
	BENCH_CHECK(f && m);
	fprintf(f,
		"apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: web}\nspec:\n"
		"  for: {apiVersion: %s, kind: %s}\n  resyncPeriod: 8760h\n  reconciler: {exec: {command: "
		"[/bin/true]}}\n",
		api_version, kind);
	fprintf(m, "budgets: {cache: 4Gi}\n");
	fclose(f);
	fclose(m);
	struct config config;
	struct err err = {0};
	const struct config_controller *web;
	if (config_load(conf, &config, &err) < 0 || !(web = config_find(&config, "web")))
		bench_fail("%s: %s", file, err.text);
	snprintf(system_digest, sizeof(system_digest), "%s", web->digest);
	system_table = config_table_name(&web->watches[0].kind);
	config_done(&config);
	snprintf(socket_path, sizeof(socket_path), "%s/run/queue.sock", dir);
}

static pid_t start(const char *name, char *kubeconfig)
{
	_cleanup_(free_ptr) char *program = program_beside(name);
	_cleanup_(free_ptr) char *conf = xasprintf("%s/conf", dir), *run = xasprintf("%s/run", dir);
	_cleanup_(free_ptr) char *shm = xasprintf("%s/shm", dir), *log = xasprintf("%s/%s.log", dir, name);
	char *argv[] = {program, "--config-dir", conf, "--runtime-dir", run, "--region-dir", shm,
			NULL,	 NULL,		 NULL};
	if (kubeconfig) {
		argv[7] = "--kubeconfig";
		argv[8] = kubeconfig;
	}
	return bench_start(log, argv);
}

pid_t system_start_broker(void)
{
	return start("reconciled-queue", NULL);
}
pid_t system_start_watcher(char *kubeconfig)
{
	return start("reconciled-watcher", kubeconfig);
}

void system_show_log(const char *name)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s.log", dir, name);
	FILE *f = fopen(path, "r");
	char line[1024];
	while (f && fgets(line, sizeof(line), f))
		fputs(line, stderr);
	if (f)
		fclose(f);
}
void system_remove_log(const char *name)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s.log", dir, name);
	BENCH_CHECK(unlink(path) == 0);
}

/* ---- messages ---- */

struct transport_client *system_connect(void)
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
			bench_fail("%s: no connection within %d s: see %s/reconciled-queue.log", socket_path,
				   WAIT_MS / 1000, dir);
		poll(&p, 1, 1000);
	}
	return c;
}

void system_send(struct transport_client *c, const struct wire *m)
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

void system_send_done(struct transport_client *c, uint64_t incarnation, const struct wire_grant *grant)
{
	const struct wire m = {.type = WIRE_TYPE_DONE,
			       .done = {.incarnation = incarnation,
					.slot = grant->slot,
					.generation = grant->generation,
					.outcome = WIRE_OUTCOME_OK,
					.requeue_after_ms = -1,
					.duration_us = 1}};
	system_send(c, &m);
}

void system_receive(struct transport_client *c, struct wire *ret)
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

struct wire system_expect(struct transport_client *c, enum wire_type type)
{
	struct wire m = {0};
	system_receive(c, &m);
	if (m.type != type)
		bench_fail("%s was answered where %s was expected", wire_type_name(m.type),
			   wire_type_name(type));
	return m;
}

uint64_t system_hello_host(struct transport_client *c, uint32_t n)
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
	char instance[32];
	snprintf(instance, sizeof(instance), "web.%u", n);
	struct wire_loaded loaded = {span_of("web"), span_of(system_digest)};
	system_send(c, &(struct wire){.type = WIRE_TYPE_HELLO,
				      .hello = {.version = WIRE_VERSION,
						.role = WIRE_ROLE_HOST,
						.pid = (uint32_t)self,
						.start_time = start,
						.jail_pid = (uint32_t)jail,
						.jail_start_time = jail_start,
						.instance = span_of(instance),
						.loaded = {&loaded, 1}}});
	struct wire ack = system_expect(c, WIRE_TYPE_HELLO_ACK);
	wire_done(&ack);
	return ack.hello_ack.incarnation;
}
