#include "left.h"
#include "queue/store_region.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_BYTES ((size_t)LEFT_BLOCKS * SHM_BLOCK)

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "step: %s: %s\n", what, strerror(errno));
	_exit(EXIT_FAILURE);
}

/* ---- places ---- */

struct place place_new(const char *below, const char *name)
{
	struct place p = {.folder = xasprintf("%s/%s", below, name), .fd = -1};
	p.path = xasprintf("%s/" SHM_QUEUE_FILE, p.folder);
	if (mkdir(p.folder, 0700) < 0)
		die(p.folder);
	return p;
}

void place_forget(struct place *p)
{
	queue_close(p->reader);
	p->reader = NULL;
}

static void place_close(struct place *p)
{
	place_forget(p);
	if (p->at)
		munmap(p->at, PLACE_BYTES);
	close_fd(&p->fd);
	p->fd = -1;
	p->at = NULL;
	p->size = 0;
}

void place_done(struct place *p)
{
	place_close(p);
	unlink(p->path);
	rmdir(p->folder);
	free(p->folder);
	free(p->path);
}

static bool place_open(struct place *p, int flags)
{
	if (p->fd < 0)
		p->fd = open(p->path, O_RDWR | O_CLOEXEC | flags, 0600);
	if (p->fd < 0 && errno == ENOENT)
		return false;
	if (p->fd < 0)
		die(p->path);
	struct stat st;
	if (fstat(p->fd, &st) < 0)
		die(p->path);
	p->size = (size_t)st.st_size;
	if (!p->at)
		p->at = mmap(NULL, PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	if (p->at == MAP_FAILED)
		die(p->path);
	return true;
}

void place_copy(struct place *from, struct place *to)
{
	if (!place_open(from, 0)) {
		unlink(to->path);
		place_close(to);
		return;
	}
	place_open(to, O_CREAT);
	if (to->size != from->size && ftruncate(to->fd, (off_t)from->size) < 0)
		die(to->path);
	memcpy(to->at, from->at, from->size);
}

/* A reader stays: mapping the region anew for every look costs more than the look. */
static struct queue_reader *place_reader(struct place *p)
{
	if (!p->reader && queue_open(p->folder, &p->reader, NULL) < 0)
		p->reader = NULL;
	return p->reader;
}

/* ---- start: as queue/broker.c ---- */

static enum start_result made_anew(struct place *p, struct started *s)
{
	region_done(&s->region);
	unlink(p->path);
	place_close(p);
	return START_MADE_ANEW;
}

struct workqueue_rules left_rules(void)
{
	return (struct workqueue_rules){
	    .attempt = {.limits = {5 * (int64_t)NS_PER_MS, 1000 * NS_PER_S, 0, 10, 100},
			.crashes = 3,
			.within = 600 * NS_PER_S,
			.park_for = 3600 * NS_PER_S},
	    .timeout = 30 * NS_PER_S,
	};
}

void left_configure(struct workqueue *wq)
{
	struct workqueue_rules rules = left_rules();
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		if (store_controller(wq->store, i)->name[0])
			workqueue_configure(wq, i, &rules);
}

enum start_result start(struct place *p, uint64_t random, struct started *ret, struct err *err)
{
	enum region_state state;
	if (store_region_open(&ret->store, &ret->region, p->path, PLACE_BYTES, 0, &state, err) < 0)
		return START_FAILED;
	if (state != REGION_RECOVERED)
		return made_anew(p, ret);
	int rc = store_recover(&ret->store, err);
	if (rc == 0)
		rc = workqueue_init(&ret->wq, &ret->store, random, err);
	if (rc < 0) {
		store_done(&ret->store);
		return made_anew(p, ret);
	}
	left_configure(&ret->wq);
	return START_RECOVERED;
}

void start_done(struct started *s)
{
	workqueue_done_with(&s->wq);
	store_done(&s->store);
	region_done(&s->region);
}

/* ---- images ---- */

static void add_line(struct image *i, uint64_t id, uint64_t hash)
{
	if (i->n == i->cap)
		i->lines = xrealloc(i->lines, (i->cap = MAX(i->cap * 2, (size_t)32)) * sizeof(*i->lines));
	i->lines[i->n++] = (struct line){id, hash};
}

static void print_key(const struct queue_key *k)
{
	printf("  %s %s/%s slot %u %s%s wait=%s count=%u causes=%x priority=%d ready_at=%lld added_at=%lld",
	       k->controller, k->namespace, k->name, k->slot, shm_state_name((uint32_t)k->state),
	       k->state == SHM_STATE_DIRTY ? " (DIRTY)" : "", shm_wait_name((uint32_t)k->wait), k->count,
	       k->causes, k->priority, (long long)k->ready_at, (long long)k->added_at);
	printf(" first=%s:%s last=%s:%s lease generation=%llu count=%u first=%s:%s last=%s:%s", k->first.kind,
	       k->first.name, k->last.kind, k->last.name, (unsigned long long)k->detail.generation,
	       k->detail.lease_count, k->lease_first.kind, k->lease_first.name, k->lease_last.kind,
	       k->lease_last.name);
	printf(" record attempt=%u step=%u last_outcome=%u reason='%s' message='%s'\n", k->record.attempt,
	       k->record.step, k->record.last_outcome, k->reason, k->message);
}

static uint64_t hash_cause(const struct queue_cause *c, uint64_t h)
{
	h = hash_bytes(&c->event, sizeof(c->event), h);
	h = hash_bytes(c->kind, strlen(c->kind) + 1, h);
	h = hash_bytes(c->namespace, strlen(c->namespace) + 1, h);
	return hash_bytes(c->name, strlen(c->name) + 1, h);
}

/* All of it. Where a text lies says nothing; what it says is in the key. */
static uint64_t hash_key(struct queue_key *k)
{
	uint64_t h = hash_bytes(k, offsetof(struct queue_key, first), HASH_SEED);
	h = hash_cause(&k->lease_last, hash_cause(&k->lease_first, h));
	h = hash_cause(&k->last, hash_cause(&k->first, h));
	k->detail.objects = k->detail.lease_objects = (struct shm_causes){0};
	k->detail.events = k->detail.events != 0;
	k->record.reason = k->record.message = 0;
	h = hash_bytes(&k->detail, sizeof(k->detail), h);
	h = hash_bytes(&k->record, sizeof(k->record), h);
	h = hash_bytes(k->reason, strlen(k->reason) + 1, h);
	return hash_bytes(k->message, strlen(k->message) + 1, h);
}

static uint64_t id_of(const struct queue_key *k)
{
	uint64_t h = hash_bytes(k->controller, strlen(k->controller) + 1, HASH_SEED);
	h = hash_bytes(k->namespace, strlen(k->namespace) + 1, h);
	return MAX(hash_bytes(k->name, strlen(k->name), h), (uint64_t)LINE_KEYS);
}

static void read_keys(struct queue_reader *q, struct image *ret, bool print)
{
	struct queue_key k;
	uint32_t cursor = 0;
	for (int rc; (rc = queue_next(q, &cursor, &k)) != 0;) {
		if (rc < 0) {
			*(rc == -EAGAIN ? &ret->busy : &ret->damaged) += 1;
			if (print)
				printf("  slot %u: %s\n", cursor - 1, strerror(-rc));
			continue;
		}
		if (print)
			print_key(&k);
		add_line(ret, id_of(&k), hash_key(&k));
	}
}

static void read_rows(struct queue_reader *q, struct image *ret, bool print)
{
	for (uint32_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		struct shm_controller c;
		if (!queue_controller(q, i, &c))
			continue;
		if (print)
			printf("  row %u %s adds=%llu merges=%llu grants=%llu retries=%llu pause=%s\n", i,
			       c.name, (unsigned long long)c.counters.adds,
			       (unsigned long long)c.counters.merges, (unsigned long long)c.counters.grants,
			       (unsigned long long)c.counters.retries, shm_pause_name(c.pause));
		add_line(ret, i, hash_bytes(&c, sizeof(c), HASH_SEED));
	}
}

static void read_counters(const struct workqueue *wq, struct image *ret)
{
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		struct shm_controller_counters n = workqueue_counters(wq, i);
		if (store_controller(wq->store, i)->name[0])
			add_line(ret, SHM_CONTROLLERS_MAX + i, hash_bytes(&n, sizeof(n), HASH_SEED));
	}
}

