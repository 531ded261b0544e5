/* An array that grows to millions of elements and is never moved or copied: address space for the most is taken at the
 * start, memory in steps of BIG_STEP. What was never touched is zero and costs nothing. */
#pragma once
#include "base.h"

enum { BIG_STEP = 2 << 20 }; /* a huge page: fewer misses of the TLB */

struct big {
	char *at;
	size_t usable, most; /* bytes */
	size_t ahead;	     /* bytes that were used or are touched ahead, in steps; 0: fewer than a step */
};

void big_init(struct big *b, size_t most); /* aborts when there is no address space */
/* Makes the first `bytes` usable. -ENOMEM, also above the most. */
int big_grow(struct big *b, size_t bytes);
/* The first `used` bytes are in use. Once three quarters of a step are, the next one, of BIG_STEP bytes, is returned: it will be
 * wanted soon, and to touch it for the first time can take milliseconds, so somebody else should. NULL: not yet, not again,
 * or there is no memory. */
char *big_ahead_slow(struct big *b, size_t used);
static inline char *big_ahead(struct big *b, size_t used)
{
	return used + BIG_STEP / 4 <= MAX(b->ahead, (size_t)BIG_STEP) ? NULL : big_ahead_slow(b, used);
}
void big_done(struct big *b);
