#include "pace.h"

void pace_begin(struct pace *p, int64_t now_ns, int64_t period_ns, double random)
{
	*p = (struct pace){now_ns, now_ns + (int64_t)((double)period_ns * (0.9 + 0.2 * random))};
}

int64_t pace_due_ns(const struct pace *p, uint64_t left)
{
	return left ? p->last_ns + (p->end_ns - p->last_ns) / (int64_t)left : p->end_ns;
}

void pace_took(struct pace *p, uint64_t left)
{
	p->last_ns = pace_due_ns(p, left);
}

static int64_t used_until(const struct limit *l, int64_t now_ns)
{
	return MAX(l->used_until_ns, now_ns - NS_PER_S);
}

uint32_t limit_has(const struct limit *l, uint32_t rate, int64_t now_ns)
{
	int64_t unused = now_ns - used_until(l, now_ns);
	return unused > 0 ? (uint32_t)((double)unused * rate / NS_PER_S) : 0;
}

void limit_take(struct limit *l, uint32_t rate, uint32_t count, int64_t now_ns)
{
	l->used_until_ns = used_until(l, now_ns) + (int64_t)count * NS_PER_S / rate;
}

int64_t limit_due_ns(const struct limit *l, uint32_t rate)
{
	return l->used_until_ns + NS_PER_S / rate + 1;
}
