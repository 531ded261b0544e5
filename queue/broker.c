#include "broker.h"
#include "region_ahead.h"
#include "store_region.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define REFUSED_NS (10 * NS_PER_S) /* between two lines about connections that were refused */
#define FILES_NS   (5 * NS_PER_S)  /* between two looks whether the socket and the region are in place */

enum {
	REQUESTS_A_TURN = 256, /* then timers and signals have their turn */
	REQUESTS_A_TIME = 16,  /* that one look at the clock is for: some microseconds */
	DUE_A_TURN = 4096,
};
#define HISTORY_BYTES (UINT64_C(32) << 20)
#define EVENT_SIGNAL  UINT64_C(1)

/* ---- start ---- */

static int check_space(const char *dir, const char *path, uint64_t budget, struct err *err)
{
	struct statvfs fs;
	if (statvfs(dir, &fs) < 0)
		return err_set(err, -errno, "cannot look at %s: %s", dir, strerror(errno));
	uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
	struct region old;
	struct region_spec spec = shm_queue_spec();
	if (region_read(path, &spec, &old, NULL) == 0) {
		room += old.mapped;
		region_done(&old);
	}
	if (room < budget)
		return err_set(err, -ENOSPC,
			       "%s has %llu bytes free, the queue may need %llu (budgets.queue): make the "
			       "file system larger or set a smaller budget in reconciled.yaml",
			       dir, (unsigned long long)room, (unsigned long long)budget);
	return 0;
}

static uint64_t seed(void)
{
	return random_below(UINT64_MAX - 1) + 1;
}

static int recover(struct broker *b, struct err *err)
{
	if (fault("region"))
		return err_set(err, -EBADMSG, "a planted fault");
	int rc = store_recover(&b->store, err);
	if (rc == 0)
		rc = workqueue_init(&b->wq, &b->store, seed(), err);
	if (rc < 0)
		store_done(&b->store);
	return rc;
}

/* What cannot be trusted is thrown away: the watcher is asked for all keys, because reconciling is
 * level-triggered. */
static int open_queue(struct broker *b, struct err *err)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", b->program->region_dir, SHM_QUEUE_FILE);
	uint64_t budget = b->config.main.queue_budget;
	enum region_state state = REGION_CREATED;
	struct err why = {0};
	int rc = check_space(b->program->region_dir, path, budget, err);
	if (rc == 0)
		rc = store_region_open(&b->store, &b->region, path, budget, seed(), &state, err);
	if (rc < 0)
		return rc;
	if (state == REGION_REPLACED)
		log_warning("the queue region was made anew; every key is enqueued again",
			    LOG_S("text", err->text));
	if (state == REGION_RECOVERED) {
		rc = recover(b, &why);
		b->recovered = rc == 0;
		if (b->recovered)
			return 0;
		log_error("the queue region cannot be trusted and is made anew; every key is enqueued again",
			  LOG_S("path", path), LOG_S("text", why.text));
		if (unlink(path) < 0)
			return err_set(err, -errno, "cannot remove %s: %s", path, strerror(errno));
		region_done(&b->region);
		rc = store_region_open(&b->store, &b->region, path, budget, seed(), &state, err);
		if (rc < 0)
			return rc;
	}
	rc = store_format(&b->store, MIN(HISTORY_BYTES, b->store.limit / 8));
	if (rc < 0)
		return err_set(err, rc, "no room for %s: %s", path, strerror(-rc));
	return workqueue_init(&b->wq, &b->store, seed(), err);
}

/* The whole of writeTimeout and killGrace (35 s otherwise), in milliseconds: for tests that wait for the end
 * of a lease. */
static void shorten_leases(struct broker *b _unused_)
{
#ifdef RECONCILED_FAULTS
	const char *text = getenv("RECONCILED_TEST_WRITE_TIMEOUT_MS");
	uint32_t ms;
	if (!text || parse_u32(text, 0, 3600000, &ms) < 0)
		return;
	b->wq.kill_grace = MIN(b->wq.kill_grace, (int64_t)ms * NS_PER_MS);
	b->wq.write_timeout = (int64_t)ms * NS_PER_MS - b->wq.kill_grace;
	log_warning("leases are shortened for a test", LOG_I("ms", ms));
#endif
}

static int add_event(struct broker *b, int fd, uint64_t tag, struct err *err)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = tag};
	if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		return err_set(err, -errno, "epoll: %s", strerror(errno));
	return 0;
}

/* Without a region, every worker that the last broker knew may have a key that nobody remembers. */
static void open_roster(struct broker *b, bool follows)
{
	struct err err = {0};
	_cleanup_(free_ptr) char *path = xasprintf("%s/" ROSTER_FILE, b->program->runtime_dir);
	int rc = roster_read(&b->roster, &b->procs, path, !b->recovered, &err);
	if (rc < 0 && follows && !b->recovered)
		b->hold = b->patience;
	if (rc < 0 && rc != -ENOENT)
		log_warning("the list of workers of the last broker is not usable", LOG_S("text", err.text));
	if (b->roster.owing)
		b->owing_until = b->started + b->wq.write_timeout + b->wq.kill_grace;
}

