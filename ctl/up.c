#include "up.h"
#include "kubeconfig.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRAIN_WORKERS (35 * NS_PER_S) /* their own 30 s for what runs, and what it takes to end the rest */
#define DRAIN_SERVICE (5 * NS_PER_S)
#define SERVER_START  (20 * NS_PER_S)
enum { LOOK_MS = 20 }; /* between two looks for the kubeconfig of the built-in server, while it starts */

/* ---- before anything runs ---- */

static void errors_show(const struct config *config)
{
	for (size_t i = 0; i < config->errors.count; i++) {
		const struct config_error *e = &config->errors.at[i];
		_cleanup_(free_ptr) char *place =
		    e->line ? xasprintf("%s:%zu:%zu", e->file, e->line, e->column) : xstrdup(e->file);
		if (e->warning)
			log_warning(e->text, LOG_S("at", place));
		else
			log_error(e->text, LOG_S("at", place));
	}
}

/* Links stay as they are: what a link names may change, and paths in a kubeconfig start from the link. */
static int absolute(const char *path, char **ret, struct err *err)
{
	_cleanup_(free_ptr) char *here = getcwd(NULL, 0);
	if (access(path, R_OK) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	if (*path != '/' && !here)
		return err_set(err, -errno, "no working directory: %s", strerror(errno));
	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	*ret = *path == '/'			  ? xstrdup(path)
	       : strcmp(path, ".") == 0 || !*path ? xstrdup(here)
						  : xasprintf("%s/%s", here, path);
	return 0;
}

static int config_first(struct up *u, struct err *err)
{
	int rc = absolute(u->program.config_dir, &u->config_dir, err);
	if (rc < 0)
		return rc;
	u->program.config_dir = u->config_dir;
	rc = config_load(u->config_dir, &u->config, err);
	if (rc < 0)
		return rc;
	errors_show(&u->config);
	if (u->config.main.wrong)
		return err_set(err, -EINVAL, "reconciled.yaml has errors: nothing is started on it");
	if (u->config.count == 0)
		return err_set(err, -EINVAL,
			       u->config.errors.fatal ? "no controller of %s is usable"
						      : "%s holds no controller",
			       u->config_dir);
	return 0;
}

/* One that nobody listens on now. The server keeps it over its restarts, since its clients know it. */
static int free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	_cleanup_(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -errno;
	return ntohs(a.sin_port);
}

static int server_prepare(struct up *u, struct err *err)
{
	char token[33];
	int port = free_port();
	if (port < 0)
		return err_set(err, port, "no free port on the loopback: %s", strerror(-port));
	u->server_listen = xasprintf("127.0.0.1:%d", port);
	u->token_file = xasprintf("%s/token", u->program.runtime_dir);
	u->certificate_file = xasprintf("%s/apiserver.pem", u->program.runtime_dir);
	u->program.kubeconfig = u->kubeconfig = xasprintf("%s/kubeconfig", u->program.runtime_dir);
	unlink(u->token_file);
	unlink(u->certificate_file);
	unlink(u->program.kubeconfig);
	_cleanup_(close_fd) int fd =
	    open(u->token_file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, random_id(token), 32) != 32)
		return err_set(err, -errno, "cannot write %s: %s", u->token_file, strerror(errno));
	printf("server: https://%s (built in; export KUBECONFIG=%s)\n", u->server_listen, u->kubeconfig);
	fflush(stdout);
	return 0;
}

/* The first line of output, before any log: whose objects will be changed. */
static int server_name(struct up *u, struct err *err)
{
	struct kubeconfig k = {0};
	int rc = kubeconfig_load(u->program.kubeconfig, NULL, &k, err);
	if (rc == 0)
		printf("server: %s (of %s)\n", k.server, u->program.kubeconfig);
	fflush(stdout);
	kubeconfig_done(&k);
	return rc;
}

