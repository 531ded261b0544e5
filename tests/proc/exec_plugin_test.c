/* A credential plugin of common/http.h from start to end: what it is given, how often it is asked, what becomes of
 * requests meanwhile, and what it does wrong. tests/lib/plugin.sh is the plugin, http_server.py's /who the server
 * that wants its token. */
#include "check.h"
#include "http_fixture.h"
#include "json_scan.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TIMEOUT_MS = SOON * 1000 };

static struct fixture server;
static char *home; /* the plugin's folder */
static struct buf notices;

static void put(const char *folder, const char *name, const char *text)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", folder, name);
	fixture_write(path, text);
}

/* What the plugin does from now on; NULL: it gives the token of `give`. */
static void set_do(const char *script)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/do", home);
	if (script)
		put(home, "do", script);
	else
		unlink(path);
}

static size_t calls(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/calls", home);
	_cleanup_(free_ptr) char *text = check_read(path);
	return strlen(text) / strlen("call\n");
}

static char *seen(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/seen", home);
	return check_read(path);
}

static void on_notice(void *ctx _unused_, bool warning, const char *text)
{
	buf_printf(&notices, "%s: %s\n", warning ? "warning" : "info", text);
}

static struct kubeconfig exec_config(const struct fixture *s, const char *scheme)
{
	struct kubeconfig k = fixture_config(s, scheme);
	const char *src = getenv("SRC");
	k.exec_command = xasprintf("%s/tests/lib/plugin.sh", src ? src : ".");
	k.exec_api_version = xstrdup("client.authentication.k8s.io/v1");
	k.exec_args = xcalloc(2, sizeof *k.exec_args);
	k.exec_args[0] = xstrdup(home);
	k.exec_timeout_ms = KUBECONFIG_EXEC_TIMEOUT_MS;
	return k;
}

static struct http_client *client_of(struct kubeconfig *k)
{
	struct http_client *c = fixture_client(k);
	http_client_on_notice(c, on_notice, NULL);
	buf_reset(&notices);
	return c;
}

static struct http_client *new_client(void)
{
	struct kubeconfig k = exec_config(&server, "http");
	return client_of(&k);
}

/* The status of GET path; negative: no answer. */
static int get(struct http_client *c, const char *path, struct err *err)
{
	struct buf body = {0};
	int r = fixture_get(c, path, &body, err);
	buf_done(&body);
	return r ? r : fixture_last.status;
}

/* Both sides of a token. */
static void set_token(const char *token)
{
	put(server.folder, "token", token);
	put(home, "give", token);
}

/* ---- what it is given ---- */

static void test_surroundings(void)
{
	setenv("NOTIFY_SOCKET", "/canary", 1);
	setenv("WATCHDOG_USEC", "canary", 1);
	setenv("RECONCILED_FAULT", "canary", 1);
	setenv("KUBERNETES_EXEC_INFO", "canary", 1);
	setenv("MINE", "kept", 1);
	setenv("OVER", "canary", 1);
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	signal(SIGPIPE, SIG_IGN);
	_cleanup_(free_ptr) char *canary = xasprintf("%s/canary", check_folder());
	int fd = open(canary, O_WRONLY | O_CREAT, 0600); /* without close-on-exec */
	CHECK(fd >= 0);
	set_token("one");
	struct kubeconfig k = exec_config(&server, "http");
	k.exec_cluster_info = true;
	k.exec_env = xcalloc(4, sizeof *k.exec_env);
	k.exec_env[0] = xstrdup("OVER=written");
	k.exec_env[1] = xstrdup("TWICE=first");
	k.exec_env[2] = xstrdup("TWICE=last");
	_cleanup_(free_ptr) char *info = xasprintf(
	    "\nKUBERNETES_EXEC_INFO={\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s."
	    "io/"
	    "v1\",\"spec\":{\"cluster\":{\"server\":\"http://127.0.0.1:%d\"},\"interactive\":false}}\n",
	    server.port);
	struct http_client *c = client_of(&k);
	struct err err = {0};
	CHECK_MSG(get(c, "/who", &err) == 200, "%s", err.text);
	_cleanup_(free_ptr) char *text = seen();
	CHECK_MSG(!strstr(text, "canary"), "%s", text);
	CHECK_MSG(strstr(text, info) && strstr(text, "\nMINE=kept\n") && strstr(text, "\nOVER=written\n") &&
		      strstr(text, "\nTWICE=last\n") && !strstr(text, "first"),
		  "%s", text);
	CHECK_MSG(strstr(text, "\nstdin: /dev/null\n"), "%s", text);
	CHECK_MSG(strstr(text, "\nsignals:   \n"), "none is blocked, none ignored: %s", text);
	long pid = 0, session = -1;
	const char *at = strstr(text, "\nsession: ");
	CHECK(at && sscanf(at, "\nsession: %ld %ld", &pid, &session) == 2 && pid == session);
	http_client_free(c);
	close(fd);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &blocked, NULL);
}

