/* Why a program could not be started, in words that lead to the cure. Looks at files only. */
#pragma once
#include "config.h"

/* error: the positive errno of the exec. The command is looked for as the jail does: in path when it has no
 * slash, else from the controller's folder. */
void exec_cause(const struct config_controller *c, const char *command, const char *path, int error,
		char *ret, size_t room);
