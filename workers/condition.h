/* metav1.Condition: what the API takes, and merging by type. Pure. The rules are those of the OpenAPI schema
 * of metav1.Condition. */
#pragma once
#include "answer.h"

/* -EINVAL: err has ".field: rule". */
int condition_check(const struct condition *c, struct err *err);

/* Merges the conditions into a list of the object's status (made if `list` is NULL): by type, in the list's
 * order, new ones last. lastTransitionTime changes only when `status` does; observedGeneration is set in each
 * (generation < 0: not at all). Members that are not ours stay. Returns the list. */
struct doc_node *condition_merge(struct doc *d, struct doc_node *list, const struct condition *conditions,
				 size_t n, int64_t generation, int64_t now_unix_s);
