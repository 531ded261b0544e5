#include "json.h"
#include "queue_view.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define NOW (1000 * NS_PER_S)

static struct queue_key key(enum shm_state state)
{
	struct queue_key k = {
	    .state = state, .controller = "website", .namespace = "shop", .name = "blog", .priority = -100};
	k.pending = state != SHM_STATE_RUNNING;
	k.ready_at = k.added_at = NOW - 2 * NS_PER_S;
	k.count = 3;
	k.first = (struct queue_cause){
	    .event = WIRE_CAUSE_UPDATED, .kind = "Deployment.apps/v1", .namespace = "shop", .name = "web"};
	k.last.event = WIRE_CAUSE_OPERATOR;
	return k;
}

static void state_in_is(const struct queue_key *k, const char *worker, const char *want)
{
	struct buf b = {0};
	view_state(k, worker, NOW, &b);
	cr_expect_str_eq(buf_str(&b), want);
	buf_done(&b);
}

static void state_is(const struct queue_key *k, const char *want)
{
	state_in_is(k, NULL, want);
}

Test(view, why_a_key_is_where_it_is)
{
	struct queue_key k = key(SHM_STATE_READY);
	state_is(&k, "ready since 2s");
	k = key(SHM_STATE_WAITING);
	k.wait = SHM_WAIT_BACKOFF;
	k.ready_at = NOW + 90 * NS_PER_S;
	state_is(&k, "backoff, due in 1m30s");
	k = key(SHM_STATE_RUNNING);
	k.detail.granted_at = NOW - NS_PER_S;
	k.detail.lease_end = NOW + NS_PER_S;
	k.detail.host_pid = 4711;
	state_is(&k, "for 1s in process 4711");
	state_in_is(&k, "website.1", "for 1s in website.1, process 4711");
	k.state = SHM_STATE_DIRTY;
	state_is(&k, "for 1s in process 4711, runs again afterwards");
	k.detail.lease_end = NOW - 1;
	state_is(&k, "for 1s in process 4711, over its time: being killed, runs again afterwards");
	k = key(SHM_STATE_QUARANTINED);
	k.ready_at = NOW + 3600 * NS_PER_S;
	state_is(&k, "for another 1h, or until the object changes");
}

Test(view, keys_and_causes)
{
	struct queue_key k = key(SHM_STATE_READY);
	struct buf b = {0};
	char *name = view_key(&k);
	cr_expect_str_eq(name, "shop/blog");
	free(name);
	k.namespace[0] = 0;
	name = view_key(&k);
	cr_expect_str_eq(name, "blog");
	free(name);
	view_cause(&k.first, &b);
	cr_expect_str_eq(buf_str(&b), "Deployment.apps/v1 shop/web MODIFIED");
	buf_reset(&b);
	view_cause(&k.last, &b);
	cr_expect_str_eq(buf_str(&b), "OPERATOR");
	buf_done(&b);
}

Test(view, json_of_every_state_is_json)
{
	for (int s = SHM_STATE_READY; s < SHM_STATE_COUNT; s++) {
		struct queue_key k = key((enum shm_state)s);
		struct buf b = {0};
		struct err err = {0};
		struct json *j = NULL;
		k.record.attempted = 1;
		k.record.attempt = 2;
		k.record.last_outcome = WIRE_OUTCOME_CRASHED;
		k.record.outcomes[WIRE_OUTCOME_CRASHED] = 2;
		snprintf(k.reason, sizeof(k.reason), "SIGSEGV");
		snprintf(k.message, sizeof(k.message), "a \"quoted\"\nmessage\x1B");
		view_key_json(&k, SHM_LEASED(s) ? "website.1" : NULL, NOW, &b);
		cr_assert_eq(json_parse(buf_span(&b), &j, &err), 0, "%s\n%s", err.text, buf_str(&b));
		cr_expect_str_eq(json_text(json_member(j, "state")), shm_state_name((uint32_t)s));
		cr_expect_str_eq(json_text(json_member(j, "lastOutcome")), "Crashed");
		cr_expect_str_eq(json_text(json_member(j, "message")), "a \"quoted\"\nmessage\x1B");
		const struct json *lease = json_member(j, "lease");
		cr_expect_eq(lease != NULL, SHM_LEASED(s));
		if (lease)
			cr_expect_str_eq(json_text(json_member(lease, "instance")), "website.1");
		cr_expect_eq(json_member(j, "pending") != NULL, s != SHM_STATE_RUNNING);
		json_free(j);
		buf_done(&b);
	}
}

