/* What an answer's `status` and `conditions` change in the object: one merge patch. Pure. */
#pragma once
#include "answer.h"

/* object: as it is now, live or cached. generation: of the object that the reconciler saw; -1: it has none.
 * Appends the body of the merge patch, which carries uid and resourceVersion, and returns true; false:
 * nothing would change. */
bool status_patch(struct doc *d, const struct doc_node *object, const struct answer *a, int64_t generation,
		  int64_t now_unix_s, struct buf *out);

/* {"metadata":{"uid":...,"resourceVersion":...}} of the object, to be filled further. */
struct doc_node *patch_for(struct doc *d, const struct doc_node *object);
