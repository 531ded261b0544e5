/* reconciled-queue with real processes around it: see queue_rig.h. */
#include "queue_rig.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the tests ---- */

static void grant_and_done(void)
{
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	EXPECT_SILENCE(&h, 50);
	CHECK(add("a"));
	EXPECT_GRANT(&h, "shop/a");
	CHECK(h.attempt == 0 && strcmp(h.last, "Success") == 0);
	CHECK(state_of("a") == SHM_STATE_RUNNING);
	CHECK(status_has("\"running\":\"shop/a\""));
	CHECK(status_has("\"sandbox\":\"all parts\""));
	CHECK(status_has("\"sandbox\":\"without network, pid; the host's network\""));
	CHECK(add("b"));
	unsigned long long slot = h.slot, generation = h.generation;
	host_tell_it(&h, "done %llu %llu %u -1 0", slot, generation, WIRE_OUTCOME_OK);
	EXPECT_GRANT(&h, "shop/b");
	CHECK(state_of("a") == SHM_STATE_NONE);
	/* An answer that got lost is asked for again: the second DONE changes nothing. */
	unsigned long long slot_b = h.slot, generation_b = h.generation;
	host_tell_it(&h, "done %llu %llu %u -1 0", slot_b, generation_b, WIRE_OUTCOME_TRANSIENT);
	EXPECT(&h, "DONE_ACK 0");
	host_tell_it(&h, "done %llu %llu %u -1 1", slot_b, generation_b, WIRE_OUTCOME_OK);
	EXPECT(&h, "DONE_ACK 1");
	/* On a slow machine the 5 ms are over before anybody looks: the log says what it was, and nobody asks for the key
	 * yet. */
	char text[160];
	snprintf(
	    text, sizeof(text),
	    "key=shop/b slot=%llu generation=%llu outcome=Transient state=WAITING wait=backoff delay_ms=5 ",
	    slot_b, generation_b);
	CHECK(WAIT_FOR(SOON, log_has(text)));
	struct queue_key k;
	CHECK(key_of("b", &k) &&
	      ((k.state == SHM_STATE_WAITING && k.wait == SHM_WAIT_BACKOFF) || k.state == SHM_STATE_READY));
	CHECK(k.record.attempt == 1 && strcmp(k.message, "the last line of stderr") == 0 &&
	      strcmp(k.reason, "Reason") == 0);
	CHECK(k.record.outcomes[WIRE_OUTCOME_TRANSIENT] == 1 && k.record.duration_us == 1234);
	/* The backoff is served, then the key comes with its count of failures. */
	host_tell_it(&h, "poll");
	EXPECT_GRANT(&h, "shop/b");
	CHECK(h.attempt == 1 && strcmp(h.last, "Transient") == 0);
	host_tell_it(&h, "done %llu %llu %u -1 1", h.slot, h.generation, WIRE_OUTCOME_OK);
	EXPECT(&h, "DONE_ACK 0");
	CHECK(status_has("\"success\":2,\"error\":1"));
	host_end(&h);
}

static void add_while_running_runs_again(void)
{
	struct host h = host_start("web", "web.1"), other = host_start("web", "web.2");
	host_tell_it(&h, "poll");
	CHECK(add("dirty"));
	EXPECT_GRANT(&h, "shop/dirty");
	host_tell_it(&other, "poll");
	CHECK(add("dirty"));
	EXPECT_SILENCE(&other, 100);
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	EXPECT_GRANT(&other, "shop/dirty");
	host_tell_it(&other, "done %llu %llu 0 -1 1", other.slot, other.generation);
	EXPECT(&other, "DONE_ACK 0");
	host_end(&h);
	host_end(&other);
}

static void a_key_is_back_only_after_host_and_jail_are_dead(void)
{
	struct host h = host_start("web", "web.1"), other = host_start("web", "web.2");
	host_tell_it(&h, "poll");
	CHECK(add("lost"));
	EXPECT_GRANT(&h, "shop/lost");
	host_tell_it(&other, "poll");
	/* The jail first: its host lives and will tell what became of the key. */
	kill(h.jail, SIGKILL);
	EXPECT_SILENCE(&other, 200);
	CHECK(state_of("lost") == SHM_STATE_RUNNING);
	kill(h.pid, SIGKILL);
	EXPECT_GRANT(&other, "shop/lost");
	CHECK(other.attempt == 0);
	CHECK(WAIT_FOR(SOON, log_has("lease ended by proven death")));
	host_tell_it(&other, "done %llu %llu 0 -1 1", other.slot, other.generation);
	EXPECT(&other, "DONE_ACK 0");
	CHECK(status_has("\"WorkerLost\":1"));
	host_end(&h);
	host_end(&other);
}

