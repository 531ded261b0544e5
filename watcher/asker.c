#include "asker.h"
#include "environment.h"
#include "hello.h"
#include "hidden.h"
#include "log.h"
#include "usage.h"

enum { LINES_PER_RUN = 256, AHEAD_BYTES = 256 << 10 /* written ahead: more is in nobody's pipe yet */ };
#define BACKOFF_MIN_NS (1 * NS_PER_S)
#define BACKOFF_MAX_NS (60 * NS_PER_S)
#define CHECK_NS       (1 * NS_PER_S) /* between two looks at its memory */
#define STEADY_NS      (10 * NS_PER_S)

enum state { ASKER_NONE, ASKER_JAIL, ASKER_HELLO, ASKER_READY, ASKER_ENDING };

struct asker {
	const struct asker_ops *ops;
	const struct program *program;
	const struct kubeconfig *kubeconfig;
	struct asker_place place;
	struct questions questions;
	enum state state;
	struct jail *jail;
	struct process process;
	uint64_t answers;	    /* of this process */
	bool down, told_down;	    /* failed and not back; reported as something else than working */
	bool more;		    /* lines that came are not heard yet */
	bool again;		    /* to be started anew: no failure */
	int64_t backoff_ns;	    /* of the last failure */
	int64_t due_ns;		    /* NONE: not before; HELLO: until */
	int64_t slow_ns;	    /* HELLO: then it is told to be slow */
	int64_t ready_ns, check_ns; /* READY: since; next look */
};

/* ---- what it says beside its answers ---- */

static void on_line(const struct process *p, struct span line)
{
	const struct asker *a = p->owner;
	log_info("program", LOG_S("controller", a->place.controller->name), LOG_S("program", a->place.topic),
		 LOG_SP("line", line));
}

static void on_dropped(const struct process *p, uint64_t lines)
{
	const struct asker *a = p->owner;
	log_warning("program writes too many lines; some were dropped",
		    LOG_S("controller", a->place.controller->name), LOG_S("program", a->place.topic),
		    LOG_I("lines", lines));
}

static void on_left(const struct process *p, unsigned count, const char *names)
{
	const struct asker *a = p->owner;
	log_warning("processes outlived the program's main process and were killed",
		    LOG_S("controller", a->place.controller->name), LOG_S("program", a->place.topic),
		    LOG_I("count", count), LOG_S("names", names));
}

static const struct process_ops process_ops = {on_line, on_dropped, on_left};

/* ---- life ---- */

struct asker *asker_new(const struct asker_ops *ops, const struct program *p, const struct kubeconfig *k,
			const struct asker_place *place)
{
	struct asker *a = xcalloc(1, sizeof *a);
	*a = (struct asker){.ops = ops, .program = p, .kubeconfig = k, .place = *place};
	process_init(&a->process, &process_ops, a);
	return a;
}

static void leave_jail(struct asker *a)
{
	jail_leave(a->jail);
	a->jail = NULL;
	process_done(&a->process);
	a->state = ASKER_NONE;
}

void asker_free(struct asker *a)
{
	if (!a)
		return;
	leave_jail(a);
	free(a);
}

const char *asker_topic(const struct asker *a)
{
	return a->place.topic;
}
size_t asker_count(const struct asker *a)
{
	return a->questions.count;
}
bool asker_is_down(const struct asker *a)
{
	return a->down;
}
bool asker_has_room(const struct asker *a, uint64_t bytes, enum question_why why)
{
	return questions_has_room(&a->questions, bytes, why);
}
void asker_put(struct asker *a, struct question *q)
{
	questions_put(&a->questions, q);
}
struct question *asker_take(struct asker *a)
{
	return questions_take(&a->questions);
}

/* Asked to end in peace; what it had not answered is asked of the next one. */
static void end_in_peace(struct asker *a, int64_t now_ns)
{
	questions_return(&a->questions, false, now_ns);
	if (a->state != ASKER_HELLO && a->state != ASKER_READY)
		return;
	process_send(&a->process, span_of("{\"kind\":\"Shutdown\"}\n"));
	process_end_input(&a->process);
	process_io(&a->process);
	process_stop(&a->process, KILL_DRAIN, now_ns, PROCESS_TERM_GRACE_NS);
	a->state = ASKER_ENDING;
	a->again = true;
}

void asker_use(struct asker *a, const struct asker_place *place)
{
	a->place = *place;
	a->process.controller = place->controller->name;
	a->backoff_ns = a->due_ns = 0;
	end_in_peace(a, clock_boottime_ns());
}

