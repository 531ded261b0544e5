/* PROGRESS: what the watcher says of how far its streams are, to whom waits for it, and only after the keys. */
#include "watcher_rig.h"
#include <signal.h>
#include <stdio.h>

static struct wire_place place_of(const char *controller, const char *namespace, const char *name)
{
	struct broker_key k = {0};
	CHECK(fake_broker_count(&rig.broker, controller, namespace, name, &k) > 0);
	return k.event;
}

static void put(const char *kind, const char *namespace, const char *name)
{
	rig_control("{\"op\":\"put\",\"kind\":\"%s\",\"namespace\":\"%s\",\"name\":\"%s\"}", kind, namespace,
		    name);
}

static void await(struct wire_place place)
{
	SAYS(SOON, rig.broker.progress != NULL);
	CHECK(fake_broker_await(&rig.broker, &place, 1));
}

static bool has_passed(struct wire_place place)
{
	return fake_broker_passed(&rig.broker, place.table, place.stream) >= place.resource_version;
}

/* Before the last PROGRESS. Only of the controller whose stream it tells of: the same object comes to "two" by a watch of its own, at its
 * own time. */
static bool came_before(const char *controller, const char *name)
{
	for (size_t i = 0; i < rig.broker.keys_before; i++)
		if (strcmp(rig.broker.keys[i].controller, controller) == 0 &&
		    strcmp(rig.broker.keys[i].name, name) == 0)
			return true;
	return false;
}

/* A list shows what may have happened in several steps: only an event names its version. */
static void keys_name_their_event(void)
{
	struct broker_key k = {0};
	put("ConfigMap", "shop", "listed");
	rig.broker.want_all = true;
	rig_start_watcher();
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "listed", &k) > 0);
	CHECK(k.event.resource_version == 0);
	SAYS(SOON, rig_watching("ConfigMap") && rig_watching("Website"));
	put("ConfigMap", "shop", "a");
	uint64_t version = (uint64_t)rig_version_now();
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "a", NULL) &&
		       fake_broker_count(&rig.broker, "two", "shop", "a", NULL));
	struct wire_place all = place_of("maps", "shop", "a"), two = place_of("two", "shop", "a");
	CHECK(all.resource_version == version && all.stream == 0);
	CHECK(two.resource_version == version && two.stream == 1 && two.table != all.table);
	rig_control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"a\"}");
	version = (uint64_t)rig_version_now();
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "a", &k) == 2);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.event.resource_version == version);
}

static void nothing_is_said_while_nobody_waits(void)
{
	SAYS(SOON, rig.broker.progress != NULL);
	CHECK(rig.broker.progresses == 1 && rig.broker.n_passed == 0);
	put("ConfigMap", "shop", "b");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "b", NULL));
	CHECK(rig.broker.progresses == 1);
}

static void what_is_passed_already_is_told_at_once(void)
{
	struct wire_place b = place_of("maps", "shop", "b");
	await(b);
	SAYS(SOON, has_passed(b));
	SAYS(SOON, rig.broker.progress != NULL);
}

static void what_is_to_come_is_told_when_it_came(void)
{
	struct wire_place next = place_of("maps", "shop", "b");
	next.resource_version = (uint64_t)rig_version_now() + 1;
	unsigned before = rig.broker.progresses;
	await(next);
	SAYS(SOON, rig.broker.progresses > before); /* how far it is now */
	CHECK(!has_passed(next));
	put("ConfigMap", "shop", "c");
	SAYS(SOON, has_passed(next));
	CHECK(fake_broker_count(&rig.broker, "maps", "shop", "c", NULL) == 1);
	CHECK(came_before("maps", "c"));
	CHECK(rig_cache_says("v1 ConfigMap", "c", "name"));
}

/* A write that no event of this watch shows: the stream passes it by a bookmark. */
static void a_bookmark_is_progress(void)
{
	struct wire_place next = place_of("maps", "shop", "c");
	put("Secret", "shop", "other");
	next.resource_version = (uint64_t)rig_version_now();
	await(next);
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"bookmark\"}");
	SAYS(SOON, has_passed(next));
}

static void a_list_is_progress(void)
{
	struct wire_place next = place_of("maps", "shop", "c");
	put("Secret", "shop", "another");
	rig_control("{\"op\":\"compact\",\"how\":\"http\"}");
	next.resource_version = (uint64_t)rig_version_now();
	await(next);
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(SOON, has_passed(next));
	SAYS(SOON, rig_watching("ConfigMap"));
}

static void a_stream_that_is_not_there_is_said_so(void)
{
	struct wire_place none = {.table = 511, .resource_version = 5},
			  second = place_of("maps", "shop", "c");
	second.stream = 1;
	await(none);
	SAYS(SOON, fake_broker_passed(&rig.broker, 511, 0) == UINT64_MAX);
	await(second);
	SAYS(SOON, fake_broker_passed(&rig.broker, second.table, 1) == UINT64_MAX);
}

/* While keys of the stream are in the outbox it is not said to have passed them; another controller's stream is not kept waiting. */
static void keys_come_first(void)
{
	struct wire_place next = place_of("maps", "shop", "c");
	put("Website", "shop", "site");
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "site", NULL) == 1);
	struct wire_place site = place_of("sites", "shop", "site");
	/* Four messages on their way is what the watcher allows itself. */
	rig.broker.hold = true;
	unsigned told = rig.broker.progresses;
	for (int i = 0; i < 8; i++) {
		char name[16];
		snprintf(name, sizeof(name), "held%d", i);
		put("ConfigMap", "shop", name);
		SAYS(SOON, rig_cache_says("v1 ConfigMap", name, "name"));
	}
	next.resource_version = (uint64_t)rig_version_now();
	site.resource_version = next.resource_version;
	SAYS(SOON, rig.broker.progress != NULL);
	CHECK(rig.broker.progresses == told);
	CHECK(fake_broker_await(&rig.broker, (const struct wire_place[]){next, site}, 2));
	rig_control("{\"op\":\"watches\",\"kind\":\"Website\",\"how\":\"bookmark\"}");
	SAYS(SOON, has_passed(site));
	CHECK(!has_passed(next));
	/* What was on its way is lost, and sent again; who waits must say so again. */
	rig.broker.hold = false;
	fake_broker_restart(&rig.broker);
	rig.broker.n_passed = 0;
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "held7", NULL) == 1);
	CHECK(!has_passed(next));
	await(next);
	SAYS(SOON, has_passed(next));
	for (int i = 0; i < 8; i++) {
		char name[16];
		snprintf(name, sizeof(name), "held%d", i);
		CHECK_MSG(came_before("maps", name), "%s came after it was told", name);
	}
}

int main(void)
{
	rig_start();
	rig_controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n");
	rig_controller("two", "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [blog, shop]}\n");
	rig_controller("sites", "  for: {apiVersion: example.com/v1, kind: Website}\n");
	keys_name_their_event();
	nothing_is_said_while_nobody_waits();
	what_is_passed_already_is_told_at_once();
	what_is_to_come_is_told_when_it_came();
	a_bookmark_is_progress();
	a_list_is_progress();
	a_stream_that_is_not_there_is_said_so();
	keys_come_first();
	return check_result();
}
