/* reconciled-watcher between an API server that misbehaves on demand (tests/lib/watch_server.py) and a broker
 * inside this test: what is listed and watched, what comes to the broker, what stands in the cache. */
#include "cache.h"
#include "fake_broker.h"
#include "http.h"
#include "json_scan.h"
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder;
static char *runtime, *region, *config, *kubeconfig, *logfile;
static struct fake_broker broker;
static struct http_client *http;
static pid_t watcher;
static struct buf answer;

#define SAYS(seconds, ...) CHECK(WAIT_FOR(seconds, (fake_broker_pump(&broker), __VA_ARGS__)))

/* ---- the processes ---- */

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void control(const char *fmt, ...) _printf_(1, 2);
static void control(const char *fmt, ...)
{
	struct buf body = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&body, fmt, ap);
	va_end(ap);
	struct http_request r = {
	    .method = "POST", .path = "/control", .body = buf_span(&body), .timeout_ms = 20000};
	struct http_result result = {0};
	struct err err = {0};
	buf_reset(&answer);
	int rc = http_do(http, &r, &result, &answer, &err);
	CHECK_MSG(rc == 0 && result.status == 200, "the API server of the test: %s", err.text);
	buf_done(&body);
}

/* Requests of this verb since the last call of requests_forget(); the query member of the last one in *ret.
 */
static size_t requests(const char *kind, const char *verb, const char *member, struct buf *ret)
{
	struct span list, request, none;
	struct json_iter it = {0};
	size_t n = 0;
	control("{\"op\":\"look\"}");
	list = json_get(buf_span(&answer), "requests");
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
static void requests_forget(void)
{
	control("{\"op\":\"log\"}");
}
static int64_t version_now(void)
{
	int64_t v = 0;
	control("{\"op\":\"look\"}");
	json_int(json_get(buf_span(&answer), "version"), &v);
	return v;
}
static bool watching(const char *kind)
{
	int64_t n = 0;
	control("{\"op\":\"look\"}");
	return json_int(json_path(buf_span(&answer), "watches", kind, NULL), &n) == 0 && n > 0;
}

static void start_server(void)
{
	_cleanup_(free_ptr) char *script =
	    xasprintf("%s/tests/lib/watch_server.py", getenv("SRC") ? getenv("SRC") : ".");
	_cleanup_(free_ptr) char *log = xasprintf("%s/server.log", folder),
				 *port_file = xasprintf("%s/port", folder);
	check_start(log, (const char *const[]){"python3", script, folder, NULL});
	CHECK(WAIT_FOR(20, access(port_file, R_OK) == 0));
	_cleanup_(free_ptr) char *port = check_read(port_file),
				 *server = xasprintf("http://127.0.0.1:%s", port);
	_cleanup_(free_ptr) char *text =
	    xasprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"%s\"}}]\n"
		      "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
		      "current-context: c\n",
		      server);
	write_file(kubeconfig, text);
	struct kubeconfig k = {0};
	struct err err = {0};
	CHECK_MSG(kubeconfig_load(kubeconfig, NULL, &k, &err) == 0 &&
		      http_client_new(&k, "test", &http, &err) == 0,
		  "%s", err.text);
	kubeconfig_done(&k);
}

static void start_watcher(void)
{
	watcher = check_start(logfile, (const char *const[]){"reconciled-watcher", "--kubeconfig", kubeconfig,
							     "--runtime-dir", runtime, "--region-dir", region,
							     "--config-dir", config, "--log-level", "debug",
							     "--watch-idle-timeout", "4s", NULL});
}

static void kill_watcher(void)
{
	kill(watcher, SIGKILL);
	check_wait(watcher, 10);
}

static size_t logged(const char *text)
{
	_cleanup_(free_ptr) char *log = check_read(logfile);
	size_t n = 0;
	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void controller(const char *name, const char *spec)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s.yaml", config, name);
	_cleanup_(free_ptr) char *text =
	    xasprintf("apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n%s"
		      "  reconciler:\n    exec: {command: [/bin/true]}\n",
		      name, spec);
	write_file(path, text);
}

