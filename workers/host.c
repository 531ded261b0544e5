#include "host.h"
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ---- what each state does, called whenever something happened ---- */

static void step_starting(struct host *h, int64_t now_ns)
{
	h->wake_ns = INT64_MAX;
	if (h->draining) {
		h->exit = true;
		return;
	}
	if (h->reload) {
		h->reload = false;
		program_notify("RELOADING=1");
		if (start_reload(h) && h->link_open)
			link_rehello(&h->link);
		program_notify("READY=1");
	}
	if (h->asleep && h->coprocess.state == COPROCESS_NONE) {
		host_enter(h, HOST_ASLEEP);
		return;
	}
	int r = start_step(h, now_ns);
	if (r < 0)
		host_enter(h, HOST_BACKOFF);
	else if (r > 0)
		host_enter(h, HOST_IDLE);
	else
		h->wake_ns = coprocess_timer(&h->coprocess);
}

static void step_backoff(struct host *h, int64_t now_ns)
{
	h->wake_ns = h->backoff_until_ns;
	if (h->draining || h->reload || now_ns >= h->backoff_until_ns) {
		if (h->reload)
			h->backoff_until_ns = 0;
		host_enter(h, HOST_STARTING);
	}
}

static void step_idle(struct host *h, int64_t now_ns)
{
	bool coprocess = h->controller->reconciler.coprocess;
	if (h->jail && coprocess) {
		coprocess_step(&h->coprocess, now_ns);
		if (h->coprocess.recycle) {
			log_debug("reconciler is recycled", LOG_S("controller", h->controller_name),
				  LOG_I("requests", h->coprocess.requests));
			start_goodbye(h);
		}
	}
	if (h->asleep)
		start_goodbye(h);
	if (h->draining || h->reload || h->asleep || !h->jail ||
	    (coprocess && h->coprocess.state != COPROCESS_READY))
		host_enter(h, HOST_STARTING);
	else if (h->jail_announced)
		link_poll(&h->link, false);
}

/* The jail stays, with nothing but its init in it. */
static void step_asleep(struct host *h, int64_t now_ns)
{
	(void)now_ns;
	if (h->draining || h->reload || !h->asleep)
		host_enter(h, HOST_STARTING);
	else
		link_poll(&h->link, true);
}

/* State, its name, and what it does; whether a lease is held in it (HELLO names it then). */
static const struct row {
	const char *name;
	void (*step)(struct host *h, int64_t now_ns);
	bool lease;
} rows[HOST_STATE_COUNT] = {
    [HOST_STARTING] = {"starting", step_starting, false},
    [HOST_BACKOFF] = {"backoff", step_backoff, false},
    [HOST_IDLE] = {"idle", step_idle, false},
    [HOST_ASLEEP] = {"asleep", step_asleep, false},
    [HOST_PREPARING] = {"preparing", attempt_prepare, true},
    [HOST_RUNNING] = {"running", attempt_running, true},
    [HOST_REPORTING] = {"reporting", attempt_report, true},
};

void host_enter(struct host *h, enum host_state s)
{
	h->state = s;
	h->wake_ns = INT64_MAX;
}

bool host_is_quiet(const struct host *h)
{
	if (!h->jail || !jail_busy(h->jail))
		return true;
	return h->controller->reconciler.coprocess &&
	       (h->coprocess.state == COPROCESS_READY || h->coprocess.state == COPROCESS_HELLO);
}

/* ---- what comes from the broker ---- */

static void on_acknowledged(struct host *h, const struct wire_hello_ack *ack)
{
	h->jail_announced = h->jail != NULL;
	if (h->lease && !ack->running_known)
		attempt_lost(h);
	for (size_t i = 0; i < REPORT_COUNT; i++) /* a new broker has not heard them */
		h->reports[i].pending |= h->reports[i].ever && h->reports[i].state != WIRE_STATE_OK;
	if (!h->ever_ready) {
		h->ever_ready = true;
		program_notify("READY=1");
		log_info("worker is ready", LOG_S("controller", h->controller_name),
			 LOG_S("instance", h->instance));
	}
}

static void on_refused_hello(struct host *h, const struct wire_refused *r)
{
	if (h->link.refused != r->code + 1)
		log_warning("the broker does not take this worker yet",
			    LOG_S("controller", h->controller_name),
			    LOG_S("code", wire_refusal_name(r->code)), LOG_SP("cause", r->message));
	h->link.refused = r->code + 1;
	if (r->code == WIRE_REFUSAL_DIGEST &&
	    !h->lease) /* the watcher has loaded another file than we have */
		h->reload = true;
}

