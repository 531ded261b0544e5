#include "json.h"
#include "json_scan.h"
#include <cjson/cJSON.h>
#include <math.h>

enum { DEPTH_MAX = 100 };
static const double integer_max =
    9007199254740991; /* 2^53 - 1: above, a double stands for more than one integer */

static const cJSON *tree(const struct json *n)
{
	return (const cJSON *)n;
}

/* ---- what cJSON lets through or gets wrong is refused before or after it ---- */

/* Checks grammar, then what only bytes show: depth, \u0000 (which would end a C string early), UTF-8. */
static int check_text(struct span text, struct err *err)
{
	if (text.len > JSON_TREE_MAX)
		return err_set(err, -EMSGSIZE, "%zu bytes of JSON, at most %u are allowed here", text.len,
			       JSON_TREE_MAX);
	int r = json_check(text, err);
	bool in_string = false;
	int depth = 0;
	for (size_t i = 0; i < text.len && r == 0;) {
		size_t n = utf8_valid(text.at + i, text.len - i);
		if (!n)
			return err_set(err, -EINVAL, "byte %zu of the JSON is not valid UTF-8", i);
		char c = text.at[i];
		if (in_string && c == '\\') {
			if (text.len - i >= 6 && memcmp(text.at + i, "\\u0000", 6) == 0)
				return err_set(err, -EINVAL, "byte %zu of the JSON: \\u0000 is not allowed",
					       i);
			n = 2;
		} else if (c == '"') {
			in_string = !in_string;
		} else if (!in_string) {
			depth += (c == '{' || c == '[') - (c == '}' || c == ']');
			if (depth > DEPTH_MAX)
				return err_set(err, -EINVAL,
					       "byte %zu of the JSON: nested deeper than %d levels", i,
					       DEPTH_MAX);
		}
		i += n;
	}
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_duplicates(const cJSON *object, struct err *err)
{
	size_t n = 0;
	for (const cJSON *m = object->child; m; m = m->next)
		n++;
	_cleanup_(free_ptr) const char **names = xcalloc(n, sizeof *names);
	n = 0;
	for (const cJSON *m = object->child; m; m = m->next)
		names[n++] = m->string;
	qsort(names, n, sizeof *names, by_name);
	for (size_t i = 1; i < n; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			return err_set(err, -EINVAL, "the member \"%.100s\" stands twice in one object",
				       names[i]);
	return 0;
}

/* Recursion is as deep as DEPTH_MAX. */
static int check_tree(const cJSON *n, struct err *err)
{
	if (cJSON_IsNumber(n) && !isfinite(n->valuedouble))
		return err_set(err, -ERANGE, "a number is too large");
	int r = cJSON_IsObject(n) ? check_duplicates(n, err) : 0;
	if (cJSON_IsObject(n) || cJSON_IsArray(n))
		for (const cJSON *m = n->child; m && r == 0; m = m->next)
			r = check_tree(m, err);
	return r;
}

int json_parse(struct span text, struct json **ret, struct err *err)
{
	int r = check_text(text, err);
	if (r < 0)
		return r;
	cJSON *root = cJSON_ParseWithLength(text.at, text.len);
	if (!root)
		return err_set(err, -EINVAL, "the JSON has half of a surrogate pair, or memory is out");
	r = check_tree(root, err);
	if (r < 0) {
		cJSON_Delete(root);
		return r;
	}
	*ret = (struct json *)root;
	return 0;
}

void json_free(struct json *root)
{
	cJSON_Delete((cJSON *)root);
}

void json_free_ptr(struct json **root)
{
	json_free(*root);
}

/* ---- looking around ---- */

const struct json *json_member(const struct json *object, const char *key)
{
	return json_is_object(object)
		   ? (const struct json *)cJSON_GetObjectItemCaseSensitive(tree(object), key)
		   : NULL;
}

const struct json *json_element(const struct json *array, const struct json *previous)
{
	if (previous)
		return (const struct json *)tree(previous)->next;
	return json_is_array(array) || json_is_object(array) ? (const struct json *)tree(array)->child : NULL;
}

size_t json_count(const struct json *container)
{
	size_t n = 0;
	for (const struct json *e = NULL; (e = json_element(container, e));)
		n++;
	return n;
}

const char *json_key(const struct json *member)
{
	return member ? tree(member)->string : NULL;
}

bool json_is_null(const struct json *n)
{
	return !n || cJSON_IsNull(tree(n));
}

bool json_is_object(const struct json *n)
{
	return cJSON_IsObject(tree(n));
}

bool json_is_array(const struct json *n)
{
	return cJSON_IsArray(tree(n));
}

const char *json_text(const struct json *n)
{
	return cJSON_GetStringValue(tree(n));
}

int json_bool(const struct json *n, bool *ret)
{
	if (!cJSON_IsBool(tree(n)))
		return -EINVAL;
	*ret = cJSON_IsTrue(tree(n));
	return 0;
}

int json_integer(const struct json *n, int64_t *ret)
{
	if (!cJSON_IsNumber(tree(n)))
		return -EINVAL;
	double v = tree(n)->valuedouble;
	if (trunc(v) < v || trunc(v) > v)
		return -EINVAL;
	if (fabs(v) > integer_max)
		return -ERANGE;
	*ret = (int64_t)v;
	return 0;
}

const char *json_unknown_member(const struct json *object, const char *const *allowed)
{
	for (const struct json *m = NULL; json_is_object(object) && (m = json_element(object, m));) {
		size_t i = 0;
		while (allowed[i] && strcmp(allowed[i], json_key(m)) != 0)
			i++;
		if (!allowed[i])
			return json_key(m);
	}
	return NULL;
}

void json_print(const struct json *n, bool pretty, struct buf *out)
{
	char *text = pretty ? cJSON_Print(tree(n)) : cJSON_PrintUnformatted(tree(n));
	if (text)
		buf_puts(out, text);
	else
		out->failed = true;
	cJSON_free(text);
}
