#include "cache_step.h"
#include "trap.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void (*looks)(void);

_Noreturn void die(const char *what)
{
	fprintf(stderr, "step_cache: %s: %s\n", what, strerror(errno));
	_exit(EXIT_FAILURE);
}

void clean(const char *path, bool folder_too)
{
	DIR *d = opendir(path);
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	if (folder_too)
		rmdir(path);
}

static void copy_file(int from, int to, const char *name)
{
	static char bytes[1 << 16];
	int in = openat(from, name, O_RDONLY | O_CLOEXEC),
	    out = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (in < 0 || out < 0)
		die(name);
	for (ssize_t n; (n = read(in, bytes, sizeof bytes)) > 0;)
		if (write(out, bytes, (size_t)n) != n)
			die(name);
	close(in);
	close(out);
}

void copy_all(const char *live, const char *cut)
{
	clean(cut, false);
	DIR *from = opendir(live), *to = opendir(cut);
	if (!from || !to)
		die(live);
	for (struct dirent *e; (e = readdir(from));)
		if (e->d_name[0] != '.')
			copy_file(dirfd(from), dirfd(to), e->d_name);
	closedir(from);
	closedir(to);
}

unsigned dictionaries(const char *folder)
{
	unsigned n = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; (e = readdir(d));)
		n += strstr(e->d_name, ".dic") != NULL;
	closedir(d);
	return n;
}

bool has_key(const struct keys *keys, int number)
{
	char name[16];
	snprintf(name, sizeof name, "m%d", number);
	for (size_t i = 0; i < keys->count; i++) {
		struct span namespace, key;
		keys_get(keys, i, &namespace, &key);
		if (span_is(key, name))
			return true;
	}
	return false;
}

/* ---- a start that is cut ---- */

enum { FIRST_STORES = 64, STORES_EACH = 23 /* of those after them: indexes are built alike */ };

static void on_start_store(void *ctx)
{
	struct trap *t = ctx;
	if (t->stores <= FIRST_STORES || t->stores % STORES_EACH == 0)
		looks();
}

void cut_a_start(const char *from, const char *folder, uint64_t budget, void (*look)(void))
{
	struct trap trap = {.after = on_start_store, .ctx = &trap, .most = TRAP_RANGES};
	struct store *s;
	struct err err = {0}, why;
	bool lost;
	looks = look;
	copy_all(from, folder);
	trap_open(&trap);
	int rc = store_open(folder, budget, &s, &lost, &why, &err);
	trap_close(&trap);
	if (rc < 0)
		violation("a start: %s", err.text);
	else
		store_close(s);
}

/* ---- a reader that is in the middle ---- */

void __real_buf_add(struct buf *b, const void *bytes, size_t n);
void __wrap_buf_add(struct buf *b, const void *bytes, size_t n);
static void (*meanwhile)(void);

/* Half of the record is copied, then the writer goes on, then the other half is. */
void __wrap_buf_add(struct buf *b, const void *bytes, size_t n)
{
	void (*go)(void) = meanwhile;
	if (!go || n < 64) {
		__real_buf_add(b, bytes, n);
		return;
	}
	meanwhile = NULL;
	__real_buf_add(b, bytes, n / 2);
	go();
	__real_buf_add(b, (const char *)bytes + n / 2, n - n / 2);
}

static struct store *small;
static uint32_t small_table;
static void small_json(const char *name, char filling, struct buf *out)
{
	buf_printf(out,
		   "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"shop\","
		   "\"name\":\"%s\"},\"d\":\"",
		   name);
	for (int i = 0; i < 120; i++)
		buf_putc(out, filling);
	buf_puts(out, "\"}");
}
static int small_put(const char *name, char filling)
{
	struct buf json = {0}, scratch = {0};
	struct object o;
	uint32_t slot;
	small_json(name, filling, &json);
	int rc = object_read(buf_span(&json), &scratch, &o, NULL);
	if (rc == 0)
		rc = store_put(small, small_table, &o, o.json, &slot, NULL);
	buf_done(&json);
	buf_done(&scratch);
	return rc;
}
static bool small_is(const struct buf *got, char filling)
{
	struct buf want = {0};
	small_json("x", filling, &want);
	bool is = span_eq(buf_span(got), buf_span(&want));
	buf_done(&want);
	return is;
}
static void small_delete(const char *name)
{
	struct store_view v;
	if (store_find(small, small_table, span_of("shop"), span_of(name), &v))
		store_delete(small, v.slot);
}
/* The bytes of x, the only object, are used again by the next one: by y, or by x itself. */
static void replace_by_another(void)
{
	small_delete("x");
	small_put("y", 'y');
}
static void replace_by_itself(void)
{
	small_delete("x");
	small_put("x", 'z');
}

void a_reader_in_the_middle(const char *cut, uint64_t budget)
{
	static void (*const ways[])(void) = {replace_by_another, replace_by_itself};
	struct err err = {0}, why;
	bool lost;
	clean(cut, false);
	if (store_open(cut, budget, &small, &lost, &why, &err) < 0 ||
	    store_table(small, "v1 ConfigMap", "v1", "ConfigMap", &small_table, &err) < 0) {
		violation("%s", err.text);
		return;
	}
	struct cache *c;
	if (cache_open(cut, &c, &err) < 0)
		die(err.text);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct buf got = {0};
		small_delete("y");
		small_put("x", 'x');
		meanwhile = ways[i];
		int rc = cache_get(c, small_table, span_of("shop"), span_of("x"), &got, &err);
		bool torn = rc == 0 && !small_is(&got, 'x') && !small_is(&got, 'z');
		if (torn || (rc && rc != -ENOENT && rc != -EAGAIN))
			violation("%d: %s", rc, buf_str(&got));
		if (meanwhile)
			violation("the reader copied nothing");
		meanwhile = NULL;
		buf_done(&got);
	}
	cache_close(c);
	store_close(small);
}
