#include "pages.h"
#include <sys/mman.h>

#define QUICK NS_PER_MS	 /* pages that are there take a tenth of it */
enum { TRIES_MOST = 4 }; /* then they are nowhere */

void pages_begin(struct pages *p)
{
	*p = (struct pages){.quick = QUICK};
	/* It fails where there are more processors than the set has: then the thread stays where it is. */
	if (sched_getaffinity(0, sizeof(p->allowed), &p->allowed) == 0)
		p->tries = MIN(CPU_COUNT(&p->allowed) - 1, (int)TRIES_MOST);
}

static void go_on(struct pages *p)
{
	cpu_set_t one;
	int cpu = sched_getcpu();
	if (cpu < 0)
		return;
	do
		cpu = (cpu + 1) % CPU_SETSIZE;
	while (!CPU_ISSET((size_t)cpu, &p->allowed));
	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	p->moved |= sched_setaffinity(0, sizeof(one), &one) == 0;
}

void pages_touch(struct pages *p, char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += (size_t)BIG_STEP) {
		int64_t begin = clock_boottime_ns();
		if (madvise(at + i, BIG_STEP, MADV_POPULATE_WRITE) < 0)
			return; /* of a kernel before 5.14: they are touched when they are written */
		if (clock_boottime_ns() - begin > p->quick && p->tries-- > 0)
			go_on(p);
	}
}

void pages_end(struct pages *p)
{
	if (p->moved)
		sched_setaffinity(0, sizeof(p->allowed), &p->allowed);
}
