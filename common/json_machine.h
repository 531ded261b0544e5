/* The grammar of RFC 8259 as a machine that is fed bytes in any pieces: json_scan.c checks whole values with
 * it, json_stream.c values that arrive in chunks. It looks at each byte once and keeps one bit per level
 * instead of a stack of calls. */
#pragma once
#include "json_scan.h"

struct json_machine {
	uint8_t state;
	uint8_t hex_left;				/* digits still to come of \uXXXX */
	bool in_key;					/* the string at hand is a member's name */
	uint16_t depth;					/* open containers */
	const char *literal;				/* what is still to come of true, false, null */
	const char *wrong;				/* after a refusal: why */
	uint64_t is_object[(JSON_MAX_DEPTH + 63) / 64]; /* one bit per open container */
};

/* Ready for one value, white space before it allowed. */
void json_machine_init(struct json_machine *m);
/* Takes bytes until the value is complete (*ret_complete) or they are used up; returns how many were taken. A
 * number's end is known only by the byte after it, which is not taken. Refused: returns how many bytes were
 * good, and m->wrong is set. */
size_t json_machine_run(struct json_machine *m, const char *at, size_t n, bool *ret_complete);
/* At the end of input: is the value complete (a number at the top may be)? */
bool json_machine_may_end(const struct json_machine *m);

static inline bool json_is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
/* How many bytes at the start are neither '"' nor '\' nor below 0x20. */
size_t json_plain_bytes(const char *at, size_t n);
/* In checked text: the end of the container whose opening bracket is at text[at]. */
size_t json_skip_container(struct span text, size_t at);
/* In checked text: the end of the string whose opening quote is at text[at]. */
size_t json_string_end(struct span text, size_t at);
