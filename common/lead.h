/* Until when this host leads, as the watcher publishes it in the header of the cache region: broker and workers look for
 * themselves, so that a stopped or dead watcher, which can send no message, fences itself. After that time nothing is granted
 * and no write starts.
 *
 * One thread per handle. */
#pragma once
#include "region.h"

#define LEAD_LOOK_NS (100 * (int64_t)NS_PER_MS) /* how often whoever is fenced looks again */

struct lead {
	char *path;
	struct region region; /* at NULL: it is not there */
	int64_t until;
	int64_t looked_at; /* for the file itself */
};

void lead_init(struct lead *l, const char *region_dir);
void lead_done(struct lead *l);
/* CLOCK_BOOTTIME ns, and not INT64_MAX: from then on this host does not lead. INT64_MAX: leader election is off, or there
 * has been no cache yet. A region that went away counts as it last was, until there is another. Reads one word; at most
 * every LEAD_LOOK_NS also whether the file is still the one in place. */
int64_t lead_until(struct lead *l, int64_t now_ns);
static inline bool lead_over(struct lead *l, int64_t now_ns)
{
	return now_ns >= lead_until(l, now_ns);
}
