/* Keys on their way to the broker: kept across a death, merged, bounded. */
#include "watcher/outbox.h"
#include <criterion/criterion.h>
#include <stdio.h>

enum { EXTENTS = 3, ENTRIES = EXTENTS * CACHE_OUTBOX_EXTENT };
static struct cache_outbox_entry *entries;
static uint32_t extents, room; /* how many there are, and could be */
static struct cache_controller *controllers;
static struct outbox *outbox;

static struct cache_outbox_entry *extent(void *ctx _unused_, uint32_t n)
{
	if (n >= room)
		return NULL;
	extents = MAX(extents, n + 1);
	return entries + (size_t)n * CACHE_OUTBOX_EXTENT;
}

static struct outbox *open_outbox(void)
{
	return outbox_new(&(struct outbox_place){.extents = extents, .most = EXTENTS, .extent = extent},
			  controllers);
}

static void setup(void)
{
	extents = 1;
	room = EXTENTS;
	entries = xcalloc(ENTRIES, sizeof *entries);
	controllers = xcalloc(CACHE_CONTROLLERS, sizeof *controllers);
	strcpy(controllers[0].name, "a");
	strcpy(controllers[1].name, "b");
	outbox = open_outbox();
}
static void done(void)
{
	outbox_free(outbox);
	free(entries);
	free(controllers);
}
TestSuite(outbox, .init = setup, .fini = done);

static int put(uint8_t controller, const char *name, int32_t priority, bool changed)
{
	struct outbox_key k = {.controller = controller,
			       .namespace = span_of("shop"),
			       .name = span_of(name),
			       .priority = priority,
			       .primary_changed = changed,
			       .cause = 2,
			       .cause_kind = span_of("ConfigMap.v1"),
			       .cause_namespace = span_of("shop"),
			       .cause_name = span_of(name)};
	return outbox_put(outbox, &k, false);
}

static void restart(void)
{
	outbox_free(outbox);
	outbox = open_outbox();
}

Test(outbox, put_take_ack)
{
	uint32_t e[ENTRIES];
	struct outbox_key k;
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 0);
	cr_assert_eq(put(0, "x", 0, true), 0);
	cr_assert_eq(put(0, "y", -100, false), 0);
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 2);
	outbox_view(outbox, e[0], &k);
	cr_assert(span_is(k.namespace, "shop") && span_is(k.name, "x") && k.priority == 0 &&
		  k.primary_changed && k.cause == 2);
	cr_assert(span_is(k.cause_kind, "ConfigMap.v1") && span_is(k.cause_namespace, "shop") &&
		  span_is(k.cause_name, "x"));
	outbox_view(outbox, e[1], &k);
	cr_assert(span_is(k.name, "y") && k.priority == -100 && !k.primary_changed);
	cr_assert(outbox_used(outbox) == 2 && outbox_waiting(outbox) == 0);
	outbox_ack(outbox, e[0]);
	outbox_return(outbox, e[1]);
	cr_assert(outbox_used(outbox) == 1 && outbox_waiting(outbox) == 1);
}

Test(outbox, waiting_keys_merge_and_those_in_flight_do_not)
{
	uint32_t e[ENTRIES];
	struct outbox_key k;
	put(0, "x", -100, false);
	put(0, "x", 5, true);
	put(0, "x", -5, false);
	put(1, "x", 0, false);
	cr_assert_eq(outbox_waiting(outbox), 2);
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 1); /* one controller at a time */
	outbox_view(outbox, e[0], &k);
	cr_assert(k.controller == 0 && k.priority == 5 && k.primary_changed);
	put(0, "x", 0, false);
	cr_assert_eq(outbox_waiting(outbox), 2);
	outbox_return(outbox, e[0]); /* lost on the way: merged with the one that waits */
	cr_assert_eq(outbox_used(outbox), 2);
	bool skip[CACHE_CONTROLLERS] = {[1] = true};
	cr_assert_eq(outbox_take(outbox, skip, 10, e), 1);
	outbox_view(outbox, e[0], &k);
	cr_assert(k.controller == 0 && k.priority == 5 && k.primary_changed);
	cr_assert_eq(outbox_take(outbox, skip, 10, e), 0);
}

static void put_event(const char *name, uint64_t version)
{
	struct cache_event event = {7, 1, version};
	struct outbox_key k = {.namespace = span_of("shop"),
			       .name = span_of(name),
			       .cause = 2,
			       .events = &event,
			       .n_events = version != 0};
	cr_assert_eq(outbox_put(outbox, &k, false), 0);
}

