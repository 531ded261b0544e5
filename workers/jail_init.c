/* The first process of the jail: runs programs one after another, and leaves nothing of one to the next. */
#include "jail_parts.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { NAMES_MAX = 4096, TREE_MAX = 4096 };

static struct jail_msg msg;
static const struct own_folders *own;
static uint64_t clean_inodes; /* of the own tmpfs, while nothing of a program is in it */
static pid_t main_pid;	      /* 0: no program runs */

static void answer(size_t text)
{
	if (jail_msg_send(JAIL_CONTROL, &msg, text, NULL, 0, 0) < 0)
		_exit(0); /* the host is gone */
}

/* ---- own folders ---- */

static uint64_t inodes(void)
{
	struct statfs s;
	return own->count == 0 || fstatfs(own->fd[0], &s) < 0 ? 0 : s.f_files - s.f_ffree;
}

static bool dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* EBUSY is a mount point: it stays, and counts as done. */
static bool removed(int folder, const char *name)
{
	return unlinkat(folder, name, 0) == 0 || errno == EBUSY ||
	       unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == EBUSY;
}

static DIR *open_folder(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0)
		close(fd);
	return d;
}

/* Moves what cannot be removed from folder/name up into folder. Returns whether anything moved. */
static bool move_up(int folder, const char *name)
{
	static uint64_t serial;
	bool moved = false;
	if (fchmodat(folder, name, 0700, 0) < 0) /* the program may have made it 0 */
		return false;
	DIR *d = open_folder(folder, name);
	for (struct dirent *e; d && (e = readdir(d));) {
		char to[32];
		/* A folder moves only if its ".." may be written. */
		if (dots(e->d_name) || removed(dirfd(d), e->d_name) ||
		    fchmodat(dirfd(d), e->d_name, 0700, 0) < 0)
			continue;
		snprintf(to, sizeof to, ".%llu", (unsigned long long)serial++);
		moved |= renameat(dirfd(d), e->d_name, folder, to) == 0;
	}
	if (d)
		closedir(d);
	return moved;
}

/* Depth is the program's to choose, so there is no recursion: what lies in a subfolder is moved up, in
 * passes, until a pass changes nothing. Two open folders, whatever the depth. Everything is ours and nobody
 * else runs: names do not change meanwhile. */
static void empty(int folder)
{
	for (bool again = true; again;) {
		again = false;
		DIR *d = open_folder(folder, ".");
		for (struct dirent *e; d && (e = readdir(d));) {
			if (dots(e->d_name) || removed(folder, e->d_name))
				continue;
			again |= move_up(folder, e->d_name);
			again |= removed(folder, e->d_name);
		}
		if (d)
			closedir(d);
	}
}

/* Mode and ACL of the folders themselves need no inode: they are put right each time. */
static void empty_own_folders(void)
{
	for (size_t i = 0; i < own->count; i++) {
		fremovexattr(own->fd[i], "system.posix_acl_default");
		fremovexattr(own->fd[i], "system.posix_acl_access");
		fchmod(own->fd[i], 0755);
	}
	if (inodes() == clean_inodes)
		return;
	for (size_t i = 0; i < own->count; i++)
		empty(own->fd[i]);
	uint64_t now = inodes();
	if (now !=
	    clean_inodes) /* something outside holds a file of it, or a bug of ours: a new jail is clean */
		jail_fail("%lld inodes of the last program are left in the jail's own folders; the jail is "
			  "replaced",
			  (long long)(now - clean_inodes));
}

/* ---- processes ---- */

static bool read_stat(const char *pid, char comm[32], pid_t *ret_parent)
{
	char path[300], text[512];
	snprintf(path, sizeof path, "/proc/%s/stat", pid);
	int fd = isdigit((unsigned char)*pid) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	char *first = strchr(text, '('),
	     *end = strrchr(text, ')'); /* the name may hold anything, also ") R 1" */
	if (!first || !end || sscanf(end + 1, " %*c %d", ret_parent) != 1)
		return false;
	size_t len = MIN((size_t)(end - first - 1), 31u);
	for (size_t i = 0; i < len; i++)
		comm[i] = isprint((unsigned char)first[1 + i]) ? first[1 + i] : '?';
	comm[len] = 0;
	return true;
}

