#include "server.h"
#include "api.h"
#include "listing.h"
#include "log.h"
#include "watch.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* THREAD_STACK: JSON is walked recursively, up to DOC_MAX_DEPTH levels. LEFT_CHECK: how soon an idle watch
 * notices that its client is gone. IDLE_TIMEOUT: for connections without a
 * request, seconds. DRAIN: how long requests may take to end when the server stops, seconds. */
enum { THREAD_STACK = 2 << 20, READER_BLOCK = 32 << 10, IDLE_TIMEOUT = 300, DRAIN = 5 };
/* Bodies of more bytes are handled one at a time; all that are being received may take so many. */
enum { LARGE_BODY = 256 << 10, BODIES_MAX = 256 << 20 };
#define LEFT_CHECK_NS (5 * NS_PER_S)

struct server {
	struct MHD_Daemon *daemon;
	struct storage *storage;
	struct access *access;
	struct server_options options;
	pthread_mutex_t lock;
	pthread_cond_t idle;
	size_t active;	       /* requests, watches included, that are not answered to the end */
	size_t buffered;       /* bytes of their bodies: atomic */
	pthread_mutex_t large; /* held while a large body is handled: its tree takes many times its size */
	bool stopping;
};

struct request {
	char *uri;
	struct buf body;
	size_t counted; /* of the server's buffered */
	bool started, too_large, too_many;
};

/* ---- watches, and lists that are sent while they are printed ---- */

struct stream {
	struct watch *watch;  /* or NULL: */
	struct listing *rest; /* to come after what is in out */
	struct buf out;
	size_t sent;
	bool ended;
	int fd;
};

static bool client_left(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};
	return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Blocks until there is something to send: each connection has its thread. */
static bool next_events(struct stream *s)
{
	while (s->out.len == 0 && !s->ended) {
		int64_t now = watch_clock(), until = 0;
		switch (watch_step(s->watch, &s->out, now, clock_realtime_ns() / NS_PER_S, &until)) {
		case WATCH_DATA:
			break;
		case WATCH_END:
			s->ended = true;
			break;
		case WATCH_IDLE:
			if (client_left(s->fd))
				return false;
			watch_wait(s->watch, MIN(until, now + LEFT_CHECK_NS));
			break;
		}
	}
	return !buf_failed(&s->out);
}

static bool next_items(struct stream *s)
{
	if (!s->ended)
		s->ended = !listing_read(s->rest, &s->out);
	return !buf_failed(&s->out);
}

static ssize_t read_stream(void *cls, uint64_t pos, char *to, size_t max)
{
	struct stream *s = cls;
	(void)pos;
	if (s->sent == s->out.len) {
		buf_reset(&s->out);
		s->sent = 0;
		if (!(s->watch ? next_events(s) : next_items(s)))
			return MHD_CONTENT_READER_END_WITH_ERROR;
		if (s->out.len == 0)
			return MHD_CONTENT_READER_END_OF_STREAM;
	}
	size_t n = MIN(max, s->out.len - s->sent);
	memcpy(to, s->out.data + s->sent, n);
	s->sent += n;
	return (ssize_t)n;
}

static void free_stream(void *cls)
{
	struct stream *s = cls;
	watch_free(s->watch);
	listing_free(s->rest);
	buf_done(&s->out);
	free(s);
}

static struct MHD_Response *stream_response(struct MHD_Connection *connection, struct api_response *out)
{
	struct stream *s = xcalloc(1, sizeof(*s));
	*s = (struct stream){.watch = out->watch, .rest = out->rest, .out = out->body};
	out->watch = NULL;
	out->rest = NULL;
	out->body = (struct buf){0};
	if (s->watch) {
		s->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0);
	}
	struct MHD_Response *r =
	    MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, READER_BLOCK, read_stream, s, free_stream);
	if (!r)
		free_stream(s);
	return r;
}

/* ---- requests ---- */

static enum MHD_Result respond(struct MHD_Connection *connection, struct api_response *out, bool close)
{
	char seconds[16];
	size_t len = out->body.len;
	struct MHD_Response *r =
	    out->watch || out->rest
		? stream_response(connection, out)
		: MHD_create_response_from_buffer(len, buf_steal(&out->body), MHD_RESPMEM_MUST_FREE);
	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, "Content-Type", out->content_type);
	MHD_add_response_header(r, "Cache-Control", "no-cache, private");
	if (out->allow)
		MHD_add_response_header(r, "Allow", out->allow);
	if (close)
		MHD_add_response_header(r, "Connection", "close");
	if (out->code == 401)
		MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
	if (out->retry_after) {
		snprintf(seconds, sizeof(seconds), "%d", out->retry_after);
		MHD_add_response_header(r, "Retry-After", seconds);
	}
	enum MHD_Result done = MHD_queue_response(connection, (unsigned)out->code, r);
	MHD_destroy_response(r);
	return done;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, int code, const char *reason,
			      const char *message)
{
	struct api_response out;
	api_refuse(&out, code, reason, message);
	enum MHD_Result r = respond(connection, &out, false);
	api_response_done(&out);
	return r;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
	return value ? value : "";
}

