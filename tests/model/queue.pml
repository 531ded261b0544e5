/* Broker, watcher and hosts: who may die when, and what must hold all the same.
 *
 *   1. Never two runners of a key: two jails never run one key at a time (start_run).
 *   2. No lost key, no lost wakeup: a change that is in the cache leads to a run that starts after it and ends well.
 *      Every failure and crash is from a budget and there is no cycle (-DNP finds none), so every execution ends; where
 *      it ends nothing may be owed (quiet).
 *   3. No run of a key begins in a world older than what an earlier one wrote and reported (start_run). The hold's bound
 *      of 5 s is left out: beyond it this is not promised. Nor is it where the last run parked the key.
 *
 * The life of a key is queue/state.def itself: state.pml is made of it, with an inline move_EVENT for each event. A
 * transition is one step: that is what the redo record is for. What outlives a process is declared under "region"; all
 * else goes with it, and the process starts again at once.
 *
 * A stopped process (SIGSTOP) takes no step for as long as it likes: interleaving has that for every party. Time is
 * abstract for the same reason: what is timed may come at any moment.
 *
 * Messages: a request that is sent and one that arrives are one step, because its sender only waits in between; one that
 * is lost was not sent. An answer is on its way for any time; when its connection ends it is lost, or still read
 * before the next connection; or, less than what common/transport promises, a GRANT of a dead broker is read at any time
 * later, also after the HELLO_ACK of the next one.
 *
 * A host is a process of the operating system, so it lives once; its jail dies after it. With -DNO_... a rule is
 * taken out, and a violation must be found. */

#define NOBODY 255

#include "states.pml" /* mtype: the states of a key, and BUG */

mtype = { FINISH, DELAY, HOLD, PARK, RETURN };				    /* how an attempt ended */
mtype = { DOWN, CONNECTED, GREETING, UP };				    /* of a link: workers/link.h */
mtype = { IDLE, ATTEMPT, REPORTING };					    /* of a host: workers/host.h */
mtype = { NOTHING, HELLO_ACK, DONE_ACK, GRANT, REFUSED, ADD_ACK }; /* answers: common/wire.def */

typedef slot_type {
	mtype state = NONE;
	bool held;		/* WAITING as Throttled */
	bool asked;		/* WAITING only because it was asked for */
	bool later;		/* DIRTY, SETTLING: was asked for, for a later time */
	mtype next = NOTHING;	/* SETTLING: what the outcome says */
	byte awaits;		/* SETTLING: the version that is waited for */
	byte event;		/* DIRTY: the version that all its adds name */
	bool news;		/* DIRTY: there is no such one */
	byte holder = NOBODY;	/* the lease: a host */
	byte generation
}
typedef message {
	mtype type = NOTHING;
	byte incarnation, key, generation;
	bool flag /* HELLO_ACK: the lease that HELLO named stands; GRANT: it answers a DONE */
}
typedef host_type {
	bool born, process, jail; /* alive: the two */
	bool running, covers;	  /* the jail runs key; its run started after the last change */
	byte wrote;		  /* by the attempt: a version, 0: nothing */
	mtype link = DOWN, work = IDLE, outcome = NOTHING;
	byte incarnation; /* of the last HELLO_ACK */
	byte key, generation;
	bool connected;		/* to the broker that lives now */
	bool asked;		/* a POLL or DONE has no answer yet */
	message answer, late	/* late: a GRANT of a dead broker */
}

/* ---- region of the queue: outlives the broker ---- */
slot_type slot[KEYS];
byte next_generation = 1;
byte incarnation = 1;

/* ---- region of the cache: outlives the watcher ---- */
byte cached[KEYS]; /* the version of the object */
bool outbox[KEYS], outbox_primary[KEYS], in_flight[KEYS];
byte outbox_event[KEYS]; /* the version of the event that the key is there for; 0: not known, or others too */

/* ---- the API server, the configuration ---- */
byte version[KEYS], own[KEYS]; /* own: the last one that a run wrote */
bool configured = true;

