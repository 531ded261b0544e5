/* Programs as predicates and maps: what they answer, how they fail, and that a watcher that is killed loses no event that they were asked about. */
#include "watcher_rig.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is beside the controller files ---- */

static void file_put(const char *name, const char *text, mode_t mode)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", rig.config, name), *new = xasprintf("%s~", path);
	FILE *f = fopen(new, "we");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(new, mode) == 0 && rename(new, path) == 0);
}

static void mode_is(const char *name, const char *mode)
{
	_cleanup_(free_ptr) char *file = xasprintf("%s.mode", name);
	file_put(file, mode, 0644);
}

/* ---- what came ---- */

static size_t came(const char *controller, const char *name, int64_t priority)
{
	size_t n = 0;
	for (size_t i = 0; i < rig.broker.n_keys; i++) {
		const struct broker_key *k = &rig.broker.keys[i];
		n += !strcmp(k->controller, controller) && !strcmp(k->name, name) && k->priority == priority;
	}
	return n;
}

static void put(const char *kind, const char *name, const char *data)
{
	rig_control("{\"op\":\"put\",\"kind\":\"%s\",\"namespace\":\"shop\",\"name\":\"%s\",\"data\":{%s}}",
		    kind, name, data);
}

static bool cached(const char *kind, const char *name, const char *part)
{
	_cleanup_(free_ptr) char *table = xasprintf("v1 %s", kind);
	return rig_cache_says(table, name, part);
}

static bool program_state(const char *part, uint32_t state)
{
	for (size_t i = 0; i < rig.broker.n_told; i++)
		if (strstr(rig.broker.told[i].topic, part))
			return rig.broker.told[i].state == state;
	return state == WIRE_STATE_OK;
}

/* Processes with these two arguments. */
static size_t running(const char *first, const char *second)
{
	size_t n = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		_cleanup_(free_ptr) char *path = xasprintf("/proc/%s/cmdline", e->d_name);
		char text[256] = {0};
		FILE *f = *e->d_name >= '0' && *e->d_name <= '9' ? fopen(path, "re") : NULL;
		size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
		n += len && !strcmp(text, first) && !strcmp(text + strlen(text) + 1, second);
		if (f)
			fclose(f);
	}
	closedir(d);
	return n;
}

/* What a program that hangs has started: for so many seconds nobody else sleeps. */
static char seconds[24];

/* The same for its own name. */
static char script_path[24];

static size_t sleeping(void)
{
	return running("sleep", seconds);
}

/* Killed, and started again until it watches. */
static void restart_watcher(void)
{
	size_t ready = rig_logged("ready tables=");
	rig_kill_watcher();
	SAYS(SOON, !rig.broker.pipe);
	fake_broker_forget(&rig.broker);
	rig_start_watcher();
	SAYS(SOON, rig_logged("ready tables=") > ready);
}

/* ---- the parts ---- */

/* Its timeout is what a slow machine may take for an answer. */
static void map_by(const char *controller, const char *program)
{
	_cleanup_(free_ptr) char *spec =
	    xasprintf("  for: {apiVersion: v1, kind: ConfigMap}\n"
		      "  watches:\n  - {apiVersion: v1, kind: Secret, metadataOnly: false, mapTo: {program: "
		      "{command: [%s, %s], timeout: 5s}}}\n",
		      script_path, program);
	rig_controller(controller, spec);
}

static void maps_old_and_new(void)
{
	put("Secret", "s", "\"sites\":\"a,b\"");
	SAYS(SOON, came("maps", "a", 0) && came("maps", "b", 0));
	fake_broker_forget(&rig.broker);
	put("Secret", "s", "\"sites\":\"b,c\"");
	SAYS(SOON, came("maps", "a", 0) && came("maps", "b", 0) && came("maps", "c", 0));
	CHECK(came("maps", "b", 0) == 1); /* a set */
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"delete\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"s\"}");
	SAYS(SOON, came("maps", "b", 0) && came("maps", "c", 0) && !came("maps", "a", 0));
	fake_broker_forget(&rig.broker);
	/* A delete that is a change, too, concerns what was to be seen before. */
	put("Secret", "moved", "\"sites\":\"here\"");
	SAYS(SOON, came("maps", "here", 0) == 1);
	fake_broker_forget(&rig.broker);
	rig_control(
	    "{\"op\":\"delete\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"moved\",\"data\":{"
	    "\"sites\":\"there\"}}");
	SAYS(SOON, came("maps", "here", 0) == 1);
	put("Secret", "after", "\"sites\":\"after\"");
	SAYS(SOON, came("maps", "after", 0) == 1);
	CHECK(came("maps", "here", 0) == 1 && !came("maps", "there", 0));
	CHECK(rig_logged("deleted: s") == 1 && rig_logged("deleted: moved") == 1);
	fake_broker_forget(&rig.broker);
	/* Another uid under the name is a delete and a create. */
	put("Secret", "u", "\"sites\":\"old\"");
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"u\",\"uid\":"
		    "\"another\",\"data\":{"
		    "\"sites\":\"new\"}}");
	SAYS(SOON, came("maps", "old", 0) == 2 && came("maps", "new", 0) == 1);
	fake_broker_forget(&rig.broker);
}

