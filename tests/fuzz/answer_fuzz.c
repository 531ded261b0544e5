/* What a program of a predicate or a map writes: an answer that is taken has keys that objects can have, and one that is refused says why in
 * few words.
 *
 * Input: two bits (map or predicate; a `for` kind with namespaces or without), then the line. */
#include "fuzz.h"
#include "names.h"
#include "watcher/question.h"

static void check_keys(const struct keys *k, enum cache_scope scope)
{
	FUZZ_CHECK(k->count <= KEYS_MAX, "%zu keys", k->count);
	for (size_t i = 0; i < k->count; i++) {
		struct span namespace, name;
		keys_get(k, i, &namespace, &name);
		FUZZ_CHECK(kube_is_path_segment(name) && name.len <= NAME_MAX_LEN, "a name: %.*s",
			   SPAN_ARG(name));
		FUZZ_CHECK((scope == CACHE_SCOPE_CLUSTER) == !namespace.len, "a namespace: %.*s",
			   SPAN_ARG(namespace));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	bool map = len && bytes[0] & 1;
	enum cache_scope scope = len && bytes[0] & 2 ? CACHE_SCOPE_CLUSTER : CACHE_SCOPE_NAMESPACED;
	struct span line = {len ? (const char *)bytes + 1 : "", len ? len - 1 : 0};
	struct question_answer a;
	struct err err = {0};
	int r = question_answer_read(line, map, scope, &a, &err);
	if (r == 0)
		check_keys(&a.keys, scope);
	else
		FUZZ_CHECK(r == -EPROTO && *err.text && strlen(err.text) < 1000, "%d, \"%s\"", r, err.text);
	question_answer_done(&a);
	return 0;
}

void fuzz_seeds(void (*put)(const char *name, struct span bytes))
{
	(void)put;
}
