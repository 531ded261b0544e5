/* The worker host: one controller, one jail, one key at a time. host.c has the loop and the table of what it
 * does when; start.c brings jail and coprocess up; attempt.c takes a key from its grant to its result. */
#pragma once
#include "coprocess.h"
#include "credentials.h"
#include "events.h"
#include "hidden.h"
#include "lead.h"
#include "link.h"
#include "program.h"
#include "request.h"
#include "write.h"

/* What the host is at. The link to the broker has its own state (link.h): any of these may meet any of
 * those. */
#define HOST_STATES(X)                                                                                       \
	X(STARTING, "starting") /* the jail, and a coprocess up to its Hello */                              \
	X(BACKOFF, "backoff")	/* that failed: waiting to try again */                                      \
	X(IDLE, "idle")		/* polling */                                                                \
	X(ASLEEP, "asleep")	/* not needed: no child, polling to be woken */                              \
	X(PREPARING,                                                                                         \
	  "preparing")	      /* has a key: waits for cache, jail or coprocess, then builds the request */   \
	X(RUNNING, "running") /* the program is at it; ends with the writes, which block */                  \
	X(REPORTING, "reporting") /* has a result that the broker has not yet acknowledged */
enum host_state {
#define X(NAME, text) HOST_##NAME,
	HOST_STATES(X)
#undef X
	    HOST_STATE_COUNT
};

#define HOST_GOODBYE_NS	   (2 * NS_PER_S) /* for a coprocess after Shutdown */
#define HOST_KILL_GRACE_NS (5 * NS_PER_S) /* no write starts so long before the end of the lease */

struct host_report { /* shown by `reconcilectl status` */
	const char *topic;
	enum wire_state state;
	char message[1025];
	bool pending, ever;
};
enum { REPORT_START, REPORT_HELLO, REPORT_CACHE, REPORT_COUNT };

struct host {
	const struct program *program;
	const char *instance; /* "website.1" */
	char *controller_name;
	uint64_t own_start_time;

	struct config config;
	const struct config_controller *controller; /* into config */
	struct kubeconfig kubeconfig;
	struct credentials credentials; /* of it, what the reconciler is given */
	struct http_client *http;
	struct kinds *kinds;
	struct events events;
	struct reads reads;

	struct link link;
	struct lead lead;
	int64_t drain_ns; /* for the running attempt after SIGTERM */
	int64_t watchdog_ns, watchdog_due_ns, drain_end_ns;
	int signal_fd;
	bool link_open, ever_ready, draining, reload, exit;

	bool asleep;	     /* the broker's wish */
	bool jail_announced; /* the broker has acknowledged a HELLO that names the jail */
	struct jail *jail;
	struct process process;
	struct coprocess coprocess;
	int64_t backoff_ns, backoff_until_ns;
	struct host_report reports[REPORT_COUNT];
	enum kill_cause lost_killed; /* why the program that a lost jail took along was being killed */

	enum host_state state;
	struct wire grant; /* WIRE_TYPE_GRANT while a lease is held */
	int64_t wake_ns;   /* of the state; INT64_MAX: none */
	bool lease;	   /* false in RUNNING: it was lost, the attempt is being killed */

	/* The attempt. */
	bool finalizing, object_present;
	char uid[33], key[KEY_MAX_LEN + 1];
	struct environment env;
	struct writer writer;
	struct writes writes;
	int64_t prepare_ns, run_ns;
	struct result result;
	uint64_t duration_us;
	char exit_text[64];
};

/* Loads the controller and the kubeconfig. Returns 0 or an exit status, having logged why. */
int host_init(struct host *h, const struct program *p, const char *instance);
/* Runs until drained; the exit status. */
int host_run(struct host *h);

/* ---- between host.c, start.c and attempt.c ---- */

/* start.c: 1 ready to run a program, 0 not yet (called again when something happens), negative: failed, and
 * said (report, log, backoff). */
int start_step(struct host *h, int64_t now_ns);
void start_stop_jail(struct host *h);
/* Reads the controller's file again; true if the controller changed. */
bool start_reload(struct host *h);
/* A coprocess that is to be ended in peace. */
void start_goodbye(struct host *h);

/* attempt.c: what a state does when something happened; each may change h->state. */
void attempt_granted(struct host *h, struct wire *grant, int64_t now_ns); /* takes the message over */
void attempt_prepare(struct host *h, int64_t now_ns);
void attempt_running(struct host *h, int64_t now_ns);
void attempt_report(struct host *h, int64_t now_ns);
/* The lease is no longer ours. */
void attempt_lost(struct host *h);
void attempt_forget(struct host *h);

/* host.c */
void host_enter(struct host *h, enum host_state s);
/* Looks at signals and the broker without waiting; for the writes, which block the loop. */
void host_pump(struct host *h);
void host_set_report(struct host *h, int which, enum wire_state state, const char *message);
/* True when nothing of an attempt may still run: the program ended, or it is a coprocess that waits for the
 * next. */
bool host_is_quiet(const struct host *h);
