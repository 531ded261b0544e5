/* How a program that lives on is greeted: docs/reconciler-protocol.md, "coprocess". One Hello each way before any request. */
#pragma once
#include "config.h"
#include "process.h"

struct hello {
	const struct config_controller *controller;
	char *const *given;	    /* of its environment, beside the controller's; may be NULL */
	const char *what;	    /* for messages: "reconciler" */
	const char *command;	    /* argv[0] as configured */
	bool may_be_exec;	    /* it may have been written for `exec:`; messages say so */
	int64_t timeout_ns, end_ns; /* how long it may take, and until when (CLOCK_BOOTTIME) */
};

#define HELLO_SLOW_NS (1 * NS_PER_S) /* then people are told what is waited for */

/* Sends ours. capabilities: the members of a JSON list, "\"cancel\",\"read\"". */
void hello_say(struct process *p, const char *controller, const char *capabilities);
/* Looks at what has come: 1 its Hello, which is taken; 0 not yet; -EPROTO: other words, its end, or too late; err says which,
 * and the program is the caller's to end. */
int hello_hear(struct process *p, const struct hello *h, int64_t now_ns, struct err *err);
/* The text for one that has not said its Hello after HELLO_SLOW_NS. */
void hello_slow(const char *command, int64_t timeout_ns, struct err *ret);
