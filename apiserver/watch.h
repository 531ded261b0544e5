/* One WATCH: what it has told its client, and what is next. Belongs to one thread; takes the store's lock by
 * itself. */
#pragma once
#include "call.h"

enum watch_result {
	WATCH_DATA, /* something was added to the buffer */
	/* nothing until the time in *ret_until, or until watch_wait says that something happened */
	WATCH_IDLE,
	WATCH_END, /* close the stream (after what was added) */
};

void watch_free(struct watch *w);
/* Adds the next few events, one JSON object a line. now: CLOCK_MONOTONIC, ns; wall: seconds since the epoch,
 * for ages. */
enum watch_result watch_step(struct watch *w, struct buf *out, int64_t now, int64_t wall, int64_t *ret_until);
/* Waits until there may be something new, at most until the time `until` (CLOCK_MONOTONIC). */
void watch_wait(struct watch *w, int64_t until);
int64_t watch_clock(void);
