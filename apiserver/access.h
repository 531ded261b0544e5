/* Who may come in: the bearer token, TLS and client certificates. With certificate.c the only user of GnuTLS,
 * which libmicrohttpd's TLS is. */
#pragma once
#include "base.h"
#include <microhttpd.h>
#include <pthread.h>

struct access {
	char *token;	  /* NULL: none wanted; changes on reload */
	char *cert, *key; /* PEM; NULL: plain HTTP */
	char *client_ca;  /* PEM; NULL: client certificates are not asked for */
	pthread_mutex_t lock;
	const char *token_file;
};

/* NULL: not given. */
struct access_files {
	const char *token, *cert, *key, *client_ca;
	const char *self_signed; /* instead of cert and key: made, and kept here for the next start */
};
int access_init(struct access *a, const struct access_files *files, struct err *err);
void access_done(struct access *a);
/* Reads the token file again; the old token stays on failure. Any thread. */
int access_reload(struct access *a, struct err *err);
/* Whether the request comes from somebody who is allowed to. authorization: the header, or NULL. Any
 * thread. */
bool access_allowed(struct access *a, struct MHD_Connection *connection, const char *authorization);
