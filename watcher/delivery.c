/* From the outbox, and from sweeps of the cache, to the broker. Outbox first: its keys are real events. */
#include "log.h"
#include "watcher.h"
#include <stdio.h>

enum { BATCH = 1024, SWEEPS_IN_FLIGHT = 2, SWEEP_SLOTS = 20000 /* looked at in one go */ };
#define RETRY_MIN_NS (100 * (int64_t)NS_PER_MS)
#define RETRY_MAX_NS (5 * NS_PER_S)
#define LOST_NS	     (30 * NS_PER_S) /* between two sweeps because of lost events */

struct broker_batch {
	char controller[64]; /* by name: a reload may have removed it before the answer comes */
	bool sweep;
	uint32_t count;
	uint32_t entries[BATCH]; /* of the outbox */
	uint16_t ends[BATCH];	 /* so many keys of ADD are those of the entries up to this one */
	struct keys keys;	 /* of a sweep: kept until they are stored */
	size_t sent;		 /* keys of the sweep that are stored */
};

static struct controller *find(struct watcher *w, struct span name)
{
	for (size_t i = 0; i < w->n_controllers; i++)
		if (span_is(name, w->controllers[i].config->name))
			return &w->controllers[i];
	return NULL;
}

static void batch_free(struct broker_batch *b)
{
	keys_done(&b->keys);
	free(b);
}

static void hold_off(struct controller *c, int64_t now_ns)
{
	c->retry_delay_ns = MIN(MAX(c->retry_delay_ns * 2, RETRY_MIN_NS), RETRY_MAX_NS);
	c->retry_at_ns = now_ns + c->retry_delay_ns;
}

/* ---- the outbox ---- */

/* One for each event that the key is there for. Where there is no room for so many, one that names none. */
static size_t add_keys(const struct outbox_key *k, struct wire_add_key *out, size_t room)
{
	size_t events = k->n_events <= room ? k->n_events : 0, n = MAX(events, (size_t)1);
	for (size_t i = 0; i < n; i++) {
		out[i] = (struct wire_add_key){.namespace = k->namespace,
					       .name = k->name,
					       .priority = k->priority,
					       .primary_changed = k->primary_changed,
					       .cause = k->cause,
					       .cause_kind = k->cause_kind,
					       .cause_namespace = k->cause_namespace,
					       .cause_name = k->cause_name};
		if (events) {
			out[i].table = k->events[i].table;
			out[i].stream = k->events[i].stream;
			out[i].resource_version = k->events[i].resource_version;
		}
	}
	return n;
}

/* The entries of the batch, all of one controller; it is freed if it cannot be sent. */
static bool send_entries(struct watcher *w, struct broker_batch *b)
{
	struct wire_add_key keys[BATCH];
	struct outbox_key k = {0};
	size_t n = 0;
	for (uint32_t i = 0; i < b->count; i++) {
		outbox_view(w->outbox, b->entries[i], &k);
		n += add_keys(&k, keys + n, BATCH - n - (b->count - i - 1));
		b->ends[i] = (uint16_t)n;
	}
	for (size_t i = 0; b->count && i < w->n_controllers; i++)
		if (w->controllers[i].index == k.controller)
			snprintf(b->controller, sizeof b->controller, "%s", w->controllers[i].config->name);
	if (b->count && broker_add(w->broker, b->controller, keys, n, b) == 0)
		return true;
	for (uint32_t i = 0; i < b->count; i++)
		outbox_return(w->outbox, b->entries[i]);
	batch_free(b);
	return false;
}

static bool send_outbox(struct watcher *w, int64_t now_ns)
{
	bool skip[CACHE_CONTROLLERS] = {0};
	for (size_t i = 0; i < w->n_controllers; i++)
		skip[w->controllers[i].index] = now_ns < w->controllers[i].retry_at_ns;
	struct broker_batch *b = xcalloc(1, sizeof *b);
	b->count = outbox_take(w->outbox, skip, BATCH, b->entries);
	return send_entries(w, b);
}

/* Of an event that concerned very many keys: only so many a second. */
static bool send_paced(struct watcher *w, struct controller *c, int64_t now_ns)
{
	uint32_t qps = c->config->storm_qps, may = limit_has(&c->storm, qps, now_ns);
	if (!may || now_ns < c->retry_at_ns || !outbox_has_paced(w->outbox, c->index))
		return false;
	struct broker_batch *b = xcalloc(1, sizeof *b);
	uint32_t n = b->count = outbox_take_paced(w->outbox, c->index, MIN(may, (uint32_t)BATCH), b->entries);
	if (!send_entries(w, b))
		return false;
	limit_take(&c->storm, qps, n, now_ns);
	return true;
}

