#include "jail_run.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
					  "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", NULL};

struct jail *jail_up(const struct jail_options *o)
{
	struct jail *j = NULL;
	struct err err = {{0}};
	int r = jail_start(o, &j, &err);
	CHECK_MSG(r == 0, "jail_start: %d: %s", r, err.text);
	return j;
}

const char *jail_refusal(const struct jail_options *o)
{
	static struct err err;
	struct jail *j = NULL;
	err.text[0] = 0;
	if (jail_start(o, &j, &err) == 0)
		jail_free(j);
	return err.text;
}

bool jail_begin(struct jail *j, const char *const *argv, const int fds[3])
{
	struct err err = {{0}};
	int r = jail_spawn(j, argv, environment, fds, &err);
	CHECK_MSG(r == 0, "jail_spawn: %s", err.text);
	return r == 0;
}

bool jail_await(struct jail *j, int seconds, struct jail_event *ret)
{
	int64_t end = clock_boottime_ns() + seconds * NS_PER_S;
	for (;;) {
		if (jail_next(j, ret) == 1)
			return true;
		int64_t left = (end - clock_boottime_ns()) / NS_PER_MS;
		struct pollfd p = {jail_fd(j), POLLIN, 0};
		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return false;
	}
}

struct run jail_run(struct jail *j, const char *const *argv)
{
	struct run run = {0};
	struct jail_event e;
	char path[300];
	snprintf(path, sizeof path, "%s/output", check_folder());
	unlink(path);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC),
	    out = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	bool more = jail_begin(j, argv, (int[]){null, out, out});
	while (more) {
		if (!jail_await(j, 120, &e)) {
			CHECK_MSG(false, "%s: no event in 120 s", argv[0]);
			break;
		}
		run.started |= e.type == JAIL_EVENT_STARTED && e.error == 0;
		run.error = e.error;
		run.gone = e.type == JAIL_EVENT_GONE;
		run.status = e.status;
		run.left = e.left;
		memcpy(run.text, e.text, sizeof run.text);
		more = e.type == JAIL_EVENT_STARTED && e.error == 0;
	}
	close(null);
	close(out);
	run.output = check_read(path);
	return run;
}

char *jail_shell(const struct jail_options *o, const char *text)
{
	struct jail *j = jail_up(o ? o : &(struct jail_options){.processes = 64});
	if (!j)
		return xstrdup("");
	struct run run = jail_run(j, (const char *const[]){"sh", "-c", text, NULL});
	jail_free(j);
	return run.output;
}

bool has(const char *output, const char *part)
{
	return strstr(output, part) != NULL;
}

size_t processes_with(const char *marker)
{
	size_t n = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		char path[300], text[4096];
		int pid = atoi(e->d_name);
		snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
		int fd = pid > 0 && pid != getpid() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
		if (fd >= 0)
			close(fd);
		n += len > 0 && memmem(text, (size_t)len, marker, strlen(marker)) != NULL;
	}
	if (d)
		closedir(d);
	return n;
}

const char *own_copy(void)
{
	static char path[600];
	char self[4096] = "";
	if (*path)
		return path;
	_cleanup_(free_ptr) char *name = NULL;
	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
		return NULL;
	*strrchr(self, '/') = 0;
	name = xasprintf("%s/%s", self, self + strlen(self) + 1);
	_cleanup_(free_ptr) char *jail = xasprintf("%s/reconciled-jail", self);
	_cleanup_(free_ptr) char *hostile = xasprintf("%s/hostile", self);
	_cleanup_(free_ptr) char *to = xasprintf("%s/bin", check_folder());
	chmod(check_folder(), 0755);
	mkdir(to, 0755);
	CHECK(check_wait(check_start(NULL, (const char *const[]){"cp", name, jail, hostile, to, NULL}), 60) ==
	      0);
	snprintf(path, sizeof path, "%s/%s", to, self + strlen(self) + 1);
	return path;
}

bool again_as_user(const char *argument)
{
	char uid[16];
	snprintf(uid, sizeof uid, "%d", ORDINARY_UID);
	const char *const argv[] = {"setpriv",	      "--reuid",	 uid,	     "--regid", uid,
				    "--clear-groups", "--inh-caps=-all", own_copy(), argument,	NULL};
	return check_wait(check_start(NULL, argv), 500) == 0;
}
