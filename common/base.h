/* What every module uses: error text, cleanup, spans, clocks.
 *
 * Error convention. A function that can fail returns 0 (or a count) and a negative errno on failure. Where a
 * person will read the reason it takes, last, a caller-owned `struct err *`, which may be NULL; the text says
 * what was wrong, where, and what to do. Outputs are named ret_*, come before the err, and are untouched on
 * failure. common/ never logs and never exits: programs do.
 *
 * Ownership shows in the name: x_new/x_free for heap objects, x_init/x_done for embedded ones. Free and done
 * accept NULL and a zeroed struct. */
#pragma once
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define _cleanup_(f)	    __attribute__((cleanup(f)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _unused_	    __attribute__((unused))
#define _inline_	    static inline __attribute__((always_inline))
#define ARRAY_SIZE(a)	    (sizeof(a) / sizeof(*(a)))
#define MIN(a, b)	    ((a) < (b) ? (a) : (b))
#define MAX(a, b)	    ((a) > (b) ? (a) : (b))

/* Limits of Kubernetes names (RFC 1123 subdomain 253, label 63) plus '/'. */
enum { NAME_MAX_LEN = 253, NAMESPACE_MAX_LEN = 63, KEY_MAX_LEN = NAMESPACE_MAX_LEN + 1 + NAME_MAX_LEN };

struct err {
	char text[1024]; /* always terminated; empty when nothing failed */
};

/* Writes the text (cut at its room) and returns code, so that `return err_set(err, -EINVAL, ...)` is one
 * line. */
int err_set(struct err *err, int code, const char *fmt, ...) _printf_(3, 4);
/* Puts "what: " before the text that is there. Returns code. */
int err_prefix(struct err *err, int code, const char *fmt, ...) _printf_(3, 4);

/* Bytes that somebody else owns; not terminated. {NULL, 0} is "absent", {"", 0} is "empty". */
struct span {
	const char *at;
	size_t len;
};
#define SPAN_FMT    "%.*s"
#define SPAN_ARG(s) (int)(s).len, (s).at
static inline struct span span_of(const char *text)
{
	return (struct span){text, text ? strlen(text) : 0};
}
/* Are the first n bytes of both equal, and the last n? n is constant: 1, 4, or 8; they may overlap. */
_inline_ bool ends_eq(const char *a, const char *b, size_t len, size_t n)
{
	uint64_t x[2] = {0}, y[2] = {0};
	memcpy(&x[0], a, n);
	memcpy(&y[0], b, n);
	memcpy(&x[1], a + len - n, n);
	memcpy(&y[1], b + len - n, n);
	return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}
/* Without a call, so that who is in a hurry has nothing to put aside for one. Made for names: from 32 bytes on it is a loop. */
_inline_ bool span_eq_inline(struct span a, struct span b)
{
	if (a.len != b.len)
		return false;
	if (a.len < 4)
		return !a.len || (ends_eq(a.at, b.at, a.len, 1) && a.at[a.len / 2] == b.at[a.len / 2]);
	if (a.len < 8)
		return ends_eq(a.at, b.at, a.len, 4);
	if (!ends_eq(a.at, b.at, a.len, 8))
		return false;
	/* What is between these 16 bytes, from both sides. */
	for (size_t i = 8; i < a.len - i; i += 8)
		if (!ends_eq(a.at + i, b.at + i, a.len - 2 * i, 8))
			return false;
	return true;
}
/* Of at most 32 bytes without a call: most names are. */
static inline bool span_eq(struct span a, struct span b)
{
	return a.len <= 32 ? span_eq_inline(a, b) : a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}
static inline bool span_is(struct span a, const char *text)
{
	return span_eq(a, span_of(text));
}
/* A terminated copy, owned by the caller; aborts when memory is out (as xmalloc). */
char *span_dup(struct span s);

/* Small allocations that a program cannot go on without: these abort() with a message when memory is out.
 * What a peer or a user can make large uses malloc and refuses. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) _printf_(1, 2);

void free_ptr(void *p); /* _cleanup_(free_ptr) char *p */
void close_fd(int *fd); /* _cleanup_(close_fd) int fd = -1; keeps errno */
/* Takes a descriptor out of the care of close_fd. */
static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

/* Nanoseconds. BOOTTIME goes on while the host sleeps and is what leases and deadlines between processes
 * use. */
int64_t clock_boottime_ns(void);
int64_t clock_realtime_ns(void);
/* Is this negative errno a want of the system's, which another try may not meet? Descriptors, memory, a disk that answers. */
bool error_is_shortage(int error);
enum { NS_PER_MS = 1000000, NS_PER_US = 1000 };
#define NS_PER_S INT64_C(1000000000)

/* "2026-09-30T12:00:30Z" for seconds since the epoch; buf needs 21 bytes. Returns buf. */
char *format_rfc3339(int64_t unix_seconds, char buf[21]);
/* The same of a time of CLOCK_BOOTTIME, by what the wall clock says at `now`: it may be set meanwhile. */
char *format_boottime(int64_t at_ns, int64_t now_ns, char buf[21]);

/* Seconds since the epoch of an RFC 3339 time, a fraction cut off: "2026-09-30T12:00:30.5+02:00". -EINVAL. */
int parse_rfc3339(struct span text, int64_t *ret_unix_seconds);

/* FNV-1a, 64 bits: index hashes and digests that only have to differ by accident. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
#define HASH_SEED UINT64_C(14695981039346656037)

/* A 32-hex-digit random id (16 bytes of getrandom); buf needs 33 bytes. Returns buf. */
char *random_id(char buf[33]);
/* Uniform in [0, below). */
uint64_t random_below(uint64_t below);
