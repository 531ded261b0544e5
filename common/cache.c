#include "cache.h"
#include "cache_unpack.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum {
	/* of one read; a slot is odd for three stores, so more than a few means a dead or stopped writer */
	TRIES = 200,
	/* a dictionary goes when nothing names it any more, so the next look finds another record */
	DICTIONARY_TRIES = 4,
	/* a file that a person removed does not say that it is gone: it is looked for so often */
	LOOK_MS = 100,
};

struct segment {
	struct region region;
	uint64_t file; /* N of cache-N.seg; 0: not open */
};

struct cache {
	char *region_dir;
	struct region region;
	struct segment *segments; /* CACHE_SEGMENTS */
	struct index {
		struct region region;
		uint64_t word; /* 0: not open */
	} by_name, by_owner;
	uint64_t segment_epoch;
	int64_t looked_ms;
	struct cache_unpack *unpack;
	struct buf record, object; /* the one being read; object: during a walk */
	uint32_t *found;	   /* slots of the last probe */
	size_t n_found, found_cap;
};

int cache_open(const char *region_dir, struct cache **ret, struct err *err)
{
	struct cache *c = xcalloc(1, sizeof *c);
	c->region.fd = -1;
	c->region_dir = xstrdup(region_dir);
	c->segments = xcalloc(CACHE_SEGMENTS, sizeof *c->segments);
	c->unpack = cache_unpack_new(region_dir);
	struct region_spec spec = cache_region_spec();
	_cleanup_(free_ptr) char *path = xasprintf("%s/cache.shm", region_dir);
	int rc = region_read(path, &spec, &c->region, err);
	if (rc == 0 && c->region.mapped < REGION_PAGE + CACHE_HEADER_SIZE)
		rc = err_set(err, -EPROTO, "%s is too short", path);
	if (rc < 0) {
		cache_close(c);
		return rc;
	}
	*ret = c;
	return 0;
}

static void segment_close(struct segment *s)
{
	if (s->file)
		region_done(&s->region);
	*s = (struct segment){0};
}

static void index_close(struct index *x)
{
	if (x->word)
		region_done(&x->region);
	*x = (struct index){0};
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->segments && i < CACHE_SEGMENTS; i++)
		segment_close(&c->segments[i]);
	index_close(&c->by_name);
	index_close(&c->by_owner);
	region_done(&c->region);
	cache_unpack_free(c->unpack);
	buf_done(&c->record);
	buf_done(&c->object);
	free(c->segments);
	free(c->found);
	free(c->region_dir);
	free(c);
}

static struct cache_header *header(const struct cache *c)
{
	return (struct cache_header *)(void *)(c->region.at + REGION_PAGE);
}

/* n bytes at this offset of cache.shm, or NULL if they are not there (a header cannot be trusted to say the
 * truth). */
static void *at(struct cache *c, uint64_t offset, uint64_t n)
{
	if (offset % 8 || offset > CACHE_MAX_SIZE || n > CACHE_MAX_SIZE)
		return NULL;
	if (offset + n > c->region.mapped && (region_remap(&c->region) < 0 || offset + n > c->region.mapped))
		return NULL;
	return c->region.at + offset;
}

/* Once per call from outside: is this still the watcher's file, and which segments have gone? */
static int refresh(struct cache *c, struct err *err)
{
	struct cache_header *h = header(c);
	struct timespec now;
	struct stat st;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	int64_t now_ms = now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
	bool look = now_ms - c->looked_ms >= LOOK_MS;
	c->looked_ms = look ? now_ms : c->looked_ms;
	if (atomic_load_explicit(&h->gone, memory_order_relaxed) ||
	    (look && (fstat(c->region.fd, &st) < 0 || st.st_nlink == 0)))
		return err_set(err, -ESTALE, "the cache in %s was made anew", c->region_dir);
	uint64_t epoch = atomic_load_explicit(&h->segment_epoch, memory_order_acquire);
	if (epoch == c->segment_epoch)
		return 0;
	c->segment_epoch = epoch;
	for (size_t i = 0; i < CACHE_SEGMENTS; i++)
		if (c->segments[i].file &&
		    c->segments[i].file != atomic_load_explicit(&h->segment_file[i], memory_order_acquire))
			segment_close(&c->segments[i]);
	return 0;
}

