/* How objects lie in their records: packed one by one, with a dictionary of their table once it has enough to learn from.
 *
 * A dictionary is trained from objects of the table, spread over all of it; those that are stored already are packed anew bit by bit
 * (store_move.c). When what comes in packs worse than what came in at first, another one is trained. Its file goes with the last record
 * that names it. Tables of Secrets get none: its bytes would outlive the Secrets that they are from. */
#include "compress.h"
#include "store_internal.h"
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

enum {
	PACK_MIN = 256, /* bytes: shorter ones stay as they are */
	TRAIN_OBJECTS = 64,
	TRAIN_BYTES = 512 << 10, /* so much must be there: fifteen times the dictionary */
	SAMPLE_BYTES = 1 << 20,	 /* so much is looked at; twice as much gives no better dictionary */
	SAMPLE_MAX = 64 << 10,	 /* of one object */
	WINDOW = 512,		 /* objects over which packing is judged */
	READY_MAX = 16,		 /* dictionaries that are ready for packing, 80 KB each */
	DICTIONARY_FILE = 36 << 10,
};

static struct store_packing *packing_of(struct store *s, uint32_t table)
{
	struct store_packing *p = &s->packing[table % CACHE_TABLES];
	if (p->table != table) { /* of a table that is no more */
		if (p->dictionary)
			store_dictionary_drop(s, p->dictionary);
		compress_dictionary_free(p->ready);
		const struct cache_table *t = store_table_entry(s, table);
		*p = (struct store_packing){.table = table,
					    .learns = strcmp(t->kind, "Secret") != 0 ||
						      strcmp(t->api_version, "v1") != 0,
					    .train_at = TRAIN_BYTES};
	}
	return p;
}

/* ---- dictionaries ---- */

static char *dictionary_path(const struct store *s, uint32_t file)
{
	return xasprintf("%s/cache-%u.dic", s->region_dir, file);
}

