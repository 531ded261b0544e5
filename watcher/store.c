#include "store_internal.h"
#include <stdio.h>

enum {
	WORK_BYTES = 1 << 20,
	DROP_LOOKS =
	    16384,	 /* slots of dropped tables in one go: as long as moving so many bytes, and fewer */
	DROP_MAX = 1024, /* of them with an object */
};

/* ---- tables ---- */

struct cache_table *store_table_entry(struct store *s, uint32_t table)
{
	return &store_header(s)->table[table % CACHE_TABLES];
}

static uint32_t table_id(uint32_t index, uint32_t state)
{
	return index | state >> 2 << CACHE_TABLE_BITS;
}

static bool table_alive(struct store *s, uint32_t table)
{
	uint32_t state = atomic_load_explicit(&store_table_entry(s, table)->state, memory_order_relaxed);
	return state & CACHE_TABLE_USED && table_id(table % CACHE_TABLES, state) == table;
}

int store_table(struct store *s, const char *name, const char *api_version, const char *kind, uint32_t *ret,
		struct err *err)
{
	char key[CACHE_TABLE_NAME];
	cache_table_key(name, key);
	struct cache_header *h = store_header(s);
	uint32_t free_at = CACHE_TABLES;
	for (uint32_t i = 0; i < CACHE_TABLES; i++) {
		uint32_t state = atomic_load_explicit(&h->table[i].state, memory_order_relaxed);
		if (!(state & CACHE_TABLE_USED)) {
			free_at = MIN(free_at, i);
		} else if (!memcmp(h->table[i].name, key, sizeof key)) {
			*ret = table_id(i, state);
			return 0;
		}
	}
	if (free_at == CACHE_TABLES)
		return err_set(err, -ENOSPC, "more than %d different watches: join or remove controllers",
			       CACHE_TABLES);
	struct cache_table *t = &h->table[free_at];
	uint32_t generation = (atomic_load_explicit(&t->state, memory_order_relaxed) >> 2) + 1;
	generation &= UINT32_MAX >> CACHE_TABLE_BITS;
	memcpy(t->name, key, sizeof key);
	snprintf(t->api_version, sizeof t->api_version, "%s", api_version);
	snprintf(t->kind, sizeof t->kind, "%s", kind);
	t->scope = CACHE_SCOPE_UNKNOWN;
	t->custom = t->listed = 0;
	atomic_store_explicit(&t->objects, 0, memory_order_relaxed);
	atomic_store_explicit(&t->cut, 0, memory_order_relaxed);
	atomic_store_explicit(&t->seen, 0, memory_order_relaxed);
	uint32_t state = (generation ? generation : 1) << 2 | CACHE_TABLE_USED;
	atomic_store_explicit(&t->state, state, memory_order_release);
	*ret = table_id(free_at, state);
	return 0;
}

bool store_table_synced(struct store *s, uint32_t table)
{
	return atomic_load_explicit(&store_table_entry(s, table)->state, memory_order_relaxed) &
	       CACHE_TABLE_SYNCED;
}

void store_table_set_synced(struct store *s, uint32_t table, bool synced)
{
	_Atomic uint32_t *state = &store_table_entry(s, table)->state;
	uint32_t old = atomic_load_explicit(state, memory_order_relaxed) & ~(uint32_t)CACHE_TABLE_SYNCED;
	atomic_store_explicit(state, old | (synced ? CACHE_TABLE_SYNCED : 0), memory_order_release);
}

void store_tables_keep(struct store *s, bool (*keep)(void *ctx, uint32_t table), void *ctx)
{
	struct cache_header *h = store_header(s);
	for (uint32_t i = 0; i < CACHE_TABLES; i++) {
		uint32_t state = atomic_load_explicit(&h->table[i].state, memory_order_relaxed);
		if (!(state & CACHE_TABLE_USED) || keep(ctx, table_id(i, state)))
			continue;
		/* First nobody may find it, then its objects go, bit by bit; a start after a kill in between removes
		 * the rest. */
		atomic_store_explicit(&h->table[i].state, state & ~3u, memory_order_release);
		s->dropping = true;
		s->drop_at = 0;
	}
}

