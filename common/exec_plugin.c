#include "exec_plugin.h"
#include "program.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { STDOUT, STDERR, STREAMS };

struct exec_plugin {
	const struct kubeconfig *k;
	void (*note)(void *ctx, const char *line);
	void *ctx;
	pid_t pid;
	int pidfd, fd[STREAMS]; /* fd: -1 after their end */
	struct buf out;
	char line[EXEC_STDERR_LINE + 1], last_line[EXEC_STDERR_LINE + 1]; /* of stderr */
	size_t line_len;
	unsigned lines;
	int64_t end_ns;
};

/* ---- its environment ---- */

static bool is_named(const char *variable, const char *name)
{
	size_t n = strlen(name);
	return strncmp(variable, name, n) == 0 && (variable[n] == '=' || name[n - 1] == '_');
}

/* The service manager's channel to us, and our own variables: nothing of theirs. */
static bool is_ours(const char *variable)
{
	static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_",      "LISTEN_",
					    "INVOCATION_ID", "JOURNAL_STREAM", "CREDENTIALS_DIRECTORY",
					    "SYSTEMD_",	     "RECONCILED_",    "KUBERNETES_EXEC_INFO"};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (is_named(variable, names[i]))
			return true;
	return false;
}

/* Does the list have a variable of this one's name? */
static bool overridden(char *const *list, const char *variable)
{
	size_t n = strcspn(variable, "=") + 1;
	for (; list && *list; list++)
		if (strncmp(*list, variable, n) == 0)
			return true;
	return false;
}

/* The array is the caller's, the texts are not; the last one is info. */
static char **make_environment(const struct kubeconfig *k, char *info)
{
	size_t n = 0, added = 0;
	while (environ[n])
		n++;
	while (k->exec_env && k->exec_env[added])
		added++;
	char **env = xcalloc(n + added + 2, sizeof *env), **at = env;
	for (size_t i = 0; i < n; i++)
		if (!is_ours(environ[i]) && !overridden(k->exec_env, environ[i]))
			*at++ = environ[i];
	for (size_t i = 0; i < added; i++)
		if (!overridden(k->exec_env + i + 1, k->exec_env[i])) /* the last one counts */
			*at++ = k->exec_env[i];
	*at = info;
	return env;
}

/* ---- start ---- */

static int limit_memory(void)
{
	struct rlimit data;
	if (getrlimit(RLIMIT_DATA, &data) < 0)
		return -1;
	data.rlim_cur = data.rlim_max = MIN(data.rlim_max, EXEC_DATA_MAX); /* ours may be lower */
	return setrlimit(RLIMIT_DATA, &data);
}

/* In the child: what is not async-signal-safe has no place here, other threads may have held locks. told: the
 * errno goes there if it comes to nothing. */
static _Noreturn void become(pid_t parent, char *const *argv, char *const *env, const int theirs[STREAMS],
			     int told)
{
	sigset_t none;
	sigemptyset(&none);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	/* Out of the way first: we may have been started without some of 0 to 2. */
	int from[] = {open("/dev/null", O_RDONLY | O_CLOEXEC), theirs[STDOUT], theirs[STDERR], told};
	bool ok = true;
	for (int i = 0; i < 4 && ok; i++)
		ok = (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 4)) >= 0;
	for (int i = 0; i < 3 && ok; i++)
		ok = dup2(from[i], i) == i;
	ok = ok && dup3(from[3], 3, O_CLOEXEC) == 3 && close_range(4, ~0U, 0) == 0;
	told = ok ? 3 : told;
	ok = ok && limit_memory() == 0 && process_go_early() == 0;
	errno = ok ? 0 : errno;
	if (ok && process_die_with(parent))
		execvpe(argv[0], argv, env);
	int code = errno ? errno : ESRCH; /* the latter: the parent is gone already */
	(void)!write(told, &code, sizeof code);
	_exit(127);
}

/* No posix_spawn: it has no parent-death signal, and a plugin that hangs would outlive us. (The parent is this thread.) */
static int spawn(struct exec_plugin *p, char *const *argv, char *const *env, const int theirs[STREAMS])
{
	int told[2], code = 0;
	pid_t parent = getpid();
	if (pipe2(told, O_CLOEXEC) < 0)
		return -errno;
	p->pid = fork();
	if (p->pid == 0)
		become(parent, argv, env, theirs, told[1]);
	code = p->pid < 0 ? errno : 0;
	close(told[1]);
	ssize_t n;
	while (p->pid > 0 && (n = read(told[0], &code, sizeof code)) < 0 && errno == EINTR)
		; /* its end comes with the exec */
	close(told[0]);
	if (p->pid > 0 && code) {
		waitpid(p->pid, NULL, 0);
		p->pid = -1;
	}
	return -code;
}

static int start_failed(const struct kubeconfig *k, int code, struct err *err)
{
	return err_set(err, code, "exec plugin %s: cannot be started: %s%s%s", k->exec_command,
		       strerror(-code), k->exec_install_hint ? "; " : "",
		       k->exec_install_hint ? k->exec_install_hint : "");
}

