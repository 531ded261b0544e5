/* queue.shm: the workqueues of one host. Written by reconciled-queue alone; everybody else of ours maps it
 * read-only.
 *
 *   block 0   region_header | queue_header | redo record | directory (one byte a block: what it holds)
 *   block 1   64 controllers of 1 KiB
 *   block 2.. history ring, fixed at creation; then blocks that are taken as needed: slots, namespaces,
 *             details, records, texts of one size class
 *
 * Slots are the truth; indexes (hash, ready lists, timers, free lists) are private to the writer and rebuilt
 * from the slots. A slot is one key of one controller, with what is pending for it (priority, ready_at, causes,
 * count). What only some keys need is in cells that the slot names:
 *   detail  a lease, and the objects that caused the pending part when they are not the key's own
 *   record  how its attempts ended: backoff, crashes, quarantine, the last outcome
 *
 * References: slots and namespaces have numbers that count from 0 through the blocks of their kind in the order of
 * the directory. Details, records and texts are named by their offset in the file / 16, so 0 is "none". Times
 * are CLOCK_BOOTTIME nanoseconds: the file does not outlive a boot.
 *
 * Reading (queue_read.h does it): copy the slot and its cells between two looks at slot.seq; equal and even
 * means whole. What one store of 8 bytes changes (slot.word of a slot that stays in its state) does not raise seq. */
#pragma once
#include "region.h"
#include "wire.h"

#define SHM_QUEUE_FILE	    "queue.shm"
#define SHM_QUEUE_MAGIC	    UINT64_C(0x3155455545554352)
#define SHM_QUEUE_VERSION   5
#define SHM_BLOCK	    65536u
#define SHM_BLOCKS_MAX	    32768u /* 2 GiB */
#define SHM_CONTROLLERS_MAX 64u
#define SHM_REDO_BYTES	    8192u
#define SHM_REF_UNIT	    16u

/* ---- words ---- */

/* The life of a key. DIRTY and SETTLING_DIRTY are RUNNING and SETTLING with a pending part, TIMED is RUNNING with one for a later time; they
 * are shown so. */
/* clang-format off */
#define SHM_STATES(X)                 \
	X(NONE, "(none)")             \
	X(READY, "READY")             \
	X(WAITING, "WAITING")         \
	X(RUNNING, "RUNNING")         \
	X(DIRTY, "RUNNING")           \
	X(TIMED, "RUNNING")           \
	X(QUARANTINED, "QUARANTINED") \
	X(SETTLING, "SETTLING")       \
	X(SETTLING_DIRTY, "SETTLING")
/* clang-format on */
enum shm_state {
#define X(NAME, text) SHM_STATE_##NAME,
	SHM_STATES(X)
#undef X
	    SHM_STATE_COUNT
};

/* Why a key waits. */
/* clang-format off */
#define SHM_WAITS(X)                     \
	X(NONE, "")                      \
	X(BACKOFF, "backoff")            \
	X(REQUEUE_AFTER, "requeueAfter") \
	X(REQUEUE, "requeue")            \
	X(NOT_READY, "NotReady")         \
	X(THROTTLED, "Throttled")        \
	X(CONFLICT, "Conflict")          \
	X(ADD_AFTER, "addAfter")
/* clang-format on */
/* Of a slot's state: has somebody the key? */
#define SHM_LEASED(state)                                                                                    \
	((state) == SHM_STATE_RUNNING || (state) == SHM_STATE_DIRTY || (state) == SHM_STATE_TIMED)
/* Is it held until the watch shows what its attempt wrote? */
#define SHM_SETTLES(state) ((state) == SHM_STATE_SETTLING || (state) == SHM_STATE_SETTLING_DIRTY)

enum shm_wait {
#define X(NAME, text) SHM_WAIT_##NAME,
	SHM_WAITS(X)
#undef X
	    SHM_WAIT_COUNT
};

/* Why a controller gets no grants. */
/* clang-format off */
#define SHM_PAUSES(X)                                                       \
	X(NONE, "")                                                         \
	X(START, "its program cannot be started")                           \
	X(CRASHES, "ten different keys crashed with no success in between") \
	X(THROTTLED, "it asked to be throttled")
/* clang-format on */
enum shm_pause {
#define X(NAME, text) SHM_PAUSE_##NAME,
	SHM_PAUSES(X)
#undef X
	    SHM_PAUSE_COUNT
};

