/* bench_scan NAME N: what reading N objects of about 5 KB takes (the pods of objects.h with managedFields, as a server sends them), in
 * cycles per byte of the input. One process measures one of these:
 *
 *   memchr      looking for a byte that is not there: what touching the bytes costs
 *   check       json_check: the whole grammar
 *   watch       json_stream: the same, and splitting events that come in pieces of 16 KiB
 *   list        json_stream with the items of a list
 *   event       what is asked of an event: type and object
 *   keep        object_normalize: what is kept, without managedFields
 *   fields      object_normalize with spec.nodeName alone
 *   read        object_read: names, labels, owners
 *   all         watch, event, keep and read, as the watcher does for each event
 *   print       nothing: prints the events, for a peer */
#include "bench.h"
#include "objects.h"
#include "watcher/object.h"
#include <math.h>
#include <stdio.h>
#include <x86intrin.h>

enum { OBJECTS = 200, CHUNK = 16 << 10 };

static char *pods[OBJECTS];
static struct buf events, list;
static struct object_keep keep = {"v1", "Pod", true, false, NULL};
static uint64_t seen;

static void put_managed(struct buf *b, int i)
{
	buf_printf(
	    b,
	    "\"managedFields\":[{\"manager\":\"kube-controller-manager\",\"operation\":\"Update\","
	    "\"apiVersion\":\"v1\","
	    "\"time\":\"2026-11-30T10:%02d:00Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:metadata\":{"
	    "\"f:annotations\":{\".\":{},\"f:example.com/"
	    "checksum\":{}},\"f:generateName\":{},\"f:labels\":{\".\":{},"
	    "\"f:app\":{},\"f:pod-template-hash\":{},\"f:tier\":{}},\"f:ownerReferences\":{\".\":{},\"k:{"
	    "\\\"uid\\\":"
	    "\\\"%08x-5717-4562-b3fc-2c963f66afa6\\\"}\":{}}},\"f:spec\":{\"f:containers\":{\"k:{"
	    "\\\"name\\\":\\\"web\\\"}\":"
	    "{\".\":{},\"f:env\":{\".\":{},\"k:{\\\"name\\\":\\\"MODE\\\"}\":{\".\":{},\"f:name\":{},\"f:"
	    "value\":{}}},"
	    "\"f:image\":{},\"f:imagePullPolicy\":{},\"f:name\":{},\"f:ports\":{\".\":{}},\"f:resources\":{}}"
	    "},"
	    "\"f:dnsPolicy\":{},\"f:restartPolicy\":{},\"f:schedulerName\":{}}}},{\"manager\":\"kubelet\","
	    "\"operation\":"
	    "\"Update\",\"apiVersion\":\"v1\",\"time\":\"2026-11-30T10:%02d:09Z\",\"fieldsType\":"
	    "\"FieldsV1\",\"fieldsV1\":{"
	    "\"f:status\":{\"f:conditions\":{\"k:{\\\"type\\\":\\\"Ready\\\"}\":{\".\":{},\"f:"
	    "lastProbeTime\":{},\"f:status\":{}}"
	    "},\"f:containerStatuses\":{},\"f:hostIP\":{},\"f:phase\":{},\"f:podIP\":{},\"f:startTime\":{}}},"
	    "\"subresource\":"
	    "\"status\"}],",
	    i % 60, (unsigned)i * 2654435761u, i % 60);
}

/* As a server sends it. */
static void put_pod(struct buf *b, int i)
{
	struct buf pod = {0};
	objects_pod(&pod, (uint32_t)i, (uint64_t)i + 1000);
	struct span metadata = json_get(buf_span(&pod), "metadata");
	buf_add(b, pod.data, (size_t)(metadata.at + 1 - pod.data));
	put_managed(b, i);
	buf_span_add(b, (struct span){metadata.at + 1, pod.len - (size_t)(metadata.at + 1 - pod.data)});
	buf_done(&pod);
}

static void make(void)
{
	buf_puts(&list, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"}"
			",\"items\":[");
	for (int i = 0; i < OBJECTS; i++) {
		struct buf pod = {0};
		put_pod(&pod, i);
		BENCH_CHECK(json_check(buf_span(&pod), NULL) == 0);
		buf_printf(&events, "{\"type\":\"MODIFIED\",\"object\":%s}\n", buf_str(&pod));
		buf_printf(&list, "%s%s", i ? "," : "", buf_str(&pod));
		pods[i] = buf_steal(&pod);
	}
	buf_puts(&list, "]}\n");
}

/* ---- one of each ---- */

static size_t memchr_all(void)
{
	BENCH_CHECK(!memchr(events.data, 1, events.len));
	return events.len;
}

