/* A reconciler's answer, parsed strictly: docs/reconciler-protocol.md, "Response". Pure.
 *
 * The envelope (result, error, conditions, events) becomes structs; `status` and `children` stay trees of
 * text, so that no number changes on its way to the API server. Every rule that can be checked without the
 * API server is checked here, before anything is written; errors carry the path of the field
 * ("children[2].metadata.name"). */
#pragma once
#include "config.h"
#include "doc.h"
#include "outcome.h"

enum {
	ANSWER_MAX_CONDITIONS = 64,
	ANSWER_MAX_CHILDREN = 4096,
	ANSWER_MAX_EVENTS = 100,
	CONDITION_MAX_TYPE = 316,
	CONDITION_MAX_REASON = 1024,
	CONDITION_MAX_MESSAGE = 32768, /* characters, as the API counts */
	EVENT_MAX_REASON = 128,
	EVENT_MAX_NOTE = 1024, /* bytes; longer ones are cut */
	PRIORITY_LIMIT = 1000000,
};

struct condition {
	struct span type, status, reason, message;
};

struct answer_event {
	bool warning;
	struct span reason, message;
};

struct child {
	const struct doc_node *object;
	size_t watch;		     /* index into the controller's watches: the `owns` entry of its kind */
	struct span namespace, name; /* as written; namespace may be absent */
};

struct answer {
	bool empty; /* nothing but white space: success */

	bool has_error;
	enum wire_outcome error_outcome; /* TRANSIENT, NOT_READY, THROTTLED, CONFLICT or TERMINAL */
	struct span error_reason, error_message;
	int64_t retry_after_ms; /* -1: none */
	bool pause_controller;

	int64_t requeue_after_ms; /* -1: none */
	bool requeue;
	bool has_priority;
	int64_t priority;

	const struct doc_node *status; /* NULL: the answer has none */
	struct condition conditions[ANSWER_MAX_CONDITIONS];
	size_t condition_count;
	bool has_children; /* `children` is an array: this answer manages children */
	struct child *children;
	size_t child_count;
	struct answer_event events[ANSWER_MAX_EVENTS];
	size_t event_count;
	bool finalized;

	struct doc *doc; /* owns everything above */
};

struct answer_rules {
	const struct config_controller *controller;
	struct span uid;     /* of the request */
	bool uid_required;   /* a coprocess must name it */
	bool object_present; /* the request had an object */
	bool finalizing;
	struct span namespace; /* of the key; empty: cluster scope */
};

/* -EPROTO: err says what is wrong and where; ret is untouched. */
int answer_parse(struct span text, const struct answer_rules *rules, struct answer *ret, struct err *err);
void answer_done(struct answer *a);
/* May it be a segment of the API's paths? No empty one, no "." or "..", no '/' or '%', at most 253 bytes. */
bool answer_is_name(struct span name);

/* Puts error, result and priority of the answer into r (OK without an error). */
void answer_result(const struct answer *a, struct result *r);
