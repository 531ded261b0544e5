/* Where a key is, inline: every add looks one up, and waits for no more memory than that takes. */
#pragma once
#include "hash.h"
#include "index.h"

_inline_ struct index_key index_key(const struct index *x, uint16_t controller, struct span namespace,
				    struct span name) /* the spans are the caller's */
{
	uint64_t of_namespace = hash_inline(x->controllers[controller], namespace);
	return (struct index_key){
	    .namespace_hash = of_namespace,
	    .hash = of_namespace ^ hash_inline(x->seed, name),
	    .namespace = namespace,
	    .name = name,
	    .controller = controller,
	    .number = INDEX_NONE,
	};
}

struct index_wanted {
	const struct index *x;
	const struct index_key *key;
	struct shm_slot *slot; /* the last one that was looked at */
};

static inline bool index_is_namespace(void *ctx, uint32_t number)
{
	struct index_wanted *w = ctx;
	const struct index_namespace *n = &w->x->namespaces[number];
	return n->hash == w->key->namespace_hash && n->controller == w->key->controller &&
	       span_eq(store_namespace(w->x->store, number), w->key->namespace);
}

static inline bool index_is_key(void *ctx, uint32_t slot)
{
	struct index_wanted *w = ctx;
	w->slot = store_slot_at(w->x->store, slot);
	return span_eq(store_name(w->x->store, w->slot), w->key->name) &&
	       index_is_namespace(ctx, w->slot->namespace_number);
}

/* Its slot, or INDEX_NONE. Only a key that is not there has its namespace looked up: a slot knows its own. */
_inline_ uint32_t index_find(const struct index *x, struct index_key *key, struct shm_slot **ret_slot)
{
	struct index_wanted w = {.x = x, .key = key};
	uint32_t slot = table_find(&x->by_key, index_tag(key->hash), index_is_key, &w);
	if (slot == INDEX_NONE) {
		key->number = index_namespace_find(x, key);
	} else {
		key->number = w.slot->namespace_number;
		*ret_slot = w.slot;
	}
	return slot;
}
