#include "json.h"
#include <criterion/criterion.h>

static struct json *parse(const char *text)
{
	struct json *root = NULL;
	struct err err = {0};
	cr_assert_eq(json_parse(span_of(text), &root, &err), 0, "%s: %s", text, err.text);
	return root;
}

static void expect_refused(struct span text, int code, const char *why)
{
	struct json *root = NULL;
	struct err err = {0};
	cr_expect_eq(json_parse(text, &root, &err), code, "%s", why);
	cr_expect(strstr(err.text, why), "\"%s\" does not say \"%s\"", err.text, why);
	cr_expect_null(root);
}
#define REFUSED(literal, why) expect_refused((struct span){literal, sizeof literal - 1}, -EINVAL, why)

Test(json, strict)
{
	REFUSED("", "byte 0");
	REFUSED("{\"a\":1} x", "byte 8");
	REFUSED("{\"a\":1}\0", "byte 7");
	REFUSED("{\"a\":01}", "byte 6");
	REFUSED("{\"a\":1,\"b\":2,\"a\":3}", "\"a\" stands twice");
	REFUSED("{\"x\":[{\"b\":2,\"\\u0062\":3}]}", "\"b\" stands twice");
	REFUSED("\"a\\u0000b\"", "byte 2 of the JSON: \\u0000");
	REFUSED("\"\xff\"", "byte 1 of the JSON is not valid UTF-8");
	REFUSED("\"\xc0\x80\"", "UTF-8");
	REFUSED("\"\xed\xa0\x80\"", "UTF-8");
	REFUSED("\"\xf4\x90\x80\x80\"", "UTF-8");
	REFUSED("\"\\ud800\"", "surrogate");
	expect_refused(span_of("[1e999]"), -ERANGE, "too large");
	json_free(parse("\"\\\\u0000\"")); /* an escaped backslash, not an escaped NUL */
}

Test(json, depth_and_size_are_bounded)
{
	for (int depth = 100; depth <= 101; depth++) {
		struct buf text = {0};
		for (int i = 0; i < depth; i++)
			buf_puts(&text, "[");
		for (int i = 0; i < depth; i++)
			buf_puts(&text, "]");
		if (depth == 100)
			json_free(parse(buf_str(&text)));
		else
			expect_refused(buf_span(&text), -EINVAL, "deeper than 100");
		buf_done(&text);
	}
	char *big = xmalloc(JSON_TREE_MAX + 1);
	memset(big, ' ', JSON_TREE_MAX + 1);
	big[0] = '1';
	struct json *root = NULL;
	cr_assert_eq(json_parse((struct span){big, JSON_TREE_MAX}, &root, NULL), 0);
	json_free(root);
	expect_refused((struct span){big, JSON_TREE_MAX + 1}, -EMSGSIZE, "at most");
	free(big);
}

Test(json, looking_around)
{
	_cleanup_(json_free_ptr) struct json *root =
	    parse("{\"text\":\"x\\u00e9\",\"n\":9007199254740991,\"big\":9007199254740993,\"f\":1.5,\"t\":"
		  "true,\"z\":null,\"l\":[1,2,3],\"e\":-1e2}");
	int64_t v = 0;
	bool b = false;
	cr_assert_str_eq(json_text(json_member(root, "text")), "x\xc3\xa9");
	cr_assert_null(json_member(root, "TEXT"));
	cr_assert_null(json_text(json_member(root, "n")));
	cr_assert_null(json_text(NULL));
	cr_assert_eq(json_integer(json_member(root, "n"), &v), 0);
	cr_assert_eq(v, INT64_C(9007199254740991));
	cr_assert_eq(json_integer(json_member(root, "e"), &v), 0);
	cr_assert_eq(v, -100);
	cr_assert_eq(json_integer(json_member(root, "big"), &v), -ERANGE);
	cr_assert_eq(json_integer(json_member(root, "f"), &v), -EINVAL);
	cr_assert_eq(json_integer(json_member(root, "text"), &v), -EINVAL);
	cr_assert_eq(json_integer(NULL, &v), -EINVAL);
	cr_assert_eq(json_bool(json_member(root, "t"), &b), 0);
	cr_assert(b);
	cr_assert_eq(json_bool(json_member(root, "z"), &b), -EINVAL);
	cr_assert(json_is_null(json_member(root, "z")));
	cr_assert(json_is_null(json_member(root, "absent")));
	cr_assert(!json_is_null(root));
	cr_assert(json_is_array(json_member(root, "l")) && !json_is_array(root) && !json_is_array(NULL));
	cr_assert(json_is_object(root) && !json_is_object(NULL));
	cr_assert_eq(json_count(json_member(root, "l")), 3);
	cr_assert_eq(json_count(root), 8);
	cr_assert_eq(json_count(NULL), 0);
	cr_assert_null(json_member(json_member(root, "l"), "x"));
	int64_t sum = 0;
	for (const struct json *e = NULL; (e = json_element(json_member(root, "l"), e)); sum += v)
		cr_assert_eq(json_integer(e, &v), 0);
	cr_assert_eq(sum, 6);
	cr_assert_str_eq(json_key(json_element(root, NULL)), "text");
	cr_assert_null(json_element(json_member(root, "text"), NULL));
}

Test(json, unknown_members_are_found)
{
	static const char *const allowed[] = {"a", "b", NULL};
	_cleanup_(json_free_ptr) struct json *root = parse("{\"a\":1,\"B\":2,\"c\":3}");
	cr_assert_str_eq(json_unknown_member(root, allowed), "B");
	_cleanup_(json_free_ptr) struct json *good = parse("{\"b\":1}");
	cr_assert_null(json_unknown_member(good, allowed));
	_cleanup_(json_free_ptr) struct json *list = parse("[1]");
	cr_assert_null(json_unknown_member(list, allowed));
}

Test(json, prints)
{
	_cleanup_(json_free_ptr) struct json *root = parse(" { \"a\" : [ 1 , \"x\\n\" ] } ");
	_cleanup_(buf_done) struct buf out = {0};
	json_print(root, false, &out);
	cr_assert_str_eq(buf_str(&out), "{\"a\":[1,\"x\\n\"]}");
	buf_reset(&out);
	json_print(root, true, &out);
	cr_assert_str_eq(buf_str(&out), "{\n\t\"a\":\t[1, \"x\\n\"]\n}");
}
