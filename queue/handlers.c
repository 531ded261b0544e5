/* One function per message. Each uses up the token. */
#include "broker.h"
#include "names.h"

void broker_answer(struct broker *b, void *token, const struct wire *m)
{
	struct err err = {0};
	buf_reset(&b->out);
	if (wire_encode(m, &b->out, &err) < 0 || buf_failed(&b->out)) {
		log_error("an answer could not be encoded", LOG_S("type", wire_type_name(m->type)),
			  LOG_S("text", err.text));
		transport_drop(b->server, token);
		return;
	}
	transport_answer(b->server, token, buf_span(&b->out));
}

/* Whoever tries again and again is in the log once. */
void broker_refuse(struct broker *b, struct peer *p, void *token, enum wire_refusal code, const char *text)
{
	log_at(p->refused == code + 1u ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING, "refused",
	       LOG_S("peer", peer_name(p)), LOG_I("pid", p->pid), LOG_S("code", wire_refusal_name(code)),
	       LOG_S("text", text));
	p->refused = code + 1u;
	broker_answer(b, token, &(struct wire){.type = WIRE_TYPE_REFUSED, .refused = {code, span_of(text)}});
}

static void acknowledge_done(struct broker *b, void *token, bool stale)
{
	broker_answer(b, token, &(struct wire){.type = WIRE_TYPE_DONE_ACK, .done_ack = {stale}});
}

void broker_refuse_digest(struct broker *b, struct peer *p, uint16_t row, void *token)
{
	char text[256];
	const struct shm_controller *c = store_controller(&b->store, row);
	snprintf(text, sizeof(text),
		 "this worker has loaded another version of controller %s (%.12s) than the watcher (%.12s): "
		 "it must load its file again",
		 c->name, p->digest, c->digest);
	reports_set(&b->reports, peer_name(p), span_of(c->name), span_of("digest"), WIRE_STATE_DEGRADED,
		    span_of(text));
	broker_refuse(b, p, token, WIRE_REFUSAL_DIGEST, text);
}

/* Its file may be the one that is wrong, or one too many. */
static void refuse_unknown(struct broker *b, struct peer *p, void *token)
{
	char text[256];
	size_t wrong = b->config.errors.fatal;
	snprintf(text, sizeof(text),
		 wrong ? "the broker's configuration has no such controller, but %zu %s: `reconcilectl "
			 "status` shows "
			 "what is wrong"
		       : "the broker's configuration has no such controller: give all the same --config-dir",
		 wrong, wrong == 1 ? "error" : "errors");
	broker_refuse(b, p, token, WIRE_REFUSAL_UNKNOWN_CONTROLLER, text);
}

/* ---- HELLO ---- */

static bool check_hello(struct broker *b, struct peer *p, const struct wire_hello *h, void *token)
{
	char text[200];
	if (h->version != WIRE_VERSION) {
		snprintf(text, sizeof(text),
			 "it speaks version %u of the messages, the broker version %u: install programs of "
			 "one version",
			 h->version, WIRE_VERSION);
		broker_refuse(b, p, token, WIRE_REFUSAL_VERSION, text);
		return false;
	}
	if (h->role >= WIRE_ROLE_COUNT || (h->role == WIRE_ROLE_HOST && h->loaded.len != 1)) {
		broker_refuse(
		    b, p, token, WIRE_REFUSAL_MALFORMED,
		    "HELLO names no role that the broker knows, or a worker with not exactly one controller");
		return false;
	}
	if (p->pid && h->pid != (uint32_t)p->pid) {
		snprintf(text, sizeof(text),
			 "HELLO says pid %u, the socket says %d: the broker must be able to see the process",
			 h->pid, (int)p->pid);
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED, text);
		return false;
	}
	return true;
}

static void copy_text(char *to, size_t room, struct span text)
{
	size_t n = MIN(text.len, room - 1);
	memset(to, 0, room);
	if (n)
		memcpy(to, text.at, n);
}

