/* A reconciler that is one process per attempt: request on stdin and EOF, answer on stdout, its end is the
 * attempt's end. */
#pragma once
#include "answer.h"
#include "environment.h"
#include "process.h"

/* request: the line. env: for this key. */
int exec_start(struct process *p, struct jail *j, const struct config_controller *c,
	       const struct environment *env, struct span request, struct err *err);
/* Enforces the bound on stdout; call after process_io. True: the process has ended, exec_finish may be
 * called. */
bool exec_step(struct process *p, int64_t now_ns);
/* What the ended process comes to. r gets outcome, reason and message. True: `answer` was filled in and has
 * to be written (and freed): the process said success, or an error whose status, conditions and events are to
 * be written. rules->uid is the request's. */
bool exec_finish(struct process *p, const struct config_controller *c, const struct environment *env,
		 const struct answer_rules *rules, struct answer *answer, struct result *r);
