/* Equality of values, and RFC 7386. */
#include "doc_internal.h"

/* ---- numbers, digit by digit: a double would call 9007199254740993 and 9007199254740992 equal ---- */

struct decimal {
	bool negative;
	const char *at;	 /* the digits, with maybe a point among them */
	size_t whole;	 /* digits before the point */
	size_t first, n; /* the significant ones: from the first to the last that is not 0; n is 0 for zero */
	int64_t magnitude; /* power of ten of the first */
};

static char digit(const struct decimal *d, size_t i)
{
	return d->at[i < d->whole ? i : i + 1];
}

/* The number behind an e; false if it is beyond what can be compared. */
static bool parse_exponent(struct span text, int64_t *ret)
{
	bool negative = text.len && text.at[0] == '-';
	int64_t e = 0;
	for (size_t i = text.len && (negative || text.at[0] == '+') ? 1 : 0; i < text.len; i++) {
		if (e > INT64_C(100000000000000))
			return false;
		e = e * 10 + (text.at[i] - '0');
	}
	*ret = negative ? -e : e;
	return true;
}

static bool parse_decimal(struct span text, struct decimal *ret)
{
	struct decimal d = {.negative = text.len && text.at[0] == '-'};
	d.at = text.at + d.negative;
	size_t len = 0, all = text.len - d.negative, digits;
	while (len < all && d.at[len] != 'e' && d.at[len] != 'E')
		len++;
	const char *point = memchr(d.at, '.', len);
	d.whole = point ? (size_t)(point - d.at) : len;
	digits = point ? len - 1 : len;
	int64_t exponent = 0;
	if (len < all && !parse_exponent((struct span){d.at + len + 1, all - len - 1}, &exponent))
		return false;
	while (d.first < digits && digit(&d, d.first) == '0')
		d.first++;
	while (digits > d.first && digit(&d, digits - 1) == '0')
		digits--;
	d.n = digits - d.first;
	d.magnitude = exponent + (int64_t)d.whole - 1 - (int64_t)d.first;
	*ret = d;
	return true;
}

static bool numbers_equal(struct span a, struct span b)
{
	struct decimal x, y;
	if (span_eq(a, b))
		return true;
	if (!parse_decimal(a, &x) || !parse_decimal(b, &y) || x.n != y.n)
		return false;
	if (x.n && (x.negative != y.negative || x.magnitude != y.magnitude))
		return false;
	for (size_t i = 0; i < x.n; i++)
		if (digit(&x, x.first + i) != digit(&y, y.first + i))
			return false;
	return true;
}

/* ---- values ---- */

static bool strings_equal(struct span a, struct span b)
{
	if (span_eq(a, b))
		return true;
	if (!memchr(a.at, '\\', a.len) && !memchr(b.at, '\\', b.len))
		return false;
	_cleanup_(buf_done) struct buf x = {0};
	_cleanup_(buf_done) struct buf y = {0};
	return json_unescape(a, &x) == 0 && json_unescape(b, &y) == 0 && span_eq(buf_span(&x), buf_span(&y));
}

static bool objects_equal(const struct doc_node *a, const struct doc_node *b)
{
	struct doc_members others;
	doc_members_init(&others, b);
	bool equal = true;
	doc_each (member, a) {
		struct doc_node *other = doc_members_get(&others, member->key);
		equal = other && doc_equal(member, other);
		if (!equal)
			break;
	}
	doc_members_done(&others);
	return equal;
}

bool doc_equal(const struct doc_node *a, const struct doc_node *b)
{
	if (!a || !b || a->type != b->type || a->count != b->count)
		return !a && !b;
	switch (a->type) {
	case JSON_OBJECT:
		return objects_equal(a, b);
	case JSON_ARRAY:
		for (const struct doc_node *x = a->child, *y = b->child; x && y; x = x->next, y = y->next)
			if (!doc_equal(x, y))
				return false;
		return true;
	case JSON_NUMBER:
		return numbers_equal(a->text, b->text);
	case JSON_STRING:
		return strings_equal(a->text, b->text);
	case JSON_NONE:
	case JSON_NULL:
	case JSON_BOOL:
		break;
	}
	return span_eq(a->text, b->text);
}

/* ---- merge patch ---- */

struct doc_node *doc_merge_patch(struct doc *d, struct doc_node *target, const struct doc_node *patch)
{
	if (patch->type != JSON_OBJECT)
		return doc_copy(d, patch);
	if (!target || target->type != JSON_OBJECT)
		target = doc_new_object(d);
	struct doc_members members;
	doc_members_init(&members, target);
	doc_each (p, patch) {
		struct doc_node *old = doc_members_get(&members, p->key);
		if (p->type == JSON_NULL)
			doc_remove(target, old);
		else if (old)
			doc_replace(target, old, doc_merge_patch(d, old, p));
		else
			doc_add(d, target, p->key, doc_merge_patch(d, NULL, p));
	}
	doc_members_done(&members);
	return target;
}
