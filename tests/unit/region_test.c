#include "region_ahead.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];
static const struct region_spec spec = {
    .magic = UINT64_C(0x7465737472656731),
    .layout_version = 1,
    .layout_hash = 77,
    .max_size = 16 << 20,
    .initial_size = 2 * REGION_PAGE,
    .mode = 0600,
};

static void setup(void)
{
	snprintf(folder, sizeof(folder), "/dev/shm/region-test-XXXXXX");
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/x.shm", folder);
}
static void teardown(void)
{
	unlink(path);
	rmdir(folder);
}
TestSuite(region, .init = setup, .fini = teardown);

static struct region writer(enum region_state want)
{
	struct region r;
	enum region_state state;
	struct err err = {0};
	int rc = region_write(path, &spec, &r, &state, &err);
	cr_assert(rc == 0, "%s", err.text);
	cr_assert(state == want, "state %d, wanted %d: %s", (int)state, (int)want, err.text);
	return r;
}

Test(region, contents_survive_and_incarnation_rises)
{
	struct region r = writer(REGION_CREATED);
	uint64_t first = region_header(&r)->incarnation;
	cr_assert(first != 0);
	memcpy(r.at + REGION_PAGE, "hello", 6);
	region_done(&r);
	r = writer(REGION_RECOVERED);
	cr_assert_str_eq(r.at + REGION_PAGE, "hello");
	cr_assert(region_header(&r)->incarnation == first + 1);
	region_done(&r);
}

Test(region, second_writer_is_refused_with_the_pid)
{
	struct region r = writer(REGION_CREATED), other;
	enum region_state state;
	struct err err = {0};
	char pid[24];
	snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
	cr_assert(region_write(path, &spec, &other, &state, &err) == -EBUSY);
	cr_assert(strstr(err.text, pid), "%s", err.text);
	region_done(&r);
}

Test(region, grows_to_its_limit_and_no_further)
{
	struct region r = writer(REGION_CREATED), reader;
	cr_assert(region_read(path, &spec, &reader, NULL) == 0);
	cr_assert(reader.mapped == spec.initial_size);
	cr_assert(region_grow(&r, 9 << 20) == 0);
	r.at[(9 << 20) - 1] = 'x';
	cr_assert(region_remap(&reader) == 0);
	cr_assert(reader.mapped == 9 << 20);
	cr_assert(reader.at[(9 << 20) - 1] == 'x');
	cr_assert(region_grow(&r, spec.max_size + 1) == -EFBIG);
	cr_assert(region_grow(&r, spec.max_size) == 0);
	struct stat st;
	cr_assert(stat(path, &st) == 0 && (uint64_t)st.st_size == spec.max_size);
	region_done(&reader);
	region_done(&r);
}

static void damage(off_t at, char to)
{
	int fd = open(path, O_RDWR);
	cr_assert(fd >= 0 && pwrite(fd, &to, 1, at) == 1);
	close(fd);
}

static void expect_replaced(const char *why)
{
	struct region r;
	enum region_state state;
	struct err err = {0};
	cr_assert(region_write(path, &spec, &r, &state, &err) == 0);
	cr_assert(state == REGION_REPLACED);
	cr_assert(strstr(err.text, why), "'%s' does not say '%s'", err.text, why);
	cr_assert(r.at[REGION_PAGE] == 0, "the new file has old contents");
	region_done(&r);
}

Test(region, a_region_of_another_boot_is_replaced)
{
	struct region r = writer(REGION_CREATED);
	memcpy(r.at + REGION_PAGE, "old", 4);
	char b = (char)(region_header(&r)->boot_id[3] ^ 1);
	region_done(&r);
	damage(offsetof(struct region_header, boot_id) + 3, b);
	expect_replaced("last boot");
}

Test(region, a_half_made_region_is_replaced_and_never_read)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	cr_assert(fd >= 0 && ftruncate(fd, 2 * REGION_PAGE) == 0);
	close(fd);
	struct region reader;
	cr_assert(region_read(path, &spec, &reader, NULL) == -EAGAIN);
	expect_replaced("magic");
}

Test(region, another_layout_is_replaced_by_a_writer_and_refused_by_a_reader)
{
	struct region r = writer(REGION_CREATED), reader;
	region_done(&r);
	struct region_spec other = spec;
	other.layout_hash++;
	struct err err = {0};
	cr_assert(region_read(path, &other, &reader, &err) == -EPROTO);
	cr_assert(strstr(err.text, "another version"), "%s", err.text);
	enum region_state state;
	cr_assert(region_write(path, &other, &r, &state, &err) == 0 && state == REGION_REPLACED);
	region_done(&r);
}

Test(region, a_damaged_header_is_replaced)
{
	struct region r = writer(REGION_CREATED);
	char b = (char)(region_header(&r)->checksum ^ 1);
	region_done(&r);
	damage(offsetof(struct region_header, checksum), b);
	struct region reader;
	struct err err = {0};
	cr_assert(region_read(path, &spec, &reader, &err) == -EPROTO, "%s", err.text);
	expect_replaced("damaged");
}

Test(region, readers_keep_a_replaced_file)
{
	struct region r = writer(REGION_CREATED), reader;
	memcpy(r.at + REGION_PAGE, "old", 4);
	cr_assert(region_read(path, &spec, &reader, NULL) == 0);
	cr_assert(region_has_writer(&reader));
	region_done(&r);
	cr_assert(!region_has_writer(&reader));
	damage(0, 0);
	expect_replaced("magic");
	cr_assert_str_eq(reader.at + REGION_PAGE, "old");
	region_done(&reader);
}

