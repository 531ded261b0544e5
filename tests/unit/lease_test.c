#include "queue/lease.h"
#include <criterion/criterion.h>

enum { SLOTS = 5000 };

/* Added and removed in no order, each is found by its slot, and nothing else is. */
Test(lease, is_found_by_its_slot)
{
	struct procs procs = {.epoll = -1};
	struct leases ls = {.procs = &procs};
	uint64_t has[SLOTS] = {0}, random = 1;
	size_t len = 0;
	for (uint64_t step = 1; step <= 20000; step++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uint32_t slot = (uint32_t)((random >> 33) % SLOTS);
		struct lease *l = lease_find(&ls, slot);
		cr_assert_eq(l != NULL, has[slot] != 0, "slot %u", slot);
		if (l) {
			cr_assert(l->slot == slot && l->generation == has[slot]);
			lease_remove(&ls, l);
			has[slot] = 0;
			len--;
		} else {
			lease_add(&ls, slot, step, NULL, NULL);
			has[slot] = step;
			len++;
		}
		cr_assert_eq(ls.len, len);
	}
	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		const struct lease *l = lease_find(&ls, slot);
		cr_assert(has[slot] ? l && l->slot == slot && l->generation == has[slot] : !l);
	}
	cr_assert_null(lease_find(&ls, UINT32_MAX));
	leases_done(&ls);
}
