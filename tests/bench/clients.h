/* Processes that take keys from a queue, all alike, and what they count: for every queue that dispatch is measured of.
 * They are forked before anybody calls nng. */
#pragma once
#include "bench.h"
#include <stdatomic.h>

enum { CLIENTS_MOST = 256 };

struct clients_shared {
	_Atomic uint32_t done;	/* keys that are finished */
	_Atomic int64_t end;	/* when all were */
	_Atomic int64_t got_at; /* when the last key was got */
	_Atomic uint8_t got[];	/* by the key's number */
};

struct clients {
	uint32_t n, keys;
	uint32_t held;	/* of the keys: got by clients that keep them */
	bool tell_each; /* clients_measure is not used: clients_hear waits for each key */
	struct clients_shared *shared;
	pid_t pids[CLIENTS_MOST];
	int go[2], said[2];
	/* of this client */
	uint32_t self, last;
};

/* Forks n processes that call run, which never returns. keys: how many there will be. */
void clients_fork(struct clients *cs, uint32_t n, uint32_t keys, uint32_t held, bool tell_each,
		  void (*run)(struct clients *cs, void *ctx), void *ctx);
void clients_await_ready(struct clients *cs); /* all of them */
double clients_measure(
    struct clients *cs); /* lets them go; the seconds until every key was got, once, and done unless held */
void clients_go(struct clients *cs);
void clients_hear(struct clients *cs);
void clients_end(struct clients *cs);

/* In a client. */
void clients_ready(struct clients *cs); /* connected; returns when the measurement begins */
/* "configmap-00000042" or "namespace-42/configmap-00000042" was got: never before, and after every one that this client
 * had. */
void clients_got(struct clients *cs, struct span key);
void clients_done(struct clients *cs);

/* ---- peers that are programs ---- */

pid_t bench_start(const char *log, char *const *argv); /* dies with this process */
void bench_stop(pid_t pid);
/* CPU time of all its threads, ns. */
double bench_cpu(pid_t pid);
