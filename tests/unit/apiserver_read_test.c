/* Lists, their pages and selectors, tables, discovery and paths. */
#include "apiserver/listing.h"
#include "apiserver_fixture.h"

TestSuite(apiserver_read, .init = setup, .fini = teardown);

static void create(const char *name, const char *tier)
{
	_cleanup_(free_ptr) char *body =
	    xasprintf("{'metadata':{'name':'%s','labels':{'tier':'%s'}},'data':{'k':'v'}}", name, tier);
	EXPECT_CODE(201, CALL("POST", CM, body));
}

/* The names of the items, "a b c". */
static const char *names(void)
{
	static struct buf text;
	struct json_iter it = {0};
	struct span key, item, list = json_get(buf_span(&answer.body), "items");
	buf_reset(&text);
	while (list.at && json_each(list, &it, &key, &item)) {
		buf_puts(&text, text.len ? " " : "");
		json_unescape(table_value(item, ".metadata.name"), &text);
	}
	return buf_str(&text);
}

static const char *page(const char *token)
{
	static char uri[256];
	snprintf(uri, sizeof(uri), CM "?limit=2&continue=%s", token);
	return uri;
}

Test(apiserver_read, pages_show_one_moment)
{
	create("a", "web");
	create("b", "web");
	create("d", "web");
	create("e", "db");
	EXPECT_CODE(200, GET(CM "?limit=2"));
	cr_expect_str_eq(names(), "a b");
	EXPECT_AT(".metadata.remainingItemCount", "2");
	char token[128], version[32];
	snprintf(token, sizeof(token), "%s", at(".metadata.continue"));
	snprintf(version, sizeof(version), "%s", at(".metadata.resourceVersion"));
	create("c", "web");
	EXPECT_CODE(200, CALL("DELETE", CM "/d", ""));
	EXPECT_CODE(200, PATCH_BY(MERGE, CM "/e", "{'data':{'k':'new'}}"));
	EXPECT_CODE(200, GET(page(token)));
	cr_expect_str_eq(names(), "d e");
	EXPECT_AT(".items[1].data.k", "v");
	EXPECT_AT(".metadata.resourceVersion", version);
	EXPECT_AT(".metadata.continue", "");
	EXPECT_CODE(200, GET(CM));
	cr_expect_str_eq(names(), "a b c e");
	EXPECT_CODE(400, GET(page("nonsense")));
}

Test(apiserver_read, an_old_page_is_gone)
{
	storage_free(store);
	store = storage_new(4, 64 << 20, (uint64_t)now * 10000);
	seed_namespaces(store, now);
	create("a", "web");
	create("b", "web");
	create("c", "web");
	EXPECT_CODE(200, GET(CM "?limit=2"));
	char token[128], uri[256];
	snprintf(token, sizeof(token), "%s", at(".metadata.continue"));
	snprintf(uri, sizeof(uri), CM "?resourceVersionMatch=Exact&resourceVersion=%s",
		 at(".metadata.resourceVersion"));
	for (int i = 0; i < 5; i++) {
		_cleanup_(free_ptr) char *body = xasprintf("{'data':{'k':'%d'}}", i);
		EXPECT_CODE(200, PATCH_BY(MERGE, CM "/a", body));
	}
	EXPECT_CODE(410, GET(page(token)));
	EXPECT_AT(".reason", "Expired");
	EXPECT_CODE(410, GET(uri));
}

Test(apiserver_read, label_selectors)
{
	create("a", "web");
	create("b", "db");
	create("c", "queue");
	EXPECT_CODE(201, CALL("POST", CM, "{'metadata':{'name':'bare'}}"));
	static const struct {
		const char *selector, *names;
	} cases[] = {
	    {"tier=web", "a"},
	    {"tier%3D%3Dweb", "a"},
	    {"tier!=web", "b bare c"},
	    {"tier%20in%20(web,db)", "a b"},
	    {"tier+notin+(web,db)", "bare c"},
	    {"tier", "a b c"},
	    {"!tier", "bare"},
	    {"tier,tier!=web", "b c"},
	    {"tier=nothing", ""},
	    {"", "a b bare c"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(free_ptr) char *uri = xasprintf(CM "?labelSelector=%s", cases[i].selector);
		EXPECT_CODE(200, GET(uri));
		cr_expect_str_eq(names(), cases[i].names, "%s: %s", cases[i].selector, names());
	}
	static const char *const wrong[] = {"tier%20in", "tier%20in%20(a", "=a",   "a=b=c",	     "a%20b",
					    ",",	 "tier=a%20b",	   "a=b,", "tier%20in%20web"};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_(free_ptr) char *uri = xasprintf(CM "?labelSelector=%s", wrong[i]);
		EXPECT_CODE(400, GET(uri));
	}
}

