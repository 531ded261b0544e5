/* Objects cut down to some paths (spec.cache.fields): what lies at or below one of them stays byte for byte, with the
 * members and lists that lead to it; all else goes. Pure. */
#pragma once
#include "json_scan.h"

struct projection;
/* fields: of a config_kind, NULL-terminated, at most CONFIG_FIELDS_MAX; apiVersion, kind, metadata and status stay
 * always. NULL: a path is wrong. */
struct projection *projection_new(char *const *fields);
void projection_free(struct projection *p);
/* Appends what is left of the object, which must have passed json_check. */
void projection_copy(const struct projection *p, struct span object, struct buf *out);
