/* Which hosts are awake, and whose turn it is under a cap over all controllers: a real broker, hosts that do what they are
 * told. */
#include "queue_rig.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_OF(name, more)                                                                                  \
	"apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: " name "}\nspec:\n"         \
	"  for: {apiVersion: v1, kind: ConfigMap}\n  reconciler: {exec: {command: [/bin/true]}}\n" more

static void done(struct host *h)
{
	host_tell_it(h, "done %llu %llu 0 -1 0", h->slot, h->generation);
}

static bool asleep(unsigned n)
{
	char text[40];
	snprintf(text, sizeof(text), "\"asleep\":%u,", n);
	return status_has(text);
}

static bool is_idle(const char *controller, const char *instance)
{
	char text[200];
	snprintf(text, sizeof(text), "\"instance\":\"%s\",\"controller\":\"%s\",\"state\":\"idle\"", instance,
		 controller);
	return status_has(text);
}

/* Its POLL is parked: it counts as one that could have a key. */
static void park(struct host *h, const char *controller, const char *instance)
{
	host_tell_it(h, "poll");
	CHECK_MSG(WAIT_FOR(SOON, is_idle(controller, instance)), "%s is not idle", instance);
}

static int ctl(const char *command, const char *controller, const char *number)
{
	pid_t pid =
	    check_start(log_path, (const char *[]){"reconcilectl", command, controller, "--runtime-dir",
						   run_dir, "--region-dir", shm_dir, number, NULL});
	int status = check_wait(pid, SOON);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- workers: {min: 1, max: 3} ---- */

static void only_those_that_are_needed_are_awake(void)
{
	struct host a = host_start("web", "web.1"), b = host_start("web", "web.2"),
		    c = host_start("web", "web.3");
	park(&a, "web", "web.1");
	host_tell_it(&b, "poll");
	EXPECT(&b, "SLEEP 1");
	host_tell_it(&b, "rest");
	CHECK(WAIT_FOR(SOON, asleep(1))); /* who came first is woken first */
	host_tell_it(&c, "poll");
	EXPECT(&c, "SLEEP 1");
	host_tell_it(&c, "rest");
	CHECK(WAIT_FOR(SOON, asleep(2)));
	CHECK(status_has("\"state\":\"asleep\""));
	CHECK(status_has("\"workers\":{\"connected\":3,\"asleep\":2,\"least\":1,\"most\":3}"));
	/* One key: the one that is awake has it, nobody is woken. */
	CHECK(add("one"));
	EXPECT_GRANT(&a, "shop/one");
	EXPECT_SILENCE(&b, 100);
	/* All that are awake are busy: the one that sleeps longest is woken, and only that one. */
	CHECK(add("two"));
	EXPECT(&b, "SLEEP 0");
	CHECK(status_has("\"state\":\"waking\""));
	EXPECT_SILENCE(&c, 100);
	host_tell_it(&b, "poll");
	EXPECT_GRANT(&b, "shop/two");
	/* A host that becomes free before the woken one is there takes the key. */
	CHECK(add("three"));
	EXPECT(&c, "SLEEP 0");
	done(&a);
	EXPECT_GRANT(&a, "shop/three");
	host_tell_it(&c, "poll");
	done(&a);
	EXPECT(&a, "DONE_ACK 0");
	done(&b);
	EXPECT(&b, "DONE_ACK 0");
#ifdef RECONCILED_FAULTS /* RECONCILED_TEST_IDLE_MS */
	EXPECT(&c, "SLEEP 1");
	host_tell_it(&c, "rest");
	CHECK(WAIT_FOR(SOON, asleep(1))); /* who came first is woken first */
	host_tell_it(&a, "poll");
	/* Before b; on a slow machine it may be idle for too long already. */
	CHECK(WAIT_FOR(SOON, is_idle("web", "web.1") || log_has("it sleeps instance=web.1 ")));
	host_tell_it(&b, "poll");
	EXPECT(&a, "SLEEP 1"); /* idle longer than b, which came last */
	host_tell_it(&a, "rest");
	CHECK(WAIT_FOR(SOON, asleep(2)));
	EXPECT_SILENCE(&b, 1000);
	/* The last one that is awake dies: another one wakes up, without a key. */
	host_end(&b);
	EXPECT(&c, "SLEEP 0");
#else
	EXPECT_SILENCE(&c, 100);
	host_end(&b);
#endif
	host_end(&a);
	host_end(&c);
}

static void an_operator_says_how_many(void)
{
	struct host a = host_start("web", "web.1"), b = host_start("web", "web.2");
	park(&a, "web", "web.1");
	host_tell_it(&b, "poll");
	EXPECT(&b, "SLEEP 1");
	host_tell_it(&b, "rest");
	CHECK(WAIT_FOR(SOON, asleep(1)));
	CHECK(ctl("scale", "web", "3") == 1);
	CHECK(WAIT_FOR(SOON, log_has("2 workers of web are connected")));
	CHECK(ctl("scale", "web", "2") == 0);
	EXPECT(&b, "SLEEP 0");
	host_tell_it(&b, "poll");
	EXPECT_SILENCE(&b, 100);
	CHECK(ctl("scale", "web", "0") == 0);
	EXPECT(&a, "SLEEP 1");
	EXPECT(&b, "SLEEP 1");
	host_tell_it(&a, "rest");
	host_tell_it(&b, "rest");
	CHECK(add("scaled"));
	EXPECT_SILENCE(&a, 200);
	CHECK(state_of("scaled") == SHM_STATE_READY);
	/* It is in the region: another broker keeps to it. */
	broker_kill();
	broker_start();
	CHECK(WAIT_FOR(SOON, watcher_hello()));
	CHECK(status_has("\"scale\":0"));
	struct host *hosts[] = {&a, &b};
	for (size_t i = 0; i < 2; i++) {
		EXPECT(hosts[i], "GONE");
		EXPECT(hosts[i], "CONNECTED");
		host_tell_it(hosts[i], "hello");
		EXPECT(hosts[i], "ACK 0");
		host_tell_it(hosts[i], "poll");
		EXPECT(hosts[i], "SLEEP 1");
		host_tell_it(hosts[i], "rest");
		CHECK(WAIT_FOR(SOON, asleep((unsigned)i + 1))); /* who came first is woken first */
	}
	CHECK(ctl("scale", "web", "auto") == 0);
	EXPECT(&a, "SLEEP 0");
	host_tell_it(&a, "poll");
	EXPECT_GRANT(&a, "shop/scaled");
	/* A busy one that is too many ends its key and gets no other. */
	CHECK(add("next"));
	CHECK(ctl("scale", "web", "0") == 0);
	done(&a);
	EXPECT(&a, "DONE_ACK 0");
	host_tell_it(&a, "poll");
	EXPECT(&a, "SLEEP 1");
	host_tell_it(&a, "rest");
	/* A changed file ends it. */
	rig_file("web.yaml", FILE_OF("web", "  workers: {min: 2, max: 3}\n"));
	kill(broker, SIGHUP);
	CHECK(WAIT_FOR(SOON, log_has("loading the configuration")));
	CHECK(watcher_hello());
	CHECK(status_has("\"scale\":null"));
	host_end(&a);
	host_end(&b);
}

/* ---- maxConcurrentReconciles of reconciled.yaml ---- */

static void under_a_cap_controllers_take_turns(void)
{
	char name[16];
	struct host web[2] = {host_start("web", "web.1"), host_start("web", "web.2")},
		    slow = host_start("slow", "slow.1");
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		CHECK(add(name));
	}
	host_tell_it(&web[0], "poll");
	EXPECT_GRANT(&web[0], "shop/next"); /* of the last test */
	park(&web[1], "web", "web.2");
	CHECK(add_key("slow", "s0", false, WIRE_CAUSE_UPDATED));
	CHECK(add_key("slow", "s1", false, WIRE_CAUSE_UPDATED));
	park(&slow, "slow", "slow.1");
	/* web has more keys and more hosts, yet its DONE does not keep the only slot. */
	unsigned of_slow = 0, of_web = 0;
	struct host *has = &web[0];
	for (int turn = 0; turn < 4; turn++) {
		/* The one that became idle last goes first. */
		struct host *next = turn % 2 == 0 ? &slow : &web[0];
		done(has);
		EXPECT(has, "DONE_ACK 0");
		CHECK_MSG(host_granted(next, SOON), "turn %d: wanted a key, got '%s'", turn, next->text);
		*(next == &slow ? &of_slow : &of_web) += 1;
		park(has, has == &slow ? "slow" : "web",
		     has == &slow     ? "slow.1"
		     : has == &web[0] ? "web.1"
				      : "web.2");
		has = next;
	}
	CHECK(of_slow == 2 && of_web == 2);
	/* Nobody else wants anything: DONE is answered by the next key at once. */
	done(has);
	CHECK(host_granted(has, SOON));
	host_end(&web[0]);
	host_end(&web[1]);
	host_end(&slow);
}

