/* reconciled-watcher: what is listed and watched, what comes to the broker, what stands in the cache, when
 * the API server or the broker misbehave. */
#include "json_scan.h"
#include "watcher_rig.h"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define MAPS "v1 ConfigMap"

static bool streaming; /* the API server has the streaming list */

/* A new object comes through: everything before it has come, too. */
static void flush(const char *mark)
{
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}", mark);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", mark, NULL) > 0);
}

static void first_list(void)
{
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n\",\"count\":1200,"
	    "\"data\":{\"big\":9007199254740993}}");
	rig_control("{\"op\":\"serve\",\"kind\":\"Website\",\"served\":false}");
	rig_start_watcher();
	rig.broker.want_all = true;
	SAYS(SOON, rig.broker.sweeps > 0 && rig.broker.n_keys >= 1200);
	/* In one piece, or in three pages after one of the tables was told at most once each that it is so. */
	CHECK(rig_requests("ConfigMap", "list", "limit", NULL) == (streaming ? 0 : 3));
	CHECK(rig_requests("ConfigMap", "stream", "watch", NULL) <= 1);
	CHECK(rig_logged("the API server has no streaming list") == !streaming);
	for (int i = 0; i < 1200; i += 100) {
		char name[16];
		struct broker_key k = {0};
		snprintf(name, sizeof name, "n%d", i);
		CHECK(fake_broker_count(&rig.broker, "maps", "shop", name, &k) >= 1);
		CHECK(k.priority == -100);
	}
	SAYS(SOON, rig_cache_says(MAPS, "n7", "9007199254740993"));
	/* Items of a list come without kind and apiVersion, and get them. */
	CHECK(rig_cache_says(MAPS, "n7",
			     streaming ? "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\","
				       : "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","));
	CHECK(!rig_cache_says(MAPS, "n7", "managedFields"));
	SAYS(SOON, rig_watching("ConfigMap"));
}

static void events(void)
{
	struct broker_key k = {0};
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n1\",\"data\":{"
		    "\"a\":\"new\"}}");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "n1", &k) == 1);
	CHECK(k.priority == 0 && k.primary_changed && k.cause == WIRE_CAUSE_UPDATED && !*k.cause_kind);
	CHECK(rig_cache_says(MAPS, "n1", "new"));
	rig_control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n2\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "n2", &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.primary_changed);
	CHECK(rig_cache_lacks(MAPS, "n2"));
	flush("events-done");
	CHECK(rig_keys_of("maps") == 3);
}

static void owners_and_references(void)
{
	struct broker_key k = {0};
	fake_broker_forget(&rig.broker);
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"s\",\"data\":{\"p\":"
	    "\"c2VjcmV0\"},"
	    "\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":"
	    "\"n5\",\"uid\":\"uid-shop-n5\",\"controller\":true}]}}");
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "n5", &k) == 1);
	CHECK(!k.primary_changed && k.cause == WIRE_CAUSE_CREATED && !strcmp(k.cause_kind, "Secret.v1"));
	CHECK(rig_cache_says("v1 Secret metadata", "s", "ownerReferences"));
	CHECK(!rig_cache_says("v1 Secret metadata", "s", "c2VjcmV0"));
	/* The owner of that name has another uid: the reference is to one that is gone. */
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"t\","
	    "\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":"
	    "\"n6\",\"uid\":\"another\",\"controller\":true}]}}");
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"refers\",\"data\":{"
	    "\"secret\":\"named\"}}");
	SAYS(SOON, fake_broker_count(&rig.broker, "refs", "shop", "refers", NULL) == 1);
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"named\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "refs", "shop", "refers", &k) == 2);
	CHECK(!strcmp(k.cause_kind, "Secret.v1"));
	CHECK(fake_broker_count(&rig.broker, "maps", "shop", "n6", NULL) == 0);
	rig_control("{\"op\":\"delete\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"named\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "refs", "shop", "refers", &k) == 3);
	CHECK(k.cause == WIRE_CAUSE_DELETED);
}

