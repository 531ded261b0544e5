#include "queue/state.h"
#include <criterion/criterion.h>

/* Every cell was written down; the ones that cannot happen are exactly these. */
Test(state, table_is_total)
{
	static const char *const impossible[SHM_STATE_COUNT] = {
	    [SHM_STATE_NONE] = "GRANT FINISH DELAY HOLD PARK RETURN SETTLE DUE CLEAR DROP OWN",
	    [SHM_STATE_READY] = "FINISH DELAY HOLD PARK RETURN SETTLE DUE OWN",
	    [SHM_STATE_WAITING] = "GRANT FINISH DELAY HOLD PARK RETURN SETTLE OWN",
	    [SHM_STATE_RUNNING] = "GRANT DUE OWN",
	    [SHM_STATE_DIRTY] = "GRANT DUE",
	    [SHM_STATE_TIMED] = "GRANT OWN",
	    [SHM_STATE_QUARANTINED] = "GRANT FINISH DELAY HOLD PARK RETURN SETTLE OWN",
	    [SHM_STATE_SETTLING] = "GRANT PARK RETURN SETTLE DUE OWN",
	    [SHM_STATE_SETTLING_DIRTY] = "GRANT PARK RETURN SETTLE DUE OWN",
	};
	for (int s = 0; s < SHM_STATE_COUNT; s++)
		for (int e = 0; e < STATE_EVENT_COUNT; e++) {
			enum shm_state to = state_next((enum shm_state)s, (enum state_event)e);
			bool bug = strstr(impossible[s], state_event_name((enum state_event)e)) != NULL;
			cr_assert((to == SHM_STATE_BUG) == bug, "%s x %s", shm_state_name((uint32_t)s),
				  state_event_name((enum state_event)e));
			cr_assert(to <= SHM_STATE_BUG);
		}
}

Test(state, only_grant_leads_to_running_and_only_an_end_leads_out)
{
	for (int s = 0; s < SHM_STATE_COUNT; s++)
		for (int e = 0; e < STATE_EVENT_COUNT; e++) {
			enum shm_state to = state_next((enum shm_state)s, (enum state_event)e);
			bool was = SHM_LEASED(s);
			bool is = SHM_LEASED(to);
			bool ends = e >= STATE_EVENT_FINISH && e <= STATE_EVENT_SETTLE;
			if (!was && is)
				cr_assert(e == STATE_EVENT_GRANT);
			if (was && !is && to != SHM_STATE_BUG)
				cr_assert(ends, "%s ended a lease", state_event_name((enum state_event)e));
		}
}

Test(state, an_add_is_never_lost)
{
	for (int s = 0; s < SHM_STATE_COUNT; s++)
		for (int e = STATE_EVENT_ADD; e <= STATE_EVENT_AFTER; e++)
			cr_assert(state_next((enum shm_state)s, (enum state_event)e) != SHM_STATE_NONE);
	cr_assert(state_next(SHM_STATE_DIRTY, STATE_EVENT_FINISH) == SHM_STATE_READY);
	cr_assert(state_next(SHM_STATE_SETTLING_DIRTY, STATE_EVENT_FINISH) == SHM_STATE_READY);
}
