/* The broker's handlers under messages from several peers of all roles, without sockets and with a clock of our own.
 *
 * Input: steps of {peer, what, length, choices...}. what: the type of a message, whose fields the choices fill (fill.c), or one
 * of the steps behind the types. Checked after each: a refused message changes no byte of the region; each request is answered
 * or kept exactly once; no key has two holders, by what the broker told them; a lease is in memory exactly if it is in the region.
 * At the end the region is recovered from a copy and says the same. */
#include "fake_transport.h"
#include "fuzz.h"
#include "queue/broker.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	STEP_RAW = WIRE_TYPE_COUNT, /* the choices are the message */
	STEP_CUT,		    /* a message of the type that comes first, changed at a byte */
	STEP_GONE,		    /* the connection ends; the next message opens another */
	STEP_DIES,		    /* a process */
	STEP_TIME,
	STEP_COUNT
};
/* The process of each peer, and the jails of the first ones. */
enum { PEERS = 6, JAILS = 4, PROCESSES = PEERS + JAILS, BLOCKS = 14, STEPS_MAX = 200 };

struct connection {
	uint32_t pipe; /* 0: none */
	bool sent_hello;
	struct wire_grant last; /* numbers only */
	uint32_t refused;	/* of the message under way: code + 1 */
	unsigned answers;
};

static struct {
	struct broker b;
	char *memory, *before;
	struct connection peers[PEERS];
	uint32_t next_pipe;
	unsigned now_from; /* peer of the message under way */
	unsigned pid;	   /* index of the process that the message has named so far */
	struct held {
		uint32_t slot, pipe;
		uint64_t generation;
	} held[PEERS];
} f;

static struct {
	char folder[64];
	struct program program;
	struct config config;
	pid_t pids[PROCESSES];
	uint64_t starts[PROCESSES];
	int64_t now;
} world;

/* ---- instead of the real ones (the linker's --wrap) ---- */

/* NOLINTBEGIN(bugprone-reserved-identifier) */
int64_t __wrap_clock_boottime_ns(void);
void __wrap_procs_kill(struct proc *p);
int64_t __wrap_clock_boottime_ns(void)
{
	return world.now;
}
/* The processes are real, but they must last. */
void __wrap_procs_kill(struct proc *p)
{
	if (!p || p->dead)
		return;
	epoll_ctl(f.b.epoll, EPOLL_CTL_DEL, p->fd, NULL);
	close(p->fd);
	p->fd = -1;
	p->dead = true;
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- the world: once ---- */

static void put_file(const char *name, const char *text)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", world.folder, name);
	FILE *to = fopen(path, "we");
	FUZZ_CHECK(to && fputs(text, to) >= 0 && fclose(to) == 0, "%s", path);
}

static void remove_world(void)
{
	static const char *const names[] = {"web.yaml", "slow.yaml", "reconciled.yaml", ROSTER_FILE};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(free_ptr) char *path = xasprintf("%s/%s", world.folder, names[i]);
		unlink(path);
	}
	rmdir(world.folder);
	for (size_t i = 0; i < PROCESSES; i++)
		kill(world.pids[i], SIGKILL);
}

