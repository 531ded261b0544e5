/* What the commands share. Each is one file with one function, named in the table of main.c, and reads its
 * own options. */
#pragma once
#include "buf.h"
#include "program.h"
#include "wire.h"

struct ctl_command {
	const char *name, *arguments, *about;
	int (*run)(const struct ctl_command *self, int argc,
		   char **argv); /* argv[0]: its name. Returns the exit status. */
	const char *more;	 /* for --help: NULL, or what about does not say */
};
#define CTL_RUN(name) int name(const struct ctl_command *self, int argc, char **argv)
CTL_RUN(up_run);
CTL_RUN(status_run);
CTL_RUN(queue_run);
CTL_RUN(explain_run);
CTL_RUN(requeue_run);
CTL_RUN(pause_run);
CTL_RUN(resume_run);
CTL_RUN(drain_run);
CTL_RUN(scale_run);
CTL_RUN(quarantine_run);
CTL_RUN(validate_run);
CTL_RUN(wait_run);
CTL_RUN(raw_run);

struct ctl {
	struct program program;
	bool json;     /* -o json */
	int first;     /* argv[first]: the first argument that is no option */
	int answer_ms; /* how long the broker may take */
};
/* The common options and -o; own as for program_options (NULL-named end), may be NULL. An ordinary user's
 * empty folders give way to those of the system's services, unless they are named. Exits on --help, --version
 * and wrong usage. */
void ctl_options(struct ctl *c, const struct ctl_command *self, const struct program_option *own,
		 bool with_output, int argc, char **argv);
/* Says what is wrong and exits with 2. */
void ctl_usage(const struct ctl_command *self, const char *fmt, ...) _printf_(2, 3) __attribute__((noreturn));
/* "reconcilectl NAME: text" to stderr; returns EXIT_FAILURE. */
int ctl_fail(const struct ctl_command *self, const char *text);
/* To stdout at once; failure to write ends the program with 1. */
void ctl_print(const struct buf *text);

/* Says HELLO to the broker, sends one request, and takes its answer, which must be of the wanted type; free
 * it with wire_done. -ENOTCONN: no broker; -ETIMEDOUT; -EPERM: refused. err says what to do. */
int ctl_ask(const struct ctl *c, const struct wire *request, enum wire_type wanted, struct wire *ret,
	    struct err *err);

/* The last broker's answer to STATUS, of a living broker; free it with json_free. */
struct json;
int ctl_status(const struct ctl *c, struct json **ret, struct err *err);

/* A client of the API server: --kubeconfig, else the one that a running `up` wrote, else what the services
 * use. */
struct http_client;
int ctl_client(const struct ctl *c, struct http_client **ret, struct err *err);
