/* The object cache in shared memory: written by reconciled-watcher alone, mapped read-only by hosts and
 * reconcilectl.
 *
 *   REGION_DIR/cache.shm     header, table directory, slots, outbox; up to CACHE_MAX_SIZE, grown as needed
 *   REGION_DIR/cache-N.seg   records: objects and what they are looked up by; up to CACHE_SEGMENT_SIZE each
 *   REGION_DIR/cache-N.dic   a dictionary that records are packed with; never changed
 *   REGION_DIR/cache-N.idx   an index; never grown
 *
 * N is counted by the header and never comes twice, whichever file it is of.
 *
 *   name index --+
 *                +--> slot {seq, place} --> record {lengths, owners, namespace, name, uid, resourceVersion, object}
 *   owner index -+                             |
 *                                              +--> dictionary
 *
 * Writing. A record is written whole into unused bytes of a segment, then the slot's seq goes odd, place is
 * switched by one store, and seq goes even. A record is never changed and its bytes are not used again while
 * a slot names them. So a kill at any instruction leaves each slot old or new; an odd seq under a dead writer
 * means "not now", and the next writer makes it even.
 *
 * Reading, without locks: seq (odd: again), place, bounds, copy, acquire fence, seq again (changed: again), a
 * bounded number of times. An index is an open-addressed array of entries {hash, slot + 1}: entries never
 * move, a removed one becomes CACHE_INDEX_GONE, and a run ends at 0, so what stands there all the time is
 * found. An index is rebuilt in a file beside the old one and switched by one store of its word, which names
 * the file; then the old file is unlinked. A reader whose probe found nothing, or no file, looks at the word again.
 *
 * Objects are packed one by one (encoding), where it pays, most of them with a dictionary of their table; a reader
 * unpacks its own copy. A dictionary is whole before a record names it, and its file goes when no slot's record does: a
 * reader that does not find it reads the slot again. It is made of the table's objects and may outlive them: tables of
 * Secrets have none.
 *
 * Only slots and the table directory are the truth. Indexes, free space, and counts are derived from them at
 * the writer's start. */
#pragma once
#include "region.h"

#define CACHE_MAGIC	       UINT64_C(0x314543414352) /* "RCACE1" */
#define CACHE_SEGMENT_MAGIC    UINT64_C(0x31474553)	/* "SEG1" */
#define CACHE_DICTIONARY_MAGIC UINT64_C(0x31434944)	/* "DIC1" */
#define CACHE_INDEX_MAGIC      UINT64_C(0x31584449)	/* "IDX1" */
enum { CACHE_LAYOUT_VERSION = 9 };

enum {
	CACHE_TABLES = 512, /* watches; a table id is index | generation << CACHE_TABLE_BITS */
	CACHE_TABLE_BITS = 9,
	CACHE_TABLE_NAME = 448, /* with its NUL; longer names are stored as cache_table_key() makes them */
	CACHE_CONTROLLERS = 64,
	CACHE_SEGMENTS = 4096,
	CACHE_EXTENT_SLOTS = 4096, /* slots are allocated so many at a time */
	CACHE_EXTENTS = 1024,
	CACHE_INDEX_LOG2_MAX = 28,
	CACHE_UNIT = 16, /* offsets and lengths in segments are multiples of this */
	CACHE_DICTIONARY_MAX = 32 << 10,
	CACHE_OUTBOX_TEXT = 416,
	CACHE_OUTBOX_EVENTS = 4,
	CACHE_OUTBOX_EXTENT = 512, /* entries are allocated so many at a time */
	CACHE_OUTBOX_EXTENTS = 32,
};
#define CACHE_SEGMENT_SIZE (UINT64_C(64) << 20)
#define CACHE_MAX_SIZE	   (UINT64_C(4) << 30)
#define CACHE_SLOTS	   ((uint32_t)CACHE_EXTENTS * (uint32_t)CACHE_EXTENT_SLOTS)
#define CACHE_OBJECT_MAX   (UINT64_C(32) << 20) /* bytes of one object; etcd's own default is 1.5 MiB */

/* One watch. state: 0 free, else generation << 2 | CACHE_TABLE_SYNCED | CACHE_TABLE_USED, stored after
 * name. */
