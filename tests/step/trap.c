#include "trap.h"
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE	  4096u
#define TRAP_FLAG 0x100 /* of the flags register: an exception after the next instruction */

static struct trap *current; /* the innermost; NULL inside of after() until it opens one */

int __real_mprotect(void *at, size_t len, int prot);
int __wrap_mprotect(void *at, size_t len, int prot);
int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);

/* The range that the address is in, or (end) right behind. */
static struct trap_range *find(struct trap *t, const char *at, bool end)
{
	for (size_t i = 0; i < t->n_ranges; i++)
		if (at >= t->ranges[i].at && at < t->ranges[i].at + t->ranges[i].len + end)
			return &t->ranges[i];
	return NULL;
}

int __wrap_mprotect(void *at, size_t len, int prot)
{
	struct trap *t = current;
	if (!t || !(prot & PROT_WRITE))
		return __real_mprotect(at, len, prot);
	struct trap_range *r = find(t, at, true);
	if (!r && t->n_ranges >= MAX(t->most, 1u)) /* private memory */
		return __real_mprotect(at, len, prot);
	if (!r) {
		r = &t->ranges[t->n_ranges++];
		*r = (struct trap_range){.at = at};
	}
	r->len = (size_t)((char *)at + len - r->at);
	return __real_mprotect(at, len, t->paused ? prot : PROT_READ);
}

int __wrap_munmap(void *at, size_t len)
{
	struct trap *t = current;
	struct trap_range *r = t && t->most > 1 ? find(t, at, false) : NULL;
	if (r && r->at == at)
		*r = t->ranges[--t->n_ranges];
	return __real_munmap(at, len);
}

#ifdef __x86_64__
bool trap_possible(void)
{
	return true;
}

static void on_store(int number, siginfo_t *info, void *context)
{
	struct trap *t = current;
	ucontext_t *u = context;
	char *at = info->si_addr;
	const struct trap_range *r = t ? find(t, at, false) : NULL;
	if (!r || t->n_pages == TRAP_PAGES_MOST) {
		signal(number, SIG_DFL); /* a bug: the same instruction ends the process now */
		return;
	}
	char *page = at - (uintptr_t)at % PAGE;
	if (__real_mprotect(page, PAGE, PROT_READ | PROT_WRITE) < 0)
		abort();
	t->range = r;
	t->pages[t->n_pages++] = page;
	u->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_stored(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	struct trap *t = current;
	ucontext_t *u = context;
	int saved = errno;
	u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	while (t->n_pages)
		if (__real_mprotect(t->pages[--t->n_pages], PAGE, PROT_READ) < 0)
			abort();
	t->stores++;
	current = NULL;
	t->after(t->ctx);
	current = t;
	errno = saved;
}

static void catch_signals(void)
{
	/* Not blocked while they are handled: after() may step another writer. */
	struct sigaction store = {.sa_sigaction = on_store, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct sigaction stored = {.sa_sigaction = on_stored, .sa_flags = SA_SIGINFO | SA_NODEFER};
	if (sigaction(SIGSEGV, &store, NULL) < 0 || sigaction(SIGTRAP, &stored, NULL) < 0)
		abort();
}
#else
bool trap_possible(void)
{
	return false;
}
static void catch_signals(void) {}
#endif

void trap_open(struct trap *t)
{
	catch_signals();
	t->n_ranges = 0;
	t->range = NULL;
	t->n_pages = 0;
	t->outer = current;
	current = t;
}

void trap_close(struct trap *t)
{
	current = t->outer;
}

void trap_pause(struct trap *t, bool paused)
{
	t->paused = paused;
	for (size_t i = 0; i < t->n_ranges; i++)
		if (__real_mprotect(t->ranges[i].at, t->ranges[i].len,
				    paused ? PROT_READ | PROT_WRITE : PROT_READ) < 0)
			abort();
}
