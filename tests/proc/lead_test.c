/* lead_until in the header of the cache region: without any message a broker grants nothing after it, and a worker kills its
 * attempt. */
#include "lead.h"
#include "queue_rig.h"
#include "shm_cache.h"
#include "stack.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- as the watcher will write it ---- */

static struct region region;

static struct cache_header *header(void)
{
	return (struct cache_header *)(void *)(region.at + REGION_PAGE);
}

static void lead_for(int64_t ns) /* 0: leader election is off */
{
	atomic_store(&header()->lead.until, ns ? clock_boottime_ns() + ns : 0);
}

static void region_made(void)
{
	char path[400];
	struct err err = {0};
	enum region_state state;
	struct region_spec spec = cache_region_spec();
	snprintf(path, sizeof(path), "%s/cache.shm", shm_dir);
	unlink(path);
	region_done(&region);
	CHECK_MSG(region_write(path, &spec, &region, &state, &err) == 0, "%s", err.text);
}

/* The header of a watcher that runs. */
static void region_borrowed(const char *folder)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/cache.shm", folder);
	region_done(&region);
	region =
	    (struct region){.fd = open(path, O_RDWR | O_CLOEXEC), .mapped = REGION_PAGE + CACHE_HEADER_SIZE};
	region.at = mmap(NULL, region.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0);
	if (region.fd < 0 || region.at == MAP_FAILED) {
		perror(path);
		exit(1);
	}
}

/* ---- the broker ---- */

