#include "hash.h"
#include "shm_queue.h"

uint64_t shm_hash(uint64_t seed, struct span bytes)
{
	return hash_inline(seed, bytes);
}

uint64_t shm_key_hash(uint64_t seed, struct span controller, struct span namespace, struct span name)
{
	return shm_hash(shm_hash(seed, controller), namespace) ^ shm_hash(seed, name);
}
