/* Where a key is, inline: every add looks one up, and waits for no more memory than that takes. */
#pragma once
#include "hash.h"
#include "index.h"

/* The first and the last bytes of a text as one word: where texts differ is mostly there. */
_inline_ uint64_t index_ends(struct span text)
{
	const char *at = text.at, *end = at + text.len;
	uint64_t first = 0, last = 0;
	if (text.len >= sizeof(first)) {
		memcpy(&first, at, sizeof(first));
		memcpy(&last, end - sizeof(last), sizeof(last));
	} else if (text.len >= sizeof(uint32_t)) {
		memcpy(&first, at, sizeof(uint32_t));
		memcpy(&last, end - sizeof(uint32_t), sizeof(uint32_t));
	} else if (text.len) {
		first = (uint8_t)at[0];
		last = (uint8_t)end[-1];
	}
	return first ^ (last << 32 | last >> 32);
}

/* Where a key would be among the recent ones. */
struct index_place {
	uint32_t set, tag;
};

_inline_ struct index_place index_recent_place(uint16_t controller, struct span namespace, struct span name)
{
	uint64_t a = (index_ends(namespace) + controller) ^ UINT64_C(0x9e3779b97f4a7c15);
	uint64_t b = index_ends(name) ^ UINT64_C(0xd6e8feb86659fd93);
	unsigned __int128 product = (unsigned __int128)a * b;
	uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64);
	return (struct index_place){mixed % INDEX_RECENT, (uint32_t)(mixed >> 32) | 1};
}

/* A slot that probably has the key, or INDEX_NONE. */
_inline_ uint32_t index_recent_slot(const struct index *x, struct index_place place)
{
	const struct index_recent *r = &x->recent[place.set];
	unsigned hits = table_hits_of_four(r->tag, place.tag);
	return hits ? r->slot[__builtin_ctz(hits)] : INDEX_NONE;
}

/* The slot that has the key, if it is among the recent ones; or NULL. Calls nothing. */
_inline_ struct shm_slot *index_recent_find(const struct index *x, uint16_t controller, struct span namespace,
					    struct span name)
{
	uint32_t slot = index_recent_slot(x, index_recent_place(controller, namespace, name));
	if (slot == INDEX_NONE)
		return NULL;
	struct shm_slot *s = store_slot_at(x->store, slot);
	return s->controller == controller && span_eq_inline(store_name(x->store, s), name) &&
		       span_eq_inline(store_namespace(x->store, s->namespace_number), namespace)
		   ? s
		   : NULL;
}

_inline_ struct index_key index_key(const struct index *x, uint16_t controller, const struct span *namespace,
				    const struct span *name)
{
	uint64_t hash = hash_inline(x->controllers[controller], *namespace);
	return (struct index_key){
	    .namespace_hash = hash,
	    .hash = hash ^ hash_inline(x->seed, *name),
	    .namespace = namespace,
	    .name = name,
	    .controller = controller,
	};
}
/* index.c: the slot, or INDEX_NONE. */
uint32_t index_find(const struct index *x, const struct index_key *key);
