/* From an object to the keys that it concerns. */
#include "object_lib.h"
#include "watcher/mapping.h"
#include "watcher/refindex.h"
#include <stdio.h>

static struct err err;

/* ---- lookups of the tests: owner "known" lives with uid "u1"; everything is a and b ---- */

static bool is_another(void *ctx _unused_, struct span namespace _unused_, struct span name, struct span uid)
{
	return span_is(name, "known") && !span_is(uid, "u1");
}
static void references(void *ctx _unused_, struct span namespace, struct span name, struct keys *out)
{
	keys_add(out, namespace, span_of("refers"));
	keys_add(out, span_of("elsewhere"), name);
}
static void everything(void *ctx _unused_, struct keys *out)
{
	keys_add(out, span_of("shop"), span_of("a"));
	keys_add(out, span_of("shop"), span_of("b"));
}

static char text[4096];
static const char *keys_of(const struct config_watch *w, enum cache_scope scope, const char *json)
{
	static const struct config_kind website = {.api_version = "example.com/v1", .kind = "Website"};
	struct mapping_lookup lookup = {NULL, is_another, references, everything, scope};
	struct mapping m;
	struct keys k = {0};
	struct object o = read_object(json);
	mapping_init(&m, w, &website);
	mapping_keys(&m, &o, &lookup, &k);
	snprintf(text, sizeof text, "%s", k.all ? "ALL " : "");
	for (size_t i = 0; i < k.count; i++) {
		struct span namespace, name;
		keys_get(&k, i, &namespace, &name);
		snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s/%.*s ", SPAN_ARG(namespace),
			 SPAN_ARG(name));
	}
	keys_done(&k);
	mapping_done(&m);
	return text;
}

#define META(rest)    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"x\"" rest "}}"
#define CLUSTER(rest) "{\"metadata\":{\"name\":\"x\"" rest "}}"
#define OWNER(version, kind, name, uid, more)                                                                \
	"{\"apiVersion\":\"" version "\",\"kind\":\"" kind "\",\"name\":\"" name "\",\"uid\":\"" uid         \
	"\"" more "}"
#define OWNED(list) META(",\"ownerReferences\":[" list "]")
#define CONTROLLER  ",\"controller\":true"

Test(mapping, self)
{
	struct config_watch w = {.map = MAP_SELF};
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META("")), "shop/x ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_UNKNOWN, CLUSTER("")), "/x ");
}

Test(mapping, owner_by_group_and_kind_whatever_the_version)
{
	struct config_watch w = {.map = MAP_OWNER};
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED,
				 OWNED(OWNER("example.com/v1", "Website", "w", "u", CONTROLLER))),
			 "shop/w ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED,
				 OWNED(OWNER("example.com/v2", "Website", "w", "u", CONTROLLER))),
			 "shop/w ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED,
				 OWNED(OWNER("other.com/v1", "Website", "w", "u", CONTROLLER))),
			 "");
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_NAMESPACED, OWNED(OWNER("v1", "Website", "w", "u", CONTROLLER))), "");
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_NAMESPACED, OWNED(OWNER("example.com/v1", "Blog", "w", "u", CONTROLLER))),
	    "");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META("")), "");
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_CLUSTER, OWNED(OWNER("example.com/v1", "Website", "w", "u", CONTROLLER))),
	    "/w ");
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_UNKNOWN, OWNED(OWNER("example.com/v1", "Website", "w", "u", CONTROLLER))),
	    "ALL ");
}

Test(mapping, only_the_controller_unless_every_owner_matches)
{
	struct config_watch w = {.map = MAP_OWNER};
#define TWO                                                                                                  \
	OWNED(OWNER("example.com/v1", "Website", "a", "u", "") "," OWNER("example.com/v1", "Website", "b",   \
									 "u", CONTROLLER))
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, TWO), "shop/b ");
	w.match_every_owner = true;
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, TWO), "shop/a shop/b ");
}

