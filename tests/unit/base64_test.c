/* Against the examples of RFC 4648. */
#include "base64.h"
#include <criterion/criterion.h>

Test(base64, text_of_every_padding)
{
	static const struct {
		const char *bytes, *text;
	} cases[] = {{"", ""},
		     {"f", "Zg=="},
		     {"fo", "Zm8="},
		     {"foo", "Zm9v"},
		     {"foob", "Zm9vYg=="},
		     {"fooba", "Zm9vYmE="},
		     {"foobar", "Zm9vYmFy"}};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_done) struct buf out = {0};
		base64_encode(&out, span_of(cases[i].bytes));
		cr_expect_str_eq(buf_str(&out), cases[i].text);
		cr_expect(base64_valid(span_of(cases[i].text)));
		cr_expect_eq(base64_size(span_of(cases[i].text)), strlen(cases[i].bytes));
		size_t len = 99;
		_cleanup_(free_ptr) char *back = base64_decode(span_of(cases[i].text), &len);
		cr_expect(back && len == strlen(cases[i].bytes));
		cr_expect_str_eq(back, cases[i].bytes);
	}
	static const char *const wrong[] = {
	    "Z", "Zg", "Zg=", "Zg===", "Z===", "Zg==Zg==", "Z g=", "Zm9v\n", "=m9v", "Zm=v", "Zm9\xc3"};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		cr_expect_not(base64_valid(span_of(wrong[i])), "%s", wrong[i]);
	cr_expect_not(base64_valid((struct span){"Zm\0v", 4}));
}

Test(base64, every_byte_there_and_back)
{
	char bytes[256];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		_cleanup_(buf_done) struct buf out = {0};
		base64_encode(&out, (struct span){bytes, n});
		size_t len;
		_cleanup_(free_ptr) char *back = base64_decode(buf_span(&out), &len);
		cr_assert(back && len == n && memcmp(back, bytes, n) == 0 && back[n] == 0);
	}
}

Test(base64, white_space_is_skipped_and_nonsense_is_none)
{
	size_t len;
	_cleanup_(free_ptr) char *lines = base64_decode(span_of(" Zm9v\r\n\tYmFy\n"), &len);
	cr_assert(lines && len == 6 && strcmp(lines, "foobar") == 0);
	cr_assert(!base64_decode(span_of("Zm9"), &len));
	cr_assert(!base64_decode(span_of("Zm9!"), &len));
	cr_assert(!base64_decode(span_of("Zg==Zm9v"), &len));
}
