/* Nothing is quadratic: counted are the bytes that the scanner looks at and the bytes that it copies, whatever the pieces. */
#include "json_machine.h"
#include "watcher/object.h"
#include <criterion/criterion.h>

/* tests/CMakeLists.txt has the linker put these in the way. */
size_t __real_json_machine_run(struct json_machine *m, const char *at, size_t n, bool *ret_complete);
size_t __wrap_json_machine_run(struct json_machine *m, const char *at, size_t n, bool *ret_complete);
void __real_buf_add(struct buf *b, const void *bytes, size_t n);
void __wrap_buf_add(struct buf *b, const void *bytes, size_t n);
void __real_buf_span_add(struct buf *b, struct span s);
void __wrap_buf_span_add(struct buf *b, struct span s);
size_t __real_json_skip_container(struct span text, size_t at);
size_t __wrap_json_skip_container(struct span text, size_t at);

static size_t looked_at, copied, skipped;

size_t __wrap_json_machine_run(struct json_machine *m, const char *at, size_t n, bool *ret_complete)
{
	size_t used = __real_json_machine_run(m, at, n, ret_complete);
	looked_at += used;
	return used;
}

void __wrap_buf_add(struct buf *b, const void *bytes, size_t n)
{
	copied += n;
	__real_buf_add(b, bytes, n);
}

void __wrap_buf_span_add(struct buf *b, struct span s)
{
	copied += s.len;
	__real_buf_span_add(b, s);
}

size_t __wrap_json_skip_container(struct span text, size_t at)
{
	size_t end = __real_json_skip_container(text, at);
	skipped += end - at;
	return end;
}

static int ignore(void *ctx _unused_, struct span item _unused_)
{
	return 0;
}

static int ignore_member(void *ctx _unused_, struct span key _unused_, struct span value _unused_)
{
	return 0;
}

static void feed(enum json_stream_kind kind, struct span text, size_t piece)
{
	static const struct json_stream_ops ops = {ignore, ignore_member};
	struct json_stream *s = json_stream_new(kind, &ops, NULL);
	looked_at = copied = 0;
	for (size_t at = 0; at < text.len; at += piece)
		cr_assert_eq(
		    json_stream_feed(s, (struct span){text.at + at, MIN(piece, text.len - at)}, NULL), 0);
	cr_assert_eq(json_stream_end(s, NULL), 0);
	json_stream_free(s);
}

static void put_item(struct buf *b, size_t members)
{
	buf_puts(b, "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"}");
	for (size_t i = 0; i < members; i++)
		buf_printf(b, ",\"m%zu\":[{\"managedFields\":{}},\"}\\\"]\"]", i);
	buf_puts(b, ",\"managedFields\":[{},{}]},\"spec\":{\"a\":[1,2,3]}}");
}

Test(json_work, each_byte_of_a_stream_is_looked_at_once_and_copied_at_most_once)
{
	static const size_t pieces[] = {1, 2, 3, 17, 1000, 4096, SIZE_MAX / 2};
	struct buf watch = {0}, list = {0};
	buf_puts(&list, "{\"items\":[");
	for (size_t i = 0; i < 50; i++) {
		put_item(&watch, i < 3 ? 5000 : 5);
		buf_putc(&watch, '\n');
		buf_puts(&list, i ? "," : "");
		put_item(&list, i < 3 ? 5000 : 5);
	}
	buf_puts(&list, "],\"metadata\":{}}");
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		feed(JSON_STREAM_WATCH, buf_span(&watch), pieces[i]);
		cr_expect_leq(looked_at, watch.len, "pieces of %zu", pieces[i]);
		cr_expect_leq(copied, watch.len, "pieces of %zu", pieces[i]);
		feed(JSON_STREAM_LIST, buf_span(&list), pieces[i]);
		cr_expect_leq(looked_at, list.len, "pieces of %zu", pieces[i]);
		cr_expect_leq(copied, list.len, "pieces of %zu", pieces[i]);
	}
	/* What came in one piece is not copied at all, but for the names of the list's members. */
	cr_expect_lt(copied, 32);
	buf_done(&watch);
	buf_done(&list);
}

Test(json_work, an_object_is_kept_and_read_in_a_number_of_passes_that_does_not_grow)
{
	for (size_t members = 10; members <= 100000; members *= 10) {
		struct object_keep keep = {"v1", "X", true, false, NULL};
		struct buf item = {0}, out = {0}, scratch = {0};
		struct object o;
		put_item(&item, members);
		looked_at = copied = skipped = 0;
		struct span metadata = object_normalize(buf_span(&item), &keep, &out);
		cr_assert_eq(object_read_at(buf_span(&out), metadata, &scratch, &o, NULL), 0);
		cr_expect_leq(copied, item.len + 100, "%zu members", members);
		/* metadata and its members, once to keep and once to read */
		cr_expect_leq(skipped, 4 * item.len, "%zu members", members);
		buf_done(&item);
		buf_done(&out);
		buf_done(&scratch);
	}
}

/* One level more is one bit more, not one pass more. */
Test(json_work, depth_costs_nothing)
{
	struct buf b = {0};
	for (int i = 0; i < 10000; i++)
		buf_puts(&b, "[");
	for (int i = 0; i < 10000; i++)
		buf_puts(&b, "]");
	for (size_t piece = 1; piece <= 1000; piece *= 10) {
		feed(JSON_STREAM_WATCH, buf_span(&b), piece);
		cr_expect_leq(looked_at, b.len);
		cr_expect_leq(copied, b.len);
	}
	buf_done(&b);
}