static struct queue_happened recent[IMAGE_ENTRIES]; /* of image_read */

/* The numbers after an entry are those of its texts. */
static int read_entry(void *ctx, const struct queue_happened *e)
{
	struct image *ret = ctx;
	uint64_t number = atomic_load_explicit(&e->entry.number, memory_order_relaxed);
	const struct shm_history *before = &recent[ret->last % IMAGE_ENTRIES].entry;
	ret->gap = ret->gap || (ret->last && number != ret->last + before->texts + 1);
	ret->last = number;
	recent[number % IMAGE_ENTRIES] = *e;
	return 0;
}

void image_read(struct place *p, const struct workqueue *wq, struct image *ret, bool print)
{
	struct line *lines = ret->lines;
	size_t cap = ret->cap;
	*ret = (struct image){.lines = lines, .cap = cap};
	struct queue_reader *q = place_reader(p);
	if (!q)
		return;
	read_keys(q, ret, print);
	read_rows(q, ret, print);
	if (wq)
		read_counters(wq, ret);
	memset(recent, 0, sizeof(recent));
	queue_history(q, span_of(""), span_of(""), span_of(""), read_entry, ret);
	for (size_t i = 0; i < IMAGE_ENTRIES; i++)
		ret->entries[i] = hash_bytes(&recent[i], sizeof(recent[i]), HASH_SEED);
}

