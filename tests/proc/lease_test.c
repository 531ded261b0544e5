/* Who has a key, when brokers, hosts and files go at the worst moment: see queue_rig.h. Every time a key is granted again, its last
 * holder must be dead or must have given it back. */
#include "queue_rig.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLED_SECONDS = 120 }; /* within which the 35 s for writes end, on a slow machine */

static int watch(pid_t pid)
{
	uint64_t start;
	int fd = -1;
	CHECK(process_start_time(pid, &start) == 0 && process_open(pid, start, &fd) == 0);
	return fd;
}

static bool ended(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	return poll(&p, 1, 0) == 1;
}

static void give_back(struct host *h)
{
	host_tell_it(h, "done %llu %llu 0 -1 1", h->slot, h->generation);
	EXPECT(h, "DONE_ACK 0");
}

static void greet_and_poll(struct host *h)
{
	host_tell_it(h, "hello");
	EXPECT(h, "ACK 0");
	host_tell_it(h, "poll");
}

/* The first host of a controller, which has this key. */
static struct host holder_as(const char *controller, const char *name, enum rig_jail jail)
{
	_cleanup_(free_ptr) char *instance = xasprintf("%s.1", controller);
	_cleanup_(free_ptr) char *key = xasprintf("shop/%s", name);
	struct host h = host_start_as(controller, digest_of(controller), instance, jail);
	greet_and_poll(&h);
	CHECK(add_key(controller, name, false, WIRE_CAUSE_UPDATED));
	EXPECT_GRANT(&h, key);
	return h;
}

static struct host holder(const char *controller, const char *name)
{
	return holder_as(controller, name, RIG_JAIL);
}

/* Another broker on the same region; this host notices. */
static void restart_before(struct host *h)
{
	broker_kill();
	EXPECT(h, "GONE");
	broker_start();
	EXPECT(h, "CONNECTED");
	CHECK(watcher_hello());
}

static void bye(struct host *h)
{
	close(h->in);
	close(h->out);
	waitpid(h->pid, NULL, 0);
}

/* ---- death ---- */

static void a_dead_host_whose_jail_lives_keeps_its_key(void)
{
	struct host h = holder_as("web", "orphan", RIG_JAIL_LASTS), other = host_start("web", "web.2");
	host_tell_it(&other, "poll");
	int host = watch(h.pid), jail = watch(h.jail);
	kill(h.pid, SIGKILL);
	/* The broker ends what the host left, and only then is the key anybody else's. */
	EXPECT_GRANT(&other, "shop/orphan");
	CHECK_MSG(ended(host) && ended(jail), "it was granted while host or jail lived");
	give_back(&other);
	close(host);
	close(jail);
	bye(&h);
	host_end(&other);
}

/* ---- lies ---- */

static void another_s_lease_is_not_taken_by_naming_it(void)
{
	struct host h = holder("web", "mine"), liar = host_start("web", "web.2");
	host_tell_it(&liar, "hello %llu %llu", h.slot, h.generation);
	EXPECT(&liar, "ACK 0");
	host_tell_it(&liar, "done %llu %llu %u -1 1", h.slot, h.generation, WIRE_OUTCOME_TERMINAL);
	EXPECT(&liar, "DONE_ACK 1");
	CHECK(state_of("mine") == SHM_STATE_RUNNING);
	/* Nor does it get it by asking. */
	host_tell_it(&liar, "poll");
	EXPECT_SILENCE(&liar, 100);
	give_back(&h);
	host_end(&h);
	host_end(&liar);
}

static void a_lease_that_never_was_is_not_known(void)
{
	static const unsigned long long slots[] = {0, 1, 1023, 4294967295u, 4294967296u, UINT64_MAX};
	struct host h = host_start("web", "web.1");
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		host_tell_it(&h, "hello %llu %llu", slots[i], i % 2 ? UINT64_MAX : 0ull);
		EXPECT(&h, "ACK 0");
		host_tell_it(&h, "done %llu %llu 0 -1 1", slots[i], i % 2 ? UINT64_MAX : 0ull);
		EXPECT(&h, "DONE_ACK 1");
	}
	host_end(&h);
}

static void who_denies_its_lease_loses_it_and_its_result(void)
{
	struct host h = holder("web", "denied"), other = host_start("web", "web.2");
	unsigned long long slot = h.slot, generation = h.generation;
	host_tell_it(&other, "poll");
	host_tell_it(&h, "hello %llu %llu", slot, generation + 1);
	EXPECT(&h, "ACK 0");
	EXPECT_GRANT(&other, "shop/denied");
	host_tell_it(&h, "done %llu %llu 0 -1 1", slot, generation);
	EXPECT(&h, "DONE_ACK 1");
	CHECK(state_of("denied") == SHM_STATE_RUNNING);
	give_back(&other);
	host_end(&h);
	host_end(&other);
}

