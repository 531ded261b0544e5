/* reconcilectl requeue: adds keys by hand. */
#include "config.h"
#include "control.h"
#include "key_name.h"
#include "queue_read.h"
#include <stdio.h>

enum {
	BATCH = 1024,	       /* keys of one ADD: LIST in wire.def */
	PRIORITY_OF_ALL = -100 /* as a resync: single events go before */
};

struct when {
	int64_t delay_ms; /* 0: now */
	bool cancel;
};

static struct wire_add_key add_of(struct span namespace, struct span name, int64_t priority,
				  const struct when *when)
{
	/* What an operator says last is meant: it moves a key that waits already to this time. */
	return (struct wire_add_key){.namespace = namespace,
				     .name = name,
				     .delay_ms = when->delay_ms,
				     .timer = when->cancel     ? WIRE_TIMER_CANCEL
					      : when->delay_ms ? WIRE_TIMER_REPLACE
							       : WIRE_TIMER_EARLIEST,
				     .priority = priority,
				     .primary_changed = true,
				     .cause = WIRE_CAUSE_OPERATOR,
				     .cause_kind = span_of(""),
				     .cause_namespace = span_of(""),
				     .cause_name = span_of("")};
}

static int add(const struct ctl *c, struct span controller, const struct wire_add_key *keys, size_t n,
	       struct err *err)
{
	const struct wire request = {.type = WIRE_TYPE_ADD,
				     .add = {.controller = controller, .keys = {keys, n}}};
	struct wire answer = {0};
	int rc = ctl_ask(c, &request, WIRE_TYPE_ADD_ACK, &answer, err);
	if (rc == 0 && answer.add_ack.accepted != n)
		rc = err_set(err, -ENOSPC, "the broker could not store it: " SPAN_FMT,
			     SPAN_ARG(answer.add_ack.message));
	wire_done(&answer);
	return rc;
}

/* All keys of the controller that are in the queue now, read from shared memory. */
static int add_all(const struct ctl *c, const char *controller, const struct when *when, size_t *ret_count,
		   struct err *err)
{
	struct queue_reader *q;
	int rc = queue_open(c->program.region_dir, &q, err);
	if (rc < 0)
		return rc;
	_cleanup_(free_ptr) struct queue_key *found = xcalloc(BATCH, sizeof(*found));
	_cleanup_(free_ptr) struct wire_add_key *keys = xcalloc(BATCH, sizeof(*keys));
	uint32_t cursor = 0;
	size_t n = 0;
	int more = 1;
	struct shm_controller row;
	*ret_count = 0;
	rc = control_find(q, span_of(controller), &row, err);
	while (rc == 0 && more != 0 && more != -EPROTO) {
		more = queue_next(q, &cursor, &found[n]);
		if (more > 0 && strcmp(found[n].controller, controller) == 0) {
			keys[n] = add_of(span_of(found[n].namespace), span_of(found[n].name), PRIORITY_OF_ALL,
					 when);
			n++;
		}
		if (n == BATCH || (n > 0 && (more == 0 || more == -EPROTO))) {
			rc = add(c, span_of(controller), keys, n, err);
			*ret_count += rc == 0 ? n : 0;
			n = 0;
		}
	}
	queue_close(q);
	return rc;
}

/* A controller's name, or one key. */
static int requeue(const struct ctl *c, const char *what, const struct when *when, size_t *ret_count,
		   struct err *err)
{
	struct key_name key;
	if (!strchr(what, '/'))
		return add_all(c, what, when, ret_count, err);
	int rc = key_name_parse(what, &key, err);
	struct wire_add_key one = add_of(key.namespace, key.name, 0, when);
	if (rc == 0)
		rc = add(c, key.controller, &one, 1, err);
	*ret_count = rc == 0;
	return rc;
}

static void say(const struct ctl *c, const char *what, const struct when *when, size_t count,
		const char *problem, bool first, struct buf *out)
{
	const char *done = when->cancel ? "cancelled" : "requeued";
	if (c->json) {
		buf_puts(out, first ? "" : ",");
		buf_puts(out, "{\"key\":");
		buf_json_string(out, span_of(what));
		buf_printf(out, ",\"%s\":%s,\"count\":%zu,\"message\":", done, problem ? "false" : "true",
			   count);
		buf_json_string(out, span_of(problem ? problem : ""));
		buf_putc(out, '}');
	} else if (!problem && strchr(what, '/')) {
		buf_printf(out, "%s %s\n", what, done);
	} else if (!problem) {
		buf_printf(out, "%s: %zu %s %s\n", what, count, count == 1 ? "key" : "keys", done);
	}
	if (problem)
		fprintf(stderr, "reconcilectl requeue: %s: %s\n", what, problem);
}

static int64_t delay_of(const struct ctl_command *self, const char *after, bool cancel)
{
	int64_t ns;
	if (cancel)
		ctl_usage(self, "--after or --cancel, not both");
	if (parse_duration(after, &ns) < 0)
		ctl_usage(self, "--after is a duration, as in 90s or 1h30m, not %s", after);
	int64_t ms = ns / NS_PER_MS + (ns % NS_PER_MS != 0);
	if (ms > WIRE_DELAY_MS_MOST)
		ctl_usage(self, "--after is at most 100 years (876000h), not %s", after);
	return ms;
}

CTL_RUN(requeue_run)
{
	struct ctl c;
	struct err err;
	struct key_name ignored;
	int status = EXIT_SUCCESS;
	const char *after = NULL;
	struct when when = {0};
	_cleanup_(buf_done) struct buf out = {0};
	const struct program_option own[] = {
	    {"after", 0, "TIME", "not now but then; a key that waits, waits until then", .text = &after},
	    {"cancel", 0, NULL, "take back --after, or the program's requeueAfter", .flag = &when.cancel},
	    {0}};
	ctl_options(&c, self, own, true, argc, argv);
	if (after)
		when.delay_ms = delay_of(self, after, when.cancel);
	if (c.first == argc)
		ctl_usage(self, "which key?");
	for (int i = c.first; i < argc; i++)
		if (!strchr(argv[i], '/'))
			control_controller(self, 1, argv + i);
		else if (key_name_parse(argv[i], &ignored, &err) < 0)
			ctl_usage(self, "%s", err.text);
	buf_puts(&out, c.json ? "[" : "");
	for (int i = c.first; i < argc; i++) {
		size_t count = 0;
		bool good = requeue(&c, argv[i], &when, &count, &err) == 0;
		say(&c, argv[i], &when, count, good ? NULL : err.text, i == c.first, &out);
		status = good ? status : EXIT_FAILURE;
	}
	buf_puts(&out, c.json ? "]\n" : "");
	ctl_print(&out);
	return status;
}
