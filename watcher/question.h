/* What a program of a predicate or a map is asked, in order, and what it says. Pure: no I/O, the clock comes in.
 *
 *   waiting --next--> asked --answered--> the caller's
 *      ^                |
 *      |                +-- failed: the oldest --> late
 *      +----------------+-- failed: the others      |
 *      +------------------------- its time came ----+
 *
 * Up to QUESTIONS_AHEAD are asked at a time: the program reads one after the other, and does not wait for us in between. It is the
 * oldest that it works on, so that one's time runs, and that one is to blame when the program fails. */
#pragma once
#include "mapping.h"
#include "predicate.h"

enum {
	QUESTIONS_MAX = 4096, /* of one program, waiting, asked and late */
	QUESTIONS_AHEAD = 64,
	QUESTIONS_LOW = 256, /* of sweeps and resyncs, so that events find room */
};
#define QUESTIONS_BYTES	      (UINT64_C(16) << 20) /* of their objects */
#define QUESTIONS_LOW_BYTES   (UINT64_C(2) << 20)  /* but always one */
#define QUESTION_AGAIN_MIN_NS (1 * NS_PER_S)	   /* one that a program failed at waits so long, doubling */
#define QUESTION_AGAIN_MAX_NS (300 * NS_PER_S)

enum question_why { QUESTION_EVENT, QUESTION_SWEEP, QUESTION_RESYNC };
struct question {
	struct question *next;
	char *text;
	struct span old, new; /* the objects, into text; absent: there is none */
	enum question_why why;
	uint64_t number; /* asked: its uid */
	uint32_t failures;
	int64_t since_ns, not_before_ns; /* asked: the oldest since; late: until */

	/* What becomes of the answer: ask.c. */
	uint32_t sub; /* of the controller */
	struct predicate_answers answers;
	int32_t priority;
	struct cache_event event;
	uint32_t *held; /* entries of the outbox: the keys, if the event passes */
	size_t n_held;
	bool maps;    /* its sub's keys come from a program */
	bool mapping; /* that one is asked now; else the program of a predicate with this number */
	unsigned program;
};

/* json: as cached; absent: there is none. Newlines between tokens become spaces: a question is one line. */
struct question *question_new(struct span old, struct span new, enum question_why why);
void question_free(struct question *q);

struct questions {
	struct question_list {
		struct question *first, *last;
	} waiting, asked, late;
	size_t count, n_asked, low;
	uint64_t bytes, low_bytes;
	uint64_t last_number;
};

/* Is there room for one with objects of so many bytes? */
bool questions_has_room(const struct questions *l, uint64_t bytes, enum question_why why);
void questions_put(struct questions *l, struct question *q);
/* Late ones whose time has come wait again. */
void questions_wake(struct questions *l, int64_t now_ns);
/* The next to be asked now, with a number; NULL: none. It stays in the list. */
struct question *questions_next(struct questions *l, int64_t now_ns);
/* The one with this number is answered: it is the caller's. NULL: none such was asked. */
struct question *questions_answered(struct questions *l, uint64_t number, int64_t now_ns);
/* The oldest one that is asked; NULL: none. */
const struct question *questions_oldest(const struct questions *l);
/* Asked ones wait again, in their order; blame: but for the oldest, which comes late. */
void questions_return(struct questions *l, bool blame, int64_t now_ns);
/* Any: it is the caller's. NULL: there is none left. */
struct question *questions_take(struct questions *l);
/* When a late one may be asked; INT64_MAX: there is none. */
int64_t questions_due_ns(const struct questions *l);

/* ---- the lines ---- */

struct question_form {
	bool map; /* MapRequest; else PredicateRequest */
	const char *controller, *api_version, *kind;
};
/* Appends the line with its newline. */
void question_print(const struct question *q, const struct question_form *form, struct buf *out);

struct question_answer {
	uint64_t number;
	bool pass;	  /* of a predicate */
	struct keys keys; /* of a map; keys.all: more than KEYS_MAX */
};
/* One line of a program. scope: of the `for` kind, for a map. -EPROTO: it is no answer; err says what is wrong and where.
 * *ret is to be done with question_answer_done in any case. */
int question_answer_read(struct span line, bool map, enum cache_scope scope, struct question_answer *ret,
			 struct err *err);
void question_answer_done(struct question_answer *a);
