/* The scanner: what a stream hands out is the same whatever the pieces, and what a plain reader finds (json_reference.h); what is
 * looked up in an item, cut out of it, kept and read of it, is right.
 *
 * Input: kind (list or watch), a seed for the pieces, then the text. */
#include "fuzz.h"
#include "json_machine.h"
#include "json_reference.h"
#include "watcher/object.h"

static int on_item(void *ctx, struct span item)
{
	buf_puts(ctx, "item ");
	buf_span_add(ctx, item);
	buf_putc(ctx, '\n');
	return 0;
}

static int on_member(void *ctx, struct span key, struct span value)
{
	buf_puts(ctx, "member ");
	buf_span_add(ctx, key);
	buf_putc(ctx, ' ');
	buf_span_add(ctx, value);
	buf_putc(ctx, '\n');
	return 0;
}

static int feed(enum json_stream_kind kind, struct span text, uint32_t seed, struct buf *log, struct err *err)
{
	static const struct json_stream_ops ops = {on_item, on_member};
	struct json_stream *s = json_stream_new(kind, &ops, log);
	int rc = 0;
	for (size_t at = 0; at < text.len && rc == 0;) {
		seed = seed * 1664525u + 1013904223u;
		size_t n = seed ? MIN((seed >> 24) % 23 + 1, text.len - at) : text.len;
		char *piece = xmalloc(n); /* of its own size, so that a sanitizer sees a look beyond it */
		memcpy(piece, text.at + at, n);
		rc = json_stream_feed(s, (struct span){piece, n}, err);
		free(piece);
		at += n;
	}
	if (rc == 0)
		rc = json_stream_end(s, err);
	json_stream_free(s);
	return rc;
}

/* Whole: one piece. */
static int feed_whole(enum json_stream_kind kind, struct span text, struct buf *log, struct err *err)
{
	static const struct json_stream_ops ops = {on_item, on_member};
	struct json_stream *s = json_stream_new(kind, &ops, log);
	int rc = json_stream_feed(s, text, err);
	if (rc == 0)
		rc = json_stream_end(s, err);
	json_stream_free(s);
	return rc;
}

/* ---- one value that is good ---- */

/* Members and elements are those that the plain reader finds. */
static void check_walk(struct span value)
{
	struct json_iter it = {0};
	struct span key, member;
	bool object = value.at[0] == '{';
	size_t at = reference_space(value, 1);
	while (json_each(value, &it, &key, &member)) {
		if (object) {
			long end = reference_value(value, at, 0);
			FUZZ_CHECK(key.at == value.at + at && key.len == (size_t)end - at, "key at %zu", at);
			at = reference_space(value, (size_t)end) + 1;
			at = reference_space(value, at);
		} else {
			FUZZ_CHECK(!key.at, "an element with a name");
		}
		long end = reference_value(value, at, 0);
		FUZZ_CHECK(member.at == value.at + at && member.len == (size_t)end - at, "value at %zu", at);
		at = reference_space(value, (size_t)end);
		at = reference_space(value, at + (value.at[at] == ','));
	}
	FUZZ_CHECK(value.at[at] == (object ? '}' : ']') && at + 1 == value.len, "the walk ends at %zu of %zu",
		   at, value.len);
}

/* The last member of that name, by the plain reader. */
static struct span reference_get(struct span object, const char *name)
{
	struct span found = {NULL, 0};
	for (size_t at = reference_space(object, 1); object.at[at] != '}';) {
		size_t key = at;
		at = reference_space(object, (size_t)reference_value(object, at, 0)) + 1;
		at = reference_space(object, at);
		long end = reference_value(object, at, 0);
		if (reference_string_is(object, key, name))
			found = (struct span){object.at + at, (size_t)end - at};
		at = reference_space(object, (size_t)end);
		at = reference_space(object, at + (object.at[at] == ','));
	}
	return found;
}

static void check_get(struct span object)
{
	static const char *const names[] = {"metadata", "type", "object", "a", "items"};
	struct span all[ARRAY_SIZE(names)];
	json_get_all(object, names, all, ARRAY_SIZE(names));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct span expected = reference_get(object, names[i]);
		FUZZ_CHECK(all[i].at == expected.at && all[i].len == expected.len, "%s", names[i]);
		FUZZ_CHECK(json_get(object, names[i]).at == expected.at, "%s", names[i]);
	}
}

static void must_be_json(struct span text)
{
	struct err err = {0};
	long end = reference_value(text, reference_space(text, 0), 0);
	FUZZ_CHECK(json_check(text, &err) == 0, "%s", err.text);
	FUZZ_CHECK(end > 0 && reference_space(text, (size_t)end) == text.len, "ends at %ld of %zu", end,
		   text.len);
}

