/* Trust: which servers common/http.h talks to, which it refuses and how it says so; and whole kubeconfig
 * files. */
#include "check.h"
#include "http_fixture.h"
#include "json_scan.h"
#include <unistd.h>

static struct kubeconfig tls_config(const struct fixture *s, const char *ca)
{
	struct kubeconfig k = fixture_config(s, "https");
	if (ca)
		k.ca_file = xasprintf("%s/%s.crt", fixture_pki, ca);
	return k;
}

/* The code of one GET, and whether the error has the word. */
static int tls_get(struct kubeconfig *k, const char *word)
{
	struct http_client *c = fixture_client(k);
	struct err err = {0};
	struct buf body = {0};
	int r = fixture_get(c, "/hello", &body, &err);
	CHECK_MSG(!word || strstr(err.text, word), "no \"%s\" in: %d %s", word, r, err.text);
	CHECK_MSG(r != 0 || fixture_last.status == 200, "status %d", fixture_last.status);
	buf_done(&body);
	http_client_free(c);
	return r;
}

static void test_trust(void)
{
	struct fixture s = fixture_start("both", NULL);
	struct kubeconfig k = tls_config(&s, "ca");
	CHECK(tls_get(&k, NULL) == 0);
	k = tls_config(&s, NULL);
	_cleanup_(free_ptr) char *ca_path = xasprintf("%s/ca.crt", fixture_pki);
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
	k = fixture_config(&s, "http");
	struct http_client *c = fixture_client(&k);
	struct buf body = {0};
	struct err err = {0};
	CHECK(fixture_get(c, "/hello", &body, &err) < 0);
	http_client_free(c);
	buf_done(&body);
	fixture_stop(&s);
	s = fixture_start("expired", NULL);
	k = tls_config(&s, "ca");
	CHECK(tls_get(&k, "expired on 20") == -EACCES);
	fixture_stop(&s);
	s = fixture_start(NULL, NULL);
	k = tls_config(&s, "ca");
	CHECK(tls_get(&k, "does not speak TLS") == -EPROTO);
	fixture_stop(&s);
}

static void test_server_names(void)
{
	struct fixture named = fixture_start("named", NULL), address = fixture_start("address", NULL);
	struct kubeconfig k = tls_config(&named, "ca");
	CHECK(tls_get(&k, "DNS:kube.example.test") == -EACCES);
	/* The name is used for SNI and for the check, not for the Host header. */
	k = tls_config(&named, "ca");
	k.tls_server_name = xstrdup("kube.example.test");
	CHECK(tls_get(&k, NULL) == 0);
	_cleanup_(free_ptr) char *text = NULL;
	CHECK(
	    json_string_is(json_get(fixture_request(&named, 0, &text), "server_name"), "kube.example.test"));
	_cleanup_(free_ptr) char *host = xasprintf("127.0.0.1:%d", named.port);
	CHECK(fixture_header_is(&named, "host", host));
	/* A certificate that is good for the address in the URL is not good enough. */
	k = tls_config(&address, "ca");
	CHECK(tls_get(&k, NULL) == 0);
	k = tls_config(&address, "ca");
	k.tls_server_name = xstrdup("kube.example.test");
	_cleanup_(free_ptr) char *path = xasprintf("%s/requests", address.folder);
	_cleanup_(free_ptr) char *before = check_read(path);
	CHECK(tls_get(&k, "not for kube.example.test") == -EACCES);
	_cleanup_(free_ptr) char *after = check_read(path);
	CHECK(strcmp(before, after) == 0); /* no header was sent */
	fixture_stop(&named);
	fixture_stop(&address);
}

static void test_client_certificates(void)
{
	struct fixture s = fixture_start("both", "ca");
	struct kubeconfig k = tls_config(&s, "ca");
	/* The server's alert, or the reset behind it: which one we see is a race. */
	int r = tls_get(&k, "client certificate");
	CHECK(r == -EACCES || r == -ECONNRESET);
	k = tls_config(&s, "ca");
	k.cert_file = xasprintf("%s/client.crt", fixture_pki);
	k.key_file = xasprintf("%s/client.key", fixture_pki);
	CHECK(tls_get(&k, NULL) == 0);
	_cleanup_(free_ptr) char *crt = xasprintf("%s/client.crt", fixture_pki);
	_cleanup_(free_ptr) char *key = xasprintf("%s/client.key", fixture_pki);
	k = tls_config(&s, "ca");
	k.cert_data = check_read(crt);
	k.key_data = check_read(key);
	CHECK(tls_get(&k, NULL) == 0);
	k = tls_config(&s, "ca");
	k.cert_file = xasprintf("%s/stranger.crt", fixture_pki);
	k.key_file = xasprintf("%s/stranger.key", fixture_pki);
	r = tls_get(&k, "client certificate");
	CHECK(r == -EACCES || r == -ECONNRESET);
	fixture_stop(&s);
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
		k.ca_file = xasprintf("%s/%s", fixture_pki, rows[i].ca);
		k.cert_file = rows[i].cert ? xasprintf("%s/%s", fixture_pki, rows[i].cert) : NULL;
		k.key_file = rows[i].key ? xasprintf("%s/%s", fixture_pki, rows[i].key) : NULL;
		struct http_client *c;
		struct err err = {0};
		CHECK(http_client_new(&k, "t", &c, &err) == -EACCES);
		CHECK_MSG(strstr(err.text, rows[i].word) && strstr(err.text, "the-config"), "%zu: %s", i,
			  err.text);
		kubeconfig_done(&k);
	}
	struct kubeconfig k = {.source = xstrdup("the-config"), .server = xstrdup("https://127.0.0.1:1")};
	_cleanup_(free_ptr) char *crt = xasprintf("%s/expired.crt", fixture_pki);
	k.cert_data = check_read(crt);
	k.key_file = xasprintf("%s/expired.key", fixture_pki);
	struct http_client *c;
	struct err err = {0};
	CHECK(http_client_new(&k, "t", &c, &err) == -EACCES);
	CHECK_MSG(strstr(err.text, "client-certificate expired on 20"), "%s", err.text);
	kubeconfig_done(&k);
}

