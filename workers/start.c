/* Bringing up what a key needs: the jail, and in it the coprocess. */
#include "hello.h"
#include "host.h"
#include <stdio.h>
#include <unistd.h>

#define BACKOFF_MIN_NS (1 * NS_PER_S)
#define BACKOFF_MAX_NS (60 * NS_PER_S)
#define STEADY_NS      (10 * NS_PER_S) /* one that has lived so long after its Hello, or has answered, did start */

static int start_jail(struct host *h, struct err *err)
{
	const struct config_reconciler *r = &h->controller->reconciler;
	_cleanup_(hidden_done) struct hidden hidden = {0};
	int e = hidden_find(&hidden, h->controller, h->program, &h->kubeconfig, h->credentials.paths, err);
	if (e < 0)
		return e;
	struct jail_options o = {
	    .work = h->controller->folder,
	    .read_only = (const char *const *)r->read_only_paths,
	    .given = (const char *const *)h->credentials.paths,
	    .read_write = (const char *const *)r->read_write_paths,
	    .hidden = hidden.at,
	    .network_host = r->network_host,
	    .cpu_s = r->coprocess
			 ? 0
			 : (uint32_t)MIN((r->limit_cpu_ns + NS_PER_S - 1) / NS_PER_S, (int64_t)UINT32_MAX),
	    .files = r->limit_files,
	    .processes = r->limit_processes,
	    .data_bytes = r->max_memory,
	    .without = (const char *const *)r->without,
	};
	credentials_note(&h->credentials);
	program_notify("WATCHDOG=1");
	e = jail_start(&o, &h->jail, err);
	if (e < 0)
		return e;
	h->jail_announced = false;
	if (h->link_open)
		link_rehello(&h->link);
	log_debug("jail started", LOG_I("init", jail_init_pid(h->jail)),
		  LOG_I("launcher", jail_launcher_pid(h->jail)));
	return 0;
}

void start_stop_jail(struct host *h)
{
	jail_free(h->jail);
	h->jail = NULL;
	h->jail_announced = false;
	process_done(&h->process);
	coprocess_init(&h->coprocess, h->controller, &h->process, &h->reads, h->credentials.env);
}

/* ---- failing and trying again ---- */

static int failed(struct host *h, int64_t now_ns, const char *text)
{
	h->backoff_ns = h->backoff_ns ? MIN(h->backoff_ns * 2, BACKOFF_MAX_NS) : BACKOFF_MIN_NS;
	h->backoff_until_ns = now_ns + h->backoff_ns;
	log_warning("start failed", LOG_S("controller", h->controller_name), LOG_S("cause", text),
		    LOG_I("retry_s", h->backoff_ns / NS_PER_S));
	host_set_report(h, REPORT_START, WIRE_STATE_FAILED, text);
	return -EIO;
}

static bool is_steady(const struct coprocess *k, int64_t now_ns)
{
	return k->requests || (k->ready_ns && now_ns - k->ready_ns >= STEADY_NS);
}

/* 1 ready, 0 not yet, negative failed. */
static int step_coprocess(struct host *h, int64_t now_ns)
{
	struct coprocess *k = &h->coprocess;
	struct err why = {0};
	/* Twice, because one that is seen to have ended between requests must be started now: nothing else would wake us. */
	for (int i = 0; i < 2 && (i == 0 || k->state == COPROCESS_NONE); i++) {
		if (k->state == COPROCESS_NONE || (k->state == COPROCESS_FAILED && !k->bad.text[0])) {
			if (jail_busy(h->jail))
				return 0; /* the last one is being killed */
			if (coprocess_start(k, h->jail, &why) < 0)
				return failed(h, now_ns, why.text);
		}
		coprocess_step(k, now_ns);
		if (k->state == COPROCESS_FAILED && !jail_busy(h->jail)) {
			why = k->bad;
			if (is_steady(k, now_ns))
				h->backoff_ns = 0;
			coprocess_init(k, h->controller, &h->process, &h->reads, h->credentials.env);
			return failed(h, now_ns, why.text);
		}
	}
	return k->state == COPROCESS_READY;
}