static bool table_alive(const struct cache *c, uint32_t table, uint32_t *ret_state)
{
	uint32_t state =
	    atomic_load_explicit(&header(c)->table[table % CACHE_TABLES].state, memory_order_acquire);
	*ret_state = state;
	return state & CACHE_TABLE_USED && state >> 2 == table >> CACHE_TABLE_BITS;
}

int cache_table(struct cache *c, const char *table_name, uint32_t *ret_table)
{
	int rc = refresh(c, NULL);
	if (rc < 0)
		return rc;
	char key[CACHE_TABLE_NAME];
	cache_table_key(table_name, key);
	struct cache_header *h = header(c);
	for (uint32_t i = 0; i < CACHE_TABLES; i++) {
		uint32_t state = atomic_load_explicit(&h->table[i].state, memory_order_acquire);
		if (!(state & CACHE_TABLE_USED) || memcmp(h->table[i].name, key, sizeof key) != 0)
			continue;
		*ret_table = i | state >> 2 << CACHE_TABLE_BITS;
		if (table_alive(c, *ret_table, &state))
			return 0;
	}
	return -ENOENT;
}

bool cache_table_synced(struct cache *c, uint32_t table)
{
	uint32_t state;
	return refresh(c, NULL) == 0 && table_alive(c, table, &state) && state & CACHE_TABLE_SYNCED;
}

/* The mapped bytes of a place, or NULL: the segment is gone or shorter than the place says, so the place is
 * old. */
static const char *place_at(struct cache *c, uint64_t place)
{
	uint32_t index = cache_place_segment(place);
	uint64_t offset = cache_place_offset(place), length = cache_place_length(place);
	uint64_t file = atomic_load_explicit(&header(c)->segment_file[index], memory_order_acquire);
	struct segment *s = &c->segments[index];
	if (s->file != file)
		segment_close(s);
	if (!file || length < sizeof(struct cache_record))
		return NULL;
	if (!s->file) {
		struct region_spec spec = cache_segment_spec();
		_cleanup_(free_ptr) char *path =
		    xasprintf("%s/cache-%llu.seg", c->region_dir, (unsigned long long)file);
		if (region_read(path, &spec, &s->region, NULL) < 0)
			return NULL;
		s->file = file;
	}
	if (offset + length > s->region.mapped &&
	    (region_remap(&s->region) < 0 || offset + length > s->region.mapped))
		return NULL;
	return s->region.at + offset;
}

static struct cache_slot *slot_at(struct cache *c, uint32_t slot)
{
	struct cache_header *h = header(c);
	uint32_t extent = slot / CACHE_EXTENT_SLOTS;
	if (extent >= CACHE_EXTENTS || extent >= atomic_load_explicit(&h->extents, memory_order_acquire))
		return NULL;
	uint64_t offset = atomic_load_explicit(&h->extent[extent], memory_order_acquire);
	struct cache_slot *slots = at(c, offset, CACHE_EXTENT_SLOTS * sizeof *slots);
	return slots ? slots + slot % CACHE_EXTENT_SLOTS : NULL;
}

/* What a reader wants of a record: only this table, only this name or owner where they are given. */
struct wanted {
	uint32_t table;
	const struct span *namespace, *name;
	uint64_t owner; /* hash; 0: any */
};

static bool record_has(const char *r, const struct cache_record *head, const struct wanted *w)
{
	const char *text = r + sizeof *head + (size_t)head->owners * 8;
	if (head->table != w->table)
		return false;
	if (w->name && (!span_eq(*w->namespace, (struct span){text, head->namespace_len}) ||
			!span_eq(*w->name, (struct span){text + head->namespace_len, head->name_len})))
		return false;
	if (!w->owner)
		return true;
	for (size_t i = 0; i < head->owners; i++) {
		uint64_t owner;
		memcpy(&owner, r + sizeof *head + i * 8, 8);
		if (owner == w->owner)
			return true;
	}
	return false;
}

