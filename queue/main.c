#include "broker.h"
#include <unistd.h>

static const char about[] =
    "The broker of the workqueues: keys in from the watcher, out to the workers, one named queue per "
    "controller, kept in\n"
    "REGION-DIR/queue.shm. It may be killed at any moment; the next start goes on where this one ended.";

static int fail(const struct err *err, int status)
{
	log_error(err->text);
	return status;
}

int main(int argc, char **argv)
{
	struct program program;
	static struct broker broker;
	struct err err = {0};
	const char *drain_text = "30s";
	int64_t drain;
	const struct program_option own[] = {{"drain-timeout", 0, "TIME",
					      "after SIGTERM running keys may end for so long [30s]",
					      .text = &drain_text},
					     {0}};
	int at = program_options(&program, "reconciled-queue", "reconciled-queue [OPTION]...", about, own,
				 argc, argv);
	if (at < argc) {
		err_set(&err, -EINVAL, "unexpected argument '%s': see --help", argv[at]);
		return fail(&err, EXIT_USAGE);
	}
	if (parse_duration(drain_text, &drain) < 0) {
		err_set(&err, -EINVAL, "--drain-timeout is a duration, as in 30s, not %s", drain_text);
		return fail(&err, EXIT_USAGE);
	}
	_cleanup_(free_ptr) char *lock = xasprintf("%s/queue.lock", program.runtime_dir);
	bool follows = access(lock, F_OK) == 0;
	if (program_folder(program.runtime_dir, &err) < 0 || program_folder(program.region_dir, &err) < 0 ||
	    program_lock(program.runtime_dir, "queue", &err) < 0)
		return fail(&err, EXIT_FAILURE);
	int rc = broker_open(&broker, &program, follows, &err);
	if (rc < 0)
		return fail(&err, rc == -EBADMSG ? EXIT_CONFIG : EXIT_FAILURE);
	if (broker_listen(&broker, &err) < 0)
		return fail(&err, EXIT_FAILURE);
	program_notify("READY=1");
	broker.drain = drain;
	int status = broker_run(&broker);
	/* Whatever is not written to a socket by now is asked for again by its peer; the region is complete
	 * after every transition. */
	transport_server_free(broker.server);
	_exit(status);
}
