#include "state.h"

static const uint8_t table[SHM_STATE_COUNT][STATE_EVENT_COUNT] = {
#define X(STATE, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                             \
	[SHM_STATE_##STATE] = {SHM_STATE_##a, SHM_STATE_##b, SHM_STATE_##c, SHM_STATE_##d,                   \
			       SHM_STATE_##e, SHM_STATE_##f, SHM_STATE_##g, SHM_STATE_##h,                   \
			       SHM_STATE_##i, SHM_STATE_##j, SHM_STATE_##k, SHM_STATE_##l,                   \
			       SHM_STATE_##m, SHM_STATE_##n, SHM_STATE_##o, SHM_STATE_##p},
    STATE_TABLE(X)
#undef X
};

enum shm_state state_next(enum shm_state from, enum state_event event)
{
	return table[from][event];
}

const char *state_event_name(enum state_event event)
{
	static const char *const names[] = {
#define X(NAME) #NAME,
	    STATE_EVENTS(X)
#undef X
	};
	return names[event];
}
