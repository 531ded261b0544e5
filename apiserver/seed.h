/* What is there from the start: the namespaces default and kube-system. */
#pragma once
#include "storage.h"

/* Takes the lock. */
void seed_namespaces(struct storage *s, int64_t now);
