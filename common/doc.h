/* A JSON document as a tree of spans: for those who change objects (the built-in API server, the worker's
 * writes).
 *
 * Scalars stay the text they came as, so 9007199254740993 and 1.20 survive. A node lives in its doc's arena
 * and dies with it; text that nodes point to must outlive the doc unless it was put in with doc_keep. Trees
 * of one doc only may be linked together; doc_copy brings a node over. Not thread-safe. Out of memory aborts
 * only after the doc's size limit, which callers set from the size of a request. */
#pragma once
#include "json_scan.h"

struct doc_node {
	enum json_type type;
	struct span key;  /* unescaped member name; absent for array elements and the root */
	struct span text; /* scalars: the JSON text, strings with their quotes; containers: unused */
	struct doc_node *child, *last; /* first and last member or element */
	struct doc_node *next, *prev;  /* siblings */
	uint32_t count;
};

struct doc;
struct doc *doc_new(void);
void doc_free(struct doc *d);
void doc_free_ptr(struct doc **d); /* _cleanup_ */

enum { DOC_MAX_DEPTH = 1000 }; /* of what is made into a tree: functions here go down it by recursion */

/* Parses (copying the text into the arena) to a root. Duplicate keys: the last wins, in the place of the
 * first. */
int doc_parse(struct doc *d, struct span text, struct doc_node **ret, struct err *err);
void doc_print(const struct doc_node *n, struct buf *out); /* compact; members in their order */
struct span doc_keep(struct doc *d, struct span bytes);	   /* a copy in the arena, terminated */

#define doc_each(var, container)                                                                             \
	for (struct doc_node *var = (container) ? (container)->child : NULL; var; var = var->next)

/* Lookups accept NULL and any type, and answer NULL: doc_get(doc_get(o, "metadata"), "name"). */
struct doc_node *doc_get(const struct doc_node *object, const char *key);
struct doc_node *doc_get_span(const struct doc_node *object, struct span key);
struct doc_node *doc_path(const struct doc_node *object, ...) __attribute__((sentinel));
/* Unescaped text of a string node in the arena; absent span for NULL, null, another type, or a text with
 * \u0000. */
struct span doc_string(struct doc *d, const struct doc_node *n);
bool doc_is(struct doc *d, const struct doc_node *n, const char *text);
int doc_int(const struct doc_node *n, int64_t *ret); /* as json_int */

struct doc_node *doc_new_object(struct doc *d);
struct doc_node *doc_new_array(struct doc *d);
struct doc_node *doc_new_string(struct doc *d, struct span text); /* escapes */
struct doc_node *doc_new_int(struct doc *d, int64_t v);
struct doc_node *doc_new_bool(struct doc *d, bool v);
struct doc_node *doc_new_raw(struct doc *d, struct span json);	    /* checked JSON text; NULL if it is not */
struct doc_node *doc_copy(struct doc *d, const struct doc_node *n); /* deep, of any doc */

/* Puts value under key in the place of the old one, or last; value NULL removes. Returns value. */
struct doc_node *doc_set(struct doc *d, struct doc_node *object, const char *key, struct doc_node *value);
struct doc_node *doc_set_span(struct doc *d, struct doc_node *object, struct span key,
			      struct doc_node *value);
/* Takes out a member or element, by identity; doc_each goes on behind the one that is removed. False: it is
 * not in there. */
bool doc_remove(struct doc_node *container, const struct doc_node *member);
void doc_append(struct doc_node *array, struct doc_node *element);
/* The object under key, made if absent or not an object. */
struct doc_node *doc_ensure_object(struct doc *d, struct doc_node *object, const char *key);

/* Equal as values: member order does not count, numbers are equal as text or as the same decimal value ("1.0"
 * and "1"). */
bool doc_equal(const struct doc_node *a, const struct doc_node *b);
/* True if every field of want stands in have with an equal value; lists compare whole unless a list's kind
 * has keys (doc_list_keys). */
bool doc_contains(const struct doc_node *have, const struct doc_node *want);

/* RFC 7386. Changes target in place and returns the result (another node if patch is no object). */
struct doc_node *doc_merge_patch(struct doc *d, struct doc_node *target, const struct doc_node *patch);

/* ---- server-side apply, as a forced merge with a field set per manager ----
 * Without a schema, a list merges by keys only where doc_list_keys knows the path as the API's types declare
 * it (containers by name, ports by port and protocol or containerPort, ownerReferences by uid, conditions by
 * type, finalizers as a set, ...); any other list is atomic. Source of the semantics: Kubernetes' server-side
 * apply, structured-merge-diff v4. */

/* Names of the merge keys for the list at this path of keys (without indexes), NULL-terminated; {""} for a
 * set; NULL: atomic. */
const char *const *doc_list_keys(const struct span *path, size_t depth);

/* The fieldsV1 object of what config sets: {"f:spec":{"f:replicas":{}}}; identity fields of the object and
 * metadata.{uid,resourceVersion,...} left out. */
struct doc_node *doc_field_set(struct doc *d, const struct doc_node *config);
/* Merges config into live; removes what the manager owned before (old_fields, may be NULL), sets no more, and
 * no other manager owns (others: array of field sets, may be NULL). Returns the new live tree. */
struct doc_node *doc_apply(struct doc *d, struct doc_node *live, const struct doc_node *config,
			   const struct doc_node *old_fields, const struct doc_node *const *others,
			   size_t n_others);