enum { CACHE_TABLE_USED = 1, CACHE_TABLE_SYNCED = 2 };
struct cache_table {
	_Atomic uint32_t state;
	_Atomic uint32_t objects;
	uint8_t scope;	/* enum cache_scope, once discovery told */
	uint8_t custom; /* the kind comes from a CustomResourceDefinition */
	uint8_t listed; /* `seen` is of a list as of now, and no watch has told a newer one */
	uint8_t reserved;
	_Atomic uint32_t cut;  /* objects with CACHE_METADATA_ALONE */
	_Atomic uint64_t seen; /* the newest resourceVersion that was seen; nothing here is newer. 0: none */
	char api_version[128], kind[64];
	char name[CACHE_TABLE_NAME];
};
enum cache_scope { CACHE_SCOPE_UNKNOWN, CACHE_SCOPE_CLUSTER, CACHE_SCOPE_NAMESPACED };

/* sweep: all keys of this controller are still to be enqueued. CACHE_SWEEP_NONE again when the broker has acknowledged the last one.
 * With CACHE_SWEEP_UNMAPPED beside it programs have not mapped all events yet. Whoever starts with that has lost them, and enqueues
 * every object of the `for` kind; it falls when all of their keys are in the outbox. */
enum {
	CACHE_SWEEP_NONE,
	CACHE_SWEEP_ALL,
	CACHE_SWEEP_PACED, /* only so many a second: of a storm */
	CACHE_SWEEP_KIND = 3,
	CACHE_SWEEP_UNMAPPED = 4
};
struct cache_controller {
	char name[64];		/* empty: free */
	_Atomic uint32_t sweep; /* CACHE_SWEEP_... */
	uint32_t digest; /* folded, of the file that was swept last: another one is another reconciler */
};

struct cache_slot {
	_Atomic uint64_t seq;
	_Atomic uint64_t place; /* cache_place(); 0: free */
	uint64_t hash;		/* of table, namespace, name */
	uint32_t table;		/* id; hints for walks: the record is what counts */
	uint32_t reserved;
};

/* What a slot's place points at, at a multiple of CACHE_UNIT. Then: uint64_t owner hashes[owners]; namespace,
 * name, uid, resourceVersion; the object as encoding says, in stored_len bytes. */
struct cache_record {
	uint32_t check; /* of everything up to the object, this field as 0 */
	uint32_t table;
	uint32_t object_len; /* unpacked */
	uint32_t stored_len;
	uint32_t dictionary; /* N of cache-N.dic; 0: none */
	uint16_t owners, uid_len, version_len;
	uint8_t namespace_len, name_len;
	uint8_t encoding; /* enum cache_encoding */
	uint8_t flags;	  /* CACHE_METADATA_ALONE */
	uint8_t reserved[2];
};
enum cache_encoding { CACHE_AS_IT_IS, CACHE_ZSTD };
/* There was no room for the rest of the object: nobody may take it for the whole. */
enum { CACHE_METADATA_ALONE = 1 };

/* At REGION_PAGE of cache-N.dic; then the dictionary. */
struct cache_dictionary {
	uint64_t check; /* of its bytes */
	uint32_t table, length;
};

/* The event of a stream of a table: a resourceVersion is a number here. */
struct cache_event {
	uint32_t table, stream;
	uint64_t resource_version;
};

/* A key on its way to the broker. state is stored last; text holds key namespace, key name, cause kind, cause
 * namespace, cause name one after another; causes that find no room are left out. */
struct cache_outbox_entry {
	_Atomic uint32_t state; /* 0 free, 1 to be sent */
	uint16_t lengths[5];
	uint8_t controller; /* index into controllers */
	uint8_t flags;	    /* CACHE_OUTBOX_PRIMARY_CHANGED */
	int32_t priority;
	uint32_t cause;
	uint8_t events; /* so many of event[] are all that the key is there for; 0: for others too */
	uint8_t reserved[7];
	struct cache_event event[CACHE_OUTBOX_EVENTS];
	char text[CACHE_OUTBOX_TEXT];
};
enum {
	CACHE_OUTBOX_PRIMARY_CHANGED = 1,
	CACHE_OUTBOX_PACED = 2 /* of a storm: not more than so many a second */
};

/* Who leads. until is what counts: CLOCK_BOOTTIME ns, until then this host leads; without any message nothing is granted and no
 * write starts afterwards. The rest is for people and for the next watcher: texts and times are whole while seq is even and
 * the same before and after. */
