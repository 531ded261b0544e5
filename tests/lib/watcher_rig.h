/* reconciled-watcher between an API server that misbehaves on demand (watch_server.py) and a broker inside
 * the test (fake_broker.h): for process tests. One per test program. */
#pragma once
#include "fake_broker.h"
#include "http.h"

extern struct rig {
	const char *folder;
	char *runtime, *region, *config, *kubeconfig, *log; /* log: of the watcher */
	struct fake_broker broker;
	struct http_client *http; /* to the API server */
	pid_t watcher;
	const char *idle_timeout; /* of its watches, 20s by default; NULL: its own default */
	struct buf answer;	  /* of the last order to the API server */
} rig;

/* Checks that the condition holds within so many seconds, answering the watcher meanwhile. */
#define SAYS(seconds, ...) CHECK(WAIT_FOR(seconds, (fake_broker_pump(&rig.broker), __VA_ARGS__)))

/* Makes the folders, starts API server and broker. */
void rig_start(void);
void rig_controller(const char *name,
		    const char *spec); /* a file; spec without its reconciler, indented by two */
void rig_reconciled_yaml(const char *text);
void rig_start_watcher(void);
void rig_kill_watcher(void);
size_t rig_logged(const char *text); /* how often the watcher's log has it */

/* An order to the API server, as JSON: watch_server.py lists them. */
void rig_control(const char *fmt, ...) _printf_(1, 2);
/* Requests of this verb since the last rig_requests_forget(); the query's member of the last one in *ret (may
 * be NULL). */
size_t rig_requests(const char *kind, const char *verb, const char *member, struct buf *ret);
/* When one of these came, counted from 0, in seconds of the API server's clock. */
double rig_request_time(const char *kind, const char *verb, size_t which);
size_t rig_lists(const char *kind); /* lists of all forms; pages count one by one */
void rig_requests_forget(void);
int64_t rig_version_now(void);
bool rig_watching(const char *kind);

/* Does the cached object of namespace shop hold this text; is there none? */
bool rig_cache_says(const char *table, const char *name, const char *part);
bool rig_cache_lacks(const char *table, const char *name);
bool rig_cache_cut(const char *table, const char *name); /* only its metadata is there */
/* Sends bookmarks into the kind's watches until the controller's topic is reported healed: after nonsense a watch has to go well for
 * as long as was waited. */
bool rig_heals(const char *kind, const char *controller, const char *topic);
size_t rig_keys_of(const char *controller); /* that came */