static bool watch_processes(struct broker *b, struct peer *p, const struct wire_hello *h, void *token)
{
	struct err err = {0};
	struct proc *host = NULL, *jail = NULL;
	int rc = procs_get(&b->procs, h->pid, h->start_time, &host, &err);
	if (rc == 0)
		rc = procs_get(&b->procs, h->jail_pid, h->jail_start_time, &jail, &err);
	if (rc == 0 && procs_dead(host))
		rc = err_set(&err, -ESRCH, "no process %u started at %llu is seen", h->pid,
			     (unsigned long long)h->start_time);
	if (rc < 0) {
		procs_put(&b->procs, host);
		procs_put(&b->procs, jail);
		if (rc == -EACCES)
			reports_set(&b->reports, peer_name(p), h->loaded.at[0].controller,
				    span_of("processes"), WIRE_STATE_FAILED, span_of(err.text));
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED, err.text);
		return false;
	}
	procs_put(&b->procs, p->host);
	procs_put(&b->procs, p->jail);
	p->host = host;
	p->jail = jail;
	reports_set(&b->reports, peer_name(p), h->loaded.at[0].controller, span_of("processes"),
		    WIRE_STATE_OK, span_of(""));
	return true;
}

/* Keeps the lease that the host names, if it is its own, and ends any other that it has: a live host that
 * does not name a lease has lost the result. */
static bool settle_leases(struct broker *b, const struct peer *p, const struct wire_hello *h, int64_t now)
{
	const struct shm_detail *d = h->running ? workqueue_lease(&b->wq, h->slot, h->generation) : NULL;
	bool known = d && d->host_pid == p->host->pid && d->host_start == p->host->start;
	for (size_t i = 0; i < b->leases.len;) {
		struct lease *l = &b->leases.at[i];
		if (l->host != p->host || (known && l->slot == h->slot && l->generation == h->generation)) {
			i++;
			continue;
		}
		log_info("lease ended: its worker no longer has it", LOG_I("slot", l->slot),
			 LOG_I("generation", l->generation), LOG_I("host", p->host->pid),
			 LOG_S("instance", p->instance));
		broker_lose_lease(b, l, "its worker lives and does not have it any more", now);
	}
	return known;
}

static void acknowledge_hello(struct broker *b, void *token, bool known, const struct wire_hello *h)
{
	struct wire_loaded want[SHM_CONTROLLERS_MAX];
	size_t n = 0;
	for (size_t i = 0;
	     h->role == WIRE_ROLE_WATCHER && !fault("region") && i < h->loaded.len && n < SHM_CONTROLLERS_MAX;
	     i++) {
		uint16_t row;
		if (workqueue_find(&b->wq, h->loaded.at[i].controller, &row) == 0 &&
		    !store_controller(&b->store, row)->swept)
			want[n++] = h->loaded.at[i];
	}
	broker_answer(
	    b, token,
	    &(struct wire){
		.type = WIRE_TYPE_HELLO_ACK,
		.hello_ack = {.incarnation = b->incarnation, .running_known = known, .want_all = {want, n}}});
	if (n)
		log_info("all keys wanted", LOG_I("controllers", n));
}

/* A host has one connection. What it asked over an earlier one, of which the end is not seen yet, is over: a key
 * that is granted there would be leased to a host that never hears of it. */
static void last_connection(struct broker *b, const struct peer *p)
{
	for (struct peer *other = b->peers.list; other; other = other->next)
		if (other != p && other->host == p->host) {
			crews_gone(b, other);
			other->known = false;
		}
}

/* Two of one name would answer for each other in reports, and a person could not tell them apart. */
static bool is_the_only_one(struct broker *b, struct peer *p, void *token)
{
	char text[256];
	for (const struct peer *other = b->peers.list; other; other = other->next) {
		if (!other->known || other->role != WIRE_ROLE_HOST || other->host == p->host ||
		    procs_dead(other->host) || strcmp(other->instance, p->instance) != 0)
			continue;
		snprintf(text, sizeof(text),
			 "another worker of the name %s is connected (pid %u): give each a number of its own",
			 p->instance, other->host->pid);
		broker_refuse(b, p, token, WIRE_REFUSAL_INSTANCE, text);
		return false;
	}
	return true;
}

