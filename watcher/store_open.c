/* The start of the store: take over what a previous watcher left, or begin with nothing. Slots and the table
 * directory are the truth; everything else is derived from them here, and anything that does not fit together
 * makes the whole cache untrusted. */
#include "compress.h"
#include "store_internal.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { OUTBOX_PART = 16 }; /* of the budget, at most */

static void forget(struct store *s)
{
	for (uint32_t i = 0; i < CACHE_SEGMENTS; i++)
		if (s->segments[i].file)
			region_done(&s->segments[i].region);
	memset(s->segments, 0, CACHE_SEGMENTS * sizeof *s->segments);
	region_done(&s->region);
	store_pack_done(s);
	free(s->free_slots);
	free(s->marks);
	s->free_slots = s->marks = NULL;
	s->n_free = s->slots = s->objects = 0;
	s->allocated = 0;
	s->open = s->victim = CACHE_SEGMENTS;
	for (enum store_index i = 0; i < STORE_INDEXES; i++)
		store_index_close(s, i);
}

/* ---- what a header, a slot, a record must be ---- */

static bool aligned_inside(const struct store *s, uint64_t offset, uint64_t size)
{
	uint64_t allocated = region_header(&s->region)->allocated;
	return offset % REGION_PAGE == 0 && offset >= REGION_PAGE + CACHE_HEADER_SIZE &&
	       offset <= allocated && size <= allocated - offset;
}

static bool index_sane(const struct cache_header *h, uint64_t word)
{
	return cache_index_log2(word) <= CACHE_INDEX_LOG2_MAX && cache_index_file(word) < h->next_segment;
}

struct part {
	uint64_t offset, size;
};

