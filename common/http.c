/* Transfers on one curl_multi. Everything that touches the multi handle happens in step(), outside of curl's
 * callbacks: http_start only queues, http_cancel from within a callback only marks.
 *
 * Which rule comes from where: HTTP/1.1 only and no LOW_SPEED or pause (both fail on quiet streams; idle time
 * is measured here), own connections for watches, no Expect, no redirects,
 * identity encoding for watches (a server may compress each event as a gzip member of its own, and
 * libcurl 7.88 gives up after the first; one that does it unasked is an error). */
#include "http_private.h"
#include <ctype.h>
#include <linux/tcp.h> /* the C library's has no tcpi_min_rtt */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

enum {
	CONNECT_TIMEOUT_MS = 30000, /* TCP and TLS together */
	/* A peer that is gone without a word is noticed within KEEPALIVE_S and USER_TIMEOUT_MS together, which also ends
	 * connections whose sent bytes nobody acknowledges. */
	KEEPALIVE_S = 5, /* of silence, and between probes */
	USER_TIMEOUT_MS = 20000,
	CA_CACHE_S = 60,	       /* of the system's authorities */
	RETRY_AFTER_MAX_S = 24 * 3600, /* what a server may ask for */
	POLL_MAX_MS = 1000,
	RECEIVE_BYTES = 64 << 10,
	NEAR_US = 1000, /* a shorter round trip: this machine, or its own network */
};

/* ---- what curl calls ---- */

static int64_t retry_after_ms(const char *value)
{
	char *end;
	long seconds = strtol(value, &end, 10);
	if (end == value) {
		time_t at = curl_getdate(value, NULL);
		if (at < 0)
			return -1;
		seconds = (long)(at - time(NULL));
	}
	return (int64_t)MIN(MAX(seconds, 0), RETRY_AFTER_MAX_S) * 1000;
}

static bool header_value(const char *line, size_t len, const char *name, char *out, size_t size)
{
	size_t n = strlen(name);
	if (len < n || strncasecmp(line, name, n) != 0)
		return false;
	line += n;
	len -= n;
	while (len && isspace((unsigned char)*line))
		line++, len--;
	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	snprintf(out, size, "%.*s", (int)len, line);
	return true;
}

/* For a message: up to the first of these characters, and what can be shown. */
static bool header_text(const char *line, size_t len, const char *name, const char *until, char *out,
			size_t size)
{
	if (!header_value(line, len, name, out, size))
		return false;
	out[strcspn(out, until)] = '\0';
	for (char *c = out; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c > '~')
			*c = '?';
	return true;
}

/* The end of an answer's headers. */
static bool transfer_begin(struct http_transfer *t)
{
	struct http_client *c = t->client;
	long status = 0;
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200 || t->started || t->again)
		return true; /* 100 Continue, or the end of trailers */
	t->result.status = (int)status;
	if (status != 401)
		http_auth_accepted(c, t);
	else if (!t->was_again && (t->again = http_auth_refused(c, t)))
		return true;
	t->started = true;
	if (*t->encoding && status < 300) {
		t->code = -EPROTO;
		return false;
	}
	if (!t->cb.on_start)
		return true;
	c->calls++;
	t->code = t->cb.on_start(t->ctx, &t->result);
	return t->code == 0 && t->state == TRANSFER_RUNNING;
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;
	size_t len = size * n;
	t->last_byte_ns = clock_boottime_ns();
	if (t->started)
		return len;
	char value[128];
	struct http_result *r = &t->result;
	if (header_value(line, len, "HTTP/", value, sizeof value)) {
		*r = (struct http_result){.retry_after_ms = -1};
		*t->encoding = '\0';
	} else if (header_value(line, len, "Retry-After:", value, sizeof value))
		r->retry_after_ms = retry_after_ms(value);
	else if (header_value(line, len, "Warning:", value, sizeof value))
		r->warnings++;
	else if (!header_text(line, len, "Content-Type:", " ;", r->type, sizeof r->type) &&
		 !header_text(line, len, "Location:", "?", r->location, sizeof r->location) &&
		 !t->compressed && header_text(line, len, "Content-Encoding:", " ,;", value, sizeof value) &&
		 strcasecmp(value, "identity") != 0)
		snprintf(t->encoding, sizeof t->encoding, "%.*s", (int)sizeof t->encoding - 1, value);
	bool last = len == 2 && line[0] == '\r' && line[1] == '\n';
	return !last || transfer_begin(t) ? len : 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;
	size_t len = size * n;
	t->heard_ns = t->last_byte_ns;
	t->last_byte_ns = clock_boottime_ns();
	if (t->again || *t->encoding || !len || !t->cb.on_data)
		return len;
	t->client->calls++;
	t->code = t->cb.on_data(t->ctx, (struct span){bytes, len});
	return t->code == 0 && t->state == TRANSFER_RUNNING ? len
							    : len + 1; /* another number ends the transfer */
}