/* how: after half an event, by the end of the stream or by a reset. */
static void a_cut_watch_resumes(const char *how)
{
	struct buf rv = {0};
	_cleanup_(free_ptr) char *before = xasprintf("before-%s", how), *after = xasprintf("after-%s", how);
	flush(before);
	int64_t at = rig_version_now();
	rig_requests_forget();
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"%s\"}", how);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"n3\",\"data\":{"
		    "\"a\":\"%s\"}}",
		    after);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "n3", NULL) == 1);
	CHECK(rig_requests("ConfigMap", "watch", "resourceVersion", &rv) >= 1);
	CHECK_MSG(strtoll(buf_str(&rv), NULL, 10) >= at, "resumed from %s, the last event was %lld",
		  buf_str(&rv), (long long)at);
	CHECK(rig_lists("ConfigMap") == 0);
	flush(after);
	CHECK(rig_keys_of("maps") == 2);
	CHECK(fake_broker_count(&rig.broker, "maps", "shop", "half", NULL) == 0);
	buf_done(&rv);
}

static void bookmarks_move_the_resume_point(void)
{
	struct buf rv = {0};
	rig_control(
	    /* moves the version, not this watch */
	    "{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"other\"}");
	int64_t at = rig_version_now();
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"bookmark\"}");
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	rig_requests_forget();
	SAYS(SOON, rig_requests("ConfigMap", "watch", "resourceVersion", &rv) >= 1);
	CHECK(strtoll(buf_str(&rv), NULL, 10) >= at);
	SAYS(SOON, rig_watching("ConfigMap"));
	buf_done(&rv);
}

#define LISTED_MAPS "list complete table=\"v1 ConfigMap\" "

/* Changes, a new one, a deleted one and one replaced, none of which the watch can still tell. */
static void expired(const char *how)
{
	struct broker_key k = {0};
	_cleanup_(free_ptr) char *changed = xasprintf("n10-%s", how), *gone = xasprintf("n11-%s", how),
				 *replaced = xasprintf("n12-%s", how);
	flush(changed);
	flush(gone);
	flush(replaced);
	fake_broker_forget(&rig.broker);
	rig_requests_forget();
	size_t relists = rig_logged("watch expired (410), relisting"), lists = rig_logged(LISTED_MAPS);
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"other\"}");
	if (!strcmp(how, "error410"))
		rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error410\"}");
	else
		rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	/* The server's lock orders these: the watch has its order, and reads nothing new before it ends. */
	rig_control(
	    "{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"watch\",\"status\":503,\"times\":1000}");
	SAYS(SOON, !rig_watching("ConfigMap"));
	/* It lists at once after this one: a list of several pages, between which the changes were seen one by one. */
	SAYS(SOON, strcmp(how, "error410") != 0 || rig_logged(LISTED_MAPS) > lists);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\",\"data\":{"
		    "\"a\":\"gap\"}}",
		    changed);
	rig_control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}",
		    gone);
	rig_control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}",
		    replaced);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\",\"uid\":"
		    "\"second\"}",
		    replaced);
	rig_control("{\"op\":\"compact\",\"how\":\"%s\"}", !strcmp(how, "stream") ? "stream" : "http");
	rig_control("{\"op\":\"heal\"}"); /* not earlier: a watch that is back too soon sees each change */
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", gone, &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.priority == -100 && k.primary_changed);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", changed, NULL) == 1);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", replaced, &k) == 1);
	CHECK(k.primary_changed);
	CHECK(rig_cache_says(MAPS, replaced, "\"second\"") && rig_cache_lacks(MAPS, gone) &&
	      rig_cache_says(MAPS, changed, "gap"));
	if (strcmp(how, "error410") != 0)
		CHECK(rig_logged("watch expired (410), relisting") > relists);
	flush(how);
	CHECK_MSG(rig_keys_of("maps") == 4, "%zu keys came, the unchanged were to stay", rig_keys_of("maps"));
}

static void a_page_that_expired(void)
{
	rig_requests_forget();
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"page2\",\"status\":410,\"reason\":"
		    "\"Expired\"}");
	rig_control("{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"whole\",\"status\":504}");
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error410\"}");
	SAYS(SOON,
	     rig_requests("ConfigMap", "list", "limit", NULL) >= 6); /* whole (504), 1, 2 (410), 1, 2, 3 */
	SAYS(SOON, rig_watching("ConfigMap"));
	flush("page-done");
	CHECK(rig_keys_of("maps") == 1);
}

