/* Events: aggregation into series, the bucket of each object, and the body. */
#include "events.h"
#include "json_scan.h"
#include <criterion/criterion.h>
#include <stdio.h>

static const struct event_regarding about = {"example.com/v1", "Website", {"shop", 4},
					     {"blog", 4},      {"U", 1},  {"7", 1}};
static struct events s;

static struct answer_event event(const char *reason, const char *message)
{
	return (struct answer_event){true, span_of(reason), span_of(message)};
}

Test(events, likes_become_a_series)
{
	struct answer_event e = event("Bad", "m");
	char name[EVENT_NAME_ROOM];
	cr_expect_eq(events_plan(&s, &about, &e, NS_PER_S).action, EVENT_CREATE);
	struct event_plan p = events_plan(&s, &about, &e, 2 * NS_PER_S);
	cr_expect_eq(p.action, EVENT_PATCH_SERIES);
	cr_expect_eq(p.series->count, 2);
	snprintf(name, sizeof(name), "%s", p.series->name);
	cr_expect_eq(events_plan(&s, &about, &e, 3 * NS_PER_S).action, EVENT_NOTHING);
	struct answer_event other = event("Bad", "another text");
	cr_expect_eq(events_plan(&s, &about, &other, 3 * NS_PER_S).action, EVENT_CREATE);
	int64_t t = 3 * NS_PER_S;
	while (t < EVENT_SERIES_WRITE_NS + 2 * NS_PER_S)
		p = events_plan(&s, &about, &e, t += 300 * NS_PER_S);
	cr_expect_eq(p.action, EVENT_PATCH_SERIES, "every half hour");
	cr_expect_str_eq(p.series->name, name);
	cr_expect_eq(events_plan(&s, &about, &e, t + EVENT_SERIES_QUIET_NS).action, EVENT_CREATE,
		     "quiet for long: a new one");
}

Test(events, an_object_has_a_bucket)
{
	char text[16];
	unsigned created = 0;
	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "m%d", i);
		struct answer_event e = event("Bad", text);
		created += events_plan(&s, &about, &e, NS_PER_S).action == EVENT_CREATE;
	}
	cr_expect_eq(created, EVENT_BURST);
	cr_expect_eq(s.dropped, 100 - EVENT_BURST);
	struct event_regarding second = about;
	second.uid = span_of("V");
	struct answer_event e = event("Bad", "m");
	cr_expect_eq(events_plan(&s, &second, &e, NS_PER_S).action, EVENT_CREATE,
		     "another object has its own");
	cr_expect_eq(events_plan(&s, &about, &e, NS_PER_S + EVENT_REFILL_NS).action, EVENT_CREATE,
		     "one more in five minutes");
	e = event("Worse", "m");
	cr_expect_eq(events_plan(&s, &about, &e, NS_PER_S + EVENT_REFILL_NS).action, EVENT_NOTHING);
}

Test(events, many_objects_do_not_grow_the_tables)
{
	char uid[16];
	for (int i = 0; i < 5000; i++) {
		struct event_regarding o = about;
		struct answer_event e = event("Bad", "m");
		snprintf(uid, sizeof(uid), "%d", i);
		o.uid = span_of(uid);
		cr_assert_eq(events_plan(&s, &o, &e, i).action, EVENT_CREATE);
	}
}

Test(events, body)
{
	struct answer_event e = event("Bad", "say \"no\"");
	struct event_plan p = events_plan(&s, &about, &e, NS_PER_S);
	_cleanup_(buf_done) struct buf out = {0};
	events_body(&s, &p, &about, &e, "website", "website.1", 1500000000, &out);
	struct span all = buf_span(&out);
	cr_assert_eq(json_check(all, NULL), 0, "%s", buf_str(&out));
	cr_expect(json_string_is(json_get(all, "eventTime"), "1970-01-01T00:00:01.500000Z"), "%s",
		  buf_str(&out));
	cr_expect(json_string_is(json_get(all, "reportingController"), "reconciled.dev/website"));
	cr_expect(json_string_is(json_get(all, "note"), "say \"no\""));
	cr_expect(json_string_is(json_get(all, "type"), "Warning"));
	cr_expect(json_string_is(json_path(all, "metadata", "namespace", NULL), "shop"));
	cr_expect(json_string_is(json_path(all, "metadata", "name", NULL), p.series->name));
	cr_expect(json_string_is(json_path(all, "regarding", "uid", NULL), "U"));
	p = events_plan(&s, &about, &e, 2 * NS_PER_S);
	buf_reset(&out);
	events_body(&s, &p, &about, &e, "website", "website.1", 2000000000, &out);
	cr_expect_str_eq(buf_str(&out),
			 "{\"series\":{\"count\":2,\"lastObservedTime\":\"1970-01-01T00:00:02.000000Z\"}}");
}

Test(events, cluster_scoped_objects_have_theirs_in_default)
{
	struct event_regarding o = about;
	o.namespace = span_of("");
	cr_expect(span_is(events_namespace(&s, &o), "default"));
	s.use_kube_system = true;
	cr_expect(span_is(events_namespace(&s, &o), "kube-system"));
}
