#include "json_machine.h"

enum { KEEP_CAPACITY = 1 << 20 /* a larger buffer is given back after its item */ };

/* Where the stream stands. BETWEEN and IN_EVENT are a watch's; the others follow a list: {"key": value,
 * "items": [item, ...]}. */
enum place {
	BETWEEN,
	IN_EVENT,
	EXPECT_LIST,
	EXPECT_KEY_OR_END,
	EXPECT_KEY,
	IN_KEY,
	EXPECT_COLON,
	EXPECT_MEMBER,
	IN_MEMBER,
	EXPECT_COMMA_OR_END,
	EXPECT_ITEM_OR_END,
	EXPECT_ITEM,
	IN_ITEM,
	EXPECT_ITEM_COMMA_OR_END,
	LIST_COMPLETE,
};

struct json_stream {
	uint8_t place; /* enum place */
	bool had_items;
	uint32_t blank; /* bytes of white space since there was anything else */
	const struct json_stream_ops *ops;
	void *ctx;
	uint64_t offset;	/* of the chunk at hand, from the start of input */
	struct json_machine at; /* in the value at hand, when place is IN_... */
	struct buf value;	/* the part of it that came with chunks before this one */
	struct buf key;		/* LIST: of the member at hand, with quotes */
};

struct json_stream *json_stream_new(enum json_stream_kind kind, const struct json_stream_ops *ops, void *ctx)
{
	struct json_stream *s = xcalloc(1, sizeof *s);
	s->place = kind == JSON_STREAM_LIST ? EXPECT_LIST : BETWEEN;
	s->ops = ops;
	s->ctx = ctx;
	s->value.limit = JSON_MAX_ITEM;
	return s;
}

void json_stream_free(struct json_stream *s)
{
	if (!s)
		return;
	buf_done(&s->value);
	buf_done(&s->key);
	free(s);
}

static int not_json(const struct json_stream *s, size_t at, const char *why, struct err *err)
{
	unsigned long long byte = s->offset + at;
	return err_set(err, -EINVAL, "not JSON at byte %llu: %s", byte, why);
}

static void begin(struct json_stream *s, enum place place)
{
	s->place = (uint8_t)place;
	json_machine_init(&s->at);
}

static bool key_is_items(const struct json_stream *s)
{
	return json_string_is(buf_span(&s->key), "items");
}

/* A value is complete: whom it belongs to gets it. */
static int hand_out(struct json_stream *s, struct span value)
{
	switch (s->place) {
	case IN_EVENT:
		s->place = BETWEEN;
		return s->ops->on_item(s->ctx, value);
	case IN_KEY:
		s->place = EXPECT_COLON;
		buf_reset(&s->key);
		buf_span_add(&s->key, value);
		return buf_failed(&s->key) ? -ENOMEM : 0;
	case IN_MEMBER:
		s->place = EXPECT_COMMA_OR_END;
		return s->ops->on_member && !key_is_items(s)
			   ? s->ops->on_member(s->ctx, buf_span(&s->key), value)
			   : 0;
	default: /* IN_ITEM */
		s->place = EXPECT_ITEM_COMMA_OR_END;
		return s->ops->on_item(s->ctx, value);
	}
}

/* Goes on with the value at hand, from chunk[*at]. A value within one chunk is never copied. */
static int take_value(struct json_stream *s, struct span chunk, size_t *at, struct err *err)
{
	bool complete;
	size_t n = json_machine_run(&s->at, chunk.at + *at, chunk.len - *at, &complete);
	struct span value = {chunk.at + *at, n};
	*at += n;
	if (s->at.wrong)
		return not_json(s, *at, s->at.wrong, err);
	if (n > JSON_MAX_ITEM - s->value.len)
		return err_set(
		    err, -EMSGSIZE, "a value of more than %llu MiB, which begins %zu bytes before byte %llu",
		    (unsigned long long)JSON_MAX_ITEM >> 20, s->value.len, (unsigned long long)s->offset);
	if (!complete || s->value.len) {
		buf_span_add(&s->value, value);
		if (buf_failed(&s->value))
			return err_set(err, -ENOMEM, "no memory for a value of %zu bytes", s->value.len + n);
		value = buf_span(&s->value);
	}
	if (!complete)
		return 0;
	int r = hand_out(s, value);
	if (s->value.cap > KEEP_CAPACITY)
		buf_done(&s->value);
	else
		buf_reset(&s->value);
	return r;
}

