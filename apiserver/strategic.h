/* Strategic merge patches: a merge patch that knows which lists merge by a key. Pure.
 * Lists merge where common/doc knows keys for their place (doc_list_keys): by the first of them, as patches
 * do. Directives: $patch (replace, delete, merge), $retainKeys, $deleteFromPrimitiveList/FIELD;
 * $setElementOrder/FIELD is accepted and does not order. */
#pragma once
#include "doc.h"
#include "failure.h"

/* Changes target in place; *ret is the result. 400 for a patch that cannot be read. */
int strategic_patch(struct doc *d, struct doc_node *target, const struct doc_node *patch,
		    struct doc_node **ret, struct failure *f);
