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
	const struct yaml_doc_node *n = yaml_doc_get(u, "exec");
	if (!yaml_doc_is_null(n))
		return kubeconfig_refuse(
		    r, n,
		    "exec: not supported by this version: use token, tokenFile or client-certificate, for "
		    "example of a service account");
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
	return check_pairs(r, u);
}
