/* Small JSON that we decide on, as a tree: the envelope of a reconciler's answer, metav1.Status,
 * `reconcilectl` output. The only user of cJSON. Not for objects: those are bytes (json_scan.h, doc.h).
 *
 * Strict: at most JSON_TREE_MAX bytes, depth 100, nothing after the value, no duplicate keys, no \u0000,
 * valid UTF-8, numbers that fit. All lookups are case-sensitive. One thread (cJSON keeps a global error
 * pointer). */
#pragma once
#include "buf.h"

#define JSON_TREE_MAX (1u << 20)

struct json; /* a node; the root owns the tree */
int json_parse(struct span text, struct json **ret, struct err *err);
void json_free(struct json *root);
void json_free_ptr(struct json **root); /* _cleanup_ */

const struct json *json_member(const struct json *object, const char *key); /* NULL if absent or no object */
const struct json *json_element(const struct json *array,
				const struct json *previous); /* NULL first, NULL at the end */
size_t json_count(const struct json *container);
const char *json_key(const struct json *member);
bool json_is_null(const struct json *n); /* absent counts */
bool json_is_object(const struct json *n);
bool json_is_array(const struct json *n);
const char *json_text(const struct json *n);	      /* of a string; NULL otherwise */
int json_bool(const struct json *n, bool *ret);	      /* -EINVAL */
int json_integer(const struct json *n, int64_t *ret); /* exact, up to 2^53 - 1; -EINVAL, -ERANGE */
/* The first member whose name is not in allowed (NULL-terminated), or NULL. */
const char *json_unknown_member(const struct json *object, const char *const *allowed);
/* Appends the tree, compact or indented by tabs. */
void json_print(const struct json *n, bool pretty, struct buf *out);
