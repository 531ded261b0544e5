/* bench_watcher sync|watch|latency|restart ours|PEER KUBECONFIG pods|databases COUNT TIMES FOLDER
 *
 * The watcher, or the program PEER (informer.go), on an API server with COUNT such objects (fill.c). ours: reconciled-watcher with
 * reconciled-queue, a cache region and a queue region in FOLDER.
 *
 *   sync     from its start until all objects are in its cache and all keys in the queue; what it has then
 *   watch    TIMES updates by a few processes, as fast as they are answered, until the last one is in its cache
 *   latency  TIMES updates one after the other: from the API server's answer to when a worker has the key and reads the new object
 *   restart  ours alone: the watcher is killed after sync and started again
 *
 * CPU time is taken when the process has come to rest: packing anew, or a garbage collection, that follows is in it. */
#include "api.h"
#include "cache.h"
#include "clients.h"
#include "json_scan.h"
#include "kube.h"
#include "program.h"
#include "queue_read.h"
#include "system.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_S = 1500, POLL_US = 2000, SAMPLE_MS = 20, REST_MS = 300, REST_CPU_MS = 3, PAUSE_US = 2000 };

static const char *peer, *dir; /* peer: NULL for ours */
static char *kubeconfig;
static enum api_kind kind;
static uint32_t count, times;
static pid_t pid, broker, worker;
static FILE *to, *from; /* of the peer; of our host in latency */

/* The measured process has ended, or there is nothing after WAIT_S. */
static void keep_waiting(const char *what, int64_t end)
{
	bool over = bench_now() > end, ended = waitpid(pid, NULL, WNOHANG) == pid;
	if (!over && !ended) {
		usleep(POLL_US);
		return;
	}
	if (!peer)
		system_show_log("reconciled-watcher");
	if (ended)
		bench_fail("%s: the process ended", what);
	bench_fail("%s: not within %d s", what, WAIT_S);
}
/* Looks at the condition every POLL_US until it holds. */
#define AWAIT(what, ...)                                                                                     \
	for (int64_t await_end = bench_now() + WAIT_S * NS_PER_S; !(__VA_ARGS__);)                           \
	keep_waiting(what, await_end)

/* ---- what it uses ---- */

static double region_bytes(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/shm", dir);
	DIR *d = peer ? NULL : opendir(path);
	double sum = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		struct stat st;
		if (strncmp(e->d_name, "cache", 5) == 0 && fstatat(dirfd(d), e->d_name, &st, 0) == 0)
			sum += (double)st.st_blocks * 512;
	}
	if (d)
		closedir(d);
	return sum;
}

/* The process' share of memory, and the cache region, which is counted by its files and not by what is mapped of it. */
static double memory(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("/proc/%d/smaps_rollup", (int)pid);
	FILE *f = fopen(path, "r");
	char line[256];
	double kb, sum = 0;
	BENCH_CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss_Anon: %lf", &kb) == 1 || sscanf(line, "Pss_File: %lf", &kb) == 1)
			sum += kb * 1024;
	fclose(f);
	return sum + region_bytes();
}

static double most; /* memory */
static bool sample(void)
{
	/* The kernel goes over all pages of the process for it, and holds the process up: a thirtieth of the time at most. */
	static int64_t next;
	int64_t before = bench_now();
	if (before < next)
		return false;
	most = MAX(most, memory());
	int64_t after = bench_now();
	next = after + MAX(30 * (after - before), SAMPLE_MS * (int64_t)NS_PER_MS);
	return false;
}

/* Until the process does nothing any more. */
static void rest(void)
{
	double before = -1e18, now = bench_cpu(pid);
	int64_t end = bench_now() + WAIT_S * NS_PER_S;
	while (now - before > REST_CPU_MS * (double)NS_PER_MS && bench_now() < end) {
		for (int i = 0; i < REST_MS * 1000; i += POLL_US) {
			usleep(POLL_US);
			sample();
		}
		before = now;
		now = bench_cpu(pid);
	}
}

/* ---- the peer ---- */