static void outbox_added(struct watcher *w, struct broker_batch *b, int64_t accepted)
{
	for (uint32_t i = 0; i < b->count; i++)
		if (b->ends[i] <= accepted)
			outbox_ack(w->outbox, b->entries[i]);
		else
			outbox_return(w->outbox, b->entries[i]);
}

/* ---- sweeps ---- */

static uint32_t kind_of(const struct controller *c)
{
	return atomic_load(&c->shared->sweep) & CACHE_SWEEP_KIND;
}

/* Nobody else writes it. */
static void set_kind(struct controller *c, uint32_t kind)
{
	uint32_t rest = atomic_load(&c->shared->sweep) & ~(uint32_t)CACHE_SWEEP_KIND;
	atomic_store_explicit(&c->shared->sweep, rest | kind, memory_order_release);
}

void controller_want_sweep(struct controller *c, uint32_t cause)
{
	c->sweep.cause = cause;
	set_kind(c, CACHE_SWEEP_ALL);
	c->sweep.again = true;
}

void controller_want_paced_sweep(struct controller *c)
{
	/* One that is not paced comes first, and both are one if this watcher dies before. */
	if (kind_of(c) == CACHE_SWEEP_NONE) {
		c->sweep.cause = WIRE_CAUSE_SWEEP;
		set_kind(c, CACHE_SWEEP_PACED);
	}
	c->sweep.again_paced = true;
}

void controller_want_all(struct controller *c)
{
	atomic_fetch_or(&c->shared->sweep, CACHE_SWEEP_UNMAPPED);
	c->sweep.lost = true;
}

/* All that programs were to map is in the outbox or swept. */
static void mark_falls(struct controller *c)
{
	bool sweeps = c->sweep.lost || (c->sweep.active && c->sweep.unfiltered);
	if (!c->unmapped && !sweeps && atomic_load(&c->shared->sweep) & CACHE_SWEEP_UNMAPPED)
		atomic_fetch_and(&c->shared->sweep, ~(uint32_t)CACHE_SWEEP_UNMAPPED);
}

bool controller_listed(const struct controller *c)
{
	for (size_t i = 0; i < c->n_subs; i++)
		if (!informer_synced(c->subs[i].informer) && !informer_blocked(c->subs[i].informer))
			return false;
	return true;
}

static bool lost_is_due(const struct controller *c, int64_t now_ns)
{
	return c->sweep.lost && now_ns >= c->sweep.lost_due_ns;
}

static bool may_sweep(const struct controller *c, int64_t now_ns)
{
	bool wanted = c->sweep.active || kind_of(c) != CACHE_SWEEP_NONE || lost_is_due(c, now_ns);
	return wanted && !c->sweep.telling && controller_listed(c);
}

/* INDEX and ALL: their keys are keys of `for` objects, which are swept themselves. And keys in a scope that
 * is not known yet cannot be made: the first list of the `for` kind brings another sweep. */
static bool has_nothing(const struct watcher *w, const struct sub *s)
{
	enum config_map_type type = s->mapping.type;
	if (!s->controller->sweep.as_creates && type != MAP_SELF)
		return true;
	return type == MAP_INDEX || type == MAP_ALL ||
	       (type != MAP_SELF &&
		store_table_entry(w->store, s->primary->table)->scope == CACHE_SCOPE_UNKNOWN);
}

/* Those that a program maps come last: it may be down, and then the sweep stands. */
static bool is_over(const struct controller *c)
{
	return c->sweep.sub >= 2 * c->n_subs;
}
static bool has_turn(const struct controller *c, const struct sub *s)
{
	return (s->mapping.type == MAP_PROGRAM) == (c->sweep.sub >= c->n_subs);
}

/* The next keys of the controller, up to a batch or about max, or as far as one go looks. False: it must wait for programs. */
static bool collect(struct watcher *w, struct controller *c, size_t max, struct keys *out)
{
	struct store_view v;
	for (uint32_t i = 0; !is_over(c) && out->count < max && i < SWEEP_SLOTS; i++) {
		struct sub *s = &c->subs[c->sweep.sub % c->n_subs];
		uint32_t slots = store_slots(w->store);
		if (!has_turn(c, s) || has_nothing(w, s) || c->sweep.looked >= slots) {
			c->sweep.sub++;
			c->sweep.looked = 0;
			continue;
		}
		uint32_t slot = (uint32_t)(((uint64_t)c->sweep.first + c->sweep.looked) % slots);
		size_t before = out->count;
		int rc = store_at(w->store, slot, &v) && v.table == s->informer->table
			     ? sub_keys_of_cached(s, &v, QUESTION_SWEEP, out)
			     : 0;
		if (rc < 0)
			return false;
		if (rc && out->all && before) { /* it does not fit any more: it begins the next batch */
			out->count = before;
			out->all = false;
			return true;
		}
		c->sweep.looked++;
	}
	return true;
}