/* One that takes long to say its Hello is seen to do so; one that failed before is seen by that. */
static void tell_slow(struct host *h, int64_t now_ns)
{
	struct coprocess *k = &h->coprocess;
	struct err text;
	if (k->state != COPROCESS_HELLO) {
		host_set_report(h, REPORT_HELLO, WIRE_STATE_OK, "");
	} else if (now_ns >= k->slow_ns) {
		k->slow_ns = INT64_MAX;
		hello_slow(k->controller->reconciler.command[0], k->controller->reconciler.startup_timeout_ns,
			   &text);
		if (h->reports[REPORT_START].state == WIRE_STATE_OK)
			host_set_report(h, REPORT_HELLO, WIRE_STATE_WAITING, text.text);
	}
}

int start_step(struct host *h, int64_t now_ns)
{
	struct err why = {0};
	if (now_ns < h->backoff_until_ns)
		return -EAGAIN;
	if (h->jail && credentials_replaced(&h->credentials)) { /* which it would never see */
		log_info("credentials were replaced: a new jail", LOG_S("controller", h->controller_name));
		start_goodbye(h);
		start_stop_jail(h);
	}
	if (!h->jail && start_jail(h, &why) < 0)
		return failed(h, now_ns, why.text);
	if (h->controller->reconciler.coprocess) {
		int r = step_coprocess(h, now_ns);
		tell_slow(h, now_ns);
		if (r <= 0)
			return r;
	}
	if (!h->controller->reconciler.coprocess || is_steady(&h->coprocess, now_ns))
		h->backoff_ns = 0;
	host_set_report(h, REPORT_START, WIRE_STATE_OK, "");
	return 1;
}

void start_goodbye(struct host *h)
{
	if (!h->jail || !jail_busy(h->jail) || h->coprocess.state != COPROCESS_READY)
		return;
	coprocess_shutdown(&h->coprocess);
	int64_t end = clock_boottime_ns() + HOST_GOODBYE_NS;
	struct jail_event e;
	while (jail_busy(h->jail) && clock_boottime_ns() < end) {
		struct pollfd fds[4] = {{jail_fd(h->jail), POLLIN, 0}};
		size_t n = 1 + process_poll(&h->process, fds + 1);
		poll(fds, (nfds_t)n, (int)((end - clock_boottime_ns()) / NS_PER_MS) + 1);
		process_io(&h->process);
		while (jail_next(h->jail, &e) > 0) {
			process_event(&h->process, &e);
			if (e.type == JAIL_EVENT_GONE)
				break;
		}
	}
	if (jail_busy(h->jail)) {
		log_warning("reconciler did not end after Shutdown; it is killed",
			    LOG_S("controller", h->controller_name));
		start_stop_jail(h);
		return;
	}
	coprocess_init(&h->coprocess, h->controller, &h->process, &h->reads, h->credentials.env);
}

/* ---- reload ---- */

static void use(struct host *h, const struct config_controller *c)
{
	h->controller = c;
	credentials_done(&h->credentials);
	credentials_init(&h->credentials, c->reconciler.kubeconfig ? &h->kubeconfig : NULL);
	kinds_free(h->kinds);
	h->kinds = kinds_new(c, h->http, h->program->region_dir);
	h->reads = (struct reads){.kinds = h->kinds, .http = h->http};
	coprocess_init(&h->coprocess, c, &h->process, &h->reads, h->credentials.env);
}

bool start_reload(struct host *h)
{
	struct config fresh = {0};
	struct err why = {0};
	_cleanup_(buf_done) struct buf text = {0};
	int r = config_load(h->program->config_dir, &fresh, &why);
	const struct config_controller *c = r == 0 ? config_find(&fresh, h->controller_name) : NULL;
	if (!c) {
		if (r == 0)
			config_errors_print(&fresh.errors, &text);
		log_warning("controller file cannot be used; the loaded one stays",
			    LOG_S("controller", h->controller_name),
			    LOG_S("cause", r < 0      ? why.text
					   : text.len ? buf_str(&text)
						      : "it is in no file"));
		config_done(&fresh);
		return false;
	}
	bool changed = strcmp(c->digest, h->controller->digest) != 0;
	log_at(changed ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "reloaded",
	       LOG_S("controller", h->controller_name), LOG_S("changed", changed ? "yes" : "no"));
	start_goodbye(h); /* the program may be another although its file is the same */
	if (!changed) {
		config_done(&fresh);
		return false;
	}
	start_stop_jail(h);
	struct config old = h->config;
	h->config = fresh;
	h->backoff_ns = h->backoff_until_ns = 0;
	use(h, c); /* lets go of what points into the old one */
	config_done(&old);
	return true;
}

