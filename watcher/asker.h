/* One program of a predicate or a map: a coprocess in a jail of its own, and what it is asked. Nothing here waits, so a program
 * that hangs holds up nobody. docs/program-protocol.md.
 *
 *   NONE --spawn--> JAIL --it stands--> HELLO --its Hello--> READY
 *     ^               |                   |                    |
 *     |               +-------------------+---- it failed -----+--> ENDING --all of it is gone--> NONE
 *     +---- 1 s to 1 min later ------------------------------------------------------------------- + */
#pragma once
#include "kubeconfig.h"
#include "program.h"
#include "question.h"
#include "wire.h"
#include <poll.h>

struct asker;
struct asker_ops {
	/* The answer; the question is the callee's. */
	void (*answered)(void *ctx, struct question *q, const struct question_answer *a);
	/* The program of a predicate failed or is down: the event passes; the question is the callee's. */
	void (*unanswered)(void *ctx, struct question *q);
	/* It works (OK), has not begun to (WAITING), or failed; and why. */
	void (*told)(void *ctx, const char *topic, enum wire_state state, const char *why);
	enum cache_scope (*scope)(void *ctx); /* of the `for` kind */
};

/* Where it belongs. All of it is borrowed but for the topic; a reload gives other ones. */
struct asker_place {
	void *ctx; /* of the ops */
	const struct config_controller *controller;
	const struct config_program *config;
	const struct config_kind *source; /* of the watched objects */
	bool map;
	char topic[200]; /* "spec.watches[0].mapTo.program (./map)": reports, log */
};

/* p and k outlive it. */
struct asker *asker_new(const struct asker_ops *ops, const struct program *p, const struct kubeconfig *k,
			const struct asker_place *place);
/* After a reload. Its program is started again: it may be another although its file is the same. */
void asker_use(struct asker *a, const struct asker_place *place);
/* Kills the program. Its questions go first: asker_take. */
void asker_free(struct asker *a);
const char *asker_topic(const struct asker *a);

bool asker_has_room(const struct asker *a, uint64_t bytes, enum question_why why);
void asker_put(struct asker *a, struct question *q);
struct question *asker_take(struct asker *a); /* any; NULL: none is left */
size_t asker_count(const struct asker *a);
/* It failed, and has not said Hello since. */
bool asker_is_down(const struct asker *a);

void asker_run(struct asker *a, int64_t now_ns);
int64_t
asker_due_ns(const struct asker *a); /* when asker_run wants to be called at the latest; INT64_MAX: no need */
enum { ASKER_FDS = 4 };
size_t asker_poll(const struct asker *a, struct pollfd *fds); /* what to wait for: at most ASKER_FDS */
