/* An array that grows to millions of elements and is never moved or copied: address space for the most is taken at the
 * start, memory in steps of 2 MiB. What was never touched is zero and costs nothing. */
#pragma once
#include "base.h"

struct big {
	char *at;
	size_t usable, most; /* bytes */
};

void big_init(struct big *b, size_t most); /* aborts when there is no address space */
/* Makes the first `bytes` usable. -ENOMEM, also above the most. */
int big_grow(struct big *b, size_t bytes);
void big_done(struct big *b);
