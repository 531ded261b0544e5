/* What is wrong, and for how long the status says so. */
#include "queue/reports.h"
#include <criterion/criterion.h>
#include <time.h>

static struct reports rs;

static void says(const char *controller, const char *topic, uint32_t state)
{
	reports_set(&rs, "queue", span_of(controller), span_of(topic), state, span_of("because"));
}

static bool keep_website(void *ctx _unused_, const char *controller)
{
	return strcmp(controller, "website") == 0;
}

static void clear(void)
{
	free(rs.at);
	rs = (struct reports){0};
}

Test(reports, one_that_heals_goes, .fini = clear)
{
	says("website", "rows", WIRE_STATE_FAILED);
	says("website", "rows", WIRE_STATE_FAILED);
	cr_expect_eq(rs.len, 1);
	says("website", "rows", WIRE_STATE_OK);
	cr_expect_eq(rs.len, 0);
}

/* The clock of a host without a battery is set after the start. */
static time_t clock_set_by;
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	int rc = __real_clock_gettime(clock, ret);
	if (clock == CLOCK_REALTIME)
		ret->tv_sec += clock_set_by;
	return rc;
}

Test(reports, since_follows_a_clock_that_is_set, .fini = clear)
{
	char then[21], *json;
	struct buf out = {0};
	says("website", "rows", WIRE_STATE_FAILED);
	clock_set_by = 3600;
	reports_json(&rs, &out);
	json = strstr(buf_str(&out), "\"since\":\"");
	cr_assert(json);
	/* It began at most a minute before that hour was over. */
	format_rfc3339(clock_realtime_ns() / NS_PER_S - 60, then);
	cr_expect(strncmp(json + 9, then, 20) >= 0, "%.20s, before %s", json + 9, then);
	clock_set_by = 0;
	buf_done(&out);
}

/* The 65th controller never had a row, so nothing said of it when its row went. */
Test(reports, a_controller_that_is_gone_is_not_complained_about_for_ever, .fini = clear)
{
	says("sixty-fifth", "rows", WIRE_STATE_FAILED);
	says("website", "digest", WIRE_STATE_DEGRADED);
	says("", "a.yaml:1:1", WIRE_STATE_FAILED);
	reports_keep(&rs, keep_website, NULL);
	cr_assert_eq(rs.len, 2);
	cr_expect_str_eq(rs.at[0].controller, "website");
	cr_expect_str_eq(rs.at[1].controller, "");
}

Test(reports, what_only_goes_worse_does_not_stand_still, .fini = clear)
{
	size_t at = 0;
	says("website", "worse", WIRE_STATE_DEGRADED);
	says("blog", "another", WIRE_STATE_FAILED);
	says("website", "waits", WIRE_STATE_WAITING);
	reports_set(&rs, "watcher", span_of("website"), span_of("other"), WIRE_STATE_FAILED, span_of(""));
	says("website", "failed", WIRE_STATE_FAILED);
	const struct report *r = reports_next_still(&rs, "queue", "website", &at);
	cr_assert(r);
	cr_expect_str_eq(r->topic, "waits");
	r = reports_next_still(&rs, "queue", "website", &at);
	cr_assert(r);
	cr_expect_str_eq(r->topic, "failed");
	cr_expect_null(reports_next_still(&rs, "queue", "website", &at));
}
