/* libreconcile without a process: a request goes in, the response comes out. */
#include "doc.h"
#include "workers/sdk/reconcile.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <math.h>

typedef void (*body)(struct reconcile_request *req, struct reconcile_response *res);

static int run_body(struct reconcile_request *req, struct reconcile_response *res, void *context)
{
	(*(body *)context)(req, res);
	return 0;
}

#define REQUEST(object)                                                                                      \
	"{\"apiVersion\":\"reconciled.dev/"                                                                  \
	"v1\",\"kind\":\"ReconcileRequest\",\"uid\":\"u1\",\"controller\":\"website\","                      \
	"\"request\":{\"namespace\":\"shop\",\"name\":\"blog\"},\"object\":" object                          \
	",\"finalizing\":false,\"attempt\":2,"                                                               \
	"\"children\":{\"Deployment.apps/v1\":{\"shop/web\":{\"spec\":{\"replicas\":3}},\"shop/"             \
	"db\":{}}},\"timeoutSeconds\":30}"

/* The response, parsed: it has to be one valid line. Good until the next one. */
static struct doc *doc;

static void forget(void)
{
	doc_free(doc);
	doc = NULL;
}

TestSuite(sdk, .fini = forget);

static struct doc_node *respond(const char *request, body b)
{
	char *text =
	    reconcile_once(&(struct reconcile_handler){.reconcile = run_body, .context = &b}, request);
	struct doc_node *root = NULL;
	struct err err = {{0}};
	cr_assert_not_null(text);
	cr_assert_null(strchr(text, '\n'), "more than a line: %s", text);
	forget();
	doc = doc_new();
	cr_assert_eq(doc_parse(doc, span_of(text), &root, &err), 0, "%s: %s", err.text, text);
	free(text);
	return root;
}

static void expect(const struct doc_node *n, const char *json)
{
	struct buf out = {0};
	if (n)
		doc_print(n, &out);
	cr_expect_str_eq(n ? buf_str(&out) : "", json);
	buf_done(&out);
}

/* ---- requests ---- */

#define OBJECT                                                                                               \
	"{\"spec\":{\"text\":\"h\\u00e9\\n\\\"q\\\"\",\"big\":9007199254740993,\"half\":0.5,\"on\":true,"    \
	"\"nothing\":null,"                                                                                  \
	"\"list\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"nul\":\"a\\u0000b\"},"                               \
	"\"metadata\":{\"labels\":{\"example.com/tier\":\"web\",\"a.b\":\"c\"}},"                            \
	"\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}}"