/* ---- the cache ---- */

static int cached(const char *table, const char *name, struct buf *out)
{
	struct cache *c;
	uint32_t t;
	struct err err;
	int rc = cache_open(region, &c, &err);
	if (rc < 0)
		return rc;
	rc = cache_table(c, table, &t);
	if (rc == 0)
		rc = cache_get(c, t, span_of("shop"), span_of(name), out, &err);
	cache_close(c);
	return rc;
}

static bool cache_says(const char *table, const char *name, const char *part)
{
	struct buf b = {0};
	bool says = cached(table, name, &b) == 0 && strstr(buf_str(&b), part);
	buf_done(&b);
	return says;
}
static bool cache_lacks(const char *table, const char *name)
{
	return cached(table, name, &(struct buf){0}) == -ENOENT;
}
#define MAPS "v1 ConfigMap"

/* A new object comes through: everything before it has come, too. */
static void flush(const char *mark)
{
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}", mark);
	SAYS(30, fake_broker_count(&broker, "maps", "shop", mark, NULL) > 0);
}

/* Keys of this controller that came. */
static size_t keys_of(const char *name)
{
	size_t n = 0;
	for (size_t i = 0; i < broker.n_keys; i++)
		n += !strcmp(broker.keys[i].controller, name);
	return n;
}

/* ---- what is tested ---- */

static void first_list(void)
{
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n\",\"count\":1200,"
		"\"data\":{\"big\":9007199254740993}}");
	control("{\"op\":\"serve\",\"kind\":\"Website\",\"served\":false}");
	start_watcher();
	broker.want_all = true;
	SAYS(30, broker.sweeps > 0 && broker.n_keys >= 1200);
	CHECK(requests("ConfigMap", "list", "limit", NULL) == 3);
	for (int i = 0; i < 1200; i += 100) {
		char name[16];
		struct broker_key k = {0};
		snprintf(name, sizeof name, "n%d", i);
		CHECK(fake_broker_count(&broker, "maps", "shop", name, &k) >= 1);
		CHECK(k.priority == -100);
	}
	SAYS(20, cache_says(MAPS, "n7", "9007199254740993"));
	CHECK(cache_says(MAPS, "n7", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","));
	CHECK(!cache_says(MAPS, "n7", "managedFields"));
	SAYS(20, watching("ConfigMap"));
}

static void events(void)
{
	struct broker_key k = {0};
	fake_broker_forget(&broker);
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n1\",\"data\":{"
		"\"a\":\"new\"}}");
	SAYS(20, fake_broker_count(&broker, "maps", "shop", "n1", &k) == 1);
	CHECK(k.priority == 0 && k.primary_changed && k.cause == WIRE_CAUSE_UPDATED &&
	      !strcmp(k.cause_kind, "ConfigMap.v1"));
	CHECK(cache_says(MAPS, "n1", "new"));
	control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n2\"}");
	SAYS(20, fake_broker_count(&broker, "maps", "shop", "n2", &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.primary_changed);
	CHECK(cache_lacks(MAPS, "n2"));
	flush("events-done");
	CHECK(keys_of("maps") == 3);
}

