/* reconcilectl pause, resume, scale: one wish of an operator, one answer of the broker. */
#include "control.h"
#include "config.h"
#include "names.h"
#include <stdio.h>

const char *control_controller(const struct ctl_command *self, int argc, char **argv)
{
	if (argc < 1)
		ctl_usage(self, "which controller?");
	if (!kube_is_dns_label(span_of(argv[0])))
		ctl_usage(self, "\"%.300s\" is no controller's name", argv[0]);
	return argv[0];
}

int control_find(struct queue_reader *q, struct span name, struct shm_controller *ret, struct err *err)
{
	for (uint32_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		if (queue_controller(q, i, ret) && span_is(name, ret->name))
			return 0;
	return err_set(err, -ENOENT,
		       "the queue has no controller " SPAN_FMT ": `reconcilectl status` shows them",
		       SPAN_ARG(name));
}

int control_ask(const struct ctl *c, const struct wire_control *wish, uint32_t *ret_count, struct err *err)
{
	const struct wire request = {.type = WIRE_TYPE_CONTROL, .control = *wish};
	struct wire answer = {0};
	int rc = ctl_ask(c, &request, WIRE_TYPE_CONTROL_ACK, &answer, err);
	if (rc < 0)
		return rc;
	*ret_count = answer.control_ack.count;
	wire_done(&answer);
	return 0;
}

static int simple(const struct ctl_command *self, enum wire_wish what, int argc, char **argv)
{
	struct ctl c;
	struct err err;
	uint32_t running;
	_cleanup_(buf_done) struct buf out = {0};
	ctl_options(&c, self, NULL, true, argc, argv);
	const char *name = control_controller(self, argc - c.first, argv + c.first);
	if (argc - c.first > 1)
		ctl_usage(self, "one controller at a time");
	const struct wire_control wish = {.what = what, .controller = span_of(name)};
	if (control_ask(&c, &wish, &running, &err) < 0)
		return ctl_fail(self, err.text);
	bool paused = what == WIRE_WISH_PAUSE;
	if (c.json)
		buf_printf(&out, "{\"controller\":\"%s\",\"paused\":%s,\"running\":%u}\n", name,
			   paused ? "true" : "false", running);
	else if (paused && running)
		buf_printf(&out, "%s paused; %u %s still running: `reconcilectl drain` waits for that\n",
			   name, running, running == 1 ? "key is" : "keys are");
	else
		buf_printf(&out, "%s %s\n", name, paused ? "paused" : "resumed");
	ctl_print(&out);
	return EXIT_SUCCESS;
}

CTL_RUN(pause_run)
{
	return simple(self, WIRE_WISH_PAUSE, argc, argv);
}

CTL_RUN(resume_run)
{
	return simple(self, WIRE_WISH_RESUME, argc, argv);
}

CTL_RUN(scale_run)
{
	struct ctl c;
	struct err err;
	uint32_t wanted = WIRE_SCALE_AUTO, hosts;
	_cleanup_(buf_done) struct buf out = {0};
	ctl_options(&c, self, NULL, true, argc, argv);
	const char *name = control_controller(self, argc - c.first, argv + c.first);
	if (argc - c.first != 2)
		ctl_usage(self, "how many workers?");
	const char *number = argv[c.first + 1];
	bool automatic = strcmp(number, "auto") == 0;
	if (!automatic && parse_u32(number, 0, CONTROL_SCALE_MOST, &wanted) < 0)
		ctl_usage(self, "%.100s is neither a number up to %u nor \"auto\"", number,
			  CONTROL_SCALE_MOST);
	const struct wire_control wish = {
	    .what = WIRE_WISH_SCALE, .controller = span_of(name), .number = wanted};
	if (control_ask(&c, &wish, &hosts, &err) < 0)
		return ctl_fail(self, err.text);
	if (c.json && automatic)
		buf_printf(&out, "{\"controller\":\"%s\",\"scale\":null,\"connected\":%u}\n", name, hosts);
	else if (c.json)
		buf_printf(&out, "{\"controller\":\"%s\",\"scale\":%u,\"connected\":%u}\n", name, wanted,
			   hosts);
	else if (automatic)
		buf_printf(&out, "%s: as many of %u workers as its file says\n", name, hosts);
	else
		buf_printf(&out, "%s: %u of %u workers\n", name, wanted, hosts);
	ctl_print(&out);
	return EXIT_SUCCESS;
}
