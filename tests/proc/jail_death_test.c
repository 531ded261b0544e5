/* Whatever of host, launcher and init is killed, nothing of the jail is left. As root, then as an ordinary
 * user. */
#include "jail_run.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTS = 50, SLEEPERS = 20 };
static char marker[64]; /* in the command line of everything that a host of ours starts */

/* A host in a process of its own: a jail with programs that ignore what can be ignored, in sessions of their
 * own. Prints the pids of launcher and init once all run. */
static int hold(const char *mark)
{
	char script[600];
	struct jail_event e;
	int out[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char hidden[100];
	snprintf(hidden, sizeof hidden, "/%s", mark); /* not there; it puts the mark on launcher and init */
	struct jail *j = jail_up(
	    &(struct jail_options){.processes = 4 * SLEEPERS, .hidden = (const char *const[]){hidden, NULL}});
	if (!j || pipe2(out, O_CLOEXEC) < 0)
		return 1;
	snprintf(script, sizeof script,
		 "trap '' TERM INT HUP; for i in {1..%d}; do setsid sh -c 'trap \"\" TERM INT HUP; echo; "
		 "sleep 600; :' $0 & done; wait",
		 SLEEPERS);
	jail_begin(j, (const char *const[]){"bash", "-c", script, mark, NULL}, (int[]){null, out[1], null});
	char c;
	for (int i = 0; i < SLEEPERS; i++)
		if (read(out[0], &c, 1) != 1)
			return 1;
	printf("%d %d\n", jail_launcher_pid(j), jail_init_pid(j));
	fflush(stdout);
	while (jail_await(j, 600, &e) && e.type != JAIL_EVENT_GONE)
		;
	jail_free(j);
	return 0;
}

struct held {
	pid_t host, launcher, init;
	int init_fd;
};

/* prefix: what the host is started with, NULL-terminated. */
static struct held start_host(const char *const *prefix)
{
	struct held h = {0};
	const char *argv[16];
	size_t n = 0;
	char log[300];
	snprintf(log, sizeof log, "%s/hold", check_folder());
	unlink(log);
	for (; prefix && *prefix; prefix++)
		argv[n++] = *prefix;
	argv[n++] = own_copy();
	argv[n++] = "hold";
	argv[n++] = marker;
	argv[n] = NULL;
	h.host = check_start(log, argv);
	CHECK(WAIT_FOR(SOON, ({
			       _cleanup_(free_ptr) char *text = check_read(log);
			       sscanf(text, "%d %d", &h.launcher, &h.init) == 2;
		       })));
	h.init_fd = h.init > 0 ? (int)syscall(SYS_pidfd_open, h.init, 0) : -1;
	CHECK_MSG(h.init_fd >= 0, "no init");
	return h;
}

static void dies(const char *what, const char *const *prefix, bool stop_init,
		 pid_t (*victim)(const struct held *))
{
	struct held h = start_host(prefix);
	if (h.init_fd < 0)
		return;
	CHECK_MSG(processes_with(marker) > SLEEPERS, "%zu run", processes_with(marker));
	if (stop_init)
		kill(h.init, SIGSTOP);
	int64_t start = clock_boottime_ns();
	kill(victim(&h), SIGKILL);
	struct pollfd p = {h.init_fd, POLLIN, 0};
	CHECK_MSG(poll(&p, 1, SOON * 1000) == 1, "kill -9 of %s: init lives on", what);
	double ms = (double)(clock_boottime_ns() - start) / NS_PER_MS;
	if (victim(&h) != h.host) { /* then the host notices, and ends */
		int status = check_wait(h.host, SOON);
		CHECK_MSG(status == 0, "kill -9 of %s: the host's end: %d", what, status);
	} else {
		check_wait(h.host, SOON);
	}
	/* The pidfd says: all of the namespace is gone, there is nothing to wait for. The launcher is not in
	 * it, and ends after init. */
	size_t left = processes_with(marker);
	CHECK_MSG(left <= 1, "kill -9 of %s: %zu are left", what, left);
	CHECK_MSG(WAIT_FOR(SOON, processes_with(marker) == 0), "kill -9 of %s: the launcher is left", what);
	printf("as %u: kill -9 of %s: everything is gone after %.1f ms\n", getuid(), what, ms);
	close(h.init_fd);
}

static pid_t the_host(const struct held *h)
{
	return h->host;
}
static pid_t the_launcher(const struct held *h)
{
	return h->launcher;
}
static pid_t the_init(const struct held *h)
{
	return h->init;
}

/* Hosts that die while their jail starts: wherever that is, nothing stays. */
static void killed_while_starting(void)
{
	size_t running = 0; /* host, launcher and init are three */
	for (int i = 0; i < STARTS; i++) {
		pid_t host =
		    check_start("/dev/null", (const char *const[]){own_copy(), "hold", marker, NULL});
		usleep((useconds_t)random_below(12000)); /* the moment, not a wait */
		running += processes_with(marker) > 3;
		kill(host, SIGKILL);
		check_wait(host, SOON);
	}
	CHECK(WAIT_FOR(SOON, processes_with(marker) == 0));
	CHECK_MSG(processes_with(marker) == 0, "%zu are left", processes_with(marker));
	printf("as %u: %d hosts were killed while starting, %zu of them with a program running\n", getuid(),
	       STARTS, running);
}

/* The regular end waits until all is gone. */
static void freed(void)
{
	struct jail *j = jail_up(&(struct jail_options){.processes = 64});
	struct jail_event e;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (!j)
		return;
	jail_begin(j, (const char *const[]){"sh", "-c", "sleep 600; :", marker, NULL},
		   (int[]){null, null, null});
	CHECK(jail_await(j, 30, &e) && e.type == JAIL_EVENT_STARTED);
	CHECK(WAIT_FOR(SOON, processes_with(marker) >=
				 1)); /* exec lets its parent go before the arguments are in place */
	jail_free(j);
	CHECK(processes_with(marker) == 0);
	close(null);
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "hold") == 0)
		return hold(argv[2]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(marker, sizeof marker, "jail-death-%d.", getpid());
	own_copy();
	freed();
	dies("the host", NULL, false, the_host);
	dies("the host of a stopped init", NULL, true, the_host);
	dies("the launcher", NULL, false, the_launcher);
	dies("the launcher of a stopped init", NULL, true, the_launcher);
	dies("init", NULL, false, the_init);
	if (getuid() == 0) /* its parent-death signal is lost: it may not signal another user's process */
		dies("a root host without CAP_KILL",
		     (const char *const[]){"setpriv", "--bounding-set", "-kill", "--inh-caps=-all", NULL},
		     false, the_host);
	killed_while_starting();
	if (getuid() == 0)
		CHECK(again_as_user("again"));
	return check_result();
}
