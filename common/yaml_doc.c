#include "yaml_doc.h"
#include <stdio.h>
#include <yaml.h>

/* The names of our enum and of libyaml's do not meet: libyaml's are YAML_SCALAR_NODE, YAML_SCALAR_EVENT and
 * so on. */

/* Nodes and texts live in chunks that are freed together. */
struct chunk {
	struct chunk *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

struct anchor {
	const char *name;
	const struct yaml_doc_node *node;
	struct anchor *next;
};

struct reader {
	yaml_parser_t parser;
	struct span text;
	struct chunk *chunks;
	struct anchor *anchors; /* of the current document, last defined first; in the arena */
	size_t nodes;
	bool lenient;
	size_t line, column; /* of the error */
	struct err *err;
};

static void *arena_take(struct reader *r, size_t n)
{
	n = (n + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
	if (!r->chunks || r->chunks->size - r->chunks->used < n) {
		size_t size = MAX(n, (size_t)16 << 10);
		struct chunk *c = xmalloc(sizeof(*c) + size);
		*c = (struct chunk){.next = r->chunks, .size = size};
		r->chunks = c;
	}
	void *p = r->chunks->bytes + r->chunks->used;
	r->chunks->used += n;
	return p;
}

static const char *arena_text(struct reader *r, const void *bytes, size_t n)
{
	char *copy = arena_take(r, n + 1);
	memcpy(copy, bytes, n);
	copy[n] = 0;
	return copy;
}

static void chunks_free(struct chunk *c)
{
	while (c) {
		struct chunk *next = c->next;
		free(c);
		c = next;
	}
}

static int fail_at(struct reader *r, size_t line, size_t column, const char *fmt, ...) _printf_(4, 5);
static int fail_at(struct reader *r, size_t line, size_t column, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->line = line;
	r->column = column;
	return err_set(r->err, -EINVAL, "%s", text);
}

static int fail_mark(struct reader *r, const yaml_mark_t *at, const char *text)
{
	return fail_at(r, at->line + 1, at->column + 1, "%s", text);
}

/* An offset in bytes to line and column in characters: libyaml's reader errors carry only that. */
static void place_of_offset(struct reader *r, size_t offset)
{
	r->line = r->column = 1;
	for (size_t i = 0; i < offset && i < r->text.len; i++) {
		unsigned char c = (unsigned char)r->text.at[i];
		if (c == '\n') {
			r->line++;
			r->column = 1;
		} else if ((c & 0xC0) != 0x80) {
			r->column++;
		}
	}
}

/* Is there a tab where libyaml stopped? Its index counts characters, so the place is looked for. */
static bool is_tab(const struct reader *r, const yaml_mark_t *at)
{
	size_t line = 0, column = 0;
	for (size_t i = 0; i < r->text.len && line <= at->line; i++) {
		char c = r->text.at[i];
		if (line == at->line && column == at->column)
			return c == '\t';
		if (c == '\n') {
			line++;
			column = 0;
		} else if (((unsigned char)c & 0xC0) != 0x80) {
			column++;
		}
	}
	return false;
}

static int fail_libyaml(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	const char *problem = p->problem ? p->problem : "cannot be read";
	if (p->error == YAML_MEMORY_ERROR) {
		r->line = r->column = 0;
		return err_set(r->err, -EINVAL, "no memory to read this file");
	}
	if (p->error == YAML_READER_ERROR) {
		place_of_offset(r, p->problem_offset);
		return err_set(r->err, -EINVAL, "not valid YAML: %s; the file must be UTF-8 text", problem);
	}
	size_t line = p->problem_mark.line + 1, column = p->problem_mark.column + 1;
	bool tab = is_tab(r, &p->problem_mark);
	if (p->context)
		return fail_at(r, line, column, "not valid YAML: %s, %s that begins in line %zu%s", problem,
			       p->context, p->context_mark.line + 1,
			       tab ? " (tabs cannot indent: use blanks)" : "");
	return fail_at(r, line, column, "not valid YAML: %s", problem);
}

/* ---- nodes ---- */

static struct yaml_doc_node *node_new(struct reader *r, enum yaml_type type, size_t line, size_t column)
{
	if (++r->nodes > YAML_DOC_NODES) {
		fail_at(r, line, column, "more than %d values (what an alias repeats counts each time)",
			YAML_DOC_NODES);
		return NULL;
	}
	struct yaml_doc_node *n = arena_take(r, sizeof(*n));
	*n = (struct yaml_doc_node){.type = type, .line = line, .column = column};
	return n;
}

static struct yaml_doc_node *node_copy(struct reader *r, const struct yaml_doc_node *from, size_t line,
				       size_t column, unsigned depth)
{
	if (depth > YAML_DOC_DEPTH) {
		fail_at(r, line, column, "nested deeper than %d levels", YAML_DOC_DEPTH);
		return NULL;
	}
	struct yaml_doc_node *to = node_new(r, from->type, line, column);
	if (!to)
		return NULL;
	to->text = from->text;
	to->quoted = from->quoted;
	to->binary = from->binary;
	struct yaml_doc_node **tail = &to->child;
	for (const struct yaml_doc_node *c = from->child; c; c = c->next) {
		struct yaml_doc_node *copy = node_copy(r, c, line, column, depth + 1);
		if (!copy)
			return NULL;
		copy->key = c->key;
		copy->duplicate = c->duplicate;
		*tail = copy;
		tail = &copy->next;
	}
	return to;
}

static void anchor_define(struct reader *r, const char *name, const struct yaml_doc_node *node)
{
	struct anchor *a = arena_take(r, sizeof(*a));
	*a = (struct anchor){.name = name, .node = node, .next = r->anchors};
	r->anchors = a;
}

static struct yaml_doc_node *alias_resolve(struct reader *r, const yaml_event_t *e, unsigned depth)
{
	const char *name = (const char *)e->data.alias.anchor;
	for (const struct anchor *a = r->anchors; a; a = a->next)
		if (strcmp(a->name, name) == 0)
			return node_copy(r, a->node, e->start_mark.line + 1, e->start_mark.column + 1, depth);
	fail_at(r, e->start_mark.line + 1, e->start_mark.column + 1,
		"the alias *%.100s names no anchor before it (&%.100s must be complete first)", name, name);
	return NULL;
}

/* YAML's own tags that change nothing for us, or say that a scalar is text. */
static int tag_apply(struct reader *r, const yaml_event_t *e, const yaml_char_t *tag, struct yaml_doc_node *n)
{
	static const char *const plain[] = {"!",
					    "tag:yaml.org,2002:int",
					    "tag:yaml.org,2002:bool",
					    "tag:yaml.org,2002:float",
					    "tag:yaml.org,2002:null",
					    "tag:yaml.org,2002:map",
					    "tag:yaml.org,2002:seq"};
	if (!tag)
		return 0;
	const char *t = (const char *)tag;
	if (strcmp(t, "tag:yaml.org,2002:str") == 0 || (strcmp(t, "!") == 0 && n->type == YAML_SCALAR)) {
		n->quoted = true;
		return 0;
	}
	if (strcmp(t, "tag:yaml.org,2002:binary") == 0) {
		n->quoted = n->binary = true;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (strcmp(t, plain[i]) == 0)
			return 0;
	return fail_at(r, e->start_mark.line + 1, e->start_mark.column + 1,
		       "the tag %.100s is not known here: remove it, or quote the value if it is text", t);
}

static int scalar_fill(struct reader *r, const yaml_event_t *e, struct yaml_doc_node *n)
{
	const char *value = (const char *)e->data.scalar.value;
	size_t len = e->data.scalar.length;
	if (memchr(value, 0, len))
		return fail_mark(r, &e->start_mark, "a value with a NUL character (\\0) is not allowed");
	n->text = arena_text(r, value, len);
	n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	return tag_apply(r, e, e->data.scalar.tag, n);
}

/* ---- mappings ---- */

static int by_key(const void *a, const void *b)
{
	const struct yaml_doc_node *x = *(struct yaml_doc_node *const *)a,
				   *y = *(struct yaml_doc_node *const *)b;
	int c = strcmp(x->key->text, y->key->text);
	if (c)
		return c;
	if (x->key->line != y->key->line)
		return x->key->line < y->key->line ? -1 : 1;
	return x->key->column < y->key->column ? -1 : x->key->column > y->key->column;
}

static int duplicates_find(struct reader *r, struct yaml_doc_node *mapping, size_t count)
{
	if (count < 2)
		return 0;
	_cleanup_(free_ptr) void *memory = malloc(count * sizeof(struct yaml_doc_node *));
	struct yaml_doc_node **sorted = memory;
	if (!sorted)
		return fail_at(r, mapping->line, mapping->column, "no memory to read this file");
	size_t n = 0;
	for (struct yaml_doc_node *c = mapping->child; c; c = c->next)
		sorted[n++] = c;
	qsort(sorted, n, sizeof(*sorted), by_key);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(sorted[i - 1]->key->text, sorted[i]->key->text) != 0)
			continue;
		if (!r->lenient)
			return fail_at(r, sorted[i]->key->line, sorted[i]->key->column,
				       "duplicate key \"%.100s\": it stands in line %zu already",
				       sorted[i]->key->text, sorted[i - 1]->key->line);
		sorted[i]->duplicate = true;
	}
	return 0;
}

static int key_check(struct reader *r, const struct yaml_doc_node *key)
{
	if (key->type != YAML_SCALAR)
		return fail_at(r, key->line, key->column,
			       "a key must be a plain text, not a list or a mapping");
	if (!key->quoted && strcmp(key->text, "<<") == 0)
		return fail_at(r, key->line, key->column,
			       "merge keys (<<) are not supported: write the keys out, or use an alias for a "
			       "whole value");
	return 0;
}

/* ---- the recursive reader ---- */

static int next_event(struct reader *r, yaml_event_t *ret)
{
	return yaml_parser_parse(&r->parser, ret) ? 0 : fail_libyaml(r);
}

static int node_read(struct reader *r, yaml_event_t *e, unsigned depth, struct yaml_doc_node **ret);

/* The children up to the end event of a sequence or mapping. */
static int children_read(struct reader *r, struct yaml_doc_node *parent, yaml_event_type_t end,
			 unsigned depth)
{
	struct yaml_doc_node **tail = &parent->child;
	for (size_t count = 0;; count++) {
		yaml_event_t e;
		struct yaml_doc_node *key = NULL, *value = NULL;
		int c = next_event(r, &e);
		if (c < 0)
			return c;
		if (e.type == end) {
			yaml_event_delete(&e);
			return parent->type == YAML_MAPPING ? duplicates_find(r, parent, count) : 0;
		}
		if (parent->type == YAML_MAPPING) {
			if ((c = node_read(r, &e, depth + 1, &key)) < 0 || (c = key_check(r, key)) < 0 ||
			    (c = next_event(r, &e)) < 0)
				return c;
		}
		if ((c = node_read(r, &e, depth + 1, &value)) < 0)
			return c;
		value->key = key;
		*tail = value;
		tail = &value->next;
	}
}

/* Consumes e. */
static int node_read(struct reader *r, yaml_event_t *e, unsigned depth, struct yaml_doc_node **ret)
{
	struct yaml_doc_node *n = NULL;
	const yaml_char_t *anchor = NULL;
	yaml_event_type_t end = YAML_NO_EVENT;
	size_t line = e->start_mark.line + 1, column = e->start_mark.column + 1;
	int c = 0;

	if (depth > YAML_DOC_DEPTH) {
		c = fail_at(r, line, column, "nested deeper than %d levels", YAML_DOC_DEPTH);
	} else if (e->type == YAML_ALIAS_EVENT) {
		n = alias_resolve(r, e, depth);
		c = n ? 0 : -EINVAL;
	} else if (e->type == YAML_SCALAR_EVENT) {
		n = node_new(r, YAML_SCALAR, line, column);
		anchor = e->data.scalar.anchor;
		c = n ? scalar_fill(r, e, n) : -EINVAL;
	} else if (e->type == YAML_SEQUENCE_START_EVENT) {
		n = node_new(r, YAML_SEQUENCE, line, column);
		anchor = e->data.sequence_start.anchor;
		end = YAML_SEQUENCE_END_EVENT;
		c = n ? tag_apply(r, e, e->data.sequence_start.tag, n) : -EINVAL;
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		n = node_new(r, YAML_MAPPING, line, column);
		anchor = e->data.mapping_start.anchor;
		end = YAML_MAPPING_END_EVENT;
		c = n ? tag_apply(r, e, e->data.mapping_start.tag, n) : -EINVAL;
	} else {
		c = fail_at(r, line, column, "not valid YAML: a value was expected");
	}
	const char *name = c == 0 && anchor ? arena_text(r, anchor, strlen((const char *)anchor)) : NULL;
	yaml_event_delete(e);
	if (c == 0 && end != YAML_NO_EVENT)
		c = children_read(r, n, end, depth);
	if (c < 0)
		return c;
	if (name)
		anchor_define(r, name, n);
	*ret = n;
	return 0;
}

/* One document: 1 and *ret_root, or 0 at the end of the stream. */
static int document_read(struct reader *r, struct yaml_doc_node **ret_root)
{
	yaml_event_t e;
	int c = next_event(r, &e);
	if (c < 0)
		return c;
	yaml_event_type_t type = e.type;
	if (type != YAML_DOCUMENT_START_EVENT) {
		yaml_event_delete(&e);
		return type == YAML_STREAM_END_EVENT
			   ? 0
			   : document_read(r, ret_root); /* STREAM-START comes once */
	}
	yaml_event_delete(&e);
	r->anchors = NULL;
	if ((c = next_event(r, &e)) < 0 || (c = node_read(r, &e, 0, ret_root)) < 0 ||
	    (c = next_event(r, &e)) < 0)
		return c;
	yaml_event_delete(&e); /* DOCUMENT-END */
	return 1;
}

static int documents_read(struct reader *r, struct yaml_doc **ret)
{
	struct yaml_doc **tail = ret;
	for (;;) {
		struct yaml_doc_node *root = NULL;
		int c = document_read(r, &root);
		if (c < 0)
			return c;
		if (c == 0 && *ret)
			return 0;
		struct yaml_doc *d = xcalloc(1, sizeof(*d));
		bool nothing = root && root->type == YAML_SCALAR && !root->quoted && !*root->text;
		d->root = nothing ? NULL : root;
		*tail = d;
		tail = &d->next;
		if (c == 0)
			return 0;
	}
}

static int parse(struct span text, bool lenient, struct yaml_doc **ret, size_t *ret_line, size_t *ret_column,
		 struct err *err)
{
	struct reader r = {.text = text, .lenient = lenient, .err = err};
	struct yaml_doc *docs = NULL;
	int c;
	if (text.len > YAML_DOC_MAX) {
		c = err_set(err, -EINVAL, "%zu bytes are too many: at most %d", text.len, YAML_DOC_MAX);
	} else if (!yaml_parser_initialize(&r.parser)) {
		c = err_set(err, -EINVAL, "no memory to read this file");
	} else {
		yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.at ? text.at : ""),
					     text.len);
		c = documents_read(&r, &docs);
		yaml_parser_delete(&r.parser);
	}
	if (docs)
		docs->arena = r.chunks;
	else
		chunks_free(r.chunks);
	if (c < 0) {
		yaml_doc_free(docs);
		*ret_line = r.line;
		*ret_column = r.column;
		return c;
	}
	*ret = docs;
	return 0;
}

