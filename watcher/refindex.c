#include "refindex.h"
#include "shm_cache.h"

enum { NONE = UINT32_MAX };

struct refindex {
	char *text;
	struct path path;
	struct node {
		uint64_t hash;
		uint32_t slot;
		uint32_t next;		/* of the slot, or of the free ones */
		uint32_t before, after; /* in its bucket */
	} * nodes;
	uint32_t count, cap, free_first, live;
	uint32_t *slots; /* first node of each slot */
	uint32_t n_slots;
	uint32_t *buckets, mask;
};

struct refindex *refindex_new(const char *path, struct err *err)
{
	struct refindex *r = xcalloc(1, sizeof *r);
	if (path_parse(path, &r->path, err) < 0) {
		free(r);
		return NULL;
	}
	r->text = xstrdup(path);
	r->free_first = NONE;
	r->mask = 255;
	r->buckets = xcalloc((size_t)r->mask + 1, sizeof *r->buckets);
	memset(r->buckets, 0xff, ((size_t)r->mask + 1) * sizeof *r->buckets);
	return r;
}

void refindex_free(struct refindex *r)
{
	if (!r)
		return;
	path_done(&r->path);
	free(r->text);
	free(r->nodes);
	free(r->slots);
	free(r->buckets);
	free(r);
}

const char *refindex_path(const struct refindex *r)
{
	return r->text;
}

static uint64_t reference_hash(struct span namespace, struct span name)
{
	return cache_name_hash(0, namespace, name);
}

static void link_node(struct refindex *r, uint32_t i)
{
	uint32_t *bucket = &r->buckets[r->nodes[i].hash & r->mask];
	r->nodes[i].before = NONE;
	r->nodes[i].after = *bucket;
	if (*bucket != NONE)
		r->nodes[*bucket].before = i;
	*bucket = i;
}

static void grow_buckets(struct refindex *r)
{
	r->mask = r->mask << 1 | 1;
	r->buckets = xrealloc(r->buckets, ((size_t)r->mask + 1) * sizeof *r->buckets);
	memset(r->buckets, 0xff, ((size_t)r->mask + 1) * sizeof *r->buckets);
	for (uint32_t s = 0; s < r->n_slots; s++)
		for (uint32_t i = r->slots[s]; i != NONE; i = r->nodes[i].next)
			link_node(r, i);
}

static void add(struct refindex *r, uint32_t slot, uint64_t hash)
{
	for (uint32_t i = r->slots[slot]; i != NONE; i = r->nodes[i].next)
		if (r->nodes[i].hash == hash)
			return;
	uint32_t i = r->free_first;
	if (i != NONE) {
		r->free_first = r->nodes[i].next;
	} else {
		if (r->count == r->cap) {
			r->cap = r->cap ? r->cap * 2 : 64;
			r->nodes = xrealloc(r->nodes, r->cap * sizeof *r->nodes);
		}
		i = r->count++;
	}
	r->nodes[i] = (struct node){.hash = hash, .slot = slot, .next = r->slots[slot]};
	r->slots[slot] = i;
	link_node(r, i);
	if (++r->live > r->mask)
		grow_buckets(r);
}

struct put {
	struct refindex *r;
	uint32_t slot;
	const struct object *o;
};

static int put_value(void *ctx, struct span value)
{
	struct put *p = ctx;
	struct span text;
	if (json_string_raw(value, &text) < 0 || !text.len) /* names have no escapes */
		return 0;
	const char *slash = memchr(text.at, '/', text.len);
	if (slash) {
		struct span namespace = {text.at, (size_t)(slash - text.at)};
		add(p->r, p->slot,
		    reference_hash(namespace, (struct span){slash + 1, text.len - namespace.len - 1}));
		return 0;
	}
	/* Whether the watched kind has namespaces need not be known here: its objects ask for one or the
	 * other. */
	add(p->r, p->slot, reference_hash(p->o->namespace, text));
	add(p->r, p->slot, reference_hash((struct span){"", 0}, text));
	return 0;
}

void refindex_put(struct refindex *r, uint32_t slot, const struct object *o)
{
	refindex_remove(r, slot);
	if (slot >= r->n_slots) {
		uint32_t n = MAX(slot + 1, r->n_slots * 2);
		r->slots = xrealloc(r->slots, n * sizeof *r->slots);
		memset(r->slots + r->n_slots, 0xff, (n - r->n_slots) * sizeof *r->slots);
		r->n_slots = n;
	}
	struct put p = {r, slot, o};
	path_each(&r->path, o->json, put_value, &p);
}

void refindex_remove(struct refindex *r, uint32_t slot)
{
	if (slot >= r->n_slots)
		return;
	for (uint32_t i = r->slots[slot], next; i != NONE; i = next) {
		struct node *n = &r->nodes[i];
		next = n->next;
		if (n->before == NONE)
			r->buckets[n->hash & r->mask] = n->after;
		else
			r->nodes[n->before].after = n->after;
		if (n->after != NONE)
			r->nodes[n->after].before = n->before;
		n->next = r->free_first;
		r->free_first = i;
		r->live--;
	}
	r->slots[slot] = NONE;
}

void refindex_each(const struct refindex *r, struct span namespace, struct span name,
		   void (*on_slot)(void *ctx, uint32_t slot), void *ctx)
{
	uint64_t hash = reference_hash(namespace, name);
	for (uint32_t i = r->buckets[hash & r->mask]; i != NONE; i = r->nodes[i].after)
		if (r->nodes[i].hash == hash)
			on_slot(ctx, r->nodes[i].slot);
}
