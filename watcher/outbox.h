/* Keys on their way to the broker, in the cache region: put there before the object changes in the cache,
 * taken out when the broker has stored them, sent again by the next watcher if this one dies in between.
 *
 * A key that waits and is put again is merged (highest priority, primary_changed or-ed, the first cause
 * stays, up to CACHE_OUTBOX_EVENTS events are kept apart); one that is in flight is not touched: a second entry waits. One thread. */
#pragma once
#include "shm_cache.h"

struct outbox;
/* Where the entries lie: so many extents of CACHE_OUTBOX_EXTENT entries, more as they are needed, `most` in the end. */
struct outbox_place {
	uint32_t extents, most;
	/* One that is there, or the next one, all free; NULL: there is no room for it. */
	struct cache_outbox_entry *(*extent)(void *ctx, uint32_t n);
	void *ctx;
};
/* Takes over what the entries hold: all of it waits. Controllers: the region's table; entries of free ones
 * are dropped. */
struct outbox *outbox_new(const struct outbox_place *place, const struct cache_controller *controllers);
void outbox_free(struct outbox *o);

struct outbox_key {
	uint8_t controller; /* index into the region's controllers */
	struct span namespace, name;
	int32_t priority;
	bool primary_changed;
	bool
	    paced; /* one of very many of its event: it waits apart from the others, until outbox_take_paced */
	uint32_t cause;					     /* enum wire_cause */
	struct span cause_kind, cause_namespace, cause_name; /* empty: the key's own object */
	/* The events that it is there for. None: not known, or too many. */
	const struct cache_event *events;
	size_t n_events;
};

/* -ENOSPC when it is full; of paced ones, when a quarter of it is theirs: they leave slowly. must: may use the last
 * eighth, and more for paced ones, which is kept for keys that a sweep of the cache would not find again. */
int outbox_put(struct outbox *o, const struct outbox_key *k, bool must);
/* The same for a key of an event that a predicate has not passed yet: it is neither merged nor taken before outbox_pass. Should
 * the watcher die before, the next one sends it. Its number in *ret. */
int outbox_hold(struct outbox *o, const struct outbox_key *k, bool must, uint32_t *ret);
void outbox_pass(struct outbox *o, uint32_t entry);	/* it waits now, as if it had just been put */
void outbox_withdraw(struct outbox *o, uint32_t entry); /* it is gone */
uint32_t outbox_held(const struct outbox *o);
/* Held ones take no more than a fourth of all: may one more be held? */
bool outbox_may_hold(const struct outbox *o);
uint32_t outbox_waiting(const struct outbox *o);
uint32_t outbox_used(const struct outbox *o); /* waiting, in flight and held */
uint32_t outbox_room(const struct outbox *o, bool must);
/* How many were put, ever; and whether all of this controller that were put before the count was `arrivals` are on their way or gone. */
uint64_t outbox_arrivals(const struct outbox *o);
bool outbox_sent(const struct outbox *o, uint8_t controller, uint64_t arrivals); /* paced ones do not count */

/* Up to max waiting entries of one controller, the oldest first, are now in flight; their numbers go to
 * entries. The controller is the one of the oldest entry that skip (may be NULL) does not name. */
uint32_t outbox_take(struct outbox *o, const bool *skip, uint32_t max, uint32_t *entries);
/* Of this controller's paced ones, which outbox_take leaves out. */
uint32_t outbox_take_paced(struct outbox *o, uint8_t controller, uint32_t max, uint32_t *entries);
bool outbox_has_paced(const struct outbox *o, uint8_t controller);
void outbox_view(const struct outbox *o, uint32_t entry,
		 struct outbox_key *ret);	      /* spans into the region until it is taken out */
void outbox_ack(struct outbox *o, uint32_t entry);    /* stored: free */
void outbox_return(struct outbox *o, uint32_t entry); /* not stored: waits again, behind the others */
/* Drops the oldest key that waits. */
void outbox_shed(struct outbox *o);
/* Drops the keys of a controller that is no more. */
void outbox_drop(struct outbox *o, uint8_t controller);