/* ---- in memory ---- */
bool known[HOSTS], parked[HOSTS]; /* the broker's: HELLO was said; a POLL waits for a key */
bool parked_before[HOSTS];	  /* a POLL of an ended connection of which the broker has not seen the end */
host_type host[HOSTS];
bool watcher_connected;
bool putting[KEYS];    /* in the outbox, not yet in the cache */
byte added = NOBODY;   /* the key whose ADD was stored and is not acknowledged yet */
bool add_acked;	       /* the ADD_ACK is on its way */

/* ---- budgets ---- */
byte changes = CHANGES, failures = FAILURES, broker_crashes = BROKER_CRASHES, watcher_crashes = WATCHER_CRASHES,
     host_deaths = HOST_DEATHS, cuts = CUTS, drops = DROPS, timers = TIMERS, writes = WRITES;

bool owed[KEYS]; /* a change is in the cache that no run which started after it has dealt with */

bool wanted[KEYS]; /* an operator has asked for a later run, and no run began since */

byte reported[KEYS]; /* what runs wrote and said so */

hidden byte i, j, written;
hidden mtype outcome;
hidden byte stands;

#include "state.pml"

/* What takes a message is a macro: an inline cannot. */
#define clear_message(m)   \
	m.type = NOTHING;  \
	m.incarnation = 0; \
	m.key = 0;	   \
	m.generation = 0;  \
	m.flag = false

/* ---- the broker ---- */

inline forget_hold(k)
{
	slot[k].next = NOTHING;
	slot[k].awaits = 0;
	slot[k].later = false
}

/* The controller is no longer configured: every key without a lease goes. */
inline drop_key(k)
{
	if
	:: !configured && slot[k].state != NONE ->
		move_DROP(k);
		slot[k].held = false;
		wanted[k] = false;
		forget_hold(k)
	:: else
	fi
}

inline end_hold(k)
{
	if
	:: slot[k].next == FINISH && slot[k].later && slot[k].state == SETTLING ->
		move_DELAY(k);
		slot[k].asked = true
	:: slot[k].next == FINISH && !(slot[k].later && slot[k].state == SETTLING) -> move_FINISH(k)
	:: slot[k].next == DELAY -> move_DELAY(k)
	:: slot[k].next == HOLD ->
		move_HOLD(k);
		slot[k].held = true
	fi;
	assert(!wanted[k] || slot[k].state != NONE);
	forget_hold(k)
}

#ifdef NO_EVENT
#define IS_OWN(k) (written)
#else
#define IS_OWN(k) (written && !slot[k].news && slot[k].event == written)
#endif
#ifdef NO_HOLD
#define SETTLES(how) false
#else
#define SETTLES(how) (written && how != PARK)
#endif

inline end_attempt(k, how, wrote_version)
{
	slot[k].holder = NOBODY;
	slot[k].generation = 0;
	written = wrote_version;
	if
	:: slot[k].state == DIRTY && IS_OWN(k) && !slot[k].later -> move_OWN(k)
	:: slot[k].state == DIRTY && IS_OWN(k) && slot[k].later ->
		move_OWN(k);
		move_AFTER(k)
	:: else
	fi;
	slot[k].news = false;
	slot[k].event = 0;
	slot[k].later = (slot[k].state == TIMED && SETTLES(how));
	slot[k].asked = (slot[k].state == TIMED && !SETTLES(how) && how == FINISH);
	if
	:: SETTLES(how) && how == RETURN ->
		move_MERGE(k); /* what it was granted for comes back */
		move_SETTLE(k);
		slot[k].next = FINISH;
		slot[k].awaits = written
	:: SETTLES(how) && how != RETURN ->
		move_SETTLE(k);
		slot[k].next = how;
		slot[k].awaits = written
	:: else -> end_as(k, how)
	fi;
	assert(!wanted[k] || slot[k].state != NONE);
	written = 0;
	drop_key(k)
}

inline end_as(k, how)
{
	if
	:: how == FINISH -> move_FINISH(k)
	:: how == DELAY -> move_DELAY(k)
	:: how == HOLD ->
		move_HOLD(k);
		slot[k].held = true
	:: how == PARK -> move_PARK(k)
	:: how == RETURN -> move_RETURN(k)
	fi
}

