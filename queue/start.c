/* The indexes over the slots that are there: once, at a start. A million keys are ready in some tens of milliseconds, so the slots
 * are read once, and only memory that stays is filled. */
#include "change.h"

enum {
	FOUND = 16384
}; /* so many keys are put into the table at once: between them, reading slots would turn its lines out of the caches */

struct start {
	struct workqueue *wq;
	struct {
		uint32_t tag, slot;
	} * found;
	size_t n_found;
	size_t n_ready;
	int64_t last_ready;
	bool in_order; /* the READY ones were found in the order of their times, and are linked */
};

/* ---- keys ---- */

/* Counts the key to its namespace, which may be new to the index. */
static int find_namespace(struct workqueue *wq, const struct shm_slot *s, struct err *err)
{
	struct index *x = &wq->index;
	struct index_namespace *n = &x->namespaces[s->namespace_number];
	if (n->keys++ > 0)
		return n->controller == s->controller
			   ? 0
			   : err_set(err, -EBADMSG, "two controllers have one namespace cell");
	struct span text = store_namespace(wq->store, s->namespace_number);
	struct index_key key = index_key(x, s->controller, text, span_of(""));
	if (table_reserve(&x->by_namespace, index_tag(key.namespace_hash)) < 0)
		return err_set(err, -EBADMSG, "too many namespaces meet in one place");
	if (index_namespace_is_there(x, &key))
		return err_set(err, -EBADMSG, "the namespace " SPAN_FMT " is in two cells", SPAN_ARG(text));
	index_namespace_found(x, key.namespace_hash, s->controller, s->namespace_number);
	n->keys = 1;
	return 0;
}

static bool same_key(const void *ctx, uint32_t a, uint32_t b)
{
	const struct store *st = ctx;
	struct shm_slot rooms[2];
	const struct shm_slot *slots[] = {store_read_slots(st, a, 1, &rooms[0]),
					  store_read_slots(st, b, 1, &rooms[1])};
	return slots[0]->namespace_number == slots[1]->namespace_number &&
	       span_eq(store_name(st, slots[0]), store_name(st, slots[1]));
}

static int put_found(struct start *b, struct err *err)
{
	struct table *t = &b->wq->index.by_key;
	for (size_t i = 0; i < b->n_found; i++) {
		if (table_reserve(t, b->found[i].tag) < 0)
			return err_set(err, -EBADMSG, "too many keys meet in one place");
		table_insert(t, b->found[i].tag, b->found[i].slot);
	}
	b->wq->index.keys += (uint32_t)b->n_found;
	b->n_found = 0;
	return 0;
}

static int find_key(struct start *b, uint32_t tag, uint32_t slot, struct err *err)
{
	b->found[b->n_found].tag = tag;
	b->found[b->n_found].slot = slot;
	return ++b->n_found == FOUND ? put_found(b, err) : 0;
}

static int arrange_keys(struct start *b, struct err *err)
{
	struct workqueue *wq = b->wq;
	int rc = put_found(b, err);
	if (rc < 0)
		return rc;
	uint32_t twice = table_arrange(&wq->index.by_key, same_key, wq->store);
	if (twice == TABLE_NONE)
		return 0;
	struct span namespace, name;
	store_key(wq->store, store_slot(wq->store, twice), &namespace, &name);
	return err_set(err, -EBADMSG, "the key " SPAN_FMT "/" SPAN_FMT " is in two slots",
		       SPAN_ARG(namespace), SPAN_ARG(name));
}

/* store_check: it is a slot in use, whose parts are right. */
static int find_slot(void *ctx, uint32_t slot, const struct shm_slot *s, struct err *err)
{
	struct start *b = ctx;
	struct workqueue *wq = b->wq;
	int rc = find_namespace(wq, s, err);
	if (rc == 0)
		rc = find_key(b, index_tag(index_hash_of(&wq->index, s)), slot, err);
	if (rc < 0)
		return rc;
	struct workqueue_controller *c = &wq->controllers[s->controller];
	c->uncounted_adds += (s->flags & SHM_SLOT_ADDED) != 0;
	c->uncounted_merges += s->uncounted;
	if (s->state != SHM_STATE_READY) {
		change_index(wq, slot);
		wq->unrecorded += SHM_LEASED(s->state) && !s->record;
		return 0;
	}
	b->in_order = b->in_order && s->ready_at >= b->last_ready;
	b->last_ready = s->ready_at;
	b->n_ready++;
	if (b->in_order)
		index_ready_add(&wq->index, slot, s->namespace_number, index_band(s->priority));
	return 0;
}

