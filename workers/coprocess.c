#include "coprocess.h"
#include "hello.h"
#include "json_scan.h"
#include "log.h"
#include "usage.h"
#include <stdio.h>

#define CHECK_EVERY_NS (1 * NS_PER_S)
enum { LINES_PER_STEP = 64 };

void coprocess_init(struct coprocess *k, const struct config_controller *c, struct process *p,
		    struct reads *reads, char *const *given)
{
	*k = (struct coprocess){.controller = c, .process = p, .reads = reads, .given = given};
}

static void forget(struct coprocess *k)
{
	coprocess_init(k, k->controller, k->process, k->reads, k->given);
}

static void say(struct coprocess *k, const char *line)
{
	process_send(k->process, span_of(line));
}

int coprocess_start(struct coprocess *k, struct jail *j, struct err *err)
{
	_cleanup_(environment_done) struct environment env = {0};
	environment_build(&env, k->controller, NULL, k->given);
	forget(k);
	k->process->controller = k->controller->name;
	k->process->key[0] = k->process->uid[0] = 0;
	int r = process_start(k->process, j, (const char *const *)k->controller->reconciler.command,
			      (const char *const *)env.at, err);
	if (r < 0)
		return r;
	hello_say(k->process, k->controller->name, "\"cancel\",\"read\"");
	k->root = jail_init_pid(j);
	k->state = COPROCESS_HELLO;
	k->hello_end_ns = k->process->started_ns + k->controller->reconciler.startup_timeout_ns;
	k->slow_ns = k->process->started_ns + HELLO_SLOW_NS;
	return 0;
}

/* ---- before its Hello ---- */

static void fail(struct coprocess *k, int64_t now_ns, const char *fmt, ...) _printf_(3, 4);
static void fail(struct coprocess *k, int64_t now_ns, const char *fmt, ...)
{
	char text[sizeof(k->bad.text)];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	const char *last = lines_last(&k->process->lines);
	err_set(&k->bad, -EPROTO, "%s%s%s", text, last[0] ? "; its last line on stderr: " : "", last);
	k->state = COPROCESS_FAILED;
	process_stop(k->process, KILL_PROTOCOL, now_ns, 0);
}

static void wait_hello(struct coprocess *k, int64_t now_ns)
{
	struct hello expected = {.controller = k->controller,
				 .given = k->given,
				 .what = "reconciler",
				 .command = k->controller->reconciler.command[0],
				 .may_be_exec = true,
				 .timeout_ns = k->controller->reconciler.startup_timeout_ns,
				 .end_ns = k->hello_end_ns};
	struct err why = {0};
	int r = hello_hear(k->process, &expected, now_ns, &why);
	if (r == 0)
		return;
	if (r < 0) {
		fail(k, now_ns, "%s", why.text);
		return;
	}
	k->state = COPROCESS_READY;
	k->ready_ns = now_ns;
	log_info("reconciler is ready", LOG_S("controller", k->controller->name),
		 LOG_I("startup_ms", (now_ns - k->process->started_ns) / NS_PER_MS));
}

/* ---- requests ---- */

void coprocess_request(struct coprocess *k, const char *uid, struct span request, int64_t now_ns)
{
	struct usage usage = {0};
	if (k->controller->reconciler.limit_cpu_ns)
		usage_below(k->root, &usage);
	k->cpu_start_ns = usage.cpu_ns;
	k->state = COPROCESS_BUSY;
	k->answered = k->mute = false;
	k->check_ns = now_ns + CHECK_EVERY_NS;
	memcpy(k->uid, uid, sizeof(k->uid));
	lines_forget(&k->process->lines);
	process_send(k->process, request);
}

static void refuse(struct coprocess *k, int64_t now_ns)
{
	process_stop(k->process, KILL_PROTOCOL, now_ns, 0);
}

/* One line of a running request: a read, or the answer. */
static void hear(struct coprocess *k, struct span line, int64_t now_ns)
{
	char quoted[QUOTE_ROOM];
	struct err why = {0};
	bool object = json_check(line, &why) == 0 && json_type_of(line) == JSON_OBJECT;
	struct span kind = object ? json_get(line, "kind") : (struct span){NULL, 0};
	if (!object) {
		err_set(&k->bad, -EPROTO,
			"stdout: a line that is no JSON object: %s; what is meant for people goes to stderr",
			text_quote(line, quoted));
		refuse(k, now_ns);
	} else if (read_is_one(line)) {
		_cleanup_(buf_done) struct buf out = {0};
		if (read_answer_line(k->reads, line, k->uid, &out, &k->bad) < 0)
			refuse(k, now_ns);
		else
			process_send(k->process, buf_span(&out));
		process_drop_line(k->process, line);
	} else if (kind.at && !json_string_is(kind, "ReconcileResponse")) {
		err_set(&k->bad, -EPROTO,
			"stdout: a line whose kind is not ReconcileResponse, Get or List: %s",
			text_quote(line, quoted));
		refuse(k, now_ns);
	} else {
		k->answer = line;
		k->answered = true;
	}
}