static void owners_and_references(void)
{
	struct broker_key k = {0};
	fake_broker_forget(&broker);
	control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"s\",\"data\":{\"p\":"
		"\"c2VjcmV0\"},"
		"\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":"
		"\"n5\",\"uid\":\"uid-shop-n5\",\"controller\":true}]}}");
	SAYS(20, fake_broker_count(&broker, "maps", "shop", "n5", &k) == 1);
	CHECK(!k.primary_changed && k.cause == WIRE_CAUSE_CREATED && !strcmp(k.cause_kind, "Secret.v1"));
	CHECK(cache_says("v1 Secret metadata", "s", "ownerReferences"));
	CHECK(!cache_says("v1 Secret metadata", "s", "c2VjcmV0"));
	/* The owner of that name has another uid: the reference is to one that is gone. */
	control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"t\","
		"\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":"
		"\"n6\",\"uid\":\"another\",\"controller\":true}]}}");
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"refers\",\"data\":{"
		"\"secret\":\"named\"}}");
	SAYS(20, fake_broker_count(&broker, "refs", "shop", "refers", NULL) == 1);
	control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"named\"}");
	SAYS(20, fake_broker_count(&broker, "refs", "shop", "refers", &k) == 2);
	CHECK(!strcmp(k.cause_kind, "Secret.v1"));
	CHECK(fake_broker_count(&broker, "maps", "shop", "n6", NULL) == 0);
	control("{\"op\":\"delete\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"named\"}");
	SAYS(20, fake_broker_count(&broker, "refs", "shop", "refers", &k) == 3);
	CHECK(k.cause == WIRE_CAUSE_DELETED);
}

static void a_cut_watch_resumes(void)
{
	struct buf rv = {0};
	flush("before-cut");
	int64_t at = version_now();
	requests_forget();
	fake_broker_forget(&broker);
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"cut\"}");
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n3\",\"data\":{"
		"\"a\":\"after cut\"}}");
	SAYS(20, fake_broker_count(&broker, "maps", "shop", "n3", NULL) == 1);
	CHECK(requests("ConfigMap", "watch", "resourceVersion", &rv) >= 1);
	CHECK_MSG(strtoll(buf_str(&rv), NULL, 10) >= at, "resumed from %s, the last event was %lld",
		  buf_str(&rv), (long long)at);
	CHECK(requests("ConfigMap", "list", "limit", NULL) == 0);
	flush("after-cut");
	CHECK(keys_of("maps") == 2);
	CHECK(fake_broker_count(&broker, "maps", "shop", "half", NULL) == 0);
	buf_done(&rv);
}

static void bookmarks_move_the_resume_point(void)
{
	struct buf rv = {0};
	control(
	    "{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"other\"}"); /* moves the
												  version, not
												  this watch
												*/
	int64_t at = version_now();
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"bookmark\"}");
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	requests_forget();
	SAYS(20, requests("ConfigMap", "watch", "resourceVersion", &rv) == 1);
	CHECK(strtoll(buf_str(&rv), NULL, 10) >= at);
	SAYS(20, watching("ConfigMap"));
	buf_done(&rv);
}

/* Changes, a new one, a deleted one and one replaced, none of which the watch can still tell. */
static void expired(const char *how)
{
	struct broker_key k = {0};
	_cleanup_(free_ptr) char *changed = xasprintf("n10-%s", how), *gone = xasprintf("n11-%s", how),
				 *replaced = xasprintf("n12-%s", how);
	flush(changed);
	flush(gone);
	flush(replaced);
	fake_broker_forget(&broker);
	requests_forget();
	size_t relists = logged("watch expired (410), relisting");
	control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"other\"}");
	if (!strcmp(how, "error410"))
		control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error410\"}");
	else
		control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	/* The server's lock orders these: the watch has its order, and reads nothing new before it ends. */
	control("{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"watch\",\"status\":503,\"times\":1}");
	SAYS(20, !watching("ConfigMap"));
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\",\"data\":{"
		"\"a\":\"gap\"}}",
		changed);
	control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}", gone);
	control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}",
		replaced);
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\",\"uid\":"
		"\"second\"}",
		replaced);
	control("{\"op\":\"compact\",\"how\":\"%s\"}", !strcmp(how, "stream") ? "stream" : "http");
	SAYS(30, fake_broker_count(&broker, "maps", "shop", gone, &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.priority == -100 && k.primary_changed);
	SAYS(20, fake_broker_count(&broker, "maps", "shop", changed, NULL) == 1);
	SAYS(20, fake_broker_count(&broker, "maps", "shop", replaced, &k) == 1);
	CHECK(k.primary_changed);
	CHECK(cache_says(MAPS, replaced, "\"second\"") && cache_lacks(MAPS, gone) &&
	      cache_says(MAPS, changed, "gap"));
	if (strcmp(how, "error410"))
		CHECK(logged("watch expired (410), relisting") > relists);
	flush(how);
	CHECK_MSG(keys_of("maps") == 4, "%zu keys came, the unchanged were to stay", keys_of("maps"));
}

