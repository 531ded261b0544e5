/* Whose turn it is when the cap over all controllers (maxConcurrentReconciles of reconciled.yaml) binds: round robin over
 * the controllers that have a key and a host for it. Pure. */
#pragma once
#include "workqueue.h"

/* Of the rows in idle, a bit for each that has a host for a key: those that have a key for it now. */
uint64_t share_wanting(const struct workqueue *wq, uint64_t idle, int64_t now);
/* wanting: a bit for each row that could be served now; last: the row that was served last. -1: nobody wants. */
int share_next(uint64_t wanting, unsigned last);