static struct store_dictionary *dictionary(const struct store *s, uint32_t file)
{
	size_t low = 0, high = s->n_dictionaries;
	while (low < high) { /* later files have higher numbers and stand behind */
		size_t middle = low + (high - low) / 2;
		if (s->dictionaries[middle].file < file)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->n_dictionaries && s->dictionaries[low].file == file ? &s->dictionaries[low] : NULL;
}

static struct store_dictionary *dictionary_add(struct store *s, uint32_t file, uint32_t table)
{
	s->dictionaries = xrealloc(s->dictionaries, (s->n_dictionaries + 1) * sizeof *s->dictionaries);
	size_t at = s->n_dictionaries++;
	for (; at && s->dictionaries[at - 1].file > file; at--) /* at a start they come in any order */
		s->dictionaries[at] = s->dictionaries[at - 1];
	s->dictionaries[at] = (struct store_dictionary){.file = file, .table = table};
	s->allocated += DICTIONARY_FILE;
	return &s->dictionaries[at];
}

void store_dictionary_drop(struct store *s, uint32_t file)
{
	struct store_dictionary *d = dictionary(s, file);
	if (!d || d->uses)
		return;
	struct store_packing *p = &s->packing[d->table % CACHE_TABLES];
	if (p->dictionary == file) {
		compress_dictionary_free(p->ready);
		p->ready = NULL;
		p->dictionary = 0;
		p->train_at = TRAIN_BYTES;
	}
	_cleanup_(free_ptr) char *path = dictionary_path(s, file);
	unlink(path);
	s->allocated -= MIN(s->allocated, (uint64_t)DICTIONARY_FILE);
	size_t at = (size_t)(d - s->dictionaries);
	memmove(d, d + 1, (--s->n_dictionaries - at) * sizeof *d);
}

void store_dictionary_count(struct store *s, uint32_t file, int uses)
{
	struct store_dictionary *d = file ? dictionary(s, file) : NULL;
	if (!d)
		return;
	d->uses += (uint32_t)uses;
	if (!d->uses)
		store_dictionary_drop(s, file);
}

bool store_dictionary_known(const struct store *s, uint32_t file)
{
	return dictionary(s, file);
}

int store_pack_found(struct store *s, const struct cache_record *r)
{
	struct store_packing *p = packing_of(s, r->table);
	p->bytes += r->object_len;
	if (!r->dictionary)
		return 0;
	struct store_dictionary *d = dictionary(s, r->dictionary);
	if (!d) {
		struct buf bytes = {0};
		uint32_t table;
		int rc = cache_unpack_read_dictionary(s->region_dir, r->dictionary, &bytes, &table);
		buf_done(&bytes);
		if (rc < 0)
			return rc;
		d = dictionary_add(s, r->dictionary, r->table);
		p->dictionary = MAX(p->dictionary, r->dictionary); /* the newest one goes on being used */
	}
	d->uses++;
	return 0;
}

const char *store_dictionary_missing(const struct store *s)
{
	static char path[4096]; /* said once, before the process ends */
	for (size_t i = 0; i < s->n_dictionaries; i++) {
		snprintf(path, sizeof path, "%s/cache-%u.dic", s->region_dir, s->dictionaries[i].file);
		if (access(path, F_OK) < 0)
			return path;
	}
	return NULL;
}

void store_pack_done(struct store *s)
{
	for (size_t i = 0; s->packing && i < CACHE_TABLES; i++) {
		compress_dictionary_free(s->packing[i].ready);
		s->packing[i] = (struct store_packing){0};
	}
	free(s->dictionaries);
	s->dictionaries = NULL;
	s->n_dictionaries = 0;
}

/* ---- training ---- */

struct samples {
	struct buf text;
	size_t *lengths, n;
};

/* Objects of the table, as many as SAMPLE_BYTES are, with equal steps between them. */
static void collect(struct store *s, const struct store_packing *p, struct samples *out)
{
	uint64_t objects =
	    atomic_load_explicit(&store_table_entry(s, p->table)->objects, memory_order_relaxed);
	uint64_t want = MAX(
	    MIN(objects, SAMPLE_BYTES / MAX(p->bytes / MAX(objects, UINT64_C(1)), UINT64_C(1))), UINT64_C(1));
	uint64_t step = MAX(objects / want, UINT64_C(1)), met = 0;
	out->lengths = xcalloc(objects / step + 1, sizeof *out->lengths);
	for (uint32_t i = 0; i < s->slots && out->n < objects / step && out->text.len < 2 * SAMPLE_BYTES;
	     i++) {
		const struct cache_slot *slot = store_slot(s, i);
		uint64_t place = atomic_load_explicit(&slot->place, memory_order_relaxed);
		if (!place || slot->table != p->table || met++ % step)
			continue;
		size_t before = out->text.len;
		if (store_unpack(s, place, &out->text) < 0)
			continue;
		out->text.len = MIN(out->text.len, before + SAMPLE_MAX);
		out->lengths[out->n++] = out->text.len - before;
	}
}

/* A file that is whole before anybody hears of it. */
static int write_dictionary(struct store *s, uint32_t table, struct span bytes, uint32_t *ret)
{
	if (s->allocated + DICTIONARY_FILE > store_limit(s))
		return -EDQUOT;
	uint64_t file = atomic_fetch_add_explicit(&store_header(s)->next_segment, 1, memory_order_release);
	if (file > UINT32_MAX)
		return -ERANGE;
	_cleanup_(free_ptr) char *path = dictionary_path(s, (uint32_t)file);
	struct region_spec spec = cache_dictionary_spec();
	struct region r;
	enum region_state state;
	int rc = region_write(path, &spec, &r, &state, NULL);
	if (rc < 0) {
		unlink(path);
		return rc;
	}
	struct cache_dictionary head = {.check = hash_bytes(bytes.at, bytes.len, HASH_SEED),
					.table = table,
					.length = (uint32_t)bytes.len};
	memcpy(r.at + REGION_PAGE, &head, sizeof head);
	memcpy(r.at + REGION_PAGE + sizeof head, bytes.at, bytes.len);
	region_done(&r);
	*ret = (uint32_t)file;
	return 0;
}

static void train(struct store *s, struct store_packing *p)
{
	struct samples samples = {0};
	static char bytes[CACHE_DICTIONARY_MAX];
	uint32_t file, old = p->dictionary;
	collect(s, p, &samples);
	size_t room = MIN(sizeof bytes, samples.text.len / 8);
	ssize_t n = compress_train(buf_span(&samples.text), samples.lengths, samples.n, bytes, room);
	p->train_at = MAX(p->bytes, (uint64_t)TRAIN_BYTES) * 2; /* after a failure */
	p->since = 0;
	p->worse = false;
	p->first_out = 0;
	if (n > 0 && write_dictionary(s, p->table, (struct span){bytes, (size_t)n}, &file) == 0) {
		dictionary_add(s, file, p->table);
		compress_dictionary_free(p->ready);
		p->ready = NULL;
		p->dictionary = file;
		p->window = (struct store_window){0};
		store_move_again(s); /* those that are there already */
		if (old)
			store_dictionary_drop(s, old);
	}
	buf_done(&samples.text);
	free(samples.lengths);
	malloc_trim(0); /* several MB, which nothing else will need */
}

bool store_pack_learn(struct store *s)
{
	struct store_packing *p = s->learn;
	s->learn = NULL;
	if (!p)
		return false;
	train(s, p);
	return true;
}

/* ---- packing ---- */

static const struct compress_dictionary *ready(struct store *s, struct store_packing *p)
{
	if (!p->dictionary)
		return NULL;
	p->used = ++s->turn;
	if (p->ready)
		return p->ready;
	struct store_packing *oldest = NULL;
	size_t n = 0;
	for (size_t i = 0; i < CACHE_TABLES; i++)
		if (s->packing[i].ready) {
			n++;
			if (!oldest || s->packing[i].used < oldest->used)
				oldest = &s->packing[i];
		}
	if (n >= READY_MAX) {
		compress_dictionary_free(oldest->ready);
		oldest->ready = NULL;
	}
	struct buf bytes = {0};
	uint32_t table;
	if (cache_unpack_read_dictionary(s->region_dir, p->dictionary, &bytes, &table) == 0)
		p->ready = compress_dictionary_new(buf_span(&bytes));
	buf_done(&bytes);
	return p->ready;
}

struct span store_pack(struct store *s, uint32_t table, struct span json, struct cache_record *head)
{
	struct store_packing *p = packing_of(s, table);
	head->object_len = (uint32_t)json.len;
	head->encoding = CACHE_AS_IT_IS;
	head->dictionary = 0;
	head->stored_len = head->object_len;
	if (json.len < PACK_MIN)
		return json;
	/* It pays where at least a sixteenth is saved. */
	size_t room = json.len - json.len / 16;
	buf_reset(&s->packed);
	char *to = buf_room(&s->packed, room);
	const struct compress_dictionary *d = ready(s, p);
	ssize_t n = to ? compress_pack(s->compress, d, json, to, room) : -ENOMEM;
	if (n < 0)
		return json;
	head->encoding = CACHE_ZSTD;
	head->dictionary = d ? p->dictionary : 0;
	head->stored_len = (uint32_t)n;
	return (struct span){to, (size_t)n};
}

bool store_pack_is_old(struct store *s, const struct cache_record *r)
{
	const struct store_packing *p = &s->packing[r->table % CACHE_TABLES];
	return p->table == r->table && p->dictionary && r->dictionary != p->dictionary &&
	       r->object_len >= PACK_MIN;
}

int store_unpack(struct store *s, uint64_t place, struct buf *out)
{
	const struct cache_record *r = store_record(s, place);
	return cache_unpack_object(s->unpack, r, (const char *)r + cache_record_fixed(r), out);
}

/* ---- counting ---- */

static void judge(struct store_packing *p, const struct cache_record *r)
{
	struct store_window *w = &p->window;
	w->in += r->object_len;
	w->out += r->stored_len;
	if (++w->n < WINDOW)
		return;
	uint64_t out = w->out * 1000 / MAX(w->in, UINT64_C(1));
	if (!p->first_out)
		p->first_out = out;
	p->worse = p->worse || out > p->first_out + p->first_out / 4;
	*w = (struct store_window){0};
}

void store_pack_stored(struct store *s, const struct cache_record *now, const struct cache_record *before)
{
	struct store_packing *p = packing_of(s, now->table);
	p->bytes += now->object_len;
	store_dictionary_count(s, now->dictionary, 1);
	if (before)
		store_pack_gone(s, before);
	if (!p->learns)
		return;
	if (p->dictionary && now->dictionary == p->dictionary)
		judge(p, now);
	uint64_t objects =
	    atomic_load_explicit(&store_table_entry(s, p->table)->objects, memory_order_relaxed);
	p->since++;
	if (p->dictionary ? p->worse && p->since > objects / 2
			  : p->bytes >= p->train_at && objects >= TRAIN_OBJECTS)
		s->learn = p;
}

void store_pack_gone(struct store *s, const struct cache_record *r)
{
	struct store_packing *p = &s->packing[r->table % CACHE_TABLES];
	if (p->table == r->table) /* it may have been dropped, and another one be in its place */
		p->bytes -= MIN(p->bytes, (uint64_t)r->object_len);
	store_dictionary_count(s, r->dictionary, -1);
}