inline lease(k, h)
{
	move_GRANT(k);
	wanted[k] = false;
	slot[k].holder = h;
	slot[k].generation = next_generation;
	next_generation++
}

inline answer_grant(k, h, of_done)
{
	host[h].answer.type = GRANT;
	host[h].answer.incarnation = incarnation;
	host[h].answer.key = k;
	host[h].answer.generation = slot[k].generation;
	host[h].answer.flag = of_done
}

/* Is what the host works on a lease of its own? */
#ifdef NO_GENERATION
#define IS_LEASE(h) (slot[host[h].key].holder == h)
#else
#define IS_LEASE(h) (slot[host[h].key].holder == h && slot[host[h].key].generation == host[h].generation)
#endif

inline say_hello(h)
{
	host[h].link = GREETING;
	host[h].asked = false;
	stands = host[h].work != IDLE && IS_LEASE(h);
	/* A live host that does not name a lease has lost it, or its result. */
	for (i : 0 .. KEYS - 1) {
		if
		:: slot[i].holder == h && !(stands && i == host[h].key) -> end_attempt(i, RETURN, 0)
		:: else
		fi
	};
	i = 0;
	known[h] = true;
	parked[h] = false;
#ifndef NO_LAST_CONNECTION
	parked_before[h] = false;
#endif
	host[h].answer.type = HELLO_ACK;
	host[h].answer.incarnation = incarnation;
	host[h].answer.flag = stands
}

inline poll(h)
{
	host[h].asked = true;
	stands = known[h] && host[h].incarnation == incarnation;
	for (i : 0 .. KEYS - 1) {
		stands = stands && slot[i].holder != h /* it has one: HELLO tells whether it lost it */
	};
	i = 0;
	if
	:: stands -> parked[h] = true
	:: else -> host[h].answer.type = REFUSED
	fi
}

/* Its answer is the next grant, if there is one. What is no lease (any more) changes nothing. */
inline report_done(h)
{
	host[h].asked = true;
	j = host[h].key;
	if
	:: IS_LEASE(h) ->
		if
		:: host[h].wrote && host[h].outcome != PARK -> reported[j] = host[h].wrote
		:: else
		fi;
		end_attempt(j, host[h].outcome, host[h].wrote)
	:: else
	fi;
	j = 0;
	host[h].answer.type = DONE_ACK;
	for (i : 0 .. KEYS - 1) {
		if
		:: host[h].answer.type == DONE_ACK && slot[i].state == READY && configured && host[h].jail ->
			lease(i, h);
			answer_grant(i, h, true)
		:: else
		fi
	};
	i = 0
}

#define IS_SETTLING(k) (slot[k].state == SETTLING || slot[k].state == SETTLING_DIRTY)

inline add(k, primary, event_version)
{
	if
	:: configured && (slot[k].state == RUNNING || slot[k].state == TIMED || (slot[k].state == DIRTY && !slot[k].news)) ->
		slot[k].news = event_version == 0 || (slot[k].state == DIRTY && slot[k].event != event_version);
		slot[k].event = (slot[k].news -> 0 : event_version)
	:: else
	fi;
	if
	:: !configured
	:: configured && IS_SETTLING(k) && event_version && slot[k].awaits == event_version /* nothing that its run does not know */
	:: configured && !(IS_SETTLING(k) && event_version && slot[k].awaits == event_version) -> add_as(k, primary)
	fi
}

inline add_as(k, primary)
{
	slot[k].later = slot[k].later || slot[k].state == TIMED;
	if
	:: slot[k].state == WAITING && slot[k].held -> move_MERGE(k)
	:: !(slot[k].state == WAITING && slot[k].held) ->
		slot[k].asked = false;
		if
		:: primary -> move_CHANGE(k)
		:: else -> move_ADD(k)
		fi
	fi
}

