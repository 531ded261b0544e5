#include "base64.h"
#include "http_private.h"
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum {
	TOKEN_AGE_S = 60,     /* a token file is read again after it */
	TOKEN_MAX = 64 << 10, /* bytes of a token */
};

static void init_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
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
	for (size_t n = c->base ? strlen(c->base) : 0; n && c->base[n - 1] == '/';)
		c->base[--n] = 0;
	curl_free(host);
	curl_free(port);
	curl_free(url);
	curl_url_cleanup(u);
	return r;
}

static bool token_is_clean(const char *token)
{
	for (const char *p = token; *p; p++)
		if ((unsigned char)*p < 0x21 || *p == 0x7f)
			return false;
	return *token != 0;
}

/* The file's text without white space around it, or NULL with errno. */
static char *token_read(const char *path)
{
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	char *text = xmalloc(TOKEN_MAX + 1);
	ssize_t n = read(fd, text, TOKEN_MAX);
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	text[MAX(n, 0)] = 0;
	char *start = text;
	while (isspace((unsigned char)*start))
		start++;
	memmove(text, start, strlen(start) + 1);
	if (n >= 0 && token_is_clean(text))
		return text;
	if (n >= 0)
		errno = EBADMSG;
	free(text);
	return NULL;
}

/* Reads the token file again when its time has come; the last good token, then the one in the kubeconfig, are
 * used as long as it cannot be read. */
int http_refresh_token(struct http_client *c, bool now, struct err *err)
{
	if (!c->config.token_file)
		return 0;
	int64_t age = clock_boottime_ns() - c->token_read_ns;
	if (c->token && !now && age < TOKEN_AGE_S * NS_PER_S)
		return 0;
	char *token = token_read(c->config.token_file);
	if (token) {
		free(c->token);
		c->token = token;
		c->token_read_ns = clock_boottime_ns();
	} else if (!c->token) {
		return err_set(err, -EACCES, "%s: tokenFile %s: %s", c->config.source, c->config.token_file,
			       errno == EBADMSG ? "holds no token" : strerror(errno));
	}
	return 0;
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
	if (!r && strncmp(c->base, "https:", 6) == 0)
		r = http_tls_check(k, err);
	if (!r && k->token && !token_is_clean(k->token))
		r = err_set(err, -EINVAL, "%s: token: holds white space or control characters", k->source);
	if (!r && !c->multi)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r) {
		http_client_free(c);
		return r;
	}
	curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	if (k->token)
		c->token = xstrdup(k->token);
	/* The fallback counts as read long ago. */
	c->token_read_ns = clock_boottime_ns() - TOKEN_AGE_S * NS_PER_S;
	if (k->user) {
		_cleanup_(free_ptr) char *pair = xasprintf("%s:%s", k->user, k->password ? k->password : "");
		struct buf basic = {0};
		buf_puts(&basic, "Basic ");
		base64_encode(&basic, span_of(pair));
		c->basic = xstrdup(buf_str(&basic));
		buf_done(&basic);
	}
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
	kubeconfig_done(&c->config);
	free(c->user_agent);
	free(c->base);
	free(c->host);
	free(c->wanted_name);
	free(c->basic);
	free(c->token);
	free(c->wait);
	free(c);
}

const char *http_client_server(const struct http_client *c)
{
	return c->config.server;
}

bool http_client_is_anonymous(const struct http_client *c)
{
	const struct kubeconfig *k = &c->config;
	return !k->token && !k->token_file && !k->user && !k->cert_file && !k->cert_data;
}

void http_client_counts(const struct http_client *c, struct http_counts *ret)
{
	*ret = c->counts;
}
