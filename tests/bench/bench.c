#include "bench.h"
#include "program.h"
#include "queue/store_region.h"
#include "region_ahead.h"
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* As the broker's: budgets.queue unless set, and see open_region in queue/broker.c. */
#define BUDGET	      (UINT64_C(512) << 20)
#define HISTORY_BYTES (UINT64_C(32) << 20)

void bench_fail(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "bench: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

void bench_print(const char *name, double value)
{
	printf("%s %.2f\n", name, value);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

struct bench_time bench_time(void)
{
	return (struct bench_time){bench_now(), clock_ns(CLOCK_PROCESS_CPUTIME_ID)};
}

int64_t bench_thread_cpu(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void bench_print_times(const char *name, struct bench_time from, struct bench_time to, uint32_t n)
{
	printf("%s %.2f\n%s/cpu %.2f\n", name, (double)(to.wall - from.wall) / n, name,
	       (double)(to.cpu - from.cpu) / n);
}

void bench_begin(void)
{
	if (!process_die_with(getppid()))
		exit(1);
	signal(SIGPIPE, SIG_IGN);
}

void bench_end(void)
{
	_exit(fflush(stdout) ? 1 : 0);
}

uint32_t bench_number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	if (*end || n < 1 || n > 10000000)
		bench_fail("'%s' is no number from 1 to 10000000", text);
	return (uint32_t)n;
}

int64_t bench_now(void)
{
	return clock_boottime_ns();
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

double bench_percentile(int64_t *values, size_t n, double p)
{
	qsort(values, n, sizeof(*values), compare);
	return (double)values[(size_t)((double)(n - 1) * p)];
}

struct bench_keys bench_keys_new(uint32_t len, uint32_t from)
{
	struct bench_keys k = {xcalloc(len, sizeof(*k.at)), len};
	for (uint32_t i = 0; i < len; i++)
		snprintf(k.at[i], sizeof(*k.at), "namespace-%02u/configmap-%08u",
			 (from + i) % BENCH_NAMESPACES % 100, (from + i) % 100000000);
	return k;
}

/* ---- the queue ---- */

void bench_queue_open(struct bench_queue *q, const char *dir, bool must_be_there)
{
	*q = (struct bench_queue){0};
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", dir, SHM_QUEUE_FILE);
	enum region_state state;
	struct err err = {0};
	if (store_region_open(&q->store, &q->region, path, BUDGET, 0, &state, &err) < 0)
		bench_fail("%s: %s", path, err.text);
	if ((state == REGION_RECOVERED) != must_be_there)
		bench_fail("%s: %s", path, must_be_there ? "is not there" : "is there already");
	int rc = must_be_there ? store_recover(&q->store, &err) : store_format(&q->store, HISTORY_BYTES);
	if (rc == 0)
		rc = workqueue_init(&q->wq, &q->store, 42, &err);
	if (rc < 0)
		bench_fail("%s: %s: %s", path, strerror(-rc), err.text);
	bool new;
	if (workqueue_open(&q->wq, "web", &q->controller, &new) < 0)
		bench_fail("no row for a controller");
	bench_queue_rules(q, q->controller);
	BENCH_CHECK(region_ahead_start(&q->region) == 0);
}

void bench_queue_remove(struct bench_queue *q, const char *dir)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", dir, SHM_QUEUE_FILE);
	region_ahead_stop(&q->region);
	workqueue_done_with(&q->wq);
	store_done(&q->store);
	region_done(&q->region);
	unlink(path);
}

void bench_queue_rules(struct bench_queue *q, uint16_t controller)
{
	const struct workqueue_rules rules = {
	    .attempt = {.limits = {5 * NS_PER_MS, 1000 * NS_PER_S, 0.1, 10, 100},
			.crashes = 5,
			.within = 600 * NS_PER_S,
			.park_for = 3600 * NS_PER_S},
	    .timeout = 30 * NS_PER_S,
	};
	workqueue_configure(&q->wq, controller, &rules);
}

static void lease_over(void *ctx _unused_, uint32_t slot)
{
	bench_fail("the lease of slot %u is over: the machine is too slow for this size", slot);
}

void bench_queue_tick(struct bench_queue *q, int64_t now)
{
	workqueue_tick(&q->wq, now, 4096, lease_over, NULL);
}

static double private_bytes(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	double kib = -1;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Anonymous: %lf kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	if (kib < 0)
		bench_fail("cannot read /proc/self/smaps_rollup");
	return kib * 1024;
}

double bench_queue_bytes(const struct bench_queue *q)
{
	struct stat st;
	if (fstat(q->region.fd, &st) < 0)
		bench_fail("fstat: %s", strerror(errno));
	return (double)st.st_blocks * 512 + private_bytes();
}
