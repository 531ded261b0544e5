#include "kubeconfig.h"
#include "base64.h"
#include "yaml_doc.h"
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN_CLUSTER_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"
enum { FILE_MAX = 4 << 20 };

/* ---- the struct ---- */

/* Every text of struct kubeconfig: for copying and freeing. */
/* clang-format off */
#define TEXTS(X)                                                                                           \
	X(source) X(server) X(namespace) X(ca_file) X(ca_data) X(cert_file) X(cert_data) X(key_file)       \
	X(key_data) X(token) X(token_file) X(user) X(password) X(tls_server_name) X(proxy_url) X(warnings)
/* clang-format on */

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
	*k = (struct kubeconfig){0};
}

void kubeconfig_copy(struct kubeconfig *to, const struct kubeconfig *from)
{
	*to = *from;
#define X(name) to->name = from->name ? xstrdup(from->name) : NULL;
	TEXTS(X)
#undef X
}

static _printf_(2, 3) void warn(struct kubeconfig *k, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	char *both = k->warnings ? xasprintf("%s\n%s", k->warnings, line) : xstrdup(line);
	free(k->warnings);
	k->warnings = both;
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

/* Relative to the folder of the file that names it, and absolute, so that a change of folder does not
 * matter. */
static char *resolve(const char *path, const char *named_in)
{
	if (*path == '/')
		return xstrdup(path);
	const char *slash = strrchr(named_in, '/');
	_cleanup_(free_ptr) char *folder =
	    slash ? span_dup((struct span){named_in, (size_t)(slash - named_in)}) : xstrdup(".");
	if (*named_in == '/')
		return xasprintf("%s/%s", folder, path);
	_cleanup_(free_ptr) char *here = getcwd(NULL, 0);
	return xasprintf("%s/%s/%s", here ? here : ".", folder, path);
}

/* ---- one file ---- */

struct reader {
	const char *file;
	struct err *err;
	struct kubeconfig *k;
	const struct yaml_doc_node *root;
};

static _printf_(3, 4) int refuse(const struct reader *r, const struct yaml_doc_node *at, const char *fmt, ...)
{
	char text[900];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(r->err, -EINVAL, "%s:%zu:%zu: %s", r->file, at->line, at->column, text);
}

static int unsupported(const struct reader *r, const struct yaml_doc_node *at, const char *what,
		       const char *instead)
{
	return refuse(r, at, "%s: not supported by this version: %s", what, instead);
}

/* A text member; absent, null and "" are NULL. */
static int get_text(const struct reader *r, const struct yaml_doc_node *in, const char *key, const char **ret)
{
	const struct yaml_doc_node *n = yaml_doc_get(in, key);
	if (!yaml_doc_is_null(n) && n->type != YAML_SCALAR)
		return refuse(r, n, "%s: a text is wanted here", key);
	*ret = yaml_doc_is_null(n) || !*n->text ? NULL : n->text;
	return 0;
}

static int copy_text(const struct reader *r, const struct yaml_doc_node *in, const char *key, char **ret)
{
	const char *text = NULL;
	int e = get_text(r, in, key, &text);
	if (!e && text)
		*ret = xstrdup(text);
	return e;
}

static int get_bool(const struct reader *r, const struct yaml_doc_node *in, const char *key, bool *ret)
{
	const struct yaml_doc_node *n = yaml_doc_get(in, key);
	if (yaml_doc_is_null(n))
		return 0;
	bool yes = n->type == YAML_SCALAR && !n->quoted && strcasecmp(n->text, "true") == 0;
	if (!yes && (n->type != YAML_SCALAR || n->quoted || strcasecmp(n->text, "false") != 0))
		return refuse(r, n, "%s: true or false is wanted here", key);
	*ret = yes;
	return 0;
}

/* KEY-data, decoded, or KEY, a path: data wins. */
static int get_material(const struct reader *r, const struct yaml_doc_node *in, const char *key,
			char **ret_file, char **ret_data)
{
	_cleanup_(free_ptr) char *data_key = xasprintf("%s-data", key);
	const char *file = NULL, *data = NULL;
	int e = get_text(r, in, key, &file);
	if (!e)
		e = get_text(r, in, data_key, &data);
	if (e)
		return e;
	if (!data) {
		if (file)
			*ret_file = resolve(file, r->file);
		return 0;
	}
	const struct yaml_doc_node *n = yaml_doc_get(in, data_key);
	size_t len = 0;
	char *decoded = base64_decode(span_of(data), &len);
	if (decoded && n->binary) { /* YAML's own base64 around it */
		char *outer = decoded;
		decoded = base64_decode((struct span){outer, len}, &len);
		free(outer);
	}
	if (!decoded || !len || memchr(decoded, 0, len)) {
		free(decoded);
		return refuse(r, n, "%s: not a base64 text of PEM", data_key);
	}
	*ret_data = decoded;
	if (file)
		warn(r->k, "%s:%zu: %s and %s are both set: the first is used, file %s is not", r->file,
		     n->line, data_key, key, file);
	return 0;
}

/* The entry of a list (clusters, contexts, users) with a name, and in it the mapping below `inner`; NULL when
 * it is not there. Two entries with one name are refused, whoever they are. */
static int find_entry(const struct reader *r, const char *list, const char *inner, const char *name,
		      const struct yaml_doc_node **ret)
{
	*ret = NULL;
	const struct yaml_doc_node *all = yaml_doc_get(r->root, list);
	if (yaml_doc_is_null(all))
		return 0;
	if (all->type != YAML_SEQUENCE)
		return refuse(r, all, "%s: a list is wanted here", list);
	for (const struct yaml_doc_node *n = all->child; n; n = n->next) {
		const char *its_name = NULL;
		if (n->type != YAML_MAPPING)
			return refuse(r, n, "%s: an entry is {name: ..., %s: {...}}", list, inner);
		int e = get_text(r, n, "name", &its_name);
		if (e)
			return e;
		for (const struct yaml_doc_node *o = all->child; o != n; o = o->next) {
			const struct yaml_doc_node *other = yaml_doc_get(o, "name");
			if (its_name && other && other->type == YAML_SCALAR &&
			    strcmp(other->text, its_name) == 0)
				return refuse(r, n, "%s: duplicate name \"%s\", also on line %zu", list,
					      its_name, o->line);
		}
		if (!its_name || strcmp(its_name, name) != 0)
			continue;
		*ret = yaml_doc_get(n, inner);
		if (!*ret || ((*ret)->type != YAML_MAPPING && !yaml_doc_is_null(*ret)))
			return refuse(r, n, "%s: entry \"%s\" has no %s: {...}", list, name, inner);
	}
	return 0;
}

/* Scheme, host and path, without slashes at the end. */
static int read_server(const struct reader *r, const struct yaml_doc_node *cluster)
{
	struct kubeconfig *k = r->k;
	const char *text = NULL;
	int e = get_text(r, cluster, "server", &text);
	if (e)
		return e;
	if (!text)
		return refuse(
		    r, cluster,
		    "server: missing: the address of the API server is wanted, as https://HOST:6443");
	const struct yaml_doc_node *n = yaml_doc_get(cluster, "server");
	bool tls = k->ca_file || k->ca_data || k->cert_file || k->cert_data || k->insecure;
	k->server = strstr(text, "://") ? xstrdup(text) : xasprintf("%s://%s", tls ? "https" : "http", text);
	size_t scheme = strncmp(k->server, "https://", 8) == 0	? 8
			: strncmp(k->server, "http://", 7) == 0 ? 7
								: 0;
	if (!scheme || !k->server[scheme] || strpbrk(k->server, "?#@ \t\r\n"))
		return refuse(r, n,
			      "server: \"%s\" is not an address: https://HOST:PORT or http://HOST:PORT is "
			      "wanted, maybe with a path",
			      text);
	for (size_t len = strlen(k->server); len > scheme && k->server[len - 1] == '/';)
		k->server[--len] = 0;
	return 0;
}

static int read_cluster(const struct reader *r, const struct yaml_doc_node *c)
{
	struct kubeconfig *k = r->k;
	int e;
	if ((e = get_material(r, c, "certificate-authority", &k->ca_file, &k->ca_data)) ||
	    (e = get_bool(r, c, "insecure-skip-tls-verify", &k->insecure)) ||
	    (e = get_bool(r, c, "disable-compression", &k->disable_compression)) ||
	    (e = copy_text(r, c, "tls-server-name", &k->tls_server_name)) ||
	    (e = copy_text(r, c, "proxy-url", &k->proxy_url)))
		return e;
	if (k->insecure && (k->ca_file || k->ca_data))
		return refuse(r, yaml_doc_get(c, "insecure-skip-tls-verify"),
			      "insecure-skip-tls-verify: true together with certificate-authority: leave out "
			      "one of them");
	if (k->insecure)
		warn(k,
		     "%s: insecure-skip-tls-verify: the server's certificate is not checked: anybody between "
		     "may read and change everything",
		     r->file);
	if (k->proxy_url && strncmp(k->proxy_url, "http://", 7) != 0 &&
	    strncmp(k->proxy_url, "https://", 8) != 0)
		return unsupported(r, yaml_doc_get(c, "proxy-url"), "proxy-url",
				   "use a proxy with http:// or https://");
	return 0;
}

/* Ways to authenticate that we know of and do not have. */
static int refuse_user_fields(const struct reader *r, const struct yaml_doc_node *u)
{
	static const char *const impersonation[] = {"as", "as-uid", "as-groups", "as-user-extra"};
	const struct yaml_doc_node *n = yaml_doc_get(u, "exec");
	if (!yaml_doc_is_null(n))
		return unsupported(
		    r, n, "exec",
		    "use token, tokenFile or client-certificate, for example of a service account");
	n = yaml_doc_get(u, "auth-provider");
	if (!yaml_doc_is_null(n)) {
		const struct yaml_doc_node *name = yaml_doc_get(n, "name");
		return refuse(r, n,
			      "auth-provider \"%s\": not supported by this version, and removed from "
			      "Kubernetes clients in 2022: use "
			      "token, tokenFile or client-certificate in the place of an exec plugin",
			      name && name->type == YAML_SCALAR ? name->text : "");
	}
	for (size_t i = 0; i < ARRAY_SIZE(impersonation); i++) {
		n = yaml_doc_get(u, impersonation[i]);
		if (!yaml_doc_is_null(n))
			return unsupported(r, n, impersonation[i], "use the credentials of that user");
	}
	return 0;
}

static int read_user(const struct reader *r, const struct yaml_doc_node *u)
{
	struct kubeconfig *k = r->k;
	_cleanup_(free_ptr) char *token_file = NULL;
	int e;
	if ((e = refuse_user_fields(r, u)) || (e = copy_text(r, u, "token", &k->token)) ||
	    (e = copy_text(r, u, "tokenFile", &token_file)) || (e = copy_text(r, u, "username", &k->user)) ||
	    (e = copy_text(r, u, "password", &k->password)) ||
	    (e = get_material(r, u, "client-certificate", &k->cert_file, &k->cert_data)) ||
	    (e = get_material(r, u, "client-key", &k->key_file, &k->key_data)))
		return e;
	if (token_file)
		k->token_file = resolve(token_file, r->file);
	bool has_cert = k->cert_file || k->cert_data, has_key = k->key_file || k->key_data;
	if (has_cert && !has_key)
		return refuse(r, u,
			      "client-certificate without client-key: add client-key or client-key-data");
	if (has_key && !has_cert)
		return refuse(r, u,
			      "client-key without client-certificate: add client-certificate or "
			      "client-certificate-data");
	if ((k->token || k->token_file) && (k->user || k->password))
		return refuse(r, u, "token and username together: leave out one of them");
	if (k->password && !k->user)
		return refuse(r, u, "password without username");
	return 0;
}

static int refuse_context(const struct reader *r)
{
	struct buf names = {.limit = 600};
	const struct yaml_doc_node *all = yaml_doc_get(r->root, "contexts");
	for (const struct yaml_doc_node *n = all && all->type == YAML_SEQUENCE ? all->child : NULL; n;
	     n = n->next) {
		const struct yaml_doc_node *name = n->type == YAML_MAPPING ? yaml_doc_get(n, "name") : NULL;
		if (name && name->type == YAML_SCALAR)
			buf_printf(&names, "%s%s", names.len ? ", " : "", name->text);
	}
	int e = refuse(r, r->root, "current-context: missing: set it to one of the contexts: %s",
		       names.len ? buf_str(&names) : "(there are none)");
	buf_done(&names);
	return e;
}

static int read_context(const struct reader *r)
{
	const char *context_name = NULL, *cluster_name = NULL, *user_name = NULL;
	const struct yaml_doc_node *context = NULL, *cluster = NULL, *user = NULL;
	int e = get_text(r, r->root, "current-context", &context_name);
	if (e)
		return e;
	if (!context_name)
		return refuse_context(r);
	const struct yaml_doc_node *at = yaml_doc_get(r->root, "current-context");
	if ((e = find_entry(r, "contexts", "context", context_name, &context)))
		return e;
	if (!context)
		return refuse(r, at, "current-context: there is no context \"%s\"", context_name);
	if ((e = get_text(r, context, "cluster", &cluster_name)) ||
	    (e = get_text(r, context, "user", &user_name)) ||
	    (e = copy_text(r, context, "namespace", &r->k->namespace)))
		return e;
	if ((e = find_entry(r, "clusters", "cluster", cluster_name ? cluster_name : "", &cluster)))
		return e;
	if (!cluster)
		return refuse(r, context, "context \"%s\" names cluster \"%s\", which is not in the file",
			      context_name, cluster_name ? cluster_name : "");
	if ((e = find_entry(r, "users", "user", user_name ? user_name : "", &user)))
		return e;
	if (user_name && !user)
		return refuse(r, context, "context \"%s\" names user \"%s\", which is not in the file",
			      context_name, user_name);
	if ((e = read_cluster(r, cluster)) || (user && (e = read_user(r, user))))
		return e;
	return read_server(r, cluster);
}

static bool is_empty(const struct yaml_doc_node *root)
{
	static const char *const keys[] = {"clusters", "contexts", "users"};
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct yaml_doc_node *n = yaml_doc_get(root, keys[i]);
		if (!yaml_doc_is_null(n) && !(n->type == YAML_SEQUENCE && !n->child))
			return false;
	}
	return true;
}

