/* What the watcher is made of, and who owns what.
 *
 *   plan.c      configuration -> controllers, their watches, and informers shared by equal watches
 *   stream.c    one list-and-watch over HTTP, told what to do by reflector.c
 *   stream_discovery.c  whether its kind is served; stream_items.c  what it brings; stream_report.c  what is said of it
 *   informer.c  a change of one object: keys into the outbox (announce.c), then the object into the cache
 *   ask.c       what of that depends on programs; asker.c: such a program, question.c: what it is asked
 *   resync.c    resyncPeriod: keys of everything, spread over it; pace.c: how fast
 *   delivery.c  outbox and sweeps -> ADD messages; progress.c: how far the streams are; broker.c: the connection
 *   campaign.c  leader election: election.c's requests, and what follows from who leads
 *   main.c      arguments, configuration, lock, cache; loop.c: the loop; reload.c: SIGHUP
 *
 * One thread. Everything hangs on struct watcher. */
#pragma once
#include "asker.h"
#include "broker.h"
#include "config.h"
#include "kube.h"
#include "mapping.h"
#include "outbox.h"
#include "pace.h"
#include "predicate.h"
#include "program.h"
#include "refindex.h"
#include "reflector.h"
#include "store.h"

enum { PRIORITY_LOW = -100 }; /* initial list, relist, sweep: behind every real event */

struct watcher;
struct informer;
struct campaign;

/* All of a controller's keys are to be enqueued: shared->sweep says so across restarts; this is how far it
 * is. */
struct sweep {
	bool active, paced;	 /* paced: this round is, by stormGuard */
	bool again, again_paced; /* asked for once more meanwhile */
	bool telling;		 /* SWEPT is on its way */
	/* Events are lost that a program was to map: every object of the `for` kind is enqueued, whatever predicates say. */
	bool lost;
	bool unfiltered, as_creates; /* active: because of `lost`; because shared->sweep says so */
	int64_t lost_due_ns;	     /* not before */
	size_t asked;		     /* objects that programs are asked about */
	bool stands;		     /* active: they are asked enough for now */
	size_t sub;
	uint32_t looked, first; /* slots of the sub, and which was the first one */
	uint32_t in_flight;	/* batches */
	uint32_t cause;		/* 0: of one that an earlier watcher was asked for */
};

/* A round over all objects of a controller; resync.c. */
struct resync {
	bool active;
	struct pace pace;
	uint64_t taken;
	size_t sub, first_sub; /* where it stands, where it began */
	uint32_t slot, first_slot;
	bool wrapped, over;
	int64_t wake_ns;
};

/* One entry of a controller's for, owns or watches. */
struct sub {
	struct controller *controller;
	struct informer *informer, *primary; /* primary: of the controller's `for` */
	const struct config_watch *watch;
	struct predicate predicate;
	bool default_predicate;
	struct mapping mapping;
	struct refindex *references; /* INDEX: belongs to primary */
	size_t first_asker;   /* of the controller's: those of the predicate's programs, then the map's */
	char cause_kind[254]; /* "Deployment.apps/v1" */
};

struct controller {
	struct watcher *watcher;
	const struct config_controller *config;
	struct cache_controller *shared;
	uint8_t index; /* of shared */
	struct sub *subs;
	size_t n_subs;
	struct asker *askers[CONFIG_PROGRAMS_MAX];
	size_t n_askers;
	size_t unmapped; /* events that a program is still to map */
	bool lost_told;	 /* that its queue is full */
	struct sweep sweep;
	struct resync resync;
	struct limit storm;	 /* keys of events that concern very many */
	bool storm_turn;	 /* of the sweep, before such keys in the outbox */
	int64_t storm_warned_ns; /* 0: never */
	int64_t retry_at_ns;	 /* the broker had no room: not before */
	int64_t retry_delay_ns;
};

struct change {
	const struct object *before, *after; /* NULL: there is none */
	int32_t priority;
	struct cache_event
	    event;  /* resource_version 0: a list told of it, and of whatever else happened before */
	bool asked; /* programs are, about another state of the same deleted object */
};

/* How far a stream is, for keys that are held until it shows what their attempt wrote. Numbers are resourceVersions; 0: none. */
struct progress {
	uint64_t seen;	  /* what happened up to here is in the cache, and its keys in the outbox */
	uint64_t leaving; /* `seen` of a moment ago: its keys are among the outbox's first `arrivals` */
	uint64_t arrivals;
	uint64_t told, awaited; /* told: since the last AWAIT */
};

struct stream {
	struct informer *informer;
	struct span namespace; /* absent: all */
	struct reflector reflector;
	bool dormant;	       /* of a second namespace, and the kind turned out to be cluster-scoped */
	bool listed;	       /* once in this process */
	bool told;	       /* reported failed or waiting in this process */
	bool told_nonsense;    /* what is reported now is that */
	bool missed;	       /* a list or watch got 404 since it went well */
	int64_t due_ns;	       /* when to do what reflector.phase says; INT64_MAX: something is under way */
	enum wire_state state; /* what was reported last */
	char *message;
	struct exchange *exchange; /* what is under way; stream.c */
	char *version;		   /* resourceVersion to watch from */
	int64_t bookmark_gap_ns;   /* the longest between two bookmarks; 0: not known */
	uint32_t epoch;		   /* of the list under way: what it saw carries it as mark */
	struct progress progress;
};

