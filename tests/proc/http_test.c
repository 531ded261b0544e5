/* common/http.h, kube.h and kubeconfig.h against a server that misbehaves on demand
 * (tests/lib/http_server.py). */
#include "check.h"
#include "json_scan.h"
#include "kube.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TIMEOUT_MS = 10000 };

static char *pki; /* the folder with the certificates */

/* ---- servers and clients ---- */

struct server {
	char *folder;
	int port;
	pid_t pid;
};

static const char *source_folder(void)
{
	const char *src = getenv("SRC");
	return src ? src : ".";
}

/* cert: a name in the pki folder, NULL for plain HTTP. client_ca: one is asked for. */
static struct server server_start(const char *cert, const char *client_ca)
{
	static int n;
	struct server s = {.folder = xasprintf("%s/server-%d", check_folder(), n++)};
	CHECK(mkdir(s.folder, 0700) == 0);
	_cleanup_(free_ptr) char *script = xasprintf("%s/tests/lib/http_server.py", source_folder());
	_cleanup_(free_ptr) char *crt = xasprintf("%s/%s.crt", pki, cert ? cert : "");
	_cleanup_(free_ptr) char *key = xasprintf("%s/%s.key", pki, cert ? cert : "");
	_cleanup_(free_ptr) char *ca = xasprintf("%s/%s.crt", pki, client_ca ? client_ca : "");
	_cleanup_(free_ptr) char *log = xasprintf("%s/log", s.folder);
	_cleanup_(free_ptr) char *port = xasprintf("%s/port", s.folder);
	const char *argv[] = {"python3", script, s.folder, cert ? crt : NULL, key, client_ca ? ca : NULL,
			      NULL};
	s.pid = check_start(log, argv);
	if (!WAIT_FOR(30, access(port, R_OK) == 0)) {
		CHECK_MSG(false, "the test server did not start");
		exit(check_result());
	}
	_cleanup_(free_ptr) char *text = check_read(port);
	s.port = atoi(text);
	return s;
}

static void server_stop(struct server *s)
{
	kill(s->pid, SIGKILL);
	check_wait(s->pid, 10);
	free(s->folder);
}

static struct kubeconfig config_for(const struct server *s, const char *scheme)
{
	return (struct kubeconfig){.source = xstrdup("the-config"),
				   .server = xasprintf("%s://127.0.0.1:%d", scheme, s->port)};
}

static struct http_client *client_new(struct kubeconfig *k)
{
	struct http_client *c = NULL;
	struct err err = {0};
	int r = http_client_new(k, "reconciled-test", &c, &err);
	CHECK_MSG(r == 0, "client: %s", err.text);
	if (r)
		exit(check_result());
	kubeconfig_done(k);
	return c;
}

static struct http_client *plain_client(const struct server *s)
{
	struct kubeconfig k = config_for(s, "http");
	return client_new(&k);
}

static struct http_result last; /* of the last get() */

static int get(struct http_client *c, const char *path, struct buf *body, struct err *err)
{
	struct http_request r = {.method = "GET", .path = path, .timeout_ms = TIMEOUT_MS};
	buf_reset(body);
	last = (struct http_result){0};
	return http_do(c, &r, &last, body, err);
}

/* What the server noted of the n-th last request (0: the last one). */
static struct span requested(const struct server *s, int back, char **text)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/requests", s->folder);
	*text = check_read(path);
	size_t end = strlen(*text);
	for (;; back--) {
		size_t begin = end ? end - 1 : 0;
		while (begin && (*text)[begin - 1] != '\n')
			begin--;
		if (!back || !begin)
			return (struct span){*text + begin, end - begin};
		end = begin;
	}
}

static int64_t requested_port(const struct server *s, int back)
{
	_cleanup_(free_ptr) char *text = NULL;
	int64_t port = -1;
	json_int(json_get(requested(s, back, &text), "port"), &port);
	return port;
}

