/* Ending objects: on request, and by the collector. The store's lock is held. */
#pragma once
#include "storage.h"

enum propagation { PROPAGATE_BACKGROUND, PROPAGATE_FOREGROUND, PROPAGATE_ORPHAN };
#define FINALIZER_FOREGROUND "foregroundDeletion"
#define FINALIZER_ORPHAN     "orphan"

/* Deletes o: removed at once when nothing holds it, else marked with deletionTimestamp. dry_run changes
 * nothing. Returns a reference on the state after it; NULL: out of memory. *ret_gone: it is no longer
 * stored. */
struct object *remove_object(struct storage *s, struct object *o, enum propagation how, int64_t now,
			     bool dry_run, bool *ret_gone);
/* Removes what stands under o's name, as storage_remove does; with a definition its kind is no longer
 * served. */
void remove_now(struct storage *s, struct object *o);
/* Takes one finalizer off (spec: from spec.finalizers, as namespaces have); removes the object if it was the
 * last of a deleted one. */
void remove_finalizer(struct storage *s, struct object *o, const char *name, bool spec);
/* Takes owner references with this uid off. */
void remove_owner(struct storage *s, struct object *o, const char *uid);
