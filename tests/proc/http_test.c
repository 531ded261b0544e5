/* common/http.h and kube.h against a server that misbehaves on demand, without TLS (see tls_test.c). */
#include "check.h"
#include "http_fixture.h"
#include "json_scan.h"
#include "kube.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TIMEOUT_MS = SOON * 1000 };

/* A transfer that is watched. */
struct watch {
	struct http_transfer *t;
	struct buf data;
	struct err err;
	struct http_result result;
	int starts, pieces, ends, code;
	int stop_after; /* on_data's error comes with this piece; 0: never */
	bool cancel;	/* and is a cancellation */
};

static int watch_start(void *ctx, const struct http_result *r)
{
	struct watch *w = ctx;
	CHECK(w->pieces == 0 && r->status != 0);
	w->starts++;
	return 0;
}

static int watch_data(void *ctx, struct span data)
{
	struct watch *w = ctx;
	buf_span_add(&w->data, data);
	if (++w->pieces != w->stop_after)
		return 0;
	if (!w->cancel)
		return -ECANCELED;
	http_cancel(w->t);
	return 0;
}

static void watch_end(void *ctx, int code, const struct http_result *r, const struct err *err)
{
	struct watch *w = ctx;
	w->ends++;
	w->code = code;
	w->result = *r;
	w->err = *err;
}

static void watch_begin(struct http_client *c, struct watch *w, const char *path, int64_t idle_ms, bool own)
{
	struct http_request r = {
	    .method = "GET", .path = path, .idle_timeout_ms = idle_ms, .own_connection = own};
	struct http_callbacks cb = {.on_start = watch_start, .on_data = watch_data, .on_end = watch_end};
	struct err err = {0};
	CHECK_MSG(http_start(c, &r, &cb, w, &w->t, &err) == 0, "start: %s", err.text);
}

/* ---- plain HTTP ---- */

static void test_basics(const struct fixture *s)
{
	/* Proxies of the environment are ignored. */
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	struct http_client *c = fixture_plain_client(s);
	struct buf body = {0};
	struct err err = {0};
	CHECK_MSG(fixture_get(c, "/hello", &body, &err) == 0, "get: %s", err.text);
	CHECK(fixture_last.status == 200 && span_is(buf_span(&body), "{\"hello\":1}") &&
	      fixture_last.retry_after_ms == -1);
	CHECK(fixture_header_is(s, "user-agent", "reconciled-test") &&
	      fixture_header_is(s, "accept", "application/json"));
	CHECK(fixture_header_is(s, "authorization", NULL) && http_client_is_anonymous(c));
	CHECK(fixture_get(c, "/status?code=503&after=7", &body, &err) == 0 && fixture_last.status == 503 &&
	      fixture_last.retry_after_ms == 7000);
	CHECK(fixture_get(c, "/late?in=100", &body, &err) == 0 && fixture_last.retry_after_ms > 40000 &&
	      fixture_last.retry_after_ms <= 100000);
	CHECK(fixture_get(c, "/warned", &body, &err) == 0 && fixture_last.warnings == 1);
	CHECK(fixture_get(c, "/redirect", &body, &err) == 0 && fixture_last.status == 302);
	/* A body above 1 MiB: curl would wait for 100 Continue. */
	_cleanup_(free_ptr) char *big = xmalloc(2 << 20);
	memset(big, 'y', 2 << 20);
	struct http_request put = {.method = "PUT",
				   .path = "/hello",
				   .content_type = "application/merge-patch+json",
				   .body = {big, 2 << 20},
				   .timeout_ms = TIMEOUT_MS};
	CHECK(http_do(c, &put, &fixture_last, NULL, &err) == 0 && fixture_last.status == 200);
	_cleanup_(free_ptr) char *text = NULL;
	struct span line = fixture_request(s, 0, &text);
	int64_t len = 0;
	CHECK(json_int(json_get(line, "body"), &len) == 0 && len == 2 << 20 &&
	      json_string_is(json_get(line, "method"), "PUT"));
	CHECK(fixture_header_is(s, "expect", NULL) &&
	      fixture_header_is(s, "content-type", "application/merge-patch+json"));
	/* More than the caller keeps. */
	struct buf small = {.limit = 1000};
	struct http_request list = {.method = "GET", .path = "/gzip", .timeout_ms = TIMEOUT_MS};
	CHECK(http_do(c, &list, &fixture_last, &small, &err) == -EMSGSIZE);
	buf_done(&small);
	buf_done(&body);
	http_client_free(c);
	unsetenv("http_proxy");
	unsetenv("HTTPS_PROXY");
	unsetenv("ALL_PROXY");
}