int exec_plugin_start(const struct kubeconfig *k, const char *info, void (*note)(void *ctx, const char *line),
		      void *ctx, struct exec_plugin **ret, struct err *err)
{
	struct exec_plugin *p = xcalloc(1, sizeof *p);
	*p = (struct exec_plugin){.k = k, .note = note, .ctx = ctx, .pid = -1, .pidfd = -1, .fd = {-1, -1}};
	int theirs[STREAMS] = {-1, -1}, r = 0;
	for (int i = 0; i < STREAMS && !r; i++) {
		int ends[2];
		r = pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
		if (r)
			break;
		p->fd[i] = ends[0];
		theirs[i] = ends[1];
		fcntl(p->fd[i], F_SETFL, O_NONBLOCK);
	}
	size_t n = 0;
	while (k->exec_args && k->exec_args[n])
		n++;
	char **argv = xcalloc(n + 2, sizeof *argv);
	argv[0] = k->exec_command;
	for (size_t i = 0; i < n; i++)
		argv[i + 1] = k->exec_args[i];
	_cleanup_(free_ptr) char *variable = xasprintf("KUBERNETES_EXEC_INFO=%s", info);
	char **env = make_environment(k, variable);
	if (!r)
		r = spawn(p, argv, env, theirs);
	if (!r && (p->pidfd = pidfd_open(p->pid, 0)) < 0)
		r = -errno;
	free(argv);
	free(env);
	for (int i = 0; i < STREAMS; i++)
		close_fd(&theirs[i]);
	if (r) {
		exec_plugin_free(p);
		return start_failed(k, r, err);
	}
	p->out.limit = EXEC_OUTPUT_MAX;
	p->end_ns = clock_boottime_ns() + k->exec_timeout_ms * NS_PER_MS;
	*ret = p;
	return 0;
}

/* Everything of its session that has not made one of its own. */
static void kill_all(const struct exec_plugin *p)
{
	if (p->pid > 0)
		kill(-p->pid, SIGKILL);
}

void exec_plugin_free(struct exec_plugin *p)
{
	if (!p)
		return;
	kill_all(p);
	if (p->pid > 0)
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
	close_fd(&p->pidfd);
	for (int i = 0; i < STREAMS; i++)
		close_fd(&p->fd[i]);
	if (p->out.data)
		explicit_bzero(p->out.data, p->out.len);
	buf_done(&p->out);
	free(p);
}

/* ---- its output ---- */

static void end_line(struct exec_plugin *p)
{
	p->line[p->line_len] = 0;
	if (p->line_len) {
		memcpy(p->last_line, p->line, p->line_len + 1);
		if (p->lines++ < EXEC_STDERR_LINES)
			p->note(p->ctx, p->line);
	}
	p->line_len = 0;
}

static void take_stderr(struct exec_plugin *p, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)bytes[i];
		if (c == '\n')
			end_line(p);
		else if (p->line_len < EXEC_STDERR_LINE)
			p->line[p->line_len++] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
	}
}

/* Reads what is there, at most one pipe full: another process may write for ever. */
static void read_stream(struct exec_plugin *p, int i)
{
	char bytes[16384];
	for (size_t total = 0; p->fd[i] >= 0 && total < 4 * sizeof bytes;) {
		ssize_t n = read(p->fd[i], bytes, sizeof bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			close(p->fd[i]);
			p->fd[i] = -1;
			break;
		}
		total += (size_t)n;
		if (i == STDOUT)
			buf_add(&p->out, bytes, (size_t)n);
		else
			take_stderr(p, bytes, (size_t)n);
	}
	explicit_bzero(bytes, sizeof bytes);
}

size_t exec_plugin_poll(const struct exec_plugin *p, struct pollfd *fds)
{
	size_t n = 0;
	fds[n++] = (struct pollfd){p->pidfd, POLLIN, 0};
	for (int i = 0; i < STREAMS; i++)
		if (p->fd[i] >= 0)
			fds[n++] = (struct pollfd){p->fd[i], POLLIN, 0};
	return n;
}

int64_t exec_plugin_due_ns(const struct exec_plugin *p)
{
	return p->end_ns;
}

/* ---- its end ---- */

static int failed(const struct exec_plugin *p, struct err *err, const char *what)
{
	return err_set(err, -ENOKEY, "exec plugin %s: %s%s%s", p->k->exec_command, what,
		       *p->last_line ? "; it said: " : "", p->last_line);
}

int exec_plugin_step(struct exec_plugin *p, int64_t now_ns, struct exec_credential *ret, struct err *err)
{
	char what[128];
	siginfo_t info = {0};
	struct pollfd ended = {p->pidfd, POLLIN, 0};
	bool over = poll(&ended, 1, 0) > 0; /* before reading: what it wrote is then in the pipes */
	for (int i = 0; i < STREAMS; i++)
		read_stream(p, i);
	if (buf_failed(&p->out)) {
		snprintf(what, sizeof what, "more than %d bytes on stdout", EXEC_OUTPUT_MAX);
		return failed(p, err, what);
	}
	if (!over && now_ns < p->end_ns)
		return 1;
	end_line(p);
	if (!over) {
		snprintf(what, sizeof what, "did not end within %lld s and is killed",
			 (long long)((p->k->exec_timeout_ms + 999) / 1000));
		return failed(p, err, what);
	}
	kill_all(p);
	int r = waitid(P_PID, (id_t)p->pid, &info, WEXITED);
	p->pid = -1;
	if (r < 0 || info.si_code != CLD_EXITED || info.si_status != 0) {
		snprintf(what, sizeof what,
			 info.si_code == CLD_EXITED ? "exit status %d" : "killed by signal %d",
			 info.si_status);
		return failed(p, err, what);
	}
	struct err why = {0};
	r = exec_credential_parse(p->k, buf_span(&p->out), ret, &why);
	return r ? failed(p, err, why.text) : 0;
}
