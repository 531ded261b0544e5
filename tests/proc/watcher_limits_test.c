/* reconciled-watcher at its limits: a cache without room, an outbox without room. */
#include "watcher_rig.h"
#include <stdio.h>

#define MAPS  "v1 ConfigMap"
#define TOPIC "watch v1 ConfigMap"

static void a_full_cache(void)
{
	const char *message = "";
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"big\","
		    "\"count\":400,\"noise\":20000}");
	rig_start_watcher();
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", TOPIC, &message) == WIRE_STATE_DEGRADED);
	CHECK_MSG(strstr(message, "the cache is full") &&
		      strstr(message, "objects of v1 ConfigMap only the metadata"),
		  "%s", message);
	/* Every key is known, also of those that are not kept whole. */
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "big399", NULL) >= 1);
	CHECK(rig_cache_cut(MAPS, "big399") && rig_cache_says(MAPS, "big0", "noise"));
	/* Another kind is not hurt. */
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"small\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "secrets", "shop", "small", NULL) >= 1);
	for (int i = 0; i < 300; i++)
		rig_control(
		    "{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"big%d\"}",
		    i);
	SAYS(120, fake_broker_state(&rig.broker, "maps", TOPIC, NULL) == WIRE_STATE_OK);
	CHECK(rig_cache_lacks(MAPS, "big7") && rig_cache_says(MAPS, "big399", "noise"));
}

/* The broker does not answer; more keys than the outbox holds. Nothing may be lost: neither changes, which a
 * sweep finds again, nor deletes, which it cannot. */
static void a_full_outbox(void)
{
	enum { N = 1500 };
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"s\",\"count\":%d}",
		    2 * N);
	char last[16];
	snprintf(last, sizeof last, "s%d", 2 * N - 1);
	SAYS(SOON, fake_broker_count(&rig.broker, "secrets", "shop", last, NULL) >= 1);
	fake_broker_forget(&rig.broker);
	rig.broker.hold = true;
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"s\",\"count\":%d,"
		    "\"data\":{\"x\":\"changed\"},"
		    "\"metadata\":{\"labels\":{\"x\":\"changed\"}}}",
		    N);
	SAYS(SOON, rig_cache_says("v1 Secret metadata", "s1499", "changed"));
	for (int i = N; i < 2 * N; i++)
		rig_control("{\"op\":\"delete\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"s%d\"}",
			    i);
	SAYS(SOON, rig_logged("the outbox is full") > 0);
	rig.broker.hold = false;
	fake_broker_restart(&rig.broker);
	SAYS(120, fake_broker_count(&rig.broker, "secrets", "shop", last, NULL) >= 1);
	SAYS(300, rig_cache_lacks("v1 Secret metadata", last));
	for (int i = 0; i < 2 * N; i++) {
		char name[16];
		snprintf(name, sizeof name, "s%d", i);
		SAYS(SOON, fake_broker_count(&rig.broker, "secrets", "shop", name, NULL) >= 1);
	}
	SAYS(SOON, rig.broker.sweeps > 0);
}

int main(void)
{
	rig_start();
	rig_reconciled_yaml("budgets: {cache: 8Mi}\n");
	rig_controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n");
	rig_controller("secrets", "  for: {apiVersion: v1, kind: Secret, metadataOnly: true}\n");
	a_full_cache();
	a_full_outbox();
	return check_result();
}
