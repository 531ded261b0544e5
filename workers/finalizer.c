#include "finalizer.h"
#include "status.h"

bool finalizer_present(struct doc *d, const struct doc_node *object, const char *finalizer)
{
	doc_each (n, doc_path(object, "metadata", "finalizers", NULL))
		if (doc_is(d, n, finalizer))
			return true;
	return false;
}

bool finalizer_patch(struct doc *d, const struct doc_node *object, const char *finalizer, bool present,
		     struct buf *out)
{
	if (finalizer_present(d, object, finalizer) == present)
		return false;
	struct doc_node *list = doc_new_array(d);
	doc_each (n, doc_path(object, "metadata", "finalizers", NULL))
		if (!doc_is(d, n, finalizer))
			doc_append(list, doc_copy(d, n));
	if (present)
		doc_append(list, doc_new_string(d, span_of(finalizer)));
	struct doc_node *patch = patch_for(d, object);
	/* A merge patch replaces the whole list: what others have in it is safe by the resourceVersion. */
	doc_set(d, doc_get(patch, "metadata"), "finalizers", list);
	doc_print(patch, out);
	return true;
}
