/* Credentials that change under common/http.h: token files, certificates and authorities; chains; and the ways
 * through a proxy. (Plugins: exec_plugin_test.c.) */
#include "check.h"
#include "http_fixture.h"
#include "json_scan.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct buf notices;

static void on_notice(void *ctx _unused_, bool warning, const char *text)
{
	buf_printf(&notices, "%s: %s\n", warning ? "warning" : "info", text);
}

static struct http_client *client_of(struct kubeconfig *k)
{
	struct http_client *c = fixture_client(k);
	http_client_on_notice(c, on_notice, NULL);
	buf_reset(&notices);
	return c;
}

/* The status of GET path; negative: no answer. */
static int get(struct http_client *c, const char *path, struct err *err)
{
	struct buf body = {0};
	int r = fixture_get(c, path, &body, err);
	buf_done(&body);
	return r ? r : fixture_last.status;
}

static char *in_folder(const char *name)
{
	return xasprintf("%s/%s", check_folder(), name);
}

static char *in_pki(const char *name)
{
	return xasprintf("%s/%s", fixture_pki, name);
}

/* Puts pki's file in the place of the folder's, as kubelet does: another file, by rename. */
static void install(const char *from, const char *to)
{
	_cleanup_(free_ptr) char *source = in_pki(from);
	_cleanup_(free_ptr) char *text = check_read(source);
	_cleanup_(free_ptr) char *target = in_folder(to);
	_cleanup_(free_ptr) char *next = xasprintf("%s.new", target);
	fixture_write(next, text);
	CHECK(rename(next, target) == 0);
}

static bool peer_is(const struct fixture *s, const char *name)
{
	_cleanup_(free_ptr) char *text = NULL;
	struct span peer = json_get(fixture_request(s, 0, &text), "peer");
	return name ? json_string_is(peer, name) : span_is(peer, "null");
}

/* ---- tokens ---- */

static void test_token_rotated_under_a_watch(void)
{
	struct err err = {0};
	struct fixture_transfer w;
	struct fixture s = fixture_start(NULL, NULL);
	struct kubeconfig k = fixture_config(&s, "http");
	_cleanup_(free_ptr) char *wanted = xasprintf("%s/token", s.folder);
	_cleanup_(free_ptr) char *file = in_folder("token.txt");
	k.token_file = xstrdup(file);
	fixture_write(wanted, "one");
	fixture_write(file, "one\n");
	struct http_client *c = client_of(&k);
	fixture_begin(c, &w, "/who-watch", 0);
	CHECK(RUN_UNTIL(c, SOON, w.bytes > 0) && w.status == 200);
	fixture_write(wanted, "two");
	fixture_write(file, "two\n");
	CHECK(get(c, "/who", &err) == 200);
	CHECK(!w.ended);
	/* Requests that were sent with the old token while another one saw the new: each is asked again. */
	fixture_write(wanted, "three");
	fixture_write(file, "three\n");
	struct fixture_transfer many[4];
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		fixture_begin(c, &many[i], "/who-watch", 0);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		CHECK(RUN_UNTIL(c, SOON, many[i].bytes > 0 || many[i].ended) && many[i].status == 200);
	/* 401 for a while, then healed. */
	fixture_write(wanted, "four");
	CHECK(get(c, "/who", &err) == 401 && get(c, "/who", &err) == 401);
	fixture_write(file, "four\n");
	CHECK(get(c, "/who", &err) == 200);
	CHECK(!w.ended);
	http_client_free(c);
	fixture_stop(&s);
}

/* ---- certificates ---- */

static struct kubeconfig rotating_config(const struct fixture *s)
{
	struct kubeconfig k = fixture_config(s, "https");
	k.ca_file = in_folder("ca.crt");
	k.cert_file = in_folder("me.crt");
	k.key_file = in_folder("me.key");
	return k;
}