static curl_socket_t on_open_socket(void *arg _unused_, curlsocktype purpose _unused_,
				    struct curl_sockaddr *a)
{
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int on_socket(void *arg _unused_, curl_socket_t fd, curlsocktype purpose _unused_)
{
	unsigned int ms = USER_TIMEOUT_MS;
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
	return CURL_SOCKOPT_OK;
}

static CURLcode on_ssl(CURL *easy _unused_, void *ssl_ctx, void *arg)
{
	http_tls_watch(&((struct http_client *)arg)->tls, ssl_ctx);
	return CURLE_OK;
}

/* ---- one transfer ---- */

void http_transfer_free(struct http_transfer *t)
{
	struct http_client *c = t->client;
	if (t->state == TRANSFER_RUNNING || t->state == TRANSFER_CANCELLED)
		curl_multi_remove_handle(c->multi, t->easy);
	struct http_transfer **at = &c->transfers;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	curl_easy_cleanup(t->easy);
	http_material_unref(t->material);
	curl_slist_free_all(t->headers);
	free(t->method);
	free(t->url);
	free(t->content_type);
	free(t->accept);
	free(t);
}

static void add_header(struct http_transfer *t, const char *line)
{
	struct curl_slist *l = curl_slist_append(t->headers, line);
	t->headers = l ? l : t->headers;
}

/* Where the way is short a server compresses for longer than it would send. */
static bool wants_compression(const struct http_transfer *t)
{
	const struct http_client *c = t->client;
	bool near = c->round_trip_us && c->round_trip_us < NEAR_US && !c->proxy;
	return !t->request.own_connection && !c->config.disable_compression && !near;
}

static void set_headers(struct http_transfer *t)
{
	const struct http_client *c = t->client;
	curl_slist_free_all(t->headers);
	t->headers = NULL;
	_cleanup_(free_ptr) char *accept = xasprintf("Accept: %s", t->accept);
	_cleanup_(free_ptr) char *type = xasprintf("Content-Type: %s", t->content_type);
	_cleanup_(free_ptr) char *bearer =
	    c->auth.token ? xasprintf("Authorization: Bearer %s", c->auth.token) : NULL;
	_cleanup_(free_ptr) char *basic =
	    c->auth.basic ? xasprintf("Authorization: %s", c->auth.basic) : NULL;
	add_header(t, accept);
	add_header(t, "Expect:");
	if (t->request.body.at)
		add_header(t, type);
	if (bearer || basic)
		add_header(t, bearer ? bearer : basic);
	for (char **line = c->config.impersonate; line && *line; line++)
		add_header(t, *line);
	if (c->host)
		add_header(t, c->host);
	t->compressed = wants_compression(t);
	if (!t->compressed)
		add_header(t, "Accept-Encoding: identity");
	curl_easy_setopt(t->easy, CURLOPT_ACCEPT_ENCODING, t->compressed ? "gzip" : NULL);
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
}

static struct curl_blob blob_of(const char *data)
{
	return (struct curl_blob){
	    .data = (void *)(uintptr_t)data, .len = strlen(data), .flags = CURL_BLOB_NOCOPY};
}

/* text must live as long as the transfer. */
static void set_blob(CURL *e, CURLoption option, const char *text)
{
	struct curl_blob blob = blob_of(text ? text : "");
	curl_easy_setopt(e, option, text ? &blob : NULL);
}

static void set_tls(struct http_transfer *t)
{
	CURL *e = t->easy;
	struct http_client *c = t->client;
	const struct kubeconfig *k = &c->config;
	http_material_unref(t->material);
	t->material = http_material_ref(c->auth.material);
	const struct http_pem *pem = t->material->pem;
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, k->insecure ? 0L : 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, k->insecure ? 0L : 2L);
	curl_easy_setopt(e, CURLOPT_PROXY_SSL_VERIFYPEER, k->insecure ? 0L : 1L);
	curl_easy_setopt(e, CURLOPT_PROXY_SSL_VERIFYHOST, k->insecure ? 0L : 2L);
	curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, (long)CA_CACHE_S);
	if (pem[HTTP_CA].text) { /* and not the system's as well */
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
		curl_easy_setopt(e, CURLOPT_PROXY_CAPATH, NULL);
		set_blob(e, CURLOPT_CAINFO_BLOB, pem[HTTP_CA].text);
		set_blob(e, CURLOPT_PROXY_CAINFO_BLOB, pem[HTTP_CA].text);
	}
	set_blob(e, CURLOPT_SSLCERT_BLOB, pem[HTTP_CERT].text);
	set_blob(e, CURLOPT_SSLKEY_BLOB, pem[HTTP_KEY].text);
	if (!k->insecure) {
		curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_ssl);
		curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, c);
	}
}

