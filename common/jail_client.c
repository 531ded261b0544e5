#include "jail_client.h"
#include "jail.h"
#include "program.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 512, FREE_WAIT_MS = 5000 };
#define START_TIMEOUT_NS (10 * NS_PER_S)

enum stage { JAIL_LAUNCHED, JAIL_GETTING_READY, JAIL_STANDS };

struct jail {
	enum stage stage;
	int64_t start_end_ns;
	int start_error; /* of reading init's start time */
	int sock, pidfd;
	pid_t launcher, init;
	uint64_t init_start;
	bool busy, gone;
	char why[1024]; /* the last words of a jail that went */
	struct jail_msg msg;
};

int jail_fd(const struct jail *j)
{
	return j->sock;
}
pid_t jail_init_pid(const struct jail *j)
{
	return j->init;
}
uint64_t jail_init_start_time(const struct jail *j)
{
	return j->init_start;
}
pid_t jail_launcher_pid(const struct jail *j)
{
	return j->launcher;
}
bool jail_busy(const struct jail *j)
{
	return j->busy;
}

/* ---- the command line ---- */

struct args {
	char *at[ARGS_MAX + 1];
	size_t count;
	bool full;
};

static void args_done(struct args *a)
{
	for (size_t i = 0; i < a->count; i++)
		free(a->at[i]);
}

static void add(struct args *a, char *text)
{
	if (a->count < ARGS_MAX) {
		a->at[a->count++] = text;
		return;
	}
	a->full = true;
	free(text);
}

static void add_list(struct args *a, const char *option, const char *const *values)
{
	for (; values && *values; values++)
		add(a, xasprintf("--%s=%s", option, *values));
}

static void add_number(struct args *a, const char *option, uint64_t value)
{
	if (value)
		add(a, xasprintf("--%s=%llu", option, (unsigned long long)value));
}

static int options_to_args(const struct jail_options *o, struct args *a, struct err *err)
{
	add(a, xstrdup("reconciled-jail"));
	if (o->work)
		add(a, xasprintf("--work=%s", o->work));
	add_list(a, "ro", o->read_only);
	add_list(a, "ro", o->given);
	add_list(a, "rw", o->read_write);
	add_list(a, "mask", o->hidden);
	add_list(a, "without", o->without);
	if (o->network_host)
		add(a, xstrdup("--network-host"));
	add_number(a, "cpu", o->cpu_s);
	add_number(a, "files", o->files);
	add_number(a, "processes", o->processes);
	add_number(a, "data", o->data_bytes);
	if (a->full)
		return err_set(err, -EINVAL,
			       "jail: more than %d paths and options; name folders instead of single files",
			       ARGS_MAX);
	return 0;
}

/* What the jail's own two processes get of our environment: nothing that could be a secret. */
static void jail_environment(char *ret[8])
{
	static const char *const kept[] = {"PATH", "RECONCILED_FAULT", "ASAN_OPTIONS", "UBSAN_OPTIONS"};
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		const char *value = getenv(kept[i]);
		if (value)
			ret[n++] = xasprintf("%s=%s", kept[i], value);
	}
	ret[n] = NULL;
}

/* ---- start and end ---- */

static int launch(struct jail *j, struct args *a, int theirs, struct err *err)
{
	_cleanup_(free_ptr) char *path = program_beside("reconciled-jail");
	char *env[8];
	posix_spawnattr_t attr;
	posix_spawn_file_actions_t files;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawn_file_actions_init(&files);
	/* The socket first: its number may be 0 or 1 here, if somebody started us with those closed. */
	posix_spawn_file_actions_adddup2(&files, theirs, JAIL_CONTROL);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
	jail_environment(env);
	int r = path ? posix_spawn(&j->launcher, path, &files, &attr, a->at, env) : ENOENT;
	for (char **e = env; *e; e++)
		free(*e);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	if (r) {
		j->launcher = 0;
		return err_set(
		    err, -r,
		    "jail: cannot start %s: %s; it must stand beside this program or in libexec/reconciled",
		    path ? path : "reconciled-jail", strerror(r));
	}
	return 0;
}

