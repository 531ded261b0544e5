#include "trap.h"
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE	  4096u
#define TRAP_FLAG 0x100 /* of the flags register: an exception after the next instruction */

static struct trap *current; /* the innermost; NULL inside of after() until it opens one */

int __real_mprotect(void *at, size_t len, int prot);
int __wrap_mprotect(void *at, size_t len, int prot);

int __wrap_mprotect(void *at, size_t len, int prot)
{
	struct trap *t = current;
	if (!t || !(prot & PROT_WRITE))
		return __real_mprotect(at, len, prot);
	if (!t->at)
		t->at = at;
	if ((char *)at < t->at || (char *)at > t->at + t->len) /* private memory */
		return __real_mprotect(at, len, prot);
	t->len = (size_t)((char *)at + len - t->at);
	return __real_mprotect(at, len, t->paused ? prot : PROT_READ);
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
	if (!t || at < t->at || at >= t->at + t->len || t->n_pages == TRAP_PAGES_MOST) {
		signal(number, SIG_DFL); /* a bug: the same instruction ends the process now */
		return;
	}
	char *page = at - (uintptr_t)at % PAGE;
	if (__real_mprotect(page, PAGE, PROT_READ | PROT_WRITE) < 0)
		abort();
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
	t->at = NULL;
	t->len = 0;
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
	if (t->at && __real_mprotect(t->at, t->len, paused ? PROT_READ | PROT_WRITE : PROT_READ) < 0)
		abort();
}
