/* Sets of fields (fieldsV1) against the objects that they speak of. Pure. A set is a tree: f:NAME is a
 * member, k:{"name":"x"} the list item with these keys, v:"x" a value in a list that is a set; "." is the
 * thing itself; what has nothing below is one field. */
#pragma once
#include "doc.h"

/* Whether anything but "." stands below: false for one field. */
bool set_is_leaf(const struct doc_node *set);
/* Adds from to into. */
void set_merge(struct doc *d, struct doc_node *into, const struct doc_node *from);

/* Keeps those members n of set for which keep(ctx, n, a's part, b's part) holds; parts are NULL where there
 * is nothing. Returns whether anything but "." is left, and takes "." away with the last of it. */
typedef bool set_keep_fn(void *ctx, struct doc_node *n, const struct doc_node *a, const struct doc_node *b);
bool set_filter(struct doc *d, struct doc_node *set, const struct doc_node *a, const struct doc_node *b,
		set_keep_fn *keep, void *ctx);

/* Of the set of all fields of after: those that differ from before. */
bool set_keep_changed(struct doc *d, struct doc_node *set, const struct doc_node *before,
		      const struct doc_node *after);
/* Of somebody's set: what is still there with the value that it had. */
bool set_drop_changed(struct doc *d, struct doc_node *set, const struct doc_node *before,
		      const struct doc_node *after);
/* Of somebody's set: what is still there. */
bool set_drop_gone(struct doc *d, struct doc_node *set, const struct doc_node *after);
/* .spec.ports[port=80,protocol="TCP"]: appends one step of a path as messages name it. */
void set_path(struct doc *d, struct span step, struct buf *out);
bool same_value(const struct doc_node *a, const struct doc_node *b);
