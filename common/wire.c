#include "wire.h"
#include <msgpack.h>

/* ---- the table as data: what wire.def says, for one encoder and one decoder that serve every message
 * ---- */

enum kind { KIND_U32, KIND_U64, KIND_I64, KIND_BOOL, KIND_TEXT, KIND_LIST };

struct layout {
	const char *name;
	const struct field {
		const char *name;
		uint8_t kind;
		size_t max;			      /* TEXT: bytes; LIST: entries */
		size_t offset;			      /* in the struct */
		const struct layout *(*record)(void); /* LIST: of its entries */
	} * fields;
	size_t n_fields;
	size_t size; /* of the struct */
};

/* As every list field of wire.h is laid out. */
struct list {
	const void *at;
	size_t len;
};

#define FIELD_U32(n)		   {#n, KIND_U32, 0, offsetof(self, n), NULL},
#define FIELD_U64(n)		   {#n, KIND_U64, 0, offsetof(self, n), NULL},
#define FIELD_I64(n)		   {#n, KIND_I64, 0, offsetof(self, n), NULL},
#define FIELD_BOOL(n)		   {#n, KIND_BOOL, 0, offsetof(self, n), NULL},
#define FIELD_TEXT(n, max)	   {#n, KIND_TEXT, max, offsetof(self, n), NULL},
#define FIELD_LIST(n, record, max) {#n, KIND_LIST, max, offsetof(self, n), layout_##record},
#define LAYOUT(NAME, lower)                                                                                  \
	static const struct layout *layout_##lower(void)                                                     \
	{                                                                                                    \
		typedef struct wire_##lower self;                                                            \
		static const struct field fields[] = {                                                       \
		    WIRE_##NAME(FIELD_U32, FIELD_U64, FIELD_I64, FIELD_BOOL, FIELD_TEXT, FIELD_LIST)};       \
		static const struct layout layout = {#NAME, fields, ARRAY_SIZE(fields), sizeof(self)};       \
		return &layout;                                                                              \
	}
WIRE_RECORDS(LAYOUT)
WIRE_MESSAGES(LAYOUT)

static const struct message {
	const char *name;
	const struct layout *(*layout)(void);
	size_t offset; /* in struct wire */
} messages[WIRE_TYPE_COUNT] = {
#define X(NAME, lower) [WIRE_TYPE_##NAME] = {#NAME, layout_##lower, offsetof(struct wire, lower)},
    WIRE_MESSAGES(X)
#undef X
};

/* Where a message, a record within it and a field are, for an error text: "ADD.keys[3].name". */
struct place {
	const char *message, *list;
	size_t index;
};

static int wrong(const struct place *at, const struct field *f, int code, struct err *err, const char *fmt,
		 ...) _printf_(5, 6);
static int wrong(const struct place *at, const struct field *f, int code, struct err *err, const char *fmt,
		 ...)
{
	char what[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (at->list)
		return err_set(err, code, "message %s.%s[%zu].%s: %s", at->message, at->list, at->index,
			       f->name, what);
	return err_set(err, code, "message %s.%s: %s", at->message, f->name, what);
}

/* ---- encode ---- */

static int write_to_buf(void *out, const char *bytes, size_t n)
{
	buf_add(out, bytes, n);
	return 0; /* a failed buffer is seen at the end */
}

static int encode_struct(msgpack_packer *p, const struct layout *l, const char *base, struct place at,
			 struct err *err);

static int encode_text(msgpack_packer *p, const struct field *f, const struct span *text,
		       const struct place *at, struct err *err)
{
	if (text->len > f->max)
		return wrong(at, f, -EMSGSIZE, err, "%zu bytes, at most %zu are allowed", text->len, f->max);
	msgpack_pack_str(p, text->len);
	msgpack_pack_str_body(p, text->at, text->len);
	return 0;
}

static int encode_list(msgpack_packer *p, const struct field *f, const char *member, const struct place *at,
		       struct err *err)
{
	struct list list;
	memcpy(&list, member, sizeof list);
	if (list.len > f->max)
		return wrong(at, f, -EMSGSIZE, err, "%zu entries, at most %zu are allowed", list.len, f->max);
	const struct layout *record = f->record();
	msgpack_pack_array(p, list.len);
	for (size_t i = 0; i < list.len; i++) {
		msgpack_pack_array(p, record->n_fields);
		int r = encode_struct(p, record, (const char *)list.at + i * record->size,
				      (struct place){at->message, f->name, i}, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int encode_struct(msgpack_packer *p, const struct layout *l, const char *base, struct place at,
			 struct err *err)
{
	for (size_t i = 0; i < l->n_fields; i++) {
		const struct field *f = &l->fields[i];
		const void *member = base + f->offset;
		int r = 0;
		switch (f->kind) {
		case KIND_U32:
			msgpack_pack_uint32(p, *(const uint32_t *)member);
			break;
		case KIND_U64:
			msgpack_pack_uint64(p, *(const uint64_t *)member);
			break;
		case KIND_I64:
			msgpack_pack_int64(p, *(const int64_t *)member);
			break;
		case KIND_BOOL:
			*(const bool *)member ? msgpack_pack_true(p) : msgpack_pack_false(p);
			break;
		case KIND_TEXT:
			r = encode_text(p, f, member, &at, err);
			break;
		default: /* KIND_LIST */
			r = encode_list(p, f, member, &at, err);
			break;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int wire_encode(const struct wire *m, struct buf *out, struct err *err)
{
	if (m->type <= WIRE_NONE || m->type >= WIRE_TYPE_COUNT)
		return err_set(err, -EINVAL, "message of unknown type %d", (int)m->type);
	const struct message *message = &messages[m->type];
	const struct layout *l = message->layout();
	size_t before = out->len;
	msgpack_packer p;
	msgpack_packer_init(&p, out, write_to_buf);
	msgpack_pack_array(&p, 1 + l->n_fields);
	msgpack_pack_uint32(&p, (uint32_t)m->type);
	int r = encode_struct(&p, l, (const char *)m + message->offset,
			      (struct place){.message = message->name}, err);
	if (r == 0 && buf_failed(out))
		r = err_set(err, -ENOMEM, "message %s: no room for it", message->name);
	if (r == 0 && out->len - before > WIRE_MAX_BYTES)
		r = err_set(err, -EMSGSIZE, "message %s: %zu bytes, at most %u are allowed", message->name,
			    out->len - before, WIRE_MAX_BYTES);
	if (r < 0 && out->data) {
		out->len = before;
		out->data[before] = 0;
	}
	return r;
}

/* ---- the scan: nothing is allocated for bytes that have not passed it ---- */

enum {
	DEPTH_MAX = 3, /* a message, a list in it, a record in that */
	/* msgpack-c makes a 24-byte object of each value. The largest message, ADD with its keys, has about
	   9,300. */
	VALUES_MAX = 16384,
};

/* The head of the value at bytes[at]: its own bytes, the bytes of text that follow, the values that it
 * contains. False: none of the kinds that messages are made of. */
static bool scan_head(struct span bytes, size_t at, size_t *ret_own, uint64_t *ret_text, uint64_t *ret_values)
{
	unsigned char c = (unsigned char)bytes.at[at];
	size_t width = 0; /* of the number behind the first byte */
	bool text = false, array = false;
	if (c >= 0xa0 && c <= 0xbf) {
		*ret_text = c & 0x1f;
	} else if (c >= 0x90 && c <= 0x9f) {
		*ret_values = c & 0x0f;
	} else if (c >= 0xcc && c <= 0xd3) { /* unsigned, then signed, of 8, 16, 32, 64 bits */
		width = (size_t)1 << (c & 3);
	} else if (c >= 0xd9 && c <= 0xdb) {
		text = true;
		width = (size_t)1 << (c - 0xd9);
	} else if (c == 0xdc || c == 0xdd) {
		array = true;
		width = c == 0xdc ? 2 : 4;
	} else if (c >= 0x80 && c < 0xe0 && c != 0xc2 &&
		   c != 0xc3) { /* what is left of it is small integers and booleans */
		return false;
	}
	if (width > bytes.len - at - 1)
		return false;
	uint64_t number = 0;
	for (size_t i = 0; i < width; i++)
		number = number << 8 | (unsigned char)bytes.at[at + 1 + i];
	if (text)
		*ret_text = number;
	if (array)
		*ret_values = number;
	*ret_own = 1 + width;
	return true;
}

/* Passes exactly one value of arrays, texts, integers and booleans in which no count is larger than what is
 * left. */
static int scan(struct span bytes, struct err *err)
{
	uint64_t pending[DEPTH_MAX + 1] = {1}; /* values still to come, per level */
	size_t depth = 0, values = 0, at = 0;
	while (pending[depth] || depth) {
		if (!pending[depth]) {
			depth--;
			continue;
		}
		pending[depth]--;
		size_t own = 0;
		uint64_t text = 0, contained = 0;
		if (at == bytes.len)
			return err_set(err, -EINVAL, "the message is cut off after %zu bytes", at);
		if (++values > VALUES_MAX)
			return err_set(err, -EINVAL, "byte %zu of the message: more than %d values", at,
				       VALUES_MAX);
		if (!scan_head(bytes, at, &own, &text, &contained))
			return err_set(err, -EINVAL, "byte %zu of the message: 0x%02x does not belong here",
				       at, (unsigned char)bytes.at[at]);
		if (text > bytes.len - at - own || contained > bytes.len - at - own)
			return err_set(err, -EINVAL,
				       "byte %zu of the message: it claims more than the message has", at);
		at += own + (size_t)text;
		if (contained && ++depth > DEPTH_MAX)
			return err_set(err, -EINVAL, "byte %zu of the message: lists in lists in lists", at);
		if (contained)
			pending[depth] = contained;
	}
	if (at < bytes.len)
		return err_set(err, -EINVAL, "%zu bytes follow the message", bytes.len - at);
	return 0;
}

/* ---- decode ---- */

struct decoder {
	struct span bytes; /* what came, to which msgpack's texts point */
	char *copy;	   /* the same bytes in the arena */
	char *records;	   /* where the next list's entries go in the arena */
	struct err *err;
};

static int decode_struct(struct decoder *d, const struct layout *l, const msgpack_object *values, char *base,
			 struct place at);

static int decode_unsigned(const struct field *f, const msgpack_object *o, void *member)
{
	if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || (f->kind == KIND_U32 && o->via.u64 > UINT32_MAX))
		return -EINVAL;
	if (f->kind == KIND_U32)
		*(uint32_t *)member = (uint32_t)o->via.u64;
	else
		*(uint64_t *)member = o->via.u64;
	return 0;
}

static int decode_signed(const msgpack_object *o, int64_t *member)
{
	bool positive = o->type == MSGPACK_OBJECT_POSITIVE_INTEGER;
	if (!(positive && o->via.u64 <= INT64_MAX) && o->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
		return -EINVAL;
	*member = positive ? (int64_t)o->via.u64 : o->via.i64;
	return 0;
}

static int decode_list(struct decoder *d, const struct field *f, const msgpack_object *o, char *member,
		       const struct place *at)
{
	const struct layout *record = f->record();
	struct list list = {d->records, o->via.array.size};
	d->records += list.len * record->size;
	for (size_t i = 0; i < list.len; i++) {
		const msgpack_object *entry = &o->via.array.ptr[i];
		if (entry->type != MSGPACK_OBJECT_ARRAY || entry->via.array.size != record->n_fields)
			return wrong(at, f, -EINVAL, d->err, "entry %zu is not a list of %zu fields", i,
				     record->n_fields);
		int r = decode_struct(d, record, entry->via.array.ptr, (char *)list.at + i * record->size,
				      (struct place){at->message, f->name, i});
		if (r < 0)
			return r;
	}
	memcpy(member, &list, sizeof list);
	return 0;
}

static int decode_field(struct decoder *d, const struct field *f, const msgpack_object *o, char *member,
			const struct place *at)
{
	switch (f->kind) {
	case KIND_U32:
	case KIND_U64:
		if (decode_unsigned(f, o, member) < 0)
			return wrong(at, f, -EINVAL, d->err, "not an unsigned integer of %d bits",
				     f->kind == KIND_U32 ? 32 : 64);
		return 0;
	case KIND_I64:
		if (decode_signed(o, (int64_t *)(void *)member) < 0)
			return wrong(at, f, -EINVAL, d->err, "not an integer of 64 bits");
		return 0;
	case KIND_BOOL:
		if (o->type != MSGPACK_OBJECT_BOOLEAN)
			return wrong(at, f, -EINVAL, d->err, "not true or false");
		*(bool *)member = o->via.boolean;
		return 0;
	case KIND_TEXT:
		if (o->type != MSGPACK_OBJECT_STR || o->via.str.size > f->max)
			return wrong(at, f, -EINVAL, d->err, "not a text of at most %zu bytes", f->max);
		/* msgpack points into the bytes that came; of an empty text it points nowhere. */
		*(struct span *)(void *)member = (struct span){
		    d->copy + (o->via.str.size ? o->via.str.ptr - d->bytes.at : 0), o->via.str.size};
		return 0;
	default: /* KIND_LIST, measured before */
		return decode_list(d, f, o, member, at);
	}
}

static int decode_struct(struct decoder *d, const struct layout *l, const msgpack_object *values, char *base,
			 struct place at)
{
	int r = 0;
	for (size_t i = 0; i < l->n_fields && r == 0; i++)
		r = decode_field(d, &l->fields[i], &values[i], base + l->fields[i].offset, &at);
	return r;
}

/* The room that a message's lists take in the arena; -EINVAL. */
static int measure_lists(const struct layout *l, const msgpack_object *values, size_t *ret_size,
			 struct err *err)
{
	size_t size = 0;
	for (size_t i = 0; i < l->n_fields; i++) {
		const struct field *f = &l->fields[i];
		if (f->kind != KIND_LIST)
			continue;
		if (values[i].type != MSGPACK_OBJECT_ARRAY || values[i].via.array.size > f->max)
			return wrong(&(struct place){.message = l->name}, f, -EINVAL, err,
				     "not a list of at most %zu entries", f->max);
		size += values[i].via.array.size * f->record()->size;
	}
	*ret_size = size;
	return 0;
}

/* Finds out which message the values are, with its number of fields. */
static int identify(const msgpack_object *o, enum wire_type *ret, struct err *err)
{
	if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size == 0 ||
	    o->via.array.ptr[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
		return err_set(err, -EINVAL, "a message is a list that starts with its type");
	uint64_t type = o->via.array.ptr[0].via.u64;
	if (type <= WIRE_NONE || type >= WIRE_TYPE_COUNT)
		return err_set(err, -EINVAL, "message of unknown type %llu", (unsigned long long)type);
	size_t has = o->via.array.size - 1, wants = messages[type].layout()->n_fields;
	if (has != wants)
		return err_set(err, -EINVAL, "message %s: %zu fields, not %zu", messages[type].name, has,
			       wants);
	*ret = (enum wire_type)type;
	return 0;
}

/* The arena holds the lists' entries and then a copy of the bytes, in which the texts stay where they are. */
static int decode_object(struct span bytes, const msgpack_object *o, struct wire *ret, struct err *err)
{
	struct wire m = {.type = WIRE_NONE};
	int r = identify(o, &m.type, err);
	if (r < 0)
		return r;
	const struct message *message = &messages[m.type];
	const msgpack_object *values = o->via.array.ptr + 1;
	size_t lists = 0;
	if ((r = measure_lists(message->layout(), values, &lists, err)) < 0)
		return r;
	m.arena = malloc(lists + bytes.len);
	if (!m.arena)
		return err_set(err, -ENOMEM, "message %s: no memory", message->name);
	struct decoder d = {bytes, (char *)m.arena + lists, m.arena, err};
	memcpy(d.copy, bytes.at, bytes.len);
	r = decode_struct(&d, message->layout(), values, (char *)&m + message->offset,
			  (struct place){.message = message->name});
	if (r < 0)
		free(m.arena);
	else
		*ret = m;
	return r;
}

int wire_decode(struct span bytes, struct wire *ret, struct err *err)
{
	if (bytes.len > WIRE_MAX_BYTES)
		return err_set(err, -EINVAL, "a message of %zu bytes, at most %u are allowed", bytes.len,
			       WIRE_MAX_BYTES);
	int r = scan(bytes, err);
	if (r < 0)
		return r;
	msgpack_unpacked unpacked;
	msgpack_unpacked_init(&unpacked);
	size_t used = 0;
	msgpack_unpack_return u = msgpack_unpack_next(&unpacked, bytes.at, bytes.len, &used);
	if (u != MSGPACK_UNPACK_SUCCESS || used != bytes.len)
		r = err_set(err, u == MSGPACK_UNPACK_NOMEM_ERROR ? -ENOMEM : -EINVAL,
			    "msgpack refuses the message (%d)", (int)u);
	else
		r = decode_object(bytes, &unpacked.data, ret, err);
	msgpack_unpacked_destroy(&unpacked);
	return r;
}

void wire_done(struct wire *m)
{
	if (!m)
		return;
	free(m->arena);
	m->arena = NULL;
}

/* ---- names ---- */

static const char *name_of(const char *const *names, size_t n, uint32_t v)
{
	return v < n && names[v] ? names[v] : "?";
}

const char *wire_type_name(enum wire_type t)
{
	return t > WIRE_NONE && t < WIRE_TYPE_COUNT ? messages[t].name : "?";
}

#define X(NAME, text) text,
const char *wire_role_name(uint32_t v)
{
	static const char *const names[] = {WIRE_ROLES(X)};
	return name_of(names, ARRAY_SIZE(names), v);
}

const char *wire_cause_name(uint32_t v)
{
	static const char *const names[] = {WIRE_CAUSES(X)};
	return name_of(names, ARRAY_SIZE(names), v);
}

const char *wire_wish_name(uint32_t v)
{
	static const char *const names[] = {WIRE_WISHES(X)};
	return name_of(names, ARRAY_SIZE(names), v);
}

const char *wire_state_name(uint32_t v)
{
	static const char *const names[] = {WIRE_STATES(X)};
	return name_of(names, ARRAY_SIZE(names), v);
}

const char *wire_refusal_name(uint32_t v)
{
	static const char *const names[] = {WIRE_REFUSALS(X)};
	return name_of(names, ARRAY_SIZE(names), v);
}
#undef X

static const struct outcome {
	const char *name;
	bool failure, quarantine;
} outcomes[] = {
#define X(NAME, text, failure, quarantine) {text, failure, quarantine},
    WIRE_OUTCOMES(X)
#undef X
};

const char *wire_outcome_name(uint32_t v)
{
	return v < ARRAY_SIZE(outcomes) ? outcomes[v].name : "?";
}

bool wire_outcome_is_failure(uint32_t v)
{
	return v < ARRAY_SIZE(outcomes) && outcomes[v].failure;
}

bool wire_outcome_quarantines(uint32_t v)
{
	return v < ARRAY_SIZE(outcomes) && outcomes[v].quarantine;
}
