/* Leader election on a coordination.k8s.io/v1 Lease. Pure: no I/O, no clock; the shell (campaign.c) sends what
 * election_next() asks for and tells what was answered.
 *
 *                 +-- the Lease names another host --+
 *                 v                                  |
 *   start --> FOLLOWING --created or updated--> LEADING --renewDeadline without a renewal--> LAPSED
 *                 ^                              ^                                             |  |
 *                 |                              +------------- renewed after all -------------+  |
 *                 +------------------ the Lease names another host -------------------------------+
 *
 * Record and algorithm are those of client-go's tools/leaderelection, so that this host and a Go replica can share
 * a Lease:
 *   - a leader updates every retryPeriod, optimistically, by the resourceVersion of what it wrote last; a 409 or 404
 *     makes it read the Lease again at once;
 *   - who does not lead reads every retryPeriod * [1, 2.2) and updates when the Lease has no holder, names this host, or
 *     was not seen to change for leaseDurationSeconds of the record. The times in the record are never compared with a
 *     clock of this host: only "it changed since I looked", by this host's own clock;
 *   - 404 creates it, holderIdentity "" with leaseDurationSeconds 1 releases it, a change of holder counts
 *     leaseTransitions up and sets acquireTime.
 * In one thing it is stricter: it leads until the *start* of its last successful request plus renewDeadline, a time that
 * others act upon (lead_until, common/lead.h), where client-go counts from the next try.
 *
 * LAPSED: nobody else is known to lead. Times: CLOCK_BOOTTIME ns. One thread. */
#pragma once
#include "buf.h"

enum election_state { ELECTION_FOLLOWING, ELECTION_LEADING, ELECTION_LAPSED };
enum election_ask { ELECTION_NOTHING, ELECTION_GET, ELECTION_CREATE, ELECTION_UPDATE };

struct election_rules {
	const char *namespace, *name; /* of the Lease */
	const char *identity;	      /* of this host: never that of another one */
	int64_t lease_duration_ns, renew_deadline_ns, retry_period_ns;
};

struct election {
	struct election_rules rules;
	enum election_state state;
	int64_t until_ns;	/* LEADING: until then; LAPSED: until then it did; else 0 */
	enum election_ask next; /* what is asked at due_ns */
	int64_t due_ns;
	enum election_ask asked; /* what is under way */
	int64_t asked_ns;
	bool asked_release;
	struct buf lease;    /* the whole object as it was seen last; empty: there is none */
	struct buf seen;     /* its spec */
	int64_t observed_ns; /* when that changed */
	bool own;	     /* it is what this host wrote last */
	bool releasing, released;
	bool refused; /* the last answer was not what is needed: err says why */
	struct err err;
	/* of the record that was seen last */
	char holder[254];
	int64_t duration_ns, transitions;
	bool took; /* before the last create or update another host, or nobody, was the holder */
};

/* until_ns: until when an earlier process with this identity led, else 0. */
void election_init(struct election *e, const struct election_rules *r, int64_t until_ns, int64_t now_ns);
void election_done(struct election *e);

/* What is to be sent now; the body is put into body (CREATE, UPDATE). NOTHING: not before due_ns, or before the answer.
 * realtime_ns: for the times in the record. */
enum election_ask election_next(struct election *e, int64_t now_ns, int64_t realtime_ns, struct buf *body);

struct election_answer {
	int status; /* HTTP; 0: there was none */
	struct span body;
	const struct err *err;	/* of what is no 2xx */
	int64_t retry_after_ns; /* -1: none */
	double random;		/* [0, 1) */
};
void election_answered(struct election *e, const struct election_answer *a, int64_t now_ns);

/* From now on this host gives the Lease back, if it has it, instead of renewing it; released says that it did, or that
 * there is nothing to give back. Nothing may run any more that needs the lead. */
void election_release(struct election *e, int64_t now_ns);