static void test_certificate_rotated(void)
{
	struct err err = {0};
	struct fixture_transfer w;
	struct fixture s = fixture_start("both", "ca");
	install("ca.crt", "ca.crt");
	install("client.crt", "me.crt");
	install("client.key", "me.key");
	struct kubeconfig k = rotating_config(&s);
	struct http_client *c = client_of(&k);
	CHECK_MSG(get(c, "/hello", &err) == 200 && peer_is(&s, "jane"), "%s", err.text);
	fixture_begin(c, &w, "/quiet", 0);
	CHECK(RUN_UNTIL(c, SOON, w.status == 200));
	/* Half of it is there: the old one stays, which is said once. */
	install("second.crt", "me.crt");
	CHECK(RUN_UNTIL(c, SOON,
			strstr(buf_str(&notices), "client-key does not belong to client-certificate")));
	CHECK(strstr(buf_str(&notices), "stays in use") && !w.ended);
	CHECK(get(c, "/hello", &err) == 200 && peer_is(&s, "jane"));
	install("second.key", "me.key");
	CHECK(RUN_UNTIL(c, SOON, w.ended));
	CHECK(w.code == 0 && w.status == 200);
	CHECK_MSG(get(c, "/hello", &err) == 200 && peer_is(&s, "kim"), "%s", err.text);
	CHECK_MSG(strstr(buf_str(&notices), "info: the-config: certificates read again"), "%s",
		  buf_str(&notices));
	/* Gone and nonsense: said, and nothing else. */
	_cleanup_(free_ptr) char *ca = in_folder("ca.crt");
	unlink(ca);
	CHECK(RUN_UNTIL(c, SOON, strstr(buf_str(&notices), "certificate-authority: cannot read")));
	fixture_write(ca, "half a certif");
	CHECK(RUN_UNTIL(c, SOON, strstr(buf_str(&notices), "certificate-authority: no PEM certificate in")));
	CHECK(get(c, "/hello", &err) == 200);
	/* The same bytes in another file are no news. */
	fixture_begin(c, &w, "/quiet", 0);
	CHECK(RUN_UNTIL(c, SOON, w.status == 200));
	buf_reset(&notices);
	install("ca.crt", "ca.crt");
	CHECK(!RUN_UNTIL(c, 12, w.ended) && !buf_str(&notices)[0]);
	http_client_free(c);
	fixture_stop(&s);
}

static void test_expired_certificate(void)
{
	struct err err = {0};
	struct fixture s = fixture_start("both", "ca");
	install("ca.crt", "ca.crt");
	install("expired.crt", "me.crt");
	install("expired.key", "me.key");
	struct kubeconfig k = rotating_config(&s);
	struct http_client *c = client_of(&k);
	CHECK(get(c, "/hello", &err) < 0);
	CHECK_MSG(strstr(err.text, "expired on 20") || strstr(err.text, "client certificate"), "%s",
		  err.text);
	CHECK(RUN_UNTIL(c, SOON,
			get(c, "/hello", &err) < 0 &&
			    strstr(buf_str(&notices), "client-certificate expired on 20")));
	install("client.key", "me.key");
	install("client.crt", "me.crt");
	CHECK(WAIT_FOR(SOON, get(c, "/hello", &err) == 200) && peer_is(&s, "jane"));
	http_client_free(c);
	fixture_stop(&s);
}

/* The server has a certificate of another authority now. */
static void test_authority_rotated(void)
{
	struct err err = {0};
	struct fixture_transfer w;
	int held;
	_cleanup_(free_ptr) char *port = xasprintf("%d", fixture_port(&held));
	setenv("PORT", port, 1);
	struct fixture s = fixture_start("address", NULL);
	install("ca.crt", "ca.crt");
	struct kubeconfig k = fixture_config(&s, "https");
	k.ca_file = in_folder("ca.crt");
	struct http_client *c = client_of(&k);
	fixture_begin(c, &w, "/quiet", 0);
	CHECK(RUN_UNTIL(c, SOON, w.status == 200));
	fixture_stop(&s);
	CHECK(RUN_UNTIL(c, SOON, w.ended) && w.code < 0);
	s = fixture_start("moved", NULL);
	unsetenv("PORT");
	CHECK(get(c, "/hello", &err) == -EACCES);
	CHECK_MSG(strstr(err.text, "unknown authority"), "%s", err.text);
	/* First both, then the new one alone: a watch that runs meanwhile goes on by itself. */
	_cleanup_(free_ptr) char *command =
	    xasprintf("cat %1$s/ca.crt %1$s/other-ca.crt > %1$s/both-ca.crt", fixture_pki);
	CHECK(system(command) == 0);
	install("both-ca.crt", "ca.crt");
	CHECK(WAIT_FOR(SOON, get(c, "/hello", &err) == 200));
	fixture_begin(c, &w, "/quiet", 0);
	CHECK(RUN_UNTIL(c, SOON, w.status == 200));
	install("other-ca.crt", "ca.crt");
	CHECK(RUN_UNTIL(c, SOON, w.ended) && w.code == 0);
	CHECK(get(c, "/hello", &err) == 200);
	/* A connection that was made with the old authority is not taken up again. */
	install("ca.crt", "ca.crt");
	CHECK(RUN_UNTIL(c, SOON, get(c, "/hello", &err) == -EACCES));
	http_client_free(c);
	fixture_stop(&s);
	close(held);
}

