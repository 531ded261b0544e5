/* A thread that has the next bytes of a region ready before its writer grows into them: allocated, mapped, and touched.
 *
 * Where pages are expensive to touch for the first time (a virtual machine: up to 20 us for 4 KiB, and huge pages are off for shared
 * memory nearly everywhere), that is most of what a growing region costs. So it is done beside the writer, in small steps, REGION_AHEAD
 * bytes ahead; and once for what is there at the start, which a recovery can then leave alone. It only reads what it touches.
 * A writer that is faster grows by itself, as it does without the thread: nothing ever waits for it. */
#pragma once
#include "region.h"

#define REGION_AHEAD (UINT64_C(4) << 20)

struct region_ahead;
/* The region stays the caller's; region_grow and region_done know of the thread from now on. -errno: there is none, and nothing is
 * lost but time. Call it when nothing is left that needs all of the CPU. */
int region_ahead_start(struct region *r);

/* Private memory of the writer, in whole pages, that it will write soon: touched in the thread, what is in it stays. With no thread, or when too
 * much is asked for at once, nothing is done. The memory must stay until region_ahead_stop. */
void region_ahead_touch(struct region *r, void *at, uint64_t bytes);
/* Waits for the thread's end; region_done does, too. */
void region_ahead_stop(struct region *r);

/* ---- for region.c ---- */

/* Is everything below `size` ready? In any case more will be soon. */
bool region_ahead_has(struct region_ahead *a, uint64_t size);
