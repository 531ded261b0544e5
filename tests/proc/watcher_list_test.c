/* reconciled-watcher: the streaming list with servers that do not have it, or do not bring it to its end; and then lists that are not
 * older than what was seen, with servers that have them, or are behind. */
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
	SAYS(SOON, rig_logged(LISTED) > lists);
	CHECK(rig_logged(LACKS) == lacks + 1);
	CHECK(rig_requests("ConfigMap", "stream", "watch", NULL) == 1);
	CHECK(rig_requests("ConfigMap", "list", "limit", NULL) == 1);
	SAYS(SOON, rig_watching("ConfigMap"));
	/* Remembered: the next list of any kind is none. */
	rig_requests_forget();
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error410\"}");
	SAYS(SOON, rig_requests("ConfigMap", "list", "limit", NULL) == 1);
	CHECK(rig_requests("ConfigMap", "stream", "watch", NULL) == 0);
	SAYS(SOON, rig_watching("ConfigMap"));
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}", how);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", how, NULL) == 1);
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
	SAYS(SOON, rig_requests("ConfigMap", "stream", "watch", NULL) >= 2);
	CHECK(deletes() == 0 && rig_logged(LISTED) == lists);
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", TOPIC, NULL) != WIRE_STATE_OK);
	streaming("serve");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", gone, &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.priority == -100);
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", TOPIC, NULL) == WIRE_STATE_OK);
	/* What the one before was not yet told to be stored may come again. */
	CHECK(deletes() == 1 && rig_keys_of("maps") <= 2);
	CHECK(rig_cache_says(MAPS, "n9", "n9"));
	/* The watch goes on behind it, on the same request. */
	CHECK(rig_requests("ConfigMap", "watch", "watch", NULL) == 0);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n9\",\"data\":{"
		    "\"a\":\"%s\"}}",
		    how);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "n9", &k) == 1);
	CHECK(k.priority == 0 && rig_requests("ConfigMap", "watch", "watch", NULL) == 0);
	rig_kill_watcher();
}

/* Nobody says why: pages in the end, which work. */
static void a_list_that_never_ends(void)
{
	size_t lists = rig_logged(LISTED), lacks = rig_logged(LACKS);
	streaming("end");
	start();
	SAYS(SOON, rig_logged(LISTED) > lists);
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
	SAYS(SOON, rig_watching("ConfigMap"));
	for (int i = 0; i < 3; i++) {
		char name[16];
		rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"bookmark\"}");
		snprintf(name, sizeof name, "beat%d", i);
		rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}",
			    name);
		SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", name, NULL) == 1);
	}
	size_t lost = rig_logged("watch lost"), silent = rig_logged("nothing came for");
	rig_requests_forget();
	SAYS(SOON, rig_logged("watch lost") > lost);
	CHECK(rig_logged("nothing came for") > silent);
	SAYS(SOON, rig_requests("ConfigMap", "watch", "watch", NULL) >= 1);
	CHECK(rig_lists("ConfigMap") == 0);
	rig_kill_watcher();
}

static void seen_by(const char *how)
{
	_cleanup_(free_ptr) char *text = xasprintf("by=%s", how);
	size_t lists = rig_logged(text);
	start();
	SAYS(SOON, rig_logged(text) == lists + 1);
	SAYS(SOON, rig_watching("ConfigMap"));
}

static bool asked_for(const char *member, int64_t version)
{
	struct buf is = {0};
	char want[24];
	snprintf(want, sizeof want, "%lld", (long long)version);
	bool same = rig_requests("ConfigMap", "list", member, &is) == 1 && span_is(buf_span(&is), want);
	buf_done(&is);
	return same;
}

/* The delete was seen, so a cache of the server that does not know of it is not taken. */
static void a_server_whose_cache_is_behind(bool admitted)
{
	size_t older = rig_logged("and not older than");
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"last\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "last", NULL) >= 1);
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"last\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "last", NULL) == 1);
	rig_kill_watcher();
	rig_control("{\"op\":\"lag\",\"behind\":1,\"admitted\":%s}", admitted ? "true" : "false");
	seen_by("pages");
	CHECK(rig_requests("ConfigMap", "list", "limit", NULL) == 2);
	CHECK(rig_logged("and not older than") == older + !admitted);
	CHECK(!admitted || rig_keys_of("maps") <= 1); /* the delete, as above */
	CHECK(rig_cache_lacks(MAPS, "last"));
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", TOPIC, NULL) == WIRE_STATE_OK);
	rig_kill_watcher();
	rig_control("{\"op\":\"lag\",\"behind\":0}");
}

static void lists_that_are_not_older_than_what_was_seen(void)
{
	struct broker_key k = {0};
	streaming("refuse");
	start();
	SAYS(SOON, rig_watching("ConfigMap"));
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"seen\"}");
	int64_t version = rig_version_now();
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "seen", NULL) == 1);
	rig_kill_watcher();
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"missed\"}");
	seen_by("seen");
	CHECK(asked_for("resourceVersion", version));
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "missed", &k) == 1);
	CHECK(k.priority == -100 && rig_keys_of("maps") <= 2); /* as above */
	a_server_whose_cache_is_behind(true);
	/* No watch has told a version since, and the list's may be one that the server's cache does not get to. */
	seen_by("pages");
	a_server_whose_cache_is_behind(false);
	/* More than a server should hold in memory at once. */
	seen_by("pages");
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"m\",\"count\":10000}");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "m9999", NULL) == 1);
	rig_kill_watcher();
	seen_by("pages");
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
	lists_that_are_not_older_than_what_was_seen();
	return check_result();
}