static bool requested_header_is(const struct server *s, const char *header, const char *want)
{
	_cleanup_(free_ptr) char *text = NULL;
	struct span v = json_path(requested(s, 0, &text), "headers", header, NULL);
	return want ? json_string_is(v, want) : !v.at;
}

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

#define RUN_UNTIL(c, cond) WAIT_FOR(10, (http_run((c), NULL, 0, 50), (cond)))

/* ---- plain HTTP ---- */

static void test_basics(const struct server *s)
{
	/* Proxies of the environment are ignored. */
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	struct http_client *c = plain_client(s);
	struct buf body = {0};
	struct err err = {0};
	CHECK_MSG(get(c, "/hello", &body, &err) == 0, "get: %s", err.text);
	CHECK(last.status == 200 && span_is(buf_span(&body), "{\"hello\":1}") && last.retry_after_ms == -1);
	CHECK(requested_header_is(s, "user-agent", "reconciled-test") &&
	      requested_header_is(s, "accept", "application/json"));
	CHECK(requested_header_is(s, "authorization", NULL) && http_client_is_anonymous(c));
	CHECK(get(c, "/status?code=503&after=7", &body, &err) == 0 && last.status == 503 &&
	      last.retry_after_ms == 7000);
	CHECK(get(c, "/late?in=100", &body, &err) == 0 && last.retry_after_ms > 90000 &&
	      last.retry_after_ms <= 100000);
	CHECK(get(c, "/warned", &body, &err) == 0 && last.warnings == 1);
	CHECK(get(c, "/redirect", &body, &err) == 0 && last.status == 302);
	CHECK(get(c, "/gzip", &body, &err) == 0 && body.len == 100000 &&
	      requested_header_is(s, "accept-encoding", "gzip"));
	/* A body above 1 MiB: curl would wait for 100 Continue. */
	_cleanup_(free_ptr) char *big = xmalloc(2 << 20);
	memset(big, 'y', 2 << 20);
	struct http_request put = {.method = "PUT",
				   .path = "/hello",
				   .content_type = "application/merge-patch+json",
				   .body = {big, 2 << 20},
				   .timeout_ms = TIMEOUT_MS};
	CHECK(http_do(c, &put, &last, NULL, &err) == 0 && last.status == 200);
	_cleanup_(free_ptr) char *text = NULL;
	struct span line = requested(s, 0, &text);
	int64_t len = 0;
	CHECK(json_int(json_get(line, "body"), &len) == 0 && len == 2 << 20 &&
	      json_string_is(json_get(line, "method"), "PUT"));
	CHECK(requested_header_is(s, "expect", NULL) &&
	      requested_header_is(s, "content-type", "application/merge-patch+json"));
	/* More than the caller keeps. */
	struct buf small = {.limit = 1000};
	struct http_request list = {.method = "GET", .path = "/gzip", .timeout_ms = TIMEOUT_MS};
	CHECK(http_do(c, &list, &last, &small, &err) == -EMSGSIZE);
	buf_done(&small);
	buf_done(&body);
	http_client_free(c);
	unsetenv("http_proxy");
	unsetenv("HTTPS_PROXY");
	unsetenv("ALL_PROXY");
}

static void test_connections(const struct server *s)
{
	struct http_client *c = plain_client(s);
	struct buf body = {0};
	struct err err = {0};
	struct http_counts counts;
	int64_t first = 0;
	for (int i = 0; i < 20; i++) {
		CHECK(get(c, "/hello", &body, &err) == 0);
		first = first ? first : requested_port(s, 0);
		CHECK(requested_port(s, 0) == first);
	}
	http_client_counts(c, &counts);
	CHECK(counts.connections == 1 && counts.requests == 20 && counts.failed == 0);
	/* Two watches: their own connections, and none for others, also when they have ended. */
	struct watch a = {0}, b = {0};
	watch_begin(c, &a, "/slow?n=3&ms=10", 0, true);
	CHECK(RUN_UNTIL(c, a.pieces));
	int64_t port_a = requested_port(s, 0);
	CHECK(port_a != first && requested_header_is(s, "accept-encoding", "identity"));
	watch_begin(c, &b, "/quiet", 0, true);
	CHECK(RUN_UNTIL(c, b.starts));
	int64_t port_b = requested_port(s, 0);
	CHECK(port_b != first && port_b != port_a);
	CHECK(RUN_UNTIL(c, a.ends) && a.code == 0 && a.starts == 1);
	CHECK(get(c, "/hello", &body, &err) == 0 && requested_port(s, 0) == first);
	http_cancel(b.t);
	CHECK(get(c, "/hello", &body, &err) == 0 && requested_port(s, 0) == first && b.ends == 0);
	buf_done(&a.data);
	buf_done(&body);
	http_client_free(c);
}

