/* Everything of a controller once in a resyncPeriod, spread over it: what a reconciler cannot be told of, drift outside of the cluster, is seen
 * then. A key enters as for a create of the object, at low priority.
 *
 * A round walks all objects of the controller's tables. It begins at a random place, so that a watcher that is started again and again before a
 * round is over does not leave the same objects out each time. */
#include "log.h"
#include "watcher.h"

#define STEP_NS                                                                                              \
	(100 * (int64_t)NS_PER_MS) /* at least between two looks, so that many objects are taken together */
enum {
	LOOKED_MAX = 20000 /* slots in one go */,
	ROOM_MIN = 64 /* entries of the outbox that are left to events */
};

/* INDEX and ALL: their keys are keys of `for` objects, which have their own turn. */
static bool has_turn(const struct sub *s)
{
	return s->mapping.type != MAP_INDEX && s->mapping.type != MAP_ALL && informer_synced(s->informer);
}

static uint64_t objects(const struct controller *c)
{
	uint64_t n = 0;
	for (size_t i = 0; i < c->n_subs; i++)
		if (has_turn(&c->subs[i]))
			n += atomic_load(
			    &store_table_entry(c->watcher->store, c->subs[i].informer->table)->objects);
	return n;
}

static void begin(struct controller *c, int64_t now_ns)
{
	struct resync *r = &c->resync;
	double random = (double)random_below(1u << 30) / (1u << 30);
	*r = (struct resync){.active = true, .wake_ns = now_ns};
	pace_begin(&r->pace, now_ns, c->config->resync_period_ns, random);
	r->sub = r->first_sub = (size_t)random_below(c->n_subs);
	r->slot = r->first_slot = (uint32_t)random_below(store_slots(c->watcher->store) + UINT64_C(1));
}

/* From what is over to the next sub, and from the last one to the first. False: the round has been everywhere. */
static bool step_on(struct controller *c)
{
	struct resync *r = &c->resync;
	for (;;) {
		bool back = r->wrapped && r->sub == r->first_sub && r->slot >= r->first_slot;
		if (back || r->over)
			return false;
		if (has_turn(&c->subs[r->sub]) && r->slot < store_slots(c->watcher->store))
			return true;
		r->slot = 0;
		r->sub = (r->sub + 1) % c->n_subs;
		if (r->sub == 0) {
			r->over = r->wrapped; /* the place where it began is no more */
			r->wrapped = true;
		}
	}
}

/* The object at the place, if there is one of the sub. */
/* 1; 0: there is none; -EAGAIN: programs are asked enough for now. */
static int take(struct watcher *w, struct controller *c)
{
	struct resync *r = &c->resync;
	struct sub *s = &c->subs[r->sub];
	struct store_view v;
	keys_reset(&w->keys);
	if (!store_at(w->store, r->slot, &v) || v.table != s->informer->table)
		return 0;
	int rc = sub_keys_of_cached(s, &v, QUESTION_RESYNC, &w->keys);
	if (rc <= 0)
		return rc;
	struct outbox_key k = {.controller = c->index, .priority = PRIORITY_LOW, .cause = WIRE_CAUSE_RESYNC};
	sub_cause(s, v.namespace, v.name, &k);
	for (size_t i = 0; i < w->keys.count; i++) {
		keys_get(&w->keys, i, &k.namespace, &k.name);
		(void)outbox_put(w->outbox, &k,
				 false); /* there was room; a rest finds it in the next round */
	}
	return 1;
}

static void run(struct watcher *w, struct controller *c, int64_t now_ns)
{
	struct resync *r = &c->resync;
	uint64_t all = objects(c);
	r->wake_ns = now_ns + STEP_NS;
	for (unsigned looked = 0; step_on(c); looked++) {
		uint64_t left = all > r->taken ? all - r->taken : 1;
		int64_t due_ns = pace_due_ns(&r->pace, left);
		if (due_ns > now_ns) {
			r->wake_ns = MAX(due_ns, r->wake_ns);
			return;
		}
		if (outbox_room(w->outbox, false) < ROOM_MIN || looked == LOOKED_MAX)
			return;
		int rc = take(w, c);
		if (rc < 0)
			return;
		if (rc > 0) {
			r->taken++;
			pace_took(&r->pace, left);
		}
		r->slot++;
	}
	if (now_ns < r->pace.end_ns) {
		r->wake_ns = r->pace.end_ns;
		return;
	}
	log_info("resync complete", LOG_S("controller", c->config->name), LOG_I("objects", r->taken));
	begin(c, now_ns);
}

void resync_run(struct watcher *w, int64_t now_ns)
{
	for (size_t i = 0; i < w->n_controllers; i++) {
		struct controller *c = &w->controllers[i];
		/* A takeover reconciles everything; the time counts from there. */
		if (campaign_follows(w))
			c->resync.active = false;
		else if (!c->resync.active && controller_listed(c))
			begin(c, now_ns);
		else if (c->resync.active && now_ns >= c->resync.wake_ns)
			run(w, c, now_ns);
	}
}

int64_t resync_due_ns(const struct watcher *w)
{
	int64_t due = INT64_MAX;
	for (size_t i = 0; i < w->n_controllers; i++)
		if (w->controllers[i].resync.active)
			due = MIN(due, w->controllers[i].resync.wake_ns);
	return due;
}
