/* Which worker a process is: the region has its pid only, the broker knows its name. */
#pragma once
#include "ctl.h"
#include "queue_read.h"

struct who {
	struct json *status; /* the broker's answer; NULL: there was none */
};

/* Asks the broker, if there is one, for at most half a second: who is an addition to what is shown, no part of it. */
void who_ask(const struct ctl *c, struct who *ret);
void who_done(struct who *w);
/* The instance ("website.1") of the worker that was process `pid` at that time (CLOCK_BOOTTIME ns); it lives as long as w.
 * NULL: not known, or that process has ended and another one may have its number. */
const char *who_was(const struct who *w, uint32_t pid, int64_t at);
/* Of the worker that has the key; NULL also when nobody has it. */
const char *who_has(const struct who *w, const struct queue_key *k);