/* The first byte of a member's value: the items are gone through one by one, anything else is collected. */
static const char *begin_member(struct json_stream *s, char c, bool *ret_taken)
{
	if (!key_is_items(s)) {
		begin(s, IN_MEMBER);
		return NULL;
	}
	if (s->had_items)
		return "a second member \"items\"";
	s->had_items = true;
	if (c == '[') {
		s->place = EXPECT_ITEM_OR_END;
		*ret_taken = true;
		return NULL;
	}
	begin(s, IN_MEMBER); /* null is what Go prints for an empty list */
	return c == 'n' ? NULL : "\"items\" is not a list";
}

/* One byte, not white space, while no value is at hand. *ret_taken stays false if it is the first one of a
 * value. Returns what is wrong. */
static const char *take_byte(struct json_stream *s, char c, bool *ret_taken)
{
	switch (s->place) {
	case BETWEEN:
		begin(s, IN_EVENT);
		return NULL;
	case EXPECT_ITEM_OR_END:
		if (c != ']') {
			begin(s, IN_ITEM);
			return NULL;
		}
		s->place = EXPECT_COMMA_OR_END;
		break;
	case EXPECT_ITEM:
		begin(s, IN_ITEM);
		return NULL;
	case EXPECT_ITEM_COMMA_OR_END:
		if (c != ',' && c != ']')
			return "',' or ']' was expected";
		s->place = c == ',' ? EXPECT_ITEM : EXPECT_COMMA_OR_END;
		break;
	case EXPECT_LIST:
		if (c != '{')
			return "a list starts with '{'";
		s->place = EXPECT_KEY_OR_END;
		break;
	case EXPECT_KEY_OR_END:
	case EXPECT_KEY:
		if (c == '"') {
			begin(s, IN_KEY);
			return NULL;
		}
		if (c != '}' || s->place == EXPECT_KEY)
			return "a member's name in quotes was expected";
		s->place = LIST_COMPLETE;
		break;
	case EXPECT_COLON:
		if (c != ':')
			return "':' was expected";
		s->place = EXPECT_MEMBER;
		break;
	case EXPECT_MEMBER:
		return begin_member(s, c, ret_taken);
	case EXPECT_COMMA_OR_END:
		if (c != ',' && c != '}')
			return "',' or '}' was expected";
		s->place = c == ',' ? EXPECT_KEY : LIST_COMPLETE;
		break;
	default: /* LIST_COMPLETE: IN_... never come here */
		return "something follows the list";
	}
	*ret_taken = true;
	return NULL;
}

static bool value_at_hand(const struct json_stream *s)
{
	return s->place == IN_EVENT || s->place == IN_KEY || s->place == IN_MEMBER || s->place == IN_ITEM;
}

bool json_stream_is_blank(const struct json_stream *s, struct span chunk)
{
	size_t n = 0;
	while (n < chunk.len && json_is_space(chunk.at[n]))
		n++;
	return n == chunk.len && !value_at_hand(s);
}

int json_stream_feed(struct json_stream *s, struct span chunk, struct err *err)
{
	for (size_t at = 0; at < chunk.len;) {
		if (value_at_hand(s)) {
			int r = take_value(s, chunk, &at, err);
			if (r)
				return r;
		} else if (json_is_space(chunk.at[at])) {
			if (++s->blank > JSON_MAX_BLANK)
				return not_json(s, at, "more than 1 MiB of white space", err);
			at++;
		} else {
			bool taken = false;
			s->blank = 0;
			const char *wrong = take_byte(s, chunk.at[at], &taken);
			if (wrong)
				return not_json(s, at, wrong, err);
			at += taken;
		}
	}
	s->offset += chunk.len;
	return 0;
}

int json_stream_end(struct json_stream *s, struct err *err)
{
	if (s->place == BETWEEN || s->place == LIST_COMPLETE)
		return 0;
	if (s->place == IN_EVENT && json_machine_may_end(&s->at))
		return hand_out(s, buf_span(&s->value)); /* a number, whose end nothing else shows */
	if (s->place == IN_EVENT)
		return err_set(err, -EPROTO,
			       "the stream ended within an event, after %llu bytes: the last %zu are dropped",
			       (unsigned long long)s->offset, s->value.len);
	return err_set(err, -EPROTO, "the answer ended after %llu bytes, before its list was complete",
		       (unsigned long long)s->offset);
}
