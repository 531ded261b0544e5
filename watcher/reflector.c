#include "reflector.h"

#define BASE_NS		   (800 * (int64_t)NS_PER_MS)
#define CAP_NS		   (30 * NS_PER_S)
#define DISCOVER_NS	   (10 * NS_PER_S) /* at most, between two questions whether a kind is served by now */
#define SHORT_NS	   NS_PER_S
#define RETRY_AFTER_MAX_NS (600 * NS_PER_S) /* a date of another clock must not silence a watch for a day */
enum {
	WATCH_FAILS_MAX = 5, /* then the cause may be the resourceVersion, whatever the server says */
	STREAM_FAILS_MAX = 3 /* then the next list comes in pages */
};

void reflector_init(struct reflector *r)
{
	*r = (struct reflector){.phase = REFLECTOR_DISCOVER};
}

static enum reflector_phase list_phase(const struct reflector *r, bool paged, bool seen)
{
	if (!r->paged && !paged && r->stream_fails < STREAM_FAILS_MAX)
		return REFLECTOR_STREAM;
	return seen && !r->newest ? REFLECTOR_RELIST : REFLECTOR_LIST;
}

void reflector_relist(struct reflector *r, bool paged, bool seen)
{
	bool served = r->phase != REFLECTOR_DISCOVER;
	*r = (struct reflector){.paged = r->paged};
	if (served)
		r->phase = list_phase(r, paged, seen);
}

static int64_t wait_after(unsigned *failures, const struct reflector_input *in)
{
	int64_t d = *failures < 6 ? BASE_NS << *failures : CAP_NS;
	if (*failures < 6)
		(*failures)++;
	d = MIN(d, CAP_NS);
	d += (int64_t)(in->random * (double)d);
	return MAX(d, MIN(in->retry_after_ns, RETRY_AFTER_MAX_NS));
}

static int64_t backoff(struct reflector *r, const struct reflector_input *in)
{
	return wait_after(&r->failures, in);
}

static struct reflector_output go(struct reflector *r, enum reflector_phase phase, int64_t wait_ns)
{
	bool relist = phase != REFLECTOR_WATCH && r->has_version;
	if (phase != REFLECTOR_WATCH)
		r->has_version = false;
	if (phase != r->phase)
		r->watch_fails = 0;
	r->phase = phase;
	return (struct reflector_output){.phase = phase, .wait_ns = wait_ns, .relist = relist};
}

static struct reflector_output list(struct reflector *r, const struct reflector_input *in, int64_t wait_ns)
{
	return go(r, list_phase(r, in->paged, in->seen), wait_ns);
}

/* The same again after a wait; a watch that cannot start several times is replaced by a list, and RELIST by LIST. */
static struct reflector_output again(struct reflector *r, const struct reflector_input *in)
{
	if (r->phase == REFLECTOR_RELIST)
		return list(r, in, backoff(r, in));
	if (r->phase == REFLECTOR_WATCH && in->event == REFLECTOR_REFUSED &&
	    ++r->watch_fails >= WATCH_FAILS_MAX)
		return list(r, in, backoff(r, in));
	return go(r, r->phase, backoff(r, in));
}

/* A streaming list that came to no end, and nobody says why. */
static struct reflector_output stream_failed(struct reflector *r, const struct reflector_input *in)
{
	r->stream_fails++;
	return list(r, in, backoff(r, in));
}

struct reflector_output reflector_next(struct reflector *r, const struct reflector_input *in)
{
	bool watching = r->phase == REFLECTOR_WATCH, streaming = r->phase == REFLECTOR_STREAM,
	     relisting = r->phase == REFLECTOR_RELIST;
	int64_t wait;
	r->newest = r->newest || relisting;
	switch (in->event) {
	case REFLECTOR_SERVED:
		r->unserved = 0;
		return list(r, in, 0);
	case REFLECTOR_NOT_SERVED:
		/* it was served a moment ago: look at once, but never in a tight loop */
		if (r->phase != REFLECTOR_DISCOVER)
			return go(r, REFLECTOR_DISCOVER, backoff(r, in));
		wait = wait_after(&r->unserved, in);
		return go(r, REFLECTOR_DISCOVER,
			  MAX(MIN(wait, DISCOVER_NS), MIN(in->retry_after_ns, RETRY_AFTER_MAX_NS)));
	case REFLECTOR_LISTED:
		r->has_version = true;
		r->newest = false;
		r->stream_fails = 0;
		return go(r, REFLECTOR_WATCH, 0);
	case REFLECTOR_UNSUPPORTED:
		if (!streaming && !relisting)
			return again(r, in);
		r->paged = r->paged || streaming;
		return list(r, in, 0);
	case REFLECTOR_PROGRESS:
		r->failures = r->watch_fails = r->expired = 0;
		if (in->lived_ns >= r->nonsense_ns)
			r->nonsense = 0;
		return (struct reflector_output){.phase = r->phase};
	case REFLECTOR_ENDED:
		if (watching && in->lived_ns < SHORT_NS && !in->events)
			return list(r, in, backoff(r, in));
		return watching ? go(r, REFLECTOR_WATCH, 0) : again(r, in);
	case REFLECTOR_IDLE:
		return watching ? go(r, REFLECTOR_WATCH, 0) : again(r, in);
	case REFLECTOR_EXPIRED:
		return list(r, in, r->expired++ ? backoff(r, in) : 0);
	case REFLECTOR_NONSENSE:
	case REFLECTOR_REFUSED:
		if (streaming)
			return stream_failed(r, in);
		if (watching && in->event == REFLECTOR_NONSENSE) {
			r->newest = true; /* the version that was seen may be nonsense, too */
			return list(r, in, r->nonsense_ns = wait_after(&r->nonsense, in));
		}
		return again(r, in);
	case REFLECTOR_CACHE_FULL:
		return watching ? list(r, in, backoff(r, in)) : again(r, in);
	case REFLECTOR_UNAUTHORIZED:
	case REFLECTOR_FORBIDDEN:
	case REFLECTOR_UNTRUSTED:
	case REFLECTOR_BUSY:
	case REFLECTOR_UNREACHABLE:
	case REFLECTOR_OUTBOX_FULL:
		return again(r, in);
	}
	return again(r, in);
}

int reflector_watch_seconds(double random)
{
	return 300 + (int)(random * 301.0);
}

const char *reflector_event_name(enum reflector_event e)
{
	static const char *const names[] = {
#define X(NAME) [REFLECTOR_##NAME] = #NAME,
	    REFLECTOR_EVENTS(X)
#undef X
	};
	return (size_t)e < ARRAY_SIZE(names) ? names[e] : "?";
}
