/* libreconcile: reconcilers in C for reconciled.
 *
 * A reconciler is a function that is given the name of an object and what is known about it, and says what
 * should be: status, conditions, the full list of its children, and when to be asked again. It writes nothing
 * to the API server itself; the worker that runs the program does. The same request may come any number of
 * times, and the world may have changed between two of them: look at what is there, say what should be there,
 * keep nothing in memory that you need.
 *
 *   #include <reconcile.h>
 *
 *   static int greet(struct reconcile_request *req, struct reconcile_response *res, void *context)
 *   {
 *           struct reconcile_value greeting = reconcile_object(req);
 *           if (!reconcile_exists(greeting))
 *                   return 0;                                 // deleted: owned children go by themselves
 *           reconcile_child_add(res,
 *                               "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': '%s-text'},"
 *                               " 'data': {'text': %s}}",
 *                               reconcile_name(req), reconcile_text(greeting, "spec.text", "hello"));
 *           reconcile_condition(res, "Ready", RECONCILE_TRUE, "Written", "the text is there");
 *           return 0;
 *   }
 *
 *   int main(int argc, char **argv)
 *   {
 *           return reconcile_main(argc, argv, &(struct reconcile_handler){.reconcile = greet});
 *   }
 *
 * Build with `cc greet.c $(pkg-config --cflags --libs reconcile)`, name the program in a controller file,
 * under `coprocess` (one process for many requests) or `exec` (one process for each): it finds out by itself
 * which it is. The protocol that goes over stdin and stdout is described in docs/reconciler-protocol.md.
 *
 * Standard output belongs to the protocol. reconcile_main() puts stderr in its place, so that printf() in
 * your code ends in the worker's log, and /dev/null in the place of standard input.
 *
 * Threads. Requests come one at a time, and the handler is called from the thread that called
 * reconcile_main(). A request and a response may be used by one thread at a time. Memory. Every string and
 * value that these functions return lives until the handler returns. When memory is out the program aborts,
 * and the worker reports a crash of this key. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RECONCILE_API			   __attribute__((visibility("default")))
#define RECONCILE_FORMAT(template_, first) __attribute__((format(printf, template_, first)))

struct reconcile_request;
struct reconcile_response;

/* ---- running ---- */

struct reconcile_handler {
	/* Called for each request. 0: the response says what to do (empty: done, wait for the next change).
	 * Anything else: an error happened; without reconcile_error() it counts as a transient one. */
	int (*reconcile)(struct reconcile_request *req, struct reconcile_response *res, void *context);
	/* Called once before the first request, may be NULL; non-zero ends the program with status 1. Time
	 * limit: startupTimeout. */
	int (*start)(void *context);
	/* Called once before a regular end, may be NULL. */
	void (*stop)(void *context);
	void *context;
};

/* Speaks with the worker until it says that there is no more to do. Returns the exit status for main().
 * Handles --help and explains itself when it was started by hand at a terminal. */
RECONCILE_API int reconcile_main(int argc, char **argv, const struct reconcile_handler *handler);

/* One request, one response, both JSON: for tests of a reconciler. Reads (below) answer -ENOTSUP. The
 * response, or NULL with errno EINVAL when the request is none; the caller frees it. start and stop are not
 * called. */
RECONCILE_API char *reconcile_once(const struct reconcile_handler *handler, const char *request);

/* ---- values: what is in a request ---- */

/* A JSON value inside a request, or none. Cheap; pass it by value. The members are not yours to use. */
struct reconcile_value {
	const char *at;
	size_t length;
	struct reconcile_request *request;
};

/* Paths. "spec.replicas"; "metadata.labels['example.com/tier']" for keys with odd characters;
 * "spec.ports[0].name" for elements; "" is the value itself. A path that leads nowhere gives no value, never
 * an error. */

RECONCILE_API bool reconcile_exists(struct reconcile_value value); /* present, and not null */
RECONCILE_API struct reconcile_value reconcile_get(struct reconcile_value value, const char *path);
/* The string, number or boolean at the path, or `otherwise` where there is none or it is of another type.
 * Integers are exact: a number with a fraction, or beyond 64 bits, is of another type. */
RECONCILE_API const char *reconcile_text(struct reconcile_value value, const char *path,
					 const char *otherwise);
RECONCILE_API int64_t reconcile_int(struct reconcile_value value, const char *path, int64_t otherwise);
RECONCILE_API double reconcile_number(struct reconcile_value value, const char *path, double otherwise);
RECONCILE_API bool reconcile_bool(struct reconcile_value value, const char *path, bool otherwise);
/* Members of an object, elements of an array; 0 for anything else. */
RECONCILE_API size_t reconcile_count(struct reconcile_value value);
/* The JSON text, as it came from the API server (numbers keep all their digits); "null" for none. */
RECONCILE_API const char *reconcile_json(struct reconcile_value value);
/* The status of a condition in status.conditions: "True", "False", "Unknown"; NULL if the object has none of
 * this type. */