/* ---- failing ---- */

static void tell(struct asker *a, enum wire_state state, const char *why)
{
	a->told_down = state != WIRE_STATE_OK;
	a->ops->told(a->place.ctx, a->place.topic, state, why);
}

/* A predicate passes what it was asked; of a map the oldest question is to blame if it was at one. */
static void failed(struct asker *a, int64_t now_ns, const struct err *why)
{
	const char *last = lines_last(&a->process.lines);
	struct err text;
	err_set(&text, -EPROTO, "%s%s%s", why->text, *last ? "; its last line on stderr: " : "", last);
	a->down = true;
	a->backoff_ns = a->backoff_ns ? MIN(a->backoff_ns * 2, BACKOFF_MAX_NS) : BACKOFF_MIN_NS;
	log_warning(a->place.map ? "a program of a map failed; its questions are asked again"
				 : "a program of a predicate failed; events pass until it is back",
		    LOG_S("controller", a->place.controller->name), LOG_S("program", a->place.topic),
		    LOG_S("cause", text.text), LOG_I("questions", a->questions.count),
		    LOG_I("retry_s", a->backoff_ns / NS_PER_S));
	/* First what follows: the cause may be long, and is cut. */
	err_prefix(&text, -EPROTO, a->place.map ? "its events wait" : "events pass meanwhile");
	tell(a, a->place.map ? WIRE_STATE_FAILED : WIRE_STATE_DEGRADED, text.text);
	questions_return(&a->questions, a->state == ASKER_READY, now_ns);
	process_stop(&a->process, KILL_PROTOCOL, now_ns, 0);
	a->state = ASKER_ENDING;
	for (struct question *q; !a->place.map && (q = questions_take(&a->questions));)
		a->ops->unanswered(a->place.ctx, q);
}

/* Nothing of it runs any more. */
static void ended(struct asker *a, int64_t now_ns)
{
	a->state = ASKER_NONE;
	a->due_ns = a->again ? 0 : now_ns + a->backoff_ns;
	a->again = false;
	process_done(&a->process);
}

/* ---- starting ---- */

static int launch(struct asker *a, struct err *err)
{
	const struct config_controller *c = a->place.controller;
	const struct config_reconciler *r = &c->reconciler;
	_cleanup_(hidden_done) struct hidden hidden = {0};
	int rc = hidden_find(&hidden, c, a->program, a->kubeconfig, NULL, err);
	if (rc < 0)
		return rc;
	struct jail_options o = {.work = c->folder,
				 .read_only = (const char *const *)r->read_only_paths,
				 .given = (const char *const *)r->read_write_paths, /* to look at, no more */
				 .hidden = hidden.at,
				 .files = r->limit_files,
				 .processes = r->limit_processes,
				 .data_bytes = a->place.config->max_memory,
				 .without = (const char *const *)r->without};
	return jail_launch(&o, &a->jail, err);
}

static int spawn(struct asker *a, struct err *err)
{
	const struct config_controller *c = a->place.controller;
	_cleanup_(environment_done) struct environment env = {0};
	environment_build(&env, c, NULL, NULL);
	int rc = process_start(&a->process, a->jail, (const char *const *)a->place.config->command,
			       (const char *const *)env.at, err);
	if (rc < 0)
		return rc;
	a->process.controller = c->name;
	hello_say(&a->process, c->name, "");
	return 0;
}

static void step_none(struct asker *a, int64_t now_ns)
{
	struct err why = {0};
	if (now_ns < a->due_ns || a->process.state == PROCESS_STARTING || a->process.state == PROCESS_RUNNING)
		return;
	if (!a->jail && launch(a, &why) < 0) {
		failed(a, now_ns, &why);
		ended(a, now_ns);
		return;
	}
	a->state = ASKER_JAIL;
}

static void step_jail(struct asker *a, int64_t now_ns)
{
	struct err why = {0};
	int rc = jail_ready(a->jail, &why);
	if (rc == 0)
		return;
	if (rc > 0)
		rc = spawn(a, &why);
	if (rc < 0) {
		failed(a, now_ns, &why);
		leave_jail(a);
		ended(a, now_ns);
		return;
	}
	a->answers = 0;
	a->due_ns = now_ns + a->place.config->startup_timeout_ns;
	a->slow_ns = now_ns + HELLO_SLOW_NS;
	a->state = ASKER_HELLO;
}

