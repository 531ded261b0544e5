/* The recorder: a reconciler that shows double runs and lost wakeups.
 *
 * Every attempt takes a lock on its key's file, without waiting, and so does, by inheritance, a helper that
 * it forks into a session of its own and leaves behind. The lock goes when the last of the two is dead: a
 * refused lock is a double run, or a process that outlived its attempt. Then it writes down the counter that
 * it saw in the object. Files are in $RECORDS: NAME.lock, NAME.value, refused (one line each time).
 *
 * With $SIDE, the host's name: a second lock, side-SIDE.lock, which all of a host's attempts share, must not be held by $OTHERS
 * (names with commas between); and timeline gets a line "NS SIDE begin NAME" and one with "end" (CLOCK_BOOTTIME). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void refused(const char *name)
{
	char line[300];
	int fd = open("refused", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	int n = snprintf(line, sizeof line, "%s\n", name);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		die("refused");
	exit(0);
}

/* The lock of a file, inherited on purpose; -1: somebody else has it. */
static int lock_of(const char *file, int how)
{
	int fd = open(file, O_RDWR | O_CREAT, 0666);
	if (fd < 0)
		die(file);
	if (flock(fd, how | LOCK_NB) == 0)
		return fd;
	close(fd);
	return -1;
}

static void lock_side(const char *side, const char *others, const char *name)
{
	char file[300], names[300];
	snprintf(file, sizeof file, "side-%s.lock", side);
	if (lock_of(file, LOCK_SH) < 0)
		refused(name);
	snprintf(names, sizeof names, "%s", others ? others : "");
	for (char *save, *other = strtok_r(names, ",", &save); other; other = strtok_r(NULL, ",", &save)) {
		snprintf(file, sizeof file, "side-%s.lock", other);
		int fd = lock_of(file, LOCK_EX);
		if (fd < 0)
			refused(name);
		close(fd);
	}
}

static void note(const char *side, const char *what, const char *name)
{
	struct timespec now;
	char line[600];
	if (!side)
		return;
	clock_gettime(CLOCK_BOOTTIME, &now);
	int fd = open("timeline", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	int n = snprintf(line, sizeof line, "%lld %s %s %s\n", now.tv_sec * 1000000000LL + now.tv_nsec, side,
			 what, name);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		die("timeline");
	close(fd);
}

int main(void)
{
	static char request[1 << 20];
	char path[300], next[310];
	const char *name = getenv("RECONCILE_NAME"), *records = getenv("RECORDS"), *side = getenv("SIDE");
	if (!name || !records || chdir(records) < 0)
		die("RECORDS");
	snprintf(path, sizeof path, "%s.lock", name);
	umask(0); /* another side may run as another user */
	if (lock_of(path, LOCK_EX) < 0)
		refused(name);
	if (side)
		lock_side(side, getenv("OTHERS"), name);
	pid_t helper = fork();
	if (helper < 0)
		die("fork");
	if (helper == 0) {
		setsid();
		close(0), close(1), close(2);
		for (;;)
			pause();
	}

	note(side, "begin", name);
	size_t n = fread(request, 1, sizeof request - 1, stdin);
	request[n] = 0;
	const char *at = strstr(request, "\"counter\":\"");
	long counter = at ? strtol(at + strlen("\"counter\":\""), NULL, 10) : -1;
	nanosleep(&(struct timespec){0, (20 + getpid() % 60) * 1000000L},
		  NULL); /* so that kills find it at work */

	snprintf(path, sizeof path, "%s.value", name);
	snprintf(next, sizeof next, "%s.next", path);
	FILE *f = fopen(next, "w");
	if (!f || fprintf(f, "%ld\n", counter) < 0 || fclose(f) || rename(next, path) < 0)
		die(path);
	note(side, "end", name);
	return 0;
}
