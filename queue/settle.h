/* Keys that are held after an attempt until the watch shows what it wrote (SETTLING), and which events are an attempt's own. Pure; private to
 * the broker, rebuilt from the slots at a start.
 *
 * A key waits for the highest version of each stream that its attempt wrote to. A version is passed when the watcher says so of its stream:
 * versions are ordered only there. */
#pragma once
#include "shm_queue.h"

/* The longest that a key is held: a watch that hangs must not hold the work for ever. */
#define SETTLE_MOST (5 * NS_PER_S)

enum { SETTLE_NONE = UINT32_MAX };

struct settle_stream;
struct settle_key;
struct settle {
	struct settle_stream *streams; /* that somebody waits for */
	struct settle_key **buckets;   /* by slot */
	uint32_t mask, keys;
	bool news; /* a version is awaited that settle_awaited has not told yet */
};

void settle_init(struct settle *s);
void settle_done(struct settle *s);

/* The slot, which waits for nothing yet, waits for these. count 0: for its time alone. */
void settle_add(struct settle *s, uint32_t slot, const struct shm_event *writes, size_t count);
/* It waits no more, whatever it waited for. */
void settle_remove(struct settle *s, uint32_t slot);
/* The stream has come to this place. A slot that waits for nothing more, and has been removed; SETTLE_NONE: there is none (left). */
uint32_t settle_passed(struct settle *s, const struct wire_place *place);
/* The places that are waited for and were not told before, at most max; returns how many. What is left makes news again. */
size_t settle_awaited(struct settle *s, struct wire_place *out, size_t max);
/* Another watcher: it was told nothing. */
void settle_untell(struct settle *s);

/* ---- own events ---- */

/* The writes of DONE, as they are kept: at most SHM_EVENTS_MAX. */
size_t settle_writes(const struct wire_done *done, struct shm_event out[SHM_EVENTS_MAX]);
/* Does one of the writes show as exactly this event? */
bool settle_is_own(const struct shm_event *writes, size_t count, const struct shm_event *event);
