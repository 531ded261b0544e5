#include "private_file.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, struct span text)
{
	while (text.len) {
		ssize_t n = write(fd, text.at, text.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text = (struct span){text.at + n, text.len - (size_t)n};
	}
	return 0;
}

int private_file_write(const char *path, struct span text, const char *what, struct err *err)
{
	_cleanup_(free_ptr) char *temporary = xasprintf("%s.%d", path, (int)getpid());
	unlink(temporary);
	_cleanup_(close_fd) int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "%s %s: %s", what, path, strerror(errno));
	int r = write_all(fd, text);
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(temporary);
		return err_set(err, r, "%s %s: %s", what, path, strerror(-r));
	}
	return 0;
}