/* What answers is no API server, or cannot be understood: nothing counts as deleted, and what it was is said. */
static void nonsense_deletes_nothing(void)
{
	static const struct {
		const char *verb, *answer;
		const char *says[2]; /* of a list in pages, of a streaming list; NULL: the same */
	} rows[] = {
	    {"list", "\"html\"", {"200, but the answer is text/html"}},
	    {"list", "\"empty\"", {"ended after 0 bytes", "ended before its end was told"}},
	    {"list", "\"object\"", {"it is no list", "an event without an object"}},
	    {"list", "\"success\"", {"it is no list", "an event without an object"}},
	    {"list", "\"close\"", {"the connection was cut"}},
	    {"list", "\"gzip\"", {"it comes as gzip, which was not asked for"}},
	    {"list", "302", {"redirects to https://login.example.test/start, which is not followed"}},
	    {"watch", "\"html\"", {"200, but the answer is text/html"}},
	    {"watch", "\"gzip\"", {"it comes as gzip, which was not asked for"}},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *message = "", *says = rows[i].says[streaming && rows[i].says[1]];
		fake_broker_forget(&rig.broker);
		size_t lists = rig_logged("list complete");
		rig_control(
		    "{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"%s\",\"status\":%s,\"times\":1000}",
		    rows[i].verb, rows[i].answer);
		rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"%s\"}",
			    *rows[i].verb == 'l' ? "error410" : "end");
		SAYS(SOON,
		     fake_broker_state(&rig.broker, "maps", "watch v1 ConfigMap", &message) != WIRE_STATE_OK);
		CHECK_MSG(strstr(message, says) && !strstr(message, "secret"), "%s %s: %s", rows[i].verb,
			  rows[i].answer, message);
		rig_control("{\"op\":\"heal\"}");
		CHECK(rig_heals("ConfigMap", "maps", "watch v1 ConfigMap"));
		CHECK(rig_logged("list complete") > lists);
		_cleanup_(free_ptr) char *mark = xasprintf("nonsense-%zu", i);
		flush(mark);
		CHECK_MSG(rig_keys_of("maps") == 1, "after %s: %zu keys", rows[i].answer,
			  rig_keys_of("maps"));
		CHECK(rig_cache_says(MAPS, "n7", "n7"));
	}
}

/* An ERROR in the stream: of a server that is busy, and of one that has a problem of its own. */
static void errors_in_a_watch(void)
{
	flush("before-errors");
	rig_requests_forget();
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error429\"}");
	SAYS(SOON, rig_requests("ConfigMap", "watch", "watch", NULL) == 1);
	SAYS(SOON, rig_watching("ConfigMap"));
	CHECK(rig_lists("ConfigMap") == 0);
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error500\"}");
	SAYS(SOON, rig_lists("ConfigMap") >= 1);
	CHECK(rig_heals("ConfigMap", "maps", "watch v1 ConfigMap"));
	flush("errors-done");
	CHECK_MSG(rig_keys_of("maps") == 1, "%zu keys", rig_keys_of("maps"));
}

static void garbage_in_a_watch(void)
{
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"garbage\"}");
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", "watch v1 ConfigMap", NULL) == WIRE_STATE_FAILED);
	CHECK(rig_heals("ConfigMap", "maps", "watch v1 ConfigMap"));
	flush("garbage-done");
	CHECK(rig_keys_of("maps") == 1);
}

static void forbidden(void)
{
	const char *message = "";
	rig_control("{\"op\":\"fail\",\"kind\":\"Secret\",\"verb\":\"watch\",\"status\":403,\"times\":1000,"
		    "\"reason\":\"Forbidden\"}");
	rig_control("{\"op\":\"watches\",\"kind\":\"Secret\",\"how\":\"end\"}");
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", "watch v1 Secret metadata", &message) ==
		       WIRE_STATE_FAILED);
	CHECK_MSG(strstr(message, "resources [\"secrets\"], verbs [\"list\", \"watch\"]") &&
		      strstr(message, "all namespaces"),
		  "%s", message);
	CHECK(fake_broker_state(&rig.broker, "maps", "watch v1 ConfigMap", NULL) == WIRE_STATE_OK);
	fake_broker_forget(&rig.broker);
	flush("others-run-on");
	rig_control("{\"op\":\"heal\"}");
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", "watch v1 Secret metadata", NULL) == WIRE_STATE_OK);
}

