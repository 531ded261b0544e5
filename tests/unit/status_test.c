/* Status, conditions and finalizers: which merge patch an answer becomes, and when it becomes none. */
#include "condition.h"
#include "finalizer.h"
#include "status.h"
#include <criterion/criterion.h>

static struct doc *d;
static struct answer a;

static void setup(void)
{
	d = doc_new();
}
static void teardown(void)
{
	answer_done(&a);
	doc_free(d);
}
TestSuite(status, .init = setup, .fini = teardown);

static struct doc_node *object(const char *text)
{
	struct doc_node *n;
	struct err err = {0};
	cr_assert_eq(doc_parse(d, span_of(text), &n, &err), 0, "%s", err.text);
	return n;
}

static void answer(const char *text)
{
	static const struct config_controller controller = {.name = (char *)"c"};
	struct answer_rules r = {
	    .controller = &controller, .uid = span_of("u"), .object_present = true, .finalizing = true};
	struct err err = {0};
	answer_done(&a);
	cr_assert_eq(answer_parse(span_of(text), &r, &a, &err), 0, "%s", err.text);
}

static const char *patch(const char *live, int64_t generation, int64_t now)
{
	static struct buf out;
	buf_reset(&out);
	return status_patch(d, object(live), &a, generation, now, &out) ? buf_str(&out) : NULL;
}

#define META "\"metadata\":{\"name\":\"n\",\"uid\":\"U\",\"resourceVersion\":\"7\"}"
#define SENT "{\"metadata\":{\"uid\":\"U\",\"resourceVersion\":\"7\"},\"status\":"

Test(status, is_patched_with_uid_and_version)
{
	answer("{\"status\":{\"phase\":\"Up\",\"n\":9007199254740993}}");
	cr_expect_str_eq(patch("{" META "}", 3, 0), SENT "{\"phase\":\"Up\",\"n\":9007199254740993}}");
}

Test(status, unchanged_writes_nothing)
{
	answer("{\"status\":{\"phase\":\"Up\",\"n\":1.0}}");
	cr_expect_null(patch("{" META ",\"status\":{\"n\":1,\"phase\":\"Up\",\"other\":true}}", 3, 0));
	answer("{\"status\":{}}");
	cr_expect_null(patch("{" META "}", 3, 0), "nothing into nothing");
	answer("{}");
	cr_expect_null(patch("{" META ",\"status\":{\"observedGeneration\":1}}", 3, 0));
	answer("{\"status\":{\"gone\":null}}");
	cr_expect_null(patch("{" META ",\"status\":{\"phase\":\"Up\"}}", 3, 0), "removing what is not there");
}

Test(status, observed_generation_only_where_it_stands)
{
	answer("{\"status\":{\"phase\":\"Up\"}}");
	cr_expect_str_eq(patch("{" META ",\"status\":{\"observedGeneration\":2}}", 3, 0),
			 SENT "{\"phase\":\"Up\",\"observedGeneration\":3}}");
	cr_expect_null(patch("{" META ",\"status\":{\"observedGeneration\":3,\"phase\":\"Up\"}}", 3, 0));
	answer("{\"status\":{\"observedGeneration\":1}}");
	cr_expect_str_eq(patch("{" META "}", 3, 0), SENT "{\"observedGeneration\":3}}");
	answer("{\"status\":{\"phase\":\"Up\"}}");
	cr_expect_str_eq(patch("{" META "}", -1, 0), SENT "{\"phase\":\"Up\"}}");
}

Test(status, condition_is_new)
{
	answer("{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Up\",\"message\":\"m\"}"
	       "]}");
	cr_expect_str_eq(patch("{" META "}", 3, 86400),
			 SENT "{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\","
			      "\"observedGeneration\":3,\"lastTransitionTime\":"
			      "\"1970-01-02T00:00:00Z\",\"reason\":\"Up\",\"message\":\"m\"}]}}");
}

#define LIVE_CONDITIONS                                                                                      \
	"{" META                                                                                             \
	",\"status\":{\"conditions\":[{\"type\":\"Other\",\"status\":\"False\",\"by\":\"somebody\"},"        \
	"{\"type\":\"Ready\",\"status\":\"True\",\"observedGeneration\":3,\"lastTransitionTime\":\"2020-01-" \
	"01T00:00:00Z\",\"reason\":\"Up\","                                                                  \
	"\"message\":\"m\"}]}}"

