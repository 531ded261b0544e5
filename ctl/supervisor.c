#include "supervisor.h"
#include "program.h"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

void child_started(struct child *c, pid_t pid, int64_t now)
{
	c->state = CHILD_RUNNING;
	c->pid = pid;
	c->started_at = now;
	c->starts++;
}

static void wait_longer(struct child *c, int64_t now)
{
	c->delay = c->delay ? MIN(c->delay * 2, SUPERVISOR_DELAY_MAX) : SUPERVISOR_DELAY_MIN;
	c->due_at = now + c->delay;
	c->state = CHILD_WAITING;
}

void child_start_failed(struct child *c, int64_t now)
{
	wait_longer(c, now);
}

void child_ended(struct child *c, int wait_status, int64_t now)
{
	int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
	c->pid = 0;
	if (c->retiring) {
		c->state = CHILD_GONE;
		return;
	}
	if (now - c->started_at >= SUPERVISOR_LIFE)
		c->delay = 0;
	if (status == EXIT_USAGE || status == EXIT_CONFIG)
		c->state = CHILD_PARKED;
	else
		wait_longer(c, now);
}

void child_reload(struct child *c, int64_t now)
{
	if (c->state != CHILD_PARKED && c->state != CHILD_WAITING)
		return;
	c->state = CHILD_WAITING;
	c->delay = 0;
	c->due_at = now;
}

void child_retire(struct child *c)
{
	c->retiring = true;
	if (c->state != CHILD_RUNNING)
		c->state = CHILD_GONE;
}

bool child_is_due(const struct child *c, int64_t now)
{
	return c->state == CHILD_IDLE || (c->state == CHILD_WAITING && c->due_at <= now);
}

void child_free(struct child *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->argv && c->argv[i]; i++)
		free(c->argv[i]);
	free(c->argv);
	free(c->name);
	free(c->controller);
	free(c);
}

const char *child_end_text(int wait_status, char buf[64])
{
	if (WIFEXITED(wait_status)) {
		int status = WEXITSTATUS(wait_status);
		snprintf(buf, 64, "exit status %d%s", status,
			 status == EXIT_CONFIG	? " (wrong configuration)"
			 : status == EXIT_USAGE ? " (wrong usage)"
						: "");
	} else {
		const char *name = sigabbrev_np(WTERMSIG(wait_status));
		snprintf(buf, 64, "killed by SIG%s%s", name ? name : "?",
			 WCOREDUMP(wait_status) ? " (core dumped)" : "");
	}
	return buf;
}
