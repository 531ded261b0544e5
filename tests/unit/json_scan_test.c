#include "json_scan.h"
#include <criterion/criterion.h>

static void expect_check(const char *text, int code)
{
	/* A copy without the terminator: a look beyond the end shows. */
	size_t n = strlen(text);
	char *copy = xmalloc(n);
	memcpy(copy, text, n);
	struct err err = {0};
	cr_expect_eq(json_check((struct span){copy, n}, &err), code, "%s: %s", text, err.text);
	cr_expect_eq(code == 0, err.text[0] == 0);
	free(copy);
}

Test(json_scan, accepts_rfc_8259)
{
	static const char *const good[] = {
	    "{}",
	    "[]",
	    " \t\r\n1 ",
	    "\"\"",
	    "true",
	    "false",
	    "null",
	    "0",
	    "-0",
	    "-1",
	    "10",
	    "0.5",
	    "-0.0e-0",
	    "1E+9",
	    "1e9",
	    "123456789012345678901234567890",
	    "[1,[2,[3]]]",
	    "{\"a\":{\"b\":[]}}",
	    "{\"\":1}",
	    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\uABcd\"",
	    "\"\x7f\xff\xc3\xa9\"",
	    "{\"a\":1,\"a\":2}",
	    "\"\\ud800\"",
	    "\"\\u0000\"",
	    "[ 1 , 2 ]",
	    "{ \"a\" : 1 , \"b\" : 2 }",
	};
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		expect_check(good[i], 0);
}

Test(json_scan, refuses_everything_else)
{
	static const char *const bad[] = {
	    "",
	    " ",
	    "{",
	    "}",
	    "[",
	    "]",
	    "[1,]",
	    "[,1]",
	    "{\"a\"}",
	    "{\"a\":}",
	    "{\"a\":1,}",
	    "{,}",
	    "{1:2}",
	    "{'a':1}",
	    "{a:1}",
	    "[1}",
	    "{\"a\":1]",
	    "01",
	    "+1",
	    "-",
	    ".5",
	    "1.",
	    "1.e1",
	    "1e",
	    "1e+",
	    "-a",
	    "0x10",
	    "1 2",
	    "{} {}",
	    "tru",
	    "truE",
	    "nulll",
	    "NaN",
	    "Infinity",
	    "\"",
	    "\"a",
	    "\"\\",
	    "\"\\x\"",
	    "\"\\u12\"",
	    "\"\\u12g4\"",
	    "\"\n\"",
	    "\"\t\"",
	    "\"\x01\"",
	    "[1 2]",
	    "{\"a\" 1}",
	    "{\"a\"::1}",
	    "\xef\xbb\xbf{}",
	    "// x\n1",
	    "[1]/**/",
	    "\"\\U0041\"",
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_check(bad[i], -EINVAL);
	struct err err = {0};
	cr_assert_eq(json_check((struct span){"\"a\0b\"", 5}, &err), -EINVAL);
	cr_assert_eq(json_check((struct span){"1\0", 2}, &err), -EINVAL);
	cr_assert_eq(json_check((struct span){NULL, 0}, &err), -EINVAL);
	json_check(span_of("{\"a\":[1,x]}"), &err);
	cr_assert(strstr(err.text, "byte 8:"), "%s", err.text);
}

Test(json_scan, as_deep_as_the_api_server_reads_and_no_deeper)
{
	for (size_t depth = 10001; depth <= 10002; depth++) {
		struct buf text = {0};
		for (size_t i = 0; i < depth; i++)
			buf_puts(&text, i % 3 ? "[" : "{\"a\":");
		buf_puts(&text, "1");
		for (size_t i = depth; i-- > 0;)
			buf_puts(&text, i % 3 ? "]" : "}");
		cr_expect_eq(json_check(buf_span(&text), NULL), depth == 10001 ? 0 : -EINVAL, "%zu", depth);
		buf_done(&text);
	}
	/* A bracket that closes the wrong kind is seen at every level. */
	struct buf text = {0};
	for (size_t i = 0; i < 130; i++)
		buf_puts(&text, "[");
	for (size_t i = 0; i < 129; i++)
		buf_puts(&text, "]");
	buf_puts(&text, "}");
	cr_assert_eq(json_check(buf_span(&text), NULL), -EINVAL);
	buf_done(&text);
}

static void expect_span(struct span s, const char *expected)
{
	if (!expected)
		cr_expect_null(s.at);
	else
		cr_expect(s.at && span_is(s, expected), "\"" SPAN_FMT "\" is not \"%s\"", SPAN_ARG(s),
			  expected);
}

Test(json_scan, value_ends_where_the_value_ends)
{
	struct span v = {NULL, 0};
	cr_assert_eq(json_value(span_of("  {\"a\":1} tail"), &v), 0);
	expect_span(v, "{\"a\":1}");
	cr_assert_eq(json_value(span_of("12,"), &v), 0);
	expect_span(v, "12");
	cr_assert_eq(json_value(span_of("12"), &v), 0);
	expect_span(v, "12");
	cr_assert_eq(json_value(span_of("[1"), &v), -EINVAL);
	expect_span(v, "12"); /* untouched */
}

Test(json_scan, get_finds_members)
{
	struct span o = span_of(" { \"a\" : 1 , \"b\":{\"c\":[1,\"}\",{\"d\":2}],\"a\":3}, "
				"\"m\\u0065ta\":\"x\", \"a\":\"last\" , \"e\":null}");
	cr_assert_eq(json_check(o, NULL), 0);
	expect_span(json_get(o, "a"), "\"last\"");
	expect_span(json_get(o, "b"), "{\"c\":[1,\"}\",{\"d\":2}],\"a\":3}");
	expect_span(json_get(o, "meta"), "\"x\"");
	expect_span(json_get(o, "c"), NULL);
	expect_span(json_get(o, "A"), NULL);
	expect_span(json_get(o, "e"), "null");
	expect_span(json_path(o, "b", "a", NULL), "3");
	expect_span(json_path(o, "b", "c", "d", NULL), NULL);
	expect_span(json_path(o, "x", "y", NULL), NULL);
	expect_span(json_get((struct span){NULL, 0}, "a"), NULL);
	expect_span(json_get(span_of("[\"a\",1]"), "a"), NULL);
}

Test(json_scan, each_walks_in_order)
{
	struct buf log = {0};
	struct span key, value;
	struct json_iter it = {0};
	while (json_each(span_of(" {\"a\" :1, \"b\":[ ],\"c\":\"\\\"\" } "), &it, &key, &value))
		buf_printf(&log, SPAN_FMT "=" SPAN_FMT ";", SPAN_ARG(key), SPAN_ARG(value));
	it = (struct json_iter){0};
	while (json_each(span_of("[ 1,{\"x\":[2,3]} ,null,\"]\"]"), &it, &key, &value)) {
		cr_assert_null(key.at);
		buf_printf(&log, SPAN_FMT ";", SPAN_ARG(value));
	}
	cr_assert_str_eq(buf_str(&log), "\"a\"=1;\"b\"=[ ];\"c\"=\"\\\"\";1;{\"x\":[2,3]};null;\"]\";");
	static const char *const empty[] = {"{}", "[ ]", "1", "\"a\"", "", "null"};
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
		it = (struct json_iter){0};
		cr_expect(!json_each(span_of(empty[i]), &it, &key, &value), "%s", empty[i]);
	}
	buf_done(&log);
}