int yaml_doc_parse(struct span text, struct yaml_doc **ret, size_t *ret_line, size_t *ret_column,
		   struct err *err)
{
	return parse(text, false, ret, ret_line, ret_column, err);
}

int yaml_doc_parse_lenient(struct span text, struct yaml_doc **ret, size_t *ret_line, size_t *ret_column,
			   struct err *err)
{
	return parse(text, true, ret, ret_line, ret_column, err);
}

void yaml_doc_free(struct yaml_doc *d)
{
	if (d)
		chunks_free(d->arena);
	while (d) {
		struct yaml_doc *next = d->next;
		free(d);
		d = next;
	}
}

struct yaml_doc_node *yaml_doc_get(const struct yaml_doc_node *mapping, const char *key)
{
	if (!mapping || mapping->type != YAML_MAPPING)
		return NULL;
	for (struct yaml_doc_node *c = mapping->child; c; c = c->next)
		if (strcmp(c->key->text, key) == 0)
			return c;
	return NULL;
}

/* ---- meaning ---- */

static bool is_one_of(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(text, words[i]) == 0)
			return true;
	return false;
}

/* RFC 8259's number, whole. */
static bool is_json_number(const char *s)
{
	s += *s == '-';
	if (*s == '0')
		s++;
	else if (*s >= '1' && *s <= '9')
		s += strspn(s, "0123456789");
	else
		return false;
	if (*s == '.') {
		size_t n = strspn(s + 1, "0123456789");
		if (!n)
			return false;
		s += 1 + n;
	}
	if (*s == 'e' || *s == 'E') {
		s += 1 + (s[1] == '+' || s[1] == '-');
		size_t n = strspn(s, "0123456789");
		if (!n)
			return false;
		s += n;
	}
	return *s == 0;
}