/* ---- other incarnations ---- */

static void a_result_is_held_across_a_restart_and_counts_once(void)
{
	struct host h = holder("web", "held");
	unsigned long long slot = h.slot, generation = h.generation, before = 0, after = 0;
	host_tell_it(&h, "hello %llu %llu", slot, generation);
	CHECK(host_line(&h, SOON) && sscanf(h.text, "ACK 1 %llu", &before) == 1);
	restart_before(&h);
	/* The greeting still names the broker that is gone. */
	host_tell_it(&h, "hello %llu %llu", slot, generation);
	CHECK(host_line(&h, SOON) && sscanf(h.text, "ACK 1 %llu", &after) == 1 && after > before);
	host_tell_it(&h, "pollat %llu", before);
	EXPECT(&h, "REFUSED incarnation");
	host_tell_it(&h, "done %llu %llu 0 -1 1", slot, generation);
	EXPECT(&h, "DONE_ACK 0");
	host_tell_it(&h, "done %llu %llu 0 -1 1", slot, generation);
	EXPECT(&h, "DONE_ACK 1");
	CHECK(state_of("held") == SHM_STATE_NONE);
	host_end(&h);
}

static void who_was_stopped_across_a_restart_and_wakes_in_time_keeps_its_key(void)
{
	struct host h = holder("slow", "stopped"), other = host_start("slow", "slow.2");
	kill(h.pid, SIGSTOP);
	restart_before(&other);
	greet_and_poll(&other);
	EXPECT_SILENCE(&other, 200);
	kill(h.pid, SIGCONT);
	EXPECT(&h, "GONE");
	EXPECT(&h, "CONNECTED");
	host_tell_it(&h, "hello %llu %llu", h.slot, h.generation);
	EXPECT(&h, "ACK 1");
	give_back(&h);
	EXPECT_SILENCE(&other, 50);
	host_end(&h);
	host_end(&other);
}

/* ---- the region goes, and with it every lease ---- */

static void lose_the_region(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/" SHM_QUEUE_FILE, shm_dir);
	CHECK(unlink(path) == 0);
	broker_kill();
	broker_start();
	CHECK(WAIT_FOR(SOON, log_has("the region of the last broker is lost")));
}

/* A new broker, to which the watcher tells the key again, and another host that wants it. */
static void ask_again(struct host *other, const char *name)
{
	EXPECT(other, "GONE");
	EXPECT(other, "CONNECTED");
	CHECK(watcher_hello() && answer.hello_ack.want_all.len == 2);
	CHECK(add(name));
	greet_and_poll(other);
}

/* Stopped exactly then it cannot hear that its lease is lost: it is killed before anybody else has the key. What becomes of the
 * promise without the waiting is seen with the planted fault. */
static void who_is_stopped_when_the_region_is_lost_is_waited_for(bool planted)
{
	struct host h = holder_as("web", "twice", RIG_JAIL_LASTS), other = host_start("web", "web.2");
	int host = watch(h.pid), jail = watch(h.jail);
	kill(h.pid, SIGSTOP);
	kill(h.jail, SIGSTOP);
	/* Only here: elsewhere nobody is to be killed because this machine is slow. */
	setenv("RECONCILED_TEST_WRITE_TIMEOUT_MS", "1000", 1);
	if (planted)
		setenv("RECONCILED_FAULT", "hold", 1);
	lose_the_region();
	ask_again(&other, "twice");
	CHECK(host_granted(&other, KILLED_SECONDS) && strcmp(other.key, "shop/twice") == 0);
	bool both = !ended(host) || !ended(jail);
	CHECK_MSG(both == planted, planted ? "the planted fault is not noticed" : "a key has two holders");
	CHECK(planted || log_has("killing them: they may have keys"));
	give_back(&other);
	kill(h.pid, SIGKILL);
	kill(h.jail, SIGKILL);
	close(host);
	close(jail);
	bye(&h);
	host_end(&other);
	unsetenv("RECONCILED_TEST_WRITE_TIMEOUT_MS");
	unsetenv("RECONCILED_FAULT");
	broker_kill();
	broker_start();
	CHECK(watcher_hello());
}

