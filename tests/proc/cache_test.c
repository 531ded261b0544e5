/* The object cache between processes: a writer that is killed at any moment while it grows, packs, empties segments and drops a table, and
 * readers that go on meanwhile. Run with arguments this program is the writer. */
#include "cache.h"
#include "check.h"
#include "watcher/store.h"
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OBJECTS = 400, KILLS = 60 };
#define TABLE "v1 ConfigMap"
#define OTHER "v1 Node" /* comes and goes */
enum { OTHERS = 60, ROUND = 800, BUDGET = 8 << 20 };

/* Every object says of itself what it must be: name, a number, and a filling that follows from the number. */
static void make_object(struct buf *out, unsigned name, uint64_t number)
{
	buf_printf(out,
		   "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"shop\","
		   "\"name\":\"n%u\",",
		   name);
	buf_printf(out, "\"uid\":\"u%u\",\"resourceVersion\":\"%llu\",", name, (unsigned long long)number);
	buf_printf(
	    out,
	    "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"X\",\"name\":\"x\",\"uid\":\"always\"},");
	buf_printf(out,
		   "{\"apiVersion\":\"v1\",\"kind\":\"X\",\"name\":\"x\",\"uid\":\"o%llu\"}]},\"data\":\"",
		   (unsigned long long)(number % 7));
	/* Half of it is like its like's, half is like nothing: so it is packed with a dictionary, and segments fill up. */
	for (uint64_t i = 0, r = number; i < number % 6000; i += 32) {
		r = r * 6364136223846793005 + 1442695040888963407;
		buf_printf(out, "%016llx is what it is", (unsigned long long)r);
	}
	buf_puts(out, "\"}");
}

static bool object_whole(struct span object, struct span name)
{
	struct buf want = {0};
	struct span version;
	bool whole = json_string_raw(json_path(object, "metadata", "resourceVersion", NULL), &version) == 0;
	if (whole) {
		_cleanup_(free_ptr) char *n = span_dup(name), *v = span_dup(version);
		make_object(&want, (unsigned)strtoul(n + 1, NULL, 10), strtoull(v, NULL, 10));
		whole = span_eq(buf_span(&want), object);
	}
	buf_done(&want);
	return whole;
}

/* ---- the writer ---- */

static void put(struct store *s, uint32_t table, unsigned name, uint64_t number)
{
	struct buf json = {0}, scratch = {0};
	struct object o;
	struct err err;
	uint32_t slot;
	make_object(&json, name, number);
	if (object_read(buf_span(&json), &scratch, &o, &err) < 0 ||
	    store_put(s, table, &o, buf_span(&json), &slot, &err) < 0) {
		fprintf(stderr, "put: %s\n", err.text);
		exit(3);
	}
	buf_done(&json);
	buf_done(&scratch);
}

static bool keep_first(void *ctx, uint32_t table)
{
	return table == *(uint32_t *)ctx;
}

static void other_table(struct store *s, uint32_t first)
{
	uint32_t table;
	struct err err;
	if (store_table(s, OTHER, "v1", "Node", &table, &err) < 0) {
		fprintf(stderr, "table: %s\n", err.text);
		exit(3);
	}
	for (unsigned i = 0; i < OTHERS; i++)
		put(s, table, i, random_below(1000000));
	store_tables_keep(s, keep_first, &first);
}

static int write_for_ever(const char *folder)
{
	struct store *s;
	struct err err, why;
	bool lost;
	uint32_t table;
	if (store_open(folder, BUDGET, &s, &lost, &why, &err) < 0 ||
	    store_table(s, TABLE, "v1", "ConfigMap", &table, &err) < 0) {
		fprintf(stderr, "writer: %s\n", err.text);
		return 4;
	}
	if (lost && *why.text) {
		fprintf(stderr, "writer: the cache was lost: %s\n", why.text);
		return 5;
	}
	if (!store_table_synced(s, table)) {
		for (unsigned i = 0; i < OBJECTS; i++)
			put(s, table, i, i);
		store_table_set_synced(s, table, true);
	}
	/* The even half is always there, changing; the odd half comes and goes. */
	for (uint64_t n = 1;; n++) {
		if (n % ROUND == 0)
			other_table(s, table);
		if (n % 100 == 0)
			(void)store_work(s);
		unsigned i = (unsigned)random_below(OBJECTS);
		struct store_view v;
		char name[16];
		snprintf(name, sizeof name, "n%u", i);
		if (i % 2 && store_find(s, table, span_of("shop"), span_of(name), &v))
			store_delete(s, v.slot);
		else
			put(s, table, i, random_below(1000000));
	}
}

