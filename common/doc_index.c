#include "doc_internal.h"

enum { FEW = 16 };

void doc_index_init(struct doc_index *ix, size_t n)
{
	size_t slots = 8;
	while (slots < 2 * n)
		slots *= 2;
	ix->slots = xcalloc(slots, sizeof *ix->slots);
	ix->mask = slots - 1;
}

void doc_index_done(struct doc_index *ix)
{
	free(ix->slots);
	ix->slots = NULL;
}

/* The slot that has the name, or the free one where it belongs. The slots' address makes the hash another one
 * each time, so that nobody can prepare names that all meet in one place. */
static struct doc_index_slot *slot_of(const struct doc_index *ix, struct span name, uint64_t *ret_hash)
{
	uint64_t hash = hash_bytes(name.at, name.len,
				   HASH_SEED ^ (uint64_t)(uintptr_t)ix->slots * UINT64_C(0x9e3779b97f4a7c15));
	hash ^= hash >> 32;
	size_t i = (size_t)hash & ix->mask;
	while (ix->slots[i].value && (ix->slots[i].hash != hash || !span_eq(ix->slots[i].name, name)))
		i = (i + 1) & ix->mask;
	*ret_hash = hash;
	return &ix->slots[i];
}

void *doc_index_put(struct doc_index *ix, struct span name, void *value)
{
	uint64_t hash;
	struct doc_index_slot *slot = slot_of(ix, name, &hash);
	if (slot->value)
		return slot->value;
	*slot = (struct doc_index_slot){hash, name, value};
	return NULL;
}

void *doc_index_get(const struct doc_index *ix, struct span name)
{
	uint64_t hash;
	return slot_of(ix, name, &hash)->value;
}

void doc_members_init(struct doc_members *m, const struct doc_node *object)
{
	*m = (struct doc_members){.object = object};
	if (!object || object->type != JSON_OBJECT || object->count <= FEW)
		return;
	doc_index_init(&m->index, object->count);
	doc_each (member, object)
		doc_index_put(&m->index, member->key, member);
}

void doc_members_done(struct doc_members *m)
{
	doc_index_done(&m->index);
}

struct doc_node *doc_members_get(const struct doc_members *m, struct span key)
{
	return m->index.slots ? doc_index_get(&m->index, key) : doc_get_span(m->object, key);
}
