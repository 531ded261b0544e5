/* The files of tests/data/real, which nobody of this project wrote, go through list, watch, cache and request, and come out as
 * they went in but for managedFields. */
#include "cache.h"
#include "doc.h"
#include "watcher/store.h"
#include "workers/request.h"
#include "yaml_doc.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

static char folder[64];
static struct err err;
static char **objects; /* each as a server sends it: with uid and resourceVersion */
static size_t n_objects, n_stripped;

static void read_all(const char *path, struct buf *out)
{
	char part[4096];
	FILE *f = fopen(path, "re");
	cr_assert(f, "%s", path);
	for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
		buf_add(out, part, n);
	fclose(f);
}

/* Puts uid and resourceVersion to the front of metadata where the file has none. */
static void add_object(struct span json)
{
	struct span metadata = json_get(json, "metadata");
	if (!json_get(metadata, "name").at)
		return;
	struct buf b = {0};
	buf_add(&b, json.at, (size_t)(metadata.at + 1 - json.at));
	if (!json_get(metadata, "uid").at)
		buf_printf(&b, "\"uid\":\"u%zu\",", n_objects);
	if (!json_get(metadata, "resourceVersion").at)
		buf_printf(&b, "\"resourceVersion\":\"%zu\",", n_objects + 1);
	buf_span_add(&b, (struct span){metadata.at + 1, (size_t)(json.at + json.len - metadata.at) - 1});
	objects = xrealloc(objects, (n_objects + 1) * sizeof *objects);
	objects[n_objects++] = buf_steal(&b);
}

static void add_file(const char *path)
{
	struct yaml_doc *docs = NULL;
	struct buf text = {0}, json = {0};
	size_t line, column, before = n_objects;
	read_all(path, &text);
	cr_assert_eq(yaml_doc_parse(buf_span(&text), &docs, &line, &column, &err), 0, "%s:%zu: %s", path,
		     line, err.text);
	for (struct yaml_doc *d = docs; d; d = d->next) {
		struct json_iter it = {0};
		struct span none, item;
		buf_reset(&json);
		if (!d->root)
			continue;
		yaml_doc_to_json(d->root, &json);
		cr_assert_eq(json_check(buf_span(&json), &err), 0, "%s: %s", path, err.text);
		add_object(buf_span(&json));
		while (json_each(json_get(buf_span(&json), "items"), &it, &none, &item))
			add_object(item);
	}
	cr_assert(n_objects > before, "%s", path);
	yaml_doc_free(docs);
	buf_done(&text);
	buf_done(&json);
}

static int remove_one(const char *path, const struct stat *st _unused_, int type _unused_,
		      struct FTW *ftw _unused_)
{
	return remove(path);
}

static void setup(void)
{
	static const char *const parts[] = {"crds", "objects"};
	const char *source = getenv("SRC");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		_cleanup_(free_ptr) char *path =
		    xasprintf("%s/tests/data/real/%s", source ? source : ".", parts[i]);
		DIR *d = opendir(path);
		cr_assert(d, "%s", path);
		for (struct dirent *e; (e = readdir(d));) {
			_cleanup_(free_ptr) char *file = xasprintf("%s/%s", path, e->d_name);
			if (e->d_name[0] != '.')
				add_file(file);
		}
		closedir(d);
	}
	cr_assert(n_objects > 60, "%zu", n_objects);
	strcpy(folder, "/dev/shm/reconciled-unit.XXXXXX");
	cr_assert(mkdtemp(folder));
}

static void done(void)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(real_files, .init = setup, .fini = done);

/* ---- from the stream into a cache ---- */

struct sink {
	struct store *store;
	uint32_t table;
	size_t next;
};

/* What is to be kept, found by another reader: the tree without managedFields; apiVersion and kind, which one of the
 * files has not whole, aside. */
static void plainly(struct span object, struct buf *out)
{
	struct doc *d = doc_new();
	struct doc_node *n, *metadata;
	cr_assert_eq(doc_parse(d, object, &n, NULL), 0);
	metadata = doc_get(n, "metadata");
	if (doc_get(metadata, "managedFields"))
		doc_remove(metadata, doc_get(metadata, "managedFields"));
	if (doc_get(n, "apiVersion"))
		doc_remove(n, doc_get(n, "apiVersion"));
	doc_remove(n, doc_get(n, "kind"));
	doc_print(n, out);
	doc_free(d);
}

static void expect_kept(struct span kept, struct span sent)
{
	struct buf a = {0}, b = {0};
	bool strip = json_path(sent, "metadata", "managedFields", NULL).at;
	if (!strip && json_get(sent, "apiVersion").at) {
		cr_assert(span_eq(kept, sent), "%.200s", sent.at);
		return;
	}
	plainly(sent, &a);
	plainly(kept, &b);
	cr_assert(span_eq(buf_span(&a), buf_span(&b)), "%s is not %s", buf_str(&b), buf_str(&a));
	cr_assert(!json_path(kept, "metadata", "managedFields", NULL).at && json_get(kept, "apiVersion").at);
	n_stripped += strip;
	buf_done(&a);
	buf_done(&b);
}