static void a_page_that_expired(void)
{
	requests_forget();
	fake_broker_forget(&broker);
	control("{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"page2\",\"status\":410,\"reason\":"
		"\"Expired\"}");
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error410\"}");
	SAYS(20, requests("ConfigMap", "list", "limit", NULL) >= 5); /* 1, 2 (410), 1, 2, 3 */
	SAYS(20, watching("ConfigMap"));
	flush("page-done");
	CHECK(keys_of("maps") == 1);
}

static void nonsense_deletes_nothing(void)
{
	const char *const answers[] = {"\"html\"",    "\"empty\"", "\"object\"",
				       "\"success\"", "\"close\"", "302"};
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		fake_broker_forget(&broker);
		size_t lists = logged("list complete");
		/* Twice: a connection that is closed without an answer may be tried again by the HTTP client
		 * itself. */
		control(
		    "{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"list\",\"status\":%s,\"times\":2}",
		    answers[i]);
		control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error410\"}");
		SAYS(20, fake_broker_state(&broker, "maps", "watch v1 ConfigMap", NULL) != WIRE_STATE_OK);
		SAYS(40, fake_broker_state(&broker, "maps", "watch v1 ConfigMap", NULL) == WIRE_STATE_OK);
		CHECK(logged("list complete") > lists);
		_cleanup_(free_ptr) char *mark = xasprintf("nonsense-%zu", i);
		flush(mark);
		CHECK_MSG(keys_of("maps") == 1, "after %s: %zu keys", answers[i], keys_of("maps"));
		CHECK(cache_says(MAPS, "n7", "n7"));
	}
}

static void garbage_in_a_watch(void)
{
	fake_broker_forget(&broker);
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"garbage\"}");
	SAYS(20, fake_broker_state(&broker, "maps", "watch v1 ConfigMap", NULL) == WIRE_STATE_FAILED);
	SAYS(40, fake_broker_state(&broker, "maps", "watch v1 ConfigMap", NULL) == WIRE_STATE_OK);
	flush("garbage-done");
	CHECK(keys_of("maps") == 1);
}

static void forbidden(void)
{
	const char *message = "";
	control("{\"op\":\"fail\",\"kind\":\"Secret\",\"verb\":\"watch\",\"status\":403,\"times\":1000,"
		"\"reason\":\"Forbidden\"}");
	control("{\"op\":\"watches\",\"kind\":\"Secret\",\"how\":\"end\"}");
	SAYS(20, fake_broker_state(&broker, "maps", "watch v1 Secret", &message) == WIRE_STATE_FAILED);
	CHECK_MSG(strstr(message, "resources [\"secrets\"], verbs [\"list\", \"watch\"]") &&
		      strstr(message, "all namespaces"),
		  "%s", message);
	CHECK(fake_broker_state(&broker, "maps", "watch v1 ConfigMap", NULL) == WIRE_STATE_OK);
	fake_broker_forget(&broker);
	flush("others-run-on");
	control("{\"op\":\"heal\"}");
	SAYS(60, fake_broker_state(&broker, "maps", "watch v1 Secret", NULL) == WIRE_STATE_OK);
}