/* ---- how often it is asked ---- */

static void test_one_run_for_all(void)
{
	set_token("two");
	set_do("sleep 0.3; rm do; exec sh $SRC/tests/lib/plugin.sh .");
	size_t before = calls();
	struct http_client *c = new_client();
	struct fixture_transfer all[6];
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		fixture_begin(c, &all[i], "/who", TIMEOUT_MS);
	size_t good = 0;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		CHECK(RUN_UNTIL(c, SOON, all[i].ended));
		good += all[i].status == 200;
	}
	struct err err = {0};
	for (int i = 0; i < 20; i++)
		good += get(c, "/who", &err) == 200;
	CHECK(good == 26);
	CHECK(calls() == before + 2); /* the script called the plugin itself once more */
	http_client_free(c);
}

static void test_refused_credentials(void)
{
	struct err err = {0};
	set_token("three");
	struct http_client *c = new_client();
	CHECK(get(c, "/who", &err) == 200);
	size_t before = calls();
	/* Rotated: one 401 behind the scenes, one more call. */
	set_token("four");
	CHECK_MSG(get(c, "/who", &err) == 200 && calls() == before + 1, "%s, %zu calls", err.text,
		  calls() - before);
	/* The server goes on refusing: no storm. */
	put(server.folder, "token", "nobody's");
	before = calls();
	int64_t begun = clock_boottime_ns();
	size_t refused = 0;
	for (int i = 0; i < 40; i++)
		refused += get(c, "/who", &err) == 401;
	int64_t took_s = (clock_boottime_ns() - begun) / NS_PER_S;
	CHECK(refused == 40);
	CHECK_MSG(calls() - before <= 2 + (size_t)took_s, "%zu calls in %lld s", calls() - before,
		  (long long)took_s);
	/* And heals, without a restart. */
	set_token("five");
	CHECK(WAIT_FOR(SOON, get(c, "/who", &err) == 200));
	http_client_free(c);
}

/* Renewed before its end, and the open watch is not cut. */
static void test_expiry(void)
{
	struct err err = {0};
	struct fixture_transfer watch;
	set_token("six");
	put(home, "life", "30");
	struct http_client *c = new_client();
	size_t before = calls();
	fixture_begin(c, &watch, "/who-watch", 0);
	CHECK(RUN_UNTIL(c, SOON, watch.bytes > 0) && watch.status == 200 && calls() == before + 1);
	set_token("seven"); /* what a request now would be refused with, were the old one still in use */
	CHECK(RUN_UNTIL(c, SOON, calls() >= before + 2 && !http_client_is_busy(c)));
	CHECK(!watch.ended);
	CHECK_MSG(get(c, "/who", &err) == 200 && calls() == before + 2, "%s", err.text);
	_cleanup_(free_ptr) char *text = NULL;
	CHECK(
	    json_string_is(json_get(fixture_request(&server, 1, &text), "path"), "/who-watch")); /* no 401 */
	http_cancel(watch.t);
	http_client_free(c);
	/* The plugin's clock is ten minutes behind: used all the same, and told. */
	put(home, "life", "-600");
	c = new_client();
	before = calls();
	size_t good = 0;
	for (int i = 0; i < 10; i++)
		good += get(c, "/who", &err) == 200;
	CHECK(good == 10 && calls() - before <= 2);
	CHECK_MSG(strstr(buf_str(&notices), "is a clock wrong"), "%s", buf_str(&notices));
	http_client_free(c);
	_cleanup_(free_ptr) char *life = xasprintf("%s/life", home);
	unlink(life);
}

