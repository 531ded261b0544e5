/* The kubeconfig that --write-kubeconfig leaves for clients. */
#pragma once
#include "base.h"

/* Mode 0600, replaced in one step. token, ca (PEM): NULL if there is none. */
int kubeconfig_write(const char *path, const char *server, const char *token, const char *ca,
		     struct err *err);
