/* The blocking form of a request, for programs that ask once. Made of what transport.h offers to
 * everybody. */
#include "transport.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Why there is no connection, or no longer one, for a person. */
static int call_explain(const char *path, bool was_connected, struct err *err)
{
	struct stat st;
	if (stat(path, &st))
		return err_set(err, -ENOTCONN, "%s: %s: is the broker running, and is --runtime-dir right?",
			       path, strerror(errno));
	if (geteuid() && st.st_uid != geteuid())
		return err_set(err, -ENOTCONN,
			       "%s: belongs to another user (uid %u): run as that user or as root", path,
			       st.st_uid);
	if (was_connected)
		return err_set(err, -ENOTCONN, "%s: the broker ended before it answered", path);
	_cleanup_(close_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	strncpy(a.sun_path, path, sizeof a.sun_path - 1);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof a))
		return err_set(err, -ENOTCONN, "%s: what listens there is hung, or is not a broker", path);
	return err_set(err, -ENOTCONN, "%s: nobody listens (%s): is the broker running?", path,
		       strerror(errno));
}

int transport_call(struct transport_client *c, struct span bytes, int timeout_ms, struct buf *ret_answer,
		   struct err *err)
{
	const char *path = transport_client_path(c);
	int64_t end = clock_boottime_ns() + (int64_t)timeout_ms * NS_PER_MS;
	uint32_t request = 0; /* 0: not sent yet */
	for (;;) {
		int r = request ? 0 : transport_send(c, bytes, &request);
		if (r && r != -ENOTCONN)
			return err_set(err, r, "%s: cannot send %zu bytes: %s", path, bytes.len,
				       strerror(-r));
		struct transport_reply reply;
		enum transport_event_type type = transport_client_next(c, &reply);
		if (type == TRANSPORT_REQUEST && reply.request == request) {
			buf_span_add(ret_answer, reply.bytes);
			return buf_failed(ret_answer) ? err_set(err, -ENOMEM, "out of memory") : 0;
		}
		if (type == TRANSPORT_GONE && request)
			return call_explain(path, true, err);
		if (type != TRANSPORT_NOTHING)
			continue;
		int64_t left = (end - clock_boottime_ns()) / NS_PER_MS;
		if (left <= 0 && !request)
			return call_explain(path, false, err);
		if (left <= 0)
			return err_set(err, -ETIMEDOUT, "%s: no answer within %d ms", path, timeout_ms);
		struct pollfd p = {.fd = transport_client_fd(c), .events = POLLIN};
		poll(&p, 1, (int)left);
	}
}
