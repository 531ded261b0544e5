#include "wire.h"
#include <criterion/criterion.h>

/* Every message of the table is filled, compared and sized by the table itself, so that a new field is tested
 * by being there. */

static uint64_t counter; /* what the next field gets: another value for each */

static struct span sample_text(size_t max)
{
	static char bytes[64][64]; /* any bytes, NUL and invalid UTF-8 among them */
	char *text = bytes[counter % 64];
	size_t n = MIN(max, (size_t)(counter % 40));
	for (size_t i = 0; i < n; i++)
		text[i] = (char)(counter * 31 + i * 7);
	return (struct span){text, n};
}

#define FILL_U32(n)	  m->n = (uint32_t)(++counter * UINT32_C(2654435761));
#define FILL_U64(n)	  m->n = ++counter * UINT64_C(11400714819323198485);
#define FILL_I64(n)	  m->n = (int64_t)(++counter * UINT64_C(11400714819323198485));
#define FILL_BOOL(n)	  m->n = ++counter & 1;
#define FILL_TEXT(n, max) counter++, m->n = sample_text(max);
#define FILL_LIST(n, record, max)                                                                            \
	{                                                                                                    \
		static struct wire_##record entries[3];                                                      \
		for (size_t i = 0; i < ARRAY_SIZE(entries); i++)                                             \
			fill_##record(&entries[i]);                                                          \
		m->n.at = entries;                                                                           \
		m->n.len = ARRAY_SIZE(entries);                                                              \
	}
