/* reconcilectl wait: polls one object of the API server. */
#include "columns.h"
#include "config.h"
#include "ctl.h"
#include "kube.h"
#include "wanted.h"
#include <stdio.h>
#include <time.h>

enum { POLL_MS = 200, REQUEST_MS = 10000 };

struct waiting {
	struct http_client *client;
	const char *api_version, *kind;
	struct kube_resource resource;
	bool discovered;
	struct span namespace, name;
	struct wanted wanted;
};

/* One look. 1: it holds; 0: not yet, seen says why; negative: no use in asking again. */
static int look(struct waiting *w, struct buf *seen, struct err *err)
{
	_cleanup_(buf_done) struct buf path = {0}, body = {0};
	int rc = w->discovered ? 0 : kube_discover(w->client, w->api_version, w->kind, &w->resource, err);
	if (rc == 0) {
		w->discovered = true;
		if (!w->resource.namespaced && w->namespace.len)
			return err_set(err, -EINVAL, "%s has no namespaces: write NAME alone", w->kind);
		struct span namespace = w->resource.namespaced ? w->namespace : (struct span){0};
		if (w->resource.namespaced && !namespace.len)
		namespace = span_of("default");
		kube_path(&path, &w->resource, namespace, w->name, NULL);
		struct http_request request = {
		    .method = "GET", .path = buf_str(&path), .timeout_ms = REQUEST_MS};
		rc = kube_do(w->client, &request, &body, NULL, err);
	}
	if (rc == 0 || (rc == -ENOENT && w->discovered))
		return wanted_holds(&w->wanted, rc == 0 ? buf_span(&body) : (struct span){0}, seen);
	/* A kind may still be created, a server may still be starting; but who is refused stays refused. */
	buf_reset(seen);
	buf_puts(seen, err->text);
	return rc == -EACCES || rc == -EPERM || rc == -EINVAL ? rc : 0;
}

static int wait_for(struct waiting *w, int64_t timeout_ns, struct buf *seen, struct err *err)
{
	int64_t end = clock_boottime_ns() + timeout_ns;
	for (;;) {
		int rc = look(w, seen, err);
		int64_t left = end - clock_boottime_ns();
		if (rc != 0)
			return rc < 0 ? rc : 0;
		if (left <= 0)
			return -ETIMEDOUT;
		int64_t pause = MIN(left, (int64_t)POLL_MS * NS_PER_MS);
		nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
	}
}

static void arguments(struct waiting *w, const struct ctl_command *self, int argc, char **argv,
		      char **ret_version, char **ret_kind)
{
	struct err err;
	if (argc != 2)
		ctl_usage(self, "a kind and a name are wanted");
	if (wanted_kind_parse(argv[0], ret_version, ret_kind, &err) < 0)
		ctl_usage(self, "%s", err.text);
	w->api_version = *ret_version;
	w->kind = *ret_kind;
	const char *slash = strchr(argv[1], '/');
	w->namespace = slash ? (struct span){argv[1], (size_t)(slash - argv[1])} : (struct span){"", 0};
	w->name = span_of(slash ? slash + 1 : argv[1]);
	if (!w->name.len || memchr(w->name.at, '/', w->name.len))
		ctl_usage(self, "%s is no name: write NAMESPACE/NAME or NAME", argv[1]);
}

static void say_json(bool holds, const char *what, const char *seen)
{
	_cleanup_(buf_done) struct buf out = {0};
	buf_printf(&out, "{\"holds\":%s,\"for\":", holds ? "true" : "false");
	buf_json_string(&out, span_of(what));
	buf_puts(&out, ",\"seen\":");
	buf_json_string(&out, span_of(seen));
	buf_puts(&out, "}\n");
	ctl_print(&out);
}

CTL_RUN(wait_run)
{
	struct ctl c;
	struct err err;
	struct waiting w = {0};
	const char *what = NULL, *timeout = "60s";
	int64_t timeout_ns;
	_cleanup_(buf_done) struct buf seen = {0};
	_cleanup_(free_ptr) char *version = NULL, *kind = NULL;
	const struct program_option own[] = {
	    {"for", 0, "WHAT", "what is waited for", .text = &what},
	    {"timeout", 0, "TIME", "how long at most [60s]", .text = &timeout},
	    {0}};
	ctl_options(&c, self, own, true, argc, argv);
	arguments(&w, self, argc - c.first, argv + c.first, &version, &kind);
	if (!what)
		ctl_usage(self, "--for is missing");
	if (wanted_parse(what, &w.wanted, &err) < 0)
		ctl_usage(self, "%s", err.text);
	if (parse_duration(timeout, &timeout_ns) < 0)
		ctl_usage(self, "--timeout is a duration, as in 30s or 5m, not %s", timeout);
	int rc = ctl_client(&c, &w.client, &err);
	if (rc == 0)
		rc = wait_for(&w, timeout_ns, &seen, &err);
	if (c.json) {
		say_json(rc == 0, what, rc < 0 && rc != -ETIMEDOUT ? err.text : buf_str(&seen));
	} else if (rc == -ETIMEDOUT && w.client) {
		_cleanup_(buf_done) struct buf there = {0};
		printable(&there, buf_str(&seen));
		fprintf(stderr, "reconcilectl wait: %s %s is not as wanted (%s) after %s; there: %s\n",
			argv[c.first], argv[c.first + 1], what, timeout, buf_str(&there));
	} else if (rc < 0) {
		ctl_fail(self, err.text);
	} else {
		printf("%s %s: %s\n", argv[c.first], argv[c.first + 1], what);
	}
	http_client_free(w.client);
	wanted_done(&w.wanted);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
