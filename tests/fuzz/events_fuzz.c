/* What lists and watches bring, into a real store and outbox: the handlers of stream_items.c and informer.c, without a connection.
 *
 * Input: what it is (a watch or a list; a text as it is or one that is made), then the text, or choices of six bytes for each event.
 * Checked after each event: refused, it changed nothing; taken, the cache has the object, or has it no more; what changed is in the
 * outbox, under names that objects can have; every object of the cache can be read. After a list what it did not bring is gone. */
#include "fuzz.h"
#include "log.h"
#include "watcher/stream_internal.h"
#include <ftw.h>
#include <unistd.h>

static char folder[] = "/dev/shm/reconciled-fuzz.XXXXXX";
static struct watcher w;
static struct informer maps;
static struct stream stream;
static struct controller controller;
static struct sub subs[3];
static bool swept; /* everything of the controller is enqueued: no key need be in the outbox */

/* ---- what the handlers ask of the rest ---- */

void controller_want_sweep(struct controller *c, uint32_t cause)
{
	(void)c, (void)cause;
	swept = true;
}
void controller_want_paced_sweep(struct controller *c)
{
	(void)c;
	swept = true;
}
int ask_change(struct sub *s, const struct change *c)
{
	(void)s, (void)c;
	FUZZ_CHECK(false, "there is no program");
	return 0;
}
int ask_create(struct sub *s, const struct object *o, enum question_why why, struct keys *out)
{
	(void)s, (void)o, (void)why, (void)out;
	FUZZ_CHECK(false, "there is no program");
	return 0;
}
void progress_seen(struct stream *s)
{
	FUZZ_CHECK(s->version && *s->version, "a version that is none");
}
void stream_report_ok(struct stream *s)
{
	(void)s;
}
void stream_relist(struct stream *s)
{
	(void)s;
}
struct span stream_namespace(const struct stream *s)
{
	return s->namespace;
}
bool campaign_follows(const struct watcher *c)
{
	(void)c;
	return false;
}
void informer_report(const struct informer *i)
{
	(void)i;
}
int64_t stream_watch_idle_ms(const struct exchange *x)
{
	(void)x;
	return 1000;
}
void __wrap_http_idle_timeout(struct http_transfer *t, int64_t ms);
void __wrap_http_idle_timeout(struct http_transfer *t, int64_t ms)
{
	(void)t, (void)ms;
}

/* ---- the world ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void remove_folder(void)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void begin(void)
{
	static struct config_watch watches[] = {
	    {.kind = {.api_version = (char *)"v1", .kind = (char *)"ConfigMap"},
	     .map = MAP_SELF,
	     .predicates_given = true},
	    {.kind = {.api_version = (char *)"v1", .kind = (char *)"ConfigMap"},
	     .map = MAP_LABEL,
	     .map_key = (char *)"app",
	     .predicates_given = true},
	    {.kind = {.api_version = (char *)"v1", .kind = (char *)"ConfigMap"},
	     .map = MAP_INDEX,
	     .map_key = (char *)"spec.ref",
	     .predicates_given = true}};
	static struct config_controller config = {.storm_keys = 1, /* more are paced */
						  .storm_qps = 100,
						  .name = (char *)"fuzz",
						  .watches = watches,
						  .watch_count = 3};
	static struct sub *pointers[] = {&subs[0], &subs[1], &subs[2]};
	static struct refindex *references[1];
	struct err why, err;
	bool lost;
	log_init("events_fuzz", LOG_LEVEL_ERROR, LOG_FORMAT_AUTO);
	FUZZ_CHECK(mkdtemp(folder), "%s", folder);
	atexit(remove_folder);
	FUZZ_CHECK(store_open(folder, 16 << 20, &w.store, &lost, &why, &err) == 0, "%s", err.text);
	FUZZ_CHECK(store_table(w.store, "v1 ConfigMap", "v1", "ConfigMap", &maps.table, &err) == 0, "%s",
		   err.text);
	store_table_entry(w.store, maps.table)->scope = CACHE_SCOPE_NAMESPACED;
	store_table_set_synced(w.store, maps.table, true);
	controller = (struct controller){.watcher = &w, .config = &config, .subs = subs, .n_subs = 3};
	controller.shared = store_controller(w.store, "fuzz", &controller.index);
	struct outbox_place place = {.extent = store_outbox, .ctx = w.store};
	place.extents = store_outbox_extents(w.store, &place.most);
	w.outbox = outbox_new(&place, store_controllers(w.store));
	references[0] = refindex_new("spec.ref", &err);
	maps = (struct informer){.watcher = &w,
				 .name = (char *)"v1 ConfigMap",
				 .kind = &watches[0].kind,
				 .table = maps.table,
				 .strip_managed_fields = true,
				 .used = true,
				 .served = true,
				 .streams = &stream,
				 .n_streams = 1,
				 .subs = pointers,
				 .n_subs = 3,
				 .references = references,
				 .n_references = 1};
	for (size_t i = 0; i < 3; i++) {
		subs[i] = (struct sub){
		    .controller = &controller, .informer = &maps, .primary = &maps, .watch = &watches[i]};
		mapping_init(&subs[i].mapping, &watches[i], &watches[0].kind);
		FUZZ_CHECK(predicate_init(&subs[i].predicate, &watches[i].predicates, &err) == 0, "%s",
			   err.text);
	}
	subs[2].references = references[0];
}

