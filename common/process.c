#include "process.h"
#include "usage.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_STEP = 65536, READ_STEPS = 64 };

void process_init(struct process *p, const struct process_ops *ops, void *owner)
{
	*p = (struct process){.in = -1, .out = -1, .err = -1, .ops = ops, .owner = owner};
	lines_init(&p->lines, clock_boottime_ns());
}

static void tell_line(void *ctx, struct span line)
{
	struct process *p = ctx;
	p->ops->line(p, line);
}

const char *signal_text(int sig, char buf[24])
{
	const char *name = sigabbrev_np(sig);
	if (name)
		snprintf(buf, 24, "SIG%s", name);
	else
		snprintf(buf, 24, "signal %d", sig);
	return buf;
}

const char *ending_text(int wait_status, char buf[64])
{
	if (WIFSIGNALED(wait_status)) {
		char name[24];
		snprintf(buf, 64, "%s%s", signal_text(WTERMSIG(wait_status), name),
			 WCOREDUMP(wait_status) ? " (core dumped)" : "");
	} else {
		snprintf(buf, 64, "exit status %d", WEXITSTATUS(wait_status));
	}
	return buf;
}

/* A pipe whose end `ours` (0 reads, 1 writes) is non-blocking. A program may open /dev/stderr again under the
 * jail's user, so the pipe, which nobody else can reach, is open to all. */
static int make_pipe(int ours, int *ret_ours, int *ret_theirs)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	fchmod(ends[0], 0666);
	fcntl(ends[ours], F_SETFL, O_NONBLOCK);
	*ret_ours = ends[ours];
	*ret_theirs = ends[!ours];
	return 0;
}

int process_start(struct process *p, struct jail *j, const char *const *argv, const char *const *env,
		  struct err *err)
{
	int theirs[3] = {-1, -1, -1};
	int64_t now = clock_boottime_ns();
	const char *controller = p->controller;
	char key[sizeof(p->key)], uid[sizeof(p->uid)];
	memcpy(key, p->key, sizeof(key));
	memcpy(uid, p->uid, sizeof(uid));
	process_done(p);
	p->controller = controller;
	memcpy(p->key, key, sizeof(key));
	memcpy(p->uid, uid, sizeof(uid));
	p->jail = j;
	p->from.limit = PROCESS_STDOUT_MAX + READ_STEP;
	p->started_ns = now;
	p->oom_kills = usage_oom_kills();
	int r = make_pipe(1, &p->in, &theirs[0]);
	if (r == 0)
		r = make_pipe(0, &p->out, &theirs[1]);
	if (r == 0)
		r = make_pipe(0, &p->err, &theirs[2]);
	if (r < 0)
		err_set(err, r, "pipes for the program: %s", strerror(-r));
	else
		r = jail_spawn(j, argv, env, theirs, err);
	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		close_fd(&theirs[i]);
	if (r < 0) {
		process_done(p);
		return r;
	}
	p->state = PROCESS_STARTING;
	return 0;
}

void process_done(struct process *p)
{
	close_fd(&p->in);
	close_fd(&p->out);
	close_fd(&p->err);
	buf_done(&p->to);
	buf_done(&p->from);
	lines_next(&p->lines);
	*p = (struct process){
	    .in = -1, .out = -1, .err = -1, .ops = p->ops, .owner = p->owner, .lines = p->lines};
}

void process_send(struct process *p, struct span bytes)
{
	if (p->in < 0)
		return;
	/* What is sent already is dropped before more is put behind it, so that a long-lived program's buffer
	 * stays small. */
	buf_remove_front(&p->to, p->to_sent);
	p->to_sent = 0;
	buf_span_add(&p->to, bytes);
}

void process_end_input(struct process *p)
{
	p->close_in = true;
}

size_t process_poll(const struct process *p, struct pollfd *fds)
{
	size_t n = 0;
	if (p->in >= 0 && (p->to_sent < p->to.len || p->close_in))
		fds[n++] = (struct pollfd){p->in, POLLOUT, 0};
	if (p->out >= 0 && !p->overflow && p->to.len - p->to_sent <= PROCESS_STDIN_HIGH)
		fds[n++] = (struct pollfd){p->out, POLLIN, 0};
	if (p->err >= 0)
		fds[n++] = (struct pollfd){p->err, POLLIN, 0};
	return n;
}

static void write_in(struct process *p)
{
	while (p->in >= 0 && p->to_sent < p->to.len) {
		ssize_t n = write(p->in, p->to.data + p->to_sent, p->to.len - p->to_sent);
		if (n > 0)
			p->to_sent += (size_t)n;
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n < 0 && errno == EAGAIN)
			return;
		else
			close_fd(&p->in); /* EPIPE: it does not want to read, which is allowed */
	}
	if (p->to_sent) {
		buf_reset(&p->to);
		p->to_sent = 0;
	}
	if (p->close_in)
		close_fd(&p->in);
}

/* Reads one stream for a bounded while, so that a program that never stops writing cannot keep us from
 * anything else. */
