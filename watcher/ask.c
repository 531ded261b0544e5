/* Events that depend on programs. The object changes in the cache at once; what happened goes to the program's queue, and the keys come
 * when it has answered. Until then the region remembers:
 *
 * - Where a predicate alone is asked, the keys are known. They lie in the outbox, held, and are sent or withdrawn later. A watcher
 *   that dies before leaves them there, and the next one sends them: when a predicate fails, the event passes.
 * - Where a program is to map, they are not. The controller is marked (CACHE_SWEEP_UNMAPPED), so that the next watcher enqueues every
 *   object of the `for` kind. The same happens when the program's queue is full. */
#include "log.h"
#include "watcher.h"
#include "wire.h"
#include <stdio.h>

enum { SWEEP_ROOM = KEYS_MAX + 64 /* entries of the outbox that must be free before a sweep asks more */ };

static struct asker *predicate_asker(const struct sub *s, unsigned program)
{
	return s->controller->askers[s->first_asker + program];
}

static struct asker *map_asker(const struct sub *s)
{
	return s->controller->askers[s->first_asker + s->predicate.programs];
}

static struct sub *sub_of(struct controller *c, const struct question *q)
{
	return &c->subs[q->sub];
}

/* ---- asking ---- */

static void finish(struct controller *c, struct question *q)
{
	if (q->why == QUESTION_EVENT)
		c->unmapped -= q->maps;
	else if (q->why == QUESTION_SWEEP)
		c->sweep.asked--;
	question_free(q);
}

static struct question *begin(struct sub *s, const struct object *before, const struct object *after,
			      enum question_why why)
{
	struct controller *c = s->controller;
	struct question *q = question_new(before ? before->json : (struct span){0},
					  after ? after->json : (struct span){0}, why);
	q->sub = (uint32_t)(s - c->subs);
	q->maps = s->mapping.type == MAP_PROGRAM;
	if (why == QUESTION_EVENT)
		c->unmapped += q->maps;
	else if (why == QUESTION_SWEEP)
		c->sweep.asked++;
	return q;
}

static void lose(struct controller *c, const struct asker *a)
{
	if (!c->lost_told)
		log_warning("a program's queue is full: events are not kept for it, and all objects of the "
			    "`for` kind are "
			    "enqueued instead, at low priority",
			    LOG_S("controller", c->config->name), LOG_S("program", asker_topic(a)),
			    LOG_I("questions", asker_count(a)));
	c->lost_told = true;
	controller_want_all(c);
}

/* An event that a program is to map, at once or when this predicate (NULL: none) has passed it. */
static int ask_to_map(struct sub *s, const struct change *c, struct asker *predicate, unsigned program,
		      uint64_t bytes)
{
	struct controller *of = s->controller;
	struct asker *a = predicate ? predicate : map_asker(s);
	if (!sub_scope_is_known(s)) { /* the first list of the `for` kind brings a sweep; till then another */
		controller_want_sweep(of, WIRE_CAUSE_SWEEP);
		return 0;
	}
	if (!asker_has_room(a, bytes, QUESTION_EVENT)) {
		lose(of, a);
		return 0;
	}
	atomic_fetch_or(&of->shared->sweep, CACHE_SWEEP_UNMAPPED);
	struct question *q = begin(s, c->before, c->after, QUESTION_EVENT);
	q->mapping = !predicate;
	q->program = program;
	q->priority = c->priority;
	q->event = c->event;
	asker_put(a, q);
	return 0;
}

/* An event that a predicate is to pass; its keys are held. */
static int ask_to_pass(struct sub *s, const struct change *c, struct asker *a, unsigned program,
		       uint64_t bytes)
{
	struct watcher *w = s->informer->watcher;
	if (!asker_has_room(a, bytes, QUESTION_EVENT))
		return sub_put_change(s, c, NULL);
	struct question *q = begin(s, c->before, c->after, QUESTION_EVENT);
	q->program = program;
	int rc = sub_put_change(s, c, q);
	if (rc == 0 && q->n_held) {
		asker_put(a, q);
		return 0;
	}
	for (size_t i = 0; i < q->n_held; i++)
		outbox_withdraw(w->outbox, q->held[i]);
	finish(s->controller, q);
	return rc;
}

