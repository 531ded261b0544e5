/* reconcilectl quarantine: the keys that are parked, from shared memory; and letting them out. */
#include "control.h"
#include "key_name.h"
#include "queue_view.h"
#include <stdio.h>

static int by_controller(const void *a, const void *b)
{
	const struct queue_key *x = *(struct queue_key *const *)a, *y = *(struct queue_key *const *)b;
	int c = strcmp(x->controller, y->controller);
	c = c ? c : strcmp(x->namespace, y->namespace);
	return c ? c : strcmp(x->name, y->name);
}

/* Owned by the caller, as is each. */
static struct queue_key **collect(struct queue_reader *q, const char *controller, size_t *ret_count)
{
	struct queue_key **list = NULL, *k = xmalloc(sizeof(*k));
	size_t n = 0;
	uint32_t cursor = 0;
	for (int rc; (rc = queue_next(q, &cursor, k)) != 0 && rc != -EPROTO;) {
		if (rc < 0 || k->state != SHM_STATE_QUARANTINED ||
		    (controller && strcmp(controller, k->controller) != 0))
			continue;
		if ((n & (n - 1)) == 0)
			list = xrealloc(list, (n ? n * 2 : 1) * sizeof(struct queue_key *));
		list[n++] = k;
		k = xmalloc(sizeof(*k));
	}
	free(k);
	if (n)
		qsort(list, n, sizeof(struct queue_key *), by_controller);
	*ret_count = n;
	return list;
}

static void print_table(struct queue_key *const *list, size_t n, int64_t now, struct buf *out)
{
	static const char *const headings[] = {"CONTROLLER", "KEY",	     "SINCE",	"LEFT",
					       "CRASHES",    "LAST OUTCOME", "MESSAGE", NULL};
	struct columns t;
	columns_init(&t, headings);
	for (size_t i = 0; i < n; i++) {
		const struct queue_key *k = list[i];
		const struct shm_record *r = &k->record;
		_cleanup_(free_ptr) char *key = view_key(k);
		char text[32];
		columns_add(&t, k->controller);
		columns_add(&t, key);
		columns_add(&t, age(now, r->quarantined_at, text));
		columns_add(&t, age(k->ready_at, now, text));
		columns_addf(&t, "%u", (unsigned)r->crash_count);
		columns_add(&t, wire_outcome_name(r->last_outcome));
		columns_addf(&t, "%s%s%.100s", k->reason, *k->reason && *k->message ? ": " : "", k->message);
	}
	if (n)
		columns_print(&t, out);
	else
		buf_puts(out, "no key is in quarantine\n");
	columns_done(&t);
}

static int list(const struct ctl *c, const struct ctl_command *self, const char *controller)
{
	struct err err;
	struct queue_reader *q;
	size_t n;
	_cleanup_(buf_done) struct buf out = {0};
	if (queue_open(c->program.region_dir, &q, &err) < 0)
		return ctl_fail(self, err.text);
	struct shm_controller row;
	if (controller && control_find(q, span_of(controller), &row, &err) < 0) {
		queue_close(q);
		return ctl_fail(self, err.text);
	}
	struct queue_key **keys = collect(q, controller, &n);
	int64_t now = clock_boottime_ns();
	if (c->json) {
		buf_puts(&out, "[");
		for (size_t i = 0; i < n; i++) {
			buf_puts(&out, i ? ",\n" : "");
			view_key_json(keys[i], NULL, now, &out);
		}
		buf_puts(&out, "]\n");
	} else {
		print_table(keys, n, now, &out);
	}
	ctl_print(&out);
	if (!queue_has_writer(q))
		fputs("no broker has this region now: it is what the last one left\n", stderr);
	for (size_t i = 0; i < n; i++)
		free(keys[i]);
	free(keys);
	queue_close(q);
	return EXIT_SUCCESS;
}

static int clear(const struct ctl *c, const struct ctl_command *self, const char *what)
{
	struct err err;
	uint32_t cleared;
	struct key_name key = {.controller = span_of(what)};
	_cleanup_(buf_done) struct buf out = {0};
	if (strchr(what, '/')) {
		if (key_name_parse(what, &key, &err) < 0)
			ctl_usage(self, "%s", err.text);
	} else {
		control_controller(self, 1, (char *[]){(char *)(uintptr_t)what});
	}
	const struct wire_control wish = {.what = WIRE_WISH_CLEAR,
					  .controller = key.controller,
					  .namespace = key.namespace,
					  .name = key.name};
	if (control_ask(c, &wish, &cleared, &err) < 0)
		return ctl_fail(self, err.text);
	if (c->json)
		buf_printf(&out, "{\"cleared\":%u}\n", cleared);
	else if (cleared || !key.name.len)
		buf_printf(&out, "%s: %u %s left quarantine\n", what, cleared, cleared == 1 ? "key" : "keys");
	ctl_print(&out);
	if (cleared || !key.name.len)
		return EXIT_SUCCESS;
	_cleanup_(free_ptr) char *text = xasprintf("%s is not in quarantine", what);
	return ctl_fail(self, text);
}

CTL_RUN(quarantine_run)
{
	struct ctl c;
	ctl_options(&c, self, NULL, true, argc, argv);
	const char *what = c.first < argc ? argv[c.first] : "";
	int left = argc - c.first - 1;
	char **rest = argv + c.first + 1;
	if (strcmp(what, "list") == 0 && left <= 1)
		return list(&c, self, left ? control_controller(self, left, rest) : NULL);
	if (strcmp(what, "clear") == 0 && left == 1)
		return clear(&c, self, rest[0]);
	if (strcmp(what, "list") == 0 || strcmp(what, "clear") == 0)
		ctl_usage(self, "%s: one controller%s", what, *what == 'c' ? " or key" : " at most");
	ctl_usage(self, "list or clear?");
}
