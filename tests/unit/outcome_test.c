/* The table of exit statuses, and messages that fit. */
#include "outcome.h"
#include <criterion/criterion.h>
#include <signal.h>

static struct result end(int wait_status, enum kill_cause killed, bool memory)
{
	struct result r;
	outcome_of_ending(&(struct ending){.wait_status = wait_status,
					   .killed = killed,
					   .memory_evidence = memory,
					   .timeout_ns = 30 * NS_PER_S,
					   .limit_cpu_ns = 60 * NS_PER_S},
			  &r);
	return r;
}

static int status(int code)
{
	return code << 8;
}

Test(outcome, exit_statuses)
{
	static const struct {
		int code;
		enum wire_outcome outcome;
	} rows[] = {
	    {0, WIRE_OUTCOME_OK},
	    {1, WIRE_OUTCOME_TRANSIENT},
	    {2, WIRE_OUTCOME_TRANSIENT},
	    {64, WIRE_OUTCOME_TRANSIENT},
	    {65, WIRE_OUTCOME_TERMINAL},
	    {66, WIRE_OUTCOME_TRANSIENT},
	    {75, WIRE_OUTCOME_NOT_READY},
	    {78, WIRE_OUTCOME_TERMINAL},
	    {125, WIRE_OUTCOME_TRANSIENT},
	    {126, WIRE_OUTCOME_EXEC_FAILED},
	    {127, WIRE_OUTCOME_EXEC_FAILED},
	    {128, WIRE_OUTCOME_TRANSIENT},
	    {129, WIRE_OUTCOME_CRASHED},
	    {139, WIRE_OUTCOME_CRASHED},
	    {192, WIRE_OUTCOME_CRASHED},
	    {193, WIRE_OUTCOME_TRANSIENT},
	    {255, WIRE_OUTCOME_TRANSIENT},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		cr_expect_eq(end(status(rows[i].code), KILL_NONE, false).outcome, rows[i].outcome,
			     "exit status %d", rows[i].code);
}

Test(outcome, signals_and_memory)
{
	struct result r = end(SIGSEGV, KILL_NONE, false);
	cr_expect_eq(r.outcome, WIRE_OUTCOME_CRASHED);
	cr_expect_str_eq(r.reason, "SIGSEGV");
	cr_expect_str_eq(end(status(139), KILL_NONE, false).reason, "SIGSEGV", "a shell's word for it");
	cr_expect_eq(end(SIGKILL, KILL_NONE, false).outcome, WIRE_OUTCOME_CRASHED);
	cr_expect_eq(end(SIGKILL, KILL_NONE, true).outcome, WIRE_OUTCOME_OOM_KILLED);
	cr_expect_eq(end(status(137), KILL_NONE, true).outcome, WIRE_OUTCOME_OOM_KILLED);
	cr_expect_eq(end(SIGSEGV, KILL_NONE, true).outcome, WIRE_OUTCOME_CRASHED,
		     "memory was short, but that did not kill it");
	cr_expect_str_eq(end(SIGXCPU, KILL_NONE, false).reason, "CPULimit");
}

Test(outcome, near_the_limit_of_memory)
{
	struct result r;
	outcome_of_ending(&(struct ending){.wait_status = status(1), .near_limit = true}, &r);
	cr_expect_eq(r.outcome, WIRE_OUTCOME_OOM_KILLED, "MemoryError ends Python with 1");
	outcome_of_ending(&(struct ending){.wait_status = SIGABRT, .near_limit = true}, &r);
	cr_expect_eq(r.outcome, WIRE_OUTCOME_OOM_KILLED);
	outcome_of_ending(&(struct ending){.wait_status = status(0), .near_limit = true}, &r);
	cr_expect_eq(r.outcome, WIRE_OUTCOME_OK, "it had enough");
}

Test(outcome, killed_by_us)
{
	cr_expect_eq(end(SIGKILL, KILL_DEADLINE, true).outcome, WIRE_OUTCOME_TIMEOUT);
	cr_expect_eq(end(status(0), KILL_DEADLINE, false).outcome, WIRE_OUTCOME_TIMEOUT,
		     "it ended well, but too late");
	cr_expect_eq(end(SIGKILL, KILL_MEMORY, false).outcome, WIRE_OUTCOME_OOM_KILLED);
	cr_expect_eq(end(SIGKILL, KILL_PROTOCOL, false).outcome, WIRE_OUTCOME_PROTOCOL_ERROR);
	cr_expect_eq(end(SIGKILL, KILL_DRAIN, false).outcome, WIRE_OUTCOME_CANCELLED);
}

Test(outcome, only_an_error_keeps_its_time)
{
	struct result r;
	result_init(&r);
	r.requeue_after_ms = 5;
	result_set(&r, WIRE_OUTCOME_TRANSIENT, "X", "y");
	cr_expect_eq(r.requeue_after_ms, -1, "requeueAfter of a success is none of a failure");
	r.requeue_after_ms = 7;
	result_set(&r, WIRE_OUTCOME_TRANSIENT, "X", "z");
	cr_expect_eq(r.requeue_after_ms, 7);
	result_set(&r, WIRE_OUTCOME_CRASHED, "X", "z");
	cr_expect_eq(r.requeue_after_ms, -1);
}

Test(outcome, text_is_cut_at_a_character)
{
	char text[MESSAGE_MAX + 2];
	memset(text, 'x', sizeof(text));
	memcpy(text + MESSAGE_MAX - 1, "\xc3\xa4", 3); /* one character across the limit */
	struct result r;
	result_init(&r);
	result_set(&r, WIRE_OUTCOME_TRANSIENT, "R", "%s", text);
	cr_expect_eq(strlen(r.message), MESSAGE_MAX - 1);
	cr_expect_eq(text_cut(span_of("abc"), 3), 3);
}

Test(outcome, of_a_long_text_both_ends_are_shown)
{
	char out[20];
	cr_expect_eq(text_ends(span_of("short"), sizeof(out), out), 5);
	cr_expect_eq(text_ends(span_of("just as long as it."), 19, out), 19);
	size_t n = text_ends(span_of("crashed; last lines: a | b | KeyError"), sizeof(out), out);
	cr_expect(n == 20 && memcmp(out, "crashed ... KeyError", n) == 0, "%.*s", (int)n, out);
	/* No half characters at either side. */
	n = text_ends(span_of("123456\xc3\xa4 and much more \xc3\xa4"
			      "78901234"),
		      sizeof(out), out);
	cr_expect(n == 19 && memcmp(out, "123456 ... 78901234", n) == 0, "%.*s", (int)n, out);
}

Test(outcome, what_is_added_keeps_its_end)
{
	char text[4000];
	struct result r;
	memset(text, 'x', sizeof(text));
	memcpy(text + sizeof(text) - 4, "end", 4);
	result_init(&r);
	result_set(&r, WIRE_OUTCOME_TRANSIENT, "R", "exit status 3");
	result_add(&r, "; last lines: ", span_of(text));
	cr_expect_eq(strlen(r.message), MESSAGE_MAX);
	cr_expect(strstr(r.message, "exit status 3; last lines: xxx"));
	cr_expect(strcmp(r.message + MESSAGE_MAX - 3, "end") == 0);
}