/* What kubectl accepts: an intermediate as the authority, the second of two, chains, all forms of keys, text around
 * PEM. */
static void test_chains(void)
{
	enum { DEEP, PLAIN, MUTUAL, SERVERS };
	static const struct {
		int server;
		const char *ca, *cert, *key;
	} rows[] = {
	    {DEEP, "middle.crt", NULL, NULL},
	    {DEEP, "ca.crt", NULL, NULL},
	    {DEEP, "two-ca.crt", NULL, NULL},
	    {PLAIN, "odd-ca.crt", NULL, NULL},
	    {MUTUAL, "ca.crt", "chain.crt", "chain.key"},
	    {MUTUAL, "ca.crt", "rsa.crt", "rsa.key"},
	    {MUTUAL, "ca.crt", "rsa.crt", "rsa-old.key"},
	    {MUTUAL, "ca.crt", "client.crt", "client-pkcs8.key"},
	};
	struct err err = {0};
	struct fixture servers[SERVERS] = {[DEEP] = fixture_start("deep", NULL),
					   [PLAIN] = fixture_start("both", NULL),
					   [MUTUAL] = fixture_start("both", "ca")};
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) { /* each as files and as data */
		size_t row = i / 2;
		struct kubeconfig k = fixture_config(&servers[rows[row].server], "https");
		k.ca_file = in_pki(rows[row].ca);
		k.cert_file = rows[row].cert ? in_pki(rows[row].cert) : NULL;
		k.key_file = rows[row].key ? in_pki(rows[row].key) : NULL;
		char **files[] = {&k.ca_file, &k.cert_file, &k.key_file};
		char **data[] = {&k.ca_data, &k.cert_data, &k.key_data};
		for (size_t n = 0; n < ARRAY_SIZE(files) && i % 2 && *files[n]; n++) {
			*data[n] = check_read(*files[n]);
			free(*files[n]);
			*files[n] = NULL;
		}
		struct http_client *c = client_of(&k);
		CHECK_MSG(get(c, "/hello", &err) == 200, "%zu: %s", i, err.text);
		http_client_free(c);
	}
	for (int i = 0; i < SERVERS; i++)
		fixture_stop(&servers[i]);
}

static void test_impersonation(void)
{
	struct err err = {0};
	struct fixture s = fixture_start(NULL, NULL);
	struct kubeconfig k = fixture_config(&s, "http");
	static const char *const lines[] = {"Impersonate-User: jane", "Impersonate-Group: ops",
					    "Impersonate-Group: team a/b",
					    "Impersonate-Extra-example.test%2Fscope: x,y"};
	k.impersonate = xcalloc(ARRAY_SIZE(lines) + 1, sizeof *k.impersonate);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		k.impersonate[i] = xstrdup(lines[i]);
	struct http_client *c = client_of(&k);
	CHECK(get(c, "/hello", &err) == 200);
	_cleanup_(free_ptr) char *text = NULL;
	struct span all = json_get(fixture_request(&s, 0, &text), "lines");
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct span key, line;
		size_t found = 0;
		for (struct json_iter it = {0}; json_each(all, &it, &key, &line);)
			found += json_string_is(line, lines[i]);
		CHECK_MSG(found == 1, "%s: %zu times", lines[i], found);
	}
	http_client_free(c);
	fixture_stop(&s);
}

/* ---- proxies ---- */

struct proxy {
	char *folder;
	int port;
	pid_t pid;
};

