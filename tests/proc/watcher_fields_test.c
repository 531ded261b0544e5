/* cache.fields: what readers see, and who shares a watch. */
#include "watcher_rig.h"

#define WHOLE "v1 ConfigMap"
#define SOME  "v1 ConfigMap keep=data.x,list[*].a"

int main(void)
{
	rig_start();
	rig_controller("whole", "  for: {apiVersion: v1, kind: ConfigMap}\n");
	rig_controller("some", "  for: {apiVersion: v1, kind: ConfigMap}\n"
			       "  cache: {fields: [data.x, 'list[*].a']}\n");
	rig_controller("same",
		       "  for: {apiVersion: v1, kind: ConfigMap}\n"
		       "  cache: {fields: [\"list[*]['a']\", \"data['x']\", metadata.labels, data.x]}\n");
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"listed\","
		    "\"data\":{\"y\":\"left-out\",\"x\":\"kept\"},\"list\":[{\"a\":1,\"b\":2},{}]}");
	rig_start_watcher();
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "watched" : "listed";
		SAYS(SOON, fake_broker_count(&rig.broker, "whole", "shop", name, NULL) >= 1);
		SAYS(SOON, fake_broker_count(&rig.broker, "some", "shop", name, NULL) >= 1);
		SAYS(SOON, fake_broker_count(&rig.broker, "same", "shop", name, NULL) >= 1);
		CHECK(rig_cache_says(SOME, name, "\"data\":{\"x\":\"kept\"},\"list\":[{\"a\":1},{}]}"));
		CHECK(!rig_cache_says(SOME, name, "left-out"));
		CHECK(rig_cache_says(WHOLE, name, "left-out"));
		if (i)
			break;
		/* One watch for the whole, one for both that keep the same. */
		SAYS(SOON, rig_requests("ConfigMap", "watch", "resourceVersion", NULL) >= 2);
		CHECK(rig_requests("ConfigMap", "list", NULL, NULL) == 2);
		rig_control(
		    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"watched\","
		    "\"data\":{\"x\":\"kept\",\"y\":\"left-out\"},\"list\":[{\"b\":2,\"a\":1},{}]}");
	}
	/* What is not kept changes: the resourceVersion does, too, so that is a change. */
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"watched\","
		    "\"data\":{\"x\":\"kept\",\"y\":\"another\"}}");
	SAYS(SOON, fake_broker_count(&rig.broker, "some", "shop", "watched", NULL) >= 1);
	return check_result();
}