/* All that is in its memory is lost, every connection ends. Leases, delays and the incarnation are in the region. */
inline broker_dies()
{
	broker_crashes--;
	incarnation++;
	for (i : 0 .. HOSTS - 1) {
		known[i] = false;
		parked[i] = false;
		parked_before[i] = false;
		host[i].connected = false
	};
	i = 0;
	watcher_connected = false
}

active proctype broker()
{
end:
	do
	:: d_step { broker_crashes > 0 -> broker_dies() }
	/* The controller's file goes. */
	:: d_step {
		drops > 0 -> drops--; configured = false;
		for (i : 0 .. KEYS - 1) { drop_key(i) };
		i = 0
	   }
	od
}

/* What it does for one host and one key. */
proctype leasing(byte h, k)
{
end:
	do
	:: d_step {
		parked[h] && slot[k].state == READY && configured && host[h].process && host[h].jail ->
			lease(k, h);
			answer_grant(k, h, false);
			parked[h] = false
	   }
	:: d_step { /* the answer goes nowhere */
		parked_before[h] && slot[k].state == READY && configured && host[h].process && host[h].jail ->
			lease(k, h);
			parked_before[h] = false
	   }
	/* Proven death: host, and everything in its jail. */
	:: d_step { slot[k].holder == h && !host[h].process && !host[h].jail -> end_attempt(k, RETURN, 0) }
#ifdef NO_PROOF
	:: d_step { slot[k].holder == h && !host[h].process -> end_attempt(k, RETURN, 0) }
#endif
#ifdef NO_DEATH
	:: d_step { slot[k].holder == h && host_deaths > 0 -> host_deaths--; end_attempt(k, RETURN, 0) }
#endif
#ifdef NO_REDO
	/* Killed between the two stores of a grant: the state is there, the lease is not. */
	:: d_step {
		broker_crashes > 0 && parked[h] && slot[k].state == READY && configured ->
			move_GRANT(k);
			broker_dies()
	   }
#endif
	od
}

/* What time does to a key, and a changed controller file. */
proctype timing(byte k)
{
end:
	do
	:: d_step {
		(slot[k].state == WAITING || slot[k].state == QUARANTINED) ->
			move_DUE(k);
			slot[k].held = false;
			slot[k].asked = false
	   }
	/* An operator's requeue --after, and --cancel: it takes away what only such a request waits for. */
	:: d_step {
		configured && timers > 0 ->
			timers--;
			slot[k].asked = slot[k].asked || slot[k].state == NONE;
			slot[k].later = slot[k].later || slot[k].state == DIRTY || slot[k].state == SETTLING;
			wanted[k] = true;
			move_AFTER(k)
	   }
	:: d_step {
		(slot[k].state == TIMED || ((slot[k].state == DIRTY || slot[k].state == SETTLING) && slot[k].later) ||
		 (slot[k].state == WAITING && slot[k].asked)) ->
			move_CANCEL(k);
			wanted[k] = false;
			slot[k].later = false;
			slot[k].asked = false
	   }
	:: d_step { slot[k].state == QUARANTINED -> move_CLEAR(k) }
	/* PROGRESS: the object is in the cache, the ADDs of its events were sent before. */
	:: d_step { IS_SETTLING(k) && watcher_connected && cached[k] >= slot[k].awaits && !outbox[k] && !putting[k] -> end_hold(k) }
	od
}

/* ---- a host and its jail ---- */

inline start_run(h)
{
	host[h].work = ATTEMPT;
	host[h].running = true;
	host[h].covers = true;
	for (i : 0 .. HOSTS - 1) {
		assert(i == h || !host[i].running || host[i].key != host[h].key) /* never two runners of a key */
	};
	i = 0;
	assert(cached[host[h].key] >= reported[host[h].key]) /* no world older than its own last write */
}

inline forget_attempt(h)
{
	host[h].wrote = 0;
	host[h].work = IDLE;
	host[h].outcome = NOTHING;
	host[h].running = false;
	host[h].covers = false;
	host[h].key = 0;
	host[h].generation = 0
}

