/* What an attempt wrote, and which watches show it. */
#include "workers/writes.h"
#include <criterion/criterion.h>

static struct wire_write write_of(uint32_t table, uint64_t version)
{
	return (struct wire_write){.table = table, .resource_version = version, .own = true};
}

static bool picked(const struct wire_write *out, size_t n, uint32_t table, uint64_t version)
{
	size_t found = 0;
	for (size_t i = 0; i < n; i++)
		found += out[i].table == table && out[i].resource_version == version;
	cr_assert(found <= 1);
	return found;
}

Test(writes, all_of_few_are_picked)
{
	struct writes s = {0};
	struct wire_write out[WRITES_MAX];
	cr_assert_eq(writes_pick(&s, out), 0);
	for (uint64_t i = 0; i < WRITES_MAX; i++)
		writes_add(&s, write_of(1, 100 + i));
	cr_assert_eq(writes_pick(&s, out), WRITES_MAX);
	cr_assert(out[0].resource_version == 100 && out[63].resource_version == 163 && out[0].own);
	writes_done(&s);
	cr_assert_eq(writes_pick(&s, out), 0);
}

/* The wait needs the highest of each stream; of the others the last ones are the likeliest to come now. */
Test(writes, of_many_the_highest_of_each_stream_and_the_last)
{
	struct writes s = {0};
	struct wire_write out[WRITES_MAX];
	writes_add(&s, write_of(2, 1000));
	writes_add(&s, write_of(3, 7));
	for (uint64_t i = 0; i < 200; i++)
		writes_add(&s, write_of(1, 300 - i));
	writes_add(&s, write_of(2, 999));
	cr_assert_eq(writes_pick(&s, out), WRITES_MAX);
	cr_assert(picked(out, WRITES_MAX, 2, 1000) && picked(out, WRITES_MAX, 3, 7) &&
		  picked(out, WRITES_MAX, 1, 300));
	cr_assert(picked(out, WRITES_MAX, 2, 999) && picked(out, WRITES_MAX, 1, 101));
	cr_assert(!picked(out, WRITES_MAX, 1, 299));
	writes_done(&s);
}

Test(writes, the_stream_is_the_namespace_of_the_watch)
{
	static char *two[] = {"blog", "shop", NULL};
	struct config_kind all = {.kind = "Pod"}, some = {.kind = "Pod", .namespaces = two};
	cr_assert_eq(writes_stream(&all, true, span_of("shop")), 0);
	cr_assert_eq(writes_stream(&some, true, span_of("blog")), 0);
	cr_assert_eq(writes_stream(&some, true, span_of("shop")), 1);
	cr_assert_eq(writes_stream(&some, true, span_of("sho")), -ENOENT);
	cr_assert_eq(writes_stream(&some, false, span_of("")), 0);
}

Test(writes, the_last_finalizer_is_a_delete)
{
	cr_assert(writes_is_delete(
	    span_of("{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"finalizers\":[]}}")));
	cr_assert(
	    writes_is_delete(span_of("{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}")));
	cr_assert(!writes_is_delete(span_of(
	    "{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"finalizers\":[\"a/b\"]}}")));
	cr_assert(!writes_is_delete(span_of("{\"metadata\":{\"deletionTimestamp\":null}}")));
	cr_assert(!writes_is_delete(span_of("{\"metadata\":{}}")));
}

Test(writes, selectors_decide_what_a_watch_shows)
{
	static const char *const object = "{\"metadata\":{\"name\":\"web\",\"labels\":{\"tier\":\"web\"}},"
					  "\"spec\":{\"unschedulable\":true},"
					  "\"status\":{\"phase\":\"Running\",\"none\":null}}";
	static const struct {
		char *labels, *fields;
		bool want;
	} rows[] = {
	    {NULL, NULL, true},
	    {"tier=web", NULL, true},
	    {"tier!=web", NULL, false},
	    {"other", NULL, false},
	    {NULL, "metadata.name=web", true},
	    {NULL, "metadata.name==web", true},
	    {NULL, "metadata.name!=web", false},
	    {NULL, "metadata.name!=legacy,status.phase=Running", true},
	    {NULL, "status.phase=Running,metadata.name=x", false},
	    {NULL, "spec.unschedulable=true", true},
	    {NULL, "spec.nodeName=", true},
	    {NULL, "spec.nodeName!=", false},
	    {NULL, "status.none=", true},
	    {NULL, "metadata.name.more=x", false},
	    {"tier=web", "metadata.name=x", false},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct config_kind k = {.label_selector = rows[i].labels, .field_selector = rows[i].fields};
		cr_expect_eq(writes_selected(&k, span_of(object)), rows[i].want, "row %zu", i);
	}
	struct config_kind k = {.label_selector = "!tier"};
	cr_assert(writes_selected(&k, span_of("{\"metadata\":{}}")));
}
