/* The watcher while its credentials change: a token file that is rotated, a plugin whose credential ends under an
 * open watch, a server that refuses for a while, a plugin that hangs. Nothing is listed again and no event is lost. */
#include "watcher_rig.h"
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *topic = "watch v1 ConfigMap";
static char *home; /* of the token and of the plugin */

static void put(const char *name, const char *text)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", home, name);
	_cleanup_(free_ptr) char *next = xasprintf("%s.new", path);
	FILE *f = fopen(next, "we");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && rename(next, path) == 0);
}

static size_t calls(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/calls", home);
	_cleanup_(free_ptr) char *text = check_read(path);
	return strlen(text) / strlen("call\n");
}

/* The user's part of the kubeconfig. */
static void write_kubeconfig(const char *user)
{
	_cleanup_(free_ptr) char *port_file = xasprintf("%s/port", rig.folder);
	_cleanup_(free_ptr) char *port = check_read(port_file);
	_cleanup_(free_ptr) char *text = xasprintf(
	    "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:%s\"}}]\n"
	    "users: [{name: u, user: {%s}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
	    "current-context: c\n",
	    port, user);
	_cleanup_(free_ptr) char *path = xstrdup(rig.kubeconfig);
	FILE *f = fopen(path, "we");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void server_wants(const char *token)
{
	rig_control("{\"op\":\"token\",\"want\":\"%s\"}", token);
}

/* An object that is changed now comes to the broker. */
static void change(const char *name)
{
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}", name);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", name, NULL) > 0);
}

static void token_rotated(void)
{
	put("token", "one\n");
	server_wants("one");
	write_kubeconfig("tokenFile: credentials/token");
	rig_start_watcher();
	SAYS(SOON, rig_watching("ConfigMap"));
	change("before");
	rig_requests_forget();
	server_wants("two");
	put("token", "two\n");
	change("under-the-open-watch");
	CHECK(rig_requests("", "refused", "watch", NULL) == 0);
	/* The next request is refused once behind the scenes, and goes on where the watch was. */
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(SOON, rig_requests("ConfigMap", "watch", "watch", NULL) > 0);
	SAYS(SOON, rig_watching("ConfigMap"));
	change("after");
	CHECK(rig_requests("", "refused", "watch", NULL) == 1);
	CHECK(rig_lists("ConfigMap") == 0);
	CHECK(rig_logged("not authenticated") == 0);
}

static void refused_for_a_while(void)
{
	const char *message = "";
	rig_requests_forget();
	server_wants("three");
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", topic, &message) == WIRE_STATE_FAILED);
	CHECK_MSG(strstr(message, "not authenticated") &&
		      strstr(message, "does not accept the credentials of"),
		  "%s", message);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"meanwhile\"}");
	put("token", "three\n");
	SAYS(120, fake_broker_state(&rig.broker, "maps", topic, NULL) == WIRE_STATE_OK);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "meanwhile", NULL) > 0);
	CHECK(rig_lists("ConfigMap") <= 1);
	rig_kill_watcher();
}

static void plugin_user(char *user, size_t size)
{
	snprintf(user, size,
		 "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "
		 "\"%s/tests/lib/plugin.sh\", args: [\"%s\"]}",
		 getenv("SRC"), home);
}

/* Its credential lives 30 s: it is renewed before that, and the open watch is not touched. */
static void plugin_expires(void)
{
	char user[600];
	plugin_user(user, sizeof user);
	put("give", "four");
	put("life", "30");
	server_wants("four");
	write_kubeconfig(user);
	fake_broker_forget(&rig.broker);
	rig.idle_timeout = NULL;
	rig_start_watcher();
	SAYS(SOON, rig_watching("ConfigMap"));
	change("of-the-plugin");
	rig_requests_forget();
	size_t before = calls();
	CHECK_MSG(before == 1, "%zu calls for discovery, list and watch", before);
	put("give", "five");
	server_wants("five"); /* only a request with the new one passes from now on */
	SAYS(SOON, calls() >= 2);
	change("with-the-old-watch");
	CHECK(rig_requests("", "refused", "watch", NULL) == 0);
	CHECK(rig_requests("ConfigMap", "watch", "watch", NULL) == 0);
	SAYS(SOON, calls() >= 3); /* and again */
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(SOON, rig_requests("ConfigMap", "watch", "watch", NULL) >= 1);
	change("with-the-new-watch");
	CHECK(rig_requests("", "refused", "watch", NULL) == 0);
	CHECK(rig_lists("ConfigMap") == 0);
	rig_kill_watcher();
}

static void end_watcher(void)
{
	int status = -1;
	kill(rig.watcher, SIGTERM);
	SAYS(SOON, (status = check_wait(rig.watcher, 1)) >= 0);
	CHECK(status == 0);
}

/* It hangs: the watcher answers the broker, says so after the plugin's time, and ends when it is told to. */
static void plugin_hangs(void)
{
	const char *message = "";
	put("do", "echo waiting for a browser >&2; exec sleep 600");
	unsigned hellos = rig.broker.hellos;
	size_t before = calls();
	rig_start_watcher();
	SAYS(SOON, calls() == before + 1 && rig.broker.hellos > hellos);
	fake_broker_restart(&rig.broker); /* heard while the plugin runs */
	hellos = rig.broker.hellos;
	SAYS(SOON, rig.broker.hellos > hellos);
	CHECK(fake_broker_state(&rig.broker, "maps", topic, NULL) != WIRE_STATE_FAILED ||
	      calls() > before + 1);
	SAYS(90, fake_broker_state(&rig.broker, "maps", topic, &message) == WIRE_STATE_FAILED);
	CHECK_MSG(strstr(message, "plugin.sh: did not end within 30 s") &&
		      strstr(message, "waiting for a browser"),
		  "%s", message);
	_cleanup_(free_ptr) char *path = xasprintf("%s/do", home);
	unlink(path);
	SAYS(120, fake_broker_state(&rig.broker, "maps", topic, NULL) == WIRE_STATE_OK);
	SAYS(SOON, rig_watching("ConfigMap"));
	end_watcher();
	/* Told to end while the plugin hangs: both do. */
	put("do", "exec sleep 600");
	before = calls();
	rig_start_watcher();
	SAYS(SOON, calls() == before + 1);
	_cleanup_(free_ptr) char *seen_path = xasprintf("%s/seen", home);
	_cleanup_(free_ptr) char *seen = check_read(seen_path);
	long pid = 0;
	const char *at = strstr(seen, "\nsession: ");
	CHECK(at && sscanf(at, "\nsession: %ld", &pid) == 1 && kill((pid_t)pid, 0) == 0);
	end_watcher();
	CHECK(WAIT_FOR(SOON, kill((pid_t)pid, 0) == -1 && errno == ESRCH));
}

int main(void)
{
	char *src = realpath(getenv("SRC") ? getenv("SRC") : ".", NULL);
	setenv("SRC", src, 1);
	free(src);
	rig_start();
	home = xasprintf("%s/credentials", rig.folder);
	CHECK(mkdir(home, 0700) == 0);
	rig_controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n");
	rig.idle_timeout = NULL;
	token_rotated();
	refused_for_a_while();
	plugin_expires();
	plugin_hangs();
	free(home);
	return check_result();
}
