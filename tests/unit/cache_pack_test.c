/* The object cache: objects packed with dictionaries. */
#include "cache_lib.h"
#include "compress.h"
#include "objects.h"

TestSuite(cache_pack, .init = setup, .fini = done);

enum { MANY = 3000 };
typedef void make(struct buf *out, uint32_t i, uint64_t version);
typedef void name_of(uint32_t i, char namespace[64], char name[64]);

static void put_many(uint32_t into, make *of, uint32_t from, uint32_t to, uint64_t version)
{
	struct buf json = {0};
	for (uint32_t i = from; i < to; i++) {
		buf_reset(&json);
		of(&json, i, version);
		cr_assert_eq(put_json(into, buf_span(&json)), 0, "%s", err.text);
	}
	buf_done(&json);
}

static void work(void)
{
	for (int i = 0; store_work(store); i++)
		cr_assert_lt(i, 100000);
}

/* Byte for byte, as each reader and the writer sees it. */
static void expect_many(uint32_t in, make *of, name_of *where, uint32_t from, uint32_t to, uint64_t version)
{
	struct buf want = {0}, got = {0};
	char namespace[64], name[64];
	for (uint32_t i = from; i < to; i++) {
		struct store_view v;
		struct span json;
		buf_reset(&want);
		buf_reset(&got);
		of(&want, i, version);
		where(i, namespace, name);
		cr_assert_eq(cache_get(cache, in, span_of(namespace), span_of(name), &got, &err), 0, "%s",
			     err.text);
		cr_assert(span_eq(buf_span(&want), buf_span(&got)), "number %u", i);
		cr_assert(store_find(store, in, span_of(namespace), span_of(name), &v));
		cr_assert_eq(store_json(store, v.slot, &json), 0);
		cr_assert(span_eq(buf_span(&want), json), "number %u", i);
	}
	buf_done(&want);
	buf_done(&got);
}

Test(cache_pack, the_generators_objects_are_as_large_and_as_various_as_they_say, .init = NULL, .fini = NULL)
{
	static const struct {
		make *of;
		double size;
	} kinds[] = {{objects_pod, 4000}, {objects_custom, 8000}};
	struct compress *c = compress_new();
	static char out[64 << 10];
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		double raw = 0, packed = 0;
		for (uint32_t i = 0; i < 300; i++) {
			struct buf a = {0}, b = {0};
			kinds[k].of(&a, i * 301, i);
			kinds[k].of(&b, i * 301, i);
			cr_assert(span_eq(buf_span(&a), buf_span(&b)));
			cr_assert_eq(json_check(buf_span(&a), &err), 0, "%s", err.text);
			ssize_t n = compress_pack(c, NULL, buf_span(&a), out, sizeof out);
			cr_assert_gt(n, 0);
			raw += (double)a.len;
			packed += (double)n;
			buf_done(&a);
			buf_done(&b);
		}
		cr_assert(raw / 300 > kinds[k].size * 0.9 && raw / 300 < kinds[k].size * 1.1, "%f",
			  raw / 300);
		cr_assert_gt(packed / raw, 0.35, "%f", packed / raw);
	}
	compress_free(c);
}

Test(cache_pack, objects_come_back_byte_for_byte)
{
	uint32_t databases;
	cr_assert_eq(
	    store_table(store, "example.com/v1 Database", "example.com/v1", "Database", &databases, &err), 0);
	put_many(table, objects_pod, 0, MANY, 1);
	put_many(databases, objects_custom, 0, MANY / 3, 1);
	work();
	cr_assert_eq(files(".dic"), 2);
	expect_many(table, objects_pod, objects_pod_name, 0, MANY, 1);
	expect_many(databases, objects_custom, objects_custom_name, 0, MANY / 3, 1);
	struct store_usage u;
	store_usage(store, &u);
	cr_assert_leq(u.live * 100, u.unpacked * 28, "%llu of %llu", (unsigned long long)u.live,
		      (unsigned long long)u.unpacked);

	store_close(store);
	open_store(64 << 20);
	cr_assert(!lost);
	expect_many(table, objects_pod, objects_pod_name, 0, MANY, 1);
	put_many(table, objects_pod, 0, MANY, 2);
	expect_many(table, objects_pod, objects_pod_name, 0, MANY, 2);
	work();
	cr_assert_eq(files(".dic"), 2); /* the old ones go on being used */
}