#ifdef NO_INCARNATION
#define IS_OURS(h, m) (host[h].link == UP && host[h].work == IDLE)
#else
#define IS_OURS(h, m) (host[h].link == UP && host[h].work == IDLE && m.incarnation == host[h].incarnation)
#endif

#define take_grant(h, m)                           \
	if                                         \
	:: IS_OURS(h, m) ->                        \
		host[h].key = m.key;               \
		host[h].generation = m.generation; \
		start_run(h)                       \
	:: else                                    \
	fi;                                        \
	clear_message(m)

inline take_answer(h)
{
	host[h].asked = false;
	if
	:: host[h].answer.type == HELLO_ACK ->
		host[h].link = UP;
		host[h].incarnation = host[h].answer.incarnation;
		if
		:: host[h].work != IDLE && !host[h].answer.flag -> forget_attempt(h) /* killed, its result dropped */
		:: else
		fi;
		clear_message(host[h].answer)
	:: host[h].answer.type == DONE_ACK ->
		forget_attempt(h);
		clear_message(host[h].answer)
	:: host[h].answer.type == REFUSED ->
		host[h].link = CONNECTED;
		clear_message(host[h].answer)
	:: host[h].answer.type == GRANT ->
		if
		:: host[h].answer.flag -> forget_attempt(h)
		:: else
		fi;
		take_grant(h, host[h].answer)
	fi
}

inline end_run(h, how)
{
	host[h].running = false;
	host[h].work = REPORTING;
	host[h].outcome = how;
	if
	:: how == FINISH && host[h].covers -> owed[host[h].key] = false
	:: else
	fi;
	host[h].covers = false
}

proctype worker(byte h)
{
end:
	do
	/* systemd starts another */
	:: d_step {
		!host[h].born && HOST_DEATHS - host_deaths > h - FIRST_HOSTS ->
			host[h].born = true;
			host[h].process = true;
			host[h].jail = true
	   }
	/* By itself, or killed by the broker because its lease is over (it may be stopped). */
	:: d_step {
		host[h].process && host_deaths > 0 ->
			host_deaths--;
			host[h].process = false;
			host[h].connected = false;
			host[h].link = DOWN;
			host[h].asked = false;
			parked[h] = false;
			parked_before[h] = false;
			known[h] = false;
			clear_message(host[h].answer);
			clear_message(host[h].late)
	   }
	:: d_step { host[h].jail && !host[h].process -> host[h].jail = false; forget_attempt(h) }
	/* requests */
	:: d_step {
		host[h].process && !host[h].connected && host[h].answer.type == NOTHING ->
			host[h].connected = true;
			say_hello(h)
	   }
	:: d_step { host[h].connected && host[h].link == CONNECTED -> say_hello(h) }
	:: d_step { host[h].connected && host[h].link == UP && host[h].work == IDLE && !host[h].asked -> poll(h) }
	:: d_step { host[h].connected && host[h].link == UP && host[h].work == REPORTING && !host[h].asked -> report_done(h) }
	:: d_step {
		host[h].connected && cuts > 0 ->
			cuts--;
			host[h].connected = false;
			known[h] = false;
			parked_before[h] = parked_before[h] || parked[h];
			parked[h] = false
	   }
	/* answers */
	:: d_step { host[h].process && host[h].answer.type != NOTHING -> take_answer(h) }
	:: d_step { !host[h].connected && host[h].answer.type != NOTHING -> clear_message(host[h].answer) }
	:: d_step {
		!host[h].connected && host[h].answer.type == GRANT && host[h].late.type == NOTHING &&
		host[h].answer.incarnation != incarnation ->
			host[h].late.type = GRANT;
			host[h].late.incarnation = host[h].answer.incarnation;
			host[h].late.key = host[h].answer.key;
			host[h].late.generation = host[h].answer.generation;
			clear_message(host[h].answer)
	   }
	:: d_step { host[h].late.type == GRANT -> take_grant(h, host[h].late) }
	/* the reconciler */
	:: d_step {
		host[h].process && host[h].running && !host[h].wrote && writes > 0 ->
			writes--;
			version[host[h].key]++;
			own[host[h].key] = version[host[h].key];
			host[h].wrote = version[host[h].key]
	   }
	:: d_step { host[h].process && host[h].running -> end_run(h, FINISH) }
	:: d_step { host[h].process && host[h].running && failures > 0 -> failures--; end_run(h, DELAY) }
	:: d_step { host[h].process && host[h].running && failures > 0 -> failures--; end_run(h, HOLD) }
	:: d_step { host[h].process && host[h].running && failures > 0 -> failures--; end_run(h, PARK) }
	:: d_step { host[h].process && host[h].running && failures > 0 -> failures--; end_run(h, RETURN) }
	od
}