/* Everything below init. In a pid namespace that is everything in /proc but init; else descendants have to be
 * looked for. */
static size_t descendants(pid_t pids[TREE_MAX], char *names, size_t room)
{
	static pid_t all[TREE_MAX], parent[TREE_MAX];
	static char comm[TREE_MAX][32];
	static bool in[TREE_MAX];
	size_t n = 0, found = 0;
	bool every = !jail.without[PART_PID];
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && n < TREE_MAX && (e = readdir(d));)
		if (read_stat(e->d_name, comm[n], &parent[n]) &&
		    (all[n] = (pid_t)strtol(e->d_name, NULL, 10)) != getpid())
			in[n++] = every;
	if (d)
		closedir(d);
	for (bool again = !every; again;) {
		again = false;
		for (size_t i = 0; i < n; i++)
			for (size_t k = 0; !in[i] && k <= n; k++)
				if (k == n ? parent[i] == getpid() : in[k] && all[k] == parent[i])
					in[i] = again = true;
	}
	for (size_t i = 0; i < n; i++) {
		if (!in[i])
			continue;
		pids[found++] = all[i];
		int w = names ? snprintf(names, room, "%s%s(%d)", found > 1 ? " " : "", comm[i], all[i]) : 0;
		if (w > 0 && (size_t)w < room) {
			names += w;
			room -= (size_t)w;
		} else if (names) {
			*names = 0;
			names = NULL;
		}
	}
	return found;
}

static void kill_all(void)
{
	static pid_t pids[TREE_MAX];
	if (jail.bare) {
		if (main_pid)
			kill(-main_pid, SIGKILL);
	} else if (!jail.without[PART_PID]) {
		kill(-1, SIGKILL); /* atomic against fork: a process with a fatal signal gets no child */
	} else {
		size_t n = descendants(pids, NULL, 0);
		for (size_t i = 0; i < n; i++)
			kill(pids[i], SIGKILL);
	}
}

/* Kills and reaps until nobody but init is left. Returns how many there were. */
static uint32_t reap_all(void)
{
	uint32_t n = 0;
	pid_t r;
	for (kill_all(); (r = waitpid(-1, NULL, 0)) > 0 || (r < 0 && errno == EINTR); n++)
		if (jail.without[PART_PID]) /* what its death has just given us as children */
			kill_all();
	return n;
}

/* The host or the launcher is gone. In a pid namespace the end of init is the end of all. */
static _Noreturn void leave(void)
{
	kill_all();
	if (jail.without[PART_PID] && !jail.bare)
		reap_all();
	_exit(0);
}

/* Nobody but init is left afterwards. Names go into msg.text. Returns how many outlived the main process. */
static uint32_t end_survivors(void)
{
	static pid_t pids[TREE_MAX];
	pid_t r;
	msg.text[0] = 0;
	while ((r = waitpid(-1, NULL, WNOHANG)) > 0)
		; /* they ended before anybody had to kill them */
	if (r < 0 || jail.bare)
		return 0;
	/* Another namespace's /proc has other numbers: no names then. */
	if (jail.without[PART_PID] || !jail.without[PART_PROC])
		descendants(pids, msg.text, NAMES_MAX);
	return reap_all();
}

static void ended(int status, const struct rusage *usage)
{
	memset(&msg, 0, offsetof(struct jail_msg, text));
	msg.type = JAIL_ENDED;
	msg.value = status;
	msg.usage = *usage;
	if (jail.bare)
		kill_all();
	main_pid = 0;
	msg.left = end_survivors();
	empty_own_folders();
	answer(strlen(msg.text) + 1);
}

