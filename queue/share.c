#include "share.h"

int share_next(uint64_t wanting, unsigned last)
{
	/* Those behind the last one first, then from the beginning, itself at the end. */
	uint64_t behind = last < 63 ? wanting & (UINT64_MAX << (last + 1)) : 0;
	uint64_t from = behind ? behind : wanting;
	return from ? __builtin_ctzll(from) : -1;
}
