#include "json_machine.h"

enum { PATHS_MAX = 32 };

static size_t skip_space(struct span text, size_t at)
{
	while (at < text.len && json_is_space(text.at[at]))
		at++;
	return at;
}

/* ---- checking ---- */

/* Fills *ret as json_value does; on failure m->wrong may say why, and *ret_at where. */
static int check_value(struct span text, struct json_machine *m, struct span *ret, size_t *ret_at)
{
	size_t start = skip_space(text, 0);
	bool complete;
	json_machine_init(m);
	size_t end = start + json_machine_run(m, text.at + start, text.len - start, &complete);
	*ret_at = end;
	if (m->wrong || !json_machine_may_end(m))
		return -EINVAL;
	*ret = (struct span){text.at + start, end - start};
	return 0;
}

int json_value(struct span text, struct span *ret)
{
	struct json_machine m;
	size_t at;
	return check_value(text, &m, ret, &at);
}

int json_check(struct span text, struct err *err)
{
	struct json_machine m;
	struct span value;
	size_t at;
	if (check_value(text, &m, &value, &at) < 0)
		return err_set(err, -EINVAL, "not JSON at byte %zu: %s", at,
			       m.wrong ? m.wrong : "the text ends too early");
	at = skip_space(text, at);
	if (at < text.len)
		return err_set(err, -EINVAL, "not JSON at byte %zu: something follows the value", at);
	return 0;
}

enum json_type json_type_of(struct span value)
{
	size_t at = skip_space(value, 0);
	if (!value.at || at == value.len)
		return JSON_NONE;
	switch (value.at[at]) {
	case '{':
		return JSON_OBJECT;
	case '[':
		return JSON_ARRAY;
	case '"':
		return JSON_STRING;
	case 't':
	case 'f':
		return JSON_BOOL;
	case 'n':
		return JSON_NULL;
	default:
		return JSON_NUMBER;
	}
}

/* ---- walking text that was checked before: ends are found by brackets and quotes alone ---- */

size_t json_string_end(struct span text, size_t at)
{
	for (at++; at < text.len; at++) {
		at += json_plain_bytes(text.at + at, text.len - at);
		if (at < text.len && text.at[at] == '"')
			return at + 1;
		if (at < text.len && text.at[at] == '\\')
			at++;
	}
	return text.len;
}

static size_t skip_value(struct span text, size_t at)
{
	if (at == text.len)
		return at;
	if (text.at[at] == '"')
		return json_string_end(text, at);
	if (text.at[at] == '{' || text.at[at] == '[')
		return json_skip_container(text, at);
	while (at < text.len && !json_is_space(text.at[at]) && !strchr(",]}", text.at[at]))
		at++;
	return at;
}

bool json_each(struct span container, struct json_iter *it, struct span *ret_key, struct span *ret_value)
{
	size_t at = skip_space(container, it->at);
	if (at == container.len)
		return false;
	char c = container.at[at];
	if (it->started ? c != ',' : c != '{' && c != '[')
		return false;
	at = skip_space(container, at + 1);
	if (at == container.len || container.at[at] == '}' || container.at[at] == ']')
		return false;
	struct span key = {NULL, 0};
	if (json_type_of(container) == JSON_OBJECT) {
		size_t end = json_string_end(container, at);
		key = (struct span){container.at + at, end - at};
		at = skip_space(container, end);
		at = skip_space(container, at < container.len ? at + 1 : at); /* the colon */
	}
	size_t end = skip_value(container, at);
	*ret_key = key;
	*ret_value = (struct span){container.at + at, end - at};
	it->at = end;
	it->started = true;
	return true;
}

/* ---- strings ---- */

static unsigned hex4(const char *at)
{
	unsigned value = 0;
	for (int i = 0; i < 4; i++) {
		unsigned char c = (unsigned char)at[i];
		value = value << 4 | (c <= '9' ? c - 0x30u : (c | 0x20u) - 0x61u + 10);
	}
	return value;
}

static size_t utf8_put(unsigned c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(first[n] | c);
	return n;
}

/* The \uXXXX at the start of *rest, with the second half of a surrogate pair if that follows. */
static unsigned take_code_point(struct span *rest)
{
	unsigned c = rest->len >= 6 ? hex4(rest->at + 2) : 0xfffd;
	size_t n = MIN(rest->len, (size_t)6);
	if (c >= 0xd800 && c < 0xdc00 && rest->len >= 12 && rest->at[6] == '\\' && rest->at[7] == 'u') {
		unsigned low = hex4(rest->at + 8);
		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			n = 12;
		}
	}
	*rest = (struct span){rest->at + n, rest->len - n};
	return c >= 0xd800 && c < 0xe000 ? 0xfffd : c;
}

/* Takes the next stretch of a string's inside: plain bytes as they stand, or one escape, unescaped into
 * scratch. */
static struct span take_piece(struct span *rest, char scratch[4])
{
	size_t plain = json_plain_bytes(rest->at, rest->len);
	if (plain || rest->len < 2) {
		struct span piece = {rest->at, plain ? plain : rest->len};
		*rest = (struct span){rest->at + piece.len, rest->len - piece.len};
		return piece;
	}
	if (rest->at[1] == 'u')
		return (struct span){scratch, utf8_put(take_code_point(rest), scratch)};
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *known = strchr(from, rest->at[1]);
	scratch[0] = known && *known ? to[known - from] : rest->at[1];
	*rest = (struct span){rest->at + 2, rest->len - 2};
	return (struct span){scratch, 1};
}

