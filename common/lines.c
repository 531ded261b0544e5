#include "lines.h"
#include <stdio.h>

#define LINE_NS (NS_PER_S / LINES_PER_SECOND)

bool text_is_blank(struct span line)
{
	for (size_t i = 0; i < line.len; i++)
		if (!strchr(" \t\r", line.at[i]))
			return false;
	return true;
}

const char *text_quote(struct span text, char buf[QUOTE_ROOM])
{
	if (text.len >= 2 && text.at[0] == '"' && text.at[text.len - 1] == '"')
		text = (struct span){text.at + 1, text.len - 2};
	size_t n = text_cut(text, QUOTE_MAX), at = 0;
	buf[at++] = '"';
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text.at[i];
		if (c < 0x20 || c == 0x7f)
			at += (size_t)snprintf(buf + at, QUOTE_ROOM - at, "\\x%02x", c);
		else
			buf[at++] = (char)c;
	}
	buf[at++] = '"';
	memcpy(buf + at, n < text.len ? "..." : "", n < text.len ? 4 : 1);
	return buf;
}

void lines_init(struct lines *l, int64_t now_ns)
{
	*l = (struct lines){
	    .tokens_ns = LINES_BURST * LINE_NS, .tokens_at = now_ns, .told_at = now_ns - NS_PER_S};
}

static bool may_log(struct lines *l, int64_t now_ns)
{
	l->tokens_ns = MIN(l->tokens_ns + (now_ns - l->tokens_at), LINES_BURST * LINE_NS);
	l->tokens_at = now_ns;
	if (l->tokens_ns < LINE_NS)
		return false;
	l->tokens_ns -= LINE_NS;
	return true;
}

static void end_line(struct lines *l, int64_t now_ns, lines_emit emit, void *ctx)
{
	while (l->part_len && strchr("\r \t", l->part[l->part_len - 1]))
		l->part_len--;
	struct span line = {l->part, l->part_len};
	if (line.len) {
		char *keep = l->last[l->last_count++ % LINES_KEPT];
		size_t n = text_cut(line, LINE_KEPT_MAX);
		memcpy(keep, line.at, n);
		keep[n] = 0;
		if (!may_log(l, now_ns)) {
			l->dropped++;
		} else if (l->part_lost) {
			char text[LINE_LOG_MAX + 64];
			line.len = text_cut(line, LINE_LOG_MAX - 1);
			memcpy(text, line.at, line.len);
			int more = snprintf(text + line.len, sizeof(text) - line.len, " ... (%zu more bytes)",
					    l->part_lost);
			emit(ctx, (struct span){text, line.len + (size_t)more});
		} else {
			emit(ctx, line);
		}
	}
	l->part_len = l->part_lost = 0;
}

void lines_feed(struct lines *l, struct span bytes, int64_t now_ns, lines_emit emit, void *ctx)
{
	while (bytes.len) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t n = end ? (size_t)(end - bytes.at) : bytes.len;
		size_t room = MIN(n, LINE_LOG_MAX - l->part_len);
		memcpy(l->part + l->part_len, bytes.at, room);
		l->part_len += room;
		l->part_lost += n - room;
		if (end) {
			end_line(l, now_ns, emit, ctx);
			n++;
		}
		bytes = (struct span){bytes.at + n, bytes.len - n};
	}
}

void lines_flush(struct lines *l, int64_t now_ns, lines_emit emit, void *ctx)
{
	end_line(l, now_ns, emit, ctx);
}

uint64_t lines_dropped(struct lines *l, int64_t now_ns)
{
	uint64_t n = l->dropped;
	if (!n || now_ns < l->told_at + NS_PER_S)
		return 0;
	l->dropped = 0;
	l->told_at = now_ns;
	return n;
}

void lines_next(struct lines *l)
{
	l->part_len = l->part_lost = 0;
	l->last_count = 0;
}

void lines_forget(struct lines *l)
{
	l->last_count = 0;
}

const char *lines_last(const struct lines *l)
{
	return l->last_count ? l->last[(l->last_count - 1) % LINES_KEPT] : "";
}

void lines_tail(const struct lines *l, struct buf *out)
{
	size_t n = MIN(l->last_count, (size_t)LINES_KEPT);
	for (size_t i = l->last_count - n; i < l->last_count; i++) {
		if (i > l->last_count - n)
			buf_puts(out, " | ");
		buf_puts(out, l->last[i % LINES_KEPT]);
	}
}
