/* Two hosts on one API server, and one Lease: who leads works, the other stands by; it takes over when the first gives the Lease
 * back, is killed, or is only stopped, and at no time do both run a key. */
#include "json_scan.h"
#include "stack.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { A, B, HOSTS, OBJECTS = 20 };
/* Short, so that the test is; renewDeadline is what a loaded machine may be late by. */
#define LEASE_S 15
#define RENEW_S 10
static struct stack host[HOSTS];
static struct stack client; /* of the API server */
static char *records, *kubeconfig;

/* ---- what runs ---- */

static void host_make(int h)
{
	struct stack *s = &host[h];
	stack_init(s);
	stack_file(
	    s, "reconciled.yaml",
	    "ha: {mode: leader, namespace: default, name: lock, leaseDuration: %ds, renewDeadline: %ds, "
	    "retryPeriod: 500ms}\nbudgets: {queue: 16Mi, cache: 16Mi}\n",
	    LEASE_S, RENEW_S);
	/* recorder: both hosts on the same locks, so a refused one is a key that ran twice at once. */
	stack_file(
	    s, "run.sh",
	    "#!/bin/sh\necho %c >>%s/runs-$RECONCILE_NAME\nASAN_OPTIONS=detect_leaks=0 exec ./recorder\n",
	    'a' + h, records);
	stack_program(s, "recorder");
	stack_file(
	    s, "recorder.yaml",
	    "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: recorder}\nspec:\n"
	    "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [default]}\n"
	    "  reconciler:\n    exec: {command: [./run.sh]}\n    env: {RECORDS: %s}\n"
	    "    sandbox: {readWritePaths: [%s]}\n  workers: 2\n",
	    records, records);
	/* Never ends by itself, and takes no notice of SIGTERM. */
	stack_file(s, "slow.sh",
		   "#!/bin/sh\ncd %s\ntrap '' TERM\nexec 9>slow.lock\n"
		   "flock -n 9 || { echo slow >>refused; exit 0; }\necho %c >>slow\n"
		   "until [ -e go ]; do sleep 0.05; done\n",
		   records, 'a' + h);
	stack_file(s, "slow.yaml",
		   "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: slow}\nspec:\n"
		   "  for: {apiVersion: v1, kind: Secret, namespaces: [default]}\n"
		   "  reconciler:\n    exec: {command: [./slow.sh]}\n    sandbox: {readWritePaths: [%s]}\n"
		   "  reconciliationTimeout: 10m\n",
		   records);
}

static void host_start(int h)
{
	stack_start_on(&host[h], kubeconfig);
}

static pid_t watcher_of(int h)
{
	pid_t pid = 0;
	(void)WAIT_FOR(SOON, stack_pids(&host[h], ROLE_WATCHER, &pid, 1) == 1);
	return pid;
}

static bool says(int h, const char *text)
{
	_cleanup_(free_ptr) char *status = stack_status(&host[h], "-o json");
	return strstr(status, text) != NULL;
}
static bool leads(int h)
{
	return says(h, "\"leading\":true");
}
static bool stands_by(int h)
{
	return says(h, "\"leading\":false") && !says(h, "\"leader\":null") &&
	       says(h, "\"state\":\"not leading\"");
}

/* ---- what was recorded ---- */

static char *record(const char *name)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", records, name);
	return check_read(path);
}
static bool record_ends(const char *name, const char *end)
{
	_cleanup_(free_ptr) char *text = record(name);
	size_t n = strlen(text), m = strlen(end);
	return n >= m && strcmp(text + n - m, end) == 0;
}
static bool value_is(size_t i, const char *value)
{
	_cleanup_(free_ptr) char *name = xasprintf("r-%zu.value", i), *text = record(name);
	return strncmp(text, value, strlen(value)) == 0 && text[strlen(value)] == '\n';
}
static bool all_at(const char *value)
{
	for (size_t i = 1; i < OBJECTS; i++)
		if (!value_is(i, value))
			return false;
	return true;
}
static bool ran_by(size_t i, const char *who)
{
	_cleanup_(free_ptr) char *name = xasprintf("runs-r-%zu", i);
	return record_ends(name, who);
}
static bool all_ran_by(const char *who)
{
	for (size_t i = 1; i < OBJECTS; i++)
		if (!ran_by(i, who))
			return false;
	return true;
}

static int put(size_t i, const char *counter, bool create)
{
	_cleanup_(free_ptr) char *body =
	    xasprintf("{\"metadata\":{\"name\":\"r-%zu\"},\"data\":{\"counter\":\"%s\"}}", i, counter);
	return create ? stack_api(&client, "POST", NULL, body, NULL, "/api/v1/namespaces/default/configmaps")
		      : stack_api(&client, "PATCH", MERGE_PATCH, body, NULL,
				  "/api/v1/namespaces/default/configmaps/r-%zu", i);
}
static void put_all(const char *counter, bool create)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (i || create)
			CHECK(put(i, counter, create) == (create ? 201 : 200));
}

static double seconds_since(int64_t ns)
{
	return (double)(clock_boottime_ns() - ns) / NS_PER_S;
}

