/* How fast: so many things spread evenly over a time, and so many a second. Pure; times: CLOCK_BOOTTIME ns. */
#pragma once
#include "base.h"

/* A round: each of a number of things once until its end. The number may change on the way. */
struct pace {
	int64_t last_ns, end_ns;
};
/* period_ns, shortened or lengthened by up to a tenth; random: [0, 1). */
void pace_begin(struct pace *p, int64_t now_ns, int64_t period_ns, double random);
/* When the next of `left` things is due; with none left: the end. The last one is due at the end. */
int64_t pace_due_ns(const struct pace *p, uint64_t left);
/* It was done. */
void pace_took(struct pace *p, uint64_t left);

/* At most `rate` a second, and as many at once after a second without any. */
struct limit {
	int64_t used_until_ns;
};
uint32_t limit_has(const struct limit *l, uint32_t rate, int64_t now_ns);
void limit_take(struct limit *l, uint32_t rate, uint32_t count, int64_t now_ns);
int64_t limit_due_ns(const struct limit *l, uint32_t rate); /* when there is one again */
