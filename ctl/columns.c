#include "columns.h"
#include "config.h"
#include <stdio.h>

void columns_init(struct columns *t, const char *const *headings)
{
	*t = (struct columns){0};
	while (headings[t->width])
		t->width++;
	for (size_t i = 0; i < t->width; i++)
		columns_add(t, headings[i]);
}

void columns_done(struct columns *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct columns){0};
}

/* The length of the UTF-8 character at s if it is whole, shortest, and no control character; else 0. */
static size_t shown_character(const unsigned char *s)
{
	if (*s < 0x80)
		return *s >= 0x20 && *s != 0x7F;
	size_t n = *s >= 0xF0 ? 4 : *s >= 0xE0 ? 3 : 2;
	uint32_t c = *s & (0xFFu >> (n + 1));
	if (*s < 0xC2 || *s > 0xF4)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xC0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3Fu);
	}
	bool shortest = n == 2 || (n == 3 && c >= 0x800) || (n == 4 && c >= 0x10000);
	bool surrogate = c >= 0xD800 && c <= 0xDFFF;
	/* C1 controls, and the marks that turn the direction of the text around them. */
	bool control = c < 0xA0 || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
	return shortest && !surrogate && !control && c <= 0x10FFFF ? n : 0;
}

void printable(struct buf *out, const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s;) {
		size_t n = shown_character(s);
		if (n)
			buf_add(out, s, n);
		else
			buf_putc(out, strchr("\n\r\t", *s) ? ' ' : '?');
		s += n ? n : 1;
	}
}

void columns_add(struct columns *t, const char *text)
{
	struct buf b = {0};
	printable(&b, text && *text ? text : "-");
	if (t->count == t->room) {
		t->room = t->room ? t->room * 2 : 64;
		t->cells = xrealloc(t->cells, t->room * sizeof(*t->cells));
	}
	t->cells[t->count++] = buf_steal(&b);
}

void columns_addf(struct columns *t, const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf b = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	columns_add(t, buf_str(&b));
}

static size_t shown_width(const char *text)
{
	size_t n = 0;
	for (; *text; text++)
		n += ((unsigned char)*text & 0xC0) != 0x80;
	return n;
}

void columns_print(const struct columns *t, struct buf *out)
{
	_cleanup_(free_ptr) size_t *widths = xcalloc(t->width, sizeof(*widths));
	for (size_t i = 0; i < t->count; i++)
		widths[i % t->width] = MAX(widths[i % t->width], shown_width(t->cells[i]));
	for (size_t i = 0; i < t->count; i++) {
		size_t column = i % t->width;
		bool last = column + 1 == t->width || i + 1 == t->count;
		buf_puts(out, t->cells[i]);
		for (size_t n = shown_width(t->cells[i]); !last && n < widths[column] + 2; n++)
			buf_putc(out, ' ');
		if (last)
			buf_putc(out, '\n');
	}
}

/* Whole seconds from one second on, milliseconds from one on: the rest is noise. */
char *short_duration(int64_t ns, char buf[32])
{
	int64_t unit = ns >= NS_PER_S ? NS_PER_S : ns >= NS_PER_MS ? NS_PER_MS : NS_PER_US;
	return format_duration(ns / unit * unit, buf);
}

char *age(int64_t now, int64_t then, char buf[32])
{
	if (!then) {
		memcpy(buf, "-", 2);
		return buf;
	}
	return short_duration(now > then ? now - then : 0, buf);
}
