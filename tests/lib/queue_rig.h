/* reconciled-queue and who talks to it, for process tests: the test itself plays the watcher, and, started again
 * with arguments, worker hosts that do what they are told on stdin and say on stdout what the broker answered.
 * Each has a process of its own that stands for its jail's init. */
#pragma once
#include "check.h"
#include "config.h"
#include "program.h"
#include "queue_read.h"
#include "transport.h"
#include "wire.h"

/* Folders and files; set by queue_rig_init, log_path by each start of the broker. */
extern char run_dir[300], shm_dir[300], conf_dir[300], socket_path[400], log_path[400];

/* First in main: does not return if this process is to be a host or a jail. */
void queue_rig_init(int argc, char **argv);

/* ---- hosts ---- */

struct host {
	pid_t pid, jail;
	int in, out;
	char text[1024]; /* the last line */
	char buf[4096];
	size_t len;
	/* of the last GRANT */
	unsigned long long slot, generation;
	char key[400];
	unsigned attempt;
	char last[32];
	long long lease_end;
};

/* A process that stands for the jail's init, or none. One that lasts does not end with its host. */
enum rig_jail { RIG_NO_JAIL, RIG_JAIL, RIG_JAIL_LASTS };
/* Started, not yet greeted. */
struct host host_start_as(const char *controller, const char *digest, const char *instance,
			  enum rig_jail jail);
/* Greeted. */
struct host host_start(const char *controller, const char *instance);
/* The next line that it says is in text. */
bool host_line(struct host *h, int seconds);
void host_tell_it(struct host *h, const char *fmt, ...) _printf_(2, 3);
bool host_granted(struct host *h, int seconds);
/* By SIGKILL. */
void host_end(struct host *h);

#define EXPECT(h, what)                                                                                      \
	CHECK_MSG(host_line(h, SOON) && strncmp((h)->text, what, strlen(what)) == 0,                         \
		  "wanted '%s', got '%s'", what, (h)->text)
#define EXPECT_SILENCE(h, ms)                                                                                \
	do {                                                                                                 \
		struct pollfd p_ = {.fd = (h)->out, .events = POLLIN};                                       \
		CHECK_MSG((h)->len == 0 && poll(&p_, 1, ms) == 0, "a key came that should not");             \
	} while (0)
#define EXPECT_GRANT(h, want)                                                                                \
	CHECK_MSG(host_granted(h, SOON) && strcmp((h)->key, want) == 0, "wanted a grant of %s, got '%s'",    \
		  want, (h)->text)

/* ---- the broker and the watcher ---- */

extern pid_t broker;
extern struct transport_client *watcher;
extern struct wire answer;
extern const char *names[3]; /* the watcher's controllers */
extern size_t n_names;

/* Writes a file into conf_dir. */
void rig_file(const char *name, const char *text);
/* Of the file in conf_dir. */
char *digest_of(const char *controller);
char *log_text(void);
bool log_has(const char *text);
void broker_start_at(const char *config);
void broker_start(void);
void broker_kill(void);
/* Sends, and puts what is answered into `answer`. */
bool call(struct transport_client *c, const struct wire *m);
bool watcher_hello_as(const char *digest);
bool watcher_hello(void);
bool add_key(const char *controller, const char *name, bool changed, unsigned cause);
bool add(const char *name);
bool status_has(const char *text);
/* What the region says of a key of web, read as reconcilectl reads it. */
bool key_of(const char *name, struct queue_key *ret);
enum shm_state state_of(const char *name);
