/* The indexes over the slots that are there: once, at a start. A million keys are ready in some tens of milliseconds, so the slots
 * are read once, and only memory that stays is filled. */
#include "change.h"
#include "index_find.h"
#include "pages.h"

/* So many keys are put into the table at once: between two of them, slots that are read would turn its lines out of the caches. */
enum { FOUND = 1024 };

struct found {
	uint32_t tag, slot;
};

struct by_time {
	int64_t at;
	uint32_t slot;
	uint32_t place; /* number of the namespace * INDEX_BANDS + band */
};
_Static_assert((uint64_t)SHM_BLOCKS_MAX *SHM_NAMESPACES_PER_BLOCK *INDEX_BANDS <= UINT32_MAX, "place");

struct start {
	struct workqueue *wq;
	struct found found[FOUND];
	size_t n_found;
	struct pages pages;
	uint32_t touched; /* the links of slots below it are, as far as they are needed */
	int64_t last_ready;
	/* The ready ones; NULL: those so far are in order, and linked. */
	struct by_time *by_time;
	size_t n_by_time;
	struct big memory;
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
	struct index_key key = index_key(x, s->controller, &text, &(struct span){"", 0});
	if (table_reserve(&x->by_namespace, index_tag(key.namespace_hash)) < 0)
		return err_set(err, -EBADMSG, "too many namespaces meet in one place");
	if (index_namespace_find(x, &key) != INDEX_NONE)
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

/* ---- ready lists: linked as they are found, until a time is out of order ---- */

static bool is_before(const struct by_time *a, const struct by_time *b)
{
	return a->at != b->at ? a->at < b->at : a->slot < b->slot;
}

/* A few, mostly in order. */
static void sort_few(struct by_time *at, size_t len)
{
	for (size_t i = 1; i < len; i++) {
		struct by_time t = at[i];
		size_t to = i;
		for (; to > 0 && is_before(&t, &at[to - 1]); to--)
			at[to] = at[to - 1];
		at[to] = t;
	}
}

/* By the highest bits of where they are between the first and the last time, as two digits; then those that are alike in these among
 * themselves, the same way. They come in the order of their slots, and equal ones stay so. room: for as many. */
static void sort_by_time(struct by_time *at, struct by_time *room, size_t len)
{
	enum { BITS = 11, DIGITS = 1 << BITS, FEW = 32 };
	if (len <= FEW) {
		sort_few(at, len);
		return;
	}
	int64_t least = INT64_MAX, most = INT64_MIN;
	for (size_t i = 0; i < len; i++) {
		least = MIN(least, at[i].at);
		most = MAX(most, at[i].at);
	}
	if (least == most)
		return;
	const uint64_t from = (uint64_t)least, range = (uint64_t)most - from;
	const int bits = 64 - __builtin_clzll(range), shift = MAX(bits - 2 * BITS, 0);
	uint32_t next[2][DIGITS + 1] = {{0}};
	for (size_t i = 0; i < len; i++) {
		uint64_t high = ((uint64_t)at[i].at - from) >> shift;
		next[0][high % DIGITS + 1]++;
		next[1][(high >> BITS) + 1]++;
	}
	for (size_t i = 0; i < DIGITS; i++) {
		next[0][i + 1] += next[0][i];
		next[1][i + 1] += next[1][i];
	}
	for (size_t i = 0; i < len; i++)
		room[next[0][(((uint64_t)at[i].at - from) >> shift) % DIGITS]++] = at[i];
	for (size_t i = 0; i < len; i++)
		at[next[1][((uint64_t)room[i].at - from) >> shift >> BITS]++] = room[i];
	for (size_t i = 0, end; shift && i < len; i = end) {
		uint64_t high = ((uint64_t)at[i].at - from) >> shift;
		for (end = i + 1; end < len && ((uint64_t)at[end].at - from) >> shift == high; end++)
			;
		if (end - i > 1)
			sort_by_time(at + i, room, end - i);
	}
}

static void gather_ready(struct start *b, uint32_t slot, const struct shm_slot *s)
{
	b->by_time[b->n_by_time++] =
	    (struct by_time){s->ready_at, slot, s->namespace_number * INDEX_BANDS + index_band(s->priority)};
}

/* The first that is not in order: the slots before it are read again. */
static int begin_by_time(struct start *b, uint32_t slot, struct err *err)
{
	struct store *st = b->wq->store;
	big_init(&b->memory, store_slots(st) * sizeof(*b->by_time));
	int rc = big_grow(&b->memory, b->memory.most);
	if (rc < 0)
		return err_set(err, rc, "no memory to sort the keys");
	b->by_time = (struct by_time *)(void *)b->memory.at;
	if (b->memory.usable > BIG_STEP)
		pages_touch(&b->pages, b->memory.at, b->memory.usable);
	_cleanup_(free_ptr) struct shm_slot *room = xmalloc(SHM_BLOCK);
	const struct shm_slot *slots = room;
	for (uint32_t i = 0; i < slot; i++) {
		if (i % SHM_SLOTS_PER_BLOCK == 0)
			slots = store_read_slots(st, i, SHM_SLOTS_PER_BLOCK, room);
		if (slots[i % SHM_SLOTS_PER_BLOCK].state == SHM_STATE_READY)
			gather_ready(b, i, &slots[i % SHM_SLOTS_PER_BLOCK]);
	}
	return 0;
}

static int find_ready(struct start *b, uint32_t slot, const struct shm_slot *s, struct err *err)
{
	if (!b->by_time && s->ready_at >= b->last_ready) {
		b->last_ready = s->ready_at;
		index_ready_add(&b->wq->index, slot, s->namespace_number, index_band(s->priority));
		return 0;
	}
	int rc = b->by_time ? 0 : begin_by_time(b, slot, err);
	if (rc == 0)
		gather_ready(b, slot, s);
	return rc;
}

/* Memory that is touched for the first time is what sorting costs most: the links, which are made afterwards, are its room. */
static void link_by_time(struct start *b)
{
	struct index *x = &b->wq->index;
	_Static_assert(sizeof(struct by_time) <= sizeof(*x->links), "the links are room for all");
	sort_by_time(b->by_time, (struct by_time *)(void *)x->links, b->n_by_time);
	index_ready_clear(x);
	index_timers_link(x);
	for (size_t i = 0; i < b->n_by_time; i++)
		index_ready_add(x, b->by_time[i].slot, b->by_time[i].place / INDEX_BANDS,
				b->by_time[i].place % INDEX_BANDS);
}

/* ---- all of it ---- */

/* The first of the keys whose links are in one step of memory. With the first of all, the table: it has one in each of its pages soon. */
static void touch_step(struct start *b, uint32_t slot)
{
	struct index *x = &b->wq->index;
	const uint32_t slots = BIG_STEP / sizeof(*x->links), first = slot / slots * slots;
	if (b->touched == 0 && x->by_key.memory.usable > BIG_STEP) /* else it is of small pages */
		pages_touch(&b->pages, x->by_key.memory.at, table_bytes(&x->by_key));
	if (x->links_memory.usable > BIG_STEP)
		pages_touch(&b->pages, (char *)&x->links[first], BIG_STEP);
	b->touched = first + slots;
}

/* store_check: it is a slot in use, whose parts are right. */
static int find_slot(void *ctx, uint32_t slot, const struct shm_slot *s, struct err *err)
{
	struct start *b = ctx;
	struct workqueue *wq = b->wq;
	if (slot >= b->touched)
		touch_step(b, slot);
	int rc = find_namespace(wq, s, err);
	if (rc < 0)
		return rc;
	uint64_t hash = index_hash_of(&wq->index, s);
	if (SHM_LEASED(s->state) && store_detail(wq->store, s->detail)->key_hash != hash)
		return err_set(err, -EBADMSG, "slot %u has the lease of another key", slot);
	rc = find_key(b, index_tag(hash), slot, err);
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
	return find_ready(b, slot, s, err);
}

/* flatten: all that is done with a slot is one loop, which makes it a seventh faster. */
__attribute__((flatten)) int workqueue_init(struct workqueue *wq, struct store *st, uint64_t random,
					    struct err *err)
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
	struct start b = {.wq = wq, .last_ready = INT64_MIN};
	int rc = index_expect(&wq->index);
	if (rc < 0)
		err_set(err, rc, "no memory for the index");
	table_gather(&wq->index.by_key);
	pages_begin(&b.pages);
	if (rc == 0)
		rc = store_check(st, find_slot, &b, err);
	if (rc == 0)
		rc = arrange_keys(&b, err);
	if (rc == 0 && b.by_time)
		link_by_time(&b);
	pages_end(&b.pages);
	big_done(&b.memory);
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
