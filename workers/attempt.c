/* One key, from its grant to the result that the broker has acknowledged. */
#include "exec.h"
#include "finalizer.h"
#include "gather.h"
#include "host.h"
#include <signal.h>
#include <stdio.h>

#define CACHE_RETRY_NS	(20 * (int64_t)NS_PER_MS)
#define CACHE_REPORT_NS (1 * NS_PER_S)
#define LEAD_RUNNING_NS (1 * NS_PER_S) /* between two looks at the lead while the program runs */
enum { NOT_READY_RETRY_MS = 5000 };

static const struct wire_grant *grant_of(const struct host *h)
{
	return &h->grant.grant;
}

/* ---- from the grant to the program ---- */

void attempt_granted(struct host *h, struct wire *grant, int64_t now_ns)
{
	h->grant = *grant;
	*grant = (struct wire){0};
	h->writer = (struct writer){0};
	writes_done(&h->writes);
	h->lease = true;
	h->prepare_ns = now_ns;
	h->run_ns = 0;
	h->duration_us = 0;
	h->exit_text[0] = 0;
	result_init(&h->result);
	random_id(h->uid);
	const struct wire_grant *g = grant_of(h);
	snprintf(h->key, sizeof(h->key), "%.*s%s%.*s", SPAN_ARG(g->namespace), g->namespace.len ? "/" : "",
		 SPAN_ARG(g->name));
	host_enter(h, HOST_PREPARING);
}

void attempt_forget(struct host *h)
{
	wire_done(&h->grant);
	h->grant = (struct wire){0};
	h->lease = false;
	writer_done(&h->writer);
	writes_done(&h->writes);
	environment_done(&h->env);
}

void attempt_lost(struct host *h)
{
	if (!h->lease)
		return;
	h->lease = false;
	log_warning("the lease is gone: the attempt is dropped", LOG_S("controller", h->controller_name),
		    LOG_S("key", h->key), LOG_S("uid", h->uid),
		    LOG_S("state", h->state == HOST_RUNNING ? "running" : "waiting"));
	if (h->state == HOST_RUNNING) { /* attempt_running goes on when it has ended */
		if (!host_is_quiet(h))
			process_stop(&h->process, KILL_LEASE, clock_boottime_ns(), 0);
		return;
	}
	if (h->state == HOST_PREPARING || h->state == HOST_REPORTING) {
		attempt_forget(h);
		host_enter(h, HOST_STARTING);
	}
}

static void log_ended(struct host *h)
{
	const struct result *r = &h->result;
	const char *outcome = wire_outcome_name(r->outcome);
	bool bad = wire_outcome_is_failure(r->outcome) || r->outcome == WIRE_OUTCOME_EXEC_FAILED ||
		   r->outcome == WIRE_OUTCOME_START_FAILED || r->outcome == WIRE_OUTCOME_WORKER_LOST;
	log_at(bad ? LOG_LEVEL_WARNING : LOG_LEVEL_DEBUG, "attempt ended",
	       LOG_S("controller", h->controller_name), LOG_S("key", h->key), LOG_S("uid", h->uid),
	       LOG_S("outcome", outcome), LOG_I("duration_ms", h->duration_us / 1000),
	       LOG_S("exit", h->exit_text), LOG_S("reason", r->reason), LOG_S("cause", r->message),
	       LOG_I("requests", h->writer.requests));
}

static void conclude(struct host *h)
{
	log_ended(h);
	host_enter(h, HOST_REPORTING);
}

static bool still_ours(void *ctx)
{
	struct host *h = ctx;
	for (;;) {
		host_pump(h);
		if (!h->lease || lead_over(&h->lead, clock_boottime_ns()))
			return false;
		if (h->link.state == LINK_UP)
			return true;
		/* Without a broker nobody can say whose key this is: wait for it, as long as writes may
		 * start. */
		int64_t left_ms = (h->writer.end_ns - clock_boottime_ns()) / NS_PER_MS;
		if (left_ms <= 0)
			return false;
		program_notify("WATCHDOG=1");
		int64_t greet_ms = link_timer(&h->link) == INT64_MAX ? 1000 : 20;
		struct pollfd fd = {transport_client_fd(h->link.client), POLLIN, 0};
		poll(&fd, 1, (int)MIN(left_ms, greet_ms));
	}
}

/* While a request to the API server runs: signals and the broker are heard, nothing else goes on. */
static void wait_for_http(void *ctx)
{
	struct host *h = ctx;
	struct pollfd fds[] = {{h->signal_fd, POLLIN, 0}, {transport_client_fd(h->link.client), POLLIN, 0}};
	http_run(h->http, fds, ARRAY_SIZE(fds), 1000);
	host_pump(h);
	program_notify("WATCHDOG=1");
}

