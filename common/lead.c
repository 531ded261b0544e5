#include "lead.h"
#include <sys/stat.h>

void lead_init(struct lead *l, const char *region_dir, bool elected)
{
	*l = (struct lead){.path = xasprintf("%s/cache.shm", region_dir),
			   .region = {.fd = -1},
			   .elected = elected,
			   .until = elected ? CACHE_LEAD_FOLLOWS : INT64_MAX,
			   .looked_at = INT64_MIN};
}

void lead_done(struct lead *l)
{
	region_done(&l->region);
	free(l->path);
	*l = (struct lead){.region = {.fd = -1}};
}

/* A watcher that cannot trust its region unlinks it and makes another. */
static void look_for_region(struct lead *l)
{
	struct stat st;
	struct region_spec spec = cache_region_spec();
	if (l->region.at && fstat(l->region.fd, &st) == 0 && st.st_nlink > 0)
		return;
	region_done(&l->region);
	if (region_read(l->path, &spec, &l->region, NULL) < 0)
		l->region = (struct region){.fd = -1};
	else if (l->region.mapped < REGION_PAGE + sizeof(struct cache_header))
		region_done(&l->region);
}

int64_t lead_until(struct lead *l, int64_t now_ns)
{
	if (l->looked_at == INT64_MIN || now_ns - l->looked_at >= LEAD_LOOK_NS) {
		l->looked_at = now_ns;
		look_for_region(l);
	}
	if (l->region.at) {
		const struct cache_header *h = (const void *)(l->region.at + REGION_PAGE);
		int64_t until = atomic_load_explicit(&h->lead.until, memory_order_acquire);
		l->until = until != CACHE_LEAD_OFF ? until : l->elected ? CACHE_LEAD_FOLLOWS : INT64_MAX;
		l->closing = atomic_load_explicit(&h->lead.closing, memory_order_acquire) != 0;
	}
	return l->until;
}

/* ---- for people ---- */

static bool copy_texts(const struct cache_lead *from, struct lead_view *ret)
{
	enum { TRIES = 1000 };
	for (int i = 0; i < TRIES; i++) {
		uint32_t seq = atomic_load_explicit(&from->seq, memory_order_acquire);
		memcpy(ret->lease, from->lease, sizeof ret->lease);
		memcpy(ret->identity, from->identity, sizeof ret->identity);
		memcpy(ret->holder, from->holder, sizeof ret->holder);
		ret->renewed_at = from->renewed_at;
		ret->duration_ns = from->duration_ns;
		ret->transitions = from->transitions;
		atomic_thread_fence(memory_order_acquire);
		if (!(seq & 1) && atomic_load_explicit(&from->seq, memory_order_relaxed) == seq)
			break; /* else what a dead watcher was writing is shown as it is */
	}
	ret->lease[sizeof ret->lease - 1] = ret->identity[sizeof ret->identity - 1] =
	    ret->holder[sizeof ret->holder - 1] = 0;
	return *ret->lease;
}

bool lead_look(const char *region_dir, struct lead_view *ret)
{
	struct lead l;
	lead_init(&l, region_dir, false);
	look_for_region(&l);
	bool found = false;
	if (l.region.at) {
		const struct cache_header *h = (const void *)(l.region.at + REGION_PAGE);
		*ret = (struct lead_view){.until = atomic_load(&h->lead.until),
					  .closing = atomic_load(&h->lead.closing) != 0};
		found = ret->until != CACHE_LEAD_OFF && copy_texts(&h->lead, ret);
	}
	lead_done(&l);
	return found;
}
