#include "config_internal.h"
#include "names.h"
#include "path.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- strict scalars ---- */

static const struct {
	const char *name;
	int64_t ns;
} duration_units[] = {
    /* longest first, so that "ms" is not read as "m" */
    {"ns", 1},	       {"us", NS_PER_US}, {"\xC2\xB5s", NS_PER_US}, {"\xCE\xBCs", NS_PER_US},
    {"ms", NS_PER_MS}, {"s", NS_PER_S},	  {"m", 60 * NS_PER_S},	    {"h", 3600 * NS_PER_S},
};

/* "1.5": digits with a fraction, as whole and fraction / scale. Returns bytes taken, 0 if there is no number.
 * -1: too large. */
static int decimal_read(const char *s, uint64_t *ret_whole, uint64_t *ret_fraction, uint64_t *ret_scale)
{
	const char *start = s;
	uint64_t whole = 0, fraction = 0, scale = 1;
	size_t digits = 0;
	for (; *s >= '0' && *s <= '9'; s++, digits++) {
		if (whole > (UINT64_MAX - 9) / 10)
			return -1;
		whole = whole * 10 + (uint64_t)(*s - '0');
	}
	if (*s == '.') {
		for (s++; *s >= '0' && *s <= '9'; s++, digits++) {
			if (scale > UINT64_C(100000000000000000)) {
				if (*s != '0')
					return -1;
				continue;
			}
			fraction = fraction * 10 + (uint64_t)(*s - '0');
			scale *= 10;
		}
	}
	if (!digits || s - start > 64)
		return 0;
	*ret_whole = whole;
	*ret_fraction = fraction;
	*ret_scale = scale;
	return (int)(s - start);
}

int parse_duration(const char *text, int64_t *ret_ns)
{
	unsigned __int128 total = 0;
	const char *s = text;
	if (*s == '-')
		return strcmp(s, "-0") == 0 ? -EINVAL : -ERANGE;
	if (strcmp(s, "0") == 0) {
		*ret_ns = 0;
		return 0;
	}
	if (!*s)
		return -EINVAL;
	while (*s) {
		uint64_t whole, fraction, scale;
		int n = decimal_read(s, &whole, &fraction, &scale);
		if (n <= 0)
			return n ? -ERANGE : -EINVAL;
		s += n;
		int64_t unit = 0;
		for (size_t i = 0; i < ARRAY_SIZE(duration_units) && !unit; i++) {
			size_t len = strlen(duration_units[i].name);
			if (strncmp(s, duration_units[i].name, len) == 0) {
				unit = duration_units[i].ns;
				s += len;
			}
		}
		if (!unit)
			return -EINVAL;
		total += (unsigned __int128)whole * (uint64_t)unit +
			 (unsigned __int128)fraction * (uint64_t)unit / scale;
		if (total > INT64_MAX)
			return -ERANGE;
	}
	*ret_ns = (int64_t)total;
	return 0;
}

/* The multiplier of a quantity's suffix; 0: none such. */
static uint64_t quantity_suffix(const char *s)
{
	static const char decimal[] = "kMGTPE", binary[] = "KMGTPE";
	if (!*s)
		return 1;
	if (s[1] == 0) {
		const char *p = strchr(decimal, *s);
		uint64_t m = 1;
		for (const char *q = decimal; p && q <= p; q++)
			m *= 1000;
		return p ? m : 0;
	}
	if (s[1] == 'i' && s[2] == 0) {
		const char *p = strchr(binary, *s);
		return p ? UINT64_C(1) << (10 * (p - binary + 1)) : 0;
	}
	if ((*s == 'e' || *s == 'E') && s[1] >= '0' && s[1] <= '9' &&
	    (s[2] == 0 || (s[2] >= '0' && s[2] <= '9' && !s[3]))) {
		int exponent = s[2] ? (s[1] - '0') * 10 + s[2] - '0' : s[1] - '0';
		uint64_t m = 1;
		for (int i = 0; i < exponent && exponent <= 18; i++)
			m *= 10;
		return exponent <= 18 ? m : 0;
	}
	return 0;
}

