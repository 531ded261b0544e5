/* The store on its region: a file that grows, and a thread that goes ahead of it. Shell around store.h. */
#pragma once
#include "region.h"
#include "store.h"

/* Opens or makes the region in the file `path`, of at most `budget` bytes, as the memory of a store, which is then to be
 * formatted, or recovered (REGION_RECOVERED). hash_seed: of one that is made; the other keeps its own. Both stay where they are.
 * Errors: of region_write. */
int store_region_open(struct store *st, struct region *r, const char *path, uint64_t budget,
		      uint64_t hash_seed, enum region_state *ret_state, struct err *err);
