#include "lease.h"

static void reach(struct leases *ls, uint32_t slot)
{
	if (slot < ls->slots)
		return;
	uint32_t slots = MAX(slot + 1, MAX(ls->slots * 2, 64u));
	ls->of_slot = xrealloc(ls->of_slot, slots * sizeof(*ls->of_slot));
	memset(ls->of_slot + ls->slots, 0, (slots - ls->slots) * sizeof(*ls->of_slot));
	ls->slots = slots;
}

void lease_add(struct leases *ls, uint32_t slot, uint64_t generation, struct proc *host, struct proc *jail)
{
	if (ls->len == ls->cap) {
		ls->cap = MAX(ls->cap * 2, (size_t)64);
		ls->at = xrealloc(ls->at, ls->cap * sizeof(*ls->at));
	}
	reach(ls, slot);
	ls->at[ls->len++] = (struct lease){
	    .slot = slot, .generation = generation, .host = procs_share(host), .jail = procs_share(jail)};
	ls->of_slot[slot] = (uint32_t)ls->len;
}

int lease_recover(struct leases *ls, const struct workqueue *wq, struct err *err)
{
	for (uint32_t i = 0; i < store_slots(wq->store); i++) {
		const struct shm_slot *s = store_slot(wq->store, i);
		if (!SHM_LEASED(s->state))
			continue;
		const struct shm_detail *d = store_detail(wq->store, s->detail);
		struct proc *host = NULL, *jail = NULL;
		int rc = procs_get(ls->procs, d->host_pid, d->host_start, &host, err);
		if (rc == 0)
			rc = procs_get(ls->procs, d->jail_pid, d->jail_start, &jail, err);
		if (rc == 0)
			lease_add(ls, i, d->generation, host, jail);
		procs_put(ls->procs, host);
		procs_put(ls->procs, jail);
		if (rc < 0)
			return rc;
	}
	return 0;
}

struct lease *lease_find(struct leases *ls, uint32_t slot)
{
	return slot < ls->slots && ls->of_slot[slot] ? &ls->at[ls->of_slot[slot] - 1] : NULL;
}

struct lease *lease_of_host(struct leases *ls, uint32_t pid, uint64_t start)
{
	for (size_t i = 0; i < ls->len; i++)
		if (ls->at[i].host && ls->at[i].host->pid == pid && ls->at[i].host->start == start)
			return &ls->at[i];
	return NULL;
}

struct lease *lease_next_dead(struct leases *ls)
{
	for (size_t i = 0; i < ls->len; i++)
		if (procs_dead(ls->at[i].host) && procs_dead(ls->at[i].jail))
			return &ls->at[i];
	return NULL;
}

void lease_kill_orphans(struct leases *ls, const struct proc *host)
{
	for (size_t i = 0; i < ls->len; i++)
		if (ls->at[i].host == host)
			procs_kill(ls->at[i].jail);
}

void lease_remove(struct leases *ls, struct lease *l)
{
	procs_put(ls->procs, l->host);
	procs_put(ls->procs, l->jail);
	ls->of_slot[l->slot] = 0;
	struct lease *last = &ls->at[--ls->len];
	if (l == last)
		return;
	*l = *last;
	ls->of_slot[l->slot] = (uint32_t)(l - ls->at) + 1;
}

void leases_done(struct leases *ls)
{
	while (ls->len)
		lease_remove(ls, &ls->at[ls->len - 1]);
	free(ls->at);
	free(ls->of_slot);
	*ls = (struct leases){0};
}