/* Memory and CPU of the tree, at most once a second. */
static void check_limits(struct coprocess *k, int64_t now_ns)
{
	const struct config_reconciler *r = &k->controller->reconciler;
	struct usage usage;
	if (now_ns < k->check_ns)
		return;
	k->check_ns = now_ns + CHECK_EVERY_NS;
	usage_below(k->root, &usage);
	if (r->max_memory && usage.memory_bytes > r->max_memory) {
		process_stop(k->process, KILL_MEMORY, now_ns, 0);
	} else if (r->limit_cpu_ns && usage.cpu_ns - k->cpu_start_ns > r->limit_cpu_ns) {
		err_set(&k->bad, -EDQUOT, "used up its limits.cpu of %.3g s in one request",
			(double)r->limit_cpu_ns / (double)NS_PER_S);
		process_stop(k->process, KILL_DEADLINE, now_ns, 0);
	}
}

static void idle_step(struct coprocess *k, int64_t now_ns)
{
	struct span line;
	char quoted[QUOTE_ROOM];
	while ((line = process_line(k->process)).at && text_is_blank(line))
		process_drop_line(k->process, line);
	struct span rest = process_unread(k->process);
	bool ended = k->process->state == PROCESS_ENDED;
	char said[64];
	/* One that has answered is started again at once: each time costs it a request. One that has not would be started for
	 * ever. */
	if (rest.len && !k->requests) {
		fail(k, now_ns, "the reconciler wrote to stdout after its Hello, before any request: %s",
		     text_quote(rest, quoted));
	} else if (ended && !k->requests) {
		fail(k, now_ns, "the reconciler ended after its Hello, before any request (%s)",
		     ending_text(k->process->wait_status, said));
	} else if (ended) {
		log_warning("reconciler ended between requests; it is started again",
			    LOG_S("controller", k->controller->name),
			    LOG_S("exit", ending_text(k->process->wait_status, said)),
			    LOG_S("stderr", lines_last(&k->process->lines)));
		k->state = COPROCESS_NONE;
	} else if (rest.len) {
		log_warning("reconciler wrote to stdout outside of a request; it is started again",
			    LOG_S("controller", k->controller->name),
			    LOG_S("said", text_quote(rest, quoted)));
		process_stop(k->process, KILL_PROTOCOL, now_ns, 0);
		k->state = COPROCESS_FAILED;
	}
}

/* Hears what came, for a bounded while: live reads wait for the API server, and the deadline must not wait for many of them. */
static void hear_lines(struct coprocess *k, int64_t now_ns)
{
	struct span line = {NULL, 0};
	k->reads->live_done = false;
	for (int i = 0; i < LINES_PER_STEP && !k->reads->live_done; i++) {
		if (k->answered || k->process->killed != KILL_NONE || !(line = process_line(k->process)).at)
			break;
		if (text_is_blank(line))
			process_drop_line(k->process, line);
		else
			hear(k, line, now_ns);
	}
	k->more = !k->answered && k->process->killed == KILL_NONE && process_line(k->process).at;
}

void coprocess_step(struct coprocess *k, int64_t now_ns)
{
	if (k->state == COPROCESS_HELLO)
		wait_hello(k, now_ns);
	if (k->state == COPROCESS_READY)
		idle_step(k, now_ns);
	if (k->state != COPROCESS_BUSY)
		return;
	hear_lines(k, now_ns);
	if (!k->answered && k->process->killed == KILL_NONE && k->process->overflow) {
		err_set(&k->bad, -EPROTO, "stdout: more than %llu MiB at once",
			(unsigned long long)(PROCESS_STDOUT_MAX >> 20));
		refuse(k, now_ns);
	}
	if (!k->answered && k->process->state == PROCESS_RUNNING)
		check_limits(k, now_ns);
}

bool coprocess_over(const struct coprocess *k)
{
	if (k->process->killed == KILL_NONE && (k->answered || k->more))
		return k->answered; /* what it said before its end still counts */
	return k->process->state == PROCESS_ENDED;
}

