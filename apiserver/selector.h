/* Label and field selectors. Pure; any thread. */
#pragma once
#include "failure.h"
#include "storage.h"

enum { REQUIREMENTS_MAX = 64, SELECTOR_VALUES_MAX = 256 };

struct selector; /* NULL selects everything */
void selector_free(struct selector *s);

/* "app=web,tier in (a,b),!old,x!=y,gone notin (z)". Empty: *ret is NULL. 400 otherwise. */
int selector_parse_labels(struct span text, struct selector **ret, struct failure *f);
/* "metadata.name=x,status.phase!=Running". Which fields a kind knows: metadata.name, metadata.namespace, and
 * a few for core kinds. */
int selector_parse_fields(struct span text, const struct definition *def, struct selector **ret,
			  struct failure *f);
bool selector_match_labels(const struct selector *s, const struct object *o);
bool selector_match_fields(const struct selector *s, const struct object *o);
