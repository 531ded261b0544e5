#include "doc.h"
#include <criterion/criterion.h>
#include <time.h>

static struct doc *d;

static void setup(void)
{
	d = doc_new();
}
static void teardown(void)
{
	doc_free(d);
}
TestSuite(doc, .init = setup, .fini = teardown);

static struct doc_node *parse(const char *text)
{
	struct doc_node *n = NULL;
	struct err err = {0};
	cr_assert_eq(doc_parse(d, span_of(text), &n, &err), 0, "%s: %s", text, err.text);
	return n;
}

static void expect_print(const struct doc_node *n, const char *expected)
{
	struct buf out = {0};
	doc_print(n, &out);
	cr_expect_str_eq(buf_str(&out), expected);
	buf_done(&out);
}

static void expect_same_print(const char *text)
{
	expect_print(parse(text), text);
}

Test(doc, parse_and_print_keep_every_scalar)
{
	expect_same_print("{\"a\":9007199254740993,\"b\":1.20,\"c\":-0,\"d\":1E400,\"e\":\"\\u00e9\\/"
			  "\",\"f\":[null,true,false,[],{}]}");
	expect_same_print("[]");
	expect_same_print("\"x\"");
	expect_same_print("-12.5e-3");
	expect_print(parse(" { \"a\" : [ 1 , 2 ] ,\n\"b\":{ } } "), "{\"a\":[1,2],\"b\":{}}");
	expect_print(parse("{\"\\u0061\\n\":1}"), "{\"a\\n\":1}");
}

Test(doc, of_duplicate_keys_the_last_wins_in_the_place_of_the_first)
{
	expect_print(parse("{\"a\":1,\"b\":2,\"a\":{\"x\":3},\"c\":4,\"\\u0061\":[5]}"),
		     "{\"a\":[5],\"b\":2,\"c\":4}");
	expect_print(parse("{\"a\":1,\"a\":2}"), "{\"a\":2}");
	struct buf text = {0}, expected = {0};
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 100; i++)
			buf_printf(&text, "%s\"k%d\":%d", text.len ? "," : "{", i, i + round);
	buf_puts(&text, "}");
	for (int i = 0; i < 100; i++)
		buf_printf(&expected, "%s\"k%d\":%d", i ? "," : "{", i, i + 1);
	buf_puts(&expected, "}");
	expect_print(parse(buf_str(&text)), buf_str(&expected));
	buf_done(&text);
	buf_done(&expected);
}

Test(doc, bad_text_is_refused)
{
	struct doc_node *n = NULL;
	struct err err = {0};
	cr_assert_eq(doc_parse(d, span_of("{\"a\":}"), &n, &err), -EINVAL);
	cr_assert(strstr(err.text, "byte 5"), "%s", err.text);
	cr_assert_eq(doc_parse(d, span_of("{\"a\\u0000\":1}"), &n, &err), -EINVAL);
	cr_assert_null(n);
	cr_assert_null(doc_new_raw(d, span_of("{} x")));
}

static void put_levels(struct buf *text, int levels)
{
	for (int i = 0; i < levels; i++)
		buf_puts(text, i & 1 ? "[" : "{\"a\":");
	buf_puts(text, "1");
	for (int i = levels - 1; i >= 0; i--)
		buf_puts(text, i & 1 ? "]" : "}");
}

Test(doc, a_thousand_levels_and_no_more)
{
	struct buf text = {0};
	struct err err = {0};
	put_levels(&text, DOC_MAX_DEPTH);
	struct doc_node *n = parse(buf_str(&text));
	expect_print(n, buf_str(&text));
	cr_assert(doc_equal(n, doc_copy(d, n)));
	buf_reset(&text);
	put_levels(&text, DOC_MAX_DEPTH + 1);
	cr_assert_eq(doc_parse(d, buf_span(&text), &n, &err), -EINVAL);
	cr_assert(strstr(err.text, "deeper than 1000 levels"), "%s", err.text);
	buf_done(&text);
}

