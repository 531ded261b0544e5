/* The server's own certificate, for clients on the same machine: kubectl sends a token over HTTPS alone. */
#pragma once
#include "base.h"

/* A new key and its self-signed certificate for 127.0.0.1, ::1 and localhost, both PEM, the caller's. */
int certificate_make(char **ret_key, char **ret_cert, struct err *err);
/* Of a file that holds the key, then the certificate: both apart, the caller's. False: not such a file, or
 * the certificate is about to expire. */
bool certificate_split(const char *text, char **ret_key, char **ret_cert);