static void unauthorized(void)
{
	const char *message = "";
	rig_control("{\"op\":\"fail\",\"kind\":\"Secret\",\"verb\":\"watch\",\"status\":401,\"times\":1000}");
	rig_control("{\"op\":\"watches\",\"kind\":\"Secret\",\"how\":\"end\"}");
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", "watch v1 Secret metadata", &message) ==
		       WIRE_STATE_FAILED);
	CHECK_MSG(strstr(message, "not authenticated") &&
		      strstr(message, "the kubeconfig has no credentials"),
		  "%s", message);
	rig_control("{\"op\":\"heal\"}");
	SAYS(SOON, fake_broker_state(&rig.broker, "maps", "watch v1 Secret metadata", NULL) == WIRE_STATE_OK);
}

static void busy(const char *retry)
{
	_cleanup_(free_ptr) char *mark = xasprintf("before-busy-%s", retry);
	flush(mark);
	rig_requests_forget();
	rig_control("{\"op\":\"fail\",\"kind\":\"ConfigMap\",\"verb\":\"watch\",\"status\":429,\"%s\":4}",
		    retry);
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(SOON, rig_requests("ConfigMap", "watch", "watch", NULL) >= 2);
	double waited = rig_request_time("ConfigMap", "watch", 1) - rig_request_time("ConfigMap", "watch", 0);
	CHECK_MSG(waited > 2, "%.1f s", waited); /* a date has no parts of a second */
	CHECK(rig_lists("ConfigMap") == 0);
	SAYS(SOON, rig_watching("ConfigMap"));
}

static void a_watch_that_closes_at_once(void)
{
	flush("before-short");
	rig_requests_forget();
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(SOON, rig_requests("ConfigMap", "watch", "watch", NULL) >= 1);
	/* The next watch is ended before it has brought anything. */
	SAYS(SOON, rig_watching("ConfigMap"));
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"end\"}");
	SAYS(SOON, rig_lists("ConfigMap") >= 1);
	SAYS(SOON, rig_watching("ConfigMap"));
	fake_broker_forget(&rig.broker);
	flush("short-done");
	CHECK(rig_keys_of("maps") == 1);
}

static void a_silent_watch_is_given_up(void)
{
	flush("before-silence");
	rig_requests_forget();
	SAYS(2 * SOON, rig_requests("ConfigMap", "watch", "watch", NULL) >= 1); /* --watch-idle-timeout */
	CHECK(rig_lists("ConfigMap") == 0);
}

static void a_watcher_that_died(void)
{
	struct broker_key k = {0};
	flush("stays");
	flush("goes");
	flush("changes");
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"child\",\"metadata\":{"
	    "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"n5\",\"uid\":"
	    "\"uid-shop-n5\","
	    "\"controller\":true}]}}");
	SAYS(SOON, rig_cache_says("v1 Secret metadata", "child", "n5"));
	/* What was not acknowledged comes again. */
	rig.broker.hold = true;
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"unacknowledged\"}");
	SAYS(SOON, rig_cache_says(MAPS, "unacknowledged", "name"));
	rig_kill_watcher();
	CHECK(rig_cache_says(MAPS, "n7", "9007199254740993")); /* readable while nobody writes */
	rig.broker.hold = false;
	fake_broker_forget(&rig.broker);
	rig_requests_forget();
	rig_control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"goes\"}");
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"changes\",\"data\":"
	    "{\"x\":\"y\"}}");
	rig_control("{\"op\":\"delete\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"child\"}");
	rig_start_watcher();
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "goes", &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "n5", &k) >= 1); /* its owner */
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.priority == -100 && !strcmp(k.cause_kind, "Secret.v1"));
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "changes", NULL) == 1);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "unacknowledged", NULL) == 1);
	CHECK(!strcmp(rig.broker.keys[0].name, "unacknowledged")); /* the outbox goes first */
	flush("died-done");
	CHECK_MSG(rig_keys_of("maps") - fake_broker_count(&rig.broker, "maps", "shop", "n5", NULL) == 4,
		  "%zu keys came", rig_keys_of("maps"));
}