static void read_stream(struct process *p, int *fd, void (*take)(struct process *, struct span))
{
	char bytes[READ_STEP];
	for (int i = 0; *fd >= 0 && i < READ_STEPS && !p->overflow; i++) {
		ssize_t n = read(*fd, bytes, sizeof(bytes));
		if (n > 0)
			take(p, (struct span){bytes, (size_t)n});
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n < 0 && errno == EAGAIN)
			return;
		else
			close_fd(fd);
	}
}

static void take_out(struct process *p, struct span bytes)
{
	buf_span_add(&p->from, bytes);
	p->overflow = p->from.len > PROCESS_STDOUT_MAX || buf_failed(&p->from);
}

static void take_err(struct process *p, struct span bytes)
{
	lines_feed(&p->lines, bytes, clock_boottime_ns(), tell_line, p);
}

void process_io(struct process *p)
{
	if (p->state == PROCESS_NONE)
		return;
	write_in(p);
	buf_remove_front(&p->from, p->from_taken);
	p->from_taken = 0;
	bool behind = p->to.len - p->to_sent > PROCESS_STDIN_HIGH && p->in >= 0;
	if (!behind || p->state == PROCESS_ENDED)
		read_stream(p, &p->out, take_out);
	bool overflow = p->overflow;
	p->overflow = false; /* stderr has its own limits */
	read_stream(p, &p->err, take_err);
	p->overflow = overflow;
	uint64_t dropped = lines_dropped(&p->lines, clock_boottime_ns());
	if (dropped)
		p->ops->dropped(p, dropped);
}

struct span process_unread(const struct process *p)
{
	struct span all = buf_span(&p->from);
	return (struct span){all.at + p->from_taken, all.len - p->from_taken};
}

void process_take(struct process *p, size_t bytes)
{
	p->from_taken += MIN(bytes, p->from.len - p->from_taken);
}

struct span process_line(const struct process *p)
{
	struct span unread = process_unread(p);
	const char *end = unread.len ? memchr(unread.at, '\n', unread.len) : NULL;
	return end ? (struct span){unread.at, (size_t)(end - unread.at)} : (struct span){NULL, 0};
}

void process_drop_line(struct process *p, struct span line)
{
	process_take(p, line.len + 1);
}

static void end(struct process *p)
{
	p->state = PROCESS_ENDED;
	p->ended_ns = clock_boottime_ns();
	close_fd(&p->in);
	process_io(p); /* what is left in the pipes */
	lines_flush(&p->lines, p->ended_ns, tell_line, p);
	close_fd(&p->out);
	close_fd(&p->err);
}

void process_event(struct process *p, const struct jail_event *e)
{
	if (p->state != PROCESS_STARTING && p->state != PROCESS_RUNNING)
		return;
	switch (e->type) {
	case JAIL_EVENT_STARTED:
		p->state = PROCESS_RUNNING;
		p->started_ns = clock_boottime_ns();
		if (e->error) {
			p->exec_error = e->error;
			end(p);
		}
		break;
	case JAIL_EVENT_ENDED:
		p->wait_status = e->status;
		p->usage = e->usage;
		end(p);
		if (e->left && p->killed == KILL_NONE)
			p->ops->left(p, e->left, e->text);
		break;
	case JAIL_EVENT_GONE:
		p->wait_status = SIGKILL; /* as a wait status: ended by SIGKILL */
		end(p);
		break;
	}
}

void process_stop(struct process *p, enum kill_cause why, int64_t now_ns, int64_t grace_ns)
{
	if (p->state != PROCESS_STARTING && p->state != PROCESS_RUNNING)
		return;
	if (p->killed == KILL_NONE)
		p->killed = why;
	if (!p->term_ns && grace_ns > 0) {
		p->term_ns = now_ns;
		jail_kill(p->jail, SIGTERM);
		return;
	}
	if (!p->kill_ns && (grace_ns == 0 || now_ns - p->term_ns >= grace_ns)) {
		p->kill_ns = now_ns;
		jail_kill(p->jail, SIGKILL);
	}
}

int process_tick(struct process *p, int64_t now_ns)
{
	if (p->state != PROCESS_STARTING && p->state != PROCESS_RUNNING)
		return 0;
	if (p->kill_ns)
		return now_ns - p->kill_ns >= PROCESS_KILL_WAIT_NS ? -ETIMEDOUT : 0;
	if (p->term_ns && now_ns - p->term_ns >= PROCESS_TERM_GRACE_NS)
		process_stop(p, p->killed, now_ns, 0);
	return 0;
}

int64_t process_timer(const struct process *p)
{
	if (p->state != PROCESS_STARTING && p->state != PROCESS_RUNNING)
		return INT64_MAX;
	if (p->kill_ns)
		return p->kill_ns + PROCESS_KILL_WAIT_NS;
	return p->term_ns ? p->term_ns + PROCESS_TERM_GRACE_NS : INT64_MAX;
}

struct ending process_ending(const struct process *p, uint64_t max_memory)
{
	/* ru_maxrss is in KiB and of the largest process. */
	bool near_limit = max_memory && (uint64_t)p->usage.ru_maxrss * 1024 >= max_memory / 4 * 3;
	return (struct ending){
	    .wait_status = p->wait_status,
	    .killed = p->killed,
	    .memory_evidence = usage_oom_kills() != p->oom_kills,
	    .near_limit = near_limit,
	};
}
