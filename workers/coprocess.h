/* A reconciler that lives on: newline-delimited JSON both ways, docs/reconciler-protocol.md, "coprocess".
 *
 *   NONE --start--> HELLO --its Hello--> READY --request--> BUSY --its answer--> READY
 *                     |                    |                  |
 *                     +-- died, late, other words: FAILED ----+-- died, late, other words: the attempt's
 * outcome */
#pragma once
#include "answer.h"
#include "environment.h"
#include "process.h"
#include "read.h"

enum coprocess_state { COPROCESS_NONE, COPROCESS_HELLO, COPROCESS_READY, COPROCESS_BUSY, COPROCESS_FAILED };

struct coprocess {
	enum coprocess_state state;
	const struct config_controller *controller; /* borrowed */
	struct process *process;		    /* borrowed; its jail runs nothing else */
	struct reads *reads;			    /* borrowed: what it may read */
	char *const *given;			    /* borrowed: of its environment; may be NULL */
	pid_t root;				    /* the jail's init, for what the tree uses */
	uint32_t requests;			    /* answered */
	int64_t hello_end_ns, check_ns;		    /* end of startupTimeout; next look at memory and CPU */
	int64_t slow_ns;      /* HELLO: then it is told to be slow; INT64_MAX: is told */
	int64_t ready_ns;     /* when its Hello came; 0: not yet */
	int64_t cpu_start_ns; /* of the tree when the request began */
	bool recycle;	      /* end it before the next request */
	bool mute;	      /* BUSY, its time was up: its stdout was closed by then */
	char uid[33];	      /* BUSY */
	struct span answer;   /* BUSY, complete: a line in process->from */
	bool answered;
	bool more;	/* lines that came are not heard yet: step again at once, after a look at the time */
	struct err bad; /* text set: what it said against the protocol, or why it FAILED */
};

void coprocess_init(struct coprocess *k, const struct config_controller *c, struct process *p,
		    struct reads *reads, char *const *given);
/* Spawns it and says Hello; state HELLO. Negative: could not even be tried. */
int coprocess_start(struct coprocess *k, struct jail *j, struct err *err);
/* Sends a request; the state must be READY. */
void coprocess_request(struct coprocess *k, const char *uid, struct span request, int64_t now_ns);
/* Looks at what came, answers reads, enforces limits; call after process_io. */
void coprocess_step(struct coprocess *k, int64_t now_ns);
/* BUSY: is the attempt over (answered, ended or refused)? */
bool coprocess_over(const struct coprocess *k);
/* BUSY, the time is up: Cancel, then SIGTERM, and later SIGKILL. */
void coprocess_cancel(struct coprocess *k, enum kill_cause why, int64_t now_ns);
/* As exec_finish. Afterwards the state is READY, or NONE if it has ended or is being ended. */
bool coprocess_finish(struct coprocess *k, const struct answer_rules *rules, struct answer *answer,
		      struct result *r);
/* Shutdown and EOF; then SIGTERM and SIGKILL by process_stop as the caller likes. */
void coprocess_shutdown(struct coprocess *k);
/* When coprocess_step wants to be called at the latest; INT64_MAX: no need. */
int64_t coprocess_timer(const struct coprocess *k);
