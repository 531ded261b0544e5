#include "base.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <unistd.h>

Test(base, err_set_cuts_and_returns_the_code)
{
	struct err err;
	cr_assert_eq(err_set(&err, -EINVAL, "%s", "bad"), -EINVAL);
	cr_assert_str_eq(err.text, "bad");
	cr_assert_eq(err_set(NULL, -EIO, "nobody listens"), -EIO);
	err_set(&err, -1, "%2000d", 7);
	cr_assert_eq(strlen(err.text), sizeof err.text - 1);
}

Test(base, err_prefix_goes_before)
{
	struct err err = {"no such file"};
	cr_assert_eq(err_prefix(&err, -ENOENT, "file %s", "a.yaml"), -ENOENT);
	cr_assert_str_eq(err.text, "file a.yaml: no such file");
	cr_assert_eq(err_prefix(NULL, -1, "x"), -1);

	memset(err.text, 'x', sizeof err.text - 1);
	err.text[sizeof err.text - 1] = 0;
	err_prefix(&err, -1, "what");
	cr_assert_eq(strlen(err.text), sizeof err.text - 1);
	cr_assert_eq(strncmp(err.text, "what: xxx", 9), 0);
	err_prefix(&err, -1, "%3000d", 1);
	cr_assert_leq(strlen(err.text), sizeof err.text - 1);
}

Test(base, spans)
{
	struct span absent = {NULL, 0}, empty = {"", 0};
	cr_assert(span_is((struct span){"abcd", 3}, "abc"));
	cr_assert(!span_is((struct span){"abcd", 3}, "abcd"));
	cr_assert(span_eq(absent, empty));
	cr_assert_null(span_of(NULL).at);
	char *copy = span_dup((struct span){"a\0bX", 3});
	cr_assert_eq(memcmp(copy, "a\0b", 4), 0);
	free(copy);
	copy = span_dup(absent);
	cr_assert_str_eq(copy, "");
	free(copy);
}

Test(base, spans_are_equal_if_each_of_their_bytes_is)
{
	char a[300], b[300];
	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = b[i] = (char)(i * 7);
	for (size_t len = 0; len < sizeof(a) - 1; len++) {
		/* What is behind the end differs. */
		b[len] ^= 1;
		cr_assert(span_eq((struct span){a, len}, (struct span){b, len}), "%zu", len);
		cr_assert(span_eq_inline((struct span){a, len}, (struct span){b, len}), "%zu", len);
		b[len] ^= 1;
		cr_assert(!span_eq_inline((struct span){a, len}, (struct span){b, len + 1}), "%zu", len);
		for (size_t i = 0; i < len; i++) {
			b[i] ^= 1;
			cr_assert(!span_eq((struct span){a, len}, (struct span){b, len}), "%zu of %zu", i,
				  len);
			cr_assert(!span_eq_inline((struct span){a, len}, (struct span){b, len}), "%zu of %zu",
				  i, len);
			b[i] ^= 1;
		}
	}
}

Test(base, rfc3339_is_read)
{
	static const struct {
		const char *text;
		int64_t want;
	} rows[] = {
	    {"1970-01-01T00:00:00Z", 0},
	    {"2026-09-30T12:00:30Z", 1790769630},
	    {"2026-09-30t12:00:30z", 1790769630},
	    {"2026-09-30T12:00:30.999999Z", 1790769630},
	    {"2026-09-30T14:00:30+02:00", 1790769630},
	    {"2026-09-30T06:30:30.5-05:30", 1790769630},
	    {"2024-02-29T00:00:00Z", 1709164800},
	    {"0001-01-01T00:00:00Z", INT64_C(-62135596800)},
	};
	static const char *const wrong[] = {"",
					    "2026-09-30",
					    "2026-09-30 12:00:30Z",
					    "2026-13-30T12:00:30Z",
					    "2026-09-31T12:00:30Z",
					    "2026-09-30T24:00:30Z",
					    "2026-09-30T12:00:30",
					    "2026-09-30T12:00:30.Z",
					    "2026-09-30T12:00:30+0200",
					    "2026-09-30T12:00:30+24:00",
					    "2026-09-30T12:00:30Zx",
					    "-026-09-30T12:00:30Z",
					    "2026-09-30T12:0x:30Z",
					    "2026-09-30T12:00:30.00000000000000000000000000000000000Z"};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t got = -1;
		cr_assert_eq(parse_rfc3339(span_of(rows[i].text), &got), 0, "%s", rows[i].text);
		cr_assert_eq(got, rows[i].want, "%s: %lld", rows[i].text, (long long)got);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		int64_t got = 7;
		cr_assert_eq(parse_rfc3339(span_of(wrong[i]), &got), -EINVAL, "%s", wrong[i]);
		cr_assert_eq(got, 7);
	}
}

Test(base, rfc3339)
{
	static const struct {
		int64_t seconds;
		const char *text;
	} cases[] = {
	    {0, "1970-01-01T00:00:00Z"},
	    {951782400, "2000-02-29T00:00:00Z"},
	    {1790769630, "2026-09-30T12:00:30Z"},
	    {-1, "1969-12-31T23:59:59Z"},
	    {INT64_C(253402300799), "9999-12-31T23:59:59Z"},
	    {INT64_MAX, "9999-12-31T23:59:59Z"},
	    {INT64_C(-62135596800), "0001-01-01T00:00:00Z"},
	    {INT64_MIN, "0000-01-01T00:00:00Z"},
	};
	char buf[21];
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(format_rfc3339(cases[i].seconds, buf), cases[i].text);
}

Test(base, hash_is_fnv_1a)
{
	cr_assert_eq(hash_bytes("", 0, HASH_SEED), UINT64_C(0xcbf29ce484222325));
	cr_assert_eq(hash_bytes("a", 1, HASH_SEED), UINT64_C(0xaf63dc4c8601ec8c));
	cr_assert_eq(hash_bytes("foobar", 6, HASH_SEED), UINT64_C(0x85944171f73967e8));
}

Test(base, chance)
{
	char a[33], b[33];
	cr_assert_eq(strlen(random_id(a)), 32);
	cr_assert_eq(strspn(a, "0123456789abcdef"), 32);
	cr_assert_str_neq(a, random_id(b));
	cr_assert_eq(random_below(0), 0);
	cr_assert_eq(random_below(1), 0);
	unsigned seen = 0;
	for (int i = 0; i < 1000; i++) {
		uint64_t v = random_below(6);
		cr_assert_lt(v, 6);
		seen |= 1u << v;
	}
	cr_assert_eq(seen, 63, "in a thousand throws every side shows");
}

Test(base, close_fd_keeps_errno)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	errno = EDOM;
	int copy = fd;
	close_fd(&copy);
	cr_assert_eq(copy, -1);
	cr_assert_eq(errno, EDOM);
	cr_assert_eq(fcntl(fd, F_GETFD), -1);
	close_fd(&copy);
}

Test(base, clocks_go_forward)
{
	int64_t boot = clock_boottime_ns(), real = clock_realtime_ns();
	cr_assert_gt(boot, 0);
	cr_assert_gt(real, INT64_C(1600000000) * NS_PER_S);
	cr_assert_geq(clock_boottime_ns(), boot);
}