static void a_broker_that_wants_everything(void)
{
	fake_broker_forget(&rig.broker);
	rig.broker.sweeps = 0;
	rig.broker.want_all = true;
	unsigned hellos = rig.broker.hellos;
	fake_broker_restart(&rig.broker);
	SAYS(90, rig.broker.hellos > hellos && rig.broker.sweeps >= 2);
	struct broker_key k = {0};
	CHECK(fake_broker_count(&rig.broker, "maps", "shop", "n7", &k) == 1);
	CHECK(k.priority == -100 && k.cause == WIRE_CAUSE_SWEEP && !k.primary_changed);
	CHECK(fake_broker_count(&rig.broker, "refs", "shop", "refers", NULL) == 1);
}

static void a_broker_without_room(void)
{
	fake_broker_forget(&rig.broker);
	rig.broker.room = 10;
	for (int i = 0; i < 30; i++)
		rig_control(
		    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"room%d\"}", i);
	SAYS(SOON, rig_cache_says(MAPS, "room29", "name"));
	SAYS(SOON, rig_logged("the broker has no room") > 0 && rig.broker.n_keys == 10);
	rig.broker.room = -1;
	for (int i = 0; i < 30; i++) {
		char name[16];
		snprintf(name, sizeof name, "room%d", i);
		SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", name, NULL) == 1);
	}
}

static void a_kind_that_comes_later(void)
{
	const char *message = "";
	CHECK(fake_broker_state(&rig.broker, "sites", "watch example.com/v1 Website", &message) ==
	      WIRE_STATE_WAITING);
	CHECK_MSG(strstr(message, "kind not served"), "%s", message);
	rig_control("{\"op\":\"serve\",\"kind\":\"Website\",\"served\":true}");
	rig_control("{\"op\":\"put\",\"kind\":\"Website\",\"namespace\":\"shop\",\"name\":\"w\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "w", NULL) >= 1);
	SAYS(SOON,
	     fake_broker_state(&rig.broker, "sites", "watch example.com/v1 Website", NULL) == WIRE_STATE_OK);
	CHECK(rig_logged("no status subresource") >= 1);
}

/* Its definition was deleted and made again, with the objects changed meanwhile. */
static void a_kind_that_goes_and_comes(void)
{
	const char *topic = "watch example.com/v1 Website", *message = "";
	const char *problem = "watch has a problem table=\"example.com/v1 Website\"";
	struct broker_key k = {0};
	size_t problems = rig_logged(problem);
	fake_broker_forget(&rig.broker);
	SAYS(SOON, rig_watching("Website")); /* else there is none yet to end */
	rig_control("{\"op\":\"serve\",\"kind\":\"Website\",\"served\":false}");
	rig_control("{\"op\":\"watches\",\"kind\":\"Website\",\"how\":\"end\"}");
	SAYS(SOON, fake_broker_state(&rig.broker, "sites", topic, &message) == WIRE_STATE_WAITING &&
		       strstr(message, "example.com/v1 is not served"));
	rig_control("{\"op\":\"forget\",\"kind\":\"Website\",\"namespace\":\"shop\",\"name\":\"w\"}");
	rig_control("{\"op\":\"put\",\"kind\":\"Website\",\"namespace\":\"shop\",\"name\":\"w2\"}");
	flush("others-are-not-hurt");
	CHECK(rig_cache_says("example.com/v1 Website", "w", "uid")); /* whether it is gone is not known */
	CHECK(rig_keys_of("sites") == 0);
	rig_control("{\"op\":\"serve\",\"kind\":\"Website\",\"served\":true}");
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "w", &k) == 1);
	CHECK(k.cause == WIRE_CAUSE_DELETED && k.primary_changed);
	SAYS(SOON, fake_broker_count(&rig.broker, "sites", "shop", "w2", NULL) == 1);
	SAYS(SOON, fake_broker_state(&rig.broker, "sites", topic, NULL) == WIRE_STATE_OK);
	CHECK_MSG(rig_logged(problem) == problems + 1, "%zu lines", rig_logged(problem) - problems);
}