static void happened_to(struct shm_history entry, const char *worker, const char *text, const char *want)
{
	struct queue_happened h = {.entry = entry};
	struct buf b = {0};
	struct json *j = NULL;
	struct err err = {0};
	snprintf(h.text, sizeof(h.text), "%s", text);
	h.entry.at = NOW;
	view_happened(&h, worker, &b);
	cr_expect_str_eq(buf_str(&b), want);
	buf_reset(&b);
	view_happened_json(&h, worker, NOW, &b);
	cr_expect_eq(json_parse(buf_span(&b), &j, &err), 0, "%s", err.text);
	const struct json *instance = json_member(j, "instance");
	cr_expect_eq(instance != NULL, entry.happened == SHM_HAPPENED_GRANTED);
	if (worker)
		cr_expect_str_eq(json_text(instance), worker);
	json_free(j);
	buf_done(&b);
}

static void happened_is(struct shm_history entry, const char *text, const char *want)
{
	happened_to(entry, NULL, text, want);
}

Test(view, what_happened)
{
	happened_is((struct shm_history){.happened = SHM_HAPPENED_ADDED,
					 .to = SHM_STATE_READY,
					 .ends = WIRE_CAUSE_UPDATED},
		    "", "added MODIFIED -> READY");
	happened_is((struct shm_history){.happened = SHM_HAPPENED_GRANTED,
					 .to = SHM_STATE_RUNNING,
					 .count = 1,
					 .pid = 4711,
					 .delay = 5 * NS_PER_MS},
		    "", "granted to process 4711 after 5ms in the queue -> RUNNING");
	happened_is((struct shm_history){.happened = SHM_HAPPENED_GRANTED,
					 .to = SHM_STATE_RUNNING,
					 .count = 3,
					 .ends = WIRE_CAUSE_UPDATED | WIRE_CAUSE_OPERATOR << 4,
					 .pid = 4711,
					 .delay = 5 * NS_PER_MS},
		    "", "granted to process 4711 after 5ms in the queue, 3 events, last OPERATOR -> RUNNING");
	happened_to((struct shm_history){.happened = SHM_HAPPENED_GRANTED,
					 .to = SHM_STATE_RUNNING,
					 .pid = 4711,
					 .delay = 5 * NS_PER_MS},
		    "website.1", "", "granted to website.1, process 4711 after 5ms in the queue -> RUNNING");
	happened_is((struct shm_history){.happened = SHM_HAPPENED_DONE,
					 .to = SHM_STATE_WAITING,
					 .wait = SHM_WAIT_BACKOFF,
					 .outcome = WIRE_OUTCOME_TRANSIENT,
					 .duration_us = 1500,
					 .delay = 10 * NS_PER_MS},
		    "no database", "done Transient after 1ms: no database -> WAITING (backoff) for 10ms");
	happened_is((struct shm_history){.happened = SHM_HAPPENED_LOST,
					 .to = SHM_STATE_READY,
					 .outcome = WIRE_OUTCOME_WORKER_LOST},
		    "", "lease ended WorkerLost after 0s -> READY");
	happened_is((struct shm_history){.happened = SHM_HAPPENED_DONE, .to = SHM_STATE_NONE},
		    "0123456789012345678901234567890123456789012345678901234567890123",
		    "done Success after 0s: 0123456789012345678901234567890123456789012345678901234567890123 "
		    "-> (none)");
	happened_is((struct shm_history){.happened = 250, .to = 99}, "", "? -> ?");
}

Test(view, times_are_real_times)
{
	struct buf b = {0};
	view_time_json(0, NOW, &b);
	cr_expect_str_eq(buf_str(&b), "null");
	buf_reset(&b);
	view_time_json(NOW, NOW, &b);
	cr_expect(b.len == 22 && buf_str(&b)[0] == '"' && buf_str(&b)[11] == 'T', "%s", buf_str(&b));
	buf_done(&b);
}
