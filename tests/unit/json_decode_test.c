/* tests/data/decode/cases: what is made of odd JSON. decode_go_test.sh asks Go whether the table is right about it. */
#include "json_scan.h"
#include <criterion/criterion.h>
#include <stdio.h>

/* "\xNN" is a byte, "\\" a backslash. */
static void put_unescaped(struct buf *out, struct span text)
{
	unsigned byte;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] != '\\') {
			buf_putc(out, text.at[i]);
		} else if (text.at[++i] == '\\') {
			buf_putc(out, '\\');
		} else {
			cr_assert_eq(sscanf(text.at + i, "x%2x", &byte), 1);
			buf_putc(out, (char)byte);
			i += 2;
		}
	}
}

static void put_input(struct buf *out, struct span text)
{
	size_t levels;
	const char *deep = memmem(text.at, text.len, "deep(", 5);
	if (!deep) {
		put_unescaped(out, text);
		return;
	}
	cr_assert_eq(sscanf(deep, "deep(%zu)", &levels), 1);
	const char *after = memchr(deep, ')', text.len - (size_t)(deep - text.at));
	buf_add(out, text.at, (size_t)(deep - text.at));
	for (size_t i = 0; i < levels; i++)
		buf_putc(out, '[');
	buf_putc(out, '1');
	for (size_t i = 0; i < levels; i++)
		buf_putc(out, ']');
	buf_add(out, after + 1, text.len - (size_t)(after + 1 - text.at));
}

static void tell(struct span text, struct buf *out)
{
	_cleanup_(buf_done) struct buf valid = {0};
	if (json_check(text, NULL) < 0) {
		buf_puts(out, "refused");
		return;
	}
	buf_utf8(&valid, text); /* as the watcher does with every object */
	struct span v = json_get(buf_span(&valid), "v");
	switch (json_type_of(v)) {
	case JSON_NONE:
		buf_puts(out, "absent");
		break;
	case JSON_NULL:
		buf_puts(out, "null");
		break;
	case JSON_NUMBER:
		buf_puts(out, "number ");
		buf_span_add(out, v);
		break;
	case JSON_STRING:
		buf_puts(out, "string ");
		if (json_unescape(v, out) == -EILSEQ)
			buf_puts(out, "that holds \\u0000");
		break;
	case JSON_OBJECT:
		buf_puts(out, "object ");
		buf_span_add(out, v);
		break;
	case JSON_ARRAY:
		buf_puts(out, "deep");
		break;
	case JSON_BOOL:
		buf_puts(out, "bool");
	}
}

static void check_line(struct span line)
{
	struct span column[3];
	for (int i = 0; i < 3; i++) {
		const char *tab = memchr(line.at, '\t', line.len);
		column[i] = (struct span){line.at, tab ? (size_t)(tab - line.at) : line.len};
		cr_assert_eq(!tab, i == 2, SPAN_FMT, SPAN_ARG(line));
		line = (struct span){line.at + column[i].len + 1, line.len - column[i].len - (i < 2)};
	}
	struct buf input = {0}, expected = {0}, got = {0};
	put_input(&input, column[0]);
	put_unescaped(&expected, span_is(column[2], "=") ? column[1] : column[2]);
	/* Of its own size, so that a sanitizer sees a look beyond its end. */
	char *exact = xmalloc(input.len + !input.len);
	memcpy(exact, input.data ? input.data : "", input.len);
	tell((struct span){exact, input.len}, &got);
	cr_expect(span_eq(buf_span(&got), buf_span(&expected)), SPAN_FMT ": \"%s\" is not \"%s\"",
		  SPAN_ARG(column[0]), buf_str(&got), buf_str(&expected));
	free(exact);
	buf_done(&input);
	buf_done(&expected);
	buf_done(&got);
}

Test(json_decode, as_the_table_says)
{
	const char *source = getenv("SRC");
	_cleanup_(free_ptr) char *path = xasprintf("%s/tests/data/decode/cases", source ? source : ".");
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0, cases = 0;
	cr_assert(f, "%s", path);
	for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
		if (n == 1 || line[0] == '#')
			continue;
		check_line((struct span){line, (size_t)n - 1});
		cases++;
	}
	free(line);
	fclose(f);
	cr_assert(cases > 80);
}
