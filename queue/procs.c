#include "procs.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int procs_get(struct procs *ps, uint32_t pid, uint64_t start, struct proc **ret, struct err *err)
{
	if (pid == 0) {
		*ret = NULL;
		return 0;
	}
	for (struct proc *p = ps->list; p; p = p->next) {
		if (p->pid != pid || p->start != start)
			continue;
		p->references++;
		*ret = p;
		return 0;
	}
	int fd = -1;
	int rc = process_open((pid_t)pid, start, &fd);
	if (rc < 0 && rc != -ESRCH)
		return err_set(err, rc, "cannot watch process %u: %s%s", pid, strerror(-rc),
			       rc == -EACCES
				   ? "; /proc hides it (mounted with hidepid=, or ProtectProc= of a unit)"
				   : "");
	struct proc *p = xcalloc(1, sizeof(*p));
	*p = (struct proc){
	    .pid = pid, .start = start, .fd = fd, .dead = rc < 0, .references = 1, .next = ps->list};
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = PROCS_EVENT};
	if (!p->dead && epoll_ctl(ps->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
		rc = err_set(err, -errno, "cannot watch process %u: %s", pid, strerror(errno));
		close(fd);
		free(p);
		return rc;
	}
	ps->list = p;
	*ret = p;
	return 0;
}

struct proc *procs_share(struct proc *p)
{
	if (p)
		p->references++;
	return p;
}

static void forget(struct procs *ps, struct proc *p)
{
	if (p->fd < 0)
		return;
	epoll_ctl(ps->epoll, EPOLL_CTL_DEL, p->fd, NULL);
	close(p->fd);
	p->fd = -1;
}

void procs_put(struct procs *ps, struct proc *p)
{
	if (!p || --p->references > 0)
		return;
	for (struct proc **at = &ps->list; *at; at = &(*at)->next) {
		if (*at != p)
			continue;
		*at = p->next;
		break;
	}
	forget(ps, p);
	free(p);
}

struct proc *procs_next_dead(struct procs *ps)
{
	for (struct proc *p = ps->list; p; p = p->next) {
		struct pollfd one = {.fd = p->fd, .events = POLLIN};
		if (p->dead || poll(&one, 1, 0) != 1)
			continue;
		p->dead = true;
		forget(ps, p);
		return p;
	}
	return NULL;
}

void procs_kill(struct proc *p)
{
	if (p && !p->dead)
		syscall(SYS_pidfd_send_signal, p->fd, SIGKILL, NULL, 0);
}
