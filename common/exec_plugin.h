/* One run of a credential plugin (client.authentication.k8s.io): a program that prints an ExecCredential.
 *
 * It gets our environment without what the service manager put there, the kubeconfig's `env` over it, and
 * KUBERNETES_EXEC_INFO; /dev/null as stdin; no other descriptors; default signals; a session of its own. It runs
 * beside us: nothing here waits. Bounds: its time (kubeconfig's exec_timeout_ms), EXEC_OUTPUT_MAX bytes of
 * stdout, EXEC_DATA_MAX bytes of memory for each of its processes. It ends with its main process; what that left
 * running in its process group is killed. stderr is handed on line by line: EXEC_STDERR_LINES lines of a run, cut at
 * EXEC_STDERR_LINE bytes.
 *
 * Error texts never hold what it printed to stdout: that may be a token. Single-threaded. */
#pragma once
#include "buf.h"
#include "kubeconfig.h"

enum { EXEC_OUTPUT_MAX = 256 << 10, EXEC_STDERR_LINES = 20, EXEC_STDERR_LINE = 300, EXEC_FDS = 3 };
#define EXEC_DATA_MAX (UINT64_C(1) << 30) /* RLIMIT_DATA */

struct exec_credential {
	char *token;	   /* NULL: none */
	char *cert, *key;  /* PEM, both or none */
	int64_t expires_s; /* Unix time; 0: not said */
};
void exec_credential_done(struct exec_credential *c); /* wipes it */
/* What a plugin printed. -EINVAL: err says what is wrong, without the text. */
int exec_credential_parse(const struct kubeconfig *k, struct span out, struct exec_credential *ret,
			  struct err *err);
/* KUBERNETES_EXEC_INFO. ca: PEM, or NULL; proxy: the proxy that is used, or NULL. */
void exec_info(const struct kubeconfig *k, const char *ca, const char *proxy, struct buf *out);

struct exec_plugin;
/* note gets a line of its stderr. -ENOENT: there is no such program (err has the kubeconfig's installHint); other
 * errors of starting a program. k must outlive the run. */
int exec_plugin_start(const struct kubeconfig *k, const char *info, void (*note)(void *ctx, const char *line),
		      void *ctx, struct exec_plugin **ret, struct err *err);
/* What to poll for; returns how many of fds[EXEC_FDS] were set. */
struct pollfd;
size_t exec_plugin_poll(const struct exec_plugin *p, struct pollfd *fds);
int64_t exec_plugin_due_ns(const struct exec_plugin *p); /* BOOTTIME: when it is killed */
/* 1: it goes on. 0: ended, ret is the caller's. Negative: failed, err has its name and its last line of
 * stderr. After 0 or a failure only exec_plugin_free is left to do. */
int exec_plugin_step(struct exec_plugin *p, int64_t now_ns, struct exec_credential *ret, struct err *err);
void exec_plugin_free(struct exec_plugin *p); /* kills what still runs */
