/* What is wrong hurts only its own controller and says so, in the log and in `reconcilectl status`: one
 * system with a good controller among bad ones, and then API servers that refuse. */
#include "json_scan.h"
#include "stack.h"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

static struct stack s;

static bool status_says(const char *text)
{
	_cleanup_(free_ptr) char *now = stack_status(&s, "-o json");
	return strstr(now, text) != NULL;
}

static void says(const char *what, const char *text)
{
	CHECK_MSG(WAIT_FOR(SOON, stack_logged(&s, text)), "%s: the log does not say \"%s\"", what, text);
	CHECK_MSG(WAIT_FOR(SOON, status_says(text)), "%s: the status does not say \"%s\"", what, text);
}

static void controller(const char *name, const char *kind, const char *spec)
{
	_cleanup_(free_ptr) char *file = xasprintf("%s.yaml", name);
	stack_file(&s, file,
		   "apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: %s}\nspec:\n  "
		   "for: {%s}\n%s",
		   name, kind, spec);
}
#define CONFIG_MAP "apiVersion: v1, kind: ConfigMap"

static bool good_sees(const char *counter)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/good", s.records);
	_cleanup_(free_ptr) char *text = check_read(path);
	return strcmp(text, counter) == 0;
}

/* The good controller still works: a change of its object is seen by its reconciler. */
static void good_works(void)
{
	static int counter;
	char body[100], line[20];
	snprintf(line, sizeof line, "%d\n", ++counter);
	snprintf(body, sizeof body,
		 "{\"metadata\":{\"name\":\"good\",\"labels\":{\"good\":\"yes\"}},\"data\":{\"n\":\"%d\"}}",
		 counter);
	int status = counter == 1
			 ? stack_api(&s, "POST", NULL, body, NULL, "/api/v1/namespaces/default/configmaps")
			 : stack_api(&s, "PATCH", MERGE_PATCH, body, NULL,
				     "/api/v1/namespaces/default/configmaps/good");
	CHECK_MSG(status == 200 || status == 201, "the API server answered %d", status);
	CHECK_MSG(WAIT_FOR(SOON, good_sees(line)), "the good controller did not see change %d", counter);
}

static void bad_controllers(void)
{
	stack_init(&s);
	_cleanup_(free_ptr) char *good =
	    xasprintf("  reconciler:\n    exec: {command: [./good.sh]}\n    env: {RECORDS: \"%s\"}\n"
		      "    sandbox: {readWritePaths: [\"%s\"]}\n",
		      s.records, s.records);
	stack_file(&s, "good.sh",
		   "#!/bin/sh\njq -r .object.data.n >\"$RECORDS/good.new\" && mv \"$RECORDS/good.new\" "
		   "\"$RECORDS/good\"\n");
	controller("good", CONFIG_MAP ", labelSelector: {matchLabels: {good: \"yes\"}}", good);
	controller("wrong-file", CONFIG_MAP, "  reconcilers: {}\n");
	controller("not-served", "apiVersion: nowhere.example.com/v1, kind: Nothing",
		   "  reconciler:\n    exec: {command: [\"true\"]}\n");
	stack_file(&s, "not-executable.txt", "echo hello\n");
	controller("not-executable", CONFIG_MAP,
		   "  reconciler:\n    exec: {command: [./not-executable.txt]}\n");
	controller("no-hello", CONFIG_MAP,
		   "  reconciler:\n    coprocess: {command: [sh, -c, \"echo cannot find my database >&2; "
		   "exit 3\"]}\n");
	/* Each start succeeds; that must not make it one start after the other. */
	stack_file(
	    &s, "hello-and-goodbye.sh",
	    "#!/bin/sh\necho '{\"kind\":\"Hello\",\"apiVersion\":\"reconciled.dev/v1\"}'\neval \"$1\"\n");
	controller("goes-after-hello", CONFIG_MAP ", labelSelector: {matchLabels: {none: \"yes\"}}",
		   "  reconciler:\n    coprocess: {command: [./hello-and-goodbye.sh, \"\"]}\n");
	controller("talks-after-hello", CONFIG_MAP ", labelSelector: {matchLabels: {none: \"yes\"}}",
		   "  reconciler:\n    coprocess: {command: [./hello-and-goodbye.sh, \"echo Good evening; "
		   "sleep 600\"]}\n");
	stack_file(&s, "no-newline.sh",
		   "#!/bin/sh\nread hello\necho '{\"kind\":\"Hello\",\"apiVersion\":\"reconciled.dev/v1\"}'\n"
		   "read request\nprintf '{}'\nread more\n");
	controller(
	    "no-newline", CONFIG_MAP,
	    "  reconciler:\n    coprocess: {command: [./no-newline.sh]}\n  reconciliationTimeout: 1s\n");
	controller("garbage", CONFIG_MAP, "  reconciler:\n    exec: {command: [echo, Good morning]}\n");
	controller("stubborn", CONFIG_MAP,
		   "  reconciler:\n    exec: {command: [sh, -c, \"trap '' TERM; sleep 600\"]}\n  "
		   "reconciliationTimeout: 1s\n");
	controller("leaver", CONFIG_MAP,
		   "  reconciler:\n    exec: {command: [sh, -c, \"setsid sleep 600 & "
		   "until grep -q sleep /proc/$!/comm; do :; done\"]}\n");
	stack_start(&s);
	good_works();
	says("a wrong controller file", "reconcilers");
	says("a kind that is not served", "Nothing");
	says("a reconciler that is not executable", "not executable");
	says("a coprocess that dies before its Hello", "cannot find my database");
	says("a coprocess that ends after its Hello", "ended after its Hello, before any request");
	says("a coprocess that talks after its Hello", "Good evening");
	CHECK_MSG(WAIT_FOR(SOON, stack_logged(&s, "before any request (exit status 0)\" retry_s=4")),
		  "a coprocess that ends after its Hello is started again without a growing pause");
	says("a coprocess whose answer has no newline", "it wrote, without a newline: ");
	says("a reconciler that prints garbage", "Good morning");
	says("a reconciler that ignores SIGTERM", "Timeout");
	CHECK_MSG(WAIT_FOR(SOON, stack_logged(&s, "sleep(")),
		  "a process that outlives its attempt is not named in the log");
	good_works();
	CHECK(stack_stop(&s) == 0);
}

int main(void)
{
	bad_controllers();
	return check_result();
}
