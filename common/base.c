#include "base.h"
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(err->text, sizeof err->text, fmt, ap);
		va_end(ap);
	}
	return code;
}

int err_prefix(struct err *err, int code, const char *fmt, ...)
{
	if (err) {
		/* The old text moves to the right, as far as there is room, and the prefix goes before it. */
		char prefix[sizeof err->text - 2];
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(prefix, sizeof prefix, fmt, ap);
		va_end(ap);
		size_t n = strlen(prefix), room = sizeof err->text - n - 2,
		       len = MIN(strlen(err->text), room - 1);
		memmove(err->text + n + 2, err->text, len);
		memcpy(err->text, prefix, n);
		memcpy(err->text + n, ": ", 2);
		err->text[n + 2 + len] = 0;
	}
	return code;
}

/* ---- memory ---- */

/* A program cannot go on without this memory: it ends where its supervisor sees why, and a fresh process
 * recovers. */
static void *must(void *p)
{
	if (!p) {
		static const char text[] = "out of memory\n";
		_unused_ ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
		abort();
	}
	return p;
}

void *xmalloc(size_t n)
{
	return must(malloc(n ? n : 1));
}

void *xcalloc(size_t n, size_t size)
{
	return must(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n)
{
	return must(realloc(p, n ? n : 1));
}

char *xstrdup(const char *s)
{
	return must(strdup(s));
}

char *xasprintf(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return must(n < 0 ? NULL : text);
}

char *span_dup(struct span s)
{
	char *copy = xmalloc(s.len + 1);
	if (s.len)
		memcpy(copy, s.at, s.len);
	copy[s.len] = 0;
	return copy;
}

void free_ptr(void *p)
{
	free(*(void **)p);
}

void close_fd(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		close(*fd);
		errno = saved;
		*fd = -1;
	}
}

/* ---- clocks ---- */

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t); /* cannot fail: a clock that every Linux has, and a valid address */
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_boottime_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

int64_t clock_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

bool error_is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -EIO;
}

char *format_rfc3339(int64_t unix_seconds, char buf[21])
{
	/* Years 0000 to 9999 are what RFC 3339 can say. */
	static const int64_t least = INT64_C(-62167219200), most = INT64_C(253402300799);
	time_t t = (time_t)MIN(MAX(unix_seconds, least), most);
	struct tm tm;
	gmtime_r(&t, &tm);
	strftime(buf + 4, 17, "-%m-%dT%H:%M:%SZ", &tm);
	int year = tm.tm_year + 1900;
	for (int at = 3; at >= 0; at--, year /= 10) /* %Y would not pad */
		buf[at] = (char)('0' + year % 10);
	return buf;
}

char *format_boottime(int64_t at_ns, int64_t now_ns, char buf[21])
{
	return format_rfc3339((clock_realtime_ns() - (now_ns - at_ns)) / NS_PER_S, buf);
}

/* The number that n digits make, or -1. */
static int digits(const char *at, int n)
{
	int value = 0;
	for (; n; n--, at++) {
		if (*at < '0' || *at > '9')
			return -1;
		value = value * 10 + (*at - '0');
	}
	return value;
}

int parse_rfc3339(struct span text, int64_t *ret_unix_seconds)
{
	static const int month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	char t[48];
	if (text.len < 20 || text.len >= sizeof t)
		return -EINVAL;
	memcpy(t, text.at, text.len);
	t[text.len] = 0;
	if (t[4] != '-' || t[7] != '-' || (t[10] | 0x20) != 't' || t[13] != ':' || t[16] != ':')
		return -EINVAL;
	struct tm tm = {.tm_year = digits(t, 4) - 1900,
			.tm_mon = digits(t + 5, 2) - 1,
			.tm_mday = digits(t + 8, 2),
			.tm_hour = digits(t + 11, 2),
			.tm_min = digits(t + 14, 2),
			.tm_sec = digits(t + 17, 2)};
	if (tm.tm_year < -1900 || tm.tm_mon < 0 || tm.tm_mon > 11 || tm.tm_mday < 1 ||
	    tm.tm_mday > month_days[tm.tm_mon] || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
	    tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
		return -EINVAL;
	const char *zone = t + 19;
	if (*zone == '.' && (zone[1] < '0' || zone[1] > '9'))
		return -EINVAL;
	if (*zone == '.')
		zone += 1 + strspn(zone + 1, "0123456789");
	int64_t offset = 0;
	if (*zone == '+' || *zone == '-') {
		if (strlen(zone) != 6 || zone[3] != ':')
			return -EINVAL;
		int hours = digits(zone + 1, 2), minutes = digits(zone + 4, 2);
		if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
			return -EINVAL;
		offset = (*zone == '-' ? -60 : 60) * (hours * 60 + minutes);
	} else if ((*zone | 0x20) != 'z' || zone[1]) {
		return -EINVAL;
	}
	*ret_unix_seconds = (int64_t)timegm(&tm) - offset;
	return 0;
}

/* ---- hashes and chance ---- */

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *at = p;
	for (size_t i = 0; i < n; i++)
		seed = (seed ^ at[i]) * UINT64_C(1099511628211);
	return seed;
}

/* At most 256 bytes: getrandom then gives all of them at once, or waits for the first seeding after boot. */
static void random_bytes(void *p, size_t n)
{
	while (getrandom(p, n, 0) != (ssize_t)n)
		if (errno != EINTR)
			abort();
}

char *random_id(char buf[33])
{
	unsigned char bytes[16];
	random_bytes(bytes, sizeof bytes);
	for (size_t i = 0; i < sizeof bytes; i++) {
		buf[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		buf[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	buf[32] = 0;
	return buf;
}

uint64_t random_below(uint64_t below)
{
	if (below <= 1)
		return 0;
	/* Values under `uneven` would make the small remainders likelier. */
	uint64_t value, uneven = -below % below;
	do
		random_bytes(&value, sizeof value);
	while (value < uneven);
	return value % below;
}
