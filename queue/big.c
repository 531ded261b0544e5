#include "big.h"
#include <stdio.h>
#include <sys/mman.h>

enum {
	STEP = 2 << 20
}; /* a huge page: fewer misses of the TLB, and its zeroing is well below a millisecond */

static size_t in_steps(size_t bytes)
{
	return (bytes + STEP - 1) / STEP * STEP;
}

void big_init(struct big *b, size_t most)
{
	*b = (struct big){.most = in_steps(most)};
	/* One step more, to begin where a huge page can. */
	char *at = mmap(NULL, b->most + STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) {
		fprintf(stderr, "no address space for %zu bytes: %s\n", b->most + STEP, strerror(errno));
		abort();
	}
	size_t before = (size_t)(-(uintptr_t)at % STEP);
	if (before)
		munmap(at, before);
	munmap(at + before + b->most, STEP - before);
	b->at = at + before;
	/* The first step is of small pages: most queues are small. */
	if (b->most > STEP)
		madvise(b->at + STEP, b->most - STEP, MADV_HUGEPAGE);
}

int big_grow(struct big *b, size_t bytes)
{
	if (bytes <= b->usable)
		return 0;
	size_t want = in_steps(bytes);
	/* Much at once: then the first step is not of small pages either. */
	if (!b->usable && want > STEP)
		madvise(b->at, STEP, MADV_HUGEPAGE);
	if (want > b->most || mprotect(b->at + b->usable, want - b->usable, PROT_READ | PROT_WRITE) < 0)
		return -ENOMEM;
	b->usable = want;
	return 0;
}

void big_done(struct big *b)
{
	if (b->at)
		munmap(b->at, b->most);
	*b = (struct big){0};
}
