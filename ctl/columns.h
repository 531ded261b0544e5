/* Tables for people: columns as wide as their widest cell, two blanks between. Cells may hold anything that a
 * reconciler or an object said: control characters and invalid UTF-8 never reach the terminal. */
#pragma once
#include "buf.h"

struct columns {
	size_t width, count, room; /* count and room: of cells, the headings included */
	char **cells;
};

void columns_init(struct columns *t, const char *const *headings); /* NULL-terminated */
void columns_done(struct columns *t);
/* The next cell, row by row. An empty or NULL text is shown as "-". */
void columns_add(struct columns *t, const char *text);
void columns_addf(struct columns *t, const char *fmt, ...) _printf_(2, 3);
void columns_print(const struct columns *t, struct buf *out);

/* Appends text so that a terminal takes it as text: line ends become blanks, what cannot be shown '?'. */
void printable(struct buf *out, const char *text);
/* As format_duration, without what nobody reads: "5m10s", "3s", "40ms", "13us". Returns buf. */
char *short_duration(int64_t ns, char buf[32]);
/* "3s", "5m10s": the time from then to now (ns), or "-" if then is 0. Returns buf. */
char *age(int64_t now, int64_t then, char buf[32]);
