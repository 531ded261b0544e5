#include "election.h"
#include "config.h"
#include "doc.h"
#include <stdio.h>
#include <time.h>

void election_init(struct election *e, const struct election_rules *r, int64_t until_ns, int64_t now_ns)
{
	*e = (struct election){.rules = *r,
			       .until_ns = until_ns,
			       .next = ELECTION_GET,
			       .due_ns = now_ns,
			       .duration_ns = r->lease_duration_ns};
	e->state = !until_ns ? ELECTION_FOLLOWING : now_ns < until_ns ? ELECTION_LEADING : ELECTION_LAPSED;
}

void election_done(struct election *e)
{
	buf_done(&e->lease);
	buf_done(&e->seen);
}

/* ---- the record ---- */

/* metav1.MicroTime: six digits after the point, or API servers refuse it. */
static struct doc_node *micro_time(struct doc *d, int64_t realtime_ns)
{
	char text[48];
	struct tm tm;
	time_t seconds = (time_t)(realtime_ns / NS_PER_S);
	gmtime_r(&seconds, &tm);
	size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof text - n, ".%06lldZ", (long long)(realtime_ns % NS_PER_S / NS_PER_US));
	return doc_new_string(d, span_of(text));
}

static bool holds(const struct election *e)
{
	return *e->holder && strcmp(e->holder, e->rules.identity) == 0;
}

/* Puts this host's record, or an empty one, into the object; what others wrote beside it stays. */
static void write_spec(const struct election *e, struct doc *d, struct doc_node *lease, int64_t realtime_ns)
{
	bool mine = holds(e), release = e->asked_release;
	struct doc_node *spec = doc_ensure_object(d, lease, "spec");
	int64_t seconds = release ? 1 : e->rules.lease_duration_ns / NS_PER_S;
	doc_set(d, spec, "holderIdentity", doc_new_string(d, span_of(release ? "" : e->rules.identity)));
	doc_set(d, spec, "leaseDurationSeconds", doc_new_int(d, seconds));
	if (!mine || release || !doc_string(d, doc_get(spec, "acquireTime")).len)
		doc_set(d, spec, "acquireTime", micro_time(d, realtime_ns));
	doc_set(d, spec, "renewTime", micro_time(d, realtime_ns));
	bool counts = e->asked == ELECTION_UPDATE && !mine;
	doc_set(d, spec, "leaseTransitions", doc_new_int(d, e->transitions + counts));
}

static void write_body(const struct election *e, int64_t realtime_ns, struct buf *body)
{
	struct doc *d = doc_new();
	struct doc_node *lease = NULL;
	if (e->asked == ELECTION_CREATE || doc_parse(d, buf_span(&e->lease), &lease, NULL) < 0) {
		lease = doc_new_object(d);
		doc_set(d, lease, "apiVersion", doc_new_string(d, span_of("coordination.k8s.io/v1")));
		doc_set(d, lease, "kind", doc_new_string(d, span_of("Lease")));
		struct doc_node *metadata = doc_ensure_object(d, lease, "metadata");
		doc_set(d, metadata, "name", doc_new_string(d, span_of(e->rules.name)));
		doc_set(d, metadata, "namespace", doc_new_string(d, span_of(e->rules.namespace)));
	}
	write_spec(e, d, lease, realtime_ns);
	buf_reset(body);
	doc_print(lease, body);
	doc_free(d);
}

static void forget_lease(struct election *e)
{
	buf_reset(&e->lease);
	buf_reset(&e->seen);
	*e->holder = 0;
	e->transitions = 0;
}

/* Takes over what the server has. Whatever is odd in the record counts as absent, as client-go's conversion has it. */
static int read_lease(struct election *e, struct span body, int64_t now_ns)
{
	struct doc *d = doc_new();
	struct doc_node *lease = NULL;
	struct err why = {0};
	int rc = doc_parse(d, body, &lease, &why);
	struct doc_node *metadata = rc < 0 ? NULL : doc_get(lease, "metadata");
	if (rc == 0 && (!doc_is(d, doc_get(lease, "kind"), "Lease") ||
			!doc_string(d, doc_get(metadata, "resourceVersion")).len))
		rc = err_set(&why, -EPROTO, "the answer is no Lease with a resourceVersion");
	if (rc < 0) {
		doc_free(d);
		return err_set(&e->err, rc, "the Lease %s/%s cannot be read: %s", e->rules.namespace,
			       e->rules.name, why.text);
	}
	const struct doc_node *spec = doc_get(lease, "spec");
	_cleanup_(buf_done) struct buf text = {0};
	if (spec)
		doc_print(spec, &text);
	if (!span_eq(buf_span(&text), buf_span(&e->seen)) || !e->lease.len) {
		e->observed_ns = now_ns;
		buf_reset(&e->seen);
		buf_span_add(&e->seen, buf_span(&text));
	}
	buf_reset(&e->lease);
	buf_span_add(&e->lease, body);
	struct span holder = doc_string(d, doc_get(spec, "holderIdentity"));
	/* One that is longer than ours can be is not ours, whatever is cut. */
	snprintf(e->holder, sizeof e->holder, "%.*s", (int)MIN(holder.len, sizeof e->holder - 1),
		 holder.at ? holder.at : "");
	int64_t seconds = 0, transitions = 0;
	doc_int(doc_get(spec, "leaseDurationSeconds"), &seconds);
	doc_int(doc_get(spec, "leaseTransitions"), &transitions);
	e->duration_ns =
	    seconds > 0 ? MIN(seconds, (int64_t)INT32_MAX) * NS_PER_S : e->rules.lease_duration_ns;
	e->transitions = MAX(MIN(transitions, (int64_t)INT32_MAX - 1), (int64_t)0);
	doc_free(d);
	return 0;
}

