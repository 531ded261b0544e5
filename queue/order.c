/* Who is next: the ready keys of a controller by band, namespace and age. All of it is O(1). */
#include "index.h"

static struct index_band *band_of(struct index *x, uint32_t namespace, unsigned band)
{
	return &x->ready[x->namespaces[namespace].controller].bands[band];
}

/* ---- turns: the namespaces of a band that have a ready key, as a queue ---- */

static void turn_add(struct index *x, struct index_band *b, uint32_t namespace, unsigned band)
{
	struct index_line *l = &x->namespaces[namespace].bands[band];
	l->prev = b->last;
	l->next = INDEX_NONE;
	if (b->last == INDEX_NONE)
		b->first = namespace;
	else
		x->namespaces[b->last].bands[band].next = namespace;
	b->last = namespace;
}

static void turn_remove(struct index *x, struct index_band *b, uint32_t namespace, unsigned band)
{
	struct index_line l = x->namespaces[namespace].bands[band];
	*(l.prev == INDEX_NONE ? &b->first : &x->namespaces[l.prev].bands[band].next) = l.next;
	*(l.next == INDEX_NONE ? &b->last : &x->namespaces[l.next].bands[band].prev) = l.prev;
}

/* ---- keys ---- */

void index_ready_add(struct index *x, uint32_t slot, uint32_t namespace, unsigned band)
{
	struct index_band *b = band_of(x, namespace, band);
	struct index_line *l = &x->namespaces[namespace].bands[band];
	x->links[slot] = (struct index_links){
	    .prev = l->tail, .next = INDEX_NONE, .older = b->newest, .newer = INDEX_NONE};
	if (l->head == INDEX_NONE) {
		l->head = slot;
		turn_add(x, b, namespace, band);
	} else {
		x->links[l->tail].next = slot;
	}
	l->tail = slot;
	*(b->newest == INDEX_NONE ? &b->oldest : &x->links[b->newest].newer) = slot;
	b->newest = slot;
	struct index_ready *r = &x->ready[x->namespaces[namespace].controller];
	r->len++;
	r->some |= 1u << band;
}

/* The ends of a list do not look at the link that leads out of it, so taking the first touches no other key. */
void index_ready_remove(struct index *x, uint32_t slot, uint32_t namespace, unsigned band)
{
	struct index_band *b = band_of(x, namespace, band);
	struct index_line *l = &x->namespaces[namespace].bands[band];
	struct index_links at = x->links[slot];
	if (l->head == slot && l->tail == slot) {
		turn_remove(x, b, namespace, band);
		l->head = l->tail = INDEX_NONE;
	} else if (l->head == slot) {
		l->head = at.next;
	} else if (l->tail == slot) {
		l->tail = at.prev;
	} else {
		x->links[at.prev].next = at.next;
		x->links[at.next].prev = at.prev;
	}
	struct index_ready *r = &x->ready[x->namespaces[namespace].controller];
	r->len--;
	if (b->oldest == slot && b->newest == slot) {
		b->oldest = b->newest = INDEX_NONE;
		r->some &= ~(1u << band);
	} else if (b->oldest == slot) {
		b->oldest = at.newer;
	} else if (b->newest == slot) {
		b->newest = at.older;
	} else {
		x->links[at.older].newer = at.newer;
		x->links[at.newer].older = at.older;
	}
}

void index_ready_take(struct index *x, uint32_t slot, uint32_t namespace, unsigned band)
{
	index_ready_remove(x, slot, namespace, band);
	struct index_band *b = band_of(x, namespace, band);
	if (x->namespaces[namespace].bands[band].head == INDEX_NONE || b->first == b->last)
		return;
	turn_remove(x, b, namespace, band);
	turn_add(x, b, namespace, band);
}

uint32_t index_ready_ahead(const struct index *x, uint16_t controller, unsigned band)
{
	const struct index_band *b = &x->ready[controller].bands[band];
	if (b->first == INDEX_NONE)
		return INDEX_NONE;
	const struct index_line *l = &x->namespaces[b->first].bands[band];
	/* After the first its namespace waits for all others. */
	uint32_t second =
	    l->next == INDEX_NONE ? x->links[l->head].next : x->namespaces[l->next].bands[band].head;
	if (second != INDEX_NONE) {
		__builtin_prefetch(store_slot(x->store, second), 1);
		__builtin_prefetch(&x->links[second], 1);
	}
	return l->head;
}

/* The time of a band's oldest key, later for each band above it. */
static int64_t aged(const struct index *x, const struct index_ready *r, unsigned band)
{
	return store_slot(x->store, r->bands[band].oldest)->ready_at + band * INDEX_AGING;
}

uint32_t index_ready_next(const struct index *x, uint16_t controller)
{
	const struct index_ready *r = &x->ready[controller];
	if (!r->some)
		return INDEX_NONE;
	unsigned best = (unsigned)__builtin_ctz(r->some);
	uint32_t others = r->some & (r->some - 1);
	int64_t best_at = others ? aged(x, r, best) : 0;
	for (; others; others &= others - 1) {
		unsigned band = (unsigned)__builtin_ctz(others);
		int64_t at = aged(x, r, band);
		if (at < best_at) {
			best = band;
			best_at = at;
		}
	}
	return x->namespaces[r->bands[best].first].bands[best].head;
}

void index_ready_clear(struct index *x)
{
	for (size_t c = 0; c < SHM_CONTROLLERS_MAX; c++) {
		x->ready[c] = (struct index_ready){0};
		for (size_t b = 0; b < INDEX_BANDS; b++)
			x->ready[c].bands[b] =
			    (struct index_band){INDEX_NONE, INDEX_NONE, INDEX_NONE, INDEX_NONE};
	}
	size_t namespaces =
	    x->namespaces_memory.usable / sizeof(*x->namespaces); /* those without keys are all zero */
	for (size_t i = 0; i < MIN(namespaces, (size_t)store_namespaces(x->store)); i++)
		for (size_t b = 0; x->namespaces[i].keys && b < INDEX_BANDS; b++)
			x->namespaces[i].bands[b] = (struct index_line){INDEX_NONE, INDEX_NONE, 0, 0};
}
