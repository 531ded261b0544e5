#include "jail.h"
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = offsetof(struct jail_msg, text) };

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(JAIL_FDS * sizeof(int))];
};

int jail_msg_send(int sock, const struct jail_msg *m, size_t text, const int *fds, size_t n, int flags)
{
	union control control = {0};
	struct iovec part = {(void *)m, HEAD + text};
	struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
	if (n) {
		head.msg_control = &control;
		head.msg_controllen = CMSG_SPACE(n * sizeof *fds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&head);
		c->cmsg_len = CMSG_LEN(n * sizeof *fds);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(c), fds, n * sizeof *fds);
	}
	ssize_t r;
	do
		r = sendmsg(sock, &head, flags | MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	/* A program that links nng sees EPIPE as ECONNRESET: transport.c wraps sendmsg. */
	return r < 0 ? errno == ECONNRESET ? -EPIPE : -errno : 0;
}

ssize_t jail_msg_recv(int sock, struct jail_msg *m, int ret_fds[JAIL_FDS], int flags)
{
	union control control;
	struct iovec part = {m, sizeof *m};
	struct msghdr head = {
	    .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	for (int i = 0; i < JAIL_FDS; i++)
		ret_fds[i] = -1;
	ssize_t r;
	do
		r = recvmsg(sock, &head, flags | MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r == 0 || errno == ECONNRESET ? -EPIPE : -errno;
	struct cmsghdr *c = CMSG_FIRSTHDR(&head);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fds, CMSG_DATA(c), MIN(c->cmsg_len - CMSG_LEN(0), JAIL_FDS * sizeof(int)));
	if (r >= HEAD && !(head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return r - HEAD;
	for (int i = 0; i < JAIL_FDS; i++)
		close_fd(&ret_fds[i]);
	return -EPROTO;
}
