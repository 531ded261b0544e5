#include "usage.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { PROCESSES_MAX = 1024 };

/* Reads a small file of /proc; the text is terminated. False if it is gone. */
static bool read_proc(const char *path, char *text, size_t room)
{
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);
	if (n < 0)
		return false;
	text[n] = 0;
	return true;
}

static uint64_t memory_of(pid_t pid)
{
	char path[64], text[2048];
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	const char *pss = read_proc(path, text, sizeof(text)) ? strstr(text, "\nPss:") : NULL;
	if (pss)
		return strtoull(pss + 5, NULL, 10) * 1024;
	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	if (!read_proc(path, text, sizeof(text)))
		return 0;
	char *end;
	strtoull(text, &end, 10);
	return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int64_t cpu_of(pid_t pid)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!read_proc(path, text, sizeof(text)))
		return 0;
	char *at = strrchr(text, ')'); /* the name may hold anything */
	if (!at)
		return 0;
	at += 2;
	for (int field = 3; field < 14 && at; field++) {
		at = strchr(at, ' ');
		at += at != NULL;
	}
	int64_t ticks = 0;
	for (int field = 14; field <= 17 && at; field++) /* utime stime cutime cstime */
		ticks += strtoll(at, &at, 10);
	return ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
}

/* Adds the children of one process, whichever of its threads has forked them. */
static void add_children(pid_t pid, pid_t *list, size_t *count)
{
	char path[96], text[8192];
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *tasks = opendir(path);
	for (struct dirent *e; tasks && (e = readdir(tasks));) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", pid, e->d_name);
		if (e->d_name[0] == '.' || !read_proc(path, text, sizeof(text)))
			continue;
		for (char *at = text, *end; *count < PROCESSES_MAX; at = end) {
			long child = strtol(at, &end, 10);
			if (end == at)
				break;
			list[(*count)++] = (pid_t)child;
		}
	}
	if (tasks)
		closedir(tasks);
}

void usage_below(pid_t root, struct usage *ret)
{
	pid_t list[PROCESSES_MAX];
	size_t count = 0;
	*ret = (struct usage){0};
	add_children(root, list, &count);
	for (size_t i = 0; i < count; i++) {
		ret->memory_bytes += memory_of(list[i]);
		ret->cpu_ns += cpu_of(list[i]);
		ret->processes++;
		add_children(list[i], list, &count);
	}
}

uint64_t usage_oom_kills(void)
{
	char text[16384];
	const char *at = read_proc("/proc/vmstat", text, sizeof(text)) ? strstr(text, "\noom_kill ") : NULL;
	return at ? strtoull(at + 10, NULL, 10) : 0;
}
