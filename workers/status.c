#include "status.h"
#include "condition.h"

struct doc_node *patch_for(struct doc *d, const struct doc_node *object)
{
	static const char *const carried[] = {"uid", "resourceVersion"};
	struct doc_node *patch = doc_new_object(d), *to = doc_ensure_object(d, patch, "metadata");
	for (size_t i = 0; i < ARRAY_SIZE(carried); i++) {
		const struct doc_node *v = doc_path(object, "metadata", carried[i], NULL);
		if (v)
			doc_set(d, to, carried[i], doc_copy(d, v));
	}
	return patch;
}

bool status_patch(struct doc *d, const struct doc_node *object, const struct answer *a, int64_t generation,
		  int64_t now_unix_s, struct buf *out)
{
	if (!a->status && !a->condition_count)
		return false;
	const struct doc_node *live = doc_get(object, "status");
	struct doc_node *want = a->status ? doc_copy(d, a->status) : doc_new_object(d);
	if (a->condition_count) {
		const struct doc_node *have = doc_get(live, "conditions");
		struct doc_node *list = condition_merge(d, have ? doc_copy(d, have) : NULL, a->conditions,
							a->condition_count, generation, now_unix_s);
		doc_set(d, want, "conditions", list);
	}
	/* Where a status says which generation it is about, it must not go on to say an old one. */
	const struct doc_node *said = doc_get(want, "observedGeneration");
	if (generation >= 0 && (said ? said->type != JSON_NULL : doc_get(live, "observedGeneration") != NULL))
		doc_set(d, want, "observedGeneration", doc_new_int(d, generation));

	struct doc_node *before = live ? doc_copy(d, live) : doc_new_object(d);
	struct doc_node *after =
	    doc_merge_patch(d, live ? doc_copy(d, live) : doc_new_object(d), doc_copy(d, want));
	if (doc_equal(before, after))
		return false;
	struct doc_node *patch = patch_for(d, object);
	doc_set(d, patch, "status", want);
	doc_print(patch, out);
	return true;
}
