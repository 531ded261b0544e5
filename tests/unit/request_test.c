/* The request line, the environment, lines of stderr, and why a program cannot be started. */
#include "environment.h"
#include "exec_cause.h"
#include "json_scan.h"
#include "lines.h"
#include "request.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct request basic(void)
{
	return (struct request){
	    .controller = "website",
	    .uid = span_of("6f1c"),
	    .namespace = span_of("shop"),
	    .name = span_of("blog"),
	    .timeout_ns = 29500 * (int64_t)NS_PER_MS,
	    .deadline_unix_s = 30,
	};
}

Test(request, is_one_line)
{
	struct request r = basic();
	_cleanup_(buf_done) struct buf out = {0};
	buf_puts(&r.object, "{\"metadata\":{\n\"name\":\"blog\"}\n}");
	cr_assert_eq(request_print(&r, &out, NULL), 0);
	cr_expect_str_eq(
	    buf_str(&out),
	    "{\"apiVersion\":\"reconciled.dev/"
	    "v1\",\"kind\":\"ReconcileRequest\",\"uid\":\"6f1c\",\"controller\":\"website\","
	    "\"request\":{\"namespace\":\"shop\",\"name\":\"blog\"},\"object\":{\"metadata\":{ "
	    "\"name\":\"blog\"} },"
	    "\"finalizing\":false,\"dryRun\":false,\"attempt\":0,\"lastError\":null,\"timeoutSeconds\":30,"
	    "\"deadline\":\"1970-01-01T00:00:30Z\"}\n");
	request_done(&r);
}

Test(request, cluster_scope_and_gone)
{
	struct request r = basic();
	_cleanup_(buf_done) struct buf out = {0};
	r.namespace = span_of("");
	cr_assert_eq(request_print(&r, &out, NULL), 0);
	cr_expect(strstr(buf_str(&out), "\"request\":{\"name\":\"blog\"},\"object\":null,"));
	request_done(&r);
}

Test(request, children_reasons_and_the_last_error)
{
	struct request r = basic();
	_cleanup_(buf_done) struct buf out = {0};
	struct config_kind deployment = {.api_version = (char *)"apps/v1", .kind = (char *)"Deployment"};
	struct config_kind secret = {.api_version = (char *)"v1", .kind = (char *)"Secret"};
	struct wire_add_key why = {.cause = WIRE_CAUSE_UPDATED,
				   .cause_kind = span_of("Deployment.apps/v1"),
				   .cause_namespace = span_of("shop"),
				   .cause_name = span_of("web")};
	r.with_children = r.with_reasons = true;
	r.reasons = &why;
	r.reason_count = 1;
	r.attempt = 2;
	r.last_outcome = WIRE_OUTCOME_CRASHED;
	r.last_reason = span_of("SIGSEGV");
	r.last_message = span_of("a \"quoted\" word");
	request_add(request_children(&r, &deployment), span_of("shop"), span_of("web"), span_of("{\"x\":1}"));
	request_add(request_children(&r, &deployment), span_of("shop"), span_of("db"), span_of("{\"x\":2}"));
	request_children(&r, &secret);
	cr_assert_eq(request_print(&r, &out, NULL), 0);
	cr_expect(strstr(buf_str(&out), "\"children\":{\"Deployment.apps/v1\":{\"shop/web\":{\"x\":1},\"shop/"
					"db\":{\"x\":2}},\"Secret.v1\":{}}"),
		  "%s", buf_str(&out));
	cr_expect(strstr(buf_str(&out), "\"attempt\":2,\"lastError\":{\"type\":\"Crashed\",\"reason\":"
					"\"SIGSEGV\",\"message\":\"a \\\"quoted\\\" word\"}"));
	cr_expect(strstr(buf_str(&out), "\"reasons\":[{\"event\":\"MODIFIED\",\"apiVersion\":\"apps/"
					"v1\",\"kind\":\"Deployment\",\"namespace\":\"shop\","
					"\"name\":\"web\"}]"));
	cr_expect_eq(json_check(buf_span(&out), NULL), 0);
	request_done(&r);
}

Test(request, a_reason_that_is_the_object_itself_names_it_and_an_operators_names_none)
{
	struct request r = basic();
	_cleanup_(buf_done) struct buf out = {0};
	struct config_kind website = {.api_version = (char *)"example.com/v1", .kind = (char *)"Website"};
	const struct wire_add_key why[] = {
	    {.cause = WIRE_CAUSE_CREATED, .cause_namespace = span_of("shop"), .cause_name = span_of("blog")},
	    {.cause = WIRE_CAUSE_OPERATOR,
	     .cause_namespace = span_of("shop"),
	     .cause_name = span_of("blog")}};
	r.with_reasons = true;
	r.of = &website;
	r.reasons = why;
	r.reason_count = ARRAY_SIZE(why);
	cr_assert_eq(request_print(&r, &out, NULL), 0);
	cr_expect(
	    strstr(buf_str(&out),
		   "\"reasons\":[{\"event\":\"ADDED\",\"apiVersion\":\"example.com/v1\",\"kind\":\"Website\","
		   "\"namespace\":\"shop\",\"name\":\"blog\"},{\"event\":\"OPERATOR\"}]"),
	    "%s", buf_str(&out));
	request_done(&r);
}

