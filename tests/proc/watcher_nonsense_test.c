/* reconciled-watcher and what no API server should send: each is told, and answered by a list; nothing is lost meanwhile, and memory
 * does not grow with it. */
#include "watcher_rig.h"
#include <stdio.h>

#define MAPS  "v1 ConfigMap"
#define TOPIC "watch v1 ConfigMap"
#define META(members)                                                                                        \
	"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"shop\"" members "}}"
#define ADDED(object) "{\"type\":\"ADDED\",\"object\":" object "}\n"
#define NAME	      ",\"name\":\"odd\""
#define UID	      ",\"uid\":\"odd\""
#define VERSION	      ",\"resourceVersion\":\"1\""
enum { MIB = 1 << 20 };

static const struct nonsense {
	const char *what, *before, *text;
	int repeat;
	const char *after;
	const char *told; /* in the log; NULL: it is taken */
} all[] = {
    {"a login page", "", "<html>please log in</html>", 1, "", "not JSON at byte"},
    {"white space without end", "", "    ", MIB, "", "more than 1 MiB of white space"},
    {"10 MB in one line that is nothing", "", "xxxxxxxxxx", MIB, "\n", "not JSON at byte"},
    {"an event without an object", "", "{\"type\":\"ADDED\"}\n", 1, "", "an event without an object"},
    {"an event whose object is a list", "", ADDED("[]"), 1, "", "an event without an object"},
    {"an event of no type", "", "{\"object\":" META(NAME UID VERSION) "}\n", 1, "", "the unknown type"},
    {"an event of an unknown type", "", "{\"type\":\"RENAMED\",\"object\":" META(NAME UID VERSION) "}\n", 1,
     "", "RENAMED"},
    {"an ERROR that says nothing", "", "{\"type\":\"ERROR\"}\n", 1, "", "the watch ended with status 0"},
    {"no object at all", "", "[1,2,3]\n", 1, "", "an event without an object"},
    {"an object without metadata", "", ADDED("{\"kind\":\"ConfigMap\"}"), 1, "", "no object with metadata"},
    {"a Table", "",
     ADDED("{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{},\"rows\":[]}"), 1, "",
     "metadata.name or namespace is missing"},
    {"an object without a name", "", ADDED(META(UID VERSION)), 1, "",
     "metadata.name or namespace is missing"},
    {"an object without a uid", "", ADDED(META(NAME VERSION)), 1, "",
     "metadata.uid or resourceVersion is missing"},
    {"an object without a version", "", ADDED(META(NAME UID)), 1, "",
     "metadata.uid or resourceVersion is missing"},
    {"a DELETED without a uid", "", "{\"type\":\"DELETED\",\"object\":" META(",\"name\":\"stays\"") "}\n", 1,
     "", "metadata.uid or resourceVersion is missing"},
    {"a name that leads elsewhere", "", ADDED(META(",\"name\":\"../stays\"" UID VERSION)), 1, "",
     "none that an object can have"},
    {"a name that is a number", "", ADDED(META(",\"name\":5" UID VERSION)), 1, "",
     "metadata.name is no text"},
    {"more levels than anybody reads", "{\"type\":\"ADDED\",\"object\":{\"a\":", "[", 10050, "",
     "nested deeper"},
    {"an event of 66 MB", "{\"type\":\"ADDED\",\"object\":{\"a\":\"", "xxxxxxxxxxxxxxxx", 66 * MIB / 16,
     "\"}}\n", "a value of more than 64 MiB"},
    {"an object of 40 MB", "{\"type\":\"ADDED\",\"object\":{\"data\":{\"x\":\"", "xxxxxxxxxxxxxxxx",
     40 * MIB / 16,
     "\"},\"metadata\":{\"namespace\":\"shop\",\"name\":\"odd\",\"uid\":\"odd\",\"resourceVersion\":\"1\"}}}"
     "\n",
     "shop/odd: an object of"},
    /* taken */
    {"a version that is no number", "", ADDED(META(NAME UID ",\"resourceVersion\":\"abc\"")), 1, "", NULL},
    {"the same event over and over", "", ADDED(META(NAME UID ",\"resourceVersion\":\"900\"")), 20000, "",
     NULL},
    {"an object of 10 MB", "{\"type\":\"ADDED\",\"object\":{\"data\":{\"x\":\"", "xxxxxxxxxxxxxxxx",
     10 * MIB / 16,
     "\"},\"metadata\":{\"namespace\":\"shop\",\"name\":\"odd\",\"uid\":\"odd\",\"resourceVersion\":\"901\"}}"
     "}\n",
     NULL},
};

static void put_member(struct buf *b, const char *name, const char *text)
{
	buf_printf(b, ",\"%s\":", name);
	buf_json_string(b, span_of(text));
}

static void send_raw(const struct nonsense *n)
{
	struct buf b = {0};
	buf_printf(&b, "{\"op\":\"send\",\"kind\":\"ConfigMap\",\"repeat\":%d", n->repeat);
	put_member(&b, "before", n->before);
	put_member(&b, "text", n->text);
	put_member(&b, "after", n->after);
	buf_puts(&b, "}");
	rig_control("%s", buf_str(&b));
	buf_done(&b);
}