/* Results as controller-runtime counts them. */
/* clang-format off */
#define SHM_RESULTS(X)                    \
	X(SUCCESS, "success")             \
	X(ERROR, "error")                 \
	X(REQUEUE, "requeue")             \
	X(REQUEUE_AFTER, "requeue_after")
/* clang-format on */
enum shm_result {
#define X(NAME, text) SHM_RESULT_##NAME,
	SHM_RESULTS(X)
#undef X
	    SHM_RESULT_COUNT
};

/* What a block holds; the text classes are the bytes of one cell, its 2-byte length included. */
#define SHM_TEXT_CLASSES(X) X(32) X(64) X(96) X(128) X(192) X(320) X(640) X(1088)
enum shm_block {
	SHM_BLOCK_NONE, /* this block and all after it are not in use */
	SHM_BLOCK_FIXED,
	SHM_BLOCK_HISTORY,
	SHM_BLOCK_SLOTS,
	SHM_BLOCK_NAMESPACES,
	SHM_BLOCK_DETAILS,
	SHM_BLOCK_RECORDS,
#define X(size) SHM_BLOCK_TEXT_##size,
	SHM_TEXT_CLASSES(X)
#undef X
	    SHM_BLOCK_COUNT
};

/* What happened to a key, in the history ring. */
/* clang-format off */
#define SHM_HAPPENED(X)               \
	X(ADDED, "added")             \
	X(MERGED, "merged")           \
	X(GRANTED, "granted")         \
	X(DONE, "done")               \
	X(LOST, "lease ended")        \
	X(DUE, "due")                 \
	X(QUARANTINED, "quarantined") \
	X(CLEARED, "quarantine left") \
	X(DROPPED, "dropped")         \
	X(CANCELLED, "cancelled")     \
	X(SETTLED, "settled")         \
	X(TEXT, "(text)")
/* clang-format on */
enum shm_happened {
#define X(NAME, text) SHM_HAPPENED_##NAME,
	SHM_HAPPENED(X)
#undef X
	    SHM_HAPPENED_COUNT
};

/* ---- slots ---- */

#define SHM_NAME_INLINE 22u
/* flags */
#define SHM_SLOT_CHANGED                                                                                     \
	1u /* an add of the pending part said that the key's own object changed, or came from an operator */
#define SHM_SLOT_ADDED 2u /* the add that made it is not in the counters yet: see `uncounted` */
#define SHM_SLOT_NEWS  4u /* DIRTY: an add of the pending part is none of those in detail.events */

/* What an add changes that merges into a key without moving it: one word, so that it is one store. */
struct shm_pending {
	uint16_t count; /* pending part: adds merged, 65535 is "or more" */
	uint8_t causes; /* pending part: bit per enum wire_cause */
	uint8_t ends;	/* pending part: first cause | last cause << 4 */
	uint8_t flags;	/* SHM_SLOT_* */
	/* Merges that the controller's counters do not have yet; the next transition of the slot adds them, and the
	 * one of SHM_SLOT_ADDED. */
	uint8_t uncounted;
	uint8_t state; /* enum shm_state; NONE: free, and nothing else in the slot means anything */
	uint8_t wait;  /* enum shm_wait, of a WAITING key, or of a SETTLING one that will be */
};

/* As it lies in the slot. Its parts are not stored one by one: a load of the whole would have to wait for all of these. */
_inline_ uint64_t shm_pending_word(struct shm_pending p)
{
	return p.count | (uint64_t)p.causes << 16 | (uint64_t)p.ends << 24 | (uint64_t)p.flags << 32 |
	       (uint64_t)p.uncounted << 40 | (uint64_t)p.state << 48 | (uint64_t)p.wait << 56;
}
_inline_ struct shm_pending shm_pending_of(uint64_t word)
{
	return (struct shm_pending){.count = (uint16_t)word,
				    .causes = (uint8_t)(word >> 16),
				    .ends = (uint8_t)(word >> 24),
				    .flags = (uint8_t)(word >> 32),
				    .uncounted = (uint8_t)(word >> 40),
				    .state = (uint8_t)(word >> 48),
				    .wait = (uint8_t)(word >> 56)};
}

#define SHM_ADDED_UNIT (NS_PER_S / 10)

