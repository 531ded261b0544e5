#include "log.h"
#include "watcher.h"
#include <stdio.h>
#include <unistd.h>

static const char *idle_timeout; /* --watch-idle-timeout */
static const struct program_option options[] = {
    {.name = "watch-idle-timeout",
     .argument = "DURATION",
     .text = &idle_timeout,
     .help = "give a watch up that was silent for so long, at least 1s [by its bookmarks: see the manual]"},
    {0}};

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
	else if (*why.text)
		log_warning("the cache's budget is not all there", LOG_S("reason", why.text));
	struct outbox_place place = {.extent = store_outbox, .ctx = w->store};
	place.extents = store_outbox_extents(w->store, &place.most);
	w->outbox = outbox_new(&place, store_controllers(w->store));
	struct store_usage u;
	store_usage(w->store, &u);
	log_info("cache open", LOG_I("objects", u.objects), LOG_I("bytes", u.allocated),
		 LOG_I("budget", u.budget), LOG_I("outbox_waiting", outbox_waiting(w->outbox)));
	return 0;
}

static void on_notice(void *ctx _unused_, bool warning, const char *text)
{
	log_at(warning ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "credentials", LOG_S("reason", text));
}

static int start_http(struct watcher *w, struct err *err)
{
	struct kubeconfig *k = &w->kubeconfig;
	int rc = kubeconfig_load(w->program.kubeconfig, w->config.main.kubeconfig, k, err);
	if (rc == 0)
		rc = http_client_new(k, "reconciled-watcher/" RECONCILED_VERSION, &w->http, err);
	if (rc == 0)
		http_client_on_notice(w->http, on_notice, NULL);
	if (rc == 0)
		log_info("API server", LOG_S("server", http_client_server(w->http)),
			 LOG_S("kubeconfig", k->source));
	for (char **line = k->warnings; rc == 0 && line && *line; line++)
		log_warning("kubeconfig", LOG_S("warning", *line));
	return error_is_shortage(rc) ? EXIT_FAILURE : rc < 0 ? EXIT_CONFIG : 0;
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
	int rc = config_load(w->program.config_dir, &config, err);
	if (rc < 0)
		return error_is_shortage(rc) ? EXIT_FAILURE : EXIT_CONFIG;
	reload_log_errors(&config);
	if (config.main.wrong)
		return err_set(err, EXIT_CONFIG,
			       "reconciled.yaml has errors: whether another host leads is not known; correct "
			       "it, then start again");
	w->config.main = config.main; /* until plan_apply takes it all */
	rc = start_http(w, err);
	if (rc == 0 && start_store(w, err) < 0)
		rc = EXIT_FAILURE;
	w->config.main = (struct config_main){0};
	if (rc)
		return rc;
	_cleanup_(free_ptr) char *socket = xasprintf("%s/queue.sock", w->program.runtime_dir);
	if (broker_new(socket, &delivery_ops, w, &w->broker, err) < 0)
		return EXIT_FAILURE;
	campaign_init(w, &config.main.ha);
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
	program_explain_cuts(&w.program);
	int signals = program_signals(false);
	int rc = start(&w, &err);
	if (rc) {
		log_error("cannot start", LOG_S("reason", err.text));
		return rc;
	}
	rc = loop_run(&w, signals);
	log_info("stopped");
	http_client_free(w.http); /* and a plugin that still runs */
	_exit(rc);		  /* nng's threads are not waited for */
}
