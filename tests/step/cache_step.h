/* What the step test of the cache region shares: folders, and a reader that is in the middle. */
#pragma once
#include "cache.h"
#include "mapping.h"
#include "store.h"

/* cache_history_test.c */
void violation(const char *fmt, ...) _printf_(1, 2);

/* cache_step.c */
_Noreturn void die(const char *what);
void clean(const char *path, bool folder_too);
void copy_all(const char *live, const char *cut);  /* the cache's files as they are at this instant */
bool has_key(const struct keys *keys, int number); /* of the ConfigMap of that number */
unsigned dictionaries(const char *folder);
/* A start on a copy of live's files in folder; look() after each of its first stores, and then after some. */
void cut_a_start(const char *live, const char *folder, uint64_t budget, void (*look)(void));
/* Half of a record is copied, then the writer uses its bytes again, then the rest is copied: nobody may take that for an object. */
void a_reader_in_the_middle(const char *folder, uint64_t budget);
