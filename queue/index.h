/* The broker's private indexes over the slots: which slot has a key, who is next, what is due. Rebuilt from
 * the slots at a start. Pure. A slot is in at most one of a ready list and the heap.
 *
 * Memory: 16 bytes a slot, 9 to 19 a key (table.h), 16 a timed key; 80 bytes and 9 to 19 for each namespace of each
 * controller; 32 KiB for the recent keys. Nothing is copied when it grows. */
#pragma once
#include "store.h"
#include "table.h"

#define INDEX_NONE UINT32_MAX

/* Order: the band with the smallest (ready time of its oldest key + band * INDEX_AGING) is served; inside a
 * band its namespaces take turns, and in a namespace it is first in, first out. No key moves, and none waits more than
 * 3 * INDEX_AGING behind keys of higher bands that became ready after it, and the turn of each namespace once for
 * each key of its own that is before it. */
enum { INDEX_BANDS = 4, INDEX_IDLE = 64 };
#define INDEX_AGING (30 * NS_PER_S)
static inline unsigned index_band(int32_t priority) /* 0: above 0; 1: 0; 2: -1 to -99; 3: -100 and below */
{
	return priority > 0 ? 0 : priority == 0 ? 1 : priority > -100 ? 2 : 3;
}

struct index_links { /* of a slot, by where it is */
	union {
		uint32_t next;	/* ready: in its namespace */
		uint32_t timer; /* timed: its place in the heap */
	};
	uint32_t prev;
	uint32_t newer, older; /* ready: in its band */
};

struct index_line {	     /* ready keys of a namespace in a band */
	uint32_t head, tail; /* slots; INDEX_NONE: there are none */
	uint32_t next, prev; /* namespaces that take turns */
};

struct index_namespace { /* by the number of its cell */
	uint64_t hash;	 /* the seed of its keys' hashes */
	uint32_t keys;	 /* of it, in any state */
	uint16_t controller;
	bool idle; /* it is among those that have no key and are kept for the next one */
	struct index_line bands[INDEX_BANDS];
};

struct index_band {
	uint32_t oldest, newest; /* slots */
	uint32_t first, last;	 /* namespaces: whose turn is next, and last */
};

struct index_ready { /* of one controller */
	struct index_band bands[INDEX_BANDS];
	uint32_t len;
	uint32_t some; /* a bit for each band that has a key */
};

struct index_timer {
	int64_t at;
	uint32_t slot;
};

/* Ends of leases are few, and stay apart from the many keys that wait. */
enum index_timed { INDEX_WAITS, INDEX_LEASES, INDEX_TIMED_COUNT };

struct index_heap {
	struct big memory;
	struct index_timer *at;
	uint32_t len;
};

struct index_key {
	uint64_t namespace_hash, hash;	     /* shm_key_hash() of namespace and key */
	const struct span *namespace, *name; /* the caller's */
	uint16_t controller;
};

/* Keys that were added again lately, in sets of four, the newest first: most adds are of these, and their place costs less to find than
 * their hash. It is a hint: the slot may have another key meanwhile, and another key may have the same tag. */
enum { INDEX_RECENT = 1024, INDEX_RECENT_KEYS = 4 };
struct index_recent {
	_Alignas(16) uint32_t tag[INDEX_RECENT_KEYS]; /* 0: there is none */
	uint32_t slot[INDEX_RECENT_KEYS];
};

struct index {
	struct store *store;
	uint64_t seed; /* of the names' hashes */
	struct table by_key, by_namespace;
	uint32_t keys;
	struct big links_memory, namespaces_memory;
	struct index_links *links;	    /* by slot */
	struct index_namespace *namespaces; /* by number */
	struct index_heap heaps[INDEX_TIMED_COUNT];
	uint32_t idle[INDEX_IDLE]; /* namespaces without a key, in turn; INDEX_NONE */
	uint32_t next_idle;
	uint32_t room; /* slots below it have links and heap entries */
	struct index_recent recent[INDEX_RECENT];
	uint64_t controllers[SHM_CONTROLLERS_MAX]; /* hashes of their names: the seeds of their namespaces */
	struct index_ready ready[SHM_CONTROLLERS_MAX];
};

void index_init(struct index *x, struct store *st);
void index_done(struct index *x);
/* Asks for the next step of one of its arrays to be touched, once it is time. */
static inline void index_ahead(struct index *x, struct big *b, size_t used)
{
	char *next = big_ahead(b, used);
	if (next && x->store->touch)
		x->store->touch(x->store->grow_ctx, next, BIG_STEP);
}
/* A row has this name now. */
void index_controller(struct index *x, uint16_t controller, struct span name);

/* ---- keys (and index_find.h) ---- */

uint64_t index_hash_of(const struct index *x, const struct shm_slot *s);
static inline uint32_t index_tag(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}
_inline_ void index_prefetch(const struct index *x, uint64_t hash)
{
	table_prefetch(&x->by_key, index_tag(hash));
}
/* The key of the slot was added again. */
void index_remember(struct index *x, const struct index_key *key, uint32_t slot);
uint32_t index_namespace_find(const struct index *x, const struct index_key *key); /* or INDEX_NONE */
/* The number of the key's namespace, which may be made now, with no key yet. -ENOSPC. */
int index_namespace(struct index *x, const struct index_key *key, uint32_t *ret);
void index_namespace_drop(struct index *x, uint32_t number); /* if it has no key */
/* At a start: a namespace cell that a key names; its memory and its place in the table are reserved. */
void index_namespace_found(struct index *x, uint64_t hash, uint16_t controller, uint32_t number);
/* At a start: memory for all slots that are not free. -ENOSPC. */
int index_expect(struct index *x);
/* A slot for this key: index_insert cannot fail after it. -ENOSPC. */
int index_reserve(struct index *x, const struct index_key *key, uint32_t slot);
void index_insert(struct index *x, uint64_t hash, uint32_t slot, uint32_t namespace);
/* The cell of a namespace is given back some time after its last key. */
void index_remove(struct index *x, uint64_t hash, uint32_t slot, uint32_t namespace);

/* ---- ready keys (order.c). Appended in the order of their ready_at. ---- */

void index_ready_add(struct index *x, uint32_t slot, uint32_t namespace, unsigned band);
void index_ready_remove(struct index *x, uint32_t slot, uint32_t namespace, unsigned band);
/* The same, and the namespace's turn is over. */
void index_ready_take(struct index *x, uint32_t slot, uint32_t namespace, unsigned band);
uint32_t index_ready_next(const struct index *x, uint16_t controller); /* or INDEX_NONE */
/* Fetches what the next two grants from this band will touch. Returns the slot of the first, or INDEX_NONE. */
uint32_t index_ready_ahead(const struct index *x, uint16_t controller, unsigned band);
static inline uint32_t index_ready_len(const struct index *x, uint16_t controller)
{
	return x->ready[controller].len;
}

void index_ready_clear(struct index *x); /* no key is ready */

/* ---- times (timers.c) ---- */

void timers_init(struct index_heap *h, uint32_t most);
int timers_reserve(struct index_heap *h, uint32_t keys); /* -ENOMEM */
uint32_t timers_room(const struct index_heap *h);
void index_timer_add(struct index *x, enum index_timed what, uint32_t slot, int64_t at);
void index_timer_remove(struct index *x, enum index_timed what, uint32_t slot);
void index_timers_link(struct index *x); /* at a start: the links of all timed slots were written over */
int64_t index_timer_next(const struct index *x); /* INT64_MAX: none */
uint32_t
index_timer_due(const struct index *x,
		int64_t now); /* the slot whose time came first, or INDEX_NONE; it stays in the heap */