static void test_connections(const struct fixture *s)
{
	struct http_client *c = fixture_plain_client(s);
	struct buf body = {0};
	struct err err = {0};
	struct http_counts counts;
	int64_t first = 0;
	for (int i = 0; i < 20; i++) {
		CHECK(fixture_get(c, "/hello", &body, &err) == 0);
		first = first ? first : fixture_request_port(s, 0);
		CHECK(fixture_request_port(s, 0) == first);
	}
	http_client_counts(c, &counts);
	CHECK(counts.connections == 1 && counts.requests == 20 && counts.failed == 0);
	/* Two watches: their own connections, and none for others, also when they have ended. */
	struct watch a = {0}, b = {0};
	watch_begin(c, &a, "/slow?n=3&ms=10", 0, true);
	CHECK(RUN_UNTIL(c, SOON, a.pieces));
	int64_t port_a = fixture_request_port(s, 0);
	CHECK(port_a != first && fixture_header_is(s, "accept-encoding", "identity"));
	watch_begin(c, &b, "/quiet", 0, true);
	CHECK(RUN_UNTIL(c, SOON, b.starts));
	int64_t port_b = fixture_request_port(s, 0);
	CHECK(port_b != first && port_b != port_a);
	CHECK(RUN_UNTIL(c, SOON, a.ends) && a.code == 0 && a.starts == 1);
	CHECK(fixture_get(c, "/hello", &body, &err) == 0 && fixture_request_port(s, 0) == first);
	http_cancel(b.t);
	CHECK(fixture_get(c, "/hello", &body, &err) == 0 && fixture_request_port(s, 0) == first &&
	      b.ends == 0);
	buf_done(&a.data);
	buf_done(&body);
	http_client_free(c);
}

/* A kept connection that the server has ended: the next request takes a new one, and nobody hears of it. */
static void test_left_connection(const struct fixture *s)
{
	struct http_client *c = fixture_plain_client(s);
	struct buf body = {0};
	struct err err = {0};
	for (int i = 0; i < 5; i++) {
		CHECK_MSG(fixture_get(c, "/leave", &body, &err) == 0 && fixture_last.status == 200, "%s",
			  err.text);
		int64_t port = fixture_request_port(s, 0);
		CHECK_MSG(fixture_get(c, "/hello", &body, &err) == 0 && fixture_last.status == 200, "%s",
			  err.text);
		CHECK(fixture_request_port(s, 0) != port);
	}
	buf_done(&body);
	http_client_free(c);
}