static int check_kind(const struct reader *r)
{
	const char *version = NULL, *kind = NULL;
	int e = get_text(r, r->root, "apiVersion", &version);
	if (!e)
		e = get_text(r, r->root, "kind", &kind);
	if (e)
		return e;
	if (version && strcmp(version, "v1") != 0)
		return refuse(r, yaml_doc_get(r->root, "apiVersion"),
			      "apiVersion: \"%s\" found, v1 is wanted", version);
	if (kind && strcmp(kind, "Config") != 0)
		return refuse(r, yaml_doc_get(r->root, "kind"),
			      "kind: \"%s\" found: this is not a kubeconfig (kind Config)", kind);
	return 0;
}

/* -ENODATA: the file says nothing. */
static int read_document(struct reader *r, const struct yaml_doc *docs)
{
	if (!docs || yaml_doc_is_null(docs->root))
		return -ENODATA;
	r->root = docs->root;
	if (docs->next && !yaml_doc_is_null(docs->next->root))
		return refuse(r, docs->next->root, "a second document: a kubeconfig is one");
	if (r->root->type != YAML_MAPPING)
		return refuse(r, r->root, "not a kubeconfig: a mapping is wanted");
	int e = check_kind(r);
	if (e)
		return e;
	return is_empty(r->root) ? -ENODATA : read_context(r);
}