enum {
	CACHE_LEAD_OFF = 0 /* there is no leader election */,
	CACHE_LEAD_FOLLOWS = 1 /* another host leads, or is to be asked */
};
struct cache_lead {
	_Atomic int64_t until;
	_Atomic uint32_t closing; /* 1: nothing more is granted, what runs may go on until then */
	_Atomic uint32_t seq;
	char lease[NAMESPACE_MAX_LEN + 1 + NAME_MAX_LEN + 1]; /* "NAMESPACE/NAME" */
	char identity[112];				      /* this host's holderIdentity */
	char holder[256];				      /* empty: nobody */
	int64_t renewed_at, duration_ns; /* when the holder's last renewal was seen; how long it counts */
	int64_t transitions;
	uint64_t server; /* hash: the same Lease of another API server is another election */
};

struct cache_header {				  /* at REGION_PAGE */
	_Atomic uint64_t name_index, owner_index; /* cache_index_word(); 0: none yet */
	_Atomic uint32_t gone; /* another file has taken this one's place: readers open it */
	uint32_t reserved;
	_Atomic uint64_t segment_epoch; /* raised when a segment goes: readers drop their mapping of it */
	_Atomic uint64_t next_segment;	/* the next N */
	_Atomic uint32_t extents;	/* how many are there */
	_Atomic uint32_t outbox_extents;
	struct cache_lead lead;
	_Atomic uint64_t segment_file[CACHE_SEGMENTS]; /* N of cache-N.seg; 0: none */
	_Atomic uint64_t extent[CACHE_EXTENTS];	       /* offset of CACHE_EXTENT_SLOTS slots */
	_Atomic uint64_t outbox[CACHE_OUTBOX_EXTENTS]; /* offset of CACHE_OUTBOX_EXTENT entries */
	struct cache_controller controller[CACHE_CONTROLLERS];
	struct cache_table table[CACHE_TABLES];
};
#define CACHE_HEADER_SIZE ((sizeof(struct cache_header) + REGION_PAGE - 1) / REGION_PAGE * REGION_PAGE)

_Static_assert(sizeof(struct cache_slot) == 32 && sizeof(struct cache_record) == 32 &&
		   NAME_MAX_LEN <= UINT8_MAX && NAMESPACE_MAX_LEN <= UINT8_MAX,
	       "shared layout");
_Static_assert(sizeof(struct cache_outbox_entry) == 512, "shared layout");

/* ---- place: bits 0-21 offset, 22-43 length, both in units; 44-55 segment; never 0, as length is not ---- */

static inline uint64_t cache_place(uint32_t segment, uint64_t offset, uint64_t length)
{
	return offset / CACHE_UNIT | length / CACHE_UNIT << 22 | (uint64_t)segment << 44;
}
static inline uint64_t cache_place_offset(uint64_t place)
{
	return (place & 0x3fffff) * CACHE_UNIT;
}
static inline uint64_t cache_place_length(uint64_t place)
{
	return (place >> 22 & 0x3fffff) * CACHE_UNIT;
}
static inline uint32_t cache_place_segment(uint64_t place)
{
	return (uint32_t)(place >> 44 & 0xfff);
}

/* ---- index word: bits 0-5 log2 of the entries, 6-63 N of cache-N.idx; never the same twice, as N is not ---- */

#define CACHE_INDEX_GONE UINT64_MAX
static inline uint64_t cache_index_word(uint64_t file, unsigned log2_entries)
{
	return file << 6 | log2_entries;
}
static inline uint64_t cache_index_file(uint64_t word)
{
	return word >> 6;
}
static inline unsigned cache_index_log2(uint64_t word)
{
	return (unsigned)(word & 63);
}
static inline uint64_t cache_index_size(uint64_t word) /* of its file; the entries begin at REGION_PAGE */
{
	return REGION_PAGE + (UINT64_C(8) << cache_index_log2(word));
}
static inline uint64_t cache_index_entry(uint64_t hash, uint32_t slot)
{
	return (hash & ~UINT64_C(0xffffffff)) | (slot + 1);
}
static inline uint32_t cache_index_slot(uint64_t entry)
{
	return (uint32_t)entry - 1;
}
/* Where a probe begins: the low bits, as the high ones stand in the entry. */
static inline uint64_t cache_index_home(uint64_t hash, unsigned log2_entries)
{
	return hash & ((UINT64_C(1) << log2_entries) - 1);
}

/* ---- hashes ---- */

