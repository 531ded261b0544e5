/* reconcilectl queue: a list of keys, from shared memory. */
#include "config.h"
#include "control.h"
#include "queue_view.h"
#include "text.h"
#include "who.h"
#include <stdio.h>

enum { LIMIT_DEFAULT = 1000, LIMIT_MAX = 1000000 };

struct counts {
	size_t of[SHM_STATE_COUNT], torn;
};

/* What is most urgent to see first: what runs, what could run, what settles, what waits (soonest first), what is parked. */
static int by_state(const void *a, const void *b)
{
	static const int order[SHM_STATE_COUNT] = {
	    [SHM_STATE_RUNNING] = 0, [SHM_STATE_DIRTY] = 0,	 [SHM_STATE_TIMED] = 0,
	    [SHM_STATE_READY] = 1,   [SHM_STATE_SETTLING] = 2,	 [SHM_STATE_SETTLING_DIRTY] = 2,
	    [SHM_STATE_WAITING] = 3, [SHM_STATE_QUARANTINED] = 4};
	const struct queue_key *x = *(struct queue_key *const *)a, *y = *(struct queue_key *const *)b;
	int c = strcmp(x->controller, y->controller);
	if (c)
		return c;
	if (order[x->state] != order[y->state])
		return order[x->state] - order[y->state];
	if (x->ready_at != y->ready_at)
		return x->ready_at < y->ready_at ? -1 : 1;
	c = strcmp(x->namespace, y->namespace);
	return c ? c : strcmp(x->name, y->name);
}

static size_t running_of(const struct counts *c)
{
	return c->of[SHM_STATE_RUNNING] + c->of[SHM_STATE_DIRTY] + c->of[SHM_STATE_TIMED];
}

static size_t settling_of(const struct counts *c)
{
	return c->of[SHM_STATE_SETTLING] + c->of[SHM_STATE_SETTLING_DIRTY];
}

/* The first `limit` keys (of one controller, if it is named), each malloced; counts has all. */
static struct queue_key **collect(struct queue_reader *q, const char *controller, size_t limit,
				  size_t *ret_count, struct counts *counts)
{
	struct queue_key **list = NULL, *k = xmalloc(sizeof(*k));
	size_t n = 0, room = 0;
	uint32_t cursor = 0;
	for (int rc; (rc = queue_next(q, &cursor, k)) != 0;) {
		if (rc < 0) {
			counts->torn++;
			if (rc == -EAGAIN)
				continue;
			break;
		}
		if (controller && strcmp(controller, k->controller) != 0)
			continue;
		counts->of[k->state]++;
		if (n == limit)
			continue;
		if (n == room) {
			room = room ? room * 2 : 64;
			list = xrealloc(list, room * sizeof(*list));
		}
		list[n++] = k;
		k = xmalloc(sizeof(*k));
	}
	free(k);
	if (n)
		qsort(list, n, sizeof(*list), by_state);
	*ret_count = n;
	return list;
}

static void print_table(struct queue_key *const *list, size_t n, const struct counts *counts,
			const struct who *who, int64_t now, struct buf *out)
{
	static const char *const headings[] = {"CONTROLLER", "KEY",	     "STATE",	"WHY", "PRIORITY",
					       "FAILURES",   "LAST OUTCOME", "MESSAGE", NULL};
	struct columns t;
	size_t total = 0;
	columns_init(&t, headings);
	for (size_t i = 0; i < n; i++) {
		const struct queue_key *k = list[i];
		_cleanup_(free_ptr) char *key = view_key(k);
		_cleanup_(buf_done) struct buf why = {0};
		view_state(k, who_has(who, k), now, &why);
		columns_add(&t, k->controller);
		columns_add(&t, key);
		columns_add(&t, shm_state_name(k->state));
		columns_add(&t, buf_str(&why));
		columns_addf(&t, "%d", (int)k->priority);
		columns_addf(&t, "%u", (unsigned)k->record.attempt);
		columns_add(&t, k->record.attempted ? wire_outcome_name(k->record.last_outcome) : NULL);
		char said[100];
		columns_addf(&t, "%s%s%.*s", k->reason, *k->reason && *k->message ? ": " : "",
			     (int)text_ends(span_of(k->message), sizeof(said), said), said);
	}
	if (n)
		columns_print(&t, out);
	columns_done(&t);
	for (size_t i = 0; i < SHM_STATE_COUNT; i++)
		total += counts->of[i];
	buf_printf(out, "%s%zu %s: %zu running, %zu ready, %zu settling, %zu waiting, %zu quarantined\n",
		   n ? "\n" : "", total, total == 1 ? "key" : "keys", running_of(counts),
		   counts->of[SHM_STATE_READY], settling_of(counts), counts->of[SHM_STATE_WAITING],
		   counts->of[SHM_STATE_QUARANTINED]);
	if (n < total)
		buf_printf(out, "%zu are not shown: see --limit\n", total - n);
	if (counts->torn)
		buf_printf(
		    out, "%zu could not be read: they were being written, or the broker died while it did\n",
		    counts->torn);
}

