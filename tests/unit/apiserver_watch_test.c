/* Watches: where they start, what they tell, how they end. */
#include "apiserver_fixture.h"

TestSuite(apiserver_watch, .init = setup, .fini = teardown);

static int64_t start;

static void create(const char *name, const char *tier)
{
	_cleanup_(free_ptr) char *body =
	    xasprintf("{'metadata':{'name':'%s','labels':{'tier':'%s'}},'data':{'k':'v'}}", name, tier);
	EXPECT_CODE(201, CALL("POST", CM, body));
	start = watch_clock();
}

static struct watch *watch_from(const char *more, const char *version)
{
	_cleanup_(free_ptr) char *uri = xasprintf(CM "?watch=1&resourceVersion=%s%s", version, more);
	return watch(uri);
}

static char *version_now(void)
{
	EXPECT_CODE(200, GET(CM));
	return xstrdup(at(".metadata.resourceVersion"));
}

Test(apiserver_watch, without_a_version_it_starts_with_what_is_there)
{
	create("a", "web");
	create("b", "db");
	struct watch *w = watch(CM "?watch=true&labelSelector=tier%3Dweb");
	EXPECT_EVENTS(w, start, WATCH_IDLE, "ADDED a");
	create("c", "web");
	EXPECT_EVENTS(w, start, WATCH_IDLE, "ADDED c");
	watch_free(w);
}

Test(apiserver_watch, resumes_after_the_version)
{
	create("a", "web");
	_cleanup_(free_ptr) char *version = version_now();
	create("b", "web");
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", "{'data':{'k':'w'}}"));
	EXPECT_CODE(200, CALL("DELETE", CM "/b", ""));
	struct watch *w = watch_from("", version);
	EXPECT_EVENTS(w, start, WATCH_IDLE, "ADDED b, MODIFIED a, DELETED b");
	watch_free(w);
}

Test(apiserver_watch, deleted_carries_the_version_of_the_deletion)
{
	create("a", "web");
	_cleanup_(free_ptr) char *before = version_now();
	EXPECT_CODE(200, CALL("DELETE", CM "/a", ""));
	_cleanup_(free_ptr) char *after = version_now();
	struct watch *w = watch_from("", before);
	_cleanup_(buf_done) struct buf line = {0};
	int64_t until;
	cr_assert_eq(watch_step(w, &line, start, now, &until), WATCH_DATA);
	cr_expect(json_string_is(table_value(buf_span(&line), ".object.metadata.resourceVersion"), after),
		  "%s", buf_str(&line));
	watch_free(w);
}

