#include "config.h"
#include "ctl.h"
#include "http.h"
#include <stdio.h>
#include <unistd.h>

static void on_notice(void *ctx _unused_, bool warning _unused_, const char *text)
{
	fprintf(stderr, "reconcilectl: %s\n", text);
}

int ctl_client(const struct ctl *c, struct http_client **ret, struct err *err)
{
	_cleanup_(free_ptr) char *own = xasprintf("%s/kubeconfig", c->program.runtime_dir);
	const char *path = c->program.kubeconfig;
	struct config config = {0};
	struct kubeconfig k = {0};
	struct err ignored; /* no configuration is fine: then there is $KUBECONFIG */
	if (!path && access(own, R_OK) == 0)
		path = own;
	else if (!path)
		config_load(c->program.config_dir, &config, &ignored);
	int rc = kubeconfig_load(path, config.main.kubeconfig, &k, err);
	if (rc == 0)
		rc = http_client_new(&k, "reconcilectl", ret, err);
	if (rc == 0)
		http_client_on_notice(*ret, on_notice, NULL);
	for (char **w = k.warnings; rc == 0 && w && *w; w++)
		fprintf(stderr, "reconcilectl: warning: %s\n", *w);
	kubeconfig_done(&k);
	config_done(&config);
	return rc;
}
