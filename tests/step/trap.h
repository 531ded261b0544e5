/* Ends a writer between two of its machine instructions: memory that the writer makes writable is kept
 * write-protected, each store into it raises SIGSEGV, the handler lets that one instruction pass (x86 trap
 * flag) and then after() looks at what a process killed there would have left. The writer is production code
 * as it is compiled, with the wide stores of memcpy(); `rep movs` is seen after each of its rounds.
 *
 * Link with -Wl,--wrap=mprotect,--wrap=munmap: that is how the writer's mappings are found. One thread. */
#pragma once
#include "base.h"

enum {
	TRAP_PAGES_MOST = 4, /* that one instruction can touch */
	TRAP_RANGES = 16,
};

struct trap_range {
	char *at;
	size_t len;
};

struct trap {
	void (*after)(void *ctx); /* may use malloc: a store into the region is never inside of it */
	void *ctx;
	uint64_t stores; /* so far */
	bool paused;	 /* stores pass unseen */
	unsigned most;	 /* mappings at most; 0: one */
	/* what the writer mapped, and where it stored last */
	struct trap_range ranges[TRAP_RANGES];
	size_t n_ranges;
	const struct trap_range *range;
	char *pages[TRAP_PAGES_MOST]; /* that are open for the running instruction */
	size_t n_pages;
	struct trap *outer;
};

/* False: this machine has no trap flag that we know. */
bool trap_possible(void);
/* The next mappings that are made writable, up to `most`, are this one's, with all that grows at their ends, until trap_close().
 * Inside of after() a second one may be opened: that is how a recovery is stepped. */
void trap_open(struct trap *t);
void trap_close(struct trap *t); /* before the memory is unmapped, or after: it is not touched */
void trap_pause(struct trap *t, bool paused);
