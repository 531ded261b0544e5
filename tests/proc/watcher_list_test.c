/* reconciled-watcher: the streaming list with servers that do not have it, or do not bring it to its end. */
#include "watcher_rig.h"
#include <stdio.h>

#define MAPS   "v1 ConfigMap"
#define TOPIC  "watch v1 ConfigMap"
#define LACKS  "the API server has no streaming list"
#define LISTED "list complete table=\"v1 ConfigMap\""

static void streaming(const char *how)
{
	rig_control("{\"op\":\"streaming\",\"how\":\"%s\"}", how);
}

static void start(void)
{
	fake_broker_forget(&rig.broker);
	rig_requests_forget();
	rig_start_watcher();
}

/* It never heard of the parameter: everything comes, and no end of it. */
static void a_server_that_does_not_know_it(const char *how)
{
	size_t lacks = rig_logged(LACKS), lists = rig_logged(LISTED);
	streaming(how);
	start();
	SAYS(30, rig_logged(LISTED) > lists);
	CHECK(rig_logged(LACKS) == lacks + 1);
	CHECK(rig_requests("ConfigMap", "stream", "watch", NULL) == 1);
	CHECK(rig_requests("ConfigMap", "list", "limit", NULL) == 1);
	SAYS(20, rig_watching("ConfigMap"));
	/* Remembered: the next list of any kind is none. */
	rig_requests_forget();
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error410\"}");
	SAYS(20, rig_requests("ConfigMap", "list", "limit", NULL) == 1);
	CHECK(rig_requests("ConfigMap", "stream", "watch", NULL) == 0);
	SAYS(20, rig_watching("ConfigMap"));
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}", how);
	SAYS(20, fake_broker_count(&rig.broker, "maps", "shop", how, NULL) == 1);
	rig_kill_watcher();
}

static size_t deletes(void)
{
	size_t n = 0;
	for (size_t i = 0; i < rig.broker.n_keys; i++)
		n += rig.broker.keys[i].cause == WIRE_CAUSE_DELETED;
	return n;
}

/* What did not come before the end is not gone. */
static void a_list_without_its_end(const char *how)
{
	size_t lists = rig_logged(LISTED);
	struct broker_key k = {0};
	_cleanup_(free_ptr) char *gone = xasprintf("gone-%s", how);
	streaming(how);
	rig_control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}",
		    gone);
	start();
	SAYS(30, rig_requests("ConfigMap", "stream", "watch", NULL) >= 2);
	CHECK(deletes() == 0 && rig_logged(LISTED) == lists);
	SAYS(20, fake_broker_state(&rig.broker, "maps", TOPIC, NULL) != WIRE_STATE_OK);
	streaming("serve");
	SAYS(30, fake_broker_count(&rig.broker, "maps", "shop", gone, &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.priority == -100);
	SAYS(20, fake_broker_state(&rig.broker, "maps", TOPIC, NULL) == WIRE_STATE_OK);
	/* What the one before was not yet told to be stored may come again. */
	CHECK(deletes() == 1 && rig_keys_of("maps") <= 2);
	CHECK(rig_cache_says(MAPS, "n9", "n9"));
	/* The watch goes on behind it, on the same request. */
	CHECK(rig_requests("ConfigMap", "watch", "watch", NULL) == 0);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n9\",\"data\":{"
		    "\"a\":\"%s\"}}",
		    how);
	SAYS(20, fake_broker_count(&rig.broker, "maps", "shop", "n9", &k) == 1);
	CHECK(k.priority == 0 && rig_requests("ConfigMap", "watch", "watch", NULL) == 0);
	rig_kill_watcher();
}

/* Nobody says why: pages in the end, which work. */
static void a_list_that_never_ends(void)
{
	size_t lists = rig_logged(LISTED), lacks = rig_logged(LACKS);
	streaming("end");
	start();
	SAYS(60, rig_logged(LISTED) > lists);
	CHECK(rig_requests("ConfigMap", "stream", "watch", NULL) == 3);
	CHECK(rig_requests("ConfigMap", "list", "limit", NULL) == 1 && rig_logged(LACKS) == lacks);
	CHECK(rig_keys_of("maps") <= 1);
	rig_kill_watcher();
}

/* Nobody says how long a watch may be silent but the server's bookmarks, as long as they come. */
static void bookmarks_that_stay_away(void)
{
	rig.idle_timeout = NULL;
	streaming("serve");
	start();
	SAYS(20, rig_watching("ConfigMap"));
	for (int i = 0; i < 3; i++) {
		char name[16];
		rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"bookmark\"}");
		snprintf(name, sizeof name, "beat%d", i);
		rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}",
			    name);
		SAYS(20, fake_broker_count(&rig.broker, "maps", "shop", name, NULL) == 1);
	}
	size_t lost = rig_logged("watch lost");
	rig_requests_forget();
	SAYS(60, rig_logged("watch lost") == lost + 1);
	CHECK(rig_logged("nothing came for 10000 ms") == 1);
	SAYS(20, rig_requests("ConfigMap", "watch", "watch", NULL) == 1);
	CHECK(rig_lists("ConfigMap") == 0);
	rig_kill_watcher();
}

int main(void)
{
	rig_start();
	rig_controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n");
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n\",\"count\":100}");
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"gone-cut\"}");
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"gone-end\"}");
	a_server_that_does_not_know_it("ignore");
	a_server_that_does_not_know_it("unmarked");
	a_list_without_its_end("cut");
	a_list_without_its_end("end");
	a_list_that_never_ends();
	bookmarks_that_stay_away();
	return check_result();
}
