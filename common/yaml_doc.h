/* YAML (and so JSON) as a tree of nodes with line and column. The only user of libyaml. For controller files and kubeconfigs.
 * Anchors and aliases are resolved (with a bound against bombs), merge keys (<<) are refused, duplicate keys are errors, a BOM and
 * CRLF are fine. Scalars keep their text and whether they were quoted; meaning is the reader's. Not thread-safe. */
#pragma once
#include "buf.h"

enum yaml_type { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };
struct yaml_doc_node {
	enum yaml_type type;
	size_t line, column;       /* from 1 */
	const char *text;          /* scalar; holds no NUL */
	bool quoted;               /* or a block scalar: a string whatever it looks like */
	bool binary;               /* tagged !!binary */
	struct yaml_doc_node *key; /* member of a mapping: its key, a scalar */
	struct yaml_doc_node *child, *next;
};
struct yaml_doc {
	struct yaml_doc_node *root; /* NULL: empty */
	struct yaml_doc *next;
	void *arena;                /* internal */
};
/* All documents of a text. -EINVAL: syntax, duplicate key, merge key, bomb; ret_line and ret_column say where, err what. */
int yaml_doc_parse(struct span text, struct yaml_doc **ret, size_t *ret_line, size_t *ret_column, struct err *err);
void yaml_doc_free(struct yaml_doc *d);
struct yaml_doc_node *yaml_doc_get(const struct yaml_doc_node *mapping, const char *key);
bool yaml_doc_is_null(const struct yaml_doc_node *n); /* absent, or unquoted empty, ~, null, Null, NULL */
/* JSON of a node by YAML 1.2's core schema (true, null, 12, 1.5; all else strings): for manifests. */
void yaml_doc_to_json(const struct yaml_doc_node *n, struct buf *out);