/* Nothing of the client is inherited by programs that are started while it works. */
static void test_close_on_exec(const struct fixture *s)
{
	enum { HIGHEST = 1024 };
	bool before[HIGHEST];
	for (int fd = 0; fd < HIGHEST; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	struct http_client *c = fixture_plain_client(s);
	struct watch w = {0};
	watch_begin(c, &w, "/quiet", 0, true);
	CHECK(RUN_UNTIL(c, SOON, w.starts));
	int opened = 0;
	for (int fd = 0; fd < HIGHEST; fd++) {
		int flags = fcntl(fd, F_GETFD);
		opened += flags >= 0 && !before[fd];
		CHECK_MSG(flags < 0 || before[fd] || (flags & FD_CLOEXEC), "descriptor %d would be inherited",
			  fd);
	}
	CHECK(opened >= 3); /* curl's own two and a connection */
	http_client_free(c);
}

static void test_cuts(const struct fixture *s)
{
	struct http_client *c = fixture_plain_client(s);
	struct buf body = {0};
	struct err err = {0};
	CHECK(fixture_get(c, "/cut", &body, &err) == -ECONNRESET);
	CHECK_MSG(strstr(err.text, "GET http://127.0.0.1") && strstr(err.text, "/cut: ") &&
		      strstr(err.text, "middle"),
		  "%s", err.text);
	CHECK(fixture_get(c, "/cut-chunk", &body, &err) == -ECONNRESET &&
	      span_is(buf_span(&body), "one\nhalf of"));
	CHECK_MSG(fixture_get(c, "/reset", &body, &err) == -ECONNRESET, "%s", err.text);
	CHECK_MSG(fixture_get(c, "/garbage", &body, &err) == -EPROTO, "%s", err.text);
	struct http_counts counts;
	http_client_counts(c, &counts);
	CHECK(counts.failed == 2 && counts.requests == 2);
	buf_done(&body);
	http_client_free(c);
}

static void test_refused(void)
{
	/* A port that was just free. */
	struct sockaddr_storage a = {.ss_family = AF_INET};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(fd, (struct sockaddr *)&a, 16) == 0 && getsockname(fd, (struct sockaddr *)&a, &len) == 0);
	struct fixture s = {.port = ((unsigned char)((char *)&a)[2] << 8) + (unsigned char)((char *)&a)[3]};
	struct http_client *c = fixture_plain_client(&s);
	struct buf body = {0};
	struct err err = {0};
	CHECK_MSG(fixture_get(c, "/hello", &body, &err) == -ECONNREFUSED, "%s", err.text);
	CHECK_MSG(strstr(err.text, "Connection refused"), "%s", err.text);
	close(fd);
	http_client_free(c);
	struct kubeconfig k = {.source = xstrdup("x"), .server = xstrdup("http://no-such-host.invalid:1")};
	c = fixture_client(&k);
	CHECK_MSG(fixture_get(c, "/hello", &body, &err) == -EHOSTUNREACH, "%s", err.text);
	http_client_free(c);
}