static int ask_about(struct sub *s, const struct change *c)
{
	unsigned program = 0;
	bool maps = s->mapping.type == MAP_PROGRAM;
	uint64_t bytes = (c->before ? c->before->json.len : 0) + (c->after ? c->after->json.len : 0);
	enum verdict v = predicate_judge(&s->predicate, c->before, c->after, NULL, &program);
	struct asker *predicate = v == VERDICT_ASK ? predicate_asker(s, program) : NULL;
	if (v == VERDICT_NO)
		return 0;
	if (campaign_follows(s->informer->watcher)) /* what is gone, and must be remembered: announce.c */
		return sub_put_change(s, c, NULL);
	if (predicate && (asker_is_down(predicate) || !asker_has_room(predicate, bytes, QUESTION_EVENT)))
		predicate = NULL; /* the event passes */
	if (maps)
		return ask_to_map(s, c, predicate, program, bytes);
	return predicate ? ask_to_pass(s, c, predicate, program, bytes) : sub_put_change(s, c, NULL);
}

int ask_change(struct sub *s, const struct change *c)
{
	/* Another uid under the same name is a delete and a create, whatever came as one event. */
	if (!c->before || !c->after || span_eq(c->before->uid, c->after->uid))
		return ask_about(s, c);
	struct change gone = *c, new = *c;
	gone.after = NULL;
	new.before = NULL;
	int rc = ask_about(s, &gone);
	return rc < 0 ? rc : ask_about(s, &new);
}

int ask_create(struct sub *s, const struct object *o, enum question_why why, struct keys *out)
{
	unsigned program = 0;
	bool maps = s->mapping.type == MAP_PROGRAM;
	enum verdict v = predicate_judge(&s->predicate, NULL, o, NULL, &program);
	struct asker *predicate = v == VERDICT_ASK ? predicate_asker(s, program) : NULL;
	if (v == VERDICT_NO || (maps && !sub_scope_is_known(s)))
		return 0;
	if (predicate && asker_is_down(predicate))
		predicate = NULL;
	if (!predicate && !maps) {
		sub_keys(s, o, out);
		return 0;
	}
	struct asker *a = predicate ? predicate : map_asker(s);
	if (why == QUESTION_RESYNC && asker_is_down(a)) /* the next round, then */
		return 0;
	if (!asker_has_room(a, o->json.len, why) ||
	    outbox_room(s->informer->watcher->outbox, false) < SWEEP_ROOM)
		return -EAGAIN;
	struct question *q = begin(s, NULL, o, why);
	q->mapping = !predicate;
	q->program = program;
	asker_put(a, q);
	return 0;
}

/* ---- answers ---- */

/* The objects of a question, as spans into it and into the watcher's scratch. */
struct pair {
	struct object old, new;
	const struct object *before, *after;
};

static void read_pair(struct watcher *w, const struct question *q, struct pair *ret)
{
	buf_reset(&w->text_before);
	buf_reset(&w->text_after);
	/* They were read before they were asked about. */
	bool old = q->old.at && object_read(q->old, &w->text_before, &ret->old, NULL) == 0;
	bool new = q->new.at &&object_read(q->new, &w->text_after, &ret->new, NULL) == 0;
	ret->before = old ? &ret->old : NULL;
	ret->after = new ? &ret->new : NULL;
}

/* Keys of a sweep or a resync: at low priority, with nothing that names an event. */
static void put_low(struct sub *s, const struct question *q, const struct object *o, const struct keys *keys)
{
	struct controller *c = s->controller;
	bool sweep = q->why == QUESTION_SWEEP;
	struct outbox_key k = {.controller = c->index,
			       .priority = PRIORITY_LOW,
			       .cause = !sweep		 ? WIRE_CAUSE_RESYNC
					: c->sweep.cause ? c->sweep.cause
							 : WIRE_CAUSE_SWEEP};
	if (!sweep)
		sub_cause(s, o->namespace, o->name, &k);
	for (size_t i = 0; i < keys->count; i++) {
		keys_get(keys, i, &k.namespace, &k.name);
		if (outbox_put(c->watcher->outbox, &k, false) < 0 && sweep)
			c->sweep.again = true; /* a resync finds it in the next round */
	}
}