static void start_peer(bool work)
{
	int in[2], out[2];
	BENCH_CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	pid_t parent = getpid();
	pid = fork();
	BENCH_CHECK(pid >= 0);
	if (pid == 0) {
		if (!process_die_with(parent) || dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
			_exit(126);
		execl(peer, peer, kubeconfig, api_plural(kind), work ? "work" : "keep", NULL);
		_exit(127);
	}
	to = fdopen(in[1], "w");
	from = fdopen(out[0], "r");
	close(in[0]);
	close(out[1]);
}

static void expect_line(const char *want)
{
	char line[128];
	if (!fgets(line, sizeof(line), from) || strncmp(line, want, strlen(want)) != 0)
		bench_fail("the peer did not say %s", want);
}

/* ---- ours ---- */

static struct queue_reader *queue;

/* How many adds came, those that merged included. Only while nobody works: a grant forgets them. */
static uint64_t adds(void)
{
	static struct queue_key k;
	uint32_t cursor = 0;
	uint64_t sum = 0;
	for (int rc; (rc = queue_next(queue, &cursor, &k)) != 0;)
		if (rc == 1)
			sum += k.count;
		else if (rc != -EAGAIN)
			bench_fail("the queue region is damaged");
	return sum;
}

static struct cache *cache;
static uint32_t table;
static bool cache_is_open(void)
{
	struct err err;
	_cleanup_(free_ptr) char *shm = xasprintf("%s/shm", dir);
	if (!cache && cache_open(shm, &cache, &err) < 0)
		return false;
	if (cache_table(cache, system_table, &table) == 0)
		return true;
	cache_close(cache);
	cache = NULL;
	return false;
}

static uint64_t version_in_cache(struct span namespace, struct span name)
{
	static struct buf object, text;
	struct err err;
	buf_reset(&object);
	buf_reset(&text);
	if (cache_get(cache, table, namespace, name, &object, &err) < 0 ||
	    json_unescape(json_path(buf_span(&object), "metadata", "resourceVersion", NULL), &text) < 0)
		return 0;
	return kube_version(buf_span(&text));
}

/* Says what the peer says: each key that it is granted, and the version of what it reads then. */
static _Noreturn void host(FILE *out)
{
	struct transport_client *c = system_connect();
	uint64_t incarnation = system_hello_host(c, 1);
	const struct wire poll_message = {.type = WIRE_TYPE_POLL, .poll = {.incarnation = incarnation}};
	system_send(c, &poll_message);
	for (;;) {
		struct wire m = {0};
		system_receive(c, &m);
		if (m.type == WIRE_TYPE_GRANT) {
			AWAIT("the cache", cache_is_open());
			uint64_t version = version_in_cache(m.grant.namespace, m.grant.name);
			int64_t at = bench_now();
			fprintf(out, "granted " SPAN_FMT " " SPAN_FMT " %llu %lld\n",
				SPAN_ARG(m.grant.namespace), SPAN_ARG(m.grant.name),
				(unsigned long long)version, (long long)at);
			fflush(out);
			system_send_done(c, incarnation, &m.grant);
		} else {
			system_send(c, &poll_message);
		}
		wire_done(&m);
	}
}

static bool queue_is_open(void)
{
	struct err err;
	_cleanup_(free_ptr) char *shm = xasprintf("%s/shm", dir);
	return queue_open(shm, &queue, &err) == 0;
}

/* The broker, and a host where somebody is to work. */
static void start_broker(bool work)
{
	system_configure(dir, api_version_of(kind), api_kind_name(kind));
	broker = pid = system_start_broker();
	AWAIT("the queue region", queue_is_open());
	if (!work)
		return;
	int out[2];
	BENCH_CHECK(pipe2(out, O_CLOEXEC) == 0);
	pid_t parent = getpid();
	worker = fork();
	BENCH_CHECK(worker >= 0);
	if (worker == 0) {
		if (!process_die_with(parent))
			_exit(1);
		host(fdopen(out[1], "w"));
	}
	close(out[1]);
	from = fdopen(out[0], "r");
}

/* ---- both ---- */

static double begin_broker_cpu;
static int64_t begin;

static void start(bool work)
{
	if (!peer)
		start_broker(work);
	begin_broker_cpu = peer ? 0 : bench_cpu(broker);
	begin = bench_now();
	if (peer)
		start_peer(work);
	else
		pid = system_start_watcher(kubeconfig);
}

static double broker_cpu(void)
{
	return peer ? 0 : bench_cpu(broker) - begin_broker_cpu;
}

static bool readable(FILE *f)
{
	struct pollfd p = {.fd = fileno(f), .events = POLLIN};
	return poll(&p, 1, 0) == 1;
}

static bool is_synced(void)
{
	sample();
	return peer ? readable(from) : cache_is_open() && cache_table_synced(cache, table) && adds() >= count;
}

static void await_synced(void)
{
	AWAIT("sync", is_synced());
	if (peer)
		expect_line("synced");
}

static void await_seen(uint32_t i, uint64_t version)
{
	char namespace[64], name[64];
	api_object_name(kind, i, namespace, name);
	if (peer) {
		fprintf(to, "await %s %s %llu\n", namespace, name, (unsigned long long)version);
		fflush(to);
		expect_line("seen");
	} else {
		AWAIT("the last update", version_in_cache(span_of(namespace), span_of(name)) >= version);
	}
}

static void collect(void)
{
	if (!peer)
		return;
	fprintf(to, "collect\n");
	fflush(to);
	expect_line("collected");
}

/* ---- measurements ---- */

static void sync_all(void)
{
	start(false);
	await_synced();
	bench_print("wall", (double)(bench_now() - begin));
	rest();
	double cpu = bench_cpu(pid);
	bench_print("cpu", cpu / count);
	bench_print("cpu/keys", (cpu + broker_cpu()) / count);
	bench_print("bytes/running", memory() / count);
	collect();
	double steady = memory();
	bench_print("bytes", steady / count);
	bench_print("peak", MAX(most, steady) / steady);
}

static uint64_t newest;
static void update(uint32_t self, const void *ctx _unused_)
{
	for (uint32_t i = self; i < times; i += API_WRITERS)
		api_update(kind, i % count, newest, NULL);
}

static void watch(void)
{
	start(false);
	await_synced();
	rest();
	double cpu = bench_cpu(pid), with_broker = cpu + broker_cpu();
	newest = (uint64_t)bench_now(); /* as no run before had it */
	int64_t from_time = bench_now();
	api_in_processes(kubeconfig, API_WRITERS, update, NULL);
	bench_print("written", times / ((double)(bench_now() - from_time) / 1e9));
	api_connect(kubeconfig);
	await_seen(0, api_update(kind, 0, newest + 1, NULL));
	bench_print("rate", times / ((double)(bench_now() - from_time) / 1e9));
	rest();
	bench_print("cpu", (bench_cpu(pid) - cpu) / times);
	bench_print("cpu/keys", (bench_cpu(pid) + broker_cpu() - with_broker) / times);
}

struct granted {
	char namespace[64], name[64];
	unsigned long long version;
	long long at;
};
static void next_granted(struct granted *g)
{
	char line[256];
	do
		if (!fgets(line, sizeof(line), from))
			bench_fail("nobody works any more");
	while (sscanf(line, "granted %63s %63s %llu %lld", g->namespace, g->name, &g->version, &g->at) != 4);
}

static void latency(void)
{
	struct granted g;
	start(true);
	for (uint32_t i = 0; i < count; i++) /* of the list */
		next_granted(&g);
	api_connect(kubeconfig);
	newest = (uint64_t)bench_now();
	_cleanup_(free_ptr) int64_t *ns = xcalloc(times, sizeof(*ns));
	for (uint32_t i = 0; i < times; i++) {
		char namespace[64], name[64];
		int64_t answered;
		usleep(PAUSE_US);
		api_object_name(kind, i % count, namespace, name);
		uint64_t version = api_update(kind, i % count, newest + i, &answered);
		do
			next_granted(&g);
		while (g.version < version || strcmp(g.namespace, namespace) != 0 ||
		       strcmp(g.name, name) != 0);
		ns[i] = g.at - answered;
	}
	bench_print("p50", bench_percentile(ns, times, 0.5));
	bench_print("p99", bench_percentile(ns, times, 0.99));
}

static bool logged(const char *text)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/reconciled-watcher.log", dir);
	FILE *f = fopen(path, "r");
	char line[1024];
	bool found = false;
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, text);
	if (f)
		fclose(f);
	return found;
}

