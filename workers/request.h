/* The ReconcileRequest: one line of JSON, docs/reconciler-protocol.md, "Request". Pure: who reads the cache
 * fills it in (gather.c).
 *
 * Objects go in as the bytes that came from the API server. Children and related objects are kept twice,
 * whole and as names, because only the end shows whether they fit. */
#pragma once
#include "config.h"
#include "wire.h"

#define REQUEST_MAX                                                                                          \
	(UINT64_C(16) << 20) /* bytes of the line; above it first `related`, then `children` become names */

struct request_kind { /* one member of `children` or `related` */
	char *key;    /* "Deployment.apps/v1" */
	struct buf full, names;
};

struct request {
	const char *controller;
	struct span uid, namespace, name;
	struct buf object; /* empty: gone */
	bool finalizing;
	bool with_children, with_related, with_reasons;
	struct request_kind *children, *related;
	size_t children_count, related_count;
	uint32_t attempt;
	enum wire_outcome last_outcome;
	struct span last_reason, last_message;
	int64_t timeout_ns, deadline_unix_s;
	const struct config_kind *of; /* what `object` is one of: for the reasons that name nothing else */
	const struct wire_add_key *reasons;
	size_t reason_count;
	bool truncated; /* set by request_print */
};

void request_done(struct request *r);
/* Adds an entry for a kind, maybe to stay empty; several watches of one kind share one. The pointer is good
 * until the next call. */
struct request_kind *request_children(struct request *r, const struct config_kind *k);
struct request_kind *request_related(struct request *r, const struct config_kind *k);
void request_add(struct request_kind *k, struct span namespace, struct span name, struct span object);

/* Appends the line with its newline. -EMSGSIZE: the object alone, or the names, are too much. */
int request_print(struct request *r, struct buf *out, struct err *err);

/* "Deployment.apps/v1", "Secret.v1". Owned by the caller. */
char *request_kind_key(const char *api_version, const char *kind);