int broker_open(struct broker *b, const struct program *program, bool follows, struct err *err)
{
	*b =
	    (struct broker){.program = program, .epoll = -1, .signals = -1, .out = {.limit = WIRE_MAX_BYTES}};
	crews_init(b);
	b->started = clock_boottime_ns();
	b->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (b->epoll < 0)
		return err_set(err, -errno, "epoll: %s", strerror(errno));
	b->procs.epoll = b->epoll;
	b->leases.procs = &b->procs;
	program_explain_cuts(program);
	b->signals = program_signals(false);
	if (b->signals < 0)
		return err_set(err, b->signals, "signalfd: %s", strerror(-b->signals));
	int rc = add_event(b, b->signals, EVENT_SIGNAL, err);
	if (rc < 0)
		return rc;
	rc = broker_load(b, err);
	if (rc < 0)
		return error_is_shortage(rc) ? rc : -EBADMSG;
	if (b->config.main.wrong)
		return err_set(err, -EBADMSG,
			       "reconciled.yaml has errors: correct it (reconcilectl validate shows them), "
			       "then start again");
	lead_init(&b->lead, program->region_dir, b->config.main.ha.leader);
	rc = open_queue(b, err);
	if (rc < 0)
		return rc;
	b->incarnation = atomic_load_explicit(&region_header(&b->region)->incarnation, memory_order_relaxed);
	shorten_leases(b);
	b->patience = b->started + b->wq.kill_grace;
	open_roster(b, follows);
	broker_configure(b, b->started);
	rc = lease_recover(&b->leases, &b->wq, err);
	if (rc < 0)
		return rc;
	log_info(b->recovered ? "recovered" : "the queue begins empty", LOG_I("incarnation", b->incarnation),
		 LOG_I("keys", b->wq.index.keys), LOG_I("leases", b->leases.len),
		 LOG_I("bytes", (uint64_t)b->store.blocks * SHM_BLOCK));
	if (b->hold || b->roster.owing)
		log_warning("the region of the last broker is lost: before keys are granted, its workers "
			    "must hear it",
			    LOG_I("workers", b->roster.owing),
			    LOG_I("seconds", (MAX(b->hold, b->owing_until) - b->started) / NS_PER_S));
	broker_reap(b, b->started);
	return 0;
}

int broker_listen(struct broker *b, struct err *err)
{
	struct stat st = {0};
	b->socket = xasprintf("%s/queue.sock", b->program->runtime_dir);
	int rc = transport_listen_in(b->epoll, b->socket, &b->server, err);
	if (rc == 0 && stat(b->socket, &st) < 0)
		rc = err_set(err, -errno, "%s: %s", b->socket, strerror(errno));
	b->socket_inode = st.st_ino;
	if (rc == 0)
		log_info("listening", LOG_S("path", b->socket), LOG_I("incarnation", b->incarnation));
	return rc;
}

/* ---- loop ---- */

/* Without the socket nobody finds us any more; without the region there is none to recover. */
static bool files_in_place(const struct broker *b)
{
	struct stat st;
	const char *missing = NULL;
	if (stat(b->socket, &st) < 0 || st.st_ino != b->socket_inode)
		missing = b->socket;
	else if (!region_in_place(&b->region))
		missing = b->region.path;
	if (missing)
		log_error("a file was deleted or cut while it is in use; ending, so that the next start "
			  "makes it anew",
			  LOG_S("path", missing));
	return !missing;
}

/* Once in a while: whoever may connect may do so a thousand times a second. */
static void log_refused(struct broker *b, const struct transport_event *event)
{
	int64_t now = clock_boottime_ns();
	if (b->refused_logged && now - b->refused_logged < REFUSED_NS)
		return;
	log_warning("connections were closed before they said anything", LOG_I("connections", b->refused),
		    LOG_I("pid", event->peer.pid), LOG_I("uid", event->peer.uid), LOG_S("why", event->why));
	b->refused = 0;
	b->refused_logged = now;
}

static bool read_requests(struct broker *b)
{
	int64_t now = 0;
	for (int i = 0; i < REQUESTS_A_TURN; i++) {
		struct transport_event event;
		if (i % REQUESTS_A_TIME == 0)
			now = clock_boottime_ns();
		switch (transport_server_next(b->server, &event)) {
		case TRANSPORT_NOTHING:
			return false;
		case TRANSPORT_REQUEST:
			broker_request(b, &event, now);
			break;
		case TRANSPORT_CONNECTED:
			break;
		case TRANSPORT_GONE:
			if (event.why)
				log_warning("a connection was closed", LOG_I("pid", event.peer.pid),
					    LOG_S("why", event.why));
			broker_gone(b, event.peer.pipe);
			break;
		case TRANSPORT_REFUSED:
			b->refused += event.refused;
			log_refused(b, &event);
			break;
		}
	}
	return true;
}

