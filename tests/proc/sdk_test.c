/* libreconcile as the worker sees it: a program that speaks the protocol, as a coprocess and as exec. */
#include "check.h"
#include "json_scan.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELLO                                                                                                \
	"{\"kind\":\"Hello\",\"apiVersion\":\"reconciled.dev/"                                               \
	"v1\",\"controller\":\"c\",\"capabilities\":[\"cancel\",\"read\"]}\n"
#define REQUEST(uid, what)                                                                                   \
	"{\"apiVersion\":\"reconciled.dev/v1\",\"kind\":\"ReconcileRequest\",\"uid\":\"" uid                 \
	"\",\"request\":{\"namespace\":\"n\",\"name\":\"x\"},\"object\":{\"spec\":{\"do\":\"" what           \
	"\"}},\"timeoutSeconds\":30}"

struct talk {
	pid_t pid;
	int to, from;
	char log[300];
	char line[8 << 20];
	size_t len; /* bytes in line that are not taken yet */
};
static struct talk talk; /* one at a time */

static void talk_start(void)
{
	int in[2], out[2];
	_cleanup_(free_ptr) char *path = xasprintf("%s/sdk_reconciler", getenv("BIN"));
	char *argv[] = {path, NULL};
	posix_spawn_file_actions_t files;
	extern char **environ;
	snprintf(talk.log, sizeof talk.log, "%s/log", check_folder());
	unlink(talk.log);
	talk.len = 0;
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		exit(1);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in[0], 0);
	posix_spawn_file_actions_adddup2(&files, out[1], 1);
	posix_spawn_file_actions_addopen(&files, 2, talk.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (posix_spawn(&talk.pid, path, &files, NULL, argv, environ))
		exit(1);
	posix_spawn_file_actions_destroy(&files);
	close(in[0]);
	close(out[1]);
	talk.to = in[1];
	talk.from = out[0];
}

static void say(const char *text)
{
	size_t n = strlen(text);
	for (size_t done = 0; done < n;) {
		ssize_t w = write(talk.to, text + done, n - done);
		if (w < 0)
			break;
		done += (size_t)w;
	}
}

/* The next line, terminated; "" when there is none in a minute. Valid until the next call. */
static const char *hear(void)
{
	static char line[sizeof talk.line];
	struct pollfd p = {talk.from, POLLIN, 0};
	for (;;) {
		char *end = memchr(talk.line, '\n', talk.len);
		if (end) {
			size_t n = (size_t)(end - talk.line);
			memcpy(line, talk.line, n);
			line[n] = 0;
			talk.len -= n + 1;
			memmove(talk.line, end + 1, talk.len);
			return line;
		}
		if (poll(&p, 1, SOON * 1000) != 1)
			return "";
		ssize_t r = read(talk.from, talk.line + talk.len, sizeof talk.line - 1 - talk.len);
		if (r <= 0)
			return "";
		talk.len += (size_t)r;
	}
}

static bool heard(const char *part)
{
	const char *line = hear();
	bool is = json_check(span_of(line), NULL) == 0 && strstr(line, part);
	if (!is)
		fprintf(stderr, "heard: %s\n", line);
	return is;
}

