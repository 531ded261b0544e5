/* Leader election as a state machine: hosts with clocks of their own, on one Lease that behaves as an API server's. */
#include "doc.h"
#include "watcher/election.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define MS(n) ((int64_t)(n)*NS_PER_MS)
#define S(n)  ((int64_t)(n)*NS_PER_S)

/* ---- the API server ---- */

static struct server {
	struct buf lease; /* empty: none */
	int64_t version;
	int down; /* >0: so many requests get no answer; of these `done` are carried out nevertheless */
	bool done;
	unsigned gets, creates, updates;
} server;

static int64_t now = S(1000);

static void server_put(const char *spec_fmt, ...) _printf_(1, 2);
static void server_put(const char *spec_fmt, ...)
{
	va_list ap;
	char spec[2048];
	va_start(ap, spec_fmt);
	vsnprintf(spec, sizeof spec, spec_fmt, ap);
	va_end(ap);
	buf_reset(&server.lease);
	buf_printf(
	    &server.lease,
	    "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"lock\","
	    "\"namespace\":\"ns\",\"uid\":\"u\",\"labels\":{\"team\":\"a\"},\"resourceVersion\":\"%lld\"}%s}",
	    (long long)++server.version, spec);
}

/* "" for what is absent; strings without their quotes. */
static const char *server_says(const char *field)
{
	static char text[512];
	struct span spec = json_get(buf_span(&server.lease), "spec"), value = json_get(spec, field);
	if (value.len >= 2 && value.at[0] == '"')
		value = (struct span){value.at + 1, value.len - 2};
	snprintf(text, sizeof text, "%.*s", (int)value.len, value.at ? value.at : "");
	return text;
}

static bool is_current(struct span body)
{
	struct span sent = json_path(body, "metadata", "resourceVersion", NULL),
		    have = json_path(buf_span(&server.lease), "metadata", "resourceVersion", NULL);
	return span_eq(sent, have);
}

static int carry_out(enum election_ask what, struct span body)
{
	bool there = server.lease.len != 0;
	server.gets += what == ELECTION_GET;
	server.creates += what == ELECTION_CREATE;
	server.updates += what == ELECTION_UPDATE;
	if (what == ELECTION_GET)
		return there ? 200 : 404;
	if (what == ELECTION_CREATE && there)
		return 409;
	if (what == ELECTION_UPDATE && (!there || !is_current(body)))
		return there ? 409 : 404;
	struct doc *d = doc_new();
	struct doc_node *lease;
	char version[24];
	cr_assert_eq(doc_parse(d, body, &lease, NULL), 0);
	snprintf(version, sizeof version, "%lld", (long long)++server.version);
	doc_set(d, doc_get(lease, "metadata"), "resourceVersion", doc_new_string(d, span_of(version)));
	buf_reset(&server.lease);
	doc_print(lease, &server.lease);
	doc_free(d);
	return what == ELECTION_CREATE ? 201 : 200;
}

/* ---- hosts ---- */

struct one {
	struct election e;
	int64_t skew; /* of its clock: only of what it reads, not of how fast it goes */
	struct buf body;
};

static struct one host_of(const char *identity, int64_t skew)
{
	const struct election_rules rules = {"ns", "lock", identity, S(15), S(10), S(2)};
	struct one h = {.skew = skew};
	election_init(&h.e, &rules, 0, now + skew);
	return h;
}

/* Sends what is due, once, and answers at once. */
static enum election_ask step(struct one *h)
{
	const struct err why = {"why not"};
	enum election_ask what = election_next(&h->e, now + h->skew, S(1700000000) + now + h->skew, &h->body);
	if (what == ELECTION_NOTHING)
		return what;
	int status = 0;
	if (server.down == 0 || server.done)
		status = carry_out(what, buf_span(&h->body));
	if (server.down) {
		server.down--;
		status = 0;
	}
	struct election_answer a = {.status = status, .err = &why, .retry_after_ns = -1, .random = 0.5};
	if (status / 100 == 2)
		a.body = buf_span(&server.lease);
	election_answered(&h->e, &a, now + h->skew);
	return what;
}

