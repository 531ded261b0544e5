/* SIGHUP: the controller files again. */
#include "log.h"
#include "watcher.h"

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

void reload_log_errors(const struct config *c)
{
	for (size_t i = 0; i < c->errors.count; i++) {
		const struct config_error *e = &c->errors.at[i];
		log_at(e->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "configuration",
		       LOG_S("file", e->file), LOG_I("line", e->line), LOG_I("column", e->column),
		       LOG_S("reason", e->text));
	}
}

static bool same_ha(const struct config_main *a, const struct config_main *b)
{
	const struct config_ha *x = &a->ha, *y = &b->ha;
	return !a->wrong && x->leader == y->leader &&
	       (!x->leader ||
		(strcmp(x->namespace, y->namespace) == 0 && strcmp(x->name, y->name) == 0 &&
		 x->lease_duration_ns == y->lease_duration_ns &&
		 x->renew_deadline_ns == y->renew_deadline_ns && x->retry_period_ns == y->retry_period_ns));
}

void reload(struct watcher *w)
{
	struct config config = {0};
	struct err err;
	if (config_load(w->program.config_dir, &config, &err) < 0) {
		log_error("the configuration cannot be read; all goes on as it was",
			  LOG_S("reason", err.text));
	} else {
		reload_log_errors(&config);
		keep_running(&config, &w->config);
		if (config.main.cache_budget != w->config.main.cache_budget ||
		    strcmp(config.main.kubeconfig ? config.main.kubeconfig : "",
			   w->config.main.kubeconfig ? w->config.main.kubeconfig : "") != 0)
			log_warning(
			    "reconciled.yaml has another budget or kubeconfig: restart the watcher for it");
		if (!same_ha(&config.main, &w->config.main))
			log_warning(
			    "reconciled.yaml has another ha: restart all services of this host for it");
		plan_apply(w, &config);
		broker_hello(w->broker);
		log_info("configuration loaded", LOG_I("controllers", w->n_controllers),
			 LOG_I("watches", w->n_informers));
	}
}
