/* RFC 6902: add, remove, replace, move, copy, test. Pure. */
#pragma once
#include "doc.h"
#include "failure.h"

enum {
	JSON_PATCH_OPS_MAX = 1000,
	JSON_PATCH_COPY_MAX = 3 << 20 /* bytes of JSON that move and copy may copy in all */
};

/* Changes target in place; *ret is the result (another node when the root was replaced). 400: the patch is
 * malformed; 422: it does not fit the object, or a test failed. */
int json_patch(struct doc *d, struct doc_node *target, const struct doc_node *ops, struct doc_node **ret,
	       struct failure *f);