struct shm_slot {
	_Atomic uint32_t seq;	   /* odd while it, its cells or their texts are being written */
	uint32_t namespace_number; /* of its namespace cell */
	union {
		_Atomic uint64_t word;
		struct shm_pending pending;
		struct { /* the same, by the short names */
			uint16_t count;
			uint8_t causes, ends, flags, uncounted, state, wait;
		};
	};
	/* READY: since; WAITING and QUARANTINED: until; SETTLING: until, if wait says so; DIRTY: when the pending part was added; TIMED: until */
	int64_t ready_at;
	int32_t priority;	 /* pending part; RUNNING: what it was granted with */
	uint32_t added;		 /* pending part: its first add, in SHM_ADDED_UNIT (1/10 s: 13 years) */
	uint32_t detail, record; /* references or 0 */
	uint8_t controller;	 /* index into the table of controllers */
	uint8_t name_len;
	/* the name; or, when longer, the reference (4 bytes) of its text */
	uint8_t name[SHM_NAME_INLINE];
};
_Static_assert(sizeof(struct shm_pending) == 8 && offsetof(struct shm_pending, wait) == 7 &&
		   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "a merge is one store: see shm_pending_word");
_Static_assert(sizeof(struct shm_slot) == 64 && offsetof(struct shm_slot, word) == 8,
	       "a slot is one cache line");
#define SHM_SLOTS_PER_BLOCK ((uint32_t)(SHM_BLOCK / sizeof(struct shm_slot)))

/* One for each namespace of each controller that has keys; the empty one is that of cluster-scoped objects. */
struct shm_namespace {
	uint8_t len;
	char text[NAMESPACE_MAX_LEN];
};
_Static_assert(sizeof(struct shm_namespace) == 64, "a namespace is one cache line");
#define SHM_NAMESPACES_PER_BLOCK (SHM_BLOCK / sizeof(struct shm_namespace))

/* An event of an object, as ADD and DONE name it. In detail.events: a text of these. */
struct shm_event {
	uint32_t table;
	uint16_t stream, own; /* own: of a write, as in DONE */
	uint64_t resource_version;
};
_Static_assert(sizeof(struct shm_event) == 16, "shared layout");
#define SHM_EVENTS_MAX 64u /* of a DONE */

/* An object that caused an add, when it is not the key's own: a text "kind\0namespace\0name". 0: none. */
struct shm_causes {
	uint32_t first_object, last_object;
};

struct shm_detail {
	struct shm_causes objects; /* pending part */
	/* lease: what was pending when it was granted, and who has it */
	uint64_t generation;			 /* of the grant: never twice in one region; 0: no lease */
	int64_t granted_at, deadline, lease_end; /* lease_end of a SETTLING key: it is held no longer */
	uint32_t host_pid, jail_pid;
	uint64_t host_start, jail_start;
	/* ---- second cache line ---- */
	struct shm_causes lease_objects;
	int32_t lease_priority;
	uint32_t lease_added; /* as slot.added */
	uint64_t key_hash;    /* shm_key_hash() */
	uint16_t lease_count;
	uint8_t lease_causes, lease_ends, lease_flags; /* as in the slot */
	uint8_t spare[3];
	/* DIRTY: the events of its adds, any of which may be the attempt's own; SETTLING: what the attempt wrote */
	uint32_t events;
	/* When an add for a later time is to run it: of a SETTLING key, and of a DIRTY one, should its other adds be the attempt's own. 0: none */
	int64_t timer;
};
#define SHM_DETAIL_SIZE 128u
_Static_assert(sizeof(struct shm_detail) <= SHM_DETAIL_SIZE, "a detail is two cache lines");

#define SHM_CRASHES_MAX 16u /* times of crashes that are kept */

