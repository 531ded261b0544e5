/* stormGuard: one event that concerns very many keys enters at low priority, so many a second, and holds up nothing else. */
#include "watcher_rig.h"
#include <stdio.h>

enum { MAPS = 300 };

static size_t storm_keys(void)
{
	size_t n = 0;
	for (size_t i = 0; i < rig.broker.n_keys; i++)
		n += !strcmp(rig.broker.keys[i].cause_kind, "Secret.v1");
	return n;
}

int main(void)
{
	struct broker_key k = {0};
	rig_start();
	rig_controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n"
			       "  watches:\n  - {apiVersion: v1, kind: Secret, mapTo: {all: true}}\n"
			       "  stormGuard: {keys: 10, qps: 5}\n");
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"m\",\"count\":%d}",
	    MAPS);
	rig_start_watcher();
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "m299", NULL) > 0);
	SAYS(SOON, rig_watching("Secret") && rig_watching("ConfigMap") && rig.broker.sweeps > 0);
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"all\"}");
	SAYS(SOON, storm_keys() > 0);
	/* A minute's worth of keys waits; an event of its own takes one of them out of the line. */
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"m299\","
		    "\"data\":{\"x\":\"new\"}}");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "m299", &k) > 0 && k.priority == 0);
	CHECK_MSG(rig.broker.n_keys < MAPS, "all came before the one of an event of its own");
	SAYS(3 * SOON, rig.broker.n_keys >= MAPS);
	for (size_t i = 0; i < rig.broker.n_keys; i++)
		CHECK_MSG(rig.broker.keys[i].priority == (strcmp(rig.broker.keys[i].name, "m299") ? -100 : 0),
			  "%s: %lld", rig.broker.keys[i].name, (long long)rig.broker.keys[i].priority);
	CHECK(rig_logged("an event concerns very many keys") == 1);
	return check_result();
}
