/* Children: what is applied, when it is skipped, what prune may take. */
#include "children.h"
#include <criterion/criterion.h>

static struct doc *d;
static void setup(void)
{
	d = doc_new();
}
static void teardown(void)
{
	doc_free(d);
}
TestSuite(children, .init = setup, .fini = teardown);

static struct doc_node *object(const char *text)
{
	struct doc_node *n;
	struct err err = {0};
	cr_assert_eq(doc_parse(d, span_of(text), &n, &err), 0, "%s: %s", text, err.text);
	return n;
}

static const struct owner owner = {"example.com/v1", "Website", {"shop", 4}, {"blog", 4}, {"U-1", 3}};
static const struct owner cluster_owner = {"example.com/v1", "Site", {"", 0}, {"blog", 4}, {"U-1", 3}};

static struct doc_node *document(const char *text, bool namespaced, const struct owner *o, struct err *err)
{
	struct child c = {.object = object(text)};
	c.namespace = doc_string(d, doc_path(c.object, "metadata", "namespace", NULL));
	struct doc_node *n;
	return child_document(d, &c, 2, namespaced, o, &n, err) == 0 ? n : NULL;
}

static struct span at(const struct doc_node *n, const char *a, const char *b)
{
	return doc_string(d, doc_path(n, a, b, NULL));
}

#define CM "\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\""

Test(children, owner_namespace_and_digest_are_added)
{
	struct doc_node *n =
	    document("{" CM ",\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"1\"}}", true, &owner, NULL);
	cr_assert_not_null(n);
	cr_expect(span_is(at(n, "metadata", "namespace"), "shop"));
	const struct doc_node *ref = doc_path(n, "metadata", "ownerReferences", NULL)->child;
	_cleanup_(buf_done) struct buf out = {0};
	doc_print(ref, &out);
	cr_expect_str_eq(
	    buf_str(&out),
	    "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Website\",\"name\":\"blog\",\"uid\":\"U-1\","
	    "\"controller\":true,\"blockOwnerDeletion\":true}");
	cr_expect_eq(doc_string(d, doc_path(n, "metadata", "annotations", APPLIED_ANNOTATION, NULL)).len, 32);
}

Test(children, digest_knows_values_not_order)
{
	char a[33], b[33];
	doc_digest(object("{\"a\":1,\"b\":{\"c\":[1,2],\"d\":null}}"), a);
	doc_digest(object("{\"b\":{\"d\":null,\"c\":[1,2]},\"a\":1}"), b);
	cr_expect_str_eq(a, b);
	static const char *const others[] = {
	    "{\"a\":1,\"b\":{\"c\":[2,1],\"d\":null}}", "{\"a\":1,\"b\":{\"c\":[1,2]}}",
	    "{\"a\":\"1\",\"b\":{\"c\":[1,2],\"d\":null}}", "{\"a\":1,\"bc\":{\"\":[1,2],\"d\":null}}"};
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		doc_digest(object(others[i]), b);
		cr_expect_str_neq(a, b, "%s", others[i]);
	}
}

Test(children, annotation_handed_back_is_no_part_of_what_is_desired)
{
	struct doc_node *n = document("{" CM ",\"metadata\":{\"name\":\"x\"}}", true, &owner, NULL);
	struct doc_node *again = document(
	    "{" CM ",\"metadata\":{\"name\":\"x\",\"annotations\":{\"" APPLIED_ANNOTATION "\":\"old\"}}}",
	    true, &owner, NULL);
	cr_assert(n && again);
	cr_expect(
	    span_eq(doc_string(d, doc_path(n, "metadata", "annotations", APPLIED_ANNOTATION, NULL)),
		    doc_string(d, doc_path(again, "metadata", "annotations", APPLIED_ANNOTATION, NULL))));
}

Test(children, owners_that_cannot_own)
{
	struct err err = {0};
	cr_expect_null(document("{" CM ",\"metadata\":{\"name\":\"x\"}}", false, &owner, &err));
	cr_expect(strstr(err.text,
			 "children[2]: Website blog has a namespace and cannot own a cluster-scoped object"),
		  "%s", err.text);
	cr_expect_null(document("{" CM ",\"metadata\":{\"name\":\"x\"}}", true, &cluster_owner, &err));
	cr_expect(strstr(err.text, "children[2].metadata.namespace: missing"), "%s", err.text);
	cr_expect_not_null(document("{" CM ",\"metadata\":{\"name\":\"x\",\"namespace\":\"a\"}}", true,
				    &cluster_owner, &err));
	cr_expect_not_null(document("{" CM ",\"metadata\":{\"name\":\"x\"}}", false, &cluster_owner, &err));
	cr_expect_null(document("{" CM ",\"metadata\":{\"name\":\"x\",\"namespace\":\"a\"}}", false,
				&cluster_owner, &err));
	cr_expect_null(document(
	    "{" CM
	    ",\"metadata\":{\"name\":\"x\",\"ownerReferences\":[{\"uid\":\"z\",\"controller\":true}]}}",
	    true, &owner, &err));
	cr_expect(strstr(err.text, "another owner has controller: true"), "%s", err.text);
}

Test(children, skipped_when_the_cache_has_it)
{
	struct doc_node *want = document(
	    "{" CM ",\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"1\",\"n\":2}}", true, &owner, NULL);
	_cleanup_(buf_done) struct buf text = {0};
	cr_assert_not_null(want);
	doc_print(want, &text);
	struct doc_node *have = object(buf_str(&text));
	cr_expect(!child_is_current(d, NULL, want));
	cr_expect(child_is_current(d, have, want));
	doc_set(d, doc_get(have, "metadata"), "resourceVersion", doc_new_string(d, span_of("9")));
	doc_set(d, have, "defaulted", doc_new_int(d, 1));
	cr_expect(child_is_current(d, have, want), "what others added does not count");
	doc_set(d, doc_get(have, "data"), "n", doc_new_raw(d, span_of("2.0")));
	cr_expect(child_is_current(d, have, want), "the same number in other words");
	doc_set(d, doc_get(have, "data"), "a", doc_new_string(d, span_of("edited by hand")));
	cr_expect(!child_is_current(d, have, want));
	have = object(buf_str(&text));
	doc_set(d, doc_ensure_object(d, doc_get(have, "metadata"), "annotations"), APPLIED_ANNOTATION,
		doc_new_string(d, span_of("0")));
	cr_expect(!child_is_current(d, have, want), "desired with more or less than now");
}

Test(children, prune_takes_only_what_is_ours)
{
#define REF(uid, controller)                                                                                 \
	"{\"metadata\":{\"name\":\"x\",\"ownerReferences\":[{\"uid\":\"" uid "\",\"controller\":" controller \
	"}]}}"
	struct span uid = span_of("U-1");
	cr_expect(child_is_prunable(d, object(REF("U-1", "true")), uid));
	cr_expect(!child_is_prunable(d, object(REF("U-1", "false")), uid));
	cr_expect(!child_is_prunable(d, object(REF("U-2", "true")), uid));
	cr_expect(!child_is_prunable(d, object("{\"metadata\":{\"name\":\"x\"}}"), uid));
	cr_expect(!child_is_prunable(d,
				     object("{\"metadata\":{\"deletionTimestamp\":\"t\",\"ownerReferences\":["
					    "{\"uid\":\"U-1\",\"controller\":true}]}}"),
				     uid));
	cr_expect(child_owned_by(span_of(REF("U-1", "false")), uid, false));
	cr_expect(!child_owned_by(span_of(REF("U-1", "false")), uid, true));
}