enum yaml_meaning yaml_doc_meaning(const struct yaml_doc_node *n)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
	static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE"};
	if (n->type != YAML_SCALAR || n->quoted)
		return YAML_MEANS_TEXT;
	if (is_one_of(n->text, nulls, ARRAY_SIZE(nulls)))
		return YAML_MEANS_NULL;
	if (is_one_of(n->text, bools, ARRAY_SIZE(bools)))
		return YAML_MEANS_BOOL;
	return is_json_number(n->text) ? YAML_MEANS_NUMBER : YAML_MEANS_TEXT;
}

bool yaml_doc_is_null(const struct yaml_doc_node *n)
{
	return !n || (n->type == YAML_SCALAR && yaml_doc_meaning(n) == YAML_MEANS_NULL);
}

static void scalar_to_json(const struct yaml_doc_node *n, struct buf *out)
{
	switch (yaml_doc_meaning(n)) {
	case YAML_MEANS_NULL:
		buf_puts(out, "null");
		return;
	case YAML_MEANS_BOOL:
		buf_puts(out, (*n->text | 0x20) == 't' ? "true" : "false");
		return;
	case YAML_MEANS_NUMBER:
		buf_puts(out, n->text);
		return;
	case YAML_MEANS_TEXT:
		buf_json_string(out, span_of(n->text));
		return;
	}
}

void yaml_doc_to_json(const struct yaml_doc_node *n, struct buf *out)
{
	if (!n) {
		buf_puts(out, "null");
		return;
	}
	if (n->type == YAML_SCALAR) {
		scalar_to_json(n, out);
		return;
	}
	bool mapping = n->type == YAML_MAPPING;
	buf_putc(out, mapping ? '{' : '[');
	for (const struct yaml_doc_node *c = n->child; c; c = c->next) {
		if (c != n->child)
			buf_putc(out, ',');
		if (mapping) {
			buf_json_string(out, span_of(c->key->text));
			buf_putc(out, ':');
		}
		yaml_doc_to_json(c, out);
	}
	buf_putc(out, mapping ? '}' : ']');
}
