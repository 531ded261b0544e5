#include "log.h"
#include "buf.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>
/* File and line are the caller's affair here, and log_write is everybody's caller. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

enum {
	LINE_MAX_BYTES = 8192,
	LINE_RESERVE = 16, /* what must fit behind a cut: a quote, the mark, the line's end */
	FIELDS_MAX = 32,
	UTF8_MAX = 4,
};

/* A line under construction: pieces are put whole or not at all, and after one that did not fit nothing more
 * is. */
struct line {
	size_t len;
	bool cut;
	char at[LINE_MAX_BYTES];
};

enum quoting { QUOTE_TEXT, QUOTE_JSON, QUOTE_NONE };

static const char *program = "reconciled";
static enum log_level threshold = LOG_LEVEL_INFO;
static enum log_format output = LOG_FORMAT_TEXT;
static bool to_journal;
static atomic_uint_fast64_t lost;
static pthread_mutex_t one_line_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char *const format_names[] = {"auto", "text", "json"};

static bool word_parse(const char *word, const char *const *names, size_t n, size_t *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (word && strcmp(word, names[i]) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

bool log_level_parse(const char *word, enum log_level *ret)
{
	size_t i;
	bool known = word_parse(word, level_names, ARRAY_SIZE(level_names), &i);
	if (known)
		*ret = (enum log_level)i;
	return known;
}

bool log_format_parse(const char *word, enum log_format *ret)
{
	size_t i;
	bool known = word_parse(word, format_names, ARRAY_SIZE(format_names), &i);
	if (known)
		*ret = (enum log_format)i;
	return known;
}

/* systemd says in JOURNAL_STREAM which file stderr was at the start; it may have been redirected since. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_init(const char *name, enum log_level level, enum log_format format)
{
	program = name;
	threshold = level;
	to_journal = format == LOG_FORMAT_AUTO && stderr_is_journal();
	output = format == LOG_FORMAT_JSON ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
}

uint64_t log_lost(void)
{
	return atomic_load(&lost);
}

/* ---- building a line ---- */

static void put(struct line *l, const char *bytes, size_t n)
{
	/* A closing quote may have gone into the reserve: l->len alone can be above the limit. */
	if (l->cut || l->len + n > LINE_MAX_BYTES - LINE_RESERVE) {
		l->cut = true;
		return;
	}
	memcpy(l->at + l->len, bytes, n);
	l->len += n;
}

static void put_text(struct line *l, const char *text)
{
	put(l, text, strlen(text));
}

/* Into the reserve: only what closes a line. */
static void close_line(struct line *l, const char *text)
{
	size_t n = strlen(text);
	if (n <= LINE_MAX_BYTES - l->len) {
		memcpy(l->at + l->len, text, n);
		l->len += n;
	}
}

/* U+0000 to U+FFFF of one to three valid bytes; what is longer is never escaped. */
static unsigned code_point(const unsigned char *s, size_t n)
{
	return n == 1	? s[0]
	       : n == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
	       : n == 3 ? (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu)
			: 0x10000;
}

/* Controls (C0, DEL, C1) and whatever else a reader may take for the end of a line. */
static bool must_escape(unsigned c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029;
}

static void put_escaped(struct line *l, struct span value, enum quoting quoting)
{
	for (size_t i = 0; i < value.len && !l->cut;) {
		const char *at = value.at + i;
		unsigned char byte = (unsigned char)*at;
		size_t n = utf8_valid(at, value.len - i);
		unsigned c = code_point((const unsigned char *)at, n);
		char escaped[8];
		if (!n && quoting == QUOTE_JSON)
			put_text(l, "\xef\xbf\xbd");
		else if (!n)
			put(l, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", byte));
		else if (c == '\n')
			put_text(l, "\\n");
		else if (c == '\t')
			put_text(l, "\\t");
		else if (must_escape(c))
			put(l, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
		else if (quoting != QUOTE_NONE && (byte == '"' || byte == '\\'))
			put(l, (char[]){'\\', *at}, 2);
		else
			put(l, at, n);
		i += n ? n : 1;
	}
}

/* A value without blanks, quotes, '=' and bytes to escape can stand bare after its key. */
static bool is_bare(struct span value)
{
	for (size_t i = 0; i < value.len;) {
		const char *at = value.at + i;
		size_t n = utf8_valid(at, value.len - i);
		if (!n || strchr(" \"=\\", *at) || must_escape(code_point((const unsigned char *)at, n)))
			return false;
		i += n;
	}
	return value.len > 0;
}

/* False: not even its beginning fits. */
static bool put_quoted(struct line *l, struct span value, enum quoting quoting)
{
	put_text(l, "\"");
	if (l->cut)
		return false;
	put_escaped(l, value, quoting);
	close_line(l, "\"");
	return true;
}

/* The field's value as text; a number and an errno are written to scratch. */
static struct span field_text(const struct log_field *f, char scratch[128])
{
	switch (f->kind) {
	case LOG_STRING:
		return span_of(f->text ? f->text : "");
	case LOG_SPAN:
		return (struct span){f->text, f->text ? (size_t)f->num : 0};
	case LOG_INT:
		snprintf(scratch, 128, "%lld", (long long)f->num);
		return span_of(scratch);
	case LOG_ERRNO:
		return span_of(strerror_r((int)(f->num < 0 ? -f->num : f->num), scratch, 128));
	}
	return span_of("");
}

static void put_fields_text(struct line *l, const struct log_field *fields)
{
	char scratch[128];
	for (const struct log_field *f = fields; f->name && !l->cut; f++) {
		struct span value = field_text(f, scratch);
		put_text(l, " ");
		put_text(l, f->name);
		put_text(l, "=");
		if (is_bare(value))
			put_escaped(l, value, QUOTE_NONE);
		else
			put_quoted(l, value, QUOTE_TEXT);
	}
}

/* A member is there with its value, or with the beginning of its text, or not at all: the line is JSON
 * wherever it was cut. */
static void put_fields_json(struct line *l, const struct log_field *fields)
{
	char scratch[128];
	for (const struct log_field *f = fields; f->name && !l->cut; f++) {
		struct span value = field_text(f, scratch);
		size_t before = l->len;
		put_text(l, ",\"");
		put_text(l, f->name);
		put_text(l, "\":");
		bool whole = !l->cut;
		if (f->kind == LOG_INT) {
			put(l, value.at, value.len);
			whole = !l->cut;
		} else if (whole) {
			whole = put_quoted(l, value, QUOTE_JSON);
		}
		if (!whole)
			l->len = before;
	}
}

static void put_time(struct line *l)
{
	char time[21], fraction[8];
	int64_t now = clock_realtime_ns();
	format_rfc3339(now / NS_PER_S, time);
	snprintf(fraction, sizeof fraction, ".%03dZ", (int)(now % NS_PER_S / NS_PER_MS) % 1000);
	put(l, time, 19);
	put_text(l, fraction);
}

/* ---- writing it ---- */

static void write_line(const struct line *l)
{
	pthread_mutex_lock(&one_line_at_a_time);
	for (size_t at = 0; at < l->len;) {
		ssize_t n = write(STDERR_FILENO, l->at + at, l->len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			atomic_fetch_add(&lost, 1);
			break;
		}
		at += (size_t)n;
	}
	pthread_mutex_unlock(&one_line_at_a_time);
}

static void write_text(enum log_level level, const char *message, const struct log_field *fields)
{
	struct line l = {.len = 0};
	put_time(&l);
	put_text(&l, " ");
	put_text(&l, level_names[level]);
	put_text(&l, " ");
	put_text(&l, program);
	put_text(&l, " ");
	put_escaped(&l, span_of(message), QUOTE_NONE);
	put_fields_text(&l, fields);
	close_line(&l, l.cut ? " [cut]\n" : "\n");
	write_line(&l);
}

static void write_json(enum log_level level, const char *message, const struct log_field *fields)
{
	struct line l = {.len = 0};
	put_text(&l, "{\"time\":\"");
	put_time(&l);
	put_text(&l, "\",\"level\":\"");
	put_text(&l, level_names[level]);
	put_text(&l, "\",\"program\":");
	put_quoted(&l, span_of(program), QUOTE_JSON);
	put_text(&l, ",\"msg\":");
	put_quoted(&l, span_of(message), QUOTE_JSON);
	put_fields_json(&l, fields);
	close_line(&l, l.cut ? ",\"cut\":true}\n" : "}\n");
	write_line(&l);
}

/* MESSAGE reads as the text line does; each field is also one of the journal, as RECONCILED_NAME, so that
 * none (a priority) can be taken for one of the journal's own. */
static int write_journal(enum log_level level, const char *message, const struct log_field *fields)
{
	static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
	struct line text = {.len = 0}, rest = {.len = 0};
	struct iovec iov[3 + FIELDS_MAX];
	char priority[16], identifier[64], scratch[128];
	int n = 0;

	put_text(&text, "MESSAGE=");
	put_escaped(&text, span_of(message), QUOTE_NONE);
	put_fields_text(&text, fields);
	close_line(&text, text.cut ? " [cut]" : "");
	iov[n++] = (struct iovec){text.at, text.len};
	snprintf(priority, sizeof priority, "PRIORITY=%d", priorities[level]);
	iov[n++] = (struct iovec){priority, strlen(priority)};
	snprintf(identifier, sizeof identifier, "SYSLOG_IDENTIFIER=%s", program);
	iov[n++] = (struct iovec){identifier, strlen(identifier)};
	for (const struct log_field *f = fields; f->name && n < (int)ARRAY_SIZE(iov) && !rest.cut; f++) {
		size_t start = rest.len;
		struct span value = field_text(f, scratch);
		put_text(&rest, "RECONCILED_");
		for (const char *c = f->name; *c; c++)
			put(&rest, (char[]){(char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c)}, 1);
		put_text(&rest, "=");
		put(&rest, value.at, value.len);
		if (!rest.cut)
			iov[n++] = (struct iovec){rest.at + start, rest.len - start};
	}
	return sd_journal_sendv(iov, n);
}

bool log_is_on(enum log_level level)
{
	return level <= threshold;
}

void log_write(enum log_level level, const char *message, const struct log_field *fields)
{
	if (!log_is_on(level))
		return;
	int saved = errno;
	if (to_journal && write_journal(level, message, fields) >= 0) {
		/* done */
	} else if (output == LOG_FORMAT_JSON) {
		write_json(level, message, fields);
	} else {
		write_text(level, message, fields);
	}
	errno = saved;
}
