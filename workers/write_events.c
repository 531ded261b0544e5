#include "log.h"
#include "write.h"

static const struct kube_resource event_resource = {
    .api_version = "events.k8s.io/v1",
    .group = "events.k8s.io",
    .version = "v1",
    .kind = "Event",
    .plural = "events",
    .namespaced = true,
};

static int send(struct writer *w, const struct event_plan *plan, const struct event_regarding *about,
		const struct answer_event *e, struct kube_status *s, struct err *err)
{
	_cleanup_(buf_done) struct buf path = {0}, body = {0}, answer = {0};
	bool create = plan->action == EVENT_CREATE;
	kube_path(&path, &event_resource, events_namespace(w->events, about),
		  create ? (struct span){NULL, 0} : span_of(plan->series->name), NULL);
	events_body(w->events, plan, about, e, w->controller->name, w->instance, clock_realtime_ns(), &body);
	int r = writer_do(w, create ? "POST" : "PATCH", buf_str(&path),
			  create ? NULL : "application/merge-patch+json", buf_span(&body), &answer, s, err);
	if (r == 0)
		writer_wrote(w, &event_resource, buf_span(&answer), create);
	return r;
}

/* Events tell people; that one cannot be written is logged and changes nothing. */
void write_events(struct writer *w, const struct answer *a)
{
	const struct config_kind *kind = &w->controller->watches[0].kind;
	struct event_regarding about = {
	    kind->api_version, kind->kind,
	    w->namespace,      w->name,
	    writer_uid(w),     doc_string(w->doc, doc_path(w->object, "metadata", "resourceVersion", NULL)),
	};
	for (size_t i = 0; i < a->event_count && !w->fenced; i++) {
		const struct answer_event *e = &a->events[i];
		struct event_plan plan = events_plan(w->events, &about, e, clock_boottime_ns());
		struct kube_status s = {.retry_after_ms = -1};
		struct err why = {0};
		if (plan.action == EVENT_NOTHING)
			continue;
		int r = send(w, &plan, &about, e, &s, &why);
		if (r == -ENOENT && plan.action == EVENT_PATCH_SERIES) { /* expired or deleted: a new one */
			events_forget(&plan);
			plan = events_plan(w->events, &about, e, clock_boottime_ns());
			r = plan.action == EVENT_CREATE ? send(w, &plan, &about, e, &s, &why) : 0;
		}
		/* Kubernetes 1.20 wants the events of cluster-scoped objects there, and says so in several
		 * ways. */
		if (r == -EINVAL && !about.namespace.len && !w->events->use_kube_system &&
		    strstr(s.message, "namespace")) {
			w->events->use_kube_system = true;
			r = send(w, &plan, &about, e, &s, &why);
		}
		if (r < 0) {
			events_forget(&plan);
			log_warning("event not written", LOG_S("controller", w->controller->name),
				    LOG_SP("name", w->name), LOG_S("cause", why.text));
		}
	}
}
