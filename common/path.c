#include "path.h"
#include <ctype.h>

static bool plain(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '$';
}

static int add(struct path *p, const char *key, size_t len)
{
	if (p->count == PATH_STEPS_MAX)
		return -E2BIG;
	p->steps = xrealloc(p->steps, (p->count + 1) * sizeof *p->steps);
	p->steps[p->count++].key = key ? span_dup((struct span){key, len}) : NULL;
	return 0;
}

/* One "[*]" or "['key']" at text; its length, 0 if it is none. */
static size_t bracket(const char *text, const char **ret_key, size_t *ret_len)
{
	*ret_key = NULL;
	*ret_len = 0;
	if (!strncmp(text, "[*]", 3))
		return 3;
	if (text[1] != '\'' && text[1] != '"')
		return 0;
	const char *end = strchr(text + 2, text[1]);
	if (!end || end == text + 2 || end[1] != ']')
		return 0;
	*ret_key = text + 2;
	*ret_len = (size_t)(end - text) - 2;
	return *ret_len + 4;
}

int path_parse(const char *text, struct path *ret, struct err *err)
{
	struct path p = {0};
	const char *at = text;
	int rc = 0;
	while (*at && rc == 0) {
		const char *key = at;
		size_t len = 0, used;
		if (*at == '[') {
			used = bracket(at, &key, &len);
			if (!used || (at == text && !key))
				break;
		} else {
			if (*at == '.' && at != text)
				key = ++at;
			while (plain(key[len]))
				len++;
			used = len;
			if (!len || (key == at && at != text && at[-1] != '.'))
				break;
		}
		rc = add(&p, key, len);
		at += used;
	}
	if (rc == 0 && !*at && p.count && at[-1] != '.') {
		*ret = p;
		return 0;
	}
	path_done(&p);
	if (rc < 0)
		return err_set(err, rc, "the path \"%s\" has more than %d steps", text, PATH_STEPS_MAX);
	return err_set(err, -EINVAL,
		       "the path \"%s\" is wrong at character %zu: write names with dots between, [*] for "
		       "list items, ['a.b/c'] for odd keys",
		       text, (size_t)(at - text) + 1);
}

void path_done(struct path *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->steps[i].key);
	free(p->steps);
	*p = (struct path){0};
}

void path_print(const struct path *p, struct buf *out)
{
	for (size_t i = 0; i < p->count; i++) {
		const char *key = p->steps[i].key;
		size_t n = 0;
		while (key && plain(key[n]))
			n++;
		if (!key)
			buf_puts(out, "[*]");
		else if (n && !key[n])
			buf_printf(out, "%s%s", i ? "." : "", key);
		else
			buf_printf(out, strchr(key, '\'') ? "[\"%s\"]" : "['%s']", key);
	}
}

bool path_covers(const struct path *a, const struct path *b)
{
	if (a->count > b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const char *x = a->steps[i].key, *y = b->steps[i].key;
		if (!x != !y || (x && strcmp(x, y) != 0))
			return false;
	}
	return true;
}

static int walk(const struct path *p, size_t step, struct span value,
		int (*on_value)(void *ctx, struct span value), void *ctx)
{
	for (; step < p->count; step++) {
		const char *key = p->steps[step].key;
		if (key) {
			if (json_type_of(value) != JSON_OBJECT)
				return 0;
			value = json_get(value, key);
			continue;
		}
		struct json_iter it = {0};
		struct span none, element;
		int rc = 0;
		if (json_type_of(value) == JSON_ARRAY)
			while (rc == 0 && json_each(value, &it, &none, &element))
				rc = walk(p, step + 1, element, on_value, ctx);
		return rc;
	}
	enum json_type type = json_type_of(value);
	return type == JSON_NONE || type == JSON_NULL ? 0 : on_value(ctx, value);
}

int path_each(const struct path *p, struct span value, int (*on_value)(void *ctx, struct span value),
	      void *ctx)
{
	return walk(p, 0, value, on_value, ctx);
}
