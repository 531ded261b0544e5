/* The object cache: the watcher's writer and everybody's reader on one folder. */
#include "cache_lib.h"

TestSuite(cache, .init = setup, .fini = done);

static struct cache_header *store_header_of_test(struct store *s)
{
	return (struct cache_header *)(void *)((char *)store_controllers(s) -
					       offsetof(struct cache_header, controller));
}

static int put_sized(const char *name, const char *uid, const char *version, const char *owner,
		     size_t padding)
{
	struct buf json = {0};
	buf_printf(&json,
		   "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"shop\","
		   "\"name\":\"%s\",\"uid\":\"%s\",",
		   name, uid);
	buf_printf(&json, "\"resourceVersion\":\"%s\"", version);
	if (owner)
		buf_printf(&json,
			   ",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"X\",\"name\":\"x\","
			   "\"uid\":\"%s\"}]",
			   owner);
	buf_puts(&json, "},\"data\":\"");
	uint64_t random =
	    hash_bytes(name, strlen(name), HASH_SEED) + hash_bytes(version, strlen(version), HASH_SEED);
	for (size_t i = 0; i < padding; i++) { /* that packing makes hardly shorter */
		random = random * 6364136223846793005 + 1442695040888963407;
		buf_putc(&json,
			 "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"[random >> 58]);
	}
	buf_puts(&json, "\"}");
	int rc = put_json(table, buf_span(&json));
	buf_done(&json);
	return rc;
}
static int put(const char *name, const char *version, const char *owner)
{
	return put_sized(name, "u1", version, owner, 0);
}

static bool has(const char *name, const char *part)
{
	struct buf b = {0};
	int rc = cache_get(cache, table, span_of("shop"), span_of(name), &b, &err);
	bool found = rc == 0 && strstr(buf_str(&b), part);
	cr_assert(rc == 0 || rc == -ENOENT, "%d: %s", rc, err.text);
	buf_done(&b);
	return found;
}

static int count_one(void *ctx, struct span namespace _unused_, struct span name _unused_, struct span object)
{
	cr_assert_eq(json_check(object, &err), 0);
	++*(int *)ctx;
	return 0;
}
static int count(const char *owner)
{
	int n = 0;
	cr_assert_eq(cache_walk(cache, table, span_of(owner), count_one, &n, &err), 0, "%s", err.text);
	return n;
}

Test(cache, put_get_replace_delete)
{
	uint32_t t;
	cr_assert_eq(cache_table(cache, "v1 ConfigMap", &t), 0);
	cr_assert_eq(t, table);
	cr_assert_eq(cache_table(cache, "v1 Secret", &t), -ENOENT);
	cr_assert(!cache_table_synced(cache, table));
	store_table_set_synced(store, table, true);
	cr_assert(cache_table_synced(cache, table));

	cr_assert(!has("a", ""));
	cr_assert_eq(put("a", "1", NULL), 0);
	cr_assert_eq(put("b", "2", NULL), 0);
	cr_assert(has("a", "\"resourceVersion\":\"1\""));
	cr_assert_eq(put("a", "3", NULL), 0);
	cr_assert(has("a", "\"resourceVersion\":\"3\""));
	cr_assert_eq(count(""), 2);
	struct store_view v;
	cr_assert(store_find(store, table, span_of("shop"), span_of("a"), &v));
	cr_assert(span_is(v.uid, "u1") && span_is(v.version, "3"));
	store_delete(store, v.slot);
	cr_assert(!has("a", "") && has("b", ""));
	cr_assert_eq(count(""), 1);
	cr_assert_eq(atomic_load(&store_table_entry(store, table)->objects), 1);
}

Test(cache, get_appends)
{
	struct buf b = {0};
	cr_assert_eq(put("a", "1", "o"), 0);
	buf_puts(&b, "before");
	cr_assert_eq(cache_get(cache, table, span_of("shop"), span_of("a"), &b, &err), 0);
	cr_assert(strncmp(b.data, "before{\"apiVersion\"", 18) == 0);
	cr_assert_eq(b.data[b.len], 0);
	buf_done(&b);
}

