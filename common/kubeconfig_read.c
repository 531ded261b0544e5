/* The files of a kubeconfig, merged: whole entries, the first file that has a name wins. */
#include "kubeconfig_private.h"
#include "proxy.h"
#include <stdio.h>

struct merge {
	const struct kubeconfig_file *files;
	size_t n;
	struct kubeconfig_reader r;
};

/* An entry of a list, and who says so. */
struct entry {
	const char *file;
	const struct yaml_doc_node *at; /* NULL: it is not there */
};

/* The list's entry with this name in one file, and in it the mapping below `inner`; NULL when it is not there.
 * Two entries with one name are refused, whoever they are. */
static int find_in_file(const struct kubeconfig_reader *r, const struct yaml_doc_node *root, const char *list,
			const char *inner, const char *name, const struct yaml_doc_node **ret)
{
	*ret = NULL;
	const struct yaml_doc_node *all = yaml_doc_get(root, list);
	if (yaml_doc_is_null(all))
		return 0;
	if (all->type != YAML_SEQUENCE)
		return kubeconfig_refuse(r, all, "%s: a list is wanted here", list);
	for (const struct yaml_doc_node *n = all->child; n; n = n->next) {
		const char *its_name = NULL;
		if (n->type != YAML_MAPPING)
			return kubeconfig_refuse(r, n, "%s: an entry is {name: ..., %s: {...}}", list, inner);
		int e = kubeconfig_get_text(r, n, "name", &its_name);
		if (e)
			return e;
		for (const struct yaml_doc_node *o = all->child; o != n; o = o->next) {
			const struct yaml_doc_node *other = yaml_doc_get(o, "name");
			if (its_name && other && other->type == YAML_SCALAR &&
			    strcmp(other->text, its_name) == 0)
				return kubeconfig_refuse(r, n, "%s: duplicate name \"%s\", also on line %zu",
							 list, its_name, o->line);
		}
		if (!its_name || strcmp(its_name, name) != 0)
			continue;
		*ret = yaml_doc_get(n, inner);
		if (!*ret || ((*ret)->type != YAML_MAPPING && !yaml_doc_is_null(*ret)))
			return kubeconfig_refuse(r, n, "%s: entry \"%s\" has no %s: {...}", list, name,
						 inner);
	}
	return 0;
}

/* Of all files, for the check of each; the first that has it is the one. */
static int find_entry(struct merge *m, const char *list, const char *inner, const char *name,
		      struct entry *ret)
{
	*ret = (struct entry){0};
	for (size_t i = 0; i < m->n; i++) {
		const struct yaml_doc_node *n;
		m->r.file = m->files[i].path;
		int e = find_in_file(&m->r, m->files[i].root, list, inner, name ? name : "", &n);
		if (e)
			return e;
		if (n && !ret->at)
			*ret = (struct entry){m->files[i].path, n};
	}
	return 0;
}

/* Scheme, host and path, without slashes at the end. */
static int read_server(const struct kubeconfig_reader *r, const struct yaml_doc_node *cluster)
{
	struct kubeconfig *k = r->k;
	const char *text = NULL;
	int e = kubeconfig_get_text(r, cluster, "server", &text);
	if (e)
		return e;
	if (!text)
		return kubeconfig_refuse(
		    r, cluster,
		    "server: missing: the address of the API server is wanted, as https://HOST:6443");
	const struct yaml_doc_node *n = yaml_doc_get(cluster, "server");
	bool tls = k->ca_file || k->ca_data || k->cert_file || k->cert_data || k->insecure;
	k->server = strstr(text, "://") ? xstrdup(text) : xasprintf("%s://%s", tls ? "https" : "http", text);
	size_t scheme = strncmp(k->server, "https://", 8) == 0	? 8
			: strncmp(k->server, "http://", 7) == 0 ? 7
								: 0;
	if (!scheme || !k->server[scheme] || strpbrk(k->server, "?#@ \t\r\n"))
		return kubeconfig_refuse(
		    r, n,
		    "server: \"%s\" is not an address: https://HOST:PORT or http://HOST:PORT is "
		    "wanted, maybe with a path",
		    text);
	for (size_t len = strlen(k->server); len > scheme && k->server[len - 1] == '/';)
		k->server[--len] = 0;
	return 0;
}