static void hello_from_host(struct broker *b, struct peer *p, const struct wire_hello *h, void *token,
			    int64_t now)
{
	if (!watch_processes(b, p, h, token) || !is_the_only_one(b, p, token))
		return;
	last_connection(b, p);
	copy_text(p->controller, sizeof(p->controller), h->loaded.at[0].controller);
	copy_text(p->digest, sizeof(p->digest), h->loaded.at[0].digest);
	bool known = settle_leases(b, p, h, now);
	struct err err = {0};
	broker_roster_result(b, roster_hello(&b->roster, p->host, p->jail, h->running, &err), &err);
	uint16_t row;
	bool found =
	    workqueue_find(&b->wq, span_of(p->controller), &row) == 0 && b->wq.controllers[row].configured;
	/* A result that stands is taken from anyone; a new key needs the file that everybody has. */
	if (!known && !found) {
		refuse_unknown(b, p, token);
		return;
	}
	const char *digest = found ? store_controller(&b->store, row)->digest : "";
	if (!known && digest[0] && strcmp(digest, p->digest) != 0) {
		broker_refuse_digest(b, p, row, token);
		return;
	}
	p->known = true;
	p->refused = 0;
	if (known && found)
		crews_set_awake(b, p, row, true);
	if (!digest[0] || strcmp(digest, p->digest) == 0)
		reports_set(&b->reports, peer_name(p), span_of(p->controller), span_of("digest"),
			    WIRE_STATE_OK, span_of(""));
	acknowledge_hello(b, token, known, h);
}

static void on_hello(struct broker *b, struct peer *p, const struct wire_hello *h, void *token, int64_t now)
{
	p->known = false;
	crews_unpark(b, p);
	if (!check_hello(b, p, h, token))
		return;
	bool first = p->role == WIRE_ROLE_COUNT;
	p->role = h->role;
	copy_text(p->instance, sizeof(p->instance), h->instance);
	bool again = h->role == WIRE_ROLE_CTL || p->refused; /* one that is refused tries every 2 s */
	log_at(again ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "peer", LOG_S("role", wire_role_name(h->role)),
	       LOG_I("pid", h->pid), LOG_S("instance", p->instance), LOG_I("jail", h->jail_pid),
	       LOG_I("running", h->running));
	/* The first HELLO of a process: what an older one of the same name reported is over. */
	if (first && h->incarnation == 0 && h->role != WIRE_ROLE_CTL)
		reports_forget(&b->reports, peer_name(p));
	if (h->role == WIRE_ROLE_HOST) {
		hello_from_host(b, p, h, token, now);
		return;
	}
	if (h->role == WIRE_ROLE_WATCHER) {
		b->hello_wanted = false;
		broker_agree(b, h, now);
		settle_untell(&b->wq.settle);
	}
	p->known = true;
	acknowledge_hello(b, token, false, h);
}

/* ---- keys ---- */

/* What the API server cannot have is no key, and a cause without its name would be taken for another. False: text says what
 * is wrong where. */
