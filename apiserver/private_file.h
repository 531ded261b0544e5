/* Files that are the server's and its clients' secret. */
#pragma once
#include "base.h"

/* Mode 0600, replaced in one step. what: the option, for messages. */
int private_file_write(const char *path, struct span text, const char *what, struct err *err);
