#include "json_scan.h"
#include <criterion/criterion.h>
#include <malloc.h>

/* What a stream handed out, one line each: "item VALUE", "member KEY VALUE". */
struct seen {
	struct buf log;
	int items, stop_at, code;
};

static int on_item(void *ctx, struct span item)
{
	struct seen *seen = ctx;
	buf_printf(&seen->log, "item " SPAN_FMT "\n", SPAN_ARG(item));
	return ++seen->items == seen->stop_at ? seen->code : 0;
}

static int on_member(void *ctx, struct span key, struct span value)
{
	struct seen *seen = ctx;
	buf_printf(&seen->log, "member " SPAN_FMT " " SPAN_FMT "\n", SPAN_ARG(key), SPAN_ARG(value));
	return 0;
}

static const struct json_stream_ops ops = {on_item, on_member};

/* Feeds text cut at two places; every piece is a copy of its own size, so that a sanitizer sees a look beyond
 * its end. */
static int feed_cut(enum json_stream_kind kind, struct span text, size_t first, size_t second,
		    struct seen *seen, struct err *err)
{
	size_t ends[] = {first, second, text.len};
	struct json_stream *s = json_stream_new(kind, &ops, seen);
	int r = 0;
	for (size_t i = 0, at = 0; i < 3 && r == 0; at = ends[i++]) {
		char *piece = xmalloc(ends[i] - at);
		memcpy(piece, text.at + at, ends[i] - at);
		r = json_stream_feed(s, (struct span){piece, ends[i] - at}, err);
		free(piece);
	}
	if (r == 0)
		r = json_stream_end(s, err);
	json_stream_free(s);
	return r;
}

static void expect_at_every_cut(enum json_stream_kind kind, const char *text, int code, const char *expected)
{
	struct span all = span_of(text);
	for (size_t first = 0; first <= all.len; first++) {
		for (size_t second = first; second <= all.len; second += 1 + (all.len - first) / 16) {
			struct seen seen = {0};
			struct err err = {0};
			int r = feed_cut(kind, all, first, second, &seen, &err);
			cr_assert_eq(r, code, "cut at %zu and %zu: %d, %s", first, second, r, err.text);
			cr_assert_str_eq(buf_str(&seen.log), expected, "cut at %zu and %zu", first, second);
			cr_assert_eq(code == 0, err.text[0] == 0);
			buf_done(&seen.log);
		}
	}
}

Test(json_stream, list_at_every_split_point)
{
	expect_at_every_cut(
	    JSON_STREAM_LIST,
	    " {\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"12\",\"continue\":\"a\\\"]}\"} ,\n"
	    "\"items\" : [ {\"a\":\"}\\u00e9\\\\\"},{\"n\":-1.5e+10,\"t\":[true,false,null,[],{}]} , "
	    "7,\"x\\n\"],\"last\":9007199254740993}\n",
	    0,
	    "member \"kind\" \"List\"\n"
	    "member \"metadata\" {\"resourceVersion\":\"12\",\"continue\":\"a\\\"]}\"}\n"
	    "item {\"a\":\"}\\u00e9\\\\\"}\n"
	    "item {\"n\":-1.5e+10,\"t\":[true,false,null,[],{}]}\n"
	    "item 7\n"
	    "item \"x\\n\"\n"
	    "member \"last\" 9007199254740993\n");
}

Test(json_stream, watch_at_every_split_point)
{
	expect_at_every_cut(
	    JSON_STREAM_WATCH,
	    "{\"type\":\"ADDED\",\"object\":{\"s\":\"\\ud83d\\ude00{\"}}\n{\"type\":\"BOOKMARK\"}{\"c\":[]}"
	    "\r\n\n 12 ",
	    0,
	    "item {\"type\":\"ADDED\",\"object\":{\"s\":\"\\ud83d\\ude00{\"}}\nitem {\"type\":\"BOOKMARK\"}\n"
	    "item {\"c\":[]}\nitem 12\n");
	expect_at_every_cut(JSON_STREAM_WATCH, "", 0, "");
	expect_at_every_cut(JSON_STREAM_WATCH, "{}\n1.5", 0, "item {}\nitem 1.5\n");
}