static bool is_health(const char *url)
{
	return !strcmp(url, "/healthz") || !strcmp(url, "/readyz") || !strcmp(url, "/livez");
}

/* Before the body is read: what is refused whatever the body is. */
static enum MHD_Result begin(struct server *s, struct MHD_Connection *connection, struct request *q,
			     const char *url)
{
	q->started = true;
	q->body.limit = BODY_MAX;
	const char *authorization = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
	if (!is_health(url) && !access_allowed(s->access, connection, authorization))
		return refuse(connection, 401, "Unauthorized", "Unauthorized");
	if (!q->uri || strlen(q->uri) > URI_MAX)
		return refuse(connection, 414, "RequestURITooLong", "the request URI is longer than 16 KiB");
	if (strtoull(header(connection, "Content-Length"), NULL, 10) > BODY_MAX)
		return refuse(connection, 413, "RequestEntityTooLarge",
			      "Request entity too large: limit is 3145728");
	return MHD_YES;
}

static enum MHD_Result finish(struct server *s, struct MHD_Connection *connection, struct request *q,
			      const char *method)
{
	if (q->too_large)
		return refuse(connection, 413, "RequestEntityTooLarge",
			      "Request entity too large: limit is 3145728");
	if (q->too_many)
		return refuse(connection, 429, "TooManyRequests",
			      "too many large requests at a time: try again");
	struct api_request in = {
	    .method = method,
	    .uri = span_of(q->uri),
	    .body = buf_span(&q->body),
	    .content_type = header(connection, "Content-Type"),
	    .accept = header(connection, "Accept"),
	    .user_agent = header(connection, "User-Agent"),
	    .now = clock_realtime_ns() / NS_PER_S,
	    .bookmark_interval_ns = s->options.bookmark_interval_ns,
	    .no_watch_list = s->options.no_watch_list,
	};
	struct api_response out;
	int64_t start = watch_clock();
	bool large = in.body.len > LARGE_BODY;
	if (large)
		pthread_mutex_lock(&s->large);
	api_handle(s->storage, &in, &out);
	if (large)
		pthread_mutex_unlock(&s->large);
	log_debug("request", LOG_S("method", method), LOG_S("uri", q->uri), LOG_I("code", out.code),
		  LOG_I("microseconds", (watch_clock() - start) / NS_PER_US));
	enum MHD_Result r = respond(connection, &out, __atomic_load_n(&s->stopping, __ATOMIC_RELAXED));
	api_response_done(&out);
	return r;
}

static void take_body(struct server *s, struct request *q, const char *data, size_t n)
{
	q->too_many |= __atomic_add_fetch(&s->buffered, n, __ATOMIC_RELAXED) > BODIES_MAX;
	q->counted += n;
	if (!q->too_many)
		buf_add(&q->body, data, n);
	q->too_large |= buf_failed(&q->body);
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *data, size_t *n,
			      void **context)
{
	struct server *s = cls;
	struct request *q = *context;
	(void)version;
	if (!q->started)
		return begin(s, connection, q, url);
	if (!*n)
		return finish(s, connection, q, method);
	take_body(s, q, data, *n);
	*n = 0;
	return MHD_YES;
}

/* Called with the request line as it came: libmicrohttpd's own decoding would turn %2F into a slash. */
static void *open_request(void *cls, const char *uri, struct MHD_Connection *connection)
{
	struct server *s = cls;
	(void)connection;
	pthread_mutex_lock(&s->lock);
	s->active++;
	pthread_mutex_unlock(&s->lock);
	struct request *q = xcalloc(1, sizeof(*q));
	q->uri = xstrdup(uri);
	return q;
}

static void close_request(void *cls, struct MHD_Connection *connection, void **context,
			  enum MHD_RequestTerminationCode why)
{
	struct server *s = cls;
	struct request *q = *context;
	(void)connection;
	(void)why;
	if (!q)
		return;
	__atomic_sub_fetch(&s->buffered, q->counted, __ATOMIC_RELAXED);
	buf_done(&q->body);
	free(q->uri);
	free(q);
	*context = NULL;
	pthread_mutex_lock(&s->lock);
	if (--s->active == 0)
		pthread_cond_signal(&s->idle);
	pthread_mutex_unlock(&s->lock);
}