Test(cache, owners_follow_the_object)
{
	cr_assert_eq(put("a", "1", "o1"), 0);
	cr_assert_eq(put("b", "2", "o1"), 0);
	cr_assert_eq(put("c", "3", NULL), 0);
	cr_assert_eq(count("o1"), 2);
	cr_assert_eq(put("a", "4", "o2"), 0);
	cr_assert_eq(count("o1"), 1);
	cr_assert_eq(count("o2"), 1);
	cr_assert_eq(put("b", "5", NULL), 0);
	cr_assert_eq(count("o1"), 0);
}

Test(cache, many_objects_grow_indexes_and_slots)
{
	char name[32], owner[32];
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof name, "n%d", i);
		snprintf(owner, sizeof owner, "o%d", i % 100);
		cr_assert_eq(put(name, "1", owner), 0, "%s", err.text);
	}
	cr_assert_eq(count(""), 20000);
	cr_assert_eq(count("o7"), 200);
	for (int i = 0; i < 20000; i += 2) {
		struct store_view v;
		snprintf(name, sizeof name, "n%d", i);
		cr_assert(store_find(store, table, span_of("shop"), span_of(name), &v));
		store_delete(store, v.slot);
	}
	cr_assert_eq(count(""), 10000);
	cr_assert(has("n19999", "") && !has("n19998", ""));
	cr_assert_eq(files(".idx"), 2); /* not those that they grew from */
	/* Indexes wear out by deletes and are built anew. */
	struct store_usage before, after;
	store_usage(store, &before);
	for (int round = 0; round < 5; round++)
		for (int i = 0; i < 4000; i++) {
			struct store_view v;
			snprintf(name, sizeof name, "r%d-%d", round, i);
			cr_assert_eq(put(name, "1", NULL), 0);
			cr_assert(store_find(store, table, span_of("shop"), span_of(name), &v));
			store_delete(store, v.slot);
		}
	store_usage(store, &after);
	cr_assert_leq(after.allocated, before.allocated);
	cr_assert_eq(files(".idx"), 2);
	cr_assert_eq(count(""), 10000);
}

Test(cache, a_restart_finds_everything)
{
	cr_assert_eq(put("a", "1", "o1"), 0);
	cr_assert_eq(put("b", "2", "o1"), 0);
	store_table_set_synced(store, table, true);
	store_close(store);
	cr_assert(cache_table_synced(cache, table));
	cr_assert(has("a", "") && count("o1") == 2); /* while no watcher runs */
	open_store(64 << 20);
	cr_assert(!lost);
	cr_assert(has("a", "") && count("o1") == 2);
	cr_assert_eq(put("a", "3", "o2"), 0);
	cr_assert_eq(count("o2"), 1);
	struct store_usage u;
	store_usage(store, &u);
	cr_assert_eq(u.objects, 2);
}

/* Changes a slot behind the writer's back, as a kill in the middle would leave it. */
static struct cache_slot *slot_of(const char *name, struct cache_header **ret_header)
{
	char path[96];
	snprintf(path, sizeof path, "%s/cache.shm", folder);
	int fd = open(path, O_RDWR);
	char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(at, MAP_FAILED);
	close(fd);
	struct cache_header *h = (struct cache_header *)(void *)(at + REGION_PAGE);
	struct store_view v;
	cr_assert(store_find(store, table, span_of("shop"), span_of(name), &v));
	*ret_header = h;
	fd = open(path, O_RDWR);
	struct cache_slot *slots = mmap(NULL, CACHE_EXTENT_SLOTS * sizeof *slots, PROT_READ | PROT_WRITE,
					MAP_SHARED, fd, (off_t)h->extent[0]);
	cr_assert_neq(slots, MAP_FAILED);
	close(fd);
	return slots + v.slot;
}

Test(cache, a_torn_slot_is_not_now_and_is_repaired)
{
	struct cache_header *h;
	struct buf b = {0};
	cr_assert_eq(put("a", "1", NULL), 0);
	cr_assert_eq(put("b", "1", NULL), 0);
	slot_of("a", &h)->seq |= 1;
	cr_assert_eq(cache_get(cache, table, span_of("shop"), span_of("a"), &b, &err), -EAGAIN);
	cr_assert_eq(b.len, 0);
	cr_assert(has("b", ""));
	store_close(store);
	open_store(64 << 20);
	cr_assert(!lost);
	cr_assert(has("a", "\"resourceVersion\":\"1\""));
	buf_done(&b);
}

