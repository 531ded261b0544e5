/* The recorder: a reconciler that shows double runs and lost wakeups.
 *
 * Every attempt takes a lock on its key's file, without waiting, and so does, by inheritance, a helper that
 * it forks into a session of its own and leaves behind. The lock goes when the last of the two is dead: a
 * refused lock is a double run, or a process that outlived its attempt. Then it writes down the counter that
 * it saw in the object. Files are in $RECORDS: NAME.lock, NAME.value, refused (one line each time). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

int main(void)
{
	static char request[1 << 20];
	char path[300], next[310];
	const char *name = getenv("RECONCILE_NAME"), *records = getenv("RECORDS");
	if (!name || !records || chdir(records) < 0)
		die("RECORDS");
	snprintf(path, sizeof path, "%s.lock", name);
	int lock = open(path, O_RDWR | O_CREAT, 0666); /* inherited on purpose */
	if (lock < 0)
		die(path);
	if (flock(lock, LOCK_EX | LOCK_NB) < 0)
		refused(name);
	pid_t helper = fork();
	if (helper < 0)
		die("fork");
	if (helper == 0) {
		setsid();
		close(0), close(1), close(2);
		for (;;)
			pause();
	}

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
	return 0;
}