void image_done(struct image *i)
{
	free(i->lines);
	*i = (struct image){0};
}

const struct line *image_find(const struct image *i, uint64_t id, size_t near)
{
	for (size_t at = near ? near - 1 : 0; at < i->n && at <= near + 1; at++)
		if (i->lines[at].id == id)
			return &i->lines[at];
	for (size_t at = 0; at < i->n; at++)
		if (i->lines[at].id == id)
			return &i->lines[at];
	return NULL;
}

bool image_equal(const struct image *a, const struct image *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->lines[i].id != b->lines[i].id || a->lines[i].hash != b->lines[i].hash)
			return false;
	return true;
}

/* ---- whole? ---- */

struct count {
	size_t keys, leases, waiting, quarantined, ready, settling; /* slots by state */
	size_t details, records, texts, namespaces;		    /* cells that they name */
};

static void count_cells(const struct store *st, const struct shm_slot *s, struct count *c)
{
	c->texts += s->name_len > SHM_NAME_INLINE;
	if (s->detail) {
		const struct shm_detail *d = store_detail(st, s->detail);
		c->details++;
		c->texts += d->objects.first_object != 0;
		c->texts += d->objects.last_object != 0;
		c->texts += d->lease_objects.first_object != 0;
		c->texts += d->lease_objects.last_object != 0;
		c->texts += d->events != 0;
	}
	if (s->record) {
		const struct shm_record *r = store_record(st, s->record);
		c->records++;
		c->texts += r->reason != 0;
		c->texts += r->message != 0;
	}
}

static struct count count_slots(const struct store *st)
{
	struct count c = {0};
	bool *namespaces = xcalloc(store_namespaces(st) + 1, sizeof(*namespaces));
	for (uint32_t i = 0; i < store_slots(st); i++) {
		const struct shm_slot *s = store_slot(st, i);
		if (s->state == SHM_STATE_NONE)
			continue;
		c.keys++;
		c.leases += SHM_LEASED(s->state);
		c.settling += SHM_SETTLES(s->state);
		c.waiting += s->state == SHM_STATE_WAITING;
		c.quarantined += s->state == SHM_STATE_QUARANTINED;
		c.ready += s->state == SHM_STATE_READY;
		c.namespaces += !namespaces[s->namespace_number];
		namespaces[s->namespace_number] = true;
		count_cells(st, s, &c);
	}
	free(namespaces);
	return c;
}

/* Namespaces that have no key, and are kept for the next one: see index_namespace_drop. */
static size_t idle_namespaces(const struct index *x)
{
	size_t n = 0;
	for (size_t i = 0; i < INDEX_IDLE; i++)
		n += x->idle[i] != INDEX_NONE && !x->namespaces[x->idle[i]].keys;
	return n;
}

