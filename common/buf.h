/* A growing byte buffer. Appending never fails at the call: when memory is out or `limit` would be passed the
 * buffer is marked failed and stays as it was, and the one who uses the result asks buf_failed() once. `data`
 * is always terminated by a NUL that len does not count (NULL while nothing was ever added: use buf_str). Not
 * thread-safe. */
#pragma once
#include "base.h"

struct buf {
	char *data;
	size_t len, cap;
	size_t limit; /* 0: none */
	bool failed;
};

void buf_done(struct buf *b);  /* also for _cleanup_ */
void buf_reset(struct buf *b); /* empty, not failed; keeps memory and limit */
static inline bool buf_failed(const struct buf *b)
{
	return b->failed;
}
const char *buf_str(const struct buf *b);
static inline struct span buf_span(const struct buf *b)
{
	return (struct span){b->data ? b->data : "", b->len};
}
char *buf_steal(struct buf *b); /* the terminated bytes; the buffer is empty afterwards; caller frees */

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_span_add(struct buf *b, struct span s);
void buf_puts(struct buf *b, const char *text);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) _printf_(2, 3);
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) _printf_(2, 0);
/* Room for n more bytes; returns where they go, or NULL (failed). The caller adds what it wrote to len. */
char *buf_room(struct buf *b, size_t n);
void buf_remove_front(struct buf *b, size_t n);

/* A JSON string with its quotes: ", \ and control bytes escaped, invalid UTF-8 replaced by U+FFFD. */
void buf_json_string(struct buf *b, struct span text);
/* The escape of one byte below 0x80, as it stands in a JSON string: \", \n, \u001f. */
void buf_json_escape(struct buf *b, unsigned char c);
/* Percent-encodes all but RFC 3986 unreserved characters: for one path segment or one query value. */
void buf_url(struct buf *b, struct span text);

/* The length of the valid UTF-8 character at the start (no overlong forms, no surrogates), or 0. */
size_t utf8_valid(const char *at, size_t len);
/* How many bytes at the start are valid UTF-8, whole characters. */
size_t utf8_valid_prefix(struct span text);
/* Adds the text with U+FFFD in the place of every byte that belongs to no valid character, as Go's decoders do. */
void buf_utf8(struct buf *b, struct span text);