static _Atomic uint64_t *index_of_test(uint64_t word)
{
	char path[96];
	snprintf(path, sizeof path, "%s/cache-%llu.idx", folder, (unsigned long long)cache_index_file(word));
	int fd = open(path, O_RDWR);
	char *at = mmap(NULL, cache_index_size(word), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(at, MAP_FAILED);
	close(fd);
	return (_Atomic uint64_t *)(void *)(at + REGION_PAGE);
}

Test(cache, an_index_is_put_right_where_it_stands)
{
	struct cache_header *h = store_header_of_test(store);
	char name[32];
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "n%d", i);
		cr_assert_eq(put(name, "1", i % 2 ? "o1" : NULL), 0);
	}
	struct store_usage before, after;
	store_usage(store, &before);
	uint64_t words[] = {h->name_index, h->owner_index};
	for (size_t k = 0; k < ARRAY_SIZE(words); k++) {
		_Atomic uint64_t *e = index_of_test(words[k]);
		for (uint64_t i = 0; i < UINT64_C(1) << cache_index_log2(words[k]); i++)
			if (i % 3 == 0)
				e[i] = 0; /* a hole: what stands behind it is not found */
			else if (i % 7 == 0)
				e[i] =
				    cache_index_entry(i << 40, (uint32_t)i); /* nobody's, or a second one */
	}
	store_close(store);
	open_store(64 << 20);
	cr_assert(!lost);
	cr_assert_eq(count("o1"), 100);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "n%d", i);
		cr_assert(has(name, ""));
	}
	h = store_header_of_test(store);
	cr_assert(h->name_index == words[0] && h->owner_index == words[1]);
	store_usage(store, &after);
	cr_assert_eq(after.allocated, before.allocated);
}

/* Indexes are derived: without its file one is made anew, and no object is lost. */
Test(cache, an_index_whose_file_is_gone_or_short_is_made_anew)
{
	char path[96];
	for (int round = 0; round < 4; round++) {
		struct cache_header *h = store_header_of_test(store);
		cr_assert_eq(put("a", "1", "o1"), 0);
		cr_assert_eq(put("b", "1", "o1"), 0);
		snprintf(path, sizeof path, "%s/cache-%llu.idx", folder,
			 (unsigned long long)cache_index_file(round % 2 ? h->name_index : h->owner_index));
		cr_assert_eq(round < 2 ? unlink(path) : truncate(path, REGION_PAGE), 0);
		cr_assert_str_eq(store_missing(store), path);
		store_close(store);
		open_store(64 << 20);
		cr_assert(!lost, "%s", why.text);
		cr_assert(has("a", "") && has("b", "") && count("o1") == 2);
		cr_assert_eq(files(".idx"), 2);
	}
}

Test(cache, a_damaged_slot_makes_the_cache_untrusted)
{
	struct cache_header *h;
	struct buf b = {0};
	cr_assert_eq(put("a", "1", NULL), 0);
	slot_of("a", &h)->place += CACHE_UNIT;
	store_close(store);
	open_store(64 << 20);
	cr_assert(lost);
	cr_assert(strstr(why.text, "damaged"), "%s", why.text);
	/* The old reader is told, a new one finds an empty table. */
	cr_assert_eq(cache_get(cache, table, span_of("shop"), span_of("a"), &b, &err), -ESTALE);
	cache_close(cache);
	cr_assert_eq(cache_open(folder, &cache, &err), 0);
	cr_assert(!has("a", ""));
	buf_done(&b);
}

Test(cache, a_wild_place_is_not_followed_by_readers)
{
	struct cache_header *h;
	struct buf b = {0};
	cr_assert_eq(put("a", "1", NULL), 0);
	struct cache_slot *slot = slot_of("a", &h);
	uint64_t good = slot->place;
	const uint64_t wild[] = {UINT64_MAX >> 8, cache_place(7, 4096, 64),
				 cache_place(0, (64 << 20) - 16, 32), cache_place(0, 4096, 16)};
	for (size_t i = 0; i < ARRAY_SIZE(wild); i++) {
		slot->place = wild[i];
		cr_assert_eq(cache_get(cache, table, span_of("shop"), span_of("a"), &b, &err), -EAGAIN);
	}
	slot->place = good;
	cr_assert(has("a", ""));
	buf_done(&b);
}

