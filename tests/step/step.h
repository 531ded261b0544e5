/* The stepped broker: a workqueue on a region file, whose every transition is cut after each of its stores. */
#pragma once
#include "left.h"
#include "trap.h"

struct step_options {
	uint64_t cut;	      /* 0: all; else only this one, told in full */
	unsigned part, parts; /* cuts with number % parts == part are looked at */
	bool want_violation;  /* the process ends at the first one */
};

struct step_totals { /* shared between the parts */
	uint64_t transitions, stores, cuts, resent, recoveries_cut, drained, reads, violations;
};

struct live {
	struct started s;
	int64_t now;
	uint64_t generation; /* the highest that was granted so far */
};
extern struct live live;

void step_open(const char *folder, const struct step_options *o, struct step_totals *totals);
void step_close(void);
/* Between these, every store into the region is a cut. what: for messages. whole: it is one transition, so a
 * cut is before or after it; else each key and row by itself is. */
void step_begin(const char *what, bool whole);
void step_end(void);
/* The running transition is this DONE: after each cut it is sent again, twice. */
void step_resend(const struct wire_done *done);
/* Killed (between two transitions) and started again. */
void step_restart(void);
/* Number of violations so far. */
uint64_t step_violations(void);
void step_violation(const char *fmt, ...) _printf_(1, 2);

/* history_test.c: the history, and whether it has taken every arrow of queue/state.def. */
void step_history(void);
bool step_all_arrows(void);