static void a_live_host_that_lost_its_key_gives_it_back(void)
{
	struct host h = host_start("web", "web.1"), other = host_start("web", "web.2");
	host_tell_it(&h, "poll");
	CHECK(add("forgotten"));
	EXPECT_GRANT(&h, "shop/forgotten");
	unsigned long long slot = h.slot, generation = h.generation;
	host_tell_it(&h, "hello %llu %llu", slot, generation);
	EXPECT(&h, "ACK 1");
	CHECK(state_of("forgotten") == SHM_STATE_RUNNING);
	host_tell_it(&h, "poll");
	EXPECT(&h, "REFUSED no-hello");
	host_tell_it(&h, "hello");
	EXPECT(&h, "ACK 0");
	host_tell_it(&other, "poll");
	EXPECT_GRANT(&other, "shop/forgotten");
	host_tell_it(&h, "hello %llu %llu", slot, generation);
	EXPECT(&h, "ACK 0");
	host_tell_it(&h, "done %llu %llu 0 -1 1", slot, generation);
	EXPECT(&h, "DONE_ACK 1");
	/* Nor does anybody else's lease end by a DONE that only names it. */
	host_tell_it(&h, "done %llu %llu 0 -1 1", other.slot, other.generation);
	EXPECT(&h, "DONE_ACK 1");
	CHECK(state_of("forgotten") == SHM_STATE_RUNNING);
	host_tell_it(&other, "done %llu %llu 0 -1 1", other.slot, other.generation);
	EXPECT(&other, "DONE_ACK 0");
	host_end(&h);
	host_end(&other);
}

static void a_killed_broker_keeps_leases_backoff_and_quarantine(void)
{
	struct host h = host_start("web", "web.1"), dies = host_start("web", "web.2"), third;
	host_tell_it(&h, "poll");
	CHECK(add("backoff"));
	EXPECT_GRANT(&h, "shop/backoff");
	host_tell_it(&h, "done %llu %llu %u 3600000 1", h.slot, h.generation, WIRE_OUTCOME_TRANSIENT);
	EXPECT(&h, "DONE_ACK 0");
	for (int i = 0; i < 2; i++) {
		host_tell_it(&h, "poll");
		CHECK(i > 0 || add("crashes"));
		EXPECT_GRANT(&h, "shop/crashes");
		host_tell_it(&h, "done %llu %llu %u -1 1", h.slot, h.generation, WIRE_OUTCOME_CRASHED);
		EXPECT(&h, "DONE_ACK 0");
	}
	CHECK(state_of("crashes") == SHM_STATE_QUARANTINED);
	host_tell_it(&h, "poll");
	CHECK(add("held"));
	EXPECT_GRANT(&h, "shop/held");
	host_tell_it(&dies, "poll");
	CHECK(add("orphan"));
	EXPECT_GRANT(&dies, "shop/orphan");
	CHECK(add("ready"));
	struct queue_key before, after;
	CHECK(key_of("backoff", &before));

	broker_kill();
	EXPECT(&h, "GONE");
	CHECK(key_of("held", &after) && after.state == SHM_STATE_RUNNING);
	kill(dies.pid, SIGKILL);
	host_end(&dies);
	broker_start();
	EXPECT(&h, "CONNECTED");
	CHECK(key_of("backoff", &after) && memcmp(&before, &after, sizeof(before)) == 0);
	CHECK(state_of("crashes") == SHM_STATE_QUARANTINED);
	CHECK(state_of("held") == SHM_STATE_RUNNING);
	CHECK(WAIT_FOR(SOON, state_of("orphan") == SHM_STATE_READY));

	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "REFUSED no-hello");
	host_tell_it(&h, "hello %llu %llu", h.slot, h.generation);
	EXPECT(&h, "ACK 1");
	CHECK(watcher_hello());
	CHECK(answer.hello_ack.want_all.len == 0);
	host_tell_it(&h, "done %llu %llu 0 -1 0", h.slot, h.generation);
	EXPECT_GRANT(&h, "shop/ready");
	third = host_start("web", "web.3");
	host_tell_it(&third, "poll");
	EXPECT_GRANT(&third, "shop/orphan");
	host_tell_it(&h, "pollat 1");
	EXPECT(&h, "REFUSED incarnation");

	/* An event about something else leaves it parked; its own change does not. */
	CHECK(add("crashes") && state_of("crashes") == SHM_STATE_QUARANTINED);
	CHECK(add_key("web", "crashes", true, WIRE_CAUSE_UPDATED) && state_of("crashes") == SHM_STATE_READY);
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	host_tell_it(&third, "done %llu %llu 0 -1 0", third.slot, third.generation);
	EXPECT_GRANT(&third, "shop/crashes");
	host_tell_it(&third, "done %llu %llu 0 -1 1", third.slot, third.generation);
	EXPECT(&third, "DONE_ACK 0");
	host_end(&h);
	host_end(&third);
	CHECK(add_key("web", "backoff", false, WIRE_CAUSE_OPERATOR));
	struct host last = host_start("web", "web.1");
	host_tell_it(&last, "poll");
	EXPECT_GRANT(&last, "shop/backoff");
	host_tell_it(&last, "done %llu %llu 0 -1 1", last.slot, last.generation);
	EXPECT(&last, "DONE_ACK 0");
	host_end(&last);
}

