/* reconcilectl explain: what a key's slot and the history ring know about it. */
#include "control.h"
#include "json.h"
#include "key_name.h"
#include "queue_view.h"
#include "who.h"
#include <inttypes.h>
#include <stdio.h>

struct history {
	struct queue_happened *at;
	size_t count;
	int64_t since; /* queue_history_since() */
	struct who who;
};

static const char *granted_to(const struct history *h, size_t i)
{
	const struct shm_history *e = &h->at[i].entry;
	return e->happened == SHM_HAPPENED_GRANTED ? who_was(&h->who, e->pid, e->at) : NULL;
}

/* The ring itself is the bound. */
static int history_add(void *ctx, const struct queue_happened *entry)
{
	struct history *h = ctx;
	if ((h->count & (h->count - 1)) == 0)
		h->at = xrealloc(h->at, (h->count ? h->count * 2 : 1) * sizeof(*h->at));
	memcpy(&h->at[h->count++], entry, sizeof(*entry));
	return 0;
}

static void print_pending(const struct queue_key *k, int64_t now, struct buf *out)
{
	char text[32];
	buf_printf(out, "pending:    for %s, priority %" PRId32, age(now, k->added_at, text), k->priority);
	if (!k->count) {
		buf_puts(out, ", to be tried again; no event came meanwhile\n");
		return;
	}
	buf_printf(out, ", %" PRIu32 " %s\n  first:    ", k->count, k->count == 1 ? "event" : "events");
	view_cause(&k->first, out);
	if (k->count > 1) {
		buf_puts(out, "\n  last:     ");
		view_cause(&k->last, out);
	}
	buf_putc(out, '\n');
}

static void print_lease(const struct queue_key *k, const char *worker, int64_t now, struct buf *out)
{
	const struct shm_detail *d = &k->detail;
	char since[32], deadline[32], end[32];
	buf_printf(out, "lease:      generation %" PRIu64 ", ", d->generation);
	if (worker) {
		printable(out, worker);
		buf_puts(out, ", ");
	}
	buf_printf(out,
		   "process %" PRIu32 " (jail %" PRIu32 "), granted %s ago, deadline in %s, ends in %s\n",
		   d->host_pid, d->jail_pid, age(now, d->granted_at, since), age(d->deadline, now, deadline),
		   age(d->lease_end, now, end));
	buf_puts(out, "  because:  ");
	view_cause(&k->lease_first, out);
	if (d->lease_count > 1) {
		buf_printf(out, ", and %u more, last ", d->lease_count - 1u);
		view_cause(&k->lease_last, out);
	}
	buf_putc(out, '\n');
}

static void print_last(const struct queue_key *k, int64_t now, struct buf *out)
{
	const struct shm_record *r = &k->record;
	char ago[32], took[32];
	buf_printf(out, "last:       %s %s ago, took %s\n", wire_outcome_name(r->last_outcome),
		   age(now, r->last_at, ago), short_duration((int64_t)r->duration_us * NS_PER_US, took));
	if (*k->reason || *k->message) {
		buf_puts(out, "  said:     ");
		printable(out, k->reason);
		buf_puts(out, *k->reason && *k->message ? ": " : "");
		printable(out, k->message);
		buf_putc(out, '\n');
	}
	buf_printf(out, "failures:   %" PRIu32 " in a row", r->attempt);
	for (uint32_t i = 0; i < MIN((uint32_t)WIRE_OUTCOME_COUNT, (uint32_t)ARRAY_SIZE(r->outcomes)); i++)
		if (r->outcomes[i])
			buf_printf(out, ", %s %u", wire_outcome_name(i), r->outcomes[i]);
	buf_putc(out, '\n');
}

/* Each entry goes on from the state that the one before it led to; where not, one was lost with a broker that was
 * killed. */
static bool gap_before(const struct history *h, size_t i)
{
	if (i == 0)
		return h->since == 0 && h->at[0].entry.from != SHM_STATE_NONE;
	return h->at[i].entry.from != h->at[i - 1].entry.to;
}

/* Why nothing of the controller goes on, as the broker sees it; NULL: it does, or nobody knows. */
static const char *paused_by_broker(const struct json *status, const char *controller)
{
	const struct json *list = json_member(status, "controllers");
	for (const struct json *c = NULL; (c = json_element(list, c));) {
		const char *name = json_text(json_member(c, "name"));
		if (name && strcmp(name, controller) == 0)
			return json_text(json_member(c, "paused"));
	}
	return NULL;
}

