#include "pause.h"
#include "program.h"

bool pause_lets(const struct shm_controller *c, uint32_t running, int64_t now)
{
	if (c->held_since)
		return false;
	return c->pause == SHM_PAUSE_NONE ||
	       (now >= c->pause_until && (c->pause == SHM_PAUSE_THROTTLED || running == 0));
}

int64_t pause_next(const struct shm_controller *c, int64_t now)
{
	return !c->held_since && c->pause != SHM_PAUSE_NONE && c->pause_until > now ? c->pause_until
										    : INT64_MAX;
}

static void forget_crashes(struct shm_controller *c)
{
	c->crashed_count = 0;
	memset(c->crashed, 0, sizeof(c->crashed));
}

static void end(struct shm_controller *c)
{
	c->pause = SHM_PAUSE_NONE;
	c->pause_since = c->pause_until = c->pause_delay = 0;
	memset(c->pause_message, 0, sizeof(c->pause_message));
}

void pause_clear(struct shm_controller *c)
{
	end(c);
	forget_crashes(c);
}

bool pause_granted(struct shm_controller *c, int64_t now)
{
	if (c->pause == SHM_PAUSE_NONE)
		return false;
	if (c->pause == SHM_PAUSE_THROTTLED)
		end(c);
	else
		c->pause_until = now + c->pause_delay;
	return true;
}

static void begin(struct shm_controller *c, enum shm_pause why, int64_t delay, struct span message,
		  int64_t now)
{
	/* Attempts that were out already when the first of them failed say nothing new. */
	c->pause = (uint32_t)why;
	c->pause_since = now;
	c->pause_delay = delay;
	c->pause_until = now + delay;
	memset(c->pause_message, 0, sizeof(c->pause_message));
	if (message.len)
		memcpy(c->pause_message, message.at, MIN(message.len, sizeof(c->pause_message) - 1));
}

static void not_started(struct shm_controller *c, int64_t granted_at, struct span message, int64_t now)
{
	if (c->pause != SHM_PAUSE_START) {
		begin(c, SHM_PAUSE_START, PAUSE_START_FIRST, message, now);
	} else if (granted_at > c->pause_since) {
		int64_t since = c->pause_since;
		begin(c, SHM_PAUSE_START, MIN(c->pause_delay * 2, PAUSE_START_MOST), message, now);
		c->pause_since = since;
	}
}

static void crashed(struct shm_controller *c, uint64_t key, struct span message, int64_t now)
{
	bool known = false;
	for (uint32_t i = 0; i < c->crashed_count; i++)
		known |= c->crashed[i] == key;
	if (!known && c->crashed_count < SHM_CRASHED_KEYS)
		c->crashed[c->crashed_count++] = key;
	/* They may have become so many during a pause for another reason. */
	if ((c->crashed_count == SHM_CRASHED_KEYS || fault("isolation")) && c->pause == SHM_PAUSE_NONE)
		begin(c, SHM_PAUSE_CRASHES, PAUSE_CRASHES_PROBE, message, now);
}

void pause_ended(struct shm_controller *c, uint32_t outcome, uint64_t key, int64_t granted_at, int64_t until,
		 struct span message, int64_t now)
{
	switch ((enum wire_outcome)outcome) {
	case WIRE_OUTCOME_EXEC_FAILED:
	case WIRE_OUTCOME_START_FAILED:
		not_started(c, granted_at, message, now);
		return;
	case WIRE_OUTCOME_WORKER_LOST:
	case WIRE_OUTCOME_CANCELLED:
		return;
	case WIRE_OUTCOME_CRASHED:
	case WIRE_OUTCOME_TIMEOUT:
	case WIRE_OUTCOME_OOM_KILLED:
		/* The program was started, at least. */
		if (c->pause == SHM_PAUSE_START)
			end(c);
		crashed(c, key, message, now);
		return;
	case WIRE_OUTCOME_PROTOCOL_ERROR:
		if (c->pause == SHM_PAUSE_START)
			end(c);
		return;
	case WIRE_OUTCOME_OK:
		if (c->pause != SHM_PAUSE_THROTTLED)
			end(c);
		forget_crashes(c);
		return;
	case WIRE_OUTCOME_TRANSIENT:
	case WIRE_OUTCOME_NOT_READY:
	case WIRE_OUTCOME_THROTTLED:
	case WIRE_OUTCOME_CONFLICT:
	case WIRE_OUTCOME_TERMINAL:
		/* An answer: the program works. Crashes of other keys are forgotten only by a success, unless
		 * they have paused it. */
		if (c->pause == SHM_PAUSE_CRASHES)
			forget_crashes(c);
		if (c->pause == SHM_PAUSE_START || c->pause == SHM_PAUSE_CRASHES)
			end(c);
		if (until > now && (c->pause == SHM_PAUSE_NONE || until > c->pause_until))
			begin(c, SHM_PAUSE_THROTTLED, until - now, message, now);
		return;
	case WIRE_OUTCOME_COUNT:
		return;
	}
}