/* Copies the whole record to c->record if the slot has one that is wanted: 1 yes, 0 no, -EAGAIN not now. */
static int read_slot(struct cache *c, uint32_t index, const struct wanted *w, struct cache_record *ret)
{
	for (int i = 0; i < TRIES; i++) {
		struct cache_slot *s = slot_at(c, index);
		if (!s)
			return 0;
		if (i > 4)
			sched_yield();
		uint64_t seq = atomic_load_explicit(&s->seq, memory_order_acquire);
		if (seq & 1)
			continue;
		uint64_t place = atomic_load_explicit(&s->place, memory_order_acquire);
		if (!place) {
			atomic_thread_fence(memory_order_acquire);
			if (atomic_load_explicit(&s->seq, memory_order_relaxed) == seq)
				return 0;
			continue;
		}
		const char *r = place_at(c, place);
		bool found = false, whole = false;
		buf_reset(&c->record);
		if (r) {
			struct cache_record head;
			memcpy(&head, r, sizeof head);
			whole = cache_record_size(&head) <= cache_place_length(place);
			found = whole && record_has(r, &head, w);
			if (found) {
				*ret = head;
				buf_add(&c->record, r, cache_record_fixed(&head) + head.stored_len);
				if (buf_failed(&c->record))
					return -ENOMEM;
			}
		}
		atomic_thread_fence(memory_order_acquire);
		/* Segments may have been remapped, never cache.shm: s is still good. */
		if (atomic_load_explicit(&s->seq, memory_order_relaxed) == seq && whole)
			return found;
	}
	return -EAGAIN;
}

/* The same, and appends the object to out. */
static int read_object(struct cache *c, uint32_t index, const struct wanted *w, struct buf *out,
		       struct cache_record *ret)
{
	for (int i = 0; i < DICTIONARY_TRIES; i++) {
		int rc = read_slot(c, index, w, ret);
		if (rc <= 0)
			return rc;
		if (ret->flags & CACHE_METADATA_ALONE)
			return -ENODATA;
		rc = cache_unpack_object(c->unpack, ret, c->record.data + cache_record_fixed(ret), out);
		if (rc != -ENOENT)
			return rc < 0 ? rc : 1;
	}
	return -EAGAIN;
}

/* The entries of the index that the word names; NULL: its file is not there, so the word is old. */
static int open_index(struct cache *c, struct index *x, uint64_t word, _Atomic uint64_t **ret)
{
	*ret = NULL;
	if (x->word != word) {
		struct region_spec spec = cache_index_spec(word);
		_cleanup_(free_ptr) char *path =
		    xasprintf("%s/cache-%llu.idx", c->region_dir, (unsigned long long)cache_index_file(word));
		index_close(x);
		int rc = region_read(path, &spec, &x->region, NULL);
		if (rc < 0)
			return rc == -ENOENT ? 0 : rc;
		x->word = word;
	}
	if (x->region.mapped < cache_index_size(word))
		return -EPROTO;
	*ret = (_Atomic uint64_t *)(void *)(x->region.at + REGION_PAGE);
	return 0;
}

static void found(struct cache *c, uint32_t slot)
{
	if (c->n_found == c->found_cap) {
		c->found_cap = c->found_cap ? c->found_cap * 2 : 16;
		c->found = xrealloc(c->found, c->found_cap * sizeof *c->found);
	}
	c->found[c->n_found++] = slot;
}

/* Puts the slots that the index names for this hash into c->found. */
static int probe(struct cache *c, struct index *x, const _Atomic uint64_t *shared, uint64_t hash)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t word = atomic_load_explicit(shared, memory_order_acquire);
		_Atomic uint64_t *entries;
		c->n_found = 0;
		if (!word)
			return 0;
		unsigned log2 = cache_index_log2(word);
		uint64_t mask = (UINT64_C(1) << log2) - 1;
		int rc = log2 > CACHE_INDEX_LOG2_MAX ? -EPROTO : open_index(c, x, word, &entries);
		if (rc < 0)
			return rc;
		for (uint64_t n = 0, k = cache_index_home(hash, log2); entries && n <= mask;
		     n++, k = (k + 1) & mask) {
			uint64_t e = atomic_load_explicit(&entries[k], memory_order_acquire);
			if (!e)
				break;
			if (e != CACHE_INDEX_GONE && !((e ^ hash) >> 32))
				found(c, cache_index_slot(e));
		}
		if (entries && atomic_load_explicit(shared, memory_order_acquire) == word)
			return 0;
	}
	return -EAGAIN;
}

