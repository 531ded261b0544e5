/* API servers that cannot be reached or refuse: what is wrong is said in the log and by `reconcilectl
 * status`, as text and as JSON, hurts no more than it must, and heals by itself once the cause is gone. Two
 * controllers on an API server that the test starts, each with a reconciler that writes down the counter of
 * its object. */
#include "http_fixture.h"
#include "json_scan.h"
#include "stack.h"
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN "the-right-token"

static struct stack s;
static pid_t server;
static int port, port_held;
static char *server_log, *token_file;

/* cert: a name in the pki folder; NULL: plain HTTP. */
static void server_start(const char *cert)
{
	_cleanup_(free_ptr) char *listen = xasprintf("127.0.0.1:%d", port);
	_cleanup_(free_ptr) char *crt = xasprintf("%s/%s.crt", fixture_pki, cert ? cert : "");
	_cleanup_(free_ptr) char *key = xasprintf("%s/%s.key", fixture_pki, cert ? cert : "");
	server = check_start(server_log,
			     (const char *const[]){"reconciled-apiserver", "--listen", listen, "--token-file",
						   token_file, cert ? "--tls-cert" : NULL, crt, "--tls-key",
						   key, NULL});
}

static void server_stop(void)
{
	kill(server, SIGKILL);
	check_wait(server, SOON);
}

/* What the programs are given; ca: a name in the pki folder, NULL: plain HTTP. Returns the path, owned by the
 * caller. */
static char *kubeconfig(const char *name, int to_port, const char *ca, const char *token_path)
{
	_cleanup_(free_ptr) char *authority =
	    ca ? xasprintf(", certificate-authority: %s/%s.crt", fixture_pki, ca) : xstrdup("");
	_cleanup_(free_ptr) char *text =
	    xasprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
		      "clusters: [{name: c, cluster: {server: \"http%s://127.0.0.1:%d\"%s}}]\n"
		      "users: [{name: u, user: {tokenFile: %s}}]\ncontexts: [{name: c, context: {cluster: c, "
		      "user: u}}]\n",
		      ca ? "s" : "", to_port, authority, token_path);
	char *path = xasprintf("%s/%s", s.runtime, name);
	fixture_write(path, text);
	return path;
}

static void controller(const char *name, const char *kind)
{
	_cleanup_(free_ptr) char *file = xasprintf("%s.yaml", name);
	stack_file(
	    &s, file,
	    "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n  for: "
	    "{apiVersion: v1, kind: %s, namespaces: [default], labelSelector: {matchLabels: {seen: "
	    "\"yes\"}}}\n"
	    "  reconciler:\n    exec: {command: [./seen.sh]}\n    env: {RECORDS: \"%s\"}\n"
	    "    sandbox: {readWritePaths: [\"%s\"]}\n",
	    name, kind, s.records, s.records);
}

static void prepare(void)
{
	stack_init(&s);
	server_log = xasprintf("%s/server.log", s.folder);
	token_file = xasprintf("%s/server-token", s.runtime);
	fixture_write(token_file, TOKEN "\n");
	stack_file(&s, "seen.sh",
		   "#!/bin/sh\nf=$RECORDS/$RECONCILE_CONTROLLER\n"
		   "n=$(jq -r .object.metadata.annotations.n)\nprintf '%%s\\n' \"$n\" >\"$f.new\" && mv "
		   "\"$f.new\" \"$f\"\n"
		   "[ \"$RECONCILE_CONTROLLER\" = services ] || exit 0\n"
		   "printf "
		   "'{\"conditions\":[{\"type\":\"Seen\",\"status\":\"True\",\"reason\":\"Seen\",\"message\":"
		   "\"%%s\"}]}' \"$n\"\n");
	controller("maps", "ConfigMap");
	controller("services", "Service");
	port = fixture_port(&port_held);
}

static void finish(void)
{
	CHECK(stack_stop(&s) == 0);
	server_stop();
	close(port_held);
	stack_done(&s);
	free(server_log);
	free(token_file);
}

