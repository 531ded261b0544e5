/* What is taken from an object, and how it is kept. */
#include "object_lib.h"

static struct err err;

Test(object, is_read)
{
	struct object o = read_object("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":"
				      "\"a\\u003cb\",\"namespace\":\"ns\",\"uid\":\"u\","
				      "\"resourceVersion\":\"7\",\"generation\":3,\"deletionTimestamp\":"
				      "\"2026-01-01T00:00:00Z\",\"labels\":{\"a\":\"b\"}}}");
	cr_assert(span_is(o.name, "a<b") && span_is(o.namespace, "ns") && span_is(o.uid, "u") &&
		  span_is(o.version, "7"));
	cr_assert_eq(o.generation, 3);
	cr_assert(span_is(o.deletion, "2026-01-01T00:00:00Z") && span_is(o.labels, "{\"a\":\"b\"}"));
	o = read_object("{\"metadata\":{\"name\":\"a\",\"namespace\":null}}");
	cr_assert_eq(o.generation, -1);
	cr_assert(!o.deletion.at && !o.labels.at && o.namespace.at && !o.namespace.len);
	struct buf b = {0};
	const char *const wrong[] = {"{}",
				     "[]",
				     "{\"metadata\":{}}",
				     "{\"metadata\":{\"name\":1}}",
				     "{\"metadata\":{\"name\":\"\"}}",
				     "{\"metadata\":{\"name\":\"a\",\"generation\":\"1\"}}"};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		cr_assert_eq(object_read(span_of(wrong[i]), &b, &o, &err), -EINVAL, "%s", wrong[i]);
	buf_done(&b);
}

static void normal_is(const char *json, bool strip, bool metadata_only, const char *want)
{
	struct buf b = {0};
	struct object_keep keep = {"apps/v1", "Deployment", strip, metadata_only, NULL};
	object_normalize(span_of(json), &keep, &b);
	cr_assert_str_eq(buf_str(&b), want);
	cr_assert_eq(json_check(buf_span(&b), &err), 0, "%s", err.text);
	buf_done(&b);
}

Test(object, looks_the_same_by_list_and_watch)
{
	normal_is("{\"metadata\":{\"name\":\"a\"},\"n\":9007199254740993}", false, false,
		  "{\"apiVersion\":\"apps/"
		  "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\"},\"n\":9007199254740993}");
	normal_is("{ \"metadata\":{\"name\":\"a\",\"managedFields\":[{}]}}", true, false,
		  "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\", \"metadata\":{\"name\":\"a\"}}");
	normal_is("{\"kind\":\"Deployment\",\"apiVersion\":\"apps/"
		  "v1\",\"metadata\":{\"name\":\"a\",\"managedFields\":[]}}",
		  true, false,
		  "{\"kind\":\"Deployment\",\"apiVersion\":\"apps/v1\",\"metadata\":{\"name\":\"a\"}}");
	normal_is("{}", false, false, "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\" }");
	normal_is("{\"kind\":\"Deployment\"}", false, false,
		  "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\" }");
}

Test(object, metadata_only_keeps_nothing_else_whatever_the_server_sent)
{
	normal_is("{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"data\":{\"p\":\"c2VjcmV0\"},\"metadata\":{"
		  "\"name\":\"a\",\"managedFields\":[1]}}",
		  true, true,
		  "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\"}}");
	normal_is("{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/"
		  "v1\",\"metadata\":{\"name\":\"a\"}}",
		  false, true,
		  "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\"}}");
}