#define SAME_NUMBER(n)	  cr_expect(a->n == b->n, #n);
#define SAME_TEXT(n, max) cr_expect(span_eq(a->n, b->n), #n);
#define SAME_LIST(n, record, max)                                                                            \
	cr_assert(a->n.len == b->n.len, #n);                                                                 \
	for (size_t i = 0; i < a->n.len; i++)                                                                \
		same_##record(&a->n.at[i], &b->n.at[i]);
#define FILL_AND_COMPARE(NAME, name)                                                                         \
	static void fill_##name(struct wire_##name *m)                                                       \
	{                                                                                                    \
		WIRE_##NAME(FILL_U32, FILL_U64, FILL_I64, FILL_BOOL, FILL_TEXT, FILL_LIST)                   \
	}                                                                                                    \
	static void same_##name(const struct wire_##name *a, const struct wire_##name *b)                    \
	{                                                                                                    \
		WIRE_##NAME(SAME_NUMBER, SAME_NUMBER, SAME_NUMBER, SAME_NUMBER, SAME_TEXT, SAME_LIST)        \
	}
WIRE_RECORDS(FILL_AND_COMPARE)
WIRE_MESSAGES(FILL_AND_COMPARE)

static struct wire sample(enum wire_type type)
{
	struct wire m = {.type = type};
#define X(NAME, name)                                                                                        \
	if (type == WIRE_TYPE_##NAME)                                                                        \
		fill_##name(&m.name);
	WIRE_MESSAGES(X)
#undef X
	return m;
}

static void same(const struct wire *a, const struct wire *b)
{
	cr_assert_eq(a->type, b->type);
#define X(NAME, name)                                                                                        \
	if (a->type == WIRE_TYPE_##NAME)                                                                     \
		same_##name(&a->name, &b->name);
	WIRE_MESSAGES(X)
#undef X
}

/* Decodes a copy of exactly that size and gives the copy back at once: what the message holds must be its
 * own. */
static int decode_copy(struct span bytes, struct wire *ret, struct err *err)
{
	char *copy = xmalloc(bytes.len);
	if (bytes.len)
		memcpy(copy, bytes.at, bytes.len);
	int r = wire_decode((struct span){copy, bytes.len}, ret, err);
	memset(copy, 0xee, bytes.len);
	free(copy);
	return r;
}

#define EVERY_TYPE(t) (enum wire_type t = WIRE_NONE + 1; t < WIRE_TYPE_COUNT; t++)

Test(wire, every_message_comes_back)
{
	for
		EVERY_TYPE(t)
		{
			for (int round = 0; round < 50; round++) {
				struct buf bytes = {0};
				struct err err = {0};
				struct wire m = sample(t), back = {0};
				cr_assert_eq(wire_encode(&m, &bytes, &err), 0, "%s: %s", wire_type_name(t),
					     err.text);
				cr_assert_eq(decode_copy(buf_span(&bytes), &back, &err), 0, "%s: %s",
					     wire_type_name(t), err.text);
				same(&m, &back);
				wire_done(&back);
				wire_done(&m);
				buf_done(&bytes);
			}
		}
}

Test(wire, empty_message_comes_back)
{
	for
		EVERY_TYPE(t)
		{
			struct buf bytes = {0};
			struct wire m = {.type = t}, back = {0};
			cr_assert_eq(wire_encode(&m, &bytes, NULL), 0);
			cr_assert_eq(decode_copy(buf_span(&bytes), &back, NULL), 0);
			same(&m, &back);
			wire_done(&back);
			buf_done(&bytes);
		}
}

Test(wire, every_truncation_is_refused)
{
	for
		EVERY_TYPE(t)
		{
			struct buf bytes = {0};
			struct wire m = sample(t), back = {0};
			cr_assert_eq(wire_encode(&m, &bytes, NULL), 0);
			for (size_t n = 0; n < bytes.len; n++) {
				struct err err = {0};
				cr_assert_eq(decode_copy((struct span){bytes.data, n}, &back, &err), -EINVAL,
					     "%zu of %zu", n, bytes.len);
				cr_assert(err.text[0]);
			}
			buf_putc(&bytes, 0);
			cr_assert_eq(decode_copy(buf_span(&bytes), &back, NULL), -EINVAL, "one byte more");
			buf_done(&bytes);
		}
}

/* Whatever a byte is changed to, the message is refused, or it decodes to one that encodes and decodes
 * again. */
Test(wire, every_byte_changed_does_no_harm)
{
	static const unsigned char others[] = {0x01, 0x7f, 0x80, 0xff, 0x40, 0x1c, 0x0f};
	for
		EVERY_TYPE(t)
		{
			struct buf bytes = {0};
			struct wire m = sample(t);
			cr_assert_eq(wire_encode(&m, &bytes, NULL), 0);
			for (size_t at = 0; at < bytes.len; at++) {
				for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
					struct wire back = {0}, again = {0};
					struct err err = {0};
					bytes.data[at] = (char)(bytes.data[at] ^ others[i]);
					int r = decode_copy(buf_span(&bytes), &back, &err);
					cr_assert(r == 0 || (r == -EINVAL && err.text[0]));
					if (r == 0) {
						struct buf copy = {0};
						cr_assert_eq(wire_encode(&back, &copy, NULL), 0);
						cr_assert_eq(decode_copy(buf_span(&copy), &again, NULL), 0);
						same(&back, &again);
						wire_done(&again);
						buf_done(&copy);
					}
					wire_done(&back);
					bytes.data[at] = (char)(bytes.data[at] ^ others[i]);
				}
			}
			buf_done(&bytes);
		}
}

/* Garbage that starts like a message. */
Test(wire, random_bytes_do_no_harm)
{
	static const char heads[] = "\x90\x91\x92\x93\x9f\xdc\xdd\xd9\xda\xdb\xa0\xbf\xcc\xcd\xce\xcf\xd0\xd3"
				    "\xc2\xc3\x00\x01\x7f\xff";
	uint64_t state = 1;
	for (int round = 0; round < 200000; round++) {
		char bytes[48];
		size_t n = 0;
		for (size_t len = (size_t)(state >> 33) % sizeof bytes; n <= len; n++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
			bytes[n] =
			    state >> 62 ? heads[(state >> 40) % (sizeof heads - 1)] : (char)(state >> 50);
		}
		struct wire m = {0};
		struct err err = {0};
		int r = decode_copy((struct span){bytes, n}, &m, &err);
		cr_assert(r == 0 || (r == -EINVAL && err.text[0]));
		wire_done(&m);
	}
}

static void expect_refused(const char *bytes, size_t n, const char *why)
{
	struct wire m = {0};
	struct err err = {0};
	cr_expect_eq(decode_copy((struct span){bytes, n}, &m, &err), -EINVAL, "%s", why);
	cr_expect(strstr(err.text, why), "\"%s\" does not say \"%s\"", err.text, why);
}
#define REFUSED(literal, why) expect_refused(literal, sizeof literal - 1, why)

Test(wire, bombs_and_strangers_are_refused)
{
	REFUSED("\xdd\xff\xff\xff\xff", "claims more"); /* asks msgpack-c for 96 GiB */
	REFUSED("\xdc\xff\xff", "claims more");
	REFUSED("\xdb\xff\xff\xff\xff", "claims more");
	REFUSED("\x91\xdb\x00\x00\x00\x05"
		"abcd",
		"claims more");
	REFUSED("\xdf\xff\xff\xff\xff", "0xdf"); /* map */
	REFUSED("\x81\x01\x02", "0x81");
	REFUSED("\xc1", "0xc1");
	REFUSED("\x91\xc0", "0xc0");		     /* nil */
	REFUSED("\x91\xcb\0\0\0\0\0\0\0\0", "0xcb"); /* float */
	REFUSED("\x91\xc4\x01x", "0xc4");	     /* bin */
	REFUSED("\x91\xd4\x01x", "0xd4");	     /* extension */
	REFUSED("", "cut off");
	REFUSED("\x91\xcf\x01", "0xcf");
	REFUSED("\x91\x91\x91\x91\x01", "lists in lists");
	REFUSED("\x90", "starts with its type");
	REFUSED("\x01", "starts with its type");
	REFUSED("\x91\x00", "unknown type 0");
	REFUSED("\x91\xcc\xc8", "unknown type 200");
	REFUSED("\x91\xff", "starts with its type");
	REFUSED("\x91\x03", "POLL: 0 fields");
	REFUSED("\x94\x03\x01\xc2\x02", "POLL: 3 fields");
	REFUSED("\x93\x03\xa1x\xc2", "POLL.incarnation");
	REFUSED("\x93\x03\xff\xc2", "POLL.incarnation");
	REFUSED("\x93\x03\x01\x02", "POLL.asleep");
	REFUSED("\x93\x03\x01\xc2\x00", "follow the message");
}

Test(wire, many_small_values_are_refused_before_memory_is_taken)
{
	struct buf bytes = {0};
	buf_add(&bytes, "\xdd\x00\x10\x00\x00", 5);
	memset(buf_room(&bytes, 1 << 20), 1, 1 << 20);
	bytes.len += 1 << 20;
	expect_refused(bytes.data, bytes.len, "values");
	buf_done(&bytes);
}

Test(wire, nesting_of_thousands_is_refused)
{
	struct buf bytes = {0};
	for (int i = 0; i < 100000; i++)
		buf_putc(&bytes, (char)0x91);
	buf_putc(&bytes, 1);
	expect_refused(bytes.data, bytes.len, "lists in lists");
	buf_done(&bytes);
}

static void expect_too_large(const struct wire *m, const char *where)
{
	struct buf out = {0};
	struct err err = {0};
	buf_puts(&out, "before");
	cr_expect_eq(wire_encode(m, &out, &err), -EMSGSIZE);
	cr_expect(strstr(err.text, where), "\"%s\" does not name \"%s\"", err.text, where);
	cr_expect_str_eq(buf_str(&out), "before");
	buf_done(&out);
}

Test(wire, limits_are_checked_by_the_sender)
{
	char *big = xcalloc(1, 4194305);
	struct wire m = {.type = WIRE_TYPE_REPORT, .report.topic = {big, 301}};
	expect_too_large(&m, "REPORT.topic");

	static struct wire_add_key keys[1025];
	keys[7].name = (struct span){big, 254};
	m = (struct wire){.type = WIRE_TYPE_ADD, .add.keys = {keys, 8}};
	expect_too_large(&m, "ADD.keys[7].name");
	keys[7].name.len = 253;
	m.add.keys.len = 1025;
	expect_too_large(&m, "ADD.keys");

	m = (struct wire){.type = WIRE_TYPE_STATUS_REPLY, .status_reply.json = {big, 4194305}};
	expect_too_large(&m, "STATUS_REPLY.json");
	m.status_reply.json.len--;
	struct buf out = {0};
	struct wire back = {0};
	cr_assert_eq(wire_encode(&m, &out, NULL), 0);
	cr_assert_eq(decode_copy(buf_span(&out), &back, NULL), 0);
	cr_assert_eq(back.status_reply.json.len, 4194304);
	wire_done(&back);
	buf_done(&out);
	free(big);
}

Test(wire, limits_are_checked_by_the_receiver)
{
	/* A POLL of another's encoder, a REPORT with a topic of 301 bytes: the field is named. */
	struct buf bytes = {0};
	buf_add(&bytes, "\x95\x05\xa0\xda\x01\x2d", 6);
	memset(buf_room(&bytes, 301), 'x', 301);
	bytes.len += 301;
	buf_add(&bytes, "\x00\xa0", 2);
	expect_refused(bytes.data, bytes.len, "REPORT.topic");
	buf_done(&bytes);
}

Test(wire, largest_add_passes)
{
	static char name[NAME_MAX_LEN];
	static struct wire_add_key keys[1024];
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		keys[i] = (struct wire_add_key){.namespace = {name, NAMESPACE_MAX_LEN},
						.name = {name, NAME_MAX_LEN},
						.cause_kind = {name, 253},
						.cause_namespace = {name, NAMESPACE_MAX_LEN},
						.cause_name = {name, NAME_MAX_LEN},
						.priority = INT64_MIN,
						.cause = UINT32_MAX};
	struct wire m = {.type = WIRE_TYPE_ADD, .add.keys = {keys, ARRAY_SIZE(keys)}}, back = {0};
	struct buf bytes = {0};
	struct err err = {0};
	cr_assert_eq(wire_encode(&m, &bytes, &err), 0, "%s", err.text);
	cr_assert_eq(decode_copy(buf_span(&bytes), &back, &err), 0, "%s", err.text);
	same(&m, &back);
	wire_done(&back);
	buf_done(&bytes);
}

Test(wire, encoding_is_stable)
{
	/* Byte for byte: another version of us reads this. A change here is a change of WIRE_VERSION. */
	struct wire m = {.type = WIRE_TYPE_ADD_ACK, .add_ack = {.accepted = 300, .message = span_of("x")}};
	struct buf bytes = {0};
	cr_assert_eq(wire_encode(&m, &bytes, NULL), 0);
	cr_assert(span_eq(buf_span(&bytes), (struct span){"\x93\x0a\xcd\x01\x2c\xa1x", 7}));
	buf_done(&bytes);
}

Test(wire, names)
{
	cr_assert_str_eq(wire_type_name(WIRE_TYPE_HELLO), "HELLO");
	cr_assert_str_eq(wire_type_name(WIRE_TYPE_COUNT), "?");
	cr_assert_str_eq(wire_role_name(WIRE_ROLE_HOST), "worker");
	cr_assert_str_eq(wire_cause_name(WIRE_CAUSE_UPDATED), "MODIFIED");
	cr_assert_str_eq(wire_outcome_name(WIRE_OUTCOME_OOM_KILLED), "OOMKilled");
	cr_assert_str_eq(wire_state_name(WIRE_STATE_FAILED), "failed");
	cr_assert_str_eq(wire_refusal_name(WIRE_REFUSAL_NO_HELLO), "no-hello");
	cr_assert_str_eq(wire_refusal_name(UINT32_MAX), "?");
	cr_assert_str_eq(wire_outcome_name(WIRE_OUTCOME_COUNT), "?");
	cr_assert(wire_outcome_is_failure(WIRE_OUTCOME_CRASHED) &&
		  wire_outcome_quarantines(WIRE_OUTCOME_CRASHED));
	cr_assert(wire_outcome_is_failure(WIRE_OUTCOME_TRANSIENT) &&
		  !wire_outcome_quarantines(WIRE_OUTCOME_TRANSIENT));
	cr_assert(!wire_outcome_is_failure(UINT32_MAX) && !wire_outcome_quarantines(UINT32_MAX));
}

Test(wire, unknown_type_is_not_encoded)
{
	struct buf out = {0};
	cr_assert_eq(wire_encode(&(struct wire){.type = WIRE_NONE}, &out, NULL), -EINVAL);
	cr_assert_eq(wire_encode(&(struct wire){.type = WIRE_TYPE_COUNT}, &out, NULL), -EINVAL);
	cr_assert_eq(out.len, 0);
	wire_done(NULL);
	buf_done(&out);
}
