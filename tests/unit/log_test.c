#include "buf.h"
#include "json_scan.h"
#include "log.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the calls between begin() and end() wrote to stderr. */
static int saved_stderr = -1, capture = -1;

static void begin(enum log_format format)
{
	fflush(stderr);
	saved_stderr = dup(2);
	char path[] = "/tmp/log_test.XXXXXX";
	capture = mkstemp(path);
	cr_assert_geq(capture, 0);
	unlink(path);
	dup2(capture, 2);
	log_init("reconciled-test", LOG_LEVEL_INFO, format);
}

static char *end(void)
{
	static char text[65536];
	dup2(saved_stderr, 2);
	close(saved_stderr);
	ssize_t n = pread(capture, text, sizeof text - 1, 0);
	close(capture);
	text[n > 0 ? n : 0] = 0;
	return text;
}

Test(log, text_line)
{
	begin(LOG_FORMAT_TEXT);
	log_info("key granted", LOG_S("controller", "website"), LOG_I("slot", 12));
	char *line = end();
	cr_assert_eq(
	    strlen(line),
	    strlen("2026-09-30T12:00:30.123Z info reconciled-test key granted controller=website slot=12\n"));
	cr_assert_eq(strspn(line, "0123456789-:T."), 23);
	cr_assert_str_eq(line + 23, "Z info reconciled-test key granted controller=website slot=12\n");
}

static int asked;

static int ask(void)
{
	return ++asked;
}

Test(log, the_fields_of_a_line_that_is_not_written_are_not_evaluated)
{
	begin(LOG_FORMAT_TEXT);
	asked = 0;
	log_debug("m", LOG_I("n", ask()));
	int of_debug = asked;
	log_info("m", LOG_I("n", ask()));
	cr_assert_str_eq(end() + 23, "Z info reconciled-test m n=1\n");
	cr_assert_eq(of_debug, 0);
	cr_assert_eq(asked, 1);
}

Test(log, values_that_need_it_are_quoted)
{
	static const struct {
		const char *value, *printed;
	} cases[] = {
	    {"plain-1.2/x:y", "plain-1.2/x:y"},
	    {"", "\"\""},
	    {"two words", "\"two words\""},
	    {"a=b", "\"a=b\""},
	    {"\"", "\"\\\"\""},
	    {"back\\slash", "\"back\\\\slash\""},
	    {"line\nbreak", "\"line\\nbreak\""},
	    {"\x1b[31m", "\"\\u001b[31m\""},
	    {"\xff", "\"\\xff\""},
	    {"\xc2\x85", "\"\\u0085\""},
	    {"\xe2\x80\xa8", "\"\\u2028\""},
	    {"\xc3\xa9", "\xc3\xa9"},
	    {"\t\r", "\"\\t\\u000d\""},
	    {"\x7f", "\"\\u007f\""},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		begin(LOG_FORMAT_TEXT);
		log_warning("m", LOG_S("v", cases[i].value));
		char *line = end(), expected[128];
		snprintf(expected, sizeof expected, "Z warning reconciled-test m v=%s\n", cases[i].printed);
		cr_expect_str_eq(line + 23, expected);
	}
}

Test(log, kinds_of_fields)
{
	begin(LOG_FORMAT_TEXT);
	log_error("m", LOG_SP("sp", ((struct span){"abcdef", 3})), LOG_SP("none", ((struct span){NULL, 0})),
		  LOG_S("null", NULL), LOG_I("neg", -5), LOG_E(-ENOENT), LOG_E(EACCES));
	cr_assert_str_eq(
	    end() + 23,
	    "Z error reconciled-test m sp=abc none=\"\" null=\"\" neg=-5 error=\"No such file or directory\" "
	    "error=\"Permission denied\"\n");
}

Test(log, nothing_makes_a_second_line)
{
	char every[256];
	for (int i = 0; i < 256; i++)
		every[i] = (char)i;
	for (enum log_format f = LOG_FORMAT_TEXT; f <= LOG_FORMAT_JSON; f++) {
		begin(f);
		log_info("a\nb\rc", LOG_SP("every", ((struct span){every, sizeof every})));
		char *line = end();
		cr_assert_eq(strchr(line, '\n'), line + strlen(line) - 1);
		for (char *c = line; c[1]; c++)
			cr_assert((unsigned char)*c >= 0x20 && *c != 0x7f);
	}
}