/* Of what stands twice the last counts, as for the reconciler that reads the whole. */
Test(object, duplicate_members)
{
	struct object o =
	    read_object("{\"metadata\":{\"name\":\"x\",\"uid\":\"u\"},\"metadata\":{\"name\":\"a\"}}");
	cr_assert(span_is(o.name, "a") && !o.uid.len);
	o = read_object(
	    "{\"metadata\":{\"name\":5,\"uid\":\"u\",\"uid\":null,\"name\":\"a\",\"generation\":\"x\","
	    "\"generation\":2,\"labels\":{\"a\":\"1\"},\"labels\":null}}");
	cr_assert(span_is(o.name, "a") && !o.uid.len && !o.labels.at);
	cr_assert_eq(o.generation, 2);
	o = read_object(
	    "{\"metadata\":{\"Name\":\"b\",\"name\":\"a\",\"NAME\":\"c\"},\"Metadata\":{\"name\":\"d\"}}");
	cr_assert(span_is(o.name, "a"));
	o = read_object("{\"m\\u0065tadata\":{\"n\\u0061me\":\"a\"}}");
	cr_assert(span_is(o.name, "a"));
	normal_is(
	    "{\"kind\":\"D\",\"apiVersion\":\"v\",\"metadata\":{\"managedFields\":[1],\"a\":1,"
	    "\"managedFields\":[2]},"
	    "\"metadata\":{\"managedFields\":null,\"name\":\"a\"}}",
	    true, false,
	    "{\"kind\":\"D\",\"apiVersion\":\"v\",\"metadata\":{\"a\":1},\"metadata\":{\"name\":\"a\"}}");
}

Test(object, what_is_no_utf8_becomes_replacement_characters)
{
	normal_is("{\"kind\":\"D\",\"apiVersion\":\"v\",\"metadata\":{\"name\":\"a\"},\"x\":\"\xff\xe2\x82|"
		  "\xf0\x9f\x99\x82\"}",
		  true, false,
		  "{\"kind\":\"D\",\"apiVersion\":\"v\",\"metadata\":{\"name\":\"a\"},"
		  "\"x\":\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|\xf0\x9f\x99\x82\"}");
}

/* Wherever it stands and however it is spaced: what is cut takes one comma with it, the rest stays. */
Test(object, managed_fields_are_cut_and_nothing_else)
{
	static const struct {
		const char *metadata, *left;
	} cases[] = {
	    {"{\"managedFields\":[{\"a\":\"}\"}],\"name\":\"a\"}", "{\"name\":\"a\"}"},
	    {"{\"name\":\"a\",\"managedFields\":[]}", "{\"name\":\"a\"}"},
	    {"{\"name\":\"a\",\"managedFields\":[[1]],\"uid\":\"u\"}", "{\"name\":\"a\",\"uid\":\"u\"}"},
	    {"{\"managedFields\":null}", "{}"},
	    {"{ \"managedFields\" : \"x\" }", "{}"},
	    {"{\n  \"name\" : \"a\" ,\n  \"managedFields\" : [ ] ,\n  \"uid\" : \"u\"\n}",
	     "{\n  \"name\" : \"a\" ,\n  \"uid\" : \"u\"\n}"},
	    {"{\t\"managedFields\"\t:\t{}\t,\t\"name\":\"a\"}", "{\t\"name\":\"a\"}"},
	    {"{\"managed\\u0046ields\":1,\"name\":\"a\"}", "{\"name\":\"a\"}"},
	    /* nested, in a text, in another case, with more to the name: not touched */
	    {"{\"labels\":{\"managedFields\":\"x\"},\"name\":\"a\"}",
	     "{\"labels\":{\"managedFields\":\"x\"},\"name\":\"a\"}"},
	    {"{\"note\":\"\\\"managedFields\\\":[]\",\"name\":\"a\"}",
	     "{\"note\":\"\\\"managedFields\\\":[]\",\"name\":\"a\"}"},
	    {"{\"managedfields\":[],\"managedFields2\":[],\"managedField\":[]}",
	     "{\"managedfields\":[],\"managedFields2\":[],\"managedField\":[]}"},
	};
	static const char *const around[][2] = {
	    {"{\"kind\":\"D\",\"apiVersion\":\"v\",\"metadata\":",
	     ",\"spec\":{\"managedFields\":[1.0]},\"managedFields\":[ ]}"},
	    {"{\"kind\":\"D\",\"spec\":{\"metadata\":{\"managedFields\":[]}},\"metadata\" : ",
	     " , \"apiVersion\":\"v\"}\n"},
	    {"{\"metadata\":", ",\"kind\":\"D\",\"apiVersion\":\"v\"}"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(around); k++) {
			_cleanup_(free_ptr) char *whole =
			    xasprintf("%s%s%s", around[k][0], cases[i].metadata, around[k][1]);
			_cleanup_(free_ptr) char *left =
			    xasprintf("%s%s%s", around[k][0], cases[i].left, around[k][1]);
			normal_is(whole, true, false, left);
			normal_is(whole, false, false, whole);
		}
	}
}
