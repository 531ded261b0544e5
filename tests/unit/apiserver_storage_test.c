/* The store: order, history and its bounds; and the small parts: base64, paths, versions. */
#include "apiserver/call.h"
#include "apiserver_fixture.h"

TestSuite(apiserver_storage, .init = setup, .fini = teardown);

static struct kind *config_maps(void)
{
	return kinds_find(store, span_of(""), span_of("configmaps"));
}

static struct object *object(const char *namespace, const char *name, const char *text)
{
	_cleanup_(doc_free_ptr) struct doc *d = doc_new();
	_cleanup_(free_ptr) char *json = xasprintf(
	    "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":\"u-%s\"},\"data\":{\"k\":\"%s\"}}",
	    name, namespace, name, text);
	struct doc_node *root;
	cr_assert_eq(doc_parse(d, span_of(json), &root, NULL), 0);
	return object_new(config_maps(), d, root, store->rv + 1);
}

static void put(const char *namespace, const char *name, const char *text)
{
	cr_assert_eq(storage_put(store, object(namespace, name, text)), 0);
}

static const char *snapshot_at(uint64_t rv, const char *namespace)
{
	static struct buf text;
	struct snapshot snap = {0};
	struct span none = {0};
	buf_reset(&text);
	int r = storage_snapshot(store, config_maps(), rv, namespace ? span_of(namespace) : none, none, none,
				 false, SIZE_MAX, NULL, NULL, &snap);
	if (r < 0)
		return "gone";
	for (size_t i = 0; i < snap.n; i++) {
		struct span value = table_value(snap.objects[i]->text, ".data.k");
		buf_printf(&text, "%s%s/%s=" SPAN_FMT, i ? " " : "", snap.objects[i]->namespace,
			   snap.objects[i]->name, SPAN_ARG(value));
	}
	snapshot_done(&snap);
	return buf_str(&text);
}

Test(apiserver_storage, order_is_namespace_then_name)
{
	put("b", "a", "1");
	put("a", "z", "1");
	put("a-b", "a", "1");
	put("a", "a", "1");
	cr_expect_str_eq(snapshot_at(store->rv, NULL), "a/a=\"1\" a/z=\"1\" a-b/a=\"1\" b/a=\"1\"");
	cr_expect_str_eq(snapshot_at(store->rv, "a"), "a/a=\"1\" a/z=\"1\"");
	cr_expect_null(storage_find(config_maps(), span_of("a"), span_of("b")));
	cr_expect_not_null(storage_find(config_maps(), span_of("a-b"), span_of("a")));
}

Test(apiserver_storage, every_version_in_the_history_can_be_seen)
{
	uint64_t rv[6];
	rv[0] = store->rv;
	put("n", "a", "1");
	rv[1] = store->rv;
	put("n", "b", "1");
	rv[2] = store->rv;
	put("n", "a", "2");
	rv[3] = store->rv;
	storage_remove(store, object("n", "a", "2"));
	rv[4] = store->rv;
	put("n", "a", "3");
	rv[5] = store->rv;
	cr_expect_str_eq(snapshot_at(rv[0], NULL), "");
	cr_expect_str_eq(snapshot_at(rv[1], NULL), "n/a=\"1\"");
	cr_expect_str_eq(snapshot_at(rv[2], NULL), "n/a=\"1\" n/b=\"1\"");
	cr_expect_str_eq(snapshot_at(rv[3], NULL), "n/a=\"2\" n/b=\"1\"");
	cr_expect_str_eq(snapshot_at(rv[4], NULL), "n/b=\"1\"");
	cr_expect_str_eq(snapshot_at(rv[5], NULL), "n/a=\"3\" n/b=\"1\"");
	cr_expect_str_eq(snapshot_at(rv[5] + 1, NULL), "gone", "a version to come");
	cr_expect_str_eq(snapshot_at(1, NULL), "gone", "a version of an earlier life");
}

