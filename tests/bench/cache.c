/* bench_cache DIR COUNT: the object cache by itself, COUNT pods and COUNT custom resources (objects.h). Prints "NAME VALUE" lines:
 *
 *   cache.bytes/pod, /custom  bytes for each: the region's files and what the writer's process grew by
 *   cache.peak                the most there was while they came in, over what there is in the end
 *   put/pod, /custom          CPU ns of the writer for one object, its JSON being there already; packing anew and training are in it
 *   update/pod                the same for a changed one that is there already
 *   read.get, read.list       ns in another process: one pod by name, and the 100 pods of one owner
 *   floor.get, floor.list     the same bytes in the same order in that process: one memcpy, and unpacking
 *
 * Reads are of random objects, so both sides miss the processor's caches alike. */
#include "cache.h"
#include "cache_unpack.h"
#include "compress.h"
#include "objects.h"
#include "watcher/store.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READS = 20000, LISTS = 400, OWNED = 100, TURNS = 20 };

static const char *dir;
static uint32_t count;
static struct err err;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "bench_cache: %s: %s\n", what, err.text);
	exit(EXIT_FAILURE);
}

static int64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void print(const char *name, double value)
{
	printf("%s %.6g\n", name, value);
	fflush(stdout);
}

/* The files' bytes and this process' own memory. */
static double bytes_now(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	double own = 0, files = 0;
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Anonymous: %lf kB", &own) == 1)
			break;
	if (!f)
		fail("smaps_rollup");
	fclose(f);
	DIR *d = opendir(dir);
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;
		if (e->d_name[0] != '.' && fstatat(dirfd(d), e->d_name, &st, 0) == 0)
			files += (double)st.st_blocks * 512;
	}
	closedir(d);
	return own * 1024 + files;
}

typedef void make(struct buf *out, uint32_t i, uint64_t version);

static double most;

static double put_all(struct store *s, uint32_t table, make *of, uint64_t version)
{
	struct buf json = {0}, scratch = {0};
	int64_t spent = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct object o;
		uint32_t slot;
		buf_reset(&json);
		buf_reset(&scratch);
		of(&json, i, version);
		if (object_read(buf_span(&json), &scratch, &o, &err) < 0)
			fail("object");
		int64_t from = cpu_ns();
		if (store_put(s, table, &o, o.json, &slot, &err) < 0)
			fail("put");
		spent += cpu_ns() - from;
		if (i % 2000 == 0)
			most = MAX(most, bytes_now());
	}
	int64_t from = cpu_ns();
	while (store_work(s))
		continue;
	spent += cpu_ns() - from;
	most = MAX(most, bytes_now());
	buf_done(&json);
	buf_done(&scratch);
	return (double)spent / count;
}

/* ---- the reader ---- */

static uint32_t picks[READS];
static void pick(void)
{
	uint64_t random = 1;
	for (size_t i = 0; i < READS; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		picks[i] = (uint32_t)(random >> 33) % count;
	}
}

/* All pods as the cache has them: packed with its dictionary, one after the other. */
struct packed {
	struct buf bytes;
	size_t *at;
	uint32_t *lens;
	struct decompress_dictionary *dictionary;
};
static void pack_all(struct packed *p)
{
	struct buf bytes = {0}, json = {0};
	uint32_t table;
	unsigned file = 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; !file && (e = readdir(d));)
		if (strstr(e->d_name, ".dic"))
			sscanf(e->d_name, "cache-%u", &file);
	closedir(d);
	if (cache_unpack_read_dictionary(dir, file, &bytes, &table) < 0)
		fail("no dictionary");
	p->dictionary = decompress_dictionary_new(buf_span(&bytes));
	struct compress_dictionary *with = compress_dictionary_new(buf_span(&bytes));
	struct compress *c = compress_new();
	p->at = xcalloc(count + 1, sizeof *p->at);
	p->lens = xcalloc(count, sizeof *p->lens);
	for (uint32_t i = 0; i < count; i++) {
		buf_reset(&json);
		objects_pod(&json, i, 1);
		p->at[i] = p->bytes.len;
		p->lens[i] = (uint32_t)json.len;
		char *to = buf_room(&p->bytes, json.len);
		ssize_t n = compress_pack(c, with, buf_span(&json), to, json.len);
		if (n < 0)
			fail("a pod is not packed");
		p->bytes.len += (size_t)n;
	}
	p->at[count] = p->bytes.len;
}

static void unpack_one(struct packed *p, struct decompress *d, uint32_t i, struct buf *copy, struct buf *out)
{
	buf_reset(copy);
	buf_reset(out);
	buf_add(copy, p->bytes.data + p->at[i], p->at[i + 1] - p->at[i]);
	if (decompress_unpack(d, p->dictionary, buf_span(copy), buf_room(out, p->lens[i]), p->lens[i]) < 0)
		fail("unpack");
}

static int see(void *ctx, struct span namespace _unused_, struct span name _unused_,
	       struct span object _unused_)
{
	++*(uint32_t *)ctx;
	return 0;
}

