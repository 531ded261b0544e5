#include "fake_broker.h"
#include "transport.h"
#include <stdio.h>

void fake_broker_start(struct fake_broker *b, const char *folder)
{
	*b = (struct fake_broker){.room = -1, .incarnation = 1};
	_cleanup_(free_ptr) char *path = xasprintf("%s/queue.sock", folder);
	struct err err;
	if (transport_listen(path, &b->server, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
}

static void copy(char *to, size_t size, struct span s)
{
	snprintf(to, size, "%.*s", SPAN_ARG(s));
}

static void remember(struct fake_broker *b, struct span controller, const struct wire_add_key *k)
{
	if (b->n_keys == b->cap_keys) {
		b->cap_keys = b->cap_keys ? b->cap_keys * 2 : 64;
		b->keys = xrealloc(b->keys, b->cap_keys * sizeof(*b->keys));
	}
	struct broker_key *r = &b->keys[b->n_keys++];
	*r = (struct broker_key){.priority = k->priority,
				 .primary_changed = k->primary_changed,
				 .cause = k->cause,
				 .event = {k->table, k->stream, k->resource_version}};
	copy(r->controller, sizeof r->controller, controller);
	copy(r->namespace, sizeof r->namespace, k->namespace);
	copy(r->name, sizeof r->name, k->name);
	copy(r->cause_kind, sizeof r->cause_kind, k->cause_kind);
}

static bool on_add(struct fake_broker *b, const struct wire_add *a, struct wire *answer)
{
	if (b->hold)
		return false;
	size_t taken = b->room < 0 ? a->keys.len : MIN(a->keys.len, (size_t)b->room);
	b->room -= b->room < 0 ? 0 : (int64_t)taken;
	b->adds++;
	for (size_t i = 0; i < taken; i++)
		remember(b, a->controller, &a->keys.at[i]);
	answer->type = WIRE_TYPE_ADD_ACK;
	answer->add_ack.accepted = (uint32_t)taken;
	answer->add_ack.message = span_of(taken < a->keys.len ? "the region is full" : "");
	return true;
}

static void on_report(struct fake_broker *b, const struct wire_report *r)
{
	struct broker_told told = {.state = r->state};
	copy(told.controller, sizeof told.controller, r->controller);
	copy(told.topic, sizeof told.topic, r->topic);
	copy(told.message, sizeof told.message, r->message);
	for (size_t i = 0; i < b->n_told; i++)
		if (!strcmp(b->told[i].controller, told.controller) &&
		    !strcmp(b->told[i].topic, told.topic)) {
			b->told[i] = told;
			return;
		}
	if (b->n_told < ARRAY_SIZE(b->told))
		b->told[b->n_told++] = told;
}

static void on_hello(struct fake_broker *b, const struct wire_hello *h, uint32_t pipe, struct wire *answer)
{
	b->hellos++;
	b->pipe = pipe;
	b->n_loaded = h->loaded.len;
	for (size_t i = 0; i < h->loaded.len; i++)
		copy(b->loaded[i], sizeof b->loaded[i], h->loaded.at[i].controller);
	answer->type = WIRE_TYPE_HELLO_ACK;
	answer->hello_ack.incarnation = b->incarnation;
	if (b->want_all) {
		answer->hello_ack.want_all.at = h->loaded.at;
		answer->hello_ack.want_all.len = h->loaded.len;
	}
}

bool fake_broker_await(struct fake_broker *b, const struct wire_place *places, size_t count)
{
	struct wire m = {.type = WIRE_TYPE_AWAIT, .await.places = {places, count}};
	struct buf out = {0};
	bool answered = b->progress && wire_encode(&m, &out, NULL) == 0;
	if (answered)
		transport_answer(b->server, b->progress, buf_span(&out));
	buf_done(&out);
	if (answered)
		b->progress = NULL;
	return answered;
}

uint64_t fake_broker_passed(const struct fake_broker *b, uint32_t table, uint32_t stream)
{
	for (size_t i = 0; i < b->n_passed; i++)
		if (b->passed[i].table == table && b->passed[i].stream == stream)
			return b->passed[i].resource_version;
	return 0;
}

static void on_progress(struct fake_broker *b, const struct wire_progress *p, void *token)
{
	fake_broker_await(b, NULL, 0);
	b->progress = token;
	b->progresses++;
	b->keys_before = b->n_keys;
	for (size_t i = 0; i < p->passed.len; i++) {
		size_t n = 0;
		while (n < b->n_passed && (b->passed[n].table != p->passed.at[i].table ||
					   b->passed[n].stream != p->passed.at[i].stream))
			n++;
		if (n == ARRAY_SIZE(b->passed))
			continue;
		b->passed[n] = p->passed.at[i];
		b->n_passed = MAX(b->n_passed, n + 1);
	}
}

static bool on_request(struct fake_broker *b, const struct wire *m, uint32_t pipe, struct wire *answer)
{
	answer->type = WIRE_TYPE_DONE_ACK;
	if (m->type == WIRE_TYPE_HELLO)
		on_hello(b, &m->hello, pipe, answer);
	else if (m->type == WIRE_TYPE_ADD)
		return on_add(b, &m->add, answer);
	else if (m->type == WIRE_TYPE_REPORT)
		on_report(b, &m->report);
	else if (m->type == WIRE_TYPE_SWEPT) {
		b->sweeps++;
		b->want_all = false;
	} else {
		CHECK_MSG(false, "a watcher sent %s", wire_type_name(m->type));
	}
	return true;
}

void fake_broker_pump(struct fake_broker *b)
{
	struct transport_event e;
	for (enum transport_event_type t; (t = transport_server_next(b->server, &e)) != TRANSPORT_NOTHING;) {
		if (t == TRANSPORT_GONE && e.peer.pipe == b->pipe) {
			b->pipe = 0;
			transport_drop(b->server, b->progress);
			b->progress = NULL;
		}
		if (t != TRANSPORT_REQUEST)
			continue;
		struct wire m = {0}, answer = {0};
		struct buf out = {0};
		struct err err = {0};
		int rc = wire_decode(e.bytes, &m, &err);
		CHECK_MSG(rc == 0, "a message cannot be decoded: %s", err.text);
		if (rc == 0 && m.type == WIRE_TYPE_PROGRESS)
			on_progress(b, &m.progress, e.token);
		else if (rc == 0 && on_request(b, &m, e.peer.pipe, &answer) &&
			 wire_encode(&answer, &out, &err) == 0)
			transport_answer(b->server, e.token, buf_span(&out));
		else
			transport_drop(b->server, e.token);
		wire_done(&m);
		buf_done(&out);
	}
}

void fake_broker_restart(struct fake_broker *b)
{
	b->incarnation++;
	if (b->pipe)
		transport_close_peer(b->server, b->pipe);
}

void fake_broker_forget(struct fake_broker *b)
{
	b->n_keys = 0;
	b->adds = 0;
}

size_t fake_broker_count(const struct fake_broker *b, const char *controller, const char *namespace,
			 const char *name, struct broker_key *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < b->n_keys; i++) {
		const struct broker_key *k = &b->keys[i];
		if (strcmp(k->controller, controller) != 0 || strcmp(k->namespace, namespace) != 0 ||
		    strcmp(k->name, name) != 0)
			continue;
		n++;
		if (ret)
			*ret = *k;
	}
	return n;
}

uint32_t fake_broker_state(const struct fake_broker *b, const char *controller, const char *topic,
			   const char **ret)
{
	for (size_t i = 0; i < b->n_told; i++)
		if (!strcmp(b->told[i].controller, controller) && !strcmp(b->told[i].topic, topic)) {
			if (ret)
				*ret = b->told[i].message;
			return b->told[i].state;
		}
	return WIRE_STATE_OK;
}