/* The keys of a map; keys->all in a sweep says nothing new, as that takes all objects of the `for` kind itself. */
static void mapped(struct sub *s, const struct question *q, const struct keys *keys)
{
	struct pair p;
	read_pair(s->controller->watcher, q, &p);
	const struct change c = {
	    .before = p.before, .after = p.after, .priority = q->priority, .event = q->event};
	if (!p.before && !p.after)
		return;
	if (q->why != QUESTION_EVENT) {
		put_low(s, q, p.after, keys);
	} else if (keys->all) {
		(void)sub_is_storm(s, p.after ? p.after : p.before, keys);
		controller_want_paced_sweep(s->controller);
	} else {
		/* Of a storm those that find no room are swept, too. */
		bool storm = keys->count > s->controller->config->storm_keys;
		if (sub_put_keys(s, &c, keys, storm ? keys->count : 0, NULL) < 0)
			controller_want_all(s->controller);
	}
}

static void passed(struct controller *c, struct question *q)
{
	struct sub *s = sub_of(c, q);
	struct pair p;
	if (q->maps) {
		struct asker *a = map_asker(s);
		if (asker_has_room(a, q->old.len + q->new.len, QUESTION_EVENT)) {
			q->mapping = true;
			asker_put(a, q);
			return;
		}
		if (q->why == QUESTION_EVENT)
			lose(c, a);
		c->sweep.again |= q->why == QUESTION_SWEEP;
	} else if (q->why == QUESTION_EVENT) {
		for (size_t i = 0; i < q->n_held; i++)
			outbox_pass(c->watcher->outbox, q->held[i]);
	} else {
		read_pair(c->watcher, q, &p);
		keys_reset(&c->watcher->keys);
		if (p.after)
			sub_keys(s, p.after, &c->watcher->keys);
		put_low(s, q, p.after, &c->watcher->keys);
	}
	finish(c, q);
}

/* A program of its predicate has answered: is that enough to know? */
static void judge(struct controller *c, struct question *q)
{
	struct sub *s = sub_of(c, q);
	struct pair p;
	unsigned program;
	read_pair(c->watcher, q, &p);
	enum verdict v = predicate_judge(&s->predicate, p.before, p.after, &q->answers, &program);
	struct asker *a = v == VERDICT_ASK ? predicate_asker(s, program) : NULL;
	if (a && !asker_is_down(a) && asker_has_room(a, q->old.len + q->new.len, QUESTION_EVENT)) {
		q->program = program;
		asker_put(a, q);
	} else if (v != VERDICT_NO) {
		passed(c, q);
	} else {
		for (size_t i = 0; i < q->n_held; i++)
			outbox_withdraw(c->watcher->outbox, q->held[i]);
		finish(c, q);
	}
}

static void on_answered(void *ctx, struct question *q, const struct question_answer *a)
{
	struct controller *c = ctx;
	if (q->mapping) {
		mapped(sub_of(c, q), q, &a->keys);
		finish(c, q);
		c->lost_told = c->lost_told && c->unmapped;
		return;
	}
	q->answers.known |= UINT32_C(1) << q->program;
	q->answers.pass |= (uint32_t)a->pass << q->program;
	judge(c, q);
}

static void on_unanswered(void *ctx, struct question *q)
{
	passed(ctx, q);
}

static void on_told(void *ctx, const char *topic, enum wire_state state, const char *why)
{
	const struct controller *c = ctx;
	broker_report(c->watcher->broker, c->config->name, topic, state, why);
}

static enum cache_scope for_scope(void *ctx)
{
	const struct controller *c = ctx;
	return store_table_entry(c->watcher->store, c->subs[0].informer->table)->scope;
}

static const struct asker_ops ops = {on_answered, on_unanswered, on_told, for_scope};

/* ---- which there are ---- */