/* ---- what the program says beside its answers ---- */

static void told_line(const struct process *p, struct span line)
{
	if (!*p->key) /* a coprocess between two requests */
		log_info("reconciler", LOG_S("controller", p->controller), LOG_SP("line", line));
	else
		log_info("reconciler", LOG_S("controller", p->controller), LOG_S("key", p->key),
			 LOG_S("uid", p->uid), LOG_SP("line", line));
}

static void told_dropped(const struct process *p, uint64_t lines)
{
	log_warning("reconciler writes too many lines; some were dropped", LOG_S("controller", p->controller),
		    LOG_S("key", p->key), LOG_S("uid", p->uid), LOG_I("lines", lines));
}

static void told_left(const struct process *p, unsigned count, const char *names)
{
	log_warning("processes outlived the reconciler's main process and were killed",
		    LOG_S("controller", p->controller), LOG_S("key", p->key), LOG_S("uid", p->uid),
		    LOG_I("count", count), LOG_S("names", names));
}

static const struct process_ops told = {told_line, told_dropped, told_left};

static void on_notice(void *ctx _unused_, bool warning, const char *text)
{
	log_at(warning ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "credentials", LOG_S("reason", text));
}

int host_init(struct host *h, const struct program *p, const char *instance)
{
	struct err why = {0};
	const char *dot = strrchr(instance, '.');
	*h = (struct host){.program = p, .instance = instance, .signal_fd = -1, .wake_ns = INT64_MAX};
	h->reports[REPORT_START].topic = "StartFailed";
	h->reports[REPORT_HELLO].topic = "Starting";
	h->reports[REPORT_CACHE].topic = "CacheNotReady";
	h->controller_name = span_dup((struct span){instance, (size_t)(dot - instance)});
	process_init(&h->process, &told, h);
	int rc = config_load(p->config_dir, &h->config, &why);
	if (rc < 0) {
		log_error("configuration cannot be read", LOG_S("cause", why.text));
		return error_is_shortage(rc) ? EXIT_FAILURE : EXIT_CONFIG;
	}
	lead_init(&h->lead, p->region_dir, h->config.main.ha.leader);
	const struct config_controller *c = config_find(&h->config, h->controller_name);
	if (!c || h->config.main.wrong) {
		_cleanup_(buf_done) struct buf text = {0};
		config_errors_print(&h->config.errors, &text);
		log_error(c ? "reconciled.yaml has errors" : "no such controller",
			  LOG_S("controller", h->controller_name), LOG_S("config", p->config_dir),
			  LOG_S("errors", buf_str(&text)));
		return EXIT_CONFIG;
	}
	rc = kubeconfig_load(p->kubeconfig, h->config.main.kubeconfig, &h->kubeconfig, &why);
	if (rc < 0) {
		log_error("kubeconfig cannot be used", LOG_S("cause", why.text));
		return error_is_shortage(rc) ? EXIT_FAILURE : EXIT_CONFIG;
	}
	if (http_client_new(&h->kubeconfig, "reconciled-worker/" RECONCILED_VERSION, &h->http, &why) < 0) {
		log_error("no HTTP client", LOG_S("cause", why.text));
		return EXIT_FAILURE;
	}
	http_client_on_notice(h->http, on_notice, NULL);
	for (char **w = h->kubeconfig.warnings; w && *w; w++)
		log_warning("kubeconfig", LOG_S("warning", *w));
	process_start_time(getpid(), &h->own_start_time);
	use(h, c);
	return 0;
}
