/* Who we are: the user's entry of a kubeconfig. */
#include "kubeconfig_private.h"

/* ---- impersonation: as ready header lines ---- */

/* What may stand in a header's name as it is (RFC 7230's token, without the % of our escapes). */
static bool is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("!#$&'*+-.^_`|~", c));
}

static int add_header(const struct kubeconfig_reader *r, const struct yaml_doc_node *at, const char *name,
		      const char *value)
{
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return kubeconfig_refuse(r, at, "a control character cannot be part of a header");
	if (!*value)
		return kubeconfig_refuse(r, at, "an empty text is of no use here");
	kubeconfig_list_add(&r->k->impersonate, xasprintf("%s: %s", name, value));
	return 0;
}

static int read_extra(const struct kubeconfig_reader *r, const struct yaml_doc_node *extra)
{
	if (extra->type != YAML_MAPPING)
		return kubeconfig_refuse(r, extra, "as-user-extra: {KEY: [TEXT, ...]} is wanted here");
	for (const struct yaml_doc_node *n = extra->child; n; n = n->next) {
		struct buf name = {0};
		buf_puts(&name, "Impersonate-Extra-");
		for (const char *p = n->key->text; *p; p++)
			if (is_token_char(*p))
				buf_putc(&name, *p);
			else
				buf_printf(&name, "%%%02X", (unsigned)(unsigned char)*p);
		char **values = NULL;
		int e = kubeconfig_get_list(r, extra, n->key->text, &values);
		for (char **v = values; v && *v; v++) {
			if (!e)
				e = add_header(r, n, buf_str(&name), *v);
			free(*v);
		}
		free(values);
		buf_done(&name);
		if (e)
			return e;
	}
	return 0;
}

static int read_impersonation(const struct kubeconfig_reader *r, const struct yaml_doc_node *u)
{
	static const char *const rest[] = {"as-uid", "as-groups", "as-user-extra"};
	const char *as = NULL, *uid = NULL;
	int e = kubeconfig_get_text(r, u, "as", &as);
	if (e || (e = kubeconfig_get_text(r, u, "as-uid", &uid)))
		return e;
	for (size_t i = 0; i < ARRAY_SIZE(rest) && !as; i++) {
		const struct yaml_doc_node *n = yaml_doc_get(u, rest[i]);
		if (!yaml_doc_is_null(n))
			return kubeconfig_refuse(r, n, "%s without as: name the user too", rest[i]);
	}
	if (!as)
		return 0;
	if ((e = add_header(r, yaml_doc_get(u, "as"), "Impersonate-User", as)) ||
	    (uid && (e = add_header(r, yaml_doc_get(u, "as-uid"), "Impersonate-Uid", uid))))
		return e;
	char **groups = NULL;
	e = kubeconfig_get_list(r, u, "as-groups", &groups);
	for (char **g = groups; g && *g; g++) {
		if (!e)
			e = add_header(r, yaml_doc_get(u, "as-groups"), "Impersonate-Group", *g);
		free(*g);
	}
	free(groups);
	const struct yaml_doc_node *extra = yaml_doc_get(u, "as-user-extra");
	return e || yaml_doc_is_null(extra) ? e : read_extra(r, extra);
}

/* ---- a credential plugin ---- */

static int read_exec_env(const struct kubeconfig_reader *r, const struct yaml_doc_node *exec)
{
	const struct yaml_doc_node *all = yaml_doc_get(exec, "env");
	if (yaml_doc_is_null(all))
		return 0;
	if (all->type != YAML_SEQUENCE)
		return kubeconfig_refuse(r, all,
					 "exec.env: a list of {name: ..., value: ...} is wanted here");
	for (const struct yaml_doc_node *n = all->child; n; n = n->next) {
		const char *name = NULL, *value = NULL;
		int e = 0;
		if (n->type != YAML_MAPPING || (e = kubeconfig_get_text(r, n, "name", &name)) || !name ||
		    strchr(name, '='))
			return e ? e
				 : kubeconfig_refuse(r, n,
						     "exec.env: {name: ..., value: ...} is wanted here");
		if ((e = kubeconfig_get_text(r, n, "value", &value)))
			return e;
		kubeconfig_list_add(&r->k->exec_env, xasprintf("%s=%s", name, value ? value : ""));
	}
	return 0;
}

/* What may be asked of a service, which has no terminal. Rules: client-go's validation of an ExecConfig. */
static int check_interactive(const struct kubeconfig_reader *r, const struct yaml_doc_node *exec, bool v1)
{
	const char *mode = NULL;
	int e = kubeconfig_get_text(r, exec, "interactiveMode", &mode);
	if (e)
		return e;
	if (!mode)
		return v1 ? kubeconfig_refuse(r, exec,
					      "exec.interactiveMode: must be given for "
					      "client.authentication.k8s.io/v1: Never, or IfAvailable")
			  : 0;
	const struct yaml_doc_node *at = yaml_doc_get(exec, "interactiveMode");
	if (strcmp(mode, "Always") == 0)
		return kubeconfig_refuse(
		    r, at,
		    "exec.interactiveMode: Always: the plugin wants a terminal, and a service "
		    "has none: use a plugin that needs none, and Never or IfAvailable");
	if (strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0)
		return kubeconfig_refuse(
		    r, at, "exec.interactiveMode: \"%s\" found: Never or IfAvailable is wanted", mode);
	return 0;
}

