#include "config_internal.h"
#include <stdio.h>
#include <strings.h>

void config_errors_add(struct config_errors *e, const char *file, size_t line, size_t column, bool warning,
		       const char *text)
{
	/* Powers of two: grown when count reaches one. */
	if ((e->count & (e->count - 1)) == 0)
		e->at = xrealloc(e->at, (e->count ? e->count * 2 : 1) * sizeof(*e->at));
	e->at[e->count++] = (struct config_error){xstrdup(file), line, column, xstrdup(text), warning};
	e->fatal += !warning;
}

void config_errors_done(struct config_errors *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->count; i++) {
		free(e->at[i].file);
		free(e->at[i].text);
	}
	free(e->at);
	*e = (struct config_errors){0};
}

void config_errors_print(const struct config_errors *e, struct buf *out)
{
	for (size_t i = 0; i < e->count; i++) {
		const struct config_error *one = &e->at[i];
		buf_puts(out, one->file);
		if (one->line)
			buf_printf(out, ":%zu:%zu", one->line, one->column);
		buf_printf(out, ": %s: %s\n", one->warning ? "warning" : "error", one->text);
	}
}

static int by_place(const void *a, const void *b)
{
	const struct config_error *x = a, *y = b;
	int c = strcmp(x->file, y->file);
	if (c)
		return c;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->column != y->column)
		return x->column < y->column ? -1 : 1;
	return strcmp(x->text, y->text);
}

void config_errors_sort(struct config_errors *e, size_t from)
{
	if (e->count > from)
		qsort(e->at + from, e->count - from, sizeof(*e->at), by_place);
}

void config_say(struct config_reader *r, const char *file, size_t line, size_t column, bool warning,
		const char *text)
{
	if (r->file_count < CONFIG_ERRORS_MAX)
		config_errors_add(r->errors, file, line, column, warning, text);
	else if (r->file_count == CONFIG_ERRORS_MAX) /* one more line for the rest, and the file is refused */
		config_errors_add(r->errors, file, line, column, false,
				  "too many errors in this file: the rest is not shown");
	r->file_count++;
}

_printf_(4, 0) static void say(struct config_reader *r, const struct yaml_doc_node *at, bool warning,
			       const char *fmt, va_list ap)
{
	_cleanup_(buf_done) struct buf text = {0};
	if (r->where_len)
		buf_printf(&text, "%s: ", r->where);
	buf_vprintf(&text, fmt, ap);
	config_say(r, r->file, at ? at->line : 0, at ? at->column : 0, warning, buf_str(&text));
}

void config_complain(struct config_reader *r, const struct yaml_doc_node *at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	say(r, at, false, fmt, ap);
	va_end(ap);
}

void config_warn(struct config_reader *r, const struct yaml_doc_node *at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	say(r, at, true, fmt, ap);
	va_end(ap);
}

size_t config_enter(struct config_reader *r, const char *fmt, ...)
{
	size_t before = r->where_len, room = sizeof(r->where) - before;
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(r->where + before, room, fmt, ap);
	va_end(ap);
	r->where_len = before + MIN((size_t)n, room - 1);
	return before;
}

void config_leave(struct config_reader *r, size_t len)
{
	r->where_len = len;
	r->where[len] = 0;
}

/* What was found, for a person: a short quote of a scalar, control bytes made visible. */
static void describe(const struct yaml_doc_node *n, struct buf *out)
{
	enum { QUOTE_MAX = 64 };
	if (n->type != YAML_SCALAR) {
		buf_puts(out, n->type == YAML_MAPPING ? "a mapping" : "a list");
		return;
	}
	if (yaml_doc_is_null(n)) {
		buf_printf(out, "nothing%s%s%s", *n->text ? " (" : "", n->text, *n->text ? ")" : "");
		return;
	}
	size_t len = strlen(n->text), shown = MIN(len, (size_t)QUOTE_MAX);
	while (shown < len && shown && ((unsigned char)n->text[shown] & 0xC0) == 0x80)
		shown--;
	if (n->quoted) {
		buf_puts(out, "the text ");
		buf_json_string(out, (struct span){n->text, shown});
	} else {
		buf_add(out, n->text, shown);
	}
	if (shown < len)
		buf_puts(out, "...");
}

void config_refuse(struct config_reader *r, const struct yaml_doc_node *n, const char *allowed,
		   const char *cure)
{
	_cleanup_(buf_done) struct buf found = {.limit = 512};
	describe(n, &found);
	config_complain(r, n, "found %s; allowed: %s%s%s", buf_str(&found), allowed, cure ? "; " : "",
			cure ? cure : "");
}

/* ---- did you mean ---- */

/* Edits (insert, delete, replace, swap of neighbours) between two short words; case costs nothing. More than
 * 30 bytes: far. */
static unsigned distance(const char *a, const char *b)
{
	enum { WORD_MAX = 30 };
	size_t n = strlen(a), m = strlen(b);
	unsigned d[WORD_MAX + 1][WORD_MAX + 1];
	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= n; i++)
		d[i][0] = (unsigned)i;
	for (size_t k = 0; k <= m; k++)
		d[0][k] = (unsigned)k;
	for (size_t i = 1; i <= n; i++) {
		for (size_t k = 1; k <= m; k++) {
			bool same = strncasecmp(a + i - 1, b + k - 1, 1) == 0;
			unsigned best = MIN(d[i - 1][k] + 1, d[i][k - 1] + 1);
			best = MIN(best, d[i - 1][k - 1] + !same);
			if (i > 1 && k > 1 && strncasecmp(a + i - 1, b + k - 2, 1) == 0 &&
			    strncasecmp(a + i - 2, b + k - 1, 1) == 0)
				best = MIN(best, d[i - 2][k - 2] + 1);
			d[i][k] = best;
		}
	}
	return d[n][m];
}

const char *config_did_you_mean(const char *word, const char *const *words)
{
	const char *best = NULL;
	unsigned least = 3; /* two edits at most, and fewer than half of the word */
	for (; *words; words++) {
		unsigned d = distance(word, *words);
		if (d < least && d * 2 < strlen(word) + 1) {
			least = d;
			best = *words;
		}
	}
	return best;
}
