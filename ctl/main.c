/* reconcilectl: the command line of reconciled. The table of commands, and nothing else. */
#include "ctl.h"
#include <stdio.h>

static const struct ctl_command commands[] = {
    {"up", "-f FILE|DIR [--kubeconfig FILE] [--workers N]", "run everything in the foreground", up_run,
     "Starts the queue broker, the watcher and the worker processes of each controller, and starts again "
     "what dies. Without\n"
     "--kubeconfig it starts the built-in API server and uses that, whatever the environment says. SIGTERM "
     "or Ctrl-C drains,\n"
     "a second one ends at once; SIGHUP reads the files again. Exit status 78: no controller is usable."},
    {"status", "[-o json]", "processes, controllers and what is wrong with them", status_run,
     "Asks the broker. When it does not answer, what its region holds is shown, and the exit status is 1."},
    {"queue", "[CONTROLLER] [-o json]", "the keys that wait, run or are quarantined", queue_run,
     "Reads the queue's shared memory: works also while the broker hangs or is dead."},
    {"explain", "CONTROLLER/NAMESPACE/NAME [-o json]",
     "one key: what it waits for, why it ran, what happened", explain_run,
     "CONTROLLER//NAME for a key without a namespace. Reads shared memory, as `queue` does."},
    {"requeue", "CONTROLLER|CONTROLLER/NAMESPACE/NAME... [--after TIME | --cancel]",
     "reconcile keys now or later, also those in quarantine", requeue_run,
     "A key that is running runs once more afterwards. A controller's name stands for all of its keys that "
     "are in the "
     "queue."},
    {"pause", "CONTROLLER", "start nothing more of a controller", pause_run,
     "What runs may end. The pause outlives restarts and reloads: `reconcilectl resume` ends it."},
    {"resume", "CONTROLLER", "end a pause", resume_run,
     "Ends an operator's pause, and also one that the queue made because the program does not start, all "
     "keys crash "
     "or the\ncontroller asked for it."},
    {"drain", "CONTROLLER [--timeout TIME]", "pause a controller and wait until nothing of it runs",
     drain_run,
     "It stays paused. Exit status 1 when the time is over, or when somebody resumes it meanwhile."},
    {"scale", "CONTROLLER N|auto", "how many of the connected workers are awake", scale_run,
     "The others sleep: their program is stopped and they get no keys. It stays so until the controller's "
     "file changes, or "
     "`auto`:\nas many as its file says."},
    {"quarantine", "list [CONTROLLER] | clear CONTROLLER|CONTROLLER/NAMESPACE/NAME",
     "keys that are parked because they crash; let them out", quarantine_run,
     "`list` reads shared memory, as `queue` does. `clear` lets one key out, or all of a controller: they "
     "run again at "
     "once, and\nwhat they crashed before is forgotten."},
    {"validate", "FILE...", "check configuration files, without a cluster", validate_run,
     "Shows all errors of all files. Exit status 78 if there is one; warnings do not count."},
    {"wait", "KIND [NAMESPACE/]NAME --for WHAT [--timeout TIME]", "wait until an object is as wanted",
     wait_run,
     "WHAT is condition=TYPE[=STATUS] (True), PATH=VALUE, PATH (anything there), or delete. KIND is written "
     "VERSION/Kind,\n"
     "GROUP/VERSION/Kind, or Kind.VERSION.GROUP. Uses --kubeconfig, else the one of a running `reconcilectl "
     "up`, else what the\n"
     "services use. Exit status 1 when the time is over."},
    {"raw", "METHOD PATH [-f FILE] [--type TYPE]", "one request to the API server", raw_run,
     "Prints the answer's body; exit status 1 unless the server answered 2xx. Finds the server as `wait` "
     "does."},
    {0},
};

static void print_help(FILE *to)
{
	fputs("Usage: reconcilectl COMMAND [OPTION]... [ARGUMENT]...\n\nCommands:\n", to);
	for (const struct ctl_command *c = commands; c->name; c++)
		fprintf(to, "  %-10s %s\n", c->name, c->about);
	fputs("\nreconcilectl COMMAND --help says more; so does reconcilectl(1).\n", to);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		print_help(stdout);
		return EXIT_SUCCESS;
	}
	if (strcmp(name, "--version") == 0) {
		puts("reconcilectl " RECONCILED_VERSION);
		return EXIT_SUCCESS;
	}
	for (const struct ctl_command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c->run(c, argc - 1, argv + 1);
	if (*name)
		fprintf(stderr, "reconcilectl: there is no command \"%s\"\n", name);
	print_help(stderr);
	return EXIT_USAGE;
}
