/* What a key and its history look like: shared by queue, explain and status. */
#pragma once
#include "columns.h"
#include "queue_read.h"

/* "shop/blog", or "node1" for one without a namespace. */
char *view_key(const struct queue_key *k); /* owned by the caller */
/* Why it is where it is: "backoff, due in 4s", "for 2s in website.1, process 4711", "ready since 3ms".
 * Here and below worker is the instance that has it (who.h), or NULL: not known. */
void view_state(const struct queue_key *k, const char *worker, int64_t now, struct buf *out);
/* "Deployment.apps/v1 shop/web MODIFIED", "INITIAL". */
void view_cause(const struct queue_cause *c, struct buf *out);
void view_key_json(const struct queue_key *k, const char *worker, int64_t now, struct buf *out);
/* One line about what happened, without its time. worker: of a grant, to whom, or NULL. */
void view_happened(const struct queue_happened *h, const char *worker, struct buf *out);
void view_happened_json(const struct queue_happened *h, const char *worker, int64_t now, struct buf *out);
/* "\"2026-09-30T12:00:30Z\"" of a CLOCK_BOOTTIME time; null for 0. */
void view_time_json(int64_t boottime, int64_t now, struct buf *out);
