/* reconcilectl drain: pauses a controller, then waits until nothing of it runs. */
#include "config.h"
#include "control.h"
#include "json.h"
#include <stdio.h>
#include <time.h>

enum { LOOK_MS = 200 };

struct progress {
	bool held;	    /* the pause stands */
	int64_t running;    /* keys */
	struct buf who;	    /* "shop/a (website.1), shop/b (website.2)" */
	struct buf who_was; /* as it was last shown */
};

static void progress_done(struct progress *p)
{
	buf_done(&p->who);
	buf_done(&p->who_was);
}

static const struct json *controller_of(const struct json *status, const char *name)
{
	const struct json *list = json_member(status, "controllers");
	for (const struct json *c = NULL; (c = json_element(list, c));) {
		const char *text = json_text(json_member(c, "name"));
		if (text && strcmp(text, name) == 0)
			return c;
	}
	return NULL;
}

static void who_runs(const struct json *status, const char *name, struct buf *out)
{
	const struct json *list = json_member(status, "processes");
	buf_reset(out);
	for (const struct json *p = NULL; (p = json_element(list, p));) {
		const char *controller = json_text(json_member(p, "controller")),
			   *key = json_text(json_member(p, "running")),
			   *instance = json_text(json_member(p, "instance"));
		if (key && controller && strcmp(controller, name) == 0)
			buf_printf(out, "%s%s (%s)", out->len ? ", " : "", key, instance ? instance : "?");
	}
}

static int look(const struct ctl *c, const char *name, struct progress *p, struct err *err)
{
	_cleanup_(json_free_ptr) struct json *status = NULL;
	int rc = ctl_status(c, &status, err);
	if (rc < 0)
		return rc;
	const struct json *controller = controller_of(status, name);
	p->held = json_text(json_member(controller, "held"));
	if (json_integer(json_member(controller, "running"), &p->running) < 0)
		return err_set(err, -ENOENT, "controller %s is gone", name);
	who_runs(status, name, &p->who);
	return 0;
}

static void show(const char *name, struct progress *p)
{
	if (p->running == 0 || strcmp(buf_str(&p->who), buf_str(&p->who_was)) == 0)
		return;
	fprintf(stderr, "%s: %lld %s: %s\n", name, (long long)p->running,
		p->running == 1 ? "key runs" : "keys run",
		p->who.len ? buf_str(&p->who) : "on workers that are not connected");
	buf_reset(&p->who_was);
	buf_span_add(&p->who_was, buf_span(&p->who));
}

static int wait_until_idle(const struct ctl *c, const char *name, int64_t timeout, struct progress *p,
			   struct err *err)
{
	int64_t end = timeout ? clock_boottime_ns() + timeout : INT64_MAX;
	for (;;) {
		int rc = look(c, name, p, err);
		if (rc < 0)
			return rc;
		if (!p->held)
			return err_set(err, -ECANCELED, "somebody has resumed %s meanwhile", name);
		if (p->running == 0)
			return 0;
		if (!c->json)
			show(name, p);
		if (clock_boottime_ns() >= end)
			return err_set(err, -ETIMEDOUT, "%s is paused, but still runs after this time: %s",
				       name,
				       p->who.len ? buf_str(&p->who) : "on workers that are not connected");
		nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * (long)NS_PER_MS}, NULL);
	}
}

CTL_RUN(drain_run)
{
	struct ctl c;
	struct err err;
	const char *timeout_text = "0s";
	int64_t timeout;
	uint32_t running;
	_cleanup_(progress_done) struct progress p = {0};
	_cleanup_(buf_done) struct buf out = {0};
	const struct program_option own[] = {
	    {"timeout", 0, "TIME", "how long at most [no limit]", .text = &timeout_text}, {0}};
	ctl_options(&c, self, own, true, argc, argv);
	const char *name = control_controller(self, argc - c.first, argv + c.first);
	if (argc - c.first > 1)
		ctl_usage(self, "one controller at a time");
	if (parse_duration(timeout_text, &timeout) < 0)
		ctl_usage(self, "--timeout is a duration, as in 30s or 5m, not %s", timeout_text);
	const struct wire_control wish = {.what = WIRE_WISH_PAUSE, .controller = span_of(name)};
	int rc = control_ask(&c, &wish, &running, &err);
	if (rc == 0)
		rc = wait_until_idle(&c, name, timeout, &p, &err);
	if (c.json)
		buf_printf(&out, "{\"controller\":\"%s\",\"drained\":%s,\"paused\":%s,\"running\":%lld}\n",
			   name, rc == 0 ? "true" : "false", p.held ? "true" : "false", (long long)p.running);
	else if (rc == 0)
		buf_printf(&out, "%s drained: it stays paused until `reconcilectl resume %s`\n", name, name);
	ctl_print(&out);
	return rc < 0 ? ctl_fail(self, err.text) : EXIT_SUCCESS;
}
