/* Finding byte spans in JSON without building anything.
 *
 * Two halves. json_stream splits what arrives from the API server, whatever the chunking, into the items of a
 * list or the events of a watch, and needs memory for one item. json_get and friends look fields up in one
 * whole value. Objects stay the bytes that came.
 *
 * What is accepted: RFC 8259, any value at the top, up to JSON_MAX_DEPTH levels. Numbers are not converted.
 * Of duplicate keys the last counts, as for Go and JavaScript. Bytes in strings that are no UTF-8 are taken;
 * buf_utf8 replaces them. Keys are compared after unescaping, and exactly. docs/watcher.md has it as a table,
 * tests/data/decode what Go makes of the same. Not thread-safe for one stream; lookups are pure. */
#pragma once
#include "buf.h"

/* As deep as Go's decoder reads, and with it the API server, and one level more for the event around an object. */
enum { JSON_MAX_DEPTH = 10001 };
#define JSON_MAX_ITEM (UINT64_C(64) << 20) /* an item of more bytes ends the stream with -EMSGSIZE */
enum { JSON_MAX_BLANK = 1 << 20 }; /* so does more white space in one piece between values, with -EINVAL */

enum json_type { JSON_NONE, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* The end of the value that starts at text[0] after white space: 0 and *ret, or -EINVAL. Checks the grammar
 * fully. */
int json_value(struct span text, struct span *ret);
/* As json_value, and nothing but white space may follow. */
int json_check(struct span text, struct err *err);
enum json_type json_type_of(struct span value);

/* Member of an object; absent: {NULL, 0}. The value's span: strings with their quotes. The text must have
 * passed json_check. */
struct span json_get(struct span object, const char *key);
/* The same for several names in one walk: values[i] is that of names[i]. */
void json_get_all(struct span object, const char *const *names, struct span *values, size_t n);
/* Nested members: json_path(o, "metadata", "name", NULL). */
struct span json_path(struct span object, ...) __attribute__((sentinel));
/* The inside of a string value without escapes, as a span into the text; -ENODATA if absent or null, -EINVAL
 * if not a string or if it holds an escape (then use json_unescape). */
int json_string_raw(struct span value, struct span *ret);
/* Appends the unescaped text of a string value. \u0000 is refused (-EILSEQ), lone surrogates become
 * U+FFFD. */
int json_unescape(struct span value, struct buf *out);
/* True only if value is a string that unescapes to exactly text. */
bool json_string_is(struct span value, const char *text);
/* An integer without fraction or exponent that fits; -EINVAL, -ERANGE, -ENODATA when absent. */
int json_int(struct span value, int64_t *ret);

/* Walks members (key: with quotes) or elements (key absent). Start with a zeroed iterator. */
struct json_iter {
	size_t at;
	bool started;
};
bool json_each(struct span container, struct json_iter *it, struct span *ret_key, struct span *ret_value);

/* Copies an object without the members named by each dotted path ("metadata.managedFields"); the rest stays
 * byte for byte. */
void json_copy_without(struct span object, const char *const *paths, struct buf *out);

/* ---- stream ---- */

enum json_stream_kind {
	/* one object whose "items" are handed out one by one; every other member to on_member */
	JSON_STREAM_LIST,
	JSON_STREAM_WATCH, /* top-level values one after another, each handed to on_item */
};

struct json_stream_ops {
	/* One item, complete and checked, valid during the call. Non-zero ends the stream with that code. */
	int (*on_item)(void *ctx, struct span item);
	/* LIST only: a member of the top object other than "items", when complete; may come before or after
	 * the items. */
	int (*on_member)(void *ctx, struct span key, struct span value);
};

struct json_stream;
struct json_stream *json_stream_new(enum json_stream_kind kind, const struct json_stream_ops *ops, void *ctx);
void json_stream_free(struct json_stream *s);
/* 0, or -EINVAL (not JSON; err has the byte offset), -EMSGSIZE, or what a callback returned; after an error
 * only free. */
int json_stream_feed(struct json_stream *s, struct span chunk, struct err *err);
/* The end of input: -EPROTO if it cut something in the middle. For WATCH the partial value is dropped, and
 * said. */
int json_stream_end(struct json_stream *s, struct err *err);
/* Is the next chunk nothing but white space between values? */
bool json_stream_is_blank(const struct json_stream *s, struct span chunk);