static void look(struct reconcile_request *req, struct reconcile_response *res)
{
	struct reconcile_value o = reconcile_object(req), v;
	(void)res;
	cr_expect_str_eq(reconcile_controller(req), "website");
	cr_expect_str_eq(reconcile_namespace(req), "shop");
	cr_expect_str_eq(reconcile_name(req), "blog");
	cr_expect_str_eq(reconcile_uid(req), "u1");
	cr_expect_eq(reconcile_attempt(req), 2);
	cr_expect(!reconcile_finalizing(req) && !reconcile_dry_run(req) && !reconcile_truncated(req));
	cr_expect(reconcile_time_left_ms(req) > 20000 && reconcile_time_left_ms(req) <= 30000);

	cr_expect_str_eq(reconcile_text(o, "spec.text", "-"), "h\xc3\xa9\n\"q\"");
	cr_expect_str_eq(reconcile_text(o, "spec.list[1].name", "-"), "b");
	cr_expect_str_eq(reconcile_text(o, "metadata.labels['example.com/tier']", "-"), "web");
	cr_expect_str_eq(reconcile_text(o, "metadata['labels'][\"a.b\"]", "-"), "c");
	cr_expect_eq(reconcile_int(o, "spec.big", 0), INT64_C(9007199254740993));
	cr_expect_str_eq(reconcile_json(reconcile_get(o, "spec.big")), "9007199254740993");
	cr_expect_eq(reconcile_number(o, "spec.half", 0), 0.5);
	cr_expect(reconcile_bool(o, "spec.on", false));
	cr_expect_eq(reconcile_count(reconcile_get(o, "spec.list")), 2);
	cr_expect_eq(reconcile_count(reconcile_get(o, "metadata.labels")), 2);
	cr_expect_str_eq(reconcile_condition_of(o, "Ready"), "False");
	cr_expect_null(reconcile_condition_of(o, "Other"));

	static const char *const nowhere[] = {"spec.absent",	"spec.text.more",
					      "spec.list[2]",	"spec.list[-1]",
					      "spec.list[x]",	"spec.list[0",
					      "spec.list['0']", "spec..text",
					      ".spec",		"spec.list[99999999999999999999]",
					      "['spec'",	"spec]"};
	for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++)
		cr_expect(!reconcile_exists(reconcile_get(o, nowhere[i])), "%s leads somewhere", nowhere[i]);
	cr_expect(!reconcile_exists(reconcile_get(o, "spec.nothing")));
	cr_expect_str_eq(reconcile_json(reconcile_get(o, "spec.nothing")), "null");
	cr_expect_str_eq(reconcile_text(o, "spec.big", "other type"), "other type");
	cr_expect_str_eq(reconcile_text(o, "spec.nul", "no C string"), "no C string");
	cr_expect_eq(reconcile_int(o, "spec.half", 7), 7);
	cr_expect_eq(reconcile_int(o, "spec.text", 7), 7);
	cr_expect_eq(reconcile_count(reconcile_get(o, "spec.text")), 0);

	cr_expect_eq(reconcile_int(reconcile_child(req, "Deployment.apps/v1", "web"), "spec.replicas", 0), 3);
	cr_expect_eq(
	    reconcile_int(reconcile_child(req, "Deployment.apps/v1", "shop/web"), "spec.replicas", 0), 3);
	cr_expect(!reconcile_exists(reconcile_child(req, "Deployment.apps/v1", "other")));
	cr_expect(!reconcile_exists(reconcile_child(req, "Secret.v1", "web")));
	cr_expect(!reconcile_exists(reconcile_related(req, "Secret.v1", "web")));
	const char *key;
	size_t n = 0;
	struct reconcile_iterator it = {0};
	while (reconcile_each(reconcile_children(req, "Deployment.apps/v1"), &it, &key, &v))
		cr_expect_str_eq(key, n++ ? "shop/db" : "shop/web");
	cr_expect_eq(n, 2);

	cr_expect_eq(reconcile_read(req, "v1", "Secret", NULL, "x", RECONCILE_LIVE, &v), -ENOTSUP);
	cr_expect(!reconcile_exists(v));
	cr_expect_eq(reconcile_list(req, "v1", "Secret", NULL, NULL, NULL, RECONCILE_CACHED, &v), -ENOTSUP);
	cr_expect(!reconcile_cancelled(req));
}

Test(sdk, request)
{
	expect(respond(REQUEST(OBJECT), look),
	       "{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"ReconcileResponse\",\"uid\":\"u1\"}");
}

static void gone(struct reconcile_request *req, struct reconcile_response *res)
{
	(void)res;
	cr_expect(!reconcile_exists(reconcile_object(req)));
	cr_expect_str_eq(reconcile_text(reconcile_object(req), "spec.a", "none"), "none");
}

Test(sdk, object_that_is_gone)
{
	respond(REQUEST("null"), gone);
}

Test(sdk, what_is_no_request)
{
	static const char *const texts[] = {
	    "",
	    "{}",
	    "[]",
	    "null",
	    "{\"kind\":\"Hello\"}",
	    "{\"kind\":\"ReconcileRequest\"}",
	    "{\"kind\":",
	    "{\"kind\":\"ReconcileRequest\",\"apiVersion\":\"reconciled.dev/v2\"}"};
	body b = gone;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		errno = 0;
		cr_expect_null(reconcile_once(
		    &(struct reconcile_handler){.reconcile = run_body, .context = &b}, texts[i]));
		cr_expect_eq(errno, EINVAL);
	}
}

/* ---- templates ---- */

static const char *volatile absent; /* NULL, but the compiler must not know */

