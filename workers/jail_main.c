/* reconciled-jail: a place where a reconciler can be killed with everything that it started.
 *
 * This file is the launcher: it becomes an ordinary user, makes the namespaces, starts init in them, and
 * stays. Two processes, because unshare(CLONE_NEWPID) moves only children, and because a death must run down
 * the chain whatever dies first: the host's death kills the launcher (parent-death signal), the launcher's
 * kills init (the same, and EOF on a pipe), and with init, the first process of a pid namespace, the kernel
 * kills everything in it. */
#include "jail_parts.h"
#include "program.h"
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OVERFLOW_ID = 65534 }; /* "nobody", where there is no user of our own */

struct jail_setup jail = {.work = "/"};

static const char *const part_names[PART_COUNT] = {
    [PART_USER] = "user", [PART_PID] = "pid",	[PART_MOUNT] = "mount",	    [PART_NETWORK] = "network",
    [PART_IPC] = "ipc",	  [PART_PROC] = "proc", [PART_SECCOMP] = "seccomp",
};

static const char usage_text[] =
    "Usage: reconciled-jail [OPTION]...\n\n"
    "Runs reconcilers for reconciled-worker, which starts it with a control socket as descriptor 3. Nothing "
    "to call by hand.\n\n"
    "  --work=DIR        working directory of the programs, shown read-only\n"
    "  --ro=PATH         shown read-only (any number of times, as the next two)\n"
    "  --rw=PATH         shown writable\n"
    "  --mask=PATH       covered by something empty\n"
    "  --network-host    the host's network in the place of an empty one\n"
    "  --cpu=SECONDS --files=N --processes=N --data=BYTES    limits of the programs\n"
    "  --without=PART    leave out: user pid mount network ipc proc seccomp\n"
    "  --help --version\n";

void jail_fail(const char *fmt, ...)
{
	static struct jail_msg m = {.type = JAIL_FAILED};
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(m.text, sizeof m.text, fmt, ap);
	va_end(ap);
	if (jail_msg_send(JAIL_CONTROL, &m, strlen(m.text) + 1, NULL, 0, 0) < 0)
		dprintf(STDERR_FILENO, "reconciled-jail: %s\n", m.text); /* started by hand */
	_exit(1);
}

/* ---- options ---- */

static uint64_t number(const char *option, const char *text)
{
	char *end;
	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	if (errno || *end || !*text || *text == '-' || !value)
		jail_fail("--%s=%s: not a positive number", option, text);
	return value;
}

static void add_path(const char *option, const char *path, enum jail_path_kind kind)
{
	if (path[0] != '/')
		jail_fail("--%s=%s: not an absolute path", option, path);
	if (jail.path_count == JAIL_PATHS_MAX)
		jail_fail("more than %d paths; name folders instead of single files", JAIL_PATHS_MAX);
	jail.paths[jail.path_count++] = (struct jail_path){path, kind};
}

static void leave_out(const char *name)
{
	for (int p = 0; p < PART_COUNT; p++)
		if (strcmp(name, part_names[p]) == 0) {
			jail.without[p] = true;
			return;
		}
	jail_fail("sandbox.without: %s: unknown; one of user pid mount network ipc proc seccomp", name);
}

static _Noreturn void usage(FILE *to)
{
	fputs(usage_text, to);
	exit(to == stdout ? 0 : EXIT_USAGE);
}

static void take(const char *option, const char *value)
{
	static const struct {
		const char *name;
		enum jail_path_kind kind;
	} paths[] = {
	    {"work", PATH_READ_ONLY}, {"ro", PATH_READ_ONLY}, {"rw", PATH_READ_WRITE}, {"mask", PATH_HIDDEN}};
	static const struct {
		const char *name;
		uint64_t *limit;
	} limits[] = {{"cpu", &jail.cpu_s},
		      {"files", &jail.files},
		      {"processes", &jail.processes},
		      {"data", &jail.data_bytes}};
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (strcmp(option, paths[i].name) == 0)
			add_path(option, value, paths[i].kind);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (strcmp(option, limits[i].name) == 0)
			*limits[i].limit = number(option, value);
	if (strcmp(option, "work") == 0)
		jail.work = value;
	if (strcmp(option, "without") == 0)
		leave_out(value);
}