/* The number after NAME= in the first log line that has `text`. */
static long long logged(const char *text, const char *name)
{
	_cleanup_(free_ptr) char *log = log_text();
	char *at = strstr(log, text);
	if (!at)
		return -1;
	char *end = strchr(at, '\n');
	if (end)
		*end = '\0';
	at = strstr(at, name);
	return at ? atoll(at + strlen(name)) : -1;
}

static void a_frozen_host_is_killed_at_the_end_of_its_lease(void)
{
	/* Only here: elsewhere nobody is to be killed because this machine is slow. */
	setenv("RECONCILED_TEST_WRITE_TIMEOUT_MS", "2000", 1);
	broker_kill();
	broker_start();
	CHECK(watcher_hello());
	struct host h = host_start("web", "web.1"), other = host_start("web", "web.2");
	host_tell_it(&h, "poll");
	CHECK(add("frozen"));
	EXPECT_GRANT(&h, "shop/frozen");
	broker_kill();
	kill(h.pid, SIGSTOP);
	kill(h.jail, SIGSTOP);
	broker_start();
	EXPECT(&other, "GONE");
	EXPECT(&other, "CONNECTED");
	CHECK(watcher_hello());
	host_tell_it(&other, "hello");
	EXPECT(&other, "ACK 0");
	host_tell_it(&other, "poll");
	/* reconciliationTimeout 1 s, and 35 s more, or 2 s where the build plants faults. */
	CHECK(host_granted(&other, 120) && strcmp(other.key, "shop/frozen") == 0);
	int64_t now = clock_boottime_ns();
	CHECK(now >= h.lease_end);
	long long killed = logged("lease over, killing", "now_ns="),
		  dead = logged("lease ended by proven death", "dead_ns="),
		  end = logged("lease ended by proven death", "lease_end_ns=");
	CHECK_MSG(end == h.lease_end, "%lld, the host was told %lld", end, h.lease_end);
	CHECK_MSG(killed >= end && dead >= killed && dead <= now,
		  "end %lld, killed %lld, dead %lld, granted again before %lld", end, killed, dead,
		  (long long)now);
	CHECK(WAIT_FOR(SOON, waitpid(h.pid, NULL, WNOHANG) == h.pid));
	host_tell_it(&other, "done %llu %llu 0 -1 1", other.slot, other.generation);
	EXPECT(&other, "DONE_ACK 0");
	close(h.in);
	close(h.out);
	host_end(&other);
	unsetenv("RECONCILED_TEST_WRITE_TIMEOUT_MS");
	broker_kill();
	broker_start();
	CHECK(watcher_hello());
}

