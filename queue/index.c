#include "hash.h"
#include "index_find.h"

void index_init(struct index *x, struct store *st)
{
	*x = (struct index){.store = st, .seed = store_header(st)->hash_seed};
	uint64_t bytes = MIN(MAX(st->limit, st->allocated), (uint64_t)SHM_BLOCKS_MAX * SHM_BLOCK);
	uint32_t slots = (uint32_t)(bytes / sizeof(struct shm_slot));
	table_init(&x->by_key, slots, store_slots(st));
	table_init(&x->by_namespace, slots, 0);
	big_init(&x->links_memory, slots * sizeof(*x->links));
	big_init(&x->namespaces_memory, slots * sizeof(*x->namespaces));
	x->links = (struct index_links *)(void *)x->links_memory.at;
	x->namespaces = (struct index_namespace *)(void *)x->namespaces_memory.at;
	for (size_t i = 0; i < INDEX_TIMED_COUNT; i++)
		timers_init(&x->heaps[i], slots);
	for (size_t i = 0; i < INDEX_IDLE; i++)
		x->idle[i] = INDEX_NONE;
	index_ready_clear(x);
}

void index_done(struct index *x)
{
	table_done(&x->by_key);
	table_done(&x->by_namespace);
	big_done(&x->links_memory);
	big_done(&x->namespaces_memory);
	for (size_t i = 0; i < INDEX_TIMED_COUNT; i++)
		big_done(&x->heaps[i].memory);
	*x = (struct index){0};
}

void index_controller(struct index *x, uint16_t controller, struct span name)
{
	x->controllers[controller] = hash_inline(x->seed, name);
}

/* ---- keys ---- */

uint64_t index_hash_of(const struct index *x, const struct shm_slot *s)
{
	return x->namespaces[s->namespace_number].hash ^ hash_inline(x->seed, store_name(x->store, s));
}

/* ---- namespaces ---- */

struct wanted {
	const struct index *x;
	const struct index_key *key;
};

static bool is_namespace(void *ctx, uint32_t number)
{
	const struct wanted *w = ctx;
	const struct index_namespace *n = &w->x->namespaces[number];
	return n->hash == w->key->namespace_hash && n->controller == w->key->controller &&
	       span_eq(store_namespace(w->x->store, number), *w->key->namespace);
}

static bool is_key(void *ctx, uint32_t slot)
{
	const struct wanted *w = ctx;
	const struct shm_slot *s = store_slot(w->x->store, slot);
	return span_eq(store_name(w->x->store, s), *w->key->name) && is_namespace(ctx, s->namespace_number);
}

uint32_t index_namespace_find(const struct index *x, const struct index_key *key)
{
	struct wanted w = {.x = x, .key = key};
	return table_find(&x->by_namespace, index_tag(key->namespace_hash), is_namespace, &w);
}

uint32_t index_find(const struct index *x, const struct index_key *key)
{
	struct wanted w = {.x = x, .key = key};
	return table_find(&x->by_key, index_tag(key->hash), is_key, &w);
}

static int namespace_new(struct index *x, const struct index_key *key, uint32_t *ret)
{
	uint32_t number, tag = index_tag(key->namespace_hash);
	int rc = table_reserve(&x->by_namespace, tag);
	if (rc == 0)
		rc = store_namespace_new(x->store, *key->namespace, &number);
	if (rc < 0)
		return rc;
	if (big_grow(&x->namespaces_memory, (number + 1ul) * sizeof(*x->namespaces)) < 0) {
		store_namespace_drop(x->store, number);
		return -ENOSPC;
	}
	index_namespace_found(x, key->namespace_hash, key->controller, number);
	index_ahead(x, &x->namespaces_memory, (number + 1ul) * sizeof(*x->namespaces));
	*ret = number;
	return 0;
}

