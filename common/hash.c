/* The only user of xxHash. All of it is in its header. */
#include "shm_queue.h"
#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wswitch-enum"
#include <xxhash.h>
#pragma GCC diagnostic pop

uint64_t shm_hash(uint64_t seed, struct span bytes)
{
	return XXH3_64bits_withSeed(bytes.at, bytes.len, seed);
}

uint64_t shm_key_hash(uint64_t seed, struct span controller, struct span namespace, struct span name)
{
	return shm_hash(shm_hash(shm_hash(seed, controller), namespace), name);
}
