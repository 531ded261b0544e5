/* The writer of the object cache (common/shm_cache.h): tables, slots, records, indexes, within a budget.
 *
 * One handle per process, one thread. Views (struct store_view) point into the shared segments and are good
 * until the next store_put, store_delete, store_work or store_tables_keep: space is compacted then. */
#pragma once
#include "object.h"
#include "shm_cache.h"

struct store;

/* budget: bytes of cache.shm and all segments together, at least STORE_BUDGET_MIN. *ret_lost: there were no
 * usable old contents, and *why says it ("" when there never was a cache); when it is not lost *why is "" or a warning that the
 * file system has less room than the budget. -EBUSY: another watcher lives;
 * -ENOSPC. */
#define STORE_BUDGET_MIN (UINT64_C(4) << 20)
int store_open(const char *region_dir, uint64_t budget, struct store **ret, bool *ret_lost, struct err *why,
	       struct err *err);
void store_close(struct store *s); /* the contents stay */

/* Who leads: written by campaign.c. */
struct cache_lead *store_lead(struct store *s);

/* ---- tables ---- */

/* The table of this name, made if there is none. -ENOSPC: more than CACHE_TABLES. */
int store_table(struct store *s, const char *name, const char *api_version, const char *kind, uint32_t *ret,
		struct err *err);
/* The entry, for its scope and count. */
struct cache_table *store_table_entry(struct store *s, uint32_t table);
bool store_table_synced(struct store *s, uint32_t table);
void store_table_set_synced(struct store *s, uint32_t table, bool synced);
/* Removes every table that keep() does not want: at once for readers; its objects go bit by bit, in store_work or when
 * somebody needs the room. */
void store_tables_keep(struct store *s, bool (*keep)(void *ctx, uint32_t table), void *ctx);

/* ---- objects ---- */

struct store_view {
	uint32_t slot, table;
	struct span namespace, name, uid, version;
	bool cut; /* only metadata is there */
};
bool store_find(struct store *s, uint32_t table, struct span namespace, struct span name,
		struct store_view *ret);
/* Slots are numbered from 0 below store_slots(). False: it is empty. */
bool store_at(struct store *s, uint32_t slot, struct store_view *ret);
uint32_t store_slots(const struct store *s);
/* The object of a slot that is not empty, good until the next call of this or of what ends views. -EPROTO: it is damaged;
 * -ENOMEM. */
int store_json(struct store *s, uint32_t slot, struct span *ret);
/* Stores the object under its names in the table; json is what is kept of it (o's spans may lie elsewhere).
 * -ENOSPC: the budget or the file system is full; -EMSGSIZE: above CACHE_OBJECT_MAX. Then the old contents
 * stay. */
int store_put(struct store *s, uint32_t table, const struct object *o, struct span json, uint32_t *ret_slot,
	      struct err *err);
/* The same with json being the object's apiVersion, kind and metadata alone, when the whole finds no room; readers are told so. */
int store_put_metadata(struct store *s, uint32_t table, const struct object *o, struct span json,
		       uint32_t *ret_slot, struct err *err);
/* Whether so many more bytes of objects may find room; never wrong by more than what is free in segments. */
bool store_may_fit(const struct store *s, uint64_t bytes);
void store_delete(struct store *s, uint32_t slot);
/* Does a part of what puts and deletes leave behind (compaction, packing anew), in about a millisecond; now and then it trains a
 * dictionary, in a tenth of a second. False: there is nothing to do. */
bool store_work(struct store *s);

/* A number of the caller's per slot, not shared and 0 after a start: the list that saw it last. New objects
 * have 0. */
uint32_t *store_mark(struct store *s, uint32_t slot);

struct store_usage {
	uint64_t budget, allocated; /* bytes */
	uint64_t live;		    /* bytes of records in use */
	uint64_t unpacked;	    /* bytes of the objects in them */
	uint32_t objects, segments;
};
void store_usage(const struct store *s, struct store_usage *ret);
/* The path of a file of the cache that somebody deleted or replaced; NULL: all are in place. */
const char *store_missing(const struct store *s);

/* ---- what else lies in the region ---- */

/* The entry of this controller, made if there is none (with sweep set). NULL: more than CACHE_CONTROLLERS. */
struct cache_controller *store_controller(struct store *s, const char *name, uint8_t *ret_index);
struct cache_controller *store_controllers(struct store *s); /* all CACHE_CONTROLLERS */
/* Frees the entries that keep() does not want. */
void store_controllers_keep(struct store *s, bool (*keep)(void *ctx, const char *name), void *ctx);
/* The outbox: extents of CACHE_OUTBOX_EXTENT entries. How many there are, and may be: what is not there yet is kept of the budget. */
uint32_t store_outbox_extents(const struct store *s, uint32_t *ret_most);
/* One that is there, or the next one, which is made; NULL: the file system is full. store: a struct store. */
struct cache_outbox_entry *store_outbox(void *store, uint32_t extent);