static inline uint64_t
cache_mix(uint64_t h) /* FNV-1a's high bits are weak for short texts: the finisher of MurmurHash3 */
{
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}
static inline uint64_t cache_name_hash(uint32_t table, struct span namespace, struct span name)
{
	uint64_t h = hash_bytes(&table, sizeof table, HASH_SEED);
	h = hash_bytes(namespace.at, namespace.len, h);
	h = hash_bytes("/", 1, h);
	return cache_mix(hash_bytes(name.at, name.len, h));
}
static inline uint64_t cache_owner_hash(struct span uid)
{
	return cache_mix(hash_bytes(uid.at, uid.len, HASH_SEED ^ 1));
}

/* The text under which a table is found: the name, or its beginning and a hash when it is too long. */
static inline void cache_table_key(const char *name, char key[CACHE_TABLE_NAME])
{
	static const char digits[] = "0123456789abcdef";
	size_t len = strlen(name);
	memset(key, 0, CACHE_TABLE_NAME);
	memcpy(key, name, MIN(len, (size_t)CACHE_TABLE_NAME - 1));
	if (len < CACHE_TABLE_NAME)
		return;
	uint64_t h[2] = {cache_mix(hash_bytes(name, len, HASH_SEED)),
			 cache_mix(hash_bytes(name, len, HASH_SEED ^ 2))};
	char *tail = key + CACHE_TABLE_NAME - 1 - 33;
	*tail++ = '#';
	for (int i = 0; i < 32; i++)
		tail[i] = digits[h[i / 16] >> (i % 16 * 4) & 15];
}

/* ---- sizes and offsets of a record ---- */

static inline uint64_t cache_record_fixed(const struct cache_record *r) /* bytes before the object */
{
	return sizeof *r + (uint64_t)r->owners * 8 + r->namespace_len + r->name_len + r->uid_len +
	       r->version_len;
}
static inline uint64_t cache_record_size(const struct cache_record *r)
{
	return (cache_record_fixed(r) + r->stored_len + CACHE_UNIT - 1) / CACHE_UNIT * CACHE_UNIT;
}

/* ---- what region.h wants ---- */

static inline struct region_spec cache_region_spec(void)
{
	const size_t layout[] = {sizeof(struct cache_header),
				 sizeof(struct cache_table),
				 sizeof(struct cache_slot),
				 sizeof(struct cache_record),
				 sizeof(struct cache_outbox_entry),
				 offsetof(struct cache_outbox_entry, text),
				 offsetof(struct cache_header, table),
				 offsetof(struct cache_header, extent),
				 offsetof(struct cache_header, outbox),
				 offsetof(struct cache_header, lead),
				 sizeof(struct cache_lead),
				 offsetof(struct cache_table, name),
				 offsetof(struct cache_record, encoding),
				 offsetof(struct cache_record, flags),
				 offsetof(struct cache_table, cut),
				 sizeof(struct cache_dictionary),
				 CACHE_UNIT,
				 CACHE_TABLE_BITS};
	return (struct region_spec){.magic = CACHE_MAGIC,
				    .layout_version = CACHE_LAYOUT_VERSION,
				    .layout_hash = hash_bytes(layout, sizeof layout, HASH_SEED),
				    .max_size = CACHE_MAX_SIZE,
				    .initial_size = REGION_PAGE + CACHE_HEADER_SIZE,
				    .mode = 0640};
}
static inline struct region_spec cache_segment_spec(void)
{
	struct region_spec s = cache_region_spec();
	s.magic = CACHE_SEGMENT_MAGIC;
	s.max_size = CACHE_SEGMENT_SIZE;
	s.initial_size = REGION_PAGE;
	return s;
}
static inline struct region_spec cache_dictionary_spec(void)
{
	struct region_spec s = cache_region_spec();
	s.magic = CACHE_DICTIONARY_MAGIC;
	s.max_size = s.initial_size =
	    REGION_PAGE + (sizeof(struct cache_dictionary) + CACHE_DICTIONARY_MAX + REGION_PAGE - 1) /
			      REGION_PAGE * REGION_PAGE;
	return s;
}
static inline struct region_spec cache_index_spec(uint64_t word)
{
	struct region_spec s = cache_region_spec();
	s.magic = CACHE_INDEX_MAGIC;
	s.max_size = (cache_index_size(word) + REGION_PAGE - 1) / REGION_PAGE * REGION_PAGE;
	s.initial_size = REGION_PAGE;
	return s;
}