Test(mapping, an_owner_that_was_replaced_is_not_the_owner)
{
	struct config_watch w = {.map = MAP_OWNER};
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED,
				 OWNED(OWNER("example.com/v1", "Website", "known", "u1", CONTROLLER))),
			 "shop/known ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED,
				 OWNED(OWNER("example.com/v1", "Website", "known", "u0", CONTROLLER))),
			 "");
}

Test(mapping, owner_of_another_kind)
{
	struct config_watch w = {
	    .map = MAP_OWNER_OTHER, .owner_api_version = "apps/v1", .owner_kind = "ReplicaSet"};
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_NAMESPACED, OWNED(OWNER("apps/v1", "ReplicaSet", "rs", "u", CONTROLLER))),
	    "shop/rs ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED,
				 OWNED(OWNER("example.com/v1", "Website", "w", "u", CONTROLLER))),
			 "");
}

Test(mapping, any_reference_to_an_owner_of_another_kind_counts)
{
	struct config_watch w = {
	    .map = MAP_OWNER_OTHER, .owner_api_version = "apps/v1", .owner_kind = "ReplicaSet"};
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_NAMESPACED, OWNED(OWNER("apps/v1", "ReplicaSet", "rs", "u", ""))),
	    "shop/rs ");
}

Test(mapping, label_is_a_name)
{
	struct config_watch w = {.map = MAP_LABEL, .map_key = "example.com/website"};
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"labels\":{\"example.com/website\":\"w\"}")),
	    "shop/w ");
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_CLUSTER, META(",\"labels\":{\"example.com/website\":\"w\"}")), "/w ");
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"labels\":{\"example.com/website\":\"\"}")), "");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"labels\":{\"other\":\"w\"}")), "");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META("")), "");
	cr_assert_str_eq(
	    keys_of(&w, CACHE_SCOPE_NAMESPACED, CLUSTER(",\"labels\":{\"example.com/website\":\"w\"}")), "");
}

Test(mapping, annotation_is_a_name_or_namespace_and_name)
{
	struct config_watch w = {.map = MAP_ANNOTATION, .map_key = "a"};
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"annotations\":{\"a\":\"w\"}")),
			 "shop/w ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"annotations\":{\"a\":\"blog/w\"}")),
			 "blog/w ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"annotations\":{\"a\":\"blog\\/w\"}")),
			 "blog/w ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, CLUSTER(",\"annotations\":{\"a\":\"blog/w\"}")),
			 "blog/w ");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, CLUSTER(",\"annotations\":{\"a\":\"w\"}")), "");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"annotations\":{\"a\":\"a/b/c\"}")), "");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"annotations\":{\"a\":\"/w\"}")), "");
	cr_assert_str_eq(keys_of(&w, CACHE_SCOPE_NAMESPACED, META(",\"annotations\":{\"a\":5}")), "");
}

Test(mapping, index_and_all_ask)
{
	struct config_watch index = {.map = MAP_INDEX}, all = {.map = MAP_ALL};
	cr_assert_str_eq(keys_of(&index, CACHE_SCOPE_NAMESPACED, META("")), "shop/refers elsewhere/x ");
	cr_assert_str_eq(keys_of(&all, CACHE_SCOPE_NAMESPACED, META("")), "shop/a shop/b ");
}

Test(mapping, keys_are_a_set_with_a_bound)
{
	struct keys k = {0};
	char name[32], long_name[300];
	memset(long_name, 'n', sizeof long_name);
	keys_add(&k, span_of("a"), span_of("b"));
	keys_add(&k, span_of("a"), span_of("b"));
	keys_add(&k, span_of("a"), span_of(""));
	keys_add(&k, span_of("a"), (struct span){long_name, 254});
	cr_assert_eq(k.count, 1);
	keys_add(&k, span_of(""), span_of("ab"));
	cr_assert_eq(k.count, 2);
	for (int i = 0; i < KEYS_MAX; i++) {
		snprintf(name, sizeof name, "n%d", i);
		keys_add(&k, span_of("a"), span_of(name));
	}
	cr_assert(k.all);
	cr_assert_eq(k.count, KEYS_MAX);
	keys_done(&k);
}

