#include "kubeconfig_private.h"
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN_CLUSTER_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"
enum { FILE_MAX = 4 << 20, FILES_MAX = 32 /* of a list */ };

/* ---- the struct ---- */

/* Every text of struct kubeconfig: for copying and freeing. */
/* clang-format off */
#define TEXTS(X)                                                                                           \
	X(source) X(server) X(namespace) X(ca_file) X(ca_data) X(cert_file) X(cert_data) X(key_file)       \
	X(key_data) X(token) X(token_file) X(user) X(password) X(tls_server_name) X(proxy_url)       \
	X(exec_command) X(exec_api_version) X(exec_install_hint) X(exec_cluster_config)
/* And every NULL-terminated list of texts. */
#define LISTS(X) X(files) X(impersonate) X(warnings) X(exec_args) X(exec_env)
/* clang-format on */

static void list_free(char **list)
{
	for (char **at = list; at && *at; at++)
		free(*at);
	free(list);
}

static char **list_copy(char *const *list)
{
	char **copy = NULL;
	for (; list && *list; list++)
		kubeconfig_list_add(&copy, xstrdup(*list));
	return copy;
}

void kubeconfig_done(struct kubeconfig *k)
{
	if (!k)
		return;
	/* Memory that goes back to the allocator keeps no secrets. */
	char *secrets[] = {k->token, k->password, k->key_data};
	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		if (secrets[i])
			explicit_bzero(secrets[i], strlen(secrets[i]));
#define X(name) free(k->name);
	TEXTS(X)
#undef X
#define X(name) list_free(k->name);
	LISTS(X)
#undef X
	*k = (struct kubeconfig){0};
}

void kubeconfig_copy(struct kubeconfig *to, const struct kubeconfig *from)
{
	*to = *from;
#define X(name) to->name = from->name ? xstrdup(from->name) : NULL;
	TEXTS(X)
#undef X
#define X(name) to->name = list_copy(from->name);
	LISTS(X)
#undef X
}

/* ---- files ---- */

/* The bytes of a file, at most FILE_MAX; a negative errno. */
static int read_file(const char *path, struct buf *out)
{
	_cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	out->limit = FILE_MAX;
	for (;;) {
		char *room = buf_room(out, 16384);
		if (!room)
			return -EFBIG;
		ssize_t n = read(fd, room, 16384);
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		out->len += (size_t)n;
	}
}

/* ---- where it comes from ---- */

