#include "http_fixture.h"
#include "check.h"
#include "json_scan.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TIMEOUT_MS = SOON * 1000 };

char *fixture_pki;
struct http_result fixture_last;

static const char *fixture_source(void)
{
	const char *src = getenv("SRC");
	return src ? src : ".";
}

void fixture_make_pki(void)
{
	fixture_pki = xasprintf("%s/pki", check_folder());
	CHECK(mkdir(fixture_pki, 0700) == 0);
	_cleanup_(free_ptr) char *command =
	    xasprintf("sh %s/tests/lib/pki.sh %s", fixture_source(), fixture_pki);
	CHECK(system(command) == 0);
}

struct fixture fixture_start(const char *cert, const char *client_ca)
{
	static int n;
	struct fixture s = {.folder = xasprintf("%s/server-%d", check_folder(), n++)};
	CHECK(mkdir(s.folder, 0700) == 0);
	_cleanup_(free_ptr) char *script = xasprintf("%s/tests/lib/http_server.py", fixture_source());
	_cleanup_(free_ptr) char *crt =
	    xasprintf("%s/%s.crt", fixture_pki ? fixture_pki : "", cert ? cert : "");
	_cleanup_(free_ptr) char *key =
	    xasprintf("%s/%s.key", fixture_pki ? fixture_pki : "", cert ? cert : "");
	_cleanup_(free_ptr) char *ca =
	    xasprintf("%s/%s.crt", fixture_pki ? fixture_pki : "", client_ca ? client_ca : "");
	_cleanup_(free_ptr) char *log = xasprintf("%s/log", s.folder);
	_cleanup_(free_ptr) char *port = xasprintf("%s/port", s.folder);
	const char *argv[] = {"python3", script, s.folder, cert ? crt : NULL, key, client_ca ? ca : NULL,
			      NULL};
	s.pid = check_start(log, argv);
	if (!WAIT_FOR(SOON, access(port, R_OK) == 0)) {
		CHECK_MSG(false, "the test server did not start");
		exit(check_result());
	}
	_cleanup_(free_ptr) char *text = check_read(port);
	s.port = atoi(text);
	return s;
}

void fixture_stop(struct fixture *s)
{
	kill(s->pid, SIGKILL);
	check_wait(s->pid, SOON);
	free(s->folder);
}

struct kubeconfig fixture_config(const struct fixture *s, const char *scheme)
{
	return (struct kubeconfig){.source = xstrdup("the-config"),
				   .server = xasprintf("%s://127.0.0.1:%d", scheme, s->port)};
}

struct http_client *fixture_client(struct kubeconfig *k)
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

struct http_client *fixture_plain_client(const struct fixture *s)
{
	struct kubeconfig k = fixture_config(s, "http");
	return fixture_client(&k);
}

int fixture_get(struct http_client *c, const char *path, struct buf *body, struct err *err)
{
	struct http_request r = {.method = "GET", .path = path, .timeout_ms = TIMEOUT_MS};
	buf_reset(body);
	fixture_last = (struct http_result){0};
	return http_do(c, &r, &fixture_last, body, err);
}

struct span fixture_request(const struct fixture *s, int back, char **text)
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

int64_t fixture_request_port(const struct fixture *s, int back)
{
	_cleanup_(free_ptr) char *text = NULL;
	int64_t port = -1;
	json_int(json_get(fixture_request(s, back, &text), "port"), &port);
	return port;
}

bool fixture_header_is(const struct fixture *s, const char *header, const char *want)
{
	_cleanup_(free_ptr) char *text = NULL;
	struct span v = json_path(fixture_request(s, 0, &text), "headers", header, NULL);
	return want ? json_string_is(v, want) : !v.at;
}

void fixture_write(const char *path, const char *text)
{
	_cleanup_(free_ptr) char *next = xasprintf("%s~", path);
	int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	CHECK(rename(next, path) == 0);
}

int fixture_port(int *ret_held)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	*ret_held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(*ret_held >= 0 &&
	      setsockopt(*ret_held, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0 &&
	      bind(*ret_held, (struct sockaddr *)&a, sizeof a) == 0 &&
	      getsockname(*ret_held, (struct sockaddr *)&a, &len) == 0);
	return ntohs(a.sin_port);
}

/* ---- a transfer that is looked at from outside ---- */

static int transfer_start(void *ctx, const struct http_result *r)
{
	((struct fixture_transfer *)ctx)->status = r->status;
	return 0;
}

static int transfer_data(void *ctx, struct span data)
{
	((struct fixture_transfer *)ctx)->bytes += data.len;
	return 0;
}

static void transfer_end(void *ctx, int code, const struct http_result *r, const struct err *err)
{
	struct fixture_transfer *t = ctx;
	*t = (struct fixture_transfer){
	    .status = r->status, .code = code, .ended = true, .bytes = t->bytes, .err = *err};
}

void fixture_begin(struct http_client *c, struct fixture_transfer *t, const char *path, int64_t timeout_ms)
{
	static const struct http_callbacks callbacks = {transfer_start, transfer_data, transfer_end};
	struct http_request r = {
	    .method = "GET", .path = path, .timeout_ms = timeout_ms, .own_connection = !timeout_ms};
	struct err err = {0};
	*t = (struct fixture_transfer){0};
	CHECK_MSG(http_start(c, &r, &callbacks, t, &t->t, &err) == 0, "%s", err.text);
}