Test(region, budget_may_change_between_starts)
{
	struct region r = writer(REGION_CREATED);
	cr_assert(region_grow(&r, 8 << 20) == 0);
	memcpy(r.at + REGION_PAGE, "kept", 5);
	region_done(&r);
	struct region_spec smaller = spec;
	smaller.max_size = 4 << 20;
	enum region_state state;
	cr_assert(region_write(path, &smaller, &r, &state, NULL) == 0 && state == REGION_RECOVERED);
	cr_assert_str_eq(r.at + REGION_PAGE, "kept");
	cr_assert(region_grow(&r, (8 << 20) + 1) == -EFBIG);
	region_done(&r);
}

Test(region, no_file_is_enoent_and_a_folder_is_refused)
{
	struct region r;
	enum region_state state;
	cr_assert(region_read(path, &spec, &r, NULL) == -ENOENT);
	cr_assert(mkdir(path, 0700) == 0);
	cr_assert(region_write(path, &spec, &r, &state, NULL) < 0);
	cr_assert(rmdir(path) == 0);
}

/* The file is longer than what the writer has: the thread was there before. */
static bool is_ahead(const struct region *r, uint64_t bytes)
{
	struct stat st;
	return fstat(r->fd, &st) == 0 && (uint64_t)st.st_size >= bytes;
}

Test(region, a_thread_allocates_ahead_of_the_writer_and_never_above_the_most)
{
	struct region r = writer(REGION_CREATED);
	memcpy(r.at + REGION_PAGE, "hello", 6);
	cr_assert(region_ahead_start(&r) == 0);
	for (int i = 0; i < 60000 && !is_ahead(&r, spec.initial_size + REGION_AHEAD); i++)
		usleep(1000);
	cr_assert(is_ahead(&r, spec.initial_size + REGION_AHEAD), "nothing was allocated ahead");
	cr_assert(region_header(&r)->allocated == spec.initial_size, "the writer did not ask for it");
	for (uint64_t size = 1 << 20; size <= spec.max_size; size += 1 << 20) {
		cr_assert(region_grow(&r, size) == 0);
		cr_assert(region_header(&r)->allocated == size);
		cr_assert(r.at[size - 1] == 0);
		memset(r.at + size - REGION_PAGE, 7, REGION_PAGE);
	}
	cr_assert(region_grow(&r, spec.max_size + REGION_PAGE) == -EFBIG);
	cr_assert(!is_ahead(&r, spec.max_size + 1));
	cr_assert_str_eq(r.at + REGION_PAGE, "hello");
	region_done(&r);
	r = writer(REGION_RECOVERED);
	cr_assert(r.at[spec.max_size - 1] == 7);
	region_done(&r);
}

/* All other threads sleep: there is nothing left to be done ahead. */
static bool is_at_rest(void)
{
	char name[64], line[256];
	bool rest = true;
	DIR *d = opendir("/proc/self/task");
	cr_assert(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
			continue;
		snprintf(name, sizeof(name), "/proc/self/task/%.20s/stat", e->d_name);
		FILE *f = fopen(name, "r");
		const char *state = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		rest = rest && (!state || state[2] == 'S');
		if (f)
			fclose(f);
	}
	closedir(d);
	return rest;
}

/* At rest, or what it touches just then is gone under it, which ends a process. */
Test(region, the_thread_does_not_lengthen_a_file_that_was_cut)
{
	struct region r = writer(REGION_CREATED);
	cr_assert(region_ahead_start(&r) == 0);
	for (int i = 0; i < 60000 && !(is_ahead(&r, spec.initial_size + REGION_AHEAD) && is_at_rest()); i++)
		usleep(1000);
	cr_assert(is_at_rest());
	cr_assert(truncate(path, 0) == 0);
	region_ahead_has(r.ahead, spec.initial_size + 2 * REGION_AHEAD); /* is asked for more */
	for (int i = 0; i < 200 && !is_ahead(&r, 1); i++)
		usleep(1000);
	cr_assert(!is_ahead(&r, 1));
	cr_assert(!region_in_place(&r));
	region_done(&r);
}

static bool is_resident(void *at, size_t bytes)
{
	unsigned char pages[512];
	cr_assert(bytes / REGION_PAGE <= sizeof(pages) && mincore(at, bytes, pages) == 0);
	for (size_t i = 0; i < bytes / REGION_PAGE; i++)
		if (!(pages[i] & 1))
			return false;
	return true;
}

Test(region, the_thread_touches_private_memory_that_it_is_asked_to_and_leaves_what_is_in_it)
{
	enum { BYTES = 1 << 20 };
	struct region r = writer(REGION_CREATED);
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(at != MAP_FAILED);
	region_ahead_touch(&r, at, BYTES); /* there is no thread: nothing */
	cr_assert(!is_resident(at, BYTES));
	at[5] = 'x';
	cr_assert(region_ahead_start(&r) == 0);
	region_ahead_touch(&r, at, BYTES);
	for (int i = 0; i < 60000 && !is_resident(at, BYTES); i++)
		usleep(1000);
	cr_assert(is_resident(at, BYTES));
	cr_assert(at[5] == 'x' && at[6] == 0);
	region_ahead_stop(&r);
	region_ahead_stop(&r);
	munmap(at, BYTES);
	region_done(&r);
}
