/* The keys that fail, for `reconcilectl status`: those in quarantine and those with failures in a row, worst
 * first. */
#pragma once
#include "buf.h"

enum { FAILING_MAX = 20 };

struct queue_key;
struct who;
struct failing {
	struct queue_key *list[FAILING_MAX];
	size_t count; /* in list */
	size_t total;
};
/* Reads the queue's region; nothing is found when there is none, or when it is not that of the broker with this
 * incarnation. */
void failing_find(const char *region_dir, int64_t incarnation, struct failing *ret);
void failing_done(struct failing *f);
/* A table, or nothing when none fails. */
void failing_print(const struct failing *f, int64_t now, struct buf *out);
/* {"total":N,"keys":[...]} */
void failing_json(const struct failing *f, const struct who *who, int64_t now, struct buf *out);