Test(cache, a_full_budget_refuses_and_deletes_give_back)
{
	char name[32];
	store_close(store);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	mkdir(folder, 0700);
	open_store(4 << 20);
	cache_close(cache);
	cr_assert_eq(cache_open(folder, &cache, &err), 0);
	int stored = 0, rc = 0;
	for (; stored < 1000 && rc == 0; stored += rc == 0) {
		snprintf(name, sizeof name, "n%d", stored);
		rc = put_sized(name, "u", "1", NULL, 20000);
	}
	cr_assert_eq(rc, -ENOSPC);
	cr_assert(strstr(err.text, "budget of 4194304"), "%s", err.text);
	cr_assert_gt(stored, 50);
	cr_assert_eq(count(""), stored);
	struct store_usage u;
	store_usage(store, &u);
	cr_assert_leq(u.allocated, u.budget);
	/* Half goes; as many fit again, with survivors moved together. */
	for (int i = 0; i < stored; i += 2) {
		struct store_view v;
		snprintf(name, sizeof name, "n%d", i);
		cr_assert(store_find(store, table, span_of("shop"), span_of(name), &v));
		store_delete(store, v.slot);
	}
	for (int i = 0; i < stored; i += 2) {
		snprintf(name, sizeof name, "n%d", i);
		cr_assert_eq(put_sized(name, "u", "2", NULL, 19500), 0, "%d of %d: %s", i, stored, err.text);
	}
	cr_assert_eq(count(""), stored);
	/* With a little room, updates for ever need no more than the budget. */
	for (int i = 0; i < 20; i++) {
		struct store_view v;
		snprintf(name, sizeof name, "n%d", 20 + i);
		cr_assert(store_find(store, table, span_of("shop"), span_of(name), &v));
		store_delete(store, v.slot);
	}
	stored -= 20;
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof name, "n%d", i % 20);
		cr_assert_eq(put_sized(name, "u", "3", NULL, 19000), 0, "%d: %s", i, err.text);
	}
	store_usage(store, &u);
	cr_assert_leq(u.allocated, u.budget);
	cr_assert_eq(count(""), stored);
}

static int put_cut(const char *name, size_t padding)
{
	struct buf json = {0}, cut = {0}, scratch = {0};
	struct object o;
	uint32_t slot;
	buf_printf(&json,
		   "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"shop\","
		   "\"name\":\"%s\","
		   "\"uid\":\"u\",\"resourceVersion\":\"1\"},\"data\":\"%*s\"}",
		   name, (int)padding, "");
	cr_assert_eq(object_read(buf_span(&json), &scratch, &o, &err), 0);
	object_normalize(o.json, &(struct object_keep){"v1", "ConfigMap", true, true, NULL}, &cut);
	int rc = store_put_metadata(store, table, &o, buf_span(&cut), &slot, &err);
	buf_done(&json);
	buf_done(&cut);
	buf_done(&scratch);
	return rc;
}

static int get(const char *name)
{
	struct buf b = {0};
	int rc = cache_get(cache, table, span_of("shop"), span_of(name), &b, &err);
	cr_assert(rc == 0 || b.len == 0);
	buf_done(&b);
	return rc;
}

