#include "program.h"
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* ---- folders ---- */

/* A service of the system's manager, not of a user's: that one sets the same variables but is not process
 * 1. */
static bool is_system_service(void)
{
	return getppid() == 1 && (getenv("INVOCATION_ID") || getenv("NOTIFY_SOCKET"));
}

static void default_folders(struct program *p)
{
	p->config_dir = "/etc/reconciled";
	if (geteuid() == 0 || is_system_service()) {
		p->runtime_dir = "/run/reconciled";
		p->region_dir = "/dev/shm/reconciled";
		return;
	}
	static char runtime[PATH_MAX], region[64];
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	unsigned uid = (unsigned)geteuid();
	if (xdg && *xdg == '/')
		snprintf(runtime, sizeof runtime, "%s/reconciled", xdg);
	else
		snprintf(runtime, sizeof runtime, "/tmp/reconciled-%u", uid);
	snprintf(region, sizeof region, "/dev/shm/reconciled-%u", uid);
	p->runtime_dir = runtime;
	p->region_dir = region;
}

int program_folder(const char *path, struct err *err)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno,
			       "cannot create the folder %s: %s; create its parent, or name another one",
			       path, strerror(errno));
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot use the folder %s: %s", path, strerror(errno));
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(
		    err, -EPERM,
		    "the folder %s belongs to uid %u, not to uid %u or root: remove it, or name another one",
		    path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, -EPERM,
			       "other users may write to the folder %s (mode %04o): chmod go-w %s", path,
			       (unsigned)(st.st_mode & 07777), path);
	return 0;
}

int program_lock(const char *dir, const char *name, struct err *err)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s.lock", dir, name);
	_cleanup_(close_fd) int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "cannot open the lock %s: %s", path, strerror(errno));
	char pid[16] = "";
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int code = errno == EWOULDBLOCK ? EBUSY : errno;
		ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
		pid[n > 0 ? strcspn(pid, "\n") : 0] = 0;
		return err_set(err, -code,
			       code == EBUSY ? "%s is locked by process %s: only one may run here; stop it, "
					       "or use another --runtime-dir"
					     : "cannot lock %s (last held by process %s)",
			       path, *pid ? pid : "?");
	}
	int len = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)len, 0) != len)
		return err_set(err, -EIO, "cannot write to the lock %s: %s", path, strerror(errno));
	take_fd(&fd); /* stays open, and with it the lock, for as long as the process lives */
	return 0;
}

