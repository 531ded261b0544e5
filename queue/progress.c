/* How far the watch is: the watcher's PROGRESS waits here until a key does, and is answered with AWAIT. */
#include "broker.h"

#define IN_VAIN_LOG (10 * NS_PER_S) /* not more often */

void broker_passed(struct broker *b, const struct peer *p, const struct wire_progress *progress, void *token,
		   int64_t now)
{
	if (b->progress)
		broker_answer(b, b->progress, &(struct wire){.type = WIRE_TYPE_AWAIT});
	b->progress = token;
	b->progress_of = p->pipe;
	for (size_t i = 0; i < progress->passed.len; i++)
		workqueue_passed(&b->wq, &progress->passed.at[i], now);
}

void broker_forget_progress(struct broker *b, uint32_t pipe)
{
	if (b->progress_of != pipe)
		return;
	transport_drop(b->server, b->progress);
	b->progress = NULL;
	b->progress_of = 0;
}

static void log_in_vain(struct broker *b, int64_t now)
{
	if (b->wq.holds_in_vain == b->in_vain || (b->in_vain_logged && now - b->in_vain_logged < IN_VAIN_LOG))
		return;
	log_warning("the watch did not show in time what attempts wrote: the next ones may see what was "
		    "before. Is the watcher alive, its "
		    "watch in trouble (reconcilectl status)?",
		    LOG_I("times", (int64_t)(b->wq.holds_in_vain - b->in_vain)),
		    LOG_I("seconds", SETTLE_MOST / NS_PER_S));
	b->in_vain_logged = now;
	b->in_vain = b->wq.holds_in_vain;
}

void broker_await(struct broker *b, int64_t now)
{
	struct wire_place places[1024];
	log_in_vain(b, now);
	if (!b->progress || (!b->wq.settle.news && !b->hello_wanted))
		return;
	size_t n = b->wq.settle.news ? settle_awaited(&b->wq.settle, places, ARRAY_SIZE(places)) : 0;
	if (!n && !b->hello_wanted)
		return;
	broker_answer(b, b->progress,
		      &(struct wire){.type = WIRE_TYPE_AWAIT, .await = {{places, n}, b->hello_wanted}});
	b->hello_wanted = false;
	b->progress = NULL;
	b->progress_of = 0;
}