/* The cluster's extension that is meant for credential plugins, as JSON. */
static void read_extension(const struct kubeconfig_reader *r, const struct yaml_doc_node *cluster)
{
	const struct yaml_doc_node *all = yaml_doc_get(cluster, "extensions");
	if (yaml_doc_is_null(all) || all->type != YAML_SEQUENCE)
		return;
	for (const struct yaml_doc_node *n = all->child; n; n = n->next) {
		const struct yaml_doc_node *name = n->type == YAML_MAPPING ? yaml_doc_get(n, "name") : NULL;
		const struct yaml_doc_node *what =
		    n->type == YAML_MAPPING ? yaml_doc_get(n, "extension") : NULL;
		if (!name || name->type != YAML_SCALAR || yaml_doc_is_null(what) ||
		    r->k->exec_cluster_config || strcmp(name->text, "client.authentication.k8s.io/exec") != 0)
			continue;
		struct buf json = {0};
		yaml_doc_to_json(what, &json);
		r->k->exec_cluster_config = buf_steal(&json);
	}
}

static int read_cluster(const struct kubeconfig_reader *r, const struct yaml_doc_node *c)
{
	struct kubeconfig *k = r->k;
	int e;
	if ((e = kubeconfig_get_material(r, c, "certificate-authority", &k->ca_file, &k->ca_data)) ||
	    (e = kubeconfig_get_bool(r, c, "insecure-skip-tls-verify", &k->insecure)) ||
	    (e = kubeconfig_get_bool(r, c, "disable-compression", &k->disable_compression)) ||
	    (e = kubeconfig_copy_text(r, c, "tls-server-name", &k->tls_server_name)) ||
	    (e = kubeconfig_copy_text(r, c, "proxy-url", &k->proxy_url)))
		return e;
	read_extension(r, c);
	if (k->insecure && (k->ca_file || k->ca_data))
		return kubeconfig_refuse(
		    r, yaml_doc_get(c, "insecure-skip-tls-verify"),
		    "insecure-skip-tls-verify: true together with certificate-authority: leave out "
		    "one of them");
	if (k->insecure)
		kubeconfig_warn(
		    k,
		    "%s: insecure-skip-tls-verify: the server's certificate is not checked: anybody between "
		    "may read and change everything",
		    r->file);
	if (k->proxy_url &&
	    !proxy_scheme_known(k->proxy_url)) /* which is not shown: it may hold a password */
		return kubeconfig_refuse(
		    r, yaml_doc_get(c, "proxy-url"),
		    "proxy-url: http://, https:// or socks5:// and a host are wanted here");
	return 0;
}

/* Ends the search for an entry: "context X names cluster Y, ...". */
static int refuse_missing(struct merge *m, const struct entry *context, const char *context_name,
			  const char *what, const char *name)
{
	m->r.file = context->file;
	return kubeconfig_refuse(&m->r, context->at, "context \"%s\" names %s \"%s\", which is not in %s",
				 context_name, what, name ? name : "",
				 m->n > 1 ? "any of the files" : "the file");
}

static int refuse_no_context(struct merge *m)
{
	struct buf names = {.limit = 600};
	for (size_t i = 0; i < m->n; i++) {
		const struct yaml_doc_node *all = yaml_doc_get(m->files[i].root, "contexts");
		for (const struct yaml_doc_node *n = all && all->type == YAML_SEQUENCE ? all->child : NULL; n;
		     n = n->next) {
			const struct yaml_doc_node *name =
			    n->type == YAML_MAPPING ? yaml_doc_get(n, "name") : NULL;
			if (name && name->type == YAML_SCALAR)
				buf_printf(&names, "%s%s", names.len ? ", " : "", name->text);
		}
	}
	m->r.file = m->files[0].path;
	int e = kubeconfig_refuse(&m->r, m->files[0].root,
				  "current-context: missing: set it to one of the contexts: %s",
				  names.len ? buf_str(&names) : "(there are none)");
	buf_done(&names);
	return e;
}

/* The first file that says so decides. */
static int current_context(struct merge *m, const char **ret_name, struct entry *ret_at)
{
	for (size_t i = 0; i < m->n; i++) {
		const char *name = NULL;
		m->r.file = m->files[i].path;
		int e = kubeconfig_get_text(&m->r, m->files[i].root, "current-context", &name);
		if (e)
			return e;
		if (name && !*ret_name) {
			*ret_name = name;
			*ret_at =
			    (struct entry){m->r.file, yaml_doc_get(m->files[i].root, "current-context")};
		}
	}
	return *ret_name ? 0 : refuse_no_context(m);
}