Test(doc, a_hundred_thousand_members_do_not_take_for_ever)
{
	struct buf text = {0}, reversed = {0};
	enum { N = 100000 };
	for (int i = 0; i < N; i++) {
		buf_printf(&text, "%s\"k%d\":%d", i ? "," : "{", i, i);
		buf_printf(&reversed, "%s\"k%d\":%d", i ? "," : "{", N - 1 - i, N - 1 - i);
	}
	buf_puts(&text, "}");
	buf_puts(&reversed, "}");
	clock_t start = clock(); /* of the processor: others may be busy, too */
	struct doc_node *a = parse(buf_str(&text)), *b = parse(buf_str(&reversed));
	cr_assert(doc_equal(a, b));
	cr_assert(doc_contains(a, b));
	cr_assert_eq(doc_merge_patch(d, a, b), a);
	cr_assert_eq(a->count, N);
	cr_assert_lt(clock() - start, 10 * CLOCKS_PER_SEC);
	buf_done(&text);
	buf_done(&reversed);
}

Test(doc, lookups_take_anything)
{
	struct doc_node *o = parse("{\"metadata\":{\"name\":\"a\",\"n\":7,\"esc\":\"x\\ny\",\"nul\":"
				   "\"\\u0000\"},\"l\":[{\"name\":\"no\"}]}");
	cr_assert(doc_is(d, doc_path(o, "metadata", "name", NULL), "a"));
	cr_assert_null(doc_path(o, "metadata", "x", "y", NULL));
	cr_assert_null(doc_get(NULL, "a"));
	cr_assert_null(doc_get(doc_get(o, "l"), "name"));
	cr_assert(span_is(doc_string(d, doc_path(o, "metadata", "name", NULL)), "a"));
	cr_assert(span_is(doc_string(d, doc_path(o, "metadata", "esc", NULL)), "x\ny"));
	cr_assert_null(doc_string(d, doc_path(o, "metadata", "nul", NULL)).at);
	cr_assert_null(doc_string(d, doc_path(o, "metadata", "n", NULL)).at);
	cr_assert_null(doc_string(d, NULL).at);
	int64_t v = 0;
	cr_assert_eq(doc_int(doc_path(o, "metadata", "n", NULL), &v), 0);
	cr_assert_eq(v, 7);
	cr_assert_eq(doc_int(NULL, &v), -ENODATA);
	cr_assert_eq(doc_int(doc_get(o, "l"), &v), -EINVAL);
	cr_assert_eq(doc_int(doc_path(o, "metadata", "name", NULL), &v), -EINVAL);
}

Test(doc, making_and_changing)
{
	struct doc_node *o = doc_new_object(d);
	doc_set(d, o, "s", doc_new_string(d, span_of("a\"b\n")));
	doc_set(d, o, "i", doc_new_int(d, INT64_MIN));
	doc_set(d, o, "b", doc_new_bool(d, true));
	doc_set(d, doc_ensure_object(d, o, "o"), "x", doc_new_raw(d, span_of(" [1, 2] ")));
	expect_print(o, "{\"s\":\"a\\\"b\\n\",\"i\":-9223372036854775808,\"b\":true,\"o\":{\"x\":[1,2]}}");

	doc_set(d, o, "i", doc_new_int(d, 1)); /* in its place */
	doc_set(d, o, "s", NULL);
	doc_set(d, o, "none", NULL);
	doc_append(doc_path(o, "o", "x", NULL), doc_new_bool(d, false));
	expect_print(o, "{\"i\":1,\"b\":true,\"o\":{\"x\":[1,2,false]}}");
	cr_assert_eq(o->count, 3);

	doc_each (e, doc_path(o, "o", "x", NULL))
		if (e->type == JSON_NUMBER)
			cr_assert(doc_remove(doc_path(o, "o", "x", NULL), e));
	expect_print(o, "{\"i\":1,\"b\":true,\"o\":{\"x\":[false]}}");
	cr_assert(!doc_remove(o, doc_path(o, "o", "x", NULL)));
	cr_assert(!doc_remove(o, NULL));
	cr_assert(doc_remove(o, doc_get(o, "o")));
	doc_set(d, o, "last", doc_new_bool(d, false)); /* `last` was kept right */
	expect_print(o, "{\"i\":1,\"b\":true,\"last\":false}");
	doc_ensure_object(d, o, "i");
	expect_print(o, "{\"i\":{},\"b\":true,\"last\":false}");
	cr_assert_null(doc_set(d, doc_get(o, "b"), "x", doc_new_bool(d, true)));
}

