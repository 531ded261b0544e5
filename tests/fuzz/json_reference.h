/* JSON read in the plainest way, by recursion, byte by byte: what the scanner is compared with. Shares no line with it. */
#pragma once
#include "buf.h"

/* The end of the value that starts at text[at], which is no white space. */
enum { REFERENCE_WRONG = -1, REFERENCE_ENDS = -2 /* the text ends within it */ };
long reference_value(struct span text, size_t at, unsigned depth);
size_t reference_space(struct span text, size_t at);
/* Of a good text: is the string at text[at] this, once unescaped? */
bool reference_string_is(struct span text, size_t at, const char *name);

/* What a stream has to hand out: "item VALUE\n" and "member KEY VALUE\n"; 0, -EINVAL or -EPROTO. */
int reference_watch(struct span text, struct buf *log);
int reference_list(struct span text, struct buf *log);
