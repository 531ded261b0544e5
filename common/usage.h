/* What a process and everything below it use, from /proc. Best effort: processes come and go meanwhile. */
#pragma once
#include "base.h"
#include <sys/types.h>

struct usage {
	uint64_t memory_bytes; /* proportional set sizes; resident where those may not be read */
	int64_t cpu_ns;	       /* user and system, of living processes and of children they have waited for */
	unsigned processes;
};
/* All processes below root, which itself does not count. */
void usage_below(pid_t root, struct usage *ret);

/* How often the kernel has killed for want of memory since it started; 0 where it does not say. */
uint64_t usage_oom_kills(void);
