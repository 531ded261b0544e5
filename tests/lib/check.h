/* Plain main() tests: checks that print, a count at the end, waiting for a condition with a bound, and
 * processes.
 *
 *   int main(void) { CHECK(1 + 1 == 2); ...; return check_result(); }      prints "N passed, M failed" */
#pragma once
#include "base.h"
#include <stdio.h>
#include <sys/types.h>

void check_at(bool held, const char *file, int line, const char *fmt, ...) _printf_(4, 5);
#define CHECK(cond)	     check_at((cond), __FILE__, __LINE__, "%s", #cond)
#define CHECK_MSG(cond, ...) check_at((cond), __FILE__, __LINE__, __VA_ARGS__)
int check_result(void);

/* Seconds for what an idle machine does at once: a bound for what never comes, not a judgement of how fast it came. */
enum { SOON = 60 };
/* Evaluates cond every 10 ms until it holds, at most `seconds`. Its value is whether it held. */
bool check_pause(int64_t deadline_ns);
#define WAIT_FOR(seconds, cond)                                                                              \
	({                                                                                                   \
		int64_t wait_end_ = clock_boottime_ns() + (int64_t)(seconds)*NS_PER_S;                       \
		bool wait_held_;                                                                             \
		while (!(wait_held_ = (cond)) && check_pause(wait_end_))                                     \
			;                                                                                    \
		wait_held_;                                                                                  \
	})

/* A new folder below $TMPDIR, removed at exit (kept when a check failed). */
const char *check_folder(void);
/* Starts a program (NULL-terminated arguments; argv[0] is looked for in $BIN, then in PATH); stdout and
 * stderr go to the file `log` (NULL: inherited). The process gets SIGKILL when the test ends. Returns the
 * pid; a failure ends the test. */
pid_t check_start(const char *log, const char *const *argv);
/* Waits up to seconds for its end; the wait status, or -1. */
int check_wait(pid_t pid, int seconds);
/* The whole file as text, owned by the caller; "" if there is none. */
char *check_read(const char *path);
