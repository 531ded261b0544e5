/* The recorder: a reconciler that shows double runs and lost wakeups.
 *
 * Every attempt takes a lock on its key's file, without waiting, and so does, by inheritance, a helper that
 * it forks into a session of its own and leaves behind. The lock goes when the last of the two is dead: a
 * refused lock is a double run, or a process that outlived its attempt. Then it writes down the counter that
 * it saw in the object. Files are in $RECORDS: NAME.lock, NAME.value, refused (one line each time).
 *
 * With $SIDE, the host's name: a second lock, of side-SIDE.lock, which all of a host's attempts share; those of $OTHERS (names with
 * commas between) must not be held, which is looked at and not tried: who tries one has it for a moment, and refuses all who look
 * meanwhile. And timeline gets a line "NS SIDE begin NAME" and one with "end" (CLOCK_BOOTTIME). */
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

static int open_lock(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT, 0666);
	if (fd < 0)
		die(file);
	return fd;
}

/* Both locks belong to the open file, which the helper inherits. */
static void lock_key(const char *name)
{
	char file[300];
	snprintf(file, sizeof file, "%s.lock", name);
	if (flock(open_lock(file), LOCK_EX | LOCK_NB) < 0)
		refused(name);
}

static void lock_side(const char *side, const char *others, const char *name)
{
	char file[300], names[300];
	struct flock own = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	snprintf(file, sizeof file, "side-%s.lock", side);
	if (fcntl(open_lock(file), F_OFD_SETLK, &own) < 0)
		die(file);
	snprintf(names, sizeof names, "%s", others ? others : "");
	for (char *save, *other = strtok_r(names, ",", &save); other; other = strtok_r(NULL, ",", &save)) {
		struct flock theirs = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		snprintf(file, sizeof file, "side-%s.lock", other);
		int fd = open_lock(file);
		if (fcntl(fd, F_OFD_GETLK, &theirs) < 0)
			die(file);
		close(fd);
		if (theirs.l_type != F_UNLCK)
			refused(name);
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
	umask(0); /* another side may run as another user */
	lock_key(name);
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
