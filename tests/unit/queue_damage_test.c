/* A region with one wrong bit: refused with a message that says where, or it comes back with the same keys. Never half of it. */
#include "queue_lib.h"
#include "region.h"
#include <fcntl.h>
#include <unistd.h>

enum { KEYS = 12 };

/* Waiting, running, failing and ready keys, short and long names, two namespaces. */
static void fill(struct lib *l)
{
	lib_init_limit(l, 24 * (uint64_t)SHM_BLOCK);
	for (int i = 0; i < KEYS; i++) {
		char name[200];
		snprintf(name, sizeof(name), "%s-%d",
			 i % 3 ? "short" : "a-name-that-does-not-fit-into-its-slot-and-needs-a-cell", i);
		struct wire_add_key key = lib_key(name, i % 2 ? -100 : 0);
		if (i % 4 == 0)
			key.namespace = span_of("blog");
		lib_add_key(l, key);
	}
	for (int i = 0; i < KEYS / 2; i++) {
		struct workqueue_grant g;
		cr_assert(lib_grant(l, &g));
		struct wire_done done = {.slot = g.slot,
					 .generation = g.generation,
					 .outcome = WIRE_OUTCOME_TRANSIENT,
					 .requeue_after_ms = -1,
					 .message = span_of("why it failed")};
		struct workqueue_end end;
		if (i % 2)
			cr_assert(workqueue_done(&l->wq, &done, l->now, &end) == 0);
	}
}

/* What a queue says of itself, over its slots. */
static void describe(const struct store *st, struct buf *out)
{
	buf_printf(out, "next %llu\n", (unsigned long long)store_header(st)->next_generation);
	for (uint32_t i = 0; i < store_slots(st); i++) {
		const struct shm_slot *s = store_slot(st, i);
		if (s->state != SHM_STATE_NONE)
			buf_add(out, s, sizeof(*s));
	}
}

/* 0: recovered with the same content; -EBADMSG: refused, with a reason. */
static int recover(char *memory, struct span want, struct err *err)
{
	struct store st = lib_store(memory, 24 * (uint64_t)SHM_BLOCK);
	struct workqueue wq;
	st.allocated = 24 * (uint64_t)SHM_BLOCK;
	int rc = store_recover(&st, err);
	if (rc == 0) {
		rc = workqueue_init(&wq, &st, 42, err);
		if (rc == 0 || rc == -EBADMSG)
			workqueue_done_with(&wq);
	}
	struct buf is = {0};
	if (rc == 0)
		describe(&st, &is);
	cr_expect(rc != 0 || span_eq(buf_span(&is), want), "it comes back with another content");
	cr_expect(rc == 0 || (rc == -EBADMSG && err->text[0]), "%d '%s'", rc, err->text);
	buf_done(&is);
	store_done(&st);
	return rc;
}

struct part {
	const char *name;
	uint64_t from, to;
	const char
	    *says; /* the least that must have been refused with these words; NULL: may all be harmless */
};

static void flip_all(const struct part *part)
{
	struct lib l;
	fill(&l);
	size_t n = (size_t)l.store.blocks * SHM_BLOCK, refused = 0, said = 0;
	struct buf want = {0};
	describe(&l.store, &want);
	char *copy = xcalloc(LIB_BYTES, 1);
	memcpy(copy, l.memory, n);
	for (uint64_t at = part->from; at < part->to; at++) {
		for (int bit = 0; bit < 8; bit++) {
			/* What is far from anything in use is tried here and there. */
			if (at - part->from >= 64 && (at % 16 || bit != (int)(at / 16 % 8)))
				continue;
			struct err err = {0};
			copy[at] = (char)(copy[at] ^ 1 << bit);
			int rc = recover(copy, buf_span(&want), &err);
			refused += rc < 0;
			said += rc < 0 && part->says && strstr(err.text, part->says);
			/* A recovery writes, so the copy is made anew. */
			memcpy(copy, l.memory, 2 * (size_t)SHM_BLOCK);
		}
	}
	cr_expect(!part->says || said, "%s: nothing was refused with '%s'", part->name, part->says);
	cr_log_info("%s: %zu refused", part->name, refused);
	free(copy);
	buf_done(&want);
	lib_done(&l);
}

Test(queue_damage, the_queue_s_header)
{
	flip_all(&(struct part){"header", SHM_HEADER_AT, SHM_HEADER_AT + sizeof(struct shm_queue_header),
				"damaged"});
}

Test(queue_damage, the_redo_record)
{
	flip_all(&(struct part){"redo record", SHM_REDO_AT, SHM_REDO_AT + SHM_REDO_BYTES,
				"the redo record is damaged"});
}