/* The broker dies again while it waits: the next one, which has a region, goes on waiting. A host that says what it runs is told to
 * end it, and its next question says that it has. */
static void who_is_told_to_stop_is_waited_for_across_another_restart(void)
{
	struct host h = holder("web", "told"), other = host_start("web", "web.2");
	unsigned long long slot = h.slot, generation = h.generation;
	kill(h.pid, SIGSTOP);
	lose_the_region();
	ask_again(&other, "told");
	EXPECT_SILENCE(&other, 100);
	broker_kill();
	EXPECT(&other, "GONE");
	broker_start();
	CHECK(WAIT_FOR(SOON, log_has("the region of the last broker is lost")));
	kill(h.pid, SIGCONT);
	EXPECT(&other, "CONNECTED");
	CHECK(watcher_hello() && answer.hello_ack.want_all.len == 2);
	greet_and_poll(&other);
	while (host_line(&h, SOON) && strcmp(h.text, "CONNECTED") != 0)
		CHECK(strcmp(h.text, "GONE") == 0);
	host_tell_it(&h, "hello %llu %llu", slot, generation);
	EXPECT(&h, "ACK 0");
	EXPECT_SILENCE(&other, 100);
	host_tell_it(&h, "done %llu %llu 0 -1 1", slot, generation);
	EXPECT(&h, "DONE_ACK 1");
	EXPECT_GRANT(&other, "shop/told");
	CHECK(WAIT_FOR(SOON, log_has("every worker of the last broker was heard")));
	give_back(&other);
	host_end(&h);
	host_end(&other);
}

/* Nobody is waited for who is gone. */
static void the_dead_owe_nothing(void)
{
	struct host h = host_start("web", "web.1"), other = host_start("web", "web.2");
	host_end(&h);
	lose_the_region();
	ask_again(&other, "alone");
	EXPECT_GRANT(&other, "shop/alone");
	CHECK(!log_has("killing them"));
	give_back(&other);
	host_end(&other);
}

static void a_damaged_list_of_workers_is_told_of(void)
{
	struct host h = host_start("web", "web.1");
	_cleanup_(free_ptr) char *region = xasprintf("%s/" SHM_QUEUE_FILE, shm_dir);
	_cleanup_(free_ptr) char *list = xasprintf("%s/queue.hosts", run_dir);
	CHECK(unlink(region) == 0);
	broker_kill();
	FILE *f = fopen(list, "we");
	CHECK(f && fputs("12 34\nabc", f) >= 0 && fclose(f) == 0);
	broker_start();
	CHECK(WAIT_FOR(SOON, log_has("the line \\\"12 34\\\" is damaged")));
	CHECK(WAIT_FOR(SOON, log_has("the region of the last broker is lost")));
	ask_again(&h, "late");
	EXPECT_GRANT(&h, "shop/late");
	give_back(&h);
	host_end(&h);
}

#define CONTROLLER(name, kind, rest)                                                                         \
	"apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: " name "}\nspec:\n"         \
	"  for: {apiVersion: v1, kind: " kind "}\n  reconciler: {exec: {command: [/bin/true]}}\n" rest

int main(int argc, char **argv)
{
	queue_rig_init(argc, argv);
	rig_file("reconciled.yaml", "budgets: {queue: 8Mi}\n");
	rig_file("web.yaml", CONTROLLER("web", "ConfigMap", "  reconciliationTimeout: 300s\n"));
	rig_file("slow.yaml", CONTROLLER("slow", "Secret", "  reconciliationTimeout: 300s\n"));
	broker_start();
	struct err err = {0};
	CHECK_MSG(transport_dial(socket_path, &watcher, &err) == 0, "%s", err.text);
	CHECK(watcher_hello());
	a_dead_host_whose_jail_lives_keeps_its_key();
	another_s_lease_is_not_taken_by_naming_it();
	a_lease_that_never_was_is_not_known();
	who_denies_its_lease_loses_it_and_its_result();
	a_result_is_held_across_a_restart_and_counts_once();
	who_was_stopped_across_a_restart_and_wakes_in_time_keeps_its_key();
	the_dead_owe_nothing();
	who_is_told_to_stop_is_waited_for_across_another_restart();
	who_is_stopped_when_the_region_is_lost_is_waited_for(false);
#ifdef RECONCILED_FAULTS
	who_is_stopped_when_the_region_is_lost_is_waited_for(true);
#endif
	a_damaged_list_of_workers_is_told_of();
	int rc = check_result();
	fflush(stdout);
	exit(rc);
}