struct shm_record {
	uint32_t reason, message; /* texts of the last outcome that was no success */
	uint32_t attempt;	  /* failures in a row */
	uint32_t step;		  /* how often the backoff was raised; 0: none */
	uint32_t conflicts;	  /* in a row */
	uint32_t duration_us;	  /* of the last attempt, 4294967295 is "or more" */
	int64_t backoff_until;	  /* end of the last backoff: a failure before it does not raise the next */
	int64_t last_at;	  /* end of the last attempt */
	int64_t quarantined_at;	  /* 0: is not */
	/* attempts that ended so since the last success, by enum wire_outcome; 65535 is "or more" */
	uint16_t outcomes[16];
	/* Times of the last crashes, timeouts and OOM kills, in 1/100 s: a ring. Where quarantine.crashes is
	 * above its size: the first of a window and how many since; crash_next is SHM_CRASHES_MAX then. */
	uint32_t crashes[SHM_CRASHES_MAX];
	uint8_t crash_next, crash_count;
	uint8_t last_outcome; /* enum wire_outcome; OK when attempted is 0 */
	uint8_t attempted;    /* 1: last_outcome, last_at and duration_us are set */
};
#define SHM_RECORD_SIZE 192u
_Static_assert(sizeof(struct shm_record) <= SHM_RECORD_SIZE, "a record is three cache lines");

/* ---- controllers ---- */

#define SHM_CRASHED_KEYS 10u

struct shm_controller_counters { /* monotonic for the life of the region */
	/* Of keys that became READY by an add, and of adds that merged into a key: those that a slot still has (`uncounted`)
	 * come on top. */
	uint64_t adds, merges;
	uint64_t grants;
	uint64_t retries; /* keys that were given a delay by the rate limiter */
	uint64_t quarantines;
	uint64_t holds, holds_in_vain; /* keys that were held (SETTLING); that were so for the whole time */
	uint64_t results[SHM_RESULT_COUNT];
	uint64_t outcomes[16]; /* by enum wire_outcome */
};

/* What the broker needs of the controller's file, for a start while the file is wrong. */
struct shm_rules {
	int64_t base_delay, max_delay;
	double jitter, qps;
	int64_t within, park_for; /* quarantine */
	int64_t timeout;	  /* reconciliationTimeout; 0: it has no file */
	uint32_t burst, crashes, max_concurrent, least, most, unused;
};

struct shm_controller {
	char name[64];			  /* empty: this row is free */
	char digest[72];		  /* of the controller as the watcher last had it; empty: not known */
	uint32_t swept;			  /* 1: the watcher has enqueued all of its keys into this region */
	uint32_t pause;			  /* enum shm_pause */
	int64_t pause_since, pause_until; /* until: when the next grant may be tried */
	int64_t pause_delay;
	int64_t bucket; /* the token bucket: see limiter.c */
	/* What an operator wants. It survives a restart and a reload; a changed file resets scale alone. */
	int64_t held_since;	/* paused by an operator since; 0: is not */
	uint32_t scale;		/* 1 + how many hosts are to be awake; 0: as its file says */
	struct shm_rules rules; /* of its file, when that was right last */
	struct shm_controller_counters counters;
	/* hashes of the different keys that crashed since the last success */
	uint64_t crashed[SHM_CRASHED_KEYS];
	uint32_t crashed_count;
	char pause_message[252];
};
_Static_assert(sizeof(struct shm_controller) <= 1024, "64 controllers fill one block");
#define SHM_CONTROLLER_SIZE 1024u

/* ---- history ---- */

/* An add that merges into a key without moving it has no entry of its own: the GRANTED entry that follows says how
 * many there were, and why. */
struct shm_history {
	_Atomic uint64_t number; /* from 1; entry (number - 1) % entries; 0 while it is being written */
	uint8_t happened;	 /* enum shm_happened */
	uint8_t controller;
	uint8_t from, to; /* enum shm_state */
	uint8_t outcome;  /* enum wire_outcome, of DONE and LOST */
	uint8_t wait;	  /* enum shm_wait */
	uint8_t texts;	  /* entries of SHM_HAPPENED_TEXT that follow */
	uint8_t ends;	  /* ADDED, MERGED: the cause; GRANTED: as slot.ends */
	int64_t at;
	uint64_t key_hash; /* shm_key_hash() */
	uint64_t generation;
	int64_t delay; /* DONE: until it is ready again, 0: none; GRANTED: how long it was ready */
	uint32_t attempt;
	int32_t priority;
	union {
		uint32_t duration_us; /* DONE, LOST */
		struct {	      /* GRANTED */
			uint16_t count;
			uint8_t causes;
		};
	};
	uint32_t pid; /* GRANTED: the worker's */
};
_Static_assert(sizeof(struct shm_history) == 64, "a history entry is one cache line");