/* What keeps a key that is ready from being granted. */
static void print_pause(struct queue_reader *q, const struct queue_key *k, const struct who *who, int64_t now,
			struct buf *out)
{
	struct shm_controller c;
	char ago[32];
	if (control_find(q, span_of(k->controller), &c, NULL) < 0)
		return;
	const char *why = paused_by_broker(who->status, c.name);
	if (c.held_since) {
		buf_printf(
		    out,
		    "paused:     by an operator since %s: nothing of %s is started until `reconcilectl "
		    "resume %s`\n",
		    age(now, c.held_since, ago), c.name, c.name);
	} else if (c.pause) {
		buf_printf(out, "paused:     since %s: %s", age(now, c.pause_since, ago),
			   shm_pause_name(c.pause));
		buf_puts(out, c.pause_message[0] ? ": " : "");
		printable(out, c.pause_message);
		buf_putc(out, '\n');
	} else if (why) {
		buf_puts(out, "paused:     ");
		printable(out, why);
		buf_putc(out, '\n');
	}
}

static void print_text(const char *name, struct queue_reader *q, const struct queue_key *k,
		       const struct history *h, int64_t now, struct buf *out)
{
	buf_printf(out, "key:        %s\n", name);
	if (k) {
		buf_printf(out, "state:      %s, ", shm_state_name(k->state));
		view_state(k, NULL, now, out);
		buf_putc(out, '\n');
		print_pause(q, k, &h->who, now, out);
		if (k->pending && k->state != SHM_STATE_QUARANTINED)
			print_pending(k, now, out);
		if (SHM_LEASED(k->state))
			print_lease(k, who_has(&h->who, k), now, out);
		if (k->record.attempted)
			print_last(k, now, out);
	} else {
		buf_puts(out, "state:      not in the queue: nothing is to be done for it\n");
	}
	char ago[32];
	buf_printf(out, "history:    %zu %s, ", h->count, h->count == 1 ? "entry" : "entries");
	if (h->since == 0)
		buf_puts(out, "complete since the region was made\n");
	else if (h->since == INT64_MAX)
		buf_puts(out, "complete since no time that is known\n");
	else
		buf_printf(out, "complete for the last %s: what was before is overwritten\n",
			   age(now, h->since, ago));
	for (size_t i = 0; i < h->count; i++) {
		if (gap_before(h, i))
			buf_puts(out,
				 "              ...  something is missing here: it was lost with a broker\n");
		_cleanup_(buf_done) struct buf line = {0};
		view_happened(&h->at[i], granted_to(h, i), &line);
		buf_printf(out, "  %10s ago  ", age(now, h->at[i].entry.at, ago));
		printable(out, buf_str(&line));
		buf_putc(out, '\n');
	}
}

static void print_json(const struct queue_key *k, const struct history *h, int64_t now, struct buf *out)
{
	buf_puts(out, "{\"key\":");
	if (k)
		view_key_json(k, who_has(&h->who, k), now, out);
	else
		buf_puts(out, "null");
	buf_printf(out,
		   ",\"historyComplete\":%s,\"historyCompleteSince\":", h->since == 0 ? "true" : "false");
	view_time_json(h->since == INT64_MAX ? 0 : h->since, now, out);
	size_t gaps = 0;
	for (size_t i = 0; i < h->count; i++)
		gaps += gap_before(h, i);
	buf_printf(out, ",\"historyGaps\":%zu,\"history\":[", gaps);
	for (size_t i = 0; i < h->count; i++) {
		buf_puts(out, i ? ",\n" : "\n");
		view_happened_json(&h->at[i], granted_to(h, i), now, out);
	}
	buf_puts(out, "]}\n");
}

CTL_RUN(explain_run)
{
	struct ctl c;
	struct err err;
	struct key_name name;
	struct queue_reader *q;
	struct shm_controller row;
	struct history h = {0};
	_cleanup_(buf_done) struct buf out = {0};
	ctl_options(&c, self, NULL, true, argc, argv);
	if (argc - c.first != 1)
		ctl_usage(self, "one key");
	if (key_name_parse(argv[c.first], &name, &err) < 0)
		ctl_usage(self, "%s", err.text);
	if (queue_open(c.program.region_dir, &q, &err) < 0)
		return ctl_fail(self, err.text);
	_cleanup_(free_ptr) struct queue_key *key = xmalloc(sizeof(*key));
	int rc = queue_find(q, name.controller, name.namespace, name.name, key);
	h.since = queue_history_since(q);
	queue_history(q, name.controller, name.namespace, name.name, history_add, &h);
	who_ask(&c, &h.who);
	int64_t now = clock_boottime_ns();
	const struct queue_key *found = rc == 0 ? key : NULL;
	if (c.json)
		print_json(found, &h, now, &out);
	else
		print_text(argv[c.first], q, found, &h, now, &out);
	ctl_print(&out);
	if (!queue_has_writer(q))
		fputs("no broker has this region now: it is what the last one left\n", stderr);
	bool known = found || h.count;
	err.text[0] = '\0';
	if (!known)
		fprintf(stderr, "reconcilectl explain: nothing is known about %s%s%s%s\n", argv[c.first],
			control_find(q, name.controller, &row, &err) < 0 ? ": " : "", err.text,
			rc == -EAGAIN || rc == -EPROTO ? ", but a part of the region could not be read" : "");
	who_done(&h.who);
	free(h.at);
	queue_close(q);
	return known ? EXIT_SUCCESS : EXIT_FAILURE;
}