/* Whatever it does, the event's keys come once it works again, and the cache never waits for it. */
static void fails_then_succeeds(const char *mode, const char *message)
{
	char site[64], data[96];
	size_t told = rig_logged(message);
	snprintf(site, sizeof site, "after-%s", mode);
	snprintf(data, sizeof data, "\"sites\":\"%s\"", site);
	mode_is("map", mode);
	put("Secret", "f", data);
	SAYS(SOON, cached("Secret", "f", site));
	SAYS(SOON, rig_logged(message) > told);
	SAYS(SOON, program_state("mapTo.program", WIRE_STATE_FAILED));
	CHECK(!came("maps", site, 0));
	mode_is("map", "");
	SAYS(SOON, came("maps", site, 0) == 1);
	SAYS(SOON, program_state("mapTo.program", WIRE_STATE_OK));
	fake_broker_forget(&rig.broker);
}

static void hangs_alone(void)
{
	mode_is("map", "hang");
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"h\",\"metadata\":{"
		    "\"annotations\":{"
		    "\"site\":\"seen\"}},\"data\":{\"sites\":\"late\"}}");
	SAYS(SOON, sleeping() > 0);
	/* The other controller has its key of the same watch, although the first one's program stands still. */
	SAYS(SOON, came("index", "seen", 0) == 1);
	CHECK(!came("maps", "late", 0));
	SAYS(SOON, rig_logged("it did not answer within its timeout") > 0);
	mode_is("map", "");
	SAYS(SOON, came("maps", "late", 0) == 1);
	CHECK(sleeping() == 0); /* killed with what it had started */
	fake_broker_forget(&rig.broker);
}

/* One object that the program fails at always does not keep the others waiting. */
static void one_that_always_fails(void)
{
	mode_is("map", "crash-poison");
	put("Secret", "poison", "\"sites\":\"never\"");
	for (int i = 0; i < 10; i++) {
		char name[32], data[64];
		snprintf(name, sizeof name, "good%d", i);
		snprintf(data, sizeof data, "\"sites\":\"%s\"", name);
		put("Secret", name, data);
	}
	SAYS(SOON, came("maps", "good0", 0) && came("maps", "good9", 0));
	CHECK(!came("maps", "never", 0));
	mode_is("map", "");
	SAYS(SOON, came("maps", "never", 0) == 1);
	fake_broker_forget(&rig.broker);
}

static void very_many(void)
{
	size_t complete = rig_logged("sweep complete controller=maps");
	mode_is("map", "many");
	put("Secret", "many", "");
	SAYS(SOON, came("maps", "m0", -100) && came("maps", "m9", -100));
	SAYS(SOON, rig_logged("an event concerns very many keys: all of the controller are enqueued") == 1);
	mode_is("map", "");
	SAYS(SOON, rig_logged("sweep complete controller=maps") > complete);
	fake_broker_forget(&rig.broker);
}