/* ---- what it does wrong ---- */

static void test_failures(void)
{
	static const struct {
		const char *script;
		const char *words[2];
	} rows[] = {
	    {"echo 'no session, please log in' >&2; exit 3",
	     {"exit status 3", "it said: no session, please log in"}},
	    {"exit 0", {"printed nothing"}},
	    {"echo Welcome; rm do; exec sh $SRC/tests/lib/plugin.sh .",
	     {"does not begin with a JSON object"}},
	    {"kill -9 $$", {"killed by signal 9"}},
	    {"exec dd if=/dev/zero of=/dev/null bs=1100M count=1", {"exit status 1", "memory exhausted"}},
	    {"echo "
	     "'{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/"
	     "v1beta1\",\"status\":{"
	     "\"token\":\"SECRET\"}}'",
	     {"another apiVersion"}},
	    {"echo SECRET", {"does not begin with a JSON object"}},
	    {"exec yes SECRET", {"more than 262144 bytes"}},
	    {"echo waiting for a browser >&2; exec sleep 600",
	     {"did not end within 10 s", "waiting for a browser"}},
	};
	set_token("eight");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = {0};
		set_do(rows[i].script);
		struct kubeconfig k = exec_config(&server, "http");
		k.exec_timeout_ms = strstr(rows[i].script, "sleep") ? 10000 : TIMEOUT_MS;
		struct http_client *c = client_of(&k);
		size_t before = calls();
		CHECK_MSG(get(c, "/who", &err) == -ENOKEY, "%s: %s", rows[i].script, err.text);
		int64_t failed = clock_boottime_ns();
		CHECK_MSG(strstr(err.text, "plugin.sh") && strstr(err.text, "/who"), "%s", err.text);
		for (size_t w = 0; w < ARRAY_SIZE(rows[i].words) && rows[i].words[w]; w++)
			CHECK_MSG(strstr(err.text, rows[i].words[w]), "no \"%s\" in: %s", rows[i].words[w],
				  err.text);
		/* Those that come right after do not ask it again, and hear the same. */
		size_t now = calls();
		struct err again = {0};
		int r = get(c, "/who", &again);
		if (clock_boottime_ns() - failed < NS_PER_S / 2)
			CHECK_MSG(r == -ENOKEY && calls() == now && now >= before + 1, "%d %s", r,
				  again.text);
		CHECK(!strstr(err.text, "SECRET") && !strstr(buf_str(&notices), "SECRET"));
		/* And it heals. */
		set_do(NULL);
		CHECK(WAIT_FOR(SOON, get(c, "/who", &err) == 200));
		http_client_free(c);
	}
	CHECK(strstr(buf_str(&notices), "waiting for a browser"));
	struct kubeconfig k = exec_config(&server, "http");
	free(k.exec_command);
	k.exec_command = xstrdup("fake-credentials-that-nobody-has");
	k.exec_install_hint = xstrdup("get it from the internal package feed");
	struct http_client *c = client_of(&k);
	struct err err = {0};
	CHECK(get(c, "/who", &err) == -ENOKEY);
	CHECK_MSG(strstr(err.text,
			 "fake-credentials-that-nobody-has: cannot be started: No such file or directory; "
			 "get it from the internal package feed"),
		  "%s", err.text);
	http_client_free(c);
}

