/* Where the memory of a start is touched: on which processor it is quick cannot be told here, but what must hold in any case. */
#include "queue/pages.h"
#include <criterion/criterion.h>
#include <sys/mman.h>

enum { STEPS = 4 };

static struct big memory;
static void setup(void)
{
	big_init(&memory, STEPS * (size_t)BIG_STEP);
	cr_assert(big_grow(&memory, memory.most) == 0);
}
static void teardown(void)
{
	big_done(&memory);
}
TestSuite(pages, .init = setup, .fini = teardown);

static bool is_resident(const char *at)
{
	unsigned char is;
	return mincore((void *)(uintptr_t)at, 4096, &is) == 0 && (is & 1);
}

Test(pages, all_that_is_touched_is_there_and_stays_as_it_was)
{
	struct pages p;
	memory.at[BIG_STEP + 5] = 'x';
	pages_begin(&p);
	pages_touch(&p, memory.at, 2 * (size_t)BIG_STEP);
	pages_end(&p);
	for (size_t i = 0; i < 2 * (size_t)BIG_STEP; i += 4096)
		cr_assert(is_resident(memory.at + i), "%zu", i);
	cr_assert(!is_resident(memory.at + 2 * (size_t)BIG_STEP), "what was not asked for");
	cr_assert(memory.at[BIG_STEP + 5] == 'x' && memory.at[0] == 0);
}

Test(pages, the_thread_may_run_where_it_might_before)
{
	struct pages p;
	cpu_set_t before, after;
	cr_assert(sched_getaffinity(0, sizeof(before), &before) == 0);
	for (int tries = 0; tries < 2; tries++) {
		pages_begin(&p);
		cr_assert(p.tries < CPU_COUNT(&before));
		p.quick = -1; /* all are slow */
		pages_touch(&p, memory.at, memory.usable);
		cr_assert(CPU_COUNT(&before) == 1 || p.moved);
		cr_assert(p.tries <= 0, "it goes on looking");
		pages_end(&p);
		cr_assert(sched_getaffinity(0, sizeof(after), &after) == 0 && CPU_EQUAL(&before, &after));
	}
}

Test(pages, memory_that_cannot_be_touched_is_left_to_who_writes_it)
{
	struct pages p;
	char *none = mmap(NULL, BIG_STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(none != MAP_FAILED);
	pages_begin(&p);
	pages_touch(&p, none, BIG_STEP);
	pages_end(&p);
	cr_assert(!is_resident(none));
	munmap(none, BIG_STEP);
}