static void templates(struct reconcile_request *req, struct reconcile_response *res)
{
	struct reconcile_value list = reconcile_get(reconcile_object(req), "spec.list"),
			       text = reconcile_get(reconcile_object(req), "spec.text"), none = {0};
	reconcile_status(res, "strings", "[%s, '%s-x', \"%s\", %.*s]", "a\"b\\c\n", "a\"b\\c\n", "it's", 2,
			 "abcd");
	reconcile_status(res, "null", "[%s, '%s']", absent, absent);
	reconcile_status(res, "injected", "%s", "\"}, \"status\": {\"x\": \"");
	reconcile_status(res, "integers", "[%d, %i, %u, %ld, %lu, %lld, %llu, %zu]", INT_MIN, -1, 7u,
			 LONG_MIN, ULONG_MAX, LLONG_MAX, ULLONG_MAX, (size_t)5);
	reconcile_status(res, "numbers", "[%g, %f, %g]", 0.1, -2.5, (double)INFINITY);
	reconcile_status(res, "booleans", "[%c, %c]", 1, 0);
	reconcile_status(res, "values", "[%p, '%p', %p, '%p', %p]", (void *)&list, (void *)&list,
			 (void *)&text, (void *)&text, (void *)&none);
	reconcile_status(res, "quotes", "['it\\'s', \"it's\", 'say \"x\"', '\\u0041', 'a\\\\']");
	reconcile_status(res, "percent", "'100%%'");
	reconcile_status(res, "lines", "[1,\n 2]");
	reconcile_status(res, "broken", "%s", "\xff\xfe");
	reconcile_status(res, "again", "1");
	reconcile_status(res, "again", "2");
}