/* The broker was killed while the new images of a transition waited to be copied. */
Test(queue_damage, a_redo_record_that_is_valid)
{
	struct lib l;
	fill(&l); /* its last transition is the end of a failed attempt */
	struct shm_redo *redo = (struct shm_redo *)(void *)(l.memory + SHM_REDO_AT);
	uint32_t bytes = l.store.change_bytes;
	cr_assert(bytes > sizeof(struct shm_slot), "%u", bytes);
	redo->bytes = shm_redo_mark(bytes | SHM_REDO_CHECKED);
	size_t n = (size_t)l.store.blocks * SHM_BLOCK, touched = 8 + bytes + sizeof(uint64_t);
	char *copy = xcalloc(LIB_BYTES, 1);
	memcpy(copy, l.memory, n);
	struct store st = lib_store(copy, 24 * (uint64_t)SHM_BLOCK);
	struct err err = {0};
	st.allocated = 24 * (uint64_t)SHM_BLOCK;
	cr_assert(store_recover(&st, &err) == 0, "%s", err.text);
	store_done(&st);
	for (size_t at = 0; at < touched; at++)
		for (int bit = 0; bit < 8; bit++) {
			memcpy(copy, l.memory, n);
			copy[SHM_REDO_AT + at] = (char)(copy[SHM_REDO_AT + at] ^ 1 << bit);
			int rc = recover(copy, (struct span){"", 0}, &err);
			cr_assert(rc == -EBADMSG && strstr(err.text, "the redo record is damaged"),
				  "byte %zu, bit %d: %d '%s'", at, bit, rc, err.text);
		}
	free(copy);
	lib_done(&l);
}

/* The key that a short record changes; not its neighbours, whatever bit of the record is wrong. */
static void flip_short(struct lib *l, const struct workqueue_grant *g, uint32_t words)
{
	struct shm_redo *redo = (struct shm_redo *)(void *)(l->memory + SHM_REDO_AT);
	size_t n = (size_t)l->store.blocks * SHM_BLOCK, refused = 0, kept = 0;
	char *copy = xcalloc(LIB_BYTES, 1);
	redo->bytes = shm_redo_mark(words * 8);
	for (size_t at = 0; at < 8 + words * 8; at++)
		for (int bit = 0; bit < 8; bit++) {
			memcpy(copy, l->memory, n);
			copy[SHM_REDO_AT + at] = (char)(copy[SHM_REDO_AT + at] ^ 1 << bit);
			struct store st = lib_store(copy, 24 * (uint64_t)SHM_BLOCK);
			struct err err = {0};
			st.allocated = 24 * (uint64_t)SHM_BLOCK;
			int rc = store_recover(&st, &err);
			cr_assert(rc == 0 || (rc == -EBADMSG && err.text[0]), "byte %zu, bit %d: %d '%s'", at,
				  bit, rc, err.text);
			refused += rc < 0;
			kept += rc == 0;
			for (uint32_t i = 0; i < store_slots(&l->store); i++)
				cr_assert(i == g->slot || memcmp(copy + store_slot_byte(&l->store, i),
								 store_slot(&l->store, i), 64) == 0,
					  "byte %zu, bit %d: slot %u is another", at, bit, i);
			for (uint64_t i = SHM_HISTORY_AT; i < n; i++)
				cr_assert(copy[i] == l->memory[i] ||
					      i / 64 == store_slot_byte(&l->store, g->slot) / 64,
					  "byte %zu, bit %d: byte %llu is another", at, bit,
					  (unsigned long long)i);
			store_done(&st);
		}
	cr_assert(refused > 8 * 8 && kept > 0, "%zu refused, %zu not", refused, kept);
	redo->bytes = 0;
	free(copy);
}

Test(queue_damage, a_short_redo_record_reaches_no_other_key)
{
	struct lib l;
	struct workqueue_grant g;
	struct workqueue_end end;
	fill(&l);
	for (int merges = -1; merges <= UINT8_MAX; merges++)
		lib_add_key(&l, lib_key("well", 1000));
	g.slot = workqueue_slot(&l.wq, l.c, span_of("shop"), span_of("well"));
	flip_short(&l, &g, 4);
	cr_assert(lib_grant(&l, &g) && span_is(g.name, "well"));
	flip_short(&l, &g, 12);
	struct wire_done done = {.slot = g.slot, .generation = g.generation, .requeue_after_ms = -1};
	cr_assert(workqueue_done(&l.wq, &done, l.now, &end) == 0);
	flip_short(&l, &g, 6);
	lib_done(&l);
}

