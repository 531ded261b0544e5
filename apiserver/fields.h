/* Who owns which field: metadata.managedFields. Semantics: Kubernetes' server-side apply; the merge itself is
 * in common/doc. Pure.
 *
 * Every writer is a manager: one that applies owns what it applied, one that updates owns what it changed. A
 * field changed by one leaves the others' sets. */
#pragma once
#include "call.h"

enum { MANAGER_MAX = 128, MANAGERS_MAX = 256 };

struct manager {
	char name[MANAGER_MAX + 1];
	bool apply;
	const char *subresource; /* NULL: none */
};

/* From fieldManager, else from the User-Agent's first word. 400/422 for a name that the API refuses. */
int manager_of(struct call *c, bool apply, struct manager *ret);

/* The new managedFields after m changed before (NULL: created) into after. old: the array so far, may be
 * NULL. */
struct doc_node *fields_update(struct call *c, const struct manager *m, const struct doc_node *old,
			       const struct doc_node *before, const struct doc_node *after);

/* Server-side apply of config to live (NULL: the object is new). *ret_after is the merged tree, *ret_fields
 * the new managedFields. 409 with a cause for each conflict unless forced. */
int fields_apply(struct call *c, const struct manager *m, struct doc_node *live, struct doc_node *config,
		 struct doc_node **ret_after, struct doc_node **ret_fields);
