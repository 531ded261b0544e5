#include "clients.h"
#include "program.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SILENCE_S = 120 };

static int failed_to = -1; /* in a client: where its failure is told */

static void tell_failure(void)
{
	if (write(failed_to, "f", 1) != 1)
		_exit(1);
}

void clients_fork(struct clients *cs, uint32_t n, uint32_t keys, uint32_t held, bool tell_each,
		  void (*run)(struct clients *cs, void *ctx), void *ctx)
{
	*cs = (struct clients){.n = n, .keys = keys, .held = held, .tell_each = tell_each};
	BENCH_CHECK(n <= CLIENTS_MOST);
	cs->shared =
	    mmap(NULL, sizeof(*cs->shared) + keys, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	BENCH_CHECK(cs->shared != MAP_FAILED && pipe2(cs->go, O_CLOEXEC) == 0 &&
		    pipe2(cs->said, O_CLOEXEC) == 0);
	pid_t parent = getpid();
	for (cs->self = 0; cs->self < n; cs->self++) {
		cs->pids[cs->self] = fork();
		BENCH_CHECK(cs->pids[cs->self] >= 0);
		if (cs->pids[cs->self])
			continue;
		if (!process_die_with(parent))
			_exit(1);
		close(cs->go[1]);
		close(cs->said[0]);
		failed_to = cs->said[1];
		atexit(tell_failure);
		run(cs, ctx);
		bench_fail("a client ended");
	}
	close(cs->said[1]);
	close(cs->go[0]);
}

static void hear(struct clients *cs, char want)
{
	struct pollfd p = {.fd = cs->said[0], .events = POLLIN};
	char c = 0;
	if (poll(&p, 1, SILENCE_S * 1000) != 1)
		bench_fail("nothing was heard of the clients for %d s", SILENCE_S);
	if (read(cs->said[0], &c, 1) != 1 || c != want)
		bench_fail("a client failed");
}

void clients_await_ready(struct clients *cs)
{
	for (uint32_t i = 0; i < cs->n; i++)
		hear(cs, 'r');
}

void clients_go(struct clients *cs)
{
	char bytes[CLIENTS_MOST] = {0};
	BENCH_CHECK(write(cs->go[1], bytes, cs->n) == (ssize_t)cs->n);
}

void clients_hear(struct clients *cs)
{
	hear(cs, 'd');
}

double clients_measure(struct clients *cs)
{
	int64_t begin = bench_now();
	clients_go(cs);
	hear(cs, 'e');
	for (uint32_t i = 0; i < cs->keys; i++)
		if (!cs->shared->got[i])
			bench_fail("key %u was never granted", i);
	return (double)(cs->shared->end - begin) / 1e9;
}

void clients_end(struct clients *cs)
{
	/* Those that ask for keys are last, and end first: they are to get none of those that others held. */
	for (uint32_t i = cs->n; i-- > 0;)
		kill(cs->pids[i], SIGKILL);
	for (uint32_t i = 0; i < cs->n; i++)
		waitpid(cs->pids[i], NULL, 0);
}

void clients_ready(struct clients *cs)
{
	char c;
	BENCH_CHECK(write(cs->said[1], "r", 1) == 1);
	BENCH_CHECK(read(cs->go[0], &c, 1) == 1);
}

void clients_got(struct clients *cs, struct span key)
{
	cs->shared->got_at = bench_now();
	uint32_t k = cs->keys;
	if (key.len >= BENCH_NAME) {
		k = 0;
		for (const char *at = key.at + key.len - 8; at < key.at + key.len; at++)
			k = k * 10 + (uint32_t)(*at - '0');
	}
	if (k >= cs->keys)
		bench_fail("a key that nobody added: " SPAN_FMT, SPAN_ARG(key));
	if (atomic_exchange(&cs->shared->got[k], 1))
		bench_fail("key %u was granted twice", k);
	if (k < cs->last)
		bench_fail("key %u was granted after key %u", k, cs->last);
	cs->last = k;
}

void clients_done(struct clients *cs)
{
	if (atomic_fetch_add(&cs->shared->done, 1) + 1 == cs->keys - cs->held) {
		cs->shared->end = bench_now();
		if (!cs->tell_each)
			BENCH_CHECK(write(cs->said[1], "e", 1) == 1);
	}
	if (cs->tell_each)
		BENCH_CHECK(write(cs->said[1], "d", 1) == 1);
}

/* ---- programs ---- */

pid_t bench_start(const char *log, char *const *argv)
{
	pid_t parent = getpid(), pid = fork();
	BENCH_CHECK(pid >= 0);
	if (pid)
		return pid;
	int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600), null = open("/dev/null", O_RDONLY);
	if (!process_die_with(parent) || fd < 0 || dup2(null, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		_exit(126);
	execvp(argv[0], argv);
	fprintf(stderr, "bench: %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

void bench_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

double bench_cpu(pid_t pid)
{
	char path[300];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *d = opendir(path);
	double sum = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		double ns = 0;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, e->d_name);
		FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (f && fscanf(f, "%lf", &ns) == 1)
			sum += ns;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return sum;
}
