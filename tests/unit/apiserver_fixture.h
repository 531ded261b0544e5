/* The API without HTTP, for tests: requests in one line, answers by path. JSON is written with ' for ". */
#pragma once
#include "apiserver/api.h"
#include "apiserver/collector.h"
#include "apiserver/seed.h"
#include "apiserver/table.h"
#include "apiserver/watch.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define MERGE	   "application/merge-patch+json"
#define JSON_PATCH "application/json-patch+json"
#define APPLY	   "application/apply-patch+yaml"
#define CM	   "/api/v1/namespaces/default/configmaps"

static struct storage *store;
static struct api_response answer;
static _unused_ bool refuse_watch_list;
static int64_t now = 1700000000;
static const char *accept_header = "", *agent = "test/1.0";

static _unused_ void setup(void)
{
	store = storage_new(HISTORY_DEFAULT, 64 << 20, (uint64_t)now * 10000);
	seed_namespaces(store, now);
}

static _unused_ void teardown(void)
{
	api_response_done(&answer);
	storage_free(store);
}

static _unused_ char *quoted(const char *text)
{
	char *copy = xstrdup(text);
	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	return copy;
}

/* The code; the answer stays in `answer` until the next one. */
static _unused_ int call_typed(const char *method, const char *uri, const char *type, const char *body)
{
	_cleanup_(free_ptr) char *text = quoted(body);
	struct api_request in = {.method = method,
				 .uri = span_of(uri),
				 .body = span_of(text),
				 .content_type = type,
				 .accept = accept_header,
				 .user_agent = agent,
				 .now = now,
				 .bookmark_interval_ns = 60 * NS_PER_S,
				 .no_watch_list = refuse_watch_list};
	api_response_done(&answer);
	api_handle(store, &in, &answer);
	return answer.code;
}
#define CALL(method, uri, body)	  call_typed(method, uri, "application/json", body)
#define GET(uri)		  CALL("GET", uri, "")
#define PATCH_BY(type, uri, body) call_typed("PATCH", uri, type, body)

/* A value of the last answer, strings without quotes; "" if absent. */
static _unused_ const char *at(const char *path)
{
	static struct buf text;
	buf_reset(&text);
	struct span v = table_value(buf_span(&answer.body), path);
	if (v.at && (json_type_of(v) != JSON_STRING || json_unescape(v, &text) < 0))
		buf_span_add(&text, v);
	return buf_str(&text);
}
#define EXPECT_CODE(code, call)                                                                              \
	do {                                                                                                 \
		int got_ = (call);                                                                           \
		cr_expect_eq(got_, code, "%s: %d instead of %d: %s", #call, got_, code,                      \
			     buf_str(&answer.body));                                                         \
	} while (0)
#define EXPECT_AT(path, value)                                                                               \
	do {                                                                                                 \
		const char *got_ = at(path);                                                                 \
		cr_expect_str_eq(got_, value, "%s is %s, not %s", path, got_, value);                        \
	} while (0)

/* Runs the collector until nothing is left to do. */
static _unused_ void collect(void)
{
	storage_lock(store);
	while (collector_sweep(store, now))
		;
	storage_unlock(store);
}

/* The next events of a watch, "ADDED a, MODIFIED b": type and name; bookmarks and errors by type. */
static _unused_ const char *events(struct watch *w, int64_t clock, enum watch_result *ret)
{
	static struct buf text;
	_cleanup_(buf_done) struct buf lines = {0};
	int64_t until;
	buf_reset(&text);
	while ((*ret = watch_step(w, &lines, clock, now, &until)) == WATCH_DATA)
		;
	for (struct span rest = buf_span(&lines); rest.len;) {
		struct span event;
		cr_assert_eq(json_value(rest, &event), 0);
		rest =
		    (struct span){event.at + event.len, rest.len - event.len - (size_t)(event.at - rest.at)};
		while (rest.len && *rest.at == '\n')
			rest = (struct span){rest.at + 1, rest.len - 1};
		struct span name = table_value(event, ".object.metadata.name");
		buf_printf(&text, "%s", text.len ? ", " : "");
		json_unescape(json_get(event, "type"), &text);
		if (name.at) {
			buf_putc(&text, ' ');
			json_unescape(name, &text);
		}
	}
	return buf_str(&text);
}
static _unused_ struct watch *watch(const char *uri)
{
	EXPECT_CODE(200, GET(uri));
	struct watch *w = answer.watch;
	answer.watch = NULL;
	return w;
}
#define EXPECT_EVENTS(w, clock, result, text)                                                                \
	do {                                                                                                 \
		enum watch_result result_;                                                                   \
		cr_expect_str_eq(events(w, clock, &result_), text);                                          \
		cr_expect_eq(result_, result);                                                               \
	} while (0)
