/* XXH3 inlined, for those that hash a key in each call: see shm_hash(). xxHash is in its header. */
#pragma once
#include "base.h"
#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wswitch-enum"
#include <xxhash.h>
#pragma GCC diagnostic pop

static inline uint64_t hash_inline(uint64_t seed, struct span bytes)
{
	return XXH3_64bits_withSeed(bytes.at, bytes.len, seed);
}
