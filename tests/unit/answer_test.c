/* Answers of reconcilers: what is taken, what is refused and with which words. */
#include "answer.h"
#include <criterion/criterion.h>

static struct config_watch watches[] = {
    {.kind = {.api_version = (char *)"example.com/v1", .kind = (char *)"Website"}},
    {.kind = {.api_version = (char *)"apps/v1", .kind = (char *)"Deployment"}, .is_owns = true},
    {.kind = {.api_version = (char *)"v1", .kind = (char *)"Secret"}},
};
static const struct config_controller controller = {
    .name = (char *)"website", .watches = watches, .watch_count = 3};

static struct answer_rules rules(void)
{
	return (struct answer_rules){
	    .controller = &controller,
	    .uid = span_of("6f1c"),
	    .object_present = true,
	    .namespace = span_of("shop"),
	};
}

static int parse(const char *text, struct answer *a, struct err *err)
{
	struct answer_rules r = rules();
	return answer_parse(span_of(text), &r, a, err);
}

Test(answer, what_is_taken)
{
	static const char *const good[] = {
	    "",
	    " \n\t",
	    "{}",
	    "{}\n",
	    "{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"ReconcileResponse\",\"uid\":\"6f1c\"}",
	    "{\"result\":null,\"error\":null,\"status\":null,\"conditions\":null,\"children\":null,"
	    "\"events\":null,\"finalized\":null}",
	    "{\"result\":{\"requeueAfter\":\"30s\"}}",
	    "{\"result\":{\"requeue\":true,\"priority\":-5}}",
	    "{\"error\":{}}",
	    "{\"error\":{\"type\":\"Throttled\",\"scope\":\"Controller\",\"retryAfter\":\"15s\"}}",
	    "{\"conditions\":[{\"type\":\"example.com/"
	    "Ready\",\"status\":\"True\",\"reason\":\"A1_x\",\"message\":\"\"}]}",
	    "{\"conditions\":[{\"type\":\"Ready\",\"status\":\"Unknown\",\"reason\":\"R\"}],\"status\":{"
	    "\"phase\":\"x\"}}",
	    "{\"children\":[]}",
	    "{\"children\":[{\"apiVersion\":\"apps/"
	    "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"}}]}",
	    "{\"children\":[{\"apiVersion\":\"apps/"
	    "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\",\"namespace\":\"shop\"}}]}",
	    "{\"events\":[{\"reason\":\"Scaled\"},{\"type\":\"Warning\",\"reason\":\"Bad\",\"message\":\"m\"}"
	    "]}",
	    "{\"finalized\":false}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct answer a;
		struct err err = {0};
		cr_assert_eq(parse(good[i], &a, &err), 0, "%s: %s", good[i], err.text);
		answer_done(&a);
	}
}

