/* Leader election over HTTP: asks what election.c wants, and does what follows from who leads.
 *
 * Taking over reconciles everything, as a new leader of controller-runtime does: what another leader began, what it was about
 * to do later, and what it knew is gone. A host that only lapsed (its API server did not answer) and renews before anybody
 * else leads goes on where it was. */
#include "election.h"
#include "log.h"
#include "queue_read.h"
#include "watcher.h"
#include <stdio.h>
#include <unistd.h>

enum { LEASE_MAX = 1 << 20 };
#define CLOSE_NS (30 * NS_PER_S) /* as long as a worker drains */
#define LEAVE_NS                                                                                             \
	(2 * NS_PER_S) /* workers see within 1 s that the lead was given up, and end an attempt within 1 s */
#define RELEASE_NS (5 * NS_PER_S)

enum leaving {
	STAYS,
	CLOSED /* nothing begins, what runs may end */,
	GIVEN_UP /* nothing may run */,
	RELEASES
};

struct campaign {
	struct election election;
	struct cache_lead *shared;
	struct http_transfer *transfer;
	struct http_request request;
	struct buf path, body, answer;
	char *lease_path, *leases_path;
	int timeout_ms;
	bool complained;
	enum leaving leaving;
	int64_t leave_end_ns;
};

/* ---- who this host is ---- */

/* The identity lasts as long as the region: a watcher that is started again goes on with the Lease that it had. Only one at a time
 * has the region, so no other process has the identity. */
static void take_identity(struct cache_lead *l, const char *lease, uint64_t server)
{
	char host[65] = "host", id[33];
	if (*l->identity && l->server == server && strcmp(l->lease, lease) == 0 &&
	    atomic_load(&l->until) != CACHE_LEAD_OFF)
		return;
	atomic_store_explicit(&l->until, CACHE_LEAD_FOLLOWS, memory_order_release);
	gethostname(host, sizeof host - 1);
	snprintf(l->lease, sizeof l->lease, "%s", lease);
	snprintf(l->identity, sizeof l->identity, "%s_%s", host, random_id(id));
	*l->holder = 0;
	l->server = server;
}

void campaign_init(struct watcher *w, const struct config_ha *ha)
{
	struct cache_lead *l = store_lead(w->store);
	atomic_store_explicit(&l->closing, 0, memory_order_release);
	if (!ha->leader) {
		atomic_store_explicit(&l->until, CACHE_LEAD_OFF, memory_order_release);
		return;
	}
	struct campaign *c = w->campaign = xcalloc(1, sizeof *c);
	const char *server = http_client_server(w->http);
	_cleanup_(free_ptr) char *lease = xasprintf("%s/%s", ha->namespace, ha->name);
	take_identity(l, lease, hash_bytes(server, strlen(server), HASH_SEED));
	c->shared = l;
	c->leases_path = xasprintf("/apis/coordination.k8s.io/v1/namespaces/%s/leases", ha->namespace);
	c->lease_path = xasprintf("%s/%s", c->leases_path, ha->name);
	/* client-go's: a request that hangs leaves time for another one. */
	c->timeout_ms = (int)MAX(ha->renew_deadline_ns / 2 / NS_PER_MS, INT64_C(1000));
	const struct election_rules rules = {
	    .namespace = xstrdup(ha->namespace), /* the configuration may be another one later */
	    .name = xstrdup(ha->name),
	    .identity = l->identity,
	    .lease_duration_ns = ha->lease_duration_ns,
	    .renew_deadline_ns = ha->renew_deadline_ns,
	    .retry_period_ns = ha->retry_period_ns};
	int64_t until = atomic_load(&l->until);
	election_init(&c->election, &rules, until == CACHE_LEAD_FOLLOWS ? 0 : until, clock_boottime_ns());
	log_info("leader election", LOG_S("lease", lease), LOG_S("identity", l->identity));
}

/* ---- what follows ---- */