/* Its exit status, after EOF unless it ends by itself. */
static int talk_end(bool hang_up)
{
	if (hang_up)
		close(talk.to);
	int status = check_wait(talk.pid, SOON);
	if (!hang_up)
		close(talk.to);
	CHECK_MSG(read(talk.from, talk.line, 1) == 0 && talk.len == 0, "more on stdout");
	close(talk.from);
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool logged(const char *part)
{
	_cleanup_(free_ptr) char *text = check_read(talk.log);
	return strstr(text, part) != NULL;
}

static void coprocess(void)
{
	talk_start();
	say(HELLO);
	CHECK(heard("{\"kind\":\"Hello\",\"apiVersion\":\"reconciled.dev/v1\"}"));
	say(REQUEST("u1", "print") "\n");
	CHECK(heard("\"uid\":\"u1\",\"status\":{\"system\":0}"));
	CHECK(logged("started\n") && logged("printed while reconciling x\n") &&
	      logged("a child of mine prints\n"));

	say(REQUEST("u2", "get") "\n");
	CHECK(heard("{\"kind\":\"Get\",\"id\":1,\"uid\":\"u2\",\"apiVersion\":\"v1\",\"objectKind\":"
		    "\"ConfigMap\",\"namespace\":\"n\",\"live\":true,\"name\":\"x\"}"));
	say("{\"kind\":\"Cancel\",\"uid\":\"u1\"}\n{\"kind\":\"OfALaterVersion\"}\n{\"kind\":\"Object\","
	    "\"id\":77,\"object\":{}}\n"); /* all to be ignored */
	say("{\"kind\":\"Object\",\"id\":1,\"object\":{\"n\":9007199254740993}}\n");
	CHECK(heard("{\"kind\":\"List\",\"id\":2,\"uid\":\"u2\",\"apiVersion\":\"v1\",\"objectKind\":\"Pod\","
		    "\"namespace\":\"other\",\"live\":false,"
		    "\"labelSelector\":\"app=web\",\"ownedBy\":\"uid-1\"}"));
	say("{\"kind\":\"Objects\",\"id\":2,\"items\":[{},{}]}\n");
	CHECK(heard("\"status\":{\"get\":[0, {\"n\":9007199254740993}, \"\"],\"list\":[0, 2]}"));

	say(REQUEST("u3", "get") "\n");
	CHECK(heard("\"Get\""));
	say("{\"kind\":\"Object\",\"id\":3,\"object\":null}\n");
	CHECK(heard("\"List\""));
	say("{\"kind\":\"Objects\",\"id\":4,\"items\":[],\"error\":{\"type\":\"Forbidden\",\"message\":\"you "
	    "may not\"}}\n");
	CHECK(heard("\"status\":{\"get\":[0, null, \"\"],\"list\":[-5, 0]}"));

	say(REQUEST("u4", "wait") "\n");
	say("{\"kind\":\"Cancel\",\"uid\":\"u4\"}\n");
	CHECK(heard("\"reason\":\"Cancelled\""));
	say(REQUEST("u5", "get") "\n");
	CHECK(heard("\"Get\""));
	say("{\"kind\":\"Cancel\",\"uid\":\"u5\"}\n");
	CHECK(heard("\"status\":{\"get\":[-125, null, \"the request was cancelled\"],\"list\":[-125, 0]}"));

	say("\n" REQUEST("u6", "") "\n" REQUEST("u7", "") "\n"); /* both at once, after a blank line */
	CHECK(heard("\"uid\":\"u6\"") && heard("\"uid\":\"u7\""));
	say("{\"kind\":\"Shutdown\"}\n");
	CHECK(talk_end(false) == 0 && logged("stopped\n"));
}

static void end_of_file(void)
{
	talk_start();
	say(HELLO);
	CHECK(heard("Hello"));
	CHECK(talk_end(true) == 0 && logged("stopped\n"));
	talk_start(); /* in the middle of a read: the request is answered for nobody, then it ends */
	say(HELLO);
	CHECK(heard("Hello"));
	say(REQUEST("u1", "get") "\n");
	CHECK(heard("\"Get\""));
	close(talk.to);
	CHECK(heard("\"get\":[-32, null, \"the worker is gone\"]"));
	talk.to = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CHECK(talk_end(true) == 0);
}

/* A line of more than a pipe holds, in pieces. */
static void long_line(void)
{
	enum { LENGTH = 6 << 20 };
	char *text = xmalloc(LENGTH + 1024);
	int n = snprintf(text, 1024,
			 "{\"apiVersion\":\"reconciled.dev/"
			 "v1\",\"kind\":\"ReconcileRequest\",\"uid\":\"u1\",\"request\":{\"name\":\"x\"},"
			 "\"object\":{\"data\":\"");
	memset(text + n, 'x', LENGTH);
	strcpy(text + n + LENGTH, "\"}}\n");
	talk_start();
	say(HELLO);
	CHECK(heard("Hello"));
	say(text);
	CHECK(heard("\"uid\":\"u1\""));
	say("{\"kind\":\"Shutdown\"}\n");
	CHECK(talk_end(false) == 0);
	free(text);
}

static void exec(void)
{
	talk_start();
	say(REQUEST("u1", "get")); /* no newline at the end */
	close(talk.to);
	talk.to = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CHECK(heard("\"get\":[-95, null, \"reads need a coprocess"));
	CHECK(talk_end(true) == 0 && logged("stopped\n"));

	talk_start(); /* indented, as a person has it in a file */
	say("{\n  \"apiVersion\": \"reconciled.dev/v1\",\n  \"kind\": \"ReconcileRequest\", \"uid\": "
	    "\"u2\",\n  \"request\": {\"name\": \"x\"}, \"object\": null\n}\n");
	close(talk.to);
	talk.to = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CHECK(heard("\"uid\":\"u2\""));
	CHECK(talk_end(true) == 0);
}

static void wrong(void)
{
	talk_start();
	say("hello\n");
	CHECK(talk_end(true) == 1 && logged("not JSON: hello"));
	talk_start();
	say(HELLO);
	CHECK(heard("Hello"));
	say("{\"kind\":\"ReconcileRequest\",\"apiVersion\":\"reconciled.dev/v9\",\"uid\":\"u1\"}\n");
	CHECK(talk_end(true) == 1 && logged("link a newer libreconcile"));
	setenv("SDK_START_FAILS", "1", 1);
	talk_start();
	CHECK(talk_end(true) == 1 && !logged("stopped"));
	unsetenv("SDK_START_FAILS");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	coprocess();
	end_of_file();
	long_line();
	exec();
	wrong();
	return check_result();
}
