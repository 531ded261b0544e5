#include "transport_private.h"
#include "wire.h"
#include <stdio.h>
#include <unistd.h>

enum { RECONNECT_MIN_MS = 10, RECONNECT_MAX_MS = 1000 };

struct transport_client {
	struct side side;
	uint32_t last_id, in_flight;
	bool connected; /* the user knows */
	/* below lock */
	uint32_t pipe; /* 0: none */
	bool ready;    /* the pipe works, CONNECTED is to be reported */
	bool lost;     /* GONE is to be reported; until then no other pipe is let in */
};

static void client_pipe_event(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
	struct transport_client *c = arg;
	bool welcome = true;
	if (event == NNG_PIPE_EV_ADD_PRE) {
		struct transport_peer who = side_peer(pipe);
		welcome = who.uid != (uid_t)-1 && (who.uid == geteuid() || who.uid == 0 || geteuid() == 0);
	}
	uint32_t id = (uint32_t)pipe.id;
	pthread_mutex_lock(&c->side.lock);
	if (event == NNG_PIPE_EV_ADD_PRE) {
		welcome = welcome && !c->pipe && !c->lost;
		if (welcome)
			c->pipe = id;
	} else if (event == NNG_PIPE_EV_ADD_POST && c->pipe == id) {
		c->ready = true;
		side_raise(&c->side);
	} else if (event == NNG_PIPE_EV_REM_POST && c->pipe == id) {
		c->lost = c->connected; /* what was never reported is not reported lost */
		c->pipe = 0;
		c->ready = false;
		side_raise(&c->side);
	}
	pthread_mutex_unlock(&c->side.lock);
	if (!welcome)
		nng_pipe_close(pipe);
}

int transport_dial(const char *path, struct transport_client **ret, struct err *err)
{
	struct transport_client *c = xcalloc(1, sizeof *c);
	c->last_id = (uint32_t)random_below(REQUEST_ID);
	int r = side_open(&c->side, path, nng_req0_open_raw, 0, TRANSPORT_IN_FLIGHT_MAX, err);
	if (r) {
		side_close(&c->side, free, c);
		return r;
	}
	char url[sizeof c->side.path + 8];
	snprintf(url, sizeof url, "ipc://%s", path);
	nng_socket socket = c->side.socket;
	if ((r = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, client_pipe_event, c)) ||
	    (r = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, client_pipe_event, c)) ||
	    (r = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, client_pipe_event, c)) ||
	    (r = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS)) ||
	    (r = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS)) ||
	    (r = nng_dial(socket, url, NULL, NNG_FLAG_NONBLOCK))) {
		err_set(err, side_errno(r), "cannot dial %s: %s", path, nng_strerror(r));
		side_close(&c->side, free, c);
		return side_errno(r);
	}
	*ret = c;
	return 0;
}

void transport_client_free(struct transport_client *c)
{
	if (c)
		side_close(&c->side, free, c);
}

const char *transport_client_path(const struct transport_client *c)
{
	return c->side.path;
}

int transport_client_fd(const struct transport_client *c)
{
	return c->side.epoll;
}

static enum transport_event_type client_next_report(struct transport_client *c)
{
	enum transport_event_type type = TRANSPORT_NOTHING;
	pthread_mutex_lock(&c->side.lock);
	side_clear(&c->side);
	if (c->lost) {
		type = TRANSPORT_GONE;
		side_drop_queue(&c->side); /* before another pipe is let in */
		c->in_flight = 0;
		c->connected = c->lost = false;
	} else if (c->ready) {
		type = TRANSPORT_CONNECTED;
		c->ready = false;
		c->connected = true;
	}
	pthread_mutex_unlock(&c->side.lock);
	return type;
}

enum transport_event_type transport_client_next(struct transport_client *c, struct transport_reply *ret)
{
	side_release_current(&c->side);
	side_flush(&c->side);
	/* Answers first: those that came before a loss still count. */
	for (nng_msg *m; (m = side_receive(&c->side));) {
		bool known = c->connected && nng_msg_header_len(m) == HEADER_BYTES && c->in_flight > 0;
		c->in_flight -= known;
		if (!known || !nng_msg_len(m)) {
			nng_msg_free(m);
			continue;
		}
		c->side.current = m;
		*ret = (struct transport_reply){.type = TRANSPORT_REQUEST,
						.request = side_header_word(m, 0) & ~(uint32_t)REQUEST_ID,
						.bytes = {nng_msg_body(m), nng_msg_len(m)}};
		return TRANSPORT_REQUEST;
	}
	*ret = (struct transport_reply){.type = client_next_report(c)};
	return ret->type;
}

int transport_send(struct transport_client *c, struct span bytes, uint32_t *ret_request)
{
	if (bytes.len > WIRE_MAX_BYTES)
		return -EMSGSIZE;
	if (!bytes.len)
		return -EINVAL;
	if (!c->connected)
		return -ENOTCONN;
	if (c->in_flight >= TRANSPORT_IN_FLIGHT_MAX)
		return -EAGAIN;
	nng_msg *m = side_message(bytes);
	if (!m)
		return -ENOMEM;
	uint32_t id = c->last_id + 1 >= REQUEST_ID ? 1 : c->last_id + 1;
	int r = nng_msg_header_append_u32(m, id | REQUEST_ID) ? -ENOMEM : side_send(&c->side, m);
	if (r) {
		nng_msg_free(m);
		return r;
	}
	c->last_id = id;
	c->in_flight++;
	*ret_request = id;
	return 0;
}
