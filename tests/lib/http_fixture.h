/* For tests of common/http.h: servers that misbehave on demand (http_server.py), certificates (pki.sh), and
 * what was asked of the servers. */
#pragma once
#include "http.h"
#include <sys/types.h>

struct fixture {
	char *folder; /* its port, its log, and what was requested */
	int port;
	pid_t pid;
};

extern char *fixture_pki;		/* the folder with the certificates, after fixture_make_pki() */
extern struct http_result fixture_last; /* of the last fixture_get() */
void fixture_make_pki(void);

/* cert: a name in the pki folder, NULL for plain HTTP. client_ca: the authority of the client certificates
 * that are asked for, or NULL. */
struct fixture fixture_start(const char *cert, const char *client_ca);
void fixture_stop(struct fixture *s);

struct kubeconfig fixture_config(const struct fixture *s, const char *scheme);
struct http_client *fixture_client(struct kubeconfig *k); /* takes k's texts */
struct http_client *fixture_plain_client(const struct fixture *s);
int fixture_get(struct http_client *c, const char *path, struct buf *body, struct err *err);

/* A transfer that is looked at from outside. timeout_ms 0: as long as it takes, on a connection of its own. */
struct fixture_transfer {
	struct http_transfer *t;
	int status, code;
	bool ended;
	size_t bytes;
	struct err err;
};
void fixture_begin(struct http_client *c, struct fixture_transfer *t, const char *path, int64_t timeout_ms);
#define RUN_UNTIL(c, seconds, cond) WAIT_FOR(seconds, (http_run((c), NULL, 0, 50), (cond)))

/* The server's note of the n-th last request (0: the last one), a JSON object; text owns it. */
struct span fixture_request(const struct fixture *s, int back, char **text);
int64_t fixture_request_port(const struct fixture *s,
			     int back); /* the client's port: which connection it was */
bool fixture_header_is(const struct fixture *s, const char *header,
		       const char *want); /* of the last one; NULL: it had none */

/* As a whole or not at all, whoever reads it just then. */
void fixture_write(const char *path, const char *text);
/* A port of 127.0.0.1 for a server that is started, and started again: nobody else gets it while the socket is open. */
int fixture_port(int *ret_held);
