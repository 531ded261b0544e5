#include "http_private.h"
#include <stdio.h>

int http_explain_code(const struct http_transfer *t, int code, const char *what, struct err *err)
{
	const struct http_client *c = t->client;
	const char *path = t->url + strlen(c->base); /* without its query, which may be long */
	return err_set(err, code, "%s %s%.*s: %s", t->method, c->config.server, (int)strcspn(path, "?"), path,
		       what);
}

/* The proxy for a message: without user and password. */
static struct span proxy_name(const struct http_client *c)
{
	const char *name = strstr(c->proxy, "://") + 3, *at = strrchr(name, '@');
	return span_of(at ? at + 1 : name);
}

/* What the proxy answered to CONNECT; 0: it agreed, or was not asked. */
static int explain_proxy(const struct http_transfer *t, CURLcode curl, struct err *err)
{
	long said = 0;
	char what[600];
	if (!t->client->proxy || t->result.status)
		return 0;
	curl_easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &said);
	struct span name = proxy_name(t->client);
	if (curl == CURLE_PROXY)
		snprintf(what, sizeof what, "the proxy " SPAN_FMT " refuses or cannot connect: %s",
			 SPAN_ARG(name), t->curl_text);
	else if (said == 407)
		snprintf(what, sizeof what,
			 "the proxy " SPAN_FMT
			 " wants another user and password (407): http://USER:PASSWORD@HOST:PORT",
			 SPAN_ARG(name));
	else if (said && (said < 200 || said > 299))
		snprintf(what, sizeof what,
			 "the proxy " SPAN_FMT " refused the connection to the server (%ld)", SPAN_ARG(name),
			 said);
	else
		return 0;
	return http_explain_code(t, -ECONNREFUSED, what, err);
}

static int explain_connect(const struct http_transfer *t, struct err *err)
{
	long os = 0;
	curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os);
	int code = -ECONNREFUSED;
	if (os == EHOSTUNREACH || os == ENETUNREACH)
		code = -EHOSTUNREACH;
	else if (os == ETIMEDOUT)
		code = -ETIMEDOUT;
	char what[400];
	struct span proxy = t->client->proxy ? proxy_name(t->client) : (struct span){"", 0};
	snprintf(what, sizeof what, "cannot connect%s" SPAN_FMT ": %s", proxy.len ? " to the proxy " : "",
		 SPAN_ARG(proxy), strerror(os ? (int)os : ECONNREFUSED));
	return http_explain_code(t, code, what, err);
}

/* The connection broke, in the handshake or later. */
static int explain_cut(const struct http_transfer *t, CURLcode curl, struct err *err)
{
	const struct http_client *c = t->client;
	const char *said = t->curl_text;
	char what[768];
	if (strstr(said, "wrong version number") || strstr(said, "packet length too long"))
		return http_explain_code(
		    t, -EPROTO,
		    "the server does not speak TLS: is the address right, and meant to be http://?", err);
	char until[32] = "";
	const char *cert = t->material ? t->material->pem[HTTP_CERT].text : NULL;
	bool expired = http_tls_expired(cert, until);
	if (strstr(said, " alert ")) {
		snprintf(what, sizeof what,
			 "the server refused the TLS handshake: is the client certificate of %s the right "
			 "one%s%s? (%s)",
			 c->config.source, expired ? "; it expired on " : "", until, said);
		return http_explain_code(t, -EACCES, what, err);
	}
	if (curl == CURLE_SSL_CONNECT_ERROR && !strstr(said, "reset by peer") &&
	    !strstr(said, "SSL_ERROR_SYSCALL"))
		return http_explain_code(t, -EPROTO, said, err);
	/* TLS 1.3 tells of a refused client certificate after the handshake, and the reset that follows may
	 * be faster. */
	long fresh = 0;
	curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &fresh);
	bool perhaps_refused = fresh && !t->result.status && strncmp(c->base, "https:", 6) == 0;
	snprintf(what, sizeof what, "the connection was cut %s%s%s",
		 t->result.status ? "in the middle of the answer" : "before the answer",
		 perhaps_refused ? ", right after the TLS handshake: does the server want another client "
				   "certificate than that of "
				 : "",
		 perhaps_refused ? c->config.source : "");
	return http_explain_code(t, -ECONNRESET, what, err);
}

int http_explain(const struct http_transfer *t, CURLcode curl, struct err *err)
{
	const struct http_client *c = t->client;
	const char *said = *t->curl_text ? t->curl_text : curl_easy_strerror(curl);
	char what[768];
	int proxy = explain_proxy(t, curl, err);
	if (proxy)
		return proxy;
	switch ((int)curl) {
	case CURLE_COULDNT_CONNECT:
		return explain_connect(t, err);
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
	case CURLE_GOT_NOTHING:
		return explain_cut(t, curl, err);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return http_explain_code(t, -EHOSTUNREACH, said, err);
	case CURLE_OPERATION_TIMEDOUT:
		return http_explain_code(t, -ETIMEDOUT, said, err);
	case CURLE_PEER_FAILED_VERIFICATION:
		http_tls_explain(&c->tls, &c->config, c->wanted_name, what, sizeof what);
		return http_explain_code(t, -EACCES, what, err);
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		return http_explain_code(t, -EACCES, said, err);
	case CURLE_OUT_OF_MEMORY:
		return http_explain_code(t, -ENOMEM, said, err);
	default:
		return http_explain_code(t, -EPROTO, said, err);
	}
}
