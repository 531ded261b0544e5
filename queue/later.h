/* Inside of the workqueue: adds for a later time. It is the slot's ready_at, or the detail's timer where that one has another meaning: of a key
 * that settles (it is what the outcome asked for), and of a DIRTY one, whose other adds may turn out to be its attempt's own. */
#pragma once
#include "change.h"

/* Is a key in this state to run as soon as it may, so that no later time matters? */
bool later_is_now(enum shm_state state);
/* An add with a delay, which has moved the key already. */
void later_add(struct change *ch, const struct wire_add_key *key, bool changed, int64_t at);
/* An add without one has moved the key, which keeps the time. */
void later_keep(struct change *ch);
/* Takes away what only a request waits for; a retry, an event and quarantine stay. */
void later_cancel(struct workqueue *wq, uint32_t slot, int64_t now);
/* The earlier of the time and of what the outcome asks for: at the end of the attempt, and of the hold after it. */
void later_plan(struct attempt_plan *p, int64_t delay);
void later_held(struct change *ch);