static struct proxy proxy_start(const char *kind, const char *account)
{
	static int n;
	struct proxy p = {.folder = xasprintf("%s/proxy-%d", check_folder(), n++)};
	CHECK(mkdir(p.folder, 0700) == 0);
	_cleanup_(free_ptr) char *script = xasprintf("%s/tests/lib/proxy.py", getenv("SRC"));
	_cleanup_(free_ptr) char *log = xasprintf("%s/log", p.folder);
	_cleanup_(free_ptr) char *port = xasprintf("%s/port", p.folder);
	const char *argv[] = {"python3", script, p.folder, kind, account, NULL};
	p.pid = check_start(log, argv);
	CHECK(WAIT_FOR(SOON, access(port, R_OK) == 0));
	_cleanup_(free_ptr) char *text = check_read(port);
	p.port = (int)strtol(text, NULL, 10);
	return p;
}

static size_t proxy_asked(const struct proxy *p, const char *host, int port)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/asked", p->folder);
	_cleanup_(free_ptr) char *text = check_read(path);
	_cleanup_(free_ptr) char *line = xasprintf("%s:%d\n", host, port);
	size_t n = 0;
	for (const char *at = text; (at = strstr(at, line)); at++)
		n++;
	return n;
}

static void proxy_refuse(const struct proxy *p, const char *answer)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/refuse", p->folder);
	unlink(path);
	if (answer)
		fixture_write(path, answer);
}

/* A server that only the proxy can find; name NULL: this machine. */
static struct http_client *through(const struct fixture *s, const char *name, char *proxy_url)
{
	struct kubeconfig k = fixture_config(s, "https");
	k.ca_file = in_pki("ca.crt");
	k.proxy_url = proxy_url;
	if (name) {
		free(k.server);
		k.server = xasprintf("https://%s:%d", name, s->port);
	}
	return client_of(&k);
}

static void test_proxies(void)
{
	struct fixture s = fixture_start("both", NULL);
	static const char *const kinds[] = {"http", "https", "socks5"};
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const char *kind = kinds[i], *name = "kube.example.test";
		bool socks = !strcmp(kind, "socks5");
		struct err err = {0};
		struct fixture_transfer w;
		struct proxy p = proxy_start(kind, NULL);
		/* The proxy resolves the name; watches go the same way. */
		struct http_client *c = through(&s, name, xasprintf("%s://127.0.0.1:%d", kind, p.port));
		CHECK_MSG(get(c, "/hello", &err) == 200, "%s: %s", kind, err.text);
		fixture_begin(c, &w, "/quiet", 0);
		CHECK(RUN_UNTIL(c, SOON, w.status == 200));
		CHECK(proxy_asked(&p, name, s.port) == 2);
		http_client_free(c);
		/* With tls-server-name the address is still the server's. */
		struct kubeconfig k = fixture_config(&s, "https");
		k.ca_file = in_pki("ca.crt");
		k.tls_server_name = xstrdup(name);
		k.proxy_url = xasprintf("%s://127.0.0.1:%d", kind, p.port);
		c = client_of(&k);
		CHECK_MSG(get(c, "/hello", &err) == 200 && proxy_asked(&p, "127.0.0.1", s.port) == 1,
			  "%s: %s", kind, err.text);
		http_client_free(c);
		/* Refused by the proxy, which is not refused by the API server. */
		proxy_refuse(&p, socks ? "2" : "403");
		c = through(&s, name, xasprintf("%s://127.0.0.1:%d", kind, p.port));
		CHECK(get(c, "/hello", &err) == -ECONNREFUSED);
		_cleanup_(free_ptr) char *its = xasprintf("the proxy 127.0.0.1:%d refuse", p.port);
		CHECK_MSG(strstr(err.text, its) && (socks || strstr(err.text, "(403)")), "%s", err.text);
		proxy_refuse(&p, NULL);
		CHECK(get(c, "/hello", &err) == 200);
		http_client_free(c);
		/* A password: needed, wrong, right. It is in no text. */
		struct proxy locked = proxy_start(kind, "jane:p@ss:w");
		c = through(&s, name, xasprintf("%s://127.0.0.1:%d", kind, locked.port));
		CHECK(get(c, "/hello", &err) == -ECONNREFUSED);
		CHECK_MSG(socks || strstr(err.text, "wants another user and password (407)"), "%s", err.text);
		http_client_free(c);
		c = through(&s, name, xasprintf("%s://jane:canary@127.0.0.1:%d", kind, locked.port));
		CHECK(get(c, "/hello", &err) == -ECONNREFUSED);
		CHECK_MSG(!strstr(err.text, "canary") && strstr(err.text, "the proxy 127.0.0.1:"), "%s",
			  err.text);
		http_client_free(c);
		c = through(&s, name, xasprintf("%s://jane:p%%40ss%%3Aw@127.0.0.1:%d", kind, locked.port));
		CHECK_MSG(get(c, "/hello", &err) == 200, "%s: %s", kind, err.text);
		http_client_free(c);
		free(p.folder);
		free(locked.folder);
	}
	/* A proxy of another authority is not spoken to, whatever the server's certificate says. */
	struct err err = {0};
	_cleanup_(free_ptr) char *strange = xasprintf("%s/other-pki", check_folder());
	_cleanup_(free_ptr) char *make =
	    xasprintf("mkdir %s && sh %s/tests/lib/pki.sh %s", strange, getenv("SRC"), strange);
	CHECK(system(make) == 0);
	setenv("PKI", strange, 1);
	struct proxy unknown = proxy_start("https", NULL);
	setenv("PKI", fixture_pki, 1);
	struct http_client *c = through(&s, NULL, xasprintf("https://127.0.0.1:%d", unknown.port));
	CHECK(get(c, "/hello", &err) < 0 && proxy_asked(&unknown, "127.0.0.1", s.port) == 0);
	CHECK_MSG(strstr(err.text, "unknown authority"), "%s", err.text);
	http_client_free(c);
	free(unknown.folder);
	c = through(&s, NULL, xstrdup("socks5://127.0.0.1:1"));
	CHECK(get(c, "/hello", &err) == -ECONNREFUSED);
	CHECK_MSG(strstr(err.text, "cannot connect to the proxy 127.0.0.1:1"), "%s", err.text);
	http_client_free(c);
	fixture_stop(&s);
}