static void on_done(struct host *h, bool stale)
{
	if (h->state != HOST_REPORTING)
		return;
	if (stale)
		log_warning("the result came too late and was ignored",
			    LOG_S("controller", h->controller_name), LOG_S("key", h->key),
			    LOG_S("uid", h->uid));
	attempt_forget(h);
	host_enter(h, HOST_STARTING);
}

static void on_grant(struct host *h, struct link_event *e)
{
	const struct wire_grant *g = &e->message.grant;
	if (e->answers_done)
		on_done(h, g->done_stale);
	/* A grant of another incarnation, or one that crossed our HELLO, is not ours: that HELLO ended it. */
	if (h->link.state != LINK_UP || g->incarnation != h->link.incarnation || rows[h->state].lease) {
		log_debug("grant ignored", LOG_SP("name", g->name));
		return;
	}
	attempt_granted(h, &e->message, clock_boottime_ns());
}

/* The state acts on it: one that is about to start goes on, and then ends its child. */
static void on_sleep(struct host *h, const struct wire_sleep *s)
{
	if (s->incarnation != h->link.incarnation || rows[h->state].lease)
		return;
	if (h->asleep != s->asleep)
		log_info(s->asleep ? "not needed: asleep" : "needed: awake",
			 LOG_S("controller", h->controller_name), LOG_S("instance", h->instance));
	h->asleep = s->asleep;
}

/* Takes what came, says HELLO when that is due. True if anything came. */
static bool pump_link(struct host *h)
{
	bool came = false;
	struct link_event e;
	struct link_identity who = {
	    .instance = h->instance,
	    .controller = h->controller_name,
	    .digest = h->controller->digest,
	    .start_time = h->own_start_time,
	    .jail_pid = h->jail ? jail_init_pid(h->jail) : 0,
	    .jail_start = h->jail ? jail_init_start_time(h->jail) : 0,
	};
	for (;;) {
		enum link_event_type type = link_next(&h->link, clock_boottime_ns(), &e);
		if (type == LINK_NOTHING)
			break;
		came = true;
		if (type == LINK_ACKNOWLEDGED)
			on_acknowledged(h, &e.message.hello_ack);
		else if (type == LINK_REFUSED_HELLO)
			on_refused_hello(h, &e.message.refused);
		else if (type == LINK_GRANTED)
			on_grant(h, &e);
		else if (type == LINK_SLEEP)
			on_sleep(h, &e.message.sleep);
		else if (type == LINK_DONE)
			on_done(h, e.message.done_ack.stale);
		else if (type == LINK_LOST)
			log_warning("the broker is gone; waiting for it",
				    LOG_S("state", rows[h->state].name));
		wire_done(&e.message);
	}
	if (h->lease) {
		who.running = true;
		who.slot = h->grant.grant.slot;
		who.generation = h->grant.grant.generation;
	}
	link_greet(&h->link, &who, clock_boottime_ns());
	return came;
}

void host_set_report(struct host *h, int which, enum wire_state state, const char *message)
{
	struct host_report *r = &h->reports[which];
	if (!r->ever && state == WIRE_STATE_OK)
		return;
	if (r->ever && r->state == state && strncmp(r->message, message, sizeof(r->message) - 1) == 0)
		return;
	r->state = state;
	r->pending = r->ever = true;
	snprintf(r->message, sizeof(r->message), "%s", message);
	r->message[text_cut(span_of(r->message), sizeof(r->message) - 1)] = 0;
}

static void send_reports(struct host *h)
{
	for (size_t i = 0; i < REPORT_COUNT; i++) {
		struct host_report *r = &h->reports[i];
		if (!r->pending || h->link.state != LINK_UP || h->link.report)
			continue;
		struct wire_report m = {span_of(h->controller_name), span_of(r->topic), r->state,
					span_of(r->message)};
		r->pending = !link_report(&h->link, &m);
	}
}

/* ---- signals, the jail, the loop ---- */

