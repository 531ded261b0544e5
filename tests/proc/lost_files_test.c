/* Somebody deletes the socket, the cache or the queue under a running system (a cleaner of /dev/shm, an operator's rm): what
 * they stood for is made anew without help, nothing is lost, and no key runs twice at once. */
#include "stack.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static struct stack s;
static int counter;

static void delete_from(const char *folder, const char *prefix)
{
	size_t n = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; d && (e = readdir(d));) {
		_cleanup_(free_ptr) char *path = xasprintf("%s/%s", folder, e->d_name);
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
			n += unlink(path) == 0;
	}
	if (d)
		closedir(d);
	CHECK_MSG(n > 0, "there is no %s in %s", prefix, folder);
}

static void kill_all(enum stack_role role)
{
	pid_t pids[16];
	size_t n;
	/* One that noticed by itself is gone already, and its successor may not be there yet. */
	CHECK_MSG(WAIT_FOR(SOON, (n = stack_pids(&s, role, pids, ARRAY_SIZE(pids))) > 0), "there is no %s",
		  stack_role_name(role));
	for (size_t i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
}

static bool recorded(const char *name, const char *text)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", s.records, name);
	_cleanup_(free_ptr) char *have = check_read(path);
	return strcmp(have, text) == 0;
}

/* Among the lines of `quick`: the objects of before may be reconciled once more, at any time. */
static bool saw(const char *line)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/quick", s.records);
	_cleanup_(free_ptr) char *have = check_read(path), *want = xasprintf("<%s>\n", line);
	return strstr(have, want) != NULL;
}

static void sees_a_change(const char *after)
{
	char body[100], line[20];
	snprintf(line, sizeof line, "%d", ++counter);
	snprintf(body, sizeof body, "{\"metadata\":{\"name\":\"quick-%d\"},\"data\":{\"n\":\"%d\"}}", counter,
		 counter);
	CHECK(stack_api(&s, "POST", NULL, body, NULL, "/api/v1/namespaces/default/configmaps") == 201);
	CHECK_MSG(WAIT_FOR(SOON, saw(line)), "after %s a new object is not reconciled", after);
}

static void controller(const char *name, const char *kind)
{
	_cleanup_(free_ptr) char *file = xasprintf("%s.yaml", name);
	stack_file(&s, file,
		   "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n"
		   "  for: {apiVersion: v1, kind: %s, namespaces: [default]}\n  workers: 2\n"
		   "  reconciler:\n    exec: {command: [./%s.sh]}\n    env: {RECORDS: \"%s\"}\n"
		   "    sandbox: {readWritePaths: [\"%s\"]}\n",
		   name, kind, name, s.records, s.records);
}

static void the_socket(void)
{
	delete_from(s.runtime, "queue.sock");
	kill_all(ROLE_HOST); /* the next ones look for it */
	sees_a_change("the loss of the socket");
}

static void the_cache(void)
{
	delete_from(s.region, "cache");
	sees_a_change("the loss of the cache");
}

/* The worker that runs the key now, or 0. */
static pid_t runs(const char *key)
{
	_cleanup_(free_ptr) char *status = stack_status(&s, "-o json"),
				 *what = xasprintf("\"running\":\"%s\"", key);
	char *end = strstr(status, what), *pid = NULL;
	for (char *at = status; end && (at = strstr(at, "\"pid\":")) && at < end; at++)
		pid = at;
	return pid ? (pid_t)strtol(pid + strlen("\"pid\":"), NULL, 10) : 0;
}

/* The lease of a running key is lost with the queue, and its worker is stopped just then: it does not hear of it, and its program goes
 * on. The other worker must not get the key beside it: the first one is killed before. */
static void the_queue(void)
{
	pid_t worker = 0;
	CHECK(stack_api(&s, "POST", NULL, "{\"metadata\":{\"name\":\"slow\"}}", NULL,
			"/api/v1/namespaces/default/secrets") == 201);
	CHECK(WAIT_FOR(SOON, recorded("slow.starts", "x")));
	CHECK_MSG(WAIT_FOR(SOON, (worker = runs("default/slow")) > 0),
		  "the status does not say who runs the key");
	kill(worker, SIGSTOP);
	delete_from(s.region, "queue.shm");
	kill_all(ROLE_BROKER);
	CHECK_MSG(WAIT_FOR(120, recorded("slow.starts", "xx")), "the key did not run again");
	CHECK_MSG(WAIT_FOR(SOON, kill(worker, 0) < 0), "the worker that was stopped was not killed");
	_cleanup_(free_ptr) char *go = xasprintf("%s/go", s.records);
	FILE *f = fopen(go, "we");
	CHECK(f && fclose(f) == 0);
	CHECK_MSG(WAIT_FOR(SOON, recorded("slow.ends", "x")), "the key did not run to its end");
	CHECK_MSG(recorded("twice", ""), "a key ran twice at once");
	CHECK(stack_logged(&s, "the region of the last broker is lost"));
	sees_a_change("the loss of the queue");
}

int main(void)
{
	stack_init(&s);
	stack_file(
	    &s, "quick.sh",
	    "#!/bin/sh\nn=$(jq -r '.object.data.n // empty') && [ \"$n\" ] && printf '<%%s>\\n' \"$n\" "
	    ">>\"$RECORDS/quick\"\nexit 0\n");
	stack_file(&s, "slow.sh",
		   "#!/bin/sh\n[ \"$RECONCILE_NAME\" = slow ] || exit 0\nexec 9>\"$RECORDS/lock\"\n"
		   "flock -n 9 || echo twice >\"$RECORDS/twice\"\nprintf x >>\"$RECORDS/slow.starts\"\n"
		   "n=0; until [ -e \"$RECORDS/go\" ] || [ $n = 2000 ]; do sleep 0.1; n=$((n + 1)); done\n"
		   "printf x >>\"$RECORDS/slow.ends\"\n");
	controller("quick", "ConfigMap");
	controller("slow", "Secret");
	stack_start(&s);
	sees_a_change("the start");
	the_socket();
	the_cache();
	the_queue();
	CHECK(stack_stop(&s) == 0);
	stack_done(&s);
	return check_result();
}
