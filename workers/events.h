/* Events of an answer as events.k8s.io/v1: which are written, and how. Pure: the clock comes in, the caller
 * writes.
 *
 * As client-go's recorder does: an event like an earlier one (same object, type, reason and text) within 6
 * minutes becomes a series of it, written at its second occurrence and then every 30 minutes at most; and
 * each object has a bucket of 25 writes that fills up by one in 5 minutes, so that a loop cannot flood the
 * API server. Both tables are bounded: the entry that was idle longest makes room. */
#pragma once
#include "answer.h"

enum { EVENT_SERIES = 256, EVENT_SUBJECTS = 256, EVENT_BURST = 25, EVENT_NAME_ROOM = NAME_MAX_LEN + 1 };
#define EVENT_REFILL_NS	      (300 * NS_PER_S)
#define EVENT_SERIES_QUIET_NS (360 * NS_PER_S)
#define EVENT_SERIES_WRITE_NS (1800 * NS_PER_S)

struct event_series {
	uint64_t hash; /* 0: free */
	int64_t last_ns, written_ns;
	uint32_t count;
	char name[EVENT_NAME_ROOM]; /* of the Event object */
};
struct event_subject {
	uint64_t hash;
	int64_t last_ns, tokens_ns; /* tokens as time: one is EVENT_REFILL_NS */
};
struct events {
	struct event_series series[EVENT_SERIES];
	struct event_subject subjects[EVENT_SUBJECTS];
	uint64_t dropped;     /* by the buckets */
	bool use_kube_system; /* the server refused namespace default for cluster-scoped objects */
};

struct event_regarding { /* the key's own object */
	const char *api_version, *kind;
	struct span namespace, name, uid, resource_version;
};

enum event_action {
	EVENT_NOTHING,	   /* counted, or dropped by the bucket */
	EVENT_CREATE,	   /* POST a new Event */
	EVENT_PATCH_SERIES /* PATCH the earlier one's series */
};
struct event_plan {
	enum event_action action;
	struct event_series *series; /* name and count */
};

struct event_plan events_plan(struct events *s, const struct event_regarding *about,
			      const struct answer_event *e, int64_t now_ns);
/* The Event is not there: the next one like it is new. */
void events_forget(struct event_plan *plan);
/* "default" or "kube-system" for a cluster-scoped object. */
struct span events_namespace(const struct events *s, const struct event_regarding *about);
/* Appends the body of the POST, or of the merge patch. controller: the reporter; instance: "website.1";
 * unix_ns: now. */
void events_body(const struct events *s, const struct event_plan *plan, const struct event_regarding *about,
		 const struct answer_event *e, const char *controller, const char *instance, int64_t unix_ns,
		 struct buf *out);
