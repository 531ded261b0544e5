/* The broker's private indexes over the slots: which slot has a key, who is next, what is due. Rebuilt from
 * the slots at a start. Pure. A slot is in at most one of a ready list and the heap. */
#pragma once
#include "store.h"

#define INDEX_NONE UINT32_MAX

/* Order: the band with the smallest (ready time of its oldest key + band * INDEX_AGING) is served; inside a
 * band first in, first out. No key moves, and none waits more than 3 * INDEX_AGING behind keys of higher
 * bands that became ready after it. */
enum { INDEX_BANDS = 4 };
#define INDEX_AGING (30 * NS_PER_S)
unsigned index_band(int32_t priority); /* 0: above 0; 1: 0; 2: -1 to -99; 3: -100 and below */

struct index_links {	     /* of a slot, by where it is */
	uint32_t prev, next; /* ready list; in the heap: position in prev */
};

struct index_list {
	uint32_t head, tail, len;
};

struct index_ready { /* of one controller */
	struct index_list bands[INDEX_BANDS];
};

struct index_timer {
	int64_t at;
	uint32_t slot;
};

struct index {
	struct store *store;
	struct index_links *links; /* by slot */
	uint32_t n_links;
	struct index_entry *entries; /* hash table, open addressing */
	uint32_t mask, keys;
	struct index_timer *heap;
	uint32_t heap_len, heap_cap;
	struct index_ready ready[SHM_CONTROLLERS_MAX];
};

void index_init(struct index *x, struct store *st);
void index_done(struct index *x);

/* Keys. hash: index_hash() of the key. */
uint32_t index_hash(uint16_t controller, struct span namespace, struct span name);
uint32_t index_find(const struct index *x, uint32_t hash, uint16_t controller, struct span namespace,
		    struct span name); /* or INDEX_NONE */
void index_insert(struct index *x, uint32_t hash, uint32_t slot);
void index_remove(struct index *x, uint32_t hash, uint32_t slot);

/* Ready lists. Keys are appended in the order of their ready_at. */
void index_ready_add(struct index *x, uint32_t slot, uint16_t controller, unsigned band);
void index_ready_remove(struct index *x, uint32_t slot, uint16_t controller, unsigned band);
uint32_t index_ready_next(const struct index *x, uint16_t controller); /* or INDEX_NONE */
uint32_t index_ready_len(const struct index *x, uint16_t controller);

/* Times. */
void index_timer_add(struct index *x, uint32_t slot, int64_t at);
void index_timer_remove(struct index *x, uint32_t slot);
int64_t index_timer_next(const struct index *x); /* INT64_MAX: none */
uint32_t
index_timer_due(const struct index *x,
		int64_t now); /* the slot whose time came first, or INDEX_NONE; it stays in the heap */
