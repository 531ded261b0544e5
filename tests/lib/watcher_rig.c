#include "watcher_rig.h"
#include "cache.h"
#include "json_scan.h"
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct rig rig = {.idle_timeout = "20s"};

/* ---- the processes ---- */

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f)) {
		perror(path);
		exit(1);
	}
}

void rig_control(const char *fmt, ...)
{
	struct buf body = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&body, fmt, ap);
	va_end(ap);
	struct http_request r = {
	    .method = "POST", .path = "/control", .body = buf_span(&body), .timeout_ms = SOON * 1000};
	struct http_result result = {0};
	struct err err = {0};
	buf_reset(&rig.answer);
	int rc = http_do(rig.http, &r, &result, &rig.answer, &err);
	CHECK_MSG(rc == 0 && result.status == 200, "the API server of the test: %s", err.text);
	buf_done(&body);
}

/* Requests of this verb since the last call of rig_requests_forget(); the query member of the last one in
 * *ret.
 */
size_t rig_requests(const char *kind, const char *verb, const char *member, struct buf *ret)
{
	struct span list, request, none;
	struct json_iter it = {0};
	size_t n = 0;
	rig_control("{\"op\":\"look\"}");
	list = json_get(buf_span(&rig.answer), "requests");
	while (json_each(list, &it, &none, &request))
		if (json_string_is(json_get(request, "kind"), kind) &&
		    json_string_is(json_get(request, "verb"), verb)) {
			n++;
			if (ret) {
				buf_reset(ret);
				json_unescape(json_path(request, "query", member, NULL), ret);
			}
		}
	return n;
}
double rig_request_time(const char *kind, const char *verb, size_t which)
{
	struct span request, none;
	struct json_iter it = {0};
	rig_control("{\"op\":\"look\"}");
	struct span list = json_get(buf_span(&rig.answer), "requests");
	while (json_each(list, &it, &none, &request))
		if (json_string_is(json_get(request, "kind"), kind) &&
		    json_string_is(json_get(request, "verb"), verb) && which-- == 0)
			return strtod(json_get(request, "time").at, NULL);
	CHECK_MSG(false, "no such request");
	return 0;
}
size_t rig_lists(const char *kind)
{
	return rig_requests(kind, "list", "limit", NULL) + rig_requests(kind, "stream", "watch", NULL);
}
void rig_requests_forget(void)
{
	rig_control("{\"op\":\"log\"}");
}
int64_t rig_version_now(void)
{
	int64_t v = 0;
	rig_control("{\"op\":\"look\"}");
	json_int(json_get(buf_span(&rig.answer), "version"), &v);
	return v;
}
bool rig_watching(const char *kind)
{
	int64_t n = 0;
	rig_control("{\"op\":\"look\"}");
	return json_int(json_path(buf_span(&rig.answer), "watches", kind, NULL), &n) == 0 && n > 0;
}

static void start_server(void)
{
	_cleanup_(free_ptr) char *script =
	    xasprintf("%s/tests/lib/watch_server.py", getenv("SRC") ? getenv("SRC") : ".");
	_cleanup_(free_ptr) char *log = xasprintf("%s/server.log", rig.folder),
				 *port_file = xasprintf("%s/port", rig.folder);
	check_start(log, (const char *const[]){"python3", script, rig.folder, NULL});
	CHECK(WAIT_FOR(SOON, access(port_file, R_OK) == 0));
	_cleanup_(free_ptr) char *port = check_read(port_file),
				 *server = xasprintf("http://127.0.0.1:%s", port);
	_cleanup_(free_ptr) char *text =
	    xasprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"%s\"}}]\n"
		      "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
		      "current-context: c\n",
		      server);
	write_file(rig.kubeconfig, text);
	struct kubeconfig k = {0};
	struct err err = {0};
	CHECK_MSG(kubeconfig_load(rig.kubeconfig, NULL, &k, &err) == 0 &&
		      http_client_new(&k, "test", &rig.http, &err) == 0,
		  "%s", err.text);
	kubeconfig_done(&k);
}

