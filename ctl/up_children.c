#include "up.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char parent_is[] = PROGRAM_PARENT "=";

static void arg(char ***argv, char *text) /* takes text */
{
	size_t n = 0;
	while (*argv && (*argv)[n])
		n++;
	*argv = xrealloc(*argv, (n + 2) * sizeof(**argv));
	(*argv)[n] = text;
	(*argv)[n + 1] = NULL;
}

static void option(char ***argv, const char *name, const char *value)
{
	if (!value)
		return;
	arg(argv, xstrdup(name));
	arg(argv, xstrdup(value));
}

static struct child *child_add(struct up *u, const char *program, enum child_stage stage, const char *suffix)
{
	static const char *const levels[] = {"error", "warning", "info", "debug"};
	static const char *const formats[] = {"auto", "text", "json"};
	struct child *c = xcalloc(1, sizeof(*c));
	c->stage = stage;
	c->name = xasprintf("%s%s%s", program, suffix ? " " : "", suffix ? suffix : "");
	arg(&c->argv, program_beside(program));
	option(&c->argv, "--config-dir", u->program.config_dir);
	option(&c->argv, "--runtime-dir", u->program.runtime_dir);
	option(&c->argv, "--region-dir", u->program.region_dir);
	option(&c->argv, "--log-level", levels[u->program.log_level]);
	option(&c->argv, "--log-format", formats[u->program.log_format]);
	u->children = xrealloc(u->children, (u->count + 1) * sizeof(*u->children));
	u->children[u->count++] = c;
	return c;
}

void up_add_services(struct up *u)
{
	struct child *c;
	if (u->token_file) {
		c = child_add(u, "reconciled-apiserver", STAGE_SERVER, NULL);
		option(&c->argv, "--listen", u->server_listen);
		option(&c->argv, "--token-file", u->token_file);
		option(&c->argv, "--self-signed", u->certificate_file);
		option(&c->argv, "--write-kubeconfig", u->program.kubeconfig);
	}
	child_add(u, "reconciled-queue", STAGE_QUEUE, NULL);
	c = child_add(u, "reconciled-watcher", STAGE_WATCHER, NULL);
	option(&c->argv, "--kubeconfig", u->program.kubeconfig);
}

static struct child *worker_find(const struct up *u, const char *controller, uint32_t number)
{
	for (size_t i = 0; i < u->count; i++) {
		struct child *c = u->children[i];
		if (c->controller && !c->retiring && c->number == number &&
		    strcmp(c->controller, controller) == 0)
			return c;
	}
	return NULL;
}

static uint32_t workers_wanted(const struct up *u, const char *controller)
{
	const struct config_controller *c = config_find(&u->config, controller);
	return !c ? 0 : u->workers_given ? u->workers : c->workers;
}

void up_fit_workers(struct up *u, bool keep)
{
	for (size_t i = 0; i < u->count; i++) {
		struct child *c = u->children[i];
		bool known = c->controller && config_find(&u->config, c->controller);
		if (!c->controller || c->retiring || (keep && !known) ||
		    c->number <= workers_wanted(u, c->controller))
			continue;
		log_info("no more wanted", LOG_S("process", c->name));
		child_retire(c);
		if (c->pid)
			kill(c->pid, SIGTERM);
	}
	for (size_t i = 0; i < u->config.count; i++) {
		const char *name = u->config.controllers[i].name;
		for (uint32_t n = 1; n <= workers_wanted(u, name); n++) {
			if (worker_find(u, name, n))
				continue;
			_cleanup_(free_ptr) char *instance = xasprintf("%s.%u", name, n);
			struct child *c = child_add(u, "reconciled-worker", STAGE_WORKERS, instance);
			c->controller = xstrdup(name);
			c->number = n;
			option(&c->argv, "--kubeconfig", u->program.kubeconfig);
			option(&c->argv, "--instance", instance);
		}
	}
}

/* ---- processes ---- */