static bool text_says(const char *text)
{
	_cleanup_(free_ptr) char *now = stack_status(&s, "");
	return strstr(now, text) != NULL;
}

/* How many reports there are about this controller with this text (NULL: any) in their message; -1 if the
 * status cannot be had. */
static int reports(const char *of, const char *text)
{
	_cleanup_(free_ptr) char *now = stack_status(&s, "-o json");
	struct err err;
	struct span list = {0}, key, report;
	if (json_check(span_of(now), &err) == 0)
		list = json_get(span_of(now), "reports");
	if (json_type_of(list) != JSON_ARRAY)
		return -1;
	int found = 0;
	for (struct json_iter it = {0}; json_each(list, &it, &key, &report);) {
		_cleanup_(buf_done) struct buf message = {0};
		json_unescape(json_get(report, "message"), &message);
		found += json_string_is(json_get(report, "controller"), of) &&
			 (!text || strstr(buf_str(&message), text));
	}
	return found;
}

static void says(const char *what, const char *text)
{
	CHECK_MSG(WAIT_FOR(SOON, stack_logged(&s, text)), "%s: the log does not say \"%s\"", what, text);
	CHECK_MSG(WAIT_FOR(SOON, text_says(text)), "%s: the status does not say \"%s\"", what, text);
}

static void both_say(const char *what, const char *text)
{
	says(what, text);
	CHECK_MSG(WAIT_FOR(SOON, reports("maps", text) > 0 && reports("services", text) > 0),
		  "%s: the status as JSON does not say \"%s\" of both controllers", what, text);
}

static void heals(const char *what)
{
	CHECK_MSG(WAIT_FOR(SOON, reports("maps", NULL) == 0 && reports("services", NULL) == 0),
		  "%s: the status still has a problem", what);
}

/* ---- objects ---- */

static bool seen(const char *by, int n)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", s.records, by);
	_cleanup_(free_ptr) char *text = check_read(path);
	return atoi(text) == n;
}

/* A change of the object of one of the two; n counts up from 1 and creates it. */
static void change(const char *of, int n)
{
	_cleanup_(free_ptr) char *body =
	    xasprintf("{\"metadata\":{\"name\":\"x\",\"labels\":{\"seen\":\"yes\"},"
		      "\"annotations\":{\"n\":\"%d\"}}%s}",
		      n, *of == 's' && n == 1 ? ",\"spec\":{\"ports\":[{\"port\":80}]}" : "");
	const char *plural = *of == 's' ? "services" : "configmaps";
	int status = n == 1 ? stack_api(&s, "POST", NULL, body, NULL, "/api/v1/namespaces/default/%s", plural)
			    : stack_api(&s, "PATCH", MERGE_PATCH, body, NULL,
					"/api/v1/namespaces/default/%s/x", plural);
	CHECK_MSG(status == 200 || status == 201, "%s: the API server answered %d", of, status);
}

static void works(const char *what, const char *of, int n)
{
	change(of, n);
	CHECK_MSG(WAIT_FOR(SOON, seen(of, n)), "%s: %s did not see change %d", what, of, n);
}

static void both_work(const char *what, int n)
{
	works(what, "maps", n);
	works(what, "services", n);
}

/* The test's own way to the server; ca as above. */
static void connect_to_server(const char *ca)
{
	_cleanup_(free_ptr) char *path = kubeconfig("admin", port, ca, token_file);
	CHECK_MSG(stack_connect(&s, path), "no connection to the API server: %s/server.log", s.folder);
}

/* ---- the cases ---- */

static void unreachable(void)
{
	prepare();
	_cleanup_(free_ptr) char *path = kubeconfig("kubeconfig", port, NULL, token_file);
	stack_start_on(&s, path);
	both_say("unreachable at the start", "no connection to the API server");
	server_start(NULL);
	connect_to_server(NULL);
	both_work("unreachable at the start", 1);
	heals("unreachable at the start");
	finish();
}