static void test_cuts(const struct server *s)
{
	struct http_client *c = plain_client(s);
	struct buf body = {0};
	struct err err = {0};
	CHECK(get(c, "/cut", &body, &err) == -ECONNRESET);
	CHECK_MSG(strstr(err.text, "GET http://127.0.0.1") && strstr(err.text, "/cut: ") &&
		      strstr(err.text, "middle"),
		  "%s", err.text);
	CHECK(get(c, "/cut-chunk", &body, &err) == -ECONNRESET && span_is(buf_span(&body), "one\nhalf of"));
	CHECK_MSG(get(c, "/reset", &body, &err) == -ECONNRESET, "%s", err.text);
	CHECK_MSG(get(c, "/garbage", &body, &err) == -EPROTO, "%s", err.text);
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
	struct server s = {.port = ((unsigned char)((char *)&a)[2] << 8) + (unsigned char)((char *)&a)[3]};
	struct http_client *c = plain_client(&s);
	struct buf body = {0};
	struct err err = {0};
	CHECK_MSG(get(c, "/hello", &body, &err) == -ECONNREFUSED, "%s", err.text);
	CHECK_MSG(strstr(err.text, "Connection refused"), "%s", err.text);
	close(fd);
	http_client_free(c);
	struct kubeconfig k = {.source = xstrdup("x"), .server = xstrdup("http://no-such-host.invalid:1")};
	c = client_new(&k);
	CHECK_MSG(get(c, "/hello", &body, &err) == -EHOSTUNREACH, "%s", err.text);
	http_client_free(c);
}