static void set_connection(CURL *e, struct http_client *c)
{
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	/* As in Go, the proxy resolves names. "" keeps libcurl from looking into the environment. */
	bool socks = c->proxy && strncasecmp(c->proxy, "socks5://", 9) == 0;
	_cleanup_(free_ptr) char *socks_url = socks ? xasprintf("socks5h://%s", c->proxy + 9) : NULL;
	curl_easy_setopt(e, CURLOPT_PROXY, socks ? socks_url : c->proxy ? c->proxy : "");
	curl_easy_setopt(e, CURLOPT_NOPROXY, "");
	curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(e, CURLOPT_CONNECT_TO, c->connect_to);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_S);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
	curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, on_socket);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
	curl_easy_setopt(e, CURLOPT_USERAGENT, c->user_agent);
}

static void set_request(struct http_transfer *t)
{
	CURL *e = t->easy;
	const struct http_request *r = &t->request;
	curl_easy_setopt(e, CURLOPT_PRIVATE, t);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->curl_text);
	curl_easy_setopt(e, CURLOPT_URL, t->url);
	if (r->body.at) {
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->body.at);
	}
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, t->method);
	if (r->own_connection) {
		curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
	}
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
}

int http_start(struct http_client *c, const struct http_request *r, const struct http_callbacks *cb,
	       void *ctx, struct http_transfer **ret, struct err *err)
{
	struct http_transfer *t = xcalloc(1, sizeof *t);
	t->easy = curl_easy_init();
	if (!t->easy) {
		free(t);
		return err_set(err, -ENOMEM, "out of memory");
	}
	t->client = c;
	t->request = *r;
	t->method = xstrdup(r->method);
	t->url = xasprintf("%s%s", c->base, r->path);
	t->accept = xstrdup(r->accept ? r->accept : "application/json");
	t->content_type = xstrdup(r->content_type ? r->content_type : "application/json");
	t->cb = *cb;
	t->ctx = ctx;
	t->result.retry_after_ms = -1;
	t->begun_ns = clock_boottime_ns();
	set_connection(t->easy, c);
	set_request(t);
	t->next = c->transfers;
	c->transfers = t;
	if (ret)
		*ret = t;
	return 0;
}

void http_cancel(struct http_transfer *t)
{
	if (!t)
		return;
	if (t->state != TRANSFER_QUEUED && t->client->in_callback)
		t->state = TRANSFER_CANCELLED; /* curl has it on its stack */
	else
		http_transfer_free(t);
}

void http_idle_timeout(struct http_transfer *t, int64_t ms)
{
	t->request.idle_timeout_ms = ms;
}

void http_not_heard(struct http_transfer *t)
{
	t->last_byte_ns = t->heard_ns;
}

/* ---- how it ends ---- */

static void look_at_connection(const struct http_transfer *t)
{
	struct http_client *c = t->client;
	long made = 0;
	curl_socket_t fd = CURL_SOCKET_BAD;
	struct tcp_info tcp = {0};
	socklen_t size = sizeof tcp;
	curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &made);
	c->counts.connections += (uint64_t)made;
	curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd);
	if (fd != CURL_SOCKET_BAD && getsockopt(fd, IPPROTO_TCP, TCP_INFO, &tcp, &size) == 0 &&
	    tcp.tcpi_min_rtt)
		c->round_trip_us = tcp.tcpi_min_rtt;
}

/* A 401 with an old credential: once more with the new one, when there is one. */
static void transfer_again(struct http_transfer *t)
{
	look_at_connection(t);
	curl_multi_remove_handle(t->client->multi, t->easy);
	t->state = TRANSFER_QUEUED;
	t->again = false;
	t->was_again = true;
}

static void transfer_finish(struct http_transfer *t, int code, const struct err *err)
{
	struct http_client *c = t->client;
	look_at_connection(t);
	if (t->result.status)
		c->counts.requests++;
	else
		c->counts.failed++;
	struct http_callbacks cb = t->cb;
	void *ctx = t->ctx;
	struct http_result result = t->result;
	http_transfer_free(t);
	c->calls++;
	cb.on_end(ctx, code, &result, err);
}

