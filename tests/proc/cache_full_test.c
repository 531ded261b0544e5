/* The object cache on a file system that becomes full: puts are refused, readers go on, nothing is lost, and a watcher that starts
 * there keeps what it has. In a mount namespace of its own. */
#include "cache.h"
#include "check.h"
#include "watcher/store.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define TABLE "v1 ConfigMap"
enum { SIZE = 12 << 20, BUDGET = 8 << 20 };

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return done;
}

/* As root a mount namespace is enough. */
static bool own_mounts(void)
{
	uid_t uid = geteuid();
	_cleanup_(free_ptr) char *map = xasprintf("%u %u 1", uid, uid);
	if (uid == 0 ? unshare(CLONE_NEWNS) < 0
		     : unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || !write_text("/proc/self/uid_map", map))
		return false;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* ---- objects ---- */

/* Random bytes that follow from the name, so that nothing is saved by packing and everything can be checked. */
static void make_object(struct buf *out, unsigned name, size_t len)
{
	uint64_t random = name;
	buf_printf(out,
		   "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"shop\","
		   "\"name\":\"n%u\","
		   "\"uid\":\"u%u\",\"resourceVersion\":\"%u\"},\"data\":\"",
		   name, name, name);
	for (size_t i = 0; i < len; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		buf_putc(out,
			 "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"[random >> 58]);
	}
	buf_puts(out, "\"}");
}

static int put(struct store *s, uint32_t table, unsigned name, struct err *err)
{
	struct buf json = {0}, scratch = {0};
	struct object o;
	uint32_t slot;
	make_object(&json, name, 20000);
	int rc = object_read(buf_span(&json), &scratch, &o, err);
	if (rc == 0)
		rc = store_put(s, table, &o, o.json, &slot, err);
	buf_done(&json);
	buf_done(&scratch);
	return rc;
}

static int see(void *ctx, struct span namespace _unused_, struct span name, struct span object)
{
	struct buf want = {0};
	make_object(&want, (unsigned)strtoul(name.at + 1, NULL, 10), 20000);
	bool whole = span_eq(buf_span(&want), object);
	buf_done(&want);
	++*(unsigned *)ctx;
	return whole ? 0 : 1;
}

/* -1: something is not as it must be. */
static int look(const char *folder)
{
	struct cache *c;
	struct err err;
	uint32_t table;
	unsigned n = 0;
	if (cache_open(folder, &c, &err) < 0)
		return -1;
	int rc = cache_table(c, TABLE, &table);
	if (rc == 0)
		rc = cache_walk(c, table, span_of(""), see, &n, &err);
	cache_close(c);
	return rc ? -1 : (int)n;
}

/* A program of its own: a fork would keep the writer's lock. */
static int read_for_ever(const char *folder, int told)
{
	struct cache *c = NULL;
	struct err err;
	uint32_t table;
	if (cache_open(folder, &c, &err) < 0 || cache_table(c, TABLE, &table) < 0)
		return 2;
	for (;;) {
		unsigned n = 0;
		int rc = cache_walk(c, table, span_of(""), see, &n, &err);
		if (rc && rc != -EAGAIN)
			return 3;
		close_fd(&told); /* it reads */
		told = -1;
	}
}

/* ---- the test ---- */

/* Takes what is left of the file system. */
static void fill_up(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	static const char page[4096];
	while (write(fd, page, sizeof page) > 0)
		continue;
	close(fd);
}

static struct store *open_store(const char *folder, uint32_t *ret_table, struct err *why)
{
	struct store *s = NULL;
	struct err err = {0};
	bool lost = false;
	CHECK_MSG(store_open(folder, BUDGET, &s, &lost, why, &err) == 0, "%s", err.text);
	if (s)
		CHECK(store_table(s, TABLE, "v1", "ConfigMap", ret_table, &err) == 0);
	return s;
}

static void a_full_file_system(const char *self, const char *folder)
{
	struct err err = {0}, why;
	uint32_t table = 0;
	struct store *s = open_store(folder, &table, &why);
	if (!s)
		return;
	unsigned n = 0;
	for (; n < 60; n++)
		CHECK_MSG(put(s, table, n, &err) == 0, "%s", err.text);
	int told[2];
	char number[16], c;
	CHECK(pipe(told) == 0);
	snprintf(number, sizeof number, "%d", told[1]);
	pid_t reader = check_start(NULL, (const char *const[]){self, "read", folder, number, NULL});
	close(told[1]);
	CHECK(read(told[0], &c, 1) == 0);
	close(told[0]);
	_cleanup_(free_ptr) char *filler = xasprintf("%s/filler", folder);
	fill_up(filler);
	int rc = 0;
	for (; n < 1000 && rc == 0; n += rc == 0)
		rc = put(s, table, n, &err);
	CHECK_MSG(rc == -ENOSPC && strstr(err.text, "is full"), "%d: %s", rc, err.text);
	/* Changes and deletes of what is there. */
	for (unsigned i = 0; i < n; i++) {
		rc = put(s, table, i, &err);
		CHECK_MSG(rc == 0 || rc == -ENOSPC, "%d: %s", rc, err.text);
	}
	CHECK(look(folder) == (int)n);
	store_close(s);

	/* The next watcher. */
	s = open_store(folder, &table, &why);
	if (s) {
		struct store_usage u;
		store_usage(s, &u);
		CHECK_MSG(u.objects == n, "%u of %u: %s", u.objects, n, why.text);
		CHECK_MSG(strstr(why.text, "bytes free"), "%s", why.text);
		CHECK(look(folder) == (int)n);
		unlink(filler);
		for (unsigned i = 0; i < 100; i++)
			CHECK_MSG(put(s, table, n++, &err) == 0, "%s", err.text);
		CHECK(look(folder) == (int)n);
		store_close(s);
	}
	int status;
	CHECK(waitpid(reader, &status, WNOHANG) == 0); /* it reads on */
	kill(reader, SIGKILL);
	waitpid(reader, &status, 0);
}

/* A first start where the budget is not there is refused with both numbers. */
static void no_room_to_begin(const char *folder)
{
	struct store *s = NULL;
	struct err err = {0}, why;
	bool lost;
	_cleanup_(free_ptr) char *filler = xasprintf("%s/filler", folder);
	fill_up(filler);
	CHECK(store_open(folder, BUDGET, &s, &lost, &why, &err) == -ENOSPC);
	CHECK_MSG(strstr(err.text, "room") || strstr(err.text, "8388608"), "%s", err.text);
}

static bool mount_small(const char *folder)
{
	_cleanup_(free_ptr) char *options = xasprintf("size=%d,mode=0700", SIZE);
	return mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return read_for_ever(argv[2], atoi(argv[3]));
	char self[4096] = {0};
	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
		return 1;
	const char *folder = check_folder();
	if (!own_mounts() || !mount_small(folder)) {
		printf("SKIPPED: no mount namespace of its own: %s\n", strerror(errno));
		return 77;
	}
	a_full_file_system(self, folder);
	umount2(folder, MNT_DETACH);
	if (mount_small(folder))
		no_room_to_begin(folder);
	umount2(folder, MNT_DETACH);
	return check_result();
}
