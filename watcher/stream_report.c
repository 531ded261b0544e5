/* What the log and `reconcilectl status` say of a stream. */
#include "log.h"
#include "watcher.h"

static const struct {
	enum wire_state state;
	const char *text; /* the reason follows */
} told[] = {
    [REFLECTOR_NOT_SERVED] = {WIRE_STATE_WAITING, "kind not served"},
    [REFLECTOR_UNAUTHORIZED] = {WIRE_STATE_FAILED, "not authenticated"},
    [REFLECTOR_FORBIDDEN] = {WIRE_STATE_FAILED, "not allowed"},
    [REFLECTOR_UNTRUSTED] = {WIRE_STATE_FAILED, "TLS refused"},
    [REFLECTOR_BUSY] = {WIRE_STATE_DEGRADED, "the API server is busy"},
    [REFLECTOR_UNREACHABLE] = {WIRE_STATE_DEGRADED, "no connection to the API server"},
    [REFLECTOR_REFUSED] = {WIRE_STATE_FAILED, "refused"},
    [REFLECTOR_NONSENSE] = {WIRE_STATE_FAILED, "the answer cannot be used"},
    [REFLECTOR_CACHE_FULL] = {WIRE_STATE_FAILED, "the cache is full"},
    [REFLECTOR_OUTBOX_FULL] = {WIRE_STATE_DEGRADED, "the outbox is full"},
};

static void report(struct stream *s, enum wire_state state, const char *message, bool quiet)
{
	struct informer *i = s->informer;
	bool changed = state != s->state || strcmp(message, s->message ? s->message : "") != 0;
	s->told = s->told || state != WIRE_STATE_OK;
	if (!changed)
		return;
	if (state == WIRE_STATE_OK)
		log_info("watch healed", LOG_S("table", i->name), LOG_SP("namespace", s->namespace));
	else if (!quiet)
		log_warning("watch has a problem", LOG_S("table", i->name),
			    LOG_S("state", wire_state_name(state)), LOG_S("reason", message));
	s->state = state;
	free(s->message);
	s->message = xstrdup(message);
	informer_report(i);
}

void informer_report(const struct informer *i)
{
	/* Of several namespaces the first that has a problem is shown. */
	const struct stream *worst = &i->streams[0];
	for (size_t n = 0; n < i->n_streams && worst->state == WIRE_STATE_OK; n++)
		worst = &i->streams[n];
	enum wire_state state = worst->state;
	struct buf text = {.limit = 1000};
	buf_puts(&text, worst->message ? worst->message : "");
	uint32_t cut = informer_cut(i);
	if (state == WIRE_STATE_OK && cut) {
		state = WIRE_STATE_DEGRADED;
		buf_printf(
		    &text,
		    "the cache is full: of %u objects of %s %s only the metadata is kept, and what needs the "
		    "whole waits; raise budgets.cache in reconciled.yaml, or watch less (selectors, "
		    "metadataOnly, cache.fields)",
		    cut, i->kind->api_version, i->kind->kind);
		log_warning("the cache is full", LOG_S("table", i->name), LOG_S("reason", buf_str(&text)));
	}
	for (size_t n = 0; n < i->n_subs; n++)
		broker_report(i->watcher->broker, i->subs[n]->controller->config->name, i->topic, state,
			      buf_str(&text));
	buf_done(&text);
}

/* What a person has to grant, in the words of a Role. */
static void missing_rule(const struct stream *s, struct buf *out)
{
	const struct kube_resource *r = &s->informer->resource;
	if (s->informer->served)
		buf_printf(out,
			   "; needed: a rule with apiGroups [\"%s\"], resources [\"%s\"], verbs [\"list\", "
			   "\"watch\"] ",
			   r->group, r->plural);
	else
		buf_printf(out,
			   "; needed: discovery (ClusterRole system:discovery) and list, watch on %s %s ",
			   s->informer->kind->api_version, s->informer->kind->kind);
	if (stream_namespace(s).at)
		buf_printf(out, "in namespace %.*s", SPAN_ARG(s->namespace));
	else
		buf_puts(out, "in all namespaces (ClusterRole)");
}

void stream_report(struct stream *s, enum reflector_event event, const struct err *err)
{
	if ((size_t)event >= ARRAY_SIZE(told) || !told[event].text)
		return;
	/* What the first 404 of a list or watch means, discovery says in a moment. */
	if (event == REFLECTOR_NOT_SERVED && s->reflector.phase != REFLECTOR_DISCOVER && !s->missed) {
		s->missed = true;
		return;
	}
	struct buf text = {.limit = 1000};
	buf_printf(&text, "%s: %s", told[event].text, err->text);
	char hint[HTTP_HINT_MAX];
	if (event == REFLECTOR_UNAUTHORIZED || event == REFLECTOR_FORBIDDEN) {
		http_client_hint(s->informer->watcher->http, event == REFLECTOR_UNAUTHORIZED, hint);
		buf_printf(&text, "%s%s", *hint ? "; " : "", hint);
	}
	if (event == REFLECTOR_FORBIDDEN)
		missing_rule(s, &text);
	/* Nonsense has a thousand faces: one of them is enough for the log, the last one is shown. */
	bool nonsense = event == REFLECTOR_NONSENSE;
	report(s, told[event].state, buf_str(&text), nonsense && s->told_nonsense);
	s->told_nonsense = nonsense;
	buf_done(&text);
}

void stream_report_ok(struct stream *s)
{
	s->told_nonsense = s->missed = false;
	report(s, WIRE_STATE_OK, "", false);
}
