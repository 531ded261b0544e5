#include "transport_private.h"

#define TRANSPORT_MAGIC "reconq\0" /* and the version in the eighth byte */
enum { TRANSPORT_VERSION = 1 };

static const char greeting[FRAME_HEADER] = {TRANSPORT_MAGIC[0], TRANSPORT_MAGIC[1], TRANSPORT_MAGIC[2],
					    TRANSPORT_MAGIC[3], TRANSPORT_MAGIC[4], TRANSPORT_MAGIC[5],
					    TRANSPORT_MAGIC[6], TRANSPORT_VERSION};

static void word_put(char *at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		at[i] = (char)(v >> (24 - 8 * i));
}

static uint32_t word_get(const char *at)
{
	const unsigned char *h = (const unsigned char *)at;
	return (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3];
}

/* Brings the side's sum up to date. False: it is too much now. */
static bool conn_count(struct conn *c)
{
	size_t now = c->part.cap + c->out.cap;
	c->kept->bytes += now - c->counted;
	c->counted = now;
	return c->kept->bytes <= c->kept->most;
}

static void buf_empty(struct buf *b)
{
	if (b->cap > KEEP_MAX)
		buf_done(b);
	else
		buf_reset(b);
}

void conn_done(struct conn *c)
{
	stream_free(c->stream);
	c->stream = NULL;
	buf_done(&c->part);
	buf_done(&c->out);
	conn_count(c);
}

void conn_release(struct conn *c)
{
	if (!c->given)
		return;
	c->given = false;
	buf_empty(&c->part);
	conn_count(c);
}

ssize_t conn_read(struct conn *c, struct inbox *in)
{
	ssize_t n = stream_read(c->stream, in->bytes, sizeof in->bytes);
	in->at = 0;
	in->len = n > 0 ? (size_t)n : 0;
	return n;
}

static int greeting_check(const char *got, struct err *err)
{
	if (memcmp(got, greeting, sizeof greeting - 1) != 0)
		return err_set(err, -EPROTO, "it does not speak this protocol");
	if (got[sizeof greeting - 1] != TRANSPORT_VERSION)
		return err_set(err, -EPROTO,
			       "it frames messages as version %d does, this program as version %d: "
			       "install the same version everywhere",
			       (unsigned char)got[sizeof greeting - 1], TRANSPORT_VERSION);
	return 0;
}

/* The length of the frame (or greeting) that begins with these bytes, header included. */
static int frame_length(const struct conn *c, const char *header, size_t *ret, struct err *err)
{
	size_t n = c->greeted ? word_get(header) : 0;
	if (n > WIRE_MAX_BYTES)
		return err_set(err, -EPROTO, "a message of %zu bytes: at most %u are allowed", n,
			       WIRE_MAX_BYTES);
	*ret = FRAME_HEADER + n;
	return 0;
}

static enum frame_type frame_give(struct conn *c, const char *at, size_t len, struct frame *ret,
				  struct err *err)
{
	if (!c->greeted) {
		c->greeted = true;
		return greeting_check(at, err) ? FRAME_BAD : FRAME_GREETING;
	}
	*ret = (struct frame){word_get(at + 4), {at + FRAME_HEADER, len - FRAME_HEADER}};
	return FRAME_WHOLE;
}

/* Moves bytes from the inbox until the part has `want`. False: they have not all come yet. */
static bool part_fill(struct conn *c, struct inbox *in, size_t want)
{
	if (c->part.len < want) {
		size_t n = MIN(in->len - in->at, want - c->part.len);
		buf_add(&c->part, in->bytes + in->at, n);
		in->at += n;
	}
	return !buf_failed(&c->part) && c->part.len >= want;
}

static enum frame_type part_failed(struct conn *c, struct err *err)
{
	if (conn_count(c) && !buf_failed(&c->part))
		return FRAME_NONE;
	err_set(err, -ENOBUFS, "no memory is left for unfinished messages: %zu bytes are held",
		c->kept->bytes);
	return FRAME_BAD;
}

enum frame_type conn_next(struct conn *c, struct inbox *in, struct frame *ret, struct err *err)
{
	size_t left = in->len - in->at, whole;
	const char *at = in->bytes + in->at;
	if (!left)
		return FRAME_NONE;
	if (!c->part.len && left >= FRAME_HEADER) { /* as a rule it is there as a whole */
		if (frame_length(c, at, &whole, err))
			return FRAME_BAD;
		if (whole <= left) {
			in->at += whole;
			return frame_give(c, at, whole, ret, err);
		}
	}
	/* Else it is put together: its header, and then what that asks for. */
	if (!part_fill(c, in, FRAME_HEADER))
		return part_failed(c, err);
	if (frame_length(c, c->part.data, &whole, err))
		return FRAME_BAD;
	if (!part_fill(c, in, whole))
		return part_failed(c, err);
	c->given = true;
	return frame_give(c, c->part.data, whole, ret, err);
}

/* Keeps what the kernel did not take: all but the first `sent` bytes. */
static int conn_keep(struct conn *c, const struct iovec v[2], size_t sent, size_t most)
{
	if (c->out_at >= c->out.len / 2) {
		buf_remove_front(&c->out, c->out_at);
		c->out_at = 0;
	}
	for (size_t i = 0; i < 2; i++) {
		size_t skip = MIN(sent, v[i].iov_len);
		sent -= skip;
		buf_add(&c->out, (const char *)v[i].iov_base + skip, v[i].iov_len - skip);
	}
	bool fits = conn_count(c);
	return buf_failed(&c->out) || !fits || c->out.len - c->out_at > most ? -ENOBUFS : 0;
}

static int conn_write(struct conn *c, const struct iovec v[2], size_t most)
{
	ssize_t n = conn_waits(c) ? 0 : stream_write(c->stream, v, 2);
	if (n == -EAGAIN)
		n = 0;
	if (n < 0)
		return (int)n;
	return (size_t)n == v[0].iov_len + v[1].iov_len ? 0 : conn_keep(c, v, (size_t)n, most);
}

int conn_greet(struct conn *c)
{
	const struct iovec v[2] = {{(void *)(uintptr_t)greeting, sizeof greeting}, {NULL, 0}};
	return conn_write(c, v, FRAME_HEADER);
}

int conn_send(struct conn *c, uint32_t id, struct span bytes, size_t most)
{
	char header[FRAME_HEADER];
	word_put(header, (uint32_t)bytes.len);
	word_put(header + 4, id);
	const struct iovec v[2] = {{header, sizeof header}, {(void *)(uintptr_t)bytes.at, bytes.len}};
	return conn_write(c, v, most);
}

int conn_flush(struct conn *c)
{
	while (conn_waits(c)) {
		const struct iovec v = {c->out.data + c->out_at, c->out.len - c->out_at};
		ssize_t n = stream_write(c->stream, &v, 1);
		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return (int)n;
		c->out_at += (size_t)n;
		if (c->out_at < c->out.len)
			continue;
		c->out_at = 0;
		buf_empty(&c->out);
		conn_count(c);
	}
	return 0;
}

void conn_forget_out(struct conn *c)
{
	c->out_at = 0;
	buf_done(&c->out);
	conn_count(c);
}
