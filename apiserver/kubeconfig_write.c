#include "kubeconfig_write.h"
#include "base64.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void print(struct buf *b, const char *server, const char *token, const char *ca)
{
	buf_puts(b, "apiVersion: v1\nkind: Config\nclusters:\n- name: reconciled\n  cluster:\n    server: ");
	buf_json_string(b, span_of(server));
	if (ca) {
		buf_puts(b, "\n    certificate-authority-data: ");
		base64_encode(b, span_of(ca));
	}
	buf_puts(b, "\nusers:\n- name: reconciled\n  user: {");
	if (token) {
		buf_puts(b, "token: ");
		buf_json_string(b, span_of(token));
	}
	buf_puts(b, "}\ncontexts:\n- name: reconciled\n  context: {cluster: reconciled, user: reconciled}\n"
		    "current-context: reconciled\n");
}

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

int kubeconfig_write(const char *path, const char *server, const char *token, const char *ca, struct err *err)
{
	_cleanup_(buf_done) struct buf text = {0};
	_cleanup_(free_ptr) char *temporary = xasprintf("%s.%d", path, (int)getpid());
	print(&text, server, token, ca);
	unlink(temporary);
	_cleanup_(close_fd) int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, -errno, "--write-kubeconfig %s: %s", path, strerror(errno));
	int r = write_all(fd, buf_span(&text));
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(temporary);
		return err_set(err, r, "--write-kubeconfig %s: %s", path, strerror(-r));
	}
	return 0;
}
