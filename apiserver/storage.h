/* The objects, in memory: kinds, their objects in order of namespace and name, and what happened to them
 * lately.
 *
 * An object is an immutable, counted block with its JSON text as stored; a write makes a new one. Readers
 * take references under the lock and print without it. The text has no kind and apiVersion: they are put in
 * front when it is shown, because one stored object may be shown as several versions.
 *
 * One lock for all; every function whose comment does not say otherwise wants it held. Each kind has a
 * condition variable that is broadcast when something happened to its objects, so that a write wakes only who
 * watches that kind.
 *
 * History: per kind a ring of events, bounded in number (--history) and bytes (HISTORY_BYTES_MAX). It serves
 * watches that resume, watches that are behind, and lists that continue at an older resourceVersion: state
 * then = state now with the later events undone.
 *
 * resourceVersion is one counter for all kinds. It starts at the wall clock in units of 100 microseconds, so
 * that versions of an earlier life of the server are older than all of this one's and get 410 instead of a
 * silent gap (which holds while an earlier life made fewer than 10,000 writes a second on average). */
#pragma once
#include "doc.h"
#include <pthread.h>

enum { HISTORY_DEFAULT = 10000, KINDS_MAX = 1024, VERSIONS_MAX = 8, COLUMNS_MAX = 16, SHORT_NAMES_MAX = 8 };
#define HISTORY_BYTES_MAX (UINT64_C(64) << 20)

enum kind_flags { STATUS = 1, GENERATION = 2, CONDITIONAL = 4, ALIAS = 8, ALL = 16, CREATE_ON_PUT = 32 };
enum kind_scope { CLUSTER, NAMESPACED };
enum kind_names { SUBDOMAIN, LABEL, LABEL1035, PATH };
enum event_type { EVENT_ADDED, EVENT_MODIFIED, EVENT_DELETED };

struct kind;

struct object {
	unsigned refs; /* atomic: see object_ref */
	struct kind *kind;
	uint64_t rv;
	char *namespace, *name; /* namespace "" for cluster scope */
	char uid[64];
	int64_t generation;   /* 0: none */
	int64_t written;      /* seconds since the epoch; 0: not said */
	struct span text;     /* JSON object without kind and apiVersion, terminated */
	struct span metadata; /* in text */
	struct span labels;   /* in text; absent: none */
	bool deleting, finalizers, owned;
};

struct event {
	uint64_t rv;
	enum event_type type;
	struct object *now;    /* DELETED: the last state, with the version of the deletion */
	struct object *before; /* NULL for ADDED */
};

struct column { /* of a table: additionalPrinterColumns */
	char *name, *type, *path, *description;
	int64_t priority;
};

struct kind_version {
	char *name;
	bool served, storage, status;
	struct column columns[COLUMNS_MAX];
	size_t n_columns;
};

/* What a kind is called and can do: immutable and counted, because a definition may be replaced while
 * somebody prints with it. */
struct definition {
	unsigned refs; /* atomic */
	char *group, *kind, *list_kind, *plural, *singular;
	char *short_names[SHORT_NAMES_MAX], *categories[SHORT_NAMES_MAX];
	size_t n_short_names, n_categories;
	enum kind_scope scope;
	enum kind_names names;
	int flags; /* enum kind_flags; for custom kinds STATUS and GENERATION are the version's */
	bool builtin;
	struct kind_version versions[VERSIONS_MAX];
	size_t n_versions;
};

struct kind {
	struct definition *def;
	bool served; /* false: its definition was deleted; the struct stays for those who still hold it */
	struct kind *storage; /* where the objects are: itself, or for an ALIAS the core kind */

	struct object **objects; /* sorted by namespace, then name */
	size_t n_objects, cap_objects;
	struct event *ring;
	size_t ring_cap, ring_len;
	/* number of the oldest event in the ring; the next event will be ring_first + ring_len */
	uint64_t ring_first;
	uint64_t ring_bytes;
	uint64_t lost_rv; /* events up to this version are no longer in the ring */
	pthread_cond_t changed;
};

struct storage {
	pthread_mutex_t lock;
	pthread_cond_t work; /* for the collector */
	bool dirty;	     /* something that may concern the collector changed */
	bool stopping;
	struct kind *kinds[KINDS_MAX];
	size_t n_kinds;
	uint64_t rv;	   /* the last one given */
	uint64_t first_rv; /* where the counter began */
	size_t history;
	uint64_t bytes, bytes_max; /* text of stored objects */
	uint64_t kinds_changed;	   /* counts changes of the set of kinds */
};

/* A kind as one path shows it. Holds a reference on the definition. */
struct view {
	struct kind *kind; /* objects are in kind->storage */
	struct definition *def;
	const struct kind_version *version; /* of def */
};

/* Fills the store with the built-in kinds. first_rv: what resourceVersions start after. No lock needed. */
struct storage *storage_new(size_t history, uint64_t bytes_max, uint64_t first_rv);
void storage_free(struct storage *s);
void storage_lock(struct storage *s);
void storage_unlock(struct storage *s);
/* Ends all waiting. Takes the lock. */
void storage_stop(struct storage *s);

/* A kind without definition. NULL: KINDS_MAX reached. */
struct kind *storage_add_kind(struct storage *s);

/* A fresh uid, as 550e8400-e29b-41d4-a716-446655440000 (version 4). Any thread. */
enum { UID_MAX = 37 };
const char *uid_new(char buf[UID_MAX]);

struct object *object_ref(struct object *o); /* any thread */
void object_unref(struct object *o);	     /* any thread; NULL is fine */
void object_unref_ptr(struct object **o);    /* _cleanup_ */
/* Prints root (members kind and apiVersion left out) as an object of version rv. root has all of its metadata
 * but the resourceVersion. NULL: out of memory. */
struct object *object_new(struct kind *kind, struct doc *d, struct doc_node *root, uint64_t rv);

struct object *storage_find(struct kind *kind, struct span namespace, struct span name); /* borrowed, NULL */
/* Where namespace/name is or would be. */
size_t storage_position(const struct kind *kind, struct span namespace, struct span name, bool *ret_found);
/* Adds or replaces (takes the reference) and records the event; o->rv must be s->rv + 1. -ENOSPC: bytes_max;
 * o is then unreferenced. */
int storage_put(struct storage *s, struct object *o);
/* Removes what stands under o's name; o (the last state, version s->rv + 1) becomes the event's object. Takes
 * the reference. */
void storage_remove(struct storage *s, struct object *o);
/* Wakes the collector. */
void storage_touch(struct storage *s);

/* The state of kind at version rv: references in order, from position (namespace, name) on, exclusive if
 * `after`. Only namespace if not absent. At most max of those that match says yes to (NULL: all). ret_more:
 * how many matched beyond. -ESTALE if the history does not reach back to rv. Caller unrefs and frees. */
struct snapshot {
	struct object **objects;
	size_t n, more;
};
typedef bool match_fn(const struct object *o, void *ctx);
int storage_snapshot(struct storage *s, struct kind *kind, uint64_t rv, struct span namespace,
		     struct span after_namespace, struct span after_name, bool after, size_t max,
		     match_fn *match, void *ctx, struct snapshot *ret);
void snapshot_done(struct snapshot *snap);

/* Number of the first event later than rv; -ESTALE if there were later ones that are gone, or rv is not of
 * this life. */
int storage_event_after(struct storage *s, const struct kind *kind, uint64_t rv, uint64_t *ret_number);
/* The event of that number: NULL if not there yet; *ret_lost if it is gone. Borrowed until the lock is let
 * go. */
const struct event *storage_event(const struct kind *kind, uint64_t number, bool *ret_lost);