static int prepare(struct up *u, struct err *err)
{
	int rc = program_folder(u->program.runtime_dir, err);
	if (rc == 0)
		rc = program_folder(u->program.region_dir, err);
	if (rc == 0)
		rc = program_lock(u->program.runtime_dir, "up", err);
	if (rc < 0)
		return rc;
	u->program.runtime_dir = u->runtime_dir = realpath(u->program.runtime_dir, NULL);
	u->program.region_dir = u->region_dir = realpath(u->program.region_dir, NULL);
	if (!u->runtime_dir || !u->region_dir)
		return err_set(err, -errno, "cannot use the runtime and region folders: %s", strerror(errno));
	if (!u->program.kubeconfig)
		return server_prepare(u, err);
	rc = absolute(u->program.kubeconfig, &u->kubeconfig, err);
	if (rc < 0)
		return rc;
	u->program.kubeconfig = u->kubeconfig;
	return server_name(u, err);
}

/* logind empties /dev/shm of a user who logs out for good. */
static void logout_warning(void)
{
	if (geteuid() >= 1000 && access("/run/systemd/seats", F_OK) == 0)
		log_warning("the regions in /dev/shm go when you log out for good (logind's RemoveIPC): "
			    "loginctl enable-linger keeps them");
}

/* ---- running ---- */

static void start_due(struct up *u)
{
	int64_t now = clock_boottime_ns();
	for (size_t i = 0; i < u->count; i++) {
		struct child *c = u->children[i];
		if (child_is_due(c, now) && (u->started || c->stage == STAGE_SERVER))
			up_spawn(u, c);
	}
}

static void all_started(struct up *u)
{
	size_t workers = up_running(u, STAGE_WORKERS);
	printf("running: %zu %s, %zu worker %s; Ctrl-C ends\n", u->config.count,
	       u->config.count == 1 ? "controller" : "controllers", workers,
	       workers == 1 ? "process" : "processes");
	fflush(stdout);
	program_notify("READY=1");
}

/* The built-in server has written its kubeconfig, or there is a cluster's: the rest may start. */
static void look_for_server(struct up *u)
{
	struct stat st;
	if (u->token_file && (stat(u->program.kubeconfig, &st) < 0 || st.st_size == 0))
		return;
	u->started = true;
	start_due(u);
	all_started(u);
}

static void reload(struct up *u)
{
	struct config next;
	struct err err;
	program_notify("RELOADING=1");
	if (config_load(u->program.config_dir, &next, &err) < 0) {
		log_error("the configuration cannot be read: everything stays as it is",
			  LOG_S("reason", err.text));
		program_notify("READY=1");
		return;
	}
	errors_show(&next);
	bool keep = next.errors.fatal > 0;
	config_done(&u->config);
	u->config = next;
	log_info("reloaded", LOG_I("controllers", u->config.count), LOG_I("errors", u->config.errors.fatal));
	up_signal(u, STAGE_QUEUE, SIGHUP);
	up_signal(u, STAGE_WATCHER, SIGHUP);
	up_signal(u, STAGE_WORKERS, SIGHUP);
	for (size_t i = 0; i < u->count; i++)
		child_reload(u->children[i], clock_boottime_ns());
	up_fit_workers(u, keep);
	program_notify("READY=1");
}

/* ---- the end ---- */

static void drain_stage(struct up *u, enum child_stage stage)
{
	u->stage = stage;
	u->stage_end = clock_boottime_ns() + (stage == STAGE_WORKERS ? DRAIN_WORKERS : DRAIN_SERVICE);
	up_signal(u, stage, SIGTERM);
}

static void drain(struct up *u)
{
	log_info("stopping: workers first");
	program_notify("STOPPING=1");
	u->draining = true;
	for (size_t i = 0; i < u->count; i++)
		child_retire(u->children[i]);
	drain_stage(u, STAGE_WORKERS);
}

static void kill_all(struct up *u)
{
	log_warning("second signal: killing everything");
	u->killing = true;
	for (int s = 0; s < STAGE_COUNT; s++)
		up_signal(u, (enum child_stage)s, SIGKILL);
}

/* True: all have ended. */
static bool drain_on(struct up *u)
{
	if (clock_boottime_ns() >= u->stage_end && up_running(u, u->stage)) {
		log_error("over its time to end: killed", LOG_I("processes", up_running(u, u->stage)));
		u->killing = true;
		up_signal(u, u->stage, SIGKILL);
		u->stage_end = INT64_MAX;
	}
	while (!up_running(u, u->stage)) {
		if (u->stage == STAGE_SERVER)
			return true;
		drain_stage(u, (enum child_stage)(u->stage - 1));
	}
	return false;
}

