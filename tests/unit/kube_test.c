#include "kube.h"
#include <criterion/criterion.h>
#include <stdio.h>

static void assert_path(const struct kube_resource *r, const char *ns, const char *name, const char *sub,
			const char *want)
{
	struct buf out = {0};
	kube_path(&out, r, span_of(ns), span_of(name), sub);
	cr_assert_str_eq(buf_str(&out), want);
	buf_done(&out);
}

Test(kube, splits_api_versions)
{
	char group[254], version[64];
	cr_assert_eq(kube_split_api_version("v1", group, version), 0);
	cr_assert_str_eq(group, "");
	cr_assert_str_eq(version, "v1");
	cr_assert_eq(kube_split_api_version("apps.example.com/v1beta1", group, version), 0);
	cr_assert_str_eq(group, "apps.example.com");
	cr_assert_str_eq(version, "v1beta1");
	const char *bad[] = {"", "/v1", "apps/", "a/b/c", "Apps/v1", "apps/v 1"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_assert_eq(kube_split_api_version(bad[i], group, version), -EINVAL, "%s", bad[i]);
}

Test(kube, builds_paths)
{
	struct kube_resource deployment = {
	    .group = "apps", .version = "v1", .plural = "deployments", .namespaced = true};
	struct kube_resource node = {.version = "v1", .plural = "nodes"};
	assert_path(&deployment, "shop", "web", "status",
		    "/apis/apps/v1/namespaces/shop/deployments/web/status");
	assert_path(&deployment, "shop", NULL, NULL, "/apis/apps/v1/namespaces/shop/deployments");
	assert_path(&deployment, NULL, NULL, NULL, "/apis/apps/v1/deployments");
	assert_path(&node, "ignored", "a", NULL, "/api/v1/nodes/a");
	assert_path(&node, NULL, "../b?c#d%", NULL, "/api/v1/nodes/..%2Fb%3Fc%23d%25");
}

Test(kube, adds_queries)
{
	struct buf path = {0};
	buf_puts(&path, "/api/v1/pods");
	kube_query(&path, "labelSelector", span_of("a=b,c in (d,e)"));
	kube_query(&path, "limit", span_of("500"));
	cr_assert_str_eq(buf_str(&path), "/api/v1/pods?labelSelector=a%3Db%2Cc%20in%20%28d%2Ce%29&limit=500");
	buf_done(&path);
}

Test(kube, versions_are_numbers_or_unknown)
{
	static const struct {
		const char *text;
		uint64_t want;
	} rows[] = {
	    {"1", 1},
	    {"1005", 1005},
	    {"18446744073709551614", UINT64_C(18446744073709551614)},
	    {"18446744073709551615", 0},
	    {"18446744073709551616", 0},
	    {"99999999999999999999999", 0},
	    {"", 0},
	    {"0", 0},
	    {"01", 0},
	    {"-1", 0},
	    {"1a", 0},
	    {" 1", 0},
	    {"abc", 0},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		cr_assert_eq(kube_version(span_of(rows[i].text)), rows[i].want, "%s", rows[i].text);
}

Test(kube, selectors_match)
{
	const char *labels =
	    "{\"app\":\"web\",\"tier\":\"\",\"example.com/size\":\"12\",\"esc\":\"a\\u0062c\"}";
	static const struct {
		const char *selector;
		int want;
	} rows[] = {
	    {"", 1},
	    {"  ", 1},
	    {"app", 1},
	    {"!app", 0},
	    {"! none", 1},
	    {"none", 0},
	    {"app=web", 1},
	    {"app==web", 1},
	    {"app = web , tier=", 1},
	    {"app=Web", 0},
	    {"app!=web", 0},
	    {"app!=db", 1},
	    {"none!=x", 1},
	    {"none=", 0},
	    {"tier=", 1},
	    {"tier=,app=web", 1},
	    {"app in (db,web)", 1},
	    {"app in (db, cache)", 0},
	    {"app notin (db,cache)", 1},
	    {"app notin (web)", 0},
	    {"none notin (web)", 1},
	    {"none in (,a)", 0},
	    {"tier in (,a)", 1},
	    {"example.com/size>11", 1},
	    {"example.com/size<12", 0},
	    {"app>1", 0},
	    {"esc=abc", 1},
	    {"app in (web),example.com/size in (12),!x", 1},
	    {"in in (a)", 0},
	    {"app=", 0},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = {0};
		cr_assert_eq(kube_selector_match(rows[i].selector, span_of(labels), &err), rows[i].want,
			     "%s: %s", rows[i].selector, err.text);
	}
	cr_assert_eq(kube_selector_match("!a,b!=c", (struct span){0}, NULL), 1);
	cr_assert_eq(kube_selector_match("a", span_of("null"), NULL), 0);
}

Test(kube, refuses_bad_selectors)
{
	static const char *const bad[] = {
	    ",",  "a,",	     "a b",   "a in b", "a in ()", "a in (b", "a=b=c",	 "=b",	  "a>x", "a in (b c)",
	    "-a", "a/b/c=d", "a=b/c", "a==",	"(a)",	   "!",	      "a notin", "a=b c", "ä=b"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = {0};
		int r = kube_selector_match(bad[i], span_of("{}"), &err);
		if (strcmp(bad[i], "a==") == 0)
			cr_assert_eq(r, 0, "an empty value is a value");
		else {
			cr_assert_eq(r, -EINVAL, "%s", bad[i]);
			cr_assert(strstr(err.text, bad[i]), "%s", err.text);
		}
	}
}

static int status_of(int http, const char *body, struct kube_status *ret, struct err *err)
{
	struct http_request r = {.method = "PATCH", .path = "/api/v1/namespaces/a/pods/b?force=true"};
	struct http_result h = {.status = http, .retry_after_ms = -1};
	return kube_status(&r, &h, span_of(body), ret, err);
}

Test(kube, maps_statuses)
{
	static const struct {
		int http;
		const char *reason;
		int want;
	} rows[] = {
	    {200, "", 0},
	    {201, "", 0},
	    {400, "BadRequest", -EINVAL},
	    {401, "Unauthorized", -EACCES},
	    {403, "Forbidden", -EPERM},
	    {404, "NotFound", -ENOENT},
	    {405, "MethodNotAllowed", -EOPNOTSUPP},
	    {409, "Conflict", -EBUSY},
	    {409, "AlreadyExists", -EEXIST},
	    {410, "Gone", -ESTALE},
	    {413, "RequestEntityTooLarge", -EMSGSIZE},
	    {422, "Invalid", -EINVAL},
	    {429, "TooManyRequests", -EAGAIN},
	    {500, "InternalError", -EIO},
	    {503, "ServiceUnavailable", -EIO},
	    {599, "Odd", -EIO},
	    {302, "", -EPROTO},
	    {418, "Teapot", -EINVAL},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char body[256];
		snprintf(body, sizeof body, "{\"kind\":\"Status\",\"reason\":\"%s\",\"message\":\"m\"}",
			 rows[i].reason);
		struct kube_status s;
		cr_assert_eq(status_of(rows[i].http, body, &s, NULL), rows[i].want, "%d %s", rows[i].http,
			     rows[i].reason);
		cr_assert_eq(s.code, rows[i].http);
		if (rows[i].want && *rows[i].reason)
			cr_assert_str_eq(s.reason, rows[i].reason);
	}
}

Test(kube, explains_statuses)
{
	struct kube_status s;
	struct err err = {0};
	cr_assert_eq(status_of(429,
			       "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"message\":\"too \\u00e4 "
			       "many\\n\",\"reason\":\"TooManyRequests\","
			       "\"details\":{\"retryAfterSeconds\":7}}",
			       &s, &err),
		     -EAGAIN);
	cr_assert_str_eq(err.text, "PATCH /api/v1/namespaces/a/pods/b: 429 TooManyRequests: too ä many");
	cr_assert_eq(s.retry_after_ms, 7000);
	cr_assert_eq(status_of(404, "404 page not found\n", &s, &err), -ENOENT);
	cr_assert_str_eq(err.text, "PATCH /api/v1/namespaces/a/pods/b: 404 NotFound: 404 page not found");
	cr_assert_eq(status_of(500, "", &s, &err), -EIO);
	cr_assert_str_eq(err.text, "PATCH /api/v1/namespaces/a/pods/b: 500 InternalError");
	/* A long message is cut at a character. */
	struct buf body = {0};
	buf_puts(&body, "{\"kind\":\"Status\",\"message\":\"x");
	for (int i = 0; i < 2000; i++)
		buf_puts(&body, "ä");
	buf_puts(&body, "\"}");
	cr_assert_eq(status_of(500, buf_str(&body), &s, &err), -EIO);
	cr_assert_eq(strlen(s.message), 1023);
	buf_done(&body);
}