static void parse(int argc, char **argv)
{
	enum { VALUE = 256, NETWORK, HELP, VERSION };
	static const struct option options[] = {
	    {"work", 1, NULL, VALUE},
	    {"ro", 1, NULL, VALUE},
	    {"rw", 1, NULL, VALUE},
	    {"mask", 1, NULL, VALUE},
	    {"cpu", 1, NULL, VALUE},
	    {"files", 1, NULL, VALUE},
	    {"processes", 1, NULL, VALUE},
	    {"data", 1, NULL, VALUE},
	    {"without", 1, NULL, VALUE},
	    {"network-host", 0, NULL, NETWORK},
	    {"help", 0, NULL, HELP},
	    {"version", 0, NULL, VERSION},
	    {NULL, 0, NULL, 0},
	};
	for (int o, i = 0; (o = getopt_long(argc, argv, "", options, &i)) != -1;) {
		if (o == VALUE) {
			take(options[i].name, optarg);
		} else if (o == NETWORK) {
			jail.network_host = true;
		} else if (o == VERSION) {
			puts("reconciled-jail " RECONCILED_VERSION);
			exit(0);
		} else {
			usage(o == HELP ? stdout : stderr);
		}
	}
	int type = 0;
	socklen_t len = sizeof type;
	if (optind != argc || getsockopt(JAIL_CONTROL, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    type != SOCK_SEQPACKET)
		usage(stderr);
}

static void check_parts(void)
{
	const bool *out = jail.without;
	if (out[PART_PID] && !out[PART_PROC])
		jail_fail("sandbox.without: pid needs proc too: an own /proc shows an own pid namespace");
	if (out[PART_MOUNT] && !out[PART_PROC])
		jail_fail("sandbox.without: mount needs proc too: an own /proc is a mount");
	bool all =
	    out[PART_PID] && out[PART_MOUNT] && out[PART_IPC] && (out[PART_NETWORK] || jail.network_host);
	if (out[PART_USER] && geteuid() != 0 && !all)
		jail_fail("sandbox.without: user: only root makes the other namespaces without a user "
			  "namespace; leave out pid, "
			  "mount, network, ipc and proc as well, or start the worker as root");
}

/* ---- launcher ---- */

/* Descriptors that arrive later must not be 0, 1 or 2; nothing but the control socket is ours to keep. */
static void settle_descriptors(void)
{
	close_range(JAIL_CONTROL + 1, ~0U, 0);
	fcntl(JAIL_CONTROL, F_SETFD, FD_CLOEXEC);
	for (int fd = 0; fd < JAIL_CONTROL; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", O_RDWR);
}

/* The names are looked up before descriptors are closed and rights are given up: the name service may be
 * anything. */
static void choose_user(void)
{
	jail.uid = getuid();
	jail.gid = getgid();
	const char *name = NULL;
	if (jail.uid == 0) {
		struct passwd *p = getpwnam("reconciled");
		jail.uid = p && p->pw_uid ? p->pw_uid : OVERFLOW_ID;
		jail.gid = p && p->pw_uid ? p->pw_gid : OVERFLOW_ID;
		name = p && p->pw_uid ? "reconciled" : "nobody";
	}
	struct passwd *own = name ? NULL : getpwuid(jail.uid);
	name = own ? own->pw_name : name;
	if (name)
		snprintf(jail.user, sizeof jail.user, "%.40s (%u)", name, jail.uid);
	else
		snprintf(jail.user, sizeof jail.user, "%u", jail.uid);
}

/* After the change of user, which clears the signal; then ask whether the parent had died before. The other
 * end of the control socket was made by the host, so no pid has to be passed. (In a new pid namespace
 * getppid() is 0: this is for the launcher.) */
static void die_with_host(void)
{
	struct ucred host;
	socklen_t len = sizeof host;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getsockopt(JAIL_CONTROL, SOL_SOCKET, SO_PEERCRED, &host, &len) < 0 || getppid() != host.pid)
		_exit(1);
}

static void become_user(void)
{
	if (getuid() != 0)
		return;
	/* Without the user namespace the rights of root are needed until everything is mounted
	 * (jail_drop_rights gives them up); the real uid is the jail's at once, because access() asks for
	 * that. */
	uid_t keep = jail.without[PART_USER] ? 0 : jail.uid;
	if (setgroups(0, NULL) < 0 || setresgid(jail.gid, jail.gid, jail.gid) < 0 ||
	    setresuid(jail.uid, keep, keep) < 0)
		jail_fail("cannot become user %s: %s", jail.user, strerror(errno));
	prctl(PR_SET_DUMPABLE, 1); /* cleared by the change: /proc/self/uid_map would belong to root */
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		jail_fail("%s: %s", path, strerror(errno));
	close(fd);
}

static void enter_user_namespace(void)
{
	char map[48];
	if (unshare(CLONE_NEWUSER) < 0)
		jail_fail("user namespace refused to user %s: %s; look at kernel.unprivileged_userns_clone "
			  "(must be 1), "
			  "user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns, "
			  "RestrictNamespaces= of the "
			  "unit, Docker's seccomp profile, a chroot",
			  jail.user, strerror(errno));
	write_file("/proc/self/setgroups", "deny"); /* or an ordinary user may not write gid_map */
	snprintf(map, sizeof map, "%u %u 1", jail.uid, jail.uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof map, "%u %u 1", jail.gid, jail.gid);
	write_file("/proc/self/gid_map", map);
}

static void enter_namespaces(void)
{
	const bool *out = jail.without;
	if (!out[PART_USER])
		enter_user_namespace();
	int flags = (out[PART_MOUNT] ? 0 : CLONE_NEWNS) | (out[PART_PID] ? 0 : CLONE_NEWPID) |
		    (out[PART_IPC] ? 0 : CLONE_NEWIPC) |
		    (out[PART_NETWORK] || jail.network_host ? 0 : CLONE_NEWNET);
	if (unshare(flags) < 0)
		jail_fail("namespaces refused to user %s: %s; look at user.max_*_namespaces and "
			  "RestrictNamespaces= of the unit",
			  jail.user, strerror(errno));
}

/* ---- init, until it serves ---- */

static _Noreturn void init(int launcher)
{
	char byte;
	struct own_folders own = {.count = 0};
	/* Without a pid namespace init has to kill what is left itself, so it must outlive the launcher for a
	 * moment. */
	if (!jail.without[PART_PID] && !jail.bare)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The launcher may have died before that line; then there is no byte. */
	if (read(launcher, &byte, 1) != 1)
		_exit(1);
	/* Programs inherit what is ignored; and the first process of a pid namespace that handles no signal
	 * gets none from inside. */
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	umask(022);
	if (!jail.bare) {
		if (!jail.without[PART_NETWORK] && !jail.network_host)
			jail_loopback_up();
		if (!jail.without[PART_MOUNT])
			jail_mount(&own);
	}
	if (chdir(jail.work) < 0)
		jail_fail("%s: user %s cannot enter it: %s", jail.work, jail.user, strerror(errno));
	if (!jail.bare)
		jail_drop_rights();
	jail_serve(launcher, &own);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	int rc = process_go_early();
	if (rc < 0)
		jail_fail("oom_score_adj: %s", strerror(-rc));
	choose_user();
	settle_descriptors();
	check_parts();
	jail_check_limits();
	jail.bare = fault("bare-group");
	setsid(); /* Ctrl-C at a terminal goes to the host's group; the jail ends when the host says so */
	if (!jail.bare) {
		become_user();
		die_with_host();
		enter_namespaces();
	}

	int pipe_ends[2];
	if (pipe2(pipe_ends, O_CLOEXEC) < 0)
		jail_fail("pipe: %s", strerror(errno));
	static struct jail_msg m = {.type = JAIL_INIT};
	m.value = fork();
	if (m.value == 0) {
		close(pipe_ends[1]); /* or EOF would never come */
		init(pipe_ends[0]);
	}
	int pidfd = m.value < 0 ? -1 : (int)syscall(SYS_pidfd_open, m.value, 0);
	if (pidfd < 0)
		jail_fail("cannot start init: %s", strerror(errno));
	if (geteuid() != jail.uid && !jail.bare) { /* init alone needed root's rights */
		if (setresuid(jail.uid, jail.uid, jail.uid) < 0)
			jail_fail("cannot become user %s: %s", jail.user, strerror(errno));
		die_with_host();
	}
	prctl(PR_SET_DUMPABLE, 0);
	jail_msg_send(JAIL_CONTROL, &m, 0, &pidfd, 1, 0); /* before init can say READY */
	if (write(pipe_ends[1], "", 1) != 1)
		_exit(1);
	close(pidfd);
	close(JAIL_CONTROL); /* the host's EOF is init's end */
	while (waitpid(m.value, NULL, 0) < 0 && errno == EINTR)
		;
	_exit(0); /* no atexit: a leak checker cannot look from in here */
}