static void make_world(void)
{
	if (world.folder[0])
		return;
	snprintf(world.folder, sizeof(world.folder), "/tmp/broker-fuzz.XXXXXX");
	FUZZ_CHECK(mkdtemp(world.folder), "%s", world.folder);
	put_file("reconciled.yaml", "{}\n");
	put_file("web.yaml",
		 "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: web}\nspec:\n"
		 "  for: {apiVersion: v1, kind: ConfigMap}\n  reconciler: {exec: {command: [/bin/true]}}\n"
		 "  quarantine: {crashes: 2}\n");
	put_file("slow.yaml",
		 "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: slow}\nspec:\n"
		 "  for: {apiVersion: v1, kind: Secret}\n  reconciler: {exec: {command: [/bin/true]}}\n"
		 "  maxConcurrentReconciles: 1\n");
	pid_t parent = getpid();
	for (size_t i = 0; i < PROCESSES; i++) {
		world.pids[i] = fork();
		if (world.pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			while (getppid() == parent)
				pause();
			_exit(0);
		}
		FUZZ_CHECK(process_start_time(world.pids[i], &world.starts[i]) == 0, "no start time");
	}
	atexit(remove_world);
	world.program = (struct program){.name = "reconciled-queue",
					 .config_dir = world.folder,
					 .runtime_dir = world.folder,
					 .region_dir = world.folder};
	struct err err = {0};
	FUZZ_CHECK(config_load(world.folder, &world.config, &err) == 0 && world.config.count == 2, "%s",
		   err.text);
	log_init("broker-fuzz", getenv("FUZZ_DEBUG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
}

static const char *digest_of(const char *controller)
{
	return config_find(&world.config, controller)->digest;
}

/* ---- the region in memory ---- */

static int grow(void *ctx, uint64_t size)
{
	(void)ctx;
	return size <= (uint64_t)BLOCKS * SHM_BLOCK ? 0 : -EFBIG;
}

static struct store store_over(char *memory, uint64_t allocated)
{
	return (struct store){.at = memory,
			      .allocated = allocated,
			      .limit = (uint64_t)BLOCKS * SHM_BLOCK,
			      .reserve = 4 * (uint64_t)SHM_BLOCK,
			      .grow = grow};
}

static size_t region_bytes(void)
{
	return (size_t)f.b.store.blocks * SHM_BLOCK;
}

/* ---- what the broker says ---- */

static struct connection *connection_of(uint32_t pipe)
{
	for (size_t i = 0; i < PEERS; i++)
		if (pipe && f.peers[i].pipe == pipe)
			return &f.peers[i];
	return NULL;
}

static void heard_grant(struct connection *c, const struct wire_grant *g)
{
	struct held *room = NULL;
	for (size_t i = 0; i < PEERS; i++) {
		const struct lease *l = f.held[i].generation ? lease_find(&f.b.leases, f.held[i].slot) : NULL;
		if (l && l->generation == f.held[i].generation)
			FUZZ_CHECK(f.held[i].slot != g->slot, "slot %u has two holders", f.held[i].slot);
		else
			room = &f.held[i];
	}
	FUZZ_CHECK(room, "more leases than hosts");
	*room = (struct held){(uint32_t)g->slot, c->pipe, g->generation};
	FUZZ_CHECK(g->generation > c->last.generation, "a generation was given twice");
	c->last = (struct wire_grant){.slot = g->slot, .generation = g->generation};
}

static void heard(void *ctx, uint32_t pipe, struct span bytes)
{
	(void)ctx;
	struct connection *c = connection_of(pipe);
	struct wire m = {0};
	struct err err = {0};
	FUZZ_CHECK(c, "an answer to a connection that is gone");
	FUZZ_CHECK(wire_decode(bytes, &m, &err) == 0, "the answer cannot be read: %s", err.text);
	c->answers++;
	if (m.type == WIRE_TYPE_REFUSED)
		c->refused = m.refused.code + 1;
	if (m.type == WIRE_TYPE_GRANT)
		heard_grant(c, &m.grant);
	wire_done(&m);
}

static void closed(void *ctx, uint32_t pipe)
{
	(void)ctx;
	struct connection *c = connection_of(pipe);
	if (c)
		c->answers++; /* its end is an answer, too; the step after sends GONE */
}

/* ---- what a message may say ---- */

static uint64_t lease_number(struct fuzz_input *in, bool generation)
{
	unsigned who = (f.now_from + fuzz_u8(in)) % PEERS;
	const struct wire_grant *g = &f.peers[who].last;
	return generation ? g->generation : g->slot;
}

static bool number(void *ctx, const char *field, struct fuzz_input *in, uint64_t *ret)
{
	(void)ctx;
	bool pid = strcmp(field, "pid") == 0, jail = strcmp(field, "jail_pid") == 0;
	if (strcmp(field, "version") == 0) {
		*ret = WIRE_VERSION + fuzz_u8(in) % 2;
	} else if (strcmp(field, "role") == 0) {
		/* Peers 0 to 3 are hosts, 4 the watcher, 5 reconcilectl, unless they choose otherwise. */
		uint8_t other = fuzz_u8(in);
		*ret = other		 ? other % 4u
		       : f.now_from < 4	 ? WIRE_ROLE_HOST
		       : f.now_from == 4 ? WIRE_ROLE_WATCHER
					 : WIRE_ROLE_CTL;
	} else if (pid || jail) {
		uint8_t other = fuzz_u8(in); /* the last choice is no process */
		f.pid = (jail ? PEERS + f.now_from % JAILS : f.now_from) + other;
		f.pid = other == 255 ? PROCESSES : f.pid % PROCESSES;
		*ret = f.pid < PROCESSES ? (uint64_t)world.pids[f.pid] : 0;
	} else if (strcmp(field, "start_time") == 0 || strcmp(field, "jail_start_time") == 0) {
		uint8_t wrong = fuzz_u8(in);
		*ret = f.pid < PROCESSES ? world.starts[f.pid] + wrong : wrong;
	} else if (strcmp(field, "incarnation") == 0) {
		*ret = f.b.incarnation - fuzz_u8(in) % 2;
	} else if (strcmp(field, "slot") == 0) {
		*ret = lease_number(in, false);
	} else if (strcmp(field, "generation") == 0) {
		*ret = lease_number(in, true);
	} else {
		return false;
	}
	return true;
}

static bool text(void *ctx, const char *field, struct fuzz_input *in, struct span *ret)
{
	(void)ctx;
	static char longest[NAME_MAX_LEN + 1];
	memset(longest, 'n', sizeof(longest) - 1);
	const char *const controllers[] = {"web", "slow", "nobody"};
	const char *const digests[] = {digest_of("web"), digest_of("slow"), "0123"};
	const char *const words[] = {"a",     "b",	  "c",	"d", "a-name-of-more-than-25-bytes",
				     longest, "\xff\xfe", "x/y"};
	uint8_t choice = fuzz_u8(in);
	if (strcmp(field, "controller") == 0)
		*ret = span_of(controllers[choice % ARRAY_SIZE(controllers)]);
	else if (strcmp(field, "digest") == 0)
		*ret = span_of(digests[choice % ARRAY_SIZE(digests)]);
	else if (choice < ARRAY_SIZE(words))
		*ret = span_of(words[choice]);
	else
		return false;
	return true;
}

/* ---- a step ---- */

static void check_leases(void)
{
	const struct broker *b = &f.b;
	size_t running = 0;
	for (uint32_t i = 0; i < store_slots(&b->store); i++) {
		uint8_t state = store_slot(&b->store, i)->state;
		running += SHM_LEASED(state);
	}
	FUZZ_CHECK(running == b->leases.len, "%zu keys are leased, %zu leases are known", running,
		   b->leases.len);
	for (size_t i = 0; i < b->leases.len; i++) {
		const struct lease *l = &b->leases.at[i];
		FUZZ_CHECK(workqueue_lease(&b->wq, l->slot, l->generation),
			   "the region has no lease of slot %u", l->slot);
		FUZZ_CHECK(lease_find(&f.b.leases, l->slot) == l, "the lease of slot %u is not found",
			   l->slot);
		for (size_t k = 0; k < i; k++)
			FUZZ_CHECK(b->leases.at[k].slot != l->slot && b->leases.at[k].host != l->host,
				   "slot %u: its key or its host has two leases", l->slot);
	}
}

/* Refused as one that may have no keys, a host has still told which lease it no longer has. */
static bool told_of_its_lease(const struct connection *c, enum wire_type type)
{
	return type == WIRE_TYPE_HELLO &&
	       (c->refused == WIRE_REFUSAL_DIGEST + 1 || c->refused == WIRE_REFUSAL_UNKNOWN_CONTROLLER + 1);
}

static void send_bytes(struct connection *c, struct span bytes, enum wire_type type)
{
	if (!c->pipe)
		c->pipe = ++f.next_pipe;
	c->refused = 0;
	c->answers = 0;
	size_t n = region_bytes(), tokens = fake_answers.tokens;
	memcpy(f.before, f.memory, n);
	struct transport_event event = {
	    .type = TRANSPORT_REQUEST,
	    .peer = {.pipe = c->pipe, .pid = world.pids[f.now_from], .uid = geteuid()},
	    .bytes = bytes,
	    .token = fake_token(c->pipe),
	};
	broker_request(&f.b, &event, clock_boottime_ns());
	FUZZ_CHECK(c->answers <= 2 && fake_answers.tokens <= tokens + 1, "a request has %u answers",
		   c->answers);
	if (c->refused && !told_of_its_lease(c, type))
		FUZZ_CHECK(n == region_bytes() && memcmp(f.before, f.memory, n) == 0,
			   "a refused %s changed the region", wire_type_name(type));
}

static void send_message(struct connection *c, struct fuzz_input *choices, enum wire_type type, bool cut)
{
	struct fuzz_input damage = cut ? fuzz_part(choices, 8) : (struct fuzz_input){0};
	static struct fuzz_filler filler = {.number = number, .text = text};
	filler.in = choices;
	struct wire m;
	struct err err = {0};
	_cleanup_(buf_done) struct buf out = {0};
	fuzz_fill(&filler, type, &m);
	FUZZ_CHECK(wire_encode(&m, &out, &err) == 0, "%s", err.text);
	fuzz_filler_done(&filler);
	while (damage.len >= 2) {
		size_t at = fuzz_u8(&damage) % out.len;
		out.data[at] = (char)fuzz_u8(&damage);
	}
	/* On the heap without a byte behind it. */
	char *exact = malloc(out.len);
	memcpy(exact, out.data, out.len);
	send_bytes(c, (struct span){exact, out.len}, type);
	free(exact);
}

static void gone(struct connection *c)
{
	if (!c->pipe)
		return;
	broker_gone(&f.b, c->pipe);
	*c = (struct connection){.last = c->last};
}

static void lease_is_over(void *ctx, uint32_t slot)
{
	(void)ctx;
	broker_lease_over(&f.b, slot, world.now);
}

static void step(struct fuzz_input *in)
{
	f.now_from = fuzz_u8(in) % PEERS;
	struct connection *c = &f.peers[f.now_from];
	unsigned what = fuzz_u8(in) % STEP_COUNT;
	struct fuzz_input choices = fuzz_part(in, 255);
	if (what == STEP_RAW) {
		send_bytes(c, (struct span){(const char *)choices.at, choices.len}, WIRE_NONE);
	} else if (what == STEP_CUT) {
		send_message(c, &choices, (enum wire_type)(1 + fuzz_u8(&choices) % (WIRE_TYPE_COUNT - 1)),
			     true);
	} else if (what == STEP_GONE) {
		gone(c);
	} else if (what == STEP_DIES) {
		unsigned pid = (f.now_from + fuzz_u8(&choices)) % PROCESSES;
		for (struct proc *p = f.b.procs.list; p; p = p->next)
			if (p->pid == (uint32_t)world.pids[pid] && !p->dead) {
				__wrap_procs_kill(p);
				lease_kill_orphans(&f.b.leases, p);
				roster_kill_orphans(&f.b.roster, p);
			}
	} else if (what == STEP_TIME) {
		static const int64_t steps[] = {NS_PER_MS, 100 * NS_PER_MS, 2 * NS_PER_S, 70 * NS_PER_S,
						4000 * NS_PER_S};
		world.now += steps[fuzz_u8(&choices) % ARRAY_SIZE(steps)];
	} else if (what == WIRE_NONE) {
		send_bytes(c, (struct span){"", 0}, WIRE_NONE);
	} else {
		send_message(c, &choices, (enum wire_type)what, false);
	}
	world.now += NS_PER_US;
	/* As the loop does. */
	broker_reap(&f.b, world.now);
	broker_collect(&f.b, world.now);
	workqueue_tick(&f.b.wq, world.now, 4096, lease_is_over, NULL);
	broker_serve_all(&f.b, world.now);
	check_leases();
}

/* ---- one input ---- */

static void begin(void)
{
	make_world();
	struct err err = {0};
	/* Large memory is kept from one input to the next. */
	char *memory = f.memory ? f.memory : xcalloc(BLOCKS, SHM_BLOCK);
	char *before = f.before ? f.before : xcalloc(BLOCKS, SHM_BLOCK);
	struct report *reports = f.b.reports.at;
	memset(&f, 0, sizeof(f));
	f.memory = memory;
	f.before = before;
	f.b.reports.at = reports;
	world.now = 1000 * NS_PER_S;
	fake_answers = (struct fake_answers){.heard = heard, .closed = closed};
	struct broker *b = &f.b;
	b->program = &world.program;
	b->epoll = epoll_create1(EPOLL_CLOEXEC);
	b->procs.epoll = b->epoll;
	b->leases.procs = &b->procs;
	b->out.limit = WIRE_MAX_BYTES;
	b->incarnation = 7;
	b->started = world.now;
	crews_init(b);
	lead_init(&b->lead, world.folder, false); /* no cache there: no gate */
	b->store = store_over(f.memory, 4 * (uint64_t)SHM_BLOCK);
	FUZZ_CHECK(store_format(&b->store, SHM_BLOCK) == 0, "no region");
	FUZZ_CHECK(workqueue_init(&b->wq, &b->store, 42, &err) == 0, "%s", err.text);
	FUZZ_CHECK(config_load(world.folder, &b->config, &err) == 0, "%s", err.text);
	_cleanup_(free_ptr) char *roster = xasprintf("%s/" ROSTER_FILE, world.folder);
	unlink(roster);
	FUZZ_CHECK(roster_read(&b->roster, &b->procs, roster, true, &err) == -ENOENT, "%s", err.text);
	broker_configure(b, world.now);
}

/* A broker that finds no region owes a word of every host and jail that this one knew. */
static void check_roster(void)
{
	struct roster r;
	struct err err = {0};
	int rc = roster_read(&r, &f.b.procs, f.b.roster.path, true, &err);
	FUZZ_CHECK(rc == 0 || (rc == -ENOENT && !f.b.roster.len), "%s", err.text);
	FUZZ_CHECK(r.len == f.b.roster.len && r.owing == r.len,
		   "%zu workers, %zu were written down, %zu owe a word", f.b.roster.len, r.len, r.owing);
	roster_done(&r);
}

/* A broker that starts on what this one leaves finds the same. */
static void check_recovery(void)
{
	const struct broker *b = &f.b;
	struct store st = store_over(f.before, (uint64_t)BLOCKS * SHM_BLOCK);
	struct workqueue wq;
	struct err err = {0};
	memset(f.before, 0, (size_t)BLOCKS * SHM_BLOCK);
	memcpy(f.before, f.memory, region_bytes());
	FUZZ_CHECK(store_recover(&st, &err) == 0, "%s", err.text);
	FUZZ_CHECK(workqueue_init(&wq, &st, 42, &err) == 0, "%s", err.text);
	FUZZ_CHECK(wq.index.keys == b->wq.index.keys, "%u keys were %u", wq.index.keys, b->wq.index.keys);
	for (uint16_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		const struct workqueue_controller *was = &b->wq.controllers[i], *is = &wq.controllers[i];
		FUZZ_CHECK(was->waiting == is->waiting && was->running == is->running &&
			       was->quarantined == is->quarantined &&
			       index_ready_len(&b->wq.index, i) == index_ready_len(&wq.index, i),
			   "controller %u: other counts than before", i);
	}
	workqueue_done_with(&wq);
	store_done(&st);
}

static void end(void)
{
	struct broker *b = &f.b;
	for (size_t i = 0; i < PEERS; i++)
		gone(&f.peers[i]);
	FUZZ_CHECK(fake_answers.tokens == 0, "%zu requests were never answered", fake_answers.tokens);
	leases_done(&b->leases);
	roster_done(&b->roster);
	FUZZ_CHECK(!b->procs.list && !b->peers.list, "somebody is still known");
	lead_done(&b->lead);
	b->reports.len = 0;
	buf_done(&b->out);
	config_done(&b->config);
	workqueue_done_with(&b->wq);
	memset(f.memory, 0, region_bytes());
	store_done(&b->store);
	close(b->epoll);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fuzz_input in = {bytes, len};
	begin();
	for (unsigned i = 0; i < STEPS_MAX && in.len; i++)
		step(&in);
	check_roster();
	check_recovery();
	end();
	return 0;
}

void fuzz_seeds(void (*put)(const char *name, struct span bytes))
{
	(void)put;
}