/* ---- the reader ---- */

struct seen {
	unsigned objects, even, torn;
};
static int see(void *ctx, struct span namespace _unused_, struct span name, struct span object)
{
	struct seen *s = ctx;
	s->objects++;
	s->even += (name.at[name.len - 1] - '0') % 2 == 0;
	s->torn += !object_whole(object, name);
	return 0;
}

/* Everything that must be there is, and is whole, by name, by walk and by owner. settled: no writer is in the
 * way. */
static void look(struct cache *c, uint32_t table, bool settled)
{
	struct err err = {0};
	struct buf b = {0};
	char name[16];
	for (unsigned i = 0; i < OBJECTS; i += 2) {
		snprintf(name, sizeof name, "n%u", i);
		buf_reset(&b);
		int rc = cache_get(c, table, span_of("shop"), span_of(name), &b, &err);
		CHECK_MSG(rc == 0 || (rc == -EAGAIN && !settled), "%s: %d %s", name, rc, err.text);
		if (rc == 0)
			CHECK_MSG(object_whole(buf_span(&b), span_of(name)), "%s is torn: %s", name,
				  buf_str(&b));
	}
	/* The other table may go at any moment; what it has is whole. */
	uint32_t other;
	struct seen s_other = {0};
	int gone = cache_table(c, OTHER, &other);
	if (gone == 0)
		gone = cache_walk(c, other, span_of(""), see, &s_other, &err);
	CHECK_MSG(gone == 0 || gone == -ENOENT || gone == -ESTALE || gone == -EAGAIN, "%d %s", gone,
		  err.text);
	CHECK_MSG(s_other.torn == 0, "%u torn objects", s_other.torn);
	const char *const owners[] = {"", "always"};
	for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
		struct seen s = {0};
		int rc = cache_walk(c, table, span_of(owners[i]), see, &s, &err);
		CHECK_MSG(rc == 0 || (rc == -EAGAIN && !settled), "walk \"%s\": %d %s", owners[i], rc,
			  err.text);
		CHECK_MSG(s.torn == 0, "walk \"%s\": %u torn objects", owners[i], s.torn);
		CHECK_MSG(rc < 0 || s.even == OBJECTS / 2, "walk \"%s\": %u of %u", owners[i], s.even,
			  OBJECTS / 2);
	}
	buf_done(&b);
}

static void killed_writers(const char *folder, const char *self)
{
	struct cache *c = NULL;
	struct err err = {0};
	uint32_t table = 0;
	_cleanup_(free_ptr) char *log = xasprintf("%s/writer.log", folder);
	for (int i = 0; i < KILLS; i++) {
		pid_t writer = check_start(log, (const char *const[]){self, "write", folder, NULL});
		if (!c) {
			CHECK(WAIT_FOR(SOON, cache_open(folder, &c, &err) == 0));
			CHECK(WAIT_FOR(SOON,
				       cache_table(c, TABLE, &table) == 0 && cache_table_synced(c, table)));
		}
		int64_t until = clock_boottime_ns() + (int64_t)random_below(20) * NS_PER_MS;
		do
			look(c, table, false);
		while (clock_boottime_ns() < until);
		kill(writer, SIGKILL);
		int status = check_wait(writer, SOON);
		CHECK_MSG(WIFSIGNALED(status), "the writer ended by itself: %x", status);
		/* Dead in the middle of whatever it did: what can be read is whole. */
		look(c, table, false);
	}
	cache_close(c);
	/* The next writer repairs: nothing is "not now" any more, and nothing is missing. */
	struct store *s;
	struct err why;
	bool lost;
	CHECK_MSG(store_open(folder, BUDGET, &s, &lost, &why, &err) == 0, "%s", err.text);
	CHECK_MSG(!lost, "%s", why.text);
	CHECK(cache_open(folder, &c, &err) == 0 && cache_table(c, TABLE, &table) == 0);
	look(c, table, true);
	/* On a slow machine no writer lived for long. */
	struct store_usage u;
	bool packed = WAIT_FOR(SOON, (store_work(s), store_usage(s, &u), u.live * 4 < u.unpacked * 3));
	CHECK(u.allocated <= u.budget);
	CHECK_MSG(packed, "%llu of %llu: nothing was packed", (unsigned long long)u.live,
		  (unsigned long long)u.unpacked);
	cache_close(c);
	store_close(s);
	_cleanup_(free_ptr) char *said = check_read(log);
	CHECK_MSG(!*said, "%s", said);
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return write_for_ever(argv[2]);
	char self[4096] = {0};
	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
		return 1;
	killed_writers(check_folder(), self);
	return check_result();
}