int parse_quantity(const char *text, uint64_t *ret_bytes)
{
	uint64_t whole, fraction, scale;
	if (*text == '-')
		return -ERANGE;
	int n = decimal_read(text, &whole, &fraction, &scale);
	if (n <= 0)
		return n ? -ERANGE : -EINVAL;
	uint64_t multiplier = quantity_suffix(text + n);
	if (!multiplier)
		return -EINVAL;
	unsigned __int128 part = (unsigned __int128)fraction * multiplier;
	unsigned __int128 total = (unsigned __int128)whole * multiplier + part / scale;
	if (part % scale)
		return -EINVAL; /* not whole bytes */
	if (total > INT64_MAX)
		return -ERANGE;
	*ret_bytes = (uint64_t)total;
	return 0;
}

int parse_u32(const char *text, uint32_t min, uint32_t max, uint32_t *ret)
{
	uint64_t v = 0;
	size_t n = strspn(text, "0123456789");
	if (!n || text[n] || (*text == '0' && n > 1))
		return -EINVAL;
	if (n > 10)
		return -ERANGE;
	for (const char *s = text; *s; s++)
		v = v * 10 + (uint64_t)(*s - '0');
	if (v < min || v > max)
		return -ERANGE;
	*ret = (uint32_t)v;
	return 0;
}

char *format_duration(int64_t ns, char buf[32])
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {{"h", 3600 * NS_PER_S}, {"m", 60 * NS_PER_S}, {"s", NS_PER_S},
		     {"ms", NS_PER_MS},	     {"us", NS_PER_US},	   {"ns", 1}};
	size_t len = 0;
	if (ns <= 0) {
		memcpy(buf, "0s", 3);
		return buf;
	}
	/* Two parts at most: 1h30m, 12m5s, 1s500ms, 250ms; what is smaller would not be read anyway. */
	unsigned parts = 0;
	for (size_t i = 0; i < ARRAY_SIZE(units) && parts < 2; i++) {
		int64_t whole = ns / units[i].ns;
		ns %= units[i].ns;
		if (whole)
			len += (size_t)snprintf(buf + len, 32 - len, "%" PRId64 "%s", whole, units[i].name);
		parts += whole > 0 || parts;
	}
	return buf;
}

char *format_quantity(uint64_t bytes, char buf[32])
{
	static const char units[] = "KMGTPE";
	size_t u = 0;
	while (bytes && bytes % 1024 == 0 && u < sizeof(units) - 1) {
		bytes /= 1024;
		u++;
	}
	if (u)
		snprintf(buf, 32, "%" PRIu64 "%ci", bytes, units[u - 1]);
	else
		snprintf(buf, 32, "%" PRIu64, bytes);
	return buf;
}

/* ---- scalars of a file ---- */

bool config_is_mapping(struct config_reader *r, const struct yaml_doc_node *n)
{
	if (n->type == YAML_MAPPING)
		return true;
	config_refuse(r, n, "a mapping", NULL);
	return false;
}

bool config_is_sequence(struct config_reader *r, const struct yaml_doc_node *n)
{
	if (n->type == YAML_SEQUENCE)
		return true;
	config_refuse(r, n, "a list",
		      n->type == YAML_SCALAR && !yaml_doc_is_null(n) ? "write it in brackets: [...]" : NULL);
	return false;
}

bool config_text(struct config_reader *r, const struct yaml_doc_node *n, config_check *check,
		 const char *allowed, const char **ret)
{
	bool scalar = n->type == YAML_SCALAR;
	bool plain_text = scalar && yaml_doc_meaning(n) == YAML_MEANS_TEXT;
	bool fits = scalar && strlen(n->text) <= CONFIG_TEXT_MAX && (!check || check(span_of(n->text)));
	if (plain_text && fits) {
		*ret = n->text;
		return true;
	}
	/* Quoting is a cure only for what would be right as a text. */
	config_refuse(r, n, allowed ? allowed : "a text",
		      scalar && *n->text && !plain_text && fits ? "quote it" : NULL);
	return false;
}