/* ---- what must hold ---- */

static uint64_t digest(void)
{
	uint64_t sum = 0;
	struct store_view v;
	struct store_usage usage;
	store_usage(w.store, &usage);
	for (uint32_t slot = 0; usage.objects && slot < store_slots(w.store); slot++) {
		struct span json;
		struct object o;
		struct err err = {0};
		if (!store_at(w.store, slot, &v))
			continue;
		usage.objects--; /* behind the last one nobody looks: most of a store is empty here */
		FUZZ_CHECK(store_json(w.store, slot, &json) == 0, "slot %u is damaged", slot);
		FUZZ_CHECK(json_check(json, &err) == 0, "%s", err.text);
		buf_reset(&w.text_before);
		FUZZ_CHECK(object_read(json, &w.text_before, &o, &err) == 0, "%s", err.text);
		FUZZ_CHECK(span_eq(o.name, v.name) && span_eq(o.namespace, v.namespace) &&
			       span_eq(o.uid, v.uid) && span_eq(o.version, v.version),
			   "the slot says another thing than its object");
		sum += hash_bytes(json.at, json.len, HASH_SEED);
	}
	return sum;
}

static void drain_outbox(void)
{
	uint32_t taken[64], n;
	while ((n = outbox_take(w.outbox, NULL, ARRAY_SIZE(taken), taken)) > 0 ||
	       (n = outbox_take_paced(w.outbox, controller.index, ARRAY_SIZE(taken), taken)) > 0)
		for (uint32_t i = 0; i < n; i++) {
			struct outbox_key k;
			outbox_view(w.outbox, taken[i], &k);
			FUZZ_CHECK(k.controller == controller.index && kube_is_path_segment(k.name),
				   "a key of no name");
			FUZZ_CHECK(!k.namespace.len || kube_is_path_segment(k.namespace),
				   "a key of no namespace");
			outbox_ack(w.outbox, taken[i]);
		}
	FUZZ_CHECK(outbox_used(w.outbox) == 0, "%u entries are left", outbox_used(w.outbox));
}

static struct exchange *x;
static const struct json_stream_ops *ops;

/* The object of an event or a list is in the cache as it came, or it is not. */
static void check_taken(struct span object, bool deleted)
{
	struct object_keep keep = {"v1", "ConfigMap", true, false, NULL};
	struct buf json = {0}, scratch = {0};
	struct object o;
	struct store_view v;
	struct span metadata = object_normalize(object, &keep, &json);
	FUZZ_CHECK(object_read_at(buf_span(&json), metadata, &scratch, &o, NULL) == 0,
		   "taken, and cannot be read");
	bool there = store_find(w.store, maps.table, o.namespace, o.name, &v);
	FUZZ_CHECK(there == !deleted, "%s", deleted ? "it is still there" : "it is not there");
	FUZZ_CHECK(deleted || (span_eq(v.uid, o.uid) && span_eq(v.version, o.version)),
		   "another one is there");
	buf_done(&json);
	buf_done(&scratch);
}

static int on_item(void *ctx, struct span item)
{
	(void)ctx;
	bool watch = ops == &stream_watch_ops;
	uint64_t before = digest();
	swept = false;
	int rc = ops->on_item(x, item);
	uint64_t after = digest();
	struct span type = json_get(item, "type"), object = watch ? json_get(item, "object") : item;
	FUZZ_CHECK(rc == 0 || before == after, "refused, and changed something");
	FUZZ_CHECK(rc == 0 || x->failed, "refused without a reason");
	FUZZ_CHECK(before == after || swept || outbox_used(w.outbox), "a change that nobody is told of");
	bool added = !watch || json_string_is(type, "ADDED") || json_string_is(type, "MODIFIED");
	if (rc == 0 && !x->full && (added || json_string_is(type, "DELETED")))
		check_taken(object, !added);
	drain_outbox();
	return rc;
}

static int on_member(void *ctx, struct span key, struct span value)
{
	(void)ctx;
	return ops->on_member ? ops->on_member(x, key, value) : 0;
}

/* ---- texts from choices ---- */

#define OWNED                                                                                                \
	",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"b\",\"uid\":\"1\","  \
	"\"controller\":true}]"