/* Keys that went in vain are not remembered: another round like this one. */
static void not_stored(struct controller *c)
{
	*(c->sweep.paced ? &c->sweep.again_paced : &c->sweep.again) = true;
}

static int send_sweep(struct watcher *w, struct controller *c, struct broker_batch *b)
{
	struct wire_add_key keys[BATCH];
	size_t n = 0;
	for (size_t i = b->sent; i < b->keys.count; i++, n++) {
		keys[n] = (struct wire_add_key){.priority = PRIORITY_LOW,
						.cause = c->sweep.cause ? c->sweep.cause : WIRE_CAUSE_SWEEP};
		keys_get(&b->keys, i, &keys[n].namespace, &keys[n].name);
	}
	return broker_add(w->broker, c->config->name, keys, n, b);
}

static void sweep_restart(struct controller *c, int64_t now_ns)
{
	struct sweep *s = &c->sweep;
	s->unfiltered = s->lost || (s->active && s->unfiltered);
	if (s->lost)
		s->lost_due_ns = now_ns + LOST_NS;
	s->lost = false;
	s->as_creates = kind_of(c) != CACHE_SWEEP_NONE;
	s->paced = kind_of(c) == CACHE_SWEEP_PACED && !s->unfiltered;
	if (!s->as_creates)
		s->cause = WIRE_CAUSE_SWEEP;
	s->sub = 0;
	s->looked = 0;
	/* A paced round takes its time: watchers that end before it does should not leave the same keys out each time. */
	s->first = s->paced ? (uint32_t)random_below(store_slots(c->watcher->store)) : 0;
	s->again = s->again_paced = s->stands = false;
	s->active = true;
}

/* At the end of a round: is another one asked for? */
static bool wants_another(struct controller *c)
{
	if (!c->sweep.again && c->sweep.again_paced)
		set_kind(c, CACHE_SWEEP_PACED);
	return c->sweep.again || c->sweep.again_paced;
}

/* How many keys may go now. */
static size_t sweep_may(const struct controller *c, int64_t now_ns)
{
	return c->sweep.paced ? MIN(limit_has(&c->storm, c->config->storm_qps, now_ns), (uint32_t)BATCH)
			      : BATCH;
}

static bool sweep_step(struct watcher *w, struct controller *c, int64_t now_ns)
{
	if (!c->sweep.active) {
		sweep_restart(c, now_ns);
		log_info("sweep started", LOG_S("controller", c->config->name),
			 LOG_S("pace", c->sweep.paced ? "stormGuard" : "none"));
	} else if ((c->sweep.paced || c->sweep.stands) && c->sweep.again) {
		sweep_restart(c, now_ns); /* all are wanted at once now */
	}
	if (is_over(c) && c->sweep.in_flight)
		return false;
	/* Programs are not waited for. */
	if ((is_over(c) && wants_another(c)) || ((is_over(c) || c->sweep.stands) && lost_is_due(c, now_ns))) {
		sweep_restart(c, now_ns);
		return true;
	}
	if (is_over(c)) {
		if (!c->sweep.asked && broker_swept(w->broker, c->config->name) == 0)
			c->sweep.telling = true;
		return false;
	}
	size_t may = sweep_may(c, now_ns);
	if (!may || c->sweep.in_flight >= SWEEPS_IN_FLIGHT || !broker_may_add(w->broker))
		return false;
	struct broker_batch *b = xcalloc(1, sizeof *b);
	b->sweep = true;
	snprintf(b->controller, sizeof b->controller, "%s", c->config->name);
	c->sweep.stands = !collect(w, c, may, &b->keys);
	if (!b->keys.count) {
		batch_free(b);
		return !c->sweep.stands;
	}
	if (send_sweep(w, c, b) < 0) {
		not_stored(c);
		batch_free(b);
		return false;
	}
	if (c->sweep.paced)
		limit_take(&c->storm, c->config->storm_qps, (uint32_t)b->keys.count, now_ns);
	c->sweep.in_flight++;
	return true;
}

static void sweep_added(struct controller *c, struct broker_batch *b, int64_t accepted)
{
	c->sweep.in_flight -= c->sweep.in_flight > 0; /* the controller may have gone and come back */
	b->sent += accepted > 0 ? (size_t)MIN((uint64_t)accepted, b->keys.count - b->sent) : 0;
	if (b->sent < b->keys.count)
		not_stored(c);
}

/* ---- what the broker tells ---- */