bool config_bool(struct config_reader *r, const struct yaml_doc_node *n, bool *ret)
{
	static const char *const yes[] = {"yes", "Yes", "YES", "y", "Y", "on", "On", "ON"};
	static const char *const no[] = {"no", "No", "NO", "n", "N", "off", "Off", "OFF"};
	static const char *const words[] = {"true", "True", "TRUE", "false", "False", "FALSE"};
	const char *cure = NULL;
	if (n->type == YAML_SCALAR) {
		if (yaml_doc_meaning(n) == YAML_MEANS_BOOL) {
			*ret = *n->text == 't' || *n->text == 'T';
			return true;
		}
		for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
			if (strcmp(n->text, yes[i]) == 0)
				cure = "write true";
		for (size_t i = 0; i < ARRAY_SIZE(no); i++)
			if (strcmp(n->text, no[i]) == 0)
				cure = "write false";
		for (size_t i = 0; i < ARRAY_SIZE(words); i++)
			if (strcmp(n->text, words[i]) == 0)
				cure = "remove the quotes";
	}
	config_refuse(r, n, "true or false", cure);
	return false;
}

bool config_u32(struct config_reader *r, const struct yaml_doc_node *n, uint32_t min, uint32_t max,
		uint32_t *ret)
{
	char allowed[96];
	const char *cure = NULL;
	uint32_t v;
	if (n->type == YAML_SCALAR) {
		int c = parse_u32(n->text, min, max, &v);
		if (c == 0 && !n->quoted) {
			*ret = v;
			return true;
		}
		if (c == 0)
			cure = "remove the quotes";
		else if (c == -EINVAL && n->text[strcspn(n->text, "0123456789")])
			cure = "write plain decimal digits, without leading zero, point, exponent or _";
	}
	snprintf(allowed, sizeof(allowed), "a whole number from %" PRIu32 " to %" PRIu32, min, max);
	config_refuse(r, n, allowed, cure);
	return false;
}

bool config_number(struct config_reader *r, const struct yaml_doc_node *n, double min, double max,
		   double *ret)
{
	char allowed[96];
	const char *cure = NULL;
	if (n->type == YAML_SCALAR) {
		struct yaml_doc_node plain = *n;
		plain.quoted = false;
		if (yaml_doc_meaning(&plain) == YAML_MEANS_NUMBER) {
			double v = strtod(n->text, NULL);
			bool in_range = isfinite(v) && v >= min && v <= max;
			if (in_range && !n->quoted) {
				*ret = v;
				return true;
			}
			if (in_range)
				cure = "remove the quotes";
		} else if (n->text[strcspn(n->text, "0123456789")]) {
			cure = "write it as in 0.5 or 20";
		}
	}
	snprintf(allowed, sizeof(allowed), "a number from %g to %g", min, max);
	config_refuse(r, n, allowed, cure);
	return false;
}

bool config_duration(struct config_reader *r, const struct yaml_doc_node *n, int64_t min, int64_t max,
		     int64_t *ret)
{
	char allowed[160], low[32], high[32], cure[96] = "";
	if (n->type == YAML_SCALAR && !yaml_doc_is_null(n)) {
		int64_t v;
		int c = parse_duration(n->text, &v);
		size_t digits = strspn(n->text, "0123456789.");
		if (c == 0 && v >= min && v <= max) {
			*ret = v;
			return true;
		}
		if (digits && !n->text[digits] && c == -EINVAL)
			snprintf(cure, sizeof(cure), "add the unit, as in %.40ss", n->text);
		else if (digits && strcmp(n->text + digits, "d") == 0)
			snprintf(cure, sizeof(cure), "there is no unit for days: write hours, as in 24h");
	}
	snprintf(allowed, sizeof(allowed), "a duration from %s to %s, written as 500ms, 30s, 5m or 1h30m",
		 format_duration(min, low), format_duration(max, high));
	config_refuse(r, n, allowed, *cure ? cure : NULL);
	return false;
}

