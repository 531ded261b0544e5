/* What API servers sent (tests/data/streams, by tests/kube/record), cut wherever it can be cut. */
#include "json_scan.h"
#include <criterion/criterion.h>
#include <stdio.h>

static const struct recorded {
	const char *file;
	enum json_stream_kind kind;
	const char *names; /* of the items, in their order */
} files[] = {
    {"kube-1.20-list.json", JSON_STREAM_LIST, "applied brackets escapes nested numbers unicode"},
    {"kube-1.20-core.json", JSON_STREAM_LIST,
     "record-brackets record-escapes record-nested record-numbers record-unicode"},
    {"kube-1.20-watch.json", JSON_STREAM_WATCH,
     "+escapes +unicode +numbers +brackets +nested *nested +applied *numbers -brackets"},
    {"built-in-list.json", JSON_STREAM_LIST, "applied brackets escapes nested numbers unicode"},
    {"built-in-core.json", JSON_STREAM_LIST,
     "record-brackets record-escapes record-nested record-numbers record-unicode"},
    {"built-in-watch.json", JSON_STREAM_WATCH,
     "+escapes +unicode +numbers +brackets +nested *nested +applied *numbers -brackets bookmark"},
};

static void read_file(const char *name, struct buf *out)
{
	const char *source = getenv("SRC");
	_cleanup_(free_ptr) char *path = xasprintf("%s/tests/data/streams/%s", source ? source : ".", name);
	FILE *f = fopen(path, "re");
	char part[4096];
	cr_assert(f, "%s", path);
	for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
		buf_add(out, part, n);
	fclose(f);
	cr_assert(out->len > 1000);
}

/* One line for each thing handed out. */
static int on_item(void *ctx, struct span item)
{
	buf_puts(ctx, "item ");
	buf_span_add(ctx, item);
	buf_putc(ctx, '\n');
	return 0;
}

static int on_member(void *ctx, struct span key, struct span value)
{
	buf_span_add(ctx, key);
	buf_putc(ctx, ' ');
	buf_span_add(ctx, value);
	buf_putc(ctx, '\n');
	return 0;
}

/* In pieces that are copies of their own size, so that a sanitizer sees a look beyond the end of one. */
static void feed_cut(enum json_stream_kind kind, struct span text, size_t first, size_t rest, struct buf *log)
{
	static const struct json_stream_ops ops = {on_item, on_member};
	struct json_stream *s = json_stream_new(kind, &ops, log);
	struct err err = {0};
	for (size_t at = 0, n = first; at < text.len; at += n, n = rest) {
		n = MIN(n, text.len - at);
		char *piece = xmalloc(n + !n);
		memcpy(piece, text.at + at, n);
		cr_assert_eq(json_stream_feed(s, (struct span){piece, n}, &err), 0, "%s", err.text);
		free(piece);
	}
	cr_assert_eq(json_stream_end(s, &err), 0, "%s", err.text);
	json_stream_free(s);
}

/* The same, read in another way: a server writes one event a line; a list is walked as one whole value. */
static void read_plainly(enum json_stream_kind kind, struct span text, struct buf *log)
{
	struct json_iter it = {0};
	struct span key, value;
	if (kind == JSON_STREAM_LIST) {
		cr_assert_eq(json_check(text, NULL), 0);
		while (json_each(text, &it, &key, &value)) {
			struct json_iter in = {0};
			struct span none, item;
			if (!span_is(key, "\"items\""))
				on_member(log, key, value);
			else
				while (json_each(value, &in, &none, &item))
					on_item(log, item);
		}
		return;
	}
	for (size_t at = 0; at < text.len;) {
		const char *end = memchr(text.at + at, '\n', text.len - at);
		cr_assert(end);
		struct span line = {text.at + at, (size_t)(end - text.at) - at};
		cr_assert_eq(json_check(line, NULL), 0);
		on_item(log, line);
		at += line.len + 1;
	}
}

static void names_of(struct span log, struct buf *names)
{
	static const struct {
		const char *type, *sign;
	} signs[] = {{"ADDED", "+"}, {"MODIFIED", "*"}, {"DELETED", "-"}};
	for (size_t at = 0; at < log.len;) {
		struct span line = {log.at + at,
				    (size_t)((char *)memchr(log.at + at, '\n', log.len - at) - log.at) - at};
		at += line.len + 1;
		if (strncmp(line.at, "item ", 5) != 0)
			continue;
		struct span item = {line.at + 5, line.len - 5}, name = {NULL, 0};
		struct span object = json_get(item, "object");
		if (names->len)
			buf_putc(names, ' ');
		for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
			if (json_string_is(json_get(item, "type"), signs[i].type))
				buf_puts(names, signs[i].sign);
		if (json_string_is(json_get(item, "type"), "BOOKMARK"))
			buf_puts(names, "bookmark");
		json_string_raw(json_path(object.at ? object : item, "metadata", "name", NULL), &name);
		buf_span_add(names, name);
	}
}

Test(json_recorded, every_split_point_gives_the_same)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		const struct recorded *r = &files[i];
		struct buf text = {0}, plain = {0}, log = {0}, names = {0};
		read_file(r->file, &text);
		struct span all = buf_span(&text);
		read_plainly(r->kind, all, &plain);
		names_of(buf_span(&plain), &names);
		cr_assert_str_eq(buf_str(&names), r->names, "%s", r->file);
		for (size_t cut = 0; cut <= all.len; cut++) {
			buf_reset(&log);
			feed_cut(r->kind, all, cut, all.len, &log);
			cr_assert(span_eq(buf_span(&log), buf_span(&plain)), "%s cut at %zu", r->file, cut);
		}
		for (size_t size = 1; size <= 130; size++) {
			for (size_t first = 1; first <= size; first += 1 + size / 3) {
				buf_reset(&log);
				feed_cut(r->kind, all, first, size, &log);
				cr_assert(span_eq(buf_span(&log), buf_span(&plain)),
					  "%s: %zu, then pieces of %zu", r->file, first, size);
			}
		}
		buf_done(&text);
		buf_done(&plain);
		buf_done(&log);
		buf_done(&names);
	}
}

Test(json_recorded, every_end_too_early_is_noticed)
{
	static const struct json_stream_ops ops = {on_item, on_member};
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct buf text = {0}, plain = {0}, log = {0};
		read_file(files[i].file, &text);
		read_plainly(files[i].kind, buf_span(&text), &plain);
		for (size_t end = 0; end < text.len; end++) {
			struct json_stream *s = json_stream_new(files[i].kind, &ops, &log);
			buf_reset(&log);
			cr_assert_eq(json_stream_feed(s, (struct span){text.data, end}, NULL), 0);
			/* Whole is a watch behind an event, and a list behind its last bracket. */
			bool whole = files[i].kind == JSON_STREAM_WATCH
					 ? !end || text.data[end - 1] == '\n' || text.data[end] == '\n'
					 : end + 1 == text.len && text.data[end] == '\n';
			cr_assert_eq(json_stream_end(s, NULL), whole ? 0 : -EPROTO, "%s: %zu", files[i].file,
				     end);
			/* What was handed out is a beginning of what is right. */
			cr_assert(log.len <= plain.len &&
				  !memcmp(log.data ? log.data : "", plain.data, log.len));
			json_stream_free(s);
		}
		buf_done(&text);
		buf_done(&plain);
		buf_done(&log);
	}
}