static size_t keep_escaped(void *cls, struct MHD_Connection *connection, char *text)
{
	(void)cls;
	(void)connection;
	return strlen(text);
}

_printf_(2, 0) static void log_daemon(void *cls, const char *fmt, va_list ap)
{
	char text[512];
	(void)cls;
	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = 0;
	log_debug("http", LOG_S("message", text));
}

int server_start(struct storage *storage, struct access *access, const struct server_options *o,
		 struct server **ret, struct err *err)
{
	struct server *s = xcalloc(1, sizeof(*s));
	*s = (struct server){.storage = storage, .access = access, .options = *o};
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->large, NULL);
	pthread_cond_init(&s->idle, NULL);
	unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
			 MHD_USE_ERROR_LOG | (access->cert ? MHD_USE_TLS : 0);
	struct MHD_OptionItem tls[] = {
	    {MHD_OPTION_HTTPS_MEM_CERT, 0, access->cert},
	    {MHD_OPTION_HTTPS_MEM_KEY, 0, access->key},
	    {access->client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, access->client_ca},
	    {MHD_OPTION_END, 0, NULL},
	};
	struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
	s->daemon = MHD_start_daemon(
	    flags, 0, NULL, NULL, handle, s, MHD_OPTION_EXTERNAL_LOGGER, log_daemon, NULL,
	    MHD_OPTION_LISTEN_SOCKET, o->fd, MHD_OPTION_CONNECTION_LIMIT, o->max_connections,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT, MHD_OPTION_THREAD_STACK_SIZE,
	    (size_t)THREAD_STACK, MHD_OPTION_URI_LOG_CALLBACK, open_request, s, MHD_OPTION_NOTIFY_COMPLETED,
	    close_request, s, MHD_OPTION_UNESCAPE_CALLBACK, keep_escaped, NULL, MHD_OPTION_ARRAY,
	    access->cert ? tls : none, MHD_OPTION_END);
	if (!s->daemon) {
		free(s);
		return err_set(err, -EINVAL, "the HTTP server cannot start%s",
			       access->cert ? ": is the certificate PEM, and does the key belong to it?"
					    : "");
	}
	*ret = s;
	return 0;
}

void server_stop(struct server *s)
{
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += DRAIN;
	MHD_quiesce_daemon(s->daemon);
	pthread_mutex_lock(&s->lock);
	__atomic_store_n(&s->stopping, true, __ATOMIC_RELAXED);
	while (s->active && pthread_cond_timedwait(&s->idle, &s->lock, &end) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&s->lock);
	MHD_stop_daemon(s->daemon); /* closes what is idle, and who did not read in time */
	close(s->options.fd);
	pthread_cond_destroy(&s->idle);
	pthread_mutex_destroy(&s->large);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- listening ---- */

static bool is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
	return a->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int parse_address(const char *text, struct addrinfo **ret, struct err *err)
{
	const char *colon = strrchr(text, ':');
	char host[64];
	size_t n = colon ? (size_t)(colon - text) : 0, skip = n && text[0] == '[' && text[n - 1] == ']';
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				 .ai_socktype = SOCK_STREAM};
	if (n && n < sizeof(host) && colon[1]) {
		snprintf(host, sizeof(host), SPAN_FMT, (int)(n - 2 * skip), text + skip);
		if (getaddrinfo(host, colon + 1, &hints, ret) == 0)
			return 0;
	}
	return err_set(err, -EINVAL, "--listen %s: give ADDRESS:PORT, for example 127.0.0.1:8901 or [::1]:0",
		       text);
}

/* A socket that listens there; negative errno. */
static int listen_at(const struct addrinfo *info)
{
	int on = 1, fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* Accepted sockets inherit keep-alive, which finds clients that vanished without a word. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0 ||
	    bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, 128) < 0) {
		int code = errno ? -errno : -EIO;
		close_fd(&fd);
		return code;
	}
	return fd;
}

static unsigned port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} bound = {.v6 = {0}};
	socklen_t len = sizeof(bound);
	getsockname(fd, &bound.any, &len);
	return ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
}

int server_listen(const char *text, int *ret_fd, unsigned *ret_port, bool *ret_loopback, struct err *err)
{
	struct addrinfo *info = NULL;
	int r = parse_address(text, &info, err);
	if (r < 0 || !info)
		return r;
	int fd = listen_at(info);
	bool loopback = is_loopback(info->ai_addr);
	freeaddrinfo(info);
	if (fd < 0)
		return err_set(
		    err, fd, "--listen %s: %s%s", text, strerror(-fd),
		    fd == -EADDRINUSE ? ": is another API server running? choose another port, or 0" : "");
	*ret_port = port_of(fd);
	*ret_loopback = loopback;
	*ret_fd = fd;
	return 0;
}
