#include "outcome.h"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

static void put_text(char *to, size_t max, const char *text)
{
	struct span s = span_of(text);
	size_t n = text_cut(s, max);
	memmove(to, text, n);
	to[n] = 0;
}

void result_init(struct result *r)
{
	*r = (struct result){.outcome = WIRE_OUTCOME_OK, .requeue_after_ms = -1};
}

void result_set(struct result *r, enum wire_outcome outcome, const char *reason, const char *fmt, ...)
{
	char text[MESSAGE_MAX * 2];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* A time that belonged to success (requeueAfter) means nothing for a failure. */
	bool retry = outcome == WIRE_OUTCOME_NOT_READY || outcome == WIRE_OUTCOME_THROTTLED ||
		     outcome == WIRE_OUTCOME_TRANSIENT;
	if (!retry || r->outcome == WIRE_OUTCOME_OK)
		r->requeue_after_ms = -1;
	r->outcome = outcome;
	r->requeue = false;
	put_text(r->reason, REASON_MAX, reason ? reason : "");
	put_text(r->message, MESSAGE_MAX, text);
}

void result_add(struct result *r, const char *before, struct span text)
{
	size_t len = strlen(r->message), sep = len ? strlen(before) : 0;
	if (!text.len || len + sep >= MESSAGE_MAX)
		return;
	memcpy(r->message + len, before, sep);
	len += sep;
	size_t skip = text.len > MESSAGE_MAX - len ? text.len - (MESSAGE_MAX - len) : 0;
	while (skip < text.len && skip && ((unsigned char)text.at[skip] & 0xc0) == 0x80)
		skip++;
	memcpy(r->message + len, text.at + skip, text.len - skip);
	r->message[len + text.len - skip] = 0;
}

/* The exit statuses that mean something; any other is Transient. 129 to 192 are what a shell says of a child
 * that a signal ended. */
static const struct exit_row {
	int first, last;
	enum wire_outcome outcome;
	const char *reason;
} exit_table[] = {
    {0, 0, WIRE_OUTCOME_OK, ""},
    {65, 65, WIRE_OUTCOME_TERMINAL, "DataError"},   /* EX_DATAERR */
    {75, 75, WIRE_OUTCOME_NOT_READY, "TryAgain"},   /* EX_TEMPFAIL */
    {78, 78, WIRE_OUTCOME_TERMINAL, "ConfigError"}, /* EX_CONFIG */
    {126, 127, WIRE_OUTCOME_EXEC_FAILED, "ExecFailed"},
    {129, 192, WIRE_OUTCOME_CRASHED, "Signal"},
};

static const struct exit_row *exit_row(int code)
{
	static const struct exit_row other = {0, 255, WIRE_OUTCOME_TRANSIENT, "ExitStatus"};
	for (size_t i = 0; i < ARRAY_SIZE(exit_table); i++)
		if (code >= exit_table[i].first && code <= exit_table[i].last)
			return &exit_table[i];
	return &other;
}

static void by_signal(const struct ending *e, int sig, const char *said, struct result *r)
{
	char name[24];
	signal_text(sig, name);
	if (sig == SIGKILL && e->memory_evidence)
		result_set(r, WIRE_OUTCOME_OOM_KILLED, "OOMKilled",
			   "killed by the kernel for want of memory (%s)", said);
	else if (sig == SIGXCPU)
		result_set(r, WIRE_OUTCOME_CRASHED, "CPULimit", "used up its limits.cpu of %lld s (%s)",
			   (long long)(e->limit_cpu_ns / NS_PER_S), said);
	else
		result_set(r, WIRE_OUTCOME_CRASHED, name, "killed by %s%s", name,
			   sig == SIGKILL ? " (by whom is not known)" : "");
}

void outcome_of_ending(const struct ending *e, struct result *r)
{
	char said[64];
	ending_text(e->wait_status, said);
	result_init(r);
	switch (e->killed) {
	case KILL_DEADLINE:
		result_set(r, WIRE_OUTCOME_TIMEOUT, "Timeout",
			   "not finished after reconciliationTimeout (%.3g s); ended by %s",
			   (double)e->timeout_ns / (double)NS_PER_S, said);
		return;
	case KILL_MEMORY:
		result_set(r, WIRE_OUTCOME_OOM_KILLED, "OOMKilled", "killed: above maxMemory");
		return;
	case KILL_PROTOCOL:
		result_set(r, WIRE_OUTCOME_PROTOCOL_ERROR, "ProtocolError", "killed after a protocol error");
		return;
	case KILL_LEASE:
	case KILL_DRAIN:
		result_set(r, WIRE_OUTCOME_CANCELLED, "Cancelled", "ended by the worker");
		return;
	case KILL_LEAD:
		result_set(r, WIRE_OUTCOME_CANCELLED, "Cancelled", "this host no longer leads");
		return;
	case KILL_NONE:
		break;
	}
	bool success = WIFEXITED(e->wait_status) && WEXITSTATUS(e->wait_status) == 0;
	if (e->near_limit &&
	    !success) { /* few programs survive an allocation that fails, and each dies in its own way */
		result_set(r, WIRE_OUTCOME_OOM_KILLED, "OOMKilled", "ended near its maxMemory (%s)", said);
		return;
	}
	if (WIFSIGNALED(e->wait_status)) {
		by_signal(e, WTERMSIG(e->wait_status), said, r);
		return;
	}
	int code = WEXITSTATUS(e->wait_status);
	const struct exit_row *row = exit_row(code);
	if (row->outcome == WIRE_OUTCOME_CRASHED)
		by_signal(e, code - 128, said, r);
	else if (row->outcome != WIRE_OUTCOME_OK)
		result_set(r, row->outcome, row->reason, "%s", said);
}

bool outcome_reads_answer(enum wire_outcome outcome)
{
	return outcome == WIRE_OUTCOME_OK || outcome == WIRE_OUTCOME_TRANSIENT ||
	       outcome == WIRE_OUTCOME_NOT_READY || outcome == WIRE_OUTCOME_TERMINAL;
}

bool outcome_is_exit_code_error(int wait_status)
{
	if (!WIFEXITED(wait_status))
		return false;
	int code = WEXITSTATUS(wait_status);
	return code == 65 || code == 75 || code == 78;
}
