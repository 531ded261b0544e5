#include "failing.h"
#include "queue_view.h"
#include "text.h"
#include "who.h"

static bool is_worse(const struct queue_key *a, const struct queue_key *b)
{
	bool parked_a = a->state == SHM_STATE_QUARANTINED, parked_b = b->state == SHM_STATE_QUARANTINED;
	return parked_a != parked_b ? parked_a : a->record.attempt > b->record.attempt;
}

/* Takes key over, or gives another one back that is not among the worst. */
static struct queue_key *keep(struct failing *f, struct queue_key *key)
{
	size_t at = f->count;
	struct queue_key *spare = NULL;
	while (at > 0 && is_worse(key, f->list[at - 1]))
		at--;
	if (at == FAILING_MAX)
		return key;
	if (f->count == FAILING_MAX)
		spare = f->list[--f->count];
	memmove(&f->list[at + 1], &f->list[at], (f->count - at) * sizeof(f->list[0]));
	f->list[at] = key;
	f->count++;
	return spare ? spare : xmalloc(sizeof(*spare));
}

void failing_find(const char *region_dir, int64_t incarnation, struct failing *ret)
{
	struct queue_reader *q;
	struct err ignored;
	uint32_t cursor = 0;
	*ret = (struct failing){0};
	if (queue_open(region_dir, &q, &ignored) < 0)
		return;
	if (queue_incarnation(q) != (uint64_t)incarnation) {
		queue_close(q);
		return;
	}
	struct queue_key *k = xmalloc(sizeof(*k));
	for (int rc; (rc = queue_next(q, &cursor, k)) != 0 && rc != -EPROTO;) {
		if (rc < 0 || (k->state != SHM_STATE_QUARANTINED && !k->record.attempt))
			continue;
		ret->total++;
		k = keep(ret, k);
	}
	free(k);
	queue_close(q);
}

void failing_done(struct failing *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->list[i]);
	*f = (struct failing){0};
}

void failing_print(const struct failing *f, int64_t now, struct buf *out)
{
	static const char *const headings[] = {"CONTROLLER", "KEY",	     "STATE",	"FAILURES",
					       "LAST",	     "LAST OUTCOME", "MESSAGE", NULL};
	struct columns t;
	if (!f->count)
		return;
	columns_init(&t, headings);
	for (size_t i = 0; i < f->count; i++) {
		const struct queue_key *k = f->list[i];
		char ago[32];
		_cleanup_(free_ptr) char *key = view_key(k);
		columns_add(&t, k->controller);
		columns_add(&t, key);
		columns_add(&t, shm_state_name(k->state));
		columns_addf(&t, "%u", (unsigned)k->record.attempt);
		columns_add(&t, age(now, k->record.last_at, ago));
		columns_add(&t, k->record.attempted ? wire_outcome_name(k->record.last_outcome) : NULL);
		char said[200];
		columns_addf(&t, "%s%s%.*s", k->reason, *k->reason && *k->message ? ": " : "",
			     (int)text_ends(span_of(k->message), sizeof(said), said), said);
	}
	columns_print(&t, out);
	columns_done(&t);
	if (f->count < f->total)
		buf_printf(out, "and %zu more: see reconcilectl queue\n", f->total - f->count);
}

void failing_json(const struct failing *f, const struct who *who, int64_t now, struct buf *out)
{
	buf_printf(out, "{\"total\":%zu,\"keys\":[", f->total);
	for (size_t i = 0; i < f->count; i++) {
		buf_puts(out, i ? ",\n" : "\n");
		view_key_json(f->list[i], who_has(who, f->list[i]), now, out);
	}
	buf_puts(out, "]}");
}
