/* A queue broker inside a process test: takes what a watcher sends, remembers it, and misbehaves on
 * demand. */
#pragma once
#include "check.h"
#include "wire.h"

struct broker_key {
	char controller[64], namespace[64], name[254], cause_kind[254];
	int64_t priority;
	bool primary_changed;
	uint32_t cause; /* enum wire_cause */
	struct wire_place event;
};
struct broker_told { /* the last REPORT of each {controller, topic} */
	char controller[64], topic[301], message[1025];
	uint32_t state;
};

struct fake_broker {
	struct transport_server *server;
	struct broker_key *keys; /* in the order in which they came, until fake_broker_forget */
	size_t n_keys, cap_keys;
	struct broker_told told[64];
	size_t n_told;
	unsigned hellos, sweeps, adds;
	char loaded[64][64]; /* controllers of the last HELLO */
	size_t n_loaded;
	/* orders */
	bool want_all; /* of everything, at the next HELLO */
	bool hold;     /* ADD is not answered, its keys are not remembered */
	int64_t room;  /* so many keys are taken, then the region is full; -1: no limit */
	uint64_t incarnation;
	/* of PROGRESS: what was passed last of each place */
	struct wire_place passed[16];
	size_t n_passed;
	unsigned progresses;
	size_t keys_before; /* that had come when the last PROGRESS did */
	void *progress;	    /* the one that waits for an answer */
	uint32_t pipe;	    /* of the watcher; 0: not connected */
};

/* Listens on FOLDER/queue.sock. Ends the test on failure. */
void fake_broker_start(struct fake_broker *b, const char *folder);
/* Answers what waits. */
void fake_broker_pump(struct fake_broker *b);
/* Closes the connection and is another incarnation afterwards. */
void fake_broker_restart(struct fake_broker *b);
/* Answers the PROGRESS that waits; false: there is none. */
bool fake_broker_await(struct fake_broker *b, const struct wire_place *places, size_t count);
/* How far the stream has come, by the last PROGRESS that told it; 0: none did. */
uint64_t fake_broker_passed(const struct fake_broker *b, uint32_t table, uint32_t stream);
void fake_broker_forget(struct fake_broker *b); /* the keys */
/* How often the key came; the last one in *ret (may be NULL). */
size_t fake_broker_count(const struct fake_broker *b, const char *controller, const char *namespace,
			 const char *name, struct broker_key *ret);
/* The state last reported, or WIRE_STATE_OK; message in *ret (may be NULL). */
uint32_t fake_broker_state(const struct fake_broker *b, const char *controller, const char *topic,
			   const char **ret);
