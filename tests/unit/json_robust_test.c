/* Texts that were broken at random, the same ones each time: nothing reads beyond them (a sanitizer build
 * sees it), and the parts of the scanner agree with each other about every one of them. */
#include "doc.h"
#include "json.h"
#include "json_scan.h"
#include <criterion/criterion.h>

enum { ROUNDS = 40000, TEXT_MAX = 600 };

static uint64_t state;

static uint64_t chance(uint64_t below) /* xorshift64*: small, and the same on every machine */
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * UINT64_C(2685821657736338717) % below;
}

static const char *const seeds[] = {
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"labels\":{\"x/"
    "y\":\"\\u00e9\"},\"managedFields\":[{\"f\":{}}]},"
    "\"data\":{\"k\":\"line\\nline\\\\\",\"emoji\":\"\\ud83d\\ude00\"}}",
    "{\"kind\":\"List\",\"items\":[{\"n\":1},{\"n\":-2.50e+3},{\"s\":\"]}\"}],\"metadata\":{"
    "\"resourceVersion\":\"9007199254740993\"}}",
    "[[],{},[[]],{\"a\":{\"a\":{\"a\":null}}},true,false,0,-0,1e9,\"\"]",
    "  {\"a\" : [ 1 , 2.5 , \"\\\"\\/\\b\\f\\n\\r\\t\" ] , \"a\" : { } }  ",
    "{\"spec\":{\"containers\":[{\"name\":\"c\",\"ports\":[{\"containerPort\":80}]}],\"replicas\":1},"
    "\"metadata\":{\"finalizers\":[\"x\"]}}",
    "123456789012345678901234567890.5e-10",
};
static const char bytes[] = "{}[]\",:\\/ \t\n0123456789+-.eEtruefalsnu\x01\x7f\x80\xff";

/* A seed, with up to a few of its bytes changed, dropped, added, repeated or the end cut off. */
static size_t broken_text(char text[TEXT_MAX])
{
	const char *seed = seeds[chance(ARRAY_SIZE(seeds))];
	size_t n = strlen(seed);
	memcpy(text, seed, n);
	for (uint64_t changes = chance(4); changes > 0 && n; changes--) {
		size_t at = (size_t)chance(n), want = (size_t)chance(20), len = MIN(want, n - at);
		switch (chance(5)) {
		case 0:
			text[at] = bytes[chance(sizeof bytes)];
			break;
		case 1:
			memmove(text + at, text + at + len, n - at - len);
			n -= len;
			break;
		case 2:
			memmove(text + at + 1, text + at, n - at);
			text[at] = bytes[chance(sizeof bytes)];
			n++;
			break;
		case 3:
			if (n + len <= TEXT_MAX - 8) {
				memmove(text + at + len, text + at, n - at);
				n += len;
			}
			break;
		default:
			n = at;
			break;
		}
	}
	return n;
}

struct seen {
	struct buf log;
};

static int on_item(void *ctx, struct span item)
{
	struct seen *seen = ctx;
	cr_assert_eq(json_check(item, NULL), 0);
	buf_span_add(&seen->log, item);
	buf_puts(&seen->log, "\n");
	return 0;
}

static int on_member(void *ctx, struct span key, struct span value)
{
	cr_assert_eq(json_check(key, NULL), 0);
	return on_item(ctx, value);
}

static int stream(enum json_stream_kind kind, struct span text, size_t piece, struct seen *seen)
{
	static const struct json_stream_ops ops = {on_item, on_member};
	struct json_stream *s = json_stream_new(kind, &ops, seen);
	int r = 0;
	for (size_t at = 0; at < text.len && r == 0; at += piece)
		r = json_stream_feed(s, (struct span){text.at + at, MIN(piece, text.len - at)}, NULL);
	if (r == 0)
		r = json_stream_end(s, NULL);
	json_stream_free(s);
	return r;
}