static void killed_before_the_answer(void)
{
	mode_is("map", "hang");
	rig_control("{\"op\":\"delete\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"good0\"}");
	SAYS(SOON, rig_cache_lacks("v1 Secret", "good0") && sleeping() > 0);
	size_t complete = rig_logged("sweep complete controller=maps");
	restart_watcher();
	mode_is("map", "");
	/* Which keys the deleted one had nobody can say any more: all of the `for` kind come. */
	SAYS(SOON, came("maps", "m0", -100) && came("maps", "m9", -100));
	SAYS(SOON, sleeping() == 0);
	SAYS(SOON, rig_logged("sweep complete controller=maps") > complete);
	fake_broker_forget(&rig.broker);
	/* And once they have, a start enqueues nothing. */
	put("Secret", "good1", "\"sites\":\"mapped\"");
	SAYS(SOON, came("maps", "mapped", 0) == 1);
	put("ConfigMap", "settled", ""); /* in a later round of its loop */
	SAYS(SOON, came("maps", "settled", 0) == 1);
	restart_watcher();
	put("Secret", "good1", "\"sites\":\"again\"");
	SAYS(SOON, came("maps", "again", 0) == 1);
	CHECK(!came("maps", "m0", -100));
	fake_broker_forget(&rig.broker);
}

/* A broker that lost its keys gets those of all objects, each time, although the program stands still; and those that it maps later. */
static void everything_is_wanted_meanwhile(void)
{
	mode_is("map", "hang");
	put("Secret", "h", "\"sites\":\"swept\"");
	SAYS(SOON, sleeping() > 0);
	for (int i = 0; i < 2; i++) {
		rig.broker.want_all = true;
		fake_broker_forget(&rig.broker);
		fake_broker_restart(&rig.broker);
		SAYS(SOON, came("maps", "m0", -100) && came("maps", "m9", -100) && came("asks", "m0", -100));
	}
	CHECK(!came("maps", "swept", 0) && !came("maps", "swept", -100));
	size_t complete = rig_logged("sweep complete controller=maps");
	mode_is("map", "");
	SAYS(SOON, came("maps", "swept", 0) && rig_logged("sweep complete controller=maps") > complete);
	fake_broker_forget(&rig.broker);
}

static void full_queue(void)
{
	unsigned sweeps = rig.broker.sweeps;
	mode_is("map", "hang");
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"big\",\"count\":"
		    "100,\"noise\":200000}");
	SAYS(SOON, cached("Secret", "big99", "noise"));
	SAYS(SOON, rig_logged("a program's queue is full") == 1);
	SAYS(SOON, came("maps", "m0", -100) && came("maps", "m9", -100) && rig.broker.sweeps > sweeps);
	CHECK(rig_logged("a program's queue is full") == 1);
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"small\","
		    "\"metadata\":{\"annotations\":{"
		    "\"site\":\"seen\"}}}");
	SAYS(SOON, came("index", "seen", 0) == 1);
	mode_is("map", "");
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"end\",\"data\":{"
		    "\"sites\":\"end\"}}");
	SAYS(SOON, came("maps", "end", 0) == 1 || came("maps", "m0", -100) > 1);
	fake_broker_forget(&rig.broker);
}

static void reloaded(void)
{
	map_by("maps", "other");
	kill(rig.watcher, SIGHUP);
	SAYS(SOON, rig_logged("here is other") == 1);
	SAYS(SOON, running("python3", script_path) == 2); /* other and the predicate's */
	put("Secret", "s", "\"sites\":\"reloaded\"");
	SAYS(SOON, came("maps", "reloaded", 0) == 1);
	/* The same file: the program begins anew, and what it was asked is asked again. */
	mode_is("other", "hang");
	put("Secret", "s", "\"sites\":\"held-up\"");
	SAYS(SOON, sleeping() > 0);
	mode_is("other", "");
	kill(rig.watcher, SIGHUP);
	SAYS(SOON, came("maps", "held-up", 0) == 1);
	fake_broker_forget(&rig.broker);
}

/* ---- predicates ---- */