static void test_times(const struct server *s)
{
	struct http_client *c = plain_client(s);
	struct err err = {0};
	struct http_request never = {.method = "GET", .path = "/never", .timeout_ms = 200};
	int64_t begin = clock_boottime_ns();
	CHECK(http_do(c, &never, &last, NULL, &err) == -ETIMEDOUT);
	CHECK(clock_boottime_ns() - begin >= 150 * NS_PER_MS);
	/* Quiet for too long; and slow but never too quiet. */
	struct watch quiet = {0}, slow = {0};
	watch_begin(c, &quiet, "/quiet", 300, true);
	watch_begin(c, &slow, "/slow?n=12&ms=100", 800, true);
	begin = clock_boottime_ns();
	CHECK(RUN_UNTIL(c, quiet.ends));
	CHECK(clock_boottime_ns() - begin >= 250 * NS_PER_MS && quiet.code == -ETIMEDOUT &&
	      quiet.starts == 1);
	CHECK_MSG(strstr(quiet.err.text, "nothing came for 300 ms"), "%s", quiet.err.text);
	CHECK(RUN_UNTIL(c, slow.ends) && slow.code == 0 && slow.pieces >= 6);
	CHECK(span_is(buf_span(&slow.data), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n"));
	buf_done(&slow.data);
	http_client_free(c);
}

static void test_callbacks(const struct server *s)
{
	struct http_client *c = plain_client(s);
	struct err err = {0};
	struct buf body = {0};
	/* Others go on during a blocking request. */
	struct watch w = {0};
	watch_begin(c, &w, "/slow?n=100&ms=20", 0, true);
	CHECK(get(c, "/slow?n=10&ms=50", &body, &err) == 0 && w.pieces > 0 && w.ends == 0);
	http_cancel(w.t);
	/* Ended by the receiver, with its code. */
	struct watch stopped = {.stop_after = 2};
	watch_begin(c, &stopped, "/slow?n=100&ms=20", 0, true);
	CHECK(RUN_UNTIL(c, stopped.ends) && stopped.code == -ECANCELED && stopped.pieces == 2 &&
	      stopped.result.status == 200);
	/* Cancelled from within, and before it began. */
	struct watch cancelled = {.stop_after = 2, .cancel = true}, unborn = {0};
	watch_begin(c, &cancelled, "/slow?n=100&ms=20", 0, true);
	watch_begin(c, &unborn, "/hello", 0, true);
	http_cancel(unborn.t);
	CHECK(RUN_UNTIL(c, cancelled.pieces == 2));
	CHECK(get(c, "/slow?n=3&ms=30", &body, &err) == 0);
	CHECK(cancelled.pieces == 2 && cancelled.ends == 0 && unborn.starts == 0);
	/* Freed with transfers on their way: no callback. */
	struct watch left = {0};
	watch_begin(c, &left, "/quiet", 0, true);
	CHECK(RUN_UNTIL(c, left.starts));
	http_client_free(c);
	CHECK(left.ends == 0);
	buf_done(&body);
	buf_done(&w.data);
	buf_done(&stopped.data);
	buf_done(&cancelled.data);
}

static void test_descriptors(const struct server *s)
{
	struct http_client *c = plain_client(s);
	struct watch w = {0};
	watch_begin(c, &w, "/quiet", 0, true);
	CHECK(RUN_UNTIL(c, w.starts));
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

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void test_tokens(const struct server *s)
{
	_cleanup_(free_ptr) char *file = xasprintf("%s/token", check_folder());
	struct err err = {0};
	struct buf body = {0};
	struct kubeconfig k = config_for(s, "http");
	k.token = xstrdup("fallback");
	k.token_file = xstrdup(file);
	struct http_client *c = client_new(&k);
	/* No file yet: the token of the configuration. */
	CHECK(get(c, "/token?want=fallback", &body, &err) == 0 && last.status == 200);
	/* The file wins, without its line feed. */
	write_text(file, "first\n");
	CHECK(get(c, "/token?want=first", &body, &err) == 0 && last.status == 200 &&
	      span_is(buf_span(&body), "welcome"));
	/* Rotated: the 401 makes us look, and nobody hears of it. */
	write_text(file, " second \r\n");
	struct watch w = {0};
	watch_begin(c, &w, "/token?want=second", 0, true);
	CHECK(RUN_UNTIL(c, w.ends) && w.code == 0 && w.starts == 1 && w.result.status == 200 &&
	      span_is(buf_span(&w.data), "welcome"));
	/* The same token: the 401 is the answer, and only one request was made. */
	CHECK(get(c, "/token?want=third", &body, &err) == 0 && last.status == 401 &&
	      strstr(buf_str(&body), "Unauthorized"));
	_cleanup_(free_ptr) char *text = NULL;
	CHECK(json_string_is(json_get(requested(s, 1, &text), "path"), "/token?want=second"));
	/* Garbage in the file: the last good one goes on. */
	write_text(file, "two words\n");
	CHECK(get(c, "/token?want=second", &body, &err) == 0 && last.status == 200);
	http_client_free(c);
	/* A file that is not there, and no token else. */
	k = config_for(s, "http");
	k.token_file = xstrdup("/nonexistent/token");
	c = client_new(&k);
	CHECK(get(c, "/hello", &body, &err) == -EACCES);
	CHECK_MSG(strstr(err.text, "/nonexistent/token"), "%s", err.text);
	http_client_free(c);
	/* Basic, with what must not be taken apart. */
	k = config_for(s, "http");
	k.user = xstrdup("jane");
	k.password = xstrdup("p:w%20\xc3\xbc\"");
	c = client_new(&k);
	CHECK(get(c, "/hello", &body, &err) == 0 &&
	      requested_header_is(s, "authorization", "Basic amFuZTpwOnclMjDDvCI="));
	http_client_free(c);
	/* A token that would end its header. */
	k = config_for(s, "http");
	k.token = xstrdup("a\r\nX-Evil: b");
	CHECK(http_client_new(&k, "t", &c, &err) == -EINVAL && !strstr(err.text, "Evil"));
	kubeconfig_done(&k);
	buf_done(&w.data);
	buf_done(&body);
}

static void test_prefix_and_compression(const struct server *s)
{
	struct kubeconfig k = config_for(s, "http");
	char *with_path = xasprintf("%s/k8s/clusters/c-x1", k.server);
	free(k.server);
	k.server = with_path;
	k.disable_compression = true;
	struct http_client *c = client_new(&k);
	struct buf body = {0};
	struct err err = {0};
	CHECK(get(c, "/hello", &body, &err) == 0 && last.status == 200);
	_cleanup_(free_ptr) char *text = NULL;
	CHECK(json_string_is(json_get(requested(s, 0, &text), "path"), "/k8s/clusters/c-x1/hello"));
	CHECK(requested_header_is(s, "accept-encoding", "identity"));
	buf_done(&body);
	http_client_free(c);
}

static void test_kube(const struct server *s)
{
	struct http_client *c = plain_client(s);
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

/* ---- TLS ---- */

static struct kubeconfig tls_config(const struct server *s, const char *ca)
{
	struct kubeconfig k = config_for(s, "https");
	if (ca)
		k.ca_file = xasprintf("%s/%s.crt", pki, ca);
	return k;
}

/* The code of one GET, and whether the error has the word. */
static int tls_get(struct kubeconfig *k, const char *word)
{
	struct http_client *c = client_new(k);
	struct err err = {0};
	struct buf body = {0};
	int r = get(c, "/hello", &body, &err);
	CHECK_MSG(!word || strstr(err.text, word), "no \"%s\" in: %d %s", word, r, err.text);
	CHECK_MSG(r != 0 || last.status == 200, "status %d", last.status);
	buf_done(&body);
	http_client_free(c);
	return r;
}

static void test_trust(void)
{
	struct server s = server_start("both", NULL);
	struct kubeconfig k = tls_config(&s, "ca");
	CHECK(tls_get(&k, NULL) == 0);
	k = tls_config(&s, NULL);
	_cleanup_(free_ptr) char *ca_path = xasprintf("%s/ca.crt", pki);
	k.ca_data = check_read(ca_path);
	CHECK(tls_get(&k, NULL) == 0);
	k = tls_config(&s, "other-ca");
	CHECK(tls_get(&k, "unknown authority") == -EACCES);
	k = tls_config(&s, NULL);
	CHECK(tls_get(&k, "no certificate-authority in the-config") == -EACCES);
	k = tls_config(&s, NULL);
	k.insecure = true;
	CHECK(tls_get(&k, NULL) == 0);
	/* The server's own certificate as the authority: what Go's clients accept. */
	k = tls_config(&s, "both");
	CHECK(tls_get(&k, NULL) == 0);
	/* http to a TLS port, and the other way round below. */
	k = config_for(&s, "http");
	struct http_client *c = client_new(&k);
	struct buf body = {0};
	struct err err = {0};
	CHECK(get(c, "/hello", &body, &err) < 0);
	http_client_free(c);
	buf_done(&body);
	server_stop(&s);
	s = server_start("expired", NULL);
	k = tls_config(&s, "ca");
	CHECK(tls_get(&k, "expired on 20") == -EACCES);
	server_stop(&s);
	s = server_start(NULL, NULL);
	k = tls_config(&s, "ca");
	CHECK(tls_get(&k, "does not speak TLS") == -EPROTO);
	server_stop(&s);
}

static void test_server_names(void)
{
	struct server named = server_start("named", NULL), address = server_start("address", NULL);
	struct kubeconfig k = tls_config(&named, "ca");
	CHECK(tls_get(&k, "DNS:kube.example.test") == -EACCES);
	/* The name is used for SNI and for the check, not for the Host header. */
	k = tls_config(&named, "ca");
	k.tls_server_name = xstrdup("kube.example.test");
	CHECK(tls_get(&k, NULL) == 0);
	_cleanup_(free_ptr) char *text = NULL;
	CHECK(json_string_is(json_get(requested(&named, 0, &text), "server_name"), "kube.example.test"));
	_cleanup_(free_ptr) char *host = xasprintf("127.0.0.1:%d", named.port);
	CHECK(requested_header_is(&named, "host", host));
	/* A certificate that is good for the address in the URL is not good enough. */
	k = tls_config(&address, "ca");
	CHECK(tls_get(&k, NULL) == 0);
	k = tls_config(&address, "ca");
	k.tls_server_name = xstrdup("kube.example.test");
	CHECK(tls_get(&k, "not for kube.example.test") == -EACCES);
	server_stop(&named);
	server_stop(&address);
}

static void test_client_certificates(void)
{
	struct server s = server_start("both", "ca");
	struct kubeconfig k = tls_config(&s, "ca");
	/* The server's alert, or the reset behind it: which one we see is a race. */
	int r = tls_get(&k, "client certificate");
	CHECK(r == -EACCES || r == -ECONNRESET);
	k = tls_config(&s, "ca");
	k.cert_file = xasprintf("%s/client.crt", pki);
	k.key_file = xasprintf("%s/client.key", pki);
	CHECK(tls_get(&k, NULL) == 0);
	_cleanup_(free_ptr) char *crt = xasprintf("%s/client.crt", pki);
	_cleanup_(free_ptr) char *key = xasprintf("%s/client.key", pki);
	k = tls_config(&s, "ca");
	k.cert_data = check_read(crt);
	k.key_data = check_read(key);
	CHECK(tls_get(&k, NULL) == 0);
	k = tls_config(&s, "ca");
	k.cert_file = xasprintf("%s/stranger.crt", pki);
	k.key_file = xasprintf("%s/stranger.key", pki);
	r = tls_get(&k, "client certificate");
	CHECK(r == -EACCES || r == -ECONNRESET);
	server_stop(&s);
}

/* What is wrong with the configuration is found before anything is sent. */
static void test_material(void)
{
	static const struct {
		const char *ca, *cert, *key, *word;
	} rows[] = {
	    {"ca.key", NULL, NULL, "certificate-authority: no PEM certificate"},
	    {"gone.crt", NULL, NULL, "certificate-authority: cannot read"},
	    {"ca.crt", "gone.crt", "client.key", "client-certificate: cannot read"},
	    {"ca.crt", "client.crt", "gone.key", "client-key: cannot read"},
	    {"ca.crt", "client.crt", "client.crt", "client-key: no PEM private key"},
	    {"ca.crt", "client.crt", "stranger.key", "client-key does not belong"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kubeconfig k = {.source = xstrdup("the-config"),
				       .server = xstrdup("https://127.0.0.1:1")};
		k.ca_file = xasprintf("%s/%s", pki, rows[i].ca);
		k.cert_file = rows[i].cert ? xasprintf("%s/%s", pki, rows[i].cert) : NULL;
		k.key_file = rows[i].key ? xasprintf("%s/%s", pki, rows[i].key) : NULL;
		struct http_client *c;
		struct err err = {0};
		CHECK(http_client_new(&k, "t", &c, &err) == -EACCES);
		CHECK_MSG(strstr(err.text, rows[i].word) && strstr(err.text, "the-config"), "%zu: %s", i,
			  err.text);
		kubeconfig_done(&k);
	}
	struct kubeconfig k = {.source = xstrdup("the-config"), .server = xstrdup("https://127.0.0.1:1")};
	_cleanup_(free_ptr) char *crt = xasprintf("%s/expired.crt", pki);
	k.cert_data = check_read(crt);
	k.key_file = xasprintf("%s/expired.key", pki);
	struct http_client *c;
	struct err err = {0};
	CHECK(http_client_new(&k, "t", &c, &err) == -EACCES);
	CHECK_MSG(strstr(err.text, "client-certificate expired on 20"), "%s", err.text);
	kubeconfig_done(&k);
}

/* ---- whole kubeconfig files ---- */

static int connect_with(const char *path, struct err *err)
{
	struct kubeconfig k = {0};
	int r = kubeconfig_load(path, NULL, &k, err);
	if (r)
		return r;
	struct http_client *c = NULL;
	struct buf body = {0};
	r = http_client_new(&k, "reconciled-test", &c, err);
	if (!r)
		r = get(c, "/hello", &body, err);
	kubeconfig_done(&k);
	buf_done(&body);
	http_client_free(c);
	return r;
}

static void test_kubeconfigs(void)
{
	struct server mutual = server_start("both", "ca"), named = server_start("named", NULL);
	struct err err = {0};
	/* Relative paths, from another working directory. */
	_cleanup_(free_ptr) char *relative = xasprintf("%s/../relative.yaml", pki);
	_cleanup_(free_ptr) char *text =
	    xasprintf("clusters: [{name: a, cluster: {server: 'https://127.0.0.1:%d', certificate-authority: "
		      "pki/ca.crt}}]\n"
		      "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
		      "users: [{name: a, user: {client-certificate: ./pki/client.crt, client-key: "
		      "../%s/pki/client.key}}]\n",
		      mutual.port, strrchr(check_folder(), '/') + 1);
	write_text(relative, text);
	CHECK(chdir("/") == 0);
	CHECK_MSG(connect_with(relative, &err) == 0, "%s", err.text);
	/* tls-server-name, CA inline, a token file that wins over a stale token. */
	_cleanup_(free_ptr) char *command = xasprintf("base64 -w0 < %s/ca.crt > %s/ca.b64", pki, pki);
	CHECK(system(command) == 0);
	_cleanup_(free_ptr) char *b64_path = xasprintf("%s/ca.b64", pki);
	_cleanup_(free_ptr) char *b64 = check_read(b64_path);
	_cleanup_(free_ptr) char *token = xasprintf("%s/token.txt", pki);
	write_text(token, "fresh\n");
	_cleanup_(free_ptr) char *inline_path = xasprintf("%s/inline.yaml", pki);
	_cleanup_(free_ptr) char *inline_text =
	    xasprintf("clusters: [{name: a, cluster: {server: 'https://127.0.0.1:%d/', tls-server-name: "
		      "kube.example.test, certificate-authority-data: %s}}]\n"
		      "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
		      "users: [{name: a, user: {token: stale, tokenFile: token.txt}}]\n",
		      named.port, b64);
	write_text(inline_path, inline_text);
	CHECK_MSG(connect_with(inline_path, &err) == 0, "%s", err.text);
	CHECK(requested_header_is(&named, "authorization", "Bearer fresh"));
	_cleanup_(free_ptr) char *log = NULL;
	CHECK(json_string_is(json_get(requested(&named, 0, &log), "path"), "/hello"));
	server_stop(&mutual);
	server_stop(&named);
}

int main(void)
{
	pki = xasprintf("%s/pki", check_folder());
	CHECK(mkdir(pki, 0700) == 0);
	_cleanup_(free_ptr) char *command = xasprintf("sh %s/tests/lib/pki.sh %s", source_folder(), pki);
	CHECK(system(command) == 0);
	char *src = realpath(source_folder(), NULL); /* a test changes its folder */
	setenv("SRC", src, 1);
	free(src);
	struct server s = server_start(NULL, NULL);
	test_basics(&s);
	test_connections(&s);
	test_cuts(&s);
	test_refused();
	test_times(&s);
	test_callbacks(&s);
	test_descriptors(&s);
	test_tokens(&s);
	test_prefix_and_compression(&s);
	test_kube(&s);
	server_stop(&s);
	test_trust();
	test_server_names();
	test_client_certificates();
	test_material();
	test_kubeconfigs();
	free(pki);
	return check_result();
}
