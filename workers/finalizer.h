/* The controller's finalizer on the object: one merge patch each way. Pure. */
#pragma once
#include "doc.h"

bool finalizer_present(struct doc *d, const struct doc_node *object, const char *finalizer);
/* Appends the merge patch that adds or removes it, carrying uid and resourceVersion; false: nothing to do. */
bool finalizer_patch(struct doc *d, const struct doc_node *object, const char *finalizer, bool present,
		     struct buf *out);