RECONCILE_API const char *reconcile_condition_of(struct reconcile_value object, const char *type);

/* Walks members or elements, in their order; key (may be NULL) is NULL for elements. Start with a zeroed iterator:
 *
 *   struct reconcile_iterator it = {0};
 *   struct reconcile_value port;
 *   while (reconcile_each(ports, &it, NULL, &port))
 *           ...
 */
struct reconcile_iterator {
	size_t at;
	bool started;
};
RECONCILE_API bool reconcile_each(struct reconcile_value container, struct reconcile_iterator *it,
				  const char **key, struct reconcile_value *value);

/* ---- the request ---- */

RECONCILE_API const char *reconcile_controller(struct reconcile_request *req);
RECONCILE_API const char *
reconcile_namespace(struct reconcile_request *req); /* "" for a cluster-scoped object */
RECONCILE_API const char *reconcile_name(struct reconcile_request *req);
RECONCILE_API const char *reconcile_uid(struct reconcile_request *req); /* of the request: for logs */
/* The object as the cache knows it; none if it does not exist (any more). */
RECONCILE_API struct reconcile_value reconcile_object(struct reconcile_request *req);
/* The object is being deleted (or has left the selector) and carries the controller's finalizer: clean up
 * what the API server does not, then reconcile_finalized(). */
RECONCILE_API bool reconcile_finalizing(struct reconcile_request *req);
/* A trial: do nothing outside of the response. (No command of this version asks for one.) */
RECONCILE_API bool reconcile_dry_run(struct reconcile_request *req);
/* Failures of this key in a row; 0 at first. */
RECONCILE_API int64_t reconcile_attempt(struct reconcile_request *req);
/* The whole request, for fields that have no function here. */
RECONCILE_API struct reconcile_value reconcile_whole(struct reconcile_request *req);

/* What the controller owns (children) or watches (related; with input.related). kind: "StatefulSet.apps/v1",
 * "Secret.v1". name: in the namespace of the object, or "namespace/name". None if there is no such thing in
 * the cache, which may be a moment old. */
RECONCILE_API struct reconcile_value reconcile_child(struct reconcile_request *req, const char *kind,
						     const char *name);
RECONCILE_API struct reconcile_value reconcile_related(struct reconcile_request *req, const char *kind,
						       const char *name);
/* All of a kind: an object whose keys are "namespace/name". For reconcile_each(). */
RECONCILE_API struct reconcile_value reconcile_children(struct reconcile_request *req, const char *kind);
RECONCILE_API struct reconcile_value reconcile_all_related(struct reconcile_request *req, const char *kind);
/* The request was too large: children or related are names without contents. Read what is needed. */
RECONCILE_API bool reconcile_truncated(struct reconcile_request *req);

/* Time. At the deadline the worker sends Cancel, then SIGTERM, then kills the program with everything that it
 * started. */
RECONCILE_API int64_t reconcile_time_left_ms(struct reconcile_request *req);
/* Whether Cancel has come: what the response says would not be written any more. Long work should ask now and
 * then. */
RECONCILE_API bool reconcile_cancelled(struct reconcile_request *req);

/* ---- reads during a request (coprocess only) ---- */

enum reconcile_read_flags {
	RECONCILE_CACHED = 0, /* from the worker's cache: fast, may be a moment old */
	RECONCILE_LIVE = 1,   /* from the API server: before what must not be done twice */
};
/* One object of a kind that the controller declares (for, owns, watches). namespace: NULL for that of the
 * request, "" for a cluster-scoped kind. 0; *ret is no value when there is no such object, and after any
 * error: -ENOTSUP under exec and in reconcile_once(), -ECANCELED after Cancel, -EPIPE when the worker is
 * gone, -EIO when it could not read (reconcile_read_error() says why). */
RECONCILE_API int reconcile_read(struct reconcile_request *req, const char *api_version, const char *kind,
				 const char *namespace_, const char *name, enum reconcile_read_flags flags,
				 struct reconcile_value *ret);
/* The objects of a kind, as an array: those with the labels ("app=web,tier in (a,b)"; NULL: any) and an owner
 * reference to this uid (NULL: any). namespace: as above; NULL also for all that the controller watches when
 * the object is cluster-scoped. */
