/* A whole system for process tests: `reconcilectl up` on the built-in API server, with a client of that
 * server. */
#pragma once
#include "check.h"
#include "kube.h"

struct stack {
	char *folder, *config, *records, *log, *runtime, *region, *kubeconfig;
	pid_t up;
	struct http_client *http;
};

/* Makes the folders (config is where controller files go, and a reconciled.yaml with small budgets; records is
 * writable for reconcilers). Nothing runs yet. */
void stack_init(struct stack *s);
/* Writes a file into the config folder; mode 0755 if it begins with "#!". */
void stack_file(struct stack *s, const char *name, const char *fmt, ...) _printf_(3, 4);
/* Copies a test program of the build into the config folder: the jail's user may not be able to enter where the
 * sources lie (/root). */
void stack_program(struct stack *s, const char *name);
/* Starts `up`, waits for the API server, and connects. Ends the test when that fails. */
void stack_start(struct stack *s);
/* Starts `up` on another API server than the built-in one, and waits for nothing. */
void stack_start_on(struct stack *s, const char *kubeconfig);
/* Connects stack_api() with the API server of a kubeconfig; false if that does not answer within 60 s. */
bool stack_connect(struct stack *s, const char *kubeconfig);
/* SIGTERM to `up`; the wait status, -1 if it did not end within 60 s. Removes the regions. */
int stack_stop(struct stack *s);
/* Frees what stack_init made; the folders go when the test ends. For a test that makes another stack. */
void stack_done(struct stack *s);

/* One request to the API server; the HTTP status, 0 if there was no answer. answer may be NULL. */
int stack_api(struct stack *s, const char *method, const char *content_type, const char *body,
	      struct buf *answer, const char *path_fmt, ...) _printf_(6, 7);
#define MERGE_PATCH "application/merge-patch+json"
#define APPLY_PATCH "application/apply-patch+yaml"

/* Processes below `up` by role, from /proc. */
enum stack_role { ROLE_BROKER, ROLE_WATCHER, ROLE_HOST, ROLE_LAUNCHER, ROLE_INIT, ROLE_CHILD, ROLE_COUNT };
const char *stack_role_name(enum stack_role r);
/* Fills pids with those of that role now; returns how many (at most max). */
size_t stack_pids(const struct stack *s, enum stack_role r, pid_t *pids, size_t max);
/* What `reconcilectl status OPTIONS` prints now, errors included; owned by the caller. */
char *stack_status(const struct stack *s, const char *options);
/* Does the log hold this text? */
bool stack_logged(const struct stack *s, const char *text);