static int check_one(void *ctx, struct span namespace _unused_, struct span name _unused_, struct span object)
{
	cr_assert_eq(json_check(object, &err), 0);
	++*(int *)ctx;
	return 0;
}

Test(cache_pack, walks_unpack)
{
	char owner[37];
	int n = 0;
	put_many(table, objects_pod, 0, MANY, 1);
	objects_owner(700, owner);
	cr_assert_eq(cache_walk(cache, table, span_of(owner), check_one, &n, &err), 0);
	cr_assert_eq(n, 100);
	n = 0;
	cr_assert_eq(cache_walk(cache, table, span_of(""), check_one, &n, &err), 0);
	cr_assert_eq(n, MANY);
}

Test(cache_pack, what_came_before_the_dictionary_is_packed_with_it_later)
{
	struct store_usage before, after;
	put_many(table, objects_pod, 0, 130,
		 1); /* it is trained at the 128 KB's end, and nothing comes after that */
	store_usage(store, &before);
	work();
	store_usage(store, &after);
	cr_assert_lt(after.live * 2, before.live * 2 + 1);
	expect_many(table, objects_pod, objects_pod_name, 0, 130, 1);
}

Test(cache_pack, a_dictionary_goes_with_its_objects)
{
	put_many(table, objects_pod, 0, MANY, 1);
	work();
	cr_assert_eq(files(".dic"), 1);
	for (uint32_t i = 0; i < store_slots(store); i++) {
		struct store_view v;
		if (store_at(store, i, &v))
			store_delete(store, i);
	}
	cr_assert_eq(files(".dic"), 0);
	put_many(table, objects_pod, 0, MANY, 2);
	expect_many(table, objects_pod, objects_pod_name, 0, MANY, 2);
	cr_assert_eq(files(".dic"), 1);
}

Test(cache_pack, secrets_are_packed_each_by_itself)
{
	uint32_t secrets;
	struct store_usage u;
	cr_assert_eq(store_table(store, "v1 Secret metadata", "v1", "Secret", &secrets, &err), 0);
	put_many(secrets, objects_pod, 0, MANY, 1);
	work();
	cr_assert_eq(files(".dic"), 0);
	expect_many(secrets, objects_pod, objects_pod_name, 0, MANY, 1);
	store_usage(store, &u);
	cr_assert_leq(u.live * 10, u.unpacked * 6);
}

Test(cache_pack, objects_of_another_form_get_another_dictionary)
{
	struct store_usage last;
	put_many(table, objects_pod, 0, 2000, 1);
	work();
	/* The kind's objects change their form, one by one. */
	for (uint32_t i = 0; i < 2000; i++) {
		char namespace[64], name[64];
		struct store_view v;
		objects_pod_name(i, namespace, name);
		cr_assert(store_find(store, table, span_of(namespace), span_of(name), &v));
		store_delete(store, v.slot);
		put_many(table, objects_custom, i, i + 1, 1);
	}
	put_many(table, objects_custom, 0, 2000, 2);
	work();
	store_usage(store, &last);
	cr_assert_lt(last.live * 100, last.unpacked * 36, "%llu of %llu", (unsigned long long)last.live,
		     (unsigned long long)last.unpacked);
	expect_many(table, objects_custom, objects_custom_name, 0, 2000, 2);
	cr_assert_eq(files(".dic"), 1);
}

static void remove_dictionaries(void)
{
	DIR *d = opendir(folder);
	for (struct dirent *e; (e = readdir(d));)
		if (strstr(e->d_name, ".dic"))
			cr_assert_eq(unlinkat(dirfd(d), e->d_name, 0), 0);
	closedir(d);
}

