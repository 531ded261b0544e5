/* reconcilectl raw: one request to the API server, with the credentials that the services use. For scripts,
 * and where there is no kubectl. */
#include "ctl.h"
#include "kube.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { REQUEST_MS = 30000, BODY_MAX = 16 << 20 };

static const struct {
	const char *name, *content_type;
} types[] = {
    {"json", "application/json"},
    {"merge", "application/merge-patch+json"},
    {"apply", "application/apply-patch+yaml"},
};

static const char *content_type(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcmp(types[i].name, name) == 0)
			return types[i].content_type;
	return NULL;
}

static int read_body(const char *file, struct buf *ret, struct err *err)
{
	bool standard = strcmp(file, "-") == 0;
	_cleanup_(close_fd) int fd = standard ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", file, strerror(errno));
	ret->limit = BODY_MAX;
	for (;;) {
		char *room = buf_room(ret, 65536);
		if (!room)
			return err_set(err, -EFBIG, "%s: more than %d bytes", file, BODY_MAX);
		ssize_t n = read(fd, room, 65536);
		if (n < 0)
			return err_set(err, -errno, "%s: %s", file, strerror(errno));
		if (n == 0)
			return 0;
		ret->len += (size_t)n;
	}
}

CTL_RUN(raw_run)
{
	struct ctl c;
	struct err err = {0};
	const char *file = NULL, *type = "json";
	const struct program_option own[] = {
	    {"file", 'f', "FILE", "the body; - is standard input", .text = &file},
	    {"type", 0, "TYPE",
	     "what the body is: json, merge (patch), apply (server-side, YAML or JSON) [json]",
	     .text = &type},
	    {0}};
	ctl_options(&c, self, own, false, argc, argv);
	if (argc - c.first != 2 || *argv[c.first + 1] != '/')
		ctl_usage(self, "a method and a path that begins with / are wanted");
	struct http_request request = {.method = argv[c.first],
				       .path = argv[c.first + 1],
				       .content_type = content_type(type),
				       .accept = "application/json,*/*",
				       .timeout_ms = REQUEST_MS};
	if (!request.content_type)
		ctl_usage(self, "--type is json, merge or apply, not %s", type);
	_cleanup_(buf_done) struct buf body = {0}, answer = {0};
	struct http_client *client = NULL;
	int rc = file ? read_body(file, &body, &err) : 0;
	if (file)
		request.body = buf_span(&body);
	if (rc == 0)
		rc = ctl_client(&c, &client, &err);
	if (rc == 0)
		rc = kube_do(client, &request, &answer, NULL, &err);
	http_client_free(client);
	if (rc < 0)
		return ctl_fail(self, err.text);
	if (isatty(STDOUT_FILENO) && answer.len && answer.data[answer.len - 1] != '\n')
		buf_putc(&answer, '\n');
	ctl_print(&answer);
	return EXIT_SUCCESS;
}
