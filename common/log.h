/* Structured log, one line an entry. Programs log; common/ does not.
 *
 *   log_info("key granted", LOG_S("controller", name), LOG_I("slot", slot));
 *
 * Where it goes: to the journal when stderr is the journal (JOURNAL_STREAM matches), with each field as
 * RECONCILED_NAME; else to stderr as `time level program message key=value ...`, or as one JSON object a line
 * (time, level, program, msg, the fields) with --log-format=json. A value is quoted when it has blanks,
 * quotes or '='; control bytes and invalid UTF-8 are escaped, so that no input makes a second line. A line is
 * cut at 8 KiB with a mark ([cut], in JSON "cut":true). Thread-safe. Never fails: what cannot be written is
 * counted (log_lost). */
#pragma once
#include "base.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct log_field {
	const char *name; /* NULL ends the list; [a-z_]+ */
	enum { LOG_STRING, LOG_SPAN, LOG_INT, LOG_ERRNO } kind;
	const char *text;
	int64_t num; /* number, span length, or positive/negative errno */
};
#define LOG_S(name, value) ((struct log_field){name, LOG_STRING, value, 0})
#define LOG_SP(name, span) ((struct log_field){name, LOG_SPAN, (span).at, (int64_t)(span).len})
#define LOG_I(name, value) ((struct log_field){name, LOG_INT, NULL, (int64_t)(value)})
#define LOG_E(code)	   ((struct log_field){"error", LOG_ERRNO, NULL, code})

/* program: kept, not copied. Before the first log call. */
void log_init(const char *program, enum log_level level, enum log_format format);
/* "error", "warning", "info", "debug" / "auto", "text", "json". Returns false on any other word. */
bool log_level_parse(const char *word, enum log_level *ret);
bool log_format_parse(const char *word, enum log_format *ret);
bool log_is_on(enum log_level level); /* is a line of this level written? */
void log_write(enum log_level level, const char *message, const struct log_field *fields);
uint64_t log_lost(void);

/* The fields of a line that is not written are not evaluated: a debug line costs nothing where it is off. */
#define log_at(level, message, ...)                                                                          \
	({                                                                                                   \
		enum log_level log_level_ = (level);                                                         \
		if (log_is_on(log_level_))                                                                   \
			log_write(log_level_, message,                                                       \
				  (const struct log_field[]){                                                \
				      __VA_ARGS__ __VA_OPT__(, ){NULL, LOG_STRING, NULL, 0}});               \
	})
#define log_error(message, ...)	  log_at(LOG_LEVEL_ERROR, message, __VA_ARGS__)
#define log_warning(message, ...) log_at(LOG_LEVEL_WARNING, message, __VA_ARGS__)
#define log_info(message, ...)	  log_at(LOG_LEVEL_INFO, message, __VA_ARGS__)
#define log_debug(message, ...)	  log_at(LOG_LEVEL_DEBUG, message, __VA_ARGS__)
