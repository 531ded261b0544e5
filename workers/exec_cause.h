/* Why a program could not be started, in words that lead to the cure. Looks at files only. */
#pragma once
#include "base.h"

/* error: the positive errno of the exec. command[0] is looked for as the jail does: in path when it has no
 * slash, else from folder. */
void exec_cause(const char *command, const char *folder, const char *path, int error, char *ret, size_t room);
