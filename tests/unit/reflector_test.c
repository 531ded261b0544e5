/* What a list-and-watch stream does next, for everything that can happen to it. */
#include "watcher/reflector.h"
#include <criterion/criterion.h>

#define MS INT64_C(1000000)

static struct reflector r;
static struct reflector_output out;
static bool paged; /* the server has no streaming list */
static bool seen;  /* a version was */

static void happens(enum reflector_event event)
{
	out = reflector_next(&r, &(struct reflector_input){.event = event,
							   .retry_after_ns = -1,
							   .lived_ns = 60 * NS_PER_S,
							   .events = 1,
							   .paged = paged,
							   .seen = seen});
}

static void setup(void)
{
	reflector_init(&r);
	paged = true;
	seen = false;
}
static void watching(void)
{
	reflector_init(&r);
	happens(REFLECTOR_SERVED);
	happens(REFLECTOR_LISTED);
	happens(REFLECTOR_PROGRESS);
}

TestSuite(reflector, .init = setup);

Test(reflector, discovers_lists_watches)
{
	cr_assert_eq(r.phase, REFLECTOR_DISCOVER);
	happens(REFLECTOR_SERVED);
	cr_assert(out.phase == REFLECTOR_LIST && out.wait_ns == 0);
	happens(REFLECTOR_LISTED);
	cr_assert(out.phase == REFLECTOR_WATCH && out.wait_ns == 0 && !out.relist);
}

Test(reflector, a_watch_that_ends_is_resumed_at_once)
{
	watching();
	happens(REFLECTOR_ENDED);
	cr_assert(out.phase == REFLECTOR_WATCH && out.wait_ns == 0 && !out.relist);
	happens(REFLECTOR_IDLE);
	cr_assert(out.phase == REFLECTOR_WATCH && out.wait_ns == 0 && !out.relist);
}

Test(reflector, a_watch_that_closes_at_once_is_too_short)
{
	watching();
	struct reflector_input in = {
	    .event = REFLECTOR_ENDED, .paged = true, .retry_after_ns = -1, .lived_ns = 999 * MS};
	out = reflector_next(&r, &in);
	cr_assert(out.phase == REFLECTOR_LIST && out.relist);
	cr_assert_eq(out.wait_ns, 800 * MS);
	watching();
	in.events = 1;
	out = reflector_next(&r, &in);
	cr_assert(out.phase == REFLECTOR_WATCH && out.wait_ns == 0);
	watching();
	in = (struct reflector_input){
	    .event = REFLECTOR_ENDED, .paged = true, .retry_after_ns = -1, .lived_ns = 1000 * MS};
	out = reflector_next(&r, &in);
	cr_assert(out.phase == REFLECTOR_WATCH && out.wait_ns == 0);
}

Test(reflector, expired_relists_at_once_and_then_with_backoff)
{
	watching();
	happens(REFLECTOR_EXPIRED);
	cr_assert(out.phase == REFLECTOR_LIST && out.wait_ns == 0 && out.relist);
	happens(REFLECTOR_EXPIRED); /* a page of the list */
	cr_assert(out.phase == REFLECTOR_LIST && out.wait_ns == 800 * MS);
	happens(REFLECTOR_LISTED);
	happens(REFLECTOR_EXPIRED); /* again without progress */
	cr_assert(out.phase == REFLECTOR_LIST && out.wait_ns == 1600 * MS);
	happens(REFLECTOR_LISTED);
	happens(REFLECTOR_PROGRESS);
	happens(REFLECTOR_EXPIRED);
	cr_assert_eq(out.wait_ns, 0);
}

Test(reflector, backoff_doubles_to_a_cap_and_progress_resets_it)
{
	watching();
	const int64_t want[] = {800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		happens(REFLECTOR_UNREACHABLE);
		cr_assert_eq(out.wait_ns, want[i] * MS, "%zu", i);
		cr_assert(out.phase == REFLECTOR_WATCH && !out.relist);
	}
	happens(REFLECTOR_PROGRESS);
	happens(REFLECTOR_UNREACHABLE);
	cr_assert_eq(out.wait_ns, 800 * MS);
	/* Jitter: up to twice as long. */
	out = reflector_next(&r, &(struct reflector_input){
				     .event = REFLECTOR_UNREACHABLE, .retry_after_ns = -1, .random = 0.5});
	cr_assert_eq(out.wait_ns, 2400 * MS);
}