static void another_file_gets_no_keys(void)
{
	struct host h = host_start_as("web", "0123456789", "web.1", RIG_JAIL);
	host_tell_it(&h, "hello");
	EXPECT(&h, "REFUSED digest");
	host_tell_it(&h, "poll");
	EXPECT(&h, "REFUSED no-hello");
	CHECK(status_has("another version of controller web"));
	host_end(&h);

	/* The watcher changes its mind: whoever waits with the old file is sent away; a result of it is still
	 * taken. */
	struct host old = host_start("web", "web.1"), runs = host_start("web", "web.2");
	host_tell_it(&runs, "poll");
	CHECK(add("mid"));
	EXPECT_GRANT(&runs, "shop/mid");
	host_tell_it(&old, "poll");
	EXPECT_SILENCE(&old, 50);
	CHECK(watcher_hello_as("abcdef"));
	EXPECT(&old, "REFUSED digest");
	CHECK(status_has("another version of this controller's file than the broker"));
	CHECK(add("next"));
	host_tell_it(&runs, "done %llu %llu 0 -1 0", runs.slot, runs.generation);
	EXPECT(&runs, "DONE_ACK 0");
	host_tell_it(&runs, "poll");
	EXPECT(&runs, "REFUSED digest");
	CHECK(watcher_hello());
	CHECK(!status_has("another version of this controller's file than the broker"));
	host_tell_it(&runs, "poll");
	EXPECT_GRANT(&runs, "shop/next");
	host_tell_it(&runs, "done %llu %llu 0 -1 1", runs.slot, runs.generation);
	EXPECT(&runs, "DONE_ACK 0");
	host_end(&old);
	host_end(&runs);
}

static void without_a_jail_there_is_no_grant(void)
{
	struct host h = host_start_as("web", digest_of("web"), "web.1", RIG_NO_JAIL);
	host_tell_it(&h, "hello");
	EXPECT(&h, "ACK 0");
	host_tell_it(&h, "poll");
	CHECK(add("nojail"));
	EXPECT_SILENCE(&h, 100);
	struct host other = host_start("web", "web.2");
	host_tell_it(&other, "poll");
	EXPECT_GRANT(&other, "shop/nojail");
	host_tell_it(&other, "done %llu %llu 0 -1 1", other.slot, other.generation);
	EXPECT(&other, "DONE_ACK 0");
	host_end(&h);
	host_end(&other);
}

static void a_poll_of_an_earlier_connection_gets_no_key(void)
{
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	host_tell_it(&h, "again");
	EXPECT(&h, "CONNECTED");
	host_tell_it(&h, "hello");
	EXPECT(&h, "ACK 0");
	CHECK(add("again")); /* which the first POLL must not get */
	host_tell_it(&h, "poll");
	EXPECT_GRANT(&h, "shop/again");
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	host_end(&h);
}

static void a_program_that_cannot_start_pauses_its_controller(void)
{
	struct host h = host_start("slow", "slow.1");
	host_tell_it(&h, "poll");
	CHECK(add_key("slow", "x", false, WIRE_CAUSE_CREATED));
	EXPECT_GRANT(&h, "shop/x");
	int64_t before = clock_boottime_ns();
	host_tell_it(&h, "done %llu %llu %u -1 0", h.slot, h.generation, WIRE_OUTCOME_START_FAILED);
	EXPECT(&h, "DONE_ACK 0");
	CHECK(status_has("its program cannot be started: the last line of stderr"));
	host_tell_it(&h, "poll");
	EXPECT_GRANT(&h, "shop/x");
	CHECK(h.attempt == 0 && clock_boottime_ns() - before >= NS_PER_S);
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	CHECK(!status_has("its program cannot be started"));
	host_end(&h);
}

static void nonsense_is_refused_and_hurts_nobody(void)
{
	static const char *const nonsense[] = {"00", "93",	     "dcffff", "ddffffffff", "9301",
					       "c1", "9f0102030405", "920105", "81a161a162", "91cc63"};
	struct host h = host_start("web", "web.1");
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		host_tell_it(&h, "raw %s", nonsense[i]);
		EXPECT(&h, "REFUSED malformed");
	}
	host_tell_it(&h, "done 0 1 99 -1 1");
	EXPECT(&h, "REFUSED malformed");
	host_tell_it(&h, "done 18446744073709551615 18446744073709551615 0 -1 1");
	EXPECT(&h, "DONE_ACK 1");
	CHECK(call(watcher, &(struct wire){.type = WIRE_TYPE_POLL}) && answer.type == WIRE_TYPE_REFUSED);
	CHECK(call(watcher, &(struct wire){.type = WIRE_TYPE_GRANT}) && answer.type == WIRE_TYPE_REFUSED);
	CHECK(!add_key("nobody", "a", false, 0) && answer.type == WIRE_TYPE_REFUSED &&
	      answer.refused.code == WIRE_REFUSAL_UNKNOWN_CONTROLLER);
	CHECK(!add_key("web", "", false, 0) && answer.type == WIRE_TYPE_REFUSED);
	/* Whoever connects and goes away, also before the handshake. */
	for (int i = 0; i < 50; i++) {
		struct sockaddr_un a = {.sun_family = AF_UNIX};
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		memcpy(a.sun_path, socket_path, MIN(strlen(socket_path), sizeof(a.sun_path) - 1));
		CHECK(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
		if (i % 2)
			CHECK(write(fd, "GET / HTTP/1.1\r\n\r\n", 18) == 18);
		close(fd);
	}
	host_tell_it(&h, "poll");
	CHECK(add("fine"));
	EXPECT_GRANT(&h, "shop/fine");
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	host_end(&h);
}

