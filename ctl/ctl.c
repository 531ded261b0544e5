#include "ctl.h"
#include "json.h"
#include "transport.h"
#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

/* Does an option of this name stand among the arguments? */
static bool is_given(const char *option, int argc, char **argv)
{
	size_t n = strlen(option);
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strncmp(argv[i], option, n) == 0 && (argv[i][n] == 0 || argv[i][n] == '='))
			return true;
	return false;
}

/* The folders of the system's services, where an ordinary user's own hold nothing. */
static void system_folders(struct program *p, int argc, char **argv)
{
	_cleanup_(free_ptr) char *socket = xasprintf("%s/queue.sock", p->runtime_dir);
	_cleanup_(free_ptr) char *region = xasprintf("%s/queue.shm", p->region_dir);
	if (!is_given("--runtime-dir", argc, argv) && access(socket, F_OK) < 0 &&
	    access("/run/reconciled/queue.sock", F_OK) == 0)
		p->runtime_dir = "/run/reconciled";
	if (!is_given("--region-dir", argc, argv) && access(region, F_OK) < 0 &&
	    access("/dev/shm/reconciled/queue.shm", F_OK) == 0)
		p->region_dir = "/dev/shm/reconciled";
}

enum { ANSWER_MS = 5000 };

void ctl_options(struct ctl *c, const struct ctl_command *self, const struct program_option *own,
		 bool with_output, int argc, char **argv)
{
	enum { OWN_MAX = 16 };
	const char *output = "table";
	struct program_option options[OWN_MAX + 2] = {0};
	size_t n = 0;
	for (; own && own[n].name && n < OWN_MAX; n++)
		options[n] = own[n];
	if (with_output)
		options[n++] = (struct program_option){"output", 'o', "FORMAT", "table or json [table]",
						       .text = &output};
	char *name = xasprintf("reconcilectl %s", self->name); /* kept: the log and program refer to it */
	_cleanup_(free_ptr) char *usage = xasprintf("%s %s", name, self->arguments);
	_cleanup_(free_ptr) char *about =
	    xasprintf("%s.%s%s", self->about, self->more ? "\n\n" : "", self->more ? self->more : "");
	*about = (char)toupper((unsigned char)*about);
	c->first = program_options(&c->program, name, usage, about, options, argc, argv);
	if (strcmp(output, "json") != 0 && strcmp(output, "table") != 0)
		ctl_usage(self, "--output is table or json, not %s", output);
	c->json = strcmp(output, "json") == 0;
	c->answer_ms = ANSWER_MS;
	if (self->run != up_run) /* which makes its own */
		system_folders(&c->program, argc, argv);
}

void ctl_usage(const struct ctl_command *self, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "reconcilectl %s: ", self->name);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\nUsage: reconcilectl %s %s\n", self->name, self->arguments);
	va_end(ap);
	exit(EXIT_USAGE);
}

int ctl_fail(const struct ctl_command *self, const char *text)
{
	fprintf(stderr, "reconcilectl %s: %s\n", self->name, text);
	return EXIT_FAILURE;
}

void ctl_print(const struct buf *text)
{
	if (buf_failed(text) || fwrite(buf_str(text), 1, text->len, stdout) != text->len ||
	    fflush(stdout) != 0) {
		perror("reconcilectl: cannot write to standard output");
		exit(EXIT_FAILURE);
	}
}

int ctl_status(const struct ctl *c, struct json **ret, struct err *err)
{
	struct wire answer = {0};
	const struct wire request = {.type = WIRE_TYPE_STATUS, .status = {.what = span_of("status")}};
	int rc = ctl_ask(c, &request, WIRE_TYPE_STATUS_REPLY, &answer, err);
	if (rc < 0)
		return rc;
	rc = json_parse(answer.status_reply.json, ret, err);
	wire_done(&answer);
	return rc;
}

/* One message and its decoded answer; a refusal is an error that says why. */
static int exchange(struct transport_client *client, int answer_ms, const struct wire *request,
		    struct wire *ret, struct err *err)
{
	_cleanup_(buf_done) struct buf bytes = {0}, answer = {0};
	struct wire decoded = {0};
	int rc = wire_encode(request, &bytes, err);
	if (rc == 0)
		rc = transport_call(client, buf_span(&bytes), answer_ms, &answer, err);
	if (rc == 0)
		rc = wire_decode(buf_span(&answer), &decoded, err);
	if (rc == 0 && decoded.type == WIRE_TYPE_REFUSED) {
		rc = err_set(err, -EPERM, "the broker refused (%s): " SPAN_FMT,
			     wire_refusal_name(decoded.refused.code), SPAN_ARG(decoded.refused.message));
		wire_done(&decoded);
	}
	if (rc == 0)
		*ret = decoded;
	return rc;
}

int ctl_ask(const struct ctl *c, const struct wire *request, enum wire_type wanted, struct wire *ret,
	    struct err *err)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/queue.sock", c->program.runtime_dir);
	struct wire hello = {.type = WIRE_TYPE_HELLO,
			     .hello = {.version = WIRE_VERSION,
				       .role = WIRE_ROLE_CTL,
				       .pid = (uint32_t)getpid(),
				       .instance = span_of("reconcilectl")}};
	struct wire answer = {0};
	struct transport_client *client;
	if (access(path, F_OK) < 0)
		return err_set(
		    err, -ENOTCONN,
		    errno == EACCES
			? "%s: you may not look there: run as the user of the services, or as root"
			: "no broker listens at %s: is reconciled running? (another --runtime-dir?)",
		    path);
	int rc = process_start_time(getpid(), &hello.hello.start_time);
	if (rc < 0)
		return err_set(err, rc, "cannot read /proc/self/stat: %s", strerror(-rc));
	rc = transport_dial(path, &client, err);
	if (rc < 0)
		return rc;
	rc = exchange(client, c->answer_ms, &hello, &answer, err);
	wire_done(&answer);
	answer = (struct wire){0};
	if (rc == 0)
		rc = exchange(client, c->answer_ms, request, &answer, err);
	if (rc == 0 && answer.type != wanted) {
		rc = err_set(err, -EPROTO, "the broker gave a strange answer: %s",
			     wire_type_name(answer.type));
		wire_done(&answer);
	}
	transport_client_free(client);
	if (rc == 0)
		*ret = answer;
	return rc;
}