Test(apiserver_read, field_selectors)
{
	create("a", "web");
	create("b", "db");
	EXPECT_CODE(200, GET(CM "?fieldSelector=metadata.name%3Da"));
	cr_expect_str_eq(names(), "a");
	EXPECT_CODE(200, GET("/api/v1/configmaps?fieldSelector=metadata.name!=a,metadata.namespace=default"));
	cr_expect_str_eq(names(), "b");
	EXPECT_CODE(400, GET(CM "?fieldSelector=data.k%3Dv"));
	EXPECT_AT(".message", "field label not supported: data.k");
	EXPECT_CODE(400, GET(CM "?fieldSelector=metadata.name"));
	EXPECT_CODE(201, CALL("POST", "/api/v1/namespaces/default/pods",
			      "{'metadata':{'name':'p'},'spec':{'nodeName':'n1'}}"));
	EXPECT_CODE(200, GET("/api/v1/pods?fieldSelector=status.phase=Pending,spec.nodeName=n1"));
	cr_expect_str_eq(names(), "p");
	EXPECT_CODE(200, GET("/api/v1/pods?fieldSelector=status.phase=Running"));
	cr_expect_str_eq(names(), "");
}

Test(apiserver_read, resource_versions_of_lists)
{
	create("a", "web");
	EXPECT_CODE(200, GET(CM "?resourceVersion=0"));
	EXPECT_CODE(200, GET(CM "?resourceVersion=1"));
	EXPECT_CODE(504, GET(CM "?resourceVersion=99999999999999999"));
	EXPECT_AT(".details.causes[0].reason", "ResourceVersionTooLarge");
	EXPECT_CODE(400, GET(CM "?resourceVersion=x"));
	EXPECT_CODE(422, GET(CM "?resourceVersionMatch=Exact"));
	EXPECT_CODE(422, GET(CM "?resourceVersionMatch=Exact&resourceVersion=0"));
	EXPECT_CODE(410, GET(CM "?resourceVersionMatch=Exact&resourceVersion=1"));
	EXPECT_CODE(400, GET(CM "?limit=many"));
	EXPECT_CODE(400, GET(CM "?limit=-1"));
}

/* As kube-apiserver has it: a version alone is the least, with a limit it is exactly that one. */
Test(apiserver_read, what_a_resource_version_means_depends_on_match_and_limit)
{
	create("a", "web");
	EXPECT_CODE(200, GET(CM));
	char then[32], now_is[32];
	snprintf(then, sizeof then, "%s", at(".metadata.resourceVersion"));
	create("b", "web");
	EXPECT_CODE(200, GET(CM));
	snprintf(now_is, sizeof now_is, "%s", at(".metadata.resourceVersion"));
	static const struct {
		const char *rest;
		bool exact;
	} cases[] = {{"", false},
		     {"&resourceVersionMatch=NotOlderThan", false},
		     {"&resourceVersionMatch=NotOlderThan&limit=5", false},
		     {"&resourceVersionMatch=Exact", true},
		     {"&resourceVersionMatch=Exact&limit=5", true},
		     {"&limit=5", true}};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(free_ptr) char *uri = xasprintf(CM "?resourceVersion=%s%s", then, cases[i].rest);
		EXPECT_CODE(200, GET(uri));
		EXPECT_AT(".metadata.resourceVersion", cases[i].exact ? then : now_is);
		cr_expect_str_eq(names(), cases[i].exact ? "a" : "a b", "%s", cases[i].rest);
	}
	EXPECT_CODE(200, GET(CM "?resourceVersion=0&limit=5"));
	cr_expect_str_eq(names(), "a b");
}

Test(apiserver_read, items_of_built_in_lists_have_no_kind)
{
	create("a", "web");
	EXPECT_CODE(200, GET(CM));
	EXPECT_AT(".kind", "ConfigMapList");
	EXPECT_AT(".items[0].kind", "");
	EXPECT_CODE(200, GET(CM "/a"));
	EXPECT_AT(".kind", "ConfigMap");
}