static void all_keys_are_wanted_until_they_are_in(void)
{
	CHECK(watcher_hello() && answer.hello_ack.want_all.len == 2);
	CHECK(watcher_hello() && answer.hello_ack.want_all.len == 2);
	CHECK(call(watcher, &(struct wire){.type = WIRE_TYPE_SWEPT, .swept = {span_of("slow")}}) &&
	      answer.type == WIRE_TYPE_DONE_ACK);
	CHECK(watcher_hello() && answer.hello_ack.want_all.len == 1 &&
	      span_is(answer.hello_ack.want_all.at[0].controller, "web"));
	CHECK(call(watcher, &(struct wire){.type = WIRE_TYPE_SWEPT, .swept = {span_of("web")}}) &&
	      answer.type == WIRE_TYPE_DONE_ACK);
	CHECK(watcher_hello() && answer.hello_ack.want_all.len == 0);
}

#define WEB(rest)                                                                                            \
	"apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: web}\nspec:\n"              \
	"  for: {apiVersion: v1, kind: ConfigMap}\n  reconciler: {exec: {command: [/bin/true]}}\n"           \
	"  reconciliationTimeout: 1s\n" rest
#define WEB_FILE WEB("  quarantine: {crashes: 2}\n")
#define LATE_FILE                                                                                            \
	"apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: late}\nspec:\n"             \
	"  for: {apiVersion: v1, kind: Secret}\n  reconciler: {exec: {command: [/bin/true]}}\n"

static unsigned loads(void)
{
	_cleanup_(free_ptr) char *log = log_text();
	unsigned n = 0;
	for (const char *at = log; (at = strstr(at, "loading the configuration")); at++)
		n++;
	return n;
}

static void reload(void)
{
	unsigned before = loads();
	kill(broker, SIGHUP);
	CHECK(WAIT_FOR(SOON, loads() > before));
}

/* Its file allows one crash. */
static void park(struct host *h, const char *name)
{
	_cleanup_(free_ptr) char *key = xasprintf("shop/%s", name);
	CHECK(add(name));
	for (int i = 0; i < 2; i++) {
		host_tell_it(h, "poll");
		EXPECT_GRANT(h, key);
		host_tell_it(h, "done %llu %llu %u -1 1", h->slot, h->generation, WIRE_OUTCOME_CRASHED);
		EXPECT(h, "DONE_ACK 0");
	}
	CHECK(state_of(name) == SHM_STATE_QUARANTINED);
	host_end(h);
}

