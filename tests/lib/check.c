#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTED_MAX = 1024 };
static unsigned passed, failed;
static pid_t started[STARTED_MAX];
static size_t n_started;
static char folder[256];

void check_at(bool held, const char *file, int line, const char *fmt, ...)
{
	if (held) {
		passed++;
		return;
	}
	failed++;
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "%s:%d: failed: ", file, line);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}

bool check_pause(int64_t deadline_ns)
{
	if (clock_boottime_ns() >= deadline_ns)
		return false;
	usleep(10000);
	return true;
}

static int remove_one(const char *path, const struct stat *st _unused_, int type _unused_,
		      struct FTW *ftw _unused_)
{
	return remove(path);
}

static void clean_up(void)
{
	for (size_t i = 0; i < n_started; i++)
		if (started[i] > 0) {
			kill(started[i], SIGKILL);
			waitpid(started[i], NULL, 0);
		}
	if (*folder && !failed)
		nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	else if (*folder)
		fprintf(stderr, "kept: %s\n", folder);
}

static void once(void)
{
	static bool done;
	if (!done)
		atexit(clean_up);
	done = true;
}

const char *check_folder(void)
{
	once();
	if (!*folder) {
		const char *tmp = getenv("TMPDIR");
		snprintf(folder, sizeof folder, "%s/reconciled-test.XXXXXX", tmp ? tmp : "/tmp");
		if (!mkdtemp(folder)) {
			perror(folder);
			exit(1);
		}
	}
	return folder;
}

pid_t check_start(const char *log, const char *const *argv)
{
	once();
	char path[4096];
	const char *bin = getenv("BIN");
	snprintf(path, sizeof path, "%s/%s", bin ? bin : ".", argv[0]);
	const char *program = !strchr(argv[0], '/') && access(path, X_OK) == 0 ? path : argv[0];
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	if (log) {
		posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
		posix_spawn_file_actions_adddup2(&actions, 1, 2);
	}
	pid_t pid;
	extern char **environ;
	int r = n_started == STARTED_MAX
		    ? EAGAIN
		    : posix_spawnp(&pid, program, &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r) {
		fprintf(stderr, "cannot start %s: %s\n", program, strerror(r));
		failed++;
		exit(1);
	}
	started[n_started++] = pid;
	return pid;
}

int check_wait(pid_t pid, int seconds)
{
	int status = -1;
	if (!WAIT_FOR(seconds, waitpid(pid, &status, WNOHANG) == pid))
		return -1;
	for (size_t i = 0; i < n_started; i++)
		if (started[i] == pid)
			started[i] = 0;
	return status;
}

char *check_read(const char *path)
{
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	char *text = xmalloc(1);
	for (ssize_t n; fd >= 0;) {
		text = xrealloc(text, len + 65537);
		n = read(fd, text + len, 65536);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	text[len] = 0;
	return text;
}

int check_result(void)
{
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed ? 1 : 0;
}