/* One message of a jail that starts: 1, 0 there is none yet. */
static int hear(struct jail *j, int fds[JAIL_FDS], struct err *err)
{
	ssize_t n = jail_msg_recv(j->sock, &j->msg, fds, MSG_DONTWAIT);
	if (n == -EAGAIN && clock_boottime_ns() < j->start_end_ns)
		return 0;
	if (n == -EAGAIN)
		return err_set(
		    err, -ETIMEDOUT,
		    "jail: not ready in time; is the machine overloaded, or a file system in its way "
		    "not answering?");
	if (n < 0)
		return err_set(err, (int)n,
			       "jail: it ended before it was ready (%s); its last words may stand in the log",
			       strerror((int)-n));
	if (j->msg.type == JAIL_FAILED)
		return err_set(err, -EPERM, "jail: %.*s", (int)n, j->msg.text);
	return 1;
}

static int hear_init(struct jail *j, const int fds[JAIL_FDS], struct err *err)
{
	if (j->msg.type != JAIL_INIT || fds[0] < 0)
		return err_set(err, -EPROTO, "jail: reconciled-jail is of another version");
	j->pidfd = fds[0];
	j->init = j->msg.value;
	/* Init may have died at once: then its own reason, which follows, is better than "no such process". */
	j->start_error = process_start_time(j->init, &j->init_start);
	j->stage = JAIL_GETTING_READY;
	return 0;
}

static int hear_ready(struct jail *j, int fds[JAIL_FDS], struct err *err)
{
	for (int i = 0; i < JAIL_FDS; i++)
		close_fd(&fds[i]);
	if (j->msg.type != JAIL_READY)
		return err_set(err, -EPROTO, "jail: reconciled-jail is of another version");
	if (j->start_error < 0)
		return err_set(err, j->start_error, "jail: start time of process %d: %s", j->init,
			       strerror(-j->start_error));
	j->stage = JAIL_STANDS;
	return 0;
}

int jail_launch(const struct jail_options *o, struct jail **ret, struct err *err)
{
	_cleanup_(args_done) struct args args = {0};
	int pair[2], r = options_to_args(o, &args, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, -errno, "jail: control socket: %s", strerror(errno));
	struct jail *j = xcalloc(1, sizeof *j);
	j->start_end_ns =
	    clock_boottime_ns() + (o->start_timeout_ns ? o->start_timeout_ns : START_TIMEOUT_NS);
	j->sock = pair[0];
	j->pidfd = -1;
	r = launch(j, &args, pair[1], err);
	close(pair[1]); /* or the jail's end would give no EOF */
	if (r < 0) {
		jail_free(j);
		return r;
	}
	*ret = j;
	return 0;
}

int jail_ready(struct jail *j, struct err *err)
{
	int fds[JAIL_FDS], r = 1;
	while (j->stage != JAIL_STANDS && r > 0) {
		r = hear(j, fds, err);
		if (r > 0) {
			int e = j->stage == JAIL_LAUNCHED ? hear_init(j, fds, err) : hear_ready(j, fds, err);
			r = e < 0 ? e : 1;
		}
	}
	return r;
}

int64_t jail_start_end_ns(const struct jail *j)
{
	return j->start_end_ns;
}

int jail_start(const struct jail_options *o, struct jail **ret, struct err *err)
{
	struct jail *j;
	int r = jail_launch(o, &j, err);
	if (r < 0)
		return r;
	while ((r = jail_ready(j, err)) == 0) {
		struct pollfd p = {j->sock, POLLIN, 0};
		int64_t left = (j->start_end_ns - clock_boottime_ns()) / NS_PER_MS;
		poll(&p, 1, left < 0 ? 0 : (int)MIN(left + 1, INT64_C(60000)));
	}
	if (r < 0) {
		jail_free(j);
		return r;
	}
	*ret = j;
	return 0;
}

/* Init ends by itself; the launcher's death takes it along where it would not. */
static void end(struct jail *j)
{
	close(j->sock);
	if (j->launcher > 0) {
		kill(j->launcher, SIGKILL);
		while (waitpid(j->launcher, NULL, 0) < 0 && errno == EINTR)
			;
	}
}