Test(apiserver_read, metadata_only)
{
	create("a", "web");
	accept_header = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
	EXPECT_CODE(200, GET(CM));
	EXPECT_AT(".kind", "PartialObjectMetadataList");
	EXPECT_AT(".items[0].kind", "PartialObjectMetadata");
	EXPECT_AT(".items[0].metadata.labels.tier", "web");
	EXPECT_AT(".items[0].data", "");
	accept_header = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
	EXPECT_CODE(200, GET(CM "/a"));
	EXPECT_AT(".kind", "PartialObjectMetadata");
	accept_header = "application/vnd.kubernetes.protobuf";
	EXPECT_CODE(406, GET(CM "/a"));
	accept_header = "application/vnd.kubernetes.protobuf,application/json";
	EXPECT_CODE(200, GET(CM "/a"));
	accept_header = "text/html, */*;q=0.5";
	EXPECT_CODE(200, GET(CM "/a"));
}

Test(apiserver_read, tables)
{
	create("a", "web");
	accept_header = "application/json;as=Table;v=v1;g=meta.k8s.io,application/"
			"json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
	now += 65;
	EXPECT_CODE(200, GET(CM));
	EXPECT_AT(".kind", "Table");
	EXPECT_AT(".columnDefinitions[0].name", "Name");
	EXPECT_AT(".rows[0].cells", "[\"a\",1,\"65s\"]");
	EXPECT_AT(".rows[0].object.kind", "PartialObjectMetadata");
	EXPECT_AT(".rows[0].object.metadata.name", "a");
}

Test(apiserver_read, ages_as_the_field_writes_them)
{
	static const struct {
		int64_t seconds;
		const char *text;
	} cases[] = {{0, "0s"},	       {119, "119s"},	 {120, "2m"},	   {125, "2m5s"},   {599, "9m59s"},
		     {600, "10m"},     {10799, "179m"},	 {10800, "3h"},	   {10860, "3h1m"}, {28800, "8h"},
		     {172799, "47h"},  {172800, "2d"},	 {180000, "2d2h"}, {691200, "8d"},  {63072000, "2y"},
		     {94608001, "3y"}, {-5, "<invalid>"}};
	char buf[32];
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(table_age(cases[i].seconds, buf), cases[i].text, "%lld: %s",
				 (long long)cases[i].seconds, buf);
}

Test(apiserver_read, table_paths)
{
	_cleanup_(free_ptr) char *text =
	    quoted("{'a':{'b.c/d':'x','l':[{'type':'A','n':1},{'type':'Ready','n':2}]}}");
	static const struct {
		const char *path, *value;
	} cases[] = {
	    {".a.l[1].n", "2"},
	    {".a.l[?(@.type==\"Ready\")].n", "2"},
	    {".a.l[?(@.type=='A')].n", "1"},
	    {".a['b.c/d']", "\"x\""},
	    {".a.b\\.c/d", "\"x\""},
	    {".a.l[*].n", "1"},
	    {".a.l[?(@.type==\"None\")].n", ""},
	    {".a.l[9].n", ""},
	    {".a.l[", ""},
	    {".a.none.more", ""},
	    {".a.l[]", ""},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct span v = table_value(span_of(text), cases[i].path);
		cr_expect(span_eq(v, span_of(cases[i].value)), "%s: " SPAN_FMT, cases[i].path, SPAN_ARG(v));
	}
}

Test(apiserver_read, events_are_one_kind_with_two_faces)
{
	EXPECT_CODE(201,
		    CALL("POST", "/apis/events.k8s.io/v1/namespaces/default/events",
			 "{'apiVersion':'events.k8s.io/"
			 "v1','kind':'Event','metadata':{'name':'e'},'regarding':{'kind':'Pod','name':'p'},"
			 "'note':'hello','reason':'R','type':'Normal','reportingController':'me'}"));
	EXPECT_AT(".apiVersion", "events.k8s.io/v1");
	EXPECT_AT(".note", "hello");
	EXPECT_AT(".message", "");
	EXPECT_CODE(200, GET("/api/v1/namespaces/default/events/e"));
	EXPECT_AT(".apiVersion", "v1");
	EXPECT_AT(".message", "hello");
	EXPECT_AT(".involvedObject.name", "p");
	EXPECT_AT(".reportingComponent", "me");
	EXPECT_CODE(200, PATCH_BY(MERGE, "/apis/events.k8s.io/v1/namespaces/default/events/e",
				  "{'note':'again','series':{'count':2}}"));
	EXPECT_AT(".note", "again");
	EXPECT_CODE(200, GET("/api/v1/events?fieldSelector=involvedObject.name=p,reason=R"));
	EXPECT_AT(".items[0].message", "again");
	EXPECT_CODE(200, GET("/apis/events.k8s.io/v1/events?fieldSelector=regarding.name=p"));
	EXPECT_AT(".items[0].note", "again");
	storage_lock(store);
	cr_expect_eq(collector_expire(store, now + 3599), 0u);
	cr_expect_eq(collector_expire(store, now + 3600), 1u);
	storage_unlock(store);
	EXPECT_CODE(404, GET("/api/v1/namespaces/default/events/e"));
}

