/* The controllers' files as the broker needs them: limits, and whether everybody works with the same ones. */
#include "broker.h"

#define BY "queue"

static struct shm_rules rules_of(const struct config_controller *c)
{
	return (struct shm_rules){
	    .base_delay = c->base_delay_ns,
	    .max_delay = c->max_delay_ns,
	    .jitter = c->jitter,
	    .qps = c->qps,
	    .burst = c->burst,
	    .crashes = c->quarantine_crashes,
	    .within = c->quarantine_within_ns,
	    .park_for = c->quarantine_for_ns,
	    .max_concurrent = c->max_concurrent,
	    .timeout = c->reconciliation_timeout_ns,
	    .least = c->workers_elastic ? c->workers_min : CREW_ALL,
	    .most = c->workers_elastic ? c->workers : CREW_ALL,
	};
}

static void keep_rules(struct broker *b, uint16_t row, const struct shm_rules *rules)
{
	struct shm_controller c = *store_controller(&b->store, row);
	if (memcmp(&c.rules, rules, sizeof(*rules)) == 0)
		return;
	c.rules = *rules;
	store_begin(&b->store, STORE_NO_SLOT);
	store_put_controller(&b->store, row, &c);
	store_commit(&b->store);
}

/* From now on these are in force. */
static void use(struct broker *b, uint16_t row, const struct shm_rules *r)
{
	const struct workqueue_rules rules = {
	    .attempt = {.limits = {r->base_delay, r->max_delay, r->jitter, r->qps, r->burst},
			.crashes = r->crashes,
			.within = r->within,
			.park_for = r->park_for},
	    .max_concurrent = r->max_concurrent,
	    .timeout = r->timeout,
	};
	workqueue_configure(&b->wq, row, &rules);
	b->crews[row].rules = (struct crew_rules){r->least, r->most};
}

static void log_errors(struct broker *b)
{
	for (size_t i = 0; i < b->config.errors.count; i++) {
		const struct config_error *e = &b->config.errors.at[i];
		log_at(e->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "configuration",
		       LOG_S("file", e->file), LOG_I("line", e->line), LOG_I("column", e->column),
		       LOG_S("text", e->text));
	}
}

/* What is wrong in the files stands in the status until they are right. Warnings are for the log. */
static void report_errors(struct broker *b)
{
	enum { SHOWN_MAX = 100 };
	size_t shown = 0;
	reports_forget(&b->reports, "configuration");
	for (size_t i = 0; i < b->config.errors.count && shown < SHOWN_MAX; i++) {
		const struct config_error *e = &b->config.errors.at[i];
		if (e->warning)
			continue;
		_cleanup_(free_ptr) char *place =
		    e->line ? xasprintf("%s:%zu:%zu", e->file, e->line, e->column) : xstrdup(e->file);
		reports_set(&b->reports, "configuration", span_of(""), span_of(place), WIRE_STATE_FAILED,
			    span_of(e->text));
		shown++;
	}
}

/* True: it is new to the region. */
static bool configure(struct broker *b, const struct config_controller *c)
{
	uint16_t row;
	bool new = false;
	struct shm_rules rules = rules_of(c);
	if (workqueue_open(&b->wq, c->name, &row, &new) < 0) {
		const char *text = "64 controllers are in the queue already: this one gets no keys";
		log_error(text, LOG_S("controller", c->name));
		reports_set(&b->reports, BY, span_of(c->name), span_of("rows"), WIRE_STATE_FAILED,
			    span_of(text));
		return false;
	}
	reports_set(&b->reports, BY, span_of(c->name), span_of("rows"), WIRE_STATE_OK, span_of(""));
	reports_set(&b->reports, BY, span_of(c->name), span_of("file"), WIRE_STATE_OK, span_of(""));
	keep_rules(b, row, &rules);
	use(b, row, &rules);
	if (new)
		log_info("controller added", LOG_S("controller", c->name), LOG_S("digest", c->digest));
	return new;
}

static bool is_configured(void *ctx, const char *controller)
{
	const struct broker *b = ctx;
	return config_find(&b->config, controller);
}

static bool everybody(const struct broker *b, const struct peer *p)
{
	(void)b;
	(void)p;
	return true;
}

static void refuse_removed(struct broker *b, struct peer *p, uint16_t row, void *token)
{
	(void)row;
	broker_refuse(b, p, token, WIRE_REFUSAL_UNKNOWN_CONTROLLER,
		      "this controller is no longer configured");
}

/* It has no right file now, but had one, maybe under an earlier broker. */
static void go_on(struct broker *b, uint16_t row, const char *name)
{
	const char *text = "no file that is right has this controller now: it goes on as it was";
	const struct shm_rules rules = store_controller(&b->store, row)->rules;
	if (!rules.timeout)
		return;
	if (!b->wq.controllers[row].configured)
		log_warning(text, LOG_S("controller", name));
	use(b, row, &rules);
	reports_set(&b->reports, BY, span_of(name), span_of("file"), WIRE_STATE_DEGRADED, span_of(text));
}

/* Rows whose file is gone. While any file is wrong nobody can say which controller it would have held, so
 * nothing is dropped then. */
