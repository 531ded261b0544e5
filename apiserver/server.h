/* The HTTP face of the API: libmicrohttpd, one thread per connection. */
#pragma once
#include "access.h"
#include "storage.h"

struct server_options {
	int fd; /* listening */
	unsigned max_connections;
	int64_t bookmark_interval_ns;
	bool no_watch_list; /* see api.h */
};

struct server;
int server_start(struct storage *s, struct access *a, const struct server_options *o, struct server **ret,
		 struct err *err);
/* Ends watches, lets running requests finish, closes the rest. After storage_stop. */
void server_stop(struct server *s);

/* A listening socket for "ADDRESS:PORT"; port 0 is a free one. -EINVAL: the text; *ret_loopback: nobody
 * outside can reach it. */
int server_listen(const char *text, int *ret_fd, unsigned *ret_port, bool *ret_loopback, struct err *err);