/* -ENODATA: the file is empty; -ENOENT: it is not there; else -EINVAL or what reading it gave. */
static int load_file(const char *path, struct kubeconfig *ret, struct err *err)
{
	struct buf text = {0};
	int e = read_file(path, &text);
	if (e) {
		err_set(err, e, "%s: %s", path, strerror(-e));
		buf_done(&text);
		return e;
	}
	struct kubeconfig k = {.source = xstrdup(path)};
	struct reader r = {.file = path, .err = err, .k = &k};
	struct yaml_doc *docs = NULL;
	struct err syntax = {0};
	size_t line = 0, column = 0;
	if (yaml_doc_parse(buf_span(&text), &docs, &line, &column, &syntax))
		e = err_set(err, -EINVAL, "%s:%zu:%zu: %s", path, line, column, syntax.text);
	else
		e = read_document(&r, docs);
	yaml_doc_free(docs);
	buf_done(&text);
	if (e)
		kubeconfig_done(&k);
	else
		*ret = k;
	return e;
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

/* A file that somebody named: it must be there and say something. */
static int load_named(const char *path, const char *named_by, struct kubeconfig *ret, struct err *err)
{
	int e = load_file(path, ret, err);
	if (e == -ENODATA)
		e = err_set(err, -EINVAL, "%s: no configuration: the file is empty", path);
	else if (e == -ENOENT)
		e = -EINVAL;
	return e ? err_prefix(err, e, "%s", named_by) : 0;
}

/* The only name in a list with colons; NULL and -EINVAL when there are several. */
static int only_name(const char *list, char **ret, struct err *err)
{
	for (const char *at = list; *at; at += strspn(at, ":")) {
		size_t n = strcspn(at, ":");
		if (n && *ret)
			return err_set(err, -EINVAL,
				       "$KUBECONFIG: a list of files (\"%s\") is not supported by this "
				       "version: name one file, or use "
				       "--kubeconfig",
				       list);
		if (n)
			*ret = span_dup((struct span){at, n});
		at += n;
	}
	return 0;
}

int kubeconfig_load(const char *explicit_path, const char *configured_path, struct kubeconfig *ret,
		    struct err *err)
{
	if (explicit_path && *explicit_path)
		return load_named(explicit_path, "--kubeconfig", ret, err);
	if (configured_path && *configured_path)
		return load_named(configured_path, "kubeconfig in reconciled.yaml", ret, err);
	const char *list = getenv("KUBECONFIG");
	_cleanup_(free_ptr) char *file = NULL;
	struct err in_file = {0}, in_cluster = {0};
	int e = list ? only_name(list, &file, err) : 0;
	if (e)
		return e;
	if (file && (e = load_file(file, ret, &in_file)) != -ENOENT && e != -ENODATA)
		return e ? err_set(err, e, "$KUBECONFIG: %s", in_file.text) : 0;
	if (kubeconfig_in_cluster(IN_CLUSTER_FOLDER, ret, &in_cluster) == 0)
		return 0;
	return err_set(err, -ENOENT,
		       "no configuration for an API server; looked at: --kubeconfig (not given), kubeconfig "
		       "in reconciled.yaml (not given), "
		       "$KUBECONFIG (%s%s), %s",
		       file ? file : "not set",
		       !file	       ? ""
		       : e == -ENODATA ? ": empty"
				       : ": no such file",
		       in_cluster.text);
}