/* ---- slots ---- */

int store_more_slots(struct store *s, struct err *err)
{
	struct cache_header *h = store_header(s);
	uint32_t n = atomic_load_explicit(&h->extents, memory_order_relaxed);
	if (n == CACHE_EXTENTS)
		return err_set(err, -ENOSPC, "the cache has its %u objects: more are not possible",
			       CACHE_SLOTS);
	uint64_t offset = region_header(&s->region)->allocated;
	int rc = store_grow(s, &s->region, offset + CACHE_EXTENT_SLOTS * sizeof(struct cache_slot), err);
	if (rc < 0)
		return rc;
	atomic_store_explicit(&h->extent[n], offset, memory_order_relaxed);
	atomic_store_explicit(&h->extents, n + 1, memory_order_release);
	uint32_t first = n * CACHE_EXTENT_SLOTS;
	s->slots = first + CACHE_EXTENT_SLOTS;
	s->free_slots = xrealloc(s->free_slots, s->slots * sizeof *s->free_slots);
	s->marks = xrealloc(s->marks, s->slots * sizeof *s->marks);
	memset(s->marks + first, 0, CACHE_EXTENT_SLOTS * sizeof *s->marks);
	for (uint32_t i = 0; i < CACHE_EXTENT_SLOTS; i++)
		s->free_slots[s->n_free++] = s->slots - 1 - i;
	return 0;
}

void store_slot_switch(struct cache_slot *slot, uint64_t place)
{
	uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed) | 1;
	atomic_store_explicit(&slot->seq, seq, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&slot->place, place, memory_order_relaxed);
	atomic_store_explicit(&slot->seq, seq + 1, memory_order_release);
}

/* ---- records ---- */

uint32_t store_record_check(const struct cache_record *r)
{
	struct cache_record head = *r;
	head.check = 0;
	uint64_t h = hash_bytes(&head, sizeof head, HASH_SEED);
	h = hash_bytes(r + 1, cache_record_fixed(r) - sizeof head, h);
	return (uint32_t)(h ^ h >> 32);
}

static size_t owner_count(const struct object *o)
{
	struct json_iter it = {0};
	struct object_owner w;
	size_t n = 0;
	while (object_owner_next(o, &it, &w))
		n++;
	return n;
}

/* Packs; *ret_stored is what goes into the record. */
static int record_head(struct store *s, uint32_t table, const struct object *o, struct span json,
		       struct cache_record *ret, struct span *ret_stored, struct err *err)
{
	size_t owners = owner_count(o);
	if (owners > UINT16_MAX || o->namespace.len > NAMESPACE_MAX_LEN || o->name.len > NAME_MAX_LEN ||
	    o->uid.len > UINT16_MAX || o->version.len > UINT16_MAX || json.len > CACHE_OBJECT_MAX)
		return err_set(
		    err, -EMSGSIZE,
		    "an object of %zu bytes with %zu owners is too large for the cache (at most %llu bytes)",
		    json.len, owners, (unsigned long long)CACHE_OBJECT_MAX);
	*ret = (struct cache_record){.table = table,
				     .owners = (uint16_t)owners,
				     .namespace_len = (uint8_t)o->namespace.len,
				     .name_len = (uint8_t)o->name.len,
				     .uid_len = (uint16_t)o->uid.len,
				     .version_len = (uint16_t)o->version.len};
	*ret_stored = store_pack(s, table, json, ret);
	return 0;
}

