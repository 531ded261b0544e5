/* A reconciler's stderr: lines for the log, limited, and the last ones kept for messages. Pure: the clock
 * comes in. */
#pragma once
#include "buf.h"
#include "text.h"

enum {
	LINE_LOG_MAX = 2048,   /* bytes of a line that go to the log; the rest is dropped, and said */
	LINES_KEPT = 4,	       /* last lines, for DONE's message */
	LINE_KEPT_MAX = 200,   /* bytes of each of them: a quote of a program's output is never longer */
	LINES_BURST = 500,     /* lines at once */
	LINES_PER_SECOND = 100 /* and then so many */
};

struct lines {
	char part[LINE_LOG_MAX + 1];
	size_t part_len, part_lost;
	char last[LINES_KEPT][LINE_KEPT_MAX + 1];
	size_t last_count; /* ever seen, without empty ones */
	int64_t tokens_ns, tokens_at;
	uint64_t dropped; /* not logged, and not told by lines_dropped() */
	int64_t told_at;  /* when lines_dropped() last told a number */
};

typedef void (*lines_emit)(void *ctx, struct span line);

void lines_init(struct lines *l, int64_t now_ns);
/* Cuts at newlines; emit is called for each line that may be logged. Carriage returns and trailing blanks
 * go. */
void lines_feed(struct lines *l, struct span bytes, int64_t now_ns, lines_emit emit, void *ctx);
/* The end: a last line without newline counts. */
void lines_flush(struct lines *l, int64_t now_ns, lines_emit emit, void *ctx);
/* How many lines were not logged since it was last told; at most once a second, else a flood would be answered by a flood. */
uint64_t lines_dropped(struct lines *l, int64_t now_ns);
/* Another program begins, with what its predecessor left of the limit: programs that are started again and again do not
 * bring a burst each. */
void lines_next(struct lines *l);
/* Forgets the last lines: a coprocess's next request has its own. */
void lines_forget(struct lines *l);
/* The last line; "" if there was none. */
const char *lines_last(const struct lines *l);
/* The last lines, oldest first, joined by " | ". */
void lines_tail(const struct lines *l, struct buf *out);

/* ---- quoting it ---- */

/* Nothing but spaces, tabs and carriage returns. */
bool text_is_blank(struct span line);
/* "\"at most 200 bytes\"..." with control bytes escaped: how a program's output is quoted in messages.
 * What has its quotes already (a string of JSON) gets no others. Returns buf. */
enum { QUOTE_MAX = 200, QUOTE_ROOM = QUOTE_MAX * 4 + 8 };
const char *text_quote(struct span text, char buf[QUOTE_ROOM]);