Test(reflector, a_list_alone_does_not_reset_the_backoff)
{
	watching();
	struct reflector_input at_once = {.event = REFLECTOR_ENDED, .paged = true, .retry_after_ns = -1};
	int64_t last = 0;
	for (int i = 0; i < 4; i++) {
		out = reflector_next(&r, &at_once);
		cr_assert_eq(out.phase, REFLECTOR_LIST);
		cr_assert_gt(out.wait_ns, last);
		last = out.wait_ns;
		happens(REFLECTOR_LISTED);
	}
}

Test(reflector, retry_after_is_the_least)
{
	watching();
	out = reflector_next(
	    &r, &(struct reflector_input){.event = REFLECTOR_BUSY, .retry_after_ns = 7 * NS_PER_S});
	cr_assert(out.wait_ns == 7 * NS_PER_S && out.phase == REFLECTOR_WATCH);
	out = reflector_next(&r, &(struct reflector_input){.event = REFLECTOR_BUSY, .retry_after_ns = 1});
	cr_assert_eq(out.wait_ns, 1600 * MS);
	out = reflector_next(
	    &r, &(struct reflector_input){.event = REFLECTOR_BUSY, .retry_after_ns = 86400 * NS_PER_S});
	cr_assert_eq(out.wait_ns, 600 * NS_PER_S);
}

Test(reflector, not_served_is_asked_again_at_most_ten_seconds_later)
{
	happens(REFLECTOR_NOT_SERVED);
	cr_assert(out.phase == REFLECTOR_DISCOVER && out.wait_ns == 800 * MS);
	for (int i = 0; i < 6; i++)
		happens(REFLECTOR_NOT_SERVED);
	cr_assert_eq(out.wait_ns, 10 * NS_PER_S);
	/* One that went while it was watched. */
	watching();
	happens(REFLECTOR_PROGRESS);
	happens(REFLECTOR_NOT_SERVED);
	cr_assert(out.phase == REFLECTOR_DISCOVER && out.relist && out.wait_ns == 800 * MS);
}

Test(reflector, a_kind_that_was_long_not_served_is_not_watched_late)
{
	for (int i = 0; i < 10; i++)
		happens(REFLECTOR_NOT_SERVED);
	happens(REFLECTOR_SERVED);
	happens(REFLECTOR_LISTED);
	out = reflector_next(
	    &r, &(struct reflector_input){
		    .event = REFLECTOR_ENDED, .paged = true, .retry_after_ns = -1, .lived_ns = 1});
	cr_assert(out.phase == REFLECTOR_LIST && out.wait_ns == 800 * MS);
	/* Served by discovery and never by a list: that is asked less and less. */
	for (int i = 0; i < 10; i++) {
		happens(REFLECTOR_NOT_SERVED);
		happens(REFLECTOR_SERVED);
	}
	happens(REFLECTOR_NOT_SERVED);
	cr_assert_eq(out.wait_ns, 30 * NS_PER_S);
}

Test(reflector, a_watch_that_is_refused_keeps_its_place_for_a_while)
{
	watching();
	for (int i = 0; i < 4; i++) {
		happens(REFLECTOR_REFUSED);
		cr_assert(out.phase == REFLECTOR_WATCH && !out.relist);
	}
	happens(REFLECTOR_REFUSED); /* no 410 ever comes from some servers */
	cr_assert(out.phase == REFLECTOR_LIST && out.relist);
}

Test(reflector, nonsense_and_a_full_cache_relist)
{
	watching();
	happens(REFLECTOR_NONSENSE);
	cr_assert(out.phase == REFLECTOR_LIST && out.relist && out.wait_ns > 0);
	watching();
	happens(REFLECTOR_CACHE_FULL);
	cr_assert(out.phase == REFLECTOR_LIST && out.relist && out.wait_ns > 0);
	watching();
	happens(REFLECTOR_OUTBOX_FULL); /* the event comes again from the same resourceVersion */
	cr_assert(out.phase == REFLECTOR_WATCH && !out.relist && out.wait_ns > 0);
}

