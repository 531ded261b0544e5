/* The watcher's writer and everybody's reader of one cache, in a folder of the test's own. */
#pragma once
#include "cache.h"
#include "watcher/store.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static char folder[64];
static struct store *store;
static struct cache *cache;
static uint32_t table;
static bool lost;
static struct err err, why;

static int remove_one(const char *path, const struct stat *st _unused_, int type _unused_,
		      struct FTW *ftw _unused_)
{
	return remove(path);
}

static void open_store(uint64_t budget)
{
	cr_assert_eq(store_open(folder, budget, &store, &lost, &why, &err), 0, "%s", err.text);
	cr_assert_eq(store_table(store, "v1 ConfigMap", "v1", "ConfigMap", &table, &err), 0);
}

static void setup(void)
{
	strcpy(folder, "/dev/shm/reconciled-unit.XXXXXX");
	cr_assert(mkdtemp(folder));
	open_store(64 << 20);
	cr_assert(lost);
	cr_assert_eq(cache_open(folder, &cache, &err), 0, "%s", err.text);
}

static void done(void)
{
	cache_close(cache);
	store_close(store);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int put_json(uint32_t into, struct span json)
{
	struct buf scratch = {0};
	struct object o;
	uint32_t slot;
	int rc = object_read(json, &scratch, &o, &err);
	if (rc == 0)
		rc = store_put(store, into, &o, json, &slot, &err);
	buf_done(&scratch);
	return rc;
}

static unsigned files(const char *ending)
{
	unsigned n = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; (e = readdir(d));) {
		size_t len = strlen(e->d_name);
		n += len > strlen(ending) && !strcmp(e->d_name + len - strlen(ending), ending);
	}
	closedir(d);
	return n;
}
