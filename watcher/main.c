#include "log.h"
#include "watcher.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FLUSH_NS (5 * NS_PER_S) /* for keys and answers on their way at the end */

static const char *idle_timeout; /* --watch-idle-timeout */
static const struct program_option options[] = {
    {.name = "watch-idle-timeout",
     .argument = "DURATION",
     .text = &idle_timeout,
     .help = "give a watch up that was silent for so long (default: what the server was asked for and 30s)"},
    {0}};

/* ---- configuration ---- */

static bool file_is_wrong(const struct config *c, const char *file)
{
	for (size_t i = 0; i < c->errors.count; i++)
		if (!c->errors.at[i].warning && !strcmp(c->errors.at[i].file, file))
			return true;
	return false;
}

/* A file that was broken while its controller runs leaves it running as it was. */
static void keep_running(struct config *new, struct config *old)
{
	for (size_t i = 0; i < old->count;) {
		struct config_controller *c = &old->controllers[i];
		if (config_find(new, c->name) || !file_is_wrong(new, c->file)) {
			i++;
			continue;
		}
		log_warning("the controller goes on as it was: its file is wrong now",
			    LOG_S("controller", c->name), LOG_S("file", c->file));
		size_t at = 0;
		while (at < new->count && strcmp(new->controllers[at].name, c->name) < 0)
			at++;
		new->controllers = xrealloc(new->controllers, (new->count + 1) * sizeof(*new->controllers));
		memmove(&new->controllers[at + 1], &new->controllers[at],
			(new->count - at) * sizeof(*new->controllers));
		new->controllers[at] = *c;
		new->count++;
		memmove(c, c + 1, (old->count - i - 1) * sizeof *c);
		old->count--;
	}
}

static void log_errors(const struct config *c)
{
	for (size_t i = 0; i < c->errors.count; i++) {
		const struct config_error *e = &c->errors.at[i];
		log_at(e->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "configuration",
		       LOG_S("file", e->file), LOG_I("line", e->line), LOG_I("column", e->column),
		       LOG_S("reason", e->text));
	}
}

static void reload(struct watcher *w)
{
	struct config config = {0};
	struct err err;
	program_notify("RELOADING=1\nSTATUS=reading the configuration");
	if (config_load(w->program.config_dir, &config, &err) < 0) {
		log_error("the configuration cannot be read; all goes on as it was",
			  LOG_S("reason", err.text));
	} else {
		log_errors(&config);
		keep_running(&config, &w->config);
		plan_apply(w, &config);
		broker_hello(w->broker);
		log_info("configuration loaded", LOG_I("controllers", w->n_controllers),
			 LOG_I("watches", w->n_informers));
	}
	program_notify("READY=1");
}

/* ---- readiness ---- */

struct readiness {
	size_t synced, tables;
	bool ready;
};

static struct readiness readiness(const struct watcher *w)
{
	struct readiness r = {.tables = w->n_informers, .ready = true};
	for (size_t i = 0; i < w->n_informers; i++) {
		const struct informer *f = w->informers[i];
		bool listed = true, told = false;
		for (size_t n = 0; n < f->n_streams; n++) {
			listed = listed && (f->streams[n].listed || f->streams[n].dormant);
			told = told || f->streams[n].told;
		}
		r.synced += listed;
		r.ready = r.ready && (listed || told);
	}
	return r;
}

static void tell_readiness(const struct watcher *w, struct readiness *told)
{
	struct readiness now = readiness(w);
	if (now.synced == told->synced && now.tables == told->tables && now.ready == told->ready)
		return;
	program_notify("STATUS=%zu of %zu tables synced", now.synced, now.tables);
	if (now.ready && !told->ready) {
		program_notify("READY=1");
		log_info("ready", LOG_I("tables", now.tables), LOG_I("synced", now.synced));
	}
	now.ready = now.ready || told->ready; /* READY is said once */
	*told = now;
}

/* ---- the loop ---- */

static int64_t next_due(const struct watcher *w)
{
	int64_t due = MIN(broker_due_ns(w->broker), delivery_due_ns(w));
	for (size_t i = 0; i < w->n_informers; i++)
		for (size_t n = 0; n < w->informers[i]->n_streams; n++) {
			const struct stream *s = &w->informers[i]->streams[n];
			due = s->dormant || s->exchange ? due : MIN(due, s->due_ns);
		}
	return due;
}

static void act(struct watcher *w)
{
	int64_t now = w->acted_ns = clock_boottime_ns();
	for (size_t i = 0; i < w->n_informers && !w->stopping; i++)
		for (size_t n = 0; n < w->informers[i]->n_streams; n++)
			stream_act(&w->informers[i]->streams[n], now);
	broker_run(w->broker, now);
	delivery_run(w, now);
}

static void wait_for(struct watcher *w, struct pollfd *fds, size_t n, int64_t until_ns)
{
	int64_t left = until_ns == INT64_MAX ? INT64_MAX : until_ns - clock_boottime_ns();
	int timeout_ms = left <= 0 ? 0 : (int)MIN(left / NS_PER_MS + 1, INT64_C(60000));
	http_run(w->http, fds, n, timeout_ms);
}