/* Against copies made at the time: random changes, every version looked at. */
Test(apiserver_storage, old_versions_are_as_they_were)
{
	enum { CHANGES = 300, NAMES = 7 };
	static char *expected[CHANGES + 1];
	uint64_t first = store->rv;
	srand(1);
	for (int i = 0; i < CHANGES; i++) {
		expected[i] = xstrdup(snapshot_at(store->rv, NULL));
		char name[16], text[16];
		snprintf(name, sizeof(name), "n%d", rand() % NAMES);
		snprintf(text, sizeof(text), "%d", i);
		if (storage_find(config_maps(), span_of("x"), span_of(name)) && rand() % 3 == 0)
			storage_remove(store, object("x", name, text));
		else
			put("x", name, text);
	}
	expected[CHANGES] = xstrdup(snapshot_at(store->rv, NULL));
	for (int i = 0; i <= CHANGES; i++) {
		cr_expect_str_eq(snapshot_at(first + (uint64_t)i, NULL), expected[i]);
		free(expected[i]);
	}
}

Test(apiserver_storage, history_is_bounded_in_number)
{
	store->history = 10;
	uint64_t first = store->rv, number;
	for (int i = 0; i < 25; i++)
		put("n", "a", "x");
	cr_expect_eq(config_maps()->ring_len, 10u);
	cr_expect_eq(storage_event_after(store, config_maps(), first + 14, &number), -ESTALE);
	cr_expect_eq(storage_event_after(store, config_maps(), first + 15, &number), 0);
	cr_expect_eq(number, 15u);
	cr_expect_eq(storage_event_after(store, config_maps(), first + 25, &number), 0);
	cr_expect_eq(number, 25u);
	bool lost;
	cr_expect_null(storage_event(config_maps(), 25, &lost));
	cr_expect_not(lost);
	cr_expect_null(storage_event(config_maps(), 14, &lost));
	cr_expect(lost);
}

Test(apiserver_storage, history_is_bounded_in_bytes)
{
	static char text[2 << 20];
	memset(text, 'x', sizeof(text) - 1);
	store->bytes_max = 1 << 30;
	for (int i = 0; i < 40; i++)
		put("n", "a", text);
	cr_expect_leq(config_maps()->ring_bytes, HISTORY_BYTES_MAX);
	cr_expect_geq(config_maps()->ring_len, 10u);
	cr_expect_lt(config_maps()->ring_len, 20u);
}

Test(apiserver_storage, other_kinds_have_their_own_history)
{
	store->history = 5;
	EXPECT_CODE(201, CALL("POST", "/api/v1/namespaces/default/secrets", "{'metadata':{'name':'s'}}"));
	uint64_t number, rv = store->rv;
	for (int i = 0; i < 20; i++)
		put("n", "a", "x");
	cr_expect_eq(
	    storage_event_after(store, kinds_find(store, span_of(""), span_of("secrets")), rv, &number), 0);
	cr_expect_eq(storage_event_after(store, config_maps(), rv, &number), -ESTALE);
}

Test(apiserver_storage, readers_keep_what_they_hold)
{
	put("n", "a", "1");
	struct object *held = object_ref(storage_find(config_maps(), span_of("n"), span_of("a")));
	store->history = 1;
	put("n", "a", "2");
	put("n", "a", "3");
	cr_expect(span_is(table_value(held->text, ".data.k"), "\"1\""));
	object_unref(held);
}

/* ---- the small parts ---- */

Test(apiserver_parts, paths)
{
	struct uri u;
	struct failure f = {0};
	cr_assert_eq(uri_path(span_of("//api/v1/%6eamespaces/a%2Fb/?x=/y"), &u, &f), 0);
	cr_expect_eq(u.n, 4u);
	cr_expect_str_eq(u.segments[2], "namespaces");
	cr_expect_str_eq(u.segments[3], "a/b");
	uri_done(&u);
	static const char *const wrong[] = {"/a%", "/a%2", "/a%2x", "/a%00", "/1/2/3/4/5/6/7/8/9"};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		cr_expect_lt(uri_path(span_of(wrong[i]), &u, &f), 0, "%s", wrong[i]);
}

Test(apiserver_parts, api_versions)
{
	struct span group, version;
	cr_expect(api_version_split(span_of("v1"), &group, &version) && span_is(group, "") &&
		  span_is(version, "v1"));
	cr_expect(api_version_split(span_of("apps/v1"), &group, &version) && span_is(group, "apps") &&
		  span_is(version, "v1"));
	static const char *const wrong[] = {"", "/v1", "apps/", "a/b/c"};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		cr_expect_not(api_version_split(span_of(wrong[i]), &group, &version), "%s", wrong[i]);
}