char *program_beside(const char *name)
{
	/* The name of a file that was replaced meanwhile gets " (deleted)" at its end: the folder is right
	 * all the same. */
	char folder[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
	folder[n > 0 ? n : 0] = 0;
	char *slash = strrchr(folder, '/');
	if (slash)
		*slash = 0;
	static const char *const places[] = {"", "/../libexec/reconciled", "/../../bin"};
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char *path = xasprintf("%s%s/%s", folder, places[i], name);
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	return xasprintf("%s/%s", folder, name); /* the one who starts it will say that this is missing */
}

/* ---- options ---- */

/* Of a socket's path; its name is queue.sock. */
enum { RUNTIME_DIR_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/queue.sock") };
_Static_assert(RUNTIME_DIR_MAX == 96, "the message says how long");
enum { OPTIONS_MAX = 64, LONG_OPTION = 256 /* above every letter */ };

static void print_help(const char *usage, const char *about, const struct program_option *const *options,
		       size_t n)
{
	printf("Usage: %s\n\n%s\n\nOptions:\n", usage, about);
	for (size_t i = 0; i < n; i++) {
		const struct program_option *o = options[i];
		char left[128], letter[8] = "    ";
		if (o->letter)
			snprintf(letter, sizeof letter, "-%c, ", o->letter);
		snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
			 o->argument ? o->argument : "");
		printf("  %-28s %s\n", left, o->help);
	}
}

static void wrong_usage(const char *name, const char *text, const char *argument) __attribute__((noreturn));
static void wrong_usage(const char *name, const char *text, const char *argument)
{
	fprintf(stderr, "%s: %s: %s (see %s --help)\n", name, text, argument, name);
	exit(EXIT_USAGE);
}

static void append(const char ***list, const char *value)
{
	size_t n = 0;
	while (*list && (*list)[n])
		n++;
	*list = xrealloc(*list, (n + 2) * sizeof **list);
	(*list)[n] = value;
	(*list)[n + 1] = NULL;
}

static void take(const struct program_option *o, const char *value)
{
	if (o->flag)
		*o->flag = true;
	else if (o->list)
		append(o->list, value);
	else
		*o->text = value;
}

/* Fills p and the program's own variables from argv; returns the index of the first argument that is no
 * option. */
static int parse(const char *name, const struct program_option *const *options, size_t n, int argc,
		 char **argv)
{
	struct option longs[OPTIONS_MAX + 1] = {0};
	char shorts[1 + 2 * OPTIONS_MAX + 1] = ":"; /* a missing value is ':', an unknown option '?' */
	size_t len = 1;
	for (size_t i = 0; i < n; i++) {
		const struct program_option *o = options[i];
		longs[i] = (struct option){o->name, o->argument ? required_argument : no_argument, NULL,
					   LONG_OPTION + (int)i};
		if (o->letter)
			shorts[len++] = o->letter;
		if (o->letter && o->argument)
			shorts[len++] = ':';
	}
	optind = 0;
	opterr = 0;
	for (int c; (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
		if (c == '?' || c == ':')
			wrong_usage(name,
				    c == ':' ? "a value is missing after" : "unknown or malformed option",
				    argv[optind - 1]);
		for (size_t i = 0; i < n; i++)
			if (c == LONG_OPTION + (int)i || c == options[i]->letter)
				take(options[i], optarg);
	}
	return optind;
}

/* See PROGRAM_PARENT in program.h. */
static void follow_parent(void)
{
	const char *text = getenv(PROGRAM_PARENT);
	if (!text)
		return;
	pid_t parent = (pid_t)strtol(text, NULL, 10);
	unsetenv(PROGRAM_PARENT);
	if (!process_die_with(parent))
		exit(EXIT_FAILURE);
}

int program_options(struct program *p, const char *name, const char *usage, const char *about,
		    const struct program_option *own, int argc, char **argv)
{
	*p = (struct program){.name = name, .log_level = LOG_LEVEL_INFO};
	default_folders(p);

	const char *level = "info", *format = "auto";
	bool help = false, version = false;
	const struct program_option common[] = {
	    {"config-dir", 0, "PATH", "configuration: a folder, or one file [/etc/reconciled]",
	     .text = &p->config_dir},
	    {"runtime-dir", 0, "DIR", "sockets and locks [/run/reconciled as root or service]",
	     .text = &p->runtime_dir},
	    {"region-dir", 0, "DIR", "shared memory [/dev/shm/reconciled as root or service]",
	     .text = &p->region_dir},
	    {"kubeconfig", 0, "FILE", "credentials of the API server", .text = &p->kubeconfig},
	    {"log-level", 0, "LEVEL", "error, warning, info or debug [info]", .text = &level},
	    {"log-format", 0, "FORMAT", "auto, text or json [auto: the journal if stderr is it]",
	     .text = &format},
	    {"help", 'h', NULL, "print this and exit", .flag = &help},
	    {"version", 0, NULL, "print the version and exit", .flag = &version},
	};
	const struct program_option *all[OPTIONS_MAX];
	size_t n = 0;
	for (const struct program_option *o = own; o && o->name && n < OPTIONS_MAX - ARRAY_SIZE(common); o++)
		all[n++] = o;
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		all[n++] = &common[i];

	int first = parse(name, all, n, argc, argv);
	if (help) {
		print_help(usage, about, all, n);
		exit(EXIT_SUCCESS);
	}
	if (version) {
		printf("%s %s\n", name, RECONCILED_VERSION);
		exit(EXIT_SUCCESS);
	}
	if (!log_level_parse(level, &p->log_level))
		wrong_usage(name, "--log-level is error, warning, info or debug, not", level);
	if (!log_format_parse(format, &p->log_format))
		wrong_usage(name, "--log-format is auto, text or json, not", format);
	if (strlen(p->runtime_dir) > RUNTIME_DIR_MAX)
		wrong_usage(name, "--runtime-dir is of at most 96 bytes, so that a socket fits into it, not",
			    p->runtime_dir);
	log_init(name, p->log_level, p->log_format);
	follow_parent();
	return first;
}

/* ---- signals and the service manager ---- */

static struct {
	char text[4400];
	size_t len;
} cut;

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code == BUS_ADRERR && write(STDERR_FILENO, cut.text, cut.len) >= 0)
		_exit(EXIT_FAILURE);
	/* Something else: it comes again, and ends us. */
	struct sigaction usual = {.sa_handler = SIG_DFL};
	sigaction(signal, &usual, NULL);
}