/* Ours, without what a service manager told us alone, and with our pid: see PROGRAM_PARENT. */
static char **child_environment(void)
{
	static const char *const left_out[] = {
	    "NOTIFY_SOCKET=", "WATCHDOG_USEC=",	 "WATCHDOG_PID=", "LISTEN_FDS=",
	    "LISTEN_PID=",    "LISTEN_FDNAMES=", parent_is};
	size_t n = 0, kept = 0;
	while (environ[n])
		n++;
	char **env = xcalloc(n + 2, sizeof(*env));
	for (size_t i = 0; i < n; i++) {
		bool keep = true;
		for (size_t k = 0; k < ARRAY_SIZE(left_out); k++)
			keep &= strncmp(environ[i], left_out[k], strlen(left_out[k])) != 0;
		if (keep)
			env[kept++] = environ[i];
	}
	env[kept] = xasprintf("%s%d", parent_is, (int)getpid());
	return env;
}

/* A process group of its own, so that Ctrl-C reaches us alone and the order of the end is ours; default
 * signals; stdout is stderr, so that ours has only our lines. */
static int spawn(char *const *argv, pid_t *ret)
{
	posix_spawnattr_t attributes;
	posix_spawn_file_actions_t files;
	/* A reload may come before the program reads its signals: it must find SIGHUP waiting, not be ended by it. */
	sigset_t reload, all;
	sigemptyset(&reload);
	sigaddset(&reload, SIGHUP);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes,
				 POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setsigmask(&attributes, &reload);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, 2, 1);
	char **env = child_environment();
	int rc = posix_spawn(ret, argv[0], &files, &attributes, argv, env);
	for (size_t i = 0; env[i]; i++)
		if (strncmp(env[i], parent_is, strlen(parent_is)) == 0)
			free(env[i]);
	free(env);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return -rc;
}

void up_spawn(struct up *u, struct child *c)
{
	pid_t pid;
	int64_t now = clock_boottime_ns();
	(void)u;
	int rc = spawn(c->argv, &pid);
	if (rc < 0) {
		child_start_failed(c, now);
		log_error("cannot be started", LOG_S("process", c->name), LOG_S("path", c->argv[0]),
			  LOG_E(rc), LOG_I("again_in_ms", c->delay / NS_PER_MS));
		return;
	}
	child_started(c, pid, now);
	log_info("started", LOG_S("process", c->name), LOG_I("pid", pid));
}

void up_signal(struct up *u, enum child_stage stage, int signal)
{
	for (size_t i = 0; i < u->count; i++)
		if (u->children[i]->stage == stage && u->children[i]->state == CHILD_RUNNING)
			kill(u->children[i]->pid, signal);
}

size_t up_running(const struct up *u, enum child_stage stage)
{
	size_t n = 0;
	for (size_t i = 0; i < u->count; i++)
		n += u->children[i]->stage == stage && u->children[i]->state == CHILD_RUNNING;
	return n;
}

static void ended(struct up *u, struct child *c, int status)
{
	char reason[64];
	pid_t pid = c->pid;
	bool wanted = u->draining || c->retiring;
	child_end_text(status, reason);
	child_ended(c, status, clock_boottime_ns());
	if (wanted && status == 0)
		log_info("ended", LOG_S("process", c->name), LOG_I("pid", pid));
	else if (c->state == CHILD_PARKED)
		log_error(
		    "ended, and is not started again before the next reload (SIGHUP): the same would happen",
		    LOG_S("process", c->name), LOG_I("pid", pid), LOG_S("reason", reason));
	else if (wanted)
		log_warning("ended", LOG_S("process", c->name), LOG_I("pid", pid), LOG_S("reason", reason));
	else
		log_warning("ended, will be started again", LOG_S("process", c->name), LOG_I("pid", pid),
			    LOG_S("reason", reason), LOG_I("again_in_ms", c->delay / NS_PER_MS));
	if (c->stage == STAGE_SERVER && !wanted)
		log_error("the built-in API server kept its objects in memory: they are gone");
}

void up_reap(struct up *u)
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
		for (size_t i = 0; i < u->count; i++) {
			if (u->children[i]->state == CHILD_RUNNING && u->children[i]->pid == pid) {
				ended(u, u->children[i], status);
				break;
			}
		}
	}
}

void up_sweep(struct up *u)
{
	size_t kept = 0;
	for (size_t i = 0; i < u->count; i++) {
		if (u->children[i]->state == CHILD_GONE)
			child_free(u->children[i]);
		else
			u->children[kept++] = u->children[i];
	}
	u->count = kept;
}
