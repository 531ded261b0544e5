/* Fills a request from the object cache: the key's object, its children, and what relates to it. */
#pragma once
#include "kinds.h"
#include "request.h"

/* r has its key and its with_* flags; object, children and related are filled in. -EAGAIN: not now (a table
 * not complete, an object being written): try again shortly; r is to be done with then. */
int gather_object(struct kinds *k, struct request *r, struct err *err);
/* After the object is known (it may have been changed by a finalizer since). */
int gather_rest(struct kinds *k, const struct config_controller *c, struct request *r, struct err *err);