static void check_keep(struct span object, bool strip, bool metadata_only, const struct projection *fields)
{
	struct object_keep keep = {"apps/v1", "Kind", strip, metadata_only, fields};
	struct buf out = {0}, scratch = {0}, again = {0};
	struct object o;
	struct err err = {0};
	struct span metadata = object_normalize(object, &keep, &out);
	if (object_read_at(buf_span(&out), metadata, &scratch, &o, &err) == 0) {
		must_be_json(buf_span(&out));
		FUZZ_CHECK(utf8_valid_prefix(buf_span(&out)) == out.len, "not UTF-8");
		struct span found = reference_get(buf_span(&out), "metadata");
		FUZZ_CHECK(found.at == metadata.at && found.len == metadata.len, "metadata is elsewhere");
		FUZZ_CHECK(!strip || !reference_get(metadata, "managedFields").at,
			   "managedFields are still there");
		FUZZ_CHECK(reference_get(buf_span(&out), "apiVersion").at &&
			       reference_get(buf_span(&out), "kind").at,
			   "no type");
		FUZZ_CHECK(o.name.len && o.name.len <= NAME_MAX_LEN, "name");
		/* Kept once is kept for good. */
		object_normalize(buf_span(&out), &keep, &again);
		FUZZ_CHECK(span_eq(buf_span(&again), buf_span(&out)), "%s is not %s", buf_str(&again),
			   buf_str(&out));
		struct json_iter it = {0};
		struct object_owner owner;
		while (object_owner_next(&o, &it, &owner))
			FUZZ_CHECK(owner.uid.at, "owner");
	} else {
		FUZZ_CHECK(err.text[0], "no reason");
	}
	buf_done(&out);
	buf_done(&again);
	buf_done(&scratch);
}

static void check_value(struct span value)
{
	static char *const some[] = {(char *)"a", (char *)"spec.a", (char *)"items[*].a", NULL};
	static const char *const paths[] = {"metadata.managedFields", "a", "object.metadata", "items", NULL};
	struct buf out = {0};
	if (value.at[0] == '{' || value.at[0] == '[') {
		FUZZ_CHECK(json_skip_container(value, 0) == value.len, "skipped to %zu of %zu",
			   json_skip_container(value, 0), value.len);
		check_walk(value);
	}
	if (value.at[0] == '{') {
		struct projection *p = projection_new(some);
		check_get(value);
		json_copy_without(value, paths, &out);
		must_be_json(buf_span(&out));
		FUZZ_CHECK(!reference_get(buf_span(&out), "a").at, "a is still there");
		for (int i = 0; i < 8; i++)
			check_keep(value, i & 1, i & 2, i & 4 ? p : NULL);
		projection_free(p);
	}
	if (value.at[0] == '"') {
		buf_reset(&out);
		int rc = json_unescape(value, &out);
		FUZZ_CHECK(rc == 0 || rc == -EILSEQ, "%d", rc);
		FUZZ_CHECK(rc < 0 || json_string_is(value, buf_str(&out)), "%s", buf_str(&out));
	}
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	if (len < 2)
		return 0;
	enum json_stream_kind kind = bytes[0] & 1 ? JSON_STREAM_WATCH : JSON_STREAM_LIST;
	struct span text = {(const char *)bytes + 2, len - 2};
	struct buf whole = {0}, cut = {0}, plain = {0};
	struct err why = {0}, why_cut = {0};
	int rc = feed_whole(kind, text, &whole, &why);
	int rc_cut = feed(kind, text, bytes[1] + 1u, &cut, &why_cut);
	FUZZ_CHECK(rc == rc_cut && strcmp(why.text, why_cut.text) == 0, "%d '%s', in pieces %d '%s'", rc,
		   why.text, rc_cut, why_cut.text);
	FUZZ_CHECK(span_eq(buf_span(&whole), buf_span(&cut)), "\n%s\nin pieces\n%s", buf_str(&whole),
		   buf_str(&cut));
	int expected =
	    kind == JSON_STREAM_WATCH ? reference_watch(text, &plain) : reference_list(text, &plain);
	FUZZ_CHECK(rc == expected, "%d '%s', not %d", rc, why.text, expected);
	FUZZ_CHECK(span_eq(buf_span(&whole), buf_span(&plain)), "\n%s\nnot\n%s", buf_str(&whole),
		   buf_str(&plain));
	struct span value;
	if (json_value(text, &value) == 0)
		check_value(value);
	for (size_t at = 0; kind == JSON_STREAM_WATCH && at < text.len;) {
		struct span rest = {text.at + at, text.len - at};
		if (json_value(rest, &value) < 0)
			break;
		if (at) /* the first was */
			check_value(value);
		at = (size_t)(value.at + value.len - text.at);
	}
	buf_done(&whole);
	buf_done(&cut);
	buf_done(&plain);
	return 0;
}

/* Blocks of 64 bytes are what the skipping goes by: the same text at every place of one. */
void fuzz_seeds(void (*put)(const char *name, struct span bytes))
{
	static const char inside[] =
	    "{\"a\":\"\\\\\",\"b\":\"\\\\\\\"}]\",\"c\":[{\"\\\"\":\"{[\"},[]],\"d\":\"\\\\\\\\\"}";
	for (int i = 0; i < 130; i++) {
		_cleanup_(buf_done) struct buf b = {0};
		_cleanup_(free_ptr) char *name = xasprintf("block-%d", i);
		buf_add(&b, "\1\7", 2);
		buf_puts(&b, "[\"");
		for (int n = 0; n < i; n++)
			buf_putc(&b, n % 7 ? 'x' : ' ');
		buf_printf(&b, "\",%s,%s]", inside, inside);
		put(name, buf_span(&b));
	}
}
