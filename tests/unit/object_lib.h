/* Objects for the tests of what the watcher does with them. */
#pragma once
#include "watcher/object.h"
#include <criterion/criterion.h>

/* The last 16 stay valid. */
static inline struct object read_object(const char *json)
{
	static struct buf scratch[16];
	static size_t next;
	struct object o;
	struct err err;
	struct buf *b = &scratch[next++ % ARRAY_SIZE(scratch)];
	buf_reset(b);
	cr_assert_eq(object_read(span_of(json), b, &o, &err), 0, "%s", err.text);
	return o;
}
