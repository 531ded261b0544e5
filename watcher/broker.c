#include "broker.h"
#include "log.h"
#include "program.h"
#include "transport.h"
#include <stdio.h>
#include <unistd.h>

enum { REPORTS_IN_FLIGHT = 16, REQUESTS = BROKER_BATCHES + REPORTS_IN_FLIGHT + 70, LOADED_MAX = 64 };
#define HELLO_RETRY_NS (2 * NS_PER_S)

enum state { DOWN, CONNECTED, GREETING, READY };
enum request_kind { R_FREE, R_HELLO, R_ADD, R_SWEPT, R_REPORT, R_PROGRESS };

struct report {
	char *controller, *topic, *message;
	enum wire_state state;
	bool sent;
};

struct request {
	enum request_kind kind;
	uint32_t id;
	struct broker_batch *batch; /* ADD */
	char controller[64];	    /* SWEPT */
};

struct broker {
	struct transport_client *client;
	const struct broker_ops *ops;
	void *ctx;
	enum state state;
	bool hello_wanted;
	int64_t hello_at_ns;
	uint64_t incarnation;
	struct request requests[REQUESTS];
	size_t adds, reports_in_flight;
	struct report *reports;
	size_t n_reports;
	struct buf out;
	int64_t now_ns;
};

int broker_new(const char *socket, const struct broker_ops *ops, void *ctx, struct broker **ret,
	       struct err *err)
{
	struct broker *b = xcalloc(1, sizeof *b);
	int rc = transport_dial(socket, &b->client, err);
	if (rc < 0) {
		free(b);
		return rc;
	}
	b->ops = ops;
	b->ctx = ctx;
	*ret = b;
	return 0;
}

static void report_done(struct report *r)
{
	free(r->controller);
	free(r->topic);
	free(r->message);
}

int broker_fd(const struct broker *b)
{
	return transport_client_fd(b->client);
}
bool broker_ready(const struct broker *b)
{
	return b->state == READY;
}
int64_t broker_due_ns(const struct broker *b)
{
	return b->state == CONNECTED || (b->state == READY && b->hello_wanted) ? b->hello_at_ns : INT64_MAX;
}
bool broker_may_add(const struct broker *b)
{
	return b->state == READY && !b->hello_wanted && b->adds < BROKER_BATCHES;
}
void broker_hello(struct broker *b)
{
	b->hello_wanted = true;
	b->hello_at_ns = 0;
}

bool broker_idle(const struct broker *b)
{
	for (size_t i = 0; i < REQUESTS; i++)
		if (b->requests[i].kind != R_FREE && b->requests[i].kind != R_PROGRESS)
			return false;
	return true;
}

/* ---- sending ---- */

static int send_message(struct broker *b, const struct wire *m, enum request_kind kind, struct request **ret)
{
	struct request *r = b->requests;
	while (r < b->requests + REQUESTS && r->kind != R_FREE)
		r++;
	if (r == b->requests + REQUESTS)
		return -EBUSY;
	struct err err;
	buf_reset(&b->out);
	int rc = wire_encode(m, &b->out, &err);
	if (rc < 0) {
		log_error("a message to the broker cannot be encoded", LOG_S("type", wire_type_name(m->type)),
			  LOG_S("reason", err.text));
		return rc;
	}
	uint32_t id;
	rc = transport_send(b->client, buf_span(&b->out), &id);
	if (rc < 0)
		return rc;
	*r = (struct request){.kind = kind, .id = id};
	*ret = r;
	return 0;
}

static void send_hello(struct broker *b)
{
	struct wire_loaded loaded[LOADED_MAX];
	size_t n = 0;
	uint64_t start = 0;
	b->ops->on_connected(b->ctx, loaded, LOADED_MAX, &n);
	process_start_time(getpid(), &start);
	struct wire m = {.type = WIRE_TYPE_HELLO};
	m.hello.version = WIRE_VERSION;
	m.hello.role = WIRE_ROLE_WATCHER;
	m.hello.pid = (uint32_t)getpid();
	m.hello.start_time = start;
	m.hello.incarnation = b->incarnation;
	m.hello.loaded.at = loaded;
	m.hello.loaded.len = n;
	struct request *r;
	b->hello_at_ns = b->now_ns + HELLO_RETRY_NS;
	if (send_message(b, &m, R_HELLO, &r) == 0) {
		b->state = GREETING;
		b->hello_wanted = false;
	}
}