/* DONE, LOST: the beginning of reason and message; ADDED, MERGED: the object that caused it. */
struct shm_history_text {
	_Atomic uint64_t number;
	uint8_t happened; /* SHM_HAPPENED_TEXT */
	uint8_t len;
	char text[54];
};
_Static_assert(sizeof(struct shm_history_text) == sizeof(struct shm_history) &&
		   offsetof(struct shm_history_text, happened) == offsetof(struct shm_history, happened),
	       "both are entries of one ring");
#define SHM_HISTORY_TEXTS_MAX 2u

/* ---- header ---- */

struct shm_queue_header {
	uint64_t next_generation;  /* of the next grant */
	uint64_t generation_check; /* ~next_generation: one that fell back would make old results count */
	uint64_t
	    hash_seed; /* of shm_key_hash() in this region: nobody can choose names that meet in one place */
	uint64_t history_at; /* offset of the ring */
	uint64_t history_entries;
	uint64_t constants_check; /* shm_hash(0, ...) of the three before it, which never change */
	/* number of the next entry; at a start the writer looks for the true one */
	_Atomic uint64_t history_next;
};

/* New images of what one transition touches. Complete when bytes is not 0; copying it again does no harm. Offsets
 * and lengths are multiples of 8. */
struct shm_redo {
	_Atomic uint32_t bytes; /* of the entries that follow, as shm_redo_mark(); 0: nothing to do */
	uint32_t slot;		/* offset of the slot whose seq guards the change / 16; 0: none */
	uint8_t entries[SHM_REDO_BYTES -
			8]; /* {u32 offset, u32 length, bytes}..., and their check if bytes says so */
};

#define SHM_HEADER_AT	   REGION_PAGE
#define SHM_REDO_AT	   (2u * REGION_PAGE)
#define SHM_DIRECTORY_AT   (SHM_REDO_AT + SHM_REDO_BYTES)
#define SHM_CONTROLLERS_AT SHM_BLOCK
#define SHM_HISTORY_AT	   (2u * SHM_BLOCK)
_Static_assert(SHM_DIRECTORY_AT + SHM_BLOCKS_MAX <= SHM_BLOCK, "the directory ends in block 0");

/* ---- both sides ---- */

/* The directory's byte of a block that holds this: the kind and its complement, so that no single wrong bit makes another of
 * it, nor something of 0. */
static inline uint8_t shm_block_entry(uint8_t kind)
{
	return (uint8_t)(kind ? (kind & 15) | (~kind & 15) << 4 : 0);
}
/* Back again; SHM_BLOCK_COUNT: it is damaged. */
static inline uint8_t shm_block_kind(uint8_t entry)
{
	return entry == shm_block_entry(entry & 15) ? entry & 15 : SHM_BLOCK_COUNT;
}
_Static_assert(SHM_BLOCK_COUNT <= 15, "a kind is 4 bits");
/* In redo.bytes: shm_redo_check() follows the entries. The short records of keys that are well have none, and may change less. */
#define SHM_REDO_CHECKED 1u
/* What makes a redo record of so many bytes valid: likewise. */
static inline uint32_t shm_redo_mark(uint32_t bytes)
{
	return bytes | (~bytes & 0xffff) << 16;
}
_Static_assert(SHM_REDO_BYTES < 65536, "its length is 16 bits");
uint64_t shm_constants_check(const struct shm_queue_header *h);
uint64_t shm_redo_check(const struct shm_redo *r,
			uint32_t bytes); /* of so many bytes of entries, and of slot */

uint64_t shm_queue_layout_hash(void);
/* Everything but the sizes, which only the writer chooses. */
struct region_spec shm_queue_spec(void);
/* XXH3 of the bytes, 64 bits. */
uint64_t shm_hash(uint64_t seed, struct span bytes);
/* Of a key of the controller with that name: shm_hash of the namespace, whose seed is that of the controller, and of the name,
 * exclusive or: neither has to wait for the other. */
uint64_t shm_key_hash(uint64_t seed, struct span controller, struct span namespace, struct span name);
/* Bytes of a cell in blocks of this kind; 0 for kinds that hold no texts. */
uint32_t shm_text_size(uint8_t block);
const char *shm_state_name(uint32_t v); /* these accept any number: unknown is "?" */
const char *shm_wait_name(uint32_t v);
const char *shm_pause_name(uint32_t v);
const char *shm_result_name(uint32_t v);
const char *shm_happened_name(uint32_t v);