static size_t peak_mib(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("/proc/%d/status", rig.watcher);
	_cleanup_(free_ptr) char *text = check_read(path);
	size_t kb = 0;
	const char *line = strstr(text, "VmHWM:");
	CHECK(line && sscanf(line, "VmHWM: %zu", &kb) == 1);
	return kb >> 10;
}

static const char *last_name(size_t number)
{
	static char name[32];
	snprintf(name, sizeof name, "calm-%zu", number);
	return name;
}

static void one(const struct nonsense *n, size_t number)
{
	_cleanup_(free_ptr) char *mark = xasprintf("mark-%zu", number);
	fprintf(stderr, "%s\n", n->what);
	SAYS(SOON, rig_watching("ConfigMap"));
	fake_broker_forget(&rig.broker);
	rig_requests_forget();
	size_t told = n->told ? rig_logged(n->told) : 0, wrong = rig_logged("watch has a problem");
	send_raw(n);
	if (n->told)
		SAYS(SOON, rig_logged(n->told) > told);
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}", mark);
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", mark, NULL) >= 1);
	size_t lists = rig_requests("ConfigMap", "list", "limit", NULL);
	CHECK_MSG(n->told ? lists >= 1 : !lists, "%s: %zu lists", n->what, lists);
	CHECK_MSG(n->told || rig_logged("watch has a problem") == wrong, "%s: it is a problem", n->what);
	CHECK_MSG(rig_cache_says(MAPS, "stays", "stays"), "%s: what was there is gone", n->what);
	CHECK_MSG(rig_cache_lacks(MAPS, "odd") == (n->told != NULL), "%s", n->what);
	CHECK_MSG(rig_keys_of("maps") <= 2 + !n->told, "%s: %zu keys", n->what, rig_keys_of("maps"));
	CHECK(rig_heals("ConfigMap", "maps", TOPIC));
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"%s\"}",
		    last_name(number));
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", last_name(number), NULL) >= 1);
	if (!n->told) /* a list finds that no such thing is there */
		rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"error410\"}");
	if (!n->told)
		SAYS(SOON, rig_cache_lacks(MAPS, "odd"));
}

/* Each new watch brings a bookmark, and then nonsense that is never the same twice over. It is told once, and each list waits longer
 * than the one before, though events were understood in between. */
static void again_and_again(void)
{
	enum { TIMES = 4 };
	size_t problems = rig_logged("watch has a problem"), healed = rig_logged("watch healed");
	rig_control(
	    "{\"op\":\"greet\",\"kind\":\"ConfigMap\",\"text\":\"{\\\"type\\\":\\\"BOOKMARK\\\","
	    "\\\"object\\\":{\\\"metadata\\\":{\\\"resourceVersion\\\":\\\"5000\\\"}}}\\nno event\"}");
	rig_requests_forget();
	int64_t began = clock_boottime_ns();
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"garbage\"}");
	SAYS(120, rig_requests("ConfigMap", "list", "limit", NULL) >= TIMES);
	int64_t took_ms = (clock_boottime_ns() - began) / NS_PER_MS, least_ms = 800 * ((1 << TIMES) - 1);
	CHECK_MSG(took_ms >= least_ms, "%d lists in %lld ms", TIMES, (long long)took_ms);
	CHECK_MSG(rig_logged("watch has a problem") == problems + 1, "%zu times",
		  rig_logged("watch has a problem") - problems);
	CHECK_MSG(rig_logged("watch healed") == healed, "a list heals nothing");
	CHECK(fake_broker_state(&rig.broker, "maps", TOPIC, NULL) == WIRE_STATE_FAILED);
	rig_control("{\"op\":\"greet\",\"kind\":\"ConfigMap\",\"text\":\"\"}");
	SAYS(SOON, rig_watching("ConfigMap"));
	CHECK(rig_heals("ConfigMap", "maps", TOPIC));
	CHECK(rig_logged("watch healed") == healed + 1);
}

/* A connection that brings white space alone is as dead as a silent one. */
static void white_space_is_silence(void)
{
	SAYS(SOON, rig_watching("ConfigMap"));
	rig_requests_forget();
	rig_control("{\"op\":\"watches\",\"kind\":\"ConfigMap\",\"how\":\"drip\"}");
	SAYS(SOON, rig_requests("ConfigMap", "watch", "resourceVersion", NULL) >= 1);
	CHECK(rig_logged("nothing came for") >= 1);
}

int main(void)
{
	rig_start();
	rig_controller("maps", "  for: {apiVersion: v1, kind: ConfigMap}\n");
	rig_control("{\"op\":\"put\",\"kind\":\"ConfigMap\",\"namespace\":\"shop\",\"name\":\"stays\"}");
	rig_start_watcher();
	SAYS(SOON, fake_broker_count(&rig.broker, "maps", "shop", "stays", NULL) >= 1);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		one(&all[i], i);
	again_and_again();
	white_space_is_silence();
	/* The most was one value of 64 MiB, in a buffer that doubles. */
	CHECK_MSG(peak_mib() < 400, "%zu MiB at most", peak_mib());
	return check_result();
}