int broker_add(struct broker *b, const char *controller, const struct wire_add_key *keys, size_t count,
	       struct broker_batch *batch)
{
	if (!broker_may_add(b))
		return b->state == READY ? -EBUSY : -ENOTCONN;
	struct wire m = {.type = WIRE_TYPE_ADD};
	m.add.controller = span_of(controller);
	m.add.keys.at = keys;
	m.add.keys.len = count;
	struct request *r;
	int rc = send_message(b, &m, R_ADD, &r);
	if (rc < 0)
		return rc;
	r->batch = batch;
	b->adds++;
	return 0;
}

int broker_swept(struct broker *b, const char *controller)
{
	if (b->state != READY)
		return -ENOTCONN;
	struct wire m = {.type = WIRE_TYPE_SWEPT};
	m.swept.controller = span_of(controller);
	struct request *r;
	int rc = send_message(b, &m, R_SWEPT, &r);
	if (rc == 0)
		snprintf(r->controller, sizeof r->controller, "%s", controller);
	return rc;
}

int broker_progress(struct broker *b, const struct wire_place *passed, size_t count)
{
	if (b->state != READY)
		return -ENOTCONN;
	struct wire m = {.type = WIRE_TYPE_PROGRESS};
	m.progress.passed.at = passed;
	m.progress.passed.len = count;
	struct request *r;
	return send_message(b, &m, R_PROGRESS, &r);
}

/* ---- reports ---- */

static struct report *find_report(struct broker *b, const char *controller, const char *topic)
{
	for (size_t i = 0; i < b->n_reports; i++)
		if (!strcmp(b->reports[i].controller, controller) && !strcmp(b->reports[i].topic, topic))
			return &b->reports[i];
	return NULL;
}

void broker_report(struct broker *b, const char *controller, const char *topic, enum wire_state state,
		   const char *message)
{
	struct report *r = find_report(b, controller, topic);
	if (!r && state == WIRE_STATE_OK)
		return;
	if (!r) {
		b->reports = xrealloc(b->reports, (b->n_reports + 1) * sizeof *b->reports);
		r = &b->reports[b->n_reports++];
		*r = (struct report){.controller = xstrdup(controller), .topic = xstrdup(topic)};
	} else if (r->state == state && !strcmp(r->message, message)) {
		return;
	}
	free(r->message);
	r->message = xstrdup(message);
	r->state = state;
	r->sent = false;
}

void broker_reports_keep(struct broker *b, bool (*keep)(void *ctx, const char *controller, const char *topic),
			 void *ctx)
{
	for (size_t i = 0; i < b->n_reports; i++)
		if (!keep(ctx, b->reports[i].controller, b->reports[i].topic))
			broker_report(b, b->reports[i].controller, b->reports[i].topic, WIRE_STATE_OK, "");
}

static void send_reports(struct broker *b)
{
	for (size_t i = 0; i < b->n_reports && b->state == READY; i++) {
		struct report *p = &b->reports[i];
		if (p->sent)
			continue;
		if (b->reports_in_flight == REPORTS_IN_FLIGHT)
			return;
		struct wire m = {.type = WIRE_TYPE_REPORT};
		m.report.controller = span_of(p->controller);
		m.report.topic = span_of(p->topic);
		m.report.state = p->state;
		m.report.message = (struct span){p->message, strnlen(p->message, 1024)};
		struct request *r;
		if (send_message(b, &m, R_REPORT, &r) < 0)
			return;
		b->reports_in_flight++;
		p->sent = true;
	}
}

/* OK removes a report at the broker, and here once it is told. */
static void forget_told(struct broker *b)
{
	size_t kept = 0;
	for (size_t i = 0; i < b->n_reports && !b->reports_in_flight; i++) {
		if (b->reports[i].sent && b->reports[i].state == WIRE_STATE_OK)
			report_done(&b->reports[i]);
		else
			b->reports[kept++] = b->reports[i];
	}
	b->n_reports = b->reports_in_flight ? b->n_reports : kept;
}

/* ---- what comes ---- */

static void lost(struct broker *b, struct request *r)
{
	struct request was = *r;
	*r = (struct request){0};
	switch (was.kind) {
	case R_ADD:
		b->adds--;
		b->ops->on_added(b->ctx, was.batch, -1, (struct span){"", 0});
		break;
	case R_SWEPT:
		b->ops->on_swept(b->ctx, span_of(was.controller), false);
		break;
	case R_REPORT:
		b->reports_in_flight--;
		break;
	case R_HELLO:
	case R_PROGRESS:
	case R_FREE:
		break;
	}
}

