/* Where the API server is and who we are. Sources, first that is given: an explicit path (--kubeconfig), the
 * path in reconciled.yaml, $KUBECONFIG (files with ':' between them), in-cluster
 * (/var/run/secrets/kubernetes.io/serviceaccount). Never ~/.kube/config.
 *
 * The files of $KUBECONFIG are merged as kubectl does: the first file that sets current-context decides, and of
 * each cluster, context and user the whole entry of the first file that has its name counts. Files that are
 * not there or say nothing are passed over with a warning; a broken one is an error. At most 32.
 *
 * Relative paths are relative to the file that names them (to the link, where that is a symbolic link). Data
 * wins over a file, tokenFile over token. What is not supported is an error that says so. */
#pragma once
#include "base.h"

enum { KUBECONFIG_EXEC_TIMEOUT_MS = 30000 };

struct kubeconfig {
	char *source;		 /* the files, ':' between them, or "in-cluster": for messages */
	char **files;		 /* they, with absolute paths, NULL-terminated; NULL: in-cluster */
	char *server;		 /* without a trailing slash; may carry a path prefix */
	char *namespace;	 /* of the context; NULL: none */
	char *ca_file, *ca_data; /* data: PEM, decoded; at most one is set */
	char *cert_file, *cert_data, *key_file, *key_data;
	char *token, *token_file; /* token_file is read again at most once a minute */
	char *user, *password;	  /* basic auth */
	char **impersonate;	  /* header lines, "Impersonate-User: jane", NULL-terminated; NULL: none */
	/* a credential plugin: see exec_plugin.h. command NULL: none; with a '/' it is an absolute path */
	char *exec_command, *exec_api_version, *exec_install_hint;
	char *exec_cluster_config;    /* JSON of the cluster's extension for it */
	char **exec_args, **exec_env; /* env: "NAME=value" */
	bool exec_cluster_info;	      /* provideClusterInfo */
	int64_t exec_timeout_ms;      /* of one run: KUBECONFIG_EXEC_TIMEOUT_MS */
	char *tls_server_name;	      /* for SNI and for verification */
	char *proxy_url;
	bool insecure; /* insecure-skip-tls-verify: a program warns once per start */
	bool disable_compression;
	char **warnings; /* for the program's log at start, NULL-terminated; NULL: none */
};

/* -ENOENT: nothing given and not in a cluster (err has the places). -EINVAL: err has file, line, what and what to do. Whether certificates are usable is seen
 * by http_client_new. */
int kubeconfig_load(const char *explicit_path, const char *configured_path, struct kubeconfig *ret,
		    struct err *err);
void kubeconfig_done(struct kubeconfig *k);
void kubeconfig_copy(struct kubeconfig *to, const struct kubeconfig *from);
/* The in-cluster source alone; folder holds token, ca.crt and namespace, the address is in the
 * environment. */
int kubeconfig_in_cluster(const char *folder, struct kubeconfig *ret, struct err *err);