RECONCILE_API int reconcile_list(struct reconcile_request *req, const char *api_version, const char *kind,
				 const char *namespace_, const char *label_selector, const char *owned_by,
				 enum reconcile_read_flags flags, struct reconcile_value *ret);
RECONCILE_API const char *reconcile_read_error(struct reconcile_request *req);

/* ---- the response ---- */

/* clang-format off */
/* Templates: JSON with conversions as printf() has them, and safe whatever the arguments hold.
 *
 *   %s %.*s   a string: with its quotes where a value stands ('name': %s), escaped and without them inside of
 *             quotes ('%s-config'); NULL is null, or nothing inside of quotes
 *   %d %i %u %ld %lu %lld %llu %zd %zu
 *             an integer
 *   %g %f     a number (infinite or not a number: null)
 *   %c        a boolean: an int, 0 is false
 *   %p        a struct reconcile_value * of this request: its JSON text, null where there is none
 *   %%        a percent sign
 *
 * Single quotes may stand for double ones around strings, which in C saves backslashes. A template that gives
 * no valid JSON is a bug: the response becomes a Terminal error that shows the place. */
/* clang-format on */

/* Sets status.FIELD; the same field again replaces it, null removes it from the object. What is not set stays
 * as it is.
 *
 *   reconcile_status(res, "primary", "%s", name); */
RECONCILE_API void reconcile_status(struct reconcile_response *res, const char *field, const char *template_,
				    ...) RECONCILE_FORMAT(3, 4);

enum reconcile_truth { RECONCILE_FALSE, RECONCILE_TRUE, RECONCILE_UNKNOWN };
/* Sets a condition in status.conditions; the same type again replaces it, others stay. lastTransitionTime and
 * observedGeneration are set by the worker. reason: CamelCase, at most 1024 characters. message: printf,
 * plain text. */
RECONCILE_API void reconcile_condition(struct reconcile_response *res, const char *type,
				       enum reconcile_truth truth, const char *reason, const char *message,
				       ...) RECONCILE_FORMAT(5, 6);

/* Adds a child to the desired set, which is applied server-side in this order, owned by the object. The
 * namespace of the object is filled in by the worker. Once one was added, or reconcile_children_managed() was
 * called, the response lists *all* children: with `prune: true` in the controller file what is not in it is
 * deleted. */
RECONCILE_API void reconcile_child_add(struct reconcile_response *res, const char *template_, ...)
    RECONCILE_FORMAT(2, 3);
RECONCILE_API void reconcile_children_managed(struct reconcile_response *res);

/* Asks again after this time, without waiting for a change; counts as success. */
RECONCILE_API void reconcile_requeue_after_ms(struct reconcile_response *res, int64_t milliseconds);
/* Asks again soon, through the rate limiter; no failure in metrics or logs. */
RECONCILE_API void reconcile_requeue(struct reconcile_response *res);
/* Another priority in the queue than the one that it was granted with. */
RECONCILE_API void reconcile_priority(struct reconcile_response *res, int priority);

/* The finalizer may go: everything outside of the cluster is cleaned up. Children are pruned. */
RECONCILE_API void reconcile_finalized(struct reconcile_response *res);

/* An event on the object. type: "Normal" or "Warning". message: printf, plain text. */
RECONCILE_API void reconcile_event(struct reconcile_response *res, const char *type, const char *reason,
				   const char *message, ...) RECONCILE_FORMAT(4, 5);

enum reconcile_error_type {
	RECONCILE_TRANSIENT, /* try again with growing delays */
	/* something that is needed is not there yet; no failure: again after 60 s, or retry_after */
	RECONCILE_NOT_READY,
	RECONCILE_THROTTLED, /* somebody asked us to slow down: not before retry_after */
	RECONCILE_CONFLICT,  /* the cache was behind: again in a moment */
	RECONCILE_TERMINAL,  /* trying again is of no use until something changes */
};
/* Says what went wrong; status, conditions and events of the response are still written, children and requeue
 * are not. Returns -1, so that a handler can `return reconcile_error(...)`. The last one counts. message:
 * printf, plain text, cut at 1,024 bytes. */
RECONCILE_API int reconcile_error(struct reconcile_response *res, enum reconcile_error_type type,
				  const char *reason, const char *message, ...) RECONCILE_FORMAT(4, 5);
/* For the error: not before this time. */
RECONCILE_API void reconcile_retry_after_ms(struct reconcile_response *res, int64_t milliseconds);
/* For RECONCILE_THROTTLED: all keys of the controller wait, not this one alone. */
RECONCILE_API void reconcile_pause_controller(struct reconcile_response *res);

#ifdef __cplusplus
}
#endif
