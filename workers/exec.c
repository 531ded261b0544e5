#include "exec.h"
#include "exec_cause.h"

int exec_start(struct process *p, struct jail *j, const struct config_controller *c,
	       const struct environment *env, struct span request, struct err *err)
{
	int r = process_start(p, j, (const char *const *)c->reconciler.command, (const char *const *)env->at,
			      err);
	if (r < 0)
		return r;
	process_send(p, request);
	process_end_input(p);
	return 0;
}

bool exec_step(struct process *p, int64_t now_ns)
{
	if (p->overflow)
		process_stop(p, KILL_PROTOCOL, now_ns, 0);
	return p->state == PROCESS_ENDED;
}

static void add_last_lines(struct process *p, struct result *r)
{
	_cleanup_(buf_done) struct buf tail = {0};
	lines_tail(&p->lines, &tail);
	result_add(r, "; last lines: ", buf_span(&tail));
}

static void exec_failed(const struct config_controller *c, const struct environment *env, int error,
			struct result *r)
{
	char cause[MESSAGE_MAX];
	exec_cause(c, c->reconciler.command[0], environment_get(env, "PATH"), error, cause, sizeof(cause));
	result_set(r, WIRE_OUTCOME_EXEC_FAILED, "ExecFailed", "%s", cause);
}

/* A program that ended by itself and whose outcome may be changed by its answer. True: write the answer. */
static bool read_answer(struct process *p, const struct answer_rules *rules, struct answer *answer,
			struct result *r)
{
	struct err why = {0};
	bool success = r->outcome == WIRE_OUTCOME_OK;
	int bad = answer_parse(process_unread(p), rules, answer, &why);
	if (bad < 0) {
		if (success)
			result_set(r, WIRE_OUTCOME_PROTOCOL_ERROR, "ProtocolError", "%s", why.text);
		else
			add_last_lines(p, r);
		return false;
	}
	if (success || answer->has_error) {
		char said[MESSAGE_MAX + 1];
		memcpy(said, r->message, sizeof(said));
		answer_result(answer, r);
		if (!r->message[0] && !success)
			memcpy(r->message, said, sizeof(said));
		return true;
	}
	add_last_lines(p, r);
	if (outcome_is_exit_code_error(p->wait_status) && !answer->empty)
		return true;
	answer_done(answer);
	return false;
}

bool exec_finish(struct process *p, const struct config_controller *c, const struct environment *env,
		 const struct answer_rules *rules, struct answer *answer, struct result *r)
{
	result_init(r);
	if (p->exec_error) {
		exec_failed(c, env, p->exec_error, r);
		return false;
	}
	struct ending e = process_ending(p, c->reconciler.max_memory);
	e.timeout_ns = c->reconciliation_timeout_ns;
	e.limit_cpu_ns = c->reconciler.limit_cpu_ns;
	outcome_of_ending(&e, r);
	if (p->killed == KILL_PROTOCOL || (p->overflow && p->killed == KILL_NONE)) {
		result_set(r, WIRE_OUTCOME_PROTOCOL_ERROR, "ProtocolError", "stdout: more than %llu MiB",
			   (unsigned long long)(PROCESS_STDOUT_MAX >> 20));
		return false;
	}
	if (outcome_reads_answer(r->outcome))
		return read_answer(p, rules, answer, r);
	add_last_lines(p, r);
	return false;
}