void program_explain_cuts(const struct program *p)
{
	int n = snprintf(cut.text, sizeof(cut.text),
			 "%s: a file in %s was cut while it is in use, or its file system cannot give its "
			 "pages; ending, so that the next start makes it anew\n",
			 p->name, p->region_dir);
	cut.len = (size_t)MIN(n, (int)sizeof(cut.text) - 1);
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
	sigaction(SIGBUS, &action, NULL);
}

int program_signals(bool sigchld)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigchld)
		sigaddset(&set, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	int r = pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (r)
		return -r;
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

void program_notify(const char *fmt, ...)
{
	char state[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(state, sizeof state, fmt, ap);
	va_end(ap);
	sd_notify(0, state);
}

int64_t program_watchdog_ns(void)
{
	uint64_t us = 0;
	return sd_watchdog_enabled(0, &us) > 0 ? (int64_t)(us / 2) * NS_PER_US : 0;
}

/* ---- processes ---- */

int process_start_time(pid_t pid, uint64_t *ret_start)
{
	char path[32], stat[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	ssize_t n = read(fd, stat, sizeof stat - 1);
	if (n < 0)
		return -errno;
	stat[n] = 0;
	/* "PID (COMM) STATE PPID ...": COMM is whatever the program called itself, blanks and parentheses
	 * included, but nothing after it has a parenthesis. STATE is field 3. */
	const char *at = strrchr(stat, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	char *end;
	errno = 0;
	unsigned long long start = at ? strtoull(at + 1, &end, 10) : 0;
	if (!at || errno || end == at + 1)
		return -EPROTO;
	*ret_start = start;
	return 0;
}

int process_open(pid_t pid, uint64_t start, int *ret_pidfd)
{
	/* The descriptor first: if the start time that is read afterwards is right, it was taken from that
	 * process. */
	_cleanup_(close_fd) int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	if (fd < 0)
		return pid <= 0 || errno == EINVAL ? -ESRCH
						   : -errno; /* EINVAL: a thread has the number now */
	uint64_t now = 0;
	int r = process_start_time(pid, &now);
	/* It lives, and /proc does not show it: that is no proof of its end. */
	if (r == -ESRCH && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 0)
		return -EACCES;
	if (r < 0)
		return r;
	if (now != start)
		return -ESRCH;
	*ret_pidfd = take_fd(&fd);
	return 0;
}

bool process_die_with(pid_t parent)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

int process_go_early(void)
{
	char text[16] = "";
	_cleanup_(close_fd) int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	bool late = fd >= 0 && read(fd, text, sizeof text - 1) > 0 && text[0] == '-';
	return late && pwrite(fd, "0", 1, 0) < 0 ? -errno : 0;
}

#ifdef RECONCILED_FAULTS
bool fault(const char *name)
{
	const char *planted = getenv("RECONCILED_FAULT");
	return planted && strcmp(planted, name) == 0;
}
#endif