static void test_environment(void)
{
	struct err err = {0};
	struct fixture s = fixture_start("both", NULL);
	struct proxy p = proxy_start("http", NULL), other = proxy_start("socks5", NULL);
	_cleanup_(free_ptr) char *url = xasprintf("http://127.0.0.1:%d", p.port);
	const char *name = "kube.example.test";
	setenv("https_proxy", "http://127.0.0.1:1", 1);
	setenv("HTTPS_PROXY", url, 1);
	struct http_client *c = through(&s, name, NULL);
	CHECK_MSG(get(c, "/hello", &err) == 200 && proxy_asked(&p, name, s.port) == 1, "%s", err.text);
	http_client_free(c);
	/* proxy-url wins. */
	c = through(&s, name, xasprintf("socks5://127.0.0.1:%d", other.port));
	CHECK(get(c, "/hello", &err) == 200 && proxy_asked(&p, name, s.port) == 1 &&
	      proxy_asked(&other, name, s.port) == 1);
	http_client_free(c);
	/* This machine is reached directly, and whom NO_PROXY names. */
	c = through(&s, NULL, NULL);
	CHECK(get(c, "/hello", &err) == 200 && proxy_asked(&p, "127.0.0.1", s.port) == 0);
	http_client_free(c);
	setenv("NO_PROXY", "127.0.0.0/8,.example.test", 1);
	c = through(&s, name, NULL);
	CHECK(get(c, "/hello", &err) == -EHOSTUNREACH && proxy_asked(&p, name, s.port) == 1);
	http_client_free(c);
	unsetenv("NO_PROXY");
	unsetenv("HTTPS_PROXY");
	unsetenv("https_proxy");
	free(p.folder);
	free(other.folder);
	fixture_stop(&s);
}

int main(void)
{
	char *src = realpath(getenv("SRC") ? getenv("SRC") : ".", NULL);
	setenv("SRC", src, 1);
	free(src);
	fixture_make_pki();
	setenv("PKI", fixture_pki, 1);
	test_token_rotated_under_a_watch();
	test_impersonation();
	test_proxies();
	test_environment();
	test_chains();
	test_certificate_rotated();
	test_expired_certificate();
	test_authority_rotated();
	buf_done(&notices);
	free(fixture_pki);
	return check_result();
}