static void reap(int signals)
{
	struct signalfd_siginfo info;
	struct rusage usage;
	int status;
	while (read(signals, &info, sizeof info) > 0)
		;
	for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &usage)) > 0;)
		if (pid == main_pid)
			ended(status, &usage);
}

/* ---- programs ---- */

/* vfork, not posix_spawn: limits must be the child's alone (RLIMIT_CPU or NPROC on init would end or block
 * it), and rlimits belong to the process while memory is shared. The child touches nothing of ours but
 * *failed. */
static __attribute__((noinline)) pid_t spawn(char **argv, char **envp, const int fds[JAIL_FDS],
					     volatile int *failed)
{
	extern char **environ;
	char **saved = environ;
	environ = envp; /* execvpe looks for the program in the PATH of environ */
	pid_t pid = vfork();
	if (pid) {
		environ = saved;
		return pid;
	}
	sigset_t none;
	sigemptyset(&none);
	setsid();
	if (jail.without[PART_PID] && !jail.bare)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < JAIL_FDS; i++)
		dup2(fds[i], i);
	close_range(JAIL_FDS, ~0U, 0);
	jail_child_limits();
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvpe(argv[0], argv, envp);
	*failed = errno;
	_exit(127);
}

/* The strings of a SPAWN as argv and environment, each with its NULL. Our own host sends them: what does not
 * add up is a bug. */
static char **split(size_t len)
{
	static char *strings[JAIL_STRINGS_MAX + 2];
	size_t n = 0;
	memset(strings, 0, sizeof strings);
	for (char *c = msg.text; c < msg.text + len; c += strlen(c) + 1, n++) {
		if (n == JAIL_STRINGS_MAX)
			return NULL;
		strings[n < msg.argc ? n : n + 1] = c;
	}
	return msg.argc > 0 && msg.argc <= n ? strings : NULL;
}

static void start(ssize_t len, const int fds[JAIL_FDS])
{
	volatile int failed = 0;
	char **argv = len > 0 && msg.text[len - 1] == 0 && fds[JAIL_FDS - 1] >= 0 ? split((size_t)len) : NULL;
	if (!argv || main_pid)
		jail_fail("a SPAWN that makes no sense: host and jail are of different versions");
	main_pid = spawn(argv, argv + msg.argc + 1, fds, &failed);
	memset(&msg, 0, offsetof(struct jail_msg, text));
	msg.type = JAIL_STARTED;
	msg.value = main_pid < 0 ? errno : failed;
	if (msg.value) {
		if (main_pid > 0)
			waitpid(main_pid, NULL, 0);
		main_pid = 0;
	}
	answer(0);
}

static void obey(void)
{
	int fds[JAIL_FDS];
	ssize_t n = jail_msg_recv(JAIL_CONTROL, &msg, fds, 0);
	/* The host is gone. Needed: the parent-death signal of a root host without CAP_KILL is lost. */
	if (n < 0)
		leave();
	if (msg.type == JAIL_KILL && main_pid) {
		if (msg.value == SIGKILL)
			kill_all();
		else
			kill(main_pid, msg.value);
	} else if (msg.type == JAIL_SPAWN) {
		start(n, fds);
	}
	for (int i = 0; i < JAIL_FDS; i++)
		close_fd(&fds[i]);
}

void jail_serve(int launcher, const struct own_folders *folders)
{
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &child, NULL);
	struct pollfd p[] = {{JAIL_CONTROL, POLLIN, 0},
			     {signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK), POLLIN, 0},
			     {launcher, POLLIN, 0}};
	if (p[1].fd < 0)
		jail_fail("signalfd: %s", strerror(errno));
	if (jail.without[PART_PID] && !jail.bare)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	own = folders;
	clean_inodes = inodes();
	msg.type = JAIL_READY;
	answer(0);
	for (;;) {
		if (poll(p, ARRAY_SIZE(p), -1) < 0)
			continue;
		if (p[2].revents) /* the launcher is gone; it never writes again */
			leave();
		if (p[1].revents)
			reap(p[1].fd);
		if (p[0].revents)
			obey();
	}
}
