/* Inside of the workqueue: the hold after an attempt that wrote something (SETTLING), and the adds that an attempt caused itself. */
#pragma once
#include "change.h"

/* The events of the pending part of a leased key are kept while they are so few that each may be the attempt's own; more than that are
 * somebody else's. */
enum { HOLD_EVENTS = 4 };

/* ---- an add ---- */

/* A SETTLING key: does the add tell of nothing but what its attempt wrote? */
bool hold_shows_own(const struct workqueue *wq, const struct shm_slot *s, const struct wire_add_key *key);
/* A leased key: does its pending part hold only events that may be its attempt's own? Then each add is remembered. */
bool hold_may_be_own(const struct shm_slot *s);
void hold_remember_event(struct workqueue *wq, struct change *ch, const struct wire_add_key *key);

/* ---- the end of an attempt ---- */

/* Nothing is pending: all but the time and the priority. */
void hold_forget_pending(struct workqueue *wq, struct change *ch);

/* A pending part that holds nothing but the attempt's own events is forgotten: the key is RUNNING then. */
void hold_forget_own(struct workqueue *wq, struct change *ch, const struct wire_done *done);
/* Did it write what a watch shows? */
bool hold_is_due(const struct wire_done *done);
/* The detail of a key that is SETTLING now. timer: of an add for a later time; 0: none. */
void hold_begin(struct workqueue *wq, struct change *ch, const struct wire_done *done, int64_t timer,
		int64_t now);

/* ---- the hold ---- */

/* For change_index: whom the key waits for. */
void hold_index(struct workqueue *wq, uint32_t slot);
/* It is over; in_vain: by its time. What the attempt's end has planned follows. */
void hold_end(struct workqueue *wq, uint32_t slot, bool in_vain, int64_t now);
