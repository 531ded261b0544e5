/* How an attempt ended, and what that means for its key: the table of exit statuses of
 * docs/reconciler-protocol.md. Pure. */
#pragma once
#include "process.h"
#include "wire.h"

enum { REASON_MAX = 128, MESSAGE_MAX = 1024 }; /* bytes; the limits of DONE in wire.def */

/* What DONE says of an attempt. */
struct result {
	enum wire_outcome outcome;
	int64_t requeue_after_ms; /* -1: none. OK: requeueAfter; others: retryAfter */
	bool requeue;
	bool has_priority;
	int64_t priority;
	bool pause_controller;
	char reason[REASON_MAX + 1];
	char message[MESSAGE_MAX + 1];
};

/* Success, nothing to come. */
void result_init(struct result *r);
/* Another outcome; keeps a requeue_after_ms that is there only for NOT_READY, THROTTLED and TRANSIENT. Text
 * is cut at a character. */
void result_set(struct result *r, enum wire_outcome outcome, const char *reason, const char *fmt, ...)
    _printf_(4, 5);

/* Puts more behind the message: what is too long loses its beginning, for the end of a program's output says
 * most. */
void result_add(struct result *r, const char *before, struct span text);

/* What the exit of the program says before its answer is looked at: `r` is OK for status 0, else outcome,
 * reason and a first message ("exit status 3", "killed by SIGSEGV"). */
void outcome_of_ending(const struct ending *e, struct result *r);
/* May the answer of a program that ended so still count? True for status 0 and for those that stand for an
 * error of the program's own. */
bool outcome_reads_answer(enum wire_outcome outcome);
/* 65, 75 and 78 stand for an error whose status, conditions and events are written even if the answer has no
 * `error`. */
bool outcome_is_exit_code_error(int wait_status);
