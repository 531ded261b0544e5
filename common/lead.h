/* Until when this host leads, as the watcher publishes it in the header of the cache region (struct cache_lead): broker and
 * workers look for themselves, so that a stopped or dead watcher, which can send no message, fences itself. After that time
 * nothing is granted and no write starts.
 *
 * One thread per handle. */
#pragma once
#include "shm_cache.h"

#define LEAD_LOOK_NS (100 * (int64_t)NS_PER_MS) /* how often whoever is fenced looks again */

struct lead {
	char *path;
	struct region region; /* at NULL: it is not there */
	bool elected;	      /* reconciled.yaml: a host leads only while its watcher says so */
	bool closing;
	int64_t until;
	int64_t looked_at; /* for the file itself */
};

/* elected: ha.mode is leader. Then a region that is not there, or that was just made, means that this host does not lead. */
void lead_init(struct lead *l, const char *region_dir, bool elected);
void lead_done(struct lead *l);
/* CLOCK_BOOTTIME ns, and not INT64_MAX: from then on this host does not lead. INT64_MAX: leader election is off. A region that
 * went away counts as it last was, until there is another. Reads one word; at most every LEAD_LOOK_NS also whether the file
 * is still the one in place. */
int64_t lead_until(struct lead *l, int64_t now_ns);
static inline bool lead_over(struct lead *l, int64_t now_ns)
{
	return now_ns >= lead_until(l, now_ns);
}
/* May a new attempt begin? Not when the lead is over, nor when the watcher is about to give it back. */
static inline bool lead_may_grant(struct lead *l, int64_t now_ns)
{
	return !lead_over(l, now_ns) && !l->closing;
}

/* What the watcher says of the Lease, for people. Times: CLOCK_BOOTTIME ns. */
struct lead_view {
	int64_t until; /* as struct cache_lead's */
	bool closing;
	char lease[sizeof((struct cache_lead *)0)->lease], identity[sizeof((struct cache_lead *)0)->identity],
	    holder[sizeof((struct cache_lead *)0)->holder];
	int64_t renewed_at, duration_ns, transitions;
};
/* False: there is no leader election here, or no cache. */
bool lead_look(const char *region_dir, struct lead_view *ret);
