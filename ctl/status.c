/* reconcilectl status: what the broker says about everybody; without a broker, what its region holds. */
#include "columns.h"
#include "ctl.h"
#include "failing.h"
#include "json.h"
#include "lead.h"
#include "queue_read.h"
#include "who.h"
#include <inttypes.h>
#include <time.h>

static const char *text_of(const struct json *object, const char *key)
{
	return json_text(json_member(object, key));
}

static int64_t number_of(const struct json *object, const char *key)
{
	int64_t v = 0;
	json_integer(json_member(object, key), &v);
	return v;
}

/* The time since "2026-09-30T12:00:30Z". */
static const char *ago(const char *text, char buf[32])
{
	struct tm tm = {0};
	bool good = text && strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return good ? age(clock_realtime_ns(), timegm(&tm) * NS_PER_S, buf) : text;
}

static void add_since(struct columns *t, const struct json *object)
{
	char buf[32];
	columns_add(t, ago(text_of(object, "since"), buf));
}

static void heading(const char *text, struct buf *out)
{
	buf_printf(out, "\n%s\n", text);
}

static void add_number(struct columns *t, const struct json *object, const char *key)
{
	columns_addf(t, "%" PRId64, number_of(object, key));
}

static void print_processes(const struct json *list, struct buf *out)
{
	static const char *const headings[] = {"ROLE", "PID", "INSTANCE", "STATE", "KEY", "SINCE", NULL};
	struct columns t;
	columns_init(&t, headings);
	for (const struct json *p = NULL; (p = json_element(list, p));) {
		columns_add(&t, text_of(p, "role"));
		add_number(&t, p, "pid");
		columns_add(&t, text_of(p, "instance"));
		columns_add(&t, text_of(p, "state"));
		columns_add(&t, text_of(p, "running"));
		add_since(&t, p);
	}
	columns_print(&t, out);
	columns_done(&t);
}

/* The topics of its problems, by which it says below why. */
static void add_stalled(struct columns *t, const struct json *topics)
{
	const char *separator = "in part: ";
	_cleanup_(buf_done) struct buf text = {0};
	for (const struct json *topic = NULL; (topic = json_element(topics, topic));) {
		buf_printf(&text, "%s%s", separator, json_text(topic));
		separator = ", ";
	}
	columns_add(t, buf_str(&text));
}

/* What keeps it, or a part of it, from going on: an operator, itself, its programs, or the lack of a file. */
static void add_paused(struct columns *t, const struct json *c)
{
	const char *held = text_of(c, "held"), *paused = text_of(c, "paused");
	bool configured = true;
	char since[32];
	json_bool(json_member(c, "configured"), &configured);
	if (!configured)
		columns_add(t, "its file is gone, or wrong");
	else if (held)
		columns_addf(t, "by an operator, %s ago%s%s", ago(held, since), paused ? "; " : "",
			     paused ? paused : "");
	else if (paused || !json_count(json_member(c, "stalled")))
		columns_add(t, paused);
	else
		add_stalled(t, json_member(c, "stalled"));
}

static void print_controllers(const struct json *list, struct buf *out)
{
	static const char *const headings[] = {"CONTROLLER",  "READY",	"WAITING", "RUNNING",
					       "QUARANTINED", "DONE",	"ERRORS",  "RETRIES",
					       "SANDBOX",     "PAUSED", NULL};
	struct columns t;
	columns_init(&t, headings);
	for (const struct json *c = NULL; (c = json_element(list, c));) {
		const struct json *results = json_member(c, "results");
		columns_add(&t, text_of(c, "name"));
		add_number(&t, c, "ready");
		add_number(&t, c, "waiting");
		add_number(&t, c, "running");
		add_number(&t, c, "quarantined");
		columns_addf(&t, "%" PRId64,
			     number_of(results, "success") + number_of(results, "requeue") +
				 number_of(results, "requeue_after"));
		add_number(&t, results, "error");
		add_number(&t, c, "retries");
		columns_add(&t, text_of(c, "sandbox"));
		add_paused(&t, c);
	}
	columns_print(&t, out);
	columns_done(&t);
}

/* Failures of all time, by kind: one line a controller that has any. */
static void print_outcomes(const struct json *list, struct buf *out)
{
	for (const struct json *c = NULL; (c = json_element(list, c));) {
		const char *separator = ": ";
		_cleanup_(buf_done) struct buf line = {0};
		const struct json *outcomes = json_member(c, "outcomes");
		for (const struct json *o = NULL; (o = json_element(outcomes, o));) {
			int64_t n = 0;
			if (json_integer(o, &n) < 0 || n == 0 || strcmp(json_key(o), "Success") == 0)
				continue;
			buf_printf(&line, "%s%s %" PRId64, separator, json_key(o), n);
			separator = ", ";
		}
		if (line.len)
			buf_printf(out, "%s%s\n", text_of(c, "name"), buf_str(&line));
	}
}

