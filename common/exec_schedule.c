#include "exec_schedule.h"

#define HOLD_MIN_NS  (1 * NS_PER_S)
#define HOLD_MAX_NS  (60 * NS_PER_S)
#define AHEAD_MAX_NS (60 * NS_PER_S)

static bool is_good(const struct exec_schedule *s, int64_t now_ns)
{
	return s->have && now_ns < s->expires_ns;
}

static int64_t hold_ns(const struct exec_schedule *s)
{
	unsigned n = s->failures + s->refusals;
	return n > 6 ? HOLD_MAX_NS : n ? MIN(HOLD_MIN_NS << (n - 1), HOLD_MAX_NS) : 0;
}

enum exec_need exec_schedule_need(const struct exec_schedule *s, int64_t now_ns)
{
	if (is_good(s, now_ns) && !s->refused)
		return EXEC_USE;
	if (s->running || now_ns >= s->retry_ns)
		return EXEC_WAIT;
	return is_good(s, now_ns) ? EXEC_USE : EXEC_FAIL;
}

bool exec_schedule_wants_run(const struct exec_schedule *s, bool needed, int64_t now_ns)
{
	if (s->running || now_ns < s->retry_ns)
		return false;
	return needed && (s->refused || !is_good(s, now_ns)) ? true : s->used && now_ns >= s->refresh_ns;
}

int64_t exec_schedule_due_ns(const struct exec_schedule *s)
{
	return s->running || !s->used || s->refresh_ns == INT64_MAX ? INT64_MAX
								    : MAX(s->refresh_ns, s->retry_ns);
}

void exec_schedule_started(struct exec_schedule *s, int64_t now_ns)
{
	s->running = true;
	s->retry_ns = now_ns + hold_ns(s);
}

bool exec_schedule_got(struct exec_schedule *s, int64_t life_ns, double random, int64_t now_ns)
{
	bool over = life_ns < EXEC_LIFE_MIN_NS;
	life_ns = MAX(life_ns, EXEC_LIFE_MIN_NS);
	s->running = s->refused = s->used = false;
	s->have = true;
	s->failures = 0;
	s->expires_ns = s->refresh_ns = INT64_MAX;
	if (life_ns < INT64_MAX - now_ns) {
		int64_t ahead = MIN(life_ns / 5, AHEAD_MAX_NS);
		s->expires_ns = now_ns + life_ns;
		s->refresh_ns = s->expires_ns - ahead - (int64_t)(random * (double)(ahead / 2));
	}
	return over;
}

void exec_schedule_failed(struct exec_schedule *s, int64_t now_ns)
{
	s->running = false;
	s->failures++;
	s->retry_ns = now_ns + hold_ns(s);
}

bool exec_schedule_refused(struct exec_schedule *s, int64_t now_ns)
{
	if (!s->running && now_ns < s->retry_ns)
		return false;
	s->refusals += !s->running;
	s->refused = true;
	return true;
}

void exec_schedule_accepted(struct exec_schedule *s)
{
	s->refusals = 0;
}