Test(apiserver_read, discovery)
{
	EXPECT_CODE(200, GET("/api"));
	EXPECT_AT(".versions[0]", "v1");
	EXPECT_CODE(200, GET("/api/v1"));
	EXPECT_AT(".resources[0].name", "namespaces");
	EXPECT_AT(".resources[1].name", "namespaces/status");
	EXPECT_AT(".resources[2].shortNames[0]", "cm");
	EXPECT_CODE(200, GET("/apis"));
	EXPECT_AT(".groups[0].name", "apps");
	EXPECT_CODE(200, GET("/apis/apps"));
	EXPECT_AT(".preferredVersion.groupVersion", "apps/v1");
	EXPECT_CODE(200, GET("/apis/apps/v1"));
	EXPECT_AT(".groupVersion", "apps/v1");
	EXPECT_CODE(200, GET("/version"));
	EXPECT_AT(".major", "1");
	EXPECT_CODE(200, GET("/readyz"));
	EXPECT_CODE(200, GET("/openapi/v2"));
	EXPECT_AT(".definitions", "{}");
	EXPECT_CODE(200, GET("/"));
	static const char *const missing[] = {"/apis/none",
					      "/apis/apps/v2",
					      "/api/v2",
					      "/openapi/v3",
					      "/api/v1/nothings",
					      "/nothing",
					      "/api/v1/namespaces/default/configmaps/a/status",
					      "/api/v1/namespaces/default/namespaces",
					      "/api/v1/configmaps/a",
					      "/a/b/c/d/e/f/g/h/i/j/k"};
	for (size_t i = 0; i < ARRAY_SIZE(missing); i++)
		EXPECT_CODE(404, GET(missing[i]));
	EXPECT_CODE(400, GET("/api/v1/namespaces/%zz"));
	EXPECT_CODE(400, GET(CM "?labelSelector=%zz"));
}

Test(apiserver_read, methods_that_a_path_has_not)
{
	EXPECT_CODE(405, CALL("POST", CM "/a", "{}"));
	EXPECT_AT(".reason", "MethodNotAllowed");
	cr_expect_str_eq(answer.allow, "DELETE, GET, PATCH, PUT");
	EXPECT_CODE(405, CALL("PUT", CM, "{}"));
	EXPECT_CODE(405, CALL("POST", "/api/v1/configmaps", "{}"));
	EXPECT_CODE(405, CALL("HEAD", CM, ""));
	EXPECT_CODE(405, CALL("OPTIONS", CM "/a", ""));
	EXPECT_CODE(405, CALL("POST", "/api/v1", ""));
	EXPECT_CODE(405, CALL("DELETE", "/readyz", ""));
}

Test(apiserver_read, the_parts_of_a_large_list_make_one)
{
	static char body[3000];
	memset(body, 'x', sizeof(body) - 1);
	for (int i = 0; i < 300; i++) {
		_cleanup_(free_ptr) char *text =
		    xasprintf("{'metadata':{'name':'n%03d'},'data':{'k':'%s'}}", i, body);
		EXPECT_CODE(201, CALL("POST", CM, text));
	}
	EXPECT_CODE(200, GET(CM));
	struct listing *rest = answer.rest;
	answer.rest = NULL;
	cr_assert_not_null(rest);
	for (int i = 0; i < 300; i++) { /* readers hold what they read */
		_cleanup_(free_ptr) char *uri = xasprintf(CM "/n%03d", i);
		struct api_response first = answer;
		answer = (struct api_response){0};
		EXPECT_CODE(200, CALL("DELETE", uri, ""));
		api_response_done(&answer);
		answer = first;
	}
	while (listing_read(rest, &answer.body))
		;
	listing_free(rest);
	cr_expect_eq(json_check(buf_span(&answer.body), NULL), 0);
	EXPECT_AT(".items[299].metadata.name", "n299");
	EXPECT_AT(".items[300].metadata.name", "");
}