static void busy(void)
{
	flush("before-busy");
	requests_forget();
	control(
	    "{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"watch\",\"status\":429,\"retryAfter\":3}");
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	int64_t from = 0;
	SAYS(20, requests("ConfigMap", "watch", "watch", NULL) == 1);
	from = clock_boottime_ns();
	SAYS(20, requests("ConfigMap", "watch", "watch", NULL) == 2);
	CHECK(clock_boottime_ns() - from > 2 * NS_PER_S);
	CHECK(requests("ConfigMap", "list", "limit", NULL) == 0);
	SAYS(20, watching("ConfigMap"));
}

static void a_watch_that_closes_at_once(void)
{
	flush("before-short");
	requests_forget();
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(20, requests("ConfigMap", "watch", "watch", NULL) >= 1);
	/* The next watch is ended before it has brought anything. */
	SAYS(20, watching("ConfigMap"));
	control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(20, requests("ConfigMap", "list", "limit", NULL) >= 1);
	SAYS(20, watching("ConfigMap"));
	fake_broker_forget(&broker);
	flush("short-done");
	CHECK(keys_of("maps") == 1);
}

static void a_silent_watch_is_given_up(void)
{
	flush("before-silence");
	requests_forget();
	SAYS(30, requests("ConfigMap", "watch", "watch", NULL) >= 1); /* --watch-idle-timeout 4s */
	CHECK(requests("ConfigMap", "list", "limit", NULL) == 0);
}

static void a_watcher_that_died(void)
{
	struct broker_key k = {0};
	flush("stays");
	flush("goes");
	flush("changes");
	/* What was not acknowledged comes again. */
	broker.hold = true;
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"unacknowledged\"}");
	SAYS(20, cache_says(MAPS, "unacknowledged", "name"));
	kill_watcher();
	CHECK(cache_says(MAPS, "n7", "9007199254740993")); /* readable while nobody writes */
	broker.hold = false;
	fake_broker_forget(&broker);
	requests_forget();
	control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"goes\"}");
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"changes\",\"data\":"
		"{\"x\":\"y\"}}");
	start_watcher();
	SAYS(30, fake_broker_count(&broker, "maps", "shop", "goes", &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED);
	SAYS(20, fake_broker_count(&broker, "maps", "shop", "changes", NULL) == 1);
	SAYS(20, fake_broker_count(&broker, "maps", "shop", "unacknowledged", NULL) == 1);
	CHECK(!strcmp(broker.keys[0].name, "unacknowledged")); /* the outbox goes first */
	flush("died-done");
	CHECK_MSG(keys_of("maps") == 4, "%zu keys came", keys_of("maps"));
}

static void a_broker_that_wants_everything(void)
{
	fake_broker_forget(&broker);
	broker.sweeps = 0;
	broker.want_all = true;
	unsigned hellos = broker.hellos;
	fake_broker_restart(&broker);
	SAYS(30, broker.hellos > hellos && broker.sweeps >= 2);
	struct broker_key k = {0};
	CHECK(fake_broker_count(&broker, "maps", "shop", "n7", &k) == 1);
	CHECK(k.priority == -100 && k.cause == WIRE_CAUSE_SWEEP && !k.primary_changed);
	CHECK(fake_broker_count(&broker, "refs", "shop", "refers", NULL) == 1);
}

static void a_broker_without_room(void)
{
	fake_broker_forget(&broker);
	broker.room = 10;
	for (int i = 0; i < 30; i++)
		control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"room%d\"}",
			i);
	SAYS(20, cache_says(MAPS, "room29", "name"));
	SAYS(20, logged("the broker has no room") > 0 && broker.n_keys == 10);
	broker.room = -1;
	for (int i = 0; i < 30; i++) {
		char name[16];
		snprintf(name, sizeof name, "room%d", i);
		SAYS(20, fake_broker_count(&broker, "maps", "shop", name, NULL) == 1);
	}
}