/* One of the two sides, on the picks from..to: they take turns, so that what disturbs the machine disturbs both. */
struct turn {
	struct cache *cache;
	uint32_t table;
	struct packed *packed;
	struct decompress *decompress;
	char (*names)[2][64];
};

static void get_read(const struct turn *t, size_t from, size_t to)
{
	static struct buf out;
	for (size_t i = from; i < to; i++) {
		buf_reset(&out);
		if (cache_get(t->cache, t->table, span_of(t->names[i][0]), span_of(t->names[i][1]), &out,
			      &err) < 0)
			fail("get");
	}
}

static void get_floor(const struct turn *t, size_t from, size_t to)
{
	static struct buf copy, out;
	for (size_t i = from; i < to; i++)
		unpack_one(t->packed, t->decompress, picks[i], &copy, &out);
}

static void list_read(const struct turn *t, size_t from, size_t to)
{
	uint32_t seen = 0;
	for (size_t i = from; i < to; i++) {
		char owner[37];
		objects_owner(picks[i], owner);
		if (cache_walk(t->cache, t->table, span_of(owner), see, &seen, &err) < 0)
			fail("walk");
	}
	if (seen != (to - from) * OWNED)
		fail("an owner does not have its hundred");
}

static void list_floor(const struct turn *t, size_t from, size_t to)
{
	static struct buf copy, out;
	for (size_t i = from; i < to; i++)
		for (uint32_t k = 0; k < OWNED; k++)
			unpack_one(t->packed, t->decompress, picks[i] / OWNED * OWNED + k, &copy, &out);
}

typedef void side(const struct turn *t, size_t from, size_t to);

static void measure(const struct turn *t, const char *name, side *read, side *floor, size_t n)
{
	side *const sides[] = {read, floor};
	int64_t spent[2] = {0};
	for (size_t k = 0; k < 2; k++) /* once, so that all pages are there */
		sides[k](t, 0, n);
	for (size_t at = 0; at < n; at += n / TURNS)
		for (size_t k = 0; k < 2; k++) {
			size_t which = (at / (n / TURNS) + k) % 2;
			int64_t from = cpu_ns();
			sides[which](t, at, at + n / TURNS);
			spent[which] += cpu_ns() - from;
		}
	for (size_t k = 0; k < 2; k++) {
		char text[32];
		snprintf(text, sizeof text, "%s.%s", k ? "floor" : "read", name);
		print(text, (double)spent[k] / (double)n);
	}
}

static void read_all(struct cache *c, uint32_t table, struct packed *p)
{
	struct turn t = {c, table, p, decompress_new(), xcalloc(READS, sizeof *t.names)};
	for (size_t i = 0; i < READS; i++)
		objects_pod_name(picks[i], t.names[i][0], t.names[i][1]);
	measure(&t, "get", get_read, get_floor, READS);
	measure(&t, "list", list_read, list_floor, LISTS);
}

static void reader(void)
{
	struct cache *c;
	uint32_t table;
	struct packed p = {0};
	if (cache_open(dir, &c, &err) < 0 || cache_table(c, "pods", &table) < 0)
		fail("reader");
	pick();
	pack_all(&p);
	read_all(c, table, &p);
}

int main(int argc, char **argv)
{
	if (argc != 3 || (count = (uint32_t)strtoul(argv[2], NULL, 10)) < OWNED || count % OWNED) {
		fprintf(stderr, "usage: bench_cache DIR COUNT    (a multiple of %d)\n", OWNED);
		return 2;
	}
	dir = argv[1];
	struct store *s;
	struct err why;
	bool lost;
	uint32_t pods, customs;
	double begin = bytes_now();
	if (store_open(dir, UINT64_C(2) << 30, &s, &lost, &why, &err) < 0 ||
	    store_table(s, "pods", "v1", "Pod", &pods, &err) < 0 ||
	    store_table(s, "databases", "example.com/v1", "Database", &customs, &err) < 0)
		fail("open");
	double empty = bytes_now();
	print("bytes/empty", empty - begin);
	print("put/pod", put_all(s, pods, objects_pod, 1));
	double with_pods = bytes_now();
	print("cache.bytes/pod", (with_pods - begin) / count);
	print("cache.peak/pod", (most - begin) / (with_pods - begin));
	pid_t child = fork();
	if (child == 0) {
		reader();
		_exit(0);
	}
	int status;
	if (waitpid(child, &status, 0) < 0 || status)
		fail("the reader failed");
	print("put/custom", put_all(s, customs, objects_custom, 1));
	double all = bytes_now();
	print("cache.bytes/custom", (all - with_pods) / count);
	print("cache.peak", (most - begin) / (all - begin));
	print("update/pod", put_all(s, pods, objects_pod, 2));
	print("cache.bytes/updated", (bytes_now() - begin) / (2.0 * count));
	struct store_usage u;
	store_usage(s, &u);
	print("live", (double)u.live);
	print("unpacked", (double)u.unpacked);
	print("allocated", (double)u.allocated);
	print("segments", u.segments);
	store_close(s);
	return 0;
}
