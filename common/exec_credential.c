/* What is said to a credential plugin and what it answers. Source of the format: client-go's
 * client.authentication.k8s.io API, v1 and v1beta1. */
#include "base64.h"
#include "exec_plugin.h"
#include "json.h"
#include <stdio.h>

static void wipe(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void exec_credential_done(struct exec_credential *c)
{
	if (!c)
		return;
	wipe(&c->token);
	wipe(&c->cert);
	wipe(&c->key);
	*c = (struct exec_credential){0};
}

static int get_text(const struct json *status, const char *key, char **ret, struct err *err)
{
	const struct json *n = json_member(status, key);
	if (json_is_null(n))
		return 0;
	if (!json_text(n))
		return err_set(err, -EINVAL, "status.%s is no text", key);
	if (*json_text(n))
		*ret = xstrdup(json_text(n));
	return 0;
}

static int read_status(const struct json *status, struct exec_credential *c, struct err *err)
{
	_cleanup_(free_ptr) char *expires = NULL;
	int e;
	if (!json_is_object(status))
		return err_set(err, -EINVAL, "its answer has no status");
	if ((e = get_text(status, "token", &c->token, err)) ||
	    (e = get_text(status, "clientCertificateData", &c->cert, err)) ||
	    (e = get_text(status, "clientKeyData", &c->key, err)) ||
	    (e = get_text(status, "expirationTimestamp", &expires, err)))
		return e;
	if (!c->cert != !c->key)
		return err_set(err, -EINVAL,
			       "its answer has only one of clientCertificateData and clientKeyData");
	if (!c->token && !c->cert)
		return err_set(err, -EINVAL, "its answer has neither a token nor a certificate with its key");
	for (const char *p = c->token; p && *p; p++)
		if ((unsigned char)*p < 0x21 || *p == 0x7f)
			return err_set(err, -EINVAL, "its token holds white space or control characters");
	if (expires && parse_rfc3339(span_of(expires), &c->expires_s) < 0)
		return err_set(err, -EINVAL, "its expirationTimestamp is no time as 2026-09-30T12:00:00Z");
	return 0;
}

/* json's text says where in the answer it is wrong, and never quotes it. */
static int read_answer(const struct kubeconfig *k, const struct json *root, struct exec_credential *c,
		       struct err *err)
{
	const char *kind = json_text(json_member(root, "kind"));
	const char *version = json_text(json_member(root, "apiVersion"));
	if (!kind || strcmp(kind, "ExecCredential") != 0)
		return err_set(err, -EINVAL, "its answer is no ExecCredential");
	if (!version || strcmp(version, k->exec_api_version) != 0)
		return err_set(err, -EINVAL,
			       "its answer has another apiVersion than the kubeconfig asks for (%s)",
			       k->exec_api_version);
	return read_status(json_member(root, "status"), c, err);
}

int exec_credential_parse(const struct kubeconfig *k, struct span out, struct exec_credential *ret,
			  struct err *err)
{
	_cleanup_(json_free_ptr) struct json *root = NULL;
	struct exec_credential c = {0};
	size_t blanks = 0;
	while (blanks < out.len && strchr(" \t\r\n", out.at[blanks]))
		blanks++;
	if (blanks == out.len)
		return err_set(err, -EINVAL, "it printed nothing to stdout");
	if (json_parse(out, &root, NULL) < 0)
		return err_set(err, -EINVAL,
			       out.at[blanks] == '{'
				   ? "its stdout is no JSON object, or something follows it"
				   : "its stdout does not begin with a JSON object: what is no "
				     "credential belongs to stderr");
	int e = read_answer(k, root, &c, err);
	if (e)
		exec_credential_done(&c);
	else
		*ret = c;
	return e;
}

void exec_info(const struct kubeconfig *k, const char *ca, const char *proxy, struct buf *out)
{
	buf_puts(out, "{\"kind\":\"ExecCredential\",\"apiVersion\":");
	buf_json_string(out, span_of(k->exec_api_version));
	buf_puts(out, ",\"spec\":{");
	if (k->exec_cluster_info) {
		buf_puts(out, "\"cluster\":{\"server\":");
		buf_json_string(out, span_of(k->server));
		if (k->tls_server_name) {
			buf_puts(out, ",\"tls-server-name\":");
			buf_json_string(out, span_of(k->tls_server_name));
		}
		if (k->insecure)
			buf_puts(out, ",\"insecure-skip-tls-verify\":true");
		if (ca) {
			buf_puts(out, ",\"certificate-authority-data\":\"");
			base64_encode(out, span_of(ca));
			buf_putc(out, '"');
		}
		if (proxy) {
			buf_puts(out, ",\"proxy-url\":");
			buf_json_string(out, span_of(proxy));
		}
		if (k->disable_compression)
			buf_puts(out, ",\"disable-compression\":true");
		if (k->exec_cluster_config)
			buf_printf(out, ",\"config\":%s", k->exec_cluster_config);
		buf_puts(out, "},");
	}
	buf_puts(out, "\"interactive\":false}}");
}
