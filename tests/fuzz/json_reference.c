#include "json_reference.h"

enum { DEPTH_MAX = 10001 };

static int byte(struct span text, size_t at)
{
	return at < text.len ? (unsigned char)text.at[at] : -1;
}

static bool one_of(int c, const char *list)
{
	return c > 0 && strchr(list, c);
}

size_t reference_space(struct span text, size_t at)
{
	while (one_of(byte(text, at), " \t\r\n"))
		at++;
	return at;
}

/* What a byte that does not fit is: missing, or wrong. */
static long bad(struct span text, size_t at)
{
	return at < text.len ? REFERENCE_WRONG : REFERENCE_ENDS;
}

static long literal(struct span text, size_t at, const char *word)
{
	for (; *word; word++, at++)
		if (byte(text, at) != *word)
			return bad(text, at);
	return (long)at;
}

static bool digit(struct span text, size_t at)
{
	return one_of(byte(text, at), "0123456789");
}

static long digits(struct span text, size_t at)
{
	if (!digit(text, at))
		return bad(text, at);
	while (digit(text, at))
		at++;
	return (long)at;
}

static long number(struct span text, size_t at)
{
	long end = (long)at + (byte(text, at) == '-');
	end = byte(text, (size_t)end) == '0' ? end + 1 : digits(text, (size_t)end);
	if (end >= 0 && byte(text, (size_t)end) == '.')
		end = digits(text, (size_t)end + 1);
	if (end >= 0 && one_of(byte(text, (size_t)end), "eE")) {
		end++;
		end = digits(text, (size_t)end + one_of(byte(text, (size_t)end), "+-"));
	}
	return end;
}

static long string(struct span text, size_t at)
{
	for (at++;; at++) {
		int c = byte(text, at);
		if (c == '"')
			return (long)at + 1;
		if (c < 0x20)
			return bad(text, at);
		if (c != '\\')
			continue;
		c = byte(text, ++at);
		if (!one_of(c, "\"\\/bfnrtu"))
			return bad(text, at);
		for (int i = 0; c == 'u' && i < 4; i++)
			if (!one_of(byte(text, ++at), "0123456789abcdefABCDEF"))
				return bad(text, at);
	}
}

static long container(struct span text, size_t at, unsigned depth)
{
	bool object = byte(text, at) == '{', first = true;
	int close = object ? '}' : ']';
	if (depth == DEPTH_MAX)
		return REFERENCE_WRONG;
	for (at = reference_space(text, at + 1);; first = false) {
		long end;
		if (first && byte(text, at) == close)
			return (long)at + 1;
		if (object) {
			if (byte(text, at) != '"')
				return bad(text, at);
			if ((end = string(text, at)) < 0)
				return end;
			at = reference_space(text, (size_t)end);
			if (byte(text, at) != ':')
				return bad(text, at);
			at = reference_space(text, at + 1);
		}
		if ((end = reference_value(text, at, depth + 1)) < 0)
			return end;
		at = reference_space(text, (size_t)end);
		if (byte(text, at) == close)
			return (long)at + 1;
		if (byte(text, at) != ',')
			return bad(text, at);
		at = reference_space(text, at + 1);
	}
}

long reference_value(struct span text, size_t at, unsigned depth)
{
	switch (byte(text, at)) {
	case '{':
	case '[':
		return container(text, at, depth);
	case '"':
		return string(text, at);
	case 't':
		return literal(text, at, "true");
	case 'f':
		return literal(text, at, "false");
	case 'n':
		return literal(text, at, "null");
	default:
		return digit(text, at) || byte(text, at) == '-' ? number(text, at) : bad(text, at);
	}
}

bool reference_string_is(struct span text, size_t at, const char *name)
{
	for (at++; byte(text, at) != '"'; at++, name++) {
		int c = byte(text, at);
		if (c == '\\') {
			static const char letters[] = "bfnrt", bytes[] = "\b\f\n\r\t";
			c = byte(text, ++at);
			const char *known = strchr(letters, c);
			if (c == 'u') {
				char hex[5] = {text.at[at + 1], text.at[at + 2], text.at[at + 3],
					       text.at[at + 4], 0};
				c = (int)strtol(hex, NULL, 16);
				at += 4;
			} else if (known && *known) {
				c = bytes[known - letters];
			}
		}
		if (!*name || c != *name) /* names that are asked for are ASCII */
			return false;
	}
	return !*name;
}

static struct span part(struct span text, size_t from, long to)
{
	return (struct span){text.at + from, (size_t)to - from};
}

static void put_item(struct buf *log, struct span value)
{
	buf_puts(log, "item ");
	buf_span_add(log, value);
	buf_putc(log, '\n');
}

static int code_of(long end)
{
	return end == REFERENCE_ENDS ? -EPROTO : -EINVAL;
}

int reference_watch(struct span text, struct buf *log)
{
	for (size_t at = 0;;) {
		at = reference_space(text, at);
		if (at == text.len)
			return 0;
		long end = reference_value(text, at, 0);
		if (end < 0)
			return code_of(end);
		put_item(log, part(text, at, end));
		at = (size_t)end;
	}
}

/* A list's items, from behind its bracket; the end, behind the other. */
static long items(struct span text, size_t at, struct buf *log)
{
	for (bool first = true;; first = false) {
		at = reference_space(text, at);
		if (first && byte(text, at) == ']')
			return (long)at + 1;
		long end = reference_value(text, at, 0);
		if (end < 0)
			return end;
		/* A number's end is known by the byte behind it. */
		if ((size_t)end == text.len && !one_of(text.at[end - 1], "}]\"el"))
			return REFERENCE_ENDS;
		put_item(log, part(text, at, end));
		at = reference_space(text, (size_t)end);
		if (byte(text, at) == ']')
			return (long)at + 1;
		if (byte(text, at) != ',')
			return bad(text, at);
		at++;
	}
}

int reference_list(struct span text, struct buf *log)
{
	size_t at = reference_space(text, 0);
	bool had_items = false;
	if (byte(text, at) != '{')
		return code_of(bad(text, at));
	at = reference_space(text, at + 1);
	for (bool first = true; !first || byte(text, at) != '}'; first = false) {
		if (byte(text, at) != '"')
			return code_of(bad(text, at));
		long end = string(text, at);
		if (end < 0)
			return code_of(end);
		struct span key = part(text, at, end);
		at = reference_space(text, (size_t)end);
		if (byte(text, at) != ':')
			return code_of(bad(text, at));
		at = reference_space(text, at + 1);
		bool is_items = reference_string_is(key, 0, "items");
		if (is_items && at < text.len && (had_items || !one_of(byte(text, at), "[n")))
			return -EINVAL;
		had_items |= is_items && at < text.len;
		end = is_items && byte(text, at) == '[' ? items(text, at + 1, log)
							: reference_value(text, at, 0);
		if (end < 0)
			return code_of(end);
		if ((size_t)end == text.len && !one_of(text.at[end - 1], "}]\"el"))
			return -EPROTO;
		if (!is_items) {
			buf_puts(log, "member ");
			buf_span_add(log, key);
			buf_putc(log, ' ');
			buf_span_add(log, part(text, at, end));
			buf_putc(log, '\n');
		}
		at = reference_space(text, (size_t)end);
		if (byte(text, at) == '}')
			break;
		if (byte(text, at) != ',')
			return code_of(bad(text, at));
		at = reference_space(text, at + 1);
	}
	at = reference_space(text, at + 1);
	return at == text.len ? 0 : -EINVAL;
}