static int not_now(int rc, struct err *err)
{
	if (rc == -EAGAIN)
		return err_set(
		    err, rc, "an object is being written, or its writer died in the middle: try again later");
	if (rc == -ENODATA)
		return err_set(err, rc,
			       "the cache, or the file system of its folder, had no room for an object, only "
			       "for its metadata: raise "
			       "budgets.cache in reconciled.yaml, make room, or watch less");
	if (rc == -EPROTO)
		return err_set(
		    err, rc,
		    "an object in the cache is damaged: restart reconciled-watcher to have it made anew");
	return err_set(err, rc, "the cache cannot be read: %s", strerror(-rc));
}

int cache_get(struct cache *c, uint32_t table, struct span namespace, struct span name, struct buf *out,
	      struct err *err)
{
	uint32_t state;
	int rc = refresh(c, err);
	if (rc < 0)
		return rc;
	if (!table_alive(c, table, &state))
		return err_set(err, -ESTALE, "the watcher has dropped this table");
	rc = probe(c, &c->by_name, &header(c)->name_index, cache_name_hash(table, namespace, name));
	struct wanted w = {.table = table, .namespace = &namespace, .name = &name};
	struct cache_record head = {0};
	for (size_t i = 0; rc == 0 && i < c->n_found; i++)
		rc = read_object(c, c->found[i], &w, out, &head);
	if (rc < 0)
		return not_now(rc, err);
	return rc ? 0 : err_set(err, -ENOENT, "not in the cache");
}

struct walk {
	struct wanted w;
	int (*on_object)(void *ctx, struct span namespace, struct span name, struct span object);
	void *ctx;
};

/* 0: go on, 1: on_object ended it, or negative. */
static int walk_slot(struct cache *c, const struct walk *k, uint32_t slot, int *ret_code)
{
	struct cache_record head = {0};
	buf_reset(&c->object);
	int rc = read_object(c, slot, &k->w, &c->object, &head);
	if (rc <= 0)
		return rc;
	const char *text = c->record.data + sizeof head + (size_t)head.owners * 8;
	struct span namespace = {text, head.namespace_len}, name = {text + head.namespace_len, head.name_len};
	*ret_code = k->on_object(k->ctx, namespace, name, buf_span(&c->object));
	return *ret_code != 0;
}

static int walk_owned(struct cache *c, const struct walk *k, int *ret_code)
{
	int rc = probe(c, &c->by_owner, &header(c)->owner_index, k->w.owner);
	for (size_t i = 0; rc == 0 && i < c->n_found; i++)
		rc = walk_slot(c, k, c->found[i], ret_code);
	return rc;
}

static int walk_all(struct cache *c, const struct walk *k, int *ret_code)
{
	uint32_t extents = atomic_load_explicit(&header(c)->extents, memory_order_acquire);
	for (uint32_t i = 0; i < MIN(extents, (uint32_t)CACHE_EXTENTS) * CACHE_EXTENT_SLOTS; i++) {
		const struct cache_slot *s = slot_at(c, i);
		int rc = s && s->table == k->w.table ? walk_slot(c, k, i, ret_code) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

int cache_walk(struct cache *c, uint32_t table, struct span owner_uid,
	       int (*on_object)(void *ctx, struct span namespace, struct span name, struct span object),
	       void *ctx, struct err *err)
{
	uint32_t state;
	int code = 0, rc = refresh(c, err);
	if (rc < 0)
		return rc;
	if (!table_alive(c, table, &state))
		return err_set(err, -ESTALE, "the watcher has dropped this table");
	struct walk k = {.w = {.table = table, .owner = owner_uid.len ? cache_owner_hash(owner_uid) : 0},
			 .on_object = on_object,
			 .ctx = ctx};
	rc = k.w.owner ? walk_owned(c, &k, &code) : walk_all(c, &k, &code);
	return rc < 0 ? not_now(rc, err) : code;
}