Test(cache, an_object_without_room_is_kept_as_metadata_and_nobody_takes_it_for_the_whole)
{
	char name[32];
	int n = 0, whole, rc;
	store_close(store);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	mkdir(folder, 0700);
	open_store(4 << 20);
	cache_close(cache);
	cr_assert_eq(cache_open(folder, &cache, &err), 0);
	for (rc = 0; rc == 0; n += rc == 0) {
		snprintf(name, sizeof name, "n%d", n);
		rc = put_sized(name, "u", "1", NULL, 20000);
	}
	cr_assert_eq(rc, -ENOSPC);
	whole = n;
	for (rc = 0; rc == 0; n += rc == 0) {
		snprintf(name, sizeof name, "n%d", n);
		rc = put_cut(name, 20000);
	}
	cr_assert_eq(rc, -ENOSPC);
	cr_assert_gt(n - whole, 500);
	struct cache_table *t = store_table_entry(store, table);
	cr_assert_eq(atomic_load(&t->cut), (uint32_t)(n - whole));
	snprintf(name, sizeof name, "n%d", whole);
	cr_assert_eq(get(name), -ENODATA);
	cr_assert(strstr(err.text, "only for its metadata"), "%s", err.text);
	int seen = 0;
	cr_assert_eq(cache_walk(cache, table, span_of(""), count_one, &seen, &err), -ENODATA);
	store_close(store);
	open_store(4 << 20);
	t = store_table_entry(store, table);
	cr_assert(!lost && atomic_load(&t->cut) == (uint32_t)(n - whole));
	/* With room again it becomes whole. */
	for (int i = 0; i < whole; i++) {
		struct store_view v;
		snprintf(name, sizeof name, "n%d", i);
		cr_assert(store_find(store, table, span_of("shop"), span_of(name), &v) && !v.cut);
		store_delete(store, v.slot);
	}
	cr_assert(store_may_fit(store, 20000));
	snprintf(name, sizeof name, "n%d", whole);
	cr_assert_eq(put_sized(name, "u", "1", NULL, 20000), 0, "%s", err.text);
	cr_assert_eq(get(name), 0);
	cr_assert_eq(atomic_load(&t->cut), (uint32_t)(n - whole - 1));
}

Test(cache, an_emptied_cache_gives_its_segments_back)
{
	char name[32];
	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof name, "n%d", i);
		cr_assert_eq(put_sized(name, "u", "1", NULL, 60000), 0, "%s", err.text);
	}
	struct store_usage full, empty;
	store_usage(store, &full);
	cr_assert_gt(full.segments, 3);
	for (uint32_t i = 0; i < store_slots(store); i++) {
		struct store_view v;
		if (store_at(store, i, &v))
			store_delete(store, i);
	}
	store_usage(store, &empty);
	cr_assert_eq(empty.live, 0);
	cr_assert_leq(empty.segments, 1);
	cr_assert_eq(files(".seg"), empty.segments);
	cr_assert_eq(count(""), 0);
}

static bool keep_none(void *ctx _unused_, uint32_t t _unused_)
{
	return false;
}

Test(cache, a_dropped_table_is_gone_with_its_objects)
{
	struct buf b = {0};
	cr_assert_eq(put("a", "1", NULL), 0);
	store_tables_keep(store, keep_none, NULL);
	uint32_t old = table;
	cr_assert_eq(cache_get(cache, old, span_of("shop"), span_of("a"), &b, &err), -ESTALE);
	cr_assert_eq(store_table(store, "v1 ConfigMap", "v1", "ConfigMap", &table, &err), 0);
	cr_assert_neq(table, old);
	cr_assert_eq(count(""), 0);
	while (store_work(store))
		;
	struct store_usage u;
	store_usage(store, &u);
	cr_assert_eq(u.objects, 0);
	cr_assert_eq(u.live, 0);
	buf_done(&b);
}