static int read_exec(const struct kubeconfig_reader *r, const struct yaml_doc_node *exec)
{
	struct kubeconfig *k = r->k;
	const char *command = NULL;
	int e;
	if (exec->type != YAML_MAPPING)
		return kubeconfig_refuse(r, exec, "exec: {apiVersion: ..., command: ...} is wanted here");
	if ((e = kubeconfig_get_text(r, exec, "command", &command)) ||
	    (e = kubeconfig_copy_text(r, exec, "apiVersion", &k->exec_api_version)) ||
	    (e = kubeconfig_copy_text(r, exec, "installHint", &k->exec_install_hint)) ||
	    (e = kubeconfig_get_list(r, exec, "args", &k->exec_args)) ||
	    (e = kubeconfig_get_bool(r, exec, "provideClusterInfo", &k->exec_cluster_info)) ||
	    (e = read_exec_env(r, exec)))
		return e;
	if (!command)
		return kubeconfig_refuse(r, exec, "exec.command: missing");
	const char *version = k->exec_api_version ? k->exec_api_version : "";
	bool v1 = strcmp(version, "client.authentication.k8s.io/v1") == 0;
	if (!v1 && strcmp(version, "client.authentication.k8s.io/v1beta1") != 0)
		return kubeconfig_refuse(r, exec,
					 "exec.apiVersion: \"%s\" found: client.authentication.k8s.io/v1 or "
					 "client.authentication.k8s.io/v1beta1 is wanted",
					 version);
	/* A name alone is looked for in PATH, a path starts at the file. */
	k->exec_command = strchr(command, '/') ? kubeconfig_resolve(command, r->file) : xstrdup(command);
	k->exec_timeout_ms = KUBECONFIG_EXEC_TIMEOUT_MS;
	for (char *p = k->exec_install_hint; p && *p; p++) /* it becomes part of one line */
		if ((unsigned char)*p < 0x20)
			*p = ' ';
	for (size_t n = k->exec_install_hint ? strlen(k->exec_install_hint) : 0;
	     n && k->exec_install_hint[n - 1] == ' ';)
		k->exec_install_hint[--n] = 0;
	return check_interactive(r, exec, v1);
}

/* ---- credentials ---- */

static int refuse_auth_provider(const struct kubeconfig_reader *r, const struct yaml_doc_node *u)
{
	const struct yaml_doc_node *n = yaml_doc_get(u, "auth-provider");
	if (yaml_doc_is_null(n))
		return 0;
	const struct yaml_doc_node *name = yaml_doc_get(n, "name");
	return kubeconfig_refuse(r, n,
				 "auth-provider \"%s\": removed from Kubernetes clients in 2022: use an exec "
				 "plugin, token, tokenFile or client-certificate",
				 name && name->type == YAML_SCALAR ? name->text : "");
}

static int check_pairs(const struct kubeconfig_reader *r, const struct yaml_doc_node *u)
{
	const struct kubeconfig *k = r->k;
	bool has_cert = k->cert_file || k->cert_data, has_key = k->key_file || k->key_data;
	if (has_cert && !has_key)
		return kubeconfig_refuse(
		    r, u, "client-certificate without client-key: add client-key or client-key-data");
	if (has_key && !has_cert)
		return kubeconfig_refuse(r, u,
					 "client-key without client-certificate: add client-certificate or "
					 "client-certificate-data");
	if ((k->token || k->token_file) && (k->user || k->password))
		return kubeconfig_refuse(r, u, "token and username together: leave out one of them");
	if (k->password && !k->user)
		return kubeconfig_refuse(r, u, "password without username");
	return 0;
}

int kubeconfig_read_user(const struct kubeconfig_reader *r, const struct yaml_doc_node *u)
{
	struct kubeconfig *k = r->k;
	_cleanup_(free_ptr) char *token_file = NULL;
	int e;
	if ((e = refuse_auth_provider(r, u)) || (e = kubeconfig_copy_text(r, u, "token", &k->token)) ||
	    (e = kubeconfig_copy_text(r, u, "tokenFile", &token_file)) ||
	    (e = kubeconfig_copy_text(r, u, "username", &k->user)) ||
	    (e = kubeconfig_copy_text(r, u, "password", &k->password)) ||
	    (e = kubeconfig_get_material(r, u, "client-certificate", &k->cert_file, &k->cert_data)) ||
	    (e = kubeconfig_get_material(r, u, "client-key", &k->key_file, &k->key_data)) ||
	    (e = read_impersonation(r, u)))
		return e;
	if (token_file)
		k->token_file = kubeconfig_resolve(token_file, r->file);
	const struct yaml_doc_node *exec = yaml_doc_get(u, "exec");
	bool fixed = k->token || k->token_file || k->user;
	if (!yaml_doc_is_null(exec) && fixed)
		kubeconfig_warn(k, "%s:%zu: exec together with %s: the plugin is not asked", r->file,
				exec->line, k->user ? "username" : "a token");
	else if (!yaml_doc_is_null(exec) && (e = read_exec(r, exec)))
		return e;
	return check_pairs(r, u);
}
