/* What cache.fields leaves of an object. */
#include "watcher/object.h"
#include <criterion/criterion.h>
#include <stdio.h>

static void left_is(const char *const *fields, const char *object, const char *expected)
{
	struct buf out = {0};
	struct projection *p = projection_new((char *const *)(const void *)fields);
	cr_assert(p);
	cr_assert_eq(json_check(span_of(object), NULL), 0, "%s", object);
	projection_copy(p, span_of(object), &out);
	cr_expect_str_eq(buf_str(&out), expected);
	projection_free(p);
	buf_done(&out);
}

#define HEAD "\"apiVersion\":\"v1\",\"kind\":\"X\",\"metadata\":{\"name\":\"a\" , \"x\":[1.0]}"
#define LEFT(object, expected, ...)                                                                          \
	left_is((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}, "{" HEAD object "}",                 \
		"{" HEAD expected "}")

Test(projection, metadata_and_status_always)
{
	LEFT(",\"spec\":{\"a\":1},\"status\":{ \"b\" : 2 },\"data\":{}", ",\"status\":{ \"b\" : 2 }");
	left_is((const char *const[]){NULL}, "{ }", "{}");
}

Test(projection, values_stay_byte_for_byte_in_their_order)
{
	LEFT(",\"spec\":{ \"z\" : 9007199254740993 ,\"b\":2, \"a\":{\"q\" : \"\\u00e9\\/\"} }, \"more\":1",
	     ",\"spec\":{\"z\":9007199254740993,\"a\":{\"q\" : \"\\u00e9\\/\"}}", "spec.a", "spec.z",
	     "spec.none");
	LEFT(",\"sp\\u0065c\":{\"\\u0061\":1,\"b\":2}", ",\"sp\\u0065c\":{\"\\u0061\":1}", "spec.a");
	LEFT(",\"spec\":{\"a\":null,\"b\":null}", ",\"spec\":{\"a\":null}", "spec.a");
	LEFT(",\"spec\":{\"a\":1,\"b\":2,\"a\":3}", ",\"spec\":{\"a\":1,\"a\":3}", "spec.a");
	LEFT(",\"spec\":{\"b\":2}", ",\"spec\":{}", "spec.a");
	LEFT(",\"data\":{\"a.b/c\":1,\"a\":2}", ",\"data\":{\"a.b/c\":1}", "data['a.b/c']");
}

Test(projection, lists)
{
	LEFT(",\"spec\":{\"c\":[{\"image\":\"i\",\"env\":[1]},{\"name\":\"n\"},{\"image\":\"j\"}]}",
	     ",\"spec\":{\"c\":[{\"image\":\"i\"},{},{\"image\":\"j\"}]}", "spec.c[*].image");
	LEFT(",\"spec\":{\"c\":[1 , [2],\"x\"]}", ",\"spec\":{\"c\":[1,[2],\"x\"]}", "spec.c[*]");
	LEFT(",\"spec\":{\"c\":[[{\"a\":1,\"b\":2}],[]]}", ",\"spec\":{\"c\":[[{\"a\":1}],[]]}",
	     "spec.c[*][*].a");
	LEFT(",\"spec\":{\"c\":[]}", ",\"spec\":{\"c\":[]}", "spec.c[*].image");
}

/* A member where the path has a list, and the other way round. */
Test(projection, what_has_another_shape_is_left_out)
{
	LEFT(",\"spec\":{\"c\":{\"image\":1}}", ",\"spec\":{}", "spec.c[*].image");
	LEFT(",\"spec\":{\"c\":[{\"image\":1}]}", ",\"spec\":{}", "spec.c.image");
	LEFT(",\"spec\":{\"c\":[1,{\"image\":1},null,[]]}", ",\"spec\":{\"c\":[{\"image\":1}]}",
	     "spec.c[*].image");
	LEFT(",\"spec\":7", "", "spec.a");
	LEFT(",\"spec\":null", "", "spec.a");
}

Test(projection, as_many_paths_as_the_configuration_allows)
{
	static char texts[64][8];
	const char *fields[65] = {NULL};
	struct buf all = {0}, some = {0};
	buf_puts(&all, "{\"metadata\":{},\"s\":{\"x\":0");
	buf_puts(&some, "{\"metadata\":{},\"s\":{");
	for (int i = 0; i < 64; i++) {
		snprintf(texts[i], sizeof texts[i], "s.f%d", i);
		fields[i] = texts[i];
		buf_printf(&all, ",\"f%d\":%d", i, i);
		buf_printf(&some, "%s\"f%d\":%d", i ? "," : "", i, i);
	}
	buf_puts(&all, "}}");
	buf_puts(&some, "}}");
	left_is(fields, buf_str(&all), buf_str(&some));
	buf_done(&all);
	buf_done(&some);
}

Test(projection, together_with_what_else_is_cut)
{
	const char *const fields[] = {"spec.a", NULL};
	struct projection *p = projection_new((char *const *)(const void *)fields);
	struct object_keep keep = {"apps/v1", "Deployment", true, false, p};
	struct buf out = {0};
	object_normalize(
	    span_of("{\"metadata\":{\"name\":\"a\",\"managedFields\":[]},\"spec\":{\"a\":1,\"b\":2}}"), &keep,
	    &out);
	cr_assert_str_eq(buf_str(&out),
			 "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":"
			 "\"a\"},\"spec\":{\"a\":1}}");
	keep.metadata_only = true;
	buf_reset(&out);
	object_normalize(span_of("{\"metadata\":{\"name\":\"a\"},\"status\":{}}"), &keep, &out);
	cr_assert_str_eq(
	    buf_str(&out),
	    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\"}}");
	projection_free(p);
	buf_done(&out);
}
