#include "api.h"
#include "bench.h"
#include "json_scan.h"
#include "kube.h"
#include "objects.h"
#include "program.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000 };

static const struct {
	const char *plural, *version, *kind, *root;
	void (*make)(struct buf *out, uint32_t i, uint64_t version);
	void (*name)(uint32_t i, char namespace[64], char name[64]);
	bool has_status; /* a create does not take it */
} kinds[API_KINDS] = {
    [API_PODS] = {"pods", "v1", "Pod", "/api/v1", objects_pod, objects_pod_name, true},
    [API_DATABASES] = {"databases", "example.com/v1", "Database", "/apis/example.com/v1", objects_custom,
		       objects_custom_name, false},
};

static struct http_client *client;
static struct buf path, body, object, answer;

enum api_kind api_kind_of(const char *text)
{
	for (int k = 0; k < API_KINDS; k++)
		if (strcmp(text, kinds[k].plural) == 0)
			return (enum api_kind)k;
	bench_fail("'%s' is neither pods nor databases", text);
}
const char *api_version_of(enum api_kind k)
{
	return kinds[k].version;
}
const char *api_kind_name(enum api_kind k)
{
	return kinds[k].kind;
}
const char *api_plural(enum api_kind k)
{
	return kinds[k].plural;
}
void api_object_name(enum api_kind k, uint32_t i, char namespace[64], char name[64])
{
	kinds[k].name(i, namespace, name);
}

void api_connect(const char *kubeconfig)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	if (kubeconfig_load(kubeconfig, NULL, &k, &err) < 0 ||
	    http_client_new(&k, "reconciled-bench", &client, &err) < 0)
		bench_fail("%s", err.text);
	kubeconfig_done(&k);
}

void api_in_processes(const char *kubeconfig, uint32_t n, void (*run)(uint32_t self, const void *ctx),
		      const void *ctx)
{
	pid_t parent = getpid(), pids[API_WRITERS];
	BENCH_CHECK(n <= API_WRITERS);
	for (uint32_t self = 0; self < n; self++) {
		pids[self] = fork();
		BENCH_CHECK(pids[self] >= 0);
		if (pids[self])
			continue;
		if (!process_die_with(parent))
			_exit(1);
		api_connect(kubeconfig);
		run(self, ctx);
		_exit(0);
	}
	for (uint32_t self = 0; self < n; self++) {
		int status;
		BENCH_CHECK(waitpid(pids[self], &status, 0) == pids[self]);
		if (status)
			bench_fail("a process that writes to the API server failed");
	}
}

/* The request with path and body. */
static int try_request(const char *method, const char *content_type, struct err *err)
{
	struct http_request r = {.method = method,
				 .path = buf_str(&path),
				 .content_type = content_type,
				 .body = buf_span(&body),
				 .timeout_ms = TIMEOUT_MS};
	buf_reset(&answer);
	return kube_do(client, &r, &answer, NULL, err);
}

/* -EEXIST is the only refusal that comes back. */
static int request(const char *method, const char *content_type)
{
	struct err err = {0};
	int rc = try_request(method, content_type, &err);
	if (rc < 0 && rc != -EEXIST)
		bench_fail("%s", err.text);
	return rc;
}

static void post(const char *where, const char *text)
{
	buf_reset(&path);
	buf_reset(&body);
	buf_puts(&path, where);
	buf_puts(&body, text);
	request("POST", NULL);
}

static const char definition[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{"
    "\"name\":\"databases.example.com\"},\"spec\":{\"group\":\"example.com\",\"scope\":\"Namespaced\","
    "\"names\":{\"plural\":\"databases\",\"singular\":\"database\",\"kind\":\"Database\",\"listKind\":"
    "\"DatabaseList\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{"
    "\"openAPIV3Schema\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

void api_prepare(enum api_kind k, uint32_t count)
{
	post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
	for (uint32_t i = 0; i < count; i += 100) { /* a hundred in a row are in one */
		char namespace[64], name[64];
		kinds[k].name(i, namespace, name);
		_cleanup_(free_ptr) char *text =
		    xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"%s\"}}",
			      namespace);
		post("/api/v1/namespaces", text);
	}
}

static void object_path(enum api_kind k, uint32_t i, bool named)
{
	char namespace[64], name[64];
	kinds[k].name(i, namespace, name);
	buf_reset(&path);
	buf_printf(&path, "%s/namespaces/%s/%s", kinds[k].root, namespace, kinds[k].plural);
	if (named)
		buf_printf(&path, "/%s%s", name, kinds[k].has_status ? "/status" : "");
}

void api_create(enum api_kind k, uint32_t i)
{
	static const char made_by_server[] = "\"resourceVersion\":\"1\",";
	buf_reset(&object);
	kinds[k].make(&object, i, 1);
	const char *text = buf_str(&object), *cut = strstr(text, made_by_server);
	BENCH_CHECK(cut);
	buf_reset(&body);
	buf_add(&body, text, (size_t)(cut - text));
	buf_puts(&body, cut + strlen(made_by_server));
	object_path(k, i, false);
	struct err err = {0};
	int rc = try_request("POST", NULL, &err);
	if (rc == 0 && kinds[k].has_status) {
		api_update(k, i, 1, NULL);
	} else if (rc < 0 && rc != -EEXIST) {
		/* A kube-apiserver says "timeout" when there is one already that has a generateName. */
		object_path(k, i, true);
		buf_reset(&body);
		if (try_request("GET", NULL, &(struct err){0}) < 0)
			bench_fail("%s", err.text);
	}
}

uint64_t api_update(enum api_kind k, uint32_t i, uint64_t version, int64_t *ret_at)
{
	struct buf text = {0};
	buf_reset(&object);
	kinds[k].make(&object, i, version);
	struct span status = json_get(buf_span(&object), "status");
	buf_reset(&body);
	buf_printf(&body, "{\"status\":" SPAN_FMT "}", SPAN_ARG(status));
	object_path(k, i, true);
	BENCH_CHECK(request("PATCH", "application/merge-patch+json") == 0);
	if (ret_at)
		*ret_at = bench_now();
	struct span at = json_path(buf_span(&answer), "metadata", "resourceVersion", NULL);
	BENCH_CHECK(json_unescape(at, &text) == 0);
	uint64_t rv = kube_version(buf_span(&text));
	BENCH_CHECK(rv);
	buf_done(&text);
	return rv;
}