static void files_change_while_it_runs(void)
{
	struct host first = host_start("web", "web.1");
	park(&first, "parked");
	/* A new file: the broker finds it by itself when the watcher names it. */
	rig_file("late.yaml", LATE_FILE);
	names[n_names++] = "late";
	CHECK(watcher_hello());
	CHECK(answer.hello_ack.want_all.len == 1 &&
	      span_is(answer.hello_ack.want_all.at[0].controller, "late"));
	CHECK(add_key("late", "x", false, WIRE_CAUSE_INITIAL));
	CHECK(status_has("\"name\":\"late\""));
	CHECK(state_of("parked") == SHM_STATE_QUARANTINED);

	/* A broken one: nothing that runs is stopped, and nothing is dropped. */
	_cleanup_(free_ptr) char *digest = xstrdup(digest_of("web"));
	rig_file("web.yaml", "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: "
			     "web}\nspec: {nonsense: 1}\n");
	reload();
	CHECK(WAIT_FOR(SOON, log_has("nonsense")));
	CHECK(state_of("parked") == SHM_STATE_QUARANTINED);
	CHECK(watcher_hello_as(digest)); /* who goes on as it was agrees with who goes on as it was */
	CHECK(status_has("nonsense") && !status_has("another version of this controller's file"));
	struct host h = host_start_as("web", digest, "web.1", RIG_JAIL);
	host_tell_it(&h, "hello");
	EXPECT(&h, "ACK 0");
	CHECK(add("still"));
	host_tell_it(&h, "poll");
	EXPECT_GRANT(&h, "shop/still");
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	host_end(&h);

	/* Nor does a broker that starts while it is broken stop it: it has what the file said. */
	CHECK(status_has("it goes on as it was"));
	broker_kill();
	broker_start();
	CHECK(status_has("nonsense") && status_has("it goes on as it was"));
	CHECK(watcher_hello_as(digest));
	CHECK(!status_has("another version of this controller's file"));
	h = host_start_as("web", digest, "web.1", RIG_JAIL);
	host_tell_it(&h, "hello");
	EXPECT(&h, "ACK 0");
	park(&h, "later");

	/* Repaired, and another: what was parked by the old one is tried again. */
	rig_file("web.yaml", WEB("  quarantine: {crashes: 3}\n"));
	CHECK(watcher_hello());
	CHECK(state_of("parked") == SHM_STATE_READY && !status_has("it goes on as it was"));

	/* One that is gone takes its keys along, and who waits for them is told. */
	struct host late = host_start("late", "late.1");
	host_tell_it(&late, "poll");
	EXPECT_GRANT(&late, "shop/x");
	host_tell_it(&late, "done %llu %llu 0 3600000 1", late.slot, late.generation);
	EXPECT(&late, "DONE_ACK 0");
	host_tell_it(&late, "poll");
	EXPECT_SILENCE(&late, 50);
	char path[400];
	snprintf(path, sizeof(path), "%s/late.yaml", conf_dir);
	CHECK(unlink(path) == 0);
	reload();
	EXPECT(&late, "REFUSED unknown-controller");
	CHECK(!status_has("\"name\":\"late\""));
	CHECK(!add_key("late", "x", false, WIRE_CAUSE_INITIAL) && answer.type == WIRE_TYPE_REFUSED);
	/* It comes back without the watcher having noticed anything: its keys must come back too. */
	rig_file("late.yaml", LATE_FILE);
	reload();
	CHECK(call(watcher, &(struct wire){.type = WIRE_TYPE_PROGRESS}));
	CHECK(answer.type == WIRE_TYPE_AWAIT && answer.await.hello && !answer.await.places.len);
	CHECK(watcher_hello() && answer.hello_ack.want_all.len == 1);
	host_tell_it(&late, "hello");
	EXPECT(&late, "ACK 0");
	host_end(&late);
	CHECK(unlink(path) == 0);
	n_names--;
	reload();
	rig_file("web.yaml", WEB_FILE);
	CHECK(watcher_hello());
}

static void a_damaged_region_is_thrown_away(void)
{
	CHECK(add("gone"));
	broker_kill();
	char path[400];
	snprintf(path, sizeof(path), "%s/queue.shm", shm_dir);
	int fd = open(path, O_RDWR);
	CHECK(pwrite(fd, "\xff", 1, SHM_DIRECTORY_AT + 2) == 1);
	close(fd);
	broker_start();
	CHECK(WAIT_FOR(SOON, log_has("cannot be trusted")));
	CHECK(watcher_hello() && answer.hello_ack.want_all.len == 2);
	CHECK(state_of("gone") == SHM_STATE_NONE);
}