Test(doc, a_copy_outlives_its_doc)
{
	struct doc *other = doc_new();
	struct doc_node *n = NULL;
	cr_assert_eq(doc_parse(other, span_of("{\"a\":[{\"b\":\"text\"},1.0]}"), &n, NULL), 0);
	struct doc_node *copy = doc_copy(d, n);
	doc_free(other);
	expect_print(copy, "{\"a\":[{\"b\":\"text\"},1.0]}");
}

Test(doc, equal_by_value)
{
	static const struct {
		const char *a, *b;
		bool equal;
	} cases[] = {
	    {"1", "1.0", true},
	    {"1", "1e0", true},
	    {"1.0", "1e0", true},
	    {"100", "1e2", true},
	    {"0.01", "1E-2", true},
	    {"12.50", "1.25e1", true},
	    {"0", "-0", true},
	    {"0", "0e99", true},
	    {"0.000", "0", true},
	    {"9007199254740993", "9007199254740992", false},
	    {"9007199254740993", "9007199254740993.0", true},
	    {"1", "-1", false},
	    {"1", "10", false},
	    {"0.1", "0.10000000000000001", false},
	    {"1e400", "10e399", true},
	    {"1e400", "1e401", false},
	    {"1e99999999999999999999", "1e99999999999999999998", false},
	    {"1", "\"1\"", false},
	    {"1", "true", false},
	    {"null", "false", false},
	    {"[]", "{}", false},
	    {"\"a\"", "\"\\u0061\"", true},
	    {"\"a\"", "\"b\"", false},
	    {"\"\\n\"", "\"\\u000a\"", true},
	    {"{\"a\":1,\"b\":[1,2]}", "{\"b\":[1.0,2],\"a\":1}", true},
	    {"{\"a\":1}", "{\"b\":1}", false},
	    {"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
	    {"[1,2]", "[2,1]", false},
	    {"[1]", "[1,1]", false},
	    {"{\"a\":null}", "{}", false},
	    {"1020", "102", false},
	    {"1002", "1.002e3", true},
	    {"5e-1", "0.5", true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_expect_eq(doc_equal(parse(cases[i].a), parse(cases[i].b)), cases[i].equal, "%s, %s",
			     cases[i].a, cases[i].b);
		cr_expect_eq(doc_equal(parse(cases[i].b), parse(cases[i].a)), cases[i].equal, "%s, %s",
			     cases[i].b, cases[i].a);
	}
	cr_assert(doc_equal(NULL, NULL));
	cr_assert(!doc_equal(NULL, parse("null")));
}

/* RFC 7386, appendix A. */
Test(doc, merge_patch_as_the_rfc_shows)
{
	static const struct {
		const char *target, *patch, *result;
	} cases[] = {
	    {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
	    {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
	    {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
	    {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
	    {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
	    {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
	    {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
	    {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
	    {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
	    {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
	    {"{\"a\":\"foo\"}", "null", "null"},
	    {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
	    {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
	    {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
	    {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_print(doc_merge_patch(d, parse(cases[i].target), parse(cases[i].patch)),
			     cases[i].result);
	expect_print(doc_merge_patch(d, NULL, parse("{\"a\":{\"b\":null,\"c\":1}}")), "{\"a\":{\"c\":1}}");
}

Test(doc, merge_patch_owns_what_it_took)
{
	struct doc *other = doc_new();
	struct doc_node *patch = NULL;
	cr_assert_eq(doc_parse(other, span_of("{\"a\":{\"new\":[\"x\"]},\"k\":\"v\"}"), &patch, NULL), 0);
	struct doc_node *target = doc_merge_patch(d, parse("{\"a\":{\"old\":1}}"), patch);
	doc_free(other);
	expect_print(target, "{\"a\":{\"old\":1,\"new\":[\"x\"]},\"k\":\"v\"}");
}
