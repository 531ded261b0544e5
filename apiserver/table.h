/* Tables as kubectl prints them: columns with a path into the object, cells computed here. Pure; any
 * thread. */
#pragma once
#include "call.h"

/* "columnDefinitions":[...] without the braces around */
void table_columns(struct buf *out, const struct view *v);
/* {"cells":[...],"object":{...}} with the metadata as object. */
void table_row(struct buf *out, const struct view *v, const struct object *o, int64_t now);
/* 3 days 4 hours is "3d4h": the ages that the field is used to. buf: 32 bytes. */
const char *table_age(int64_t seconds, char buf[32]);
/* The value at a path such as .status.conditions[?(@.type=="Ready")].status; absent if there is none or the
 * path is none. */
struct span table_value(struct span object, const char *path);