/* The writer with the object as the cache has it. */
static int begin_writer(struct host *h, const struct request *q, struct err *err)
{
	const struct wire_grant *g = grant_of(h);
	h->writer = (struct writer){
	    .http = h->http,
	    .kinds = h->kinds,
	    .controller = h->controller,
	    .instance = h->instance,
	    .events = &h->events,
	    .writes = &h->writes,
	    .namespace = g->namespace,
	    .name = g->name,
	    .end_ns = g->lease_end_ns - HOST_KILL_GRACE_NS,
	    .may_go_on = still_ours,
	    .wait = wait_for_http,
	    .ctx = h,
	};
	return writer_init(&h->writer, buf_span(&q->object), err);
}

/* The object as the API server answered, without what the cache leaves out. */
static void take_object(struct host *h, struct request *q)
{
	struct writer *w = &h->writer;
	struct doc_node *metadata = doc_get(w->object, "metadata");
	if (h->controller->strip_managed_fields && metadata)
		doc_set(w->doc, metadata, "managedFields", NULL);
	buf_reset(&q->object);
	doc_print(w->object, &q->object);
}

/* The finalizer is there before the reconciler first sees the object; one that left the selector with it is
 * found. False: the attempt is over. */
static bool ensure_finalizer(struct host *h, struct request *q, bool *ret_left)
{
	int left = write_find_left(&h->writer, &h->result);
	int added = left < 0 ? left : write_finalizer_first(&h->writer, &h->result);
	if (added < 0)
		return false;
	if (left > 0 || added > 0)
		take_object(h, q);
	*ret_left = left > 0;
	return true;
}

static int64_t deadline_unix_s(const struct host *h, int64_t now_ns)
{
	return (clock_realtime_ns() + (grant_of(h)->deadline_ns - now_ns)) / NS_PER_S;
}

static struct request new_request(const struct host *h, int64_t now_ns)
{
	const struct wire_grant *g = grant_of(h);
	const struct config_controller *c = h->controller;
	return (struct request){
	    .controller = c->name,
	    .uid = span_of(h->uid),
	    .namespace = g->namespace,
	    .name = g->name,
	    .with_children = c->input_children,
	    .with_related = c->input_related,
	    .with_reasons = c->input_reasons,
	    .attempt = g->attempt,
	    .last_outcome = g->last_outcome,
	    .last_reason = g->last_reason,
	    .last_message = g->last_message,
	    .timeout_ns = MAX(g->deadline_ns - now_ns, INT64_C(0)),
	    .deadline_unix_s = deadline_unix_s(h, now_ns),
	    .of = &c->watches[0].kind,
	    .reasons = g->reasons.at,
	    .reason_count = g->reasons.len,
	};
}

/* An object that is being deleted and has lost our finalizer (or never had it) is none of ours any more: to
 * run would be to clean up again, or to make children that nobody takes away. */
static bool is_released(const struct writer *w)
{
	return w->controller->finalizer && doc_path(w->object, "metadata", "deletionTimestamp", NULL) &&
	       !finalizer_present(w->doc, w->object, w->controller->finalizer);
}

/* 0; -EAGAIN: not now; -ENODATA: an object is cut; -ECANCELED: h->result says why not at all. */
static int build(struct host *h, int64_t now_ns, struct request *q, struct buf *line, struct err *err)
{
	int r = kinds_ready(h->kinds, err);
	if (r < 0 || (r = gather_object(h->kinds, q, err)) < 0)
		return r;
	if ((r = begin_writer(h, q, err)) < 0)
		return r;
	bool left;
	if (!ensure_finalizer(h, q, &left) || is_released(&h->writer))
		return -ECANCELED;
	h->object_present = h->writer.object != NULL;
	h->finalizing = q->finalizing =
	    left || doc_path(h->writer.object, "metadata", "deletionTimestamp", NULL);
	if ((r = gather_rest(h->kinds, h->controller, q, err)) < 0 || (r = request_print(q, line, err)) < 0)
		return r;
	environment_done(&h->env);
	environment_build(
	    &h->env, h->controller,
	    &(struct environment_key){q->namespace, q->name, q->uid, q->attempt, deadline_unix_s(h, now_ns)},
	    h->credentials.env);
	return 0;
}

