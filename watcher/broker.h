/* The watcher's connection to the queue broker: HELLO first, then ADD, REPORT and SWEPT, several in flight.
 * What is lost with the connection is told to the owner, who sends it again after the next HELLO. One
 * thread. */
#pragma once
#include "wire.h"

struct broker;
struct broker_batch; /* the owner's */

struct broker_ops {
	/* Puts the controllers and digests of HELLO. */
	void (*on_connected)(void *ctx, struct wire_loaded *loaded, size_t max, size_t *ret_count);
	/* The broker knows us; it wants everything of these. */
	void (*on_ready)(void *ctx, const struct wire_loaded *want_all, size_t count);
	/* accepted keys of the batch are stored; -1: refused or lost. The batch is the owner's again. */
	void (*on_added)(void *ctx, struct broker_batch *batch, int64_t accepted, struct span message);
	void (*on_swept)(void *ctx, struct span controller, bool done);
	/* The broker waits for the watch to come to these places. */
	void (*on_await)(void *ctx, const struct wire_place *places, size_t count);
};

enum { BROKER_BATCHES = 4 }; /* ADD messages in flight */

int broker_new(const char *socket, const struct broker_ops *ops, void *ctx, struct broker **ret,
	       struct err *err);
int broker_fd(const struct broker *b);
void broker_run(struct broker *b, int64_t now_ns); /* takes what came, sends what waits */
int64_t broker_due_ns(const struct broker *b);	   /* when broker_run wants to be called at the latest */
bool broker_ready(const struct broker *b);
/* The configuration changed: HELLO again. */
void broker_hello(struct broker *b);

/* True if another ADD may be sent now. */
bool broker_may_add(const struct broker *b);
/* -ENOTCONN, -EBUSY (not now), -EMSGSIZE: the batch stays the owner's, without a call. */
int broker_add(struct broker *b, const char *controller, const struct wire_add_key *keys, size_t count,
	       struct broker_batch *batch);
int broker_swept(struct broker *b, const char *controller);
/* Answered by on_await, at any later time. */
int broker_progress(struct broker *b, const struct wire_place *passed, size_t count);
/* Sent now or when possible, and again after each HELLO while it is not OK. Only a change is sent. */
void broker_report(struct broker *b, const char *controller, const char *topic, enum wire_state state,
		   const char *message);
/* Forgets reports of controllers and topics that keep() does not want. */
void broker_reports_keep(struct broker *b, bool (*keep)(void *ctx, const char *controller, const char *topic),
			 void *ctx);
/* Nothing is in flight that has an answer to wait for. */
bool broker_idle(const struct broker *b);