/* A number that leads outside, or a text without an end. */
Test(queue_damage, the_row_of_a_controller)
{
	static const size_t parts[] = {
	    offsetof(struct shm_controller, name) + 63, offsetof(struct shm_controller, digest) + 71,
	    offsetof(struct shm_controller, pause_message) + 251, offsetof(struct shm_controller, pause),
	    offsetof(struct shm_controller, crashed_count)};
	struct lib l;
	struct err err = {0};
	fill(&l);
	size_t n = (size_t)l.store.blocks * SHM_BLOCK;
	char *copy = xcalloc(LIB_BYTES, 1);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (int bit = 4; bit < 8; bit++) {
			memcpy(copy, l.memory, n);
			char *at = copy + SHM_CONTROLLERS_AT + parts[i];
			*at = (char)(*at ^ 1 << bit);
			cr_assert(recover(copy, span_of(""), &err) == -EBADMSG &&
				      strstr(err.text, "the row of controller 0 is damaged"),
				  "part %zu, bit %d: '%s'", i, bit, err.text);
		}
	free(copy);
	lib_done(&l);
}

/* A wrong bit in the hash or the name of a leased key. Its place in the table is found by the hash that its lease has. */
Test(queue_damage, a_lease_of_another_key)
{
	struct lib l;
	struct workqueue_grant g;
	struct err err = {0};
	fill(&l);
	lib_add_key(&l, lib_key("well", 1000));
	cr_assert(lib_grant(&l, &g));
	struct shm_slot *s = store_slot_at(&l.store, g.slot);
	struct shm_detail *d = store_detail_at(&l.store, s->detail);
	void *const parts[] = {&d->key_hash, s->name};
	size_t n = (size_t)l.store.blocks * SHM_BLOCK;
	char *copy = xcalloc(LIB_BYTES, 1);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (int bit = 0; bit < 32; bit++) {
			memcpy(copy, l.memory, n);
			copy[(char *)parts[i] - l.memory + bit / 8] ^= (char)(1 << bit % 8);
			cr_assert(recover(copy, span_of(""), &err) == -EBADMSG &&
				      strstr(err.text, "the lease of another key"),
				  "part %zu, bit %d: '%s'", i, bit, err.text);
		}
	free(copy);
	lib_done(&l);
}

Test(queue_damage, the_directory)
{
	flip_all(
	    &(struct part){"directory", SHM_DIRECTORY_AT, SHM_DIRECTORY_AT + 64, "the directory is damaged"});
	/* All of them once, of those that are behind the last in use. */
	flip_all(&(struct part){"directory, its end", SHM_DIRECTORY_AT + SHM_BLOCKS_MAX - 512,
				SHM_DIRECTORY_AT + SHM_BLOCKS_MAX, "the directory is damaged"});
}

/* The first page is the affair of region.c: every byte of its fields is looked at before anything else of the file. */
Test(queue_damage, the_region_s_header)
{
	char folder[] = "/tmp/queue-damage.XXXXXX";
	cr_assert(mkdtemp(folder));
	char *path = xasprintf("%s/queue.shm", folder);
	struct region_spec spec = shm_queue_spec();
	spec.max_size = 16 * (uint64_t)SHM_BLOCK;
	spec.initial_size = 4 * (uint64_t)SHM_BLOCK;
	for (size_t at = 0; at < sizeof(struct region_header); at++) {
		for (int bit = 0; bit < 8; bit++) {
			struct region r;
			struct err err = {0};
			enum region_state state;
			cr_assert(region_write(path, &spec, &r, &state, &err) == 0, "%s", err.text);
			r.at[REGION_PAGE] = 'x';
			region_done(&r);
			int fd = open(path, O_RDWR | O_CLOEXEC);
			char c;
			cr_assert(pread(fd, &c, 1, (off_t)at) == 1);
			c = (char)(c ^ 1 << bit);
			cr_assert(pwrite(fd, &c, 1, (off_t)at) == 1);
			close(fd);
			err.text[0] = '\0';
			cr_assert(region_write(path, &spec, &r, &state, &err) == 0, "byte %zu: %s", at,
				  err.text);
			cr_expect(state == REGION_REPLACED
				      ? err.text[0] && !r.at[REGION_PAGE]
				      : state == REGION_RECOVERED && r.at[REGION_PAGE] == 'x',
				  "byte %zu, bit %d: %d '%s'", at, bit, (int)state, err.text);
			bool looked_at = at < offsetof(struct region_header, incarnation);
			cr_expect(!looked_at || state == REGION_REPLACED, "byte %zu is not looked at", at);
			region_done(&r);
			unlink(path);
		}
	}
	rmdir(folder);
	free(path);
}