static size_t events_of(uint32_t entry)
{
	struct outbox_key k;
	outbox_view(outbox, entry, &k);
	return k.n_events;
}

Test(outbox, events_of_a_merged_key_are_kept_apart)
{
	uint32_t e[ENTRIES];
	struct outbox_key k;
	put_event("x", 100);
	put_event("x", 103);
	put_event("x", 100);
	restart();
	cr_assert_eq(outbox_take(outbox, NULL, 1, e), 1);
	outbox_view(outbox, e[0], &k);
	cr_assert(k.n_events == 2 && k.events[0].resource_version == 100 &&
		  k.events[1].resource_version == 103 && k.events[1].table == 7 && k.events[1].stream == 1);
	/* One that comes back joins the one that waits. */
	put_event("x", 104);
	outbox_return(outbox, e[0]);
	cr_assert_eq(outbox_take(outbox, NULL, 1, e), 1);
	cr_assert_eq(events_of(e[0]), 3);
	outbox_ack(outbox, e[0]);

	/* Something else, or too many: then it is not told what the key is there for. */
	put_event("list", 100);
	put_event("list", 0);
	put_event("list", 101);
	for (uint64_t i = 0; i <= CACHE_OUTBOX_EVENTS; i++)
		put_event("many", 100 + i);
	put_event("many", 100);
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 2);
	cr_assert(events_of(e[0]) == 0 && events_of(e[1]) == 0);
	entries[e[1]].events = CACHE_OUTBOX_EVENTS + 1;
	restart();
	cr_assert_eq(outbox_waiting(outbox), 1);
}

Test(outbox, what_was_put_before_is_sent_before)
{
	uint32_t e[ENTRIES];
	cr_assert(outbox_sent(outbox, 0, outbox_arrivals(outbox)));
	put(0, "x", 0, false);
	uint64_t then = outbox_arrivals(outbox);
	put(0, "x", 0, true);
	put(0, "y", 0, false);
	cr_assert(!outbox_sent(outbox, 0, then) && outbox_sent(outbox, 1, then));
	cr_assert_eq(outbox_take(outbox, NULL, 1, e), 1);
	cr_assert(outbox_sent(outbox, 0, then) && !outbox_sent(outbox, 0, outbox_arrivals(outbox)));
	cr_assert_eq(outbox_take(outbox, NULL, 1, e), 1);
	cr_assert(outbox_sent(outbox, 0, outbox_arrivals(outbox)));
}

Test(outbox, a_restart_sends_what_was_not_acknowledged)
{
	uint32_t e[ENTRIES];
	put(0, "sent", 0, false);
	put(0, "acked", 0, false);
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 2);
	outbox_ack(outbox, e[1]);
	put(1, "waits", 0, false);
	restart();
	cr_assert_eq(outbox_waiting(outbox), 2);
	/* A controller that is no more has no keys; a damaged entry is none. */
	controllers[1].name[0] = 0;
	restart();
	cr_assert_eq(outbox_waiting(outbox), 1);
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 1);
	entries[e[0]].lengths[1] = 600;
	restart();
	cr_assert_eq(outbox_waiting(outbox), 0);
}

Test(outbox, full_refuses_and_keeps_a_part_for_keys_that_must)
{
	char name[16];
	int n = 0;
	for (int rc = 0; rc == 0; n += rc == 0) {
		snprintf(name, sizeof name, "n%d", n);
		rc = put(0, name, 0, false);
		cr_assert(rc == 0 || rc == -ENOSPC);
	}
	cr_assert_eq(n, ENTRIES - ENTRIES / 8);
	cr_assert_eq(put(0, "n0", 0, true), 0); /* one that waits already needs no room */
	struct outbox_key k = {.namespace = span_of("shop"), .name = span_of("gone")};
	for (int i = 0; i < ENTRIES / 8; i++) {
		snprintf(name, sizeof name, "must%d", i);
		k.name = span_of(name);
		cr_assert_eq(outbox_put(outbox, &k, true), 0);
	}
	k.name = span_of("one more");
	cr_assert_eq(outbox_put(outbox, &k, true), -ENOSPC);
	cr_assert_eq(outbox_room(outbox, true), 0);
	outbox_drop(outbox, 0);
	cr_assert_eq(outbox_used(outbox), 0);
	cr_assert_eq(outbox_put(outbox, &k, true), 0);
}

