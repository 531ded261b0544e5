#include "outbox.h"

enum { NONE = UINT32_MAX, PACED_SHARE = 4 };
enum place {
	FREE,
	WAITING,
	IN_FLIGHT,
	HELD,
	DROPPED /* in flight or held, and nobody wants to know any more */
};

struct outbox {
	struct outbox_place place;
	struct cache_outbox_entry *extents[CACHE_OUTBOX_EXTENTS];
	uint32_t count;			   /* entries that are there */
	uint32_t free_first;		   /* chained by next */
	uint32_t waiting, in_flight, held; /* dropped ones are of what they were */
	uint32_t paced;			   /* so many of those that wait */
	struct queue {
		uint32_t first, last;
	} queues[2 * CACHE_CONTROLLERS]; /* of each controller one; then of each one of paced keys */
	struct private
	{
		uint32_t next;	      /* in its queue or the free chain */
		uint32_t bucket_next; /* waiting entries by hash of their key */
		uint32_t hash;
		uint8_t place;
		uint64_t order; /* of arrival */
	}
	*mine;
	uint32_t *buckets; /* count of them is a power of two */
	uint32_t mask;
	uint64_t arrivals;
};

static struct cache_outbox_entry *entry_at(const struct outbox *o, uint32_t i)
{
	return &o->extents[i / CACHE_OUTBOX_EXTENT][i % CACHE_OUTBOX_EXTENT];
}

static struct span text(const struct cache_outbox_entry *e, int which)
{
	size_t at = 0;
	for (int i = 0; i < which; i++)
		at += e->lengths[i];
	return (struct span){e->text + at, e->lengths[which]};
}

void outbox_view(const struct outbox *o, uint32_t entry, struct outbox_key *ret)
{
	const struct cache_outbox_entry *e = entry_at(o, entry);
	*ret = (struct outbox_key){.controller = e->controller,
				   .namespace = text(e, 0),
				   .name = text(e, 1),
				   .cause_kind = text(e, 2),
				   .cause_namespace = text(e, 3),
				   .cause_name = text(e, 4),
				   .priority = e->priority,
				   .cause = e->cause,
				   .primary_changed = e->flags & CACHE_OUTBOX_PRIMARY_CHANGED,
				   .paced = e->flags & CACHE_OUTBOX_PACED,
				   .events = e->event,
				   .n_events = e->events};
}

static uint32_t key_hash(uint8_t controller, struct span namespace, struct span name)
{
	return (uint32_t)cache_name_hash(controller, namespace, name);
}

static bool is_paced(const struct cache_outbox_entry *e)
{
	return e->flags & CACHE_OUTBOX_PACED;
}

static struct queue *queue_of(struct outbox *o, const struct cache_outbox_entry *e)
{
	return &o->queues[e->controller + (is_paced(e) ? CACHE_CONTROLLERS : 0)];
}

static void bucket(struct outbox *o, uint32_t i)
{
	struct private *p = &o->mine[i];
	p->bucket_next = o->buckets[p->hash & o->mask];
	o->buckets[p->hash & o->mask] = i;
}

static void enqueue(struct outbox *o, uint32_t i)
{
	const struct cache_outbox_entry *e = entry_at(o, i);
	struct private *p = &o->mine[i];
	struct queue *q = queue_of(o, e);
	p->place = WAITING;
	p->next = NONE;
	p->order = o->arrivals++;
	p->hash = key_hash(e->controller, text(e, 0), text(e, 1));
	bucket(o, i);
	if (q->first == NONE)
		q->first = i;
	else
		o->mine[q->last].next = i;
	q->last = i;
	o->waiting++;
	o->paced += is_paced(e);
}

static void unbucket(struct outbox *o, uint32_t i)
{
	uint32_t *at = &o->buckets[o->mine[i].hash & o->mask];
	while (*at != i)
		at = &o->mine[*at].bucket_next;
	*at = o->mine[i].bucket_next;
}

static uint32_t dequeue(struct outbox *o, size_t queue)
{
	struct queue *q = &o->queues[queue];
	uint32_t i = q->first;
	q->first = o->mine[i].next;
	unbucket(o, i);
	o->waiting--;
	o->paced -= is_paced(entry_at(o, i));
	return i;
}

