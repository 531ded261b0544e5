/* The life of a key as a total function. Pure. */
#pragma once
#include "shm_queue.h"
#include "state.def"

enum state_event {
#define X(NAME) STATE_EVENT_##NAME,
	STATE_EVENTS(X)
#undef X
	    STATE_EVENT_COUNT
};

/* What a cell that cannot happen holds: reaching it is a bug of the broker, which ends the process (a fresh
 * one recovers). */
#define SHM_STATE_BUG SHM_STATE_COUNT

/* SHM_STATE_BUG for a cell that cannot happen. */
enum shm_state state_next(enum shm_state from, enum state_event event);
const char *state_event_name(enum state_event event);
