/* Inside of the workqueue: one transition of one key, as images that are edited and then committed, with the
 * indexes moved along. */
#pragma once
#include "workqueue.h"

struct change {
	uint32_t slot;
	enum shm_state from;
	unsigned from_band;
	struct shm_slot s;
	struct shm_detail d; /* zero while s.detail is 0 */
	struct shm_record r; /* set while has_record */
	bool fresh_detail, has_record, has_row;
	struct shm_controller row; /* set while has_row */
	uint32_t adds, merges;	   /* to be counted */
	struct shm_history h;
	char text[SHM_HISTORY_TEXTS_MAX * sizeof(((struct shm_history_text *)0)->text)]; /* for the history */
	size_t text_len;
};

/* Takes the images of the slot, its detail and its record. */
void change_begin(struct workqueue *wq, uint32_t slot, enum shm_happened happened, int64_t now,
		  struct change *ch);
/* The state table; a cell that cannot happen ends the process. */
void change_move(struct change *ch, enum state_event event);
/* A detail, where there is none. -ENOSPC. */
int change_detail(struct workqueue *wq, struct change *ch);
/* A record, where there is none. A cell for it is taken by the commit: its lease has one reserved. */
void change_record(struct change *ch);
/* The image of the controller's row, to edit all but counters. */
struct shm_controller *change_row(struct workqueue *wq, struct change *ch);
/* Adds one to a counter: a member of struct shm_controller_counters that is neither adds nor merges. */
#define change_count(wq, ch, member)                                                                         \
	store_put_row_word((wq)->store, (ch)->s.controller,                                                  \
			   offsetof(struct shm_controller, counters.member),                                 \
			   store_controller((wq)->store, (ch)->s.controller)->counters.member + 1)
/* More text for the history entry, a blank before it. */
void change_say(struct change *ch, struct span text);
/* Through the redo record; a key that went gives back everything it had. Writes the history entry. */
void change_commit(struct workqueue *wq, struct change *ch);
/* Puts a slot where its state says: for change_commit, and for a start. */
void change_index(struct workqueue *wq, uint32_t slot);
/* controllers.c: the names of rows are others now. */
void workqueue_rows_changed(struct workqueue *wq);

/* ---- adds ---- */

static inline uint32_t added_at(int64_t now) /* for slot.added */
{
	return (uint32_t)(now / SHM_ADDED_UNIT);
}

static inline int32_t clamp_priority(int64_t priority)
{
	return (int32_t)MAX(MIN(priority, (int64_t)1000000), (int64_t)-1000000);
}

static inline uint8_t cause_of(const struct wire_add_key *key)
{
	return (uint8_t)(key->cause < WIRE_CAUSE_COUNT ? key->cause : WIRE_CAUSE_UPDATED);
}

static inline bool says_changed(const struct wire_add_key *key)
{
	return key->primary_changed || key->cause == WIRE_CAUSE_OPERATOR;
}

/* The pending part with one add more: all but the object. */
static inline struct shm_pending pending_merge(struct shm_pending p, const struct wire_add_key *key)
{
	uint8_t cause = cause_of(key);
	p.ends = (uint8_t)(p.count == 0 ? cause | cause << 4 : (p.ends & 15) | cause << 4);
	p.causes |= (uint8_t)(1u << cause);
	p.count = (uint16_t)(p.count + (p.count < UINT16_MAX));
	if (says_changed(key))
		p.flags |= SHM_SLOT_CHANGED;
	return p;
}

/* Does the key itself name the object that caused the add? Of initial lists and sweeps, which cause a key per object, it does well enough. */
static inline bool cause_is_own(const struct wire_add_key *key)
{
	return !key->cause_kind.len || key->cause == WIRE_CAUSE_INITIAL || key->cause == WIRE_CAUSE_RESYNC ||
	       key->cause == WIRE_CAUSE_SWEEP;
}
