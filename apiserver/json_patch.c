#include "json_patch.h"

/* Takes the first reference token of *pointer, unescaped into the arena. */
static struct span token(struct doc *d, struct span *pointer)
{
	_cleanup_(buf_done) struct buf b = {0};
	size_t i = 1;
	for (; i < pointer->len && pointer->at[i] != '/'; i++) {
		char c = pointer->at[i];
		if (c == '~' && i + 1 < pointer->len &&
		    (pointer->at[i + 1] == '0' || pointer->at[i + 1] == '1'))
			c = pointer->at[++i] == '0' ? '~' : '/';
		buf_putc(&b, c);
	}
	*pointer = (struct span){pointer->at + i, pointer->len - i};
	return doc_keep(d, buf_span(&b));
}

/* An array index below limit; -EINVAL. */
static int index_of(struct span text, size_t limit, size_t *ret)
{
	size_t n = 0;
	if (!text.len || text.len > 9 || (text.len > 1 && *text.at == '0'))
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return -EINVAL;
		n = n * 10 + (size_t)(text.at[i] - '0');
	}
	if (n >= limit)
		return -EINVAL;
	*ret = n;
	return 0;
}

static struct doc_node *step(const struct doc_node *in, struct span name)
{
	size_t index;
	if (in->type == JSON_OBJECT)
		return doc_get_span(in, name);
	if (in->type != JSON_ARRAY || index_of(name, in->count, &index) < 0)
		return NULL;
	struct doc_node *n = in->child;
	while (index--)
		n = n->next;
	return n;
}

static struct doc_node *find(struct doc *d, struct doc_node *root, struct span pointer)
{
	struct doc_node *n = root;
	while (n && pointer.len)
		n = *pointer.at == '/' ? step(n, token(d, &pointer)) : NULL;
	return n;
}

/* The container that the pointer's last token is in, and that token. */
static struct doc_node *find_parent(struct doc *d, struct doc_node *root, struct span pointer,
				    struct span *ret_last)
{
	struct doc_node *n = root;
	while (n && pointer.len && *pointer.at == '/') {
		*ret_last = token(d, &pointer);
		if (!pointer.len)
			return n;
		n = step(n, *ret_last);
	}
	return NULL;
}

/* Arrays are singly linked and have no insertion: rebuilt with the element in its place. */
static void insert(struct doc_node *array, size_t at, struct doc_node *value)
{
	struct doc_node *first = array->child;
	size_t i = 0;
	array->child = array->last = NULL;
	array->count = 0;
	for (struct doc_node *n = first, *next; n; n = next) {
		next = n->next;
		n->next = NULL;
		if (i++ == at)
			doc_append(array, value);
		doc_append(array, n);
	}
	if (at >= i)
		doc_append(array, value);
}

static int add(struct doc *d, struct doc_node **root, struct span path, struct doc_node *value)
{
	struct span last = {0};
	if (!path.len) {
		*root = value;
		return 0;
	}
	struct doc_node *parent = find_parent(d, *root, path, &last);
	if (!parent)
		return -ENOENT;
	if (parent->type == JSON_OBJECT) {
		doc_set_span(d, parent, last, value);
		return 0;
	}
	size_t index = parent->count;
	if (parent->type != JSON_ARRAY ||
	    (!span_is(last, "-") && index_of(last, (size_t)parent->count + 1, &index) < 0))
		return -ENOENT;
	insert(parent, index, value);
	return 0;
}

static int take(struct doc *d, struct doc_node *root, struct span path, struct doc_node **ret)
{
	struct span last = {0};
	struct doc_node *parent = find_parent(d, root, path, &last), *n = parent ? step(parent, last) : NULL;
	if (!n)
		return -ENOENT;
	*ret = doc_copy(d, n);
	doc_remove(parent, n);
	return 0;
}

static int replace(struct doc *d, struct doc_node **root, struct span path, struct doc_node *value)
{
	struct doc_node *old = find(d, *root, path);
	if (!old)
		return -ENOENT;
	if (old == *root) {
		*root = value;
		return 0;
	}
	old->type = value->type;
	old->text = value->text;
	old->child = value->child;
	old->last = value->last;
	old->count = value->count;
	return 0;
}

/* A patch of copies can double the object with every operation. */
static bool affordable(const struct doc_node *source, size_t *copied)
{
	_cleanup_(buf_done) struct buf text = {.limit = JSON_PATCH_COPY_MAX};
	doc_print(source, &text);
	*copied += text.len;
	return !buf_failed(&text) && *copied <= JSON_PATCH_COPY_MAX;
}

static int copy_to(struct doc *d, struct doc_node **root, struct span path, const struct doc_node *source,
		   size_t *copied)
{
	if (!source)
		return -ENOENT;
	return affordable(source, copied) ? add(d, root, path, doc_copy(d, source)) : -EFBIG;
}

static int apply_one(struct doc *d, struct doc_node **root, const struct doc_node *op, size_t *copied,
		     struct failure *f)
{
	struct span name = doc_string(d, doc_get(op, "op")), path = doc_string(d, doc_get(op, "path"));
	struct span from = doc_string(d, doc_get(op, "from"));
	const struct doc_node *given = doc_get(op, "value");
	struct doc_node *value = given ? doc_copy(d, given) : NULL, *source;
	bool needs_value = span_is(name, "add") || span_is(name, "replace") || span_is(name, "test");
	bool needs_from = span_is(name, "move") || span_is(name, "copy");
	if (!path.at || (!needs_value && !needs_from && !span_is(name, "remove")) ||
	    (needs_value && !value) || (needs_from && !from.at))
		return fail_bad_request(f, "a JSON patch operation needs op (add, remove, replace, move, "
					   "copy, test), path, and value or from");
	int r = 0;
	if (span_is(name, "add"))
		r = add(d, root, path, value);
	else if (span_is(name, "replace"))
		r = replace(d, root, path, value);
	else if (span_is(name, "remove"))
		r = take(d, *root, path, &source);
	else if (span_is(name, "copy"))
		r = copy_to(d, root, path, find(d, *root, from), copied);
	else if (span_is(name, "move"))
		r = (r = take(d, *root, from, &source)) < 0 ? r : copy_to(d, root, path, source, copied);
	else
		r = (source = find(d, *root, path)) && doc_equal(source, value) ? 0 : -EILSEQ;
	const char *why = r == -EILSEQ	? "the value differs"
			  : r == -EFBIG ? "copies more than 3 MiB in all"
					: "there is no such place in the object";
	if (r < 0)
		return fail(
		    f, 422, "Invalid",
		    "the server rejected our request due to an error in our request: %s " SPAN_FMT ": %s",
		    r == -EILSEQ ? "test" : "operation", (int)MIN(path.len, (size_t)256), path.at, why);
	return 0;
}

int json_patch(struct doc *d, struct doc_node *target, const struct doc_node *ops, struct doc_node **ret,
	       struct failure *f)
{
	if (ops->type != JSON_ARRAY || ops->count > JSON_PATCH_OPS_MAX)
		return fail_bad_request(f, "a JSON patch must be an array of at most %d operations",
					JSON_PATCH_OPS_MAX);
	size_t copied = 0;
	doc_each (op, ops) {
		int r = op->type == JSON_OBJECT
			    ? apply_one(d, &target, op, &copied, f)
			    : fail_bad_request(f, "a JSON patch operation must be an object");
		if (r < 0)
			return r;
	}
	*ret = target;
	return 0;
}