Test(apiserver_watch, selectors_turn_changes_into_comings_and_goings)
{
	create("a", "web");
	_cleanup_(free_ptr) char *version = version_now();
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", "{'metadata':{'labels':{'tier':'db'}}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", "{'data':{'k':'unseen'}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", "{'metadata':{'labels':{'tier':'web'}}}"));
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", "{'data':{'k':'seen'}}"));
	struct watch *w = watch_from("&labelSelector=tier%3Dweb", version);
	EXPECT_EVENTS(w, start, WATCH_IDLE, "DELETED a, ADDED a, MODIFIED a");
	watch_free(w);
	w = watch_from("&fieldSelector=metadata.name%3Db", version);
	EXPECT_EVENTS(w, start, WATCH_IDLE, "");
	watch_free(w);
}

Test(apiserver_watch, an_object_that_leaves_is_told_as_it_was_at_the_version_of_the_event)
{
	create("a", "web");
	_cleanup_(free_ptr) char *before = version_now();
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", "{'metadata':{'labels':{'tier':'db'}}}"));
	_cleanup_(free_ptr) char *after = version_now();
	struct watch *w = watch_from("&labelSelector=tier%3Dweb", before);
	_cleanup_(buf_done) struct buf line = {0};
	int64_t until;
	watch_step(w, &line, start, now, &until);
	cr_expect(json_string_is(table_value(buf_span(&line), ".object.metadata.resourceVersion"), after),
		  "%s", buf_str(&line));
	cr_expect(json_string_is(table_value(buf_span(&line), ".object.metadata.labels.tier"), "web"), "%s",
		  buf_str(&line));
	watch_free(w);
}

Test(apiserver_watch, other_namespaces_and_kinds_are_not_told)
{
	struct watch *w = watch("/api/v1/namespaces/kube-system/configmaps?watch=1"),
		     *secrets = watch("/api/v1/secrets?watch=1");
	struct watch *one = watch(CM "/a?watch=1"), *all = watch("/api/v1/configmaps?watch=1");
	create("b", "web");
	create("a", "web");
	EXPECT_EVENTS(w, start, WATCH_IDLE, "");
	EXPECT_EVENTS(secrets, start, WATCH_IDLE, "");
	EXPECT_EVENTS(one, start, WATCH_IDLE, "ADDED a");
	EXPECT_EVENTS(all, start, WATCH_IDLE, "ADDED b, ADDED a");
	watch_free(w);
	watch_free(secrets);
	watch_free(one);
	watch_free(all);
}

Test(apiserver_watch, too_old_is_410_in_the_stream)
{
	storage_free(store);
	store = storage_new(4, 64 << 20, (uint64_t)now * 10000);
	seed_namespaces(store, now);
	create("a", "web");
	_cleanup_(free_ptr) char *version = version_now();
	for (int i = 0; i < 5; i++) {
		_cleanup_(free_ptr) char *body = xasprintf("{'data':{'k':'%d'}}", i);
		EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", body));
	}
	const char *const versions[] = {version, "1", "9999999999999999999", NULL};
	for (size_t i = 0; versions[i]; i++) {
		struct watch *w = watch_from("", versions[i]);
		_cleanup_(buf_done) struct buf line = {0};
		int64_t until;
		cr_expect_eq(watch_step(w, &line, start, now, &until), WATCH_END);
		cr_expect(json_string_is(table_value(buf_span(&line), ".type"), "ERROR"));
		cr_expect(json_string_is(table_value(buf_span(&line), ".object.reason"), "Expired"));
		cr_expect(span_is(table_value(buf_span(&line), ".object.code"), "410"), "%s", buf_str(&line));
		watch_free(w);
	}
}

Test(apiserver_watch, a_reader_who_is_too_slow_gets_410)
{
	storage_free(store);
	store = storage_new(4, 64 << 20, (uint64_t)now * 10000);
	seed_namespaces(store, now);
	create("a", "web");
	struct watch *w = watch(CM "?watch=1");
	for (int i = 0; i < 6; i++) {
		_cleanup_(free_ptr) char *body = xasprintf("{'data':{'k':'%d'}}", i);
		EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", body));
	}
	EXPECT_EVENTS(w, start, WATCH_END, "ADDED a, ERROR");
	watch_free(w);
}

Test(apiserver_watch, bookmarks_when_wanted_and_at_the_end)
{
	create("a", "web");
	_cleanup_(free_ptr) char *version = version_now();
	struct watch *w = watch_from("&allowWatchBookmarks=true&timeoutSeconds=100", version);
	start = watch_clock();
	EXPECT_EVENTS(w, start, WATCH_IDLE, "");
	EXPECT_EVENTS(w, start + 61 * NS_PER_S, WATCH_IDLE, "BOOKMARK");
	EXPECT_EVENTS(w, start + 62 * NS_PER_S, WATCH_IDLE, "");
	/* another kind's write moves the bookmark */
	EXPECT_CODE(201, CALL("POST", "/api/v1/namespaces/default/secrets", "{'metadata':{'name':'s'}}"));
	_cleanup_(free_ptr) char *later = xstrdup(at(".metadata.resourceVersion"));
	_cleanup_(buf_done) struct buf line = {0};
	int64_t until;
	cr_expect_eq(watch_step(w, &line, start + 101 * NS_PER_S, now, &until), WATCH_END);
	cr_expect(json_string_is(table_value(buf_span(&line), ".type"), "BOOKMARK"));
	cr_expect(json_string_is(table_value(buf_span(&line), ".object.metadata.resourceVersion"), later),
		  "%s", buf_str(&line));
	watch_free(w);
	w = watch_from("&timeoutSeconds=100", version);
	EXPECT_EVENTS(w, start + 101 * NS_PER_S + NS_PER_S, WATCH_END, "");
	watch_free(w);
}

Test(apiserver_watch, many_events_come_in_steps)
{
	struct watch *w = watch(CM "?watch=1");
	for (int i = 0; i < 200; i++) {
		_cleanup_(free_ptr) char *name = xasprintf("n%d", i);
		create(name, "web");
	}
	_cleanup_(buf_done) struct buf lines = {0};
	int64_t until;
	size_t n = 0;
	while (watch_step(w, &lines, start, now, &until) == WATCH_DATA)
		;
	for (size_t i = 0; i < lines.len; i++)
		n += lines.data[i] == '\n';
	cr_expect_eq(n, 200u);
	watch_free(w);
}

Test(apiserver_watch, tables_and_metadata)
{
	create("a", "web");
	_cleanup_(buf_done) struct buf line = {0};
	int64_t until;
	accept_header = "application/json;as=Table;v=v1;g=meta.k8s.io";
	struct watch *w = watch(CM "?watch=1");
	watch_step(w, &line, start, now, &until);
	cr_expect(json_string_is(table_value(buf_span(&line), ".object.kind"), "Table"));
	cr_expect(json_string_is(table_value(buf_span(&line), ".object.columnDefinitions[0].name"), "Name"));
	cr_expect(json_string_is(table_value(buf_span(&line), ".object.rows[0].cells[0]"), "a"));
	watch_free(w);
	buf_reset(&line);
	accept_header = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
	w = watch(CM "?watch=1");
	watch_step(w, &line, start, now, &until);
	cr_expect(json_string_is(table_value(buf_span(&line), ".object.kind"), "PartialObjectMetadata"));
	cr_expect(!table_value(buf_span(&line), ".object.data").at);
	watch_free(w);
}

#define STREAMING "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
#define MARK	  ".object.metadata.annotations['k8s.io/initial-events-end']"

Test(apiserver_watch, a_streaming_list_ends_with_a_marked_bookmark)
{
	create("a", "web");
	create("b", "db");
	_cleanup_(free_ptr) char *version = version_now();
	struct watch *w = watch_from(STREAMING "&labelSelector=tier%3Dweb", "");
	create("c", "web");
	EXPECT_EVENTS(w, start, WATCH_IDLE, "ADDED a, BOOKMARK, ADDED c");
	watch_free(w);
	/* Of nothing, too; and its version is that of what was told, whatever happened since. */
	const char *const forms[] = {"", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"};
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		_cleanup_(free_ptr) char *then = version_now();
		accept_header = forms[i];
		w = watch_from(STREAMING "&labelSelector=tier%3Dnone", i ? "0" : version);
		EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", i ? "{'data':{'k':'x'}}" : "{'data':{'k':'y'}}"));
		_cleanup_(buf_done) struct buf line = {0};
		int64_t until;
		cr_assert_eq(watch_step(w, &line, start, now, &until), WATCH_DATA);
		cr_expect(json_string_is(table_value(buf_span(&line), ".type"), "BOOKMARK"));
		cr_expect(json_string_is(table_value(buf_span(&line), MARK), "true"), "%s", buf_str(&line));
		cr_expect(
		    json_string_is(table_value(buf_span(&line), ".object.metadata.resourceVersion"), then),
		    "%s", buf_str(&line));
		/* Later bookmarks are not marked. */
		EXPECT_EVENTS(w, start, WATCH_IDLE, "");
		buf_reset(&line);
		watch_step(w, &line, start + 61 * NS_PER_S, now, &until);
		cr_expect(json_string_is(table_value(buf_span(&line), ".type"), "BOOKMARK"));
		cr_expect(!table_value(buf_span(&line), MARK).at);
		watch_free(w);
	}
}

Test(apiserver_watch, a_streaming_list_in_other_ways)
{
	create("a", "web");
	/* Nobody is told where the initial events end who did not ask for bookmarks. */
	struct watch *w = watch(CM "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
	EXPECT_EVENTS(w, start, WATCH_IDLE, "ADDED a");
	watch_free(w);
	w = watch(CM "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
	EXPECT_EVENTS(w, start, WATCH_IDLE, "");
	watch_free(w);
	EXPECT_CODE(504, GET(CM "?watch=1&resourceVersion=99999999999999999" STREAMING));
	EXPECT_AT(".details.causes[0].reason", "ResourceVersionTooLarge");
	refuse_watch_list = true;
	EXPECT_CODE(422, GET(CM "?watch=1" STREAMING));
	EXPECT_AT(".details.causes[0].field", "sendInitialEvents");
}

Test(apiserver_watch, what_is_not_supported_is_refused)
{
	EXPECT_CODE(422, GET(CM "?watch=1&sendInitialEvents=true"));
	EXPECT_AT(".details.causes[0].field", "resourceVersionMatch");
	EXPECT_CODE(422, GET(CM "?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact"));
	EXPECT_CODE(400, GET(CM "?watch=1&sendInitialEvents=maybe"));
	EXPECT_CODE(422, GET(CM "?sendInitialEvents=true"));
	EXPECT_AT(".details.causes[0].field", "sendInitialEvents");
	EXPECT_CODE(422, GET(CM "?watch=1&resourceVersionMatch=Exact"));
	EXPECT_CODE(400, GET(CM "?watch=1&resourceVersion=x"));
	EXPECT_CODE(400, GET(CM "?watch=maybe"));
	EXPECT_CODE(400, GET(CM "?watch=1&fieldSelector=x%3Dy"));
}

Test(apiserver_watch, the_end_of_the_server_ends_it)
{
	struct watch *w = watch(CM "?watch=1");
	storage_stop(store);
	EXPECT_EVENTS(w, start, WATCH_END, "");
	watch_free(w);
}
