/* The conversation with the worker: coprocess or exec, found out by the first line. */
#include "sdk.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { READ_STEP = 64 << 10 };

/* ---- lines ---- */

int sdk_line(struct sdk_link *link, bool wait, struct span *ret)
{
	size_t seen = 0;
	buf_remove_front(&link->buffer, link->taken);
	link->taken = 0;
	for (;;) {
		const char *data = buf_str(&link->buffer);
		const char *end = memchr(data + seen, '\n', link->buffer.len - seen);
		seen = link->buffer.len;
		if (end || (link->ended && seen)) {
			ret->at = data;
			ret->len = end ? (size_t)(end - data) : seen;
			link->taken = ret->len + (end != NULL);
			return 1;
		}
		if (link->ended)
			return 0;
		struct pollfd p = {link->in, POLLIN, 0};
		if (!wait && poll(&p, 1, 0) <= 0)
			return -EAGAIN;
		char *room = buf_room(&link->buffer, READ_STEP);
		if (!room)
			return -EMSGSIZE;
		ssize_t n = read(link->in, room, READ_STEP);
		if (n < 0 && errno != EINTR)
			return -errno;
		link->ended = n == 0;
		link->buffer.len += n > 0 ? (size_t)n : 0;
	}
}

/* Gives the last line back and reads on to EOF: a request that somebody has indented. */
static int rest(struct sdk_link *link, struct span *ret)
{
	link->taken = 0;
	while (!link->ended) {
		char *room = buf_room(&link->buffer, READ_STEP);
		ssize_t n = room ? read(link->in, room, READ_STEP) : -1;
		if (n < 0 && (!room || errno != EINTR))
			return -EIO;
		link->ended = n == 0;
		link->buffer.len += n > 0 ? (size_t)n : 0;
	}
	*ret = buf_span(&link->buffer);
	link->taken = ret->len;
	return 0;
}

int sdk_send(struct sdk_link *link, struct span line)
{
	_cleanup_(buf_done) struct buf all = {0};
	buf_span_add(&all, line);
	buf_putc(&all, '\n');
	for (size_t done = 0; done < all.len;) {
		ssize_t n = write(link->out, all.data + done, all.len - done);
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return buf_failed(&all) ? -ENOMEM : 0;
}

/* The protocol's descriptors out of the way of the user's code and of what it starts; printf() goes to the
 * log. */
static int protect(struct sdk_link *link)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	link->in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	link->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (null < 0 || link->in < 0 || link->out < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		perror("reconcile: standard input and output");
		return -1;
	}
	close(null);
	setvbuf(stdout, NULL, _IOLBF, 0);
	return 0;
}

/* ---- requests ---- */

void sdk_handle(const struct reconcile_handler *handler, struct reconcile_request *req, struct buf *out)
{
	struct reconcile_response res = {0};
	int result = handler->reconcile(req, &res, handler->context);
	sdk_response_print(&res, req, result, out);
	sdk_response_done(&res);
}

/* The line is in the link's buffer, where a read would move it. */
static int serve(const struct reconcile_handler *handler, struct sdk_link *link, struct span line)
{
	_cleanup_(buf_done) struct buf text = {0}, out = {0};
	struct reconcile_request req = {0};
	struct err err = {{0}};
	buf_span_add(&text, line);
	int r = buf_failed(&text) ? -ENOMEM : sdk_request_init(&req, buf_span(&text), link, &err);
	if (r < 0) {
		fprintf(stderr, "reconcile: %s\n", err.text);
		return r;
	}
	sdk_handle(handler, &req, &out);
	sdk_request_done(&req);
	fflush(stdout);
	return sdk_send(link, buf_span(&out));
}

char *reconcile_once(const struct reconcile_handler *handler, const char *request)
{
	struct reconcile_request req = {0};
	struct buf out = {0};
	if (sdk_request_init(&req, span_of(request), NULL, NULL) < 0) {
		errno = EINVAL;
		return NULL;
	}
	sdk_handle(handler, &req, &out);
	sdk_request_done(&req);
	return buf_steal(&out);
}

/* ---- main ---- */

static int explain(const char *name, FILE *to)
{
	fprintf(to,
		"%s is a reconciler: reconciled-worker runs it and speaks with it over standard input and "
		"output.\n"
		"Name it in a controller file (spec.reconciler.coprocess or .exec), then try it with\n"
		"    reconcilectl up -f FILE\n"
		"or give it one request by hand: %s < request.json\n",
		name, name);
	return to == stdout ? 0 : 2;
}

static int converse(const struct reconcile_handler *handler, struct sdk_link *link)
{
	static const char hello[] = "{\"kind\":\"Hello\",\"apiVersion\":\"" SDK_VERSION "\"}";
	struct span line;
	int r;
	while (!link->shutdown && (r = sdk_line(link, true, &line)) == 1) {
		if (line.len == 0)
			continue;
		if (json_check(line, NULL) < 0 &&
		    (link->coprocess || rest(link, &line) < 0 || json_check(line, NULL) < 0)) {
			fprintf(stderr, "reconcile: not JSON: %.100s\n", line.at);
			return 1;
		}
		struct span kind = json_get(line, "kind");
		if (json_string_is(kind, "ReconcileRequest")) {
			bool once = !link->coprocess;
			if (serve(handler, link, line) < 0)
				return 1;
			if (once)
				return 0;
		} else if (json_string_is(kind, "Hello")) {
			link->coprocess = true;
			if (sdk_send(link, span_of(hello)) < 0)
				return 1;
		} else if (json_string_is(kind, "Shutdown")) {
			return 0;
		} /* Cancel or an answer for a request that has ended; kinds of later versions */
	}
	return link->shutdown || r == 0 ? 0 : 1;
}

int reconcile_main(int argc, char **argv, const struct reconcile_handler *handler)
{
	struct sdk_link link = {.buffer = {.limit = SDK_LINE_MAX}};
	const char *name = argc > 0 ? argv[0] : "reconciler";
	if (argc > 1 && strcmp(argv[1], "--help") == 0)
		return explain(name, stdout);
	if (isatty(STDIN_FILENO))
		return explain(name, stderr);
	if (protect(&link) < 0 || (handler->start && handler->start(handler->context) != 0))
		return 1;
	int status = converse(handler, &link);
	if (handler->stop)
		handler->stop(handler->context);
	buf_done(&link.buffer);
	return status;
}
