#include "transport_private.h"
#include "wire.h"
#include <stdio.h>
#include <unistd.h>

enum {
	PEERS_MAX = 4096,    /* connections; more are turned away */
	SERVER_QUEUE = 4096, /* answers that wait for nng */
};

enum peer_state {
	PEER_NEW,  /* CONNECTED is to be reported */
	PEER_LIVE, /* reported */
	PEER_GONE, /* GONE is to be reported */
};

struct peer {
	struct transport_peer who;
	enum peer_state state;
	uint32_t unanswered; /* user's thread only */
	struct peer *next;   /* of its bucket */
	struct peer *report; /* the next in the order of events; only NEW and GONE are in it */
};

struct transport_server {
	struct side side;
	nng_msg *held; /* received before its CONNECTED was reported */
	struct peer *buckets[256];
	size_t n_peers;
	struct peer *report, **report_end;
};

struct token {
	struct transport_server *server;
	uint32_t pipe, request;
};

static struct peer **peer_slot(struct transport_server *s, uint32_t pipe)
{
	struct peer **p = &s->buckets[pipe % ARRAY_SIZE(s->buckets)];
	while (*p && (*p)->who.pipe != pipe)
		p = &(*p)->next;
	return p;
}

static void report_add(struct transport_server *s, struct peer *p)
{
	p->report = NULL;
	*s->report_end = p;
	s->report_end = &p->report;
	side_raise(&s->side);
}

static void report_remove(struct transport_server *s, struct peer *p)
{
	struct peer **at = &s->report;
	while (*at != p)
		at = &(*at)->report;
	*at = p->report;
	if (s->report_end == &p->report)
		s->report_end = at;
}

static void peer_forget(struct transport_server *s, struct peer **slot)
{
	struct peer *p = *slot;
	*slot = p->next;
	s->n_peers--;
	free(p);
}

static void server_pipe_event(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
	struct transport_server *s = arg;
	struct transport_peer who = {0};
	if (event == NNG_PIPE_EV_ADD_PRE) {
		who = side_peer(pipe);
		if (who.uid != geteuid() && who.uid != 0) {
			nng_pipe_close(pipe);
			return;
		}
	}
	pthread_mutex_lock(&s->side.lock);
	struct peer **slot = peer_slot(s, (uint32_t)pipe.id);
	if (event == NNG_PIPE_EV_ADD_PRE && s->n_peers >= PEERS_MAX) {
		nng_pipe_close(pipe);
	} else if (event == NNG_PIPE_EV_ADD_PRE) {
		struct peer *p = xcalloc(1, sizeof *p);
		p->who = who;
		*slot = p;
		s->n_peers++;
		report_add(s, p);
	} else if (*slot && (*slot)->state == PEER_NEW) { /* came and went unseen */
		report_remove(s, *slot);
		peer_forget(s, slot);
	} else if (*slot && (*slot)->state == PEER_LIVE) {
		(*slot)->state = PEER_GONE;
		report_add(s, *slot);
	}
	pthread_mutex_unlock(&s->side.lock);
}

static void server_free_memory(void *arg)
{
	struct transport_server *s = arg;
	if (s->held)
		nng_msg_free(s->held);
	for (size_t i = 0; i < ARRAY_SIZE(s->buckets); i++)
		while (s->buckets[i])
			peer_forget(s, &s->buckets[i]);
	free(s);
}

int transport_listen(const char *path, struct transport_server **ret, struct err *err)
{
	struct transport_server *s = xcalloc(1, sizeof *s);
	s->report_end = &s->report;
	int r = side_open(&s->side, path, nng_rep0_open_raw, 2 * TRANSPORT_IN_FLIGHT_MAX, SERVER_QUEUE, err);
	if (r) {
		side_close(&s->side, server_free_memory, s);
		return r;
	}
	char url[sizeof s->side.path + 8];
	snprintf(url, sizeof url, "ipc://%s", path);
	nng_listener listener;
	if ((r = nng_pipe_notify(s->side.socket, NNG_PIPE_EV_ADD_PRE, server_pipe_event, s)) ||
	    (r = nng_pipe_notify(s->side.socket, NNG_PIPE_EV_REM_POST, server_pipe_event, s)) ||
	    (r = nng_listener_create(&listener, s->side.socket, url)) ||
	    (r = nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, 0600)) ||
	    (r = nng_listener_start(listener, 0))) {
		const char *hint =
		    r == NNG_EADDRINUSE ? " (another process listens there: stop it first)" : "";
		err_set(err, side_errno(r), "cannot listen on %s: %s%s", path, nng_strerror(r), hint);
		side_close(&s->side, server_free_memory, s);
		return side_errno(r);
	}
	*ret = s;
	return 0;
}

