/* A reconciler with libreconcile, for sdk_test: does what the object's spec.do says. */
#include <errno.h>
#include <reconcile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int reconcile(struct reconcile_request *req, struct reconcile_response *res, void *context)
{
	const char *what = reconcile_text(reconcile_object(req), "spec.do", "");
	struct reconcile_value v;
	int r = 0;
	(void)context;
	printf("printed while reconciling %s\n", reconcile_name(req));
	if (strcmp(what, "print") == 0) {
		r = system("echo a child of mine prints; cat"); /* and cannot read the next request */
		reconcile_status(res, "system", "%d", r);
	} else if (strcmp(what, "get") == 0) {
		r = reconcile_read(req, "v1", "ConfigMap", NULL, "x", RECONCILE_LIVE, &v);
		reconcile_status(res, "get", "[%d, %p, %s]", r, (void *)&v, reconcile_read_error(req));
		r = reconcile_list(req, "v1", "Pod", "other", "app=web", "uid-1", RECONCILE_CACHED, &v);
		reconcile_status(res, "list", "[%d, %zu]", r, reconcile_count(v));
	} else if (strcmp(what, "wait") == 0) {
		while (!reconcile_cancelled(req))
			usleep(1000);
		return reconcile_error(res, RECONCILE_TRANSIENT, "Cancelled", "the time was up");
	}
	return 0;
}

static int start(void *context)
{
	printf("%s\n", (const char *)context);
	return getenv("SDK_START_FAILS") ? 1 : 0;
}

static void stop(void *context)
{
	(void)context;
	printf("stopped\n");
}

int main(int argc, char **argv)
{
	return reconcile_main(
	    argc, argv,
	    &(struct reconcile_handler){
		.reconcile = reconcile, .start = start, .stop = stop, .context = "started"});
}