/* "spec.watches[0]": the kinds stand in the file's order, those of owns and watches each counted apart. */
static void print_section(const struct config_controller *c, size_t watch, char *ret, size_t room)
{
	size_t n = 0;
	if (watch == 0) {
		snprintf(ret, room, "spec.for");
		return;
	}
	for (size_t i = 1; i < watch; i++)
		n += c->watches[i].is_owns == c->watches[watch].is_owns;
	snprintf(ret, room, "spec.%s[%zu]", c->watches[watch].is_owns ? "owns" : "watches", n);
}

/* The n-th of the controller's. */
static void place_of(struct controller *c, size_t n, struct asker_place *ret)
{
	size_t i = c->n_subs - 1;
	while (c->subs[i].first_asker > n)
		i--;
	const struct sub *s = &c->subs[i];
	size_t program = n - s->first_asker;
	char section[64];
	*ret = (struct asker_place){.ctx = c,
				    .controller = c->config,
				    .source = &s->watch->kind,
				    .map = program == s->predicate.programs};
	ret->config = ret->map ? &s->watch->program : predicate_program(&s->predicate, (unsigned)program);
	print_section(c->config, i, section, sizeof section);
	if (ret->map)
		snprintf(ret->topic, sizeof ret->topic, "%s.mapTo.program (%.100s)", section,
			 ret->config->command[0]);
	else
		snprintf(ret->topic, sizeof ret->topic, "%s.predicates program %zu (%.100s)", section,
			 program + 1, ret->config->command[0]);
}

void askers_take_over(struct controller *c, struct controller *old)
{
	bool same = old && !strcmp(c->config->digest, old->config->digest);
	for (size_t i = 0; i < c->n_askers; i++) {
		struct asker_place place;
		place_of(c, i, &place);
		if (!same) {
			c->askers[i] = asker_new(&ops, &c->watcher->program, &c->watcher->kubeconfig, &place);
			continue;
		}
		c->askers[i] = old->askers[i];
		asker_use(c->askers[i], &place);
	}
	if (same) {
		c->unmapped = old->unmapped;
		c->sweep.asked = old->sweep.asked;
		c->lost_told = old->lost_told;
		old->n_askers = 0;
	} else if (old && old->unmapped) {
		c->sweep.lost = true; /* what its programs were asked goes with them */
	}
}

void askers_drop(struct controller *c)
{
	for (size_t i = 0; i < c->n_askers; i++) {
		for (struct question *q; (q = asker_take(c->askers[i]));) {
			for (size_t n = 0; n < q->n_held; n++)
				outbox_pass(c->watcher->outbox, q->held[n]);
			question_free(q);
		}
		asker_free(c->askers[i]);
	}
	c->n_askers = 0;
}

/* ---- the loop's part ---- */

void askers_run(struct watcher *w, int64_t now_ns)
{
	for (size_t i = 0; i < w->n_controllers; i++)
		for (size_t n = 0; n < w->controllers[i].n_askers; n++)
			asker_run(w->controllers[i].askers[n], now_ns);
}

int64_t askers_due_ns(const struct watcher *w)
{
	int64_t due = INT64_MAX;
	for (size_t i = 0; i < w->n_controllers; i++)
		for (size_t n = 0; n < w->controllers[i].n_askers; n++)
			due = MIN(due, asker_due_ns(w->controllers[i].askers[n]));
	return due;
}

size_t askers_poll(const struct watcher *w, struct pollfd *fds)
{
	size_t used = 0;
	for (size_t i = 0; i < w->n_controllers; i++)
		for (size_t n = 0; n < w->controllers[i].n_askers; n++)
			used += asker_poll(w->controllers[i].askers[n], fds + used);
	return used;
}

size_t askers_count(const struct watcher *w)
{
	size_t all = 0;
	for (size_t i = 0; i < w->n_controllers; i++)
		all += w->controllers[i].n_askers;
	return all;
}

bool askers_are_idle(const struct watcher *w)
{
	for (size_t i = 0; i < w->n_controllers; i++)
		for (size_t n = 0; n < w->controllers[i].n_askers; n++)
			if (asker_count(w->controllers[i].askers[n]) &&
			    !asker_is_down(w->controllers[i].askers[n]))
				return false;
	return true;
}
