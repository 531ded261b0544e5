#include "columns.h"
#include "key_name.h"
#include "program.h"
#include "supervisor.h"
#include "wanted.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- columns ---- */

static void printable_is(const char *text, const char *want)
{
	struct buf b = {0};
	printable(&b, text);
	cr_expect_str_eq(buf_str(&b), want);
	buf_done(&b);
}

Test(columns, nothing_that_a_reconciler_says_moves_the_cursor)
{
	printable_is("plain \xC3\xA4\xE2\x82\xAC\xF0\x9F\x90\xB3",
		     "plain \xC3\xA4\xE2\x82\xAC\xF0\x9F\x90\xB3");
	printable_is("a\nb\tc\r", "a b c ");
	printable_is("\x1B[2J\x07\x7F", "?[2J??");
	printable_is("\xC2\x9B"
		     "31m",
		     "??31m"); /* a C1 control */
	printable_is("\xE2\x80\xAE"
		     "abc",
		     "???abc"); /* right-to-left override */
	printable_is("\xFF\xC0\x80\xED\xA0\x80\xC3", "???????");
}

Test(columns, as_wide_as_the_widest_cell)
{
	static const char *const headings[] = {"NAME", "STATE", "MESSAGE", NULL};
	struct columns t;
	struct buf b = {0};
	columns_init(&t, headings);
	columns_add(&t, "a");
	columns_add(&t, NULL);
	columns_add(&t, "two\nlines");
	columns_add(&t, "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4");
	columns_addf(&t, "%d", 12);
	columns_add(&t, "");
	columns_print(&t, &b);
	cr_expect_str_eq(buf_str(&b), "NAME    STATE  MESSAGE\n"
				      "a       -      two lines\n"
				      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4  12     -\n");
	buf_done(&b);
	columns_done(&t);
}

Test(columns, ages)
{
	char text[32];
	cr_expect_str_eq(age(5 * NS_PER_S, 0, text), "-");
	cr_expect_str_eq(age(5 * NS_PER_S, 5 * NS_PER_S, text), "0s");
	cr_expect_str_eq(age(5 * NS_PER_S, 6 * NS_PER_S, text), "0s");
	cr_expect_str_eq(age(65 * NS_PER_S + 700 * NS_PER_MS, NS_PER_S, text), "1m4s");
	cr_expect_str_eq(age(NS_PER_S + 250 * NS_PER_MS, NS_PER_S, text), "250ms");
}

/* ---- keys ---- */

Test(key_name, with_and_without_a_namespace)
{
	struct key_name k;
	struct err err;
	cr_assert_eq(key_name_parse("web/shop/blog.v1", &k, &err), 0);
	cr_expect(span_is(k.controller, "web") && span_is(k.namespace, "shop") && span_is(k.name, "blog.v1"));
	cr_assert_eq(key_name_parse("web//system:node", &k, &err), 0);
	cr_expect(k.namespace.len == 0 && span_is(k.name, "system:node"));
}

Test(key_name, what_is_none)
{
	static const struct {
		const char *text, *want;
	} rows[] = {{"web", "write CONTROLLER/NAMESPACE/NAME"},
		    {"web/blog", "write CONTROLLER/NAMESPACE/NAME"},
		    {"/shop/blog", "\"\" is no controller's name"},
		    {"Web/shop/blog", "\"Web\" is no controller's name"},
		    {"web/Shop/blog", "\"Shop\" is no namespace's name"},
		    {"web/shop/", "\"\" is no object's name"},
		    {"web/shop/a/b", "\"a/b\" is no object's name"}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct key_name k;
		struct err err = {0};
		cr_expect_eq(key_name_parse(rows[i].text, &k, &err), -EINVAL);
		cr_expect(strstr(err.text, rows[i].want), "%s", err.text);
	}
}

/* ---- the supervisor ---- */

#define EXITED(n) ((n) << 8)

Test(supervisor, delays_double_to_five_seconds_and_start_anew_after_ten_of_life)
{
	static const int64_t want_ms[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
	struct child c = {0};
	int64_t now = NS_PER_S;
	cr_expect(child_is_due(&c, now));
	for (size_t i = 0; i < ARRAY_SIZE(want_ms); i++) {
		child_started(&c, 7, now);
		cr_expect(c.state == CHILD_RUNNING && !child_is_due(&c, now + 3600 * NS_PER_S));
		now += 9 * NS_PER_S;
		child_ended(&c, EXITED(1), now);
		cr_expect_eq(c.due_at - now, want_ms[i] * NS_PER_MS);
		cr_expect(!child_is_due(&c, c.due_at - 1) && child_is_due(&c, c.due_at));
		now = c.due_at;
	}
	child_started(&c, 8, now);
	child_ended(&c, SIGKILL, now + 10 * NS_PER_S);
	cr_expect_eq(c.delay, SUPERVISOR_DELAY_MIN);
	cr_expect_eq(c.starts, ARRAY_SIZE(want_ms) + 1);
}

Test(supervisor, what_cannot_be_started_is_tried_with_the_same_delays)
{
	struct child c = {0};
	child_start_failed(&c, 0);
	child_start_failed(&c, c.due_at);
	cr_expect(c.state == CHILD_WAITING && c.delay == 2 * SUPERVISOR_DELAY_MIN);
}

Test(supervisor, wrong_configuration_and_usage_are_parked_until_a_reload)
{
	static const int statuses[] = {EXIT_CONFIG, EXIT_USAGE};
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		struct child c = {0};
		child_started(&c, 7, 0);
		child_ended(&c, EXITED(statuses[i]), 1);
		cr_expect(c.state == CHILD_PARKED && !child_is_due(&c, INT64_MAX));
		child_reload(&c, 5);
		cr_expect(child_is_due(&c, 5));
	}
}

Test(supervisor, a_reload_ends_waiting_but_touches_nothing_that_runs)
{
	struct child c = {0};
	child_started(&c, 7, 0);
	child_reload(&c, 1);
	cr_expect(c.state == CHILD_RUNNING && c.pid == 7);
	child_ended(&c, EXITED(1), 1);
	child_reload(&c, 2);
	cr_expect(child_is_due(&c, 2) && c.delay == 0);
}

Test(supervisor, who_retires_is_not_started_again)
{
	struct child waiting = {.state = CHILD_WAITING}, running = {0};
	child_retire(&waiting);
	cr_expect_eq(waiting.state, CHILD_GONE);
	child_started(&running, 7, 0);
	child_retire(&running);
	cr_expect_eq(running.state, CHILD_RUNNING);
	child_ended(&running, EXITED(78), 1);
	cr_expect_eq(running.state, CHILD_GONE);
}

Test(supervisor, ends_in_words)
{
	char text[64];
	cr_expect_str_eq(child_end_text(EXITED(0), text), "exit status 0");
	cr_expect_str_eq(child_end_text(EXITED(78), text), "exit status 78 (wrong configuration)");
	cr_expect_str_eq(child_end_text(SIGSEGV | 0x80, text), "killed by SIGSEGV (core dumped)");
	cr_expect_str_eq(child_end_text(SIGKILL, text), "killed by SIGKILL");
}

/* ---- what wait waits for ---- */

static const char object[] =
    "{\"metadata\":{\"generation\":2,\"labels\":{\"a.b/"
    "c\":\"x=y\"}},\"spec\":{\"n\":3,\"on\":true,\"list\":[{\"v\":\"a\"},{\"v\":\"b\"}]},"
    "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"observedGeneration\":2},"
    "{\"type\":\"Old\",\"status\":\"True\",\"observedGeneration\":1},{\"type\":\"Bad\",\"status\":\"False\"}]"
    "}}";

Test(wanted, every_kind_of_wish)
{
	static const struct {
		const char *wish;
		int holds;
		const char *seen;
	} rows[] = {
	    {"condition=Ready", 1, "True"},
	    {"condition=Ready=False", 0, "True"},
	    {"condition=Bad", 0, "False"},
	    {"condition=Bad=False", 1, "False"},
	    {"condition=Old", 0, "True (of an older generation)"},
	    {"condition=None", 0, "nothing"},
	    {"spec.n=3", 1, "3"},
	    {"spec.n=4", 0, "3"},
	    {"spec.on=true", 1, "true"},
	    {"spec.list[1].v=b", 1, "b"},
	    {"spec.list[2].v=b", 0, "nothing"},
	    {"spec.list[*].v=b", 1, "a"},
	    {"spec.list[*].v=c", 0, "a"},
	    {"metadata.labels['a.b/c']=x=y", 1, "x=y"},
	    {"spec.missing", 0, "nothing"},
	    {"spec", 1, NULL},
	    {"spec.n.deeper=1", 0, "nothing"},
	    {"spec.list.v=a", 0, "nothing"},
	    {"delete", 0, "it is there"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wanted w;
		struct err err = {0};
		struct buf seen = {0};
		cr_assert_eq(wanted_parse(rows[i].wish, &w, &err), 0, "%s", err.text);
		cr_expect_eq(wanted_holds(&w, span_of(object), &seen), rows[i].holds, "%s", rows[i].wish);
		if (rows[i].seen)
			cr_expect_str_eq(buf_str(&seen), rows[i].seen, "%s: %s", rows[i].wish,
					 buf_str(&seen));
		cr_expect_eq(wanted_holds(&w, (struct span){0}, &seen), w.type == WANTED_DELETE);
		buf_done(&seen);
		wanted_done(&w);
	}
	struct wanted w;
	struct err err = {0};
	cr_expect_eq(wanted_parse("", &w, &err), -EINVAL);
	cr_expect_eq(wanted_parse("=x", &w, &err), -EINVAL);
}

Test(wanted, kinds)
{
	static const struct {
		const char *text, *version, *kind;
	} rows[] = {
	    {"v1/ConfigMap", "v1", "ConfigMap"}, {"apps/v1/Deployment", "apps/v1", "Deployment"},
	    {"ConfigMap.v1", "v1", "ConfigMap"}, {"Website.v1.example.com", "example.com/v1", "Website"},
	    {"configmaps", NULL, NULL},		 {"v1/configmaps", NULL, NULL},
	    {"/ConfigMap", NULL, NULL},		 {"a/b/v1/Pod", NULL, NULL}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *version = NULL, *kind = NULL;
		struct err err = {0};
		int rc = wanted_kind_parse(rows[i].text, &version, &kind, &err);
		cr_expect_eq(rc, rows[i].version ? 0 : -EINVAL, "%s", rows[i].text);
		if (rc == 0) {
			cr_expect_str_eq(version, rows[i].version);
			cr_expect_str_eq(kind, rows[i].kind);
		}
		free(version);
		free(kind);
	}
}
