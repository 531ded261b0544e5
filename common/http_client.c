#include "http_private.h"
#include "proxy.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void init_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* proxy-url, or the environment's. No text of ours holds it: it may have a password in it. */
static int client_set_proxy(struct http_client *c, const char *host, const char *port, struct err *err)
{
	const struct kubeconfig *k = &c->config;
	_cleanup_(free_ptr) char *bare = xstrdup(host);
	if (*bare == '[') { /* an IPv6 address */
		memmove(bare, bare + 1, strlen(bare));
		bare[strcspn(bare, "]")] = 0;
	}
	c->proxy = k->proxy_url ? xstrdup(k->proxy_url)
				: proxy_from_environment(strncmp(k->server, "https:", 6) == 0, bare, port);
	CURLU *u = curl_url();
	bool good = !c->proxy || !curl_url_set(u, CURLUPART_URL, c->proxy, CURLU_NON_SUPPORT_SCHEME);
	curl_url_cleanup(u);
	if (good)
		return 0;
	return err_set(err, -EINVAL, "%s: %s is not the URL of a proxy", k->source,
		       k->proxy_url ? "proxy-url" : "HTTPS_PROXY or HTTP_PROXY");
}

/* Where the certificate is for another name, that name goes into the URL (so that SNI and verification use
 * it, and nothing else) and the connection is led to the real host. */
static int client_set_base(struct http_client *c, struct err *err)
{
	const struct kubeconfig *k = &c->config;
	CURLU *u = curl_url();
	char *host = NULL, *port = NULL, *url = NULL;
	int r = 0;
	if (curl_url_set(u, CURLUPART_URL, k->server, 0) || curl_url_get(u, CURLUPART_HOST, &host, 0) ||
	    curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT)) {
		r = err_set(err, -EINVAL, "%s: server: \"%s\" is not an http or https URL", k->source,
			    k->server);
	} else if (!k->tls_server_name) {
		c->base = xstrdup(k->server);
		c->wanted_name = xstrdup(host);
	} else if (curl_url_set(u, CURLUPART_HOST, k->tls_server_name, 0) ||
		   curl_url_get(u, CURLUPART_URL, &url, 0)) {
		r = err_set(err, -EINVAL, "%s: tls-server-name: \"%s\" is not a host name", k->source,
			    k->tls_server_name);
	} else {
		_cleanup_(free_ptr) char *to = xasprintf("%s:%s:%s:%s", k->tls_server_name, port, host, port);
		c->connect_to = curl_slist_append(NULL, to);
		c->host = xasprintf("Host: %s:%s", host, port);
		c->base = xstrdup(url);
		c->wanted_name = xstrdup(k->tls_server_name);
	}
	if (!r)
		r = client_set_proxy(c, host, port, err);
	for (size_t n = c->base ? strlen(c->base) : 0; n && c->base[n - 1] == '/';)
		c->base[--n] = 0;
	curl_free(host);
	curl_free(port);
	curl_free(url);
	curl_url_cleanup(u);
	return r;
}

/* libcurl 7.88 opens the two ends of its wake-up channel without close-on-exec, and has no option for it: a
 * program that a worker starts would inherit them. They get the two lowest free numbers. */
static CURLM *multi_new(void)
{
	int low = open("/dev/null", O_RDONLY | O_CLOEXEC), high = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int ends[] = {low, high};
	close_fd(&low);
	close_fd(&high);
	CURLM *m = curl_multi_init();
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i] >= 0)
			fcntl(ends[i], F_SETFD, FD_CLOEXEC);
	return m;
}

int http_client_new(const struct kubeconfig *k, const char *user_agent, struct http_client **ret,
		    struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, init_curl);
	struct http_client *c = xcalloc(1, sizeof *c);
	kubeconfig_copy(&c->config, k);
	c->user_agent = xstrdup(user_agent);
	c->multi = multi_new();
	int r = client_set_base(c, err);
	if (!r)
		r = http_auth_init(c, err);
	if (!r && !c->multi)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r) {
		http_client_free(c);
		return r;
	}
	curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	*ret = c;
	return 0;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	while (c->transfers)
		http_transfer_free(c->transfers);
	curl_multi_cleanup(c->multi);
	curl_slist_free_all(c->connect_to);
	http_auth_done(c);
	kubeconfig_done(&c->config);
	free(c->user_agent);
	free(c->base);
	free(c->host);
	free(c->wanted_name);
	free(c->proxy);
	free(c->wait);
	free(c);
}

void http_client_on_notice(struct http_client *c, void (*notice)(void *ctx, bool warning, const char *text),
			   void *ctx)
{
	c->notice = notice;
	c->notice_ctx = ctx;
}

void http_notice(struct http_client *c, bool warning, const char *fmt, ...)
{
	char text[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (c->notice)
		c->notice(c->notice_ctx, warning, text);
}

const char *http_client_server(const struct http_client *c)
{
	return c->config.server;
}

bool http_client_is_busy(const struct http_client *c)
{
	return c->auth.plugin;
}

bool http_client_is_anonymous(const struct http_client *c)
{
	const struct kubeconfig *k = &c->config;
	return !k->token && !k->token_file && !k->user && !k->cert_file && !k->cert_data && !k->exec_command;
}

void http_client_hint(const struct http_client *c, bool unauthorized, char hint[HTTP_HINT_MAX])
{
	const struct kubeconfig *k = &c->config;
	char until[32];
	*hint = 0;
	if (http_client_is_anonymous(c))
		snprintf(hint, HTTP_HINT_MAX, "the kubeconfig has no credentials");
	else if (unauthorized && http_tls_expired(c->auth.material->pem[HTTP_CERT].text, until))
		snprintf(hint, HTTP_HINT_MAX, "the client-certificate of %s expired on %s", k->source, until);
	else if (unauthorized && !c->auth.token && (k->exec_command || k->token_file))
		return; /* there was nothing to accept: the error says why */
	else if (unauthorized && k->exec_command)
		snprintf(hint, HTTP_HINT_MAX, "the server does not accept what the exec plugin %s gave us",
			 k->exec_command);
	else if (unauthorized)
		snprintf(hint, HTTP_HINT_MAX, "the server does not accept the credentials of %s: renew them",
			 k->source);
}

void http_client_counts(const struct http_client *c, struct http_counts *ret)
{
	*ret = c->counts;
}
