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
	x->ready[x->namespaces[namespace].controller].len++;
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
	if (b->oldest == slot && b->newest == slot) {
		b->oldest = b->newest = INDEX_NONE;
	} else if (b->oldest == slot) {
		b->oldest = at.newer;
	} else if (b->newest == slot) {
		b->newest = at.older;
	} else {
		x->links[at.older].newer = at.newer;
		x->links[at.newer].older = at.older;
	}
	x->ready[x->namespaces[namespace].controller].len--;
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

uint32_t index_ready_next(const struct index *x, uint16_t controller)
{
	const struct index_band *best = NULL;
	unsigned best_band = 0;
	int64_t best_at = 0;
	for (unsigned b = 0; b < INDEX_BANDS; b++) {
		const struct index_band *band = &x->ready[controller].bands[b];
		if (band->oldest == INDEX_NONE)
			continue;
		int64_t at = store_slot(x->store, band->oldest)->ready_at + b * INDEX_AGING;
		if (!best || at < best_at) {
			best = band;
			best_band = b;
			best_at = at;
		}
	}
	return best ? x->namespaces[best->first].bands[best_band].head : INDEX_NONE;
}