#define LEASE_PATH "/apis/coordination.k8s.io/v1/namespaces/default/leases/lock"

static bool lease_says(const char *text)
{
	_cleanup_(buf_done) struct buf answer = {0};
	return stack_api(&client, "GET", NULL, NULL, &answer, LEASE_PATH) == 200 &&
	       strstr(buf_str(&answer), text);
}

/* A time of the Lease, in seconds. */
static double lease_time(const char *member)
{
	_cleanup_(buf_done) struct buf answer = {0}, text = {0};
	struct tm tm = {0};
	double seconds = 0;
	CHECK(stack_api(&client, "GET", NULL, NULL, &answer, LEASE_PATH) == 200);
	json_unescape(json_path(buf_span(&answer), "spec", member, NULL), &text);
	CHECK_MSG(sscanf(buf_str(&text), "%d-%d-%dT%d:%d:%lfZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
			 &tm.tm_hour, &tm.tm_min, &seconds) == 6,
		  "%s is '%s'", member, buf_str(&text));
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return (double)timegm(&tm) + seconds;
}

/* ---- the story ---- */

static void the_first_leads_and_the_other_keeps_its_cache_warm(void)
{
	host_start(A);
	CHECK(WAIT_FOR(SOON, leads(A)));
	host_start(B);
	CHECK(WAIT_FOR(SOON, stands_by(B)));
	put_all("1", true);
	CHECK(WAIT_FOR(SOON, all_at("1")));
	CHECK(all_ran_by("a\n"));
	CHECK(WAIT_FOR(SOON, says(B, "\"role\":\"worker\"")));
}

/* What a deleted object leaves behind is somebody's work, too. */
static void what_changed_while_another_led_is_reconciled_by_the_next(void)
{
	/* A's workers are away, so that nobody reconciles it. */
	pid_t hosts[8], broker;
	size_t n = stack_pids(&host[A], ROLE_HOST, hosts, 8);
	CHECK(stack_pids(&host[A], ROLE_BROKER, &broker, 1) == 1);
	kill(broker, SIGSTOP);
	for (size_t i = 0; i < n; i++)
		kill(hosts[i], SIGSTOP);
	CHECK(stack_api(&client, "DELETE", NULL, NULL, NULL, "/api/v1/namespaces/default/configmaps/r-0") ==
	      200);
	put_all("2", false);
	CHECK(!leads(B));
	/* All of A dies at once. */
	double renewed = lease_time("renewTime");
	int64_t at = clock_boottime_ns();
	kill(host[A].up, SIGKILL);
	CHECK(WAIT_FOR(SOON, leads(B)));
	printf("fail-over after kill -9 of a host: %.1f s (leaseDuration %d s)\n", seconds_since(at),
	       LEASE_S);
	double left = lease_time("acquireTime") - renewed;
	CHECK_MSG(left >= LEASE_S, "it took over before the Lease was over: %.1f s", left);
	CHECK(WAIT_FOR(SOON, all_at("2")));
	CHECK(WAIT_FOR(SOON, value_is(0, "-1")));
	CHECK(WAIT_FOR(SOON, all_ran_by("b\n")));
	check_wait(host[A].up, SOON);
}

static void a_released_lease_is_taken_over_at_once(void)
{
	host_start(A);
	CHECK(WAIT_FOR(SOON, stands_by(A)));
	int64_t at = clock_boottime_ns();
	CHECK(stack_stop(&host[B]) == 0);
	int64_t stopped = clock_boottime_ns();
	CHECK(stack_logged(&host[B], "the Lease is given back"));
	CHECK(WAIT_FOR(SOON, leads(A)));
	printf("fail-over after an orderly end: %.1f s, of which the end took %.1f s\n", seconds_since(at),
	       (double)(stopped - at) / NS_PER_S);
	CHECK(seconds_since(stopped) < LEASE_S);
	CHECK(WAIT_FOR(SOON, all_ran_by("a\n"))); /* everything once more */
}

static void a_stopped_watcher_fences_itself(void)
{
	host_start(B);
	CHECK(WAIT_FOR(SOON, stands_by(B)));
	CHECK(stack_api(&client, "POST", NULL, "{\"metadata\":{\"name\":\"slow\"}}", NULL,
			"/api/v1/namespaces/default/secrets") == 201);
	CHECK(WAIT_FOR(SOON, record_ends("slow", "a\n")));
	pid_t watcher = watcher_of(A);
	kill(watcher, SIGSTOP);
	int64_t at = clock_boottime_ns();
	CHECK(WAIT_FOR(SOON, leads(B)));
	printf("fail-over after SIGSTOP of the watcher: %.1f s\n", seconds_since(at));
	put_all("3", false);
	CHECK(WAIT_FOR(SOON, record_ends("slow", "b\n")));
	CHECK(WAIT_FOR(SOON, all_at("3")));
	CHECK(says(A, "\"leading\":false"));
	kill(watcher, SIGCONT);
	CHECK(WAIT_FOR(SOON, stands_by(A)));
	CHECK(WAIT_FOR(SOON, stack_logged(&host[A], "this host leads no longer")));
}

