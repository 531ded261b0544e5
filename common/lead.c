#include "lead.h"
#include "shm_cache.h"
#include <sys/stat.h>

void lead_init(struct lead *l, const char *region_dir)
{
	*l = (struct lead){.path = xasprintf("%s/cache.shm", region_dir),
			   .region = {.fd = -1},
			   .until = INT64_MAX,
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
		int64_t until = atomic_load_explicit(&h->lead_until, memory_order_acquire);
		l->until = until ? until : INT64_MAX;
	}
	return l->until;
}
