#include "region_ahead.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	STEP = 256 << 10, /* a millisecond of work where pages are expensive */
	NICE = 5,	  /* behind the writer, where they have one CPU for both */
	ASKED_MOST = 8,
};

struct range {
	char *at;
	uint64_t bytes;
};

struct region_ahead {
	char *at;
	int fd;
	uint64_t max_size;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t wanted; /* to here by the writer, who has what is below `used` */
	uint64_t used;
	_Atomic uint64_t ready;
	struct range asked[ASKED_MOST]; /* private memory */
	size_t n_asked;
	bool stop;
};

static void touch(char *at, uint64_t bytes)
{
	/* What cannot be populated is not touched either: it will be a fault of the writer's. */
	if (madvise(at, bytes, MADV_POPULATE_WRITE) < 0)
		return;
	for (uint64_t i = 0; i < bytes; i += REGION_PAGE)
		(void)__atomic_load_n(at + i, __ATOMIC_RELAXED);
}

static bool make_ready(struct region_ahead *a, uint64_t from, uint64_t to)
{
	int rc;
	struct stat st;
	/* One that somebody has cut is not made longer: its writer would not notice, and go on with zeros. */
	if (fstat(a->fd, &st) < 0 ||
	    (uint64_t)st.st_size < atomic_load_explicit(&a->ready, memory_order_relaxed))
		return false;
	do
		rc = posix_fallocate(a->fd, (off_t)from, (off_t)(to - from));
	while (rc == EINTR);
	if (rc != 0 || mprotect(a->at + from, to - from, PROT_READ | PROT_WRITE) < 0)
		return false;
	touch(a->at + from, to - from);
	atomic_store_explicit(&a->ready, to, memory_order_release);
	return true;
}

static void *work(void *ctx)
{
	struct region_ahead *a = ctx;
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	uint64_t old = 0, first = a->used, refused = UINT64_MAX;
	pthread_mutex_lock(&a->lock);
	while (!a->stop) {
		uint64_t from = MAX(atomic_load_explicit(&a->ready, memory_order_relaxed), a->used);
		uint64_t wanted = MIN(a->wanted, a->max_size);
		/* Where there was no room it is asked for again when the writer has found some. */
		bool grow = from < wanted && from != refused;
		if (!grow && old >= first && a->n_asked == 0) {
			pthread_cond_wait(&a->changed, &a->lock);
			continue;
		}
		struct range asked = a->n_asked ? a->asked[--a->n_asked] : (struct range){0};
		pthread_mutex_unlock(&a->lock);
		if (asked.at) {
			touch(asked.at, asked.bytes);
		} else if (grow) {
			refused = make_ready(a, from, MIN(from + STEP, a->max_size)) ? UINT64_MAX : from;
		} else {
			touch(a->at + old, MIN(STEP, first - old));
			old += STEP;
		}
		pthread_mutex_lock(&a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int region_ahead_start(struct region *r)
{
	const struct region_header *h = region_header(r);
	struct region_ahead *a = xcalloc(1, sizeof(*a));
	uint64_t allocated = atomic_load_explicit(&h->allocated, memory_order_relaxed);
	*a = (struct region_ahead){
	    .at = r->at,
	    .fd = r->fd,
	    .max_size = h->max_size,
	    .wanted = allocated + REGION_AHEAD,
	    .used = allocated,
	};
	atomic_init(&a->ready, allocated);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	sigset_t all,
	    before; /* signals are for the other threads, but SIGBUS: of a file that was cut under it */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&a->thread, NULL, work, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0) {
		free(a);
		return -rc;
	}
	r->ahead = a;
	return 0;
}

bool region_ahead_has(struct region_ahead *a, uint64_t size)
{
	bool has = size <= atomic_load_explicit(&a->ready, memory_order_acquire);
	pthread_mutex_lock(&a->lock);
	a->used = MAX(a->used, size);
	a->wanted = MAX(a->wanted, size + REGION_AHEAD);
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return has;
}

void region_ahead_touch(struct region *r, void *at, uint64_t bytes)
{
	struct region_ahead *a = r->ahead;
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	if (a->n_asked < ASKED_MOST)
		a->asked[a->n_asked++] = (struct range){at, bytes};
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

void region_ahead_stop(struct region *r)
{
	struct region_ahead *a = r->ahead;
	if (!a)
		return;
	r->ahead = NULL;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