int kubeconfig_merge(const struct kubeconfig_file *files, size_t n, struct kubeconfig *k, struct err *err)
{
	struct merge m = {files, n, {.k = k, .err = err}};
	const char *name = NULL, *cluster_name = NULL, *user_name = NULL;
	struct entry at = {0}, context, cluster, user;
	int e = current_context(&m, &name, &at);
	if (e || (e = find_entry(&m, "contexts", "context", name, &context)))
		return e;
	if (!context.at) {
		m.r.file = at.file;
		return kubeconfig_refuse(&m.r, at.at, "current-context: there is no context \"%s\"", name);
	}
	m.r.file = context.file;
	if ((e = kubeconfig_get_text(&m.r, context.at, "cluster", &cluster_name)) ||
	    (e = kubeconfig_get_text(&m.r, context.at, "user", &user_name)) ||
	    (e = kubeconfig_copy_text(&m.r, context.at, "namespace", &k->namespace)) ||
	    (e = find_entry(&m, "clusters", "cluster", cluster_name, &cluster)) ||
	    (e = find_entry(&m, "users", "user", user_name, &user)))
		return e;
	if (!cluster.at)
		return refuse_missing(&m, &context, name, "cluster", cluster_name);
	if (user_name && !user.at)
		return refuse_missing(&m, &context, name, "user", user_name);
	m.r.file = cluster.file;
	if ((e = read_cluster(&m.r, cluster.at)))
		return e;
	m.r.file = user.file;
	if (user.at && (e = kubeconfig_read_user(&m.r, user.at)))
		return e;
	m.r.file = cluster.file;
	return read_server(&m.r, cluster.at); /* the last: its scheme may follow from all the rest */
}

/* ---- one file ---- */

static bool is_empty(const struct yaml_doc_node *root)
{
	static const char *const lists[] = {"clusters", "contexts", "users"};
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const struct yaml_doc_node *n = yaml_doc_get(root, lists[i]);
		if (!yaml_doc_is_null(n) && !(n->type == YAML_SEQUENCE && !n->child))
			return false;
	}
	const struct yaml_doc_node *context = yaml_doc_get(root, "current-context");
	return yaml_doc_is_null(context) || (context->type == YAML_SCALAR && !*context->text);
}

static int check_kind(const struct kubeconfig_reader *r, const struct yaml_doc_node *root)
{
	static const struct {
		const char *key, *want, *hint;
	} rows[] = {{"apiVersion", "v1", "v1 is wanted"},
		    {"kind", "Config", "this is not a kubeconfig (kind Config)"}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *found = NULL;
		int e = kubeconfig_get_text(r, root, rows[i].key, &found);
		if (e)
			return e;
		if (found && strcmp(found, rows[i].want) != 0)
			return kubeconfig_refuse(r, yaml_doc_get(root, rows[i].key), "%s: \"%s\" found: %s",
						 rows[i].key, found, rows[i].hint);
	}
	return 0;
}

/* What the documents say, or NULL. */
static int check_documents(const struct kubeconfig_reader *r, const struct yaml_doc *docs,
			   const struct yaml_doc_node **ret)
{
	const struct yaml_doc_node *root = docs ? docs->root : NULL;
	if (yaml_doc_is_null(root))
		return 0;
	if (docs->next && !yaml_doc_is_null(docs->next->root))
		return kubeconfig_refuse(r, docs->next->root, "a second document: a kubeconfig is one");
	if (root->type != YAML_MAPPING)
		return kubeconfig_refuse(r, root, "not a kubeconfig: a mapping is wanted");
	int e = check_kind(r, root);
	if (!e && !is_empty(root))
		*ret = root;
	return e;
}

int kubeconfig_file_parse(struct kubeconfig_file *f, struct span text, struct err *err)
{
	struct kubeconfig_reader r = {.file = f->path, .err = err};
	struct err syntax = {0};
	size_t line = 0, column = 0;
	f->docs = NULL;
	f->root = NULL;
	if (yaml_doc_parse(text, &f->docs, &line, &column, &syntax))
		return err_set(err, -EINVAL, "%s:%zu:%zu: %s", f->path, line, column, syntax.text);
	int e = check_documents(&r, f->docs, &f->root);
	if (!f->root) {
		yaml_doc_free(f->docs);
		f->docs = NULL;
	}
	return e;
}