static void record_write(char *at, const struct cache_record *head, const struct object *o,
			 struct span stored)
{
	struct cache_record *r = (struct cache_record *)(void *)at;
	*r = *head;
	at += sizeof *r;
	struct json_iter it = {0};
	struct object_owner w;
	while (object_owner_next(o, &it, &w)) {
		uint64_t owner = cache_owner_hash(w.uid);
		memcpy(at, &owner, 8);
		at += 8;
	}
	const struct span texts[] = {o->namespace, o->name, o->uid, o->version, stored};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		memcpy(at, texts[i].at, texts[i].len);
		at += texts[i].len;
	}
	r->check = store_record_check(r);
}

static void view(const struct store *s, uint32_t slot, uint64_t place, struct store_view *ret)
{
	const struct cache_record *r = store_record(s, place);
	const char *t = (const char *)(r + 1) + (size_t)r->owners * 8;
	ret->slot = slot;
	ret->table = r->table;
	ret->namespace = (struct span){t, r->namespace_len};
	ret->name = (struct span){t += r->namespace_len, r->name_len};
	ret->uid = (struct span){t += r->name_len, r->uid_len};
	ret->version = (struct span){t + r->uid_len, r->version_len};
	ret->cut = r->flags & CACHE_METADATA_ALONE;
}

/* ---- objects ---- */

struct name {
	uint32_t table;
	struct span namespace, name;
};

static bool has_name(const struct store *s, uint32_t slot, void *ctx)
{
	const struct name *n = ctx;
	uint64_t place = atomic_load_explicit(&store_slot(s, slot)->place, memory_order_relaxed);
	struct store_view v;
	if (!place)
		return false;
	view(s, slot, place, &v);
	return v.table == n->table && span_eq(v.namespace, n->namespace) && span_eq(v.name, n->name);
}

bool store_at(struct store *s, uint32_t slot, struct store_view *ret)
{
	uint64_t place =
	    slot < s->slots ? atomic_load_explicit(&store_slot(s, slot)->place, memory_order_relaxed) : 0;
	if (place)
		view(s, slot, place, ret);
	return place != 0;
}

static bool find(struct store *s, uint32_t table, struct span namespace, struct span name, uint32_t *ret)
{
	struct name n = {table, namespace, name};
	return store_index_find(s, STORE_INDEX_NAME, cache_name_hash(table, namespace, name), has_name, &n,
				ret);
}

bool store_find(struct store *s, uint32_t table, struct span namespace, struct span name,
		struct store_view *ret)
{
	uint32_t slot;
	return find(s, table, namespace, name, &slot) && store_at(s, slot, ret);
}

uint32_t store_slots(const struct store *s)
{
	return s->slots;
}
uint32_t *store_mark(struct store *s, uint32_t slot)
{
	return &s->marks[slot];
}

/* Adds or removes the owners of a record that `but` (may be NULL) has not: who owned it before and owns it
 * now is found all the time. */
static void index_owners(struct store *s, uint32_t slot, const struct cache_record *r,
			 const struct cache_record *but, bool add)
{
	for (size_t i = 0; r && i < r->owners; i++) {
		uint64_t owner = store_record_owner(r, i);
		if (store_record_owner_is_first(r, i) &&
		    !(but && store_record_has_owner(but, but->owners, owner)))
			(add ? store_index_add : store_index_remove)(s, STORE_INDEX_OWNER, owner, slot);
	}
}

/* Everything that can fail, before anything changes. */
static int reserve(struct store *s, const struct cache_record *head, bool is_new, struct err *err)
{
	int rc = 0;
	if (is_new && !s->n_free)
		rc = store_more_slots(s, err);
	if (rc == 0 && is_new)
		rc = store_index_reserve(s, STORE_INDEX_NAME, 1, err);
	if (rc == 0 && head->owners)
		rc = store_index_reserve(s, STORE_INDEX_OWNER, head->owners, err);
	return rc;
}

/* Each change pays for twice what it may have left behind, so that the mover keeps up with whoever never waits. */
static void after_change(struct store *s, uint64_t bytes)
{
	if (!store_pack_learn(s))
		store_move(s, 2 * bytes);
}