static void a_reload(void)
{
	unsigned hellos = rig.broker.hellos;
	fake_broker_forget(&rig.broker);
	rig_requests_forget();
	rig_controller("more", "  for: {apiVersion: v1, kind: ConfigMap, namespaces: [blog, shop], "
			       "labelSelector: {matchLabels: {tier: web}}}\n");
	rig_controller(
	    "refs", "  for: {apiVersion: v1, kind: ConfigMap}\n  watchers: []\n"); /* wrong now: it runs on */
	kill(rig.watcher, SIGHUP);
	SAYS(SOON, rig.broker.hellos > hellos && rig.broker.n_loaded == 4);
	struct buf selector = {0};
	SAYS(SOON, fake_broker_count(&rig.broker, "more", "shop", "n7", NULL) == 1);
	/* Three pages of shop, one of blog, none of the tables that were there, and no streaming list is tried again. */
	CHECK(rig_lists("ConfigMap") == (streaming ? 2 : 4));
	rig_requests("ConfigMap", streaming ? "stream" : "list", "labelSelector", &selector);
	CHECK(!strcmp(buf_str(&selector), "tier=web"));
	CHECK(fake_broker_count(&rig.broker, "maps", "shop", "n7", NULL) == 0);
	fake_broker_forget(&rig.broker);
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"refers\",\"data\":{"
	    "\"secret\":\"elsewhere/x\"}}");
	SAYS(SOON, fake_broker_count(&rig.broker, "refs", "shop", "refers", NULL) == 1);
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"elsewhere\",\"name\":\"x\"}");
	SAYS(SOON, fake_broker_count(&rig.broker, "refs", "shop", "refers", NULL) == 2);
	buf_done(&selector);
}

static void an_end(void)
{
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"last\"}");
	SAYS(SOON, rig_cache_says(MAPS, "last", "name"));
	kill(rig.watcher, SIGTERM);
	int status = -1;
	CHECK(WAIT_FOR(
	    SOON, (fake_broker_pump(&rig.broker), waitpid(rig.watcher, &status, WNOHANG) == rig.watcher)));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(fake_broker_count(&rig.broker, "maps", "shop", "last", NULL) == 1);
}

int main(int argc, char **argv)
{
	streaming = argc > 1 && !strcmp(argv[1], "streaming");
	rig_start();
	rig_control("{\"op\":\"streaming\",\"how\":\"%s\"}", streaming ? "serve" : "refuse");
	rig_controller("maps",
		       "  for: {apiVersion: v1, kind: ConfigMap}\n  owns:\n  - {apiVersion: v1, kind: "
		       "Secret, metadataOnly: true}\n");
	rig_controller("refs",
		       "  for: {apiVersion: v1, kind: ConfigMap}\n  watches:\n  - {apiVersion: v1, kind: "
		       "Secret, mapTo: {index: data.secret}}\n");
	rig_controller("sites", "  for: {apiVersion: example.com/v1, kind: Website}\n");
	first_list();
	events();
	owners_and_references();
	a_cut_watch_resumes("cut");
	a_cut_watch_resumes("reset");
	bookmarks_move_the_resume_point();
	expired("http");
	expired("stream");
	expired("error410");
	if (!streaming)
		a_page_that_expired();
	nonsense_deletes_nothing();
	garbage_in_a_watch();
	errors_in_a_watch();
	forbidden();
	unauthorized();
	busy("retryAfter");
	busy("retryDate");
	a_watch_that_closes_at_once();
	a_silent_watch_is_given_up();
	a_watcher_that_died();
	a_broker_that_wants_everything();
	a_broker_without_room();
	a_kind_that_comes_later();
	a_kind_that_goes_and_comes();
	a_reload();
	an_end();
	return check_result();
}