/* Lets all of them go on for so long, a tenth of a second at a time. */
static void pass(int64_t ns, struct one *hosts, size_t n)
{
	for (int64_t end = now + ns; now < end; now += MS(100))
		for (size_t i = 0; i < n; i++)
			while (step(&hosts[i]) != ELECTION_NOTHING)
				;
}

static bool leads(const struct one *h)
{
	return h->e.state == ELECTION_LEADING && now + h->skew < h->e.until_ns;
}

static void done(struct one *hosts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		election_done(&hosts[i].e);
		buf_done(&hosts[i].body);
	}
	buf_done(&server.lease);
}

/* ---- getting it ---- */

Test(election, a_lease_that_is_not_there_is_created_with_client_gos_record)
{
	struct one a = host_of("a", 0);
	cr_expect_eq(step(&a), ELECTION_GET);
	cr_expect_not(leads(&a));
	cr_expect_eq(step(&a), ELECTION_CREATE);
	cr_expect(leads(&a));
	cr_expect(a.e.took);
	cr_expect_eq(a.e.until_ns, now + S(10), "the start of the request and renewDeadline");
	cr_expect_str_eq(server_says("holderIdentity"), "a");
	cr_expect_str_eq(server_says("leaseDurationSeconds"), "15");
	cr_expect_str_eq(server_says("leaseTransitions"), "0");
	cr_expect_str_eq(server_says("acquireTime"), "2023-11-14T22:30:00.000000Z");
	cr_expect_str_eq(server_says("renewTime"), "2023-11-14T22:30:00.000000Z");
	cr_expect_eq(step(&a), ELECTION_NOTHING);
	cr_expect_eq(a.e.due_ns, now + S(2));
	done(&a, 1);
}

Test(election, renewing_is_one_request_that_keeps_acquireTime_and_what_others_wrote)
{
	struct one a = host_of("a", 0);
	server_put(",\"spec\":{\"holderIdentity\":\"\",\"leaseTransitions\":3,\"strategy\":\"x\"}");
	pass(MS(200), &a, 1);
	cr_expect(leads(&a));
	cr_expect_str_eq(server_says("leaseTransitions"), "4");
	char acquired[64];
	snprintf(acquired, sizeof acquired, "%s", server_says("acquireTime"));
	server.gets = server.updates = 0;
	pass(S(20), &a, 1);
	cr_expect(leads(&a));
	cr_expect_eq(server.gets, 0u);
	cr_expect_eq(server.updates, 10u);
	cr_expect_str_eq(server_says("acquireTime"), acquired);
	cr_expect_str_neq(server_says("renewTime"), acquired);
	cr_expect_str_eq(server_says("leaseTransitions"), "4");
	cr_expect_str_eq(server_says("strategy"), "x");
	cr_expect_not_null(strstr(buf_str(&server.lease), "\"labels\":{\"team\":\"a\"}"));
	cr_expect_not(a.e.took);
	done(&a, 1);
}

Test(election, a_held_lease_is_waited_for_from_when_it_was_seen_to_change_whatever_its_times_say)
{
	static const char *const renew_times[] = {"1970-01-01T00:00:00.000000Z",
						  "2999-01-01T00:00:00.000000Z"};
	for (size_t i = 0; i < ARRAY_SIZE(renew_times); i++) {
		struct one a = host_of("a", 0);
		server_put(
		    ",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":7,\"renewTime\":\"%s\","
		    "\"leaseTransitions\":1}",
		    renew_times[i]);
		pass(MS(6900), &a, 1);
		cr_expect_not(leads(&a));
		cr_expect_str_eq(a.e.holder, "b");
		pass(S(4), &a, 1); /* it looks again after at most 4.4 s */
		cr_expect(leads(&a), "%s", renew_times[i]);
		cr_expect_str_eq(server_says("leaseTransitions"), "2");
		done(&a, 1);
	}
}

