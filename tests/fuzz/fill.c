/* From choices to messages, by the table of wire.def. */
#include "fuzz.h"

uint64_t fuzz_u64(struct fuzz_input *in)
{
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | fuzz_u8(in);
	return v;
}

struct fuzz_input fuzz_part(struct fuzz_input *in, size_t most)
{
	size_t n = fuzz_u8(in);
	n = MIN(MIN(n, most), in->len);
	struct fuzz_input part = {in->at, n};
	in->at += n;
	in->len -= n;
	return part;
}

static uint64_t number(struct fuzz_filler *f, const char *field, uint64_t most)
{
	static const uint64_t limits[] = {
	    0,	       1, 2, 63, 64, 1000000, 1000001, INT32_MAX, UINT32_MAX, INT64_MAX, (uint64_t)INT64_MIN,
	    UINT64_MAX};
	uint64_t v = 0;
	if (f->number && f->number(f->ctx, field, f->in, &v))
		return MIN(v, most);
	uint8_t choice = fuzz_u8(f->in);
	v = choice == 255  ? fuzz_u64(f->in)
	    : choice < 240 ? choice
			   : limits[choice % 16 % ARRAY_SIZE(limits)];
	return MIN(v, most);
}

/* Nothing, a few bytes of the input, or as many as are allowed of one byte. */
static struct span text(struct fuzz_filler *f, const char *field, size_t most)
{
	struct span known;
	if (f->text && f->text(f->ctx, field, f->in, &known) && known.len <= most)
		return known;
	uint8_t choice = fuzz_u8(f->in);
	most = MIN(most, (size_t)FUZZ_TEXT_MAX);
	struct fuzz_input part = fuzz_part(f->in, most);
	size_t n = choice == 255 ? most : part.len;
	FUZZ_CHECK(n <= sizeof(f->texts) - f->used, "the texts of a message take more room than there is");
	char *to = f->texts + f->used;
	if (choice == 255)
		memset(to, part.len ? part.at[0] : 'x', n);
	else if (n)
		memcpy(to, part.at, n);
	f->used += n;
	return (struct span){to, n};
}

#define FILL_U32(n)	  m->n = (uint32_t)number(f, #n, UINT32_MAX);
#define FILL_U64(n)	  m->n = number(f, #n, UINT64_MAX);
#define FILL_I64(n)	  m->n = (int64_t)number(f, #n, UINT64_MAX);
#define FILL_BOOL(n)	  m->n = fuzz_u8(f->in) & 1;
#define FILL_TEXT(n, max) m->n = text(f, #n, max);
/* One entry unless the input says how many more. */
#define FILL_LIST(n, record, max)                                                                            \
	{                                                                                                    \
		size_t len = fuzz_u8(f->in) % 8 + 1;                                                         \
		len = MIN(len, (size_t)max);                                                                 \
		struct wire_##record *list = xcalloc(len, sizeof(*list));                                    \
		FUZZ_CHECK(f->n_lists < ARRAY_SIZE(f->lists), "too many lists");                             \
		f->lists[f->n_lists++] = list;                                                               \
		for (size_t i = 0; i < len; i++)                                                             \
			fill_##record(f, &list[i]);                                                          \
		m->n.at = list;                                                                              \
		m->n.len = len;                                                                              \
	}
#define FILL(NAME, lower)                                                                                    \
	static void fill_##lower(struct fuzz_filler *f, struct wire_##lower *m)                              \
	{                                                                                                    \
		WIRE_##NAME(FILL_U32, FILL_U64, FILL_I64, FILL_BOOL, FILL_TEXT, FILL_LIST)                   \
	}
WIRE_RECORDS(FILL)
WIRE_MESSAGES(FILL)

void fuzz_fill(struct fuzz_filler *f, enum wire_type type, struct wire *ret)
{
	f->used = 0;
	*ret = (struct wire){.type = type};
	switch (type) {
#define X(NAME, lower)                                                                                       \
	case WIRE_TYPE_##NAME:                                                                               \
		fill_##lower(f, &ret->lower);                                                                \
		break;
		WIRE_MESSAGES(X)
#undef X
	case WIRE_NONE:
	case WIRE_TYPE_COUNT:
		break;
	}
}

void fuzz_filler_done(struct fuzz_filler *f)
{
	while (f->n_lists)
		free(f->lists[--f->n_lists]);
}