static void add_big(struct request_kind *k, char letter, size_t n)
{
	_cleanup_(buf_done) struct buf big = {0};
	char name[2] = {letter, 0};
	buf_putc(&big, '"');
	memset(buf_room(&big, n), letter, n);
	big.len += n;
	buf_putc(&big, '"');
	request_add(k, span_of("ns"), span_of(name), buf_span(&big));
}

Test(request, too_much_becomes_names_related_first)
{
	struct request r = basic();
	_cleanup_(buf_done) struct buf out = {0};
	struct config_kind secret = {.api_version = (char *)"v1", .kind = (char *)"Secret"};
	r.with_children = r.with_related = true;
	add_big(request_children(&r, &secret), 'c', 6 << 20);
	add_big(request_related(&r, &secret), 'r', 11 << 20);
	cr_assert_eq(request_print(&r, &out, NULL), 0);
	cr_expect(r.truncated);
	cr_expect(strstr(buf_str(&out), "\"related\":{\"Secret.v1\":{\"ns/r\":null}},\"truncated\":true"));
	cr_expect(strstr(buf_str(&out), "\"ns/c\":\"ccc"));
	buf_reset(&out);
	add_big(request_children(&r, &secret), 'd', 12 << 20);
	cr_assert_eq(request_print(&r, &out, NULL), 0);
	cr_expect(strstr(buf_str(&out), "\"children\":{\"Secret.v1\":{\"ns/c\":null,\"ns/"
					"d\":null}},\"related\":{\"Secret.v1\":{\"ns/r\":null}},"));
	cr_expect(out.len < 4096);
	request_done(&r);
}

Test(request, object_alone_too_big_is_an_error)
{
	struct request r = basic();
	_cleanup_(buf_done) struct buf out = {0};
	struct err err = {0};
	size_t n = 17 << 20;
	memset(buf_room(&r.object, n), ' ', n);
	r.object.len = n;
	r.with_children = true;
	cr_expect_eq(request_print(&r, &out, &err), -EMSGSIZE);
	cr_expect(strstr(err.text, "16 MiB"));
	request_done(&r);
}

Test(environment, later_ones_win_and_nothing_is_inherited)
{
	char *own[] = {(char *)"A=file", (char *)"A=env", (char *)"LANG=C", NULL};
	struct config_controller c = {.name = (char *)"web", .reconciler = {.env = own}};
	struct environment e;
	setenv("SECRET", "x", 1);
	environment_build(&e, &c, &(struct environment_key){span_of("ns"), span_of("n"), span_of("u"), 3, 0},
			  NULL);
	cr_expect_str_eq(environment_get(&e, "A"), "env");
	cr_expect_str_eq(environment_get(&e, "LANG"), "C");
	cr_expect_str_eq(environment_get(&e, "RECONCILE_NAME"), "n");
	cr_expect_str_eq(environment_get(&e, "RECONCILE_ATTEMPT"), "3");
	cr_expect_str_eq(environment_get(&e, "PYTHONUNBUFFERED"), "1");
	cr_expect_null(environment_get(&e, "SECRET"));
	size_t lang = 0;
	for (char **at = e.at; *at; at++)
		lang += strncmp(*at, "LANG=", 5) == 0;
	cr_expect_eq(lang, 1);
	environment_done(&e);
	char *given[] = {(char *)"KUBECONFIG=/k", (char *)"A=given", NULL};
	environment_build(&e, &c, NULL, given);
	cr_expect_null(environment_get(&e, "RECONCILE_NAME"), "a coprocess outlives its keys");
	cr_expect_str_eq(environment_get(&e, "KUBECONFIG"), "/k");
	cr_expect_str_eq(environment_get(&e, "A"), "env", "the controller's own wins");
	environment_done(&e);
}

/* ---- lines ---- */

static struct buf logged;
static void emit(void *ctx, struct span line)
{
	*(size_t *)ctx += 1;
	buf_span_add(&logged, line);
	buf_putc(&logged, '|');
}

Test(lines, are_cut_limited_and_kept)
{
	struct lines l;
	size_t n = 0;
	lines_init(&l, 0);
	lines_feed(&l, span_of("one\r\ntw"), 0, emit, &n);
	lines_feed(&l, span_of("o\n\n  \nthree"), 0, emit, &n);
	cr_expect_str_eq(buf_str(&logged), "one|two|");
	lines_flush(&l, 0, emit, &n);
	cr_expect_str_eq(lines_last(&l), "three");
	cr_expect_eq(n, 3);
	_cleanup_(buf_done) struct buf tail = {0};
	lines_feed(&l, span_of("4\n5\n"), 0, emit, &n);
	lines_tail(&l, &tail);
	cr_expect_str_eq(buf_str(&tail), "two | three | 4 | 5");
	for (size_t i = 0; i < 2 * LINES_BURST; i++)
		lines_feed(&l, span_of("flood\n"), 0, emit, &n);
	cr_expect_eq(n, LINES_BURST);
	cr_expect_eq(lines_dropped(&l, 0), LINES_BURST + 5);
	cr_expect_eq(lines_dropped(&l, 0), 0);
	lines_feed(&l, span_of("later\n"), NS_PER_S, emit, &n);
	cr_expect_eq(n, LINES_BURST + 1);
	buf_done(&logged);
}