static void a_kind_that_comes_later(void)
{
	const char *message = "";
	CHECK(fake_broker_state(&broker, "sites", "watch example.com/v1 Website", &message) ==
	      WIRE_STATE_WAITING);
	CHECK_MSG(strstr(message, "kind not served"), "%s", message);
	control("{\"op\":\"serve\",\"kind\":\"Website\",\"served\":true}");
	control("{\"op\":\"put\",\"kind\":\"Website\",\"namespace\":\"shop\",\"name\":\"w\"}");
	SAYS(30, fake_broker_count(&broker, "sites", "shop", "w", NULL) >= 1);
	SAYS(20, fake_broker_state(&broker, "sites", "watch example.com/v1 Website", NULL) == WIRE_STATE_OK);
	CHECK(logged("no status subresource") >= 1);
}

static void a_reload(void)
{
	unsigned hellos = broker.hellos;
	fake_broker_forget(&broker);
	requests_forget();
	controller("more", "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [blog, shop], "
			   "labelSelector: {matchLabels: {tier: web}}}\n");
	controller("refs",
		   "  for: {apiVersion: v1, kind: ConfigMap}\n  watchers: []\n"); /* wrong now: it runs on */
	kill(watcher, SIGHUP);
	SAYS(20, broker.hellos > hellos && broker.n_loaded == 4);
	struct buf selector = {0};
	SAYS(20, fake_broker_count(&broker, "more", "shop", "n7", NULL) == 1);
	/* Three pages of shop, one of blog, none of the tables that were there. */
	CHECK(requests("ConfigMap", "list", "labelSelector", &selector) == 4);
	CHECK(!strcmp(buf_str(&selector), "tier=web"));
	CHECK(fake_broker_count(&broker, "maps", "shop", "n7", NULL) == 0);
	fake_broker_forget(&broker);
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"refers\",\"data\":{"
		"\"secret\":\"elsewhere/x\"}}");
	SAYS(20, fake_broker_count(&broker, "refs", "shop", "refers", NULL) == 1);
	control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"elsewhere\",\"name\":\"x\"}");
	SAYS(20, fake_broker_count(&broker, "refs", "shop", "refers", NULL) == 2);
	buf_done(&selector);
}

static void an_end(void)
{
	control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"last\"}");
	SAYS(20, cache_says(MAPS, "last", "name"));
	kill(watcher, SIGTERM);
	int status = -1;
	CHECK(WAIT_FOR(20, (fake_broker_pump(&broker), waitpid(watcher, &status, WNOHANG) == watcher)));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(fake_broker_count(&broker, "maps", "shop", "last", NULL) == 1);
}

int main(void)
{
	folder = check_folder();
	runtime = xasprintf("%s/run", folder);
	region = xasprintf("%s/shm", folder);
	config = xasprintf("%s/config", folder);
	kubeconfig = xasprintf("%s/kubeconfig", folder);
	logfile = xasprintf("%s/watcher.log", folder);
	mkdir(runtime, 0700);
	mkdir(region, 0700);
	mkdir(config, 0700);
	controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n  owns:\n  - {apiVersion: v1, kind: "
			   "Secret, metadataOnly: true}\n");
	controller("refs", "  for: {apiVersion: v1, kind: ConfigMap}\n  watches:\n  - {apiVersion: v1, kind: "
			   "Secret, mapTo: {index: data.secret}}\n");
	controller("sites", "  for: {apiVersion: example.com/v1, kind: Website}\n");
	start_server();
	fake_broker_start(&broker, runtime);
	first_list();
	events();
	owners_and_references();
	a_cut_watch_resumes();
	bookmarks_move_the_resume_point();
	expired("http");
	expired("stream");
	expired("error410");
	a_page_that_expired();
	nonsense_deletes_nothing();
	garbage_in_a_watch();
	forbidden();
	busy();
	a_watch_that_closes_at_once();
	a_silent_watch_is_given_up();
	a_watcher_that_died();
	a_broker_that_wants_everything();
	a_broker_without_room();
	a_kind_that_comes_later();
	a_reload();
	an_end();
	return check_result();
}
