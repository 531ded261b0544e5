#include "roster.h"
#include "buf.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20 };

static void add(struct roster *r, struct proc *host, struct proc *jail, enum roster_debt debt)
{
	if (r->len == r->cap) {
		r->cap = MAX(r->cap * 2, (size_t)16);
		r->at = xrealloc(r->at, r->cap * sizeof(*r->at));
	}
	r->at[r->len++] = (struct roster_entry){procs_share(host), procs_share(jail), debt};
	r->owing += debt != ROSTER_NONE;
}

static void take_out(struct roster *r, size_t i)
{
	r->owing -= r->at[i].debt != ROSTER_NONE;
	procs_put(r->procs, r->at[i].host);
	procs_put(r->procs, r->at[i].jail);
	r->at[i] = r->at[--r->len];
}

static bool set_debt(struct roster *r, struct roster_entry *e, enum roster_debt debt)
{
	if (e->debt == debt)
		return false;
	r->owing += debt != ROSTER_NONE;
	r->owing -= e->debt != ROSTER_NONE;
	e->debt = debt;
	return true;
}

/* Beside the old one, then over it: whoever reads finds one of both. */
static int put_in_place(const struct roster *r, struct span text)
{
	_cleanup_(free_ptr) char *fresh = xasprintf("%s.new", r->path);
	_cleanup_(close_fd) int fd =
	    open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < text.len;) {
		ssize_t n = write(fd, text.at + at, text.len - at);
		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return rename(fresh, r->path) < 0 ? -errno : 0;
}

static int write_file(struct roster *r, struct err *err)
{
	_cleanup_(buf_done) struct buf text = {0};
	for (size_t i = 0; i < r->len; i++) {
		const struct roster_entry *e = &r->at[i];
		buf_printf(&text, "%u %llu %u %llu %d\n", e->host->pid, (unsigned long long)e->host->start,
			   e->jail ? e->jail->pid : 0, (unsigned long long)(e->jail ? e->jail->start : 0),
			   (int)e->debt);
	}
	int rc = put_in_place(r, buf_span(&text));
	r->unwritten = rc < 0;
	if (rc < 0)
		return err_set(err, rc, "cannot write %s: %s", r->path, strerror(-rc));
	return 0;
}

/* One line; 0 at the end of the text. */
static int read_line(struct roster *r, const char **at, bool lost, struct err *err)
{
	unsigned host, jail, debt;
	unsigned long long host_start, jail_start;
	int n = 0;
	if (!**at)
		return 0;
	if (sscanf(*at, "%u %llu %u %llu %u%n", &host, &host_start, &jail, &jail_start, &debt, &n) != 5 ||
	    (*at)[n] != '\n' || !host || debt > ROSTER_STOP)
		return err_set(err, -EBADMSG, "%s: the line \"%.*s\" is damaged", r->path,
			       (int)strcspn(*at, "\n"), *at);
	*at += n + 1;
	struct proc *h = NULL, *j = NULL;
	int rc = procs_get(r->procs, host, host_start, &h, err);
	if (rc == 0)
		rc = procs_get(r->procs, jail, jail_start, &j, err);
	if (rc == 0 && !(procs_dead(h) && procs_dead(j)))
		add(r, h, j, lost && debt == ROSTER_NONE ? ROSTER_WORD : (enum roster_debt)debt);
	procs_put(r->procs, h);
	procs_put(r->procs, j);
	return rc < 0 ? rc : 1;
}

int roster_read(struct roster *r, struct procs *procs, const char *path, bool lost, struct err *err)
{
	*r = (struct roster){.procs = procs, .path = xstrdup(path)};
	/* O_NONBLOCK: nothing in the place of the file must stop us here. */
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	_cleanup_(buf_done) struct buf text = {.limit = BYTES_MAX};
	for (ssize_t n = 1; n > 0;) {
		char *to = buf_room(&text, 4096);
		n = to ? read(fd, to, 4096) : 0;
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
		text.len += (size_t)n;
	}
	const char *at = buf_str(&text);
	int rc = 1;
	while (rc > 0)
		rc = read_line(r, &at, lost, err);
	if (rc == 0 && lost)
		rc = write_file(r, err);
	return rc;
}

int roster_hello(struct roster *r, struct proc *host, struct proc *jail, bool running, struct err *err)
{
	bool changed = r->unwritten, known = false;
	for (size_t i = 0; i < r->len; i++) {
		struct roster_entry *e = &r->at[i];
		if (e->host != host)
			continue;
		known |= e->jail == jail;
		if (e->debt == ROSTER_WORD)
			changed |= set_debt(r, e, running ? ROSTER_STOP : ROSTER_NONE);
	}
	if (!known)
		add(r, host, jail, ROSTER_NONE);
	return changed || !known ? write_file(r, err) : 0;
}

int roster_idle(struct roster *r, const struct proc *host, struct err *err)
{
	bool changed = false;
	if (!r->owing)
		return 0;
	for (size_t i = 0; i < r->len; i++)
		if (r->at[i].host == host)
			changed |= set_debt(r, &r->at[i], ROSTER_NONE);
	return changed ? write_file(r, err) : 0;
}

/* A jail that ended goes when its host is written down with another, or is dead, too. */
static bool is_over(const struct roster *r, const struct roster_entry *e)
{
	if (!procs_dead(e->jail))
		return false;
	bool again = procs_dead(e->host);
	for (size_t i = 0; i < r->len && !again; i++)
		again = &r->at[i] != e && r->at[i].host == e->host && e->debt == ROSTER_NONE;
	return again;
}

int roster_reap(struct roster *r, struct err *err)
{
	bool changed = false;
	for (size_t i = 0; i < r->len;) {
		if (is_over(r, &r->at[i])) {
			take_out(r, i);
			changed = true;
		} else {
			i++;
		}
	}
	return changed ? write_file(r, err) : 0;
}

void roster_kill_orphans(const struct roster *r, const struct proc *host)
{
	for (size_t i = 0; i < r->len; i++)
		if (r->at[i].host == host)
			procs_kill(r->at[i].jail);
}

size_t roster_kill_owing(const struct roster *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->len; i++) {
		if (r->at[i].debt == ROSTER_NONE)
			continue;
		n += !procs_dead(r->at[i].host) || !procs_dead(r->at[i].jail);
		procs_kill(r->at[i].host);
		procs_kill(r->at[i].jail);
	}
	return n;
}

void roster_done(struct roster *r)
{
	while (r->len)
		take_out(r, 0);
	free(r->at);
	free(r->path);
	*r = (struct roster){0};
}