static void transfer_end(struct http_transfer *t, CURLcode curl)
{
	if (t->again && !curl) {
		transfer_again(t);
		return;
	}
	struct err err = {0};
	int code = t->code;
	char encoded[80];
	snprintf(encoded, sizeof encoded, "%d, but it comes as %s, which was not asked for", t->result.status,
		 t->encoding);
	if (code)
		http_explain_code(t, code, *t->encoding ? encoded : strerror(abs(code)), &err);
	else if (curl)
		code = http_explain(t, curl, &err);
	transfer_finish(t, code, &err);
}

/* ---- the loop ---- */

static int64_t timeout_left_ms(const struct http_transfer *t, int64_t now)
{
	return t->request.timeout_ms - (now - t->begun_ns) / NS_PER_MS;
}

/* As who we are now. */
static void launch(struct http_transfer *t)
{
	struct http_client *c = t->client;
	t->last_byte_ns = clock_boottime_ns();
	t->generation = c->auth.generation;
	set_tls(t);
	set_headers(t);
	if (t->request.timeout_ms)
		curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS,
				 (long)MAX(timeout_left_ms(t, t->last_byte_ns), 1));
	if (!curl_multi_add_handle(c->multi, t->easy))
		t->state = TRANSFER_RUNNING;
}

/* One that cannot go, or has waited for too long. */
static bool end_queued(struct http_client *c, struct http_transfer *t)
{
	struct err why, err;
	int need = http_auth_need(c, &why);
	if (need > 0)
		launch(t);
	if (need < 0) {
		transfer_finish(t, http_explain_code(t, need, why.text, &err), &err);
		return true;
	}
	if (need > 0 || !t->request.timeout_ms || timeout_left_ms(t, clock_boottime_ns()) > 0)
		return false;
	char what[300];
	snprintf(what, sizeof what, "the exec plugin %s is still running after %lld ms",
		 c->config.exec_command, (long long)t->request.timeout_ms);
	transfer_finish(t, http_explain_code(t, -ETIMEDOUT, what, &err), &err);
	return true;
}

/* Those that were started first come first. */
static void add_queued(struct http_client *c)
{
	for (struct http_transfer *t = c->transfers, *next; t; t = next) {
		next = t->next;
		if (t->state == TRANSFER_QUEUED && end_queued(c, t))
			next = c->transfers; /* its callback may have changed the list */
	}
}

static void free_cancelled(struct http_client *c)
{
	for (struct http_transfer *t = c->transfers, *next; t; t = next) {
		next = t->next;
		if (t->state == TRANSFER_CANCELLED)
			http_transfer_free(t);
	}
}

static int64_t idle_left_ms(const struct http_transfer *t, int64_t now)
{
	return t->request.idle_timeout_ms - (now - t->last_byte_ns) / NS_PER_MS;
}

/* Ends one transfer that heard nothing for too long; false when there is none. */
static bool end_idle(struct http_client *c)
{
	int64_t now = clock_boottime_ns();
	for (struct http_transfer *t = c->transfers; t; t = t->next) {
		if (t->state != TRANSFER_RUNNING || !t->request.idle_timeout_ms || idle_left_ms(t, now) > 0)
			continue;
		struct err err;
		char what[64];
		snprintf(what, sizeof what, "nothing came for %lld ms",
			 (long long)t->request.idle_timeout_ms);
		transfer_finish(t, http_explain_code(t, -ETIMEDOUT, what, &err), &err);
		return true;
	}
	return false;
}

/* Ends one watch whose connection is to be made again; false when there is none. */
static bool end_outdated(struct http_client *c)
{
	for (struct http_transfer *t = c->transfers; t; t = t->next) {
		if (!t->outdated || !t->started || t->state != TRANSFER_RUNNING)
			continue;
		struct err err = {0};
		transfer_finish(t, http_explain_code(t, 0, "ended for newer certificates", &err), &err);
		return true;
	}
	return false;
}

static void step(struct http_client *c)
{
	http_auth_run(c);
	add_queued(c);
	int running, left;
	c->in_callback = true;
	curl_multi_perform(c->multi, &running);
	c->in_callback = false;
	free_cancelled(c);
	for (CURLMsg *m; (m = curl_multi_info_read(c->multi, &left));) {
		struct http_transfer *t = NULL;
		CURLcode result = m->data.result;
		if (m->msg == CURLMSG_DONE &&
		    !curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t) && t)
			transfer_end(t, result);
	}
	while (end_idle(c) || end_outdated(c))
		;
	add_queued(c);
}

