#include "projection.h"
#include "config.h"
#include "path.h"

static const char *const always[] = {"apiVersion", "kind", "metadata", "status"};
enum { PATHS_MAX = CONFIG_FIELDS_MAX + ARRAY_SIZE(always) };

struct projection {
	size_t n;
	struct path paths[PATHS_MAX];
};

/* The paths that lead through where one is: bits are numbers of paths. */
struct open {
	uint64_t bits[(PATHS_MAX + 63) / 64];
};

static bool is_open(const struct open *o, size_t i)
{
	return o->bits[i / 64] >> (i % 64) & 1;
}

struct projection *projection_new(char *const *fields)
{
	struct projection *p = xcalloc(1, sizeof *p);
	int rc = 0;
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		rc |= path_parse(always[i], &p->paths[p->n++], NULL);
	for (size_t i = 0; fields[i] && p->n < PATHS_MAX; i++)
		rc |= path_parse(fields[i], &p->paths[p->n++], NULL);
	if (rc == 0)
		return p;
	projection_free(p);
	return NULL;
}

void projection_free(struct projection *p)
{
	for (size_t i = 0; p && i < p->n; i++)
		path_done(&p->paths[i]);
	free(p);
}

/* Of the paths open at this step, those that go on with the key (absent: with every element of a list).
 * *ret_whole: one ends there. */
static bool follow(const struct projection *p, const struct open *at, size_t step, struct span key,
		   struct open *ret, bool *ret_whole)
{
	bool any = false;
	*ret = (struct open){0};
	*ret_whole = false;
	for (size_t i = 0; i < p->n; i++) {
		if (!is_open(at, i) || step >= p->paths[i].count)
			continue;
		const char *name = p->paths[i].steps[step].key;
		if (name ? !key.at || !json_string_is(key, name) : key.at != NULL)
			continue;
		any = true;
		*ret_whole = *ret_whole || step + 1 == p->paths[i].count;
		ret->bits[i / 64] |= UINT64_C(1) << (i % 64);
	}
	return any;
}

static bool leads_into(const struct projection *p, const struct open *at, size_t step, enum json_type type)
{
	for (size_t i = 0; i < p->n; i++)
		if (is_open(at, i) && step < p->paths[i].count &&
		    type == (p->paths[i].steps[step].key ? JSON_OBJECT : JSON_ARRAY))
			return true;
	return false;
}

/* Recursion goes as deep as the longest path. A value of another shape than the paths say is left out: false. */
static bool copy_open(const struct projection *p, const struct open *at, size_t step, struct span value,
		      struct buf *out)
{
	enum json_type type = json_type_of(value);
	if (!leads_into(p, at, step, type))
		return false;
	struct json_iter it = {0};
	struct span key, member;
	struct open below;
	bool whole, first = true;
	buf_putc(out, type == JSON_OBJECT ? '{' : '[');
	while (json_each(value, &it, &key, &member)) {
		if (!follow(p, at, step, key, &below, &whole))
			continue;
		size_t start = out->len;
		if (!first)
			buf_putc(out, ',');
		if (key.at) {
			buf_span_add(out, key);
			buf_putc(out, ':');
		}
		if (whole)
			buf_span_add(out, member);
		else if (!copy_open(p, &below, step + 1, member, out)) {
			out->len = MIN(start, out->len);
			continue;
		}
		first = false;
	}
	buf_putc(out, type == JSON_OBJECT ? '}' : ']');
	return true;
}

void projection_copy(const struct projection *p, struct span object, struct buf *out)
{
	struct open all;
	memset(&all, 0xff, sizeof all);
	copy_open(p, &all, 0, object, out);
}
