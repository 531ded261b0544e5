#include "program.h"
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static void make_folder(void)
{
	snprintf(folder, sizeof folder, "/tmp/program_test.XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
	_cleanup_(free_ptr) char *command = xasprintf("rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

static char *path_of(const char *name)
{
	static char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

/* ---- options ---- */

static struct {
	const char *text;
	bool flag;
	const char **list;
} own;

static int options(struct program *p, const char **argv)
{
	static const struct program_option table[] = {
	    {"workers", 'w', "N", "how many", .text = &own.text},
	    {"flag", 'f', NULL, "a flag", .flag = &own.flag},
	    {"file", 0, "FILE", "may be repeated", .list = &own.list},
	    {0},
	};
	static char *args[32];
	int n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(args); i++) {
		free(args[i]);
		args[i] = NULL;
	}
	while (argv[n])
		args[n] = xstrdup(argv[n]), n++;
	int first = program_options(p, "reconciled-test", "reconciled-test [OPTION]... [NAME]", "Tests.",
				    table, n, args);
	for (int i = first; i < n; i++)
		argv[i] = args[i];
	return first;
}
#define OPTIONS(p, ...) options(p, (const char *[]){"reconciled-test", __VA_ARGS__ __VA_OPT__(, ) NULL})

Test(program, options_in_every_form)
{
	struct program p;
	const char *argv[] = {"x",
			      "first",
			      "--workers=3",
			      "-f",
			      "--file",
			      "a",
			      "--runtime-dir",
			      "/r",
			      "--file=b",
			      "--region-dir=/g",
			      "--kubeconfig",
			      "k",
			      "--log-level",
			      "debug",
			      "--",
			      "--last",
			      NULL};
	int first = options(&p, argv);
	cr_assert_str_eq(own.text, "3");
	cr_assert(own.flag);
	cr_assert(strcmp(own.list[0], "a") == 0 && strcmp(own.list[1], "b") == 0 && !own.list[2]);
	cr_assert_str_eq(p.runtime_dir, "/r");
	cr_assert_str_eq(p.region_dir, "/g");
	cr_assert_str_eq(p.kubeconfig, "k");
	cr_assert_str_eq(p.config_dir, "/etc/reconciled");
	cr_assert_eq(p.log_level, LOG_LEVEL_DEBUG);
	cr_assert_eq(p.log_format, LOG_FORMAT_AUTO);
	cr_assert_str_eq(argv[first], "first");
	cr_assert_str_eq(argv[first + 1], "--last");
}

Test(program, nothing_given)
{
	struct program p;
	cr_assert_eq(OPTIONS(&p), 1);
	cr_assert_null(p.kubeconfig);
	cr_assert_null(own.text);
	cr_assert(!own.flag);
	cr_assert_null(own.list);
}

Test(program, folders_of_an_ordinary_user)
{
	if (geteuid() != 0)
		cr_skip_test("needs root to become an ordinary user");
	struct program p;
	setenv("XDG_RUNTIME_DIR", "/run/user/65534", 1);
	OPTIONS(&p);
	cr_assert_str_eq(p.runtime_dir, "/run/reconciled");
	cr_assert_str_eq(p.region_dir, "/dev/shm/reconciled");
	cr_assert_eq(seteuid(65534), 0);
	OPTIONS(&p);
	cr_assert_str_eq(p.runtime_dir, "/run/user/65534/reconciled");
	cr_assert_str_eq(p.region_dir, "/dev/shm/reconciled-65534");
	unsetenv("XDG_RUNTIME_DIR");
	OPTIONS(&p);
	cr_assert_str_eq(p.runtime_dir, "/tmp/reconciled-65534");
	cr_assert_eq(seteuid(0), 0);
	prctl(PR_SET_DUMPABLE, 1); /* cleared with the change of uid; leak checks need it */
}

#define WRONG(name, ...)                                                                                     \
	Test(program, name, .exit_code = EXIT_USAGE, .init = cr_redirect_stderr)                             \
	{                                                                                                    \
		struct program p;                                                                            \
		OPTIONS(&p, __VA_ARGS__);                                                                    \
	}
WRONG(unknown_option, "--unknown")
WRONG(unknown_letter, "-x")
WRONG(missing_value, "--workers")
WRONG(value_for_a_flag, "--flag=1")
WRONG(wrong_log_level, "--log-level=loud")
WRONG(wrong_log_format, "--log-format", "xml")

Test(program, help, .exit_code = 0, .init = cr_redirect_stdout)
{
	struct program p;
	OPTIONS(&p, "--workers", "1", "-h");
	cr_assert_fail("--help returns");
}

Test(program, version, .exit_code = 0, .init = cr_redirect_stdout)
{
	struct program p;
	OPTIONS(&p, "--version");
	cr_assert_fail("--version returns");
}

/* ---- folders and locks ---- */

TestSuite(program_files, .init = make_folder, .fini = remove_folder);

Test(program_files, folder_is_made_private_and_kept)
{
	struct err err = {0};
	struct stat st;
	cr_assert_eq(program_folder(path_of("new"), &err), 0, "%s", err.text);
	cr_assert_eq(stat(path_of("new"), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0700);
	cr_assert_eq(chmod(path_of("new"), 0750), 0);
	cr_assert_eq(program_folder(path_of("new"), &err), 0, "%s", err.text);
	stat(path_of("new"), &st);
	cr_assert_eq(st.st_mode & 07777, 0750);
}

Test(program_files, folder_that_others_may_change_is_refused)
{
	struct err err = {0};
	mkdir(path_of("open"), 0700);
	cr_assert_eq(chmod(path_of("open"), 0777), 0);
	cr_assert_eq(program_folder(path_of("open"), &err), -EPERM);
	cr_assert(strstr(err.text, "chmod go-w"), "%s", err.text);
	cr_assert_eq(chmod(path_of("open"), 0770), 0);
	cr_assert_eq(program_folder(path_of("open"), &err), -EPERM);

	cr_assert_eq(symlink("/tmp", path_of("link")), 0);
	cr_assert_lt(program_folder(path_of("link"), &err), 0);
	close(open(path_of("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	cr_assert_eq(program_folder(path_of("file"), &err), -ENOTDIR);
	cr_assert_eq(program_folder(path_of("no/where"), &err), -ENOENT);
	cr_assert(strstr(err.text, "parent"), "%s", err.text);
}

Test(program_files, folder_of_another_user_is_refused)
{
	if (geteuid() != 0)
		cr_skip_test("needs root to give a folder away");
	struct err err = {0};
	mkdir(path_of("theirs"), 0700);
	cr_assert_eq(chown(path_of("theirs"), 65534, 65534), 0);
	cr_assert_eq(program_folder(path_of("theirs"), &err), -EPERM);
	cr_assert(strstr(err.text, "65534"), "%s", err.text);
}

Test(program_files, lock_is_held_and_names_its_holder)
{
	struct err err = {0};
	int fd = open(path_of("queue.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(write(fd, "4711\n", 5), 5);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	cr_assert_eq(program_lock(folder, "queue", &err), -EBUSY);
	cr_assert(strstr(err.text, "4711"), "%s", err.text);
	close(fd);
	cr_assert_eq(program_lock(folder, "queue", &err), 0, "%s", err.text);
	fd = open(path_of("queue.lock"), O_RDONLY | O_CLOEXEC);
	cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), -1, "the lock is kept");
	char pid[16] = "";
	cr_assert_gt(read(fd, pid, sizeof pid - 1), 0);
	cr_assert_eq(atoi(pid), getpid());
	close(fd);
	cr_assert_eq(program_lock(folder, "watcher", &err), 0, "another lock");
	cr_assert_eq(program_lock("/nowhere", "queue", &err), -ENOENT);
}

Test(program_files, beside)
{
	char self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	char *name = strrchr(self, '/') + 1;
	char *found = program_beside(name);
	cr_assert_str_eq(found, self);
	free(found);
	found = program_beside("no-such-program");
	name[-1] = 0;
	cr_assert(strncmp(found, self, strlen(self)) == 0 &&
		  strcmp(found + strlen(self), "/no-such-program") == 0);
	free(found);
}

/* ---- processes ---- */

Test(program, start_time_of_a_process_with_an_odd_name)
{
	uint64_t before = 0, after = 0;
	cr_assert_eq(process_start_time(getpid(), &before), 0);
	cr_assert_gt(before, 0);
	static const char *const names[] = {"a) S 1 (b", ") 1 2 3 4 5 6", "((((", "))))", "new\nline", " "};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		/* /proc/PID/stat has the name of the first thread */
		int fd = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
		cr_assert_eq(write(fd, names[i], strlen(names[i])), (ssize_t)strlen(names[i]));
		close(fd);
		after = 0;
		cr_assert_eq(process_start_time(getpid(), &after), 0);
		cr_assert_eq(after, before, "%s", names[i]);
	}
}

/* Ends with the test, also with one that fails: it has the runner's output open, which would be waited for. */
static pid_t child(void)
{
	pid_t test = getpid(), pid = fork();
	if (pid == 0) {
		while (process_die_with(test))
			pause();
		_exit(1);
	}
	return pid;
}

Test(program, pidfd_of_exactly_that_process)
{
	pid_t pid = child();
	uint64_t start;
	int fd = -1;
	cr_assert_eq(process_start_time(pid, &start), 0);
	cr_assert_eq(process_open(pid, start + 1, &fd), -ESRCH);
	cr_assert_eq(fd, -1);
	cr_assert_eq(process_open(pid, start, &fd), 0);
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	struct pollfd p = {fd, POLLIN, 0};
	cr_assert_eq(poll(&p, 1, 0), 0);
	kill(pid, SIGKILL);
	cr_assert_eq(poll(&p, 1, 60000), 1, "readable at its end");
	waitpid(pid, NULL, 0);
	cr_assert_eq(process_start_time(pid, &start), -ESRCH);
	int gone = -1;
	cr_assert_eq(process_open(pid, start, &gone), -ESRCH);
	cr_assert_eq(process_open(0, 0, &gone), -ESRCH);
	cr_assert_eq(process_open(-5, 0, &gone), -ESRCH);
	close(fd);
}

Test(program, dies_with_its_parent)
{
	int pipe_fds[2];
	cr_assert_eq(pipe(pipe_fds), 0);
	pid_t test = getpid(), parent = fork();
	if (parent == 0) {
		pid_t self = getpid();
		if (fork() == 0) {
			bool alive = process_die_with(self);
			_exit(write(pipe_fds[1], alive ? "y" : "n", 1) == 1 && alive ? (pause(), 0) : 0);
		}
		while (process_die_with(test))
			pause();
		_exit(1);
	}
	close(pipe_fds[1]);
	char answer = 0;
	cr_assert_eq(read(pipe_fds[0], &answer, 1), 1);
	cr_assert_eq(answer, 'y');
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	struct pollfd p = {pipe_fds[0], POLLIN, 0};
	cr_assert_eq(poll(&p, 1, 60000), 1);
	cr_assert_eq(read(pipe_fds[0], &answer, 1), 0, "its end of the pipe is closed: it is gone");
	cr_assert(!process_die_with(1 << 22), "the parent is another one");
	prctl(PR_SET_PDEATHSIG, 0);
}

Test(program, signals_come_through_the_descriptor)
{
	int fd = program_signals(true);
	cr_assert_geq(fd, 0);
	int expected[] = {SIGTERM, SIGHUP, SIGINT, SIGCHLD};
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		struct signalfd_siginfo info;
		kill(getpid(), expected[i]);
		struct pollfd p = {fd, POLLIN, 0};
		cr_assert_eq(poll(&p, 1, 60000), 1);
		cr_assert_eq(read(fd, &info, sizeof info), (ssize_t)sizeof info);
		cr_assert_eq(info.ssi_signo, (uint32_t)expected[i]);
	}
	raise(SIGPIPE); /* ignored */
	close(fd);
}

Test(program, without_a_service_manager_notifying_does_nothing)
{
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	program_notify("STATUS=%d", 1);
	cr_assert_eq(program_watchdog_ns(), 0);
	setenv("WATCHDOG_USEC", "10000000", 1);
	cr_assert_eq(program_watchdog_ns(), 5 * NS_PER_S);
}