static void tell_slow(struct asker *a)
{
	struct err text;
	a->slow_ns = INT64_MAX;
	if (a->down) /* which says more */
		return;
	hello_slow(a->place.config->command[0], a->place.config->startup_timeout_ns, &text);
	err_prefix(&text, 0, "its events wait");
	tell(a, WIRE_STATE_WAITING, text.text);
}

static void step_hello(struct asker *a, int64_t now_ns)
{
	struct hello expected = {.controller = a->place.controller,
				 .what = "program",
				 .command = a->place.config->command[0],
				 .timeout_ns = a->place.config->startup_timeout_ns,
				 .end_ns = a->due_ns};
	struct err why = {0};
	int rc = hello_hear(&a->process, &expected, now_ns, &why);
	if (rc < 0)
		failed(a, now_ns, &why);
	else if (rc == 0 && now_ns >= a->slow_ns)
		tell_slow(a);
	if (rc <= 0)
		return;
	log_info("program is ready", LOG_S("controller", a->place.controller->name),
		 LOG_S("program", a->place.topic),
		 LOG_I("startup_ms", (now_ns - a->process.started_ns) / NS_PER_MS));
	a->state = ASKER_READY;
	a->down = false;
	if (a->told_down && !a->questions.count) /* else its next answer says so */
		tell(a, WIRE_STATE_OK, "");
	a->ready_ns = now_ns;
	a->check_ns = now_ns + CHECK_NS;
}

/* ---- questions and answers ---- */

/* Something waits, and may be asked now. */
static bool may_ask(const struct asker *a)
{
	return a->state == ASKER_READY && a->questions.waiting.first &&
	       a->questions.n_asked < QUESTIONS_AHEAD && a->process.in >= 0 &&
	       a->process.to.len - a->process.to_sent < AHEAD_BYTES;
}

static void ask(struct asker *a, int64_t now_ns)
{
	const struct question_form form = {.map = a->place.map,
					   .controller = a->place.controller->name,
					   .api_version = a->place.source->api_version,
					   .kind = a->place.source->kind};
	questions_wake(&a->questions, now_ns);
	while (may_ask(a)) {
		const struct question *q = questions_next(&a->questions, now_ns);
		_cleanup_(buf_done) struct buf line = {0};
		question_print(q, &form, &line);
		process_send(&a->process, buf_span(&line));
	}
	process_io(&a->process);
}

/* False: it said what is no answer. */
static bool hear(struct asker *a, struct span line, int64_t now_ns)
{
	struct question_answer answer;
	struct err why = {0};
	int rc = question_answer_read(line, a->place.map, a->ops->scope(a->place.ctx), &answer, &why);
	struct question *q = rc == 0 ? questions_answered(&a->questions, answer.number, now_ns) : NULL;
	if (rc == 0 && !q)
		err_set(&why, -EPROTO, "it answered a question of uid %llu, which it is not asked now",
			(unsigned long long)answer.number);
	process_drop_line(&a->process, line);
	if (q) {
		lines_forget(&a->process.lines);
		a->answers++;
		a->backoff_ns = 0;
		if (a->told_down)
			tell(a, WIRE_STATE_OK, "");
		a->ops->answered(a->place.ctx, q, &answer);
	} else {
		failed(a, now_ns, &why);
	}
	question_answer_done(&answer);
	return q;
}

static bool is_too_large(struct asker *a, int64_t now_ns)
{
	struct usage usage;
	if (now_ns < a->check_ns)
		return false;
	a->check_ns = now_ns + CHECK_NS;
	usage_below(jail_init_pid(a->jail), &usage);
	return usage.memory_bytes > a->place.config->max_memory;
}

/* Ended by itself. Between questions it may, once it has been of use: each start costs time. */
static void gone(struct asker *a, int64_t now_ns)
{
	char said[64];
	struct err why;
	bool of_use = a->answers || now_ns - a->ready_ns >= STEADY_NS;
	if (!questions_oldest(&a->questions) && of_use) {
		log_warning("a program ended between questions; it is started again",
			    LOG_S("controller", a->place.controller->name), LOG_S("program", a->place.topic),
			    LOG_S("exit", ending_text(a->process.wait_status, said)));
		a->again = true;
		a->state = ASKER_ENDING;
		return;
	}
	err_set(&why, -EPROTO, "it ended %s (%s)",
		questions_oldest(&a->questions) ? "without having answered" : "after its Hello",
		ending_text(a->process.wait_status, said));
	failed(a, now_ns, &why);
}

static int64_t answer_end_ns(const struct asker *a)
{
	const struct question *oldest = questions_oldest(&a->questions);
	return oldest ? oldest->since_ns + a->place.config->timeout_ns : INT64_MAX;
}