/* Controllers (or only this one) that an operator has paused. */
static void print_held(struct queue_reader *q, const char *controller, bool json, int64_t now,
		       struct buf *out)
{
	const char *comma = "";
	struct shm_controller c;
	char text[32];
	for (uint32_t i = 0; i < SHM_CONTROLLERS_MAX; i++) {
		if (!queue_controller(q, i, &c) || !c.held_since ||
		    (controller && strcmp(controller, c.name) != 0))
			continue;
		if (json)
			buf_printf(out, "%s\"%s\"", comma, c.name);
		else
			buf_printf(out, "%s is paused by an operator since %s\n", c.name,
				   age(now, c.held_since, text));
		comma = ",";
	}
}

static void print_json(struct queue_reader *q, const char *controller, struct queue_key *const *list,
		       size_t n, const struct counts *counts, bool broker, const struct who *who, int64_t now,
		       struct buf *out)
{
	buf_printf(out,
		   "{\"broker\":%s,\"counts\":{\"running\":%zu,\"ready\":%zu,\"settling\":%zu,\"waiting\":%"
		   "zu,\"quarantined\":"
		   "%zu},\"paused\":[",
		   broker ? "true" : "false", running_of(counts), counts->of[SHM_STATE_READY],
		   settling_of(counts), counts->of[SHM_STATE_WAITING], counts->of[SHM_STATE_QUARANTINED]);
	print_held(q, controller, true, now, out);
	buf_puts(out, "],\"keys\":[");
	for (size_t i = 0; i < n; i++) {
		buf_puts(out, i ? ",\n" : "\n");
		view_key_json(list[i], who_has(who, list[i]), now, out);
	}
	buf_puts(out, "]}\n");
}

CTL_RUN(queue_run)
{
	struct ctl c;
	struct err err;
	struct queue_reader *q;
	struct counts counts = {0};
	const char *limit_text = NULL;
	uint32_t limit = LIMIT_DEFAULT;
	size_t n;
	_cleanup_(buf_done) struct buf out = {0};
	const struct program_option own[] = {
	    {"limit", 0, "N", "show at most so many keys [1000]", .text = &limit_text}, {0}};
	ctl_options(&c, self, own, true, argc, argv);
	if (argc - c.first > 1)
		ctl_usage(self, "one controller at most");
	if (limit_text && parse_u32(limit_text, 0, LIMIT_MAX, &limit) < 0)
		ctl_usage(self, "--limit is a number up to %d, not %s", LIMIT_MAX, limit_text);
	if (queue_open(c.program.region_dir, &q, &err) < 0)
		return ctl_fail(self, err.text);
	const char *controller = argv[c.first];
	struct shm_controller row;
	if (controller && control_find(q, span_of(controller), &row, &err) < 0) {
		queue_close(q);
		return ctl_fail(self, err.text);
	}
	struct queue_key **list = collect(q, controller, limit, &n, &counts);
	int64_t now = clock_boottime_ns();
	bool broker = queue_has_writer(q);
	struct who who = {0};
	if (broker && n && running_of(&counts))
		who_ask(&c, &who);
	if (c.json)
		print_json(q, controller, list, n, &counts, broker, &who, now, &out);
	else
		print_table(list, n, &counts, &who, now, &out);
	if (!c.json)
		print_held(q, controller, false, now, &out);
	ctl_print(&out);
	if (!broker)
		fputs("no broker has this region now: it is what the last one left\n", stderr);
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
	who_done(&who);
	queue_close(q);
	return EXIT_SUCCESS;
}