static void progress_after(int64_t lived_ns)
{
	out =
	    reflector_next(&r, &(struct reflector_input){.event = REFLECTOR_PROGRESS, .lived_ns = lived_ns});
}

/* A server, or a proxy before it, that damages one event of many. */
Test(reflector, nonsense_that_comes_again_is_waited_for_longer_though_events_come_before_it)
{
	watching();
	int64_t wait_ns = 0;
	for (int i = 0; i < 10; i++) {
		happens(REFLECTOR_NONSENSE);
		cr_assert(out.phase == REFLECTOR_LIST && out.relist);
		cr_assert_eq(out.wait_ns, MIN((800 * MS) << i, 30 * NS_PER_S));
		cr_assert(reflector_doubts(&r));
		wait_ns = out.wait_ns;
		happens(REFLECTOR_LISTED);
		progress_after(0);
		progress_after(wait_ns - 1);
		cr_assert(reflector_doubts(&r));
	}
	progress_after(wait_ns);
	cr_assert_not(reflector_doubts(&r), "it went well for as long as was waited");
	happens(REFLECTOR_NONSENSE);
	cr_assert_eq(out.wait_ns, 800 * MS);
	/* Other troubles have their own count. */
	happens(REFLECTOR_LISTED);
	progress_after(0);
	happens(REFLECTOR_UNREACHABLE);
	cr_assert_eq(out.wait_ns, 800 * MS);
}

static void streaming(void)
{
	reflector_init(&r);
	paged = false;
	happens(REFLECTOR_SERVED);
	cr_assert(out.phase == REFLECTOR_STREAM && out.wait_ns == 0);
}

Test(reflector, a_streaming_list_goes_on_as_the_watch)
{
	streaming();
	happens(REFLECTOR_LISTED);
	cr_assert(out.phase == REFLECTOR_WATCH && r.phase == REFLECTOR_WATCH && out.wait_ns == 0);
	happens(REFLECTOR_PROGRESS);
	happens(REFLECTOR_ENDED);
	cr_assert(out.phase == REFLECTOR_WATCH && !out.relist);
	happens(REFLECTOR_EXPIRED);
	cr_assert(out.phase == REFLECTOR_STREAM && out.wait_ns == 0 && out.relist);
}

Test(reflector, without_a_streaming_list_pages_are_asked_for_at_once_and_from_then_on)
{
	streaming();
	happens(REFLECTOR_UNSUPPORTED);
	cr_assert(out.phase == REFLECTOR_LIST && out.wait_ns == 0 && !out.relist);
	happens(REFLECTOR_LISTED);
	happens(REFLECTOR_EXPIRED);
	cr_assert_eq(out.phase, REFLECTOR_LIST);
	reflector_relist(&r, false, false);
	cr_assert_eq(r.phase, REFLECTOR_LIST);
	/* Another one of the same server knows. */
	streaming();
	happens(REFLECTOR_LISTED);
	paged = true;
	happens(REFLECTOR_EXPIRED);
	cr_assert_eq(out.phase, REFLECTOR_LIST);
	reflector_init(&r);
	reflector_relist(&r, true, false);
	cr_assert_eq(r.phase, REFLECTOR_DISCOVER);
}

Test(reflector, streaming_lists_that_fail_are_replaced_by_pages_once)
{
	const enum reflector_event fails[] = {REFLECTOR_NONSENSE, REFLECTOR_REFUSED, REFLECTOR_NONSENSE};
	streaming();
	for (size_t i = 0; i < ARRAY_SIZE(fails); i++) {
		happens(fails[i]);
		cr_assert_eq(out.wait_ns, (800 * MS) << i);
		cr_assert_eq(out.phase, i < 2 ? REFLECTOR_STREAM : REFLECTOR_LIST);
	}
	happens(REFLECTOR_LISTED);
	happens(REFLECTOR_EXPIRED);
	cr_assert_eq(out.phase, REFLECTOR_STREAM);
	/* What says nothing about streaming lists does not count. */
	const enum reflector_event others[] = {
	    REFLECTOR_UNREACHABLE, REFLECTOR_BUSY,	  REFLECTOR_FORBIDDEN, REFLECTOR_UNAUTHORIZED,
	    REFLECTOR_UNTRUSTED,   REFLECTOR_OUTBOX_FULL, REFLECTOR_CACHE_FULL};
	for (size_t i = 0; i < 3 * ARRAY_SIZE(others); i++) {
		happens(others[i % ARRAY_SIZE(others)]);
		cr_assert(out.phase == REFLECTOR_STREAM && out.wait_ns > 0);
	}
}