/* What a list changed, for the log. */
struct counts {
	uint64_t items, added, changed, deleted, unchanged;
};

/* One cache table and what fills it. */
struct informer {
	struct watcher *watcher;
	char *name; /* config_table_name() */
	const struct config_kind *kind;
	char topic[300]; /* "watch apps/v1 Deployment": of the name, cut */
	uint32_t table;
	bool strip_managed_fields;
	struct projection *projection; /* of kind->fields; NULL: all is kept */
	uint32_t told_cut;	       /* not 0: that objects are cut is reported */
	int64_t heal_at_ns;	       /* when to look whether they may be whole again */
	bool rewrite; /* the next list stores unchanged objects too: how they are kept has changed */
	bool used;    /* by the plan being made */
	bool served;
	int64_t absent_ns; /* since when no version of its group has it, as far as is known; 0: one has */
	struct kube_resource resource; /* once served */
	struct stream *streams;
	size_t n_streams;
	struct sub **subs;
	size_t n_subs;
	struct refindex **references; /* of this table's objects, one per path */
	size_t n_references;
};

/* The streaming list: known of the API server as a whole. */
enum streaming { STREAMING_UNKNOWN, STREAMING_SERVED, STREAMING_LACKS };

struct watcher {
	struct program program;
	struct config config;
	struct store *store;
	struct outbox *outbox;
	struct kubeconfig kubeconfig;
	struct http_client *http;
	struct broker *broker;
	struct campaign *campaign; /* NULL: no leader election */
	struct controller *controllers;
	size_t n_controllers;
	struct informer **informers;
	size_t n_informers;
	enum streaming streaming;
	int64_t idle_timeout_ns; /* of a watch; 0: by its timeoutSeconds */
	uint32_t last_epoch;
	int64_t acted_ns; /* the time that the loop's last round went by */
	bool stopping;
	bool store_busy;      /* it has more to tidy up */
	bool progress_wanted; /* the broker has no PROGRESS to answer */
	bool awaited;	      /* by a stream's progress */
	struct pollfd *fds;   /* scratch of the loop */
	struct keys keys;     /* scratch of one event */
	struct buf json, text_before, text_after;
};

/* For what a list or a sweep sees. */
static inline uint32_t watcher_next_epoch(struct watcher *w)
{
	return w->last_epoch = w->last_epoch == UINT32_MAX ? 1 : w->last_epoch + 1;
}

/* ---- plan.c ---- */

/* Takes config over (the old one is freed). Informers that both want go on. A controller that does not fit is
 * reported and left out. */
void plan_apply(struct watcher *w, struct config *config);

/* ---- informer.c ---- */

/* An object of a list or of an ADDED or MODIFIED event. epoch: of the list, 0 for an event. -EINVAL: not an
 * object; -ENOSPC: the cache is full; -EAGAIN: the outbox is full. Then the cache is as before. */
int informer_put(struct stream *s, struct span json, uint32_t epoch, struct counts *counts, struct err *err);
/* A DELETED event; json: the object's last state. */
int informer_deleted(struct stream *s, struct span json, struct err *err);
/* This resourceVersion of the kind is going to be seen: told before it can be, and kept across starts. */
void informer_saw(struct informer *i, uint64_t version);
/* The end of a list of this namespace (absent: all): what it did not see is gone. */
int informer_sweep(struct informer *i, struct span namespace, uint32_t epoch, struct counts *counts,
		   struct err *err);
/* Every stream has its first list now, or had it before a restart. */
bool informer_synced(const struct informer *i);
bool informer_blocked(
    const struct informer *i); /* has no first list, waits after a failure, and that is reported */
/* Tells that objects are cut for want of room, and lists them again when there is some. */
void informer_heal(struct informer *i, int64_t now_ns);
uint32_t informer_cut(const struct informer *i);
void informer_index(struct informer *i); /* builds references from the cache */

/* Adds the keys that one sub has for a create of this object, as a sweep makes them: only where its names are not enough the object
 * is unpacked. 0: it cannot be read; -EAGAIN: programs are asked enough for now. */
int sub_keys_of_cached(struct sub *s, const struct store_view *v, enum question_why why, struct keys *out);

/* ---- announce.c ---- */