/* The same identity, and nobody else led: nothing is interrupted, and nothing unchanged runs again. */
static void a_watcher_that_is_started_again_goes_on_leading(void)
{
	_cleanup_(free_ptr) char *before = record("runs-r-1");
	pid_t watcher = watcher_of(B);
	kill(watcher, SIGKILL);
	CHECK(WAIT_FOR(SOON, watcher_of(B) != watcher && leads(B)));
	put_all("4", false);
	CHECK(WAIT_FOR(SOON, all_at("4")));
	_cleanup_(free_ptr) char *after = record("runs-r-1");
	CHECK_MSG(strlen(after) == strlen(before) + 2, "more than the one change ran: %s",
		  after + strlen(before));
	CHECK(record_ends("slow", "b\n"));
	_cleanup_(free_ptr) char *slow = record("slow");
	CHECK_MSG(strcmp(slow, "a\nb\n") == 0, "the attempt was interrupted: %s", slow);
}

/* A conflict for the next renewal; then a record without anything in it. */
static void what_others_do_to_the_lease_is_survived(void)
{
	bool again = true;
	/* A machine that stands still for renewDeadline makes a key run again, too: but not each time. */
	for (int i = 0; again && i < 3; i++) {
		_cleanup_(free_ptr) char *before = record("runs-r-1");
		_cleanup_(free_ptr) char *label =
		    xasprintf("{\"metadata\":{\"labels\":{\"touched\":\"by-%d\"}}}", i);
		CHECK(stack_api(&client, "PATCH", MERGE_PATCH, label, NULL, LEASE_PATH) == 200);
		_cleanup_(buf_done) struct buf touched = {0};
		CHECK(stack_api(&client, "GET", NULL, NULL, &touched, LEASE_PATH) == 200);
		struct span renewed = json_path(buf_span(&touched), "spec", "renewTime", NULL);
		_cleanup_(free_ptr) char *old = xasprintf("%.*s", SPAN_ARG(renewed));
		CHECK(WAIT_FOR(SOON, !lease_says(old)));
		CHECK(lease_says("\"touched\":\"by-"));
		CHECK(WAIT_FOR(SOON, leads(B)));
		_cleanup_(free_ptr) char *after = record("runs-r-1");
		again = strcmp(before, after) != 0;
	}
	CHECK_MSG(!again, "a label of the Lease made everything run again");
	CHECK(stack_api(&client, "PATCH", MERGE_PATCH, "{\"spec\":null}", NULL, LEASE_PATH) == 200);
	CHECK(WAIT_FOR(SOON, lease_says("\"holderIdentity\":\"")));
	CHECK(WAIT_FOR(SOON, leads(A) != leads(B)));
}

static void a_deleted_lease_is_made_again_and_a_server_away_ends_the_lead(pid_t server)
{
	CHECK(stack_api(&client, "DELETE", NULL, NULL, NULL, LEASE_PATH) == 200);
	CHECK(WAIT_FOR(SOON, stack_api(&client, "GET", NULL, NULL, NULL, LEASE_PATH) == 200));
	CHECK(WAIT_FOR(SOON, leads(A) != leads(B)));
	/* It hangs: no answer, no refusal. */
	kill(server, SIGSTOP);
	CHECK(WAIT_FOR(SOON, !leads(A) && !leads(B)));
	kill(server, SIGCONT);
	CHECK(WAIT_FOR(SOON, leads(A) || leads(B)));
}

static void nobody_ran_twice(void)
{
	_cleanup_(free_ptr) char *refused = record("refused");
	CHECK_MSG(!*refused, "ran on both hosts at once: %s", refused);
}

static bool stop_all(void)
{
	_cleanup_(free_ptr) char *go = xasprintf("%s/go", records);
	close(open(go, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	return stack_stop(&host[A]) == 0 && stack_stop(&host[B]) == 0;
}

int main(void)
{
	stack_init(&client);
	records = client.records;
	kubeconfig = xasprintf("%s/kubeconfig", client.folder);
	_cleanup_(free_ptr) char *log = xasprintf("%s/apiserver.log", client.folder);
	const char *const argv[] = {"reconciled-apiserver", "--listen", "127.0.0.1:0",
				    "--write-kubeconfig",   kubeconfig, NULL};
	pid_t server = check_start(log, argv);
	CHECK(stack_connect(&client, kubeconfig));
	host_make(A);
	host_make(B);
	the_first_leads_and_the_other_keeps_its_cache_warm();
	what_changed_while_another_led_is_reconciled_by_the_next();
	nobody_ran_twice();
	a_released_lease_is_taken_over_at_once();
	nobody_ran_twice();
	a_stopped_watcher_fences_itself();
	nobody_ran_twice();
	a_watcher_that_is_started_again_goes_on_leading();
	nobody_ran_twice();
	what_others_do_to_the_lease_is_survived();
	a_deleted_lease_is_made_again_and_a_server_away_ends_the_lead(server);
	CHECK(stop_all());
	int rc = check_result();
	fflush(stdout);
	exit(rc);
}