Test(outbox, a_late_answer_for_a_dropped_key_strikes_out_no_other)
{
	uint32_t e[2], f[ENTRIES];
	put(0, "old", 0, false);
	put(0, "older", 0, false);
	cr_assert_eq(outbox_take(outbox, NULL, 2, e), 2);
	outbox_drop(outbox, 0);
	/* Their places are not given away while an answer may come. */
	char name[16];
	int n = 0;
	for (; outbox_room(outbox, false); n++) {
		snprintf(name, sizeof name, "n%d", n);
		cr_assert_eq(put(0, name, 0, false), 0);
	}
	uint32_t taken = outbox_take(outbox, NULL, ENTRIES, f);
	cr_assert_eq(taken, (uint32_t)n);
	for (uint32_t i = 0; i < taken; i++)
		cr_assert(f[i] != e[0] && f[i] != e[1]);
	outbox_ack(outbox, e[0]);
	outbox_return(outbox, e[1]);
	cr_assert_eq(outbox_used(outbox), taken);
	restart();
	cr_assert_eq(outbox_waiting(outbox), taken);
}

Test(outbox, grows_when_it_must_and_not_where_there_is_no_room)
{
	char name[16];
	uint32_t e[ENTRIES], n = 0;
	for (; n < 10; n++) {
		snprintf(name, sizeof name, "n%u", n);
		cr_assert_eq(put(0, name, 0, false), 0);
	}
	cr_assert_eq(outbox_take(outbox, NULL, 5, e), 5); /* in flight while it grows */
	cr_assert_eq(extents, 1);
	room = 2;
	for (int rc = 0; rc == 0; n += rc == 0) {
		snprintf(name, sizeof name, "n%u", n);
		rc = put(0, name, 0, false);
		cr_assert(rc == 0 || rc == -ENOSPC);
	}
	cr_assert_eq(n, 2 * CACHE_OUTBOX_EXTENT);
	cr_assert_eq(extents, 2);
	/* Each is found again where it waits. */
	for (uint32_t i = 5; i < n; i++) {
		snprintf(name, sizeof name, "n%u", i);
		cr_assert_eq(put(0, name, 1, false), 0);
	}
	cr_assert_eq(outbox_used(outbox), n);
	for (uint32_t i = 0; i < 5; i++)
		outbox_ack(outbox, e[i]);
	room = EXTENTS;
	for (uint32_t i = 0; i < 6; i++) {
		snprintf(name, sizeof name, "more%u", i);
		cr_assert_eq(put(0, name, 0, false), 0);
	}
	cr_assert_eq(extents, 3);
	restart();
	cr_assert_eq(outbox_waiting(outbox), n + 1);
	cr_assert_eq(outbox_take(outbox, NULL, ENTRIES, e), n + 1);
}

Test(outbox, causes_that_find_no_room_are_left_out)
{
	char name[NAME_MAX_LEN + 1] = {0}, namespace[NAMESPACE_MAX_LEN + 1] = {0};
	uint32_t e[2];
	memset(name, 'n', NAME_MAX_LEN);
	memset(namespace, 's', NAMESPACE_MAX_LEN);
	struct outbox_key k = {.namespace = span_of(namespace),
			       .name = span_of(name),
			       .cause = 1,
			       .cause_kind = span_of("Deployment.apps/v1"),
			       .cause_namespace = span_of(namespace),
			       .cause_name = span_of(name)},
			  got;
	cr_assert_eq(outbox_put(outbox, &k, false), 0);
	cr_assert_eq(outbox_take(outbox, NULL, 1, e), 1);
	outbox_view(outbox, e[0], &got);
	cr_assert(span_eq(got.namespace, k.namespace) && span_eq(got.name, k.name) && got.cause == 1);
	cr_assert(!got.cause_kind.len && !got.cause_name.len);
}

Test(outbox, order_is_kept_and_entries_come_back)
{
	uint32_t e[8];
	char name[16];
	struct outbox_key k;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "n%d", i);
		cr_assert_eq(put((uint8_t)(i % 2), name, 0, false), 0);
		if (i % 8 != 7)
			continue;
		for (int c = 0; c < 2; c++) {
			cr_assert_eq(outbox_take(outbox, NULL, 8, e), 4);
			for (int j = 0; j < 4; j++) {
				snprintf(name, sizeof name, "n%d", i - 7 + c + j * 2);
				outbox_view(outbox, e[j], &k);
				cr_assert(span_is(k.name, name));
				outbox_ack(outbox, e[j]);
			}
		}
	}
	cr_assert_eq(outbox_used(outbox), 0);
}

