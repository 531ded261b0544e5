#include "kubeconfig_write.h"
#include "base64.h"
#include "private_file.h"

static void print(struct buf *b, const char *server, const char *token, const char *ca)
{
	buf_puts(b, "apiVersion: v1\nkind: Config\nclusters:\n- name: reconciled\n  cluster:\n    server: ");
	buf_json_string(b, span_of(server));
	if (ca) {
		buf_puts(b, "\n    certificate-authority-data: ");
		base64_encode(b, span_of(ca));
	}
	buf_puts(b, "\nusers:\n- name: reconciled\n  user: {");
	if (token) {
		buf_puts(b, "token: ");
		buf_json_string(b, span_of(token));
	}
	buf_puts(b, "}\ncontexts:\n- name: reconciled\n  context: {cluster: reconciled, user: reconciled}\n"
		    "current-context: reconciled\n");
}

int kubeconfig_write(const char *path, const char *server, const char *token, const char *ca, struct err *err)
{
	_cleanup_(buf_done) struct buf text = {0};
	print(&text, server, token, ca);
	return private_file_write(path, buf_span(&text), "--write-kubeconfig", err);
}
