/* JSON from a template: printf's conversions, JSON's quoting. */
#include "sdk.h"
#include <math.h>
#include <stdio.h>

struct conversion {
	int precision;	/* -1: none */
	unsigned longs; /* l, ll; z counts as l */
};

/* The inside of a JSON string: what buf_json_string() makes, without its quotes. */
static void add_inside(struct buf *out, struct span text)
{
	_cleanup_(buf_done) struct buf quoted = {0};
	buf_json_string(&quoted, text);
	if (quoted.len >= 2)
		buf_add(out, quoted.data + 1, quoted.len - 2);
}

static void add_string(struct buf *out, bool inside, const char *s, int precision)
{
	struct span text = {s, s ? strnlen(s, precision < 0 ? SIZE_MAX : (size_t)precision) : 0};
	if (!s)
		buf_puts(out, inside ? "" : "null");
	else if (inside)
		add_inside(out, text);
	else
		buf_json_string(out, text);
}

static void add_value(struct buf *out, bool inside, const struct reconcile_value *v)
{
	struct span text = v ? (struct span){v->at, v->length} : (struct span){0};
	if (!inside) {
		buf_span_add(out, text.at ? text : span_of("null"));
		return;
	}
	/* A string's own text goes in as text; what is no string, as the JSON that it is. */
	_cleanup_(buf_done) struct buf plain = {0};
	if (text.at && json_type_of(text) == JSON_STRING && json_unescape(text, &plain) == 0)
		add_inside(out, buf_span(&plain));
	else if (text.at)
		add_inside(out, text);
}

static void add_double(struct buf *out, double d)
{
	if (isfinite(d))
		buf_printf(out, "%.17g", d);
	else
		buf_puts(out, "null");
}

static int64_t next_signed(va_list *ap, unsigned longs)
{
	return longs == 0 ? va_arg(*ap, int) : longs == 1 ? va_arg(*ap, long) : va_arg(*ap, long long);
}

static uint64_t next_unsigned(va_list *ap, unsigned longs)
{
	return longs == 0   ? va_arg(*ap, unsigned)
	       : longs == 1 ? va_arg(*ap, unsigned long)
			    : va_arg(*ap, unsigned long long);
}

/* Expands what follows a '%'; returns the character after it, NULL if it is no conversion of ours. */
static const char *convert(struct buf *out, bool inside, const char *p, va_list *ap)
{
	struct conversion c = {.precision = -1};
	if (*p == '.' && p[1] == '*') {
		c.precision = va_arg(*ap, int);
		p += 2;
	}
	for (; *p == 'l' || *p == 'z'; p++)
		c.longs++;
	if (c.precision >= 0 && *p != 's')
		return NULL;
	switch (*p) {
	case '%':
		buf_putc(out, '%');
		break;
	case 's':
		add_string(out, inside, va_arg(*ap, const char *), c.precision);
		break;
	case 'd':
	case 'i':
		buf_printf(out, "%lld", (long long)next_signed(ap, c.longs));
		break;
	case 'u':
		buf_printf(out, "%llu", (unsigned long long)next_unsigned(ap, c.longs));
		break;
	case 'f':
	case 'g':
		add_double(out, va_arg(*ap, double));
		break;
	case 'c':
		buf_puts(out, va_arg(*ap, int) ? "true" : "false");
		break;
	case 'p':
		add_value(out, inside, va_arg(*ap, const struct reconcile_value *));
		break;
	default:
		return NULL;
	}
	return p + 1;
}

int sdk_template(struct buf *out, struct err *err, const char *template, va_list args)
{
	char quote = 0; /* inside of a string: the one that ends it */
	size_t start = out->len;
	int r = 0;
	va_list ap;
	va_copy(ap, args); /* a va_list parameter may be an array: its address would be another type's */
	for (const char *p = template; *p;) {
		if (*p == '%') {
			const char *next = convert(out, quote != 0, p + 1, &ap);
			if (!next) {
				r = err_set(err, -EINVAL, "template: unknown conversion at \"%.20s\"", p);
				break;
			}
			p = next;
			continue;
		}
		if (quote && *p == '\\' && p[1]) { /* an escape of JSON, or \' */
			buf_add(out, p + (p[1] == '\''), p[1] == '\'' ? 1 : 2);
			p += 2;
			continue;
		}
		if ((*p == '"' || *p == '\'') && (!quote || quote == *p)) {
			quote = quote ? 0 : *p;
			buf_putc(out, '"');
		} else if (*p == '"') {
			buf_puts(out, "\\\"");
		} else {
			buf_putc(out, *p == '\n' && !quote ? ' ' : *p); /* a response is one line */
		}
		p++;
	}
	va_end(ap);
	if (r < 0)
		return r;
	if (buf_failed(out))
		return err_set(err, -EMSGSIZE, "template: more than %llu bytes",
			       (unsigned long long)SDK_RESPONSE_MAX);
	struct err why = {{0}};
	if (json_check((struct span){buf_str(out) + start, out->len - start}, &why) < 0)
		return err_set(err, -EINVAL, "template gives no JSON: %.200s: %.300s", why.text,
			       buf_str(out) + start);
	return 0;
}