void coprocess_cancel(struct coprocess *k, enum kill_cause why, int64_t now_ns)
{
	if (k->process->killed != KILL_NONE)
		return;
	k->mute = k->process->out < 0;
	_cleanup_(free_ptr) char *cancel = xasprintf("{\"kind\":\"Cancel\",\"uid\":\"%s\"}\n", k->uid);
	say(k, cancel);
	process_io(k->process);
	process_stop(k->process, why, now_ns, PROCESS_TERM_GRACE_NS);
}

static void add_last_lines(struct coprocess *k, struct result *r)
{
	_cleanup_(buf_done) struct buf tail = {0};
	lines_tail(&k->process->lines, &tail);
	result_add(r, "; last lines: ", buf_span(&tail));
}

/* What programs that wait for ever after their answer got wrong. */
static void add_hint(struct coprocess *k, struct result *r)
{
	char quoted[QUOTE_ROOM];
	struct span unread = process_unread(k->process);
	if (k->mute)
		result_add(r, "; ", span_of("it had closed its stdout"));
	else if (unread.len && !memchr(unread.at, '\n', unread.len))
		result_add(r, "; it wrote, without a newline: ", span_of(text_quote(unread, quoted)));
}

/* It ended, or was killed, in the middle of a request. */
static void finish_ended(struct coprocess *k, struct result *r)
{
	const struct config_controller *c = k->controller;
	struct ending e = process_ending(k->process, c->reconciler.max_memory);
	e.timeout_ns = c->reconciliation_timeout_ns;
	e.limit_cpu_ns = c->reconciler.limit_cpu_ns;
	outcome_of_ending(&e, r);
	if (k->bad.text[0] && e.killed == KILL_PROTOCOL) {
		result_set(r, WIRE_OUTCOME_PROTOCOL_ERROR, "ProtocolError", "%s", k->bad.text);
	} else if (k->bad.text[0] && e.killed == KILL_DEADLINE) {
		result_set(r, WIRE_OUTCOME_CRASHED, "CPULimit", "%s", k->bad.text);
	} else if (e.killed == KILL_NONE && r->outcome != WIRE_OUTCOME_CRASHED &&
		   r->outcome != WIRE_OUTCOME_OOM_KILLED) {
		/* Ending by oneself without an answer is a crash too, whatever the status says. */
		char said[64];
		result_set(r, WIRE_OUTCOME_CRASHED, "Ended",
			   "ended during the request without an answer (%s)",
			   ending_text(e.wait_status, said));
	}
	if (e.killed == KILL_DEADLINE)
		add_hint(k, r);
	if (e.killed != KILL_PROTOCOL)
		add_last_lines(k, r);
	k->state = COPROCESS_NONE;
}

/* After an answer: is it time for a fresh one? */
static void consider_recycling(struct coprocess *k)
{
	const struct config_reconciler *r = &k->controller->reconciler;
	struct usage usage;
	k->requests++;
	if (r->max_requests && k->requests >= r->max_requests)
		k->recycle = true;
	if (!r->max_memory)
		return;
	usage_below(k->root, &usage);
	k->recycle |= usage.memory_bytes > r->max_memory / 4 * 3;
}

bool coprocess_finish(struct coprocess *k, const struct answer_rules *rules, struct answer *answer,
		      struct result *r)
{
	struct err why = {0};
	result_init(r);
	if (!k->answered || k->process->killed != KILL_NONE) {
		finish_ended(k, r);
		return false;
	}
	int bad = answer_parse(k->answer, rules, answer, &why);
	if (bad < 0) {
		result_set(r, WIRE_OUTCOME_PROTOCOL_ERROR, "ProtocolError", "%s", why.text);
		process_stop(k->process, KILL_PROTOCOL, clock_boottime_ns(), 0);
		k->state = COPROCESS_FAILED;
		return false;
	}
	process_drop_line(k->process, k->answer);
	k->answered = false;
	answer_result(answer, r);
	if (k->process->state == PROCESS_ENDED) {
		k->state = COPROCESS_NONE;
		return true;
	}
	k->state = COPROCESS_READY;
	consider_recycling(k);
	return true;
}

void coprocess_shutdown(struct coprocess *k)
{
	say(k, "{\"kind\":\"Shutdown\"}\n");
	process_end_input(k->process);
	process_io(k->process);
}

int64_t coprocess_timer(const struct coprocess *k)
{
	if (k->state == COPROCESS_HELLO)
		return MIN(k->hello_end_ns, k->slow_ns);
	if (k->state == COPROCESS_BUSY && k->more)
		return 0;
	return k->state == COPROCESS_BUSY ? k->check_ns : INT64_MAX;
}
