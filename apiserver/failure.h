/* Why a request was refused, as the field reads it: metav1.Status. The messages are those of a Kubernetes API
 * server, because tools and people match on them. Functions that fill one return -ECANCELED: "the reason
 * stands in the failure". */
#pragma once
#include "buf.h"

struct cause {
	const char *reason; /* FieldValueInvalid, FieldValueRequired, FieldManagerConflict, ...; static */
	char field[256];
	char message[512];
};

enum { FAILURE_CAUSES_MAX = 16 };

struct failure {
	int code;	    /* HTTP; 0: nothing failed */
	const char *reason; /* static */
	char message[2048];
	char name[NAME_MAX_LEN + 1], group[NAME_MAX_LEN + 1], kind[NAME_MAX_LEN + 1],
	    uid[64]; /* details; empty: left out */
	struct cause causes[FAILURE_CAUSES_MAX];
	size_t n_causes;
	int retry_after; /* seconds; 0: none */
	bool bare;	 /* details are there and empty: tools look for the member */
};

/* Sets code, reason and message; details stay as they are. */
int fail(struct failure *f, int code, const char *reason, const char *fmt, ...) _printf_(4, 5);
int fail_bad_request(struct failure *f, const char *fmt, ...) _printf_(2, 3);
/* group "" is core; resource: the plural. */
int fail_not_found(struct failure *f, const char *group, const char *resource, struct span name);
int fail_no_route(struct failure *f); /* 404 for a path that nothing is served at */
int fail_method(struct failure *f);
int fail_exists(struct failure *f, const char *group, const char *resource, struct span name);
int fail_conflict(struct failure *f, const char *group, const char *resource, struct span name,
		  const char *fmt, ...) _printf_(5, 6);
int fail_forbidden(struct failure *f, const char *group, const char *resource, struct span name,
		   const char *fmt, ...) _printf_(5, 6);
int fail_expired(struct failure *f, const char *fmt, ...) _printf_(2, 3);
int fail_too_large(struct failure *f, uint64_t version, uint64_t current); /* a resourceVersion to come */

/* Adds one finding to a 422. kind and name say which object; fail_invalid_done makes the message of all of
 * them and returns 0 if there was none. More findings than FAILURE_CAUSES_MAX are cut. */
void invalid(struct failure *f, const char *reason, const char *field, const char *fmt, ...) _printf_(4, 5);
int invalid_done(struct failure *f, const char *group, const char *kind, struct span name);

/* The Status object. */
void failure_print(const struct failure *f, struct buf *out);