/* A table of very many objects would hold up everybody. */
Test(cache, a_dropped_table_goes_in_steps_and_gives_its_room_to_whoever_needs_it)
{
	enum { MANY = 20000 };
	char name[32];
	struct store_usage u;
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "n%d", i);
		cr_assert_eq(put(name, "1", "o"), 0, "%s", err.text);
	}
	while (store_work(store))
		;
	uint32_t old = table;
	store_tables_keep(store, keep_none, NULL);
	/* Another one has its place at once; the same names are other objects. */
	cr_assert_eq(store_table(store, "v1 ConfigMap", "v1", "ConfigMap", &table, &err), 0);
	cr_assert_eq(table % CACHE_TABLES, old % CACHE_TABLES);
	cr_assert_eq(put("n7", "2", "o"), 0);
	uint32_t before = MANY + 1, steps = 0;
	for (bool more = true; more; steps++) {
		more = store_work(store);
		store_usage(store, &u);
		cr_assert_leq(before - u.objects, 1024);
		cr_assert_eq(count(""), 1);
		cr_assert_eq(count("o"), 1);
		before = u.objects;
	}
	cr_assert_eq(u.objects, 1);
	cr_assert_gt(steps, MANY / 1024);
	cr_assert_eq(atomic_load(&store_table_entry(store, table)->objects), 1);
	/* Dropped with nobody working: a put that finds no room takes theirs. */
	int n = 0;
	do
		snprintf(name, sizeof name, "l%d", n++);
	while (put_sized(name, "u", "1", NULL, 60000) == 0);
	store_tables_keep(store, keep_none, NULL);
	cr_assert_eq(store_table(store, "v1 ConfigMap", "v1", "ConfigMap", &table, &err), 0);
	for (int i = 0; i < n / 2; i++) {
		snprintf(name, sizeof name, "m%d", i);
		cr_assert_eq(put_sized(name, "u", "1", NULL, 60000), 0, "%d of %d: %s", i, n, err.text);
	}
}

Test(cache, long_table_names_stay_apart)
{
	char a[2000], b[2000];
	uint32_t ta, tb, t;
	memset(a, 'n', sizeof a - 1);
	memcpy(b, a, sizeof b);
	a[sizeof a - 1] = b[sizeof b - 1] = 0;
	a[1500] = 'x';
	cr_assert_eq(store_table(store, a, "v1", "Secret", &ta, &err), 0);
	cr_assert_eq(store_table(store, b, "v1", "Secret", &tb, &err), 0);
	cr_assert_neq(ta, tb);
	cr_assert_eq(cache_table(cache, a, &t), 0);
	cr_assert_eq(t, ta);
}

static int ignore_one(void *ctx _unused_, struct span namespace _unused_, struct span name _unused_,
		      struct span object _unused_)
{
	return 0;
}

/* Whatever stands in the files: readers do not crash, and the next writer takes it over or begins anew. */
Test(cache, damage_anywhere_is_survived)
{
	uint64_t random = 1;
	for (int round = 0; round < 150; round++) {
		char name[32], path[128];
		for (int i = 0; i < 30; i++) {
			snprintf(name, sizeof name, "n%d", i);
			put(name, "1", i % 2 ? "o1" : NULL);
		}
		uint64_t file = 0;
		for (int i = 0; i < CACHE_SEGMENTS && !file; i++)
			file = store_header_of_test(store)->segment_file[i];
		store_close(store);
		snprintf(path, sizeof path, round % 4 ? "%s/cache.shm" : "%s/cache-%llu.seg", folder,
			 (unsigned long long)file);
		int fd = open(path, O_RDWR);
		cr_assert_geq(fd, 0);
		off_t size = lseek(fd, 0, SEEK_END);
		for (int k = 0; k < 1 + round % 40; k++) {
			random = random * 6364136223846793005 + 1442695040888963407;
			uint8_t byte = (uint8_t)(random >> 56);
			/* Not the region's header: region_test has that. Half of them where words are that
			 * lead elsewhere. */
			uint64_t range = k % 2 ? 128 : (uint64_t)(MIN(size, 1 << 20) - REGION_PAGE);
			off_t at = REGION_PAGE + (off_t)((random >> 16) % range);
			cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
		}
		close(fd);
		uint32_t t = table;
		struct buf b = {0};
		(void)cache_table(cache, "v1 ConfigMap", &t);
		(void)cache_get(cache, t, span_of("shop"), span_of("n7"), &b, &err);
		(void)cache_walk(cache, t, span_of("o1"), ignore_one, NULL, &err);
		(void)cache_walk(cache, t, span_of(""), ignore_one, NULL, &err);
		buf_done(&b);
		open_store(64 << 20);
		cache_close(cache);
		cr_assert_eq(cache_open(folder, &cache, &err), 0);
	}
}

Test(cache, a_second_writer_is_refused)
{
	struct store *second;
	cr_assert_eq(store_open(folder, 64 << 20, &second, &lost, &why, &err), -EBUSY);
	cr_assert(strstr(err.text, "another process"), "%s", err.text);
}