/* The bytes between the quotes; -ENODATA, -EINVAL as json_string_raw. */
static int string_inside(struct span value, struct span *ret)
{
	enum json_type type = json_type_of(value);
	if (type == JSON_NONE || type == JSON_NULL)
		return -ENODATA;
	size_t start = skip_space(value, 0), end = type == JSON_STRING ? json_string_end(value, start) : 0;
	if (end < start + 2)
		return -EINVAL;
	*ret = (struct span){value.at + start + 1, end - start - 2};
	return 0;
}

int json_string_raw(struct span value, struct span *ret)
{
	struct span inside;
	int r = string_inside(value, &inside);
	if (r < 0)
		return r;
	if (inside.len && memchr(inside.at, '\\', inside.len))
		return -EINVAL;
	*ret = inside;
	return 0;
}

int json_unescape(struct span value, struct buf *out)
{
	struct span rest;
	int r = string_inside(value, &rest);
	if (r < 0)
		return r;
	size_t before = out->len;
	while (rest.len) {
		char scratch[4];
		struct span piece = take_piece(&rest, scratch);
		if (piece.at == scratch && !scratch[0]) {
			if (out->data) {
				out->len = before;
				out->data[before] = 0;
			}
			return -EILSEQ;
		}
		buf_span_add(out, piece);
	}
	buf_add(out, "", 0); /* so that an empty text, too, is terminated */
	return 0;
}

static bool string_is(struct span value, struct span text)
{
	/* Nearly always without an escape, and in its quotes alone. */
	if (value.len >= 2 && value.at[0] == '"' && !memchr(value.at, '\\', value.len))
		return value.len == text.len + 2 && memcmp(value.at + 1, text.at, text.len) == 0 &&
		       value.at[value.len - 1] == '"';
	struct span rest;
	if (string_inside(value, &rest) < 0)
		return false;
	while (rest.len) {
		char scratch[4];
		struct span piece = take_piece(&rest, scratch);
		if (piece.len > text.len || memcmp(piece.at, text.at, piece.len) != 0)
			return false;
		text = (struct span){text.at + piece.len, text.len - piece.len};
	}
	return text.len == 0;
}

bool json_string_is(struct span value, const char *text)
{
	return string_is(value, span_of(text));
}

/* ---- lookups ---- */

void json_get_all(struct span object, const char *const *names, struct span *values, size_t n)
{
	struct span key, value;
	struct json_iter it = {0};
	for (size_t i = 0; i < n; i++)
		values[i] = (struct span){NULL, 0};
	if (json_type_of(object) == JSON_OBJECT)
		while (json_each(object, &it, &key, &value))
			for (size_t i = 0; i < n; i++)
				if (json_string_is(key, names[i]))
					values[i] = value;
}

struct span json_get(struct span object, const char *key)
{
	struct span value;
	json_get_all(object, &key, &value, 1);
	return value;
}

struct span json_path(struct span object, ...)
{
	va_list ap;
	va_start(ap, object);
	for (const char *key; (key = va_arg(ap, const char *));)
		object = json_get(object, key);
	va_end(ap);
	return object;
}

int json_int(struct span value, int64_t *ret)
{
	enum json_type type = json_type_of(value);
	if (type == JSON_NONE || type == JSON_NULL)
		return -ENODATA;
	if (type != JSON_NUMBER)
		return -EINVAL;
	size_t at = skip_space(value, 0), end = skip_value(value, at);
	bool negative = value.at[at] == '-';
	int64_t sum = 0; /* kept negative, where there is room for one more */
	bool fits = true;
	for (at += negative; at < end; at++) {
		char c = value.at[at];
		if (c < '0' || c > '9')
			return -EINVAL;
		fits = fits && !__builtin_mul_overflow(sum, 10, &sum) &&
		       !__builtin_sub_overflow(sum, c - '0', &sum);
	}
	if (!fits || (!negative && sum == INT64_MIN))
		return -ERANGE;
	*ret = negative ? sum : -sum;
	return 0;
}

/* Of the paths that go through key, what remains behind it. *ret_whole: one ends at key. Returns their
 * number. */
static size_t paths_below(const char *const *paths, size_t n, struct span key, const char **below,
			  bool *ret_whole)
{
	size_t n_below = 0;
	*ret_whole = false;
	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(paths[i], ".");
		if (!string_is(key, (struct span){paths[i], len}))
			continue;
		if (paths[i][len])
			below[n_below++] = paths[i] + len + 1;
		else
			*ret_whole = true;
	}
	return n_below;
}

/* Recursion goes as deep as the longest path has dots. */
static void copy_without(struct span object, const char *const *paths, size_t n, struct buf *out)
{
	struct span key, value;
	struct json_iter it = {0};
	size_t before = skip_space(object, 0) + 1; /* behind the bracket or the last comma */
	bool first = true;
	buf_add(out, object.at, before);
	while (json_each(object, &it, &key, &value)) {
		const char *below[PATHS_MAX];
		bool whole;
		size_t n_below = paths_below(paths, n, key, below, &whole);
		size_t after = skip_space(object, it.at); /* at the comma or the bracket */
		if (!whole) {
			if (!first)
				buf_putc(out, ',');
			first = false;
			buf_add(out, object.at + before, (size_t)(value.at - object.at) - before);
			if (n_below && json_type_of(value) == JSON_OBJECT)
				copy_without(value, below, n_below, out);
			else
				buf_span_add(out, value);
			buf_add(out, object.at + it.at, after - it.at);
		}
		before = after + 1;
	}
	size_t end = it.started ? before - 1 : skip_space(object, before); /* at the bracket that closes it */
	buf_add(out, object.at + end, object.len - end);
}

void json_copy_without(struct span object, const char *const *paths, struct buf *out)
{
	size_t n = 0;
	while (paths[n] && n < PATHS_MAX)
		n++;
	if (json_type_of(object) == JSON_OBJECT)
		copy_without(object, paths, n, out);
	else
		buf_span_add(out, object);
}
