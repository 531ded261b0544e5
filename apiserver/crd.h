/* Custom resource definitions: kinds that come and go at run time. Objects of custom kinds are stored without
 * a schema: nothing is pruned, defaulted or validated. */
#pragma once
#include "call.h"

#define CRD_FINALIZER "customresourcecleanup.apiextensions.k8s.io"

/* Names filled in, status with Established, and findings (422) for what cannot be served. Called before every
 * write of one. */
void crd_prepare(struct call *c, const struct doc_node *before, struct doc_node *after);
int crd_check(struct call *c, const struct doc_node *root);
/* After a definition was stored: serves its kind. Lock held. */
void crd_written(struct storage *s, const struct object *o);
/* The kind that a stored definition made; NULL. Lock held. */
struct kind *crd_kind(struct storage *s, const struct object *o);
