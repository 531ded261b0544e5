/* The indexes over the slots that are there: once, at a start. A million keys are ready in some tens of milliseconds, so what is
 * visited at random is first brought into the order of its memory. */
#include "change.h"

struct by_tag {
	uint32_t tag, slot;
};

struct by_time {
	int64_t at;
	uint32_t slot;
};

struct start {
	struct workqueue *wq;
	struct by_tag *keys;
	struct by_time *ready;
	size_t n_keys, n_ready;
	bool in_order; /* the ready ones were found so */
};

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

static int find_slots(struct start *b, struct err *err)
{
	struct workqueue *wq = b->wq;
	struct store *st = wq->store;
	for (uint32_t i = 0; i < store_slots(st); i++) {
		const struct shm_slot *s = store_slot(st, i);
		if (s->state == SHM_STATE_NONE)
			continue;
		int rc = find_namespace(wq, s, err);
		if (rc < 0)
			return rc;
		b->keys[b->n_keys++] = (struct by_tag){index_tag(index_hash_of(&wq->index, s)), i};
		struct workqueue_controller *c = &wq->controllers[s->controller];
		c->uncounted_adds += (s->flags & SHM_SLOT_ADDED) != 0;
		c->uncounted_merges += s->uncounted;
		if (s->state != SHM_STATE_READY) {
			change_index(wq, i);
			wq->unrecorded += SHM_LEASED(s->state) && !s->record;
			continue;
		}
		b->in_order = b->in_order && (!b->n_ready || b->ready[b->n_ready - 1].at <= s->ready_at);
		b->ready[b->n_ready++] = (struct by_time){s->ready_at, i};
	}
	return 0;
}

/* ---- the hash table ---- */

/* Those of one segment one after the other. */
static void sort_by_segment(struct start *b, unsigned depth)
{
	size_t n = (size_t)1 << depth, *next = xcalloc(n + 1, sizeof(*next));
	struct by_tag *sorted = xmalloc(MAX(b->n_keys, (size_t)1) * sizeof(*sorted));
	for (size_t i = 0; i < b->n_keys; i++)
		next[((uint64_t)b->keys[i].tag >> (32 - depth)) + 1]++;
	for (size_t i = 0; i < n; i++)
		next[i + 1] += next[i];
	for (size_t i = 0; i < b->n_keys; i++)
		sorted[next[(uint64_t)b->keys[i].tag >> (32 - depth)]++] = b->keys[i];
	free(next);
	free(b->keys);
	b->keys = sorted;
}

struct same {
	const struct store *st;
	uint32_t slot;
};

static bool same_key(const void *ctx, uint32_t number)
{
	const struct same *w = ctx;
	const struct shm_slot *a = store_slot(w->st, w->slot), *b = store_slot(w->st, number);
	return a->namespace_number == b->namespace_number &&
	       span_eq(store_name(w->st, a), store_name(w->st, b));
}

static int fill_table(struct start *b, struct err *err)
{
	struct workqueue *wq = b->wq;
	struct table *t = &wq->index.by_key;
	sort_by_segment(b, t->depth);
	for (size_t i = 0; i < b->n_keys; i++) {
		uint32_t tag = b->keys[i].tag, slot = b->keys[i].slot;
		if (table_find(t, tag, same_key, &(struct same){wq->store, slot}) != TABLE_NONE) {
			struct span namespace, name;
			store_key(wq->store, store_slot(wq->store, slot), &namespace, &name);
			return err_set(err, -EBADMSG, "the key " SPAN_FMT "/" SPAN_FMT " is in two slots",
				       SPAN_ARG(namespace), SPAN_ARG(name));
		}
		if (table_reserve(t, tag) < 0)
			return err_set(err, -EBADMSG, "too many keys meet in one place");
		table_insert(t, tag, slot);
	}
	wq->index.keys = (uint32_t)b->n_keys;
	return 0;
}

/* ---- the ready lists: their order is that of the times ---- */

/* By digits of 11 bits, the lowest first; equal ones keep the order of their slots. */
static void sort_by_time(struct start *b)
{
	enum { BITS = 11, DIGITS = 1 << BITS };
	struct by_time *from = b->ready, *to = xmalloc(b->n_ready * sizeof(*to));
	int64_t least = INT64_MAX, most = INT64_MIN;
	for (size_t i = 0; i < b->n_ready; i++) {
		least = MIN(least, from[i].at);
		most = MAX(most, from[i].at);
	}
	uint64_t range = (uint64_t)most - (uint64_t)least;
	for (unsigned shift = 0; shift < 64 && range >> shift; shift += BITS) {
		size_t next[DIGITS + 1] = {0};
		for (size_t i = 0; i < b->n_ready; i++)
			next[(((uint64_t)from[i].at - (uint64_t)least) >> shift) % DIGITS + 1]++;
		for (size_t i = 0; i < DIGITS; i++)
			next[i + 1] += next[i];
		for (size_t i = 0; i < b->n_ready; i++)
			to[next[(((uint64_t)from[i].at - (uint64_t)least) >> shift) % DIGITS]++] = from[i];
		struct by_time *swap = from;
		from = to;
		to = swap;
	}
	b->ready = from;
	free(to);
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
	size_t keys = MAX(store_slots(st) - st->free_slots.len, 1u);
	struct start b = {.wq = wq,
			  .keys = xmalloc(keys * sizeof(*b.keys)),
			  .ready = xmalloc(keys * sizeof(*b.ready)),
			  .in_order = true};
	int rc = index_expect(&wq->index);
	if (rc < 0)
		err_set(err, rc, "no memory for the index");
	if (rc == 0)
		rc = find_slots(&b, err);
	if (rc == 0)
		rc = fill_table(&b, err);
	if (rc == 0 && !b.in_order)
		sort_by_time(&b);
	for (size_t i = 0; rc == 0 && i < b.n_ready; i++)
		change_index(wq, b.ready[i].slot);
	free(b.keys);
	free(b.ready);
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