static void on_connected(void *ctx, struct wire_loaded *loaded, size_t max, size_t *ret_count)
{
	struct watcher *w = ctx;
	size_t n = 0;
	for (; n < w->n_controllers && n < max; n++)
		loaded[n] = (struct wire_loaded){span_of(w->controllers[n].config->name),
						 span_of(w->controllers[n].config->digest)};
	*ret_count = n;
}

static void on_ready(void *ctx, const struct wire_loaded *want_all, size_t count)
{
	struct watcher *w = ctx;
	for (size_t i = 0; i < w->n_controllers; i++)
		w->controllers[i].retry_at_ns = w->controllers[i].retry_delay_ns = 0;
	for (size_t i = 0; i < count; i++) {
		struct controller *c = find(w, want_all[i].controller);
		if (c)
			controller_want_sweep(c, WIRE_CAUSE_SWEEP);
	}
	progress_begin(w);
}

static void on_added(void *ctx, struct broker_batch *b, int64_t accepted, struct span message)
{
	struct watcher *w = ctx;
	struct controller *c = find(w, span_of(b->controller));
	int64_t asked = b->sweep ? (int64_t)b->keys.count : b->ends[b->count - 1];
	if (c && accepted >= 0 && accepted < asked) {
		if (!c->retry_delay_ns)
			log_warning("the broker has no room for keys: they are kept and sent again",
				    LOG_S("controller", b->controller), LOG_I("accepted", accepted),
				    LOG_I("sent", asked), LOG_SP("message", message));
		hold_off(c, clock_boottime_ns());
	} else if (c && accepted < 0) {
		hold_off(c, clock_boottime_ns());
	} else if (c) {
		c->retry_delay_ns = 0;
	}
	if (!b->sweep)
		outbox_added(w, b, accepted);
	else if (c)
		sweep_added(c, b, accepted);
	batch_free(b);
}

static void on_swept(void *ctx, struct span name, bool done)
{
	struct watcher *w = ctx;
	struct controller *c = find(w, name);
	if (!c)
		return;
	c->sweep.telling = false;
	c->sweep.active = false;
	if (!done || wants_another(c)) {
		c->sweep.lost |= c->sweep.unfiltered;
		return;
	}
	if (c->sweep.as_creates)
		set_kind(c, CACHE_SWEEP_NONE);
	mark_falls(c);
	log_info("sweep complete", LOG_S("controller", c->config->name));
}

static void on_await(void *ctx, const struct wire_place *places, size_t count)
{
	progress_await(ctx, places, count);
}

const struct broker_ops delivery_ops = {on_connected, on_ready, on_added, on_swept, on_await};

/* ---- the loop's part ---- */

static void run_paced(struct watcher *w, struct controller *c, int64_t now_ns)
{
	while (broker_may_add(w->broker) && send_paced(w, c, now_ns))
		;
}

static void run_sweep(struct watcher *w, struct controller *c, int64_t now_ns)
{
	while (may_sweep(c, now_ns) && now_ns >= c->retry_at_ns && sweep_step(w, c, now_ns))
		;
}

void delivery_run(struct watcher *w, int64_t now_ns)
{
	if (campaign_follows(w))
		return;
	while (broker_may_add(w->broker) && outbox_waiting(w->outbox) && send_outbox(w, now_ns))
		;
	for (size_t i = 0; i < w->n_controllers && broker_ready(w->broker); i++) {
		struct controller *c = &w->controllers[i];
		/* Of storms, those in the outbox and a sweep have turns. */
		c->storm_turn = !c->storm_turn;
		for (int turn = 0; turn < 2; turn++)
			if (c->storm_turn == (turn == 0))
				run_sweep(w, c, now_ns);
			else
				run_paced(w, c, now_ns);
		mark_falls(c);
	}
}

int64_t delivery_due_ns(const struct watcher *w)
{
	int64_t due = INT64_MAX;
	for (size_t i = 0; i < w->n_controllers; i++) {
		const struct controller *c = &w->controllers[i];
		if (c->retry_at_ns > w->acted_ns) /* what was due then has had its turn */
			due = MIN(due, c->retry_at_ns);
		bool sweeps = c->sweep.active && c->sweep.paced && !is_over(c) && !c->sweep.stands;
		int64_t paced = sweeps || outbox_has_paced(w->outbox, c->index)
				    ? limit_due_ns(&c->storm, c->config->storm_qps)
				    : INT64_MIN;
		if (paced > w->acted_ns)
			due = MIN(due, paced);
		if (c->sweep.lost && c->sweep.lost_due_ns > w->acted_ns)
			due = MIN(due, c->sweep.lost_due_ns);
	}
	return due;
}