static void show(struct campaign *c)
{
	struct cache_lead *l = c->shared;
	const struct election *e = &c->election;
	uint32_t seq = atomic_load(&l->seq) | 1;
	atomic_store_explicit(&l->seq, seq, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	snprintf(l->holder, sizeof l->holder, "%s", e->holder);
	l->renewed_at = e->observed_ns;
	l->duration_ns = e->duration_ns;
	l->transitions = e->transitions;
	atomic_store_explicit(&l->seq, seq + 1, memory_order_release);
}

/* lead_until says what election says; a takeover is written down as a sweep of everything before anybody may act on it. */
static void publish(struct watcher *w, enum election_state before)
{
	struct campaign *c = w->campaign;
	const struct election *e = &c->election;
	bool followed = atomic_load(&c->shared->until) == CACHE_LEAD_FOLLOWS;
	if (e->state == ELECTION_LEADING) {
		if (followed || e->took) {
			log_info("this host leads now: everything is reconciled",
				 LOG_S("lease", c->shared->lease), LOG_I("transitions", e->transitions));
			for (size_t i = 0; i < w->n_controllers; i++)
				controller_want_sweep(&w->controllers[i], WIRE_CAUSE_SWEEP);
			c->election.took = false;
		} else if (before == ELECTION_LAPSED) {
			log_info("this host leads again: nobody else has", LOG_S("lease", c->shared->lease));
		}
		if (c->leaving < GIVEN_UP)
			atomic_store_explicit(&c->shared->until, e->until_ns, memory_order_release);
	} else if (e->state == ELECTION_FOLLOWING) {
		if ((!followed || before != ELECTION_FOLLOWING) && !e->released)
			log_warning("this host leads no longer: keys are not sent",
				    LOG_S("lease", c->shared->lease), LOG_S("leader", e->holder));
		atomic_store_explicit(&c->shared->until, CACHE_LEAD_FOLLOWS, memory_order_release);
	} else if (before == ELECTION_LEADING) {
		log_warning("the Lease was not renewed in time: this host leads no longer",
			    LOG_S("lease", c->shared->lease), LOG_S("reason", e->err.text));
	}
}

static void complain(struct campaign *c)
{
	const struct election *e = &c->election;
	if (e->refused && !c->complained)
		log_warning("the Lease cannot be read or written; trying again",
			    LOG_S("lease", c->shared->lease), LOG_S("reason", e->err.text));
	c->complained = e->refused;
}

/* ---- requests ---- */

static void answered(struct watcher *w, const struct election_answer *a)
{
	struct campaign *c = w->campaign;
	char leader[sizeof c->election.holder];
	enum election_state before = c->election.state;
	memcpy(leader, c->election.holder, sizeof leader);
	election_answered(&c->election, a, clock_boottime_ns());
	complain(c);
	show(c);
	publish(w, before);
	if (c->election.state == ELECTION_FOLLOWING && *c->election.holder &&
	    strcmp(leader, c->election.holder) != 0)
		log_info("another host leads", LOG_S("lease", c->shared->lease),
			 LOG_S("leader", c->election.holder));
}

static int on_data(void *ctx, struct span data)
{
	struct watcher *w = ctx;
	struct buf *b = &w->campaign->answer;
	if (b->len + data.len > LEASE_MAX)
		return -EMSGSIZE;
	buf_span_add(b, data);
	return 0;
}

static void on_end(void *ctx, int code, const struct http_result *r, const struct err *err)
{
	struct watcher *w = ctx;
	struct campaign *c = w->campaign;
	struct err why = err ? *err : (struct err){0};
	struct kube_status status = {.retry_after_ms = -1};
	c->transfer = NULL;
	/* A status without its whole body is no answer. */
	int http = code < 0 ? 0 : r->status;
	if (http >= 300 && kube_status(&c->request, r, buf_span(&c->answer), &status, &why) == 0)
		err_set(&why, 0, "%s %s: unexpected status %d", c->request.method, c->request.path, http);
	answered(w, &(struct election_answer){
			.status = http,
			.body = buf_span(&c->answer),
			.err = &why,
			.retry_after_ns = status.retry_after_ms < 0
					      ? -1
					      : MIN(status.retry_after_ms, INT64_C(1000000)) * NS_PER_MS,
			.random = (double)random_below(1u << 30) / (1u << 30)});
}

static void send_request(struct watcher *w, enum election_ask what)
{
	static const struct http_callbacks callbacks = {.on_data = on_data, .on_end = on_end};
	static const char *const methods[] = {
	    [ELECTION_GET] = "GET", [ELECTION_CREATE] = "POST", [ELECTION_UPDATE] = "PUT"};
	struct campaign *c = w->campaign;
	c->request =
	    (struct http_request){.method = methods[what],
				  .path = what == ELECTION_CREATE ? c->leases_path : c->lease_path,
				  .body = what == ELECTION_GET ? (struct span){0} : buf_span(&c->body),
				  .timeout_ms = c->timeout_ms};
	buf_reset(&c->answer);
	struct err err = {0};
	if (http_start(w->http, &c->request, &callbacks, w, &c->transfer, &err) < 0)
		answered(w, &(struct election_answer){.err = &err, .retry_after_ns = -1});
}

void campaign_run(struct watcher *w, int64_t now_ns)
{
	struct campaign *c = w->campaign;
	if (!c)
		return;
	enum election_state before = c->election.state;
	enum election_ask what = c->leaving == GIVEN_UP
				     ? ELECTION_NOTHING
				     : election_next(&c->election, now_ns, clock_realtime_ns(), &c->body);
	if (c->election.state != before)
		publish(w, before);
	if (what != ELECTION_NOTHING)
		send_request(w, what);
}

int64_t campaign_due_ns(const struct watcher *w)
{
	const struct campaign *c = w->campaign;
	if (!c || c->leaving == GIVEN_UP)
		return INT64_MAX;
	int64_t lapses = c->election.state == ELECTION_LEADING ? c->election.until_ns : INT64_MAX;
	return MIN(c->election.due_ns, lapses);
}

bool campaign_follows(const struct watcher *w)
{
	return w->campaign && w->campaign->election.state == ELECTION_FOLLOWING;
}

/* ---- the end ---- */

void campaign_close(struct watcher *w)
{
	struct campaign *c = w->campaign;
	if (!c)
		return;
	atomic_store_explicit(&c->shared->closing, 1, memory_order_release);
	c->leaving = CLOSED;
	c->leave_end_ns = clock_boottime_ns() + CLOSE_NS;
}

/* Without a region of the queue nobody can say what runs: then only time tells. */
static bool nothing_runs(const struct watcher *w)
{
	struct queue_reader *q;
	if (queue_open(w->program.region_dir, &q, NULL) < 0)
		return false;
	int leased = queue_is_leased(q);
	queue_close(q);
	return leased == 0;
}

bool campaign_ended(struct watcher *w, int64_t now_ns)
{
	struct campaign *c = w->campaign;
	if (!c)
		return true;
	if (c->leaving == CLOSED &&
	    (now_ns >= MIN(c->leave_end_ns, atomic_load(&c->shared->until)) || nothing_runs(w))) {
		c->leaving = GIVEN_UP;
		c->leave_end_ns = now_ns + LEAVE_NS;
		atomic_store_explicit(&c->shared->until, CACHE_LEAD_FOLLOWS, memory_order_release);
	}
	/* A key that was granted at the last moment is in the region now. */
	if (c->leaving == GIVEN_UP && (now_ns >= c->leave_end_ns || nothing_runs(w))) {
		c->leaving = RELEASES;
		c->leave_end_ns = now_ns + RELEASE_NS;
		election_release(&c->election, now_ns);
	}
	if (c->leaving == RELEASES && c->election.released)
		log_info("the Lease is given back", LOG_S("lease", c->shared->lease));
	return c->leaving == RELEASES && (c->election.released || now_ns >= c->leave_end_ns);
}