void transport_server_free(struct transport_server *s)
{
	if (!s)
		return;
	unlink(s->side.path);
	side_close(&s->side, server_free_memory, s);
}

int transport_server_fd(const struct transport_server *s)
{
	return s->side.epoll;
}

/* The oldest connection event, if any. */
static enum transport_event_type server_next_report(struct transport_server *s, struct transport_event *ret)
{
	enum transport_event_type type = TRANSPORT_NOTHING;
	pthread_mutex_lock(&s->side.lock);
	struct peer *p = s->report;
	if (p) {
		s->report = p->report;
		if (!s->report)
			s->report_end = &s->report;
		type = p->state == PEER_NEW ? TRANSPORT_CONNECTED : TRANSPORT_GONE;
		*ret = (struct transport_event){.type = type, .peer = p->who};
		if (p->state == PEER_NEW)
			p->state = PEER_LIVE;
		else
			peer_forget(s, peer_slot(s, p->who.pipe));
	}
	if (!s->report && !s->held)
		side_clear(&s->side);
	pthread_mutex_unlock(&s->side.lock);
	return type;
}

/* Who sent it, if the user knows the connection; counts the request. */
static bool server_sender(struct transport_server *s, uint32_t pipe, struct transport_peer *ret)
{
	pthread_mutex_lock(&s->side.lock);
	struct peer *p = *peer_slot(s, pipe);
	bool live = p && p->state == PEER_LIVE;
	bool too_many = live && p->unanswered >= TRANSPORT_IN_FLIGHT_MAX;
	if (live && !too_many) {
		*ret = p->who;
		p->unanswered++;
	}
	pthread_mutex_unlock(&s->side.lock);
	if (too_many)
		transport_close_peer(s, pipe);
	return live && !too_many;
}

enum transport_event_type transport_server_next(struct transport_server *s, struct transport_event *ret)
{
	side_release_current(&s->side);
	side_flush(&s->side);
	for (;;) {
		enum transport_event_type type = server_next_report(s, ret);
		if (type != TRANSPORT_NOTHING)
			return type;
		nng_msg *m = s->held;
		s->held = NULL;
		if (!m && (m = side_receive(&s->side))) {
			/* Its CONNECTED may have come since we looked: that goes first. */
			s->held = m;
			continue;
		}
		if (!m) {
			*ret = (struct transport_event){.type = TRANSPORT_NOTHING};
			return TRANSPORT_NOTHING;
		}
		struct transport_peer who;
		if (nng_msg_header_len(m) != 2 * sizeof(uint32_t) ||
		    !server_sender(s, side_header_word(m, 0), &who)) {
			nng_msg_free(m);
			continue;
		}
		struct token *token = xcalloc(1, sizeof *token);
		*token = (struct token){
		    .server = s, .pipe = side_header_word(m, 0), .request = side_header_word(m, 4)};
		s->side.current = m;
		*ret = (struct transport_event){.type = TRANSPORT_REQUEST,
						.peer = who,
						.bytes = {nng_msg_body(m), nng_msg_len(m)},
						.token = token};
		return TRANSPORT_REQUEST;
	}
}

static void server_answer(struct token *t, struct span bytes)
{
	struct transport_server *s = t->server;
	pthread_mutex_lock(&s->side.lock);
	struct peer *p = *peer_slot(s, t->pipe);
	if (p)
		p->unanswered--;
	pthread_mutex_unlock(&s->side.lock);
	nng_msg *m = p ? side_message(bytes) : NULL;
	if (!m || nng_msg_header_append_u32(m, t->pipe) || nng_msg_header_append_u32(m, t->request) ||
	    side_send(&s->side, m)) {
		/* An answer that cannot be kept must not leave its asker waiting for ever. */
		if (m)
			nng_msg_free(m);
		transport_close_peer(s, t->pipe);
	}
	free(t);
}

int transport_answer(struct transport_server *s _unused_, void *token, struct span bytes)
{
	if (bytes.len > WIRE_MAX_BYTES || !bytes.len) {
		transport_drop(token);
		return bytes.len ? -EMSGSIZE : -EINVAL;
	}
	server_answer(token, bytes);
	return 0;
}

void transport_drop(void *token)
{
	if (token)
		server_answer(
		    token,
		    (struct span){"", 0}); /* the other side takes it as "no answer comes" and tells nobody */
}

void transport_close_peer(struct transport_server *s _unused_, uint32_t pipe)
{
	nng_pipe_close((nng_pipe){.id = pipe});
}