Test(sdk, templates)
{
	const struct doc_node *s = doc_get(respond(REQUEST(OBJECT), templates), "status");
	expect(doc_get(s, "strings"), "[\"a\\\"b\\\\c\\n\",\"a\\\"b\\\\c\\n-x\",\"it's\",\"ab\"]");
	expect(doc_get(s, "null"), "[null,\"\"]");
	expect(doc_get(s, "injected"), "\"\\\"}, \\\"status\\\": {\\\"x\\\": \\\"\"");
	expect(doc_get(s, "integers"), "[-2147483648,-1,7,-9223372036854775808,18446744073709551615,"
				       "9223372036854775807,18446744073709551615,5]");
	cr_expect_eq(doc_get(s, "numbers")->count, 3);
	cr_expect_eq(doc_get(s, "numbers")->last->type, JSON_NULL);
	expect(doc_get(s, "booleans"), "[true,false]");
	expect(doc_get(s, "values"), "[[{\"name\":\"a\"},{\"name\":\"b\"}],\"[{\\\"name\\\":\\\"a\\\"},{"
				     "\\\"name\\\":\\\"b\\\"}]\",\"h\\u00e9\\n\\\"q\\\"\","
				     "\"h\xc3\xa9\\n\\\"q\\\"\",null]");
	expect(doc_get(s, "quotes"), "[\"it's\",\"it's\",\"say \\\"x\\\"\",\"\\u0041\",\"a\\\\\"]");
	expect(doc_get(s, "percent"), "\"100%\"");
	expect(doc_get(s, "lines"), "[1,2]");
	expect(doc_get(s, "broken"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	expect(doc_get(s, "again"), "2");
}

static const char *wrong; /* a variable: the compiler would see some of them */
static void wrong_template(struct reconcile_request *req, struct reconcile_response *res)
{
	(void)req;
	reconcile_condition(res, "Ready", RECONCILE_TRUE, "Done", "said before");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	reconcile_child_add(res, wrong, 1);
#pragma GCC diagnostic pop
}

Test(sdk, wrong_template_is_a_terminal_error_and_nothing_else)
{
	static const char *const texts[] = {"",		 "{",	    "{'a': 1",	 "{'a': }",
					    "[1]",	 "'text'",  "{'a': 'x}", "{} {}",
					    "{'a': %q}", "{'a': %", "{'a\n': 1}"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		wrong = texts[i];
		const struct doc_node *r = respond(REQUEST("null"), wrong_template);
		cr_expect(doc_is(doc, doc_path(r, "error", "type", NULL), "Terminal"), "%s", texts[i]);
		cr_expect(doc_is(doc, doc_path(r, "error", "reason", NULL), "InvalidResponse"), "%s",
			  texts[i]);
		cr_expect_null(doc_get(r, "children"));
		cr_expect_null(doc_get(r, "conditions"));
	}
}

/* ---- responses ---- */

static void everything(struct reconcile_request *req, struct reconcile_response *res)
{
	reconcile_child_add(res, "{'kind': 'ConfigMap', 'metadata': {'name': %s}}", reconcile_name(req));
	reconcile_condition(res, "Ready", RECONCILE_FALSE, "Waiting", "%d of %d", 1, 3);
	reconcile_condition(res, "Degraded", RECONCILE_UNKNOWN, "Waiting", "%s", "");
	reconcile_condition(res, "Ready", RECONCILE_TRUE, "Done", "%d of %d", 3, 3);
	reconcile_event(res, "Normal", "Done", "all \"%s\"", "three");
	reconcile_requeue_after_ms(res, 1500);
	reconcile_priority(res, -7);
	reconcile_finalized(res);
}

Test(sdk, response)
{
	expect(respond(REQUEST("null"), everything),
	       "{\"apiVersion\":\"reconciled.dev/"
	       "v1\",\"kind\":\"ReconcileResponse\",\"uid\":\"u1\",\"result\":{\"requeueAfter\":\"1500ms\","
	       "\"priority\":-7},"
	       "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Done\",\"message\":\"3 "
	       "of 3\"},"
	       "{\"type\":\"Degraded\",\"status\":\"Unknown\",\"reason\":\"Waiting\",\"message\":\"\"}],"
	       "\"children\":[{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"blog\"}}],\"finalized\":true,"
	       "\"events\":[{\"type\":\"Normal\",\"reason\":\"Done\",\"message\":\"all \\\"three\\\"\"}]}");
}

static void no_children(struct reconcile_request *req, struct reconcile_response *res)
{
	(void)req;
	reconcile_children_managed(res);
	reconcile_requeue(res);
}

Test(sdk, no_children_are_a_list_of_none)
{
	const struct doc_node *r = respond(REQUEST("null"), no_children);
	expect(doc_get(r, "children"), "[]");
	expect(doc_get(r, "result"), "{\"requeue\":true}");
}

static void failing(struct reconcile_request *req, struct reconcile_response *res)
{
	everything(req, res);
	reconcile_error(res, RECONCILE_THROTTLED, "TooMany", "slow down, %s", "please");
	reconcile_retry_after_ms(res, 20000);
	reconcile_pause_controller(res);
}

Test(sdk, error_keeps_status_and_conditions_but_neither_children_nor_requeue)
{
	const struct doc_node *r = respond(REQUEST("null"), failing);
	expect(doc_get(r, "error"), "{\"type\":\"Throttled\",\"reason\":\"TooMany\",\"message\":\"slow down, "
				    "please\",\"retryAfter\":\"20000ms\",\"scope\":\"Controller\"}");
	expect(doc_get(r, "result"), "{\"priority\":-7}");
	cr_expect_null(doc_get(r, "children"));
	cr_expect_null(doc_get(r, "finalized"));
	cr_expect_eq(doc_get(r, "conditions")->count, 2);
	cr_expect_eq(doc_get(r, "events")->count, 1);
}

static int just_fails(struct reconcile_request *req, struct reconcile_response *res, void *context)
{
	(void)req, (void)res, (void)context;
	return -5;
}

Test(sdk, failing_without_a_word_is_transient)
{
	char *text = reconcile_once(&(struct reconcile_handler){.reconcile = just_fails}, REQUEST("null"));
	cr_expect_not_null(strstr(text, "\"type\":\"Transient\""));
	cr_expect_not_null(strstr(text, "returned -5"));
	free(text);
}

static void too_large(struct reconcile_request *req, struct reconcile_response *res)
{
	(void)req;
	static char mib[1 << 20];
	memset(mib, 'x', sizeof mib - 1);
	for (int i = 0; i < 5; i++)
		reconcile_child_add(res, "{'data': %s}", mib);
}

Test(sdk, too_large_a_response_says_so)
{
	const struct doc_node *r = respond(REQUEST("null"), too_large);
	cr_expect(doc_is(doc, doc_path(r, "error", "reason", NULL), "ResponseTooLarge"));
	cr_expect_null(doc_get(r, "children"));
}
