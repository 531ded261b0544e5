/* Writing an answer to the API server, in its order: checks of the whole, children, status, events,
 * finalizer. Blocking, each request bounded.
 *
 * Before every request the host is asked whether the lease still stands (`may_go_on`), and no request starts
 * after `end_ns`. */
#pragma once
#include "answer.h"
#include "events.h"
#include "kinds.h"
#include "writes.h"

enum { WRITE_REQUEST_TIMEOUT_MS = 8000, WRITE_TRIES = 4 }; /* the first try and three more on 409 */

struct writer {
	struct http_client *http;
	struct kinds *kinds;
	const struct config_controller *controller;
	const char *instance;	     /* "website.1" */
	struct events *events;	     /* lives as long as the host */
	struct writes *writes;	     /* of the attempt: what it wrote is noted there */
	struct span namespace, name; /* of the key */
	int64_t end_ns;		     /* CLOCK_BOOTTIME */
	bool (*may_go_on)(void *ctx);
	void (*wait)(void *ctx); /* runs http and whatever else the host has to do, a second at most */
	void *ctx;

	struct doc *doc;
	/* the key's, as last seen: the request's, then what the API server answered; NULL: none */
	const struct doc_node *object;
	int64_t generation;	/* of the object that the reconciler saw; -1: none */
	bool gone;		/* it was deleted, or another has its name: nothing more is written */
	bool fenced;		/* the lease ended: nothing more is written */
	unsigned failures;	/* failed writes of this answer */
	int64_t retry_after_ms; /* the longest that the API server asked for; -1: none */
	char failed[768];	/* the first failure */
	unsigned requests;	/* of this attempt */
};

/* object: JSON, "" for none. */
int writer_init(struct writer *w, struct span object, struct err *err);
void writer_done(struct writer *w);

/* Adds the controller's finalizer to an object that has none of it and is not being deleted; the updated
 * object is in w->object afterwards. 0, or negative with r set. */
int write_finalizer_first(struct writer *w, struct result *r);
/* For a key that the cache has no object of, when `for` has a selector: an object that left the selector while
 * it carries the finalizer, read live into w->object. 1; 0: there is none; negative with r set. */
int write_find_left(struct writer *w, struct result *r);
/* Writes; r is the answer's result and is changed to what the writes made of it. finalizing: what the request
 * said. */
void write_answer(struct writer *w, const struct answer *a, bool finalizing, struct result *r);

/* ---- between the write_*.c files ---- */

/* One request. body_in absent: none. out may be NULL. -ECANCELED: fenced. Everything else as kube_do. */
int writer_do(struct writer *w, const char *method, const char *path, const char *content_type,
	      struct span body_in, struct buf *out, struct kube_status *ret, struct err *err);
/* Reads the key's object live into w->object. -ENOENT and w->gone if it is not there or has another uid. */
int writer_read_live(struct writer *w, struct err *err);
/* Is this the answer of an API server to a write that carried a uid or resourceVersion of the past? */
bool writer_is_conflict(int code, const struct kube_status *s);
/* PATCHes the key's own object with what make() appends, again on conflicts with the live object. make
 * returns false: nothing to do. */
int writer_patch_object(struct writer *w, const char *subresource,
			bool (*make)(struct writer *w, void *ctx, struct buf *out), void *ctx,
			struct err *err);
/* Notes a write to an object of this kind for every watch that will show it; object: what the API server answered. own: its version cannot also
 * be the event of somebody else's change. */
void writer_wrote(struct writer *w, const struct kube_resource *kind, struct span object, bool own);
/* Notes a failed write; what: "child Deployment.apps/v1 shop/web". */
void writer_failed(struct writer *w, const char *what, int code, const struct kube_status *s,
		   const struct err *err);
struct span writer_uid(struct writer *w);

/* write_children.c. plan: the checks of the whole answer, before any write; -EPROTO. */
struct write_children;
int write_children_plan(struct writer *w, const struct answer *a, bool prune_only,
			struct write_children **ret, struct err *err);
/* Would it write anything? */
bool write_children_needed(const struct write_children *p);
void write_children_apply(struct writer *w, struct write_children *p);
void write_children_free(struct write_children *p);
/* write_events.c */
void write_events(struct writer *w, const struct answer *a);
