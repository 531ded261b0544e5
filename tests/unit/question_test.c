/* What programs of predicates and maps are asked: the bounded queue, who is to blame, the lines both ways. */
#include "watcher/question.h"
#include <criterion/criterion.h>
#include <stdio.h>

static struct err err;
static struct questions list;

static struct question *put(const char *old, const char *new, enum question_why why)
{
	struct question *q =
	    question_new(old ? span_of(old) : (struct span){0}, new ? span_of(new) : (struct span){0}, why);
	questions_put(&list, q);
	return q;
}

static void empty(void)
{
	for (struct question *q; (q = questions_take(&list));)
		question_free(q);
	cr_assert(list.count == 0 && list.bytes == 0 && list.low == 0 && list.low_bytes == 0 &&
		  list.n_asked == 0);
}
TestSuite(question, .fini = empty);

Test(question, are_asked_in_order_and_answered_by_number)
{
	struct question *a = put(NULL, "{}", QUESTION_EVENT), *b = put("{}", NULL, QUESTION_EVENT);
	cr_assert(questions_next(&list, 10) == a && questions_next(&list, 20) == b &&
		  !questions_next(&list, 30));
	cr_assert(a->number && b->number && a->number != b->number);
	cr_assert_eq(questions_oldest(&list), a);
	cr_assert_null(questions_answered(&list, b->number + 1, 40));
	cr_assert_eq(questions_answered(&list, a->number, 50), a);
	cr_assert_eq(b->since_ns, 50); /* the time of an answer begins when the program can be at it */
	cr_assert_eq(questions_answered(&list, b->number, 60), b);
	cr_assert(!questions_oldest(&list) && list.count == 0);
	question_free(a);
	question_free(b);
}

Test(question, may_be_answered_in_another_order)
{
	struct question *a = put(NULL, "{}", QUESTION_EVENT), *b = put(NULL, "{}", QUESTION_EVENT),
			*c = put(NULL, "{}", QUESTION_EVENT);
	for (int i = 0; i < 3; i++)
		questions_next(&list, i);
	cr_assert_eq(questions_answered(&list, c->number, 5), c);
	cr_assert(a->since_ns == 0 && questions_oldest(&list) == a);
	questions_return(&list, false, 6);
	cr_assert(questions_next(&list, 7) == a && questions_next(&list, 7) == b &&
		  !questions_next(&list, 7));
	question_free(c);
}

Test(question, only_so_many_are_asked_ahead)
{
	struct question *first = put(NULL, "{}", QUESTION_EVENT);
	for (int i = 0; i < 2 * QUESTIONS_AHEAD; i++)
		put(NULL, "{}", QUESTION_EVENT);
	for (int i = 0; i < QUESTIONS_AHEAD; i++)
		cr_assert(questions_next(&list, 0));
	cr_assert_null(questions_next(&list, 0));
	question_free(questions_answered(&list, first->number, 0));
	cr_assert(questions_next(&list, 0) && !questions_next(&list, 0));
}

Test(question, the_oldest_is_to_blame_and_comes_late)
{
	struct question *a = put(NULL, "{}", QUESTION_EVENT), *b = put(NULL, "{}", QUESTION_EVENT),
			*c = put(NULL, "{}", QUESTION_EVENT);
	questions_next(&list, 0);
	questions_next(&list, 0);
	questions_return(&list, true, 100);
	cr_assert_eq(questions_due_ns(&list), 100 + QUESTION_AGAIN_MIN_NS);
	questions_wake(&list, 100);
	cr_assert(questions_next(&list, 100) == b && questions_next(&list, 100) == c &&
		  !questions_next(&list, 100));
	questions_wake(&list, 100 + QUESTION_AGAIN_MIN_NS);
	cr_assert(questions_next(&list, 0) == a && questions_due_ns(&list) == INT64_MAX);
	/* Each time later, up to a bound. */
	int64_t wait = QUESTION_AGAIN_MIN_NS;
	question_free(questions_answered(&list, b->number, 0));
	question_free(questions_answered(&list, c->number, 0));
	for (int i = 0; i < 40; i++) {
		questions_return(&list, true, 0);
		wait = MIN(wait * 2, QUESTION_AGAIN_MAX_NS);
		cr_assert_eq(questions_due_ns(&list), wait, "%d", i);
		questions_wake(&list, wait);
		cr_assert_eq(questions_next(&list, wait), a);
	}
	cr_assert_eq(list.count, 1);
}