Test(election, who_does_not_lead_looks_again_after_one_to_2_2_retryPeriods)
{
	static const struct {
		double random;
		int64_t wait;
	} rows[] = {{0, S(2)}, {0.5, MS(3200)}, {1, MS(4400)}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct one a = host_of("a", 0);
		server_put(",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":15}");
		cr_assert_eq(election_next(&a.e, now, 0, &a.body), ELECTION_GET);
		election_answered(&a.e,
				  &(struct election_answer){.status = 200,
							    .body = buf_span(&server.lease),
							    .retry_after_ns = -1,
							    .random = rows[i].random},
				  now);
		cr_expect_eq(a.e.due_ns, now + rows[i].wait);
		done(&a, 1);
	}
}

Test(election, of_two_that_try_at_once_one_wins)
{
	struct one two[] = {host_of("a", 0), host_of("b", S(5000))};
	cr_expect_eq(step(&two[0]), ELECTION_GET);
	cr_expect_eq(step(&two[1]), ELECTION_GET);
	cr_expect_eq(step(&two[0]), ELECTION_CREATE);
	cr_expect_eq(step(&two[1]), ELECTION_CREATE); /* 409 */
	cr_expect(leads(&two[0]) && !leads(&two[1]));
	pass(S(60), two, 2);
	cr_expect(leads(&two[0]) && !leads(&two[1]));
	cr_expect_str_eq(server_says("leaseTransitions"), "0");
	done(two, 2);
}

Test(election, a_lost_race_for_an_update_waits_before_it_looks_again)
{
	struct one two[] = {host_of("a", 0), host_of("b", 0)};
	server_put(",\"spec\":{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1}");
	step(&two[0]), step(&two[1]); /* GET */
	step(&two[0]), step(&two[1]); /* PUT */
	cr_expect(leads(&two[0]) && !leads(&two[1]));
	cr_expect(two[1].e.refused);
	cr_expect_eq(two[1].e.due_ns, now + MS(3200));
	done(two, 2);
}

/* ---- losing it ---- */

Test(election, a_leader_that_cannot_renew_stops_before_another_begins)
{
	for (int64_t skew = -S(86400); skew <= S(86400); skew += S(86400)) {
		struct one two[] = {host_of("a", 0), host_of("b", skew)};
		pass(S(5), &two[0], 1);
		pass(S(5), two, 2);
		cr_assert(leads(&two[0]) && !leads(&two[1]));
		int64_t a_until = two[0].e.until_ns;
		while (!leads(&two[1])) { /* a is cut off */
			pass(MS(100), &two[1], 1);
			cr_assert(now < S(2000));
		}
		cr_expect(now - a_until >= S(5) - MS(200), "%lld ms",
			  (long long)((now - a_until) / NS_PER_MS));
		cr_expect(now - a_until <= S(10));
		cr_expect_str_eq(server_says("leaseTransitions"), "1");
		pass(S(5), two, 2);
		cr_expect_eq(two[0].e.state, ELECTION_FOLLOWING);
		cr_expect(leads(&two[1]));
		done(two, 2);
		now = S(1000);
		server.version = 0;
	}
}

Test(election, a_renewal_without_an_answer_counts_for_nothing_and_is_tried_again)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	int64_t until = a.e.until_ns;
	server.down = 2;
	pass(S(4), &a, 1);
	cr_expect(leads(&a));
	cr_expect_eq(a.e.until_ns, until);
	pass(S(3), &a, 1);
	cr_expect(a.e.until_ns > until);
	cr_expect_not(a.e.took);
	/* It was written, and nobody said so: the next one would be a conflict, so it reads first. */
	server.down = 1, server.done = true;
	pass(S(2), &a, 1);
	server.gets = 0;
	pass(S(2), &a, 1);
	cr_expect_eq(server.gets, 1u);
	cr_expect(leads(&a) && !a.e.took);
	done(&a, 1);
}