Test(json_scan, types)
{
	cr_assert_eq(json_type_of(span_of(" {}")), JSON_OBJECT);
	cr_assert_eq(json_type_of(span_of("[]")), JSON_ARRAY);
	cr_assert_eq(json_type_of(span_of("\"\"")), JSON_STRING);
	cr_assert_eq(json_type_of(span_of("-1")), JSON_NUMBER);
	cr_assert_eq(json_type_of(span_of("true")), JSON_BOOL);
	cr_assert_eq(json_type_of(span_of("null")), JSON_NULL);
	cr_assert_eq(json_type_of((struct span){NULL, 0}), JSON_NONE);
}

static void expect_unescape(const char *json, int code, const char *expected)
{
	struct buf out = {0};
	buf_puts(&out, "<");
	cr_expect_eq(json_unescape(span_of(json), &out), code, "%s", json);
	cr_expect_str_eq(buf_str(&out) + 1, expected, "%s", json);
	if (code == 0)
		cr_expect(json_string_is(span_of(json), expected), "%s", json);
	buf_done(&out);
}

Test(json_scan, unescape)
{
	expect_unescape("\"\"", 0, "");
	expect_unescape(" \"plain\" ", 0, "plain");
	expect_unescape("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", 0, "\"\\/\b\f\n\r\t");
	expect_unescape("\"\\u0041\\u00e9\\u20AC\"", 0, "A\xc3\xa9\xe2\x82\xac");
	expect_unescape("\"\\ud83d\\ude00\"", 0, "\xf0\x9f\x98\x80");
	expect_unescape("\"\\uD800\\uDC00\\udbff\\udfff\"", 0, "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
	/* lone halves, in every place where they can stand */
	expect_unescape("\"\\ud83d\"", 0, "\xef\xbf\xbd");
	expect_unescape("\"\\ude00x\"", 0, "\xef\xbf\xbdx");
	expect_unescape("\"\\ud83d\\ud83d\\ude00\"", 0, "\xef\xbf\xbd\xf0\x9f\x98\x80");
	expect_unescape("\"\\ud83d\\u0041\"", 0,
			"\xef\xbf\xbd"
			"A");
	expect_unescape("\"\\ud83d\\n\"", 0, "\xef\xbf\xbd\n");
	expect_unescape("\"a\\u0000b\"", -EILSEQ, "");
	expect_unescape("null", -ENODATA, "");
	expect_unescape("", -ENODATA, "");
	expect_unescape("12", -EINVAL, "");
	expect_unescape("{}", -EINVAL, "");
	cr_assert(!json_string_is(span_of("\"ab\""), "a"));
	cr_assert(!json_string_is(span_of("\"a\""), "ab"));
	cr_assert(!json_string_is(span_of("\"a\\u0000\""), "a"));
	cr_assert(!json_string_is(span_of("1"), "1"));
}

Test(json_scan, string_raw)
{
	struct span s = {NULL, 0};
	cr_assert_eq(json_string_raw(span_of("\"abc\""), &s), 0);
	expect_span(s, "abc");
	cr_assert_eq(json_string_raw(span_of("\"\""), &s), 0);
	cr_assert_eq(s.len, 0);
	cr_assert_eq(json_string_raw(span_of("\"a\\n\""), &s), -EINVAL);
	cr_assert_eq(json_string_raw(span_of("null"), &s), -ENODATA);
	cr_assert_eq(json_string_raw((struct span){NULL, 0}, &s), -ENODATA);
	cr_assert_eq(json_string_raw(span_of("7"), &s), -EINVAL);
}

Test(json_scan, integers_are_exact)
{
	static const struct {
		const char *text;
		int code;
		int64_t value;
	} cases[] = {
	    {"0", 0, 0},
	    {"-0", 0, 0},
	    {" 12 ", 0, 12},
	    {"9007199254740993", 0, INT64_C(9007199254740993)},
	    {"9223372036854775807", 0, INT64_MAX},
	    {"-9223372036854775808", 0, INT64_MIN},
	    {"9223372036854775808", -ERANGE, 0},
	    {"-9223372036854775809", -ERANGE, 0},
	    {"99999999999999999999999999", -ERANGE, 0},
	    {"1.0", -EINVAL, 0},
	    {"1e3", -EINVAL, 0},
	    {"99999999999999999999999999.5", -EINVAL, 0},
	    {"\"1\"", -EINVAL, 0},
	    {"true", -EINVAL, 0},
	    {"null", -ENODATA, 0},
	    {"", -ENODATA, 0},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t v = 0;
		cr_expect_eq(json_int(span_of(cases[i].text), &v), cases[i].code, "%s", cases[i].text);
		cr_expect_eq(v, cases[i].value, "%s", cases[i].text);
	}
}

static void expect_without(const char *object, const char *const *paths, const char *expected)
{
	struct buf out = {0};
	json_copy_without(span_of(object), paths, &out);
	cr_expect_str_eq(buf_str(&out), expected);
	buf_done(&out);
}

Test(json_scan, copy_without_leaves_the_rest_alone)
{
	const char *const managed[] = {"metadata.managedFields", NULL};
	expect_without(
	    "{\"metadata\":{\"name\":\"a\",\"managedFields\":[{\"x\":1}],\"uid\":\"u\"},\"n\":1.20}", managed,
	    "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"n\":1.20}");
	expect_without("{\"metadata\":{\"managedFields\":[]},\"n\":1}", managed, "{\"metadata\":{},\"n\":1}");
	expect_without("{\"metadata\":{\"managedFields\":[],\"a\":1}}", managed, "{\"metadata\":{\"a\":1}}");
	expect_without("{\"metadata\":{\"a\":1,\"managedFields\":[]}}", managed, "{\"metadata\":{\"a\":1}}");
	expect_without("{ \"metadata\" : {\n  \"a\" : 1 ,\n  \"managedFields\" : []\n }\n}", managed,
		       "{ \"metadata\" : {\n  \"a\" : 1 }\n}");
	expect_without("{\"metadata\":{\"m\\u0061nagedFields\":1,\"managedFields\":2,\"z\":3}}", managed,
		       "{\"metadata\":{\"z\":3}}");
	expect_without("{\"managedFields\":1,\"metadata\":7}", managed,
		       "{\"managedFields\":1,\"metadata\":7}");
	expect_without("{\"x\":{\"metadata\":{\"managedFields\":1}}}", managed,
		       "{\"x\":{\"metadata\":{\"managedFields\":1}}}");
	expect_without("[1]", managed, "[1]");
	expect_without("{}", managed, "{}");
	const char *const several[] = {"a", "b.c", "b.d", NULL};
	expect_without("{\"a\":{\"c\":1},\"b\":{\"c\":1,\"d\":2,\"e\":3},\"c\":4}", several,
		       "{\"b\":{\"e\":3},\"c\":4}");
	expect_without("{\"a\":1}", several, "{}");
}