Test(question, room_is_bounded_by_number_and_by_bytes)
{
	uint64_t most = QUESTIONS_BYTES;
	cr_assert(questions_has_room(&list, most, QUESTION_EVENT) &&
		  !questions_has_room(&list, most + 1, QUESTION_EVENT));
	put("12345", "678", QUESTION_EVENT);
	cr_assert(questions_has_room(&list, most - 8, QUESTION_EVENT) &&
		  !questions_has_room(&list, most - 7, QUESTION_EVENT));
	while (list.count < QUESTIONS_MAX)
		put(NULL, "", QUESTION_EVENT);
	cr_assert(!questions_has_room(&list, 0, QUESTION_EVENT));
	question_free(questions_take(&list));
	cr_assert(questions_has_room(&list, 0, QUESTION_EVENT));
}

Test(question, sweeps_leave_room_to_events)
{
	/* One that is larger than all of their room must come through all the same. */
	cr_assert(questions_has_room(&list, QUESTIONS_LOW_BYTES + 1, QUESTION_SWEEP));
	for (int i = 0; i < QUESTIONS_LOW; i++) {
		cr_assert(questions_has_room(&list, 2, i % 2 ? QUESTION_SWEEP : QUESTION_RESYNC));
		put(NULL, "{}", i % 2 ? QUESTION_SWEEP : QUESTION_RESYNC);
	}
	cr_assert(!questions_has_room(&list, 2, QUESTION_SWEEP) &&
		  questions_has_room(&list, 2, QUESTION_EVENT));
	question_free(questions_take(&list));
	cr_assert(questions_has_room(&list, 2, QUESTION_SWEEP));
	cr_assert(!questions_has_room(&list, QUESTIONS_LOW_BYTES, QUESTION_SWEEP));
}

/* ---- lines ---- */

Test(question, is_one_line_and_has_the_objects_as_they_came)
{
	const struct question_form map = {true, "site", "v1", "Secret"},
				   predicate = {false, "site", "apps/v1", "Deployment"};
	_cleanup_(buf_done) struct buf b = {0};
	put("{\n\"n\": 9007199254740993.10}", NULL, QUESTION_EVENT);
	question_print(questions_next(&list, 0), &map, &b);
	cr_assert_str_eq(
	    buf_str(&b),
	    "{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"MapRequest\",\"uid\":\"1\",\"controller\":"
	    "\"site\",\"source\":{\"apiVersion\":\"v1\",\"kind\":\"Secret\"},\"old\":{ \"n\": "
	    "9007199254740993.10},\"new\":null}\n");
	buf_reset(&b);
	put(NULL, "{}", QUESTION_EVENT);
	question_print(questions_next(&list, 0), &predicate, &b);
	cr_assert_str_eq(
	    buf_str(&b),
	    "{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"PredicateRequest\",\"uid\":\"2\","
	    "\"controller\":\"site\",\"source\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\"},"
	    "\"old\":null,\"new\":{}}\n");
}

static char text[4096];
static const char *keys_of(const char *requests, enum cache_scope scope)
{
	_cleanup_(free_ptr) char *line = xasprintf("{\"kind\":\"MapResponse\",\"uid\":\"7\"%s}", requests);
	struct question_answer a;
	*text = 0;
	int rc = question_answer_read(span_of(line), true, scope, &a, &err);
	if (rc < 0)
		snprintf(text, sizeof text, "%s", err.text);
	else
		cr_assert_eq(a.number, 7);
	for (size_t i = 0; rc == 0 && i < a.keys.count; i++) {
		struct span namespace, name;
		keys_get(&a.keys, i, &namespace, &name);
		snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s/%.*s ", SPAN_ARG(namespace),
			 SPAN_ARG(name));
	}
	if (rc == 0 && a.keys.all)
		snprintf(text, sizeof text, "ALL");
	question_answer_done(&a);
	return text;
}

