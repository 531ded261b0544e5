#include "step.h"
#include "queue/store_region.h"
#include <stdio.h>
#include <unistd.h>

enum {
	RECOVERY_EACH = 16, /* every so many cuts the recovery is cut, too */
	DRAIN_EACH = 61,
	TELL_MOST = 10,
};

/* What was seen at a cut; whether it is right shows when the transition is over. */
enum seen_how { SEEN_RECOVERED, SEEN_BY_READER, SEEN_RESENT };
static const char *const seen_names[] = {"a start finds", "a reader sees", "after the same DONE there is"};
struct seen {
	enum seen_how how;
	uint64_t cut;
	struct image image;
};

struct live live;
static struct step_options options;
static struct step_totals *totals;
static struct place at_live, at_cut, at_again, at_third;
static struct trap trap, recovery;
static struct {
	const char *what;
	bool whole, creating;
	uint64_t random;
	const struct wire_done *done;
	struct image before, after;
	struct seen *seen;
	size_t n, cap;
} step;

static void remove_places(void)
{
	struct place *places[] = {&at_live, &at_cut, &at_again, &at_third};
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		place_done(places[i]);
}

/* ---- telling ---- */

void step_violation(const char *fmt, ...)
{
	if (totals->violations++ >= TELL_MOST)
		return;
	va_list args;
	va_start(args, fmt);
	printf("VIOLATION in '%s': ", step.what);
	vprintf(fmt, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	if (options.want_violation) {
		remove_places();
		_exit(EXIT_SUCCESS);
	}
}

uint64_t step_violations(void)
{
	return totals->violations;
}

static void tell(const char *title, struct place *p)
{
	struct image i = {0};
	printf("%s\n", title);
	image_read(p, NULL, &i, true);
	image_done(&i);
	fflush(stdout);
}

/* ---- at a cut ---- */

static struct image *remember(enum seen_how how, struct place *p, const struct workqueue *wq)
{
	if (step.n == step.cap) {
		size_t cap = MAX(step.cap * 2, (size_t)64);
		step.seen = xrealloc(step.seen, cap * sizeof(*step.seen));
		memset(step.seen + step.cap, 0, (cap - step.cap) * sizeof(*step.seen));
		step.cap = cap;
	}
	struct seen *s = &step.seen[step.n++];
	s->how = how;
	s->cut = trap.stores;
	image_read(p, wq, &s->image, false);
	return &s->image;
}

static void resend(struct started *s)
{
	struct workqueue_end end;
	int first = workqueue_done(&s->wq, step.done, live.now, &end);
	int second = workqueue_done(&s->wq, step.done, live.now, &end);
	if ((first != 0 && first != -ESTALE) || second != -ESTALE)
		step_violation("cut %llu: the same DONE again is %d, and once more %d",
			       (unsigned long long)trap.stores, first, second);
	totals->resent++;
}

/* The start after the first kill is killed itself, after each of its stores. */
static const struct image *want_again;
static void cut_recovery(void *ctx)
{
	(void)ctx;
	struct started s;
	struct err err = {0};
	struct image i = {0};
	place_copy(&at_again, &at_third);
	totals->recoveries_cut++;
	if (start(&at_third, step.random, &s, &err) != START_RECOVERED) {
		step_violation("cut %llu, and its start cut after %llu stores: %s",
			       (unsigned long long)trap.stores, (unsigned long long)recovery.stores,
			       err.text);
		return;
	}
	image_read(&at_third, &s.wq, &i, false);
	if (!image_equal(&i, want_again))
		step_violation(
		    "cut %llu, and its start cut after %llu stores: the next start finds something else",
		    (unsigned long long)trap.stores, (unsigned long long)recovery.stores);
	image_done(&i);
	start_done(&s);
}

static void step_recovery(const struct image *want)
{
	struct started s;
	struct err err = {0};
	place_copy(&at_live, &at_again);
	recovery = (struct trap){.after = cut_recovery};
	want_again = want;
	trap_open(&recovery);
	enum start_result result = start(&at_again, step.random, &s, &err);
	trap_close(&recovery);
	if (result == START_RECOVERED)
		start_done(&s);
}

static void look(void)
{
	struct started s;
	struct err err = {0};
	totals->cuts++;
	remember(SEEN_BY_READER, &at_live, NULL);
	place_copy(&at_live, &at_cut);
	enum start_result result = start(&at_cut, step.random, &s, &err);
	if (result != START_RECOVERED) {
		if (result == START_FAILED || !step.creating)
			step_violation("cut %llu: it cannot be recovered: %s",
				       (unsigned long long)trap.stores, err.text);
		return;
	}
	uint32_t blocks = s.store.blocks;
	struct image *found = remember(SEEN_RECOVERED, &at_cut, &s.wq);
	const char *wrong = left_cells(&s);
	if (wrong)
		step_violation("cut %llu: %s", (unsigned long long)trap.stores, wrong);
	if (trap.stores % RECOVERY_EACH == 0)
		step_recovery(found);
	if (step.done) {
		resend(&s);
		remember(SEEN_RESENT, &at_cut, &s.wq);
	}
	if (trap.stores % DRAIN_EACH == 0 && !step.creating) {
		wrong = left_drain(&s, live.now, live.generation, s.wq.index.keys);
		if (wrong)
			step_violation("cut %llu, then everything is run: %s",
				       (unsigned long long)trap.stores, wrong);
		totals->drained++;
	}
	if (s.store.blocks != blocks)
		place_forget(&at_cut);
	start_done(&s);
}

static void on_cut(void *ctx)
{
	(void)ctx;
	if (options.cut ? trap.stores != options.cut : trap.stores % options.parts != options.part)
		return;
	if (options.cut) {
		printf("cut %llu is in '%s'\n", (unsigned long long)trap.stores, step.what);
		tell("what a reader sees at that instant:", &at_live);
	}
	look();
	if (options.cut)
		tell("what a start made of it (and the same DONE again, if it was one):", &at_cut);
}

/* ---- when it is over: was it right? ---- */

static bool same(const struct line *a, const struct line *b)
{
	return a && b && a->hash == b->hash;
}

static bool history_right(const struct seen *s)
{
	const struct image *i = &s->image, *after = &step.after;
	if (i->gap || i->last > after->last || i->last < step.before.last)
		return false;
	for (uint64_t n = i->last; n > 0 && n + 8 > i->last && n + IMAGE_ENTRIES > after->last; n--)
		if (i->entries[n % IMAGE_ENTRIES] != after->entries[n % IMAGE_ENTRIES])
			return false;
	return true;
}

/* Every line as before or as after, none missing that stays. */
static const char *lines_right(const struct seen *s)
{
	const struct image *i = &s->image;
	bool by_reader = s->how == SEEN_BY_READER;
	size_t missing = 0;
	for (size_t at = 0; at < i->n; at++) {
		/* A reader may see a row's counters from both sides. */
		if (by_reader && i->lines[at].id < LINE_KEYS)
			continue;
		if (!same(image_find(&step.before, i->lines[at].id, at), &i->lines[at]) &&
		    !same(image_find(&step.after, i->lines[at].id, at), &i->lines[at]))
			return "something that is neither before nor after";
	}
	for (size_t at = 0; at < step.before.n; at++) {
		const struct line *l = &step.before.lines[at];
		if (by_reader && l->id < LINE_KEYS)
			continue;
		missing += image_find(&step.after, l->id, at) && !image_find(i, l->id, at);
	}
	return missing > (by_reader ? i->busy : 0) ? "a key missing" : NULL;
}

static void judge(void)
{
	bool late = false;
	for (size_t k = 0; k < step.n; k++) {
		const struct seen *s = &step.seen[k];
		const char *wrong = NULL;
		bool after = image_equal(&s->image, &step.after);
		if (!history_right(s) && s->how != SEEN_RESENT)
			wrong = "a torn or missing entry of the history";
		else if (s->image.damaged)
			wrong = "a slot that it calls damaged";
		else if (s->how == SEEN_RESENT)
			wrong = after ? NULL : "another state than after one DONE";
		else if (s->how == SEEN_RECOVERED && s->image.busy)
			wrong = "a slot that is half written";
		else if (s->how == SEEN_BY_READER || !step.whole)
			wrong = lines_right(s);
		else if (!after && !image_equal(&s->image, &step.before))
			wrong = "neither the state before nor the state after";
		else if (late && !after)
			wrong = "the state before again, after an earlier cut gave the state after";
		late = late || (s->how == SEEN_RECOVERED && after && !image_equal(&step.before, &step.after));
		if (wrong)
			step_violation("cut %llu: %s %s", (unsigned long long)s->cut, seen_names[s->how],
				       wrong);
	}
}

/* ---- the stepped broker ---- */

/* As queue/broker.c makes a new one. */
static void create(void)
{
	struct err err = {0};
	struct started *s = &live.s;
	enum region_state state;
	if (store_region_open(&s->store, &s->region, at_live.path, (uint64_t)LEFT_BLOCKS * SHM_BLOCK, 0,
			      &state, &err) < 0) {
		fprintf(stderr, "step: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
	if (store_format(&s->store, SHM_BLOCK) < 0 || workqueue_init(&s->wq, &s->store, 42, &err) < 0) {
		fprintf(stderr, "step: a new region: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
}

void step_open(const char *folder, const struct step_options *o, struct step_totals *t)
{
	options = *o;
	totals = t;
	at_live = place_new(folder, "live");
	at_cut = place_new(folder, "cut");
	at_again = place_new(folder, "again");
	at_third = place_new(folder, "third");
	live.now = 1000 * NS_PER_S;
	trap = (struct trap){.after = on_cut};
	trap_open(&trap);
	step.what = "a new region";
	step.creating = true;
	step.random = 42;
	create();
	trap_pause(&trap, true);
	image_read(&at_live, &live.s.wq, &step.after, false);
	judge();
	step.n = 0;
	step.creating = false;
	totals->transitions++;
	totals->stores = trap.stores;
}

void step_close(void)
{
	trap_close(&trap);
	start_done(&live.s);
	for (size_t i = 0; i < step.cap; i++)
		image_done(&step.seen[i].image);
	free(step.seen);
	image_done(&step.before);
	image_done(&step.after);
	remove_places();
}

void step_begin(const char *what, bool whole)
{
	step.what = what;
	step.whole = whole;
	step.random = live.s.wq.random;
	step.done = NULL;
	step.n = 0;
	image_read(&at_live, &live.s.wq, &step.before, false);
	trap_pause(&trap, false);
}

void step_resend(const struct wire_done *done)
{
	step.done = done;
}

void step_end(void)
{
	trap_pause(&trap, true);
	image_read(&at_live, &live.s.wq, &step.after, false);
	judge();
	if (options.cut && step.n) {
		tell("what there is when it is over:", &at_live);
	}
	totals->transitions++;
	totals->stores = trap.stores;
}

void step_restart(void)
{
	struct err err = {0};
	start_done(&live.s);
	trap_close(&trap);
	trap_open(&trap); /* it is mapped elsewhere now */
	trap.paused = true;
	if (start(&at_live, live.s.wq.random ? live.s.wq.random : 42, &live.s, &err) != START_RECOVERED) {
		fprintf(stderr, "step: a start between two transitions: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
}
