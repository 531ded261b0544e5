/* How far the streams are, told to the broker while it waits for it: PROGRESS says that everything up to a resourceVersion is in the cache and
 * that the ADDs of those events were sent before it on the same connection. Nothing is sent while nobody waits. */
#include "watcher.h"

enum { PLACES = 1024 }; /* of one PROGRESS */

void progress_seen(struct stream *s)
{
	s->progress.seen = kube_version(span_of(s->version ? s->version : ""));
	informer_saw(s->informer, s->progress.seen);
}

void progress_begin(struct watcher *w)
{
	for (size_t i = 0; i < w->n_informers; i++)
		for (size_t n = 0; n < w->informers[i]->n_streams; n++)
			w->informers[i]->streams[n].progress.awaited = 0;
	w->awaited = false;
	w->progress_wanted = true;
}

static struct stream *find(const struct watcher *w, const struct wire_place *p)
{
	for (size_t i = 0; i < w->n_informers; i++) {
		struct informer *f = w->informers[i];
		if (f->table == p->table && p->stream < f->n_streams && !f->streams[p->stream].dormant)
			return &f->streams[p->stream];
	}
	return NULL;
}

/* A list that is empty answers a PROGRESS in whose place the broker has a newer one. */
void progress_await(struct watcher *w, const struct wire_place *places, size_t count)
{
	struct wire_place none[PLACES];
	size_t n = 0;
	for (size_t i = 0; i < count; i++) {
		struct stream *s = find(w, &places[i]);
		if (!s) {
			if (n < PLACES)
				none[n++] =
				    (struct wire_place){places[i].table, places[i].stream, UINT64_MAX};
			continue;
		}
		s->progress.awaited = MAX(s->progress.awaited, places[i].resource_version);
		s->progress.told = 0;
		w->awaited = true;
	}
	w->progress_wanted = w->progress_wanted || count;
	if (n && broker_progress(w->broker, none, n) == 0)
		w->progress_wanted = false;
}

/* Are the keys of all that the stream had seen by then on their way? Those of a controller that the broker takes nothing of do not keep the
 * others waiting: when they come at last they count as news. */
static bool keys_are_sent(const struct stream *s, uint64_t arrivals, int64_t now_ns)
{
	const struct informer *i = s->informer;
	for (size_t n = 0; n < i->n_subs; n++) {
		const struct controller *c = i->subs[n]->controller;
		if (now_ns >= c->retry_at_ns && !outbox_sent(i->watcher->outbox, c->index, arrivals))
			return false;
	}
	return true;
}

/* How far it may be said to be now; 0: as far as was told. */
static uint64_t passed(struct stream *s, int64_t now_ns)
{
	struct progress *p = &s->progress;
	uint64_t at = p->told;
	if (p->leaving && keys_are_sent(s, p->arrivals, now_ns)) {
		at = MAX(at, p->leaving);
		p->leaving = 0;
	}
	if (!p->leaving && p->seen > at) {
		uint64_t arrivals = outbox_arrivals(s->informer->watcher->outbox);
		if (keys_are_sent(s, arrivals, now_ns))
			return p->seen;
		p->leaving = p->seen;
		p->arrivals = arrivals;
	}
	return at > p->told ? at : 0;
}

static size_t collect(struct watcher *w, struct wire_place *out, int64_t now_ns)
{
	size_t n = 0;
	bool awaited = false;
	for (size_t i = 0; i < w->n_informers; i++)
		for (size_t k = 0; k < w->informers[i]->n_streams && n < PLACES; k++) {
			struct stream *s = &w->informers[i]->streams[k];
			uint64_t at = s->progress.awaited ? passed(s, now_ns) : 0;
			if (at) {
				out[n++] = (struct wire_place){w->informers[i]->table, (uint32_t)k, at};
				s->progress.told = at;
			}
			if (at >= s->progress.awaited)
				s->progress.awaited = 0;
			awaited = awaited || s->progress.awaited;
		}
	w->awaited = awaited;
	return n;
}

void progress_run(struct watcher *w, int64_t now_ns)
{
	struct wire_place places[PLACES];
	if (!broker_ready(w->broker) || (!w->awaited && !w->progress_wanted))
		return;
	size_t n = w->awaited ? collect(w, places, now_ns) : 0;
	if (!n && !w->progress_wanted)
		return;
	if (broker_progress(w->broker, places, n) == 0)
		w->progress_wanted = false;
	else
		progress_await(w, places, n); /* not sent: the next turn tells it again */
}
