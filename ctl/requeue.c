/* reconcilectl requeue: adds keys by hand. */
#include "ctl.h"
#include "key_name.h"
#include <stdio.h>

static int requeue(const struct ctl *c, const struct key_name *key, struct err *err)
{
	const struct wire_add_key add = {.namespace = key->namespace,
					 .name = key->name,
					 .primary_changed = true,
					 .cause = WIRE_CAUSE_OPERATOR,
					 .cause_kind = span_of(""),
					 .cause_namespace = span_of(""),
					 .cause_name = span_of("")};
	const struct wire request = {.type = WIRE_TYPE_ADD,
				     .add = {.controller = key->controller, .keys = {&add, 1}}};
	struct wire answer = {0};
	int rc = ctl_ask(c, &request, WIRE_TYPE_ADD_ACK, &answer, err);
	if (rc == 0 && answer.add_ack.accepted != 1)
		rc = err_set(err, -ENOSPC, "the broker could not store it: " SPAN_FMT,
			     SPAN_ARG(answer.add_ack.message));
	wire_done(&answer);
	return rc;
}

static void say(const struct ctl *c, const char *key, const char *problem, bool first, struct buf *out)
{
	if (c->json) {
		buf_puts(out, first ? "" : ",");
		buf_puts(out, "{\"key\":");
		buf_json_string(out, span_of(key));
		buf_printf(out, ",\"requeued\":%s,\"message\":", problem ? "false" : "true");
		buf_json_string(out, span_of(problem ? problem : ""));
		buf_putc(out, '}');
	} else if (!problem) {
		buf_printf(out, "%s requeued\n", key);
	}
	if (problem)
		fprintf(stderr, "reconcilectl requeue: %s: %s\n", key, problem);
}

CTL_RUN(requeue_run)
{
	struct ctl c;
	struct err err;
	int status = EXIT_SUCCESS;
	_cleanup_(buf_done) struct buf out = {0};
	ctl_options(&c, self, NULL, true, argc, argv);
	if (c.first == argc)
		ctl_usage(self, "which key?");
	_cleanup_(free_ptr) struct key_name *keys = xcalloc((size_t)(argc - c.first), sizeof(*keys));
	for (int i = c.first; i < argc; i++)
		if (key_name_parse(argv[i], &keys[i - c.first], &err) < 0)
			ctl_usage(self, "%s", err.text);
	buf_puts(&out, c.json ? "[" : "");
	for (int i = c.first; i < argc; i++) {
		bool good = requeue(&c, &keys[i - c.first], &err) == 0;
		say(&c, argv[i], good ? NULL : err.text, i == c.first, &out);
		status = good ? status : EXIT_FAILURE;
	}
	buf_puts(&out, c.json ? "]\n" : "");
	ctl_print(&out);
	return status;
}
