/* Where a key is, inline: every add looks one up, and waits for no more memory than that takes. */
#pragma once
#include "hash.h"
#include "index.h"

/* Where a namespace would be among the recent ones. */
_inline_ size_t index_recent_place(uint16_t controller, struct span namespace)
{
	const char *at = namespace.at, *end = at + namespace.len;
	uint64_t first = 0, last = 0;
	if (namespace.len >= sizeof(first)) {
		memcpy(&first, at, sizeof(first));
		memcpy(&last, end - sizeof(last), sizeof(last));
	} else if (namespace.len >= sizeof(uint32_t)) {
		memcpy(&first, at, sizeof(uint32_t));
		memcpy(&last, end - sizeof(uint32_t), sizeof(uint32_t));
	} else if (namespace.len) {
		first = (uint8_t)at[0];
		last = (uint8_t)end[-1];
	}
	/* What differs is mostly at the ends: both are where a product takes it to its upper bits. */
	last += controller;
	return ((first ^ (last << 32 | last >> 32)) * UINT64_C(0x9e3779b97f4a7c15)) >>
	       (64 - INDEX_RECENT_BITS);
}

/* index.c: */
uint64_t index_namespace_hash(const struct index *x, uint16_t controller, const struct span *namespace);

_inline_ struct index_key index_key(const struct index *x, uint16_t controller, const struct span *namespace,
				    const struct span *name)
{
	const struct index_recent *r = &x->recent[index_recent_place(controller, *namespace)];
	bool is =
	    r->controller == controller && span_eq((struct span){r->cell->text, r->cell->len}, *namespace);
	uint64_t hash = is ? r->hash : index_namespace_hash(x, controller, namespace);
	return (struct index_key){
	    .namespace_hash = hash,
	    .hash = hash ^ hash_inline(x->seed, *name),
	    .namespace = namespace,
	    .name = name,
	    .number = is ? r->number : INDEX_NONE,
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
	uint32_t number = w->slot->namespace_number;
	return span_eq(store_name(w->x->store, w->slot), *w->key->name) &&
	       (w->key->number == INDEX_NONE ? index_is_namespace(ctx, number) : number == w->key->number);
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