static void release(struct outbox *o, uint32_t i)
{
	atomic_store_explicit(&entry_at(o, i)->state, 0, memory_order_release);
	o->mine[i].place = FREE;
	o->mine[i].next = o->free_first;
	o->free_first = i;
}

static bool entry_sane(const struct cache_outbox_entry *e, const struct cache_controller *controllers)
{
	size_t sum = 0;
	for (int i = 0; i < 5; i++)
		sum += e->lengths[i];
	return atomic_load_explicit(&e->state, memory_order_acquire) == 1 && sum <= sizeof e->text &&
	       e->controller < CACHE_CONTROLLERS && e->lengths[0] <= NAMESPACE_MAX_LEN && e->lengths[1] &&
	       e->lengths[1] <= NAME_MAX_LEN && e->events <= CACHE_OUTBOX_EVENTS &&
	       *controllers[e->controller].name;
}

/* One extent more, whose entries come next. */
static bool grow(struct outbox *o)
{
	uint32_t n = o->count / CACHE_OUTBOX_EXTENT;
	if (!(o->extents[n] = o->place.extent(o->place.ctx, n)))
		return false;
	o->count += CACHE_OUTBOX_EXTENT;
	o->mine = xrealloc(o->mine, o->count * sizeof *o->mine);
	memset(o->mine + o->count - CACHE_OUTBOX_EXTENT, 0, CACHE_OUTBOX_EXTENT * sizeof *o->mine);
	while (o->mask < o->count)
		o->mask = o->mask << 1 | 1;
	o->buckets = xrealloc(o->buckets, ((size_t)o->mask + 1) * sizeof *o->buckets);
	for (uint32_t i = 0; i <= o->mask; i++)
		o->buckets[i] = NONE;
	for (uint32_t i = 0; i < o->count; i++)
		if (o->mine[i].place == WAITING)
			bucket(o, i);
	return true;
}

struct outbox *outbox_new(const struct outbox_place *place, const struct cache_controller *controllers)
{
	struct outbox *o = xcalloc(1, sizeof *o);
	o->place = *place;
	o->place.most = MAX(MIN(place->most, (uint32_t)CACHE_OUTBOX_EXTENTS), place->extents);
	o->free_first = NONE;
	o->mask = 1;
	for (size_t i = 0; i < ARRAY_SIZE(o->queues); i++)
		o->queues[i] = (struct queue){NONE, NONE};
	while (o->count < place->extents * CACHE_OUTBOX_EXTENT && grow(o))
		;
	for (uint32_t i = o->count; i-- > 0;)
		if (!entry_sane(entry_at(o, i), controllers))
			release(o, i);
		else
			enqueue(o, i);
	return o;
}

void outbox_free(struct outbox *o)
{
	if (!o)
		return;
	free(o->mine);
	free(o->buckets);
	free(o);
}

static uint32_t most(const struct outbox *o)
{
	return o->place.most * CACHE_OUTBOX_EXTENT;
}

uint32_t outbox_waiting(const struct outbox *o)
{
	return o->waiting;
}
uint32_t outbox_used(const struct outbox *o)
{
	return o->waiting + o->in_flight + o->held;
}
uint32_t outbox_held(const struct outbox *o)
{
	return o->held;
}
bool outbox_may_hold(const struct outbox *o)
{
	return o->held < most(o) / 4;
}
uint32_t outbox_room(const struct outbox *o, bool must)
{
	uint32_t limit = must ? most(o) : most(o) - most(o) / 8;
	return limit - MIN(limit, outbox_used(o));
}

uint64_t outbox_arrivals(const struct outbox *o)
{
	return o->arrivals;
}
bool outbox_sent(const struct outbox *o, uint8_t controller, uint64_t arrivals)
{
	uint32_t first = o->queues[controller].first;
	return first == NONE || o->mine[first].order >= arrivals;
}

