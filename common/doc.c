#include "doc_internal.h"
#include "json_machine.h"
#include <stdio.h>

/* ---- the arena ---- */

enum { CHUNK_MIN = 4096, CHUNK_MAX = 256 << 10, ALIGN = _Alignof(max_align_t) };

struct chunk {
	struct chunk *next;
	size_t used, size;
	_Alignas(max_align_t) char data[];
};

struct doc {
	struct chunk *chunks; /* the first one is filled */
	size_t next_size;
};

struct doc *doc_new(void)
{
	struct doc *d = xcalloc(1, sizeof *d);
	d->next_size = CHUNK_MIN;
	return d;
}

void doc_free(struct doc *d)
{
	if (!d)
		return;
	for (struct chunk *c = d->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(d);
}

void doc_free_ptr(struct doc **d)
{
	doc_free(*d);
}

static void *arena_get(struct doc *d, size_t n)
{
	n = (n + ALIGN - 1) / ALIGN * ALIGN;
	struct chunk *c = d->chunks;
	if (!c || n > c->size - c->used) {
		size_t size = MAX(n, d->next_size);
		c = xmalloc(sizeof *c + size);
		*c = (struct chunk){.size = size};
		if (n > d->next_size / 4 &&
		    d->chunks) { /* a big piece alone: the chunk at hand stays the one to fill */
			c->next = d->chunks->next;
			d->chunks->next = c;
		} else {
			c->next = d->chunks;
			d->chunks = c;
			d->next_size = MIN(d->next_size * 2, (size_t)CHUNK_MAX);
		}
	}
	void *at = c->data + c->used;
	c->used += n;
	return at;
}

struct span doc_keep(struct doc *d, struct span bytes)
{
	char *copy = arena_get(d, bytes.len + 1);
	if (bytes.len)
		memcpy(copy, bytes.at, bytes.len);
	copy[bytes.len] = 0;
	return (struct span){copy, bytes.len};
}

static struct doc_node *new_node(struct doc *d, enum json_type type, struct span text)
{
	struct doc_node *n = arena_get(d, sizeof *n);
	*n = (struct doc_node){.type = type, .text = text};
	return n;
}

/* ---- linking ---- */

static void link_last(struct doc_node *container, struct doc_node *n)
{
	n->next = NULL;
	n->prev = container->last;
	if (n->prev)
		n->prev->next = n;
	else
		container->child = n;
	container->last = n;
	container->count++;
}

void doc_replace(struct doc_node *container, struct doc_node *old, struct doc_node *n)
{
	if (n == old)
		return;
	n->key = old->key;
	n->prev = old->prev;
	n->next = old->next;
	if (n->prev)
		n->prev->next = n;
	else
		container->child = n;
	if (n->next)
		n->next->prev = n;
	else
		container->last = n;
}

void doc_add(struct doc *d, struct doc_node *object, struct span key, struct doc_node *n)
{
	n->key = doc_keep(d, key);
	link_last(object, n);
}

bool doc_remove(struct doc_node *container, const struct doc_node *member)
{
	if (!container || !member || (member->prev ? member->prev->next : container->child) != member)
		return false;
	if (member->prev)
		member->prev->next = member->next;
	else
		container->child = member->next;
	if (member->next)
		member->next->prev = member->prev;
	else
		container->last = member->prev;
	container->count--;
	return true; /* member->next stays, so that doc_each goes on */
}

/* ---- parsing ---- */

/* Of members with one name the last one's value stays, in the place of the first. */
static void drop_duplicates(struct doc_node *object)
{
	struct doc_index index;
	doc_index_init(&index, object->count);
	doc_each (member, object) {
		struct doc_node *first = doc_index_put(&index, member->key, member);
		if (!first)
			continue;
		struct doc_node links = *first;
		*first = *member;
		first->prev = links.prev;
		first->next = links.next;
		doc_remove(object, member);
	}
	doc_index_done(&index);
}

static bool has_duplicates(const struct doc_node *object)
{
	if (object->count > 8)
		return true; /* maybe: the index will tell */
	doc_each (a, object)
		for (struct doc_node *b = a->next; b; b = b->next)
			if (span_eq(a->key, b->key))
				return true;
	return false;
}

/* The unescaped name that stands with its quotes in the text; -EILSEQ for \u0000. */
static int member_name(struct doc *d, struct span quoted, struct span *ret)
{
	if (json_string_raw(quoted, ret) == 0)
		return 0;
	_cleanup_(buf_done) struct buf name = {0};
	int r = json_unescape(quoted, &name);
	if (r == 0)
		*ret = doc_keep(d, buf_span(&name));
	return r;
}

struct builder {
	struct doc *d;
	struct span text; /* checked, in the arena */
	size_t at;
	struct doc_node
	    *open;	 /* the innermost open container; while it is open its `next` is the one around it */
	unsigned depth;	 /* open containers */
	struct span key; /* of the member whose value comes next */
	struct doc_node *root;
};

static struct doc_node *add_node(struct builder *b, enum json_type type, struct span text)
{
	struct doc_node *n = new_node(b->d, type, text);
	if (b->open) {
		n->key = b->key;
		link_last(b->open, n);
	} else {
		b->root = n;
	}
	b->key = (struct span){NULL, 0};
	return n;
}

static int open_container(struct builder *b, enum json_type type)
{
	if (++b->depth > DOC_MAX_DEPTH)
		return -E2BIG;
	struct doc_node *n = add_node(b, type, (struct span){NULL, 0});
	n->next = b->open;
	b->open = n;
	b->at++;
	return 0;
}

static void close_container(struct builder *b)
{
	struct doc_node *closed = b->open;
	b->at++;
	if (!closed) /* not in a text that was checked */
		return;
	b->open = closed->next;
	b->depth--;
	closed->next = NULL;
	if (closed->type == JSON_OBJECT && has_duplicates(closed))
		drop_duplicates(closed);
}

/* Takes one token of the checked text. */
static int take_token(struct builder *b)
{
	char c = b->text.at[b->at];
	size_t start = b->at;
	if (json_is_space(c) || c == ',' || c == ':') {
		b->at++;
	} else if (c == '{' || c == '[') {
		return open_container(b, c == '{' ? JSON_OBJECT : JSON_ARRAY);
	} else if (c == '}' || c == ']') {
		close_container(b);
	} else if (c == '"') {
		b->at = json_string_end(b->text, start);
		struct span quoted = {b->text.at + start, b->at - start};
		if (b->open && b->open->type == JSON_OBJECT && !b->key.at)
			return member_name(b->d, quoted, &b->key);
		add_node(b, JSON_STRING, quoted);
	} else {
		while (b->at < b->text.len && !json_is_space(b->text.at[b->at]) &&
		       !strchr(",]}", b->text.at[b->at]))
			b->at++;
		struct span scalar = {b->text.at + start, b->at - start};
		add_node(b, json_type_of(scalar), scalar);
	}
	return 0;
}

int doc_parse(struct doc *d, struct span text, struct doc_node **ret, struct err *err)
{
	int r = json_check(text, err);
	if (r < 0)
		return r;
	struct builder b = {.d = d, .text = doc_keep(d, text)};
	while (b.at < b.text.len && r == 0)
		r = take_token(&b);
	if (r == -E2BIG)
		return err_set(err, -EINVAL, "nested deeper than %d levels, at byte %zu", DOC_MAX_DEPTH,
			       b.at);
	if (r < 0)
		return err_set(err, -EINVAL, "a member's name contains \\u0000");
	*ret = b.root;
	return 0;
}

/* Escaped where JSON demands it and else as it came, valid UTF-8 or not: so that two names stay two. */
static void print_name(struct span name, struct buf *out)
{
	buf_putc(out, '"');
	while (name.len) {
		size_t plain = json_plain_bytes(name.at, name.len);
		buf_add(out, name.at, plain);
		if (plain < name.len)
			buf_json_escape(out, (unsigned char)name.at[plain++]);
		name = (struct span){name.at + plain, name.len - plain};
	}
	buf_putc(out, '"');
}

/* Recursion here and below is as deep as the tree, which DOC_MAX_DEPTH bounds. */
void doc_print(const struct doc_node *n, struct buf *out)
{
	if (n->type != JSON_OBJECT && n->type != JSON_ARRAY) {
		buf_span_add(out, n->text);
		return;
	}
	bool object = n->type == JSON_OBJECT;
	buf_putc(out, object ? '{' : '[');
	doc_each (member, n) {
		if (member != n->child)
			buf_putc(out, ',');
		if (object) {
			print_name(member->key, out);
			buf_putc(out, ':');
		}
		doc_print(member, out);
	}
	buf_putc(out, object ? '}' : ']');
}

/* ---- lookups ---- */

struct doc_node *doc_get_span(const struct doc_node *object, struct span key)
{
	if (object && object->type == JSON_OBJECT)
		doc_each (member, object)
			if (span_eq(member->key, key))
				return member;
	return NULL;
}

struct doc_node *doc_get(const struct doc_node *object, const char *key)
{
	return doc_get_span(object, span_of(key));
}

struct doc_node *doc_path(const struct doc_node *object, ...)
{
	struct doc_node *n = NULL;
	va_list ap;
	va_start(ap, object);
	for (const char *key; (key = va_arg(ap, const char *)); object = n)
		n = doc_get(object, key);
	va_end(ap);
	return n;
}

struct span doc_string(struct doc *d, const struct doc_node *n)
{
	struct span text = {NULL, 0};
	if (!n || n->type != JSON_STRING || json_string_raw(n->text, &text) == 0)
		return text;
	_cleanup_(buf_done) struct buf plain = {0};
	return json_unescape(n->text, &plain) == 0 ? doc_keep(d, buf_span(&plain)) : text;
}

bool doc_is(struct doc *d, const struct doc_node *n, const char *text)
{
	(void)d;
	return n && n->type == JSON_STRING && json_string_is(n->text, text);
}

int doc_int(const struct doc_node *n, int64_t *ret)
{
	bool container = n && (n->type == JSON_OBJECT || n->type == JSON_ARRAY);
	return container ? -EINVAL : json_int(n ? n->text : (struct span){NULL, 0}, ret);
}

/* ---- making ---- */

struct doc_node *doc_new_object(struct doc *d)
{
	return new_node(d, JSON_OBJECT, (struct span){NULL, 0});
}

struct doc_node *doc_new_array(struct doc *d)
{
	return new_node(d, JSON_ARRAY, (struct span){NULL, 0});
}

struct doc_node *doc_new_string(struct doc *d, struct span text)
{
	_cleanup_(buf_done) struct buf quoted = {0};
	buf_json_string(&quoted, text);
	return new_node(d, JSON_STRING, doc_keep(d, buf_span(&quoted)));
}

struct doc_node *doc_new_int(struct doc *d, int64_t v)
{
	char digits[24];
	int n = snprintf(digits, sizeof digits, "%lld", (long long)v);
	return new_node(d, JSON_NUMBER, doc_keep(d, (struct span){digits, (size_t)n}));
}

struct doc_node *doc_new_bool(struct doc *d, bool v)
{
	return new_node(d, JSON_BOOL, span_of(v ? "true" : "false"));
}

struct doc_node *doc_new_raw(struct doc *d, struct span json)
{
	struct doc_node *n = NULL;
	return doc_parse(d, json, &n, NULL) == 0 ? n : NULL;
}

struct doc_node *doc_copy(struct doc *d, const struct doc_node *n)
{
	bool container = n->type == JSON_OBJECT || n->type == JSON_ARRAY;
	struct doc_node *copy =
	    new_node(d, n->type, container ? (struct span){NULL, 0} : doc_keep(d, n->text));
	doc_each (member, n) {
		struct doc_node *c = doc_copy(d, member);
		if (member->key.at)
			c->key = doc_keep(d, member->key);
		link_last(copy, c);
	}
	return copy;
}

struct doc_node *doc_set_span(struct doc *d, struct doc_node *object, struct span key, struct doc_node *value)
{
	if (!object || object->type != JSON_OBJECT)
		return NULL;
	struct doc_node *old = doc_get_span(object, key);
	if (!value)
		doc_remove(object, old);
	else if (old)
		doc_replace(object, old, value);
	else
		doc_add(d, object, key, value);
	return value;
}

struct doc_node *doc_set(struct doc *d, struct doc_node *object, const char *key, struct doc_node *value)
{
	return doc_set_span(d, object, span_of(key), value);
}

void doc_append(struct doc_node *array, struct doc_node *element)
{
	element->key = (struct span){NULL, 0};
	link_last(array, element);
}

struct doc_node *doc_ensure_object(struct doc *d, struct doc_node *object, const char *key)
{
	struct doc_node *n = doc_get(object, key);
	return n && n->type == JSON_OBJECT ? n : doc_set(d, object, key, doc_new_object(d));
}
