/* Children of an answer: the document that is applied for each, whether it has to be, and what prune takes
 * away. Pure. */
#pragma once
#include "answer.h"

#define APPLIED_ANNOTATION "reconciled.dev/applied"

struct owner { /* the key's own object */
	const char *api_version, *kind;
	struct span namespace, name, uid; /* namespace empty: cluster scope */
};

/* What is applied: the child with its namespace, the owner reference (controller: true) and the annotation
 * with the digest of the rest. -EPROTO: this owner cannot own it (scope), or it names another owner as its
 * controller; err names the field from "children[i]" on. */
int child_document(struct doc *d, const struct child *c, size_t index, bool child_namespaced,
		   const struct owner *owner, struct doc_node **ret, struct err *err);
/* True if the cached object (NULL: none) shows that applying `want` would change nothing. */
bool child_is_current(struct doc *d, const struct doc_node *cached, const struct doc_node *want);
/* Does this object, an owned one from the cache, have the owner as its controller and is it not being deleted
 * already? Then prune may delete it. */
bool child_is_prunable(struct doc *d, const struct doc_node *object, struct span owner_uid);
/* Does an owner reference with this uid stand in the object, and if `controller_only`, with controller: true?
 * Reads bytes. */
bool child_owned_by(struct span object, struct span owner_uid, bool controller_only);

/* Same value, same digest, whatever the order of members: 32 hex digits. */
void doc_digest(const struct doc_node *n, char ret[33]);