static void count_cut(struct store *s, const struct cache_record *now, const struct cache_record *before)
{
	const struct cache_record *any = now ? now : before;
	uint32_t more = (now && now->flags & CACHE_METADATA_ALONE) -
			(uint32_t)(before && before->flags & CACHE_METADATA_ALONE);
	if (more && table_alive(s, any->table))
		atomic_fetch_add_explicit(&store_table_entry(s, any->table)->cut, more, memory_order_relaxed);
}

static int put(struct store *s, uint32_t table, const struct object *o, struct span json, uint8_t flags,
	       uint32_t *ret_slot, struct err *err)
{
	struct cache_record head = {0};
	struct span stored = {0};
	uint32_t index = 0;
	bool is_new = !find(s, table, o->namespace, o->name, &index);
	int rc = record_head(s, table, o, json, &head, &stored, err);
	head.flags = flags;
	if (rc == 0)
		rc = reserve(s, &head, is_new, err);
	uint64_t place = 0, old = 0;
	char *at = NULL;
	if (rc == 0)
		rc = store_space_take(s, cache_record_size(&head), &place, &at, err);
	if (rc != 0)
		return rc;
	record_write(at, &head, o, stored);
	if (is_new)
		index = s->free_slots[--s->n_free];
	struct cache_slot *slot = store_slot(s, index);
	if (is_new) {
		slot->table = table;
		slot->hash = cache_name_hash(table, o->namespace, o->name);
		s->marks[index] = 0;
		s->objects++;
		atomic_fetch_add_explicit(&store_table_entry(s, table)->objects, 1, memory_order_relaxed);
	} else {
		old = atomic_load_explicit(&slot->place, memory_order_relaxed);
	}
	const struct cache_record *now = store_record(s, place), *before = old ? store_record(s, old) : NULL;
	store_slot_switch(slot, place);
	if (is_new)
		store_index_add(s, STORE_INDEX_NAME, slot->hash, index);
	index_owners(s, index, now, before, true);
	index_owners(s, index, before, now, false);
	count_cut(s, now, before);
	store_pack_stored(s, now, before);
	if (old)
		store_space_give(s, old);
	*ret_slot = index;
	after_change(s, cache_record_size(&head));
	return 0;
}

int store_put(struct store *s, uint32_t table, const struct object *o, struct span json, uint32_t *ret_slot,
	      struct err *err)
{
	return put(s, table, o, json, 0, ret_slot, err);
}

int store_put_metadata(struct store *s, uint32_t table, const struct object *o, struct span json,
		       uint32_t *ret_slot, struct err *err)
{
	s->purpose = STORE_METADATA;
	int rc = put(s, table, o, json, CACHE_METADATA_ALONE, ret_slot, err);
	s->purpose = STORE_OBJECT;
	return rc;
}

static void remove_object(struct store *s, uint32_t index, uint64_t place)
{
	struct cache_slot *slot = store_slot(s, index);
	store_slot_switch(slot, 0);
	store_index_remove(s, STORE_INDEX_NAME, slot->hash, index);
	index_owners(s, index, store_record(s, place), NULL, false);
	s->objects--;
	if (table_alive(s, slot->table))
		atomic_fetch_sub_explicit(&store_table_entry(s, slot->table)->objects, 1,
					  memory_order_relaxed);
	s->free_slots[s->n_free++] = index;
	count_cut(s, NULL, store_record(s, place));
	store_pack_gone(s, store_record(s, place));
	store_space_give(s, place);
}

void store_delete(struct store *s, uint32_t index)
{
	uint64_t place = atomic_load_explicit(&store_slot(s, index)->place, memory_order_relaxed);
	if (!place)
		return;
	remove_object(s, index, place);
	after_change(s, cache_place_length(place));
}

