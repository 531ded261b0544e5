/* The host's side of the broker: who we are, what is in flight, what came. Thin over transport.h and wire.h;
 * decides nothing about keys.
 *
 *   DOWN --connected--> CONNECTED --HELLO--> GREETING --HELLO_ACK--> UP
 *    ^                      ^                    |                    |
 *    +------- gone ---------+---- refused, later-+--- link_rehello ---+ */
#pragma once
#include "transport.h"
#include "wire.h"

enum link_state { LINK_DOWN, LINK_CONNECTED, LINK_GREETING, LINK_UP };

struct link {
	struct transport_client *client;
	enum link_state state;
	uint64_t incarnation;		    /* the broker's, of the last HELLO_ACK; 0: none */
	uint32_t hello, poll, done, report; /* requests in flight; 0: none */
	int64_t hello_ns, hello_delay_ns;   /* when to say HELLO again after a refusal */
	uint32_t refused; /* 1 + code of the last refusal of a HELLO, 0 once accepted: each is logged once */
};

/* What HELLO says of us. */
struct link_identity {
	const char *instance, *controller, *digest;
	uint64_t start_time; /* of our own process */
	pid_t jail_pid;	     /* 0: none */
	uint64_t jail_start;
	bool running;
	uint64_t slot, generation;
};

enum link_event_type {
	LINK_NOTHING,
	LINK_LOST,	    /* the broker is gone; what was in flight is lost */
	LINK_ACKNOWLEDGED,  /* HELLO_ACK in message */
	LINK_REFUSED_HELLO, /* REFUSED in message; HELLO is said again later */
	LINK_GRANTED,	    /* GRANT in message; answers_done tells what it answers */
	LINK_SLEEP,	    /* SLEEP in message */
	LINK_DONE,	    /* DONE_ACK of our DONE */
	LINK_REFUSED_DONE,  /* REFUSED: it is sent again after the next HELLO */
	LINK_NO_GRANT,	    /* the POLL was answered by something else (DONE_ACK, REFUSED): poll again */
};
struct link_event {
	enum link_event_type type;
	bool answers_done;
	struct wire message; /* the caller wire_done()s it */
};

int link_open(struct link *l, const char *runtime_dir, struct err *err);
/* Says HELLO when it is due. */
void link_greet(struct link *l, const struct link_identity *who, int64_t now_ns);
/* What we are has changed: nothing in flight counts any more but a DONE; HELLO is due. */
void link_rehello(struct link *l);
/* The next thing that came; LINK_NOTHING when there is none now. */
enum link_event_type link_next(struct link *l, int64_t now_ns, struct link_event *ret);
/* Send when UP and none is in flight; else nothing happens. False: could not be sent. */
bool link_poll(struct link *l, bool asleep);
bool link_done(struct link *l, struct wire_done *d); /* sets its incarnation */
bool link_report(struct link *l, const struct wire_report *r);
/* When link_greet wants to be called; INT64_MAX: no need. */
int64_t link_timer(const struct link *l);
