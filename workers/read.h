/* Get and List of a coprocess: objects of declared kinds, from the cache or live. */
#pragma once
#include "kinds.h"

#define READ_ANSWER_MAX (UINT64_C(16) << 20) /* bytes of one answer; above it the answer is an error */
enum { READ_LIVE_TIMEOUT_MS = 5000 };

struct reads {
	struct kinds *kinds;
	struct http_client *http;
	bool live_done; /* set when the API server was asked */
};

/* line: one message whose kind is Get or List, checked JSON; uid: of the request that runs. Appends the
 * answer with its newline. What cannot be read is an answer too ({"error":{...}}); -EPROTO: the message
 * itself is wrong, and the program breaks the protocol. */
int read_answer_line(struct reads *r, struct span line, const char *uid, struct buf *out, struct err *err);
/* Is the line's kind Get or List? */
bool read_is_one(struct span line);