static size_t check_all(void)
{
	size_t n = 0;
	for (int i = 0; i < OBJECTS; i++) {
		struct span pod = span_of(pods[i]);
		BENCH_CHECK(json_check(pod, NULL) == 0);
		n += pod.len;
	}
	return n;
}

static int count(void *ctx, struct span item)
{
	(void)ctx;
	seen += item.len;
	return 0;
}

static size_t split(enum json_stream_kind kind, struct span text, int (*on_item)(void *ctx, struct span item))
{
	struct json_stream_ops ops = {on_item, NULL};
	struct json_stream *s = json_stream_new(kind, &ops, NULL);
	for (size_t at = 0; at < text.len; at += CHUNK)
		BENCH_CHECK(json_stream_feed(s,
					     (struct span){text.at + at, MIN((size_t)CHUNK, text.len - at)},
					     NULL) == 0);
	BENCH_CHECK(json_stream_end(s, NULL) == 0);
	json_stream_free(s);
	return text.len;
}

static size_t watch_all(void)
{
	return split(JSON_STREAM_WATCH, buf_span(&events), count);
}

static size_t list_all(void)
{
	return split(JSON_STREAM_LIST, buf_span(&list), count);
}

static struct buf kept, scratch;

static void keep_one(struct span object)
{
	buf_reset(&kept);
	object_normalize(object, &keep, &kept);
}

static void read_one(struct span object)
{
	struct object o;
	buf_reset(&scratch);
	BENCH_CHECK(object_read(object, &scratch, &o, NULL) == 0 && o.namespace.len > 0);
}

static struct span event_object(struct span event)
{
	static const char *const names[] = {"type", "object"};
	struct span values[2];
	json_get_all(event, names, values, 2);
	BENCH_CHECK(json_string_is(values[0], "MODIFIED"));
	return values[1];
}

static size_t event_all(void)
{
	for (size_t at = 0; at < events.len;) {
		size_t n =
		    (size_t)((char *)memchr(events.data + at, '\n', events.len - at) - events.data) - at;
		event_object((struct span){events.data + at, n});
		at += n + 1;
	}
	return events.len;
}

static size_t each_pod(void (*one)(struct span))
{
	size_t n = 0;
	for (int i = 0; i < OBJECTS; i++) {
		struct span pod = span_of(pods[i]);
		one(pod);
		n += pod.len;
	}
	return n;
}

static size_t keep_all(void)
{
	return each_pod(keep_one);
}

static size_t read_all(void)
{
	return each_pod(read_one);
}

static int take(void *ctx, struct span item)
{
	struct object o;
	(void)ctx;
	buf_reset(&kept);
	buf_reset(&scratch);
	struct span metadata = object_normalize(event_object(item), &keep, &kept);
	BENCH_CHECK(object_read_at(buf_span(&kept), metadata, &scratch, &o, NULL) == 0);
	return 0;
}

static size_t all_all(void)
{
	return split(JSON_STREAM_WATCH, buf_span(&events), take);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		size_t (*run)(void);
	} benches[] = {{"memchr", memchr_all}, {"check", check_all}, {"watch", watch_all},
		       {"list", list_all},     {"event", event_all}, {"keep", keep_all},
		       {"fields", keep_all},   {"read", read_all},   {"all", all_all}};
	static char *const fields[] = {(char *)"spec.nodeName", NULL};
	bench_begin();
	make();
	if (argc == 3 && strcmp(argv[1], "print") == 0) {
		fputs(buf_str(&events), stdout);
		fflush(stdout);
		bench_end();
	}
	for (size_t i = 0; argc == 3 && i < ARRAY_SIZE(benches); i++) {
		if (strcmp(argv[1], benches[i].name) != 0)
			continue;
		if (strcmp(argv[1], "fields") == 0)
			keep.fields = projection_new(fields);
		uint32_t rounds = MAX(bench_number(argv[2]) / OBJECTS, 1u);
		benches[i].run();
		struct bench_time from = bench_time();
		uint64_t bytes = 0;
		double least = INFINITY; /* of all rounds: the one that nothing disturbed */
		for (uint32_t r = 0; r < rounds; r++) {
			uint64_t begin = __rdtsc();
			size_t n = benches[i].run();
			least = fmin(least, (double)(__rdtsc() - begin) / (double)n);
			bytes += n;
		}
		struct bench_time to = bench_time();
		bench_print("cycles", least);
		bench_print("object/cpu", (double)(to.cpu - from.cpu) / rounds / OBJECTS);
		bench_print("object", (double)(to.wall - from.wall) / rounds / OBJECTS);
		bench_print("bytes", (double)bytes / rounds / OBJECTS);
		bench_end();
	}
	bench_fail("usage: bench_scan NAME N");
}
