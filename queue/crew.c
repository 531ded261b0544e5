#include "crew.h"

bool crew_admits(const struct crew *c, const struct crew_rules *rules)
{
	return c->awake < rules->least || (c->awake < rules->most && c->ready > c->waking);
}

enum crew_step crew_step(const struct crew *c, const struct crew_rules *rules, int64_t rest, int64_t now)
{
	if (c->idle && (c->awake > rules->most || now >= crew_next(c, rules, rest)))
		return CREW_SLEEP;
	/* An idle one would have got the key; a waking one will. */
	bool wanted = !c->idle && c->ready > c->waking && c->awake < rules->most;
	/* Nobody is woken for the number alone while it may be too low; where all are wanted, it does not matter. */
	bool too_few = c->awake < rules->least && (!c->partial || rules->least == CREW_ALL);
	return c->asleep && (wanted || too_few) ? CREW_WAKE : CREW_STAY;
}

int64_t crew_next(const struct crew *c, const struct crew_rules *rules, int64_t rest)
{
	return c->idle && c->awake > rules->least ? c->idle_since + rest : INT64_MAX;
}