static void a_full_region_refuses_and_says_so(void)
{
	struct wire_add_key keys[1024];
	static char texts[1024][200];
	uint32_t accepted = 0, sent = 0;
	for (int batch = 0; batch < 200 && accepted == sent; batch++) {
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
			snprintf(texts[i], sizeof(texts[i]),
				 "a-name-that-is-long-enough-to-need-a-cell-of-text-beside-its-slot-%0100zu",
				 (size_t)batch * ARRAY_SIZE(keys) + i);
			keys[i] = (struct wire_add_key){
			    .namespace = span_of("shop"), .name = span_of(texts[i]), .priority = -100};
		}
		if (!call(watcher, &(struct wire){.type = WIRE_TYPE_ADD,
						  .add = {span_of("slow"), {keys, ARRAY_SIZE(keys)}}}))
			break;
		accepted += answer.add_ack.accepted;
		sent += ARRAY_SIZE(keys);
	}
	CHECK_MSG(accepted < sent && accepted > 5000, "%u of %u", accepted, sent);
	CHECK(memmem(answer.add_ack.message.at, answer.add_ack.message.len, "budgets.queue", 13));
	CHECK(status_has("the queue is full"));
	CHECK(WAIT_FOR(SOON, log_has("the region is full")));
	struct stat st;
	char path[400];
	snprintf(path, sizeof(path), "%s/queue.shm", shm_dir);
	CHECK(stat(path, &st) == 0 && st.st_size <= 8 << 20);
	/* It still works, and it comes back full but whole. */
	struct host h = host_start("slow", "slow.1");
	host_tell_it(&h, "poll");
	CHECK(host_granted(&h, SOON));
	host_tell_it(&h, "done %llu %llu %u -1 0", h.slot, h.generation, WIRE_OUTCOME_TRANSIENT);
	CHECK(host_granted(&h, SOON));
	host_end(&h);
	broker_kill();
	broker_start();
	CHECK(!log_has("cannot be trusted"));
	CHECK(watcher_hello());
}

static void it_stops_when_told_and_a_second_one_is_refused(void)
{
	char path[400];
	snprintf(path, sizeof(path), "%s/second.log", check_folder());
	pid_t second =
	    check_start(path, (const char *[]){"reconciled-queue", "--config-dir", conf_dir, "--runtime-dir",
					       run_dir, "--region-dir", shm_dir, NULL});
	int status = check_wait(second, SOON);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	_cleanup_(free_ptr) char *text = check_read(path);
	char pid[24];
	snprintf(pid, sizeof(pid), "%d", (int)broker);
	CHECK_MSG(strstr(text, pid), "it does not say who runs: %s", text);
	CHECK(status_has("incarnation"));
	kill(broker, SIGTERM);
	status = check_wait(broker, SOON);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(access(socket_path, F_OK) < 0);
}

static void wrong_configuration_is_78(void)
{
	char path[400];
	snprintf(path, sizeof(path), "%s/config.log", check_folder());
	pid_t pid =
	    check_start(path, (const char *[]){"reconciled-queue", "--config-dir", "/does/not/exist",
					       "--runtime-dir", run_dir, "--region-dir", shm_dir, NULL});
	int status = check_wait(pid, SOON);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 78);
	_cleanup_(free_ptr) char *text = check_read(path);
	CHECK(strstr(text, "/does/not/exist"));
	pid = check_start(path, (const char *[]){"reconciled-queue", "--no-such-option", NULL});
	status = check_wait(pid, SOON);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

int main(int argc, char **argv)
{
	queue_rig_init(argc, argv);
	rig_file("reconciled.yaml", "budgets: {queue: 8Mi}\n");
	rig_file("web.yaml", WEB_FILE);
	rig_file("slow.yaml",
		 "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: slow}\nspec:\n"
		 "  for: {apiVersion: v1, kind: Secret}\n  reconciler: {exec: {command: [/bin/true]}, "
		 "network: host, "
		 "sandbox: {without: [network, pid]}}\n");
	wrong_configuration_is_78();
	broker_start();
	struct err err = {0};
	CHECK_MSG(transport_dial(socket_path, &watcher, &err) == 0, "%s", err.text);
	all_keys_are_wanted_until_they_are_in();
	grant_and_done();
	add_while_running_runs_again();
	a_key_is_back_only_after_host_and_jail_are_dead();
	a_live_host_that_lost_its_key_gives_it_back();
	a_killed_broker_keeps_leases_backoff_and_quarantine();
	a_frozen_host_is_killed_at_the_end_of_its_lease();
	another_file_gets_no_keys();
	without_a_jail_there_is_no_grant();
	a_poll_of_an_earlier_connection_gets_no_key();
	a_program_that_cannot_start_pauses_its_controller();
	nonsense_is_refused_and_hurts_nobody();
	files_change_while_it_runs();
	a_damaged_region_is_thrown_away();
	a_full_region_refuses_and_says_so();
	it_stops_when_told_and_a_second_one_is_refused();
	int rc = check_result();
	fflush(stdout);
	exit(rc);
}