/* ---- the loop ---- */

static int wait_ms(const struct up *u, int64_t server_end)
{
	int64_t now = clock_boottime_ns(), next = INT64_MAX;
	if (u->draining)
		next = u->stage_end;
	for (size_t i = 0; i < u->count && !u->draining; i++)
		if (u->children[i]->state == CHILD_WAITING)
			next = MIN(next, u->children[i]->due_at);
	if (!u->started && !u->draining)
		next = MIN(MIN(next, server_end), now + (int64_t)LOOK_MS * NS_PER_MS);
	if (next == INT64_MAX)
		return -1;
	return next <= now ? 0 : (int)MIN((next - now) / NS_PER_MS + 1, (int64_t)60000);
}

static void take_signals(struct up *u, int fd)
{
	struct signalfd_siginfo s;
	while (read(fd, &s, sizeof(s)) == sizeof(s)) {
		if (s.ssi_signo == SIGHUP && !u->draining)
			reload(u);
		else if (s.ssi_signo == SIGTERM || s.ssi_signo == SIGINT)
			(u->draining ? kill_all : drain)(u);
	}
}

/* Returns the exit status. */
static int run(struct up *u, int signals)
{
	int64_t server_end = clock_boottime_ns() + SERVER_START;
	for (;;) {
		if (!u->draining)
			start_due(u);
		if (!u->started && !u->draining) {
			look_for_server(u);
			if (!u->started && clock_boottime_ns() > server_end) {
				log_error("the API server does not start: it wrote no kubeconfig",
					  LOG_S("path", u->kubeconfig));
				u->killing = true;
				drain(u);
			}
		}
		if (u->draining && drain_on(u))
			return u->killing ? EXIT_FAILURE : EXIT_SUCCESS;
		struct pollfd p = {.fd = signals, .events = POLLIN};
		poll(&p, 1, wait_ms(u, server_end));
		take_signals(u, signals);
		up_reap(u);
		up_sweep(u);
	}
}

static void options(struct up *u, int argc, char **argv)
{
	struct ctl c;
	const char *file = NULL, *workers = NULL;
	const struct program_option own[] = {
	    {"file", 'f', "PATH", "controller file or folder, as --config-dir", .text = &file},
	    {"workers", 0, "N", "worker processes of each controller [as its file says]", .text = &workers},
	    {0}};
	ctl_options(&c, u->self, own, false, argc, argv);
	if (c.first != argc)
		ctl_usage(u->self, "no arguments are wanted: -f %s?", argv[c.first]);
	u->program = c.program;
	if (file)
		u->program.config_dir = file;
	u->workers_given = workers != NULL;
	if (workers && parse_u32(workers, 0, 256, &u->workers) < 0)
		ctl_usage(u->self, "--workers is a number up to 256, not %s", workers);
}

static int start_and_run(struct up *u, int signals)
{
	struct err err;
	if (config_first(u, &err) < 0) {
		ctl_fail(u->self, err.text);
		return EXIT_CONFIG;
	}
	if (prepare(u, &err) < 0)
		return ctl_fail(u->self, err.text);
	logout_warning();
	up_add_services(u);
	up_fit_workers(u, false);
	int status = run(u, signals);
	if (u->token_file) {
		unlink(u->token_file);
		unlink(u->certificate_file);
		unlink(u->kubeconfig);
	}
	return status;
}

static void up_done(struct up *u)
{
	for (size_t i = 0; i < u->count; i++)
		child_free(u->children[i]);
	free(u->children);
	config_done(&u->config);
	free(u->config_dir);
	free(u->runtime_dir);
	free(u->region_dir);
	free(u->kubeconfig);
	free(u->token_file);
	free(u->certificate_file);
	free(u->server_listen);
}

CTL_RUN(up_run)
{
	struct up u = {.self = self};
	options(&u, argc, argv);
	int signals = program_signals(true);
	if (signals < 0)
		return ctl_fail(self, strerror(-signals));
	int status = start_and_run(&u, signals);
	up_done(&u);
	close(signals);
	return status;
}