/* ---- names ---- */

static void a_second_worker_of_one_name_is_refused(void)
{
	struct host first = host_start("slow", "slow.1");
	struct host second = host_start_as("slow", digest_of("slow"), "slow.1", true);
	host_tell_it(&second, "hello");
	EXPECT(&second, "REFUSED instance another worker of the name slow.1 is connected (pid");
	host_tell_it(&first, "hello");
	EXPECT(&first, "ACK 0");
	host_end(&first);
	CHECK(WAIT_FOR(SOON, (host_tell_it(&second, "hello"), host_line(&second, 5)) &&
				 strncmp(second.text, "ACK 0", 5) == 0));
	host_end(&second);
}

int main(int argc, char **argv)
{
	queue_rig_init(argc, argv);
	setenv("RECONCILED_TEST_IDLE_MS", "1500", 1);
	rig_file("web.yaml", FILE_OF("web", "  workers: {min: 1, max: 3}\n"));
	rig_file("slow.yaml", FILE_OF("slow", ""));
	broker_start();
	struct err err = {0};
	CHECK_MSG(transport_dial(socket_path, &watcher, &err) == 0, "%s", err.text);
	CHECK(watcher_hello());
	a_second_worker_of_one_name_is_refused();
	only_those_that_are_needed_are_awake();
	an_operator_says_how_many();
	broker_kill();
	rig_file("reconciled.yaml", "maxConcurrentReconciles: 1\n");
	rig_file("web.yaml", FILE_OF("web", ""));
	broker_start();
	CHECK(WAIT_FOR(SOON, watcher_hello()));
	under_a_cap_controllers_take_turns();
	int rc = check_result();
	fflush(stdout);
	exit(rc);
}