static bool check_key(const struct wire_add_key *k, size_t i, char text[200])
{
	const struct {
		const char *field;
		struct span value;
		bool needed;
	} names[] = {{"namespace", k->namespace, false},
		     {"name", k->name, true},
		     {"cause_namespace", k->cause_namespace, false},
		     {"cause_name", k->cause_name, false}};
	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		if ((!names[n].value.len && !names[n].needed) || kube_is_path_segment(names[n].value))
			continue;
		snprintf(text, 200, "ADD.keys[%zu].%s: %s", i, names[n].field,
			 names[n].value.len
			     ? "no name that an object can have: invalid UTF-8, a control character, "
			       "'/' or '%', \".\" or \"..\""
			     : "it is empty");
		return false;
	}
	if (k->cause_kind.len && memchr(k->cause_kind.at, '\0', k->cause_kind.len)) {
		snprintf(text, 200, "ADD.keys[%zu].cause_kind: it has a zero byte", i);
		return false;
	}
	if (k->cause >= WIRE_CAUSE_COUNT) {
		snprintf(text, 200, "ADD.keys[%zu].cause: %u is no cause that the broker knows", i, k->cause);
		return false;
	}
	if (k->timer >= WIRE_TIMER_COUNT) {
		snprintf(text, 200, "ADD.keys[%zu].timer: %u is no timer that the broker knows", i, k->timer);
		return false;
	}
	if (k->delay_ms < 0 || k->delay_ms > WIRE_DELAY_MS_MOST ||
	    (k->timer == WIRE_TIMER_CANCEL && k->delay_ms)) {
		snprintf(text, 200, "ADD.keys[%zu].delay_ms: it is %lld; allowed is 0 to %lld, of cancel 0",
			 i, (long long)k->delay_ms, (long long)WIRE_DELAY_MS_MOST);
		return false;
	}
	return true;
}

static void log_full(struct broker *b, const struct wire_add *add, size_t accepted, const char *text,
		     int64_t now)
{
	reports_set(&b->reports, "queue", span_of(""), span_of("region"), WIRE_STATE_DEGRADED, span_of(text));
	if (b->full_logged && now - b->full_logged < 10 * NS_PER_S)
		return;
	b->full_logged = now;
	log_warning("the region is full: keys were refused", LOG_SP("controller", add->controller),
		    LOG_I("accepted", accepted), LOG_I("sent", add->keys.len), LOG_S("text", text));
}

static void on_add(struct broker *b, struct peer *p, const struct wire_add *add, void *token, int64_t now)
{
	uint16_t row;
	if (p->role != WIRE_ROLE_WATCHER && p->role != WIRE_ROLE_CTL) {
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED,
			      "only the watcher and reconcilectl add keys");
		return;
	}
	if (workqueue_find(&b->wq, add->controller, &row) < 0 || !b->wq.controllers[row].configured) {
		refuse_unknown(b, p, token);
		return;
	}
	char text[200] = "";
	size_t n = 0;
	for (; n < add->keys.len; n++) { /* all or none */
		if (check_key(&add->keys.at[n], n, text))
			continue;
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED, text);
		return;
	}
	for (n = 0; n < add->keys.len && !fault("ready");) {
		enum shm_state states[64];
		const struct wire_add_key *keys = add->keys.at + n;
		size_t most = MIN(add->keys.len - n, ARRAY_SIZE(states));
		size_t stored = workqueue_add_batch(&b->wq, row, keys, most, now, states);
		for (size_t i = 0; i < stored; i++)
			log_debug("key added", LOG_SP("controller", add->controller),
				  LOG_SP("namespace", keys[i].namespace), LOG_SP("name", keys[i].name),
				  LOG_S("cause", wire_cause_name(keys[i].cause)),
				  LOG_S("state", shm_state_name(states[i])));
		n += stored;
		if (stored < most)
			break;
	}
	if (fault("ready"))
		n = add->keys.len;
	if (n < add->keys.len) {
		snprintf(text, sizeof(text),
			 "the queue is full (budgets.queue: %llu bytes): raise it in reconciled.yaml, or "
			 "find out why keys pile up",
			 (unsigned long long)b->store.limit);
		log_full(b, add, n, text, now);
	} else if (b->full_logged) {
		b->full_logged = 0;
		reports_set(&b->reports, "queue", span_of(""), span_of("region"), WIRE_STATE_OK, span_of(""));
	}
	broker_answer(b, token,
		      &(struct wire){.type = WIRE_TYPE_ADD_ACK, .add_ack = {(uint32_t)n, span_of(text)}});
}