static uint32_t find_waiting(const struct outbox *o, const struct outbox_key *k)
{
	uint32_t hash = key_hash(k->controller, k->namespace, k->name);
	for (uint32_t i = o->buckets[hash & o->mask]; i != NONE; i = o->mine[i].bucket_next) {
		const struct cache_outbox_entry *e = entry_at(o, i);
		if (o->mine[i].hash == hash && e->controller == k->controller &&
		    span_eq(text(e, 0), k->namespace) && span_eq(text(e, 1), k->name))
			return i;
	}
	return NONE;
}

static void write_entry(struct cache_outbox_entry *e, const struct outbox_key *k)
{
	const struct span texts[5] = {k->namespace, k->name, k->cause_kind, k->cause_namespace,
				      k->cause_name};
	size_t causes = texts[2].len + texts[3].len + texts[4].len, at = 0;
	bool fits = k->namespace.len + k->name.len + causes <= sizeof e->text;
	for (int i = 0; i < 5; i++) {
		e->lengths[i] = i < 2 || fits ? (uint16_t)texts[i].len : 0;
		if (e->lengths[i])
			memcpy(e->text + at, texts[i].at, e->lengths[i]);
		at += e->lengths[i];
	}
	e->controller = k->controller;
	e->flags = (uint8_t)((k->primary_changed ? CACHE_OUTBOX_PRIMARY_CHANGED : 0) |
			     (k->paced ? CACHE_OUTBOX_PACED : 0));
	e->priority = k->priority;
	e->cause = k->cause;
	e->events = (uint8_t)MIN(k->n_events, (size_t)CACHE_OUTBOX_EVENTS);
	if (e->events)
		memcpy(e->event, k->events, e->events * sizeof *e->event);
	atomic_store_explicit(&e->state, 1, memory_order_release);
}

static bool has_event(const struct cache_outbox_entry *e, const struct cache_event *event)
{
	for (size_t i = 0; i < e->events; i++)
		if (!memcmp(&e->event[i], event, sizeof *event))
			return true;
	return false;
}

/* What is not told by events alone stays so. */
static void merge_events(struct cache_outbox_entry *e, const struct outbox_key *k)
{
	if (!k->n_events)
		e->events = 0;
	for (size_t i = 0; i < k->n_events && e->events; i++) {
		if (has_event(e, &k->events[i]))
			continue;
		if (e->events == CACHE_OUTBOX_EVENTS) {
			e->events = 0;
			break;
		}
		e->event[e->events] = k->events[i];
		e->events++;
	}
}

/* It is not one of very many any more. */
static void hurry(struct outbox *o, uint32_t i)
{
	struct cache_outbox_entry *e = entry_at(o, i);
	struct queue *q = queue_of(o, e);
	uint32_t before = NONE;
	for (uint32_t at = q->first; at != i; at = o->mine[at].next)
		before = at;
	if (before == NONE)
		q->first = o->mine[i].next;
	else
		o->mine[before].next = o->mine[i].next;
	if (q->last == i)
		q->last = before;
	unbucket(o, i);
	o->waiting--;
	o->paced--;
	e->flags &= (uint8_t)~CACHE_OUTBOX_PACED;
	enqueue(o, i);
}

/* NONE: there is no place for it. */
static uint32_t new_entry(struct outbox *o, const struct outbox_key *k)
{
	if (o->free_first == NONE) {
		uint32_t before = o->count;
		if (before == most(o) || !grow(o))
			return NONE;
		for (uint32_t i = o->count; i-- > before;)
			release(o, i);
	}
	uint32_t i = o->free_first;
	o->free_first = o->mine[i].next;
	write_entry(entry_at(o, i), k);
	return i;
}

int outbox_put(struct outbox *o, const struct outbox_key *k, bool must)
{
	uint32_t i = find_waiting(o, k);
	if (i != NONE) {
		struct cache_outbox_entry *e = entry_at(o, i);
		if (is_paced(e) && !k->paced)
			hurry(o, i);
		e->priority = MAX(e->priority, k->priority);
		if (k->primary_changed)
			e->flags |= CACHE_OUTBOX_PRIMARY_CHANGED;
		merge_events(e, k);
		return 0;
	}
	if (!outbox_room(o, must) || (k->paced && !must && o->paced >= most(o) / PACED_SHARE))
		return -ENOSPC;
	i = new_entry(o, k);
	if (i == NONE)
		return -ENOSPC;
	enqueue(o, i);
	return 0;
}