/* How long the loop may sleep, at most limit_ms. */
static int sleep_ms(const struct http_client *c, int64_t limit_ms)
{
	int64_t ms = limit_ms < 0 ? POLL_MAX_MS : MIN(limit_ms, POLL_MAX_MS), now = clock_boottime_ns();
	int64_t due = http_auth_due_ns(c);
	if (due != INT64_MAX)
		ms = MIN(ms, MAX((due - now) / NS_PER_MS + 1, 0));
	for (const struct http_transfer *t = c->transfers; t; t = t->next) {
		if (t->state == TRANSFER_RUNNING && t->request.idle_timeout_ms)
			ms = MIN(ms, MAX(idle_left_ms(t, now), 0));
		if (t->state == TRANSFER_QUEUED && t->request.timeout_ms)
			ms = MIN(ms, MAX(timeout_left_ms(t, now), 0));
	}
	return (int)ms;
}

static void wait_for(struct http_client *c, const struct pollfd *fds, size_t n, int ms)
{
	struct pollfd plugin[EXEC_FDS];
	size_t plugins = c->auth.plugin ? exec_plugin_poll(c->auth.plugin, plugin) : 0;
	if (n + plugins > c->wait_size) {
		c->wait = xrealloc(c->wait, (n + plugins) * sizeof *c->wait);
		c->wait_size = n + plugins;
	}
	unsigned int used = 0;
	for (size_t i = 0; i < n + plugins; i++) {
		const struct pollfd *fd = i < n ? &fds[i] : &plugin[i - n];
		if (fd->fd >= 0)
			c->wait[used++] = (struct curl_waitfd){
			    .fd = fd->fd,
			    .events = (short)((fd->events & POLLIN ? CURL_WAIT_POLLIN : 0) |
					      (fd->events & POLLPRI ? CURL_WAIT_POLLPRI : 0) |
					      (fd->events & POLLOUT ? CURL_WAIT_POLLOUT : 0))};
	}
	curl_multi_poll(c->multi, c->wait, used, ms, NULL);
}

int http_run(struct http_client *c, struct pollfd *fds, size_t n, int timeout_ms)
{
	int64_t end = clock_boottime_ns() + (int64_t)timeout_ms * NS_PER_MS;
	uint64_t calls = c->calls;
	for (;;) {
		step(c);
		/* curl_multi_poll knows nothing of POLLHUP and POLLERR: ask again. */
		int ready = n ? poll(fds, n, 0) : 0;
		if (ready < 0 && errno != EINTR)
			return -errno;
		int64_t left =
		    timeout_ms < 0 ? -1 : MAX((end - clock_boottime_ns() + NS_PER_MS - 1) / NS_PER_MS, 0);
		bool for_ever = left < 0 && !n && !c->transfers; /* nothing could end it */
		if (ready > 0 || c->calls != calls || left == 0 || for_ever)
			return MAX(ready, 0);
		if (c->transfers || c->auth.plugin || http_auth_due_ns(c) != INT64_MAX)
			wait_for(c, fds, n, sleep_ms(c, left));
		else /* nothing of ours to look after: sleep as long as the caller likes */
			poll(fds, n, (int)left);
	}
}

/* ---- the blocking form ---- */

struct blocking {
	struct http_result *result;
	struct buf *body;
	struct err *err;
	int code;
	bool done;
};

static int blocking_data(void *ctx, struct span data)
{
	struct blocking *b = ctx;
	if (b->body)
		buf_span_add(b->body, data);
	return b->body && buf_failed(b->body) ? -EMSGSIZE : 0;
}

static void blocking_end(void *ctx, int code, const struct http_result *r, const struct err *err)
{
	struct blocking *b = ctx;
	b->done = true;
	b->code = code;
	if (code && b->err)
		*b->err = *err;
	if (!code)
		*b->result = *r;
}

int http_do(struct http_client *c, const struct http_request *r, struct http_result *ret, struct buf *body,
	    struct err *err)
{
	struct blocking b = {.result = ret, .body = body, .err = err};
	struct http_callbacks cb = {.on_data = blocking_data, .on_end = blocking_end};
	int code = http_start(c, r, &cb, &b, NULL, err);
	if (code)
		return code;
	for (step(c); !b.done; step(c))
		wait_for(c, NULL, 0, sleep_ms(c, -1));
	return b.code;
}