/* The row that this host may have keys of; answers for it where there is none. */
static bool may_poll(struct broker *b, struct peer *p, uint64_t incarnation, void *token, uint16_t *ret_row)
{
	if (p->role != WIRE_ROLE_HOST) {
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED, "only workers ask for keys");
		return false;
	}
	if (incarnation != b->incarnation) {
		broker_refuse(b, p, token, WIRE_REFUSAL_INCARNATION,
			      "the broker was started anew: say HELLO first");
		return false;
	}
	if (workqueue_find(&b->wq, span_of(p->controller), ret_row) < 0 ||
	    !b->wq.controllers[*ret_row].configured) {
		broker_refuse(b, p, token, WIRE_REFUSAL_UNKNOWN_CONTROLLER,
			      "the broker's configuration no longer has this controller");
		return false;
	}
	const char *digest = store_controller(&b->store, *ret_row)->digest;
	if (digest[0] && strcmp(digest, p->digest) != 0) {
		broker_refuse_digest(b, p, *ret_row, token);
		return false;
	}
	if (lease_of_host(&b->leases, p->host->pid, p->host->start)) {
		broker_refuse(b, p, token, WIRE_REFUSAL_NO_HELLO,
			      "this worker has a key already: HELLO tells whether it lost it");
		return false;
	}
	return true;
}

static void idle(struct broker *b, const struct peer *p)
{
	struct err err = {0};
	broker_roster_result(b, roster_idle(&b->roster, p->host, &err), &err);
}

static void on_poll(struct broker *b, struct peer *p, const struct wire_poll *poll, void *token, int64_t now)
{
	uint16_t row;
	if (!may_poll(b, p, poll->incarnation, token, &row))
		return;
	idle(b, p);
	if (poll->asleep) {
		crews_park(b, p, row, true, token, now);
		return;
	}
	if (!crews_admit(b, p, row, token, now))
		return;
	struct wire m;
	struct wire_add_key reasons[2];
	if (broker_turn(b, row, now) && broker_grant(b, p, row, false, now, &m, reasons))
		broker_answer(b, token, &m);
	else
		crews_park(b, p, row, false, token, now);
}

static void on_done(struct broker *b, struct peer *p, const struct wire_done *done, void *token, int64_t now)
{
	if (p->role != WIRE_ROLE_HOST || done->outcome >= WIRE_OUTCOME_COUNT) {
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED,
			      "DONE comes from a worker and has an outcome that the broker knows");
		return;
	}
	idle(b, p);
	const struct shm_detail *d = workqueue_lease(&b->wq, done->slot, done->generation);
	bool own = d && d->host_pid == p->host->pid && d->host_start == p->host->start;
	bool stale = !own || broker_end_lease(b, done, "done", now) < 0;
	if (stale)
		log_info("stale result ignored", LOG_S("instance", p->instance), LOG_I("slot", done->slot),
			 LOG_I("generation", done->generation),
			 LOG_S("outcome", wire_outcome_name(done->outcome)));
	uint16_t row;
	struct wire m;
	struct wire_add_key reasons[2];
	bool more = !done->drain && done->incarnation == b->incarnation &&
		    !lease_of_host(&b->leases, p->host->pid, p->host->start) &&
		    workqueue_find(&b->wq, span_of(p->controller), &row) == 0 && !crews_too_many(b, row) &&
		    broker_turn(b, row, now);
	if (more && broker_grant(b, p, row, stale, now, &m, reasons))
		broker_answer(b, token, &m);
	else
		acknowledge_done(b, token, stale);
}

/* ---- the rest ---- */

static void on_report(struct broker *b, struct peer *p, const struct wire_report *r, void *token)
{
	if (r->state >= WIRE_STATE_COUNT) {
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED,
			      "REPORT.state: no state that the broker knows");
		return;
	}
	reports_set(&b->reports, peer_name(p), r->controller, r->topic, r->state, r->message);
	acknowledge_done(b, token, false);
}

static void on_swept(struct broker *b, struct peer *p, const struct wire_swept *s, void *token)
{
	uint16_t row;
	if (p->role != WIRE_ROLE_WATCHER || workqueue_find(&b->wq, s->controller, &row) < 0) {
		broker_refuse(b, p, token, WIRE_REFUSAL_UNKNOWN_CONTROLLER,
			      "SWEPT comes from the watcher and names a controller");
		return;
	}
	workqueue_swept(&b->wq, row);
	log_info("all keys are in", LOG_SP("controller", s->controller));
	acknowledge_done(b, token, false);
}