static void nothing_is_granted_when_the_lead_is_over(void)
{
	struct host h = host_start("web", "web.1");
	region_made(); /* a region that comes later counts, too */
	lead_for(-1);
	CHECK(WAIT_FOR(SOON, log_has("this host does not lead")));
	CHECK(status_has("\"state\":\"not leading\""));
	host_tell_it(&h, "poll");
	CHECK(add("a"));
	CHECK(add("b"));
	EXPECT_SILENCE(&h, 300);
	lead_for(3600 * NS_PER_S);
	EXPECT_GRANT(&h, "shop/a");
	CHECK(WAIT_FOR(SOON, log_has("this host leads: keys are granted")));
	/* It is over by time alone; the result is taken, no key follows. */
	lead_for(NS_PER_S / 2);
	CHECK(WAIT_FOR(SOON, status_has("\"state\":\"not leading\"")));
	host_tell_it(&h, "done %llu %llu 0 -1 0", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	host_tell_it(&h, "poll");
	EXPECT_SILENCE(&h, 300);
	lead_for(3600 * NS_PER_S);
	EXPECT_GRANT(&h, "shop/b");
	host_tell_it(&h, "done %llu %llu 0 -1 0", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	host_tell_it(&h, "poll");
	/* A region that is gone counts as it was last; another one in its place counts from then on. */
	lead_for(-1);
	CHECK(WAIT_FOR(SOON, status_has("\"state\":\"not leading\"")));
	char path[400];
	snprintf(path, sizeof(path), "%s/cache.shm", shm_dir);
	unlink(path);
	CHECK(add("c"));
	EXPECT_SILENCE(&h, 300);
	region_made();
	lead_for(0);
	EXPECT_GRANT(&h, "shop/c");
	host_end(&h);
}

/* ---- a worker ---- */

static size_t runs(struct stack *s)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/runs", s->records);
	_cleanup_(free_ptr) char *text = check_read(path);
	return strlen(text);
}

static bool key_is(struct stack *s, const char *text)
{
	_cleanup_(free_ptr) char *status = stack_status(s, "-o json");
	return strstr(status, text) != NULL;
}

static void an_attempt_ends_with_the_lead_and_comes_back_uncharged(const char *reconciler)
{
	struct stack s;
	stack_init(&s);
	stack_file(&s, "long.yaml",
		   "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: long}\nspec:\n"
		   "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [default]}\n"
		   "  reconciler:\n    %s\n    sandbox: {readWritePaths: [%s]}\n",
		   reconciler, s.records);
	stack_file(&s, "once.sh", "#!/bin/sh\nprintf . >>%s/runs\nuntil [ -e %s/go ]; do sleep 0.05; done\n",
		   s.records, s.records);
	stack_file(
	    &s, "co.sh",
	    "#!/bin/sh\nread -r hello\necho '{\"kind\":\"Hello\",\"apiVersion\":\"reconciled.dev/v1\"}'\n"
	    "while read -r line; do\n[ \"${line#*ReconcileRequest}\" = \"$line\" ] && continue\n"
	    "printf . >>%s/runs\nuntil [ -e %s/go ]; do sleep 0.05; done\n"
	    "uid=${line#*\\\"uid\\\":\\\"}\necho \"{\\\"uid\\\":\\\"${uid%%%%\\\"*}\\\"}\"\ndone\n",
	    s.records, s.records);
	stack_start(&s);
	CHECK(stack_api(&s, "POST", "application/json", "{\"metadata\":{\"name\":\"a\"}}", NULL,
			"/api/v1/namespaces/default/configmaps") == 201);
	CHECK(WAIT_FOR(SOON, runs(&s) == 1));
	region_borrowed(s.region);
	lead_for(500 * (int64_t)NS_PER_MS);
	CHECK(WAIT_FOR(SOON, key_is(&s, "\"running\":0") && key_is(&s, "\"Cancelled\":1")));
	CHECK(key_is(&s, "\"ready\":1"));
	CHECK(stack_logged(&s, "this host does not lead"));
	pid_t children[8];
	CHECK(WAIT_FOR(SOON,
		       stack_pids(&s, ROLE_CHILD, children, 8) <= (strstr(reconciler, "coprocess") ? 1 : 0)));
	CHECK(runs(&s) == 1);
	lead_for(3600 * NS_PER_S);
	CHECK(WAIT_FOR(SOON, runs(&s) == 2));
	stack_file(&s, "../records/go", "%s", "");
	CHECK(WAIT_FOR(SOON, key_is(&s, "\"success\":1")));
	CHECK_MSG(key_is(&s, "\"error\":0") && key_is(&s, "\"retries\":0"), "it was charged");
	stack_stop(&s);
	stack_done(&s);
}

/* ---- between two writes ---- */

/* An API server, and before it a gate that holds an answer back (tests/lib/gate.py). */
struct gated {
	pid_t server, gate;
	char *folder, *kubeconfig, *through; /* through the gate */
};

static void kubeconfig_of(const char *path, int port)
{
	_cleanup_(free_ptr) char *text =
	    xasprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
		      "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:%d\"}}]\n"
		      "contexts: [{name: c, context: {cluster: c}}]\n",
		      port);
	_cleanup_(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static int port_in(const char *text)
{
	const char *colon = text ? strrchr(text, ':') : NULL;
	return colon ? atoi(colon + 1) : 0;
}

static void gated_start(struct gated *g, struct stack *s)
{
	*g = (struct gated){.folder = xasprintf("%s/gate", s->folder),
			    .kubeconfig = xasprintf("%s/server.kubeconfig", s->runtime),
			    .through = xasprintf("%s/gate.kubeconfig", s->runtime)};
	_cleanup_(free_ptr) char *log = xasprintf("%s/server.log", s->folder);
	_cleanup_(free_ptr) char *gate_log = xasprintf("%s/gate.log", s->folder);
	_cleanup_(free_ptr) char *gate_port = xasprintf("%s/port", g->folder);
	_cleanup_(free_ptr) char *script = xasprintf("%s/tests/lib/gate.py", getenv("SRC"));
	g->server = check_start(log, (const char *const[]){"reconciled-apiserver", "--listen", "127.0.0.1:0",
							   "--write-kubeconfig", g->kubeconfig, NULL});
	CHECK(WAIT_FOR(SOON, access(g->kubeconfig, R_OK) == 0));
	_cleanup_(free_ptr) char *text = check_read(g->kubeconfig);
	char *server = strstr(text, "http://127.0.0.1:");
	CHECK(server);
	server[strcspn(server, "\"\n")] = 0;
	_cleanup_(free_ptr) char *upstream = xasprintf("%d", port_in(server));
	CHECK(mkdir(g->folder, 0700) == 0);
	g->gate = check_start(gate_log, (const char *const[]){"python3", script, g->folder, upstream, NULL});
	CHECK(WAIT_FOR(SOON, access(gate_port, R_OK) == 0));
	_cleanup_(free_ptr) char *port = check_read(gate_port);
	kubeconfig_of(g->through, atoi(port));
}

static void gated_hold(const struct gated *g, bool held, const char *rule)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/hold", g->folder);
	_cleanup_(close_fd) int fd = held ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
	CHECK(held ? fd >= 0 && write(fd, rule, strlen(rule)) > 0 : unlink(path) == 0);
}

static void gated_end(struct gated *g)
{
	kill(g->gate, SIGKILL);
	kill(g->server, SIGKILL);
	check_wait(g->gate, SOON);
	check_wait(g->server, SOON);
	free(g->folder);
	free(g->kubeconfig);
	free(g->through);
}

static int secret(struct stack *s, const char *name)
{
	return stack_api(s, "GET", NULL, NULL, NULL, "/api/v1/namespaces/default/secrets/%s", name);
}

/* The first write is on its way when the lead ends: it is the last one. */
static void no_write_starts_after_the_lead_is_over(void)
{
	struct stack s;
	struct gated g;
	stack_init(&s);
	gated_start(&g, &s);
	stack_file(&s, "two.yaml",
		   "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: two}\nspec:\n"
		   "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [default]}\n"
		   "  owns: [{apiVersion: v1, kind: Secret}]\n"
		   "  reconciler: {exec: {command: [./two.sh]}}\n");
	stack_file(&s, "two.sh",
		   "#!/bin/sh\ncat >/dev/null\nsecret() { printf '{\"apiVersion\":\"v1\",\"kind\":\"Secret\","
		   "\"metadata\":{\"name\":\"%%s\"}}' \"$1\"; }\n"
		   "echo \"{\\\"children\\\":[$(secret first),$(secret second)]}\"\n");
	gated_hold(&g, true, "PATCH /secrets/first\n");
	stack_start_on(&s, g.through);
	CHECK(stack_connect(&s, g.kubeconfig));
	CHECK(stack_api(&s, "POST", "application/json", "{\"metadata\":{\"name\":\"a\"}}", NULL,
			"/api/v1/namespaces/default/configmaps") == 201);
	CHECK_MSG(WAIT_FOR(SOON, secret(&s, "first") == 200), "nothing was written");
	region_borrowed(s.region);
	lead_for(-1);
	gated_hold(&g, false, NULL);
	CHECK(WAIT_FOR(SOON, key_is(&s, "\"running\":0") && key_is(&s, "\"Cancelled\":1")));
	CHECK_MSG(secret(&s, "second") == 404, "a write began after the lead was over");
	CHECK(key_is(&s, "\"ready\":1"));
	lead_for(3600 * NS_PER_S);
	CHECK_MSG(WAIT_FOR(SOON, secret(&s, "second") == 200), "the attempt did not come back");
	CHECK(WAIT_FOR(SOON, key_is(&s, "\"success\":1")));
	CHECK_MSG(key_is(&s, "\"error\":0") && key_is(&s, "\"retries\":0"), "it was charged");
	stack_stop(&s);
	gated_end(&g);
	stack_done(&s);
}

int main(int argc, char **argv)
{
	queue_rig_init(argc, argv);
	rig_file("web.yaml",
		 "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: web}\nspec:\n"
		 "  for: {apiVersion: v1, kind: ConfigMap}\n  reconciler: {exec: {command: [/bin/true]}}\n");
	n_names = 1;
	broker_start();
	struct err err = {0};
	CHECK_MSG(transport_dial(socket_path, &watcher, &err) == 0, "%s", err.text);
	CHECK(watcher_hello());
	nothing_is_granted_when_the_lead_is_over();
	an_attempt_ends_with_the_lead_and_comes_back_uncharged("exec: {command: [./once.sh]}");
	an_attempt_ends_with_the_lead_and_comes_back_uncharged("coprocess: {command: [./co.sh]}");
	no_write_starts_after_the_lead_is_over();
	int rc = check_result();
	fflush(stdout);
	exit(rc);
}