static void pump_signals(struct host *h)
{
	struct signalfd_siginfo s;
	while (read(h->signal_fd, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
		if (s.ssi_signo == SIGHUP) {
			h->reload = true;
			h->link.hello_ns = 0;
			continue;
		}
		if (h->draining) {
			log_warning("second signal: ending at once");
			_exit(EXIT_FAILURE); /* the jail ends with us */
		}
		h->draining = true;
		h->drain_end_ns = clock_boottime_ns() + h->drain_ns;
		program_notify("STOPPING=1");
		log_info("draining", LOG_S("controller", h->controller_name),
			 LOG_S("state", rows[h->state].name));
	}
}

void host_pump(struct host *h)
{
	pump_signals(h);
	if (h->link_open)
		pump_link(h);
}

static void pump_jail(struct host *h, int64_t now_ns)
{
	struct jail_event e;
	process_io(&h->process);
	while (h->jail && jail_next(h->jail, &e) > 0) {
		process_event(&h->process, &e);
		if (e.type != JAIL_EVENT_GONE)
			continue;
		log_warning("the jail is gone; a new one is started", LOG_S("controller", h->controller_name),
			    LOG_S("cause", e.text));
		h->lost_killed = h->process.killed;
		start_stop_jail(h);
	}
	if (h->jail && process_tick(&h->process, now_ns) < 0) {
		log_error("the reconciler does not end even by SIGKILL; its jail is given up",
			  LOG_S("controller", h->controller_name), LOG_S("key", h->key));
		h->lost_killed = h->process.killed;
		start_stop_jail(h);
	}
}

static void watchdog(struct host *h, int64_t now_ns)
{
	if (!h->watchdog_ns || now_ns < h->watchdog_due_ns)
		return;
	program_notify("WATCHDOG=1");
	h->watchdog_due_ns = now_ns + h->watchdog_ns;
}

static void wait_for_something(struct host *h)
{
	struct pollfd fds[8] = {{h->signal_fd, POLLIN, 0}};
	size_t n = 1;
	if (h->link_open)
		fds[n++] = (struct pollfd){transport_client_fd(h->link.client), POLLIN, 0};
	if (h->jail)
		fds[n++] = (struct pollfd){jail_fd(h->jail), POLLIN, 0};
	n += process_poll(&h->process, fds + n);
	int64_t wake = MIN(h->wake_ns, process_timer(&h->process));
	wake = MIN(wake, h->link_open ? link_timer(&h->link) : INT64_MAX);
	wake = MIN(wake, h->watchdog_ns ? h->watchdog_due_ns : INT64_MAX);
	int timeout = -1;
	if (wake != INT64_MAX) {
		int64_t left = wake - clock_boottime_ns();
		timeout = left <= 0 ? 0 : (int)MIN(left / NS_PER_MS + 1, INT64_C(60000));
	}
	int ready =
	    http_client_is_busy(h->http) ? http_run(h->http, fds, n, timeout) : poll(fds, (nfds_t)n, timeout);
	if (ready > 0 && h->link_open && fds[1].revents)
		transport_client_woke(h->link.client);
}

/* Everything that can be done now. An answer that comes while a state acts is seen by the state before
 * anything is waited for. */
static void turn(struct host *h)
{
	enum host_state before;
	pump_jail(h, clock_boottime_ns());
	host_pump(h);
	do {
		do {
			before = h->state;
			rows[before].step(h, clock_boottime_ns());
		} while (h->state != before && !h->exit);
		if (h->link_open)
			send_reports(h);
	} while (h->link_open && !h->exit && pump_link(h));
	watchdog(h, clock_boottime_ns());
}

int host_run(struct host *h)
{
	struct err why = {0};
	program_explain_cuts(h->program);
	h->signal_fd = program_signals(false);
	h->watchdog_ns = program_watchdog_ns();
	host_enter(h, HOST_STARTING);
	/* The first jail before nng has its threads; later ones are spawned all the same, for nothing here
	 * forks. */
	turn(h);
	if (h->exit)
		return EXIT_SUCCESS;
	if (link_open(&h->link, h->program->runtime_dir, &why) < 0) {
		log_error("cannot reach the broker", LOG_S("cause", why.text));
		return EXIT_FAILURE;
	}
	h->link_open = true;
	while (!h->exit) {
		turn(h);
		if (!h->exit)
			wait_for_something(h);
	}
	start_goodbye(h);
	start_stop_jail(h);
	log_info("drained", LOG_S("controller", h->controller_name));
	return EXIT_SUCCESS;
}
