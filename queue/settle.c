#include "settle.h"
#include <sys/queue.h>

struct settle_wait {
	uint64_t version;
	struct settle_stream *stream;
	struct settle_key *key;
	TAILQ_ENTRY(settle_wait) in_stream;
	LIST_ENTRY(settle_wait) of_key;
};
TAILQ_HEAD(waits_in_stream, settle_wait);
struct settle_stream {
	uint32_t table, stream;
	uint64_t told;		      /* the highest version that the watcher was asked for */
	struct waits_in_stream waits; /* lowest version first; never empty */
	struct settle_stream *next;
};
struct settle_key {
	uint32_t slot;
	LIST_HEAD(, settle_wait) waits; /* never empty */
	struct settle_key *next;	/* in its bucket */
};

enum { BUCKETS = 64 }; /* to begin with */

void settle_init(struct settle *s)
{
	*s = (struct settle){.buckets = xcalloc(BUCKETS, sizeof(void *)), .mask = BUCKETS - 1};
}

void settle_done(struct settle *s)
{
	for (uint32_t i = 0; s->buckets && i <= s->mask; i++)
		while (s->buckets[i])
			settle_remove(s, s->buckets[i]->slot);
	free(s->buckets);
	*s = (struct settle){0};
}

/* ---- streams: few at a time ---- */

static struct settle_stream **find_stream(struct settle *s, uint32_t table, uint32_t stream)
{
	struct settle_stream **at = &s->streams;
	while (*at && ((*at)->table != table || (*at)->stream != stream))
		at = &(*at)->next;
	return at;
}

static struct settle_stream *get_stream(struct settle *s, uint32_t table, uint32_t stream)
{
	struct settle_stream **at = find_stream(s, table, stream);
	if (!*at) {
		*at = xcalloc(1, sizeof(**at));
		**at = (struct settle_stream){.table = table, .stream = stream};
		TAILQ_INIT(&(*at)->waits);
	}
	return *at;
}

/* Versions come nearly in order, so the place is found near the end. */
static void wait_insert(struct settle_stream *stream, struct settle_wait *w)
{
	struct settle_wait *before = TAILQ_LAST(&stream->waits, waits_in_stream);
	while (before && before->version > w->version)
		before = TAILQ_PREV(before, waits_in_stream, in_stream);
	if (before)
		TAILQ_INSERT_AFTER(&stream->waits, before, w, in_stream);
	else
		TAILQ_INSERT_HEAD(&stream->waits, w, in_stream);
}

static void wait_remove(struct settle *s, struct settle_wait *w)
{
	struct settle_stream *stream = w->stream;
	LIST_REMOVE(w, of_key);
	TAILQ_REMOVE(&stream->waits, w, in_stream);
	free(w);
	if (TAILQ_EMPTY(&stream->waits)) {
		*find_stream(s, stream->table, stream->stream) = stream->next;
		free(stream);
	}
}

/* ---- keys ---- */

static struct settle_key **find_key(const struct settle *s, uint32_t slot)
{
	struct settle_key **at = &s->buckets[slot & s->mask];
	while (*at && (*at)->slot != slot)
		at = &(*at)->next;
	return at;
}

static void grow(struct settle *s)
{
	struct settle_key **old = s->buckets;
	uint32_t n = s->mask + 1;
	s->mask = s->mask << 1 | 1;
	s->buckets = xcalloc((size_t)s->mask + 1, sizeof(void *));
	for (uint32_t i = 0; i < n; i++)
		for (struct settle_key *k; (k = old[i]);) {
			old[i] = k->next;
			k->next = s->buckets[k->slot & s->mask];
			s->buckets[k->slot & s->mask] = k;
		}
	free(old);
}

static void key_remove(struct settle *s, struct settle_key *k)
{
	*find_key(s, k->slot) = k->next;
	free(k);
	s->keys--;
}

static bool is_highest(const struct shm_event *writes, size_t count, size_t i)
{
	for (size_t n = 0; n < count; n++)
		if (writes[n].table == writes[i].table && writes[n].stream == writes[i].stream &&
		    (writes[n].resource_version > writes[i].resource_version ||
		     (writes[n].resource_version == writes[i].resource_version && n < i)))
			return false;
	return true;
}

void settle_add(struct settle *s, uint32_t slot, const struct shm_event *writes, size_t count)
{
	if (!count)
		return;
	if (s->keys > s->mask)
		grow(s);
	struct settle_key *k = xcalloc(1, sizeof(*k)), **bucket = &s->buckets[slot & s->mask];
	*k = (struct settle_key){.slot = slot, .next = *bucket};
	*bucket = k;
	s->keys++;
	for (size_t i = 0; i < count; i++) {
		if (!is_highest(writes, count, i))
			continue;
		struct settle_wait *w = xcalloc(1, sizeof(*w));
		*w = (struct settle_wait){.version = writes[i].resource_version,
					  .stream = get_stream(s, writes[i].table, writes[i].stream),
					  .key = k};
		LIST_INSERT_HEAD(&k->waits, w, of_key);
		wait_insert(w->stream, w);
		s->news = s->news || w->version > w->stream->told;
	}
}

void settle_remove(struct settle *s, uint32_t slot)
{
	struct settle_key *k = *find_key(s, slot);
	if (!k)
		return;
	while (!LIST_EMPTY(&k->waits))
		wait_remove(s, LIST_FIRST(&k->waits));
	key_remove(s, k);
}

uint32_t settle_passed(struct settle *s, const struct wire_place *place)
{
	for (struct settle_stream *stream; (stream = *find_stream(s, place->table, place->stream));) {
		struct settle_wait *w = TAILQ_FIRST(&stream->waits);
		struct settle_key *k = w->key;
		uint32_t slot = k->slot;
		if (w->version > place->resource_version)
			break;
		wait_remove(s, w);
		if (LIST_EMPTY(&k->waits)) {
			key_remove(s, k);
			return slot;
		}
	}
	return SETTLE_NONE;
}

/* ---- what the watcher is told ---- */

size_t settle_awaited(struct settle *s, struct wire_place *out, size_t max)
{
	size_t n = 0;
	s->news = false;
	for (struct settle_stream *t = s->streams; t; t = t->next) {
		uint64_t highest = TAILQ_LAST(&t->waits, waits_in_stream)->version;
		if (highest <= t->told)
			continue;
		if (n == max) {
			s->news = true;
			break;
		}
		t->told = highest;
		out[n++] = (struct wire_place){t->table, t->stream, highest};
	}
	return n;
}

void settle_untell(struct settle *s)
{
	for (struct settle_stream *t = s->streams; t; t = t->next)
		t->told = 0;
	s->news = s->streams != NULL;
}

/* ---- own events ---- */

size_t settle_writes(const struct wire_done *done, struct shm_event out[SHM_EVENTS_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < done->writes.len && n < SHM_EVENTS_MAX; i++) {
		const struct wire_write *w = &done->writes.at[i];
		if (w->resource_version && w->stream <= UINT16_MAX)
			out[n++] =
			    (struct shm_event){w->table, (uint16_t)w->stream, w->own, w->resource_version};
	}
	return n;
}

bool settle_is_own(const struct shm_event *writes, size_t count, const struct shm_event *event)
{
	for (size_t i = 0; i < count; i++)
		if (writes[i].own && writes[i].resource_version == event->resource_version &&
		    writes[i].table == event->table && writes[i].stream == event->stream)
			return true;
	return false;
}