static void restart(void)
{
	start(false);
	await_synced();
	rest();
	uint64_t before = adds();
	bench_stop(pid);
	cache_close(cache);
	cache = NULL;
	system_remove_log("reconciled-watcher");
	begin = bench_now();
	pid = system_start_watcher(kubeconfig);
	AWAIT("the list after the restart", logged("list complete"));
	bench_print("wall", (double)(bench_now() - begin));
	AWAIT("the cache", cache_is_open() && cache_table_synced(cache, table));
	/* Keys go to the broker in the order of their events: when that of one more update is there, all others are. */
	api_connect(kubeconfig);
	await_seen(0, api_update(kind, 0, (uint64_t)bench_now(), NULL));
	AWAIT("the key of the update", adds() > before);
	rest();
	bench_print("cpu", bench_cpu(pid) / count);
	bench_print("reconciles", (double)(adds() - before - 1));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"sync", sync_all}, {"watch", watch}, {"latency", latency}, {"restart", restart}};
	bench_begin();
	if (argc != 8)
		bench_fail("usage: bench_watcher sync|watch|latency|restart ours|PEER KUBECONFIG "
			   "pods|databases COUNT TIMES "
			   "FOLDER");
	peer = strcmp(argv[2], "ours") == 0 ? NULL : argv[2];
	kubeconfig = argv[3];
	kind = api_kind_of(argv[4]);
	count = bench_number(argv[5]);
	times = bench_number(argv[6]);
	dir = argv[7];
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run();
			/* the worker first: that its broker is gone is an error to it */
			if (worker)
				bench_stop(worker);
			bench_stop(pid);
			if (broker)
				bench_stop(broker);
			bench_end();
		}
	bench_fail("there is no measurement %s", argv[1]);
}
