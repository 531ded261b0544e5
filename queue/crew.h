/* How many hosts of a controller are awake: those with a running child, of all that are connected. Pure: time is passed
 * in, nothing is sent.
 *
 * A host is idle (awake, waits for a key), busy (awake, has one), waking (was told to start its child), or asleep. At
 * least `least` are awake; another one wakes up when a key is ready and no host is idle, up to `most`; the one that has
 * been idle longest goes to sleep after CREW_REST. */
#pragma once
#include "base.h"

#define CREW_REST (30 * NS_PER_S) /* idle for so long: not needed */
#define CREW_ALL  UINT32_MAX

struct crew_rules {
	uint32_t least, most; /* awake hosts; CREW_ALL: as many as are connected */
};

struct crew {
	uint32_t awake;	 /* idle, busy and waking */
	uint32_t waking; /* of these */
	uint32_t asleep;
	bool partial;	    /* right after a start: those that are awake have not all said so yet */
	bool idle;	    /* is there one? */
	int64_t idle_since; /* of the one that is idle longest */
	uint32_t ready;	    /* keys that could be granted now */
};

enum crew_step { CREW_STAY, CREW_WAKE, CREW_SLEEP };

/* May a host that just asks for a key be awake, while the others are as in c? */
bool crew_admits(const struct crew *c, const struct crew_rules *rules);
/* What to do now: wake one that sleeps, or send the one that is idle longest to sleep. Ask again after each. */
enum crew_step crew_step(const struct crew *c, const struct crew_rules *rules, int64_t rest, int64_t now);
/* When crew_step can change by time alone; INT64_MAX: never. */
int64_t crew_next(const struct crew *c, const struct crew_rules *rules, int64_t rest);
