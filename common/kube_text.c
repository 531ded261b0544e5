/* What kube.h has of pure functions: paths, selectors, versions. Linked by programs that speak no HTTP
 * too. */
#include "json_scan.h"
#include "kube.h"
#include "names.h"
#include <ctype.h>
#include <stdio.h>

int kube_split_api_version(const char *api_version, char group[254], char version[64])
{
	const char *slash = strchr(api_version, '/');
	struct span g = {api_version, slash ? (size_t)(slash - api_version) : 0};
	struct span v = span_of(slash ? slash + 1 : api_version);
	if (!kube_is_dns_label(v) || (slash && !kube_is_dns_subdomain(g)))
		return -EINVAL;
	snprintf(group, 254, SPAN_FMT, SPAN_ARG(g));
	snprintf(version, 64, SPAN_FMT, SPAN_ARG(v));
	return 0;
}

/* ---- paths ---- */

static void add_segment(struct buf *out, struct span s)
{
	buf_putc(out, '/');
	buf_url(out, s);
}

void kube_path(struct buf *out, const struct kube_resource *r, struct span namespace, struct span name,
	       const char *subresource)
{
	if (*r->group) {
		buf_puts(out, "/apis");
		add_segment(out, span_of(r->group));
	} else {
		buf_puts(out, "/api");
	}
	add_segment(out, span_of(r->version));
	if (r->namespaced && namespace.len) {
		buf_puts(out, "/namespaces");
		add_segment(out, namespace);
	}
	add_segment(out, span_of(r->plural));
	if (name.at)
		add_segment(out, name);
	if (subresource)
		add_segment(out, span_of(subresource));
}

void kube_query(struct buf *path, const char *name, struct span value)
{
	bool first = !path->len || !memchr(path->data, '?', path->len);
	buf_putc(path, first ? '?' : '&');
	buf_url(path, span_of(name));
	buf_putc(path, '=');
	buf_url(path, value);
}

/* ---- versions ---- */

uint64_t kube_version(struct span text)
{
	uint64_t v = 0;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned)(text.at[i] - '0');
		bool wrong = text.at[i] < '0' || text.at[i] > '9' || (digit == 0 && v == 0);
		if (wrong || __builtin_mul_overflow(v, UINT64_C(10), &v) ||
		    __builtin_add_overflow(v, digit, &v))
			return 0;
	}
	return v == UINT64_MAX ? 0 : v;
}

/* ---- label selectors ----
 *
 * selector    = [ requirement { "," requirement } ]
 * requirement = key | "!" key | key ("=" | "==" | "!=") value | key ("in" | "notin") "(" value { "," value }
 * ")" | key (">" | "<") integer
 *
 * A value may be empty. "!=" and "notin" hold where the label is absent. */

enum { KEY_MAX = 253 + 1 + 63, VALUE_MAX = 63 };

struct selector {
	const char *text, *at;
	struct span labels;
	struct err *err;
};

static int selector_error(const struct selector *s, const char *what)
{
	return err_set(s->err, -EINVAL, "label selector \"%s\", at byte %zu: %s", s->text,
		       (size_t)(s->at - s->text) + 1, what);
}

static void skip_space(struct selector *s)
{
	while (isspace((unsigned char)*s->at))
		s->at++;
}

static struct span read_word(struct selector *s)
{
	skip_space(s);
	struct span w = {s->at, 0};
	while (isalnum((unsigned char)*s->at) || (*s->at && strchr("-_./", *s->at)))
		s->at++;
	w.len = (size_t)(s->at - w.at);
	skip_space(s);
	return w;
}

static bool take(struct selector *s, const char *symbol)
{
	skip_space(s);
	size_t n = strlen(symbol);
	if (strncmp(s->at, symbol, n) != 0)
		return false;
	s->at += n;
	return true;
}

/* The label's value, as JSON; absent: none. */
static struct span label_get(const struct selector *s, struct span key)
{
	char name[KEY_MAX + 1];
	snprintf(name, sizeof name, SPAN_FMT, SPAN_ARG(key));
	if (json_type_of(s->labels) != JSON_OBJECT)
		return (struct span){0};
	struct span value = json_get(s->labels, name);
	return json_type_of(value) == JSON_STRING ? value : (struct span){0};
}

static bool label_is(struct span label, struct span value)
{
	char text[VALUE_MAX + 1];
	snprintf(text, sizeof text, SPAN_FMT, SPAN_ARG(value));
	return label.at && json_string_is(label, text);
}

/* One value: -EINVAL, or whether the label has it. */
static int match_value(struct selector *s, struct span label)
{
	struct span value = read_word(s);
	if (!kube_is_label_value(value)) {
		s->at = value.at;
		return selector_error(s, "this can be no label's value");
	}
	return label_is(label, value);
}

static int match_set(struct selector *s, struct span label)
{
	if (!take(s, "("))
		return selector_error(s, "\"(\" is wanted here");
	if (take(s, ")"))
		return selector_error(s, "at least one value is wanted between the brackets");
	bool any = false;
	do {
		int r = match_value(s, label);
		if (r < 0)
			return r;
		any |= r;
	} while (take(s, ","));
	return take(s, ")") ? any : selector_error(s, "\")\" or \",\" is wanted here");
}

static bool to_integer(struct span text, int64_t *ret)
{
	char digits[VALUE_MAX + 1], *end;
	snprintf(digits, sizeof digits, SPAN_FMT, SPAN_ARG(text));
	errno = 0;
	*ret = strtoll(digits, &end, 10);
	return text.len && !*end && !errno;
}

static int match_order(struct selector *s, struct span label, bool greater)
{
	struct span text = read_word(s);
	int64_t limit, value;
	if (!to_integer(text, &limit)) {
		s->at = text.at;
		return selector_error(s, "an integer is wanted here");
	}
	struct span raw;
	if (!label.at || json_string_raw(label, &raw) || !to_integer(raw, &value))
		return 0;
	return greater ? value > limit : value < limit;
}

static int match_requirement(struct selector *s)
{
	bool negated = take(s, "!");
	struct span key = read_word(s);
	if (!kube_is_qualified_name(key)) {
		s->at = key.at;
		return selector_error(s, "a label's name is wanted here");
	}
	struct span label = label_get(s, key);
	if (negated)
		return !label.at;
	int r;
	if (take(s, "!="))
		return (r = match_value(s, label)) < 0 ? r : !r;
	if (take(s, "==") || take(s, "="))
		return match_value(s, label);
	if (take(s, ">"))
		return match_order(s, label, true);
	if (take(s, "<"))
		return match_order(s, label, false);
	if (!*s->at || *s->at == ',')
		return label.at != NULL;
	struct span word = read_word(s);
	if (span_is(word, "in"))
		return match_set(s, label);
	if (span_is(word, "notin"))
		return (r = match_set(s, label)) < 0 ? r : !r;
	s->at = word.at;
	return selector_error(s, "one of =, ==, !=, in, notin, > and < is wanted here");
}

int kube_selector_match(const char *selector, struct span labels_object, struct err *err)
{
	struct selector s = {.text = selector, .at = selector, .labels = labels_object, .err = err};
	skip_space(&s);
	if (!*s.at)
		return 1;
	bool all = true;
	do {
		/* To the end even when it cannot match any more: an error is an error whatever the labels
		 * are. */
		int r = match_requirement(&s);
		if (r < 0)
			return r;
		all &= r;
		skip_space(&s);
	} while (take(&s, ","));
	return *s.at ? selector_error(&s, "\",\" is wanted here") : all;
}