/* A stream says the same whatever the pieces; and of one value the same as json_check. */
static void try_streams(struct span text, bool good)
{
	for (enum json_stream_kind kind = JSON_STREAM_LIST; kind <= JSON_STREAM_WATCH; kind++) {
		struct seen whole = {0}, pieces = {0};
		int r = stream(kind, text, MAX(text.len, (size_t)1), &whole);
		cr_assert_eq(stream(kind, text, 1 + (size_t)chance(9), &pieces), r);
		cr_assert_str_eq(buf_str(&whole.log), buf_str(&pieces.log));
		if (good && kind == JSON_STREAM_WATCH)
			cr_assert_eq(r, 0);
		if (r == 0 && kind == JSON_STREAM_LIST)
			cr_assert(good);
		buf_done(&whole.log);
		buf_done(&pieces.log);
	}
}

static void try_lookups(struct span text)
{
	static const char *const without[] = {"metadata.managedFields", "a", "spec.replicas", NULL};
	struct span key, value;
	struct json_iter it = {0};
	struct buf out = {0};
	size_t n = 0;
	while (json_each(text, &it, &key, &value)) {
		cr_assert_eq(json_check(value, NULL), 0);
		cr_assert(!key.at || json_check(key, NULL) == 0);
		n++;
	}
	cr_assert_leq(n, text.len);
	json_path(text, "metadata", "name", NULL);
	int64_t v;
	json_int(text, &v);
	json_unescape(text, &out);
	buf_reset(&out);
	json_copy_without(text, without, &out);
	cr_assert_eq(json_check(buf_span(&out), NULL), 0, "%s", buf_str(&out));
	cr_assert_null(json_get(buf_span(&out), "a").at);
	buf_done(&out);
}

/* The lookups are for checked text; on any other their answers mean nothing, but they end and stay within
 * it. */
static void try_lookups_unchecked(struct span text)
{
	struct span key, value;
	struct json_iter it = {0};
	struct buf out = {0};
	size_t n = 0;
	while (json_each(text, &it, &key, &value)) {
		cr_assert(value.at >= text.at && value.at + value.len <= text.at + text.len);
		json_unescape(value, &out);
		cr_assert_leq(++n, text.len);
	}
	json_path(text, "metadata", "name", NULL);
	buf_done(&out);
}

static void try_trees(struct span text, bool good)
{
	struct doc *d = doc_new();
	struct doc_node *n = NULL, *again = NULL;
	struct buf out = {0};
	struct json *tree = NULL;
	int r = doc_parse(d, text, &n, NULL);
	if (!good)
		cr_assert_eq(r, -EINVAL);
	if (r == 0) {
		doc_print(n, &out);
		cr_assert_eq(doc_parse(d, buf_span(&out), &again, NULL), 0);
		cr_assert(doc_equal(n, again));
		cr_assert(doc_contains(n, again));
		struct doc_node *set = doc_field_set(d, n);
		struct doc_node *live = doc_apply(d, doc_copy(d, n), n, set, NULL, 0);
		cr_assert(doc_contains(live, n));
	}
	if (json_parse(text, &tree, NULL) == 0) {
		cr_assert(good, "cJSON takes what the scanner refuses");
		buf_reset(&out);
		json_print(tree, false, &out);
		cr_assert_eq(json_check(buf_span(&out), NULL), 0);
	}
	json_free(tree);
	buf_done(&out);
	doc_free(d);
}

Test(json_robust, broken_texts)
{
	int good_ones = 0;
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		char text[TEXT_MAX];
		state =
		    round * UINT64_C(0x9e3779b97f4a7c15); /* any failure can be played again from its round */
		struct span copy = {NULL, broken_text(text)};
		char *exact = xmalloc(copy.len);
		memcpy(exact, text, copy.len);
		copy.at = exact;
		struct span value;
		bool good = json_check(copy, NULL) == 0;
		cr_assert(!good || json_value(copy, &value) == 0, "round %llu", (unsigned long long)round);
		try_streams(copy, good);
		try_trees(copy, good);
		good ? try_lookups(copy) : try_lookups_unchecked(copy);
		good_ones += good;
		free(exact);
	}
	cr_assert(good_ones > ROUNDS / 10 && good_ones < ROUNDS * 9 / 10, "%d", good_ones);
}