Test(question, a_maps_answer)
{
	static const struct {
		const char *requests, *is;
		enum cache_scope scope;
	} rows[] = {
	    {",\"requests\":[]", "", CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":[{\"namespace\":\"a\",\"name\":\"b\"},{\"name\":\"d\",\"namespace\":\"c\"}]",
	     "a/b c/d ", CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":[{\"namespace\":\"a\",\"name\":\"b\"},{\"namespace\":\"a\",\"name\":\"\\u0062\"}"
	     "]",
	     "a/b ", CACHE_SCOPE_NAMESPACED},
	    {",\"apiVersion\":\"reconciled.dev/v1\",\"requests\":[{\"name\":\"b\"}]", "/b ",
	     CACHE_SCOPE_CLUSTER},
	    {",\"requests\":[{\"name\":\"b\",\"namespace\":null}]", "/b ", CACHE_SCOPE_CLUSTER},
	    {",\"requests\":[{\"name\":\"b\"}]",
	     "requests[0].namespace is missing: the `for` kind has namespaces", CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":[{\"name\":\"b\",\"namespace\":\"a\"}]",
	     "requests[0].namespace: the `for` kind has no namespaces; leave it out", CACHE_SCOPE_CLUSTER},
	    {",\"requests\":[{\"namespace\":\"a\",\"name\":\"b\"},{\"namespace\":\"a\",\"name\":\"x/y\"}]",
	     "requests[1].name: must be an object's name, not \"x/y\"", CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":[{\"namespace\":\"a\",\"name\":\"\"}]",
	     "requests[0].name: must be an object's name, not \"\"", CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":[{\"namespace\":\"a\"}]", "requests[0].name: must be an object's name, not \"\"",
	     CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":[{\"namespace\":7,\"name\":\"b\"}]",
	     "requests[0].namespace: must be a namespace's name, not \"7\"", CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":[{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\"}]",
	     "requests[0]: unknown field \"uid\"", CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":[\"a/b\"]", "requests[0]: must be an object with namespace and name, not \"a/b\"",
	     CACHE_SCOPE_NAMESPACED},
	    {",\"requests\":null", "requests: is no list; allowed: a list, which may be empty",
	     CACHE_SCOPE_NAMESPACED},
	    {"", "requests: is missing; allowed: a list, which may be empty", CACHE_SCOPE_NAMESPACED},
	    {",\"request\":[]", "the answer: unknown field \"request\"", CACHE_SCOPE_NAMESPACED},
	    {",\"apiVersion\":\"v2\",\"requests\":[]",
	     "apiVersion: must be \"reconciled.dev/v1\", not \"v2\"", CACHE_SCOPE_NAMESPACED},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		cr_expect_str_eq(keys_of(rows[i].requests, rows[i].scope), rows[i].is, "%s: %s",
				 rows[i].requests, text);
}

Test(question, a_map_that_names_very_many)
{
	_cleanup_(buf_done) struct buf b = {0};
	for (int i = 0; i <= KEYS_MAX; i++)
		buf_printf(&b, "%s{\"namespace\":\"a\",\"name\":\"n%d\"}", i ? "," : ",\"requests\":[", i);
	buf_puts(&b, "]");
	cr_assert_str_eq(keys_of(buf_str(&b), CACHE_SCOPE_NAMESPACED), "ALL");
}

Test(question, other_lines)
{
	static const struct {
		const char *line, *is;
	} rows[] = {
	    {"{\"kind\":\"PredicateResponse\",\"uid\":\"12\",\"pass\":true}", "pass"},
	    {"{\"kind\":\"PredicateResponse\",\"uid\":\"12\",\"pass\":false}", "no"},
	    {"{\"kind\":\"PredicateResponse\",\"uid\":\"12\"}", "pass: must be true or false, not \"\""},
	    {"{\"kind\":\"PredicateResponse\",\"uid\":\"12\",\"pass\":\"yes\"}",
	     "pass: must be true or false, not \"yes\""},
	    {"{\"kind\":\"PredicateResponse\",\"uid\":12,\"pass\":true}",
	     "uid: must be that of a question, not \"12\""},
	    {"{\"kind\":\"PredicateResponse\",\"uid\":\"012\",\"pass\":true}",
	     "uid: must be that of a question, not \"012\""},
	    {"{\"kind\":\"PredicateResponse\",\"uid\":\"99999999999999999999\",\"pass\":true}",
	     "uid: must be that of a question, not \"99999999999999999999\""},
	    {"{\"kind\":\"PredicateResponse\",\"pass\":true}", "uid: must be that of a question, not \"\""},
	    {"{\"kind\":\"MapResponse\",\"uid\":\"12\",\"requests\":[]}",
	     "stdout: a line whose kind is not PredicateResponse: "
	     "\"{\"kind\":\"MapResponse\",\"uid\":\"12\",\"requests\":[]}\""},
	    {"true",
	     "stdout: a line that is no JSON object: \"true\"; what is meant for people goes to stderr"},
	    {"{\"kind\":", "stdout: a line that is no JSON object: \"{\"kind\":\"; what is meant for people "
			   "goes to stderr"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct question_answer a;
		int rc = question_answer_read(span_of(rows[i].line), false, CACHE_SCOPE_UNKNOWN, &a, &err);
		cr_expect_str_eq(rc < 0 ? err.text : a.pass ? "pass" : "no", rows[i].is, "%s", rows[i].line);
		question_answer_done(&a);
	}
}
