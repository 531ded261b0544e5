/* Memory for a start that follows a kill.
 *
 * What a process leaves lies, as free pages, with the processor that it ended on, and another one takes others. On a virtual machine these may
 * be pages that its host has to find first, at 3 to 9 ms for each 2 MiB where this was measured, while those that were left
 * take 0.1 ms. So a start goes to where they are. */
#pragma once
#include "big.h"
#include <sched.h>

struct pages {
	cpu_set_t allowed; /* to the calling thread, before */
	int tries;	   /* processors that may still be tried */
	int64_t quick;	   /* ns, for BIG_STEP */
	bool moved;
};

void pages_begin(struct pages *p);
/* Touches what is made of huge pages; what is in it stays. at: where a step (BIG_STEP) begins; bytes: rounded up to whole ones, all of them
 * usable. Where that is slow, the thread goes on on another processor. */
void pages_touch(struct pages *p, char *at, size_t bytes);
void pages_end(struct pages *p); /* it may run anywhere again */
