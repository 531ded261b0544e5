#include "condition.h"
#include <ctype.h>

static bool is_alnum(char c)
{
	return isalnum((unsigned char)c);
}

static bool is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

/* ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9] */
static bool is_type_name(struct span s)
{
	if (!s.len || !is_alnum(s.at[0]) || !is_alnum(s.at[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_alnum(s.at[i]) && !is_one_of(s.at[i], "-_."))
			return false;
	return true;
}

/* A DNS subdomain without its limit of length: labels of lower-case letters, digits and inner dashes. */
static bool is_prefix(struct span s)
{
	for (size_t i = 0; i < s.len; i++) {
		bool edge = i == 0 || i + 1 == s.len || s.at[i - 1] == '.' || s.at[i + 1] == '.';
		bool lower = isdigit((unsigned char)s.at[i]) || islower((unsigned char)s.at[i]);
		if (!lower && (edge || (s.at[i] != '-' && s.at[i] != '.')))
			return false;
	}
	return s.len > 0;
}

static bool is_type(struct span s)
{
	const char *slash = s.len ? memchr(s.at, '/', s.len) : NULL;
	if (!slash)
		return is_type_name(s);
	size_t n = (size_t)(slash - s.at);
	return is_prefix((struct span){s.at, n}) && is_type_name((struct span){slash + 1, s.len - n - 1});
}

/* [A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])? */
static bool is_reason(struct span s)
{
	if (!s.len || !isalpha((unsigned char)s.at[0]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_alnum(s.at[i]) && s.at[i] != '_' && (i + 1 == s.len || !is_one_of(s.at[i], ",:")))
			return false;
	return true;
}

static size_t count_characters(struct span s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.len; i++)
		n += ((unsigned char)s.at[i] & 0xc0) != 0x80;
	return n;
}

int condition_check(const struct condition *c, struct err *err)
{
	if (!is_type(c->type) || c->type.len > CONDITION_MAX_TYPE)
		return err_set(err, -EINVAL,
			       ".type: must be 1 to %d letters, digits, '-', '_' and '.', beginning and "
			       "ending with a letter or digit, "
			       "maybe after a DNS name and '/'",
			       CONDITION_MAX_TYPE);
	if (!span_is(c->status, "True") && !span_is(c->status, "False") && !span_is(c->status, "Unknown"))
		return err_set(err, -EINVAL,
			       ".status: must be \"True\", \"False\" or \"Unknown\" (a string)");
	if (!is_reason(c->reason) || c->reason.len > CONDITION_MAX_REASON)
		return err_set(err, -EINVAL,
			       ".reason: must be one word of 1 to %d bytes in CamelCase: a letter, then "
			       "letters, digits, '_', ',' or ':', not "
			       "ending with ',' or ':'",
			       CONDITION_MAX_REASON);
	if (count_characters(c->message) > CONDITION_MAX_MESSAGE)
		return err_set(err, -EINVAL, ".message: must have at most %d characters",
			       CONDITION_MAX_MESSAGE);
	return 0;
}

static struct doc_node *find_type(struct doc *d, struct doc_node *list, struct span type)
{
	doc_each (n, list)
		if (span_eq(doc_string(d, doc_get(n, "type")), type) && type.len)
			return n;
	return NULL;
}

struct doc_node *condition_merge(struct doc *d, struct doc_node *list, const struct condition *conditions,
				 size_t count, int64_t generation, int64_t now_unix_s)
{
	char now[21];
	struct span stamp = span_of(format_rfc3339(now_unix_s, now));
	if (!list || list->type != JSON_ARRAY)
		list = doc_new_array(d);
	for (size_t i = 0; i < count; i++) {
		const struct condition *c = &conditions[i];
		struct doc_node *n = find_type(d, list, c->type);
		bool changed = true;
		if (n) {
			struct span since = doc_string(d, doc_get(n, "lastTransitionTime"));
			changed = !since.len || !span_eq(doc_string(d, doc_get(n, "status")), c->status);
		} else {
			n = doc_new_object(d);
			doc_set(d, n, "type", doc_new_string(d, c->type));
			doc_append(list, n);
		}
		doc_set(d, n, "status", doc_new_string(d, c->status));
		if (generation >= 0)
			doc_set(d, n, "observedGeneration", doc_new_int(d, generation));
		if (changed)
			doc_set(d, n, "lastTransitionTime", doc_new_string(d, stamp));
		doc_set(d, n, "reason", doc_new_string(d, c->reason));
		doc_set(d, n, "message", doc_new_string(d, c->message.at ? c->message : span_of("")));
	}
	return list;
}