void rig_start_watcher(void)
{
	rig.watcher = check_start(
	    rig.log, (const char *const[]){
			 "reconciled-watcher", "--kubeconfig", rig.kubeconfig, "--runtime-dir", rig.runtime,
			 "--region-dir", rig.region, "--config-dir", rig.config, "--log-level", "debug",
			 rig.idle_timeout ? "--watch-idle-timeout" : NULL, rig.idle_timeout, NULL});
}

void rig_kill_watcher(void)
{
	kill(rig.watcher, SIGKILL);
	check_wait(rig.watcher, SOON);
}

size_t rig_logged(const char *text)
{
	_cleanup_(free_ptr) char *log = check_read(rig.log);
	size_t n = 0;
	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	return n;
}

void rig_controller(const char *name, const char *spec)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s.yaml", rig.config, name);
	_cleanup_(free_ptr) char *text = xasprintf(
	    "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n%s"
	    "  reconciler:\n    exec: {command: [/bin/true]}\n%s",
	    name, spec,
	    /* Else every few seconds one of thousands of objects brings a key that no test waits for. */
	    strstr(spec, "resyncPeriod") ? "" : "  resyncPeriod: 8760h\n");
	write_file(path, text);
}

/* ---- the cache ---- */

static int cached(const char *table, const char *name, struct buf *out)
{
	struct cache *c;
	uint32_t t;
	struct err err;
	int rc = cache_open(rig.region, &c, &err);
	if (rc < 0)
		return rc;
	rc = cache_table(c, table, &t);
	if (rc == 0)
		rc = cache_get(c, t, span_of("shop"), span_of(name), out, &err);
	cache_close(c);
	return rc;
}

bool rig_cache_says(const char *table, const char *name, const char *part)
{
	struct buf b = {0};
	bool says = cached(table, name, &b) == 0 && strstr(buf_str(&b), part);
	buf_done(&b);
	return says;
}
bool rig_cache_lacks(const char *table, const char *name)
{
	struct buf b = {0};
	int rc = cached(table, name, &b);
	buf_done(&b);
	return rc == -ENOENT;
}

bool rig_cache_cut(const char *table, const char *name)
{
	struct buf b = {0};
	int rc = cached(table, name, &b);
	buf_done(&b);
	return rc == -ENODATA;
}

size_t rig_keys_of(const char *name)
{
	size_t n = 0;
	for (size_t i = 0; i < rig.broker.n_keys; i++)
		n += !strcmp(rig.broker.keys[i].controller, name);
	return n;
}

static bool is_healed(const char *controller, const char *topic)
{
	fake_broker_pump(&rig.broker);
	return fake_broker_state(&rig.broker, controller, topic, NULL) == WIRE_STATE_OK;
}

bool rig_heals(const char *kind, const char *controller, const char *topic)
{
	bool healed = is_healed(controller, topic);
	for (int i = 0; i < 60 && !healed; i++) {
		rig_control("{\"op\":\"watches\",\"kind\":\"%s\",\"how\":\"bookmark\"}", kind);
		healed = WAIT_FOR(1, is_healed(controller, topic));
	}
	return healed;
}

/* ---- all of it ---- */

void rig_reconciled_yaml(const char *text)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/reconciled.yaml", rig.config);
	write_file(path, text);
}

void rig_start(void)
{
	rig.folder = check_folder();
	rig.runtime = xasprintf("%s/run", rig.folder);
	rig.region = xasprintf("%s/shm", rig.folder);
	rig.config = xasprintf("%s/config", rig.folder);
	rig.kubeconfig = xasprintf("%s/kubeconfig", rig.folder);
	rig.log = xasprintf("%s/watcher.log", rig.folder);
	mkdir(rig.runtime, 0700);
	mkdir(rig.region, 0700);
	mkdir(rig.config, 0700);
	start_server();
	fake_broker_start(&rig.broker, rig.runtime);
}
