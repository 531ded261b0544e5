/* The decoder of messages: what it takes, it gives back unchanged; what it refuses, it refuses with a reason and leaves
 * nothing behind. */
#include "fuzz.h"

static void check_text(struct span text, size_t most, const char *field)
{
	FUZZ_CHECK(text.len <= most && text.at, "%s: %zu bytes", field, text.len);
	unsigned sum = 0;
	for (size_t i = 0; i < text.len; i++) /* a sanitizer sees whether they are there */
		sum += (unsigned char)text.at[i];
	__asm__ volatile("" : : "r"(sum));
}

#define CHECK_NUMBER(n)
#define CHECK_TEXT(n, max) check_text(m->n, max, #n);
#define CHECK_LIST(n, record, max)                                                                           \
	FUZZ_CHECK(m->n.len <= (max), "%s: %zu entries", #n, m->n.len);                                      \
	for (size_t i = 0; i < m->n.len; i++)                                                                \
		check_##record(&m->n.at[i]);
#define CHECK(NAME, lower)                                                                                   \
	static void check_##lower(const struct wire_##lower *m)                                              \
	{                                                                                                    \
		(void)m;                                                                                     \
		WIRE_##NAME(CHECK_NUMBER, CHECK_NUMBER, CHECK_NUMBER, CHECK_NUMBER, CHECK_TEXT, CHECK_LIST)  \
	}
WIRE_RECORDS(CHECK)
WIRE_MESSAGES(CHECK)

static void check_message(const struct wire *m)
{
	switch (m->type) {
#define X(NAME, lower)                                                                                       \
	case WIRE_TYPE_##NAME:                                                                               \
		check_##lower(&m->lower);                                                                    \
		break;
		WIRE_MESSAGES(X)
#undef X
	case WIRE_NONE:
	case WIRE_TYPE_COUNT:
		FUZZ_CHECK(false, "a message of no type");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct wire m = {0}, again = {0};
	struct err err = {0};
	int rc = wire_decode((struct span){(const char *)bytes, len}, &m, &err);
	if (rc < 0) {
		FUZZ_CHECK(rc == -EINVAL && err.text[0], "%d, '%s'", rc, err.text);
		FUZZ_CHECK(m.type == WIRE_NONE && !m.arena, "a refused message left something behind");
		return 0;
	}
	check_message(&m);
	struct buf first = {0}, second = {0};
	FUZZ_CHECK(wire_encode(&m, &first, &err) == 0, "%s", err.text);
	FUZZ_CHECK(wire_decode(buf_span(&first), &again, &err) == 0, "%s", err.text);
	FUZZ_CHECK(again.type == m.type && wire_encode(&again, &second, &err) == 0, "%s", err.text);
	FUZZ_CHECK(span_eq(buf_span(&first), buf_span(&second)),
		   "%s is another message when it is read again", wire_type_name(m.type));
	wire_done(&m);
	wire_done(&again);
	buf_done(&first);
	buf_done(&second);
	return 0;
}

/* One of each message: empty, and with texts and lists. */
void fuzz_seeds(void (*put)(const char *name, struct span bytes))
{
	for (int t = 1; t < WIRE_TYPE_COUNT; t++) {
		for (int full = 0; full < 2; full++) {
			static const uint8_t ones[64] = {[0 ... 63] = 1};
			struct fuzz_input in = {ones, full ? sizeof(ones) : 0};
			static struct fuzz_filler f;
			f.in = &in;
			struct wire m;
			struct buf out = {0};
			struct err err = {0};
			fuzz_fill(&f, (enum wire_type)t, &m);
			FUZZ_CHECK(wire_encode(&m, &out, &err) == 0, "%s", err.text);
			_cleanup_(free_ptr) char *name =
			    xasprintf("%s-%s", wire_type_name(m.type), full ? "full" : "empty");
			put(name, buf_span(&out));
			buf_done(&out);
			fuzz_filler_done(&f);
		}
	}
}