static void read_signals(struct broker *b, int64_t now)
{
	struct signalfd_siginfo info;
	while (read(b->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			broker_reload(b, false, now);
			continue;
		}
		if (b->stopping) {
			log_warning("second signal: ending at once");
			b->ended = true;
			continue;
		}
		b->stopping = true;
		b->drain_end = now + b->drain;
		program_notify("STOPPING=1");
		log_info("stopping: no more grants; keys, delays and quarantine stay in the region",
			 LOG_I("signal", info.ssi_signo), LOG_I("leases", b->leases.len));
	}
}

static void read_deaths(struct broker *b, int64_t now)
{
	for (struct proc *p; (p = procs_next_dead(&b->procs));) {
		lease_kill_orphans(&b->leases, p);
		roster_kill_orphans(&b->roster, p);
	}
	broker_reap(b, now);
}

struct over {
	struct broker *broker;
	int64_t now;
};

static void lease_is_over(void *ctx, uint32_t slot)
{
	struct over *over = ctx;
	broker_lease_over(over->broker, slot, over->now);
}

/* Looked at in every turn, so that whoever reads the log knows since when. */
static void look_for_lead(struct broker *b, int64_t now)
{
	bool over = lead_over(&b->lead, now);
	if (over != b->fenced)
		log_warning(over ? "this host does not lead: nothing is granted"
				 : "this host leads: keys are granted");
	b->fenced = over;
}

static bool is_drained(struct broker *b, int64_t now)
{
	if (!b->stopping || (b->leases.len && now < b->drain_end && !b->ended))
		return false;
	if (b->leases.len)
		log_warning("ending while keys run: their leases stay in the region",
			    LOG_I("leases", b->leases.len));
	return true;
}

static int timeout_ms(const struct broker *b, int64_t now, int64_t watchdog_at)
{
	int64_t next = MIN(workqueue_next(&b->wq, now), watchdog_at);
	next = MIN(next, crews_next(b, now));
	if (fault("twice"))
		next = MIN(next, now + 50 * (int64_t)NS_PER_MS);
	if (now < b->hold)
		next = MIN(next, b->hold);
	if (b->owing_until)
		next = MIN(next, b->owing_until);
	if (b->fenced)
		next = MIN(next, now + LEAD_LOOK_NS);
	if (b->stopping)
		next = MIN(next, b->drain_end);
	if (next == INT64_MAX)
		return -1;
	if (next <= now)
		return 0;
	/* Rounded up: waking before the time would only turn in circles. */
	return (int)MIN((next - now + NS_PER_MS - 1) / NS_PER_MS, INT64_C(60000));
}

int broker_run(struct broker *b)
{
	int64_t every = program_watchdog_ns(), watchdog_at = every ? 0 : INT64_MAX;
	int64_t look = clock_boottime_ns() + FILES_NS;
	bool more = false;
	int rc = region_ahead_start(&b->region);
	if (rc < 0)
		log_warning("the queue region grows without a thread of its own", LOG_E(-rc));
	while (!is_drained(b, clock_boottime_ns())) {
		struct epoll_event events[TRANSPORT_BATCH];
		int64_t now = clock_boottime_ns();
		int n = epoll_wait(b->epoll, events, ARRAY_SIZE(events),
				   more ? 0 : timeout_ms(b, now, MIN(watchdog_at, look)));
		if (n < 0 && errno != EINTR) {
			log_error("epoll failed", LOG_E(errno));
			return EXIT_FAILURE;
		}
		now = clock_boottime_ns();
		bool transport = transport_server_take(b->server, events, n) || more;
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == EVENT_SIGNAL)
				read_signals(b, now);
			else if (events[i].data.u64 == PROCS_EVENT)
				read_deaths(b, now);
		}
		more = transport && read_requests(b);
		now = clock_boottime_ns();
		look_for_lead(b, now);
		workqueue_tick(&b->wq, now, DUE_A_TURN, lease_is_over, &(struct over){b, now});
		broker_break_leases(b, now);
		broker_collect(b, now);
		broker_await(b, now);
		broker_serve_all(b, now);
		crews_tick(b, now);
		if (now >= watchdog_at) {
			program_notify("WATCHDOG=1");
			watchdog_at = now + every;
		}
		if (now >= look) {
			if (!files_in_place(b))
				return EXIT_FAILURE;
			look = now + FILES_NS;
		}
	}
	return EXIT_SUCCESS;
}
