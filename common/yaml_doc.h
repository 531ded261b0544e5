/* YAML (and so JSON) as a tree of nodes with line and column. The only user of libyaml. For controller files
 * and kubeconfigs. Anchors and aliases are resolved (with a bound against bombs), merge keys (<<) are
 * refused, duplicate keys are errors, a BOM and CRLF are fine. Scalars keep their text and whether they were
 * quoted; meaning is the reader's. Not thread-safe.
 *
 * Bounds of one text: YAML_DOC_MAX bytes, YAML_DOC_NODES nodes (what aliases repeat counts each time),
 * YAML_DOC_DEPTH levels. */
#pragma once
#include "buf.h"

enum { YAML_DOC_MAX = 4 << 20, YAML_DOC_NODES = 200000, YAML_DOC_DEPTH = 64 };

enum yaml_type { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };
struct yaml_doc_node {
	enum yaml_type type;
	size_t line, column; /* from 1; of what an alias stands for: the alias' place */
	const char *text;    /* scalar; holds no NUL */
	bool quoted;	     /* or a block scalar: a string whatever it looks like */
	bool binary;	     /* tagged !!binary */
	/* member of a mapping: an earlier one has the same key (only in yaml_doc_parse_lenient's trees) */
	bool duplicate;
	struct yaml_doc_node *key; /* member of a mapping: its key, a scalar */
	struct yaml_doc_node *child, *next;
};
struct yaml_doc {
	struct yaml_doc_node *root; /* NULL: empty */
	struct yaml_doc *next;
	void *arena; /* internal */
};
/* All documents of a text, at least one. -EINVAL: syntax, duplicate key, merge key, bomb; ret_line and
 * ret_column say where, err what. */
int yaml_doc_parse(struct span text, struct yaml_doc **ret, size_t *ret_line, size_t *ret_column,
		   struct err *err);
/* The same, but duplicate keys stay in the tree, marked: for a reader that shows all errors of a file at
 * once. */
int yaml_doc_parse_lenient(struct span text, struct yaml_doc **ret, size_t *ret_line, size_t *ret_column,
			   struct err *err);
void yaml_doc_free(struct yaml_doc *d); /* the whole list */
struct yaml_doc_node *yaml_doc_get(const struct yaml_doc_node *mapping,
				   const char *key);  /* NULL if absent or no mapping */
bool yaml_doc_is_null(const struct yaml_doc_node *n); /* absent, or unquoted empty, ~, null, Null, NULL */

/* What an unquoted scalar is where nothing else is known: YAML 1.2's core schema, narrowed to what JSON
 * writes alike. true, True, TRUE (and false) are booleans; 12, -3, 1.5, 1e3 are numbers; empty, ~ and null
 * are null. All else is text: yes, on, 010, 0x4, 1_0, .5. */
enum yaml_meaning { YAML_MEANS_TEXT, YAML_MEANS_NULL, YAML_MEANS_BOOL, YAML_MEANS_NUMBER };
enum yaml_meaning yaml_doc_meaning(const struct yaml_doc_node *scalar);
/* JSON of a node by that rule, numbers as they are written: for manifests. */
void yaml_doc_to_json(const struct yaml_doc_node *n, struct buf *out);