int kubeconfig_in_cluster(const char *folder, struct kubeconfig *ret, struct err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
	_cleanup_(free_ptr) char *token = xasprintf("%s/token", folder);
	_cleanup_(free_ptr) char *ca = xasprintf("%s/ca.crt", folder);
	_cleanup_(free_ptr) char *namespace = xasprintf("%s/namespace", folder);
	if (!host || !*host || !port || !*port)
		return err_set(err, -ENOENT, "in-cluster: KUBERNETES_SERVICE_HOST and _PORT are not set");
	if (access(token, R_OK))
		return err_set(err, -ENOENT, "in-cluster: %s: %s", token, strerror(errno));
	bool v6 = strchr(host, ':');
	struct kubeconfig k = {.source = xstrdup("in-cluster")};
	k.server = xasprintf("https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
	k.token_file = xstrdup(token);
	if (access(ca, R_OK) == 0)
		k.ca_file = xstrdup(ca);
	struct buf text = {0};
	if (read_file(namespace, &text) == 0 && text.len)
		k.namespace = xstrdup(buf_str(&text));
	buf_done(&text);
	for (size_t n = k.namespace ? strlen(k.namespace) : 0;
	     n && isspace((unsigned char)k.namespace[n - 1]);)
		k.namespace[--n] = 0;
	*ret = k;
	return 0;
}

/* 0; -ENOENT, -ENODATA (it says nothing), -EINVAL or what reading it gave: err has the file and why. */
static int open_file(const char *path, struct kubeconfig_file *ret, struct err *err)
{
	struct buf text = {0};
	int e = read_file(path, &text);
	*ret = (struct kubeconfig_file){.path = path};
	if (e)
		err_set(err, e, "%s: %s", path, strerror(-e));
	else if (!(e = kubeconfig_file_parse(ret, buf_span(&text), err)) && !ret->root)
		e = err_set(err, -ENODATA, "%s: no configuration: the file is empty", path);
	buf_done(&text);
	return e;
}

/* k is what was found in the files so far: nothing but warnings. */
static int merge(const struct kubeconfig_file *files, size_t n, struct kubeconfig *k, struct err *err)
{
	struct buf source = {0};
	for (size_t i = 0; i < n; i++) {
		buf_printf(&source, "%s%s", i ? ":" : "", files[i].path);
		kubeconfig_list_add(&k->files, kubeconfig_resolve(files[i].path, "./"));
	}
	k->source = buf_steal(&source);
	return kubeconfig_merge(files, n, k, err);
}

/* A file that somebody named: it must be there and say something. */
static int load_named(const char *path, const char *named_by, struct kubeconfig *ret, struct err *err)
{
	struct kubeconfig k = {0};
	struct kubeconfig_file f;
	int e = open_file(path, &f, err);
	if (e == -ENODATA || e == -ENOENT)
		e = -EINVAL;
	if (!e)
		e = merge(&f, 1, &k, err);
	yaml_doc_free(f.docs);
	if (!e)
		*ret = k;
	else
		kubeconfig_done(&k);
	return e ? err_prefix(err, e, "%s", named_by) : 0;
}

/* The files of $KUBECONFIG. -ENOENT: none of them says anything; looked_at has what was seen instead. */
static int load_list(const char *list, struct kubeconfig *ret, struct buf *looked_at, struct err *err)
{
	struct kubeconfig k = {0};
	struct kubeconfig_file files[FILES_MAX] = {0};
	char *paths[FILES_MAX];
	size_t named = 0, n = 0;
	int e = 0;
	for (const char *at = list; *at && !e;) {
		size_t len = strcspn(at, ":");
		struct span path = {at, len};
		at += len + (at[len] == ':');
		if (!len)
			continue;
		if (named == FILES_MAX) {
			e = err_set(err, -EINVAL, "more than %d files", FILES_MAX);
			break;
		}
		paths[named] = span_dup(path);
		e = open_file(paths[named++], &files[n], err);
		if (e != -ENOENT && e != -ENODATA) {
			n += !e;
			continue;
		}
		bool missing = e == -ENOENT;
		buf_printf(looked_at, "%s%s: %s", looked_at->len ? ", " : "", paths[named - 1],
			   missing ? "no such file" : "empty");
		kubeconfig_warn(&k, "$KUBECONFIG: %s: %s: passed over", paths[named - 1],
				missing ? "no such file" : "the file is empty");
		e = 0;
	}
	if (!e)
		e = n ? merge(files, n, &k, err) : -ENOENT;
	for (size_t i = 0; i < n; i++)
		yaml_doc_free(files[i].docs);
	for (size_t i = 0; i < named; i++)
		free(paths[i]);
	if (!e)
		*ret = k;
	else
		kubeconfig_done(&k);
	return e && e != -ENOENT ? err_prefix(err, e, "$KUBECONFIG") : e;
}

int kubeconfig_load(const char *explicit_path, const char *configured_path, struct kubeconfig *ret,
		    struct err *err)
{
	if (explicit_path && *explicit_path)
		return load_named(explicit_path, "--kubeconfig", ret, err);
	if (configured_path && *configured_path)
		return load_named(configured_path, "kubeconfig in reconciled.yaml", ret, err);
	const char *list = getenv("KUBECONFIG");
	struct buf looked_at = {.limit = 400};
	struct err in_cluster = {0};
	int e = load_list(list ? list : "", ret, &looked_at, err);
	if (e == -ENOENT && kubeconfig_in_cluster(IN_CLUSTER_FOLDER, ret, &in_cluster) == 0)
		e = 0;
	if (e == -ENOENT)
		err_set(err, e,
			"no configuration for an API server; looked at: --kubeconfig (not given), kubeconfig "
			"in reconciled.yaml (not given), $KUBECONFIG (%s), %s",
			looked_at.len ? buf_str(&looked_at) : "not set", in_cluster.text);
	buf_done(&looked_at);
	return e;
}