/* A plugin that hangs holds nobody longer than the request's own time, and who needs it not is not held at all. */
static void test_a_hanging_renewal(void)
{
	struct err err = {0};
	set_token("nine");
	put(home, "life", "60");
	struct kubeconfig k = exec_config(&server, "http");
	struct http_client *c = client_of(&k);
	CHECK(get(c, "/who", &err) == 200);
	set_do("exec sleep 600");
	size_t before = calls();
	struct fixture_transfer watch;
	fixture_begin(c, &watch, "/who-watch", 0);
	CHECK(RUN_UNTIL(c, 2 * SOON, calls() > before));
	CHECK(http_client_is_busy(c) && get(c, "/who", &err) == 200);
	CHECK(!watch.ended);
	http_cancel(watch.t);
	http_client_free(c);
	set_do("exec sleep 600");
	c = new_client();
	struct http_request r = {.method = "GET", .path = "/who", .timeout_ms = 700};
	struct http_result result;
	before = calls();
	CHECK(http_do(c, &r, &result, NULL, &err) == -ETIMEDOUT);
	CHECK_MSG(strstr(err.text, "plugin.sh is still running after 700 ms"), "%s", err.text);
	/* What still runs ends with the client. */
	CHECK(WAIT_FOR(SOON, calls() > before)); /* `seen` is of this one */
	_cleanup_(free_ptr) char *text = seen();
	long pid = 0;
	const char *at = strstr(text, "\nsession: ");
	CHECK(at && sscanf(at, "\nsession: %ld", &pid) == 1 && kill((pid_t)pid, 0) == 0);
	http_client_free(c);
	CHECK(kill((pid_t)pid, 0) == -1 && errno == ESRCH);
	_cleanup_(free_ptr) char *life = xasprintf("%s/life", home);
	unlink(life);
	set_do(NULL);
}

/* The run ends with its main process, and what that left behind is killed. */
static void test_left_behind(void)
{
	struct err err = {0};
	set_token("ten");
	set_do("sleep 600 & echo $! > left; rm do; exec sh $SRC/tests/lib/plugin.sh .");
	struct http_client *c = new_client();
	CHECK_MSG(get(c, "/who", &err) == 200, "%s", err.text);
	_cleanup_(free_ptr) char *path = xasprintf("%s/left", home);
	_cleanup_(free_ptr) char *pid = check_read(path);
	_cleanup_(free_ptr) char *proc = xasprintf("/proc/%ld/root", strtol(pid, NULL, 10));
	CHECK(WAIT_FOR(SOON, readlink(proc, (char[8]){0}, 8) < 0)); /* a zombie has none */
	http_client_free(c);
}

/* Killed without a word, we take a plugin along that would hang for ever: nobody else ends it. */
static void test_it_dies_with_us(void)
{
	_cleanup_(free_ptr) char *config = xasprintf("%s/hangs.yaml", check_folder());
	_cleanup_(free_ptr) char *path = xasprintf("%s/mine", home);
	_cleanup_(free_ptr) char *text = xasprintf(
	    "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:%d\"}}]\n"
	    "users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: "
	    "Never, command: \"%s/tests/lib/plugin.sh\", args: [\"%s\"]}}}]\n"
	    "contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n",
	    server.port, getenv("SRC"), home);
	fixture_write(config, text);
	set_do("echo $$ > mine.new; mv mine.new mine; exec sleep 600");
	pid_t ours = check_start(
	    NULL, (const char *const[]){"reconcilectl", "raw", "GET", "/who", "--kubeconfig", config, NULL});
	CHECK(WAIT_FOR(SOON, access(path, R_OK) == 0));
	_cleanup_(free_ptr) char *pid = check_read(path);
	_cleanup_(free_ptr) char *proc = xasprintf("/proc/%ld/root", strtol(pid, NULL, 10));
	CHECK(readlink(proc, (char[8]){0}, 8) > 0);
	kill(ours, SIGKILL);
	check_wait(ours, SOON);
	CHECK(WAIT_FOR(SOON, readlink(proc, (char[8]){0}, 8) < 0));
	set_do(NULL);
}

