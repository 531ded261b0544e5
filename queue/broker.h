/* The broker: one loop around the pure workqueue. It owns the region, answers requests, and knows who is
 * alive. One thread. */
#pragma once
#include "config.h"
#include "crew.h"
#include "lead.h"
#include "lease.h"
#include "peers.h"
#include "program.h"
#include "reports.h"
#include "roster.h"
#include "transport.h"
#include "workqueue.h"

struct broker_crew { /* the hosts of one controller */
	struct crew_rules rules;
	struct peer_list idle, asleep; /* whose POLL is parked; idle: the one that came last is first */
	uint32_t awake, waking;
};

struct broker {
	const struct program *program;
	struct region region;
	struct store store;
	struct workqueue wq;
	uint64_t incarnation;
	int64_t started;

	struct config config;
	struct transport_server *server;
	struct procs procs;
	struct leases leases;
	struct roster roster;
	struct peers peers;
	struct broker_crew crews[SHM_CONTROLLERS_MAX];
	int64_t rest; /* idle for so long: a host goes to sleep where not all are needed */
	unsigned
	    served; /* the row that got a key last: where a cap over all controllers binds they take turns */
	struct reports reports;
	void *progress;	      /* token of the watcher's PROGRESS, or NULL */
	uint32_t progress_of; /* its pipe */
	bool hello_wanted;    /* of the watcher, again: a controller has come that it may have already */

	int epoll, signals;
	char *socket;		  /* where it listens */
	ino_t socket_inode;	  /* of the socket there */
	bool recovered;		  /* the region was there */
	bool stopping, ended;	  /* stopping: no more grants; ended: nothing is waited for any more */
	int64_t drain, drain_end; /* stopping: how long leases may still end, and until when */
	struct lead lead;
	bool fenced; /* lead_until is over: no grants */
	/* until then a lease that is over is not ended: a restarted broker hears out hosts that hold
	 * results */
	int64_t patience;
	/* Until then, and until nobody in the roster owes a word, nothing is granted: the leases went with the region, and who
	 * still runs a key of an earlier broker must hear that it is lost before anybody else gets it. hold: only where the
	 * roster is lost, too. */
	int64_t hold;
	bool roster_failed;  /* its file could not be written */
	int64_t owing_until; /* then who still owes is killed */
	int64_t full_logged; /* when a refused add was logged last */
	uint64_t refused;    /* connections that were not let in, since the line of */
	int64_t refused_logged;
	int64_t in_vain_logged; /* when it was logged last that the watch was waited for in vain */
	uint64_t in_vain;	/* so often by then */
	struct buf out;		/* for encoding answers */
};

/* broker.c: start and loop */
/* follows: there was another broker in this runtime folder since the boot */
int broker_open(struct broker *b, const struct program *program, bool follows,
		struct err *err); /* configuration, region, recovery; -EBADMSG: configuration */
int broker_listen(struct broker *b, struct err *err);
/* Until SIGTERM and the end of the last lease, or of `drain` ns; or until its files are gone. The exit status. */
int broker_run(struct broker *b);

/* handlers.c: one function per message. The token is used up. */
void broker_request(struct broker *b, const struct transport_event *event, int64_t now);
void broker_gone(struct broker *b, uint32_t pipe);
void broker_answer(struct broker *b, void *token, const struct wire *m);

void broker_refuse(struct broker *b, struct peer *p, void *token, enum wire_refusal code, const char *text);
void broker_refuse_digest(struct broker *b, struct peer *p, uint16_t row, void *token);

/* control.c: what an operator wants */
void broker_control(struct broker *b, struct peer *p, const struct wire_control *c, void *token, int64_t now);

/* grants.c: keys out, leases back */
const char *broker_key(const struct broker *b, uint64_t slot,
		       char text[KEY_MAX_LEN + 1]);   /* "ns/name", "name" */
void broker_serve_all(struct broker *b, int64_t now); /* idle hosts get what is ready */
/* May this controller have the next key? Where the cap over all controllers binds the others have their turn first. */
bool broker_turn(const struct broker *b, uint16_t controller, int64_t now);
/* Fills m for this host and records the lease. False: nothing for it now. m's spans are in the region: encode
 * it at once. */
bool broker_grant(struct broker *b, struct peer *p, uint16_t controller, bool done_stale, int64_t now,
		  struct wire *m, struct wire_add_key reasons[2]);
int broker_end_lease(struct broker *b, const struct wire_done *done, const char *how,
		     int64_t now); /* -ESTALE */
void broker_lose_lease(struct broker *b, struct lease *l, const char *why, int64_t now);
void broker_reap(struct broker *b, int64_t now); /* leases whose holders are proven dead */
bool broker_held(const struct broker *b, int64_t now);
/* Who is not heard in time is killed. */
void broker_collect(struct broker *b, int64_t now);
void broker_roster_result(struct broker *b, int rc, const struct err *err); /* could the roster be written? */
void broker_break_leases(struct broker *b, int64_t now);
void broker_lease_over(struct broker *b, uint32_t slot, int64_t now);

/* crews.c: who waits for a key, who sleeps, who is woken */
void crews_init(struct broker *b);
struct crew_rules crews_rules(const struct broker *b, uint16_t row); /* that are in force */
/* A host asks for a key: may it be awake? False: it was told to sleep, the token is used up. */
bool crews_admit(struct broker *b, struct peer *p, uint16_t row, void *token, int64_t now);
/* More are awake than may be: whose attempt ends gets no key. */
bool crews_too_many(const struct broker *b, uint16_t row);
void crews_park(struct broker *b, struct peer *p, uint16_t row, bool asleep, void *token, int64_t now);
void crews_unpark(struct broker *b, struct peer *p); /* drops its POLL */
void *crews_take_poll(struct broker *b,
		      struct peer *p); /* the same, but the token is the caller's to answer; NULL: none */
void crews_set_awake(struct broker *b, struct peer *p, uint16_t row, bool awake);
void crews_gone(struct broker *b, struct peer *p);
/* Refuses the parked POLLs of those hosts. */
void crews_send_away(struct broker *b, uint16_t row,
		     bool (*whom)(const struct broker *b, const struct peer *p),
		     void (*refuse)(struct broker *b, struct peer *p, uint16_t row, void *token));
void crews_tick(struct broker *b, int64_t now);		 /* wakes and sends to sleep */
int64_t crews_next(const struct broker *b, int64_t now); /* when to; INT64_MAX: nothing is timed */

/* progress.c: how far the watch is, and who waits for it */
void broker_passed(struct broker *b, const struct peer *p, const struct wire_progress *progress, void *token,
		   int64_t now);
void broker_forget_progress(struct broker *b, uint32_t pipe); /* of a connection that is gone */
/* Asks the watcher for what is newly waited for, and says when it was waited for in vain. */
void broker_await(struct broker *b, int64_t now);

/* files.c: the controllers' files */
int broker_load(struct broker *b, struct err *err);   /* reads them; broker_configure applies them */
bool broker_configure(struct broker *b, int64_t now); /* true: a controller is new to the region */
void broker_reload(struct broker *b, bool watcher_asks, int64_t now);
/* The watcher's list: digests become the ones that hosts must have. */
void broker_agree(struct broker *b, const struct wire_hello *hello, int64_t now);

/* status.c */
void broker_status(const struct broker *b, int64_t now, struct buf *out);