Test(status, condition_that_says_the_same_writes_nothing)
{
	answer("{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Up\",\"message\":\"m\"}"
	       "]}");
	cr_expect_null(patch(LIVE_CONDITIONS, 3, 86400));
	cr_expect_not_null(patch(LIVE_CONDITIONS, 4, 86400), "a new generation was seen");
}

Test(status, transition_time_changes_with_status_only)
{
	answer("{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Other\",\"message\":"
	       "\"m\"}]}");
	const char *p = patch(LIVE_CONDITIONS, 3, 86400);
	cr_assert_not_null(p);
	cr_expect(strstr(p, "2020-01-01T00:00:00Z"));
	cr_expect(strstr(p, "\"by\":\"somebody\""),
		  "conditions of others stay: a merge patch replaces the list");
	answer("{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Up\",\"message\":"
	       "\"m\"}]}");
	p = patch(LIVE_CONDITIONS, 3, 86400);
	cr_assert_not_null(p);
	cr_expect(strstr(p, "1970-01-02T00:00:00Z"));
	cr_expect_null(strstr(p, "2020-01-01T00:00:00Z"));
}

Test(status, condition_rules_are_the_api_s)
{
	char message[CONDITION_MAX_MESSAGE + 2];
	memset(message, 'x', sizeof(message));
	struct condition c = {
	    span_of("Ready"), span_of("True"), span_of("R"), {message, CONDITION_MAX_MESSAGE}};
	cr_expect_eq(condition_check(&c, NULL), 0);
	c.message.len++;
	cr_expect_eq(condition_check(&c, NULL), -EINVAL);
	c.message.len = 0;
	static const char *const bad_types[] = {"",	 "-a",	    "a-",     "a b",  "/a",	 "a/",
						"a/b/c", "A.com/x", "a..b/x", "a-/x", "\xc3\xa4"};
	for (size_t i = 0; i < ARRAY_SIZE(bad_types); i++) {
		c.type = span_of(bad_types[i]);
		cr_expect_eq(condition_check(&c, NULL), -EINVAL, "type %s", bad_types[i]);
	}
	static const char *const good_types[] = {"a", "Ready",		"a.b/c", "a-b.c/Re.a_d-y",
						 "1", "kubernetes.io/x"};
	for (size_t i = 0; i < ARRAY_SIZE(good_types); i++) {
		c.type = span_of(good_types[i]);
		cr_expect_eq(condition_check(&c, NULL), 0, "type %s", good_types[i]);
	}
	static const char *const bad_reasons[] = {"", "1a", "a b", "a,", "a:", "a.b", "_a"};
	for (size_t i = 0; i < ARRAY_SIZE(bad_reasons); i++) {
		c.reason = span_of(bad_reasons[i]);
		cr_expect_eq(condition_check(&c, NULL), -EINVAL, "reason %s", bad_reasons[i]);
	}
	c.reason = span_of("a,b:c_");
	cr_expect_eq(condition_check(&c, NULL), 0);
}

Test(status, finalizer_comes_and_goes)
{
	_cleanup_(buf_done) struct buf out = {0};
	struct doc_node *o =
	    object("{\"metadata\":{\"uid\":\"U\",\"resourceVersion\":\"7\",\"finalizers\":[\"a/b\"]}}");
	cr_expect(finalizer_patch(d, o, "x/y", true, &out));
	cr_expect_str_eq(
	    buf_str(&out),
	    "{\"metadata\":{\"uid\":\"U\",\"resourceVersion\":\"7\",\"finalizers\":[\"a/b\",\"x/y\"]}}");
	buf_reset(&out);
	cr_expect(!finalizer_patch(d, o, "a/b", true, &out));
	cr_expect(finalizer_patch(d, o, "a/b", false, &out));
	cr_expect_str_eq(buf_str(&out),
			 "{\"metadata\":{\"uid\":\"U\",\"resourceVersion\":\"7\",\"finalizers\":[]}}");
	cr_expect(!finalizer_patch(d, o, "x/y", false, &out));
}
