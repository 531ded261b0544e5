/* reconciled-worker: takes keys of one controller from the broker, runs its reconciler in a jail, writes the
 * results. */
#include "host.h"
#include <stdio.h>
#include <unistd.h>

/* "website.1": a controller's name has no dot, so the last one separates the number of the instance. */
static bool is_instance(const char *text)
{
	const char *dot = strrchr(text, '.');
	return dot && dot != text && dot[1] && strlen(text) <= 80 &&
	       dot[1 + strspn(dot + 1, "0123456789")] == 0 && !memchr(text, '.', (size_t)(dot - text));
}

int main(int argc, char **argv)
{
	static struct program program;
	static struct host host;
	const char *instance = NULL, *drain = "30s";
	int64_t drain_ns;
	const struct program_option own[] = {
	    {.name = "instance",
	     .argument = "CONTROLLER.N",
	     .help = "which controller, and a number to tell its workers apart",
	     .text = &instance},
	    {.name = "drain-timeout",
	     .argument = "TIME",
	     .help = "after SIGTERM a running attempt may end for so long [30s]",
	     .text = &drain},
	    {0},
	};
	int first =
	    program_options(&program, "reconciled-worker", "reconciled-worker [OPTION]... CONTROLLER.N",
			    "Takes keys of one controller from the broker, runs its reconciler in a jail and "
			    "writes the results to the API "
			    "server.",
			    own, argc, argv);
	if (!instance && first + 1 == argc)
		instance = argv[first++];
	if (!instance || first != argc || !is_instance(instance)) {
		fprintf(
		    stderr,
		    "reconciled-worker: one argument is wanted, CONTROLLER.N, as in website.1; see --help\n");
		return EXIT_USAGE;
	}
	if (parse_duration(drain, &drain_ns) < 0) {
		fprintf(stderr, "reconciled-worker: --drain-timeout is a duration, as in 30s, not %s\n",
			drain);
		return EXIT_USAGE;
	}
	int status = host_init(&host, &program, instance);
	host.drain_ns = drain_ns;
	if (status == 0)
		status = host_run(&host);
	http_client_free(host.http); /* and a plugin that still runs */
	/* Not through exit(): nng's threads are not waited for. */
	fflush(NULL);
	_exit(status);
}