static void put_object(struct buf *b, struct fuzz_input *in)
{
	static const char *const names[] = {"\"a\"", "\"b\"", "\"\\u0061\"", "\"a\\u0000\"",
					    "5",     "null",  "\"x/y\"",     "\"\xff\""};
	static const char *const spaces[] = {"\"s\"", "\"t\"", "null", "\"\""};
	static const char *const uids[] = {"\"1\"", "\"2\"", "null", "[]"};
	static const char *const more[] = {"",
					   ",\"labels\":{\"app\":\"c\"}",
					   ",\"labels\":{\"app\":\"d\"}",
					   ",\"labels\":5",
					   ",\"managedFields\":[{}]",
					   ",\"generation\":3",
					   ",\"generation\":\"x\"",
					   OWNED};
	static const char *const behind[] = {
	    "",
	    ",\"spec\":{\"ref\":\"a\"}",
	    ",\"spec\":{\"ref\":\"t/b\"}",
	    ",\"metadata\":null",
	    ",\"metadata\":{\"name\":\"a\",\"uid\":\"1\",\"resourceVersion\":\"9\"}",
	    ",\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\"",
	    ",\"kind\":7",
	    ",\"x\":\"\xc3\""};
	uint8_t c = fuzz_u8(in), d = fuzz_u8(in);
	buf_printf(b,
		   "{\"metadata\":{\"name\":%s,\"namespace\":%s,\"uid\":%s,\"resourceVersion\":\"%u\"%s}%s}",
		   names[c % 8], spaces[c / 8 % 4], uids[c / 32 % 4], fuzz_u8(in) % 8u, more[d % 8],
		   behind[d / 8 % 8]);
}

static void make_text(struct buf *b, struct fuzz_input *in, bool watch)
{
	static const char *const types[] = {"ADDED",	"MODIFIED", "DELETED", "ADDED",
					    "BOOKMARK", "ERROR",    "OTHER",   "MODIFIED"};
	buf_puts(b,
		 watch ? ""
		       : "{\"kind\":\"ConfigMapList\",\"metadata\":{\"resourceVersion\":\"50\"},\"items\":[");
	for (int n = 0; in->len && n < 200; n++) {
		if (watch)
			buf_printf(b, "{\"type\":\"%s\",\"object\":", types[fuzz_u8(in) % 8]);
		else if (n)
			buf_putc(b, ',');
		put_object(b, in);
		buf_puts(b, watch ? "}\n" : "");
	}
	buf_puts(b, watch ? "" : "]}");
}

static void run(bool watch, struct span text, size_t piece)
{
	struct json_stream_ops checked = {on_item, on_member};
	struct err err = {0};
	ops = watch ? &stream_watch_ops : &stream_list_ops;
	x = xcalloc(1, sizeof *x);
	x->stream = &stream;
	x->phase = watch ? REFLECTOR_WATCH : REFLECTOR_LIST;
	stream.exchange = x;
	stream.epoch = watcher_next_epoch(&w);
	struct json_stream *s = json_stream_new(watch ? JSON_STREAM_WATCH : JSON_STREAM_LIST, &checked, NULL);
	int rc = 0;
	for (size_t at = 0; at < text.len && rc == 0; at += piece)
		rc = json_stream_feed(s, (struct span){text.at + at, MIN(piece, text.len - at)}, &err);
	if (rc == 0)
		rc = json_stream_end(s, &err);
	if (rc == 0 && !watch && x->is_list && x->version.len) {
		bool again = false;
		struct store_view v;
		rc = stream_list_complete(x, &again);
		for (uint32_t slot = 0; rc == 0 && !again && slot < store_slots(w.store); slot++)
			FUZZ_CHECK(!store_at(w.store, slot, &v) || *store_mark(w.store, slot) == stream.epoch,
				   "what the list did not bring is still there");
		drain_outbox();
	}
	json_stream_free(s);
	buf_done(&x->continue_token);
	buf_done(&x->version);
	free(x);
	stream.exchange = NULL;
	digest();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct fuzz_input in = {bytes, len};
	struct store_view v;
	if (!w.store)
		begin();
	stream = (struct stream){.informer = &maps};
	reflector_init(&stream.reflector);
	for (int part = 0; part < 4 && in.len > 1; part++) {
		uint8_t how = fuzz_u8(&in);
		bool watch = how & 1;
		struct fuzz_input mine = fuzz_part(&in, 255);
		struct buf made = {0};
		if (how & 2)
			buf_add(&made, mine.at, mine.len);
		else
			make_text(&made, &mine, watch);
		run(watch, buf_span(&made), how & 4 ? 7 : 4096);
		buf_done(&made);
		if (how & 8)
			store_work(w.store);
	}
	struct store_usage usage;
	store_usage(w.store, &usage);
	for (uint32_t slot = 0; usage.objects && slot < store_slots(w.store); slot++)
		if (store_at(w.store, slot, &v)) {
			refindex_remove(maps.references[0], slot);
			store_delete(w.store, slot);
			usage.objects--;
		}
	free(stream.version);
	return 0;
}

void fuzz_seeds(void (*put)(const char *name, struct span bytes))
{
	static const uint8_t a_watch[] = {1, 12, 0, 0, 1, 1, 1, 0, 10, 2, 2, 0, 1, 3};
	static const uint8_t a_list[] = {0, 9, 0, 0, 1, 1, 8, 2, 9, 16, 3, 0, 3, 0, 32, 4, 0, 3, 1, 0, 5};
	put("a-watch", (struct span){(const char *)a_watch, sizeof a_watch});
	put("two-lists", (struct span){(const char *)a_list, sizeof a_list});
}