static void run(struct host *h, struct span line, int64_t now_ns)
{
	struct err why = {0};
	h->process.controller = h->controller_name;
	memcpy(h->process.key, h->key, sizeof(h->key));
	memcpy(h->process.uid, h->uid, sizeof(h->uid));
	h->run_ns = now_ns;
	log_debug("attempt started", LOG_S("controller", h->controller_name), LOG_S("key", h->key),
		  LOG_S("uid", h->uid), LOG_I("attempt", grant_of(h)->attempt),
		  LOG_I("request_bytes", line.len));
	if (h->controller->reconciler.coprocess) {
		coprocess_request(&h->coprocess, h->uid, line, now_ns);
	} else if (exec_start(&h->process, h->jail, h->controller, &h->env, line, &why) < 0) {
		result_set(&h->result, WIRE_OUTCOME_START_FAILED, "StartFailed", "%s", why.text);
		conclude(h);
		return;
	}
	process_io(&h->process);
	host_enter(h, HOST_RUNNING);
}

static void give_back(struct host *h, const char *why)
{
	result_set(&h->result, WIRE_OUTCOME_NOT_READY, "CacheNotReady", "%s", why);
	h->result.requeue_after_ms = NOT_READY_RETRY_MS;
	conclude(h);
}

/* The cache has not what it takes: wait, with a bound. */
static void wait_for_cache(struct host *h, int64_t now_ns, const char *why)
{
	int64_t end =
	    MIN(h->prepare_ns + h->controller->cache_sync_timeout_ns, grant_of(h)->deadline_ns - NS_PER_S);
	if (now_ns - h->prepare_ns > CACHE_REPORT_NS)
		host_set_report(h, REPORT_CACHE, WIRE_STATE_WAITING, why);
	if (now_ns < end) {
		h->wake_ns = now_ns + CACHE_RETRY_NS;
		return;
	}
	give_back(h, why);
}

void attempt_prepare(struct host *h, int64_t now_ns)
{
	struct err why = {0};
	h->wake_ns = INT64_MAX;
	bool fenced = lead_over(&h->lead, now_ns);
	if (h->draining || fenced || now_ns >= grant_of(h)->deadline_ns) {
		host_set_report(h, REPORT_CACHE, WIRE_STATE_OK, ""); /* nothing waits for it any more */
		result_set(&h->result, WIRE_OUTCOME_CANCELLED, "Cancelled", "%s",
			   h->draining ? "the worker is ending"
			   : fenced    ? "this host no longer leads"
				       : "its time was over before it was started");
		conclude(h);
		return;
	}
	if (!h->jail) { /* the lease names the jail that is gone: in another one the key may not run */
		result_set(&h->result, WIRE_OUTCOME_WORKER_LOST, "JailLost",
			   "the jail ended before the attempt began");
		conclude(h);
		return;
	}
	int ready = start_step(h, now_ns);
	if (ready < 0) {
		const struct host_report *r = &h->reports[REPORT_START];
		result_set(&h->result, WIRE_OUTCOME_START_FAILED, "StartFailed", "%s", r->message);
		conclude(h);
		return;
	}
	/* Nothing runs in a jail that the broker could not prove dead. */
	if (ready == 0 || !h->jail_announced || h->link.state != LINK_UP) {
		h->wake_ns = MIN(grant_of(h)->deadline_ns, coprocess_timer(&h->coprocess));
		return;
	}
	struct request q = new_request(h, now_ns);
	_cleanup_(buf_done) struct buf line = {0};
	int r = build(h, now_ns, &q, &line, &why);
	request_done(&q);
	if (h->state != HOST_PREPARING) /* the lease went while the finalizer was written */
		return;
	if (r == 0) {
		host_set_report(h, REPORT_CACHE, WIRE_STATE_OK, "");
		run(h, buf_span(&line), clock_boottime_ns());
		return;
	}
	if (r == -ENODATA) { /* may last, and concerns this key alone: others need the worker */
		give_back(h, why.text);
		return;
	}
	if (r != -EAGAIN) {
		if (r != -ECANCELED)
			result_set(&h->result,
				   r == -EMSGSIZE ? WIRE_OUTCOME_TERMINAL : WIRE_OUTCOME_TRANSIENT,
				   "RequestNotBuilt", "%s", why.text);
		conclude(h);
		return;
	}
	writer_done(&h->writer);
	wait_for_cache(h, now_ns, why.text);
}

/* ---- from the program to the result ---- */

static struct answer_rules rules_of(const struct host *h)
{
	return (struct answer_rules){
	    .controller = h->controller,
	    .uid = span_of(h->uid),
	    .uid_required = h->controller->reconciler.coprocess,
	    .object_present = h->object_present,
	    .finalizing = h->finalizing,
	    .namespace = grant_of(h)->namespace,
	};
}

