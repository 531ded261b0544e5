/* Where a key is, inline: every add looks one up, and waits for no more memory than that takes. */
#pragma once
#include "index.h"

_inline_ struct index_key index_key(const struct index *x, uint16_t controller, const struct span *namespace,
				    const struct span *name)
{
	struct index_hashes h = index_hashes(x->controllers[controller], namespace, x->seed, name);
	return (struct index_key){
	    .namespace_hash = h.a,
	    .hash = h.a ^ h.b,
	    .namespace = namespace,
	    .name = name,
	    .controller = controller,
	};
}

struct index_wanted {
	const struct index *x;
	const struct index_key *key;
	struct shm_slot *slot; /* the last one that was looked at */
};

_inline_ bool index_is_namespace(void *ctx, uint32_t number)
{
	struct index_wanted *w = ctx;
	const struct index_namespace *n = &w->x->namespaces[number];
	return n->hash == w->key->namespace_hash && n->controller == w->key->controller &&
	       span_eq(store_namespace(w->x->store, number), *w->key->namespace);
}

_inline_ bool index_is_key(void *ctx, uint32_t slot)
{
	struct index_wanted *w = ctx;
	w->slot = store_slot_at(w->x->store, slot);
	return span_eq(store_name(w->x->store, w->slot), *w->key->name) &&
	       index_is_namespace(ctx, w->slot->namespace_number);
}

/* index.c: the same, when one look is not enough. */
uint32_t index_find_further(const struct index *x, const struct index_key *key, struct shm_slot **ret_slot);

/* Its slot, or INDEX_NONE. */
_inline_ uint32_t index_find(const struct index *x, const struct index_key *key, struct shm_slot **ret_slot)
{
	struct index_wanted w = {.x = x, .key = key};
	uint32_t slot = table_look(&x->by_key, index_tag(key->hash), index_is_key, &w);
	*ret_slot = w.slot;
	return slot == TABLE_MORE ? index_find_further(x, key, ret_slot) : slot;
}