Test(election, a_server_that_is_away_for_long_ends_the_lead_and_nobody_else_had_it)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	server.down = 1000;
	pass(S(12), &a, 1);
	cr_expect_eq(a.e.state, ELECTION_LAPSED);
	cr_expect_not(leads(&a));
	pass(S(60), &a, 1);
	server.down = 0;
	pass(S(5), &a, 1);
	cr_expect(leads(&a));
	cr_expect_not(a.e.took, "nobody led in between");
	cr_expect_str_eq(server_says("leaseTransitions"), "0");
	done(&a, 1);
}

Test(election, a_lapsed_one_that_finds_another_holder_follows)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	server.down = 1000;
	pass(S(12), &a, 1);
	server.down = 0;
	server_put(",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":15,\"leaseTransitions\":1}");
	pass(S(5), &a, 1);
	cr_expect_eq(a.e.state, ELECTION_FOLLOWING);
	for (int64_t end = now + S(20); now < end && !leads(&a);)
		pass(MS(100), &a, 1);
	cr_expect(leads(&a));
	cr_expect(a.e.took);
	done(&a, 1);
}

Test(election, somebody_who_takes_the_lease_by_force_has_it)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	server_put(",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":15,\"leaseTransitions\":1}");
	pass(S(2), &a, 1); /* 409, then it looks */
	cr_expect_eq(a.e.state, ELECTION_FOLLOWING);
	cr_expect_eq(a.e.until_ns, 0);
	cr_expect_str_eq(server_says("holderIdentity"), "b");
	done(&a, 1);
}

Test(election, a_lease_that_was_deleted_is_made_again)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	buf_reset(&server.lease);
	pass(S(2), &a, 1);
	cr_expect(leads(&a));
	cr_expect(a.e.took, "who knows who had it meanwhile");
	cr_expect_eq(server.creates, 2u);
	done(&a, 1);
}

Test(election, a_change_of_labels_is_no_renewal_and_costs_a_leader_one_read)
{
	struct one a = host_of("a", 0), b = host_of("b", 0);
	pass(S(1), &a, 1);
	pass(S(1), &b, 1);
	int64_t seen = b.e.observed_ns;
	struct buf copy = {0};
	buf_span_add(&copy, json_get(buf_span(&server.lease), "spec"));
	server_put(",\"spec\":%s", buf_str(&copy));
	pass(S(4), &b, 1);
	cr_expect_eq(b.e.observed_ns, seen);
	server.gets = 0;
	pass(S(2), &a, 1);
	cr_expect_eq(server.gets, 1u);
	cr_expect(leads(&a) && !a.e.took);
	buf_done(&copy);
	done(&a, 1);
	done(&b, 1);
}

/* ---- giving it back ---- */

Test(election, a_release_empties_the_record_and_the_next_one_takes_over_at_once)
{
	struct one two[] = {host_of("a", 0), host_of("b", 0)};
	pass(S(1), &two[0], 1);
	pass(S(10), two, 2);
	election_release(&two[0].e, now);
	while (step(&two[0]) != ELECTION_NOTHING)
		;
	cr_expect(two[0].e.released);
	cr_expect_eq(two[0].e.state, ELECTION_FOLLOWING);
	cr_expect_str_eq(server_says("holderIdentity"), "");
	cr_expect_str_eq(server_says("leaseDurationSeconds"), "1");
	cr_expect_str_eq(server_says("leaseTransitions"), "0");
	int64_t at = now;
	while (!leads(&two[1]))
		pass(MS(100), two, 2);
	cr_expect(now - at <= MS(4500));
	cr_expect_not(leads(&two[0]));
	cr_expect_str_eq(server_says("leaseTransitions"), "1");
	done(two, 2);
}

Test(election, a_release_of_what_another_has_writes_nothing)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	server_put(",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":15}");
	election_release(&a.e, now);
	pass(S(3), &a, 1);
	cr_expect(a.e.released);
	cr_expect_str_eq(server_says("holderIdentity"), "b");
	done(&a, 1);
}