bool config_quantity(struct config_reader *r, const struct yaml_doc_node *n, uint64_t min, uint64_t max,
		     uint64_t *ret)
{
	char allowed[160], low[32], high[32];
	if (n->type == YAML_SCALAR && !yaml_doc_is_null(n)) {
		uint64_t v;
		if (parse_quantity(n->text, &v) == 0 && v >= min && v <= max) {
			*ret = v;
			return true;
		}
	}
	snprintf(allowed, sizeof(allowed),
		 "whole bytes from %s to %s, written as 256Mi, 1Gi or 500M (upper and lower case matter)",
		 format_quantity(min, low), format_quantity(max, high));
	config_refuse(r, n, allowed, NULL);
	return false;
}

bool config_texts(struct config_reader *r, const struct yaml_doc_node *n, size_t min, config_check *check,
		  const char *allowed, char ***ret)
{
	char **list = NULL;
	size_t i = 0;
	bool good = config_is_sequence(r, n);
	if (!good)
		return false;
	for (const struct yaml_doc_node *c = n->child; c; c = c->next, i++) {
		const char *text;
		if (i == CONFIG_LIST_MAX) {
			config_complain(r, c, "more than %d entries", CONFIG_LIST_MAX);
			good = false;
			break;
		}
		size_t here = config_enter(r, "[%zu]", i);
		if (config_text(r, c, check, allowed, &text))
			texts_add(&list, xstrdup(text));
		else
			good = false;
		config_leave(r, here);
	}
	if (good && i < min) {
		config_complain(r, n, "found an empty list; allowed: at least %zu %s", min,
				min == 1 ? "entry" : "entries");
		good = false;
	}
	if (!good) {
		texts_free(list);
		return false;
	}
	if (!list)
		list = xcalloc(1, sizeof(*list));
	*ret = list;
	return true;
}

/* ---- checks ---- */

bool config_check_any(struct span s)
{
	return s.len > 0;
}

bool config_check_api_version(struct span s)
{
	const char *slash = s.len ? memchr(s.at, '/', s.len) : NULL;
	struct span version = s;
	if (slash) {
		struct span group = {s.at, (size_t)(slash - s.at)};
		version = (struct span){slash + 1, s.len - group.len - 1};
		if (!kube_is_dns_subdomain(group))
			return false;
	}
	return kube_is_dns_label(version) && version.at[0] >= 'a';
}

bool config_check_kind(struct span s)
{
	if (s.len == 0 || s.len > 63 || s.at[0] < 'A' || s.at[0] > 'Z')
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')))
			return false;
	}
	return true;
}

bool config_check_path(struct span s)
{
	struct path path = {0};
	_cleanup_(free_ptr) char *text = span_dup(s);
	bool good = path_parse(text, &path, NULL) == 0;
	path_done(&path);
	return good;
}

/* path=value, path==value, path!=value, joined by commas. */
bool config_check_field_selector(struct span s)
{
	while (s.len) {
		const char *comma = memchr(s.at, ',', s.len);
		struct span one = {s.at, comma ? (size_t)(comma - s.at) : s.len};
		const char *equal = memchr(one.at, '=', one.len);
		size_t path = equal ? (size_t)(equal - one.at) : 0;
		if (path && one.at[path - 1] == '!')
			path--;
		if (!path || memchr(one.at, ' ', one.len))
			return false;
		if (!comma)
			return true;
		s = (struct span){comma + 1, s.len - one.len - 1};
	}
	return false;
}

bool config_check_finalizer(struct span s)
{
	return s.len && memchr(s.at, '/', s.len) && kube_is_qualified_name(s);
}

bool config_check_env_name(struct span s)
{
	if (s.len == 0 || (s.at[0] >= '0' && s.at[0] <= '9'))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'))
			return false;
	}
	return true;
}

/* ---- arrays of texts ---- */

size_t texts_count(char *const *list)
{
	size_t n = 0;
	while (list && list[n])
		n++;
	return n;
}

void texts_add(char ***list, char *text)
{
	size_t n = texts_count(*list);
	*list = xrealloc(*list, (n + 2) * sizeof(**list));
	(*list)[n] = text;
	(*list)[n + 1] = NULL;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void texts_sort(char **list)
{
	if (list)
		qsort(list, texts_count(list), sizeof(*list), by_text);
}

void texts_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}