/* ---- what is asked ---- */

static void look_at_the_clock(struct election *e, int64_t now_ns)
{
	if (e->state == ELECTION_LEADING && now_ns >= e->until_ns)
		e->state = ELECTION_LAPSED;
}

enum election_ask election_next(struct election *e, int64_t now_ns, int64_t realtime_ns, struct buf *body)
{
	look_at_the_clock(e, now_ns);
	if (e->asked != ELECTION_NOTHING || now_ns < e->due_ns)
		return ELECTION_NOTHING;
	e->asked = e->next;
	e->asked_ns = now_ns;
	e->asked_release = e->releasing && e->asked != ELECTION_GET;
	e->due_ns = INT64_MAX;
	if (e->asked != ELECTION_GET)
		write_body(e, realtime_ns, body);
	return e->asked;
}

/* ---- what was answered ---- */

static void follow(struct election *e)
{
	e->state = ELECTION_FOLLOWING;
	e->until_ns = 0;
}

static void then(struct election *e, enum election_ask what, int64_t at_ns)
{
	e->next = what;
	e->due_ns = at_ns;
}

static void release_done(struct election *e)
{
	e->released = true;
	follow(e);
	then(e, ELECTION_NOTHING, INT64_MAX);
}

static int64_t next_try(const struct election *e, const struct election_answer *a, int64_t now_ns)
{
	int64_t wait = e->rules.retry_period_ns;
	if (e->state == ELECTION_LEADING) /* whatever the server asks for: it leads no longer than that */
		return MAX(e->asked_ns + wait, now_ns);
	wait += (int64_t)((double)wait * CONFIG_HA_JITTER * a->random);
	return MAX(e->asked_ns + wait, now_ns + MIN(a->retry_after_ns, e->rules.lease_duration_ns));
}

/* Another host has it, as far as can be known. */
static bool is_held(const struct election *e, int64_t now_ns)
{
	return *e->holder && !holds(e) && now_ns < e->observed_ns + e->duration_ns;
}

static void was_read(struct election *e, const struct election_answer *a, int64_t now_ns)
{
	e->own = false;
	if (*e->holder && !holds(e))
		follow(e);
	if (e->releasing && !holds(e))
		release_done(e);
	else if (is_held(e, now_ns))
		then(e, ELECTION_GET, next_try(e, a, now_ns));
	else
		then(e, ELECTION_UPDATE, now_ns);
}

static void was_written(struct election *e, bool held, const struct election_answer *a, int64_t now_ns)
{
	e->own = true;
	if (e->asked_release) {
		release_done(e);
		return;
	}
	e->took = !held;
	e->state = ELECTION_LEADING;
	e->until_ns = e->asked_ns + e->rules.renew_deadline_ns;
	then(e, ELECTION_UPDATE, e->releasing ? now_ns : next_try(e, a, now_ns));
}

/* It may have been done nevertheless, so the Lease is read before anything else. */
static void was_refused(struct election *e, const struct election_answer *a, int64_t now_ns)
{
	enum election_ask next = ELECTION_GET;
	int64_t at_ns = next_try(e, a, now_ns);
	bool gone = a->status == 404 && e->asked != ELECTION_CREATE;
	if (gone && e->releasing) {
		release_done(e);
		return;
	}
	if (gone && e->asked == ELECTION_GET) {
		forget_lease(e);
		e->refused = false;
		next = ELECTION_CREATE;
		at_ns = now_ns;
	} else if (e->own && (a->status == 404 || a->status == 409)) {
		at_ns = now_ns; /* somebody changed what this host wrote: who? */
	}
	e->own = false;
	then(e, next, at_ns);
}

void election_answered(struct election *e, const struct election_answer *a, int64_t now_ns)
{
	bool good = a->status >= 200 && a->status < 300, held = holds(e);
	look_at_the_clock(e, now_ns);
	e->refused = !good || read_lease(e, a->body, now_ns) < 0;
	if (!e->refused)
		e->err.text[0] = 0;
	else if (!good)
		e->err = a->err ? *a->err : (struct err){0};
	if (e->refused)
		was_refused(e, a, now_ns);
	else if (e->asked == ELECTION_GET)
		was_read(e, a, now_ns);
	else
		was_written(e, held && e->asked == ELECTION_UPDATE, a, now_ns);
	e->asked = ELECTION_NOTHING;
}

void election_release(struct election *e, int64_t now_ns)
{
	e->releasing = true;
	if (e->asked != ELECTION_NOTHING)
		return;
	if (e->state == ELECTION_FOLLOWING)
		release_done(e);
	else
		then(e, e->own ? ELECTION_UPDATE : ELECTION_GET, now_ns);
}