void jail_free(struct jail *j)
{
	if (!j)
		return;
	end(j);
	if (j->pidfd >= 0) {
		struct pollfd p = {j->pidfd, POLLIN, 0};
		while (poll(&p, 1, FREE_WAIT_MS) < 0 && errno == EINTR)
			;
		close(j->pidfd);
	}
	free(j);
}

void jail_leave(struct jail *j)
{
	if (!j)
		return;
	end(j);
	close_fd(&j->pidfd);
	free(j);
}

/* ---- programs ---- */

static int add_strings(struct jail_msg *m, const char *const *strings, size_t *len, size_t *count)
{
	for (; *strings; strings++, ++*count) {
		size_t n = strlen(*strings) + 1;
		if (n > sizeof m->text - *len || *count == JAIL_STRINGS_MAX)
			return -E2BIG;
		memcpy(m->text + *len, *strings, n);
		*len += n;
	}
	return 0;
}

int jail_spawn(struct jail *j, const char *const *argv, const char *const *env, const int fds[3],
	       struct err *err)
{
	size_t len = 0, count = 0;
	if (j->gone)
		return err_set(err, -EPIPE, "jail: gone");
	if (j->busy)
		return err_set(err, -EBUSY, "jail: a program is running in it");
	if (!argv[0])
		return err_set(err, -EINVAL, "jail: empty command");
	struct jail_msg *m = &j->msg;
	memset(m, 0, offsetof(struct jail_msg, text));
	m->type = JAIL_SPAWN;
	int r = add_strings(m, argv, &len, &count);
	m->argc = (uint32_t)count;
	if (r == 0)
		r = add_strings(m, env, &len, &count);
	if (r < 0)
		return err_set(err, r,
			       "%s: arguments and environment are more than %d bytes or %d strings; put what "
			       "is long into a file",
			       argv[0], JAIL_TEXT_MAX, JAIL_STRINGS_MAX);
	r = jail_msg_send(j->sock, m, len, fds, JAIL_FDS, MSG_DONTWAIT);
	if (r < 0)
		return err_set(err, r, "jail: %s", strerror(-r));
	j->busy = true;
	return 0;
}

int jail_kill(struct jail *j, int signal)
{
	if (j->gone)
		return -EPIPE;
	memset(&j->msg, 0, offsetof(struct jail_msg, text));
	j->msg.type = JAIL_KILL;
	j->msg.value = signal;
	return jail_msg_send(j->sock, &j->msg, 0, NULL, 0, MSG_DONTWAIT);
}

static void copy_text(char *to, size_t room, const struct jail_msg *m, size_t len)
{
	size_t n = MIN(strnlen(m->text, len), room - 1);
	memcpy(to, m->text, n);
	to[n] = 0;
}

int jail_next(struct jail *j, struct jail_event *ret)
{
	int fds[JAIL_FDS];
	memset(ret, 0, sizeof *ret);
	while (!j->gone) {
		ssize_t n = jail_msg_recv(j->sock, &j->msg, fds, MSG_DONTWAIT);
		if (n == -EAGAIN)
			return 0;
		for (int i = 0; i < JAIL_FDS; i++)
			close_fd(&fds[i]);
		if (n >= 0 && j->msg.type == JAIL_STARTED) {
			ret->type = JAIL_EVENT_STARTED;
			ret->error = j->msg.value;
			j->busy = ret->error == 0;
			return 1;
		}
		if (n >= 0 && j->msg.type == JAIL_ENDED) {
			ret->type = JAIL_EVENT_ENDED;
			ret->status = j->msg.value;
			ret->usage = j->msg.usage;
			ret->left = j->msg.left;
			copy_text(ret->text, sizeof ret->text, &j->msg, (size_t)n);
			j->busy = false;
			return 1;
		}
		if (n >= 0 && j->msg.type == JAIL_FAILED)
			copy_text(j->why, sizeof j->why, &j->msg, (size_t)n); /* EOF follows */
		else
			j->gone = true;
	}
	j->busy = false;
	ret->type = JAIL_EVENT_GONE;
	memcpy(ret->text, j->why, sizeof ret->text);
	return 1;
}
