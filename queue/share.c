#include "share.h"

uint64_t share_wanting(const struct workqueue *wq, uint64_t idle, int64_t now)
{
	uint64_t wanting = 0;
	for (; idle; idle &= idle - 1) {
		unsigned row = (unsigned)__builtin_ctzll(idle);
		if (workqueue_ready(wq, (uint16_t)row, now))
			wanting |= UINT64_C(1) << row;
	}
	return wanting;
}

int share_next(uint64_t wanting, unsigned last)
{
	/* Those behind the last one first, then from the beginning, itself at the end. */
	uint64_t behind = last < 63 ? wanting & (UINT64_MAX << (last + 1)) : 0;
	uint64_t from = behind ? behind : wanting;
	return from ? __builtin_ctzll(from) : -1;
}
