/* The history in parts, side by side.
 *
 *   step_history_test               all of it
 *   step_history_test --cut N       only this cut, and everything that is seen at it
 *   step_history_test --violation   passes when the first violation is found: for code that has a rule taken out */
#include "step.h"
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARTS = 2 };

static int part(const char *folder, const struct step_options *o, struct step_totals *totals)
{
	step_open(folder, o, totals);
	step_history();
	step_close();
	return step_all_arrows() ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool run_parts(const char *folder, struct step_options o, struct step_totals *totals)
{
	bool held = true;
	pid_t pids[PARTS];
	for (unsigned i = 0; i < o.parts; i++) {
		char *below = xasprintf("%s/%u", folder, i);
		o.part = i;
		pids[i] = fork();
		if (pids[i] == 0) {
			if (mkdir(below, 0700) < 0)
				_exit(EXIT_FAILURE);
			int status = part(below, &o, &totals[i]);
			fflush(stdout);
			_exit(status);
		}
		free(below);
	}
	for (unsigned i = 0; i < o.parts; i++) {
		int status = -1;
		waitpid(pids[i], &status, 0);
		char *below = xasprintf("%s/%u", folder, i);
		rmdir(below);
		free(below);
		if (WIFSIGNALED(status))
			printf("FAILED: ended by signal %d\n", WTERMSIG(status));
		held = held && status == 0;
	}
	return held;
}

int main(int argc, char **argv)
{
	struct step_options o = {.parts = PARTS};
	if (argc == 3 && strcmp(argv[1], "--cut") == 0) {
		o.cut = strtoull(argv[2], NULL, 10);
		o.parts = 1;
	} else if (argc == 2 && strcmp(argv[1], "--violation") == 0) {
		o.want_violation = true;
		o.parts = 1;
	} else if (argc != 1) {
		fprintf(stderr, "usage: %s [--cut N | --violation]\n", argv[0]);
		return 2;
	}
	if (!trap_possible()) {
		printf("SKIPPED: this machine is no x86-64: no trap flag to step stores with\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct step_totals *t =
	    mmap(NULL, PARTS * sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *folder =
	    xasprintf("%s/reconciled-step.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (t == MAP_FAILED || !mkdtemp(folder)) {
		fprintf(stderr, "%s: %s\n", folder, strerror(errno));
		return EXIT_FAILURE;
	}
	bool held = run_parts(folder, o, t);
	rmdir(folder);
	free(folder);
	if (o.want_violation) {
		/* By a violation, not by a crash. */
		printf(t->violations ? "1 passed, 0 failed\n"
				     : "FAILED: no violation was found\n0 passed, 1 failed\n");
		return t->violations ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	for (unsigned i = 1; i < PARTS; i++) {
		t->cuts += t[i].cuts;
		t->resent += t[i].resent;
		t->recoveries_cut += t[i].recoveries_cut;
		t->drained += t[i].drained;
		t->violations += t[i].violations;
	}
	printf(
	    "%llu stores of %llu calls, cut after %llu of them; DONE sent again after %llu, everything run "
	    "after %llu; recovery cut after %llu stores\n",
	    (unsigned long long)t->stores, (unsigned long long)t->transitions, (unsigned long long)t->cuts,
	    (unsigned long long)t->resent, (unsigned long long)t->drained,
	    (unsigned long long)t->recoveries_cut);
	held = held && t->violations == 0;
	printf(held ? "1 passed, 0 failed\n" : "0 passed, 1 failed\n");
	return held ? EXIT_SUCCESS : EXIT_FAILURE;
}