Test(mapping, what_frees_a_parked_key)
{
	struct object a = read_object(
	    "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"generation\":1,\"resourceVersion\":\"1\"}}");
	struct object status = read_object(
	    "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"generation\":1,\"resourceVersion\":\"2\"}}");
	struct object spec = read_object("{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"generation\":2}}");
	struct object other = read_object("{\"metadata\":{\"name\":\"a\",\"uid\":\"v\",\"generation\":1}}");
	struct object deleted = read_object("{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"generation\":1,"
					    "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");
	struct object plain = read_object("{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"}}");
	cr_assert(!mapping_primary_changed(&a, &status));
	cr_assert(mapping_primary_changed(&a, &spec) && mapping_primary_changed(&a, &other) &&
		  mapping_primary_changed(&a, &deleted));
	cr_assert(mapping_primary_changed(NULL, &a) && mapping_primary_changed(&a, NULL));
	cr_assert(mapping_primary_changed(&plain, &plain)); /* a kind without a generation */
}

/* ---- the reverse index ---- */

static void collect(void *ctx, uint32_t slot)
{
	*(uint64_t *)ctx |= UINT64_C(1) << (slot & 63);
}
static uint64_t who(struct refindex *r, const char *namespace, const char *name)
{
	uint64_t slots = 0;
	refindex_each(r, span_of(namespace), span_of(name), collect, &slots);
	return slots;
}
static void put(struct refindex *r, uint32_t slot, const char *namespace, const char *values)
{
	struct buf b = {0};
	buf_printf(&b, "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"x\"},\"spec\":{\"refs\":[%s]}}",
		   namespace, values);
	struct object o = read_object(buf_str(&b));
	refindex_put(r, slot, &o);
	buf_done(&b);
}

Test(refindex, names_lead_to_those_who_hold_them)
{
	struct refindex *r = refindex_new("spec.refs[*]", &err);
	put(r, 1, "shop", "\"a\",\"a\",\"blog/b\"");
	put(r, 2, "blog", "\"b\",\"shop/a\"");
	put(r, 3, "shop", "7,null,\"\",{}");
	cr_assert_eq(who(r, "shop", "a"), 1 << 1 | 1 << 2);
	cr_assert_eq(who(r, "blog", "b"), 1 << 1 | 1 << 2);
	cr_assert_eq(who(r, "blog", "a"), 0);
	cr_assert_eq(who(r, "", "b"), 1 << 2); /* a cluster-scoped object of that name */
	put(r, 2, "blog", "\"c\"");
	cr_assert_eq(who(r, "shop", "a"), 1 << 1);
	cr_assert_eq(who(r, "blog", "c"), 1 << 2);
	refindex_remove(r, 1);
	refindex_remove(r, 1);
	refindex_remove(r, 1000);
	cr_assert_eq(who(r, "shop", "a"), 0);
	refindex_free(r);
	cr_assert_null(refindex_new("spec.refs[", &err));
}

Test(refindex, grows)
{
	struct refindex *r = refindex_new("spec.refs[*]", &err);
	char value[32];
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 3000; i++) {
			snprintf(value, sizeof value, "\"n%u\",\"all\"", i + round);
			put(r, i, "shop", value);
		}
	uint64_t n = 0;
	for (uint32_t i = 1; i <= 3000; i++) {
		snprintf(value, sizeof value, "n%u", i);
		n += who(r, "shop", value) != 0;
	}
	cr_assert_eq(n, 3000);
	cr_assert_eq(who(r, "shop", "n0"), 0);
	refindex_free(r);
}
