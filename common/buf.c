#include "buf.h"
#include <stdio.h>

void buf_done(struct buf *b)
{
	if (!b)
		return;
	free(b->data);
	*b = (struct buf){.limit = b->limit};
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = 0;
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_steal(struct buf *b)
{
	char *text = b->data ? b->data : xcalloc(1, 1);
	*b = (struct buf){.limit = b->limit};
	return text;
}

char *buf_room(struct buf *b, size_t n)
{
	size_t limit = b->limit ? b->limit : SIZE_MAX / 4;
	if (b->failed || n > limit || b->len > limit - n) {
		b->failed = true;
		return NULL;
	}
	size_t need = b->len + n + 1;
	if (need > b->cap) {
		/* Half as much again: the sum of all copying stays linear, and old blocks can be used
		 * again. */
		size_t cap = MAX(need, b->cap + b->cap / 2 + 64);
		char *data = realloc(b->data, cap);
		if (!data) {
			b->failed = true;
			return NULL;
		}
		b->data = data;
		b->cap = cap;
		b->data[b->len] = 0;
	}
	return b->data + b->len;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
	char *to = buf_room(b, n);
	if (!to)
		return;
	if (n)
		memcpy(to, bytes, n);
	b->len += n;
	b->data[b->len] = 0;
}

void buf_span_add(struct buf *b, struct span s)
{
	buf_add(b, s.at, s.len);
}

void buf_puts(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_putc(struct buf *b, char c)
{
	if (!b->failed && b->len + 1 < b->cap && !b->limit) {
		b->data[b->len++] = c;
		b->data[b->len] = 0;
	} else {
		buf_add(b, &c, 1);
	}
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	char small[256];
	va_list again;
	va_copy(again, ap);
	int n = vsnprintf(small, sizeof small, fmt, ap);
	if (n < 0) {
		b->failed = true;
	} else if ((size_t)n < sizeof small) {
		buf_add(b, small, (size_t)n);
	} else {
		char *to = buf_room(b, (size_t)n);
		if (to) {
			vsnprintf(to, (size_t)n + 1, fmt, again);
			b->len += (size_t)n;
		}
	}
	va_end(again);
}

void buf_remove_front(struct buf *b, size_t n)
{
	if (n > b->len)
		n = b->len;
	if (!n)
		return;
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

size_t utf8_valid(const char *at, size_t len)
{
	const unsigned char *s = (const unsigned char *)at;
	if (!len)
		return 0;
	if (s[0] < 0x80)
		return 1;
	size_t n = s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
	if (s[0] > 0xf4 || !n || n > len)
		return 0;
	/* The second byte tells overlong forms, surrogates and what is above U+10FFFF. */
	unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

size_t utf8_valid_prefix(struct span text)
{
	size_t at = 0;
	while (at < text.len) {
		uint64_t x;
		if (text.len - at >= sizeof x) { /* most text is ASCII: eight bytes at a time */
			memcpy(&x, text.at + at, sizeof x);
			if (!(x & UINT64_C(0x8080808080808080))) {
				at += sizeof x;
				continue;
			}
		}
		size_t n = utf8_valid(text.at + at, text.len - at);
		if (!n)
			break;
		at += n;
	}
	return at;
}

void buf_utf8(struct buf *b, struct span text)
{
	for (;;) {
		size_t good = utf8_valid_prefix(text);
		buf_add(b, text.at, good);
		if (good == text.len)
			return;
		buf_puts(b, "\xef\xbf\xbd");
		text = (struct span){text.at + good + 1, text.len - good - 1};
	}
}

void buf_json_escape(struct buf *b, unsigned char c)
{
	static const char letters[] = "btn\0fr"; /* for 8 to 13; 11 has none */
	if (c == '"' || c == '\\') {
		buf_putc(b, '\\');
		buf_putc(b, (char)c);
	} else if (c >= 8 && c <= 13 && letters[c - 8]) {
		buf_putc(b, '\\');
		buf_putc(b, letters[c - 8]);
	} else {
		buf_printf(b, "\\u%04x", c);
	}
}

void buf_json_string(struct buf *b, struct span text)
{
	buf_putc(b, '"');
	size_t plain = 0, at = 0; /* text[plain..at) is good as it stands */
	while (at < text.len) {
		unsigned char c = (unsigned char)text.at[at];
		size_t n = utf8_valid(text.at + at, text.len - at);
		if (n && c != '"' && c != '\\' && c >= 0x20 && c != 0x7f) {
			at += n;
			continue;
		}
		buf_add(b, text.at + plain, at - plain);
		if (n)
			buf_json_escape(b, c);
		else
			buf_puts(b, "\xef\xbf\xbd");
		plain = ++at;
	}
	buf_add(b, text.at + plain, at - plain);
	buf_putc(b, '"');
}

void buf_url(struct buf *b, struct span text)
{
	static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] && strchr(unreserved, text.at[i]))
			buf_putc(b, text.at[i]);
		else
			buf_printf(b, "%%%02X", (unsigned char)text.at[i]);
	}
}