Test(lines, a_flood_is_not_answered_by_a_flood)
{
	struct lines l;
	size_t n = 0, told = 0;
	uint64_t dropped = 0;
	lines_init(&l, 0);
	for (int64_t now = 0; now < 3 * NS_PER_S; now += NS_PER_MS) {
		lines_feed(&l, span_of("flood\nflood\n"), now, emit, &n);
		uint64_t more = lines_dropped(&l, now);
		told += more > 0;
		dropped += more;
	}
	cr_expect_leq(told, 3);
	cr_expect_eq(dropped + lines_dropped(&l, 4 * NS_PER_S) + n, 6000);
	buf_done(&logged);
}

Test(lines, programs_one_after_another_share_a_burst)
{
	struct lines l;
	size_t n = 0;
	lines_init(&l, 0);
	for (size_t program = 0; program < 10; program++) {
		for (size_t i = 0; i < LINES_BURST; i++)
			lines_feed(&l, span_of("flood\n"), 0, emit, &n);
		lines_feed(&l, span_of("cut"), 0, emit, &n);
		lines_next(&l);
		cr_expect_str_eq(lines_last(&l), "");
	}
	cr_expect_eq(n, LINES_BURST);
	buf_done(&logged);
}

Test(lines, a_long_line_says_what_is_missing)
{
	struct lines l;
	size_t n = 0;
	char text[10000];
	memset(text, 'x', sizeof(text));
	lines_init(&l, 0);
	lines_feed(&l, (struct span){text, sizeof(text)}, 0, emit, &n);
	lines_feed(&l, span_of("\n"), 0, emit, &n);
	cr_expect_eq(n, 1);
	cr_expect(logged.len < LINE_LOG_MAX + 100);
	cr_expect(strstr(buf_str(&logged), "(7952 more bytes)"), "%s", buf_str(&logged) + LINE_LOG_MAX - 10);
	buf_done(&logged);
}

/* ---- why not ---- */

static char folder[] = "/tmp/exec_cause_XXXXXX";

static void explain(const char *command, const char *in, const char *path, int error, char *ret, size_t room)
{
	char *argv[] = {(char *)(uintptr_t)command, NULL};
	struct config_controller c = {.folder = (char *)(uintptr_t)in, .reconciler = {.command = argv}};
	exec_cause(&c, c.reconciler.command[0], path, error, ret, room);
}

static const char *cause(const char *name, const char *content, size_t len, mode_t mode, int error)
{
	static char text[1024];
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", folder, name), *command = xasprintf("./%s", name);
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	cr_assert_eq(write(fd, content, len), (ssize_t)len);
	fchmod(fd, mode);
	close(fd);
	explain(command, folder, "/usr/bin:/bin", error, text, sizeof(text));
	unlink(path);
	return text;
}
#define SAYS(text, word) cr_expect(strstr(text, word), "%s", text)

Test(exec_cause, names_the_cure)
{
	char text[1024], elf[64] = "\177ELF\2\1\1";
	cr_assert_not_null(mkdtemp(folder));
	SAYS(cause("a", "#!/bin/sh\n", 10, 0644, EACCES), "is not executable; chmod +x it");
	SAYS(cause("a", "#!/usr/bin/python3\r\n", 20, 0755, ENOENT),
	     "Windows line ends: its first line asks for \"/usr/bin/python3\\r\"");
	SAYS(cause("a", "#!/no/such/interpreter -x\n", 26, 0755, ENOENT),
	     "its interpreter /no/such/interpreter does not exist");
	SAYS(cause("a", "echo hi\n", 8, 0755, ENOEXEC), "its first line must name the interpreter");
	SAYS(cause("a", "", 0, 0755, ENOEXEC), "is empty");
	elf[18] = (char)0xf3; /* e_machine: RISC-V */
	SAYS(cause("a", elf, sizeof(elf), 0755, ENOEXEC), "built for another kind of processor");
	explain(folder, "/", "/bin", EACCES, text, sizeof(text));
	SAYS(text, "is a folder");
	explain("./missing", folder, "/bin", ENOENT, text, sizeof(text));
	SAYS(text, "No such file");
	explain("no-such-program-here", folder, "/usr/bin:/bin", ENOENT, text, sizeof(text));
	SAYS(text, "is not in PATH (/usr/bin:/bin)");
	_cleanup_(free_ptr) char *hidden = xasprintf("%s/a", folder);
	int fd = open(hidden, O_CREAT | O_WRONLY, 0755);
	explain(hidden, "/srv/elsewhere", "/bin", ENOENT, text, sizeof(text));
	SAYS(text, "is not visible to the jail");
	SAYS(text, "sandbox.readOnlyPaths");
	close(fd);
	unlink(hidden);
	rmdir(folder);
}