/* The keys of a change into the outbox, for all controllers that watch the kind. -EAGAIN: it is full. */
int announce(struct informer *i, const struct change *c, struct err *err);
/* The keys that one sub maps the object to. */
void sub_keys(struct sub *s, const struct object *o, struct keys *out);
/* Its keys can be made: whether the `for` kind has namespaces is known. */
bool sub_scope_is_known(const struct sub *s);
/* One event, very many keys: they enter at low priority, so many a second, and somebody should know why. */
bool sub_is_storm(struct sub *s, const struct object *o, const struct keys *keys);
/* Names the object as what caused a key of the sub, unless it is the key's own. */
void sub_cause(const struct sub *s, struct span namespace, struct span name, struct outbox_key *ret);
/* Those of old and new object, whatever predicates say. hold: not sent yet, but held for this question; NULL: sent. -EAGAIN. */
int sub_put_change(struct sub *s, const struct change *c, struct question *hold);
/* These keys, of which those from from_after on are of the old object alone. */
int sub_put_keys(struct sub *s, const struct change *c, const struct keys *keys, size_t from_after,
		 struct question *hold);

/* ---- ask.c ---- */

static inline bool sub_asks(const struct sub *s)
{
	return s->predicate.programs || s->mapping.type == MAP_PROGRAM;
}
/* As sub_put_change, once its programs have answered. */
int ask_change(struct sub *s, const struct change *c);
/* The keys of a create of the object: to out, or later into the outbox. -EAGAIN: not now, as too much is asked already. */
int ask_create(struct sub *s, const struct object *o, enum question_why why, struct keys *out);
/* After a reload: what goes on of the controller's former self (NULL: there is none), and what begins. */
void askers_take_over(struct controller *c, struct controller *old);
/* The controller is no more. */
void askers_drop(struct controller *c);
void askers_run(struct watcher *w, int64_t now_ns);
int64_t askers_due_ns(const struct watcher *w);
/* fds with room for ASKER_FDS for each of w's askers; how many are used. */
size_t askers_poll(const struct watcher *w, struct pollfd *fds);
size_t askers_count(const struct watcher *w);
bool askers_are_idle(const struct watcher *w); /* no event waits for one that works */

/* ---- stream.c ---- */

void stream_init(struct stream *s, struct informer *i, struct span namespace);
void stream_stop(struct stream *s);
void stream_done(struct stream *s);
void stream_relist(struct stream *s);
/* Starts what is due. */
void stream_act(struct stream *s, int64_t now_ns);
/* The namespace that is asked for: absent for all, and for a cluster-scoped kind whatever the file says. */
struct span stream_namespace(const struct stream *s);

/* ---- stream_report.c ---- */

/* A failure that a person should know of; other events are passed over. Repeated ones are said once. */
void stream_report(struct stream *s, enum reflector_event event, const struct err *err);
void stream_report_ok(struct stream *s);
/* Tells the broker how the informer's streams are, for every controller that has it. */
void informer_report(const struct informer *i);

/* ---- delivery.c ---- */

/* Every table is there, or known not to come for now. */
bool controller_listed(const struct controller *c);
/* cause: enum wire_cause, INITIAL or SWEEP. */
void controller_want_sweep(struct controller *c, uint32_t cause);
/* After an event that concerns more keys than the outbox is for: at the rate of stormGuard. */
void controller_want_paced_sweep(struct controller *c);
/* Events are lost that a program was to map. */
void controller_want_all(struct controller *c);
/* Sends what can be sent. */
void delivery_run(struct watcher *w, int64_t now_ns);
int64_t delivery_due_ns(const struct watcher *w); /* INT64_MAX: nothing waits for a time */
extern const struct broker_ops delivery_ops;

/* ---- resync.c ---- */

/* Puts what is due into the outbox; before delivery_run. */
void resync_run(struct watcher *w, int64_t now_ns);
int64_t resync_due_ns(const struct watcher *w);

/* ---- progress.c ---- */

/* The stream's version is a new one, and all up to it has been taken in. */
void progress_seen(struct stream *s);
/* The broker knows us (again): it waits for nothing until it says so. */
void progress_begin(struct watcher *w);
/* It waits for these. */
void progress_await(struct watcher *w, const struct wire_place *places, size_t count);
/* Tells what is to be told now; after delivery_run, which sends what must be sent before. */
void progress_run(struct watcher *w, int64_t now_ns);

/* ---- campaign.c ---- */

/* After the store is open and before anything is enqueued. Mode none: says so in the region. */
void campaign_init(struct watcher *w, const struct config_ha *ha);
/* Looks at the clock, and asks what is due; before delivery_run. */
void campaign_run(struct watcher *w, int64_t now_ns);
int64_t campaign_due_ns(const struct watcher *w);
/* Another host leads, or is to be asked: the cache is kept, keys are not sent. */
bool campaign_follows(const struct watcher *w);
/* The watcher ends. First no attempt begins any more; then, when none runs or the lead is over, the Lease is given back.
 * campaign_ended: nothing is left to do. */
void campaign_close(struct watcher *w);
bool campaign_ended(struct watcher *w, int64_t now_ns);

/* ---- reload.c ---- */

/* A wrong file leaves its controller as it was. */
void reload(struct watcher *w);
void reload_log_errors(const struct config *c);

/* ---- loop.c ---- */

/* Until SIGTERM or SIGINT, and then until what is on its way is sent; or until the cache's files are gone. The exit status. */
int loop_run(struct watcher *w, int signals);
