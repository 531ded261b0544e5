/* What one list-and-watch stream does next. Pure: no I/O, no clock; the shell (stream.c) tells what happened
 * and does what is said.
 *
 *        +--------------------- 404 ---------------------+
 *        v                                               |
 *    DISCOVER --served--> STREAM, RELIST or LIST --complete--> WATCH --ended: again from the last resourceVersion
 *     |    ^                ^  |    ^                            |
 *     +wait+                |  +----+ not supported              |
 *                           +-----------410, nonsense------------+      each failure waits: 0.8 s doubling to 30 s,
 *                                                                       with jitter
 *
 * STREAM is the streaming list: a watch that first brings everything there is, tells where that ends, and goes on
 * as the watch. A server may refuse it or, when it never heard of it, ignore that it was asked for; then LIST is
 * asked for, page by page, and STREAM not again.
 *
 * LIST is as of now, which servers read from their store. RELIST takes the place of it where a watch told a version: it is not older
 * than that, which a server's cache can answer. When it fails, for whatever reason, LIST is next.
 *
 * Constants are client-go's reflector's: backoff 0.8 s * 2 up to 30 s, each drawn from [d, 2d); a watch asks
 * for 300 to 600 s; one that ends within a second without an event is too short: backoff and relist. The
 * backoff starts over when a watch makes progress, not when a list does: a server that lists but cannot watch
 * is not asked for lists for ever. After nonsense in a watch it starts over when one makes progress for as long as
 * was waited before it: events that are understood may well stand before each one that is not. */
#pragma once
#include "base.h"

enum reflector_phase {
	REFLECTOR_DISCOVER,
	REFLECTOR_LIST,
	REFLECTOR_RELIST,
	REFLECTOR_STREAM,
	REFLECTOR_WATCH
};

/* X(NAME): what happened. */
#define REFLECTOR_EVENTS(X)                                                                                  \
	X(SERVED)	/* discovery found the kind */                                                       \
	X(NOT_SERVED)	/* discovery did not, or list or watch got 404 */                                    \
	X(LISTED)	/* the list is complete and applied */                                               \
	X(UNSUPPORTED)	/* there is no such list here, or not now */                                         \
	X(PROGRESS)	/* a watch brought an event or a bookmark; see lived_ns */                           \
	X(ENDED)	/* a watch ended, cleanly or cut; see lived_ns, events */                            \
	X(IDLE)		/* a watch was silent for too long and was given up */                               \
	X(EXPIRED)	/* 410: the resourceVersion or the continue token is too old */                      \
	X(UNAUTHORIZED) /* 401 */                                                                            \
	X(FORBIDDEN)	/* 403 */                                                                            \
	X(UNTRUSTED)	/* TLS: certificate refused */                                                       \
	X(BUSY)		/* 429, or 5xx with Retry-After */                                                   \
	X(UNREACHABLE)	/* no connection, or cut before an answer */                                         \
	X(REFUSED)	/* any other status */                                                               \
	X(NONSENSE)	/* the answer is no list or no watch */                                              \
	X(CACHE_FULL)	/* the object does not fit into the cache's budget */                                \
	X(OUTBOX_FULL)	/* the broker takes no keys and the outbox is full */
enum reflector_event {
#define X(NAME) REFLECTOR_##NAME,
	REFLECTOR_EVENTS(X)
#undef X
};

struct reflector {
	enum reflector_phase phase;
	unsigned failures;     /* since the last progress: the exponent */
	unsigned unserved;     /* questions in a row whether the kind is served: no failures of its watch */
	unsigned watch_fails;  /* watches that could not start, in a row */
	unsigned expired;      /* 410 answers without progress in between */
	unsigned stream_fails; /* streaming lists that came to no end, in a row */
	unsigned nonsense;     /* watches that brought some, and none that went well for nonsense_ns since */
	int64_t nonsense_ns;   /* the last wait for it */
	bool paged;	       /* no streaming list for this one */
	bool newest;	       /* a RELIST failed, or a watch brought nonsense: the next list is as of now */
	bool has_version;      /* a list is complete: a watch can resume */
};

struct reflector_input {
	enum reflector_event event;
	int64_t retry_after_ns; /* -1: none */
	int64_t lived_ns;	/* ENDED, PROGRESS (after nonsense): since the watch was answered */
	uint64_t events;	/* ENDED: bookmarks included */
	double random;		/* [0, 1) */
	bool paged;		/* this server is known to have no streaming list */
	bool seen; /* RELIST may be asked for: a watch told a version, and the list is not long */
};

struct reflector_output {
	enum reflector_phase phase; /* what to do, after wait_ns */
	int64_t wait_ns;
	bool relist; /* the resourceVersion is of no use any more */
};

void reflector_init(struct reflector *r);
/* Lists as soon as the kind is known to be served; paged, seen: as in reflector_input. */
void reflector_relist(struct reflector *r, bool paged, bool seen);
struct reflector_output reflector_next(struct reflector *r, const struct reflector_input *in);
/* A watch brought nonsense, and it is not known yet that the next one does not. */
static inline bool reflector_doubts(const struct reflector *r)
{
	return r->nonsense;
}
/* How long the server is asked to keep a watch: [300, 600] seconds. */
int reflector_watch_seconds(double random);
const char *reflector_event_name(enum reflector_event e);
