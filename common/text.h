/* Long texts made short, without half characters. */
#pragma once
#include "base.h"

/* Cuts text at max bytes, not in the middle of a UTF-8 character. Returns the length. */
size_t text_cut(struct span text, size_t max);
/* Text of at most max bytes (at least 16) to `out`, of longer ones the beginning and the end: what went wrong often stands
 * in the last line. No zero byte. */
size_t text_ends(struct span text, size_t max, char *out);