int outbox_hold(struct outbox *o, const struct outbox_key *k, bool must, uint32_t *ret)
{
	if (!outbox_room(o, must))
		return -ENOSPC;
	uint32_t i = new_entry(o, k);
	if (i == NONE)
		return -ENOSPC;
	*ret = i;
	o->mine[i].place = HELD;
	o->held++;
	return 0;
}

/* An entry that is nowhere waits: one for a key is enough. */
static void wait_again(struct outbox *o, uint32_t entry)
{
	struct outbox_key k;
	outbox_view(o, entry, &k);
	if (find_waiting(o, &k) != NONE) {
		(void)outbox_put(o, &k, true);
		release(o, entry);
	} else {
		enqueue(o, entry);
	}
}

void outbox_pass(struct outbox *o, uint32_t entry)
{
	if (o->mine[entry].place != HELD) {
		outbox_withdraw(o, entry);
		return;
	}
	o->held--;
	wait_again(o, entry);
}

void outbox_withdraw(struct outbox *o, uint32_t entry)
{
	if (o->mine[entry].place != HELD && o->mine[entry].place != DROPPED)
		return;
	o->held--;
	release(o, entry);
}

/* Of the first n queues, the one that has the oldest entry; n: none has any. */
static size_t oldest_of(const struct outbox *o, size_t n, const bool *skip)
{
	size_t oldest = n;
	for (size_t c = 0; c < n; c++)
		if (o->queues[c].first != NONE && !(skip && skip[c]) &&
		    (oldest == n ||
		     o->mine[o->queues[c].first].order < o->mine[o->queues[oldest].first].order))
			oldest = c;
	return oldest;
}

void outbox_shed(struct outbox *o)
{
	size_t oldest = oldest_of(o, ARRAY_SIZE(o->queues), NULL);
	if (oldest < ARRAY_SIZE(o->queues))
		release(o, dequeue(o, oldest));
}

static uint32_t take(struct outbox *o, size_t queue, uint32_t max, uint32_t *entries)
{
	uint32_t n = 0;
	for (; n < max && o->queues[queue].first != NONE; n++) {
		entries[n] = dequeue(o, queue);
		o->mine[entries[n]].place = IN_FLIGHT;
		o->in_flight++;
	}
	return n;
}

uint32_t outbox_take(struct outbox *o, const bool *skip, uint32_t max, uint32_t *entries)
{
	size_t oldest = oldest_of(o, CACHE_CONTROLLERS, skip);
	return oldest < CACHE_CONTROLLERS ? take(o, oldest, max, entries) : 0;
}

uint32_t outbox_take_paced(struct outbox *o, uint8_t controller, uint32_t max, uint32_t *entries)
{
	return take(o, (size_t)CACHE_CONTROLLERS + controller, max, entries);
}

bool outbox_has_paced(const struct outbox *o, uint8_t controller)
{
	return o->queues[CACHE_CONTROLLERS + controller].first != NONE;
}

void outbox_ack(struct outbox *o, uint32_t entry)
{
	if (o->mine[entry].place != IN_FLIGHT && o->mine[entry].place != DROPPED)
		return;
	o->in_flight--;
	release(o, entry);
}

void outbox_return(struct outbox *o, uint32_t entry)
{
	if (o->mine[entry].place != IN_FLIGHT) {
		outbox_ack(o, entry);
		return;
	}
	o->in_flight--;
	wait_again(o, entry);
}

void outbox_drop(struct outbox *o, uint8_t controller)
{
	for (size_t q = controller; q < ARRAY_SIZE(o->queues); q += CACHE_CONTROLLERS)
		while (o->queues[q].first != NONE)
			release(o, dequeue(o, q));
	/* Those in flight and held are not used again before their answer has come. */
	for (uint32_t i = 0; i < o->count; i++)
		if ((o->mine[i].place == IN_FLIGHT || o->mine[i].place == HELD) &&
		    entry_at(o, i)->controller == controller) {
			o->mine[i].place = DROPPED;
			atomic_store_explicit(&entry_at(o, i)->state, 0, memory_order_release);
		}
}