static void print_reports(const struct json *list, struct buf *out)
{
	static const char *const headings[] = {"STATE", "CONTROLLER", "PROCESS", "TOPIC",
					       "SINCE", "MESSAGE",    NULL};
	struct columns t;
	if (!json_count(list))
		return;
	heading("Problems", out);
	columns_init(&t, headings);
	for (const struct json *r = NULL; (r = json_element(list, r));) {
		columns_add(&t, text_of(r, "state"));
		columns_add(&t, text_of(r, "controller"));
		columns_add(&t, text_of(r, "process"));
		columns_add(&t, text_of(r, "topic"));
		add_since(&t, r);
		columns_add(&t, text_of(r, "message"));
	}
	columns_print(&t, out);
	columns_done(&t);
}

/* ---- leader election ---- */

/* Who leads, as far as the watcher knows: nobody, when what it saw last is over. */
static const char *leader_of(const struct lead_view *l, int64_t now)
{
	bool here = now < l->until, held = *l->holder && now < l->renewed_at + l->duration_ns;
	return here ? l->identity : held && strcmp(l->holder, l->identity) != 0 ? l->holder : NULL;
}

static void print_lead(const struct lead_view *l, int64_t now, struct buf *out)
{
	const char *leader = leader_of(l, now);
	buf_printf(out, "leader: ");
	if (now < l->until)
		buf_printf(out, "this host (%s) until %.1f s from now%s", leader,
			   (double)(l->until - now) / NS_PER_S, l->closing ? ", giving it back" : "");
	else if (leader)
		buf_printf(out, "%s, seen to renew %.1f s ago; this host (%s) stands by", leader,
			   (double)(now - l->renewed_at) / NS_PER_S, l->identity);
	else
		buf_printf(out, "nobody that this host (%s) knows of", l->identity);
	buf_printf(out, "; Lease %s, %" PRId64 " transitions\n", l->lease, l->transitions);
}

static void lead_json(const struct lead_view *l, int64_t now, struct buf *out)
{
	const char *leader = leader_of(l, now);
	buf_puts(out, "{\"lease\":");
	buf_json_string(out, span_of(l->lease));
	buf_puts(out, ",\"identity\":");
	buf_json_string(out, span_of(l->identity));
	buf_puts(out, ",\"leader\":");
	if (leader)
		buf_json_string(out, span_of(leader));
	else
		buf_puts(out, "null");
	buf_printf(
	    out, ",\"leading\":%s,\"secondsLeft\":%.3f,\"transitions\":%" PRId64 "}",
	    now < l->until ? "true" : "false",
	    (double)MAX((now < l->until ? l->until : l->renewed_at + l->duration_ns) - now, INT64_C(0)) /
		NS_PER_S,
	    l->transitions);
}

static void print_status(const struct json *status, struct buf *out)
{
	char up[32];
	int64_t seconds = number_of(status, "uptimeSeconds");
	buf_printf(out, "broker: incarnation %" PRId64 ", up %s\n", number_of(status, "incarnation"),
		   age(seconds * NS_PER_S + 1, 1, up));
	heading("Processes", out);
	print_processes(json_member(status, "processes"), out);
	heading("Controllers", out);
	print_controllers(json_member(status, "controllers"), out);
	_cleanup_(buf_done) struct buf outcomes = {0};
	print_outcomes(json_member(status, "controllers"), &outcomes);
	if (outcomes.len) {
		heading("What did not succeed", out);
		buf_span_add(out, buf_span(&outcomes));
	}
	print_reports(json_member(status, "reports"), out);
}

/* ---- without the broker ---- */

struct depth {
	char controller[64];
	size_t of[SHM_STATE_COUNT];
};

static size_t region_count(struct queue_reader *q, struct depth *list)
{
	_cleanup_(free_ptr) struct queue_key *k = xmalloc(sizeof(*k));
	uint32_t cursor = 0;
	size_t n = 0;
	for (int rc; (rc = queue_next(q, &cursor, k)) != 0 && rc != -EPROTO;) {
		size_t i = 0;
		if (rc < 0)
			continue;
		while (i < n && strcmp(list[i].controller, k->controller) != 0)
			i++;
		if (i == SHM_CONTROLLERS_MAX)
			continue;
		if (i == n)
			memcpy(list[n++].controller, k->controller, sizeof(k->controller));
		list[i].of[k->state]++;
	}
	return n;
}

