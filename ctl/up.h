/* reconcilectl up: the supervisor. up.c has the life of the whole, up_children.c what the children are and
 * how they are spawned. No nng here: what is spawned must not come from a process that has used it. */
#pragma once
#include "config.h"
#include "ctl.h"
#include "supervisor.h"

struct up {
	const struct ctl_command *self;
	struct program program; /* its paths are absolute: the four below */
	char *config_dir, *runtime_dir, *region_dir, *kubeconfig;
	struct config config; /* of the last good load */
	bool workers_given;
	uint32_t workers;	/* --workers */
	char *token_file;	/* of the built-in API server; NULL: a cluster is used */
	char *certificate_file; /* of the built-in API server: key and certificate */
	char *server_listen;
	struct child **children;
	size_t count;

	bool started; /* the kubeconfig is there, all are started */
	bool draining, killing;
	enum child_stage stage; /* that is being drained */
	int64_t stage_end;
};

/* Adds the built-in server (if token_file is set), broker, watcher. */
void up_add_services(struct up *u);
/* Makes the hosts fit the configuration: new ones are added, those that are too many retired and sent
 * SIGTERM. keep: controllers that are not configured any more stay (their file may be the wrong one). */
void up_fit_workers(struct up *u, bool keep);
/* Starts a child, says so; what fails is tried again later. */
void up_spawn(struct up *u, struct child *c);
void up_signal(struct up *u, enum child_stage stage, int signal); /* those that run */
size_t up_running(const struct up *u, enum child_stage stage);
/* Reaps everything that has ended, ours and (as process 1) whoever was left to us. */
void up_reap(struct up *u);
/* Takes out those that are GONE. */
void up_sweep(struct up *u);