static void drop_absent(struct broker *b, int64_t now)
{
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		char name[sizeof(store_controller(&b->store, i)->name)];
		memcpy(name, store_controller(&b->store, i)->name, sizeof(name));
		if (!name[0] || config_find(&b->config, name))
			continue;
		if (b->config.errors.fatal > 0) {
			go_on(b, i, name);
			continue;
		}
		crews_send_away(b, i, everybody, refuse_removed);
		reports_forget_controller(&b->reports, name);
		keep_rules(b, i, &(struct shm_rules){0}); /* the row stays while a key of it runs */
		uint32_t n = workqueue_drop(&b->wq, i, now);
		log_info("controller removed: it is no longer configured", LOG_S("controller", name),
			 LOG_I("dropped", n));
	}
	if (!b->config.errors.fatal) /* also of those that never had a row */
		reports_keep(&b->reports, is_configured, b);
}

int broker_load(struct broker *b, struct err *err)
{
	struct config fresh;
	int rc = config_load(b->program->config_dir, &fresh, err);
	if (rc < 0)
		return rc;
	config_done(&b->config);
	b->config = fresh;
	log_errors(b);
	report_errors(b);
	return 0;
}

bool broker_configure(struct broker *b, int64_t now)
{
	bool new = false;
	/* First out, then in: the rows that are left can be used again. */
	drop_absent(b, now);
	for (size_t i = 0; i < b->config.count; i++)
		new |= configure(b, &b->config.controllers[i]);
	return new;
}

static void apply(struct broker *b, bool watcher_asks, int64_t now)
{
	reports_set(&b->reports, BY, span_of(""), span_of("configuration"), WIRE_STATE_OK, span_of(""));
	b->hello_wanted |= broker_configure(b, now) && !watcher_asks;
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		if (b->wq.controllers[i].configured)
			workqueue_unpause(&b->wq, i);
}

void broker_reload(struct broker *b, bool watcher_asks, int64_t now)
{
	struct err err = {0};
	program_notify("RELOADING=1");
	log_info("loading the configuration",
		 LOG_S("why", watcher_asks ? "the watcher has other controller files" : "SIGHUP"),
		 LOG_S("from", b->program->config_dir));
	if (broker_load(b, &err) == 0) {
		apply(b, watcher_asks, now);
	} else {
		log_error("the configuration could not be loaded; what was loaded before stays",
			  LOG_S("text", err.text));
		reports_set(&b->reports, BY, span_of(""), span_of("configuration"), WIRE_STATE_DEGRADED,
			    span_of(err.text));
	}
	program_notify("READY=1");
}

static bool same_as_ours(const struct broker *b, const struct wire_loaded *l)
{
	for (size_t i = 0; i < b->config.count; i++)
		if (span_is(l->controller, b->config.controllers[i].name))
			return span_is(l->digest, b->config.controllers[i].digest);
	/* Its file is wrong now: it goes on as it was, here as there. */
	uint16_t row;
	return b->config.errors.fatal > 0 && workqueue_find(&b->wq, l->controller, &row) == 0 &&
	       b->wq.controllers[row].configured &&
	       span_is(l->digest, store_controller(&b->store, row)->digest);
}

static bool has_another_file(const struct broker *b, const struct peer *p)
{
	return strcmp(p->digest, store_controller(&b->store, p->row)->digest) != 0;
}

static void agree_on(struct broker *b, const struct wire_loaded *l, int64_t now)
{
	uint16_t row;
	char digest[72] = {0};
	memcpy(digest, l->digest.at, MIN(l->digest.len, sizeof(digest) - 1));
	if (workqueue_find(&b->wq, l->controller, &row) < 0 || !b->wq.controllers[row].configured) {
		const char *text = "the watcher has this controller, the broker's configuration does not: "
				   "give both the same --config-dir";
		log_warning(text, LOG_SP("controller", l->controller));
		reports_set(&b->reports, BY, l->controller, span_of("digest"), WIRE_STATE_FAILED,
			    span_of(text));
		return;
	}
	if (!same_as_ours(b, l)) {
		const char *text = "the watcher has loaded another version of this controller's file than "
				   "the broker: send SIGHUP to both";
		log_warning(text, LOG_SP("controller", l->controller));
		reports_set(&b->reports, BY, l->controller, span_of("digest"), WIRE_STATE_DEGRADED,
			    span_of(text));
	} else {
		reports_set(&b->reports, BY, l->controller, span_of("digest"), WIRE_STATE_OK, span_of(""));
	}
	if (strcmp(store_controller(&b->store, row)->digest, digest) == 0)
		return;
	uint32_t cleared = workqueue_set_digest(&b->wq, row, digest, now);
	log_info("controller agreed with the watcher", LOG_SP("controller", l->controller),
		 LOG_S("digest", digest), LOG_I("left_quarantine", cleared));
	/* Hosts that wait with another file than the watcher's are sent away to load theirs again. */
	crews_send_away(b, row, has_another_file, broker_refuse_digest);
}

void broker_agree(struct broker *b, const struct wire_hello *hello, int64_t now)
{
	bool same = true;
	for (size_t i = 0; i < hello->loaded.len; i++)
		same = same && same_as_ours(b, &hello->loaded.at[i]);
	if (!same)
		broker_reload(b, true, now);
	for (size_t i = 0; i < hello->loaded.len; i++)
		agree_on(b, &hello->loaded.at[i], now);
}
