/* Reading queue.shm: from any of our processes, without locks and without the broker's help (also when it
 * hangs or is dead).
 *
 * Everything is copied out and checked; a slot that is being written is tried again a bounded number of
 * times. Layout: shm_queue.h. One thread per handle. */
#pragma once
#include "shm_queue.h"

struct queue_reader;

/* -ENOENT: there is no queue yet (the broker has not started); -EAGAIN: it is being made; -EPROTO: another
 * version. */
int queue_open(const char *region_dir, struct queue_reader **ret, struct err *err);
void queue_close(struct queue_reader *q);
/* Does a broker hold the region now? */
bool queue_has_writer(const struct queue_reader *q);
/* Of the broker that had it last; a broker's status names its own. */
uint64_t queue_incarnation(const struct queue_reader *q);

struct queue_cause { /* event is enum wire_cause; kind is empty when it has no object, or the key's own */
	uint8_t event;
	char kind[254], namespace[NAMESPACE_MAX_LEN + 1], name[NAME_MAX_LEN + 1];
};

/* One key, decoded; texts are terminated. */
struct queue_key {
	uint32_t slot;
	char controller[64], namespace[NAMESPACE_MAX_LEN + 1], name[NAME_MAX_LEN + 1];
	enum shm_state state;
	enum shm_wait wait;
	/* Pending part: of READY, WAITING, DIRTY; what is left of it in QUARANTINED. */
	bool pending;
	int64_t ready_at, added_at;
	int32_t priority;
	uint32_t count;
	uint8_t causes; /* bit per enum wire_cause */
	/* What the controller's counters `adds` and `merges` do not have of it yet. */
	uint8_t uncounted_adds, uncounted_merges;
	struct queue_cause first, last;
	struct shm_detail detail; /* all 0 unless it is leased, or another object caused it */
	struct queue_cause lease_first, lease_last;
	struct shm_record record; /* all 0 unless an attempt of it has ended */
	char reason[129], message[1025];
};

/* Walks all keys: start with *cursor 0. 1: a key; 0: the end; -EAGAIN: this slot was being written every time
 * (go on); -EPROTO: the region is damaged. */
int queue_next(struct queue_reader *q, uint32_t *cursor, struct queue_key *ret);
/* -ENOENT: the controller has no such key now. */
int queue_find(struct queue_reader *q, struct span controller, struct span namespace, struct span name,
	       struct queue_key *ret);

/* Is any key leased now, as far as the region says? -EPROTO: the region is damaged. */
int queue_is_leased(struct queue_reader *q);

/* Row `index` of the controllers; false: free or above the end. Counters may be torn against each other,
 * never in themselves. All adds and merges: those of the row, read first, and the uncounted ones of its keys; while keys change
 * that may be a little less than it was before, never more than it is. */
bool queue_controller(struct queue_reader *q, uint32_t index, struct shm_controller *ret);

/* An entry of the history; its text is terminated: the beginning of reason and message (DONE, LOST), or the object that caused
 * it (ADDED, MERGED). */
struct queue_happened {
	struct shm_history entry;
	char text[SHM_HISTORY_TEXTS_MAX * sizeof(((struct shm_history_text *)0)->text) + 1];
};

/* Calls on_entry, oldest first, for what the ring still has about one key (empty name: about all). A non-zero
 * return ends the walk with it. */
int queue_history(struct queue_reader *q, struct span controller, struct span namespace, struct span name,
		  int (*on_entry)(void *ctx, const struct queue_happened *entry), void *ctx);
/* From when on the ring has every entry (CLOCK_BOOTTIME ns); 0: since the region was made. INT64_MAX: it has none. */
int64_t queue_history_since(struct queue_reader *q);