/* ---- the ready lists, when the order of the times is not that of the slots ---- */

struct by_time {
	int64_t at;
	uint32_t slot;
	uint32_t place; /* number of the namespace * INDEX_BANDS + band */
};
_Static_assert((uint64_t)SHM_BLOCKS_MAX *SHM_NAMESPACES_PER_BLOCK *INDEX_BANDS <= UINT32_MAX, "place");

/* By digits of 11 bits, the lowest first; equal ones keep the order of their slots. Returns which of the two has them. */
static struct by_time *sort_by_time(struct by_time *from, struct by_time *to, size_t len)
{
	enum { BITS = 11, DIGITS = 1 << BITS };
	int64_t least = INT64_MAX, most = INT64_MIN;
	for (size_t i = 0; i < len; i++) {
		least = MIN(least, from[i].at);
		most = MAX(most, from[i].at);
	}
	uint64_t range = (uint64_t)most - (uint64_t)least;
	for (unsigned shift = 0; shift < 64 && range >> shift; shift += BITS) {
		size_t next[DIGITS + 1] = {0};
		for (size_t i = 0; i < len; i++)
			next[(((uint64_t)from[i].at - (uint64_t)least) >> shift) % DIGITS + 1]++;
		for (size_t i = 0; i < DIGITS; i++)
			next[i + 1] += next[i];
		for (size_t i = 0; i < len; i++)
			to[next[(((uint64_t)from[i].at - (uint64_t)least) >> shift) % DIGITS]++] = from[i];
		struct by_time *swap = from;
		from = to;
		to = swap;
	}
	return from;
}

static size_t ready_slots(const struct store *st, struct by_time *ret)
{
	struct shm_slot *room = xmalloc(SHM_BLOCK);
	const struct shm_slot *slots = room;
	size_t n = 0;
	for (uint32_t i = 0; i < store_slots(st); i++) {
		if (i % SHM_SLOTS_PER_BLOCK == 0)
			slots = store_read_slots(st, i, SHM_SLOTS_PER_BLOCK, room);
		const struct shm_slot *s = &slots[i % SHM_SLOTS_PER_BLOCK];
		if (s->state == SHM_STATE_READY)
			ret[n++] = (struct by_time){
			    s->ready_at, i, s->namespace_number * INDEX_BANDS + index_band(s->priority)};
	}
	free(room);
	return n;
}

static int link_by_time(struct start *b, struct err *err)
{
	struct index *x = &b->wq->index;
	struct big memory;
	big_init(&memory, 2 * b->n_ready * sizeof(struct by_time));
	int rc = big_grow(&memory, memory.most);
	if (rc < 0) {
		err_set(err, rc, "no memory to sort %zu keys", b->n_ready);
	} else {
		struct by_time *ready = (struct by_time *)(void *)memory.at;
		size_t n = ready_slots(x->store, ready);
		ready = sort_by_time(ready, ready + n, n);
		index_ready_clear(x);
		for (size_t i = 0; i < n; i++)
			index_ready_add(x, ready[i].slot, ready[i].place / INDEX_BANDS,
					ready[i].place % INDEX_BANDS);
	}
	big_done(&memory);
	return rc;
}

/* ---- */

int workqueue_init(struct workqueue *wq, struct store *st, uint64_t random, struct err *err)
{
	*wq = (struct workqueue){
	    .store = st,
	    .write_timeout = WORKQUEUE_WRITE_TIMEOUT,
	    .kill_grace = WORKQUEUE_KILL_GRACE,
	    .random = random ? random : 1,
	    .ahead = INDEX_NONE,
	};
	index_init(&wq->index, st);
	settle_init(&wq->settle);
	workqueue_rows_changed(wq);
	struct start b = {.wq = wq, .in_order = true, .last_ready = INT64_MIN};
	b.found = xmalloc(FOUND * sizeof(*b.found));
	int rc = index_expect(&wq->index);
	if (rc < 0)
		err_set(err, rc, "no memory for the index");
	table_gather(&wq->index.by_key);
	if (rc == 0)
		rc = store_check(st, find_slot, &b, err);
	if (rc == 0)
		rc = arrange_keys(&b, err);
	if (rc == 0 && !b.in_order)
		rc = link_by_time(&b, err);
	free(b.found);
	if (rc < 0)
		workqueue_done_with(wq);
	return rc;
}

void workqueue_done_with(struct workqueue *wq)
{
	index_done(&wq->index);
	settle_done(&wq->settle);
	*wq = (struct workqueue){0};
}
