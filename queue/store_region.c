#include "store_region.h"
#include "region_ahead.h"

#define RESERVE_MOST (UINT64_C(16) << 20)

static int grow(void *ctx, uint64_t size)
{
	return region_grow(ctx, size);
}

static void touch(void *ctx, void *at, size_t bytes)
{
	region_ahead_touch(ctx, at, bytes);
}

int store_region_open(struct store *st, struct region *r, const char *path, uint64_t budget,
		      uint64_t hash_seed, enum region_state *ret_state, struct err *err)
{
	struct region_spec spec = shm_queue_spec();
	spec.max_size = MIN(budget / SHM_BLOCK, (uint64_t)SHM_BLOCKS_MAX) * SHM_BLOCK;
	spec.initial_size = 4 * (uint64_t)SHM_BLOCK;
	int rc = region_write(path, &spec, r, ret_state, err);
	if (rc < 0)
		return rc;
	struct region_header *h = region_header(r);
	*st = (struct store){
	    .at = r->at,
	    .allocated = atomic_load_explicit(&h->allocated, memory_order_relaxed),
	    .limit = h->max_size,
	    .reserve = MAX(MIN(h->max_size / 16, RESERVE_MOST), 4 * (uint64_t)SHM_BLOCK),
	    .hash_seed = hash_seed,
	    .grow = grow,
	    .touch = touch,
	    .grow_ctx = r,
	    .fd = r->fd,
	};
	return 0;
}
