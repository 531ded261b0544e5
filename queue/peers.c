#include "peers.h"

struct peer *peers_find(struct peers *ps, uint32_t pipe)
{
	struct peer *p = ps->slots[pipe % TRANSPORT_PEERS_MAX];
	return p && p->pipe == pipe ? p : NULL;
}

struct peer *peers_add(struct peers *ps, uint32_t pipe, pid_t pid)
{
	struct peer *p = xcalloc(1, sizeof(*p));
	p->pipe = pipe;
	p->pid = pid;
	p->since = clock_boottime_ns();
	p->next = ps->list;
	ps->list = p;
	ps->slots[pipe % TRANSPORT_PEERS_MAX] = p;
	return p;
}

void peers_remove(struct peers *ps, struct peer *p)
{
	for (struct peer **at = &ps->list; *at; at = &(*at)->next) {
		if (*at != p)
			continue;
		*at = p->next;
		ps->slots[p->pipe % TRANSPORT_PEERS_MAX] = NULL;
		free(p);
		return;
	}
}

const char *peer_name(const struct peer *p)
{
	return p->instance[0] ? p->instance : wire_role_name(p->role);
}
