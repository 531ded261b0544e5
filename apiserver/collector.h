/* What goes on after a request was answered: dependents of deleted owners, contents of deleted namespaces and
 * definitions.
 *
 * One sweep looks at every object that has owners or is being deleted. An owner counts as there while an
 * object with its uid stands in the dependent's namespace or without one; an owner of a kind that is not
 * served here is taken to be there. */
#pragma once
#include "storage.h"

/* One sweep, with the lock held. Returns how many objects were changed or deleted: 0 means that nothing is
 * left to do. */
size_t collector_sweep(struct storage *s, int64_t now);
/* Deletes Events that were not written for EVENTS_KEPT seconds, with the lock held. Returns how many. */
enum { EVENTS_KEPT = 3600 };
size_t collector_expire(struct storage *s, int64_t now);
/* A thread that sweeps when there is reason to, until storage_stop. */
int collector_start(struct storage *s, pthread_t *ret);
