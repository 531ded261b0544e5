/* When a credential plugin is asked, and what a request does meanwhile. Pure: the clock (BOOTTIME, ns) is passed
 * in.
 *
 *   - one run serves everybody; while it runs, a credential that is still good is used
 *   - asked when somebody needs a credential and there is none, it is over, or the server refused it (401); and,
 *     when it was used, before its end: after 4/5 of its life, a little earlier by chance, 1 min before the end
 *     at most
 *   - a credential that was over when it came (a clock is wrong) is used for EXEC_LIFE_MIN_NS all the same
 *   - after a failed run, and after one whose credential was refused too, the next one waits: 1 s doubling to
 *     1 min. Until then a credential that is not over is used, and without one requests fail at once. */
#pragma once
#include "base.h"

#define EXEC_LIFE_MIN_NS (10 * NS_PER_S)

struct exec_schedule {
	bool running;
	bool have;	    /* a credential came, and may be over by now */
	bool refused;	    /* by the server, and none came since */
	bool used;	    /* since it came */
	int64_t expires_ns; /* of what we have; INT64_MAX: never */
	int64_t refresh_ns; /* a new one is fetched from then on, if it is used */
	int64_t retry_ns;   /* no run starts before */
	unsigned failures;  /* runs in a row */
	unsigned refusals;  /* of credentials that no server has accepted in between */
};

enum exec_need {
	EXEC_USE,
	EXEC_WAIT,
	EXEC_FAIL
}; /* WAIT: for a run, which is under way or is to be started */

/* What a request does now. */
enum exec_need exec_schedule_need(const struct exec_schedule *s, int64_t now_ns);
/* Is a run to be started? needed: a request waits. */
bool exec_schedule_wants_run(const struct exec_schedule *s, bool needed, int64_t now_ns);
/* When to ask again although nobody waits; INT64_MAX: never. */
int64_t exec_schedule_due_ns(const struct exec_schedule *s);

void exec_schedule_started(struct exec_schedule *s, int64_t now_ns);
/* life_ns: INT64_MAX: for ever; random: [0, 1). True if the credential was over already, or nearly. */
bool exec_schedule_got(struct exec_schedule *s, int64_t life_ns, double random, int64_t now_ns);
void exec_schedule_failed(struct exec_schedule *s, int64_t now_ns);
/* The server refused what it was given last. True if it is worth to wait for a new one. */
bool exec_schedule_refused(struct exec_schedule *s, int64_t now_ns);
void exec_schedule_accepted(struct exec_schedule *s);