bool store_drop(struct store *s)
{
	if (!s->dropping)
		return false;
	for (uint32_t looked = 0, gone = 0; s->drop_at < s->slots && looked < DROP_LOOKS && gone < DROP_MAX;
	     looked++, s->drop_at++) {
		const struct cache_slot *slot = store_slot(s, s->drop_at);
		uint64_t place = atomic_load_explicit(&slot->place, memory_order_relaxed);
		if (place && !table_alive(s, slot->table)) {
			remove_object(s, s->drop_at, place);
			gone++;
		}
	}
	s->dropping = s->drop_at < s->slots;
	return true;
}

bool store_work(struct store *s)
{
	return store_drop(s) || store_pack_learn(s) || store_move(s, WORK_BYTES);
}

int store_json(struct store *s, uint32_t slot, struct span *ret)
{
	buf_reset(&s->json);
	int rc = store_unpack(s, atomic_load_explicit(&store_slot(s, slot)->place, memory_order_relaxed),
			      &s->json);
	if (rc == 0)
		*ret = buf_span(&s->json);
	return rc;
}

void store_usage(const struct store *s, struct store_usage *ret)
{
	*ret = (struct store_usage){.budget = s->budget, .allocated = s->allocated, .objects = s->objects};
	for (uint32_t i = 0; i < CACHE_SEGMENTS; i++)
		if (s->segments[i].file) {
			ret->segments++;
			ret->live += s->segments[i].live;
		}
	for (uint32_t i = 0; i < CACHE_TABLES; i++)
		ret->unpacked += s->packing[i].bytes;
}

/* ---- controllers ---- */

struct cache_controller *store_controller(struct store *s, const char *name, uint8_t *ret_index)
{
	struct cache_controller *all = store_header(s)->controller, *free_one = NULL;
	for (unsigned i = 0; i < CACHE_CONTROLLERS; i++) {
		if (!*all[i].name && !free_one) {
			free_one = &all[i];
		} else if (!strncmp(all[i].name, name, sizeof all[i].name)) {
			*ret_index = (uint8_t)i;
			return &all[i];
		}
	}
	if (!free_one)
		return NULL;
	atomic_store_explicit(&free_one->sweep, CACHE_SWEEP_ALL, memory_order_release);
	snprintf(free_one->name, sizeof free_one->name, "%s", name);
	*ret_index = (uint8_t)(free_one - all);
	return free_one;
}

struct cache_controller *store_controllers(struct store *s)
{
	return store_header(s)->controller;
}

void store_controllers_keep(struct store *s, bool (*keep)(void *ctx, const char *name), void *ctx)
{
	struct cache_header *h = store_header(s);
	for (size_t i = 0; i < CACHE_CONTROLLERS; i++) {
		struct cache_controller *c = &h->controller[i];
		if (*c->name && !keep(ctx, c->name))
			memset(c->name, 0, sizeof c->name);
	}
}

/* ---- outbox ---- */

uint32_t store_outbox_extents(const struct store *s, uint32_t *ret_most)
{
	*ret_most = s->outbox_most;
	return atomic_load_explicit(&store_header(s)->outbox_extents, memory_order_relaxed);
}

struct cache_outbox_entry *store_outbox(void *store, uint32_t extent)
{
	struct store *s = store;
	struct cache_header *h = store_header(s);
	uint32_t n = atomic_load_explicit(&h->outbox_extents, memory_order_relaxed);
	if (extent == n) {
		uint64_t offset = region_header(&s->region)->allocated;
		s->purpose = STORE_OUTBOX;
		int rc = store_grow(s, &s->region, offset + STORE_OUTBOX_EXTENT, NULL);
		s->purpose = STORE_OBJECT;
		if (rc < 0)
			return NULL;
		atomic_store_explicit(&h->outbox[n], offset, memory_order_relaxed);
		atomic_store_explicit(&h->outbox_extents, n + 1, memory_order_release);
	}
	return (struct cache_outbox_entry *)(void *)(s->region.at +
						     atomic_load_explicit(&h->outbox[extent],
									  memory_order_relaxed));
}