Test(cache_pack, without_its_dictionary_an_object_is_not_now_and_the_next_start_begins_anew)
{
	struct buf b = {0};
	char namespace[64], name[64];
	put_many(table, objects_pod, 0, MANY, 1);
	cr_assert_null(store_missing(store));
	remove_dictionaries();
	cr_assert(strstr(store_missing(store), ".dic"));
	objects_pod_name(MANY - 1, namespace, name);
	cr_assert_eq(cache_get(cache, table, span_of(namespace), span_of(name), &b, &err), -EAGAIN);
	cr_assert_eq(b.len, 0);
	store_close(store);
	open_store(64 << 20);
	cr_assert(lost);
	cr_assert(strstr(why.text, ".dic is missing"), "%s", why.text);
	buf_done(&b);
}

Test(cache_pack, damaged_bytes_are_an_error_and_no_object)
{
	struct buf b = {0};
	char namespace[64], name[64], path[128];
	put_many(table, objects_pod, 0, 300, 1);
	DIR *d = opendir(folder);
	for (struct dirent *e; (e = readdir(d));) {
		if (!strstr(e->d_name, ".seg"))
			continue;
		snprintf(path, sizeof path, "%s/%.60s", folder, e->d_name);
		int fd = open(path, O_RDWR);
		off_t size = lseek(fd, 0, SEEK_END);
		for (off_t at = REGION_PAGE + 160; at + 8 < size; at += 64) /* where no head is, mostly */
			cr_assert_eq(pwrite(fd, "\xff\xff", 2, at), 2);
		close(fd);
	}
	closedir(d);
	int bad = 0;
	for (uint32_t i = 0; i < 300; i++) {
		objects_pod_name(i, namespace, name);
		int rc = cache_get(cache, table, span_of(namespace), span_of(name), &b, &err);
		cr_assert(rc == 0 || rc == -EPROTO || rc == -ENOENT || rc == -EAGAIN, "%d", rc);
		bad += rc == -EPROTO;
	}
	cr_assert_gt(bad, 0);
	buf_done(&b);
}

Test(cache_pack, what_does_not_become_shorter_stays_as_it_is)
{
	struct store_usage u;
	struct buf json = {0};
	buf_puts(&json, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"shop\","
			"\"name\":\"a\"},\"d\":\"");
	uint64_t random = 7;
	for (int i = 0; i < 4000; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		buf_putc(&json, (char)(' ' + 3 + (random >> 33) % 56)); /* no quotes and no backslashes */
	}
	for (size_t i = 0; i < json.len; i++) /* more values than six bits have, or packing pays */
		if (json.data[i] == '\\')
			json.data[i] = '~';
	buf_puts(&json, "\"}");
	cr_assert_eq(put_json(table, buf_span(&json)), 0, "%s", err.text);
	store_usage(store, &u);
	struct buf got = {0};
	cr_assert_eq(cache_get(cache, table, span_of("shop"), span_of("a"), &got, &err), 0);
	cr_assert(span_eq(buf_span(&json), buf_span(&got)));
	buf_done(&json);
	buf_done(&got);
}

Test(cache_pack, bounds, .init = NULL, .fini = NULL)
{
	/* 100 MB of one letter are a few KB: no more is unpacked than the record says. */
	static char zeros[1 << 20], packed[1 << 12], out[1 << 10];
	struct compress *c = compress_new();
	struct decompress *d = decompress_new();
	ssize_t n = compress_pack(c, NULL, (struct span){zeros, sizeof zeros}, packed, sizeof packed);
	cr_assert_gt(n, 0);
	struct span p = {packed, (size_t)n};
	cr_assert_eq(decompress_unpack(d, NULL, p, out, sizeof out), -EPROTO);
	cr_assert_eq(decompress_unpack(d, NULL, (struct span){packed, p.len - 1}, zeros, sizeof zeros),
		     -EPROTO);
	cr_assert_eq(decompress_unpack(d, NULL, (struct span){packed, 0}, zeros, sizeof zeros), -EPROTO);
	cr_assert_eq(compress_pack(c, NULL, (struct span){out, sizeof out}, packed, 4), -ENOSPC);
	cr_assert_null(compress_dictionary_new((struct span){zeros, 100}));
	cr_assert_null(decompress_dictionary_new((struct span){zeros, 100}));
	size_t lengths[] = {10, 10};
	cr_assert_eq(compress_train((struct span){zeros, 20}, lengths, 2, packed, sizeof packed), -EINVAL);
	compress_free(c);
	decompress_free(d);
}