Test(answer, what_is_refused_says_where)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
	    {"hello world", "stdout is not the JSON of an answer"},
	    {"hello world", "\"hello world\""},
	    {"{}{}", "stdout is not the JSON"},
	    {"[]", "not a JSON object"},
	    {"\"x\"", "not a JSON object"},
	    {"{\"stats\":{}}", "unknown field \"stats\" at the top"},
	    {"{\"status\":{},\"status\":{}}", "status: is there twice"},
	    {"{\"apiVersion\":\"v1\"}", "apiVersion: must be \"reconciled.dev/v1\""},
	    {"{\"kind\":\"Response\"}", "kind: must be \"ReconcileResponse\""},
	    {"{\"uid\":\"other\"}", "uid: must be \"6f1c\""},
	    {"{\"result\":[]}", "result: must be an object"},
	    {"{\"result\":{\"requeueafter\":\"1s\"}}",
	     "result: unknown field \"requeueafter\"; allowed are requeueAfter"},
	    {"{\"result\":{\"requeueAfter\":30}}", "result.requeueAfter: must be a duration"},
	    {"{\"result\":{\"requeueAfter\":\"30\"}}", "result.requeueAfter: must be a duration"},
	    {"{\"result\":{\"requeueAfter\":\"-1s\"}}", "result.requeueAfter: must be a duration"},
	    {"{\"result\":{\"requeue\":\"yes\"}}", "result.requeue: must be true or false"},
	    {"{\"result\":{\"priority\":1.5}}", "result.priority"},
	    {"{\"result\":{\"priority\":1000001}}", "result.priority"},
	    {"{\"error\":{\"type\":\"Fatal\"}}", "error.type: must be Transient"},
	    {"{\"error\":{\"type\":\"NotReady\",\"scope\":\"Controller\"}}", "error.scope"},
	    {"{\"error\":\"boom\"}", "error: must be an object"},
	    {"{\"error\":{},\"result\":{\"requeueAfter\":\"1s\"}}",
	     "result.requeueAfter: not together with error"},
	    {"{\"status\":[]}", "status: must be an object"},
	    {"{\"conditions\":{}}", "conditions: must be a list"},
	    {"{\"conditions\":[{\"type\":\"Ready\",\"status\":true,\"reason\":\"R\"}]}",
	     "conditions[0].status: must be a string"},
	    {"{\"conditions\":[{\"type\":\"Ready\",\"status\":\"yes\",\"reason\":\"R\"}]}",
	     "conditions[0].status"},
	    {"{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"\"}]}",
	     "conditions[0].reason"},
	    {"{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"two words\"}]}",
	     "conditions[0].reason"},
	    {"{\"conditions\":[{\"type\":\"-Ready\",\"status\":\"True\",\"reason\":\"R\"}]}",
	     "conditions[0].type"},
	    {"{\"conditions\":[{\"type\":\"Ex.com/Ready\",\"status\":\"True\",\"reason\":\"R\"}]}",
	     "conditions[0].type"},
	    {"{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"R\","
	     "\"lastTransitionTime\":\"x\"}]}",
	     "set by the worker"},
	    {"{\"conditions\":[{\"type\":\"A\",\"status\":\"True\",\"reason\":\"R\"},{\"type\":\"A\","
	     "\"status\":\"True\",\"reason\":\"R\"}]}",
	     "conditions[1].type: A is in the list twice"},
	    {"{\"conditions\":[{\"type\":\"A\",\"status\":\"True\",\"reason\":\"R\"}],\"status\":{"
	     "\"conditions\":[]}}",
	     "status.conditions: not together with conditions"},
	    {"{\"children\":{}}", "children: must be a list"},
	    {"{\"children\":[1]}", "children[0]: must be an object"},
	    {"{\"children\":[{}]}", "children[0]: must have apiVersion and kind"},
	    {"{\"children\":[{\"apiVersion\":\"apps/"
	     "v1\",\"kind\":\"Deployment\",\"metadata\":{\"generateName\":\"x\"}}]}",
	     "children[0].metadata.name"},
	    {"{\"children\":[{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"x\"}}]}",
	     "not among spec.owns"},
	    {"{\"children\":[{\"apiVersion\":\"apps/"
	     "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"x\",\"namespace\":\"blog\"}}]}",
	     "cannot own one in blog"},
	    {"{\"children\":[{\"apiVersion\":\"apps/"
	     "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"x\"}},"
	     "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"x\"}}]}",
	     "children[1]: Deployment x is in the list twice"},
	    {"{\"finalized\":true}", "finalized: the object is not being deleted"},
	    {"{\"finalized\":\"true\"}", "finalized: must be true or false"},
	    {"{\"events\":[{\"type\":\"Error\",\"reason\":\"R\"}]}",
	     "events[0].type: must be Normal or Warning"},
	    {"{\"events\":[{\"message\":\"m\"}]}", "events[0].reason"},
	    {"{\"events\":[{\"reason\":\"R\",\"action\":\"A\"}]}", "events[0]: unknown field \"action\""},
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct answer a = {.child_count = 77};
		struct err err = {0};
		cr_assert_eq(parse(bad[i].text, &a, &err), -EPROTO, "%s was taken", bad[i].text);
		cr_assert(strstr(err.text, bad[i].says), "%s: %s", bad[i].text, err.text);
		cr_assert_eq(a.child_count, 77, "touched on failure");
	}
}

Test(answer, coprocess_must_name_the_uid)
{
	struct answer_rules r = rules();
	struct answer a;
	struct err err = {0};
	r.uid_required = true;
	cr_assert_eq(answer_parse(span_of("{}"), &r, &a, &err), -EPROTO);
	cr_assert(strstr(err.text, "uid: missing"));
	cr_assert_eq(answer_parse(span_of(""), &r, &a, &err), -EPROTO);
	cr_assert_eq(answer_parse(span_of("{\"uid\":\"6f1c\"}"), &r, &a, &err), 0);
	answer_done(&a);
}

Test(answer, finalized_while_finalizing_or_gone)
{
	struct answer_rules r = rules();
	struct answer a;
	r.finalizing = true;
	cr_assert_eq(answer_parse(span_of("{\"finalized\":true}"), &r, &a, NULL), 0);
	cr_assert(a.finalized);
	answer_done(&a);
	r.finalizing = r.object_present = false;
	cr_assert_eq(answer_parse(span_of("{\"finalized\":true}"), &r, &a, NULL), 0);
	answer_done(&a);
}

Test(answer, results)
{
	struct answer a;
	struct result r;
	cr_assert_eq(parse("{\"result\":{\"requeueAfter\":\"1m30s\",\"priority\":7}}", &a, NULL), 0);
	answer_result(&a, &r);
	cr_expect_eq(r.outcome, WIRE_OUTCOME_OK);
	cr_expect_eq(r.requeue_after_ms, 90000);
	cr_expect(r.has_priority && r.priority == 7);
	answer_done(&a);
	cr_assert_eq(parse("{\"error\":{\"type\":\"Throttled\",\"reason\":\"Quota\",\"message\":\"m\","
			   "\"retryAfter\":\"2s\",\"scope\":\"Controller\"}}",
			   &a, NULL),
		     0);
	answer_result(&a, &r);
	cr_expect_eq(r.outcome, WIRE_OUTCOME_THROTTLED);
	cr_expect_eq(r.requeue_after_ms, 2000);
	cr_expect(r.pause_controller);
	cr_expect_str_eq(r.reason, "Quota");
	cr_expect_str_eq(r.message, "m");
	answer_done(&a);
	cr_assert_eq(parse("{\"result\":{\"requeueAfter\":\"0s\",\"requeue\":true}}", &a, NULL), 0);
	answer_result(&a, &r);
	cr_expect(r.requeue && r.requeue_after_ms == -1);
	answer_done(&a);
}