static int put_paced(uint8_t controller, const char *name)
{
	return outbox_put(outbox,
			  &(struct outbox_key){.controller = controller,
					       .namespace = span_of("shop"),
					       .name = span_of(name),
					       .priority = -100,
					       .paced = true},
			  false);
}

static bool is_named(uint32_t entry, const char *name)
{
	struct outbox_key k;
	outbox_view(outbox, entry, &k);
	return span_is(k.name, name);
}

Test(outbox, paced_keys_wait_apart_and_hold_up_nobody)
{
	uint32_t e[ENTRIES];
	for (int i = 0; i < 5; i++) {
		char name[8];
		snprintf(name, sizeof name, "p%d", i);
		cr_assert_eq(put_paced(0, name), 0);
	}
	put(0, "x", 0, false);
	uint64_t arrivals = outbox_arrivals(outbox);
	cr_expect_eq(outbox_waiting(outbox), 6u);
	cr_expect_eq(outbox_take(outbox, NULL, 10, e), 1u);
	cr_expect(is_named(e[0], "x"));
	cr_expect(outbox_sent(outbox, 0, arrivals), "what is paced tells nothing of how far the stream is");
	cr_expect_eq(outbox_take(outbox, NULL, 10, e), 0u);
	cr_expect(outbox_has_paced(outbox, 0) && !outbox_has_paced(outbox, 1));
	cr_expect_eq(outbox_take_paced(outbox, 0, 2, e), 2u);
	cr_expect(is_named(e[0], "p0") && is_named(e[1], "p1"));
	outbox_ack(outbox, e[0]);
	outbox_return(outbox, e[1]); /* behind the others, and still paced */
	cr_expect_eq(outbox_take(outbox, NULL, 10, e), 0u);
	restart(); /* what was in flight waits again, as it was */
	cr_expect_eq(outbox_take(outbox, NULL, 10, e), 1u);
	cr_expect_eq(outbox_take_paced(outbox, 0, 10, e), 4u);
}

Test(outbox, a_paced_key_that_another_event_concerns_goes_at_once)
{
	static const char *const orders[][3] = {{"p0", "p1", "p2"}, {"p1", "p0", "p2"}, {"p2", "p1", "p0"}};
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		uint32_t e[ENTRIES], n = 0;
		put_paced(0, "p0"), put_paced(0, "p1"), put_paced(0, "p2");
		for (size_t k = 0; k < 3; k++) {
			put(0, orders[i][k], 0, false);
			cr_assert_eq(outbox_take(outbox, NULL, 10, e), 1u);
			cr_expect(is_named(e[0], orders[i][k]));
			outbox_ack(outbox, e[0]);
			n = outbox_waiting(outbox);
			cr_expect_eq(n, 2u - k);
		}
		put_paced(0, "q");
		cr_expect_eq(outbox_take_paced(outbox, 0, 10, e), 1u);
		outbox_ack(outbox, e[0]);
		cr_expect_not(outbox_has_paced(outbox, 0));
	}
	/* And one that waits for an event of its own is not put behind a storm. */
	uint32_t e[ENTRIES];
	put(0, "x", 0, false);
	put_paced(0, "x");
	cr_expect_not(outbox_has_paced(outbox, 0));
	cr_expect_eq(outbox_take(outbox, NULL, 10, e), 1u);
}

Test(outbox, paced_keys_go_with_their_controller_and_are_shed_when_they_are_the_oldest)
{
	put_paced(0, "p"), put(0, "x", 0, false), put_paced(1, "p");
	outbox_shed(outbox);
	cr_expect(!outbox_has_paced(outbox, 0) && outbox_waiting(outbox) == 2);
	outbox_drop(outbox, 1);
	cr_expect(!outbox_has_paced(outbox, 1) && outbox_waiting(outbox) == 1);
}

