/* reconciled-watcher: kinds that go, move to another version and come back; watches that controllers share. */
#include "watcher_rig.h"
#include <signal.h>
#include <stdio.h>

#define SITES "example.com/v1 Website ns=blog,elsewhere,shop"
#define TOPIC "watch " SITES

static void put_site(const char *name, const char *uid)
{
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"Website\",\"namespace\":\"shop\",\"name\":\"%s\",\"uid\":\"%s\","
	    "\"metadata\":{"
	    "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"owner\",\"uid\":"
	    "\"uid-shop-owner\",\"controller\":true}]}}",
	    name, uid);
}

static void the_kind_is(const char *more)
{
	rig_control("{\"op\":\"serve\",\"kind\":\"Website\",\"served\":%s}", more);
	rig_control("{\"op\":\"watches\",\"kind\":\"Website\",\"how\":\"end\"}");
}

/* Of a table's three namespaces one asks whether the kind is served. */
static void a_kind_that_is_not_there_yet(void)
{
	rig_start_watcher();
	SAYS(SOON, fake_broker_state(&rig.broker, "sites", TOPIC, NULL) == WIRE_STATE_WAITING);
	SAYS(SOON, rig_requests("Website", "discover", "watch", NULL) >= 2); /* and one of the other table */
	CHECK(rig_requests("Website", "discover", "watch", NULL) < 4);
	put_site("w", "first");
	put_site("v", "first");
	the_kind_is("true");
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "w", NULL) == 1);
	SAYS(SOON, fake_broker_state(&rig.broker, "sites", TOPIC, NULL) == WIRE_STATE_OK);
	SAYS(SOON, rig_watching("Website"));
	fake_broker_forget(&rig.broker);
	put_site("live", "first");
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "live", NULL) == 1);
	SAYS(SOON, rig_cache_says("example.com/v1 Website", "live",
				  "first")); /* the other table has asked by itself */
}

static void another_version(void)
{
	const char *message = "";
	fake_broker_forget(&rig.broker);
	the_kind_is("false,\"elsewhere\":\"example.com/v2\"");
	SAYS(SOON, fake_broker_state(&rig.broker, "sites", TOPIC, &message) == WIRE_STATE_WAITING &&
		       strstr(message, "served as example.com/v2, not as example.com/v1"));
	CHECK(rig_cache_says(SITES, "w", "first") && rig_keys_of("sites") == 0);
}

static void gone_with_its_objects(void)
{
	struct broker_key k = {0};
	the_kind_is("false");
	SAYS(90, fake_broker_count(&rig.broker, "sites", "shop", "w", &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.priority == -100 && k.primary_changed);
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "v", NULL) == 1);
	/* The other stream of the kind finds out by itself. */
	SAYS(90, fake_broker_count(&rig.broker, "maps", "shop", "owner", &k) >= 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && !strcmp(k.cause_kind, "Website.example.com/v1"));
	CHECK(rig_cache_lacks(SITES, "w"));
	SAYS(SOON, rig_logged("the kind is gone") == 2); /* one for each table */
	CHECK(fake_broker_state(&rig.broker, "sites", TOPIC, NULL) == WIRE_STATE_WAITING);
}

static void back_again(void)
{
	struct broker_key k = {0};
	rig_control("{\"op\":\"forget\",\"kind\":\"Website\",\"namespace\":\"shop\",\"name\":\"v\"}");
	put_site("w", "second");
	fake_broker_forget(&rig.broker);
	the_kind_is("true");
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "w", &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_CREATED && k.primary_changed && rig_cache_says(SITES, "w", "second"));
	SAYS(SOON, fake_broker_state(&rig.broker, "sites", TOPIC, NULL) == WIRE_STATE_OK);
	CHECK(fake_broker_count(&rig.broker, "sites", "shop", "v", NULL) == 0);
}

/* Two controllers that ask for the same have the same requests; one that asks for less of each object has its own. */
static void shared_watches(void)
{
	const char *const names[] = {"one", "two", "less"};
	unsigned hellos = rig.broker.hellos;
	fake_broker_forget(&rig.broker);
	rig_requests_forget();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(free_ptr) char *text =
		    xasprintf("  for: {apiVersion: v1, kind: ConfigMap, namespaces: [blog, shop], "
			      "labelSelector: {matchLabels: {tier: web}}%s}\n",
			      i == 2 ? ", metadataOnly: true" : "");
		rig_controller(names[i], text);
	}
	kill(rig.watcher, SIGHUP);
	SAYS(SOON, rig.broker.hellos > hellos && rig.broker.n_loaded == 5);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		SAYS(SOON, fake_broker_count(&rig.broker, names[i], "shop", "owner", NULL) == 1);
	CHECK(rig_lists("ConfigMap") == 4);
	CHECK(rig_requests("ConfigMap", "watch", "watch", NULL) == 0); /* each list went on as the watch */
	/* What the server sends is taken: this one sends what has no such label, too. */
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"blog\",\"name\":\"plain\"}");
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"other\",\"name\":\"plain\"}");
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"plain\"}");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		SAYS(SOON, fake_broker_count(&rig.broker, names[i], "blog", "plain", NULL) == 1);
		SAYS(SOON, fake_broker_count(&rig.broker, names[i], "shop", "plain", NULL) == 1);
		CHECK(fake_broker_count(&rig.broker, names[i], "other", "plain", NULL) == 0);
	}
}

/* As an aggregated API whose server is away: its kinds wait, and count as neither missing nor gone; all others go on. */
static void a_group_that_cannot_be_read(void)
{
	const char *message = "";
	unsigned hellos = rig.broker.hellos;
	rig_control(
	    "{\"op\":\"fail\",\"kind\":\"Website\",\"verb\":\"discover\",\"status\":503,\"times\":1000}");
	rig_controller("late", "  for: {apiVersion: example.com/v1, kind: Website, labelSelector: "
			       "{matchLabels: {tier: late}}}\n");
	kill(rig.watcher, SIGHUP);
	SAYS(SOON, rig.broker.hellos > hellos);
	SAYS(SOON, fake_broker_state(&rig.broker, "late", "watch example.com/v1 Website labels=tier=late",
				     &message) != WIRE_STATE_OK);
	CHECK_MSG(strstr(message, "group example.com/v1 cannot be read (503)") &&
		      !strstr(message, "not served"),
		  "%s", message);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"meanwhile\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "meanwhile", NULL) == 1);
	put_site("meanwhile", "first");
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "meanwhile", NULL) == 1);
	CHECK(fake_broker_count(&rig.broker, "late", "shop", "w", NULL) == 0);
	rig_control("{\"op\":\"heal\"}");
	SAYS(90, fake_broker_count(&rig.broker, "late", "shop", "w", NULL) == 1);
}

int main(void)
{
	rig.idle_timeout = NULL; /* requests are counted: none is made again because nothing happens */
	rig_start();
	rig_control("{\"op\":\"streaming\",\"how\":\"serve\"}");
	rig_control("{\"op\":\"serve\",\"kind\":\"Website\",\"served\":false}");
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"owner\"}");
	rig_controller(
	    "sites",
	    "  for: {apiVersion: example.com/v1, kind: Website, namespaces: [blog, elsewhere, shop]}\n");
	rig_controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n  owns:\n  - {apiVersion: "
			       "example.com/v1, kind: Website}\n");
	a_kind_that_is_not_there_yet();
	another_version();
	gone_with_its_objects();
	back_again();
	shared_watches();
	a_group_that_cannot_be_read();
	return check_result();
}
