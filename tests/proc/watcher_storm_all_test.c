/* stormGuard where one event concerns more keys than are told one by one: all of the controller, paced as the few are. No key is
 * lost when the watcher dies on the way, and no other event waits. */
#include "watcher_rig.h"
#include <signal.h>
#include <stdio.h>

enum { SITES = 20000, QPS = 1000, OWNERS = 1500 };

static bool seen[SITES];
static size_t looked, distinct;
static bool own_event; /* one came at the priority of an event of its own */

static void forget(void)
{
	fake_broker_forget(&rig.broker);
	memset(seen, 0, sizeof seen);
	looked = distinct = 0;
	own_event = false;
}

/* So many different sites came since then; each at low priority, but for the one whose event is its own. */
static size_t came(void)
{
	for (; looked < rig.broker.n_keys; looked++) {
		const struct broker_key *k = &rig.broker.keys[looked];
		unsigned n;
		if (strcmp(k->controller, "sites") != 0 || sscanf(k->name, "w%u", &n) != 1 || n >= SITES)
			continue;
		if (*k->cause_kind || k->cause == WIRE_CAUSE_SWEEP)
			CHECK_MSG(k->priority == -100, "%s at %lld", k->name, (long long)k->priority);
		own_event = own_event || k->priority == 0;
		distinct += !seen[n];
		seen[n] = true;
	}
	return distinct;
}

static void put(const char *kind, const char *name, const char *more)
{
	rig_control("{\"op\":\"put\",\"kind\":\"%s\",\"namespace\":\"shop\",\"name\":\"%s\"%s}", kind, name,
		    more);
}

static void all_at_low_priority_and_paced(void)
{
	forget();
	int64_t began = clock_boottime_ns();
	put("Secret", "all", "");
	SAYS(SOON, came() > 0);
	put("ConfigMap", "calm", "");
	put("Website", "w19999", ",\"metadata\":{\"labels\":{\"x\":\"new\"}}");
	SAYS(SOON, fake_broker_count(&rig.broker, "others", "shop", "calm", NULL) > 0);
	SAYS(SOON, (came(), own_event));
	CHECK_MSG(came() < SITES, "all came before what concerns one alone");
	SAYS(120, came() == SITES);
	int64_t took_ms = (clock_boottime_ns() - began) / NS_PER_MS;
	/* a second's worth may go at once */
	CHECK_MSG(took_ms >= (SITES / QPS - 1) * 1000, "%lld ms", (long long)took_ms);
	CHECK(rig_logged("an event concerns very many keys: all of the controller") == 1);
}

/* What a watcher has in mind is lost with it: that all are to be enqueued is written down, and how fast. */
static void none_is_lost_with_the_watcher(void)
{
	unsigned sweeps;
	SAYS(SOON, rig.broker.sweeps > 0);
	forget();
	put("Secret", "all", ",\"data\":{\"x\":\"new\"}");
	SAYS(SOON, came() > SITES / 10);
	rig_kill_watcher();
	CHECK_MSG(came() < SITES, "all came before the watcher was killed");
	forget();
	sweeps = rig.broker.sweeps;
	int64_t began = clock_boottime_ns();
	rig_start_watcher();
	SAYS(120, came() == SITES);
	int64_t took_ms = (clock_boottime_ns() - began) / NS_PER_MS;
	CHECK_MSG(took_ms >= (SITES / QPS - 1) * 1000, "%lld ms", (long long)took_ms);
	SAYS(SOON, rig.broker.sweeps > sweeps);
	CHECK_MSG(rig_logged("an event concerns very many keys") == 1, "it is told once");
}

/* An object with very many owners, and then with none: their keys by its old form. */
static void very_many_owners(void)
{
	struct buf owners = {0};
	buf_puts(&owners, ",\"metadata\":{\"ownerReferences\":[");
	for (int i = 0; i < OWNERS; i++)
		buf_printf(&owners,
			   "%s{\"apiVersion\":\"example.com/"
			   "v1\",\"kind\":\"Website\",\"name\":\"w%d\",\"uid\":\"uid-shop-w%d\"}",
			   i ? "," : "", i, i);
	buf_puts(&owners, "]}");
	const char *const forms[] = {buf_str(&owners), ""};
	for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
		SAYS(SOON, rig_watching("ConfigMap") && rig_watching("Website"));
		forget();
		put("ConfigMap", "shared", forms[f]);
		SAYS(SOON, fake_broker_count(&rig.broker, "others", "shop", "shared", NULL) > 0);
		SAYS(120, came() == SITES);
	}
	buf_done(&owners);
}

int main(void)
{
	rig_start();
	rig_controller("sites", "  for: {apiVersion: example.com/v1, kind: Website}\n"
				"  owns:\n  - {apiVersion: v1, kind: ConfigMap, matchEveryOwner: true}\n"
				"  watches:\n  - {apiVersion: v1, kind: Secret, mapTo: {all: true}}\n"
				"  stormGuard: {keys: 10, qps: 1000}\n");
	rig_controller("others", "  for: {apiVersion: v1, kind: ConfigMap}\n");
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"Website\",\"namespace\":\"shop\",\"name\":\"w\",\"count\":%d}",
	    SITES);
	rig_start_watcher();
	SAYS(120, came() == SITES);
	SAYS(SOON, rig_watching("Secret") && rig_watching("Website") && rig_watching("ConfigMap"));
	SAYS(SOON, rig.broker.sweeps >= 2);
	all_at_low_priority_and_paced();
	none_is_lost_with_the_watcher();
	very_many_owners();
	return check_result();
}