static void on_progress(struct broker *b, struct peer *p, const struct wire_progress *progress, void *token,
			int64_t now)
{
	if (p->role != WIRE_ROLE_WATCHER) {
		broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED, "PROGRESS comes from the watcher");
		return;
	}
	broker_passed(b, p, progress, token, now);
}

static void on_status(struct broker *b, void *token, int64_t now)
{
	_cleanup_(buf_done) struct buf json = {.limit = 4194304};
	broker_status(b, now, &json);
	broker_answer(b, token,
		      &(struct wire){.type = WIRE_TYPE_STATUS_REPLY, .status_reply = {buf_span(&json)}});
}

static void dispatch(struct broker *b, struct peer *p, const struct wire *m, void *token, int64_t now)
{
	/* Whoever may connect may look; all else begins with HELLO. */
	if (m->type != WIRE_TYPE_HELLO && m->type != WIRE_TYPE_STATUS && !p->known) {
		broker_refuse(b, p, token, WIRE_REFUSAL_NO_HELLO,
			      "the first message of a connection is HELLO");
		return;
	}
	switch (m->type) {
	case WIRE_TYPE_HELLO:
		on_hello(b, p, &m->hello, token, now);
		return;
	case WIRE_TYPE_ADD:
		on_add(b, p, &m->add, token, now);
		return;
	case WIRE_TYPE_POLL:
		on_poll(b, p, &m->poll, token, now);
		return;
	case WIRE_TYPE_DONE:
		on_done(b, p, &m->done, token, now);
		return;
	case WIRE_TYPE_REPORT:
		on_report(b, p, &m->report, token);
		return;
	case WIRE_TYPE_SWEPT:
		on_swept(b, p, &m->swept, token);
		return;
	case WIRE_TYPE_PROGRESS:
		on_progress(b, p, &m->progress, token, now);
		return;
	case WIRE_TYPE_STATUS:
		on_status(b, token, now);
		return;
	case WIRE_TYPE_CONTROL:
		broker_control(b, p, &m->control, token, now);
		return;
	case WIRE_NONE:
	case WIRE_TYPE_HELLO_ACK:
	case WIRE_TYPE_REFUSED:
	case WIRE_TYPE_ADD_ACK:
	case WIRE_TYPE_DONE_ACK:
	case WIRE_TYPE_GRANT:
	case WIRE_TYPE_SLEEP:
	case WIRE_TYPE_CONTROL_ACK:
	case WIRE_TYPE_AWAIT:
	case WIRE_TYPE_STATUS_REPLY:
	case WIRE_TYPE_COUNT:
		break;
	}
	broker_refuse(b, p, token, WIRE_REFUSAL_MALFORMED, "that message is an answer, not a request");
}

void broker_request(struct broker *b, const struct transport_event *event, int64_t now)
{
	struct peer *p = peers_find(&b->peers, event->peer.pipe);
	if (!p) {
		p = peers_add(&b->peers, event->peer.pipe, event->peer.pid);
		p->role = WIRE_ROLE_COUNT;
	}
	struct wire m = {0};
	struct err err = {0};
	if (wire_decode(event->bytes, &m, &err) < 0)
		broker_refuse(b, p, event->token, WIRE_REFUSAL_MALFORMED, err.text);
	else
		dispatch(b, p, &m, event->token, now);
	wire_done(&m);
}

void broker_gone(struct broker *b, uint32_t pipe)
{
	struct peer *p = peers_find(&b->peers, pipe);
	if (!p)
		return;
	if (p->known && p->role != WIRE_ROLE_CTL)
		log_info("peer gone", LOG_S("role", wire_role_name(p->role)), LOG_I("pid", p->pid),
			 LOG_S("instance", p->instance));
	crews_gone(b, p);
	broker_forget_progress(b, pipe);
	procs_put(&b->procs, p->host);
	procs_put(&b->procs, p->jail);
	peers_remove(&b->peers, p);
}
