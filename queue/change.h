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
	uint16_t n_counts;
	struct {
		uint32_t at, by; /* byte of the row */
	} counts[8];
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
/* Adds to a counter: a member of struct shm_controller_counters. */
#define change_count(ch, member, by) change_count_at(ch, offsetof(struct shm_controller, counters.member), by)
void change_count_at(struct change *ch, size_t at, uint32_t by);
/* More text for the history entry, a blank before it. */
void change_say(struct change *ch, struct span text);
/* Through the redo record; a key that went gives back everything it had. Writes the history entry. */
void change_commit(struct workqueue *wq, struct change *ch);
/* Puts a slot where its state says: for change_commit, and for a start. */
void change_index(struct workqueue *wq, uint32_t slot);
