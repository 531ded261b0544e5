/* What the parts of a stream share: stream.c (requests and their answers, step by step) and stream_items.c (what
 * an answer brings). */
#pragma once
#include "watcher.h"

/* A discovery, a list of several pages, a watch, or a watch that first brings the list: its phase then changes
 * from STREAM to WATCH. */
struct exchange {
	struct stream *stream;
	enum reflector_phase phase;
	struct http_transfer *transfer;
	struct json_stream *json;
	struct buf body; /* of an answer that is no 200 */
	struct buf path;
	struct http_request request;
	int64_t started_ns;  /* of the answer; of the watch, when a list came first */
	uint64_t events;     /* of the watch */
	int64_t idle_ms;     /* of the watch, before bookmarks say better */
	int64_t bookmark_ns; /* when the last one came */
	bool failed;	     /* by an item: event, retry_after_ms and err say how */
	enum reflector_event event;
	int64_t retry_after_ms; /* -1: none */
	struct err err;
	/* DISCOVER */
	bool in_group;	      /* the kind is not where it was looked for first */
	bool told_apart;      /* what was found there is a list of kinds without it */
	struct buf versions;  /* of its group but that one, each with its NUL */
	size_t version_at;    /* the next one to ask */
	const char *question; /* in versions: what is asked now; NULL: none of them */
	/* LIST, RELIST and STREAM */
	struct buf continue_token;
	struct buf version;
	uint64_t not_older; /* RELIST: what was asked for */
	bool is_list;	    /* its kind says so */
	bool full;	    /* not every object found room */
	struct counts counts;
	unsigned pages; /* 0: streamed */
};

/* ---- stream.c ---- */

void stream_start_request(struct stream *s);
/* The exchange is over, and freed here. retry_after_ms: -1 for none. */
void stream_end_exchange(struct stream *s, enum reflector_event event, int64_t retry_after_ms,
			 const struct err *err);
/* How long the watch may be silent. */
int64_t stream_watch_idle_ms(const struct exchange *x);

/* ---- stream_discovery.c ---- */

/* Another namespace's stream asks, and wakes this one. */
bool stream_waits_for_discovery(const struct stream *s);
void stream_discovery_path(const struct stream *s, struct buf *path); /* what to ask now */
/* The answer is whole in the exchange's body. */
void stream_discovered(struct stream *s, int status);

/* ---- stream_items.c ---- */

extern const struct json_stream_ops stream_list_ops, stream_watch_ops;

/* The list is whole: what it did not bring is gone. *ret_again: it has to be asked for again, for what is gone
 * has made room. Fails as fail_item told x. */
int stream_list_complete(struct exchange *x, bool *ret_again);
/* The watch runs: what is said of the stream. */
void stream_watch_began(struct stream *s);