static void wrong_authority(void)
{
	prepare();
	server_start("address");
	connect_to_server("ca");
	_cleanup_(free_ptr) char *path = kubeconfig("kubeconfig", port, "other-ca", token_file);
	stack_start_on(&s, path);
	both_say("a wrong authority", "unknown authority");
	finish();
}

static void expired(void)
{
	prepare();
	server_start("expired");
	_cleanup_(free_ptr) char *path = kubeconfig("kubeconfig", port, "ca", token_file);
	stack_start_on(&s, path);
	both_say("an expired certificate", "expired on 20");
	server_stop();
	server_start("address");
	connect_to_server("ca");
	both_work("a renewed certificate", 1);
	heals("a renewed certificate");
	finish();
}

static void unauthenticated(void)
{
	prepare();
	server_start("address");
	connect_to_server("ca");
	_cleanup_(free_ptr) char *token = xasprintf("%s/client-token", s.runtime);
	_cleanup_(free_ptr) char *fresh = xasprintf("%s/client-token.new", s.runtime);
	fixture_write(token, "a-wrong-token\n");
	_cleanup_(free_ptr) char *path = kubeconfig("kubeconfig", port, "ca", token);
	stack_start_on(&s, path);
	both_say("401", "not authenticated");
	fixture_write(fresh, TOKEN "\n");
	CHECK(rename(fresh, token) == 0);
	both_work("a new token", 1);
	heals("a new token");
	finish();
}

/* The gate's rules; NULL: none. */
static void deny(const char *gate, const char *rules)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/deny", gate);
	_cleanup_(free_ptr) char *fresh = xasprintf("%s/deny.new", gate);
	fixture_write(fresh, rules ? rules : "");
	CHECK(rename(fresh, path) == 0);
}

static void forbidden(void)
{
	prepare();
	server_start(NULL);
	connect_to_server(NULL);
	_cleanup_(free_ptr) char *gate = xasprintf("%s/gate", s.folder);
	_cleanup_(free_ptr) char *gate_log = xasprintf("%s/log", gate);
	_cleanup_(free_ptr) char *gate_port = xasprintf("%s/port", gate);
	_cleanup_(free_ptr) char *script =
	    xasprintf("%s/tests/lib/gate.py", getenv("SRC") ? getenv("SRC") : ".");
	_cleanup_(free_ptr) char *to = xasprintf("%d", port);
	CHECK(mkdir(gate, 0700) == 0);
	deny(gate, "/services\n");
	pid_t pid = check_start(gate_log, (const char *const[]){"python3", script, gate, to, NULL});
	CHECK(WAIT_FOR(SOON, access(gate_port, R_OK) == 0));
	_cleanup_(free_ptr) char *text = check_read(gate_port);
	_cleanup_(free_ptr) char *path = kubeconfig("kubeconfig", atoi(text), NULL, token_file);
	stack_start_on(&s, path);

	works("403 on another kind", "maps", 1);
	change("services", 1);
	says("403", "lacks the right");
	CHECK(
	    WAIT_FOR(SOON, reports("services", "resources [\"services\"], verbs [\"list\", \"watch\"]") > 0));
	CHECK(WAIT_FOR(SOON, reports("maps", NULL) == 0));
	works("403 on another kind", "maps", 2);
	CHECK(!seen("services", 1));

	deny(gate, NULL);
	CHECK_MSG(WAIT_FOR(SOON, seen("services", 1)), "the right is given, and nothing happens");
	heals("the right is given");
	works("the right is given", "services", 2);

	/* Reads are allowed, the write of the status is not. */
	deny(gate, "PATCH /services\n");
	change("services", 3);
	says("403 on a write", "lacks the right");
	CHECK(WAIT_FOR(SOON, text_says("services: Transient") || text_says("services/default/x")));
	works("403 on another kind's write", "maps", 3);
	deny(gate, NULL);
	finish();
	kill(pid, SIGKILL);
	check_wait(pid, SOON);
}

int main(void)
{
	fixture_make_pki();
	unreachable();
	wrong_authority();
	expired();
	unauthenticated();
	forbidden();
	return check_result();
}
