/* The hash table of numbers, and the arrays that grow. */
#include "queue/table.h"
#include <criterion/criterion.h>

enum { N = 50000 };

/* Every third number has the tag of another: then the numbers are asked. */
static uint32_t tag_of(uint32_t number)
{
	return (number - number % 3 / 2) * UINT32_C(0x85ebca6b);
}

static bool is(void *ctx, uint32_t number)
{
	return number == *(const uint32_t *)ctx;
}

static bool never(const void *ctx, uint32_t a, uint32_t b)
{
	(void)ctx;
	cr_assert_neq(a, b);
	return false;
}

static bool same_third(const void *ctx, uint32_t a, uint32_t b)
{
	(void)ctx;
	return a / 3 == b / 3;
}

static void fill(struct table *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		cr_assert(table_reserve(t, tag_of(i)) == 0);
		table_insert(t, tag_of(i), i);
	}
}

static void expect_all(const struct table *t, uint32_t n)
{
	cr_assert_eq(t->len, n);
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(table_find(t, tag_of(i), is, &i), i);
	cr_assert_eq(table_find(t, tag_of(n), is, &n), TABLE_NONE);
}

Test(table, finds_what_was_inserted_and_not_what_was_removed)
{
	struct table t;
	table_init(&t, N + 1, 0);
	fill(&t, N);
	expect_all(&t, N);
	for (uint32_t i = N; i-- > N / 2;)
		table_remove(&t, tag_of(i), i);
	expect_all(&t, N / 2);
	table_done(&t);
}

Test(table, gathered_entries_are_all_found_once_they_are_arranged)
{
	for (uint32_t expected = 0; expected <= N;
	     expected += N / 2) { /* fewer: segments are split meanwhile */
		struct table t;
		table_init(&t, N + 1, expected);
		table_gather(&t);
		fill(&t, N);
		cr_assert_eq(table_arrange(&t, never, NULL), TABLE_NONE);
		expect_all(&t, N);
		cr_assert(table_reserve(&t, tag_of(N)) == 0);
		table_insert(&t, tag_of(N), N);
		expect_all(&t, N + 1);
		table_done(&t);
	}
}

Test(table, of_gathered_entries_one_that_is_the_same_as_another_is_named)
{
	struct table t;
	table_init(&t, N, N);
	table_gather(&t);
	for (uint32_t i = 1; i < N; i += 3)
		table_insert(&t, tag_of(i), i);
	table_insert(&t, tag_of(3002), 3002);
	uint32_t twice = table_arrange(&t, same_third, NULL);
	cr_assert(twice == 3001 || twice == 3002, "%u", twice);
	table_done(&t);
}

Test(big, the_next_step_is_named_once_when_little_of_this_one_is_left)
{
	struct big b;
	size_t step = BIG_STEP;
	big_init(&b, 3 * step);
	cr_assert(big_grow(&b, 1) == 0);
	cr_assert_null(big_ahead(&b, step / 2), "small queues stay small");
	cr_assert_eq(big_ahead(&b, step - 4096), b.at + step);
	b.at[2 * step - 1] = 1;
	cr_assert_null(big_ahead(&b, step), "it was named before");
	cr_assert_null(big_ahead(&b, 2 * step - step / 2));
	cr_assert_eq(big_ahead(&b, 2 * step), b.at + 2 * step);
	cr_assert_null(big_ahead(&b, 3 * step), "there is no more");
	cr_assert(big_grow(&b, 3 * step) == 0);
	cr_assert(big_grow(&b, 3 * step + 1) == -ENOMEM);
	big_done(&b);
}
