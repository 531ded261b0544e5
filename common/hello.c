#include "hello.h"
#include "environment.h"
#include "exec_cause.h"
#include "json_scan.h"
#include <stdio.h>

void hello_say(struct process *p, const char *controller, const char *capabilities)
{
	_cleanup_(free_ptr) char *line =
	    xasprintf("{\"kind\":\"Hello\",\"apiVersion\":\"reconciled.dev/v1\",\"controller\":\"%s\","
		      "\"capabilities\":[%s]}\n",
		      controller, capabilities);
	process_send(p, span_of(line));
}

static int hear_line(struct process *p, const struct hello *h, struct span line, struct err *err)
{
	char quoted[QUOTE_ROOM];
	text_quote(line, quoted);
	if (json_check(line, NULL) < 0 || json_type_of(line) != JSON_OBJECT ||
	    !json_string_is(json_get(line, "kind"), "Hello"))
		return err_set(
		    err, -EPROTO,
		    "the %s's first line is not a Hello but %s;%s what is meant for people goes to stderr",
		    h->what, quoted,
		    h->may_be_exec ? " a script that reads one request and ends belongs under `exec:`, and"
				   : "");
	if (!json_string_is(json_get(line, "apiVersion"), "reconciled.dev/v1"))
		return err_set(err, -EPROTO, "the %s's Hello has not apiVersion reconciled.dev/v1: %s",
			       h->what, quoted);
	process_drop_line(p, line);
	return 1;
}

static int not_started(const struct process *p, const struct hello *h, struct err *err)
{
	char cause[700];
	_cleanup_(environment_done) struct environment env = {0};
	environment_build(&env, h->controller, NULL, h->given);
	exec_cause(h->controller, h->command, environment_get(&env, "PATH"), p->exec_error, cause,
		   sizeof(cause));
	return err_set(err, -EPROTO, "%s", cause);
}

static int ended(const struct process *p, const struct hello *h, struct err *err)
{
	char said[64], quoted[QUOTE_ROOM];
	struct span unread = process_unread(p);
	bool words = unread.len > 0;
	return err_set(err, -EPROTO, "%s ended before its Hello (%s)%s%s%s", h->command,
		       ending_text(p->wait_status, said), words ? ", having said " : "",
		       words ? text_quote(unread, quoted) : "",
		       h->may_be_exec ? "; a script that was written for exec belongs under `exec:`" : "");
}

int hello_hear(struct process *p, const struct hello *h, int64_t now_ns, struct err *err)
{
	struct span line;
	if (p->state == PROCESS_ENDED && p->exec_error)
		return not_started(p, h, err);
	while ((line = process_line(p)).at && text_is_blank(line))
		process_drop_line(p, line);
	if (line.at)
		return hear_line(p, h, line, err);
	if (p->overflow)
		return err_set(err, -EPROTO,
			       "the %s wrote more than %llu MiB without a newline instead of its Hello",
			       h->what, (unsigned long long)(PROCESS_STDOUT_MAX >> 20));
	if (p->state == PROCESS_ENDED)
		return ended(p, h, err);
	if (now_ns >= h->end_ns)
		return err_set(err, -EPROTO, "%s sent no Hello within startupTimeout (%.3g s)%s", h->command,
			       (double)h->timeout_ns / (double)NS_PER_S,
			       h->may_be_exec ? "; was it written for exec?" : "");
	return 0;
}

void hello_slow(const char *command, int64_t timeout_ns, struct err *ret)
{
	char timeout[32];
	err_set(ret, 0, "%s has not said Hello yet; its startupTimeout is %s", command,
		format_duration(timeout_ns, timeout));
}