/* Storms may last: events of all the others need the room. */
Test(outbox, paced_keys_have_a_quarter_of_the_room)
{
	char name[16];
	struct outbox_key must = {
	    .namespace = span_of("shop"), .name = span_of("gone"), .paced = true, .cause = 2};
	for (int i = 0; i < ENTRIES / 4; i++) {
		snprintf(name, sizeof name, "p%d", i);
		cr_expect_eq(put_paced(0, name), 0);
	}
	cr_expect_eq(put_paced(1, "more"), -ENOSPC);
	cr_expect_eq(put_paced(0, "p0"), 0, "it is there");
	cr_expect_eq(outbox_put(outbox, &must, true), 0, "no sweep finds it again");
	cr_expect_eq(put(1, "x", 0, false), 0);
	restart();
	cr_expect_eq(put_paced(1, "more"), -ENOSPC);
	uint32_t e[ENTRIES];
	cr_expect_eq(outbox_take_paced(outbox, 0, 2, e), 2u);
	cr_expect_eq(put_paced(1, "more"), 0, "on their way they do not count");
	put(0, "p2", 0, false); /* by an event of its own it is none any more */
	cr_expect_eq(put_paced(1, "another"), 0);
	cr_expect_eq(put_paced(1, "yet another"), -ENOSPC);
}

/* ---- held for a predicate ---- */

static uint32_t hold(uint8_t controller, const char *name, int32_t priority)
{
	struct outbox_key k = {.controller = controller,
			       .namespace = span_of("shop"),
			       .name = span_of(name),
			       .priority = priority,
			       .cause = 2};
	uint32_t entry;
	cr_assert_eq(outbox_hold(outbox, &k, true, &entry), 0);
	return entry;
}

Test(outbox, held_keys_are_not_sent_before_they_pass)
{
	uint32_t e[ENTRIES], x = hold(0, "x", 0), y = hold(0, "y", 0);
	cr_assert(outbox_held(outbox) == 2 && outbox_used(outbox) == 2 && outbox_waiting(outbox) == 0);
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 0);
	cr_assert(outbox_sent(outbox, 0, outbox_arrivals(outbox)));
	outbox_pass(outbox, x);
	outbox_withdraw(outbox, y);
	cr_assert(outbox_held(outbox) == 0 && outbox_waiting(outbox) == 1);
	cr_assert(outbox_take(outbox, NULL, 10, e) == 1 && e[0] == x);
	outbox_ack(outbox, x);
	cr_assert_eq(outbox_used(outbox), 0);
}

Test(outbox, a_held_key_that_passes_is_merged)
{
	struct outbox_key k;
	uint32_t e[ENTRIES], x = hold(0, "x", 5);
	cr_assert_eq(put(0, "x", 0, true), 0);
	cr_assert_eq(outbox_waiting(outbox), 1); /* it does not wait for the predicate */
	outbox_pass(outbox, x);
	cr_assert(outbox_waiting(outbox) == 1 && outbox_used(outbox) == 1);
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 1);
	outbox_view(outbox, e[0], &k);
	cr_assert(k.priority == 5 && k.primary_changed);
}

Test(outbox, held_keys_are_sent_by_the_next_watcher)
{
	uint32_t e[ENTRIES];
	hold(0, "x", 0);
	outbox_withdraw(outbox, hold(0, "gone", 0));
	restart();
	cr_assert(outbox_held(outbox) == 0 && outbox_waiting(outbox) == 1);
	cr_assert_eq(outbox_take(outbox, NULL, 10, e), 1);
}

Test(outbox, held_keys_of_a_controller_that_goes_are_dropped)
{
	uint32_t x = hold(0, "x", 0), y = hold(1, "y", 0);
	outbox_drop(outbox, 0);
	restart();
	cr_assert_eq(outbox_waiting(outbox), 1);
	x = hold(0, "x", 0);
	outbox_drop(outbox, 0);
	outbox_pass(outbox, x); /* whoever held it does not know */
	cr_assert(outbox_held(outbox) == 0 && outbox_waiting(outbox) == 1 && outbox_used(outbox) == 1);
	(void)y;
}

Test(outbox, only_a_fourth_may_be_held)
{
	struct outbox_key k = {.namespace = span_of("shop"), .name = span_of("x")};
	uint32_t entry;
	for (int i = 0; i < ENTRIES / 4; i++) {
		cr_assert(outbox_may_hold(outbox));
		hold(0, "x", 0);
	}
	cr_assert(!outbox_may_hold(outbox));
	while (outbox_room(outbox, true))
		cr_assert_eq(outbox_hold(outbox, &k, true, &entry), 0);
	cr_assert_eq(outbox_hold(outbox, &k, true, &entry), -ENOSPC);
}