Test(election, a_release_goes_on_after_a_conflict_and_after_no_answer)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	struct buf copy = {0};
	buf_span_add(&copy, json_get(buf_span(&server.lease), "spec"));
	server_put(",\"spec\":%s", buf_str(&copy));
	server.down = 1;
	election_release(&a.e, now);
	pass(S(8), &a, 1);
	cr_expect(a.e.released);
	cr_expect_str_eq(server_says("holderIdentity"), "");
	buf_done(&copy);
	done(&a, 1);
}

Test(election, a_renewal_that_is_under_way_is_released_when_it_has_come)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	now += S(2);
	cr_assert_eq(election_next(&a.e, now, 0, &a.body), ELECTION_UPDATE);
	election_release(&a.e, now);
	cr_assert_eq(carry_out(ELECTION_UPDATE, buf_span(&a.body)), 200);
	election_answered(
	    &a.e,
	    &(struct election_answer){.status = 200, .body = buf_span(&server.lease), .retry_after_ns = -1},
	    now);
	cr_expect_not(a.e.released);
	cr_expect_str_eq(server_says("holderIdentity"), "a");
	pass(MS(100), &a, 1);
	cr_expect(a.e.released);
	cr_expect_str_eq(server_says("holderIdentity"), "");
	done(&a, 1);
}

/* ---- a process that is started again ---- */

Test(election, the_same_identity_goes_on_where_it_was)
{
	struct one a = host_of("a", 0);
	pass(S(1), &a, 1);
	int64_t until = a.e.until_ns;
	election_done(&a.e);
	const struct election_rules rules = {"ns", "lock", "a", S(15), S(10), S(2)};
	election_init(&a.e, &rules, until, now);
	cr_expect(leads(&a));
	cr_expect_eq(step(&a), ELECTION_GET);
	cr_expect_eq(step(&a), ELECTION_UPDATE);
	cr_expect(leads(&a) && !a.e.took);
	cr_expect(a.e.until_ns > until);
	cr_expect_str_eq(server_says("leaseTransitions"), "0");
	done(&a, 1);
}

/* ---- odd answers ---- */

Test(election, garbage_in_the_record_counts_as_absent)
{
	static const struct {
		const char *spec;
		bool free;
	} rows[] = {
	    {"", true},
	    {",\"spec\":null", true},
	    {",\"spec\":[]", true},
	    {",\"spec\":{}", true},
	    {",\"spec\":{\"holderIdentity\":7,\"leaseDurationSeconds\":15}", true},
	    {",\"spec\":{\"holderIdentity\":null}", true},
	    {",\"spec\":{\"holderIdentity\":\"b\"}", false},
	    {",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":-5}", false},
	    {",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":\"x\"}", false},
	    {",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":99999999999999999999}", false},
	    {",\"spec\":{\"holderIdentity\":\"b\",\"leaseDurationSeconds\":9223372036854775807}", false},
	    {",\"spec\":{\"holderIdentity\":\"\",\"leaseTransitions\":-9223372036854775808}", true},
	    {",\"spec\":{\"holderIdentity\":\"\",\"leaseTransitions\":9223372036854775807}", true},
	    {",\"spec\":{\"holderIdentity\":\"\",\"acquireTime\":[],\"renewTime\":{}}", true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct one a = host_of("a", 0);
		server_put("%s", rows[i].spec);
		pass(S(10), &a, 1);
		cr_expect_eq(leads(&a), rows[i].free, "%s", rows[i].spec);
		if (rows[i].free) {
			cr_expect_str_eq(server_says("holderIdentity"), "a", "%s", rows[i].spec);
			cr_expect_eq(strlen(server_says("acquireTime")),
				     strlen("2023-11-14T22:30:00.000000Z"));
			int64_t transitions = strtoll(server_says("leaseTransitions"), NULL, 10);
			cr_expect(transitions >= 1 && transitions <= INT32_MAX, "%s", rows[i].spec);
		}
		done(&a, 1);
	}
}

Test(election, an_identity_that_begins_as_ours_is_not_ours)
{
	char own[112], other[400];
	memset(own, 'a', sizeof own - 1), own[sizeof own - 1] = 0;
	memset(other, 'a', sizeof other - 1), other[sizeof other - 1] = 0;
	struct one a = host_of(own, 0);
	server_put(",\"spec\":{\"holderIdentity\":\"%s\",\"leaseDurationSeconds\":15}", other);
	pass(S(10), &a, 1);
	cr_expect_not(leads(&a));
	done(&a, 1);
}

Test(election, an_answer_that_is_no_lease_is_said_and_tried_again)
{
	static const char *const bodies[] = {"",
					     "<html>",
					     "{}",
					     "[]",
					     "{\"kind\":\"Lease\"}",
					     "{\"kind\":\"Status\",\"metadata\":{\"resourceVersion\":\"1\"}}",
					     "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":7}}"};
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		struct one a = host_of("a", 0);
		cr_assert_eq(election_next(&a.e, now, 0, &a.body), ELECTION_GET);
		election_answered(
		    &a.e,
		    &(struct election_answer){
			.status = 200, .body = span_of(bodies[i]), .retry_after_ns = -1, .random = 0.5},
		    now);
		cr_expect(a.e.refused, "%s", bodies[i]);
		cr_expect_not_null(strstr(a.e.err.text, "the Lease ns/lock cannot be read"), "%s",
				   a.e.err.text);
		cr_expect_eq(a.e.due_ns, now + MS(3200));
		cr_expect_eq(a.e.state, ELECTION_FOLLOWING);
		done(&a, 1);
	}
}