Test(json_stream, items_may_come_first_be_empty_or_null)
{
	expect_at_every_cut(JSON_STREAM_LIST, "{\"items\":[],\"kind\":\"X\"}", 0, "member \"kind\" \"X\"\n");
	expect_at_every_cut(JSON_STREAM_LIST, "{\"items\":null}", 0, "");
	expect_at_every_cut(JSON_STREAM_LIST, "{ }", 0, "");
	expect_at_every_cut(JSON_STREAM_LIST, "{\"it\\u0065ms\":[1]}", 0, "item 1\n");
}

Test(json_stream, what_is_cut_is_said)
{
	expect_at_every_cut(JSON_STREAM_WATCH, "{\"a\":1}\n{\"b\":", -EPROTO, "item {\"a\":1}\n");
	expect_at_every_cut(JSON_STREAM_LIST, "{\"items\":[{\"a\":1}", -EPROTO, "item {\"a\":1}\n");
	expect_at_every_cut(JSON_STREAM_LIST, "", -EPROTO, "");
	expect_at_every_cut(JSON_STREAM_LIST, "{\"kind\":\"List\"", -EPROTO, "member \"kind\" \"List\"\n");
}

Test(json_stream, what_is_no_list_is_refused)
{
	static const struct {
		const char *text, *seen;
	} cases[] = {
	    {"[]", ""},
	    {"{\"items\":7}", ""},
	    {"{\"items\":{}}", ""},
	    {"{\"items\":nil}", ""},
	    {"{\"items\":[1,]}", "item 1\n"},
	    {"{\"items\":[,1]}", ""},
	    {"{\"items\":[1 2]}", "item 1\n"},
	    {"{\"items\":[1]}x", "item 1\n"},
	    {"{\"items\":[1],\"items\":[2]}", "item 1\n"},
	    {"{\"a\":1,}", "member \"a\" 1\n"},
	    {"{,\"a\":1}", ""},
	    {"{\"a\" 1}", ""},
	    {"{a:1}", ""},
	    {"{\"a\":01}", "member \"a\" 0\n"},
	    {"{\"a\":\"\t\"}", ""},
	    {"{} {}", ""},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_at_every_cut(JSON_STREAM_LIST, cases[i].text, -EINVAL, cases[i].seen);
	expect_at_every_cut(JSON_STREAM_WATCH, "{}\n}", -EINVAL, "item {}\n");
}

Test(json_stream, error_names_the_byte_from_the_start)
{
	struct seen seen = {0};
	struct err err = {0};
	struct json_stream *s = json_stream_new(JSON_STREAM_WATCH, &ops, &seen);
	cr_assert_eq(json_stream_feed(s, span_of("{\"a\":1}\n"), &err), 0);
	cr_assert_eq(json_stream_feed(s, span_of("{\"a\":x}"), &err), -EINVAL);
	cr_assert(strstr(err.text, "byte 13:"), "%s", err.text);
	json_stream_free(s);
	buf_done(&seen.log);
}

Test(json_stream, callback_ends_the_stream_with_its_code)
{
	struct seen seen = {.stop_at = 2, .code = -ECANCELED};
	cr_assert_eq(feed_cut(JSON_STREAM_LIST, span_of("{\"items\":[1,2,3]}"), 0, 0, &seen, NULL),
		     -ECANCELED);
	cr_assert_eq(seen.items, 2);
	buf_done(&seen.log);
}

static int count(void *ctx, struct span item)
{
	(void)item;
	++*(size_t *)ctx;
	return 0;
}

Test(json_stream, item_beyond_its_limit_is_refused)
{
	size_t items = 0;
	const struct json_stream_ops counting = {count, NULL};
	struct json_stream *s = json_stream_new(JSON_STREAM_WATCH, &counting, &items);
	struct err err = {0};
	char *chunk = xmalloc(1 << 20);
	memset(chunk, 'a', 1 << 20);
	cr_assert_eq(json_stream_feed(s, span_of("\""), &err), 0);
	for (int i = 0; i < 63; i++)
		cr_assert_eq(json_stream_feed(s, (struct span){chunk, 1 << 20}, &err), 0);
	cr_assert_eq(json_stream_feed(s, (struct span){chunk, (1 << 20) - 1}, &err), 0);
	cr_assert_eq(json_stream_feed(s, span_of("\""), &err), -EMSGSIZE);
	cr_assert(err.text[0]);
	cr_assert_eq(items, 0);
	json_stream_free(s);
	free(chunk);
}

Test(json_stream, white_space_without_end_is_an_error)
{
	static char blank[4096];
	memset(blank, '\n', sizeof blank);
	for (int kind = JSON_STREAM_LIST; kind <= JSON_STREAM_WATCH; kind++) {
		struct seen seen = {0};
		struct err err = {0};
		struct json_stream *s = json_stream_new(kind, &ops, &seen);
		for (int i = 0; i < 3; i++) { /* what is in between begins the count anew */
			for (size_t n = 0; n < JSON_MAX_BLANK; n += sizeof blank)
				cr_assert_eq(json_stream_feed(s, (struct span){blank, sizeof blank}, &err), 0,
					     "%s", err.text);
			const char *list[] = {"{", "\"items\":", "["};
			cr_assert_eq(
			    json_stream_feed(s, span_of(kind == JSON_STREAM_WATCH ? "{}" : list[i]), &err),
			    0);
		}
		for (size_t n = 0; n < JSON_MAX_BLANK; n += sizeof blank)
			json_stream_feed(s, (struct span){blank, sizeof blank}, &err);
		cr_assert_eq(json_stream_feed(s, (struct span){blank, 1}, &err), -EINVAL);
		cr_assert(strstr(err.text, "white space"), "%s", err.text);
		json_stream_free(s);
		buf_done(&seen.log);
	}
}

static size_t most_memory, memory_before, items_seen;

static int look_at_memory(void *ctx _unused_, struct span item _unused_)
{
	items_seen++;
	most_memory = MAX(most_memory, mallinfo2().uordblks);
	return 0;
}

/* 40 MB of items, metadata behind them as kube-apiserver sends lists of custom resources. */
Test(json_stream, a_list_of_any_size_takes_memory_for_one_item)
{
	static const struct json_stream_ops counting = {look_at_memory, NULL};
	struct buf item = {0};
	buf_puts(&item, "{\"metadata\":{\"name\":\"a\"},\"data\":\"");
	for (int i = 0; i < 2000; i++)
		buf_puts(&item, "x");
	buf_puts(&item, "\"}");
	memory_before = mallinfo2().uordblks;
	struct json_stream *s = json_stream_new(JSON_STREAM_LIST, &counting, NULL);
	cr_assert_eq(json_stream_feed(s, span_of("{\"items\":["), NULL), 0);
	for (int i = 0; i < 20000; i++) {
		/* Cut at another place each time. */
		struct span whole = buf_span(&item);
		size_t cut = (size_t)i % whole.len;
		cr_assert_eq(json_stream_feed(s, (struct span){whole.at, cut}, NULL), 0);
		cr_assert_eq(json_stream_feed(s, (struct span){whole.at + cut, whole.len - cut}, NULL), 0);
		cr_assert_eq(json_stream_feed(s, span_of(i < 19999 ? "," : "]"), NULL), 0);
	}
	cr_assert_eq(json_stream_feed(s, span_of(",\"metadata\":{\"resourceVersion\":\"1\"}}"), NULL), 0);
	cr_assert_eq(json_stream_end(s, NULL), 0);
	json_stream_free(s);
	cr_assert_eq(items_seen, 20000);
	cr_assert(most_memory < memory_before + 32 * 1024, "%zu bytes", most_memory - memory_before);
	buf_done(&item);
}

Test(json_stream, white_space_is_nothing_only_between_values)
{
	static const struct {
		const char *before, *chunk;
		bool blank;
	} rows[] = {
	    {"", " \t\r\n", true},    {"", " x ", false},	  {"{\"a\":1}", "\n\n", true},
	    {"{\"a\":", "  ", false}, {"{\"a\":\"", "  ", false}, {"", "", true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct seen seen = {0};
		struct err err = {0};
		struct json_stream *s = json_stream_new(JSON_STREAM_WATCH, &ops, &seen);
		cr_assert_eq(json_stream_feed(s, span_of(rows[i].before), &err), 0);
		cr_expect_eq(json_stream_is_blank(s, span_of(rows[i].chunk)), rows[i].blank, "row %zu", i);
		json_stream_free(s);
		buf_done(&seen.log);
	}
}

/* A character of several bytes that is cut stays what it was, and so does each escape. */
Test(json_stream, characters_of_several_bytes_at_every_split_point)
{
	expect_at_every_cut(
	    JSON_STREAM_WATCH,
	    "{\"日本語🙂é\":\"\\u00e9\\ud83d\\ude42\\/\\u003c 🙂\"}\n{\"é\":\"日\"}", 0,
	    "item {\"日本語🙂é\":\"\\u00e9\\ud83d\\ude42\\/\\u003c 🙂\"}\nitem {\"é\":\"日\"}\n");
}
