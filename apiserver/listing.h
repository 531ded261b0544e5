/* The answer to a LIST, printed bit by bit: a list may be as large as the store, and many may be asked for at
 * a time. Belongs to one thread; needs no lock. */
#pragma once
#include "call.h"

struct listing;
/* Takes what snap holds. meta: copied. */
struct listing *listing_new(const struct view *v, enum form form, struct snapshot *snap,
			    const struct list_meta *meta, int64_t now);
void listing_free(struct listing *l);
/* Adds the next few items, some 64 KiB; false: that was the end. */
bool listing_read(struct listing *l, struct buf *out);