Test(log, json_line_is_json)
{
	begin(LOG_FORMAT_JSON);
	log_info("say \"hi\"", LOG_S("v", "a\n\xff\\"), LOG_I("n", INT64_MIN), LOG_E(ENOENT));
	char *line = end();
	struct err err = {0};
	cr_assert_eq(json_check(span_of(line), &err), 0, "%s: %s", err.text, line);
	struct span o = span_of(line);
	cr_assert(json_string_is(json_get(o, "level"), "info"));
	cr_assert(json_string_is(json_get(o, "program"), "reconciled-test"));
	cr_assert(json_string_is(json_get(o, "msg"), "say \"hi\""));
	cr_assert(json_string_is(json_get(o, "v"), "a\n\xef\xbf\xbd\\"));
	cr_assert(span_is(json_get(o, "n"), "-9223372036854775808"));
	cr_assert(json_string_is(json_get(o, "error"), "No such file or directory"));
}

/* Whatever the length, and wherever the cut falls, the line is one line of at most 8 KiB, says that it was
 * cut, and JSON is whole. */
Test(log, long_lines_are_cut_with_a_mark)
{
	char value[8400];
	memset(value, 'x', sizeof value);
	for (enum log_format f = LOG_FORMAT_TEXT; f <= LOG_FORMAT_JSON; f++) {
		for (size_t n = 7900; n < sizeof value - 100; n++) {
			begin(f);
			value[n - 1] = n % 3 ? '\n' : 'x';
			log_info("m", LOG_SP("v", ((struct span){value, n})), LOG_I("number", 12345),
				 LOG_SP("more", ((struct span){value, n % 2 ? 1 : 8000})),
				 LOG_S("after", "x"));
			value[n - 1] = 'x';
			char *line = end();
			size_t len = strlen(line);
			cr_assert_leq(len, 8192);
			cr_assert_eq(strchr(line, '\n'), line + len - 1);
			bool whole = strstr(line, f == LOG_FORMAT_JSON ? "\"after\":\"x\"}" : "after=x\n");
			bool marked = strstr(line, f == LOG_FORMAT_JSON ? ",\"cut\":true}" : " [cut]\n");
			cr_assert(whole != marked, "%zu: %s", n, line + len - 60);
			if (f == LOG_FORMAT_JSON)
				cr_assert_eq(json_check(span_of(line), NULL), 0, "%zu: %s", n,
					     line + len - 60);
		}
	}
}

Test(log, below_the_level_nothing_is_written)
{
	begin(LOG_FORMAT_TEXT);
	log_debug("no");
	cr_assert_str_eq(end(), "");
	begin(LOG_FORMAT_TEXT);
	log_init("reconciled-test", LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	log_warning("no");
	log_error("yes");
	cr_assert_str_eq(end() + 23, "Z error reconciled-test yes\n");
}

Test(log, what_cannot_be_written_is_counted)
{
	begin(LOG_FORMAT_TEXT);
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	dup2(full, 2);
	close(full);
	errno = EDOM;
	uint64_t before = log_lost();
	log_error("m");
	cr_assert_eq(errno, EDOM);
	end();
	cr_assert_eq(log_lost(), before + 1);
}

Test(log, words)
{
	enum log_level level;
	enum log_format format;
	cr_assert(log_level_parse("debug", &level) && level == LOG_LEVEL_DEBUG);
	cr_assert(log_format_parse("json", &format) && format == LOG_FORMAT_JSON);
	cr_assert(!log_level_parse("Debug", &level) && !log_level_parse("", &level) &&
		  !log_level_parse(NULL, &level));
	cr_assert(!log_format_parse("xml", &format));
}

Test(log, another_stderr_than_the_journals_is_not_the_journal)
{
	setenv("JOURNAL_STREAM", "1:1", 1);
	begin(LOG_FORMAT_AUTO);
	log_info("m");
	cr_assert_str_eq(end() + 23, "Z info reconciled-test m\n");
	/* It is the same file, but no journal listens: the line is not lost. */
	begin(LOG_FORMAT_AUTO);
	struct stat st;
	char stream[64];
	fstat(2, &st);
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_init("reconciled-test", LOG_LEVEL_INFO, LOG_FORMAT_AUTO);
	if (access("/run/systemd/journal/socket", F_OK) == 0) {
		end();
		cr_skip_test("a journal runs here");
	}
	log_info("m");
	cr_assert_str_eq(end() + 23, "Z info reconciled-test m\n");
}