static int by_offset(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Slots and the outbox must not lie upon each other: writing one would damage the other. */
static bool parts_apart(const struct store *s)
{
	struct cache_header *h = store_header(s);
	struct part parts[CACHE_EXTENTS + CACHE_OUTBOX_EXTENTS];
	size_t n = 0;
	for (uint32_t i = 0; i < h->extents; i++)
		parts[n++] = (struct part){h->extent[i], CACHE_EXTENT_SLOTS * sizeof(struct cache_slot)};
	for (uint32_t i = 0; i < h->outbox_extents; i++)
		parts[n++] = (struct part){h->outbox[i], STORE_OUTBOX_EXTENT};
	qsort(parts, n, sizeof *parts, by_offset);
	for (size_t i = 1; i < n; i++)
		if (parts[i - 1].size > parts[i].offset - parts[i - 1].offset)
			return false;
	return true;
}

static int check_header(const struct store *s, struct err *why)
{
	struct cache_header *h = store_header(s);
	uint32_t extents = atomic_load(&h->extents), outbox = atomic_load(&h->outbox_extents);
	if (extents > CACHE_EXTENTS || outbox > CACHE_OUTBOX_EXTENTS || !index_sane(h, h->name_index) ||
	    !index_sane(h, h->owner_index))
		return err_set(why, -EPROTO, "the cache's header is damaged");
	for (uint32_t i = 0; i < extents; i++)
		if (!aligned_inside(s, h->extent[i], CACHE_EXTENT_SLOTS * sizeof(struct cache_slot)))
			return err_set(why, -EPROTO, "the cache's slots lie outside of it");
	for (uint32_t i = 0; i < outbox; i++)
		if (!aligned_inside(s, h->outbox[i], STORE_OUTBOX_EXTENT))
			return err_set(why, -EPROTO, "the cache's outbox lies outside of it");
	if (!outbox)
		return err_set(why, -EPROTO, "the cache has no outbox: its first start was cut short");
	if (!parts_apart(s))
		return err_set(why, -EPROTO, "parts of the cache lie upon each other");
	for (size_t i = 0; i < CACHE_CONTROLLERS; i++)
		h->controller[i].name[sizeof h->controller[i].name - 1] = 0;
	return 0;
}

static bool record_sane(const struct store *s, uint64_t place)
{
	const struct store_segment *g = &s->segments[cache_place_segment(place)];
	uint64_t offset = cache_place_offset(place), length = cache_place_length(place);
	if (!g->file || offset < REGION_PAGE || length < sizeof(struct cache_record) ||
	    offset + length > region_header(&g->region)->allocated)
		return false;
	const struct cache_record *r = store_record(s, place);
	return r->object_len <= CACHE_OBJECT_MAX && cache_record_size(r) == length &&
	       store_record_check(r) == r->check;
}

static int attach_segments(struct store *s, struct err *why)
{
	struct cache_header *h = store_header(s);
	for (uint32_t i = 0; i < CACHE_SEGMENTS; i++) {
		uint64_t file = atomic_load(&h->segment_file[i]);
		if (!file)
			continue;
		int rc = store_segment_attach(s, i, file, why);
		if (rc < 0)
			return rc;
		if (rc != 1)
			return err_set(why, -EPROTO, "cache-%llu.seg is missing or damaged",
				       (unsigned long long)file);
	}
	return 0;
}

static bool table_exists(const struct store *s, uint32_t table)
{
	uint32_t state = atomic_load(&store_header(s)->table[table % CACHE_TABLES].state);
	return state & CACHE_TABLE_USED && state >> 2 == table >> CACHE_TABLE_BITS;
}

/* A slot of a killed writer: its place is the old or the new one, both whole, so an odd seq is made even. */
static int take_slot(struct store *s, uint32_t i, struct err *why)
{
	struct cache_slot *slot = store_slot(s, i);
	uint64_t seq = atomic_load(&slot->seq), place = atomic_load(&slot->place);
	if (place && !record_sane(s, place))
		return err_set(why, -EPROTO, "slot %u of the cache names a damaged record", i);
	if (place && !table_exists(s, store_record(s, place)->table)) {
		store_slot_switch(slot, 0); /* its table was being dropped */
		place = 0;
	} else if (seq & 1) {
		atomic_store_explicit(&slot->seq, seq + 1, memory_order_release);
	}
	if (!place) {
		s->free_slots[s->n_free++] = i;
		return 0;
	}
	const struct cache_record *r = store_record(s, place);
	if (store_pack_found(s, r) < 0)
		return err_set(why, -EPROTO, "cache-%u.dic is missing or damaged", r->dictionary);
	struct store_segment *g = &s->segments[cache_place_segment(place)];
	const char *text = (const char *)(r + 1) + (size_t)r->owners * 8;
	slot->table = r->table;
	slot->hash = cache_name_hash(r->table, (struct span){text, r->namespace_len},
				     (struct span){text + r->namespace_len, r->name_len});
	g->live += cache_place_length(place);
	g->used = MAX(g->used, cache_place_offset(place) + cache_place_length(place));
	s->objects++;
	atomic_fetch_add(&store_table_entry(s, r->table)->objects, 1);
	if (r->flags & CACHE_METADATA_ALONE)
		atomic_fetch_add(&store_table_entry(s, r->table)->cut, 1);
	return 0;
}

static int take_slots(struct store *s, struct err *why)
{
	struct cache_header *h = store_header(s);
	s->slots = atomic_load(&h->extents) * CACHE_EXTENT_SLOTS;
	s->free_slots = xcalloc(MAX(s->slots, 1u), sizeof *s->free_slots);
	s->marks = xcalloc(MAX(s->slots, 1u), sizeof *s->marks);
	for (size_t i = 0; i < CACHE_TABLES; i++) {
		atomic_store(&h->table[i].objects, 0);
		atomic_store(&h->table[i].cut, 0);
	}
	for (uint32_t i = s->slots; i-- > 0;) { /* the lowest free slot ends on top of the stack */
		int rc = take_slot(s, i, why);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int recover(struct store *s, struct err *why)
{
	int rc = check_header(s, why);
	if (rc == 0)
		rc = attach_segments(s, why);
	if (rc == 0)
		rc = take_slots(s, why);
	if (rc < 0)
		return rc;
	uint64_t best = 0;
	for (uint32_t i = 0; i < CACHE_SEGMENTS; i++) {
		struct store_segment *g = &s->segments[i];
		g->cap = g->file ? MAX(s->segment_cap, g->used) : 0;
		if (g->file && !g->live)
			store_segment_drop(s, i);
		else if (g->file && g->cap - g->used > best) {
			best = g->cap - g->used;
			s->open = i;
		}
	}
	for (enum store_index i = 0; i < STORE_INDEXES && rc == 0; i++)
		rc = store_index_repair(s, i) ? 0 : store_index_rebuild(s, i, 1, why);
	return rc;
}

/* ---- a new one ---- */

static bool is_named(const struct store *s, uint64_t file, const char *ending)
{
	bool named = false;
	if (!strcmp(ending, ".dic"))
		return file <= UINT32_MAX && store_dictionary_known(s, (uint32_t)file);
	for (uint32_t i = 0; i < CACHE_SEGMENTS && !strcmp(ending, ".seg"); i++)
		named = named || s->segments[i].file == file;
	for (enum store_index i = 0; i < STORE_INDEXES && !strcmp(ending, ".idx"); i++)
		named = named || (s->index[i].word && cache_index_file(s->index[i].word) == file);
	return named;
}

/* Files that nothing names: of an untrusted cache, or of a writer killed between making one and naming it. */
static void unlink_strays(const struct store *s)
{
	static const char *const endings[] = {".seg", ".dic", ".idx"};
	DIR *d = opendir(s->region_dir);
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		unsigned long long file;
		int end = 0;
		if (sscanf(e->d_name, "cache-%llu%n", &file, &end) != 1)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
			if (!strcmp(e->d_name + end, endings[i]) && !is_named(s, file, endings[i]))
				unlinkat(dirfd(d), e->d_name, 0);
	}
	closedir(d);
}

static int begin(struct store *s, struct err *err)
{
	struct cache_header *h = store_header(s);
	/* Numbers of a cache that was here before do not come again: somebody may still read it. */
	atomic_store(&h->next_segment, (uint64_t)(clock_boottime_ns() / NS_PER_MS) % INT32_MAX + 1);
	if (!store_outbox(s, 0))
		return err_set(err, -ENOSPC, "the file system of %s is full", s->region_dir);
	int rc = store_more_slots(s, err);
	if (rc == 0)
		rc = store_index_rebuild(s, STORE_INDEX_NAME, 1, err);
	return rc < 0 ? rc : store_index_rebuild(s, STORE_INDEX_OWNER, 1, err);
}

static int open_region(struct store *s, enum region_state *ret_state, struct err *why, struct err *err)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/cache.shm", s->region_dir);
	struct region_spec spec = cache_region_spec();
	struct err text = {0};
	int rc = region_write(path, &spec, &s->region, ret_state, &text);
	if (rc < 0)
		return err_set(err, rc, "%s", text.text);
	if (*ret_state == REGION_REPLACED)
		err_set(why, 0, "%s", text.text);
	s->allocated = region_header(&s->region)->allocated;
	return 0;
}

/* The budget must be there, or it would be a promise that cannot be kept: what is free and what the cache has
 * already. */
static int check_space(const struct store *s, struct err *err)
{
	struct statvfs fs;
	if (statvfs(s->region_dir, &fs) < 0)
		return err_set(err, -errno, "cannot look at %s: %s", s->region_dir, strerror(errno));
	uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize + s->allocated;
	if (room >= s->budget)
		return 0;
	return err_set(err, -ENOSPC,
		       "%s has %llu bytes free, the cache may need %llu (budgets.cache): make the file "
		       "system larger or set a smaller "
		       "budget in reconciled.yaml",
		       s->region_dir, (unsigned long long)room, (unsigned long long)s->budget);
}

int store_open(const char *region_dir, uint64_t budget, struct store **ret, bool *ret_lost, struct err *why,
	       struct err *err)
{
	if (budget < STORE_BUDGET_MIN)
		return err_set(err, -EINVAL, "a cache budget of %llu bytes is too small: at least %llu",
			       (unsigned long long)budget, (unsigned long long)STORE_BUDGET_MIN);
	struct store *s = xcalloc(1, sizeof *s);
	s->region.fd = -1;
	s->region_dir = xstrdup(region_dir);
	s->budget = budget;
	s->outbox_most = (uint32_t)MIN(MAX(budget / OUTBOX_PART / STORE_OUTBOX_EXTENT, UINT64_C(1)),
				       (uint64_t)CACHE_OUTBOX_EXTENTS);
	s->segment_cap = MIN(CACHE_SEGMENT_SIZE, budget / 8 / REGION_PAGE * REGION_PAGE);
	s->segments = xcalloc(CACHE_SEGMENTS, sizeof *s->segments);
	s->packing = xcalloc(CACHE_TABLES, sizeof *s->packing);
	s->compress = compress_new();
	s->unpack = cache_unpack_new(region_dir);
	s->open = s->victim = CACHE_SEGMENTS;
	why->text[0] = 0;
	enum region_state state;
	int rc = open_region(s, &state, why, err);
	if (rc == 0 && state == REGION_RECOVERED && recover(s, why) < 0) {
		atomic_store_explicit(&store_header(s)->gone, 1, memory_order_release);
		_cleanup_(free_ptr) char *path = xasprintf("%s/cache.shm", region_dir);
		unlink(path);
		forget(s);
		rc = open_region(s, &state, &(struct err){0}, err);
	}
	if (rc == 0) {
		unlink_strays(s);
		rc = check_space(s, err);
		/* What is there already is worth keeping, whoever has filled the file system. */
		if (rc < 0 && state == REGION_RECOVERED)
			rc = err_set(why, 0, "%s", err->text);
	}
	if (rc == 0) {
		*ret_lost = state != REGION_RECOVERED;
		rc = *ret_lost ? begin(s, err) : 0;
	}
	if (rc < 0) {
		store_close(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	forget(s);
	compress_free(s->compress);
	cache_unpack_free(s->unpack);
	buf_done(&s->packed);
	buf_done(&s->json);
	free(s->packing);
	free(s->segments);
	free(s->region_dir);
	free(s);
}

struct cache_lead *store_lead(struct store *s)
{
	return &store_header(s)->lead;
}

const char *store_missing(const struct store *s)
{
	if (!region_in_place(&s->region))
		return s->region.path;
	for (uint32_t i = 0; i < CACHE_SEGMENTS; i++)
		if (s->segments[i].file && !region_in_place(&s->segments[i].region))
			return s->segments[i].region.path;
	for (enum store_index i = 0; i < STORE_INDEXES; i++)
		if (!region_in_place(&s->index[i].region))
			return s->index[i].region.path;
	return store_dictionary_missing(s);
}