static void print_region(const struct depth *list, size_t n, bool json, const char *why, struct buf *out)
{
	static const char *const headings[] = {"CONTROLLER", "READY",	    "WAITING",
					       "LEASED",     "QUARANTINED", NULL};
	struct columns t;
	columns_init(&t, headings);
	if (json) {
		buf_puts(out, "{\"broker\":false,\"message\":");
		buf_json_string(out, span_of(why));
		buf_puts(out, ",\"controllers\":[");
	}
	for (size_t i = 0; i < n; i++) {
		const size_t *of = list[i].of;
		size_t leased = of[SHM_STATE_RUNNING] + of[SHM_STATE_DIRTY] + of[SHM_STATE_TIMED];
		size_t settling = of[SHM_STATE_SETTLING] + of[SHM_STATE_SETTLING_DIRTY];
		if (json) {
			buf_printf(out, "%s{\"name\":", i ? "," : "");
			buf_json_string(out, span_of(list[i].controller));
			buf_printf(out,
				   ",\"ready\":%zu,\"waiting\":%zu,\"running\":%zu,\"settling\":%zu,"
				   "\"quarantined\":%zu}",
				   of[SHM_STATE_READY], of[SHM_STATE_WAITING], leased, settling,
				   of[SHM_STATE_QUARANTINED]);
			continue;
		}
		columns_add(&t, list[i].controller);
		columns_addf(&t, "%zu", of[SHM_STATE_READY]);
		columns_addf(&t, "%zu", of[SHM_STATE_WAITING] + settling);
		columns_addf(&t, "%zu", leased);
		columns_addf(&t, "%zu", of[SHM_STATE_QUARANTINED]);
	}
	if (json)
		buf_puts(out, "]}\n");
	else if (n)
		columns_print(&t, out);
	else
		buf_puts(out, "no keys\n");
	columns_done(&t);
}

static int region_run(const struct ctl *c, const struct ctl_command *self, const char *why)
{
	struct err err;
	struct queue_reader *q;
	_cleanup_(buf_done) struct buf out = {0};
	_cleanup_(free_ptr) struct depth *list = xcalloc(SHM_CONTROLLERS_MAX, sizeof(*list));
	ctl_fail(self, why);
	size_t n = 0;
	if (queue_open(c->program.region_dir, &q, &err) < 0) {
		ctl_fail(self, err.text);
		if (c->json) {
			print_region(list, n, true, why, &out);
			ctl_print(&out);
		}
		return EXIT_FAILURE;
	}
	n = region_count(q, list);
	if (!c->json)
		buf_puts(&out, queue_has_writer(q)
				   ? "The broker lives but does not answer. Its region holds:\n"
				   : "There is no broker. The region of the last one holds:\n");
	queue_close(q);
	print_region(list, n, c->json, why, &out);
	ctl_print(&out);
	return EXIT_FAILURE;
}

/* The broker's object as it came, with two more members. */
static int print_json(struct span status, const struct who *who, const struct failing *failing,
		      const struct lead_view *lead, struct buf *out)
{
	while (status.len && strchr(" \t\r\n", status.at[status.len - 1]))
		status.len--;
	if (!status.len || status.at[status.len - 1] != '}')
		return -EPROTO;
	buf_span_add(out, (struct span){status.at, status.len - 1});
	buf_puts(out, ",\"failing\":");
	failing_json(failing, who, clock_boottime_ns(), out);
	buf_puts(out, ",\"leaderElection\":");
	if (lead)
		lead_json(lead, clock_boottime_ns(), out);
	else
		buf_puts(out, "null");
	buf_puts(out, "}\n");
	return 0;
}

CTL_RUN(status_run)
{
	struct ctl c;
	struct err err;
	struct wire answer = {0};
	struct failing failing;
	const struct wire request = {.type = WIRE_TYPE_STATUS, .status = {.what = span_of("status")}};
	_cleanup_(buf_done) struct buf out = {0};
	_cleanup_(json_free_ptr) struct json *status = NULL;
	ctl_options(&c, self, NULL, true, argc, argv);
	if (c.first != argc)
		ctl_usage(self, "no arguments are wanted");
	int rc = ctl_ask(&c, &request, WIRE_TYPE_STATUS_REPLY, &answer, &err);
	if (rc < 0)
		return region_run(&c, self, err.text);
	rc = json_parse(answer.status_reply.json, &status, &err);
	failing_find(c.program.region_dir, number_of(status, "incarnation"), &failing);
	struct lead_view lead;
	bool elected = lead_look(c.program.region_dir, &lead);
	if (rc == 0 && c.json) {
		rc = print_json(answer.status_reply.json, &(struct who){status}, &failing,
				elected ? &lead : NULL, &out);
	} else if (rc == 0) {
		if (elected)
			print_lead(&lead, clock_boottime_ns(), &out);
		print_status(status, &out);
		if (failing.count)
			heading("Keys that fail", &out);
		failing_print(&failing, clock_boottime_ns(), &out);
	} else {
		rc = ctl_fail(self, err.text);
	}
	failing_done(&failing);
	wire_done(&answer);
	ctl_print(&out);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
