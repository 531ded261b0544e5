/* How a key is written on the command line: CONTROLLER/NAMESPACE/NAME, or CONTROLLER//NAME when it has no
 * namespace. */
#pragma once
#include "base.h"

struct key_name {
	struct span controller, namespace, name; /* into the argument */
};
/* -EINVAL: err says how it is written. */
int key_name_parse(const char *text, struct key_name *ret, struct err *err);
