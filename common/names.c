#include "names.h"
#include "buf.h"

static bool is_lower_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
static bool is_letter_or_digit(char c)
{
	return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

static bool is_label_within(struct span s, size_t max)
{
	if (s.len == 0 || s.len > max || !is_lower_or_digit(s.at[0]) || !is_lower_or_digit(s.at[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_lower_or_digit(s.at[i]) && s.at[i] != '-')
			return false;
	return true;
}

bool kube_is_dns_label(struct span s)
{
	return is_label_within(s, 63);
}

/* The API does not bound the single labels of a subdomain at 63. */
bool kube_is_dns_subdomain(struct span s)
{
	if (s.len == 0 || s.len > 253)
		return false;
	for (;;) {
		const char *dot = memchr(s.at, '.', s.len);
		struct span label = {s.at, dot ? (size_t)(dot - s.at) : s.len};
		if (!is_label_within(label, 253))
			return false;
		if (!dot)
			return true;
		s = (struct span){dot + 1, s.len - label.len - 1};
	}
}

static bool is_name_part(struct span s)
{
	if (s.len == 0 || s.len > 63 || !is_letter_or_digit(s.at[0]) || !is_letter_or_digit(s.at[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_letter_or_digit(s.at[i]) && !strchr("-_.", s.at[i]))
			return false;
	return true;
}

bool kube_is_qualified_name(struct span s)
{
	const char *slash = s.len ? memchr(s.at, '/', s.len) : NULL;
	if (!slash)
		return is_name_part(s);
	struct span prefix = {s.at, (size_t)(slash - s.at)};
	return kube_is_dns_subdomain(prefix) &&
	       is_name_part((struct span){slash + 1, s.len - prefix.len - 1});
}

bool kube_is_label_value(struct span s)
{
	return s.len == 0 || is_name_part(s);
}

bool kube_is_path_segment(struct span s)
{
	if (s.len == 0 || span_is(s, ".") || span_is(s, ".."))
		return false;
	for (size_t at = 0, n; at < s.len; at += n) {
		unsigned char c = (unsigned char)s.at[at];
		n = utf8_valid(s.at + at, s.len - at);
		/* U+0080 to U+009F are control characters, too. */
		bool c1 = c == 0xc2 && n == 2 && (unsigned char)s.at[at + 1] < 0xa0;
		if (n == 0 || c < ' ' || c == 0x7f || c1 || c == '/' || c == '%')
			return false;
	}
	return true;
}