/* The program is done with the key, or dead. */
static void finish(struct host *h)
{
	bool coprocess = h->controller->reconciler.coprocess;
	struct answer_rules rules = rules_of(h);
	struct answer answer = {0};
	bool write;
	h->duration_us = (uint64_t)((clock_boottime_ns() - h->run_ns) / NS_PER_US);
	if (h->process.state == PROCESS_ENDED && !h->process.exec_error)
		ending_text(h->process.wait_status, h->exit_text);
	if (coprocess)
		write = coprocess_finish(&h->coprocess, &rules, &answer, &h->result);
	else
		write = exec_finish(&h->process, h->controller, &h->env, &rules, &answer, &h->result);
	if (write) {
		if (h->lease)
			write_answer(&h->writer, &answer, h->finalizing, &h->result);
		answer_done(&answer);
	}
	if (h->lease) {
		conclude(h);
		return;
	}
	attempt_forget(h);
	host_enter(h, HOST_STARTING);
}

static void jail_gone(struct host *h)
{
	h->duration_us = (uint64_t)((clock_boottime_ns() - h->run_ns) / NS_PER_US);
	start_stop_jail(h);
	if (!h->lease) {
		attempt_forget(h);
		host_enter(h, HOST_STARTING);
		return;
	}
	if (h->lost_killed == KILL_DEADLINE)
		result_set(&h->result, WIRE_OUTCOME_TIMEOUT, "Timeout",
			   "not finished after reconciliationTimeout; ended with its jail");
	else
		result_set(&h->result, WIRE_OUTCOME_WORKER_LOST, "JailLost",
			   "the jail ended in the middle of the attempt");
	conclude(h);
}

void attempt_running(struct host *h, int64_t now_ns)
{
	bool coprocess = h->controller->reconciler.coprocess;
	struct process *p = &h->process;
	if (!h->jail) {
		jail_gone(h);
		return;
	}
	if (coprocess)
		coprocess_step(&h->coprocess, now_ns);
	else
		exec_step(p, now_ns);
	if (coprocess ? coprocess_over(&h->coprocess) : p->state == PROCESS_ENDED) {
		finish(h);
		return;
	}
	int64_t lead = lead_until(&h->lead, now_ns);
	enum kill_cause why = now_ns >= lead				 ? KILL_LEAD
			      : now_ns >= grant_of(h)->deadline_ns	 ? KILL_DEADLINE
			      : h->draining && now_ns >= h->drain_end_ns ? KILL_DRAIN
									 : KILL_NONE;
	if (why != KILL_NONE && p->killed == KILL_NONE) {
		if (coprocess)
			coprocess_cancel(&h->coprocess, why, now_ns);
		else
			process_stop(p, why, now_ns, PROCESS_TERM_GRACE_NS);
	}
	/* The lead may also be moved to an earlier time, or begin to count. */
	int64_t wake = MIN(MIN(grant_of(h)->deadline_ns, lead), now_ns + LEAD_RUNNING_NS);
	wake = MIN(wake, h->draining ? h->drain_end_ns : INT64_MAX);
	h->wake_ns = p->killed == KILL_NONE
			 ? MIN(wake, coprocess ? coprocess_timer(&h->coprocess) : INT64_MAX)
			 : INT64_MAX;
}

/* ---- the result ---- */

/* Could another key be run at once? Else DONE carries no POLL. */
static bool can_go_on(const struct host *h)
{
	if (h->draining || h->reload || !h->jail || !h->jail_announced)
		return false;
	return !h->controller->reconciler.coprocess ||
	       (h->coprocess.state == COPROCESS_READY && !h->coprocess.recycle);
}

void attempt_report(struct host *h, int64_t now_ns)
{
	const struct result *r = &h->result;
	const struct wire_grant *g = grant_of(h);
	h->wake_ns = h->draining ? h->drain_end_ns : INT64_MAX;
	h->exit |= h->draining && now_ns >= h->drain_end_ns; /* nobody takes it: the broker sees our end */
	/* The key may be granted elsewhere as soon as this is said: nothing of the attempt may be alive. */
	if (!host_is_quiet(h))
		return;
	struct wire_write writes[WRITES_MAX];
	size_t n_writes = writes_pick(&h->writes, writes);
	struct wire_done d = {
	    .slot = g->slot,
	    .generation = g->generation,
	    .outcome = r->outcome,
	    .requeue_after_ms = r->requeue_after_ms,
	    .requeue = r->requeue,
	    .has_priority = r->has_priority,
	    .priority = r->priority,
	    .drain = !can_go_on(h),
	    .pause_controller = r->pause_controller,
	    .duration_us = h->duration_us,
	    .reason = span_of(r->reason),
	    .message = span_of(r->message),
	    .writes = {writes, n_writes},
	};
	link_done(&h->link, &d);
}
