/* Messages as plain structs. The only user of msgpack.
 *
 * Encode: fill a struct, wire_encode. Decode: wire_decode first runs an allocation-free scan (depth, counts
 * against bytes left, exact end), then fills a struct whose texts and lists live in a caller-owned arena
 * buffer until wire_done; texts are spans into that copy. Thread rule: none shared; any thread. Limits and
 * names: wire.def. */
#pragma once
#include "buf.h"
#include "wire.def"

#define WIRE_MAX_BYTES (8u << 20) /* of one message; senders check, receivers refuse */

enum wire_type { /* 0 is no type */
		 WIRE_NONE,
#define X(NAME, name) WIRE_TYPE_##NAME,
		 WIRE_MESSAGES(X)
#undef X
		     WIRE_TYPE_COUNT
};
enum wire_role {
#define X(NAME, text) WIRE_ROLE_##NAME,
	WIRE_ROLES(X)
#undef X
	    WIRE_ROLE_COUNT
};
enum wire_cause {
#define X(NAME, text) WIRE_CAUSE_##NAME,
	WIRE_CAUSES(X)
#undef X
	    WIRE_CAUSE_COUNT
};
enum wire_outcome {
#define X(NAME, text, failure, quarantine) WIRE_OUTCOME_##NAME,
	WIRE_OUTCOMES(X)
#undef X
	    WIRE_OUTCOME_COUNT
};
enum wire_timer {
#define X(NAME, text) WIRE_TIMER_##NAME,
	WIRE_TIMERS(X)
#undef X
	    WIRE_TIMER_COUNT
};
#define WIRE_DELAY_MS_MOST INT64_C(3153600000000) /* 100 years of 365 days */
enum wire_wish {
#define X(NAME, text) WIRE_WISH_##NAME,
	WIRE_WISHES(X)
#undef X
	    WIRE_WISH_COUNT
};
#define WIRE_SCALE_AUTO UINT32_MAX /* number of SCALE: as the controller's file says */
enum wire_state {
#define X(NAME, text) WIRE_STATE_##NAME,
	WIRE_STATES(X)
#undef X
	    WIRE_STATE_COUNT
};
enum wire_refusal {
#define X(NAME, text) WIRE_REFUSAL_##NAME,
	WIRE_REFUSALS(X)
#undef X
	    WIRE_REFUSAL_COUNT
};

#define WIRE_FIELD_U32(n)	uint32_t n;
#define WIRE_FIELD_U64(n)	uint64_t n;
#define WIRE_FIELD_I64(n)	int64_t n;
#define WIRE_FIELD_BOOL(n)	bool n;
#define WIRE_FIELD_TEXT(n, max) struct span n;
#define WIRE_FIELD_LIST(n, record, max)                                                                      \
	struct {                                                                                             \
		const struct wire_##record *at;                                                              \
		size_t len;                                                                                  \
	} n;
#define WIRE_STRUCT(NAME, name)                                                                              \
	struct wire_##name {                                                                                 \
		WIRE_##NAME(WIRE_FIELD_U32, WIRE_FIELD_U64, WIRE_FIELD_I64, WIRE_FIELD_BOOL,                 \
			    WIRE_FIELD_TEXT, WIRE_FIELD_LIST)                                                \
	};
WIRE_RECORDS(WIRE_STRUCT)
WIRE_MESSAGES(WIRE_STRUCT)

struct wire {
	enum wire_type type;
	union {
#define X(NAME, name) struct wire_##name name;
		WIRE_MESSAGES(X)
#undef X
	};
	void *arena; /* internal; of decoded messages */
};

/* Appends the encoding. -EMSGSIZE when a text, list or the whole passes its limit (err names the field). */
int wire_encode(const struct wire *m, struct buf *out, struct err *err);
/* -EINVAL on anything but exactly one known message within its limits; err says what and at which byte.
 * Allocates nothing before the scan has passed. Free with wire_done. */
int wire_decode(struct span bytes, struct wire *ret, struct err *err);
void wire_done(struct wire *m); /* safe on a zeroed or encoded-only struct */

const char *wire_type_name(enum wire_type t); /* "HELLO" */
const char *wire_role_name(uint32_t v);	      /* these accept any number: unknown is "?" */
const char *wire_cause_name(uint32_t v);
const char *wire_outcome_name(uint32_t v);
const char *wire_wish_name(uint32_t v);
const char *wire_state_name(uint32_t v);
const char *wire_refusal_name(uint32_t v);
bool wire_outcome_is_failure(uint32_t v);
bool wire_outcome_quarantines(uint32_t v);