static int on_item(void *ctx, struct span item)
{
	struct sink *sink = ctx;
	struct buf kept = {0}, scratch = {0};
	struct object o;
	uint32_t slot;
	struct object_keep keep = {"v1", "Other", true, false, NULL};
	struct span object = json_get(item, "type").at ? json_get(item, "object") : item;
	cr_assert(span_is(object, objects[sink->next]), "%zu", sink->next);
	object_normalize(object, &keep, &kept);
	expect_kept(buf_span(&kept), object);
	cr_assert_eq(object_read(buf_span(&kept), &scratch, &o, &err), 0, "%s", err.text);
	if (sink->store) {
		/* One table for all: the kinds are told apart by the namespace. */
		_cleanup_(free_ptr) char *namespace = xasprintf("n%zu", sink->next);
		o.namespace = span_of(namespace);
		cr_assert_eq(store_put(sink->store, sink->table, &o, o.json, &slot, &err), 0, "%s", err.text);
	}
	sink->next++;
	buf_done(&kept);
	buf_done(&scratch);
	return 0;
}

static void feed(enum json_stream_kind kind, struct span text, size_t chunk, struct sink *sink)
{
	static const struct json_stream_ops ops = {on_item, NULL};
	struct json_stream *s = json_stream_new(kind, &ops, sink);
	for (size_t at = 0; at < text.len; at += chunk)
		cr_assert_eq(
		    json_stream_feed(s, (struct span){text.at + at, MIN(chunk, text.len - at)}, &err), 0,
		    "%s", err.text);
	cr_assert_eq(json_stream_end(s, &err), 0, "%s", err.text);
	cr_assert_eq(sink->next, n_objects);
	json_stream_free(s);
}

static void put_all(struct buf *out, const char *before, const char *between, const char *after)
{
	for (size_t i = 0; i < n_objects; i++)
		buf_printf(out, "%s%s", i ? between : before, objects[i]);
	buf_puts(out, after);
}

Test(real_files, through_list_and_watch_in_any_pieces)
{
	static const size_t chunks[] = {1, 7, 4096};
	struct buf list = {0}, watch = {0};
	put_all(&list, "{\"kind\":\"List\",\"items\":[", ",", "],\"metadata\":{\"resourceVersion\":\"1\"}}");
	put_all(&watch, "{\"type\":\"ADDED\",\"object\":", "}\n{\"type\":\"ADDED\",\"object\":", "}\n");
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		feed(JSON_STREAM_LIST, buf_span(&list), chunks[i], &(struct sink){0});
		feed(JSON_STREAM_WATCH, buf_span(&watch), chunks[i], &(struct sink){0});
	}
	cr_assert(n_stripped >= 6, "the file with managedFields did not come by");
	buf_done(&list);
	buf_done(&watch);
}

Test(real_files, through_cache_and_request)
{
	struct sink sink = {0};
	struct cache *cache;
	struct buf list = {0}, kept = {0}, line = {0};
	bool lost;
	struct err why;
	uint32_t table;
	cr_assert_eq(store_open(folder, 64 << 20, &sink.store, &lost, &why, &err), 0, "%s", err.text);
	cr_assert_eq(store_table(sink.store, "v1 Real", "v1", "Real", &sink.table, &err), 0, "%s", err.text);
	put_all(&list, "{\"items\":[", ",", "]}");
	feed(JSON_STREAM_LIST, buf_span(&list), 4096, &sink);
	cr_assert_eq(cache_open(folder, &cache, &err), 0, "%s", err.text);
	cr_assert_eq(cache_table(cache, "v1 Real", &table), 0);
	for (size_t i = 0; i < n_objects; i++) {
		struct request r = {.controller = "real", .uid = span_of("u"), .name = span_of("x")};
		_cleanup_(free_ptr) char *namespace = xasprintf("n%zu", i);
		_cleanup_(buf_done) struct buf name = {0};
		json_unescape(json_path(span_of(objects[i]), "metadata", "name", NULL), &name);
		buf_reset(&line);
		cr_assert_eq(cache_get(cache, table, span_of(namespace), buf_span(&name), &r.object, &err), 0,
			     "%s", err.text);
		expect_kept(buf_span(&r.object), span_of(objects[i]));
		buf_reset(&kept);
		buf_span_add(&kept, buf_span(&r.object));
		cr_assert_eq(request_print(&r, &line, &err), 0, "%s", err.text);
		cr_assert(span_eq(json_get(buf_span(&line), "object"), buf_span(&kept)));
		request_done(&r);
	}
	cache_close(cache);
	store_close(sink.store);
	buf_done(&list);
	buf_done(&kept);
	buf_done(&line);
}