/* ---- certificates ---- */

/* An ExecCredential with this certificate and key, printed by a script. */
static void give_certificate(const char *name)
{
	_cleanup_(free_ptr) char *script = xasprintf(
	    "crt=$(awk '{printf \"%%s\\\\n\", $0}' %1$s/%2$s.crt) key=$(awk '{printf \"%%s\\\\n\", $0}' "
	    "%1$s/%2$s.key)\n"
	    "printf '%%s' "
	    "'{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":"
	    "{\"clientCertificateData\":\"'\"$crt\"'\",\"clientKeyData\":\"'\"$key\"'\","
	    "\"expirationTimestamp\":\"'"
	    "$(date -u -d '+12 seconds' +%%Y-%%m-%%dT%%H:%%M:%%SZ)'\"}}'\n",
	    fixture_pki, name);
	set_do(script);
}

static bool peer_is(const struct fixture *s, const char *name)
{
	_cleanup_(free_ptr) char *text = NULL;
	return json_string_is(json_get(fixture_request(s, 0, &text), "peer"), name);
}

static void test_certificates(void)
{
	struct err err = {0};
	struct fixture tls = fixture_start("both", "ca");
	struct kubeconfig k = exec_config(&tls, "https");
	k.ca_file = xasprintf("%s/ca.crt", fixture_pki);
	struct http_client *c = client_of(&k);
	struct fixture_transfer watch;
	give_certificate("client");
	CHECK_MSG(get(c, "/hello", &err) == 200 && peer_is(&tls, "jane"), "%s", err.text);
	fixture_begin(c, &watch, "/quiet", 0);
	CHECK(RUN_UNTIL(c, SOON, watch.status == 200));
	/* Another one: the watch on the old connection ends as if the server had ended it. */
	give_certificate("second");
	CHECK(RUN_UNTIL(c, SOON, watch.ended) && watch.code == 0 && watch.status == 200);
	CHECK_MSG(get(c, "/hello", &err) == 200 && peer_is(&tls, "kim"), "%s", err.text);
	/* One that does not fit its key is not taken. */
	set_do("crt=$(awk '{printf \"%s\\\\n\", $0}' $PKI/client.crt) key=$(awk '{printf \"%s\\\\n\", $0}' "
	       "$PKI/second.key)\n"
	       "printf '%s' "
	       "'{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":"
	       "{\"clientCertificateData\":\"'\"$crt\"'\",\"clientKeyData\":\"'\"$key\"'\"}}'");
	http_client_free(c);
	k = exec_config(&tls, "https");
	k.ca_file = xasprintf("%s/ca.crt", fixture_pki);
	c = client_of(&k);
	CHECK(get(c, "/hello", &err) == -ENOKEY);
	CHECK_MSG(strstr(err.text, "client-key does not belong to client-certificate"), "%s", err.text);
	http_client_free(c);
	fixture_stop(&tls);
	set_do(NULL);
}

int main(void)
{
	char *src = realpath(getenv("SRC") ? getenv("SRC") : ".", NULL);
	setenv("SRC", src, 1);
	free(src);
	fixture_make_pki();
	setenv("PKI", fixture_pki, 1);
	home = xasprintf("%s/plugin", check_folder());
	CHECK(mkdir(home, 0700) == 0);
	server = fixture_start(NULL, NULL);
	test_surroundings();
	test_one_run_for_all();
	test_refused_credentials();
	test_failures();
	test_left_behind();
	test_it_dies_with_us();
	test_certificates();
	test_expiry();
	test_a_hanging_renewal();
	fixture_stop(&server);
	buf_done(&notices);
	free(home);
	free(fixture_pki);
	return check_result();
}
