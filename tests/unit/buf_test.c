#include "buf.h"
#include <criterion/criterion.h>

Test(buf, grows_and_stays_terminated)
{
	_cleanup_(buf_done) struct buf b = {0};
	cr_assert_str_eq(buf_str(&b), "");
	cr_assert_null(b.data);
	for (int i = 0; i < 10000; i++) {
		buf_putc(&b, (char)('a' + i % 26));
		cr_assert_eq(b.data[b.len], 0);
	}
	cr_assert_eq(b.len, 10000);
	cr_assert_eq(b.data[9999], 'a' + 9999 % 26);
	buf_reset(&b);
	cr_assert_str_eq(buf_str(&b), "");
	buf_puts(&b, "x");
	buf_printf(&b, "-%d-", 7);
	buf_span_add(&b, (struct span){"yz", 1});
	buf_span_add(&b, (struct span){NULL, 0});
	cr_assert_str_eq(buf_str(&b), "x-7-y");
}

Test(buf, printf_of_any_length)
{
	_cleanup_(buf_done) struct buf b = {0};
	for (int n = 250; n <= 260; n++) {
		buf_reset(&b);
		buf_printf(&b, "%*d", n, 5);
		cr_assert_eq(b.len, (size_t)n);
		cr_assert_eq(strlen(b.data), (size_t)n);
	}
}

Test(buf, limit_marks_it_failed_and_keeps_what_is_there)
{
	_cleanup_(buf_done) struct buf b = {.limit = 5};
	buf_puts(&b, "12345");
	cr_assert(!buf_failed(&b));
	buf_putc(&b, '6');
	cr_assert(buf_failed(&b));
	buf_printf(&b, "%s", "");
	cr_assert_str_eq(buf_str(&b), "12345");
	cr_assert_null(buf_room(&b, 0));
	buf_reset(&b);
	cr_assert(!buf_failed(&b));
	buf_printf(&b, "%d", 123456);
	cr_assert(buf_failed(&b));
	cr_assert_str_eq(buf_str(&b), "");
	buf_reset(&b);
	buf_add(&b, "123", 3);
	cr_assert_str_eq(buf_str(&b), "123");
}

Test(buf, absurd_sizes_fail)
{
	_cleanup_(buf_done) struct buf b = {0};
	cr_assert_null(buf_room(&b, SIZE_MAX));
	cr_assert(buf_failed(&b));
	buf_reset(&b);
	buf_puts(&b, "x");
	cr_assert_null(buf_room(&b, SIZE_MAX - 1));
	cr_assert_str_eq(buf_str(&b), "x");
}

Test(buf, steal_and_remove_front)
{
	struct buf b = {0};
	char *nothing = buf_steal(&b);
	cr_assert_str_eq(nothing, "");
	free(nothing);
	buf_puts(&b, "hello");
	buf_remove_front(&b, 0);
	buf_remove_front(&b, 2);
	cr_assert_str_eq(buf_str(&b), "llo");
	char *text = buf_steal(&b);
	cr_assert_str_eq(text, "llo");
	free(text);
	cr_assert_eq(b.len, 0);
	buf_remove_front(&b, 10);
	buf_puts(&b, "ab");
	buf_remove_front(&b, 10);
	cr_assert_str_eq(buf_str(&b), "");
	buf_done(&b);
	buf_done(&b);
	buf_done(NULL);
}

static void expect_string(struct span in, const char *expected)
{
	_cleanup_(buf_done) struct buf b = {0};
	buf_json_string(&b, in);
	cr_expect_str_eq(buf_str(&b), expected);
}

Test(buf, json_string)
{
	expect_string(span_of(""), "\"\"");
	expect_string((struct span){NULL, 0}, "\"\"");
	expect_string(span_of("plain \xc3\xa9 \xf0\x9f\x98\x80"), "\"plain \xc3\xa9 \xf0\x9f\x98\x80\"");
	expect_string(span_of("\"\\/\b\f\n\r\t\v\x01\x1f\x7f"),
		      "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u000b\\u0001\\u001f\\u007f\"");
	expect_string((struct span){"a\0b", 3}, "\"a\\u0000b\"");
	/* not UTF-8: alone, cut, overlong, a surrogate, beyond the last */
	expect_string(span_of("\xff"), "\"\xef\xbf\xbd\"");
	expect_string(span_of("\x80x"), "\"\xef\xbf\xbdx\"");
	expect_string(span_of("\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	expect_string(span_of("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	expect_string(span_of("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	expect_string(span_of("\xf4\x90\x80\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

Test(buf, utf8_valid_counts_one_character)
{
	cr_assert_eq(utf8_valid("", 0), 0);
	cr_assert_eq(utf8_valid("\0", 1), 1);
	cr_assert_eq(utf8_valid("\xc2\x80", 2), 2);
	cr_assert_eq(utf8_valid("\xe0\xa0\x80", 3), 3);
	cr_assert_eq(utf8_valid("\xef\xbf\xbf", 3), 3);
	cr_assert_eq(utf8_valid("\xf4\x8f\xbf\xbf", 4), 4);
	cr_assert_eq(utf8_valid("\xe0\x9f\x80", 3), 0);
	cr_assert_eq(utf8_valid("\xf0\x8f\x80\x80", 4), 0);
	cr_assert_eq(utf8_valid("\xf5\x80\x80\x80", 4), 0);
	cr_assert_eq(utf8_valid("\xc2", 1), 0);
	cr_assert_eq(utf8_valid("\xc1\x80", 2), 0);
	cr_assert_eq(utf8_valid("\xe2\x82x", 3), 0);
}

Test(buf, url)
{
	_cleanup_(buf_done) struct buf b = {0};
	buf_url(&b, (struct span){"aZ09-._~ /?&=%+\xc3\xa9\0", 18});
	cr_assert_str_eq(buf_str(&b), "aZ09-._~%20%2F%3F%26%3D%25%2B%C3%A9%00");
}
