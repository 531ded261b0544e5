/* Nothing lost, nothing twice: under load from 1,000 objects, processes of every kind are killed for a
 * minute, drawn evenly by kind, while the recorder (recorder.c) watches. With --without-jail: the same with
 * the jail replaced by a bare process group, which must be noticed. RECORDER_SECONDS: how long (60). */
#include "stack.h"
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

enum { OBJECTS = 1000, FEW = 20, MIN_KILLS = 10 };
static struct stack s;
static long counters[OBJECTS];
static unsigned kills[ROLE_COUNT];

static bool put(size_t i, bool create)
{
	char body[256];
	snprintf(body, sizeof body,
		 "{\"metadata\":{\"name\":\"r-%zu\",\"labels\":{\"recorder\":\"yes\"}},\"data\":{\"counter\":"
		 "\"%ld\"}}",
		 i, counters[i]);
	if (create)
		return stack_api(&s, "POST", NULL, body, NULL, "/api/v1/namespaces/default/configmaps") ==
		       201;
	return stack_api(&s, "PATCH", MERGE_PATCH, body, NULL, "/api/v1/namespaces/default/configmaps/r-%zu",
			 i) == 200;
}

/* One victim of the kind that was killed least so far, ties at random: an even draw, although children are
 * rarely there. False: there is none of that kind at this moment. */
static bool kill_one(void)
{
	pid_t pids[64];
	size_t best = random_below(ROLE_COUNT);
	for (size_t r = 0; r < ROLE_COUNT; r++)
		if (kills[r] < kills[best])
			best = r;
	size_t n = stack_pids(&s, (enum stack_role)best, pids, ARRAY_SIZE(pids));
	if (!n || kill(pids[random_below(n)], SIGKILL) < 0)
		return false;
	kills[best]++;
	return true;
}

static bool enough_kills(void)
{
	for (size_t r = 0; r < ROLE_COUNT; r++)
		if (kills[r] < MIN_KILLS)
			return false;
	return true;
}

static bool refused(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/refused", s.records);
	return access(path, F_OK) == 0;
}

static long recorded(size_t i)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/r-%zu.value", s.records, i);
	_cleanup_(free_ptr) char *text = check_read(path);
	return *text ? strtol(text, NULL, 10) : -1;
}

static size_t behind(void)
{
	size_t n = 0;
	for (size_t i = 0; i < OBJECTS; i++)
		n += recorded(i) != counters[i];
	return n;
}

/* Processes of attempts, wherever they are: nobody else has this environment. Sends them a signal; 0: none. */
static size_t left_over(int signal_to_send)
{
	static char text[1 << 16];
	size_t left = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		if (*e->d_name < '1' || *e->d_name > '9')
			continue;
		_cleanup_(free_ptr) char *path = xasprintf("/proc/%s/environ", e->d_name);
		FILE *f = fopen(path, "re");
		size_t n = f ? fread(text, 1, sizeof text, f) : 0;
		bool ours = n && memmem(text, n, s.records, strlen(s.records)) &&
			    memmem(text, n, "RECONCILE_NAME=", 15);
		left += ours;
		if (ours && signal_to_send)
			kill((pid_t)strtol(e->d_name, NULL, 10), signal_to_send);
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return left;
}

static void begin(size_t objects)
{
	stack_init(&s);
	stack_program(&s, "recorder");
	stack_file(
	    &s, "recorder.yaml",
	    "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: recorder}\nspec:\n"
	    "  for: {apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {recorder: \"yes\"}}}\n"
	    "  reconciler:\n    exec: {command: [./recorder]}\n"
	    "    env: {RECORDS: \"%s\", ASAN_OPTIONS: \"detect_leaks=0\"}\n"
	    "    sandbox: {readWritePaths: [\"%s\"]}\n"
	    "  workers: 4\n  reconciliationTimeout: 10s\n"
	    "  quarantine: {crashes: 1000, within: 1m, for: 1s}\n  rateLimiter: {maxDelay: 1s, qps: 0}\n",
	    s.records, s.records);
	stack_start(&s);
	for (size_t i = 0; i < objects; i++)
		CHECK_MSG(put(i, true), "object %zu could not be created", i);
}

static void run(int seconds)
{
	begin(OBJECTS);
	int64_t end = clock_boottime_ns() + seconds * NS_PER_S, next_kill = 0;
	int64_t interval = seconds * NS_PER_S / (ROLE_COUNT * (MIN_KILLS + 8));
	unsigned long changes = 0;
	while ((clock_boottime_ns() < end ||
		(!enough_kills() && clock_boottime_ns() < end + 3 * seconds * NS_PER_S)) &&
	       !refused()) {
		size_t i = random_below(OBJECTS);
		counters[i]++;
		changes++;
		CHECK_MSG(put(i, false), "object %zu could not be changed", i);
		if (clock_boottime_ns() >= next_kill && kill_one())
			next_kill = clock_boottime_ns() + interval;
	}
	printf("%lu changes; kills:", changes);
	for (size_t r = 0; r < ROLE_COUNT; r++)
		printf(" %s %u", stack_role_name((enum stack_role)r), kills[r]);
	printf("\n");
	for (size_t r = 0; r < ROLE_COUNT; r++)
		CHECK_MSG(kills[r] >= MIN_KILLS, "only %u kills of %s", kills[r],
			  stack_role_name((enum stack_role)r));
	CHECK_MSG(WAIT_FOR(120, behind() == 0), "%zu keys' last attempt did not see the last value",
		  behind());
	CHECK(!refused());
	int status = stack_stop(&s);
	CHECK_MSG(status == 0, "up ended with %d", status);
	CHECK_MSG(WAIT_FOR(SOON, left_over(0) == 0), "%zu processes of attempts are left", left_over(0));
}

static void run_without_jail(void)
{
	setenv("RECONCILED_FAULT", "bare-group", 1);
	begin(FEW);
	int64_t end = clock_boottime_ns() + 2 * SOON * NS_PER_S;
	for (size_t i = 0; clock_boottime_ns() < end && !refused(); i = (i + 1) % FEW) {
		counters[i]++;
		put(i, false);
	}
	CHECK_MSG(refused(), "the recorder did not notice that attempts leave processes behind");
	stack_stop(&s);
	CHECK(left_over(SIGKILL) > 0); /* without a jail nobody else ends them */
}

int main(int argc, char **argv)
{
	const char *seconds = getenv("RECORDER_SECONDS");
	if (argc > 1 && strcmp(argv[1], "--without-jail") == 0)
		run_without_jail();
	else
		run(seconds ? atoi(seconds) : 60);
	return check_result();
}