static void step_ready(struct asker *a, int64_t now_ns)
{
	struct err why = {0};
	struct span line;
	ask(a, now_ns);
	for (int i = 0; i < LINES_PER_RUN && (line = process_line(&a->process)).at; i++)
		if (text_is_blank(line))
			process_drop_line(&a->process, line);
		else if (!hear(a, line, now_ns))
			return;
	a->more = process_line(&a->process).at;
	if (a->more)
		return;
	if (a->process.overflow)
		err_set(&why, -EPROTO, "stdout: more than %llu MiB at once",
			(unsigned long long)(PROCESS_STDOUT_MAX >> 20));
	else if (a->process.in < 0 && a->process.state == PROCESS_RUNNING)
		err_set(&why, -EPROTO, "it closed its stdin");
	else if (now_ns >= answer_end_ns(a))
		err_set(&why, -EPROTO, "it did not answer within its timeout (%.3g s)",
			(double)a->place.config->timeout_ns / (double)NS_PER_S);
	else if (is_too_large(a, now_ns))
		err_set(&why, -EPROTO, "it was above its maxMemory (%llu MiB)",
			(unsigned long long)(a->place.config->max_memory >> 20));
	if (*why.text)
		failed(a, now_ns, &why);
	else if (a->process.state == PROCESS_ENDED)
		gone(a, now_ns);
	else
		ask(a, now_ns); /* what answers have made room for */
}

/* ---- the loop's part ---- */

static void jail_events(struct asker *a, int64_t now_ns)
{
	struct jail_event e;
	if (!a->jail || a->state == ASKER_JAIL || a->state == ASKER_NONE) {
		if (a->jail && a->state == ASKER_NONE && jail_next(a->jail, &e) > 0)
			leave_jail(a); /* it went while nothing ran in it */
		return;
	}
	process_io(&a->process);
	bool lost = false;
	while (!lost && jail_next(a->jail, &e) > 0) {
		process_event(&a->process, &e);
		lost = e.type == JAIL_EVENT_GONE;
	}
	if (lost || process_tick(&a->process, now_ns) < 0) {
		struct err why;
		err_set(&why, -EPROTO, "its jail is gone%s%s", lost && *e.text ? ": " : "",
			lost ? e.text : "");
		if (a->state != ASKER_ENDING)
			failed(a, now_ns, &why);
		leave_jail(a);
		ended(a, now_ns);
	}
}

/* Most programs have nothing to say most of the time. */
static bool is_quiet(const struct asker *a, int64_t now_ns)
{
	struct pollfd fds[ASKER_FDS];
	return now_ns < asker_due_ns(a) && poll(fds, (nfds_t)asker_poll(a, fds), 0) == 0;
}

void asker_run(struct asker *a, int64_t now_ns)
{
	enum state before;
	if (is_quiet(a, now_ns))
		return;
	jail_events(a, now_ns);
	do {
		before = a->state;
		switch (a->state) {
		case ASKER_NONE:
			step_none(a, now_ns);
			break;
		case ASKER_JAIL:
			step_jail(a, now_ns);
			break;
		case ASKER_HELLO:
			step_hello(a, now_ns);
			break;
		case ASKER_READY:
			step_ready(a, now_ns);
			break;
		case ASKER_ENDING:
			if (a->process.state == PROCESS_ENDED || a->process.state == PROCESS_NONE)
				ended(a, now_ns);
			break;
		}
	} while (a->state != before);
}

int64_t asker_due_ns(const struct asker *a)
{
	int64_t due = process_timer(&a->process);
	switch (a->state) {
	case ASKER_NONE:
		return MIN(due, a->due_ns);
	case ASKER_HELLO:
		return MIN(due, MIN(a->due_ns, a->slow_ns));
	case ASKER_JAIL:
		return MIN(due, jail_start_end_ns(a->jail));
	case ASKER_READY:
		due = MIN(due, a->more || may_ask(a) ? 0 : answer_end_ns(a));
		due = MIN(due, questions_due_ns(&a->questions));
		return questions_oldest(&a->questions) ? MIN(due, a->check_ns) : due;
	case ASKER_ENDING:
		break;
	}
	return due;
}

size_t asker_poll(const struct asker *a, struct pollfd *fds)
{
	if (!a->jail)
		return 0;
	fds[0] = (struct pollfd){jail_fd(a->jail), POLLIN, 0};
	return 1 + process_poll(&a->process, fds + 1);
}