Test(election, a_refusal_is_said_and_retry_after_is_kept_by_who_does_not_lead)
{
	const struct err why = {"GET leases: 403 Forbidden"};
	struct one a = host_of("a", 0);
	cr_assert_eq(election_next(&a.e, now, 0, &a.body), ELECTION_GET);
	election_answered(&a.e, &(struct election_answer){.status = 429, .err = &why, .retry_after_ns = S(7)},
			  now);
	cr_expect(a.e.refused);
	cr_expect_str_eq(a.e.err.text, why.text);
	cr_expect_eq(a.e.due_ns, now + S(7));
	now += S(7);
	pass(S(1), &a, 1);
	cr_assert(leads(&a));
	now += S(2);
	cr_assert_eq(election_next(&a.e, now, 0, &a.body), ELECTION_UPDATE);
	election_answered(
	    &a.e, &(struct election_answer){.status = 429, .err = &why, .retry_after_ns = S(700)}, now);
	cr_expect_eq(a.e.due_ns, now + S(2), "it leads for 8 s more");
	done(&a, 1);
}

/* Nothing that goes wrong lets two lead at once: requests are lost before or after they are carried out, hosts stop for a
 * while, are started again, give the Lease back, somebody deletes it. (Not: somebody edits it.) */
Test(election, never_two_whatever_fails)
{
	uint64_t seed = 7;
	for (int round = 0; round < 60; round++) {
		struct one hosts[3] = {host_of("a", 0), host_of("b", S(777)), host_of("c", -S(99))};
		int64_t asleep[3] = {0};
		unsigned led = 0;
		for (int i = 0; i < 3000; i++, now += MS(100)) {
			unsigned leaders = 0;
			for (int h = 0; h < 3; h++) {
				seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
				unsigned r = (unsigned)(seed >> 33);
				leaders += leads(&hosts[h]);
				if (now < asleep[h])
					continue;
				if (r % 400 == 0)
					asleep[h] = now + S(r / 400 % 30);
				server.down = r % 10 == 1;
				server.done = r / 10 % 2;
				step(&hosts[h]);
				server.down = 0;
				if (r % 1000 == 2) { /* a restart */
					struct election_rules rules = hosts[h].e.rules;
					int64_t until = hosts[h].e.until_ns;
					election_done(&hosts[h].e);
					election_init(&hosts[h].e, &rules, until, now + hosts[h].skew);
				}
			}
			led += leaders;
			cr_assert(leaders <= 1, "round %d, step %d: %u lead", round, i, leaders);
		}
		cr_expect(led > 1500, "round %d: somebody leads mostly: %u", round, led);
		done(hosts, 3);
	}
}
