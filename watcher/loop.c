/* The one thread's loop: streams, broker and outbox have their turn, then all wait together. */
#include "log.h"
#include "watcher.h"
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FLUSH_NS       (5 * NS_PER_S)		 /* for keys and answers on their way at the end */
#define FINISH_LOOK_NS (20 * (int64_t)NS_PER_MS) /* between two looks whether anything still runs */
#define FILES_NS       (5 * NS_PER_S) /* between two looks whether the cache's files are in place */

/* ---- readiness ---- */

struct readiness {
	size_t synced, tables;
	bool ready;
};

static struct readiness readiness(const struct watcher *w)
{
	struct readiness r = {.tables = w->n_informers, .ready = true};
	for (size_t i = 0; i < w->n_informers; i++) {
		const struct informer *f = w->informers[i];
		bool listed = true, told = false;
		for (size_t n = 0; n < f->n_streams; n++) {
			listed = listed && (f->streams[n].listed || f->streams[n].dormant);
			told = told || f->streams[n].told;
		}
		r.synced += listed;
		r.ready = r.ready && (listed || told);
	}
	return r;
}

static void tell_readiness(const struct watcher *w, struct readiness *told)
{
	struct readiness now = readiness(w);
	if (now.synced == told->synced && now.tables == told->tables && now.ready == told->ready)
		return;
	program_notify("STATUS=%zu of %zu tables synced", now.synced, now.tables);
	if (now.ready && !told->ready) {
		program_notify("READY=1");
		log_info("ready", LOG_I("tables", now.tables), LOG_I("synced", now.synced));
	}
	now.ready = now.ready || told->ready; /* READY is said once */
	*told = now;
}

/* ---- the loop ---- */

static int64_t next_due(const struct watcher *w)
{
	int64_t due = MIN(MIN(broker_due_ns(w->broker), delivery_due_ns(w)), campaign_due_ns(w));
	due = MIN(due, MIN(resync_due_ns(w), askers_due_ns(w)));
	due = w->store_busy ? 0 : due;
	for (size_t i = 0; i < w->n_informers; i++) {
		if (informer_cut(w->informers[i]))
			due = MIN(due, w->informers[i]->heal_at_ns);
		for (size_t n = 0; n < w->informers[i]->n_streams; n++) {
			const struct stream *s = &w->informers[i]->streams[n];
			due = s->dormant || s->exchange ? due : MIN(due, s->due_ns);
		}
	}
	return due;
}

static void act(struct watcher *w)
{
	int64_t now = w->acted_ns = clock_boottime_ns();
	for (size_t i = 0; i < w->n_informers && !w->stopping; i++)
		for (size_t n = 0; n < w->informers[i]->n_streams; n++)
			stream_act(&w->informers[i]->streams[n], now);
	for (size_t i = 0; i < w->n_informers && !w->stopping; i++)
		informer_heal(w->informers[i], now);
	campaign_run(w, now);
	broker_run(w->broker, now);
	if (!w->stopping)
		resync_run(w, now);
	askers_run(w, now);
	delivery_run(w, now);
	progress_run(w, now);
	w->store_busy = store_work(w->store);
}

/* The first n of fds are the loop's own. */
static void wait_for(struct watcher *w, struct pollfd *own, size_t n, int64_t until_ns)
{
	w->fds = xrealloc(w->fds, (n + ASKER_FDS * askers_count(w)) * sizeof *w->fds);
	memcpy(w->fds, own, n * sizeof *own);
	size_t all = n + askers_poll(w, w->fds + n);
	int64_t left = until_ns == INT64_MAX ? INT64_MAX : until_ns - clock_boottime_ns();
	int timeout_ms = left <= 0 ? 0 : (int)MIN(left / NS_PER_MS + 1, INT64_C(60000));
	http_run(w->http, w->fds, all, timeout_ms);
	memcpy(own, w->fds, n * sizeof *own);
}

static bool flushed(const struct watcher *w)
{
	bool to_send = outbox_used(w->outbox) > outbox_held(w->outbox) && !campaign_follows(w);
	return !broker_ready(w->broker) || (!to_send && broker_idle(w->broker) && askers_are_idle(w));
}

/* What is on its way is sent; what cannot be sent stays in the outbox for the next watcher. Then the Lease is given back. */
static void finish(struct watcher *w, struct pollfd *fds)
{
	int64_t now = clock_boottime_ns(), end = now + FLUSH_NS;
	campaign_close(w);
	while ((now < end && !flushed(w)) || !campaign_ended(w, now)) {
		act(w);
		program_notify("WATCHDOG=1");
		wait_for(w, fds, 2, MIN(now + FINISH_LOOK_NS, next_due(w)));
		struct signalfd_siginfo signal;
		if (fds[1].revents && read(fds[1].fd, &signal, sizeof signal) == sizeof signal &&
		    signal.ssi_signo != SIGHUP)
			return; /* the second one ends at once */
		now = clock_boottime_ns();
	}
}

/* Workers that start now would not find the cache. What is in it stands in the API server: the next start makes it anew. */
static bool files_in_place(const struct watcher *w)
{
	const char *missing = store_missing(w->store);
	if (missing)
		log_error("a file of the cache was deleted while it is in use; ending, so that the next "
			  "start makes the "
			  "cache anew",
			  LOG_S("path", missing));
	return !missing;
}

int loop_run(struct watcher *w, int signals)
{
	struct pollfd fds[2] = {{.events = POLLIN}, {.fd = signals, .events = POLLIN}};
	struct readiness told = {.tables = SIZE_MAX};
	int64_t watchdog = program_watchdog_ns(), kick = watchdog ? clock_boottime_ns() : INT64_MAX;
	int64_t look = clock_boottime_ns() + FILES_NS;
	while (!w->stopping) {
		act(w);
		tell_readiness(w, &told);
		fds[0].fd = broker_fd(w->broker); /* another one when the connection is */
		wait_for(w, fds, 2, MIN(next_due(w), MIN(kick, look)));
		struct signalfd_siginfo signal;
		if (fds[1].revents && read(signals, &signal, sizeof signal) == sizeof signal) {
			if (signal.ssi_signo == SIGHUP)
				reload(w);
			else
				w->stopping = true;
		}
		if (clock_boottime_ns() >= kick) {
			program_notify("WATCHDOG=1");
			kick = clock_boottime_ns() + watchdog;
		}
		if (clock_boottime_ns() >= look) {
			if (!files_in_place(w))
				return EXIT_FAILURE;
			look = clock_boottime_ns() + FILES_NS;
		}
	}
	program_notify("STOPPING=1");
	log_info("stopping");
	for (size_t i = 0; i < w->n_informers; i++)
		for (size_t n = 0; n < w->informers[i]->n_streams; n++)
			stream_stop(&w->informers[i]->streams[n]);
	finish(w, fds);
	return EXIT_SUCCESS;
}