static void predicate(void)
{
	put("ConfigMap", "p", "\"pass\":\"yes\"");
	SAYS(SOON, came("asks", "p", 0) == 1);
	fake_broker_forget(&rig.broker);
	put("ConfigMap", "p", "\"pass\":\"no\"");
	put("ConfigMap", "q", "");
	SAYS(SOON, came("asks", "q", 0) == 1);
	CHECK(came("asks", "p", 0) == 0 && came("maps", "p", 0) == 1);
	/* Where it fails, the event passes. */
	mode_is("pass", "crash");
	put("ConfigMap", "p", "\"pass\":\"no\",\"a\":\"1\"");
	SAYS(SOON, came("asks", "p", 0) == 1 && program_state("predicates program 1", WIRE_STATE_DEGRADED));
	mode_is("pass", "hang");
	fake_broker_forget(&rig.broker);
	SAYS(SOON, program_state("predicates program 1", WIRE_STATE_OK));
	put("ConfigMap", "p", "\"pass\":\"no\",\"a\":\"2\"");
	SAYS(SOON, came("asks", "p", 0) == 1 && program_state("predicates program 1", WIRE_STATE_DEGRADED));
	SAYS(SOON, program_state("predicates program 1", WIRE_STATE_OK));
	/* A watcher that dies before the answer leaves the key of what is gone in the outbox. */
	fake_broker_forget(&rig.broker);
	rig_control("{\"op\":\"delete\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"q\"}");
	SAYS(SOON, rig_cache_lacks("v1 ConfigMap", "q") && came("maps", "q", 0) && sleeping() > 0);
	CHECK(!came("asks", "q", 0));
	restart_watcher();
	SAYS(SOON, came("asks", "q", 0) > 0);
	mode_is("pass", "");
	fake_broker_forget(&rig.broker);
}

/* How long the first list of many takes, one answer after the other. */
static void many_at_a_start(void)
{
	enum { MANY = 2000 };
	rig_control("{\"op\":\"put\",\"kind\":\"Secret\",\"namespace\":\"shop\",\"name\":\"many\",\"count\":%"
		    "d,\"data\":{"
		    "\"sites\":\"x,y\"}}",
		    MANY);
	map_by("start", "start");
	int64_t begin = clock_boottime_ns();
	kill(rig.watcher, SIGHUP);
	SAYS(4 * SOON, rig_logged("sweep complete controller=start") > 0);
	CHECK(came("start", "x", -100) && came("start", "y", -100) && came("start", "m0", -100));
	printf("first list: %d objects within %lld ms\n", MANY,
	       (long long)((clock_boottime_ns() - begin) / NS_PER_MS));
}

int main(void)
{
	_cleanup_(free_ptr) char *source =
	    xasprintf("%s/tests/lib/asked.py", getenv("SRC") ? getenv("SRC") : ".");
	rig_start();
	chmod(rig.folder, 0755); /* the jail's user comes in here */
	chmod(rig.config, 0755);
	_cleanup_(free_ptr) char *script = check_read(source);
	snprintf(seconds, sizeof seconds, "9%07d", getpid());
	snprintf(script_path, sizeof script_path, "./asked-%d.py", getpid());
	file_put("seconds", seconds, 0644);
	file_put(script_path, script, 0755);
	map_by("maps", "map");
	rig_controller("index", "  for: {apiVersion: v1, kind: ConfigMap}\n"
				"  watches:\n  - {apiVersion: v1, kind: Secret, metadataOnly: false, mapTo: "
				"{annotation: site}}\n");
	_cleanup_(free_ptr) char *asks =
	    xasprintf("  for: {apiVersion: v1, kind: ConfigMap, predicates: [ResourceVersionChanged, "
		      "{program: {command: [%s, pass], timeout: 5s}}]}\n",
		      script_path);
	rig_controller("asks", asks);
	rig_control(
	    "{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"m\",\"count\":10}");
	put("ConfigMap", "hidden", "\"pass\":\"no\"");
	put("Secret", "first", "\"sites\":\"nowhere,hidden\"");
	rig_start_watcher();
	/* The first list: a map's keys, objects or not; a predicate's. */
	SAYS(SOON,
	     came("maps", "nowhere", -100) == 1 && came("maps", "m9", -100) && came("maps", "hidden", -100));
	SAYS(SOON, came("asks", "m0", -100) && came("asks", "m9", -100));
	SAYS(SOON, rig_watching("Secret") && rig_watching("ConfigMap") && rig.broker.sweeps >= 3);
	CHECK(!came("asks", "hidden", -100));
	fake_broker_forget(&rig.broker);
	maps_old_and_new();
	fails_then_succeeds("exit", "it ended without having answered (exit status 3)");
	fails_then_succeeds("crash", "it ended without having answered (SIGSEGV");
	fails_then_succeeds("nonsense", "a line that is no JSON object: \\\"Good morning");
	fails_then_succeeds("uid", "it answered a question of uid 1234567");
	hangs_alone();
	one_that_always_fails();
	very_many();
	killed_before_the_answer();
	everything_is_wanted_meanwhile();
	full_queue();
	reloaded();
	predicate();
	many_at_a_start();
	return check_result();
}
