/* The rules for objects: what a client may write, and what the server fills in. Pure; findings go to the
 * failure. */
#pragma once
#include "call.h"

/* Fills in what the API server sets for this kind (namespace phase, Secret type, stringData, a definition's
 * status, ...), and drops what it never keeps (nulls in built-in kinds, empty metadata maps). before: NULL
 * when created. */
void prepare_object(struct call *c, const struct doc_node *before, struct doc_node *after);
/* 400 for metadata of a wrong JSON type: before anything else looks at it. */
int check_types(struct call *c, const struct doc_node *root);
/* Metadata and the few fields of built-in kinds that matter here: 422. */
int check_object(struct call *c, const struct doc_node *root);
/* Fields that may not change once written: 422. */
int check_change(struct call *c, const struct doc_node *before, const struct doc_node *after);

bool view_is(const struct view *v, const char *group, const char *plural);