static void relisting(void)
{
	watching();
	seen = true;
	happens(REFLECTOR_EXPIRED);
	cr_assert(out.phase == REFLECTOR_RELIST && out.wait_ns == 0 && out.relist);
}

Test(reflector, what_was_seen_is_what_a_list_must_not_be_older_than)
{
	relisting();
	happens(REFLECTOR_LISTED);
	cr_assert(out.phase == REFLECTOR_WATCH && out.wait_ns == 0);
	/* After a start, too, and where streaming lists fail. */
	reflector_init(&r);
	happens(REFLECTOR_SERVED);
	cr_assert_eq(out.phase, REFLECTOR_RELIST);
	reflector_relist(&r, true, true);
	cr_assert_eq(r.phase, REFLECTOR_RELIST);
	reflector_init(&r);
	paged = false;
	happens(REFLECTOR_SERVED);
	cr_assert_eq(out.phase, REFLECTOR_STREAM);
	happens(REFLECTOR_UNSUPPORTED);
	cr_assert_eq(out.phase, REFLECTOR_RELIST);
}

Test(reflector, a_server_that_is_behind_what_was_seen_is_asked_for_what_is_now_at_once)
{
	relisting();
	happens(REFLECTOR_UNSUPPORTED);
	cr_assert(out.phase == REFLECTOR_LIST && out.wait_ns == 0);
	happens(REFLECTOR_UNREACHABLE);
	cr_assert_eq(out.phase, REFLECTOR_LIST, "until there is one");
	happens(REFLECTOR_LISTED);
	happens(REFLECTOR_EXPIRED);
	cr_assert_eq(out.phase, REFLECTOR_RELIST, "by then it may have caught up");
}

Test(reflector, after_nonsense_what_was_seen_is_not_trusted)
{
	watching();
	seen = true;
	happens(REFLECTOR_NONSENSE);
	cr_assert_eq(out.phase, REFLECTOR_LIST);
	happens(REFLECTOR_LISTED);
	happens(REFLECTOR_EXPIRED);
	cr_assert_eq(out.phase, REFLECTOR_RELIST);
}

Test(reflector, a_list_of_what_was_seen_is_asked_for_once)
{
	for (int e = 0; e <= REFLECTOR_OUTBOX_FULL; e++) {
		const char *name = reflector_event_name((enum reflector_event)e);
		if (e == REFLECTOR_PROGRESS) /* of a watch */
			continue;
		relisting();
		happens((enum reflector_event)e);
		cr_assert_neq(out.phase, REFLECTOR_RELIST, "%s", name);
		if (e == REFLECTOR_NOT_SERVED) {
			happens(REFLECTOR_SERVED);
			cr_assert_eq(out.phase, REFLECTOR_LIST);
		}
	}
}

Test(reflector, every_event_in_every_phase_has_a_next_step)
{
	for (int phase = REFLECTOR_DISCOVER; phase <= REFLECTOR_WATCH; phase++)
		for (int e = 0; e <= REFLECTOR_OUTBOX_FULL; e++) {
			r = (struct reflector){.phase = (enum reflector_phase)phase,
					       .has_version = phase == REFLECTOR_WATCH};
			happens((enum reflector_event)e);
			cr_assert(out.phase <= REFLECTOR_WATCH && out.wait_ns >= 0 &&
				  out.wait_ns <= 60 * NS_PER_S);
			/* Never a watch without a version. */
			cr_assert(out.phase != REFLECTOR_WATCH || r.has_version, "phase %d event %s", phase,
				  reflector_event_name((enum reflector_event)e));
		}
}

Test(reflector, watch_seconds)
{
	cr_assert_eq(reflector_watch_seconds(0), 300);
	cr_assert_eq(reflector_watch_seconds(0.9999999), 600);
}
