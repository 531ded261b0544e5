#include "big.h"
#include <stdio.h>
#include <sys/mman.h>

static size_t in_steps(size_t bytes)
{
	return (bytes + BIG_STEP - 1) / BIG_STEP * BIG_STEP;
}

void big_init(struct big *b, size_t most)
{
	*b = (struct big){.most = in_steps(most)};
	/* One step more, to begin where a huge page can. */
	char *at =
	    mmap(NULL, b->most + BIG_STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) {
		fprintf(stderr,
			"no address space for %zu bytes: %s; a limit (ulimit -v, LimitAS=) must leave more "
			"for budgets.queue\n",
			b->most + BIG_STEP, strerror(errno));
		abort();
	}
	size_t before = (size_t)(-(uintptr_t)at % BIG_STEP);
	if (before)
		munmap(at, before);
	munmap(at + before + b->most, BIG_STEP - before);
	b->at = at + before;
	/* The first step is of small pages: most queues are small. */
	if (b->most > BIG_STEP)
		madvise(b->at + BIG_STEP, b->most - BIG_STEP, MADV_HUGEPAGE);
}

int big_grow(struct big *b, size_t bytes)
{
	if (bytes <= b->usable)
		return 0;
	size_t want = in_steps(bytes);
	/* Much at once: then the first step is not of small pages either. */
	if (!b->usable && want > BIG_STEP)
		madvise(b->at, BIG_STEP, MADV_HUGEPAGE);
	if (want > b->most || mprotect(b->at + b->usable, want - b->usable, PROT_READ | PROT_WRITE) < 0)
		return -ENOMEM;
	b->usable = want;
	return 0;
}

char *big_ahead_slow(struct big *b, size_t used)
{
	size_t next = MAX(b->ahead, in_steps(used));
	b->ahead = next + BIG_STEP;
	return next + BIG_STEP <= b->most && big_grow(b, next + BIG_STEP) == 0 ? b->at + next : NULL;
}

void big_done(struct big *b)
{
	if (b->at)
		munmap(b->at, b->most);
	*b = (struct big){0};
}
