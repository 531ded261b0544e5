/* HTTP to the API server, on libcurl with OpenSSL. The only user of libcurl.
 *
 * One http_client per cluster and thread: connections are kept and used again, HTTP/1.1 only, no redirects,
 * no Expect header, TCP keep-alive and TCP_USER_TIMEOUT are on. Requests run side by side in the client's loop;
 * http_do is the blocking form on the same connections. Secrets (Authorization, bodies, a proxy's password) are
 * never part of an error text.
 *
 * Who we are may change while the client lives. The token file is read again when older than 60 s and after a
 * 401. Files of certificates are looked at every 10 s and after a 401: new connections use the new ones, and a
 * watch on an old one ends as if the server had ended it (code 0). A credential plugin (exec_plugin.h) runs
 * beside the requests, by exec_schedule.h's rules; those that need its answer wait for it, within their own
 * timeouts. A running watch is not cut when a token ends. A 401 is asked once more when there is another
 * credential by then.
 *
 * The proxy is the kubeconfig's proxy-url, else the environment's (proxy.h). A TLS connection to the proxy itself
 * is checked as the server's is.
 *
 * Errors: -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT, -ECONNRESET (cut in the middle), -EPROTO (no HTTP, or an answer
 * that is encoded as nobody asked for), and -EACCES for TLS refusals (unknown CA, wrong name, expired: err says which and until when), -ENOKEY (the token file or the
 * plugin gives no credential), -ENOMEM. A status of 400 and
 * more is no error here: see kube.h.
 *
 * Callbacks run inside http_run and http_do. on_start and on_data may start and cancel transfers, not call
 * http_run or http_do; on_end may do all of it. Answers to requests on a shared connection may come
 * compressed (they are handed out plain): bound what you keep. Compression is not asked for where the kubeconfig says
 * disable-compression, nor of a server (not behind a proxy) to which a round trip took less than a millisecond. */
#pragma once
#include "buf.h"
#include "kubeconfig.h"

struct http_client;
int http_client_new(const struct kubeconfig *k, const char *user_agent, struct http_client **ret,
		    struct err *err);	      /* copies k */
void http_client_free(struct http_client *c); /* cancels what runs, without callbacks */
const char *http_client_server(const struct http_client *c);
/* What is to be known of the credentials from now on: files that were read again or cannot be read, a plugin's
 * stderr and failures. One line; called from within http_run and http_do. */
void http_client_on_notice(struct http_client *c, void (*notice)(void *ctx, bool warning, const char *text),
			   void *ctx);
/* A plugin runs: http_run has something to do although there are no transfers. */
bool http_client_is_busy(const struct http_client *c);
/* What a person may want to know of our credentials after a 401 or a 403, or "". */
enum { HTTP_HINT_MAX = 400 };
void http_client_hint(const struct http_client *c, bool unauthorized, char hint[HTTP_HINT_MAX]);
bool http_client_is_anonymous(const struct http_client *c); /* no token, no certificate, no password */

struct http_request {
	const char *method;	  /* "GET", "POST", "PUT", "PATCH", "DELETE" */
	const char *path;	  /* begins with '/', already encoded, query included */
	const char *content_type; /* of the body; NULL: application/json */
	const char *accept;	  /* NULL: application/json */
	struct span body;	  /* absent: none; must live until the end */
	int64_t timeout_ms;	  /* whole request; 0: none (a watch) */
	int64_t idle_timeout_ms;  /* no byte for so long: -ETIMEDOUT; 0: none */
	bool own_connection;	  /* a watch: never shares a connection */
};

struct http_result {
	int status;		/* 0: no answer came */
	int64_t retry_after_ms; /* from Retry-After, seconds or HTTP date; -1: none */
	uint32_t warnings;	/* Warning: headers seen */
	char type[64];		/* Content-Type without its parameters; "": none was said */
	char location[128];	/* of a redirect, without its query, which may hold a secret; "": none */
};

struct http_transfer;
struct http_callbacks {
	/* Once, before the first data. Non-zero ends the transfer with that code. May be NULL. */
	int (*on_start)(void *ctx, const struct http_result *r);
	int (*on_data)(void *ctx, struct span data);
	/* Exactly once, unless cancelled; the transfer is gone afterwards. code: 0 or negative as above. May
	 * start new ones. */
	void (*on_end)(void *ctx, int code, const struct http_result *r, const struct err *err);
};
int http_start(struct http_client *c, const struct http_request *r, const struct http_callbacks *cb,
	       void *ctx, struct http_transfer **ret, struct err *err);
void http_cancel(struct http_transfer *t); /* no callback follows */
/* Another idle_timeout_ms from now on. */
void http_idle_timeout(struct http_transfer *t, int64_t ms);
/* Within on_data: what came is as good as nothing; idle_timeout_ms goes on to count from what came before. */
void http_not_heard(struct http_transfer *t);

/* Runs transfers for up to timeout_ms (-1: no limit), and returns early when one of the caller's descriptors
 * is ready or a callback was made. fds[i].revents are set as poll does. Returns the number of descriptors
 * that are ready, or a negative errno. */
struct pollfd;
int http_run(struct http_client *c, struct pollfd *fds, size_t n, int timeout_ms);

/* Blocking; other transfers of the client go on meanwhile (their callbacks run). body is appended to,
 * -EMSGSIZE past its limit; NULL: thrown away. Give a timeout. */
int http_do(struct http_client *c, const struct http_request *r, struct http_result *ret, struct buf *body,
	    struct err *err);

/* Counts for metrics: requests finished by status class and those that had no answer. */
struct http_counts {
	uint64_t requests, failed, connections;
};
void http_client_counts(const struct http_client *c, struct http_counts *ret);