/* proxy-url: for requests and for watches, whatever the environment says; TLS goes through to the server. */
static void test_proxy(void)
{
	struct fixture s = fixture_start("both", NULL), proxy = fixture_start(NULL, NULL);
	setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
	struct kubeconfig k = tls_config(&s, "ca");
	k.proxy_url = xasprintf("http://127.0.0.1:%d", proxy.port);
	CHECK(tls_get(&k, NULL) == 0);
	_cleanup_(free_ptr) char *asked = NULL, *want = xasprintf("127.0.0.1:%d", s.port);
	CHECK(json_string_is(json_get(fixture_request(&proxy, 0, &asked), "path"), want));
	CHECK(fixture_header_is(&proxy, "authorization", NULL));
	k = tls_config(&s, "ca");
	k.proxy_url = xstrdup("http://127.0.0.1:1");
	CHECK(tls_get(&k, "cannot connect") == -ECONNREFUSED);
	unsetenv("HTTPS_PROXY");
	fixture_stop(&s);
	fixture_stop(&proxy);
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
		r = fixture_get(c, "/hello", &body, err);
	kubeconfig_done(&k);
	buf_done(&body);
	http_client_free(c);
	return r;
}

static void test_kubeconfigs(void)
{
	struct fixture mutual = fixture_start("both", "ca"), named = fixture_start("named", NULL);
	struct err err = {0};
	/* Relative paths, from another working directory. */
	_cleanup_(free_ptr) char *relative = xasprintf("%s/../relative.yaml", fixture_pki);
	_cleanup_(free_ptr) char *text =
	    xasprintf("clusters: [{name: a, cluster: {server: 'https://127.0.0.1:%d', certificate-authority: "
		      "pki/ca.crt}}]\n"
		      "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
		      "users: [{name: a, user: {client-certificate: ./pki/client.crt, client-key: "
		      "../%s/pki/client.key}}]\n",
		      mutual.port, strrchr(check_folder(), '/') + 1);
	fixture_write(relative, text);
	CHECK(chdir("/") == 0);
	CHECK_MSG(connect_with(relative, &err) == 0, "%s", err.text);
	/* tls-server-name, CA inline, a token file that wins over a stale token. */
	_cleanup_(free_ptr) char *command =
	    xasprintf("base64 -w0 < %s/ca.crt > %s/ca.b64", fixture_pki, fixture_pki);
	CHECK(system(command) == 0);
	_cleanup_(free_ptr) char *b64_path = xasprintf("%s/ca.b64", fixture_pki);
	_cleanup_(free_ptr) char *b64 = check_read(b64_path);
	_cleanup_(free_ptr) char *token = xasprintf("%s/token.txt", fixture_pki);
	fixture_write(token, "fresh\n");
	_cleanup_(free_ptr) char *inline_path = xasprintf("%s/inline.yaml", fixture_pki);
	_cleanup_(free_ptr) char *inline_text =
	    xasprintf("clusters: [{name: a, cluster: {server: 'https://127.0.0.1:%d/', tls-server-name: "
		      "kube.example.test, certificate-authority-data: %s}}]\n"
		      "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
		      "users: [{name: a, user: {token: stale, tokenFile: token.txt}}]\n",
		      named.port, b64);
	fixture_write(inline_path, inline_text);
	CHECK_MSG(connect_with(inline_path, &err) == 0, "%s", err.text);
	CHECK(fixture_header_is(&named, "authorization", "Bearer fresh"));
	_cleanup_(free_ptr) char *log = NULL;
	CHECK(json_string_is(json_get(fixture_request(&named, 0, &log), "path"), "/hello"));
	fixture_stop(&mutual);
	fixture_stop(&named);
}

int main(void)
{
	char *src = realpath(getenv("SRC") ? getenv("SRC") : ".", NULL); /* a test changes its folder */
	setenv("SRC", src, 1);
	free(src);
	fixture_make_pki();
	test_trust();
	test_server_names();
	test_client_certificates();
	test_material();
	test_proxy();
	test_kubeconfigs();
	free(fixture_pki);
	return check_result();
}