static void on_gone(struct broker *b)
{
	if (b->state == READY)
		log_warning("the broker is gone; keys wait in the outbox");
	b->state = DOWN;
	for (size_t i = 0; i < REQUESTS; i++)
		if (b->requests[i].kind != R_FREE)
			lost(b, &b->requests[i]);
	for (size_t i = 0; i < b->n_reports; i++)
		b->reports[i].sent = false;
}

static void on_hello_ack(struct broker *b, const struct wire_hello_ack *a)
{
	bool other = a->incarnation != b->incarnation;
	b->incarnation = a->incarnation;
	b->state = READY;
	for (size_t i = 0; i < b->n_reports && other; i++)
		b->reports[i].sent = false;
	log_info("broker ready", LOG_I("incarnation", (int64_t)a->incarnation),
		 LOG_I("wants_all", a->want_all.len));
	b->ops->on_ready(b->ctx, a->want_all.at, a->want_all.len);
}

static void on_refused(struct broker *b, struct request *r, const struct wire_refused *a)
{
	log_warning("the broker refused a message", LOG_S("refusal", wire_refusal_name(a->code)),
		    LOG_SP("message", a->message));
	if (r->kind == R_HELLO || a->code == WIRE_REFUSAL_NO_HELLO) {
		b->state = CONNECTED;
		b->hello_at_ns = b->now_ns + HELLO_RETRY_NS;
	}
	if (r->kind == R_ADD) {
		struct broker_batch *batch = r->batch;
		*r = (struct request){0};
		b->adds--;
		b->ops->on_added(b->ctx, batch, -1, a->message);
		return;
	}
	lost(b, r);
}

static void on_answer(struct broker *b, uint32_t id, const struct wire *m)
{
	struct request *r = b->requests;
	while (r < b->requests + REQUESTS && (r->kind == R_FREE || r->id != id))
		r++;
	if (r == b->requests + REQUESTS)
		return;
	struct request was = *r;
	if (m->type == WIRE_TYPE_REFUSED) {
		on_refused(b, r, &m->refused);
	} else if (was.kind == R_HELLO && m->type == WIRE_TYPE_HELLO_ACK) {
		*r = (struct request){0};
		on_hello_ack(b, &m->hello_ack);
	} else if (was.kind == R_ADD && m->type == WIRE_TYPE_ADD_ACK) {
		*r = (struct request){0};
		b->adds--;
		b->ops->on_added(b->ctx, was.batch, m->add_ack.accepted, m->add_ack.message);
	} else if (was.kind == R_SWEPT && m->type == WIRE_TYPE_DONE_ACK) {
		*r = (struct request){0};
		b->ops->on_swept(b->ctx, span_of(was.controller), true);
	} else if (was.kind == R_REPORT && m->type == WIRE_TYPE_DONE_ACK) {
		*r = (struct request){0};
		b->reports_in_flight--;
		forget_told(b);
	} else if (was.kind == R_PROGRESS && m->type == WIRE_TYPE_AWAIT) {
		*r = (struct request){0};
		if (m->await.hello)
			broker_hello(b);
		b->ops->on_await(b->ctx, m->await.places.at, m->await.places.len);
	} else {
		log_error("the broker gave an answer that does not fit",
			  LOG_S("type", wire_type_name(m->type)));
		lost(b, r);
	}
}

void broker_run(struct broker *b, int64_t now_ns)
{
	b->now_ns = now_ns;
	struct transport_reply reply;
	for (enum transport_event_type t;
	     (t = transport_client_next(b->client, &reply)) != TRANSPORT_NOTHING;) {
		if (t == TRANSPORT_CONNECTED) {
			b->state = CONNECTED;
			b->hello_at_ns = now_ns;
		} else if (t == TRANSPORT_GONE) {
			on_gone(b);
		} else {
			struct wire m = {0};
			struct err err;
			if (wire_decode(reply.bytes, &m, &err) == 0)
				on_answer(b, reply.request, &m);
			else
				log_error("the broker sent a malformed answer", LOG_S("reason", err.text));
			wire_done(&m);
		}
	}
	if ((b->state == CONNECTED || (b->state == READY && b->hello_wanted)) && now_ns >= b->hello_at_ns)
		send_hello(b);
	send_reports(b);
}
