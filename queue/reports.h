/* What processes want known about themselves or a controller, for `reconcilectl status`. At most REPORTS_MAX;
 * the oldest goes first. */
#pragma once
#include "buf.h"
#include "wire.h"

enum { REPORTS_MAX = 512 };

struct report {
	char process[84], controller[64], topic[304], message[1028];
	uint32_t state; /* enum wire_state */
	int64_t since;	/* CLOCK_BOOTTIME: when it came into this state */
};

struct reports {
	struct report *at; /* oldest first */
	size_t len;
};

/* Replaces the last one of {process, controller, topic}; state OK removes it. */
void reports_set(struct reports *rs, const char *process, struct span controller, struct span topic,
		 uint32_t state, struct span message);
/* A new process of that name starts: what the old one said is over. */
void reports_forget(struct reports *rs, const char *process);
/* The controller is gone. */
void reports_forget_controller(struct reports *rs, const char *controller);
/* Only those stay whose controller keep() wants, and those of no controller. */
void reports_keep(struct reports *rs, bool (*keep)(void *ctx, const char *controller), void *ctx);
/* The next one, from *at on, by which something of the controller stands still: failed or waiting. NULL: none. */
const struct report *reports_next_still(const struct reports *rs, const char *process, const char *controller,
					size_t *at);
void reports_json(const struct reports *rs, struct buf *out);