/* What is on its way is sent; what cannot be sent stays in the outbox for the next watcher. */
static void flush(struct watcher *w, struct pollfd *fds)
{
	int64_t end = clock_boottime_ns() + FLUSH_NS;
	while (broker_ready(w->broker) && (outbox_used(w->outbox) || !broker_idle(w->broker)) &&
	       clock_boottime_ns() < end) {
		act(w);
		wait_for(w, fds, 2, MIN(end, MIN(broker_due_ns(w->broker), delivery_due_ns(w))));
		struct signalfd_siginfo signal;
		if (fds[1].revents && read(fds[1].fd, &signal, sizeof signal) == sizeof signal &&
		    signal.ssi_signo != SIGHUP)
			return; /* the second one ends at once */
	}
}

static void run(struct watcher *w, int signals)
{
	struct pollfd fds[2] = {{.fd = broker_fd(w->broker), .events = POLLIN},
				{.fd = signals, .events = POLLIN}};
	struct readiness told = {.tables = SIZE_MAX};
	int64_t watchdog = program_watchdog_ns(), kick = watchdog ? clock_boottime_ns() : INT64_MAX;
	while (!w->stopping) {
		act(w);
		tell_readiness(w, &told);
		wait_for(w, fds, 2, MIN(next_due(w), kick));
		struct signalfd_siginfo signal;
		if (fds[1].revents && read(signals, &signal, sizeof signal) == sizeof signal) {
			if (signal.ssi_signo == SIGHUP)
				reload(w);
			else
				w->stopping = true;
		}
		if (clock_boottime_ns() >= kick) {
			program_notify("WATCHDOG=1");
			kick = clock_boottime_ns() + watchdog;
		}
	}
	program_notify("STOPPING=1");
	log_info("stopping");
	for (size_t i = 0; i < w->n_informers; i++)
		for (size_t n = 0; n < w->informers[i]->n_streams; n++)
			stream_stop(&w->informers[i]->streams[n]);
	flush(w, fds);
}

/* ---- start ---- */

static int start_store(struct watcher *w, struct err *err)
{
	struct err why;
	bool lost;
	int rc = store_open(w->program.region_dir, w->config.main.cache_budget, &w->store, &lost, &why, err);
	if (rc < 0)
		return rc;
	if (lost)
		log_info("the cache begins empty", LOG_S("reason", *why.text ? why.text : "there was none"));
	uint32_t entries;
	struct cache_outbox_entry *at = store_outbox(w->store, &entries);
	w->outbox = outbox_new(at, entries, store_controllers(w->store));
	struct store_usage u;
	store_usage(w->store, &u);
	log_info("cache open", LOG_I("objects", u.objects), LOG_I("bytes", u.allocated),
		 LOG_I("budget", u.budget), LOG_I("outbox_waiting", outbox_waiting(w->outbox)));
	return 0;
}

static int start_http(struct watcher *w, struct err *err)
{
	struct kubeconfig k = {0};
	int rc = kubeconfig_load(w->program.kubeconfig, w->config.main.kubeconfig, &k, err);
	if (rc == 0)
		rc = http_client_new(&k, "reconciled-watcher/" RECONCILED_VERSION, &w->http, err);
	if (rc == 0)
		log_info("API server", LOG_S("server", http_client_server(w->http)),
			 LOG_S("kubeconfig", k.source));
	kubeconfig_done(&k);
	return rc < 0 ? EXIT_CONFIG : 0;
}

static int start(struct watcher *w, struct err *err)
{
	struct config config = {0};
	if (idle_timeout &&
	    (parse_duration(idle_timeout, &w->idle_timeout_ns) < 0 || w->idle_timeout_ns < NS_PER_S))
		return err_set(err, EXIT_USAGE,
			       "--watch-idle-timeout %s: a duration of at least 1s is wanted, as 90s or 5m",
			       idle_timeout);
	if (program_folder(w->program.runtime_dir, err) < 0 ||
	    program_folder(w->program.region_dir, err) < 0 ||
	    program_lock(w->program.runtime_dir, "watcher", err) < 0)
		return EXIT_FAILURE;
	if (config_load(w->program.config_dir, &config, err) < 0)
		return EXIT_CONFIG;
	log_errors(&config);
	w->config.main = config.main; /* until plan_apply takes it all */
	int rc = start_http(w, err);
	if (rc == 0 && start_store(w, err) < 0)
		rc = EXIT_FAILURE;
	w->config.main = (struct config_main){0};
	if (rc)
		return rc;
	_cleanup_(free_ptr) char *socket = xasprintf("%s/queue.sock", w->program.runtime_dir);
	if (broker_new(socket, &delivery_ops, w, &w->broker, err) < 0)
		return EXIT_FAILURE;
	plan_apply(w, &config);
	log_info("started", LOG_I("controllers", w->n_controllers), LOG_I("watches", w->n_informers));
	return 0;
}

int main(int argc, char **argv)
{
	static struct watcher w;
	struct err err = {0};
	int at = program_options(&w.program, "reconciled-watcher", "reconciled-watcher [OPTION]...",
				 "Lists and watches what the controllers ask for, keeps the object cache, "
				 "and tells the broker which keys changed.",
				 options, argc, argv);
	if (at < argc) {
		fprintf(stderr, "reconciled-watcher: unexpected argument %s (see --help)\n", argv[at]);
		return EXIT_USAGE;
	}
	int signals = program_signals(false);
	int rc = start(&w, &err);
	if (rc) {
		log_error("cannot start", LOG_S("reason", err.text));
		return rc;
	}
	run(&w, signals);
	log_info("stopped");
	_exit(EXIT_SUCCESS); /* nng's threads are not waited for */
}
