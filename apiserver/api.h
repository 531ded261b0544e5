/* The API without HTTP: a request's words in, a response or a watch out. Takes and lets go the store's lock
 * by itself; any thread. */
#pragma once
#include "buf.h"
#include "storage.h"

enum { BODY_MAX = 3 << 20, URI_MAX = 16 << 10 };

struct api_request {
	const char *method;
	struct span uri; /* path and query as they came, percent-encoded */
	struct span body;
	const char *content_type, *accept, *user_agent; /* "" if absent */
	int64_t now;					/* seconds since the epoch */
	int64_t bookmark_interval_ns;
	bool no_watch_list; /* sendInitialEvents is refused */
};

struct watch;
struct listing;

struct api_response {
	int code;
	const char *content_type; /* static */
	const char *allow;	  /* for 405: static; else NULL */
	int retry_after;	  /* seconds; 0: none */
	struct buf body;
	struct listing *rest; /* not NULL: comes after the body */
	struct watch *watch;  /* not NULL: comes instead of a body */
};

void api_handle(struct storage *s, const struct api_request *in, struct api_response *out);
/* A Status for what is refused before the API is asked: no credentials, body too large. */
void api_refuse(struct api_response *out, int code, const char *reason, const char *message);
void api_response_done(struct api_response *out);
