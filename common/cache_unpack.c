#include "cache_unpack.h"
#include "compress.h"

struct known {
	uint32_t file;
	uint64_t used; /* the turn of its last use */
	struct decompress_dictionary *at;
};

struct cache_unpack {
	char *region_dir;
	struct decompress *decompress;
	struct known known[CACHE_UNPACK_DICTIONARIES];
	size_t n;
	uint64_t turn;
	struct known *last; /* most objects in a row are of one table */
};

struct cache_unpack *cache_unpack_new(const char *region_dir)
{
	struct cache_unpack *u = xcalloc(1, sizeof *u);
	u->region_dir = xstrdup(region_dir);
	u->decompress = decompress_new();
	return u;
}

void cache_unpack_free(struct cache_unpack *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->n; i++)
		decompress_dictionary_free(u->known[i].at);
	decompress_free(u->decompress);
	free(u->region_dir);
	free(u);
}

int cache_unpack_read_dictionary(const char *region_dir, uint32_t file, struct buf *out, uint32_t *ret_table)
{
	struct region r;
	struct region_spec spec = cache_dictionary_spec();
	_cleanup_(free_ptr) char *path = xasprintf("%s/cache-%u.dic", region_dir, file);
	int rc = region_read(path, &spec, &r, NULL);
	if (rc < 0)
		return rc;
	struct cache_dictionary head = {0};
	if (r.mapped >= REGION_PAGE + sizeof head)
		memcpy(&head, r.at + REGION_PAGE, sizeof head);
	const char *bytes = r.at + REGION_PAGE + sizeof head;
	if (!head.length || head.length > CACHE_DICTIONARY_MAX ||
	    REGION_PAGE + sizeof head + head.length > r.mapped ||
	    hash_bytes(bytes, head.length, HASH_SEED) != head.check) {
		rc = -EPROTO;
	} else {
		buf_add(out, bytes, head.length);
		*ret_table = head.table;
		rc = buf_failed(out) ? -ENOMEM : 0;
	}
	region_done(&r);
	return rc;
}

/* Where a new one goes: behind the others, or in the place of the one that was not used for longest. */
static struct known *room(struct cache_unpack *u)
{
	if (u->n < CACHE_UNPACK_DICTIONARIES)
		return &u->known[u->n++];
	struct known *oldest = &u->known[0];
	for (size_t i = 1; i < u->n; i++)
		if (u->known[i].used < oldest->used)
			oldest = &u->known[i];
	decompress_dictionary_free(oldest->at);
	return oldest;
}

static int find(struct cache_unpack *u, uint32_t file, const struct known **ret)
{
	struct known *k = u->last && u->last->file == file ? u->last : NULL;
	for (size_t i = 0; i < u->n && !k; i++)
		k = u->known[i].file == file ? &u->known[i] : NULL;
	if (!k) {
		struct buf bytes = {0};
		uint32_t table;
		int rc = cache_unpack_read_dictionary(u->region_dir, file, &bytes, &table);
		struct decompress_dictionary *d = rc < 0 ? NULL : decompress_dictionary_new(buf_span(&bytes));
		buf_done(&bytes);
		if (!d)
			return rc < 0 ? rc : -EPROTO;
		k = room(u);
		*k = (struct known){.file = file, .at = d};
	}
	k->used = ++u->turn;
	u->last = k;
	*ret = k;
	return 0;
}

int cache_unpack_object(struct cache_unpack *u, const struct cache_record *head, const char *stored,
			struct buf *out)
{
	if (head->object_len > CACHE_OBJECT_MAX)
		return -EPROTO;
	char *to = buf_room(out, head->object_len);
	if (!to)
		return -ENOMEM;
	int rc = 0;
	const struct known *k = NULL;
	if (head->encoding == CACHE_AS_IT_IS && head->stored_len == head->object_len)
		memcpy(to, stored, head->object_len);
	else if (head->encoding != CACHE_ZSTD)
		rc = -EPROTO;
	else if (head->dictionary)
		rc = find(u, head->dictionary, &k);
	if (rc == 0 && head->encoding == CACHE_ZSTD)
		rc = decompress_unpack(u->decompress, k ? k->at : NULL,
				       (struct span){stored, head->stored_len}, to, head->object_len);
	out->len += rc < 0 ? 0 : head->object_len;
	out->data[out->len] = 0;
	return rc;
}