Test(answer, quotes_are_short_and_one_line)
{
	char long_text[1000], buf[QUOTE_ROOM];
	memset(long_text, '\n', sizeof(long_text));
	const char *q = text_quote((struct span){long_text, sizeof(long_text)}, buf);
	cr_expect(strlen(q) < QUOTE_ROOM);
	cr_expect(!strchr(q, '\n'));
	memset(long_text, 'x', sizeof(long_text));
	q = text_quote((struct span){long_text, sizeof(long_text)}, buf);
	cr_expect_eq(strlen(q), QUOTE_MAX + 5); /* "..." and quotes */
	cr_expect_str_eq(text_quote(span_of("a\tb"), buf), "\"a\\x09b\"");
}

Test(answer, big_numbers_survive)
{
	struct answer a;
	_cleanup_(buf_done) struct buf out = {0};
	cr_assert_eq(parse("{\"status\":{\"n\":9007199254740993,\"f\":1.20}}", &a, NULL), 0);
	doc_print(a.status, &out);
	cr_expect_str_eq(buf_str(&out), "{\"n\":9007199254740993,\"f\":1.20}");
	answer_done(&a);
}

Test(answer, is_utf8_or_nothing_is_written)
{
	struct answer a;
	struct err err = {0};
	cr_expect_eq(parse("{\"status\":{\"x\":\"\xc3\xa4 \xf0\x9f\x98\x80\"}}", &a, &err), 0, "%s",
		     err.text);
	answer_done(&a);
	cr_expect_eq(parse("{\"status\":{\"x\":\"a\xff\"}}", &a, &err), -EPROTO);
	cr_expect(strstr(err.text, "byte 17 is 0xff"), "%s", err.text);
	cr_expect_eq(parse("{\"status\":{\"x\":\"\xc0\x80\"}}", &a, &err), -EPROTO);
}

Test(answer, names_are_no_paths)
{
	static const char *const bad[] = {"", ".", "..", "a/b", "../x", "a%2fb"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect(!answer_is_name(span_of(bad[i])), "%s", bad[i]);
	cr_expect(answer_is_name(span_of("a.b")));
	cr_expect(answer_is_name(span_of("system:node")), "roles have colons");
	struct answer a;
	struct err err = {0};
	cr_expect_eq(parse("{\"children\":[{\"apiVersion\":\"apps/"
			   "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"..\"}}]}",
			   &a, &err),
		     -EPROTO);
	cr_expect(strstr(err.text, "children[0].metadata.name"));
	cr_expect_eq(
	    parse("{\"children\":[{\"apiVersion\":\"apps/"
		  "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"x\",\"namespace\":\"..\"}}]}",
		  &a, &err),
	    -EPROTO);
	cr_expect(strstr(err.text, "children[0].metadata.namespace"));
}

/* Whatever a program prints is taken or refused, with words, and leaves nothing behind (the sanitizers
 * look). */
Test(answer, broken_at_random)
{
	static const char whole[] =
	    "{\"apiVersion\":\"reconciled.dev/"
	    "v1\",\"kind\":\"ReconcileResponse\",\"uid\":\"6f1c\",\"result\":{\"requeueAfter\":\"30s\","
	    "\"priority\":7},"
	    "\"status\":{\"a\":[1,2,{\"b\":null}]},\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\","
	    "\"reason\":\"R\",\"message\":\"\\u00e4\"}],"
	    "\"children\":[{\"apiVersion\":\"apps/"
	    "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"},\"spec\":{}}],\"finalized\":false,"
	    "\"events\":[{\"type\":\"Warning\",\"reason\":\"Bad\",\"message\":\"m\"}]}";
	static const char noise[] = "{}[]\",:\\0u1e-.ntf \n\xff\x80";
	char text[sizeof(whole)];
	unsigned taken = 0, refused = 0;
	for (unsigned i = 0; i < 20000; i++) {
		memcpy(text, whole, sizeof(whole));
		size_t len = i % 3 ? sizeof(whole) - 1 : (size_t)random_below(sizeof(whole));
		for (uint64_t n = random_below(4); n; n--)
			text[random_below(sizeof(whole) - 1)] = noise[random_below(sizeof(noise) - 1)];
		struct answer_rules r = rules();
		struct answer a;
		struct err err = {0};
		if (answer_parse((struct span){text, len}, &r, &a, &err) == 0) {
			taken++;
			answer_done(&a);
		} else {
			refused++;
			cr_assert(err.text[0], "refused without a word: %.*s", (int)len, text);
		}
	}
	cr_expect(taken > 100 && refused > 100, "%u taken, %u refused: no longer a test", taken, refused);
}
