/* SIGTERM to the broker: no more grants, results are still taken, it ends with the last lease or when its time is over. */
#include "queue_rig.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(const char *drain)
{
	static unsigned starts;
	snprintf(log_path, sizeof(log_path), "%s/drain-%u.log", check_folder(), ++starts);
	broker =
	    check_start(log_path, (const char *[]){"reconciled-queue", "--config-dir", conf_dir,
						   "--runtime-dir", run_dir, "--region-dir", shm_dir,
						   "--log-level", "debug", "--drain-timeout", drain, NULL});
	CHECK(WAIT_FOR(SOON, log_has("listening")));
	CHECK(WAIT_FOR(SOON, watcher_hello()));
}

static void ends_with_success(void)
{
	int status = check_wait(broker, SOON);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

static struct host with_key(const char *name)
{
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	CHECK(add(name));
	char key[64];
	snprintf(key, sizeof(key), "shop/%s", name);
	EXPECT_GRANT(&h, key);
	return h;
}

static void the_last_result_ends_it(void)
{
	start("1h");
	struct host h = with_key("a"), other = host_start("web", "web.2");
	kill(broker, SIGTERM);
	CHECK(WAIT_FOR(SOON, log_has("stopping: no more grants")));
	CHECK(status_has("\"state\":\"stopping\""));
	/* Keys are still taken, and not granted. */
	CHECK(add("b"));
	host_tell_it(&other, "poll");
	EXPECT_SILENCE(&other, 200);
	CHECK(kill(broker, 0) == 0);
	host_tell_it(&h, "done %llu %llu 0 -1 0", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	ends_with_success();
	CHECK(state_of("a") == SHM_STATE_NONE && state_of("b") == SHM_STATE_READY);
	CHECK(!log_has("ending while keys run"));
	host_end(&h);
	host_end(&other);
}

static void a_dead_worker_does_not_hold_it_up(void)
{
	start("1h");
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	EXPECT_GRANT(&h, "shop/b");
	kill(broker, SIGTERM);
	CHECK(WAIT_FOR(SOON, log_has("stopping: no more grants")));
	host_end(&h); /* its jail dies with it */
	ends_with_success();
	CHECK(state_of("b") == SHM_STATE_READY);
}

static void its_time_is_bounded(void)
{
	start("300ms");
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	EXPECT_GRANT(&h, "shop/b");
	kill(broker, SIGTERM);
	ends_with_success();
	CHECK(WAIT_FOR(SOON, log_has("ending while keys run: their leases stay in the region")));
	CHECK(state_of("b") == SHM_STATE_RUNNING);
	/* The next one takes the result. */
	start("1h");
	EXPECT(&h, "GONE");
	EXPECT(&h, "CONNECTED");
	host_tell_it(&h, "hello %llu %llu", h.slot, h.generation);
	EXPECT(&h, "ACK 1");
	/* A second signal ends it at once. */
	kill(broker, SIGTERM);
	CHECK(WAIT_FOR(SOON, log_has("stopping: no more grants")));
	kill(broker, SIGTERM);
	ends_with_success();
	CHECK(WAIT_FOR(SOON, log_has("second signal: ending at once")));
	CHECK(state_of("b") == SHM_STATE_RUNNING);
	host_end(&h);
}

int main(int argc, char **argv)
{
	queue_rig_init(argc, argv);
	rig_file("web.yaml",
		 "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: web}\nspec:\n"
		 "  for: {apiVersion: v1, kind: ConfigMap}\n  reconciler: {exec: {command: [/bin/true]}}\n");
	n_names = 1;
	char path[400];
	snprintf(path, sizeof(path), "%s/usage.log", check_folder());
	pid_t pid = check_start(path, (const char *[]){"reconciled-queue", "--drain-timeout", "soon", NULL});
	int status = check_wait(pid, SOON);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2);
	struct err err = {0};
	broker_start();
	CHECK_MSG(transport_dial(socket_path, &watcher, &err) == 0, "%s", err.text);
	kill(broker, SIGTERM);
	ends_with_success(); /* nothing runs: at once */
	the_last_result_ends_it();
	a_dead_worker_does_not_hold_it_up();
	its_time_is_bounded();
	int rc = check_result();
	fflush(stdout);
	exit(rc);
}
