/* Whose turn it is when the cap over all controllers (maxConcurrentReconciles of reconciled.yaml) binds: round robin over
 * the controllers that have a key and a host for it. Pure. */
#pragma once
#include "base.h"

/* wanting: a bit for each row that could be served now; last: the row that was served last. -1: nobody wants. */
int share_next(uint64_t wanting, unsigned last);