static const char *cells_match(const struct store *st, const struct index *x, const struct count *named)
{
	size_t details = named->details + st->free_details.len,
	       records = named->records + st->free_records.len, texts = named->texts;
	for (size_t i = 0; i < SHM_BLOCK_COUNT; i++)
		texts += st->free_texts[i].len;
	for (uint32_t block = 0; block < st->blocks; block++) {
		uint8_t holds = shm_block_kind((uint8_t)st->at[SHM_DIRECTORY_AT + block]);
		details -= holds == SHM_BLOCK_DETAILS ? SHM_BLOCK / SHM_DETAIL_SIZE : 0;
		records -= holds == SHM_BLOCK_RECORDS ? SHM_BLOCK / SHM_RECORD_SIZE : 0;
		texts -= shm_text_size(holds) ? SHM_BLOCK / shm_text_size(holds) : 0;
	}
	if (named->keys + st->free_slots.len != store_slots(st))
		return "a slot is neither a key's nor free, or both";
	if (named->namespaces + idle_namespaces(x) + st->free_namespaces.len != store_namespaces(st))
		return "a namespace is neither a key's nor free, or both";
	if (details || records)
		return "a detail or record is neither a key's nor free, or both";
	return texts ? "a text is neither a key's nor free, or both" : NULL;
}

const char *left_cells(const struct started *s)
{
	struct count named = count_slots(&s->store);
	size_t ready = 0, leases = 0, waiting = 0, quarantined = 0, settling = 0;
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		ready += index_ready_len(&s->wq.index, i);
		leases += s->wq.controllers[i].running;
		waiting += s->wq.controllers[i].waiting;
		quarantined += s->wq.controllers[i].quarantined;
		settling += s->wq.controllers[i].settling;
	}
	if (s->wq.index.keys != named.keys || ready != named.ready || leases != named.leases ||
	    waiting != named.waiting || quarantined != named.quarantined || settling != named.settling)
		return "the indexes do not count the keys that are there";
	return cells_match(&s->store, &s->wq.index, &named);
}

/* ---- everything runs ---- */

static void no_over(void *ctx, uint32_t slot)
{
	(void)ctx;
	(void)slot;
}

/* Is there anything that a key which settles is to run for? */
static bool only_settles(const struct workqueue *wq, const struct shm_slot *s)
{
	return s->state == SHM_STATE_SETTLING && s->wait == SHM_WAIT_NONE &&
	       !store_detail(wq->store, s->detail)->timer;
}

static size_t end_leases(struct workqueue *wq, int64_t now, size_t *ret_runs)
{
	size_t keys = 0;
	for (uint32_t i = 0; i < store_slots(wq->store); i++) {
		const struct shm_slot *slot = store_slot(wq->store, i);
		struct workqueue_end end;
		keys += slot->state != SHM_STATE_NONE;
		*ret_runs += slot->state != SHM_STATE_NONE && !only_settles(wq, slot);
		if (SHM_LEASED(slot->state))
			workqueue_lost(wq, i, store_detail(wq->store, slot->detail)->generation, now, &end);
	}
	return keys;
}

const char *left_drain(struct started *s, int64_t now, uint64_t generation, size_t keys)
{
	const struct workqueue_holder holder = {300, 301, 9, 10};
	size_t runs = 0, due = 0;
	if (end_leases(&s->wq, now, &due) != keys)
		return "there are other keys than its reader saw";
	/* Past every delay, quarantine and pause; a paused controller lets one probe out at a time. */
	for (int round = 0; round < 100 && s->wq.index.keys; round++) {
		now += 5000 * NS_PER_S;
		workqueue_tick(&s->wq, now, SIZE_MAX, no_over, NULL);
		for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
			struct workqueue_grant g;
			struct workqueue_end end;
			while (workqueue_grant(&s->wq, i, &holder, now, &g) == 1) {
				if (g.generation <= generation)
					return "a generation was given out a second time";
				generation = g.generation;
				runs++;
				const struct wire_done done = {
				    .slot = g.slot, .generation = g.generation, .requeue_after_ms = -1};
				if (workqueue_done(&s->wq, &done, now, &end) < 0)
					return "a lease that was given cannot end";
			}
		}
	}
	if (runs != due)
		return "not every key runs once after it";
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++)
		if (store_controller(&s->store, i)->name[0])
			workqueue_drop(&s->wq, i, now);
	return cells_match(&s->store, &s->wq.index, &(struct count){0});
}
