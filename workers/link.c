#include "link.h"
#include "log.h"
#include <unistd.h>

#define HELLO_DELAY_NS	   (200 * (int64_t)NS_PER_MS)
#define HELLO_DELAY_MAX_NS (2 * NS_PER_S)

int link_open(struct link *l, const char *runtime_dir, struct err *err)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/queue.sock", runtime_dir);
	*l = (struct link){0};
	return transport_dial(path, &l->client, err);
}

static bool send_message(struct link *l, const struct wire *m, uint32_t *ret_request)
{
	_cleanup_(buf_done) struct buf bytes = {0};
	struct err why = {0};
	int r = wire_encode(m, &bytes, &why);
	if (r < 0) { /* our own texts are cut to their limits: cannot be */
		log_error("message cannot be encoded", LOG_S("type", wire_type_name(m->type)),
			  LOG_S("cause", why.text));
		return false;
	}
	return transport_send(l->client, buf_span(&bytes), ret_request) == 0;
}

void link_greet(struct link *l, const struct link_identity *who, int64_t now_ns)
{
	if (l->state != LINK_CONNECTED || now_ns < l->hello_ns)
		return;
	struct wire_loaded loaded = {span_of(who->controller), span_of(who->digest)};
	struct wire m = {.type = WIRE_TYPE_HELLO};
	m.hello = (struct wire_hello){
	    .version = WIRE_VERSION,
	    .role = WIRE_ROLE_HOST,
	    .pid = (uint32_t)getpid(),
	    .start_time = who->start_time,
	    .jail_pid = (uint32_t)who->jail_pid,
	    .jail_start_time = who->jail_start,
	    .incarnation = l->incarnation,
	    .running = who->running,
	    .slot = who->slot,
	    .generation = who->generation,
	    .instance = span_of(who->instance),
	    .loaded = {&loaded, 1},
	};
	if (send_message(l, &m, &l->hello))
		l->state = LINK_GREETING;
	else
		l->hello_ns = now_ns + HELLO_DELAY_NS;
}

void link_rehello(struct link *l)
{
	l->poll = l->hello = l->report = 0;
	l->hello_ns = 0;
	if (l->state != LINK_DOWN)
		l->state = LINK_CONNECTED;
}

static enum link_event_type on_hello(struct link *l, int64_t now_ns, struct link_event *e)
{
	if (e->message.type == WIRE_TYPE_HELLO_ACK) {
		l->state = LINK_UP;
		l->incarnation = e->message.hello_ack.incarnation;
		l->hello_delay_ns = 0;
		l->refused = 0;
		return LINK_ACKNOWLEDGED;
	}
	l->state = LINK_CONNECTED;
	l->hello_delay_ns =
	    l->hello_delay_ns ? MIN(l->hello_delay_ns * 2, HELLO_DELAY_MAX_NS) : HELLO_DELAY_NS;
	l->hello_ns = now_ns + l->hello_delay_ns;
	return LINK_REFUSED_HELLO;
}

/* Which of our requests does it answer? LINK_NOTHING: one that no longer counts. */
static enum link_event_type classify(struct link *l, uint32_t request, int64_t now_ns, struct link_event *e)
{
	enum wire_type type = e->message.type;
	if (request == l->hello) {
		l->hello = 0;
		return on_hello(l, now_ns, e);
	}
	if (request == l->report) {
		l->report = 0;
		return LINK_NOTHING;
	}
	bool done = request == l->done;
	if (!done && request != l->poll)
		return LINK_NOTHING;
	*(done ? &l->done : &l->poll) = 0;
	e->answers_done = done;
	if (type == WIRE_TYPE_GRANT)
		return LINK_GRANTED;
	if (!done && type == WIRE_TYPE_SLEEP)
		return LINK_SLEEP;
	if (done && type == WIRE_TYPE_DONE_ACK)
		return LINK_DONE;
	if (type == WIRE_TYPE_REFUSED) { /* it does not know us (any more): introduce ourselves */
		l->hello_ns = now_ns + HELLO_DELAY_NS;
		l->state = LINK_CONNECTED;
		l->poll = 0;
	}
	return done ? LINK_REFUSED_DONE : LINK_NO_GRANT;
}

enum link_event_type link_next(struct link *l, int64_t now_ns, struct link_event *ret)
{
	struct transport_reply reply;
	for (;;) {
		*ret = (struct link_event){0};
		switch (transport_client_next(l->client, &reply)) {
		case TRANSPORT_NOTHING:
			return LINK_NOTHING;
		case TRANSPORT_REFUSED: /* of a server */
			break;
		case TRANSPORT_CONNECTED:
			l->state = LINK_CONNECTED;
			l->hello_ns = 0;
			break;
		case TRANSPORT_GONE:
			l->state = LINK_DOWN;
			l->hello = l->poll = l->done = l->report = 0;
			return ret->type = LINK_LOST;
		case TRANSPORT_REQUEST: {
			struct err why = {0};
			if (wire_decode(reply.bytes, &ret->message, &why) < 0) {
				log_error("the broker's answer cannot be read", LOG_S("cause", why.text));
				ret->message = (struct wire){.type = WIRE_TYPE_REFUSED};
			}
			ret->type = classify(l, reply.request, now_ns, ret);
			if (ret->type != LINK_NOTHING)
				return ret->type;
			wire_done(&ret->message);
			break;
		}
		}
	}
}

bool link_poll(struct link *l, bool asleep)
{
	if (l->state != LINK_UP || l->poll || l->done)
		return false;
	struct wire m = {.type = WIRE_TYPE_POLL, .poll = {l->incarnation, asleep}};
	return send_message(l, &m, &l->poll);
}

bool link_done(struct link *l, struct wire_done *d)
{
	if (l->state != LINK_UP || l->done)
		return false;
	d->incarnation = l->incarnation;
	struct wire m = {.type = WIRE_TYPE_DONE, .done = *d};
	return send_message(l, &m, &l->done);
}

bool link_report(struct link *l, const struct wire_report *r)
{
	if (l->state != LINK_UP || l->report)
		return false;
	struct wire m = {.type = WIRE_TYPE_REPORT, .report = *r};
	return send_message(l, &m, &l->report);
}

int64_t link_timer(const struct link *l)
{
	return l->state == LINK_CONNECTED ? l->hello_ns : INT64_MAX;
}
