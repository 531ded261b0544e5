/* Inside of the workqueue: one transition of one key, as images that are edited and then committed, with the
 * indexes moved along. */
#pragma once
#include "workqueue.h"

struct change {
	uint32_t slot, detail; /* detail: reference, 0: none */
	enum shm_state from;
	unsigned from_band;
	struct shm_slot s;
	struct shm_detail d;
	struct shm_controller c;
	struct shm_history h;
};

/* Takes the images of the slot, its detail and its controller. */
void change_begin(struct workqueue *wq, uint32_t slot, enum shm_happened happened, int64_t now,
		  struct change *ch);
/* The state table; a cell that cannot happen ends the process. */
void change_move(struct change *ch, enum state_event event);
/* Through the redo record; a key that went gives back everything it had. Writes the history entry. */
void change_commit(struct workqueue *wq, struct change *ch);
/* Puts a slot where its state says: for change_commit, and for a start. */
void change_index(struct workqueue *wq, uint32_t slot);
