/* Jails in tests: start one, run programs in it and look at how they end; the same test as root and as an
 * ordinary user. */
#pragma once
#include "check.h"
#include "jail_client.h"

enum { ORDINARY_UID = 12345 }; /* nobody's; the user that the test goes on as, after root */

struct run {
	bool started;
	int error;  /* of the exec, when not started */
	bool gone;  /* the jail ended */
	int status; /* as waitpid() gives it */
	unsigned left;
	char text[1024]; /* names of what was left; why the jail is gone */
	char *output;	 /* stdout and stderr; free it */
};

/* Starts a jail; a failure fails the test and gives NULL. */
struct jail *jail_up(const struct jail_options *o);
/* What jail_start() says when it fails; "" if it does not. Valid until the next call. */
const char *jail_refusal(const struct jail_options *o);
/* Spawns a program with /dev/null and the files of fds (NULL: a file that becomes run.output). */
bool jail_begin(struct jail *j, const char *const *argv, const int fds[3]);
/* Runs it to its end, at most 120 s. */
struct run jail_run(struct jail *j, const char *const *argv);
/* One event, waiting for it at most so many seconds. */
bool jail_await(struct jail *j, int seconds, struct jail_event *ret);
/* sh -c TEXT in a new jail with these options (NULL: plain); the output, to be freed. */
char *jail_shell(const struct jail_options *o, const char *text);
bool has(const char *output, const char *part);

/* How many processes of the machine have this in their command line, ourselves excepted. */
size_t processes_with(const char *marker);
/* Runs this test's own program with one argument more, as ORDINARY_UID, from a copy that this user can read,
 * and waits for it. True if it exited with 0. Only for root. */
bool again_as_user(const char *argument);
/* Copies of our own program and reconciled-jail in the test's folder, readable by anybody; the path of
 * ours. */
const char *own_copy(void);