/* ---- the watcher ---- */

/* A start, or a new connection: what was on its way is sent again. */
inline send_again()
{
	if
	:: added != NOBODY ->
#ifndef NO_OUTBOX
		outbox[added] = true;
#endif
		in_flight[added] = false
	:: else
	fi;
	added = NOBODY;
	add_acked = false
}

active proctype watcher()
{
end:
	do
	:: d_step { !watcher_connected && !add_acked -> watcher_connected = true; send_again() }
	:: d_step { !watcher_connected && add_acked -> add_acked = false } /* the answer is lost */
	:: d_step { add_acked -> in_flight[added] = false; added = NOBODY; add_acked = false }
	:: d_step {
		watcher_crashes > 0 ->
			watcher_crashes--;
			watcher_connected = false;
			for (i : 0 .. KEYS - 1) {
				putting[i] = false;
#ifdef NO_OUTBOX
				outbox[i] = false;
				outbox_primary[i] = false
#endif
			};
			i = 0;
			send_again()
	   }
	od
}

/* The watcher and one object. */
proctype watching(byte k)
{
end:
	do
	:: d_step { changes > 0 -> changes--; version[k]++ }
	/* First the outbox, then the cache, then ADD. */
	:: d_step { cached[k] != version[k] && !putting[k] -> putting[k] = true; outbox[k] = true; outbox_event[k] = 0 }
	:: d_step { cached[k] != version[k] && !putting[k] -> putting[k] = true; outbox[k] = true; outbox_event[k] = 0; outbox_primary[k] = true }
	/* An event of the one version that a run wrote. What a list shows may be more than that: then it is as above. */
	:: d_step {
		cached[k] + 1 == version[k] && own[k] == version[k] && !putting[k] ->
			outbox_event[k] = (outbox[k] && outbox_event[k] != version[k] -> 0 : version[k]);
			outbox[k] = true;
			cached[k] = version[k]
	   }
	:: d_step {
		putting[k] ->
			putting[k] = false;
			cached[k] = version[k];
			owed[k] = true;
			for (i : 0 .. HOSTS - 1) {
				if
				:: host[i].running && host[i].key == k -> host[i].covers = false
				:: else
				fi
			};
			i = 0
	   }
	:: d_step {
		watcher_connected && added == NOBODY && outbox[k] && !putting[k] ->
			in_flight[k] = true;
			outbox[k] = false;
			added = k;
			add_acked = true;
			add(k, outbox_primary[k], outbox_event[k]);
			outbox_primary[k] = false;
			outbox_event[k] = 0
	   }
	od
}

/* ---- where everything ends ---- */

active proctype quiet()
{
	timeout;
	d_step {
		for (i : 0 .. KEYS - 1) {
			assert(cached[i] == version[i] && !outbox[i] && !in_flight[i]);
			assert(!configured || !owed[i]); /* no lost wakeup */
			assert(slot[i].state == NONE)	 /* no lost key: all that was in has run to its end */
		};
		i = 0
	}
}

init
{
	atomic {
		for (i : 0 .. HOSTS - 1) {
			host[i].born = i < FIRST_HOSTS;
			host[i].process = i < FIRST_HOSTS;
			host[i].jail = i < FIRST_HOSTS;
			run worker(i);
			for (j : 0 .. KEYS - 1) { run leasing(i, j) }
		};
		for (i : 0 .. KEYS - 1) {
			run timing(i);
			run watching(i)
		};
		i = 0;
		j = 0
	}
}
