/* Hosts: who waits for a key, who sleeps, who is woken. */
#include "broker.h"

/* Milliseconds until an idle host goes to sleep, instead of 30 s: for tests that wait for it. */
void crews_init(struct broker *b)
{
	for (size_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		TAILQ_INIT(&b->crews[i].idle);
		TAILQ_INIT(&b->crews[i].asleep);
		b->crews[i].rules = (struct crew_rules){CREW_ALL, CREW_ALL};
	}
	b->rest = CREW_REST;
#ifdef RECONCILED_FAULTS
	const char *text = getenv("RECONCILED_TEST_IDLE_MS");
	uint32_t ms;
	if (text && parse_u32(text, 0, 3600000, &ms) == 0)
		b->rest = (int64_t)ms * NS_PER_MS;
#endif
}

/* An operator's number goes before the file's. */
struct crew_rules crews_rules(const struct broker *b, uint16_t row)
{
	uint32_t scale = store_controller(&b->store, row)->scale;
	return scale ? (struct crew_rules){scale - 1, scale - 1} : b->crews[row].rules;
}

static struct crew look(const struct broker *b, uint16_t row, int64_t now)
{
	const struct broker_crew *crew = &b->crews[row];
	const struct peer *longest = TAILQ_LAST(&crew->idle, peer_list);
	return (struct crew){
	    .awake = crew->awake,
	    .waking = crew->waking,
	    .asleep = !TAILQ_EMPTY(&crew->asleep),
	    .partial = now < b->patience,
	    .idle = longest,
	    .idle_since = longest ? longest->parked_since : 0,
	    .ready = workqueue_ready(&b->wq, row, now) ? index_ready_len(&b->wq.index, row) : 0,
	};
}

/* ---- one host ---- */

static void set_waking(struct broker *b, struct peer *p, bool waking)
{
	if (p->waking != waking)
		b->crews[p->row].waking += waking ? 1 : UINT32_MAX;
	p->waking = waking;
}

void crews_set_awake(struct broker *b, struct peer *p, uint16_t row, bool awake)
{
	if (p->awake) {
		set_waking(b, p, false);
		b->crews[p->row].awake--;
	}
	p->row = row;
	p->awake = awake;
	if (awake)
		b->crews[row].awake++;
}

static void tell(struct broker *b, struct peer *p, void *token, bool asleep)
{
	log_debug(asleep ? "a worker is not needed: it sleeps" : "a worker is needed: it wakes up",
		  LOG_S("instance", p->instance), LOG_S("controller", p->controller), LOG_I("pid", p->pid));
	broker_answer(b, token, &(struct wire){.type = WIRE_TYPE_SLEEP, .sleep = {b->incarnation, asleep}});
}

bool crews_admit(struct broker *b, struct peer *p, uint16_t row, void *token, int64_t now)
{
	struct crew_rules rules = crews_rules(b, row);
	struct crew crew = look(b, row, now);
	bool stays = p->awake && p->row == row;
	if (stays ? crew.awake <= rules.most : crew_admits(&crew, &rules)) {
		crews_set_awake(b, p, row, true);
		return true;
	}
	crews_set_awake(b, p, row, false);
	tell(b, p, token, true);
	return false;
}

bool crews_too_many(const struct broker *b, uint16_t row)
{
	return b->crews[row].awake > crews_rules(b, row).most;
}

/* The last one that came is the next one to get a key, so that those that are not needed are idle for long. */
void crews_park(struct broker *b, struct peer *p, uint16_t row, bool asleep, void *token, int64_t now)
{
	struct broker_crew *crew = &b->crews[row];
	crews_unpark(b, p);
	if (asleep)
		crews_set_awake(b, p, row, false);
	p->poll = token;
	p->row = row;
	p->resting = asleep;
	p->parked_since = now;
	if (asleep)
		TAILQ_INSERT_TAIL(&crew->asleep, p, parked);
	else
		TAILQ_INSERT_HEAD(&crew->idle, p, parked);
}

void *crews_take_poll(struct broker *b, struct peer *p)
{
	void *token = p->poll;
	struct broker_crew *crew = &b->crews[p->row];
	if (token)
		TAILQ_REMOVE(p->resting ? &crew->asleep : &crew->idle, p, parked);
	p->poll = NULL;
	return token;
}

void crews_unpark(struct broker *b, struct peer *p)
{
	transport_drop(b->server, crews_take_poll(b, p));
}

void crews_gone(struct broker *b, struct peer *p)
{
	crews_unpark(b, p);
	crews_set_awake(b, p, p->row, false);
}

void crews_send_away(struct broker *b, uint16_t row,
		     bool (*whom)(const struct broker *b, const struct peer *p),
		     void (*refuse)(struct broker *b, struct peer *p, uint16_t row, void *token))
{
	struct peer_list *lists[] = {&b->crews[row].idle, &b->crews[row].asleep};
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct peer *p, *next;
		for (p = TAILQ_FIRST(lists[i]); p; p = next) {
			next = TAILQ_NEXT(p, parked);
			if (whom(b, p))
				refuse(b, p, row, crews_take_poll(b, p));
		}
	}
}

/* ---- all of them ---- */

static bool step(struct broker *b, uint16_t row, int64_t now)
{
	struct broker_crew *crew = &b->crews[row];
	struct crew_rules rules = crews_rules(b, row);
	if (rules.least == CREW_ALL && TAILQ_EMPTY(&crew->asleep))
		return false;
	const struct crew seen = look(b, row, now);
	struct peer *p;
	switch (crew_step(&seen, &rules, b->rest, now)) {
	case CREW_STAY:
		return false;
	case CREW_SLEEP:
		p = TAILQ_LAST(&crew->idle, peer_list);
		crews_set_awake(b, p, row, false);
		tell(b, p, crews_take_poll(b, p), true);
		return true;
	case CREW_WAKE:
		p = TAILQ_FIRST(&crew->asleep);
		crews_set_awake(b, p, row, true);
		set_waking(b, p, true);
		tell(b, p, crews_take_poll(b, p), false);
		return true;
	}
	return false;
}

void crews_tick(struct broker *b, int64_t now)
{
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX && !b->stopping; i++)
		while (b->wq.controllers[i].configured && step(b, i, now))
			;
}

int64_t crews_next(const struct broker *b, int64_t now)
{
	int64_t next = INT64_MAX;
	bool sleepers = false;
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		struct crew_rules rules = crews_rules(b, i);
		sleepers |= !TAILQ_EMPTY(&b->crews[i].asleep);
		if (rules.least != CREW_ALL && !TAILQ_EMPTY(&b->crews[i].idle)) {
			const struct crew seen = look(b, i, now);
			next = MIN(next, crew_next(&seen, &rules, b->rest));
		}
	}
	return sleepers && now < b->patience ? MIN(next, b->patience) : next;
}
