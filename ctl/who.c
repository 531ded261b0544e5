#include "who.h"
#include "json.h"
#include <unistd.h>

enum { ANSWER_MS = 500 };

void who_ask(const struct ctl *c, struct who *ret)
{
	struct ctl hurried = *c;
	struct err err;
	*ret = (struct who){0};
	hurried.answer_ms = ANSWER_MS;
	if (ctl_status(&hurried, &ret->status, &err) < 0)
		ret->status = NULL;
}

void who_done(struct who *w)
{
	json_free(w->status);
	*w = (struct who){0};
}

/* The number is that process' from its start to its end; the broker holds on to those that it names. */
static bool lived(uint32_t pid, int64_t at)
{
	uint64_t ticks;
	long a_second = sysconf(_SC_CLK_TCK);
	return a_second > 0 && process_start_time((pid_t)pid, &ticks) == 0 &&
	       (double)ticks / (double)a_second <= (double)at / NS_PER_S;
}

const char *who_was(const struct who *w, uint32_t pid, int64_t at)
{
	const struct json *list = json_member(w->status, "processes");
	for (const struct json *p = NULL; (p = json_element(list, p));) {
		const char *instance = json_text(json_member(p, "instance"));
		int64_t its = 0;
		if (json_integer(json_member(p, "pid"), &its) == 0 && its == pid && instance && *instance)
			return lived(pid, at) ? instance : NULL;
	}
	return NULL;
}

const char *who_has(const struct who *w, const struct queue_key *k)
{
	return SHM_LEASED(k->state) ? who_was(w, k->detail.host_pid, k->detail.granted_at) : NULL;
}
