/* From a record of the object cache to the object's text: readers and the writer. Dictionaries are opened when a record names them and
 * kept, the ones used last, as many as CACHE_UNPACK_DICTIONARIES. One thread per handle. */
#pragma once
#include "buf.h"
#include "shm_cache.h"

enum { CACHE_UNPACK_DICTIONARIES = 64 }; /* about 60 KB each */

struct cache_unpack;
struct cache_unpack *cache_unpack_new(const char *region_dir);
void cache_unpack_free(struct cache_unpack *u);
/* Appends the object of a record whose head this is; stored: its head.stored_len bytes, in memory that nobody else writes.
 * -ENOENT: its dictionary is no more, so the slot names another record by now; -EPROTO: it is damaged; -ENOMEM. */
int cache_unpack_object(struct cache_unpack *u, const struct cache_record *head, const char *stored,
			struct buf *out);
/* The file of a dictionary, read whole: appends its bytes. */
int cache_unpack_read_dictionary(const char *region_dir, uint32_t file, struct buf *out, uint32_t *ret_table);