void index_namespace_found(struct index *x, uint64_t hash, uint16_t controller, uint32_t number)
{
	x->namespaces[number] = (struct index_namespace){.hash = hash, .controller = controller};
	for (size_t b = 0; b < INDEX_BANDS; b++)
		x->namespaces[number].bands[b] = (struct index_line){INDEX_NONE, INDEX_NONE, 0, 0};
	table_insert(&x->by_namespace, index_tag(hash), number);
}

static int more_room(struct index *x, uint32_t slot)
{
	if (big_grow(&x->links_memory, (slot + 1ul) * sizeof(*x->links)) < 0)
		return -ENOSPC;
	for (size_t i = 0; i < INDEX_TIMED_COUNT; i++)
		if (timers_reserve(&x->heaps[i], slot + 1) < 0)
			return -ENOSPC;
	x->room = (uint32_t)(x->links_memory.usable / sizeof(*x->links));
	for (size_t i = 0; i < INDEX_TIMED_COUNT; i++)
		x->room = MIN(x->room, timers_room(&x->heaps[i]));
	return 0;
}

int index_expect(struct index *x)
{
	uint32_t slots = store_slots(x->store);
	if ((slots && more_room(x, slots - 1) < 0) ||
	    big_grow(&x->namespaces_memory, store_namespaces(x->store) * sizeof(*x->namespaces)) < 0)
		return -ENOSPC;
	return 0;
}

int index_namespace(struct index *x, const struct index_key *key, uint32_t *ret)
{
	*ret = index_namespace_find(x, key);
	return *ret == INDEX_NONE ? namespace_new(x, key, ret) : 0;
}

void index_remember(struct index *x, const struct index_key *key, uint32_t slot)
{
	struct index_place place = index_recent_place(key->controller, *key->namespace, *key->name);
	struct index_recent *r = &x->recent[place.set];
	unsigned hits = table_hits_of_four(r->tag, place.tag);
	for (int i = hits ? __builtin_ctz(hits) : INDEX_RECENT_KEYS - 1; i > 0; i--) {
		r->tag[i] = r->tag[i - 1];
		r->slot[i] = r->slot[i - 1];
	}
	r->tag[0] = place.tag;
	r->slot[0] = slot;
}

static void namespace_forget(struct index *x, uint32_t number)
{
	table_remove(&x->by_namespace, index_tag(x->namespaces[number].hash), number);
	store_namespace_drop(x->store, number);
}

/* A namespace whose last key goes often gets the next one soon: the last ones of these are kept. */
void index_namespace_drop(struct index *x, uint32_t number)
{
	if (x->namespaces[number].keys || x->namespaces[number].idle)
		return;
	uint32_t *place = &x->idle[x->next_idle], old = *place;
	x->next_idle = (x->next_idle + 1) % INDEX_IDLE;
	*place = number;
	x->namespaces[number].idle = true;
	if (old == INDEX_NONE)
		return;
	x->namespaces[old].idle = false;
	if (!x->namespaces[old].keys)
		namespace_forget(x, old);
}

int index_reserve(struct index *x, const struct index_key *key, uint32_t slot)
{
	int rc = slot < x->room ? 0 : more_room(x, slot);
	if (rc == 0)
		rc = table_reserve(&x->by_key, index_tag(key->hash));
	index_ahead(x, &x->links_memory, (slot + 1ul) * sizeof(*x->links));
	index_ahead(x, &x->by_key.memory, table_bytes(&x->by_key));
	return rc;
}

void index_insert(struct index *x, uint64_t hash, uint32_t slot, uint32_t namespace)
{
	table_insert(&x->by_key, index_tag(hash), slot);
	x->namespaces[namespace].keys++;
	x->keys++;
}

void index_remove(struct index *x, uint64_t hash, uint32_t slot, uint32_t namespace)
{
	table_remove(&x->by_key, index_tag(hash), slot);
	x->keys--;
	if (--x->namespaces[namespace].keys == 0)
		index_namespace_drop(x, namespace);
}