static void test_times(const struct fixture *s)
{
	struct http_client *c = fixture_plain_client(s);
	struct err err = {0};
	struct http_request never = {.method = "GET", .path = "/never", .timeout_ms = 200};
	int64_t begin = clock_boottime_ns();
	CHECK(http_do(c, &never, &fixture_last, NULL, &err) == -ETIMEDOUT);
	CHECK(clock_boottime_ns() - begin >= 150 * NS_PER_MS);
	/* Quiet for too long; and slow, for longer than that, but never too quiet. */
	struct watch quiet = {0}, slow = {0};
	watch_begin(c, &quiet, "/quiet", 8000, true);
	watch_begin(c, &slow, "/slow?n=12&ms=1000", 10000, true);
	begin = clock_boottime_ns();
	CHECK(RUN_UNTIL(c, SOON, quiet.ends));
	CHECK(clock_boottime_ns() - begin >= 7900 * (int64_t)NS_PER_MS && quiet.code == -ETIMEDOUT &&
	      quiet.starts == 1);
	CHECK_MSG(strstr(quiet.err.text, "nothing came for 8000 ms"), "%s", quiet.err.text);
	CHECK(RUN_UNTIL(c, SOON, slow.ends) && slow.code == 0 && slow.pieces >= 6);
	CHECK(span_is(buf_span(&slow.data), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n"));
	buf_done(&slow.data);
	http_client_free(c);
}

static void test_callbacks(const struct fixture *s)
{
	struct http_client *c = fixture_plain_client(s);
	struct err err = {0};
	struct buf body = {0};
	/* Others go on during a blocking request. */
	struct watch w = {0};
	watch_begin(c, &w, "/slow?n=10000&ms=20", 0, true);
	CHECK(RUN_UNTIL(c, SOON, w.pieces));
	int pieces = w.pieces;
	CHECK(fixture_get(c, "/slow?n=20&ms=50", &body, &err) == 0 && w.pieces > pieces && w.ends == 0);
	http_cancel(w.t);
	/* Ended by the receiver, with its code. */
	struct watch stopped = {.stop_after = 2};
	watch_begin(c, &stopped, "/slow?n=100&ms=20", 0, true);
	CHECK(RUN_UNTIL(c, SOON, stopped.ends) && stopped.code == -ECANCELED && stopped.pieces == 2 &&
	      stopped.result.status == 200);
	/* Cancelled from within, and before it began. */
	struct watch cancelled = {.stop_after = 2, .cancel = true}, unborn = {0};
	watch_begin(c, &cancelled, "/slow?n=100&ms=20", 0, true);
	watch_begin(c, &unborn, "/hello", 0, true);
	http_cancel(unborn.t);
	CHECK(RUN_UNTIL(c, SOON, cancelled.pieces == 2));
	CHECK(fixture_get(c, "/slow?n=3&ms=30", &body, &err) == 0);
	CHECK(cancelled.pieces == 2 && cancelled.ends == 0 && unborn.starts == 0);
	/* Freed with transfers on their way: no callback. */
	struct watch left = {0};
	watch_begin(c, &left, "/quiet", 0, true);
	CHECK(RUN_UNTIL(c, SOON, left.starts));
	http_client_free(c);
	CHECK(left.ends == 0);
	buf_done(&body);
	buf_done(&w.data);
	buf_done(&stopped.data);
	buf_done(&cancelled.data);
}

static void test_descriptors(const struct fixture *s)
{
	struct http_client *c = fixture_plain_client(s);
	struct watch w = {0};
	watch_begin(c, &w, "/quiet", 0, true);
	CHECK(RUN_UNTIL(c, SOON, w.starts));
	int fds[2];
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	struct pollfd p[] = {
	    {.fd = -1, .events = POLLIN}, {.fd = fds[0], .events = POLLIN}, {.fd = fds[1], .events = 0}};
	int64_t begin = clock_boottime_ns();
	CHECK(http_run(c, p, 3, 100) == 0 && clock_boottime_ns() - begin >= 90 * NS_PER_MS);
	CHECK(http_run(c, p, 3, 0) == 0);
	CHECK(write(fds[1], "x", 1) == 1);
	CHECK(http_run(c, p, 3, -1) == 1 && p[1].revents == POLLIN && !p[0].revents && !p[2].revents);
	char byte;
	CHECK(read(fds[0], &byte, 1) == 1);
	/* Only a hang-up, which curl's own polling cannot tell of. */
	close(fds[1]);
	p[2].fd = -1;
	CHECK(http_run(c, p, 3, -1) == 1 && (p[1].revents & POLLHUP));
	close(fds[0]);
	http_client_free(c);
}

static void test_tokens(const struct fixture *s)
{
	_cleanup_(free_ptr) char *file = xasprintf("%s/token", check_folder());
	struct err err = {0};
	struct buf body = {0};
	struct kubeconfig k = fixture_config(s, "http");
	k.token = xstrdup("fallback");
	k.token_file = xstrdup(file);
	struct http_client *c = fixture_client(&k);
	/* No file yet: the token of the configuration. */
	CHECK(fixture_get(c, "/token?want=fallback", &body, &err) == 0 && fixture_last.status == 200);
	/* The file wins, without its line feed. */
	fixture_write(file, "first\n");
	CHECK(fixture_get(c, "/token?want=first", &body, &err) == 0 && fixture_last.status == 200 &&
	      span_is(buf_span(&body), "welcome"));
	/* Rotated: the 401 makes us look, and nobody hears of it. */
	fixture_write(file, " second \r\n");
	struct watch w = {0};
	watch_begin(c, &w, "/token?want=second", 0, true);
	CHECK(RUN_UNTIL(c, SOON, w.ends) && w.code == 0 && w.starts == 1 && w.result.status == 200 &&
	      span_is(buf_span(&w.data), "welcome"));
	/* The same token: the 401 is the answer, and only one request was made. */
	CHECK(fixture_get(c, "/token?want=third", &body, &err) == 0 && fixture_last.status == 401 &&
	      strstr(buf_str(&body), "Unauthorized"));
	_cleanup_(free_ptr) char *text = NULL;
	CHECK(json_string_is(json_get(fixture_request(s, 1, &text), "path"), "/token?want=second"));
	/* Garbage in the file: the last good one goes on. */
	fixture_write(file, "two words\n");
	CHECK(fixture_get(c, "/token?want=second", &body, &err) == 0 && fixture_last.status == 200);
	http_client_free(c);
	/* A file that is not there, and no token else. */
	k = fixture_config(s, "http");
	k.token_file = xstrdup("/nonexistent/token");
	c = fixture_client(&k);
	CHECK(fixture_get(c, "/hello", &body, &err) == -ENOKEY);
	CHECK_MSG(strstr(err.text, "/nonexistent/token"), "%s", err.text);
	http_client_free(c);
	/* Basic, with what must not be taken apart. */
	k = fixture_config(s, "http");
	k.user = xstrdup("jane");
	k.password = xstrdup("p:w%20\xc3\xbc\"");
	c = fixture_client(&k);
	CHECK(fixture_get(c, "/hello", &body, &err) == 0 &&
	      fixture_header_is(s, "authorization", "Basic amFuZTpwOnclMjDDvCI="));
	http_client_free(c);
	/* A token that would end its header. */
	k = fixture_config(s, "http");
	k.token = xstrdup("a\r\nX-Evil: b");
	CHECK(http_client_new(&k, "t", &c, &err) == -EINVAL && !strstr(err.text, "Evil"));
	kubeconfig_done(&k);
	buf_done(&w.data);
	buf_done(&body);
}

/* How far the server is shows with the first answer. */
static void test_compression(const struct fixture *s)
{
	struct http_client *c = fixture_plain_client(s);
	struct buf body = {0};
	struct err err = {0};
	CHECK(fixture_get(c, "/gzip", &body, &err) == 0 && body.len == 100000 &&
	      fixture_header_is(s, "accept-encoding", "gzip"));
	CHECK(fixture_get(c, "/gzip", &body, &err) == 0 && body.len == 100000 &&
	      fixture_header_is(s, "accept-encoding", "identity"));
	buf_done(&body);
	http_client_free(c);
}

/* A server, or what stands before it, that compresses what nobody asked it to: said, and never handed out. */
static void test_compressed_unasked(const struct fixture *s)
{
	struct kubeconfig k = fixture_config(s, "http");
	k.disable_compression = true;
	struct http_client *c = fixture_client(&k);
	struct buf body = {0};
	struct err err = {0};
	struct watch w = {0};
	CHECK(fixture_get(c, "/gzip?unasked=1", &body, &err) == -EPROTO && !body.len);
	CHECK_MSG(strstr(err.text, "/gzip: 200, but it comes as gzip, which was not asked for"), "%s",
		  err.text);
	watch_begin(c, &w, "/gzip?unasked=1", 0, true);
	CHECK(RUN_UNTIL(c, 10, w.ends) && w.code == -EPROTO && !w.starts && !w.pieces &&
	      w.result.status == 200);
	CHECK_MSG(strstr(w.err.text, "comes as gzip"), "%s", w.err.text);
	/* Of a refusal the status is what counts. */
	CHECK(fixture_get(c, "/gzip?unasked=1&code=403", &body, &err) == 0 && fixture_last.status == 403 &&
	      !body.len);
	http_client_free(c);
}

/* A login page or a redirect is no answer, and nobody else hears who we are. */
static void test_no_api_server(const struct fixture *s)
{
	struct fixture other = fixture_start(NULL, NULL);
	struct kubeconfig k = fixture_config(s, "http");
	k.token = xstrdup("secret");
	struct http_client *c = fixture_client(&k);
	struct buf body = {0};
	struct err err = {0};
	struct kube_status status;
	struct http_request page = {.method = "GET", .path = "/page", .timeout_ms = TIMEOUT_MS};
	CHECK(kube_do(c, &page, &body, &status, &err) == -EPROTO && !body.len);
	CHECK_MSG(strcmp(err.text,
			 "GET /page: 200, but the answer is text/html and no JSON: is it from an API "
			 "server?") == 0,
		  "%s", err.text);
	page.accept = "application/json,*/*";
	CHECK(kube_do(c, &page, &body, &status, &err) == 0 && body.len);
	_cleanup_(free_ptr) char *path =
	    xasprintf("/redirect?to=http://127.0.0.1:%d/hello?state=secret", other.port);
	struct http_request redirect = {.method = "GET", .path = path, .timeout_ms = TIMEOUT_MS};
	CHECK(kube_do(c, &redirect, NULL, &status, &err) == -EPROTO && status.code == 302);
	_cleanup_(free_ptr) char *to = xasprintf("redirects to http://127.0.0.1:%d/hello, which", other.port);
	CHECK_MSG(strstr(err.text, to) && !strstr(err.text, "secret"), "%s", err.text);
	_cleanup_(free_ptr) char *asked = xasprintf("%s/requests", other.folder);
	CHECK(access(asked, F_OK) < 0);
	buf_done(&body);
	http_client_free(c);
	fixture_stop(&other);
}

static void test_prefix_without_compression(const struct fixture *s)
{
	struct kubeconfig k = fixture_config(s, "http");
	char *with_path = xasprintf("%s/k8s/clusters/c-x1", k.server);
	free(k.server);
	k.server = with_path;
	k.disable_compression = true;
	struct http_client *c = fixture_client(&k);
	struct buf body = {0};
	struct err err = {0};
	CHECK(fixture_get(c, "/hello", &body, &err) == 0 && fixture_last.status == 200);
	_cleanup_(free_ptr) char *text = NULL;
	CHECK(json_string_is(json_get(fixture_request(s, 0, &text), "path"), "/k8s/clusters/c-x1/hello"));
	CHECK(fixture_header_is(s, "accept-encoding", "identity"));
	buf_done(&body);
	http_client_free(c);
}

static void test_kube(const struct fixture *s)
{
	struct http_client *c = fixture_plain_client(s);
	struct kube_resource r;
	struct err err = {0};
	CHECK(kube_discover(c, "v1", "Pod", &r, &err) == 0 && r.namespaced && r.has_status && !r.custom &&
	      !*r.group && strcmp(r.plural, "pods") == 0 && strcmp(r.version, "v1") == 0);
	CHECK(kube_discover(c, "v1", "Node", &r, &err) == 0 && !r.namespaced && !r.has_status);
	CHECK(kube_discover(c, "apps/v1", "Deployment", &r, &err) == 0 && strcmp(r.group, "apps") == 0 &&
	      r.has_status && !r.custom);
	CHECK(kube_discover(c, "example.com/v1", "Website", &r, &err) == 0 && r.custom && !r.has_status);
	CHECK(kube_discover(c, "apps/v1", "Scale", &r, &err) == -ENOENT);
	CHECK_MSG(strstr(err.text, "these are: Deployment"), "%s", err.text);
	CHECK(kube_discover(c, "nope.example.com/v1", "A", &r, &err) == -ENOENT);
	CHECK_MSG(strstr(err.text, "nope.example.com/v1 is not served"), "%s", err.text);
	CHECK(kube_discover(c, "a/b/c", "A", &r, &err) == -EINVAL);
	struct buf body = {0};
	buf_puts(&body, "kept");
	struct kube_status status;
	struct http_request forbidden = {
	    .method = "GET", .path = "/status?code=403&reason=Forbidden", .timeout_ms = TIMEOUT_MS};
	CHECK(kube_do(c, &forbidden, &body, &status, &err) == -EPERM && status.code == 403 &&
	      span_is(buf_span(&body), "kept"));
	CHECK_MSG(
	    strcmp(err.text, "the kubeconfig has no credentials: GET /status: 403 Forbidden: because") == 0,
	    "%s", err.text);
	struct http_request throttled = {
	    .method = "GET", .path = "/status?code=429&after=3", .timeout_ms = TIMEOUT_MS};
	CHECK(kube_do(c, &throttled, NULL, &status, &err) == -EAGAIN && status.retry_after_ms == 3000);
	buf_done(&body);
	http_client_free(c);
}

int main(void)
{
	struct fixture s = fixture_start(NULL, NULL);
	test_basics(&s);
	test_connections(&s);
	test_left_connection(&s);
	test_close_on_exec(&s);
	test_cuts(&s);
	test_refused();
	test_times(&s);
	test_callbacks(&s);
	test_descriptors(&s);
	test_tokens(&s);
	test_compression(&s);
	test_compressed_unasked(&s);
	test_no_api_server(&s);
	test_prefix_without_compression(&s);
	test_kube(&s);
	fixture_stop(&s);
	return check_result();
}
